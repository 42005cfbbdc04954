/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Root becomes a user and executes a program that only root may read, at the very moment when the tool
 * looks: no function of that program is named. That program is this one, with another name for a
 * function, at the same addresses; the linker sends here what the tool does at that moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/options.h"
#include "files/files.h"
#include "fine.h"
#include "pipeline.h"
#include "proc/address_space.h"
#include "proc/credentials.h"
#include "skip.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER = 65534, TIMES = 10 };

enum moment { NEVER, MAPPINGS, OPENING };

static struct bed {
	enum moment moment;
	pid_t pid;
	char folder[64];
	char plain[96], royal[96], orders[96]; /* two programs, a FIFO */
} bed;

/* ---- the process ---- */

/* Called by a name of its own in either program. */
__attribute__((noipa)) static char plain_hold(void)
{
	char order = 0;

	while (read(STDIN_FILENO, &order, 1) != 1)
		;
	return order;
}

/* 's': becomes a user. 'x': executes the other program. */
static int obey(char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		switch (plain_hold()) {
		case 's':
			if (setgroups(0, NULL) || setresgid(USER, USER, USER) ||
			    setresuid(USER, USER, USER))
				return 1;
			break;
		case 'x':
			execv(argv[2], argv);
			return 1;
		}
}

static bool runs(const char *program)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/%d/exe", bed.pid);
	length = readlink(link, path, sizeof(path));
	return length == (ssize_t)strlen(program) && memcmp(path, program, strlen(program)) == 0;
}

/* It is at rest again: nor is it in the middle of an exec. */
static bool has_obeyed(const char *program, unsigned uid)
{
	char path[64], text[2048];
	char wanted[32];
	ssize_t length;
	int fd;

	if (!runs(program))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", bed.pid);
	snprintf(wanted, sizeof(wanted), "\nUid:\t%u\t", uid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	return strstr(text, wanted) && strstr(text, "\nState:\tS");
}

static void order(const char *orders, const char *program, unsigned uid)
{
	int fd = open(bed.orders, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || write(fd, orders, strlen(orders)) < 0)
		abort();
	close(fd);
	/* Not for ever: it may have been stopped. */
	for (int i = 0; i < 2000 && !has_obeyed(program, uid); i++)
		usleep(100);
}

static void change(enum moment moment)
{
	if (bed.moment == moment && !runs(bed.royal))
		order("sx", bed.royal, USER);
}

/* ---- what the tool does ---- */

int __real_snap_space_read_maps(const struct snap_space_reader *reader, int maps_fd,
				struct snap_space *space);
int __wrap_snap_space_read_maps(const struct snap_space_reader *reader, int maps_fd,
				struct snap_space *space);
struct stacksnap_error *__real_snap_files_create(const struct snap_options *options,
						 const struct snap_capture *capture,
						 struct snap_files **ret);
struct stacksnap_error *__wrap_snap_files_create(const struct snap_options *options,
						 const struct snap_capture *capture,
						 struct snap_files **ret);

int __wrap_snap_space_read_maps(const struct snap_space_reader *reader, int maps_fd,
				struct snap_space *space)
{
	change(MAPPINGS);
	return __real_snap_space_read_maps(reader, maps_fd, space);
}

struct stacksnap_error *__wrap_snap_files_create(const struct snap_options *options,
						 const struct snap_capture *capture,
						 struct snap_files **ret)
{
	change(OPENING);
	return __real_snap_files_create(options, capture, ret);
}

/* ---- tests ---- */

static void copy_program(const char *path, const char *name, mode_t mode)
{
	static const char old[] = "plain_hold";
	_cleanup_fd_ int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	struct stat info;
	char *bytes;

	assert_int_equal(fstat(from, &info), 0);
	bytes = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, from, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	for (char *at = bytes;
	     (at = memmem(at, (size_t)(bytes + info.st_size - at), old, sizeof(old)));
	     at += sizeof(old))
		memcpy(at, name, sizeof(old));
	assert_int_equal(write(to, bytes, (size_t)info.st_size), info.st_size);
	assert_int_equal(fchmod(to, mode), 0);
	munmap(bytes, (size_t)info.st_size);
}

static int set_up(void **state _unused_)
{
	if (geteuid() != 0)
		return 0;
	strcpy(bed.folder, "/tmp/stacksnap-test-XXXXXX");
	if (!mkdtemp(bed.folder) || chmod(bed.folder, 0755))
		return 1;
	snprintf(bed.plain, sizeof(bed.plain), "%s/plain", bed.folder);
	snprintf(bed.royal, sizeof(bed.royal), "%s/royal", bed.folder);
	snprintf(bed.orders, sizeof(bed.orders), "%s/orders", bed.folder);
	copy_program(bed.plain, "plain_hold", 0755);
	copy_program(bed.royal, "royal_hold", 0711);
	return mkfifo(bed.orders, 0600);
}

static int tear_down(void **state _unused_)
{
	unlink(bed.plain);
	unlink(bed.royal);
	unlink(bed.orders);
	rmdir(bed.folder);
	return 0;
}

/* Both programs have the same addresses if these are not random. */
static void start(bool is_random)
{
	bed.pid = fork();
	if (bed.pid == 0) {
		personality(is_random ? 0 : ADDR_NO_RANDOMIZE);
		dup2(open(bed.orders, O_RDWR), STDIN_FILENO);
		execl(bed.plain, bed.plain, "obey", bed.royal, NULL);
		_exit(127);
	}
	assert_true(bed.pid > 0);
	while (!has_obeyed(bed.plain, 0))
		usleep(100);
}

static void end(void)
{
	kill(bed.pid, SIGKILL);
	waitpid(bed.pid, NULL, 0);
}

/* What a snapshot says of it that is taken while it changes. */
static char *text_of(enum moment moment, const char *option)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;
	struct snap_snapshot *snapshot = NULL;
	struct snap_options options;
	char number[16], *text = NULL;
	size_t size = 0;
	FILE *out;

	start(false);
	snap_options_init(&options);
	snprintf(number, sizeof(number), "%d", (int)bed.pid);
	fine(snap_options_set(&options, "pid", number));
	if (option)
		fine(snap_options_set(&options, option, NULL));
	bed.moment = moment;
	fine(snap_pipeline_take(&options, &snapshot, &collector));
	bed.moment = NEVER;
	out = open_memstream(&text, &size);
	fine(snap_pipeline_render_snapshot(snapshot, false, &options, "json", out));
	fclose(out);
	assert_int_equal(runs(bed.royal), moment != NEVER);
	snap_snapshot_destroy(snapshot);
	snap_options_deinit(&options);
	end();
	return text;
}

