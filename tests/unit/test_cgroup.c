/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cgroup: the paths that service managers and container engines make. */
#include "proc/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define TASK "0123456789abcdef0123456789abcdef"

static const struct {
	const char *path, *unit, *container;
} paths[] = {
	{ "/", "", "" },
	{ "/system.slice/cron.service", "cron.service", "" },
	{ "/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", "" },
	{ "/user.slice/user-1000.slice/session-3.scope", "session-3.scope", "" },
	{ "/user.slice/user-1000.slice/user@1000.service/app.slice/a\\x2db.service",
	  "user@1000.service/app.slice/a\\x2db.service", "" },
	{ "/system.slice/_memory.service", "memory.service", "" },
	{ "/../orderd.service", "orderd.service", "" },
	/* what is below a unit, or any group but a slice, is not the service manager's */
	{ "/user.slice/user-1000.slice/user@1000.service/sshd.service",
	  "user@1000.service/sshd.service", "" },
	{ "/user.slice/user-1000.slice/user@1000.service/system.slice/sshd.service",
	  "user@1000.service/system.slice/sshd.service", "" },
	{ "/system.slice/evil.service/sshd.service/payload", "evil.service/sshd.service", "" },
	{ "/given/system.slice/sshd.service", "given/system.slice/sshd.service", "" },
	{ "/system.slice/a.service/_b.service", "a.service/_b.service", "" },
	{ "/user.slice/user-1000.slice", "", "" },
	{ "/init.scope", "init.scope", "" },
	{ "/.service", "", "" },
	/* engines with 64 digits */
	{ "/system.slice/docker-" ID ".scope", "docker-" ID ".scope", ID },
	{ "/docker/" ID, "", ID },
	{ "/docker/" ID "/init.scope", "docker/" ID "/init.scope", ID },
	{ "/machine.slice/libpod-" ID ".scope", "libpod-" ID ".scope", ID },
	{ "/machine.slice/libpod-" ID ".scope/container", "libpod-" ID ".scope", ID },
	{ "/machine.slice/libpod-conmon-" ID ".scope", "libpod-conmon-" ID ".scope", "" },
	{ "/libpod_parent/libpod-" ID, "", ID },
	{ "/kubepods/burstable/pod0a1b2c3d-0000-1111-2222-333344445555/" ID, "", ID },
	{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a_1b.slice/"
	  "cri-containerd-" ID ".scope",
	  "cri-containerd-" ID ".scope", ID },
	{ "/kubepods.slice/kubepods-pod0a_1b.slice/crio-" ID ".scope", "crio-" ID ".scope", ID },
	{ "/kubepods.slice/kubepods-pod0a_1b.slice/crio-conmon-" ID ".scope",
	  "crio-conmon-" ID ".scope", "" },
	{ "/system.slice/containerd.service/kubepods-besteffort-pod0a.slice:cri-containerd:" ID,
	  "containerd.service", ID },
	{ "/system.slice/nerdctl-" ID ".scope", "nerdctl-" ID ".scope", ID },
	{ "/default/" ID, "", ID },
	{ "/ecs/" TASK "/" ID, "", ID },
	{ "/ecs/" TASK "/" TASK "-1234567890", "", TASK "-1234567890" },
	/* a container in a container, and a service in one */
	{ "/docker/" ID "/docker/" ID2, "", ID "/" ID2 },
	{ "/docker/" ID "/lxc/web", "", ID "/web" },
	{ "/machine.slice/libpod-" ID ".scope/libpod-payload-" ID, "libpod-" ID ".scope", ID },
	{ "/docker/" ID "/system.slice/nginx.service", "docker/" ID "/system.slice/nginx.service",
	  ID },
	/* engines with names */
	{ "/lxc/web/system.slice/cron.service", "lxc/web/system.slice/cron.service", "web" },
	{ "/lxc.payload/web", "", "web" },
	{ "/lxc.payload.web/init.scope", "lxc.payload.web/init.scope", "web" },
	{ "/lxc.monitor.web", "", "" },
	{ "/machine.slice/machine-my\\x2dbox.scope/payload", "machine-my\\x2dbox.scope", "my-box" },
	{ "/machine.slice/systemd-nspawn@box.service/payload", "systemd-nspawn@box.service",
	  "box" },
	{ "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", "machine-qemu\\x2d1\\x2dvm.scope", "" },
	/* what only looks like one */
	{ "/docker/" TASK, "", "" },
	{ "/docker/x" ID, "", "" },
	{ "/docker/" ID "0", "", "" },
	{ "/docker/" ID2 "-init", "", "" },
	{ "/machine.slice/machine-bad\\x00\\xzz.scope", "machine-bad\\x00\\xzz.scope",
	  "bad\\x00\\xzz" },
	{ "/machine.slice/machine-a\\x2fb.scope", "machine-a\\x2fb.scope", "a\\x2fb" },
	{ "/lxc.payload.", "", "" },
	{ "//double.slice//slashes.service//", "slashes.service", "" },
};

