/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One thread a hexadecimal argument, which is its name byte by byte: names HEX ... */
#include "victim.h"

static atomic_int in_position;

static void *named_main(void *argument)
{
	const char *hex = argument;
	char name[16] = "";

	for (size_t i = 0; i < 15 && hex[2 * i] && hex[2 * i + 1]; i++) {
		char pair[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		name[i] = (char)strtol(pair, NULL, 16);
	}
	prctl(PR_SET_NAME, name, 0, 0, 0);
	in_position++;
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		victim_thread(named_main, argv[i], 0);
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		while (in_position < i)
			sched_yield();
	victim_ready("names");
	victim_hold();
}
