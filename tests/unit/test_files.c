/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lib/files on directories made here: what is found, in which order, and what is refused. The
 * process is made up: its root is a temporary directory.
 */
#include "files/files.h"
#include "skip.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

struct world {
	char directory[64];
	struct snap_capture capture;
	struct snap_process process;
	struct snap_live live;
	struct snap_map maps[4];
	struct snap_options options;
	struct snap_files *files;
};

static char *at(const struct world *world, const char *path)
{
	static char text[PATH_MAX];

	snprintf(text, sizeof(text), "%s/%s", world->directory, path);
	return text;
}

static void make_directories(const struct world *world, const char *path)
{
	char text[PATH_MAX];

	snprintf(text, sizeof(text), "%s/%s", world->directory, path);
	for (char *p = text + strlen(world->directory) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(text, 0755);
		*p = '/';
	}
}

static void put(const struct world *world, const char *path, const char *bytes)
{
	FILE *file;

	make_directories(world, path);
	file = fopen(at(world, path), "w");
	assert_non_null(file);
	fputs(bytes, file);
	fclose(file);
}

/* The mapping is of this file from here on. */
static void map(struct world *world, const char *path)
{
	struct stat info;

	assert_int_equal(stat(at(world, path), &info), 0);
	world->maps[0].inode = info.st_ino;
	world->maps[0].dev_major = major(info.st_dev);
	world->maps[0].dev_minor = minor(info.st_dev);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	static const char *debug_dirs[1];

	strcpy(world->directory, "/tmp/stacksnap-test-XXXXXX");
	assert_non_null(mkdtemp(world->directory));
	mkdir(at(world, "root"), 0755);
	mkdir(at(world, "debug"), 0755);
	world->live =
		(struct snap_live){ .pidfd = -1, .proc_fd = -1, .exe_fd = -1, .files_fd = -1 };
	world->live.root_fd = open(at(world, "root"), O_PATH | O_DIRECTORY);
	assert_true(world->live.root_fd >= 0);
	world->maps[0] = (struct snap_map){
		.start = 0x1000, .end = 0x2000, .inode = 7, .execute = true, .path = "/lib/libx.so"
	};
	world->process = (struct snap_process){
		.pid = 4711, .ns_pid = 12, .uid = getuid(), .maps = world->maps, .map_count = 1
	};
	world->process.credentials =
		(struct snap_credentials){ .known = true, .uid = getuid(), .gid = getgid() };
	world->capture.processes = &world->process;
	world->capture.process_count = 1;
	world->capture.live = &world->live;
	snap_arena_init(&world->capture.arena);
	debug_dirs[0] = strdup(at(world, "debug"));
	world->options.debug_dirs = debug_dirs;
	world->options.debug_dir_count = 1;
	assert_null(snap_files_create(&world->options, &world->capture, &world->files));
	*state = world;
	return 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
	(void)info, (void)type, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct world *world = *state;

	snap_files_destroy(world->files);
	snap_arena_deinit(&world->capture.arena);
	snap_live_close(&world->live);
	nftw(world->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free((char *)world->options.debug_dirs[0]);
	free(world);
	return 0;
}

/* What a request finds: the file's text, or the code of the error as "!N". */
static const char *ask(struct world *world, struct snap_file_request request)
{
	struct snap_file_finder finder = snap_files_finder(world->files);
	static char text[256];
	struct stacksnap_error *err;
	ssize_t n;
	int fd = -1;

	request.process = &world->process;
	err = finder.find(finder.context, &request, &fd);
	if (err) {
		snprintf(text, sizeof(text), "!%d", snap_error_code(err));
		snap_error_destroy(err);
		assert_int_equal(fd, -1);
		return text;
	}
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	close(fd);
	return text;
}

static const char not_found[] = "!2", format[] = "!6", permission[] = "!7", os[] = "!4";

static void test_module_in_root(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };

	assert_string_equal(ask(world, request), not_found);
	put(world, "root/lib/libx.so", "inside");
	/* Something else in its place: it has another inode, or lies on another device. */
	assert_string_equal(ask(world, request), permission);
	map(world, "root/lib/libx.so");
	world->maps[0].dev_minor++;
	assert_string_equal(ask(world, request), permission);
	world->maps[0].dev_minor--;
	assert_string_equal(ask(world, request), "inside");
	request.attempt = 1;
	assert_string_equal(ask(world, request), not_found);
	/* The kernel writes no such path; who made a capture might. */
	world->maps[0].path = "/../../lib/libx.so";
	request.attempt = 0;
	assert_string_equal(ask(world, request), not_found);
	world->maps[0].path = "/lib/..";
	assert_string_equal(ask(world, request), not_found);
	put(world, "root/lib/..x", "dots");
	map(world, "root/lib/..x");
	world->maps[0].path = "/lib/..x";
	assert_string_equal(ask(world, request), "dots");
	/* A newline, as the kernel writes it, or a name that looks like one: the latter comes
	 * first. */
	world->maps[0].path = "/lib/a\\012b\\012";
	put(world, "root/lib/a\nb\n", "newlines");
	map(world, "root/lib/a\nb\n");
	assert_string_equal(ask(world, request), "newlines");
	put(world, "root/lib/a\\012b\\012", "digits");
	assert_string_equal(ask(world, request), permission);
	request.attempt = 1;
	assert_string_equal(ask(world, request), "newlines");
}

