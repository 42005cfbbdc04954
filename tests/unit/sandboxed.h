/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A child in the sandbox: what it finds out goes through memory that both see, as it can neither
 * assert nor print.
 */
#pragma once

#include "roles/sandbox/internal.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { FOUND_MAX = 128, NEVER_ENTERED = 111 };

struct sandboxed {
	struct snap_sandbox setting;
	int channel; /* the test's end */
	long *found; /* FOUND_MAX of them, shared */
	pid_t pid;
};

static inline struct sandboxed sandboxed_init(void)
{
	struct sandboxed child = { .channel = -1 };

	child.found = mmap(NULL, FOUND_MAX * sizeof(long), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(child.found != MAP_FAILED);
	return child;
}

/* In the child: all signals blocked, as in a role. */
static inline void sandboxed_be(struct sandboxed *child, void (*probe)(struct sandboxed *child))
{
	struct stacksnap_error *err;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	err = snap_sandbox_enter(&child->setting);
	if (err) {
		dprintf(STDERR_FILENO, "# not entered: %s\n", snap_error_message(err));
		_exit(NEVER_ENTERED);
	}
	probe(child);
	_exit(0);
}

static inline void sandboxed_start(struct sandboxed *child, void (*probe)(struct sandboxed *child))
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	child->channel = ends[0];
	child->setting.channel = ends[1];
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		close(ends[0]);
		sandboxed_be(child, probe);
	}
	close(ends[1]);
}

/* How it ended, as wait(2) puts it. */
static inline int sandboxed_end(struct sandboxed *child)
{
	int status = -1;

	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	snap_close(&child->channel);
	return status;
}

static inline int sandboxed_run(struct sandboxed *child, void (*probe)(struct sandboxed *child))
{
	sandboxed_start(child, probe);
	return sandboxed_end(child);
}

static inline void sandboxed_deinit(struct sandboxed *child)
{
	munmap(child->found, FOUND_MAX * sizeof(long));
}
