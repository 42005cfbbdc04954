/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes over its arguments in which of two functions it is, again and again, as servers do. "titles short
 * WIDE": they have room for it. "titles grown": it lies over the environment, too.
 */
#include "victim.h"

enum { MOST = 4096 };

static char *title;
static size_t room;

static void NOINLINE in_alpha(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
	__asm__ volatile("");
}

static void NOINLINE in_beta(void)
{
	for (volatile unsigned i = 0; i < 300000; i++)
		;
}

static void set_title(const char *text)
{
	size_t length = strlen(text);

	memset(title, 0, room);
	memcpy(title, text, length < room ? length : room);
}

static void *holder_main(void *arg)
{
	victim_hold();
	return arg;
}

int main(int argc, char **argv, char **envp)
{
	bool grown = argc > 1 && strcmp(argv[1], "grown") == 0;
	char *end = argv[argc - 1] + strlen(argv[argc - 1]), alpha[MOST], beta[MOST];
	size_t args = (size_t)(end - argv[0]);
	pthread_t thread;

	title = argv[0];
	room = grown ? (size_t)(envp[0] + strlen(envp[0]) - title) : args;
	memset(alpha, '.', args);
	snprintf(alpha + (grown ? args : 0), 64, "titles: alpha");
	memset(beta, '.', args);
	snprintf(beta + (grown ? args : 0), 64, "titles: beta, longer");
	victim_ready("titles");
	if (pthread_create(&thread, NULL, holder_main, NULL))
		abort();
	for (;;) {
		set_title(alpha);
		in_alpha();
		set_title(beta);
		in_beta();
	}
}