/* A recording keeps no descriptors of most processes: their root is this host's. */
static void test_nothing_open_is_this_host(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };
	struct snap_file_request perf_map = { .kind = SNAP_FILE_PERF_MAP };
	char path[PATH_MAX], perf[64];
	FILE *file;

	snap_live_close(&world->live);
	put(world, "root/lib/libx.so", "inside");
	assert_string_equal(ask(world, request), not_found);
	map(world, "root/lib/libx.so");
	world->maps[0].path = strcpy(path, at(world, "root/lib/libx.so"));
	assert_string_equal(ask(world, request), "inside");
	/* The number of another namespace would be somebody else's here. */
	snprintf(perf, sizeof(perf), "/tmp/perf-%d.map", getpid());
	file = fopen(perf, "w");
	assert_non_null(file);
	fputs("map", file);
	fclose(file);
	world->process.ns_pid = getpid();
	assert_string_equal(ask(world, perf_map), not_found);
	world->process.pid = getpid();
	assert_string_equal(ask(world, perf_map), "map");
	unlink(perf);
}

/* What has no name is found by its mapping; the survivor of a leader that has left comes first. */
static void test_module_by_mapping(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };

	put(world, "process/map_files/1000-2000", "process");
	put(world, "thread/map_files/1000-2000", "thread");
	assert_string_equal(ask(world, request), not_found);
	world->live.proc_fd = open(at(world, "process"), O_PATH | O_DIRECTORY);
	assert_string_equal(ask(world, request), "process");
	world->live.files_fd = open(at(world, "thread"), O_PATH | O_DIRECTORY);
	assert_string_equal(ask(world, request), "thread");
}

/* A symbolic link of the target is followed, but not out of its root. */
static void test_links_stay_inside(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };

	put(world, "secret", "outside");
	put(world, "root/real/libx.so", "real");
	map(world, "root/real/libx.so");
	assert_int_equal(symlink("/real", at(world, "root/lib")), 0);
	assert_string_equal(ask(world, request), "real");
	unlink(at(world, "root/lib"));
	mkdir(at(world, "root/lib"), 0755);
	assert_int_equal(symlink("../../secret", at(world, "root/lib/libx.so")), 0);
	assert_string_equal(ask(world, request), not_found);
}

/* Would hang in open() if it were opened. */
static void test_fifo_is_not_opened(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };

	make_directories(world, "root/lib/libx.so");
	assert_int_equal(mkfifo(at(world, "root/lib/libx.so"), 0600), 0);
	map(world, "root/lib/libx.so");
	assert_string_equal(ask(world, request), format);
	unlink(at(world, "root/lib/libx.so"));
	mkdir(at(world, "root/lib/libx.so"), 0755);
	map(world, "root/lib/libx.so");
	assert_string_equal(ask(world, request), format);
}

