/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls that a stop has interrupted: see waiter.h.
 *
 * restart_syscall(2) hides which call goes on: a wait with a relative timeout, one of four. Its
 * arguments stay where they were. These sources give the call, in this order: the instruction
 * before the system call, the stack where the instruction is in glibc's common function, the
 * function on top of the stack, and the function of the kernel that the thread sleeps in.
 */
#include "analyze/wait/waiter.h"

#include "analyze/label.h"
#include "analyze/unwind/arch.h"

#include <string.h>

/* The calls that can be restarted so: see snap_wait_call_common(). */
enum {
	CALL_POLL = 7,
	CALL_NANOSLEEP = 35,
	CALL_FUTEX = 202,
	CALL_CLOCK_NANOSLEEP = 230,
	MOST_CLOCK = 16, /* MAX_CLOCKS (linux/time.h) */
	CODE_BYTES = 7,  /* of an instruction that loads something, and of syscall */
	MOST_WORDS = 8,  /* from a return address to that of its caller */
};

static const struct {
	const char *name;
	int number;
} restartable[] = {
	{ "futex", CALL_FUTEX },
	{ "clock_nanosleep", CALL_CLOCK_NANOSLEEP },
	{ "nanosleep", CALL_NANOSLEEP },
	{ "poll", CALL_POLL },
};

static int restartable_number(uint64_t number)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(restartable); i++)
		if ((uint64_t)restartable[i].number == number)
			return restartable[i].number;
	return -1;
}

/* The word of the stack behind the one that the caller's caller goes on at: an argument. */
static bool read_argument_of_caller(const struct snap_waiter *waiter, uint64_t sp, uint64_t *ret)
{
	const struct snap_raw_stack *stack = &waiter->raw->stacks[waiter->thread->stack];
	size_t place = stack->kernel_count + 2;
	uint64_t word;

	if (place >= stack->frame_count)
		return false;
	for (size_t i = 1; i <= MOST_WORDS; i++) {
		sp += sizeof(word);
		if (!snap_wait_read(waiter, sp, &word, sizeof(word)))
			return false;
		if (word == stack->frames[place]->address)
			return snap_wait_read(waiter, sp + sizeof(word), ret, sizeof(*ret));
	}
	return false;
}

/* Of aarch64: mov x8, number, which is a number of this processor; svc 0. */
static int number_before_svc(const struct snap_waiter *waiter, const struct snap_thread_call *call)
{
	uint32_t code[2];

	if (!snap_modules_read(waiter->raw->modules, call->pc - sizeof(code), (uint8_t *)code,
			       sizeof(code)) ||
	    (code[0] & 0xffe0001f) != 0xd2800008 ||
	    !snap_arch_aarch64.is_system_call((const uint8_t *)&code[1]))
		return -1;
	return restartable_number(
		(uint64_t)snap_wait_call_common(SNAP_ARCH_AARCH64, code[0] >> 5 & 0xffff));
}

/*
 * By the instruction before syscall, of x86-64: pc is behind both. -1: something else stands there.
 * It is mov $number,%eax; but for calls that can be cancelled glibc has one place since 2.41. There
 * the number is the seventh argument of __internal_syscall_cancel(), so the first on the stack.
 * That makes the call itself in a process of one thread, mov N(%rsp),%rax, or has
 * __syscall_cancel_arch() make it, which ends with mov %r11,8(%rsp) (nptl/cancellation.c and
 * sysdeps/unix/sysv/linux/x86_64/syscall_cancel.S of glibc 2.41).
 */
static int number_before(const struct snap_waiter *waiter, const struct snap_thread_call *call)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x44, 0x24 },
			     shared[] = { 0x4c, 0x89, 0x5c, 0x24, 0x08 };
	const struct snap_raw_process *raw = waiter->raw;
	uint8_t code[CODE_BYTES];
	uint64_t number = 0;
	uint32_t loaded;

	if (!raw->modules)
		return -1;
	if (raw->process->arch == SNAP_ARCH_AARCH64)
		return number_before_svc(waiter, call);
	if (raw->process->arch != SNAP_ARCH_X86_64 ||
	    !snap_modules_read(raw->modules, call->pc - sizeof(code), code, sizeof(code)) ||
	    code[5] != 0x0f || code[6] != 0x05)
		return -1;
	if (code[0] == 0xb8) {
		memcpy(&loaded, code + 1, sizeof(loaded));
		return restartable_number(loaded);
	}
	if (memcmp(code, load, sizeof(load)) == 0 && code[4] < 0x80 &&
	    snap_wait_read(waiter, call->sp + code[4], &number, sizeof(number)))
		return restartable_number(number);
	if (memcmp(code, shared, sizeof(shared)) == 0 &&
	    read_argument_of_caller(waiter, call->sp, &number))
		return restartable_number(number);
	return -1;
}

static int number_of_name(struct snap_wait_analysis *waits, const struct snap_raw_process *raw,
			  const struct snap_raw_thread *thread, int number)
{
	const char *name = snap_label_syscall(&waits->analysis->strings, raw->process->arch, number,
					      &raw->stacks[thread->stack]);

	for (size_t i = 0; name && i < SNAP_ARRAY_SIZE(restartable); i++)
		if (strcmp(restartable[i].name, name) == 0)
			return restartable[i].number;
	return -1;
}

/* By what the kernel calls the place, which is the same for both kinds of sleep. */
static int number_of_wchan(const struct snap_thread *thread, const struct snap_thread_call *call)
{
	const char *wchan = thread->wchan;

	if (!wchan)
		return -1;
	if (strstr(wchan, "futex"))
		return CALL_FUTEX;
	if (strstr(wchan, "poll"))
		return CALL_POLL;
	if (!strstr(wchan, "nanosleep") && !strstr(wchan, "nsleep"))
		return -1;
	/* The first argument is a clock's number, or the address of a time. */
	return call->arguments[0] < MOST_CLOCK ? CALL_CLOCK_NANOSLEEP : CALL_NANOSLEEP;
}

struct snap_thread_call snap_wait_restarted(struct snap_wait_analysis *waits,
					    const struct snap_waiter *waiter,
					    struct snap_thread_call call)
{
	const struct snap_raw_process *raw = waiter->raw;
	const struct snap_raw_thread *thread = waiter->thread;
	int number;

	if (!call.known ||
	    snap_wait_call_row(raw->process->arch, call.number)->call != SNAP_CALL_RESTART)
		return call;
	number = number_before(waiter, &call);
	if (number < 0)
		number = number_of_name(waits, raw, thread, (int)call.number);
	if (number < 0)
		number = number_of_wchan(thread->thread, &call);
	number = number < 0 ? -1 : (int)snap_wait_call_own(raw->process->arch, number);
	if (number >= 0)
		call.number = number;
	return call;
}
