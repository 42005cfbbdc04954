/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One thread without a stop, or with one of its own: see nostop_internal.h. Its state is read
 * once more when it was found to do something else than what was read first.
 */
#include "capture/nostop_internal.h"

#include "stop/describe.h"
#include "stop/signal_stack.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
	NAP_NS = 20000,       /* between attempts */
	ATTEMPTS = 5,         /* to find a thread blocked that ran while it was copied */
	SCAN_BYTES = 1 << 16, /* of a stack, for a signal frame */
};

static uint64_t stack_end(void *context, uint64_t sp)
{
	const struct snap_nostop *nostop = context;
	const struct snap_map *map = snap_process_map(nostop->process, sp);

	return map && map->read ? map->end : 0;
}

static bool is_judged_good(const struct snap_nostop *nostop, const struct snap_thread *copy)
{
	return !nostop->hook ||
	       nostop->hook->suffices(nostop->hook->context, nostop->capture,
				      (size_t)(nostop->process - nostop->capture->processes), copy);
}

/* A thread that stands on an alternate signal stack, while its signal frame is looked for. */
struct interrupted {
	const struct snap_process *process;
	const struct snap_map *own, *found;
};

static bool is_elsewhere(void *context, uint64_t sp)
{
	struct interrupted *interrupted = context;
	const struct snap_map *map = snap_process_map(interrupted->process, sp);

	if (!map || map == interrupted->own || !map->read || !map->write)
		return false;
	interrupted->found = map;
	return true;
}

/* The mapping of the stack that a handler interrupted, and the stack pointer there; else NULL. */
static const struct snap_map *find_interrupted(const struct snap_nostop *nostop,
					       const struct snap_thread *thread, uint64_t *sp_ret)
{
	struct interrupted interrupted = {
		.process = nostop->process,
		.own = snap_process_map(nostop->process, thread->stack_address + SNAP_STACK_MARGIN),
	};
	size_t budget = SCAN_BYTES;

	*sp_ret = snap_tracer_interrupted_sp(thread, &budget, is_elsewhere, &interrupted);
	return *sp_ret ? interrupted.found : NULL;
}

/* Copies that stack, too; the thread must still not have run. */
static bool add_interrupted(struct snap_nostop *nostop, struct snap_thread *copy)
{
	struct snap_region *stacks = &nostop->shared->stacks;
	const struct snap_map *map;
	struct snap_run_counters counters;
	uint64_t sp, start, size;
	ssize_t got;

	map = find_interrupted(nostop, copy, &sp);
	if (!map)
		return false;
	start = sp - map->start < SNAP_STACK_MARGIN ? map->start
						    : (sp - SNAP_STACK_MARGIN) & ~15ull;
	size = map->end - start;
	size = size < nostop->options->max_stack ? size : nostop->options->max_stack;
	size = size < snap_region_room(stacks) ? size : snap_region_room(stacks);
	got = pread(nostop->mem_fd, stacks->next, size, (off_t)start);
	if (got <= 0 || snap_guard_read(nostop->guard, nostop->peek.guard_fd, &counters) ||
	    !snap_run_counters_equal(&counters, &nostop->peek.counters))
		return false;
	copy->stack2_address = start;
	copy->stack2 = snap_region_alloc(stacks, (size_t)got);
	copy->stack2_size = copy->stack2 ? (size_t)got : 0;
	return copy->stack2 != NULL;
}

/* The bytes were read into free room: now it is theirs. */
static bool keep(struct snap_nostop *nostop, struct snap_thread *copy)
{
	void *registers = snap_region_alloc(&nostop->shared->records, copy->registers_size);

	if (!registers || !snap_region_alloc(&nostop->shared->stacks, copy->stack_size))
		return false;
	memcpy(registers, copy->registers, copy->registers_size);
	copy->registers = registers;
	return true;
}

static bool take_copy(struct snap_nostop *nostop, struct snap_thread *thread,
		      struct snap_thread *copy)
{
	uint8_t *before = nostop->shared->stacks.next;

	if (keep(nostop, copy) &&
	    (is_judged_good(nostop, copy) ||
	     (add_interrupted(nostop, copy) && is_judged_good(nostop, copy)))) {
		*thread = *copy;
		return true;
	}
	nostop->shared->stacks.next = before;
	return false;
}

/*
 * How much of a stack may be kept: where room gets scarce each gets its share, and one large stack
 * an eighth of the room, as most are small.
 */
