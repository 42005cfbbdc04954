/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread that may have moved: where it is now, and a copy of it if that can be had without a
 * stop. What it had been shown at is remembered, so that one that went round and waits where it
 * waited before, with the same bytes on its stack, is not shown again.
 */
#include "sample/internal.h"

#include <errno.h>
#include <string.h>

enum {
	TRIES = 3,             /* for a thread that runs just when it is copied */
	UNKNOWN_STACK = 65536, /* what is copied where no mapping is known */
	READ_AGAIN_MS = 100,   /* names of threads that run */
	SELDOM_MS = 200,
	USUAL_STACK = 65536, /* more than that is not compared: unwinding it is cheaper */
};

/* The files of a thread that a look needs; those that are not kept are closed after it. */
struct files {
	int guard_fd, syscall_fd;
	int loose_guard_fd, loose_syscall_fd;
};

struct stack_question {
	struct snap_sampler_thread *thread;
	bool limited; /* where no mapping is known, some of it must do */
};

static void files_close(struct files *files)
{
	snap_close(&files->loose_guard_fd);
	snap_close(&files->loose_syscall_fd);
}

static int open_files(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
		      struct files *files)
{
	struct snap_sampler_guard *guard = &sampler->guards[thread->guard];

	files->guard_fd = snap_sampler_thread_open(
		sampler, thread, snap_guard_file(sampler->guard_kind), &guard->guard_fd);
	if (files->guard_fd < 0)
		return files->guard_fd;
	if (guard->guard_fd < 0)
		files->loose_guard_fd = files->guard_fd;
	files->syscall_fd =
		snap_sampler_thread_open(sampler, thread, "syscall", &thread->syscall_fd);
	if (files->syscall_fd < 0)
		return files->syscall_fd;
	if (thread->syscall_fd < 0)
		files->loose_syscall_fd = files->syscall_fd;
	return 0;
}

static uint64_t stack_end(void *context, uint64_t sp)
{
	const struct stack_question *question = context;
	struct snap_sampler_thread *thread = question->thread;
	const struct snap_map *map = snap_process_map(&thread->process->facts, sp);
	uint64_t end;

	if (map && map->read) {
		thread->stack_start = map->start;
		thread->stack_end = map->end;
		return map->end;
	}
	if (!question->limited || __builtin_add_overflow(sp, UNKNOWN_STACK, &end))
		return 0;
	return end & ~(uint64_t)4095;
}

/* What it has run is counted as far as it is known. */
static int read_counters(struct snap_sampler *sampler, struct snap_sampler_thread *thread, int fd,
			 struct snap_run_counters *ret)
{
	int error = snap_guard_read(sampler->guard_kind, fd, ret);

	if (!error && ret->run_ns > thread->run_ns) {
		sampler->run_ns += ret->run_ns - thread->run_ns;
		thread->run_ns = ret->run_ns;
	}
	return error;
}

static enum snap_copy_result copy_once(struct snap_sampler *sampler,
				       struct snap_sampler_thread *thread,
				       struct snap_blocked_copy *blocked, struct snap_thread *copy)
{
	enum snap_arch arch;
	int error = read_counters(sampler, thread, blocked->guard_fd, &blocked->counters);

	if (error)
		return error == -ESRCH || error == -ENOENT ? SNAP_COPY_GONE : SNAP_COPY_UNUSABLE;
	return snap_copy_blocked(blocked, copy, &arch);
}

/* Tries until it stands still for as long as the copy takes, and knows where its stack ends. */
static struct snap_error *
copy_while_blocked(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
		   const struct files *files, struct snap_blocked_copy *blocked,
		   struct snap_thread *copy, enum snap_copy_result *result_ret)
{
	struct stack_question question = { .thread = thread };
	enum snap_copy_result result = SNAP_COPY_MOVED;
	struct snap_error *err;
	bool changed;

	blocked->guard = sampler->guard_kind;
	blocked->guard_fd = files->guard_fd;
	blocked->syscall_fd = files->syscall_fd;
	blocked->mem_fd = thread->process->mem_fd;
	blocked->stack_end = stack_end;
	blocked->context = &question;
	blocked->bytes = sampler->stack;
	blocked->size = sampler->options->max_stack;
	for (unsigned i = 0; i < TRIES && result == SNAP_COPY_MOVED; i++) {
		result = copy_once(sampler, thread, blocked, copy);
		if (result != SNAP_COPY_UNMAPPED)
			continue;
		err = snap_sampler_process_map(sampler, thread->process, &changed);
		if (err)
			return err;
		question.limited = true;
		result = copy_once(sampler, thread, blocked, copy);
	}
	*result_ret = result;
	return NULL;
}

void snap_sampler_thread_describe(const struct snap_sampler_thread *thread,
				  struct snap_thread *copy)
{
	copy->tid = thread->shown.tid;
	copy->ns_tid = thread->shown.ns_tid;
	copy->name = thread->shown.name;
	copy->state = thread->state;
	copy->cpu = thread->cpu;
	copy->flags = thread->flags;
}

