/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counts queued signals that a child sends while somebody takes snapshots: sigcount NUMBER.
 *
 * Prints "ready", then, when all have come or the sender has ended, "counted N disorder N stopped N
 * continued N". Starts to send at the first line of standard input.
 */
#include "victim.h"

static volatile long counted, disorder, expected;
static long wanted;

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
	for (long i = 0; i < wanted; i++) {
		union sigval value = { .sival_int = (int)i };

		while (sigqueue(target, SIGRTMIN + 1, value) && errno == EAGAIN)
			sched_yield();
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	char line[8];
	pid_t self = getpid(), sender;

	wanted = argc > 1 ? atol(argv[1]) : 1000;
	sigaction(SIGRTMIN + 1, &action, NULL);
	victim_ready("sigcount");
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 0;
	sender = fork();
	if (sender == 0)
		send_all(self);
	while (waitpid(sender, NULL, 0) < 0 && errno == EINTR)
		;
	printf("counted %ld disorder %ld\n", counted, disorder);
	fflush(stdout);
	victim_hold();
}