static size_t share(const struct snap_nostop *nostop)
{
	size_t room = snap_region_room(&nostop->shared->stacks);
	size_t part = room / (nostop->left < 8 ? nostop->left + !nostop->left : 8);

	return (part < nostop->options->max_stack ? part : nostop->options->max_stack) &
	       ~(size_t)15;
}

static enum snap_copy_result peek_once(struct snap_nostop *nostop, struct snap_thread *thread)
{
	struct snap_blocked_copy *peek = &nostop->peek;
	struct snap_region *stacks = &nostop->shared->stacks;
	struct snap_thread copy = *thread;
	enum snap_copy_result result;
	enum snap_arch arch;
	int error;

	peek->bytes = stacks->next;
	peek->size = share(nostop);
	error = snap_guard_read(nostop->guard, peek->guard_fd, &peek->counters);
	if (error)
		return snap_procfs_is_gone(error) ? SNAP_COPY_GONE : SNAP_COPY_UNUSABLE;
	result = snap_copy_blocked(peek, &copy, &arch);
	if (result != SNAP_COPY_DONE)
		return result;
	if (copy.stack_limited && peek->size < (nostop->options->max_stack & ~15ull))
		nostop->stop->limited = true;
	nostop->traced->arch = nostop->process->arch = arch;
	return take_copy(nostop, thread, &copy) ? SNAP_COPY_DONE : SNAP_COPY_UNUSABLE;
}

/* As long as another attempt may help. */
static enum snap_copy_result peek(struct snap_nostop *nostop, struct snap_thread *thread)
{
	enum snap_copy_result result = SNAP_COPY_GONE;

	for (int i = 0; i < ATTEMPTS; i++) {
		result = peek_once(nostop, thread);
		if (result == SNAP_COPY_UNMAPPED && !nostop->maps_read_again) {
			nostop->maps_read_again = true;
			snap_nostop_read_maps(nostop, thread->tid);
			continue;
		}
		/* One that was asleep a moment ago may soon be again: better than a stop. */
		if (result == SNAP_COPY_RUNNING && thread->state != 'R')
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		else if (result != SNAP_COPY_MOVED)
			break;
	}
	return result;
}

static void describe(struct snap_nostop *nostop, struct snap_thread *thread)
{
	const struct snap_describer describer = {
		.options = nostop->options,
		.records = &nostop->shared->records,
		.tasks_fd = nostop->tasks_fd,
		.foreign_namespace = nostop->traced->foreign_namespace,
		.buffer = nostop->buffer,
	};

	snap_describe(&describer, thread);
}

/* It was blocked when it was copied; what was read before may be older. */
static void describe_blocked(struct snap_nostop *nostop, struct snap_thread *thread)
{
	struct snap_stat stat;

	if (thread->state != 'R')
		return;
	thread->state = 'S';
	if (snap_procfs_task_stat(nostop->tasks_fd, thread->tid, &stat) == 0 && stat.state != 'R')
		thread->state = stat.state;
}

/* Kernel workers, a leader that has exited: nobody copies these. */
static bool is_beyond(const struct snap_nostop *nostop, const struct snap_thread *thread)
{
	const uint32_t workers = SNAP_PF_KTHREAD | SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER;

	return nostop->traced->look_only || (thread->flags & workers) ||
	       (thread->state == 'Z' && thread->tid == nostop->traced->pid);
}

bool snap_nostop_copy(struct snap_nostop *nostop, struct snap_thread *thread)
{
	struct snap_blocked_copy *state = &nostop->peek;
	_cleanup_fd_ int guard_fd = -1, syscall_fd = -1;
	enum snap_copy_result result;

	describe(nostop, thread);
	if (thread->result == SNAP_THREAD_VANISHED || is_beyond(nostop, thread) ||
	    nostop->traced->error || nostop->traced->unsupported)
		return false;
	guard_fd = snap_procfs_task_open_file(nostop->tasks_fd, thread->tid,
					      snap_guard_file(nostop->guard));
	syscall_fd = snap_procfs_task_open_file(nostop->tasks_fd, thread->tid, "syscall");
	*state = (struct snap_blocked_copy){ .guard = nostop->guard,
					     .guard_fd = guard_fd,
					     .syscall_fd = syscall_fd,
					     .mem_fd = nostop->mem_fd,
					     .stack_end = stack_end,
					     .context = nostop };
	result = guard_fd < 0 || syscall_fd < 0 ? SNAP_COPY_UNUSABLE : peek(nostop, thread);
	switch (result) {
	case SNAP_COPY_DONE:
		nostop->traced->seized = true;
		describe_blocked(nostop, thread);
		return false;
	case SNAP_COPY_GONE:
		thread->result = SNAP_THREAD_VANISHED;
		return false;
	case SNAP_COPY_REFUSED:
		nostop->traced->error = EPERM;
		return false;
	case SNAP_COPY_RUNNING:
	case SNAP_COPY_MOVED:
	case SNAP_COPY_UNMAPPED:
	case SNAP_COPY_UNUSABLE:
		break;
	}
	thread->result = SNAP_THREAD_NOT_STOPPED;
	return true;
}

