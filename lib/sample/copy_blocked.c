/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies without a stop: see copy_blocked.h. The order is what makes them true: the counters, then
 * where the thread is (which the kernel tells only of threads off the processors), then the bytes,
 * then the counters again. A thread that was woken in between has been put on a processor, which
 * both guards count. That is no proof for one that waits for a processor: it is counted a moment before
 * `on_cpu` is set, or not at all if it was preempted on its way to sleep (sched_info_arrive() in
 * kernel/sched/stats.h). Of those BPF reads the switches again.
 */
#include "sample/copy_blocked.h"

#include "base/bytes.h"
#include "model/arch/registers.h"
#include "stop/own_stack.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	STATUS_TEXT = 4096,
	SCHEDSTAT_TEXT = 80,
	FIRST_NAP_NS = 50000,
	NAPS = 7, /* each twice as long as the one before: 6 ms in all */
};

static bool parse_switches(char *text, size_t length, struct snap_run_counters *ret)
{
	struct snap_status status;
	char *end = text + length;

	snap_status_init(&status);
	for (char *line = text; line < end;) {
		char *stop = memchr(line, '\n', (size_t)(end - line));

		stop = stop ? stop : end;
		snap_parse_status_line(line, (size_t)(stop - line), &status);
		line = stop + 1;
	}
	*ret = (struct snap_run_counters){ 0, status.other_switches, status.voluntary_switches };
	return true;
}

static bool parse_counters(enum snap_guard_kind guard, char *text, size_t length,
			   struct snap_run_counters *ret)
{
	uint64_t numbers[3];

	if (guard == SNAP_GUARD_SWITCHES)
		return parse_switches(text, length, ret);
	if (guard != SNAP_GUARD_SCHEDSTAT || !snap_parse_schedstat(text, length, numbers))
		return false;
	*ret = (struct snap_run_counters){ numbers[0], numbers[1], numbers[2] };
	return true;
}

int snap_guard_read(enum snap_guard_kind guard, int guard_fd, struct snap_run_counters *ret)
{
	char text[STATUS_TEXT];
	size_t size = guard == SNAP_GUARD_SCHEDSTAT ? SCHEDSTAT_TEXT : sizeof(text);
	ssize_t length = snap_procfs_reread(guard_fd, text, size);

	if (length < 0)
		return (int)length;
	return parse_counters(guard, text, (size_t)length, ret) ? 0 : -EBADMSG;
}

const char *snap_guard_file(enum snap_guard_kind guard)
{
	switch (guard) {
	case SNAP_GUARD_NONE:
		return NULL;
	case SNAP_GUARD_SCHEDSTAT:
		return "schedstat";
	case SNAP_GUARD_SWITCHES:
		return "status";
	}
	return NULL;
}

/* The calling thread's own counters. */
static bool read_own_counters(const struct snap_procfs *procfs, enum snap_guard_kind guard,
			      struct snap_run_counters *ret)
{
	const char *name =
		guard == SNAP_GUARD_SCHEDSTAT ? "thread-self/schedstat" : "thread-self/status";
	char text[STATUS_TEXT];
	ssize_t length = snap_procfs_system_read(procfs, name, text, sizeof(text));

	return length > 0 && parse_counters(guard, text, (size_t)length, ret);
}

/*
 * Going to sleep and being woken must count. Where a processor is slow, or is not ours alone, the
 * time of a nap is over before the sleep begins, and then there is nothing to count: so one nap is
 * no proof, and several of growing length are. A recorded tree cannot move: any number will do.
 */
static bool guard_works(const struct snap_procfs *procfs, enum snap_guard_kind guard)
{
	struct timespec nap = { .tv_nsec = FIRST_NAP_NS };
	struct snap_run_counters before, after;

	if (!read_own_counters(procfs, guard, &before))
		return false;
	/* A thread in a call has run. */
	if (before.runs == 0 && before.run_ns == 0 && before.waited == 0)
		return false;
	if (!procfs->live)
		return before.runs > 0;
	for (int i = 0; i < NAPS; i++, nap.tv_nsec *= 2) {
		nanosleep(&nap, NULL);
		if (!read_own_counters(procfs, guard, &after))
			return false;
		if (after.runs > before.runs)
			return true;
	}
	return false;
}

enum snap_guard_kind snap_guard_find(const struct snap_procfs *procfs)
{
	if (guard_works(procfs, SNAP_GUARD_SCHEDSTAT))
		return SNAP_GUARD_SCHEDSTAT;
	return guard_works(procfs, SNAP_GUARD_SWITCHES) ? SNAP_GUARD_SWITCHES : SNAP_GUARD_NONE;
}

/* The registers that are known; the rest is 0, `partial` says so. */
static size_t fill_registers(const struct snap_syscall_line *line, uint64_t thread_pointer,
			     void *ret)
{
	struct snap_known_registers known = {
		.pc = line->pc,
		.sp = line->sp,
		.thread_pointer = thread_pointer,
		.call = line->number,
	};

	memcpy(known.arguments, line->arguments, sizeof(known.arguments));
	return snap_registers_write(SNAP_OWN_ARCH, &known, ret);
}

/*
 * Only a 32-bit thread has its stack there, and the line does not say which registers it shows. A
 * 64-bit thread with such a stack is stopped, which shows its kind.
 */
static bool may_be_32_bit(const struct snap_syscall_line *line)
{
	return line->sp <= UINT32_MAX;
}

static enum snap_copy_result result_of_error(int error)
{
	if (error == -ESRCH || error == -ENOENT)
		return SNAP_COPY_GONE;
	if (error == -ETIMEDOUT)
		return SNAP_COPY_STALLED;
	if (error == -ESTALE)
		return SNAP_COPY_STALE;
	return error == -EACCES || error == -EPERM ? SNAP_COPY_REFUSED : SNAP_COPY_UNUSABLE;
}

