/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Control groups: see cgroup.h. Paths are cut into components. Only the text of a component decides what
 * it means, so a unit or container that another one may have made is named by its place.
 */
#include "proc/cgroup.h"

#include <stdio.h>
#include <string.h>

enum { ID_LENGTH = 64, TASK_ID_LENGTH = 32 };

struct part {
	const char *text;
	size_t length;
};

/* The next component at or after `at`; false at the end. */
static bool next_part(const char **at, struct part *ret)
{
	const char *start = *at + strspn(*at, "/");

	*ret = (struct part){ start, strcspn(start, "/") };
	*at = start + ret->length;
	return ret->length > 0;
}

static bool starts_with(struct part part, const char *prefix)
{
	size_t length = strlen(prefix);

	return part.length >= length && memcmp(part.text, prefix, length) == 0;
}

static bool ends_with(struct part part, const char *suffix)
{
	size_t length = strlen(suffix);

	return part.length > length &&
	       memcmp(part.text + part.length - length, suffix, length) == 0;
}

static bool is_same_part(struct part a, struct part b)
{
	return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static bool equals(struct part part, const char *text)
{
	return is_same_part(part, (struct part){ text, strlen(text) });
}

void snap_cgroup_init(struct snap_cgroup *cgroup)
{
	cgroup->path[0] = '\0';
	cgroup->container[0] = '\0';
	cgroup->place[0] = '\0';
	cgroup->rank = 0;
}

/*
 * The rank of a hierarchy: the one that says where a process lives comes first. If both are mounted, an
 * engine may use the old one alone: then the unified path is the root and says nothing.
 */
static int line_rank(struct part controllers, struct part path)
{
	enum { OTHER, UNIFIED_ROOT, SYSTEMD, UNIFIED };

	if (controllers.length == 0)
		return path.length > 1 ? UNIFIED : UNIFIED_ROOT;
	return equals(controllers, "name=systemd") ? SYSTEMD : OTHER;
}

/* Hierarchies are mounted by the names of their controllers: "cpu,cpuacct", "systemd". */
static void keep_place(struct snap_cgroup *cgroup, const char *controllers, const char *path,
		       size_t at)
{
	size_t length = strcspn(controllers, ":"), named = sizeof("name=") - 1;

	if (length > named && memcmp(controllers, "name=", named) == 0) {
		controllers += named;
		length -= named;
	}
	snprintf(cgroup->place, sizeof(cgroup->place), "/%.*s%.*s", (int)length, controllers,
		 (int)at - 1, path);
}

void snap_cgroup_line(struct snap_cgroup *cgroup, const char *line, size_t length)
{
	const char *end = line + length, *path, *controllers = memchr(line, ':', length);
	char container[SNAP_MAX_CONTAINER];
	char copy[SNAP_MAX_PATH];
	size_t path_length, at;
	int rank;

	path = controllers ? memchr(controllers + 1, ':', (size_t)(end - controllers - 1)) : NULL;
	if (!path || ++path == end || *path != '/')
		return;
	path_length = (size_t)(end - path);
	snap_cut_deleted(path, &path_length);
	if (path_length >= sizeof(copy))
		return;
	memcpy(copy, path, path_length);
	copy[path_length] = '\0';
	rank = line_rank((struct part){ controllers + 1, (size_t)(path - controllers - 2) },
			 (struct part){ path, path_length });
	snap_cgroup_container(copy, container, &at);
	/* Any hierarchy may be the one in which an engine put its container. */
	if (container[0] && (!cgroup->container[0] || rank > cgroup->rank)) {
		memcpy(cgroup->container, container, sizeof(container));
		keep_place(cgroup, controllers + 1, copy, at);
	}
	if (rank > cgroup->rank) {
		memcpy(cgroup->path, copy, path_length + 1);
		cgroup->rank = rank;
	}
}

static bool is_unit(struct part part)
{
	static const char *const suffixes[] = { ".service", ".scope", ".socket", ".mount",
						".swap" };

	return snap_any(SNAP_ARRAY_SIZE(suffixes), i, ends_with(part, suffixes[i]));
}

/* What only the service manager makes; "..": above the root of our namespace. */
static bool is_above_units(struct part part)
{
	return ends_with(part, ".slice") || equals(part, "..");
}

/* systemd puts a _ before names that would mean something to the kernel: "_memory.service". */
static struct part unescaped(struct part part)
{
	bool is_escaped = is_unit(part) && part.text[0] == '_';

	return (struct part){ part.text + is_escaped, part.length - is_escaped };
}

const char *snap_cgroup_unit(const char *path, size_t *length_ret)
{
	struct part part;
	const char *start;

	*length_ret = 0;
	while (next_part(&path, &part) && is_above_units(part))
		;
	part = unescaped(part);
	start = part.text;
	do
		if (is_unit(part))
			*length_ret = (size_t)(part.text + part.length - start);
	while (next_part(&path, &part));
	return start;
}

/* As with systemctl, a name without a type means a service. */
static bool is_called(struct part part, struct part name)
{
	static const char service[] = ".service";

	if (is_same_part(part, name))
		return true;
	part.length -= ends_with(part, service) ? sizeof(service) - 1 : 0;
	return is_same_part(part, name);
}

bool snap_cgroup_in_unit(const char *path, const char *unit)
{
	struct part part, name;

	if (!next_part(&unit, &name))
		return false;
	do
		if (!next_part(&path, &part))
			return false;
	while (!is_called(unescaped(part), name) && is_above_units(part));
	if (!is_called(unescaped(part), name))
		return false;
	while (next_part(&unit, &name))
		if (!next_part(&path, &part) || !is_called(part, name))
			return false;
	return true;
}

bool snap_cgroup_is_below(const char *path, const char *group)
{
	static const char *const mounts[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd",
					      "/sys/fs/cgroup" };
	struct part here, wanted;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(mounts); i++) {
		size_t length = strlen(mounts[i]);

		if (strncmp(group, mounts[i], length) == 0 &&
		    (group[length] == '/' || group[length] == '\0')) {
			group += length;
			break;
		}
	}
	while (next_part(&group, &wanted))
		if (!next_part(&path, &here) || !is_same_part(here, wanted))
			return false;
	return true;
}

