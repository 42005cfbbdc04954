/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes that a unit test starts itself: each says by a pipe that it is where it should be, and
 * leaves when the test's end of another pipe is closed.
 */
#pragma once

#include "discover/discover.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

struct victim {
	pid_t pid;
	int commands; /* it leaves when this is closed */
	int answers;
};

/* In the victim: numbers go up, single bytes come down; the end of the pipe is the end. */
static inline void answer(int fd, int number)
{
	if (write(fd, &number, sizeof(number)) != (ssize_t)sizeof(number))
		_exit(3);
}

static inline bool command(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1;
}

static inline int wait_answer(const struct victim *victim)
{
	int number = 0;

	assert_int_equal(read(victim->answers, &number, sizeof(number)), sizeof(number));
	return number;
}

static inline void tell(const struct victim *victim)
{
	assert_int_equal(write(victim->commands, "x", 1), 1);
}

static inline void victim_start(struct victim *victim, void (*body)(int commands, int answers))
{
	int down[2], up[2];

	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	victim->pid = fork();
	assert_true(victim->pid >= 0);
	if (victim->pid == 0) {
		close(down[1]);
		close(up[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(down[0], up[1]);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	victim->commands = down[1];
	victim->answers = up[0];
}

static inline void victim_end(struct victim *victim)
{
	snap_close(&victim->commands);
	snap_close(&victim->answers);
	if (victim->pid > 0) {
		kill(victim->pid, SIGKILL);
		waitpid(victim->pid, NULL, 0);
	}
	victim->pid = 0;
}

/* Reads nothing: a command may be meant for another process at the same pipe. */
static inline void wait_for_end(int commands)
{
	struct pollfd end = { .fd = commands };

	while (poll(&end, 1, -1) <= 0 || !(end.revents & (POLLHUP | POLLERR)))
		;
}

/* A child that leaves with its parent. */
static inline pid_t child_that_waits(int commands)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		wait_for_end(commands);
		_exit(0);
	}
	return pid;
}

static inline void family(int commands, int answers)
{
	answer(answers, child_that_waits(commands));
	while (command(commands))
		answer(answers, child_that_waits(commands));
}

static inline struct snap_capture *discover(pid_t pid)
{
	struct snap_target target = { .kind = SNAP_TARGET_PID, .pid = pid };
	struct snap_options options = { .children = true, .targets = &target, .target_count = 1 };
	struct snap_capture *capture = snap_capture_new();

	assert_non_null(capture);
	assert_null(snap_discover(&options, 10, capture));
	return capture;
}
