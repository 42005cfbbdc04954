/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls that a stop has interrupted: see waiter.h.
 *
 * restart_syscall(2) hides which call goes on: a wait with a relative timeout, one of four. Its
 * arguments stay where they were. Who tells which it was, in this order: the instruction before
 * the system call, the function on top of the stack, the function of the kernel that it sleeps in.
 */
#include "analyze/wait/waiter.h"

#include "analyze/label.h"

#include <string.h>

/* The calls that can be restarted so: see snap_wait_call_common(). */
enum {
	CALL_POLL = 7,
	CALL_NANOSLEEP = 35,
	CALL_FUTEX = 202,
	CALL_CLOCK_NANOSLEEP = 230,
	MOST_CLOCK = 16, /* MAX_CLOCKS (linux/time.h) */
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

/* mov $number,%eax; syscall, of x86-64: pc is behind them. -1: something else stands there. */
static int number_before(const struct snap_raw_process *raw, uint64_t pc)
{
	uint8_t code[7];
	int number;

	if (!raw->modules || raw->process->arch != SNAP_ARCH_X86_64 ||
	    !snap_modules_read(raw->modules, pc - sizeof(code), code, sizeof(code)))
		return -1;
	if (code[0] != 0xb8 || code[5] != 0x0f || code[6] != 0x05)
		return -1;
	memcpy(&number, code + 1, sizeof(number));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(restartable); i++)
		if (restartable[i].number == number)
			return number;
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
					    const struct snap_raw_process *raw,
					    const struct snap_raw_thread *thread,
					    struct snap_thread_call call)
{
	int number;

	if (!call.known ||
	    snap_wait_call_row(raw->process->arch, call.number)->call != SNAP_CALL_RESTART)
		return call;
	number = number_before(raw, call.pc);
	if (number < 0)
		number = number_of_name(waits, raw, thread, (int)call.number);
	if (number < 0)
		number = number_of_wchan(thread->thread, &call);
	number = number < 0 ? -1 : (int)snap_wait_call_own(raw->process->arch, number);
	if (number >= 0)
		call.number = number;
	return call;
}