static void test_units_and_containers(void **state _unused_)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(paths); i++) {
		char container[SNAP_MAX_CONTAINER];
		const char *unit;
		size_t length, at;

		snap_cgroup_container(paths[i].path, container, &at);
		assert_string_equal(container, paths[i].container);
		unit = snap_cgroup_unit(paths[i].path, &length);
		assert_int_equal(length, strlen(paths[i].unit));
		assert_memory_equal(unit, paths[i].unit, length);
	}
}

static void test_a_long_name_is_cut(void **state _unused_)
{
	char path[2000] = "/lxc/", container[SNAP_MAX_CONTAINER];
	size_t at;

	memset(path + 5, 'n', sizeof(path) - 6);
	path[sizeof(path) - 1] = '\0';
	snap_cgroup_container(path, container, &at);
	assert_int_equal(strlen(container), SNAP_MAX_CONTAINER - 1);
	assert_int_equal(at, 5);
}

static void read_text(struct snap_cgroup *cgroup, const char *text)
{
	snap_cgroup_init(cgroup);
	while (*text) {
		size_t length = strcspn(text, "\n");

		snap_cgroup_line(cgroup, text, length);
		text += length + (text[length] == '\n');
	}
}

static void test_hierarchies(void **state _unused_)
{
	struct snap_cgroup cgroup;

	read_text(&cgroup, "0::/system.slice/a.service\n");
	assert_string_equal(cgroup.path, "/system.slice/a.service");
	/* Both: the unified one tells, unless it says nothing. */
	read_text(&cgroup, "4:memory:/m\n1:name=systemd:/system.slice/old.service\n0::/new\n");
	assert_string_equal(cgroup.path, "/new");
	read_text(&cgroup, "4:memory:/m\n1:name=systemd:/system.slice/old.service\n0::/\n");
	assert_string_equal(cgroup.path, "/system.slice/old.service");
	read_text(&cgroup, "0::/\n1:name=systemd:/system.slice/old.service\n");
	assert_string_equal(cgroup.path, "/system.slice/old.service");
	read_text(&cgroup, "4:memory:/m\n1:name=systemd:/\n");
	assert_string_equal(cgroup.path, "/");
	read_text(&cgroup, "4:memory:/m\n");
	assert_string_equal(cgroup.path, "");
	/* The container may be in one of the old hierarchies alone. */
	read_text(&cgroup, "4:memory:/docker/" ID "\n1:name=systemd:/\n0::/\n");
	assert_string_equal(cgroup.path, "/");
	assert_string_equal(cgroup.container, ID);
	/* Colons belong to the path; a removed group says so. */
	read_text(&cgroup, "0::/a:b/c.service (deleted)\n");
	assert_string_equal(cgroup.path, "/a:b/c.service");
}

/* Where a container's group lies in its hierarchy, and how it is called if that is not to be trusted. */
static void test_owners(void **state _unused_)
{
	static const struct {
		const char *text, *place, *name;
	} owners[] = {
		{ "0::/user.slice/user@7.service/a.slice/libpod-" ID ".scope/x\n",
		  "//user.slice/user@7.service/a.slice", "user@7.service/" ID },
		{ "1:name=systemd:/given/lxc/web\n0::/given\n", "/systemd/given/lxc", "given/web" },
		{ "4:cpu,cpuacct:/given.slice/docker-" ID ".scope\n0::/\n",
		  "/cpu,cpuacct/given.slice", "given.slice/" ID },
		{ "0::/lxc.payload.web\n", "/", "web" },
	};
	struct snap_cgroup cgroup;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(owners); i++) {
		read_text(&cgroup, owners[i].text);
		assert_string_equal(cgroup.place, owners[i].place);
		snap_cgroup_name_owner(&cgroup);
		assert_string_equal(cgroup.container, owners[i].name);
	}
}

