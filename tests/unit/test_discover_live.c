/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* discover on processes that the test starts itself. */
#include "discover/internal.h"
#include "proc/credentials.h"
#include "skip.h"
#include "victims.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void discover_again(struct snap_capture *capture, bool expected)
{
	const struct snap_options options = { .children = true };
	bool grown = !expected;

	assert_null(snap_discover_again(&options, capture, &grown));
	assert_int_equal(grown, expected);
}

static void test_live_descriptors(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(victim_end) struct victim victim;
	_cleanup_fd_ int fd = -1;
	const struct snap_live *live;
	struct stat own, found;
	pid_t child;

	victim_start(&victim, family);
	child = wait_answer(&victim);
	capture = discover(victim.pid);
	assert_int_equal(capture->process_count, 2);
	assert_int_equal(capture->processes[0].pid, victim.pid);
	assert_int_equal(capture->processes[0].ppid, getpid());
	assert_int_equal(capture->processes[1].pid, child);
	assert_int_equal(capture->processes[1].parent, 0);
	assert_int_equal(capture->processes[1].uid, getuid());
	live = &capture->live[1];
	assert_true(live->proc_fd >= 0);
	assert_int_equal(fcntl(live->proc_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(live->root_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(live->exe_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(live->files_fd, -1);
	if (live->pidfd >= 0) {
		struct pollfd wait = { .fd = live->pidfd, .events = POLLIN };

		assert_int_equal(fcntl(live->pidfd, F_GETFD), FD_CLOEXEC);
		assert_int_equal(poll(&wait, 1, 0), 0);
	}
	assert_int_equal(stat("/proc/self/exe", &own), 0);
	assert_int_equal(fstat(live->exe_fd, &found), 0);
	assert_int_equal(own.st_ino, found.st_ino);
	fd = snap_discover_open(&capture->processes[1]);
	assert_true(fd >= 0);
	/* A number that was given away is not the process. */
	capture->processes[1].start_ticks++;
	assert_int_equal(snap_discover_open(&capture->processes[1]), -ESRCH);
	assert_true(capture->processes[0].start_time_ns > capture->host.boot_time_ns);
	assert_true(capture->host.cpus > 0);
}

/* Each above another one that is asked about: the answers of both are kept. */
static void test_two_that_were_named(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	_cleanup_(victim_end) struct victim one, other;
	struct snap_options options = { .children = false, .target_count = 2 };
	struct snap_target targets[2];

	victim_start(&one, family);
	wait_answer(&one);
	victim_start(&other, family);
	wait_answer(&other);
	targets[0] = (struct snap_target){ .kind = SNAP_TARGET_PID, .pid = one.pid };
	targets[1] = (struct snap_target){ .kind = SNAP_TARGET_PID, .pid = other.pid };
	options.targets = targets;
	assert_null(snap_discover(&options, 10, capture));
	assert_int_equal(capture->process_count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_true(capture->processes[i].args_size > 0);
		assert_non_null(capture->processes[i].exe);
		assert_true(capture->processes[i].ancestor_count > 0);
		assert_true(capture->live[i].root_fd >= 0);
		assert_true(capture->live[i].exe_fd >= 0);
	}
	assert_int_equal(capture->warning_count, 0);
}

static void test_children_born_later(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(victim_end) struct victim victim;
	pid_t child;

	victim_start(&victim, family);
	wait_answer(&victim);
	capture = discover(victim.pid);
	discover_again(capture, false);
	assert_int_equal(capture->process_count, 2);
	/* More than the list has room for at first. */
	for (size_t i = 0; i < 20; i++) {
		tell(&victim);
		child = wait_answer(&victim);
		discover_again(capture, true);
		assert_int_equal(capture->process_count, 3 + i);
		assert_int_equal(capture->processes[2 + i].pid, child);
		assert_int_equal(capture->processes[2 + i].parent, 0);
		assert_int_equal(capture->processes[2 + i].trouble, SNAP_TROUBLE_NONE);
		assert_true(capture->live[2 + i].proc_fd >= 0);
	}
	discover_again(capture, false);
}

static void parent_of_zombie(int commands, int answers)
{
	pid_t pid = fork();
	siginfo_t info;

	if (pid == 0)
		_exit(0);
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	answer(answers, pid);
	wait_for_end(commands);
}

static void test_zombies(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL, *alone = NULL;
	_cleanup_(victim_end) struct victim victim;
	pid_t zombie;

	victim_start(&victim, parent_of_zombie);
	zombie = wait_answer(&victim);
	capture = discover(victim.pid);
	assert_int_equal(capture->process_count, 2);
	assert_int_equal(capture->processes[1].pid, zombie);
	assert_int_equal(capture->processes[1].trouble, SNAP_TROUBLE_ZOMBIE);
	assert_int_equal(capture->live[1].pidfd, -1);
	assert_non_null(capture->processes[1].name);
	alone = discover(zombie);
	assert_int_equal(alone->process_count, 1);
	assert_int_equal(alone->processes[0].trouble, SNAP_TROUBLE_ZOMBIE);
	assert_true(alone->processes[0].is_target);
	snap_discover_explain(alone, &alone->processes[0], NULL, EPERM);
	assert_int_equal(alone->processes[0].trouble, SNAP_TROUBLE_ZOMBIE);
}

/* The child of a child that has gone belongs to whom it was given to. */
static void subreaper(int commands, int answers)
{
	pid_t middle;
	int up[2], orphan = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (pipe2(up, O_CLOEXEC))
		_exit(3);
	middle = fork();
	if (middle == 0) {
		pid_t pid = fork();

		if (pid == 0) {
			wait_for_end(commands);
			_exit(0);
		}
		answer(up[1], pid);
		_exit(0);
	}
	waitpid(middle, NULL, 0);
	if (read(up[0], &orphan, sizeof(orphan)) != (ssize_t)sizeof(orphan))
		_exit(3);
	answer(answers, orphan);
	wait_for_end(commands);
}

static void test_orphans(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(victim_end) struct victim victim;
	pid_t orphan;

	victim_start(&victim, subreaper);
	orphan = wait_answer(&victim);
	capture = discover(victim.pid);
	assert_int_equal(capture->process_count, 2);
	assert_int_equal(capture->processes[1].pid, orphan);
	assert_int_equal(capture->processes[1].ppid, victim.pid);
}

static void *second_thread(void *argument)
{
	const int *fds = argument;

	answer(fds[1], (int)syscall(SYS_gettid));
	wait_for_end(fds[0]);
	return NULL;
}

static void two_threads(int commands, int answers)
{
	int fds[2] = { commands, answers };
	pthread_t thread;

	if (pthread_create(&thread, NULL, second_thread, fds) == 0)
		pthread_join(thread, NULL);
}

/* The first thread leaves, its process stays. */
static void leader_leaves(int commands, int answers)
{
	static int fds[2];
	pthread_t thread;

	fds[0] = commands;
	fds[1] = answers;
	if (pthread_create(&thread, NULL, second_thread, fds) == 0)
		pthread_exit(NULL);
}

static void test_a_thread_given_as_process(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(victim_end) struct victim victim;
	char expected[128];
	pid_t tid;

	victim_start(&victim, two_threads);
	tid = wait_answer(&victim);
	assert_true(tid != victim.pid);
	capture = discover(tid);
	assert_int_equal(capture->process_count, 1);
	assert_int_equal(capture->processes[0].pid, victim.pid);
	assert_true(capture->processes[0].is_target);
	assert_int_equal(capture->warning_count, 1);
	assert_string_equal(capture->warnings[0].code, "tid_given");
	assert_int_equal(capture->warnings[0].pid, victim.pid);
	assert_int_equal(capture->warnings[0].tid, tid);
	snprintf(expected, sizeof(expected), "%d is a thread of %d, which is shown instead",
		 (int)tid, (int)victim.pid);
	assert_string_equal(capture->warnings[0].message, expected);
}

static void test_a_leader_that_has_left(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(victim_end) struct victim victim;
	const struct snap_process *process;
	struct pollfd leader;
	struct stat own, found;
	char path[64], text[512] = "";
	pid_t tid;

	victim_start(&victim, leader_leaves);
	tid = wait_answer(&victim);
	/* The thread may have been quicker than the leader's exit: wait until that is seen. */
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)victim.pid);
	while (!strstr(text, ") Z ")) {
		_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

		assert_true(read(fd, text, sizeof(text) - 1) > 0);
		sched_yield();
	}
	capture = discover(victim.pid);
	assert_int_equal(capture->process_count, 1);
	process = &capture->processes[0];
	assert_int_equal(process->pid, victim.pid);
	assert_int_equal(process->trouble, SNAP_TROUBLE_NONE);
	/* What the leader cannot tell any more, its thread can. */
	assert_int_not_equal(process->state, 'Z');
	assert_non_null(process->exe);
	assert_true(process->args_size > 0);
	assert_int_equal(stat("/proc/self/exe", &own), 0);
	assert_int_equal(fstat(capture->live[0].exe_fd, &found), 0);
	assert_int_equal(own.st_ino, found.st_ino);
	assert_int_equal(stat("/", &own), 0);
	assert_int_equal(fstat(capture->live[0].root_fd, &found), 0);
	assert_int_equal(own.st_ino, found.st_ino);
	snprintf(path, sizeof(path), "/proc/%d/map_files", (int)tid);
	assert_int_equal(stat(path, &own), 0);
	assert_int_equal(fstatat(capture->live[0].files_fd, "map_files", &found, 0), 0);
	assert_int_equal(own.st_ino, found.st_ino);
	/* Its threads are still those of the process. */
	assert_int_equal(faccessat(capture->live[0].proc_fd, "task", R_OK, 0), 0);
	leader = (struct pollfd){ .fd = capture->live[0].pidfd, .events = POLLIN };
	assert_int_equal(poll(&leader, 1, 0), 0);
}

/* Between the look at the tree and the look at the process it goes, or another gets its number. */
static void test_gone_meanwhile(void **state _unused_)
{
	_cleanup_(snap_discovery_deinit) struct snap_discovery run = { 0 };
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	const struct snap_options options = { .children = true };
	_cleanup_(victim_end) struct victim victim;
	struct snap_process *process;
	pid_t pid;

	victim_start(&victim, family);
	wait_answer(&victim);
	pid = victim.pid;
	assert_null(snap_procfs_open(NULL, &procfs));
	assert_null(snap_discovery_init(&run, &options, capture, &procfs, getpid()));
	assert_null(snap_discovery_host(capture, &procfs));
	assert_null(snap_discovery_append(&run, pid, SIZE_MAX, &process));
	process->start_ticks = 1;
	assert_null(snap_discovery_facts(&run));
	victim_end(&victim);
	assert_null(snap_discovery_append(&run, pid, SIZE_MAX, &process));
	assert_null(snap_discovery_facts(&run));
	for (size_t i = 0; i < 2; i++) {
		assert_true(capture->processes[i].vanished);
		assert_int_equal(capture->processes[i].trouble, SNAP_TROUBLE_EXITED);
		assert_int_equal(capture->live[i].pidfd, -1);
		assert_int_equal(capture->live[i].proc_fd, -1);
		/* What was read by the number may be another's. */
		assert_null(capture->processes[i].exe);
		assert_null(capture->processes[i].args);
	}
	snap_discover_explain(capture, &capture->processes[0], NULL, EPERM);
	assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_EXITED);
	discover_again(capture, false);
}

static void churn(int commands, int answers)
{
	struct pollfd end = { .fd = commands, .events = POLLIN };

	answer(answers, 0);
	while (poll(&end, 1, 0) == 0) {
		pid_t pid = fork();

		if (pid == 0) {
			/* Half of them leave a child behind that outlives them. */
			if (getpid() & 1 && fork() == 0)
				_exit(0);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

static void test_a_tree_that_never_stands_still(void **state _unused_)
{
	_cleanup_(victim_end) struct victim victim;

	victim_start(&victim, churn);
	wait_answer(&victim);
	for (int i = 0; i < 50; i++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
		const struct snap_options options = { .children = true };
		bool grown;

		capture = discover(victim.pid);
		assert_null(snap_discover_again(&options, capture, &grown));
		assert_int_equal(capture->processes[0].pid, victim.pid);
		assert_int_equal(capture->processes[0].trouble, SNAP_TROUBLE_NONE);
		for (size_t k = 1; k < capture->process_count; k++)
			assert_true(capture->processes[k].parent < k);
	}
}

static void test_descriptors_are_given_back(void **state _unused_)
{
	_cleanup_(victim_end) struct victim victim;
	int before, after;

	victim_start(&victim, family);
	wait_answer(&victim);
	before = dup(0);
	close(before);
	for (int i = 0; i < 20; i++) {
		struct snap_capture *capture = discover(victim.pid);

		discover_again(capture, false);
		snap_discover_explain(capture, &capture->processes[0], NULL, EPERM);
		snap_capture_destroy(capture);
	}
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

/* With few of them the first processes get all of theirs, some their directory, others none. */
static void test_few_descriptors(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(victim_end) struct victim victim;
	struct rlimit limit, small;
	size_t whole = 0, part = 0;

	victim_start(&victim, family);
	wait_answer(&victim);
	for (int i = 0; i < 60; i++) {
		tell(&victim);
		wait_answer(&victim);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	small = (struct rlimit){ .rlim_cur = 100, .rlim_max = limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
	capture = discover(victim.pid);
	discover_again(capture, false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(capture->process_count, 62);
	for (size_t i = 0; i < capture->process_count; i++) {
		_cleanup_fd_ int fd = snap_discover_open(&capture->processes[i]);

		assert_true(fd >= 0);
		assert_int_equal(capture->processes[i].trouble, SNAP_TROUBLE_NONE);
		whole += capture->live[i].exe_fd >= 0;
		part += capture->live[i].exe_fd < 0 && capture->live[i].proc_fd >= 0;
	}
	assert_int_equal(whole, 4);
	assert_int_equal(part, 20);
	assert_true(capture->live[0].exe_fd >= 0);
	assert_int_equal(capture->live[61].proc_fd, -1);
}

static void gives_up_rights(int commands, int answers)
{
	answer(answers, 0);
	command(commands);
	if (setresuid(65534, 65534, 65534))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	answer(answers, 1);
	command(commands);
	execlp("sleep", "sleep", "60", (char *)NULL);
}

static int open_victim(const struct victim *victim, const char *folder)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", victim->pid, folder);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* They are of the look only if neither rights nor program have changed. */
static void test_credentials(void **state _unused_)
{
	_cleanup_(victim_end) struct victim victim;
	_cleanup_fd_ int fd = -1, task_fd = -1;
	struct snap_credentials before, after;
	char path[32], byte;

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	victim_start(&victim, gives_up_rights);
	wait_answer(&victim);
	fd = open_victim(&victim, "");
	snprintf(path, sizeof(path), "task/%d", victim.pid);
	task_fd = open_victim(&victim, path);
	assert_true(fd >= 0 && task_fd >= 0);
	snap_credentials_begin(fd, &before);
	assert_true(before.known && before.program && !before.is_confined);
	assert_int_equal(before.uid, 0);
	assert_true(snap_credentials_hold(fd, &before));
	assert_true(snap_credentials_hold(task_fd, &before));
	tell(&victim);
	wait_answer(&victim);
	assert_false(snap_credentials_hold(fd, &before));
	snap_credentials_begin(fd, &after);
	assert_int_equal(after.uid, 65534);
	assert_true(after.program == before.program);
	assert_true(snap_credentials_hold(fd, &after));
	tell(&victim);
	assert_int_equal(read(victim.answers, &byte, 1), 0);
	assert_false(snap_credentials_hold(fd, &after));
	/* Of a process that has gone nothing is known. */
	kill(victim.pid, SIGKILL);
	waitpid(victim.pid, NULL, 0);
	victim.pid = 0;
	snap_credentials_begin(fd, &before);
	assert_false(before.known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live_descriptors),
		cmocka_unit_test(test_two_that_were_named),
		cmocka_unit_test(test_children_born_later),
		cmocka_unit_test(test_zombies),
		cmocka_unit_test(test_orphans),
		cmocka_unit_test(test_a_thread_given_as_process),
		cmocka_unit_test(test_a_leader_that_has_left),
		cmocka_unit_test(test_gone_meanwhile),
		cmocka_unit_test(test_a_tree_that_never_stands_still),
		cmocka_unit_test(test_descriptors_are_given_back),
		cmocka_unit_test(test_few_descriptors),
		cmocka_unit_test(test_credentials),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
