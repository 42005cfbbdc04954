/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * COUNT threads that wait for a lock of the main one, and half as many that sleep; then, when it is told a line, the main thread
 * writes where nothing is mapped. Its number is known by then: a core tells of one process.
 */
#include "victim.h"

enum { ADDRESS = 0x1234 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

NOINLINE static void *crash_locker(void *argument)
{
	pthread_mutex_lock(&lock);
	return argument;
}

NOINLINE static void *crash_sleeper(void *argument)
{
	for (;;)
		sleep(1000);
	return argument;
}

NOINLINE static void crash_here(volatile int *where)
{
	*where = 42;
	atomic_signal_fence(memory_order_seq_cst);
}

NOINLINE static void crash_caller(volatile int *where)
{
	crash_here(where);
	atomic_signal_fence(memory_order_seq_cst);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 3;
	char line[64];

	pthread_mutex_lock(&lock);
	for (long i = 0; i < count; i++)
		victim_thread(i % 3 == 2 ? crash_sleeper : crash_locker, NULL, 1 << 17);
	victim_ready("threads=%ld", count + 1);
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 0;
	crash_caller((volatile int *)(uintptr_t)ADDRESS);
	return 1;
}
