/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker reads of single threads, and how it is told that there is none. */
#include "capture/thread_asker.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A process that sleeps until it is killed, and has begun to. */
static pid_t make_sleeper(struct snap_thread_asker *asker)
{
	struct snap_stat stat = { .state = 0 };
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	while (stat.state != 'S')
		assert_int_equal(snap_thread_ask_stat(asker, pid, pid, &stat), 0);
	return pid;
}

static void test_answers(void **state _unused_)
{
	struct snap_thread_asker *asker = NULL;
	struct snap_stat stat = { .state = 0 };
	const char *text = NULL;
	size_t size = 0;
	pid_t sleeper;
	int status;
	char name[16];

	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	assert_null(snap_thread_asker_new(&asker));
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(snap_thread_ask_stat(asker, getpid(), getpid(), &stat), 0);
		assert_int_equal(stat.pid, getpid());
		assert_string_equal(stat.name, name);
	}
	assert_int_equal(snap_thread_ask_stat(asker, getpid(), 1, &stat), -ENOENT);
	assert_int_equal(snap_thread_ask_stat(asker, 1 << 22, 1 << 22, &stat), -ENOENT);
	/* Root's alone; and empty of one that runs, as this one may while it is asked for. */
	sleeper = make_sleeper(asker);
	status = snap_thread_ask_stack(asker, sleeper, sleeper, &text, &size);
	if (geteuid() == 0 && status == 0)
		assert_true(size > 0 && memchr(text, '+', size));
	else
		assert_true(status < 0 && status != -ETIMEDOUT);
	assert_int_equal(kill(sleeper, SIGKILL), 0);
	assert_int_equal(waitpid(sleeper, NULL, 0), sleeper);
	snap_thread_asker_destroy(asker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
