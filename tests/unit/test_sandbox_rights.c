/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who the process in the sandbox is and what it may use up, as its parent sees it, and each lock
 * by itself, without those behind it.
 */
#include "sandboxed.h"
#include "skip.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <time.h>

enum { MEGABYTE = 1 << 20, PLENTY_MS = 20000 };

/* ---- who it is ---- */

/* Says that it is there, and stays until the channel is closed. */
static void wait_to_be_seen(struct sandboxed *child)
{
	char byte = 1;

	if (send(child->setting.channel, &byte, 1, MSG_NOSIGNAL) != 1)
		_exit(1);
	while (recv(child->setting.channel, &byte, 1, 0) > 0)
		;
}

static void read_status(pid_t pid, char *text, size_t size)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = read(fd, text, size - 1);
	assert_true(got > 0);
	text[got] = '\0';
	close(fd);
}

static void check_line(const char *status, const char *line)
{
	if (!strstr(status, line))
		fail_msg("no line %s in %s", line, status);
}

/* What holds of every process in the sandbox. */
static void check_powerless(const char *status)
{
	check_line(status, "\nCapInh:\t0000000000000000\n");
	check_line(status, "\nCapPrm:\t0000000000000000\n");
	check_line(status, "\nCapEff:\t0000000000000000\n");
	check_line(status, "\nCapAmb:\t0000000000000000\n");
	check_line(status, "\nNoNewPrivs:\t1\n");
	check_line(status, "\nSeccomp:\t2\n");
	check_line(status, "\nThreads:\t1\n");
}

static void start_and_look(struct sandboxed *child, char *status, size_t size)
{
	char byte;

	sandboxed_start(child, wait_to_be_seen);
	assert_int_equal(recv(child->channel, &byte, 1, 0), 1);
	read_status(child->pid, status, size);
}

static void leave(struct sandboxed *child)
{
	snap_close(&child->channel);
	assert_int_equal(sandboxed_end(child), 0);
}

static void test_is_powerless(void **state)
{
	struct sandboxed *child = *state;
	char status[8192], path[64];
	struct stat folder;

	start_and_look(child, status, sizeof(status));
	check_powerless(status);
	/* Files of a process that may not be dumped belong to root (proc(5)). */
	snprintf(path, sizeof(path), "/proc/%d/fd", child->pid);
	assert_int_equal(stat(path, &folder), 0);
	assert_int_equal(folder.st_uid, 0);
	leave(child);
}

/* The uid, which is the gid, too. */
static uid_t uid_of_child(const char *status)
{
	const char *found = strstr(status, "\nUid:\t");
	char line[64];
	unsigned uid = 0;

	assert_non_null(found);
	assert_int_equal(sscanf(found, "\nUid:\t%u", &uid), 1);
	for (int i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "\n%cid:\t%u\t%u\t%u\t%u\n", "UG"[i], uid, uid, uid,
			 uid);
		check_line(status, line);
	}
	return uid;
}

static void test_root_takes_a_uid_of_its_own(void **state)
{
	struct sandboxed *child = *state, other = sandboxed_init();
	char status[8192];
	uid_t uid;

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	start_and_look(&other, status, sizeof(status));
	uid = uid_of_child(status);
	leave(&other);
	sandboxed_deinit(&other);
	start_and_look(child, status, sizeof(status));
	check_powerless(status);
	assert_in_range(uid_of_child(status), 1u << 31, UINT32_MAX - 2);
	assert_int_not_equal(uid_of_child(status), uid);
	check_line(status, "\nGroups:\t \n");
	check_line(status, "\nCapBnd:\t0000000000000000\n");
	leave(child);
}

static void drop_setuid(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];

	syscall(SYS_capget, &header, sets);
	sets[0].effective &= ~(1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_SETPCAP);
	sets[0].permitted = sets[0].effective;
	syscall(SYS_capset, &header, sets);
}

/* In a process between, as what it gives up is gone. No line: a uid of a namespace with few. */
static void check_in_between(struct sandboxed *child, void (*before)(void), const char *line)
{
	pid_t between = fork();
	int status;

	if (between == 0) {
		char text[8192];

		before();
		start_and_look(child, text, sizeof(text));
		check_powerless(text);
		if (line)
			check_line(text, line);
		else
			assert_in_range(uid_of_child(text), 61184, 65519);
		leave(child);
		_exit(0);
	}
	assert_int_equal(waitpid(between, &status, 0), between);
	assert_int_equal(status, 0);
}

static void have_groups(void)
{
	static const gid_t groups[] = { 100, 60001 };

	syscall(SYS_setgroups, 2, groups);
}

static void test_root_leaves_its_groups(void **state)
{
	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	check_in_between(*state, have_groups, "\nGroups:\t \n");
}

static void test_root_that_may_not_change(void **state)
{
	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	check_in_between(*state, drop_setuid, "\nUid:\t0\t0\t0\t0\n");
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(77);
	close(fd);
}