static ssize_t read_blocked_memory(const struct snap_blocked_copy *blocked, uint64_t address,
				   size_t size)
{
	return blocked->source.read(blocked->source.context, address, blocked->bytes, size);
}

/* From below sp to the end of its mapping; a negative errno: not even the first bytes. */
static int copy_blocked_stack(const struct snap_blocked_copy *blocked, uint64_t sp, uint64_t end,
			      struct snap_thread *copy)
{
	uint64_t start = (sp - SNAP_STACK_MARGIN) & ~15ull, size = end - start;
	ssize_t got;

	if (size > blocked->size)
		size = blocked->size & ~(size_t)15;
	got = read_blocked_memory(blocked, start, size);
	/* What is below sp may lie in another mapping, or in none. */
	if (got <= 0 && got != -ETIMEDOUT && start / SNAP_PAGE != sp / SNAP_PAGE) {
		start = sp & ~(uint64_t)(SNAP_PAGE - 1);
		size = end - start < size ? end - start : size;
		got = read_blocked_memory(blocked, start, size);
	}
	if (got <= 0)
		return got == -ETIMEDOUT || got == -ESTALE ? (int)got : -EFAULT;
	copy->stack_address = start;
	copy->stack = blocked->bytes;
	copy->stack_size = (size_t)got;
	copy->stack_limited = (size_t)got == size && size < end - start;
	copy->stack_unreadable = (size_t)got < size;
	return 0;
}

/* The call, and memory that explains it. */
static int copy_wait(const struct snap_blocked_copy *blocked, const struct snap_syscall_line *line,
		     enum snap_arch arch, struct snap_thread *copy)
{
	uint64_t pointer = blocked->fs_base ? blocked->fs_base : snap_find_thread_pointer(copy);

	if (snap_own_stack_copied(copy->stack_address, copy->stack_size, pointer))
		copy->stack_unreadable = false;
	copy->call = snap_call_of_line(line, pointer);
	if (!blocked->words || blocked->queued)
		return 0;
	return snap_copy_wait_bytes(arch, copy, blocked->source.read, blocked->source.context,
				    blocked->words);
}

/* Whether it is still where it was, and has not run. */
static enum snap_copy_result check_unmoved(const struct snap_blocked_copy *blocked,
					   const struct snap_syscall_line *line)
{
	struct snap_run_counters counters;
	struct snap_syscall_line now;
	int error = 0;

	if (blocked->queued) {
		error = blocked->source.check(blocked->source.context, blocked->switches);
		if (error == -EAGAIN)
			return SNAP_COPY_MOVED;
	} else if (blocked->guard == SNAP_GUARD_SWITCHES) {
		error = blocked->source.locate(blocked->source.context, &now);
		if (!error && (now.running || now.sp != line->sp || now.pc != line->pc))
			return SNAP_COPY_MOVED;
	}
	if (!error)
		error = snap_guard_read(blocked->guard, blocked->guard_fd, &counters);
	if (error)
		return result_of_error(error);
	return blocked->queued || snap_run_counters_equal(&counters, &blocked->counters)
		       ? SNAP_COPY_DONE
		       : SNAP_COPY_MOVED;
}

/* All registers, or those that the line has; how many bytes they are. */
static size_t take_registers(struct snap_blocked_copy *blocked, const struct snap_bpf_thread *all,
			     const struct snap_syscall_line *line)
{
	struct snap_known_registers known;

	blocked->queued = all && all->queued;
	if (!all)
		return fill_registers(line, blocked->fs_base, blocked->registers);
	blocked->switches = all->switches;
	memcpy(blocked->registers, all->registers, all->registers_size);
	if (snap_registers_read(SNAP_OWN_ARCH, all->registers, all->registers_size, 0, &known))
		blocked->fs_base = known.thread_pointer;
	return all->registers_size;
}

enum snap_copy_result snap_copy_blocked(struct snap_blocked_copy *blocked, struct snap_thread *copy,
					enum snap_arch *arch_ret)
{
	struct snap_thread taken = *copy;
	enum snap_copy_result result;
	struct snap_syscall_line line;
	const enum snap_arch arch = SNAP_OWN_ARCH;
	const struct snap_bpf_thread *all = NULL;
	uint64_t end;
	int error = blocked->source.locate(blocked->source.context, &line);

	if (error)
		return result_of_error(error);
	if (blocked->source.registers)
		all = blocked->source.registers(blocked->source.context);
	if (line.running && !all)
		return SNAP_COPY_RUNNING;
	if (line.sp == 0) /* it has no user memory any more */
		return SNAP_COPY_UNUSABLE;
	if (may_be_32_bit(&line))
		return SNAP_COPY_UNUSABLE;
	taken.registers_size = take_registers(blocked, all, &line);
	end = blocked->stack_end(blocked->context, line.sp);
	if (end <= line.sp)
		return SNAP_COPY_UNMAPPED;
	error = copy_blocked_stack(blocked, line.sp, end, &taken);
	if (!error)
		error = copy_wait(blocked, &line, arch, &taken);
	taken.memory = NULL;
	if (!error && blocked->source.read_more)
		error = blocked->source.read_more(blocked->source.context, &line, &taken);
	if (error)
		return result_of_error(error);
	result = check_unmoved(blocked, &line);
	if (result != SNAP_COPY_DONE)
		return result;
	taken.result = SNAP_THREAD_COPIED;
	taken.taken = SNAP_TAKEN_UNSTOPPED;
	taken.partial = !all;
	taken.registers = blocked->registers;
	taken.stack2 = NULL;
	taken.stack2_size = 0;
	*copy = taken;
	*arch_ret = arch;
	return SNAP_COPY_DONE;
}