static bool is_container_hex(struct part part, size_t length)
{
	if (part.length != length)
		return false;
	return snap_all(length, i, strchr("0123456789abcdef", part.text[i]) && part.text[i]);
}

/*
 * What most engines have in common: 64 hexadecimal digits, alone or behind the engine's name, in a
 * scope or not: "docker-ID.scope", "libpod-ID.scope", "cri-containerd-ID.scope", "crio-ID",
 * "nerdctl-ID.scope", "/docker/ID", "/kubepods/…/podUID/ID", "kubepods-….slice:cri-containerd:ID".
 * A "libpod-conmon-ID.scope" holds the monitor of the container, not the container.
 */
static bool find_long_id(struct part part, struct part *ret)
{
	static const char scope[] = ".scope";
	struct part id;

	if (ends_with(part, scope))
		part.length -= sizeof(scope) - 1;
	if (part.length < ID_LENGTH)
		return false;
	id = (struct part){ part.text + part.length - ID_LENGTH, ID_LENGTH };
	part.length -= ID_LENGTH;
	if (!is_container_hex(id, ID_LENGTH) || ends_with(part, "conmon-") ||
	    equals(part, "conmon-"))
		return false;
	if (part.length && part.text[part.length - 1] != '-' && part.text[part.length - 1] != ':')
		return false;
	*ret = id;
	return true;
}

static struct part without_prefix(struct part part, size_t length)
{
	return (struct part){ part.text + length, part.length - length };
}

