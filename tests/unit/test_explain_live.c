/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* explain on processes that the test starts itself, and that may not be traced. */
#include "proc/parse.h"
#include "skip.h"
#include "victims.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

enum { NOBODY = 65534 };

/* Seizes its own child, which then has a tracer. */
static void tracer(int commands, int answers)
{
	pid_t pid = child_that_waits(commands);

	if (ptrace(PTRACE_SEIZE, pid, 0, 0))
		pid = 0;
	answer(answers, pid);
	wait_for_end(commands);
}

static void test_already_traced(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(victim_end) struct victim victim;
	char expected[256];
	pid_t traced;

	victim_start(&victim, tracer);
	traced = wait_answer(&victim);
	if (!traced)
		skip_because("kernel: a process cannot be traced here");
	capture = discover(traced);
	snap_discover_explain(capture, &capture->processes[0], NULL, EPERM);
	assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_ALREADY_TRACED);
	snprintf(expected, sizeof(expected),
		 "cannot trace %d: already traced by %d (%s); end that tracer first", (int)traced,
		 (int)victim.pid, capture->processes[0].name);
	assert_string_equal(capture->processes[0].trouble_message, expected);
}

static void test_kernel_threads(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = discover(2);

	/* In a container the number is free, or somebody else's. */
	if (!(capture->processes[0].flags & SNAP_PF_KTHREAD)) {
		/* A test that skips itself does not come back. */
		snap_capture_destroy(snap_take_ptr(capture));
		skip_because("kernel: no kernel thread is visible here");
	}
	assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_KERNEL_THREAD);
	snap_discover_explain(capture, &capture->processes[0], NULL, EPERM);
	assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_KERNEL_THREAD);
}

static void become_nobody(void)
{
	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		_exit(3);
}

static void undumpable_nobody(int commands, int answers)
{
	become_nobody();
	prctl(PR_SET_DUMPABLE, 0);
	answer(answers, 0);
	wait_for_end(commands);
}

/* The sentence as it reads for another user. */
static void explain_as_nobody(pid_t pid, char *text, size_t size)
{
	ssize_t length;
	int up[2], status;
	pid_t child;

	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		struct snap_capture *capture;
		const char *message;

		become_nobody();
		/* Without this its own files in procfs would be root's. */
		prctl(PR_SET_DUMPABLE, 1);
		capture = discover(pid);
		snap_discover_explain(capture, &capture->processes[0], NULL, EPERM);
		message = capture->processes[0].trouble_message;
		status = message && write(up[1], message, strlen(message)) > 0 ? 0 : 3;
		_exit(capture->processes[0].trouble == SNAP_TROUBLE_PERMISSION_DENIED ? status : 4);
	}
	close(up[1]);
	length = read(up[0], text, size - 1);
	close(up[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(length > 0);
	text[length] = '\0';
}

static void test_why_another_user_may_not(void **state _unused_)
{
	_cleanup_(victim_end) struct victim roots = { 0 }, nobodys = { 0 };
	char text[1024];

	if (getuid() != 0)
		skip_because(NOT_ROOT);
	victim_start(&roots, family);
	wait_answer(&roots);
	explain_as_nobody(roots.pid, text, sizeof(text));
	assert_non_null(strstr(text, "Operation not permitted (it belongs to user root, stacksnap "
				     "runs as user "));
	victim_start(&nobodys, undumpable_nobody);
	wait_answer(&nobodys);
	explain_as_nobody(nobodys.pid, text, sizeof(text));
	assert_non_null(strstr(text, "it is not dumpable"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_already_traced),
		cmocka_unit_test(test_kernel_threads),
		cmocka_unit_test(test_why_another_user_may_not),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