struct snap_error *snap_sampler_show(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread,
				     const struct snap_thread *copy, enum snap_verdict *verdict_ret)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	enum snap_verdict verdict = SNAP_VERDICT_TAKEN;
	struct snap_error *err;
	bool changed;

	thread->again = false;
	err = sink->sample(sink->context, &thread->shown, copy, &verdict);
	if (!err && verdict == SNAP_VERDICT_STALE_MAPPINGS) {
		thread->again = sampler->now_ns < thread->process->map_after_ns;
		err = snap_sampler_process_map(sampler, thread->process, &changed);
		if (err)
			return err;
		verdict = SNAP_VERDICT_TAKEN;
		err = sink->sample(sink->context, &thread->shown, copy, &verdict);
	}
	*verdict_ret = verdict;
	return err;
}

struct snap_error *snap_sampler_miss(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread,
				     enum snap_thread_result result)
{
	struct snap_thread copy = { .result = result };
	enum snap_verdict verdict;

	snap_sampler_thread_describe(thread, &copy);
	thread->registers_hash = thread->stack_hash = 0;
	return sampler->sink->sample(sampler->sink->context, &thread->shown, &copy, &verdict);
}

static bool may_be_stopped(const struct snap_sampler_thread *thread)
{
	return thread->state != 'D' && thread->state != 't';
}

/* It needs a stop, but would not stop: what is known of it must do. */
static struct snap_error *show_as_is(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread, struct snap_thread *copy)
{
	enum snap_verdict verdict;

	copy->result = SNAP_THREAD_NOT_STOPPED;
	sampler->tick.missed++;
	return sampler->sink->sample(sampler->sink->context, &thread->shown, copy, &verdict);
}

static struct snap_error *stop_blocked(struct snap_sampler *sampler,
				       struct snap_sampler_thread *thread, struct snap_thread *copy,
				       uint64_t registers_hash, uint64_t stack_hash)
{
	const struct snap_picked picked = { .thread = thread,
					    .blocked = true,
					    .address = copy->stack_address,
					    .size = copy->stack_size };

	thread->stops = true;
	thread->registers_hash = registers_hash;
	thread->stack_hash = stack_hash;
	if (!may_be_stopped(thread))
		return show_as_is(sampler, thread, copy);
	sampler->guards[thread->guard].settled = false;
	return snap_sampler_pick(sampler, &picked);
}

/* It was blocked, and its copy is believed. */
static struct snap_error *take_blocked(struct snap_sampler *sampler,
				       struct snap_sampler_thread *thread, struct snap_thread *copy)
{
	uint64_t registers_hash =
		snap_hash(copy->registers, copy->registers_size, copy->stack_address);
	bool is_usual = copy->stack_size <= USUAL_STACK || thread->stops;
	uint64_t stack_hash =
		is_usual ? snap_hash(copy->stack, copy->stack_size, copy->stack_size) : 0;
	char before = thread->state;
	enum snap_verdict verdict;
	struct snap_error *err = snap_sampler_thread_read(sampler, thread);

	if (err || thread->gone)
		return err;
	/* Woken since: then it was not in R. */
	if (thread->state == 'R')
		snap_sampler_thread_state(sampler, thread, 'S');
	snap_sampler_thread_describe(thread, copy);
	sampler->guards[thread->guard].settled = true;
	if (stack_hash && thread->stack_hash == stack_hash &&
	    thread->registers_hash == registers_hash && before == thread->state) {
		sampler->tick.kept++;
		return NULL;
	}
	if (thread->stops && thread->registers_hash == registers_hash)
		return stop_blocked(sampler, thread, copy, registers_hash, stack_hash);
	err = snap_sampler_show(sampler, thread, copy, &verdict);
	if (err)
		return err;
	if (verdict == SNAP_VERDICT_NEEDS_REGISTERS)
		return stop_blocked(sampler, thread, copy, registers_hash, stack_hash);
	thread->stops = false;
	thread->registers_hash = registers_hash;
	thread->stack_hash = thread->again ? 0 : stack_hash;
	sampler->guards[thread->guard].settled = !thread->again;
	sampler->tick.unstopped++;
	return NULL;
}

static struct snap_error *take_running(struct snap_sampler *sampler,
				       struct snap_sampler_thread *thread)
{
	const struct snap_picked picked = { .thread = thread };

	if (sampler->now_ns - thread->read_ns > READ_AGAIN_MS * SNAP_NS_PER_MS) {
		struct snap_error *err = snap_sampler_thread_read(sampler, thread);

		if (err || thread->gone)
			return err;
	}
	snap_sampler_thread_state(sampler, thread, 'R');
	sampler->tick.running++;
	return snap_sampler_pick(sampler, &picked);
}

/* Where no copy is wanted, or can be had: its state, if it is another one. */
static struct snap_error *look_at_state(struct snap_sampler *sampler,
					struct snap_sampler_thread *thread,
					enum snap_thread_result result)
{
	bool first = thread->registers_hash == 0;
	char before = thread->state;
	struct snap_error *err = snap_sampler_thread_read(sampler, thread);

