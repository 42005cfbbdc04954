/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One process, two programs in turns: turns MILLISECONDS [thread]. turns_low and turns_high are the
 * same source at addresses that have nothing in common, and each executes the other after so many
 * milliseconds; with `thread` it is a thread that does, and not the first one.
 */
#include "victim.h"

#include <poll.h>

static char *arguments[5];

/* One executes the other until standard input is closed. */
NOINLINE static void take_turn(int depth)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	volatile int keep = depth;

	if (depth) {
		take_turn(depth - 1);
	} else {
		if (poll(&input, 1, atoi(arguments[1])) > 0)
			_exit(0);
		execv(arguments[0], arguments);
	}
	(void)keep;
}

static void *turn_main(void *unused)
{
	take_turn(4);
	_exit(1);
	return unused;
}

int main(int argc, char **argv)
{
	static char other[4096], threaded[] = "thread", again[] = "again";
	bool is_again = argc > 2 && !strcmp(argv[argc - 1], again);
	bool by_thread = argc > 2 && !strcmp(argv[2], threaded);
	char *name = strrchr(argv[0], '/');

	if (argc < 2 || !name)
		return 2;
	snprintf(other, sizeof(other), "%.*s/%s", (int)(name - argv[0]), argv[0],
		 strcmp(name, "/turns_low") ? "turns_low" : "turns_high");
	arguments[0] = other;
	arguments[1] = argv[1];
	arguments[2] = by_thread ? threaded : again;
	arguments[3] = by_thread ? again : NULL;
	if (!is_again)
		victim_ready("%s", argv[1]);
	if (by_thread)
		victim_thread(turn_main, NULL, 0);
	else
		take_turn(4);
	if (by_thread)
		for (;;)
			pause();
	return 1;
}