/* A user namespace with one uid in it, as a container without privileges may be. */
static void enter_small_namespace(void)
{
	char map[32];

	snprintf(map, sizeof(map), "0 %u 1", (unsigned)geteuid());
	if (unshare(CLONE_NEWUSER) < 0)
		_exit(77);
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", map);
}

static void need_namespace(void (*enter)(void))
{
	pid_t attempt = fork();
	int status;

	if (attempt == 0) {
		enter();
		_exit(0);
	}
	assert_int_equal(waitpid(attempt, &status, 0), attempt);
	if (status != 0)
		skip_because("kernel: no user namespace can be made here");
}

static void test_namespace_of_one_uid(void **state)
{
	need_namespace(enter_small_namespace);
	check_in_between(*state, enter_small_namespace, "\nUid:\t0\t0\t0\t0\n");
}

/* One with 65,536 uids, as containers have; a process outside maps them. */
static void enter_usual_namespace(void)
{
	static const char map[] = "0 0 65536";
	char path[64], byte;
	int ends[2];
	pid_t mapper;

	if (pipe(ends) < 0)
		_exit(77);
	mapper = fork();
	if (mapper == 0) {
		if (read(ends[0], &byte, 1) != 1)
			_exit(77);
		snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)getppid());
		put(path, map);
		snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)getppid());
		put(path, map);
		_exit(0);
	}
	if (unshare(CLONE_NEWUSER) < 0 || write(ends[1], "x", 1) != 1)
		_exit(77);
	close(ends[0]);
	close(ends[1]);
	if (waitpid(mapper, NULL, 0) != mapper || geteuid() != 0)
		_exit(77);
}

static void test_namespace_without_high_uids(void **state)
{
	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	need_namespace(enter_usual_namespace);
	check_in_between(*state, enter_usual_namespace, NULL);
}

/* Does not look at its channel, whose end would be another reason to end. */
static void wait_to_be_killed(struct sandboxed *child)
{
	if (send(child->setting.channel, "x", 1, MSG_NOSIGNAL) == 1)
		poll(NULL, 0, 2 * PLENTY_MS);
}