	if (err || thread->gone)
		return err;
	sampler->tick.kept++;
	sampler->tick.running += thread->state == 'R';
	sampler->guards[thread->guard].settled = thread->state != 'R';
	if (!first && thread->state == before)
		return NULL;
	err = snap_sampler_miss(sampler, thread, result);
	thread->registers_hash = 1;
	return err;
}

/* --mode cpu: who runs is stopped, of all others it is said that they do not. */
static struct snap_error *look_for_running(struct snap_sampler *sampler,
					   struct snap_sampler_thread *thread)
{
	const struct snap_picked picked = { .thread = thread };
	struct snap_error *err;
	int fd = snap_sampler_thread_open(sampler, thread, snap_guard_file(sampler->guard_kind),
					  &sampler->guards[thread->guard].guard_fd);
	struct snap_run_counters counters;
	bool told = thread->registers_hash != 0;
	char before = thread->state;

	if (fd >= 0)
		read_counters(sampler, thread, fd, &counters);
	if (fd != sampler->guards[thread->guard].guard_fd)
		snap_close(&fd);
	err = snap_sampler_thread_read(sampler, thread);
	if (err || thread->gone)
		return err;
	if (thread->state == 'R') {
		sampler->tick.running++;
		thread->registers_hash = 0;
		return snap_sampler_pick(sampler, &picked);
	}
	sampler->tick.kept++;
	sampler->guards[thread->guard].settled = true;
	if (told && before == thread->state)
		return NULL;
	err = snap_sampler_miss(sampler, thread, SNAP_THREAD_NOT_STOPPED);
	thread->registers_hash = 1;
	return err;
}

/* No counters: nothing else tells that it stood still. */
static struct snap_error *look_by_stop(struct snap_sampler *sampler,
				       struct snap_sampler_thread *thread)
{
	const struct snap_picked picked = { .thread = thread };
	struct snap_error *err = snap_sampler_thread_read(sampler, thread);

	if (err || thread->gone)
		return err;
	sampler->tick.running += thread->state == 'R';
	if (may_be_stopped(thread))
		return snap_sampler_pick(sampler, &picked);
	sampler->tick.missed++;
	return snap_sampler_miss(sampler, thread, SNAP_THREAD_NOT_STOPPED);
}

/*
 * Its stack cannot be read, now or ever: a stop would tell its registers, but it moves the thread,
 * and would so be the reason for the next one.
 */
static struct snap_error *look_seldom(struct snap_sampler *sampler,
				      struct snap_sampler_thread *thread)
{
	if (sampler->now_ns < thread->seldom_after_ns) {
		sampler->tick.missed++;
		return NULL;
	}
	thread->seldom_after_ns = sampler->now_ns + SELDOM_MS * (int64_t)SNAP_NS_PER_MS;
	return look_by_stop(sampler, thread);
}

/* Where descriptors or memory are short its last stack stays, and that is not known to be right. */
static struct snap_error *cannot_open(struct snap_sampler *sampler,
				      struct snap_sampler_thread *thread, int error)
{
	if (error == -EACCES || error == -EPERM)
		return snap_sampler_process_refused(sampler, thread->process, -error);
	if (error == -ESRCH || error == -ENOENT) {
		thread->process->list_due = true;
		snap_sampler_thread_end(sampler, thread);
		return NULL;
	}
	sampler->tick.missed++;
	return NULL;
}

static struct snap_error *look_at_blocked(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread)
{
	enum snap_copy_result result = SNAP_COPY_UNUSABLE;
	struct snap_thread copy = { 0 };
	struct snap_blocked_copy blocked = { 0 };
	_cleanup_(files_close) struct files files = { -1, -1, -1, -1 };
	int error = open_files(sampler, thread, &files);
	struct snap_error *err;

	if (error)
		return cannot_open(sampler, thread, error);
	err = copy_while_blocked(sampler, thread, &files, &blocked, &copy, &result);
	if (err)
		return err;
	switch (result) {
	case SNAP_COPY_DONE:
		return take_blocked(sampler, thread, &copy);
	case SNAP_COPY_RUNNING:
	case SNAP_COPY_MOVED:
		return take_running(sampler, thread);
	case SNAP_COPY_UNMAPPED:
	case SNAP_COPY_UNUSABLE:
		return look_seldom(sampler, thread);
	case SNAP_COPY_REFUSED:
		return snap_sampler_process_refused(sampler, thread->process, EACCES);
	case SNAP_COPY_GONE:
		break;
	}
	return cannot_open(sampler, thread, -ESRCH);
}

struct snap_error *snap_sampler_look(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread)
{
	const uint32_t workers = SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER | SNAP_PF_KTHREAD;

	snap_sampler_process_check(sampler, thread->process);
	if (thread->gone)
		return NULL;
	if (thread->flags & workers)
		return look_at_state(sampler, thread, SNAP_THREAD_UNTRACED);
	if (sampler->options->cpu_only)
		return look_for_running(sampler, thread);
	if (sampler->guard_kind == SNAP_GUARD_NONE)
		return look_by_stop(sampler, thread);
	return look_at_blocked(sampler, thread);
}