static void check(enum moment moment)
{
	static const char *const options[] = { NULL, "no-stop" };

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	for (int i = 0; i < TIMES; i++) {
		_cleanup_free_ char *text = text_of(moment, options[i % 2]);

		if (strstr(text, "royal_hold"))
			fail_msg("%s", text);
		/* What root runs is named, and is that program when it was looked at. */
		if (moment == NEVER && !strstr(text, "plain_hold"))
			fail_msg("%s", text);
	}
}

static void test_it_does_not_change(void **state _unused_)
{
	check(NEVER);
}

static void test_it_changes_before_its_mappings_are_read(void **state _unused_)
{
	check(MAPPINGS);
}

static void test_it_changes_before_its_files_are_opened(void **state _unused_)
{
	check(OPENING);
}

/* Of any two looks, between which it changes. */
static void test_credentials_hold(void **state _unused_)
{
	static const struct {
		const char *orders;
		unsigned uid;
		bool executes;
	} rows[] = { { "s", USER, false }, { "x", 0, true }, { "sx", USER, true } };

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_credentials credentials;
		char path[64];
		int fd;

		start(true);
		snprintf(path, sizeof(path), "/proc/%d", bed.pid);
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		snap_credentials_begin(fd, &credentials);
		assert_true(credentials.known && credentials.uid == 0);
		assert_true(snap_credentials_hold(fd, &credentials));
		order(rows[i].orders, rows[i].executes ? bed.royal : bed.plain, rows[i].uid);
		assert_false(snap_credentials_hold(fd, &credentials));
		snap_credentials_begin(fd, &credentials);
		assert_true(snap_credentials_hold(fd, &credentials));
		assert_int_equal(credentials.uid, rows[i].uid);
		close(fd);
		end();
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_credentials_hold),
		cmocka_unit_test(test_it_does_not_change),
		cmocka_unit_test(test_it_changes_before_its_mappings_are_read),
		cmocka_unit_test(test_it_changes_before_its_files_are_opened),
	};

	if (argc == 3 && strcmp(argv[1], "obey") == 0)
		return obey(argv);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