static void test_deleted_module(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };

	put(world, "root/lib/libx.so", "new");
	put(world, "old", "old");
	world->maps[0].deleted = true;
	world->process.exe = "/lib/libx.so";
	world->live.exe_fd = open(at(world, "old"), O_PATH);
	assert_string_equal(ask(world, request), "old");
	request.attempt = 1;
	assert_string_equal(ask(world, request), "new");
	close(world->live.exe_fd);
}

static void test_debug_by_build_id(void **state)
{
	struct world *world = *state;
	static const uint8_t id[] = { 0xab, 0xcd, 0x01 };
	struct snap_file_request request = { .kind = SNAP_FILE_DEBUG,
					     .build_id = id,
					     .build_id_size = sizeof(id) };

	assert_string_equal(ask(world, request), not_found);
	put(world, "root/usr/lib/debug/.build-id/ab/cd01.debug", "target's");
	assert_string_equal(ask(world, request), "target's");
	put(world, "debug/.build-id/ab/cd01.debug", "option's");
	assert_string_equal(ask(world, request), "option's");
	request.attempt = 1;
	assert_string_equal(ask(world, request), "target's");
	request.attempt = 2;
	assert_string_equal(ask(world, request), not_found);
}

static void test_debug_link(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_DEBUG_LINK, .name = "x.debug" };

	put(world, "root/lib/.debug/x.debug", "sub");
	put(world, "root/usr/lib/debug/lib/x.debug", "global");
	assert_string_equal(ask(world, request), "sub");
	request.attempt = 1;
	assert_string_equal(ask(world, request), "global");
	request.attempt = 0;
	put(world, "root/lib/x.debug", "beside");
	assert_string_equal(ask(world, request), "beside");
	request.name = "../lib/x.debug";
	assert_string_equal(ask(world, request), not_found);
	request.name = "..";
	assert_string_equal(ask(world, request), not_found);
}

static void test_alt(void **state)
{
	struct world *world = *state;
	static const uint8_t id[] = { 0xab, 0xcd };
	struct snap_file_request request = {
		.kind = SNAP_FILE_ALT, .name = "alt", .build_id = id, .build_id_size = sizeof(id)
	};

	put(world, "root/usr/lib/debug/.dwz/alt", "dwz");
	assert_string_equal(ask(world, request), "dwz");
	put(world, "root/usr/lib/debug/.build-id/ab/cd.debug", "id");
	assert_string_equal(ask(world, request), "id");
	request.attempt = 1;
	assert_string_equal(ask(world, request), "dwz");
}

static void test_perf_map(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_PERF_MAP };

	assert_string_equal(ask(world, request), not_found);
	put(world, "root/tmp/perf-12.map", "map");
	assert_string_equal(ask(world, request), "map");
	world->options.perf_map = SNAP_PERF_MAP_NEVER;
	assert_string_equal(ask(world, request), not_found);
	world->options.perf_map = SNAP_PERF_MAP_ALWAYS;
	assert_string_equal(ask(world, request), "map");
	put(world, "root/tmp/other", "map");
	unlink(at(world, "root/tmp/perf-12.map"));
	assert_int_equal(symlink("other", at(world, "root/tmp/perf-12.map")), 0);
	assert_string_equal(ask(world, request), permission);
	unlink(at(world, "root/tmp/perf-12.map"));
	assert_int_equal(mkfifo(at(world, "root/tmp/perf-12.map"), 0600), 0);
	assert_string_equal(ask(world, request), permission);
	unlink(at(world, "root/tmp/perf-12.map"));
	put(world, "root/tmp/perf-12.map", "map");
	{
		char other[PATH_MAX];

		strcpy(other, at(world, "root/tmp/second"));
		assert_int_equal(link(at(world, "root/tmp/perf-12.map"), other), 0);
	}
	assert_string_equal(ask(world, request), permission);
}

