/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Children that are made and ended in one place: what they inherit, and what is told of their end. */
#include "base/spawn.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 10000 };

/* What a child saw of itself, in memory of both. */
struct seen {
	char name[16];
	int death_signal;
	bool terminate_blocked;
	int fd;
};

static struct seen *seen_new(void)
{
	struct seen *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(seen != MAP_FAILED);
	return seen;
}

static void look_around(void *context)
{
	struct seen *seen = context;
	sigset_t blocked;

	prctl(PR_GET_NAME, seen->name);
	prctl(PR_GET_PDEATHSIG, &seen->death_signal);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	seen->terminate_blocked = sigismember(&blocked, SIGTERM);
	seen->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void leave_with_7(void *context _unused_)
{
	snap_spawn_exit(7);
}

static void wait_for_ever(void *context _unused_)
{
	for (;;)
		pause();
}

static void test_child_is_set_up(void **state _unused_)
{
	struct seen *seen = seen_new();
	sigset_t blocked;
	pid_t pid;
	int pidfd;

	assert_null(snap_spawn(0, "a-long-name-of-a-child", look_around, seen, &pid, &pidfd));
	assert_int_equal(snap_spawn_end(pidfd, PATIENCE_MS, PATIENCE_MS), 0);
	assert_string_equal(seen->name, "a-long-name-of-");
	assert_int_equal(seen->death_signal, SIGKILL);
	assert_true(seen->terminate_blocked);
	/* It is reaped, and our own mask is what it was. */
	assert_int_equal(waitpid(pid, NULL, __WALL), -1);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	assert_false(sigismember(&blocked, SIGTERM));
	assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
	close(pidfd);
	munmap(seen, sizeof(*seen));
}

static void test_descriptors_are_its_own(void **state _unused_)
{
	struct seen *seen = seen_new();
	pid_t pid;
	int pidfd;

	assert_null(snap_spawn(0, "own", look_around, seen, &pid, &pidfd));
	snap_spawn_end(pidfd, PATIENCE_MS, PATIENCE_MS);
	close(pidfd);
	assert_int_equal(fcntl(seen->fd, F_GETFD), -1);
	munmap(seen, sizeof(*seen));
}

static void test_status(void **state _unused_)
{
	const unsigned flags[] = { 0, SNAP_SPAWN_ALLOCATES };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(flags); i++) {
		pid_t pid;
		int pidfd, status;

		assert_null(snap_spawn(flags[i], "seven", leave_with_7, NULL, &pid, &pidfd));
		assert_true(snap_spawn_has_ended(pidfd, PATIENCE_MS));
		status = snap_spawn_end(pidfd, 0, 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
		/* Once. */
		assert_int_equal(snap_spawn_end(pidfd, 0, 0), -1);
		close(pidfd);
	}
}

static void test_what_does_not_end_is_killed(void **state _unused_)
{
	pid_t pid;
	int pidfd;

	assert_null(snap_spawn(0, "waits", wait_for_ever, NULL, &pid, &pidfd));
	assert_false(snap_spawn_has_ended(pidfd, 1));
	assert_int_equal(snap_spawn_end(pidfd, 1, PATIENCE_MS), -1);
	assert_int_equal(waitpid(pid, NULL, __WALL), -1);
	close(pidfd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_child_is_set_up),
		cmocka_unit_test(test_descriptors_are_its_own),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_what_does_not_end_is_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
