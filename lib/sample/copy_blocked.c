/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies without a stop: see copy_blocked.h. The order is what makes it true: the counters, then where the
 * thread is (which the kernel tells of threads off the processors only), then the bytes, then the
 * counters again. Whoever was woken in between has been put on a processor, which both guards
 * count.
 */
#include "sample/copy_blocked.h"

#include <errno.h>
#include <string.h>
#include <sys/user.h>
#include <time.h>
#include <unistd.h>

enum {
	STATUS_TEXT = 4096,
	SCHEDSTAT_TEXT = 80,
	SYSCALL_TEXT = 256,
	PAGE = 4096,
	NAP_NS = 1000,
};

static bool parse_switches(char *text, size_t length, struct snap_peek_mark *ret)
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
	*ret = (struct snap_peek_mark){ 0, status.other_switches, status.voluntary_switches };
	return true;
}

static bool parse_mark(enum snap_peek_guard guard, char *text, size_t length,
		       struct snap_peek_mark *ret)
{
	uint64_t numbers[3];

	if (guard == SNAP_PEEK_SWITCHES)
		return parse_switches(text, length, ret);
	if (guard != SNAP_PEEK_SCHEDSTAT || !snap_parse_schedstat(text, length, numbers))
		return false;
	*ret = (struct snap_peek_mark){ numbers[0], numbers[1], numbers[2] };
	return true;
}

int snap_peek_mark(enum snap_peek_guard guard, int guard_fd, struct snap_peek_mark *ret)
{
	char text[STATUS_TEXT];
	size_t size = guard == SNAP_PEEK_SCHEDSTAT ? SCHEDSTAT_TEXT : sizeof(text);
	ssize_t length = snap_procfs_reread(guard_fd, text, size);

	if (length < 0)
		return (int)length;
	return parse_mark(guard, text, (size_t)length, ret) ? 0 : -EBADMSG;
}

const char *snap_peek_guard_name(enum snap_peek_guard guard)
{
	switch (guard) {
	case SNAP_PEEK_NO_GUARD:
		return NULL;
	case SNAP_PEEK_SCHEDSTAT:
		return "schedstat";
	case SNAP_PEEK_SWITCHES:
		return "status";
	}
	return NULL;
}

/* The calling thread's own counters. */
static bool own_mark(const struct snap_procfs *procfs, enum snap_peek_guard guard,
		     struct snap_peek_mark *ret)
{
	const char *name =
		guard == SNAP_PEEK_SCHEDSTAT ? "thread-self/schedstat" : "thread-self/status";
	char text[STATUS_TEXT];
	ssize_t length = snap_procfs_system_read(procfs, name, text, sizeof(text));

	return length > 0 && parse_mark(guard, text, (size_t)length, ret);
}

/* Going to sleep and being woken must count. A recorded tree cannot move: any number will do. */
static bool holds(const struct snap_procfs *procfs, enum snap_peek_guard guard)
{
	struct timespec nap = { .tv_nsec = NAP_NS };
	struct snap_peek_mark before, after;

	if (!own_mark(procfs, guard, &before))
		return false;
	if (!procfs->live)
		return before.runs > 0;
	nanosleep(&nap, NULL);
	return own_mark(procfs, guard, &after) && after.runs > before.runs;
}

enum snap_peek_guard snap_peek_guard(const struct snap_procfs *procfs)
{
	if (holds(procfs, SNAP_PEEK_SCHEDSTAT))
		return SNAP_PEEK_SCHEDSTAT;
	return holds(procfs, SNAP_PEEK_SWITCHES) ? SNAP_PEEK_SWITCHES : SNAP_PEEK_NO_GUARD;
}

/* The registers that are known, where NT_PRSTATUS has them; the rest is 0, `partial` says so. */
static size_t fill_registers(const struct snap_place *place, void *ret, enum snap_arch *arch_ret)
{
	struct user_regs_struct registers = { 0 };

#if defined(__x86_64__)
	registers.rip = place->pc;
	registers.rsp = place->sp;
	registers.orig_rax = (uint64_t)place->number;
	registers.rdi = place->arguments[0];
	registers.rsi = place->arguments[1];
	registers.rdx = place->arguments[2];
	registers.r10 = place->arguments[3];
	registers.r8 = place->arguments[4];
	registers.r9 = place->arguments[5];
	*arch_ret = SNAP_ARCH_X86_64;
#else
	registers.pc = place->pc;
	registers.sp = place->sp;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(place->arguments); i++)
		registers.regs[i] = place->arguments[i];
	registers.regs[8] = (uint64_t)place->number;
	*arch_ret = SNAP_ARCH_AARCH64;