static void test_lines_that_are_none(void **state _unused_)
{
	static const char *const lines[] = { "", "0", "0:", "0::", "0::relative", ":::", "x" };
	char longer[SNAP_MAX_PATH + 100];
	struct snap_cgroup cgroup;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(lines); i++) {
		read_text(&cgroup, lines[i]);
		assert_string_equal(cgroup.path, "");
	}
	memset(longer, '/', sizeof(longer));
	memcpy(longer, "0::", 3);
	snap_cgroup_init(&cgroup);
	snap_cgroup_line(&cgroup, longer, sizeof(longer));
	assert_string_equal(cgroup.path, "");
}

static void test_targets(void **state _unused_)
{
	static const char path[] = "/system.slice/docker-" ID ".scope/system.slice/nginx.service";

	assert_true(snap_cgroup_in_unit(path, "docker-" ID ".scope"));
	assert_true(snap_cgroup_in_unit(path, "docker-" ID ".scope/system.slice/nginx.service"));
	assert_true(snap_cgroup_in_unit(path, "docker-" ID ".scope/system.slice/nginx"));
	assert_true(snap_cgroup_in_unit(path, "system.slice/docker-" ID ".scope/"));
	assert_false(snap_cgroup_in_unit(path, "nginx.service"));
	assert_false(snap_cgroup_in_unit(path, "nginx"));
	assert_false(snap_cgroup_in_unit(path, "docker-" ID ".scope/nginx.service"));
	assert_false(snap_cgroup_in_unit(path, "system.slice/nginx.service"));
	assert_true(snap_cgroup_in_unit("/a.slice/_memory.service", "memory"));
	assert_true(snap_cgroup_in_unit(path, "system.slice"));
	assert_false(snap_cgroup_in_unit(path, "ngin"));
	assert_false(snap_cgroup_in_unit(path, "docker-" ID));
	assert_false(snap_cgroup_in_unit(path, ""));
	assert_false(snap_cgroup_in_unit(path, "/"));
	assert_false(snap_cgroup_in_unit("/a.slice", "a.slice/b.service"));
	assert_false(snap_cgroup_in_unit("/", "a.service"));
	assert_true(snap_cgroup_is_below(path, "/"));
	assert_true(snap_cgroup_is_below(path, "/system.slice"));
	assert_true(snap_cgroup_is_below(path, "system.slice/"));
	assert_true(snap_cgroup_is_below(path, path));
	assert_true(snap_cgroup_is_below(path, "/sys/fs/cgroup/system.slice"));
	assert_true(snap_cgroup_is_below(path, "/sys/fs/cgroup/unified/system.slice"));
	assert_false(snap_cgroup_is_below(path, "/sys/fs/cgroup-other"));
	assert_false(snap_cgroup_is_below(path, "/system"));
	assert_false(snap_cgroup_is_below("/system.slice", path));
	assert_true(snap_cgroup_container_is(ID, ID));
	assert_true(snap_cgroup_container_is(ID, "0123456789ab"));
	assert_false(snap_cgroup_container_is(ID, "123"));
	assert_false(snap_cgroup_container_is(ID, ID "0"));
	assert_false(snap_cgroup_container_is(ID, ""));
	assert_false(snap_cgroup_container_is("", ""));
	assert_true(snap_cgroup_container_is("web", "web"));
	assert_false(snap_cgroup_container_is("web-2", "web"));
	assert_true(snap_cgroup_container_is(ID "/" ID2, ID));
	assert_true(snap_cgroup_container_is(ID "/" ID2, "0123456789ab/fedcba"));
	assert_false(snap_cgroup_container_is(ID "/" ID2, ID2));
	assert_false(snap_cgroup_container_is(ID, ID "/" ID2));
	assert_true(snap_cgroup_container_is("user@1000.service/" ID, "user@1000.service/0123"));
	assert_false(snap_cgroup_container_is("user@1000.service/" ID, ID));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units_and_containers),
		cmocka_unit_test(test_a_long_name_is_cut),
		cmocka_unit_test(test_hierarchies),
		cmocka_unit_test(test_owners),
		cmocka_unit_test(test_lines_that_are_none),
		cmocka_unit_test(test_targets),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
