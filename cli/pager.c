/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pager: see pager.h. */
#include "pager.h"

#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the shell says of a command that it cannot run. */
enum { NOT_RUN = 126, NOT_FOUND = 127 };

/* Of the user; NULL: none is wanted. */
static const char *find_command(void)
{
	const char *command = getenv("STACKSNAP_PAGER");

	if (!command)
		command = getenv("PAGER");
	if (!command)
		command = "less";
	return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

/*
 * A copy with capabilities takes nothing from the environment of its caller. A pager of a process
 * in the background would stop.
 */
static bool is_usable(int fd)
{
	const char *term = getenv("TERM");

	return !getauxval(AT_SECURE) && term && *term && strcmp(term, "dumb") != 0 &&
	       tcgetpgrp(fd) == getpgrp();
}

/* In the child. A rule of sudo for stacksnap alone is to give no shell of root. */
static void exec_pager(const char *command, int text)
{
	signal(SIGPIPE, SIG_DFL);
	if (dup2(text, STDIN_FILENO) < 0 || lseek(STDIN_FILENO, 0, SEEK_SET) < 0)
		_exit(NOT_RUN);
	setenv("LESS", "FRX", 0);
	if (geteuid() == 0)
		setenv("LESSSECURE", "1", 0);
	if (strcmp(command, "less") == 0)
		execlp(command, command, NULL);
	else
		execl("/bin/sh", "sh", "-c", command, NULL);
	_exit(NOT_FOUND);
}

/* A signal that ends this process ends the pager first, which puts the terminal in order. */
static bool await_pager(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return false;
		if (snap_cli_signals_caught())
			kill(pid, SIGTERM);
	}
	return !WIFEXITED(status) ||
	       (WEXITSTATUS(status) != NOT_RUN && WEXITSTATUS(status) != NOT_FOUND);
}

bool snap_cli_pager_show(int text, int fd)
{
	/* Keys of the terminal, which are for the pager. */
	static const int keys[] = { SIGINT, SIGQUIT };
	const struct sigaction ignored = { .sa_handler = SIG_IGN };
	struct sigaction before[sizeof(keys) / sizeof(keys[0])];
	const char *command = find_command();
	bool shown;
	pid_t pid;

	if (!command || !is_usable(fd))
		return false;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		sigaction(keys[i], &ignored, &before[i]);
	pid = fork();
	for (size_t i = 0; pid == 0 && i < sizeof(keys) / sizeof(keys[0]); i++)
		sigaction(keys[i], &before[i], NULL);
	if (pid == 0)
		exec_pager(command, text);
	shown = pid > 0 && await_pager(pid);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		sigaction(keys[i], &before[i], NULL);
	return shown;
}