/* As root: another user's process. What he may not read is not read for him, but what he runs. */
static void test_files_of_another_user(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };
	struct snap_file_request named = { .kind = SNAP_FILE_DEBUG_LINK, .name = "x.debug" };

	if (geteuid() != 0)
		skip_because(NOT_ROOT);
	world->process.uid = 65534;
	world->process.credentials.known = false; /* then it is that of uid 65534 */
	assert_int_equal(chmod(world->directory, 0755), 0);
	put(world, "root/lib/libx.so", "inside");
	map(world, "root/lib/libx.so");
	assert_string_equal(ask(world, request), "inside");
	chmod(at(world, "root/lib/libx.so"), 0711);
	assert_string_equal(ask(world, request), os);
	chmod(at(world, "root/lib/libx.so"), 0755);
	chmod(at(world, "root/lib"), 0700);
	assert_string_equal(ask(world, request), os);
	chmod(at(world, "root/lib"), 0755);

	put(world, "root/lib/x.debug", "shadow");
	assert_string_equal(ask(world, named), "shadow");
	chmod(at(world, "root/lib/x.debug"), 0640);
	assert_string_equal(ask(world, named), os);
	assert_int_equal(chown(at(world, "root/lib/x.debug"), 65534, 0), 0);
	assert_string_equal(ask(world, named), "shadow");
	assert_int_equal(chown(at(world, "root/lib/x.debug"), 1, 1), 0);
	assert_string_equal(ask(world, named), permission);
	unlink(at(world, "root/lib/x.debug"));
	put(world, "root/usr/lib/debug/lib/x.debug", "shadow");
	assert_string_equal(ask(world, named), "shadow");
	chmod(at(world, "root/usr/lib/debug/lib/x.debug"), 0600);
	assert_string_equal(ask(world, named), os);
	world->process.uid = 0;
	assert_string_equal(ask(world, named), os);
	world->process.credentials.known = true;
	assert_string_equal(ask(world, named), "shadow");
}

/* As root: another user's process, whose map is read only on request. */
static void test_perf_map_of_another_user(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_PERF_MAP };

	world->process.uid = getuid() + 1;
	put(world, "root/tmp/perf-12.map", "map");
	assert_string_equal(ask(world, request), permission);
	if (geteuid() != 0)
		return;
	world->options.perf_map = SNAP_PERF_MAP_ALWAYS;
	assert_string_equal(ask(world, request), "map"); /* root's own file */
	assert_int_equal(chown(at(world, "root/tmp/perf-12.map"), getuid() + 2, 0), 0);
	assert_string_equal(ask(world, request), permission);
}

static void test_embedded(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };

	put(world, "root/lib/libx.so", "\177ELF rest");
	map(world, "root/lib/libx.so");
	put(world, "root/tmp/perf-12.map", "map");
	assert_null(snap_files_embed(world->files, &world->capture, NULL));
	assert_int_equal(world->process.embedded_count, 2);
	world->capture.live = NULL;
	assert_string_equal(ask(world, request), "\177ELF rest");
	request.kind = SNAP_FILE_PERF_MAP;
	assert_string_equal(ask(world, request), "map");
	world->capture.live = &world->live;
}

/* A capture from a file: --debug-dir says where files of another machine lie. */
static void test_debug_dir_as_root(void **state)
{
	struct world *world = *state;
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE };

	world->capture.live = NULL;
	world->maps[0].path = "/no/such/libx.so";
	put(world, "debug/libx.so", "flat");
	assert_string_equal(ask(world, request), "flat");
	put(world, "debug/no/such/libx.so", "tree");
	assert_string_equal(ask(world, request), "tree");
	request.attempt = 1;
	assert_string_equal(ask(world, request), "flat");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_module_in_root, setup, teardown),
		cmocka_unit_test_setup_teardown(test_module_by_mapping, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_open_is_this_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_stay_inside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fifo_is_not_opened, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deleted_module, setup, teardown),
		cmocka_unit_test_setup_teardown(test_debug_by_build_id, setup, teardown),
		cmocka_unit_test_setup_teardown(test_debug_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_perf_map, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files_of_another_user, setup, teardown),
		cmocka_unit_test_setup_teardown(test_perf_map_of_another_user, setup, teardown),
		cmocka_unit_test_setup_teardown(test_embedded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_debug_dir_as_root, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
