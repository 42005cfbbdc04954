/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counts queued signals that a child sends while snapshots are taken: sigcount NUMBER [THREADS].
 * With THREADS each goes to the next of so many threads, 300 us after the one before.
 *
 * Prints "ready", then, when all have come or the sender has ended, "counted N disorder N stopped N
 * continued N". Starts to send at the first line of standard input.
 */
#include "victim.h"

#include <sys/syscall.h>

enum { MOST_THREADS = 1000, PAUSE_US = 300, STILL_US = 2000000 };

static volatile long disorder, expected;
static atomic_long counted;
static long wanted, threads;
static _Atomic pid_t tids[MOST_THREADS];

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_value.sival_int != expected)
		disorder++;
	expected = info->si_value.sival_int + 1;
	counted++;
}

static void send_all(pid_t target)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (long i = 0; i < wanted && threads; i++) {
		while (syscall(SYS_tgkill, target, tids[i % threads], SIGRTMIN + 1) &&
		       errno == EAGAIN)
			sched_yield();
		usleep(PAUSE_US);
	}
	for (long i = 0; i < wanted && !threads; i++) {
		union sigval value = { .sival_int = (int)i };

		while (sigqueue(target, SIGRTMIN + 1, value) && errno == EAGAIN)
			sched_yield();
	}
	_exit(0);
}

static void *wait_for_signals(void *number)
{
	tids[(long)number] = (pid_t)syscall(SYS_gettid);
	for (;;)
		pause();
	return NULL;
}

static void start_threads(void)
{
	pthread_t thread;

	for (long i = 0; i < threads; i++) {
		if (pthread_create(&thread, NULL, wait_for_signals, (void *)i))
			_exit(1);
		while (!tids[i])
			sched_yield();
	}
}

/* Signals that were sent may still be on their way. */
static void await_signals(void)
{
	long before = -1;

	while (counted < wanted && counted != before) {
		before = counted;
		usleep(STILL_US);
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	char line[8];
	pid_t self = getpid(), sender;

	wanted = argc > 1 ? atol(argv[1]) : 1000;
	threads = argc > 2 ? atol(argv[2]) : 0;
	threads = threads > MOST_THREADS ? MOST_THREADS : threads;
	sigaction(SIGRTMIN + 1, &action, NULL);
	start_threads();
	victim_ready("sigcount");
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 0;
	sender = fork();
	if (sender == 0)
		send_all(self);
	while (waitpid(sender, NULL, 0) < 0 && errno == EINTR)
		;
	if (threads)
		await_signals();
	printf("counted %ld disorder %ld\n", (long)counted, disorder);
	fflush(stdout);
	victim_hold();
}