/* Its maker dies: so does it, though the change of uid made the kernel forget. */
static void test_follows_its_maker(void **state)
{
	struct sandboxed *child = *state;
	struct pollfd end;
	int life[2], status;
	pid_t maker;

	assert_int_equal(pipe2(life, O_CLOEXEC), 0);
	maker = fork();
	if (maker == 0) {
		char byte;

		close(life[0]);
		sandboxed_start(child, wait_to_be_killed);
		if (recv(child->channel, &byte, 1, 0) != 1 || write(life[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	close(life[1]);
	assert_int_equal(read(life[0], &status, 1), 1);
	kill(maker, SIGKILL);
	assert_int_equal(waitpid(maker, &status, 0), maker);
	end = (struct pollfd){ .fd = life[0], .events = POLLIN };
	assert_int_equal(poll(&end, 1, PLENTY_MS), 1);
	close(life[0]);
}

/* ---- what it may use ---- */

static bool get(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return bytes != MAP_FAILED;
}

static void use_data(struct sandboxed *child)
{
	child->found[0] = get(100 * MEGABYTE);
	child->found[1] = get(100 * MEGABYTE);
	/* Read-only, it costs nothing; to write to it would. */
	child->found[2] = mmap(NULL, 300 * MEGABYTE, PROT_READ, MAP_PRIVATE, 50, 0) != MAP_FAILED;
}

/* The maker has more than the limit already; what the child gets comes on top. */
static void test_memory_is_limited(void **state)
{
	struct sandboxed *child = *state;
	void *much = mmap(NULL, 500 * MEGABYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	int file = memfd_create("large", MFD_CLOEXEC);

	assert_true(much != MAP_FAILED);
	assert_int_equal(ftruncate(file, 300 * MEGABYTE), 0);
	dup2(file, 50);
	close(file);
	child->setting.data_bytes = 150 * MEGABYTE;
	assert_int_equal(sandboxed_run(child, use_data), 0);
	close(50);
	munmap(much, 500 * MEGABYTE);
	assert_int_equal(child->found[0], 1);
	assert_int_equal(child->found[1], 0);
	assert_int_equal(child->found[2], 1);
}

static void compute(struct sandboxed *child)
{
	for (;;)
		child->found[0]++;
}

/* Whatever it does about the signal. */
static void compute_deaf(struct sandboxed *child)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	signal(SIGXCPU, SIG_IGN);
	compute(child);
}

static void test_time_is_limited(void **state)
{
	struct sandboxed *child = *state, deaf = sandboxed_init();
	int status, deaf_status;

	child->setting.cpu_s = 1;
	deaf.setting.cpu_s = 1;
	sandboxed_start(&deaf, compute_deaf);
	status = sandboxed_run(child, compute);
	deaf_status = sandboxed_end(&deaf);
	sandboxed_deinit(&deaf);
	assert_true(WIFSIGNALED(status) && WIFSIGNALED(deaf_status));
	assert_int_equal(WTERMSIG(status), SIGXCPU);
	assert_int_equal(WTERMSIG(deaf_status), SIGXCPU);
}

static void copy_descriptors(struct sandboxed *child)
{
	while (child->found[0] < 1000 && fcntl(0, F_DUPFD_CLOEXEC, 0) >= 0)
		child->found[0]++;
	child->found[1] = errno;
}

static void test_descriptors_are_limited(void **state)
{
	struct sandboxed *child = *state;

	assert_int_equal(sandboxed_run(child, copy_descriptors), 0);
	assert_true(child->found[0] >= 32 && child->found[0] < 64);
	assert_int_equal(child->found[1], EMFILE);
}

/* ---- one lock at a time ---- */

/* In a child that is not in the sandbox. */
static int in_child(struct sandboxed *child, void (*body)(struct sandboxed *child))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		body(child);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void close_files_and_open(struct sandboxed *child)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (snap_error_ignore(snap_sandbox_close_files()))
		_exit(1);
	child->found[0] = open("/proc/self/exe", O_RDONLY) < 0 ? errno : 0;
	child->found[1] = open("/tmp", O_TMPFILE | O_RDWR, 0600) < 0 ? errno : 0;
	child->found[2] = pread(50, child->found + 3, 4, 0);
}

static void test_landlock_alone(void **state)
{
	struct sandboxed *child = *state;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 1) {
		close(self);
		skip_because("kernel: no Landlock");
	}
	dup2(self, 50);
	close(self);
	assert_int_equal(in_child(child, close_files_and_open), 0);
	close(50);
	assert_int_equal(child->found[0], EACCES);
	assert_int_equal(child->found[1], EACCES);
	assert_int_equal(child->found[2], 4);
}

static void drop_rights_and_open(struct sandboxed *child)
{
	if (snap_error_ignore(snap_sandbox_drop_rights()))
		_exit(1);
	child->found[0] = open("/etc/shadow", O_RDONLY) < 0 ? errno : 0;
	child->found[1] = setuid(0) < 0 ? errno : 0;
	child->found[2] = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	child->found[3] = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	child->found[4] = kill(getppid(), 0) < 0 ? errno : 0;
}

static void test_rights_alone(void **state)
{
	struct sandboxed *child = *state;

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	assert_int_equal(in_child(child, drop_rights_and_open), 0);
	assert_int_equal(child->found[0], EACCES);
	assert_int_equal(child->found[1], EPERM);
	assert_int_equal(child->found[2], 0);
	assert_int_equal(child->found[3], 1);
	assert_int_equal(child->found[4], EPERM);
}

/* A return, to be called. */
static void run_data(struct sandboxed *child _unused_)
{
#if defined(__x86_64__)
	static const uint8_t code[] = { 0xc3 };
#else
	static const uint8_t code[] = { 0xc0, 0x03, 0x5f, 0xd6 };
#endif
	char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*function)(void);

	memcpy(bytes, code, sizeof(code));
	__builtin___clear_cache(bytes, bytes + sizeof(code));
	memcpy(&function, &bytes, sizeof(function));
	function();
}

/* Under setarch -X what may be read may be executed, and no call asks for it. */
static void test_data_does_not_run(void **state)
{
	int before = personality(0xffffffff), status;

	assert_true(personality((unsigned long)before | READ_IMPLIES_EXEC) >= 0);
	status = in_child(*state, run_data);
	assert_int_equal(status, 0);
	status = sandboxed_run(*state, run_data);
	personality((unsigned long)before);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static int start(void **state)
{
	static struct sandboxed child;

	child = sandboxed_init();
	*state = &child;
	return 0;
}

static int stop_child(void **state)
{
	sandboxed_deinit(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_is_powerless, start, stop_child),
		cmocka_unit_test_setup_teardown(test_root_takes_a_uid_of_its_own, start,
						stop_child),
		cmocka_unit_test_setup_teardown(test_root_leaves_its_groups, start, stop_child),
		cmocka_unit_test_setup_teardown(test_root_that_may_not_change, start, stop_child),
		cmocka_unit_test_setup_teardown(test_namespace_of_one_uid, start, stop_child),
		cmocka_unit_test_setup_teardown(test_namespace_without_high_uids, start,
						stop_child),
		cmocka_unit_test_setup_teardown(test_follows_its_maker, start, stop_child),
		cmocka_unit_test_setup_teardown(test_memory_is_limited, start, stop_child),
		cmocka_unit_test_setup_teardown(test_time_is_limited, start, stop_child),
		cmocka_unit_test_setup_teardown(test_descriptors_are_limited, start, stop_child),
		cmocka_unit_test_setup_teardown(test_landlock_alone, start, stop_child),
		cmocka_unit_test_setup_teardown(test_rights_alone, start, stop_child),
		cmocka_unit_test_setup_teardown(test_data_does_not_run, start, stop_child),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