/* Engines whose containers have names. `before`: the component above, of length 0 at the top. */
static bool find_name(struct part before, struct part part, struct part *ret)
{
	static const char payload[] = "lxc.payload.", machine[] = "machine-", scope[] = ".scope",
			  nspawn[] = "systemd-nspawn@", service[] = ".service";

	if (equals(before, "lxc") || equals(before, "lxc.payload")) {
		*ret = part;
		return true;
	}
	if (starts_with(part, payload) && part.length > sizeof(payload) - 1) {
		*ret = without_prefix(part, sizeof(payload) - 1);
		return true;
	}
	if (starts_with(part, nspawn) && ends_with(part, service)) {
		*ret = without_prefix(part, sizeof(nspawn) - 1);
		ret->length -= sizeof(service) - 1;
		return ret->length > 0;
	}
	/* libvirt's virtual machines live in such scopes too. */
	if (equals(before, "machine.slice") && starts_with(part, machine) &&
	    ends_with(part, scope) && !starts_with(part, "machine-qemu")) {
		*ret = without_prefix(part, sizeof(machine) - 1);
		ret->length -= sizeof(scope) - 1;
		return ret->length > 0;
	}
	/* "/ecs/TASK/TASK-NUMBER": the task's id and a number for the container. */
	if (part.length > TASK_ID_LENGTH + 1 && part.text[TASK_ID_LENGTH] == '-' &&
	    is_container_hex((struct part){ part.text, TASK_ID_LENGTH }, TASK_ID_LENGTH) &&
	    before.length == TASK_ID_LENGTH &&
	    memcmp(before.text, part.text, TASK_ID_LENGTH) == 0) {
		*ret = part;
		return true;
	}
	return false;
}

static int container_hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Units write what is no letter of theirs as \xNN (systemd.unit(5)): "my\x2dbox". */
static int escaped_byte(struct part rest)
{
	int high, low;

	if (rest.length < 4 || rest.text[0] != '\\' || rest.text[1] != 'x')
		return 0;
	high = container_hex_digit(rest.text[2]);
	low = container_hex_digit(rest.text[3]);
	/* A slash parts a container from one in it. */
	return high < 0 || low < 0 || (high << 4 | low) == '/' ? 0 : high << 4 | low;
}

static void add_container_name(struct part name, char ret[SNAP_MAX_CONTAINER])
{
	size_t length = strlen(ret);

	if (length && length < SNAP_MAX_CONTAINER - 1)
		ret[length++] = '/';
	while (name.length && length < SNAP_MAX_CONTAINER - 1) {
		int byte = escaped_byte(name);

		ret[length++] = byte ? (char)byte : *name.text;
		name = without_prefix(name, byte ? 4 : 1);
	}
	ret[length] = '\0';
}

void snap_cgroup_container(const char *path, char ret[SNAP_MAX_CONTAINER], size_t *at_ret)
{
	const char *root = path;
	struct part before = { path, 0 }, part, name, found = { path, 0 };

	ret[0] = '\0';
	*at_ret = 0;
	while (next_part(&path, &part)) {
		/* An engine may put its container into two groups, one in the other. */
		if ((find_long_id(part, &name) || find_name(before, part, &name)) &&
		    !is_same_part(name, found)) {
			*at_ret = found.length ? *at_ret : (size_t)(part.text - root);
			add_container_name(name, ret);
			found = name;
		}
		before = part;
	}
}

void snap_cgroup_name_owner(struct snap_cgroup *cgroup)
{
	const char *path = strchr(cgroup->place + 1, '/') ?: "";
	struct part part, owner = { path, 0 };
	char container[SNAP_MAX_CONTAINER];

	memcpy(container, cgroup->container, sizeof(container));
	cgroup->container[0] = '\0';
	while ((!owner.length || is_above_units(owner)) && next_part(&path, &part))
		owner = part;
	add_container_name(owner, cgroup->container);
	add_container_name((struct part){ container, strlen(container) }, cgroup->container);
}

bool snap_cgroup_container_is(const char *container, const char *wanted)
{
	struct part here, name;
	bool is_named = false;

	for (; next_part(&wanted, &name); is_named = true) {
		if (!next_part(&container, &here))
			return false;
		if (is_container_hex(here, ID_LENGTH) && name.length < ID_LENGTH)
			here.length = name.length;
		if (!is_same_part(here, name))
			return false;
	}
	return is_named;
}
