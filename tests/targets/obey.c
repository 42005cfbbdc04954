/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Does what it is told, a line at a time on standard input, and says "did WORD" when it is done:
 *
 *     threads N     N more threads, which sleep     spin, rest    use a processor, or stop that
 *     fork          a child, which sleeps           exec PATH     go on as another program
 *     exit          end
 *
 * Ends when standard input does.
 */
#include "victim.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

static volatile unsigned long rounds;

NOINLINE static void *sleeping_main(void *unused)
{
	for (;;)
		pause();
	return unused;
}

NOINLINE static void busy_work(void)
{
	for (int i = 0; i < 100000; i++)
		rounds++;
}

NOINLINE static void wait_for_word(bool spinning)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	while (poll(&input, 1, spinning ? 0 : -1) == 0)
		busy_work();
}

static void execute(char *path)
{
	char *argv[] = { path, NULL };

	execv(path, argv);
	_exit(1);
}

static void obey(char *line, bool *spinning)
{
	char *word = strtok(line, " \n"), *value = strtok(NULL, "\n");

	if (!word)
		return;
	if (!strcmp(word, "threads"))
		for (int i = atoi(value); i > 0; i--)
			victim_thread(sleeping_main, NULL, 64 << 10);
	else if (!strcmp(word, "fork") && fork() == 0) /* it must not read its parent's lines */
		sleeping_main((void *)(long)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
	else if (!strcmp(word, "spin") || !strcmp(word, "rest"))
		*spinning = *word == 's';
	else if (!strcmp(word, "exec"))
		execute(value);
	else if (!strcmp(word, "exit"))
		_exit(0);
	printf("did %s\n", word);
	fflush(stdout);
}

int main(void)
{
	char line[512];
	bool spinning = false;

	victim_ready("pid=%d", getpid());
	for (;;) {
		ssize_t got;

		wait_for_word(spinning);
		got = read(STDIN_FILENO, line, sizeof(line) - 1);
		if (got <= 0)
			return 0;
		line[got] = '\0';
		obey(line, &spinning);
	}
}