/* The tracer's memory is good until its next call. */
static struct snap_error *keep_pick(struct snap_nostop *nostop, const struct snap_pick *pick,
				    struct snap_thread *thread)
{
	struct snap_region *stacks = &nostop->shared->stacks;
	struct snap_thread copy = pick->copy;
	size_t size = copy.stack_size, size2 = copy.stack2_size;
	uint8_t *bytes, *bytes2 = NULL;
	void *registers = snap_region_alloc(&nostop->shared->records, copy.registers_size);

	if (size > share(nostop)) {
		size = share(nostop);
		copy.stack_limited = nostop->stop->limited = true;
	}
	bytes = snap_region_alloc(stacks, size);
	if (size2)
		bytes2 = snap_region_alloc(stacks, size2);
	if (!registers || !bytes)
		return snap_error_no_memory();
	memcpy(registers, copy.registers, copy.registers_size);
	memcpy(bytes, copy.stack, size);
	if (bytes2)
		memcpy(bytes2, copy.stack2, size2);
	copy.registers = registers;
	copy.stack = bytes;
	copy.stack_size = size;
	copy.stack2 = bytes2;
	copy.stack2_size = bytes2 ? size2 : 0;
	*thread = copy;
	return NULL;
}

static struct snap_error *stop_once(struct snap_nostop *nostop, struct snap_pick *pick)
{
	int64_t stopped_ns;
	struct snap_error *err = snap_single_take(nostop->single, pick, 1,
						  nostop->options->stop_timeout_ns, &stopped_ns);

	if (!err && stopped_ns > nostop->traced->alone_ns)
		nostop->traced->alone_ns = stopped_ns;
	return err;
}

/* Where nobody knew where the stack is, the copy may be too short: now it is known. */
static bool knows_more(const struct snap_nostop *nostop, struct snap_pick *pick)
{
	const struct snap_thread *copy = &pick->copy;
	const struct snap_map *map = NULL;
	uint64_t sp;

	if (copy->result != SNAP_THREAD_COPIED || !pick->past_end || copy->stack2_size)
		return false;
	map = find_interrupted(nostop, copy, &sp);
	if (!map && copy->stack_limited)
		map = snap_process_map(nostop->process, copy->stack_address + SNAP_STACK_MARGIN);
	if (!map || pick->stack_end == map->end)
		return false;
	pick->stack_start = map->start;
	pick->stack_end = map->end;
	return true;
}

struct snap_error *snap_nostop_stop(struct snap_nostop *nostop, struct snap_thread *thread)
{
	struct snap_pick pick = { .mem_fd = nostop->mem_fd };
	struct snap_error *err = NULL;

	/* It may be blocked by now, and a stop would end some calls with EINTR. */
	if (!snap_nostop_copy(nostop, thread))
		return NULL;
	pick.tid = thread->tid;
	pick.copy = *thread;
	if (!nostop->single)
		err = snap_single_create(nostop->options, &nostop->single);
	if (!err)
		err = stop_once(nostop, &pick);
	if (!err && knows_more(nostop, &pick))
		err = stop_once(nostop, &pick);
	if (err)
		return err;
	if (pick.copy.result == SNAP_THREAD_COPIED) {
		nostop->traced->seized = true;
		nostop->traced->arch = nostop->process->arch = pick.arch;
		return keep_pick(nostop, &pick, thread);
	}
	/* Somebody else traces it: it is there, and is not shown whole. */
	thread->result = pick.error == EPERM ? SNAP_THREAD_NOT_STOPPED : pick.copy.result;
	if (pick.error == ENOEXEC)
		nostop->traced->unsupported = true;
	else if (pick.error == ETIMEDOUT)
		nostop->traced->timed_out = true;
	else if (pick.error != ESRCH && !nostop->traced->error)
		nostop->traced->error = pick.error;
	return NULL;
}
