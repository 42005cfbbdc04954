/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of containers in files of engines, as these write them, and in files that are not to be believed. */
#include "containers/containers.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"

#define A "aaaa456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define B "bbbb456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define C "cccc456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct bed {
	char folder[32], docker[64], containerd[64], storage[64];
	struct snap_container_places places;
	struct snap_container_ids ids;
};

/* A shell in the folder. */
static void shell(struct bed *bed, const char *script)
{
	char line[4096];

	assert_in_range(
		snprintf(line, sizeof(line), "cd %s && umask 022 && %s", bed->folder, script), 0,
		sizeof(line) - 1);
	assert_int_equal(system(line), 0);
}

static int setup(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	assert_non_null(bed);
	strcpy(bed->folder, "/tmp/stacksnap-test.XXXXXX");
	assert_non_null(mkdtemp(bed->folder));
	snprintf(bed->docker, sizeof(bed->docker), "%s/docker", bed->folder);
	snprintf(bed->containerd, sizeof(bed->containerd), "%s/containerd", bed->folder);
	snprintf(bed->storage, sizeof(bed->storage), "%s/storage", bed->folder);
	bed->places = (struct snap_container_places){ bed->docker,
						      bed->containerd,
						      { bed->storage, NULL } };
	shell(bed, "mkdir -p docker/" A " docker/" B " containerd/k8s.io/" A " containerd/moby/" B
		   " storage/overlay-containers storage/overlay-layers");
	*state = bed;
	return 0;
}

static int teardown(void **state)
{
	struct bed *bed = *state;

	shell(bed, "rm -rf docker containerd storage secret");
	rmdir(bed->folder);
	free(bed);
	return 0;
}

/* The first characters of the ids of containers with the name, in the order found. */
static const char *ids_of(struct bed *bed, const char *name)
{
	static char text[64];
	size_t length = 0;

	bed->ids.count = 0;
	snap_containers_find_in(&bed->places, name, &bed->ids);
	for (size_t i = 0; i < bed->ids.count && length + 1 < sizeof(text); i++)
		text[length++] = bed->ids.list[i].text[0];
	text[length] = '\0';
	return text;
}

static void test_docker(void **state)
{
	struct bed *bed = *state;

	shell(bed, "echo '{\"State\":{\"Pid\":12},\"ID\":\"" A "\",\"Name\":\"/web\"}' >docker/" A
		   "/config.v2.json");
	shell(bed, "echo '{\"ID\":\"" B "\",\"Name\":\"/web2\"}' >docker/" B "/config.v2.json");
	assert_string_equal(ids_of(bed, "web"), "a");
	assert_string_equal(ids_of(bed, "web2"), "b");
	assert_string_equal(ids_of(bed, "/web"), "");
	assert_string_equal(ids_of(bed, "we"), "");
}

static void test_storage(void **state)
{
	struct bed *bed = *state;

	shell(bed, "echo '[{\"id\":\"" A
		   "\",\"names\":[\"web\",\"k8s_app\"],\"image\":\"x\"},{\"id\":\"" B
		   "\"},{\"id\":\"" C "\",\"names\":[\"db\",\"web\"]}]' "
		   ">storage/overlay-containers/containers.json");
	assert_string_equal(ids_of(bed, "web"), "ac");
	assert_string_equal(ids_of(bed, "db"), "c");
	assert_string_equal(ids_of(bed, "k8s_app"), "a");
	assert_string_equal(ids_of(bed, ""), "");
}

static void test_containerd(void **state)
{
	struct bed *bed = *state;

	shell(bed, "echo '{\"annotations\":{\"io.kubernetes.cri.container-name\":\"app\","
		   "\"io.kubernetes.cri.sandbox-name\":\"pod-0\"}}' >containerd/k8s.io/" A
		   "/config.json");
	shell(bed, "echo '{\"annotations\":{\"nerdctl/name\":\"web\"}}' >containerd/moby/" B
		   "/config.json");
	assert_string_equal(ids_of(bed, "app"), "a");
	assert_string_equal(ids_of(bed, "pod-0/app"), "a");
	assert_string_equal(ids_of(bed, "pod-0"), "");
	assert_string_equal(ids_of(bed, "pod-0/ap"), "");
	assert_string_equal(ids_of(bed, "pod-1/app"), "");
	assert_string_equal(ids_of(bed, "web"), "b");
}

/* Each is passed over, and does not hide the name that another file has. */
static void test_files_that_tell_nothing(void **state)
{
	struct bed *bed = *state;
	static const char *const others[] = {
		"printf '' >$F",
		"echo '[]' >$F",
		"echo '{\"Name\":\"/web\",\"ID\":7}' >$F",
		"echo '{\"Name\":\"/web\",\"ID\":\"short\"}' >$F",
		"echo '{\"Name\":[\"/web\"]}' >$F",
		"mkfifo $F",
		"mkdir $F",
		"echo '{\"Name\":\"/web\",\"ID\":\"" B "\"' >$F",
		"echo '{\"Name\":\"/web\",\"ID\":\"" B "\"}' >$F; chmod o+w $F",
		"echo '{\"Name\":\"/web\",\"ID\":\"" B "\"}' >secret; ln -s $PWD/secret $F",
	};

	shell(bed, "echo '{\"ID\":\"" A "\",\"Name\":\"/web\"}' >docker/" A "/config.v2.json");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(others); i++) {
		char script[1024];

		snprintf(script, sizeof(script), "F=docker/" B "/config.v2.json; rm -rf $F; %s",
			 others[i]);
		shell(bed, script);
		assert_string_equal(ids_of(bed, "web"), "a");
	}
	shell(bed, "F=docker/" B "/config.v2.json; rm $F; echo '{\"Name\":\"/web\",\"ID\":\"" B
		   "\"}' >$F");
	assert_int_equal(strlen(ids_of(bed, "web")), 2);
}

static void test_file_of_another_user(void **state)
{
	struct bed *bed = *state;

	if (geteuid() != 0)
		skip_because("rights: only root gives files away");
	shell(bed, "echo '{\"ID\":\"" A "\",\"Name\":\"/web\"}' >docker/" A "/config.v2.json");
	assert_string_equal(ids_of(bed, "web"), "a");
	shell(bed, "chown 60001 docker/" A "/config.v2.json");
	assert_string_equal(ids_of(bed, "web"), "");
}

static void test_no_engines(void **state)
{
	struct bed *bed = *state;

	shell(bed, "rm -rf docker containerd storage");
	assert_string_equal(ids_of(bed, "web"), "");
}

static void test_places(void **state _unused_)
{
	char room[64], small[8];

	setenv("HOME", "/home/me", 1);
	unsetenv("XDG_DATA_HOME");
	assert_string_equal(snap_container_places(room, sizeof(room)).storage[1],
			    "/home/me/.local/share/containers/storage");
	assert_null(snap_container_places(small, sizeof(small)).storage[1]);
	setenv("XDG_DATA_HOME", "/data", 1);
	assert_string_equal(snap_container_places(room, sizeof(room)).storage[1],
			    "/data/containers/storage");
	setenv("XDG_DATA_HOME", "data", 1);
	unsetenv("HOME");
	assert_null(snap_container_places(room, sizeof(room)).storage[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_docker),
		TEST(test_storage),
		TEST(test_containerd),
		TEST(test_files_that_tell_nothing),
		TEST(test_file_of_another_user),
		TEST(test_no_engines),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