#endif
	memcpy(ret, &registers, sizeof(registers));
	return sizeof(registers);
}

/*
 * Only a 32-bit thread has its stack there, and what its registers are called is not told. A
 * 64-bit one that does is stopped, which shows what it is.
 */
static bool may_be_32_bit(const struct snap_place *place)
{
	return place->sp <= UINT32_MAX;
}

static int read_place(int syscall_fd, struct snap_place *ret)
{
	char text[SYSCALL_TEXT];
	ssize_t length = snap_procfs_reread(syscall_fd, text, sizeof(text));

	if (length < 0)
		return (int)length;
	return snap_parse_syscall(text, (size_t)length, ret) ? 0 : -EBADMSG;
}

static enum snap_peek_result failed(int error)
{
	if (error == -ESRCH || error == -ENOENT)
		return SNAP_PEEK_GONE;
	return error == -EACCES || error == -EPERM ? SNAP_PEEK_REFUSED : SNAP_PEEK_UNUSABLE;
}

/* From below sp to the end of its mapping; false: not even the first bytes can be read. */
static bool copy_stack(const struct snap_peek *peek, uint64_t sp, uint64_t end,
		       struct snap_thread *copy)
{
	uint64_t start = (sp - SNAP_STACK_MARGIN) & ~15ull, size = end - start;
	ssize_t got;

	if (size > peek->size)
		size = peek->size & ~(size_t)15;
	got = pread(peek->mem_fd, peek->bytes, size, (off_t)start);
	/* What is below sp may lie in another mapping, or in none. */
	if (got <= 0 && start / PAGE != sp / PAGE) {
		start = sp & ~(uint64_t)(PAGE - 1);
		size = end - start < size ? end - start : size;
		got = pread(peek->mem_fd, peek->bytes, size, (off_t)start);
	}
	if (got <= 0)
		return false;
	copy->stack_address = start;
	copy->stack = peek->bytes;
	copy->stack_size = (size_t)got;
	copy->stack_limited = (size_t)got == size && size < end - start;
	copy->stack_unreadable = (size_t)got < size;
	return true;
}

/* Whether it is still where it was, and has not run. */
static enum snap_peek_result check(const struct snap_peek *peek, const struct snap_place *place)
{
	struct snap_peek_mark mark;
	struct snap_place now;
	int error = 0;

	if (peek->guard == SNAP_PEEK_SWITCHES) {
		error = read_place(peek->syscall_fd, &now);
		if (!error && (now.running || now.sp != place->sp || now.pc != place->pc))
			return SNAP_PEEK_MOVED;
	}
	if (!error)
		error = snap_peek_mark(peek->guard, peek->guard_fd, &mark);
	if (error)
		return failed(error);
	return snap_peek_same(&mark, &peek->mark) ? SNAP_PEEK_TAKEN : SNAP_PEEK_MOVED;
}

enum snap_peek_result snap_peek(struct snap_peek *peek, struct snap_thread *copy,
				enum snap_arch *arch_ret)
{
	struct snap_thread taken = *copy;
	enum snap_peek_result result;
	struct snap_place place;
	enum snap_arch arch;
	uint64_t end;
	int error = read_place(peek->syscall_fd, &place);

	if (error)
		return failed(error);
	if (place.running)
		return SNAP_PEEK_RUNNING;
	if (place.sp == 0) /* it has no user memory any more */
		return SNAP_PEEK_UNUSABLE;
	if (may_be_32_bit(&place))
		return SNAP_PEEK_UNUSABLE;
	end = peek->stack_end(peek->context, place.sp);
	if (end <= place.sp)
		return SNAP_PEEK_UNKNOWN;
	if (!copy_stack(peek, place.sp, end, &taken))
		return SNAP_PEEK_UNUSABLE;
	result = check(peek, &place);
	if (result != SNAP_PEEK_TAKEN)
		return result;
	taken.result = SNAP_THREAD_COPIED;
	taken.taken = SNAP_TAKEN_UNSTOPPED;
	taken.partial = true;
	taken.registers_size = fill_registers(&place, peek->registers, &arch);
	taken.registers = peek->registers;
	taken.stack2 = NULL;
	taken.stack2_size = 0;
	*copy = taken;
	*arch_ret = arch;
	return SNAP_PEEK_TAKEN;
}
