/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The files of engines, read one after the other; see containers.h. Formats as of Docker 20 to 28
 * (config.v2.json: ID, Name with a slash before it), containers/storage of podman and CRI-O
 * (containers.json: an array of id and names), and the annotations that containerd's CRI plugin and
 * nerdctl write into the config.json of OCI.
 */
#include "containers/containers.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/spawn.h"
#include "store/json/pick.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MOST_FILES = 4096,    /* of an engine */
	MOST_BYTES = 4 << 20, /* of a file */
	MOST_NAME = 4096,     /* bytes of a name, or of an annotation */
	HUNT_MS = 2000,       /* for all files */
	END_MS = 20,          /* for a process that is killed */
};

struct search {
	const char *name;
	struct snap_container_ids *ids;
	unsigned files_left;
};

typedef void folder_reader(struct search *search, int folder, const char *name);

static bool is_id(const char *text)
{
	return strlen(text) == SNAP_CONTAINER_ID_LENGTH &&
	       strspn(text, "0123456789abcdef") == SNAP_CONTAINER_ID_LENGTH;
}

static void found(struct search *search, const char *id)
{
	struct snap_container_ids *ids = search->ids;

	if (!is_id(id) || ids->count == SNAP_ARRAY_SIZE(ids->list))
		return;
	for (size_t i = 0; i < ids->count; i++)
		if (strcmp(ids->list[i].text, id) == 0)
			return;
	memcpy(ids->list[ids->count].text, id, sizeof(ids->list->text));
	__atomic_store_n(&ids->count, ids->count + 1, __ATOMIC_RELEASE);
}

/* -1: there is none, or another user may have written it. */
static int open_trusted(int folder, const char *path)
{
	_cleanup_fd_ int fd = openat(folder, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
		return -1;
	if ((stat.st_uid != 0 && stat.st_uid != geteuid()) || (stat.st_mode & (S_IWGRP | S_IWOTH)))
		return -1;
	return snap_take_fd(&fd);
}

/* Each folder in one; links are not followed. */
static void read_folders(struct search *search, int parent, const char *path, folder_reader *reader)
{
	int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		snap_close(&fd);
		return;
	}
	while (search->files_left && (entry = readdir(stream))) {
		_cleanup_fd_ int folder = -1;

		if (entry->d_name[0] == '.')
			continue;
		folder = openat(dirfd(stream), entry->d_name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (folder >= 0)
			reader(search, folder, entry->d_name);
	}
	closedir(stream);
}

/* ---- docker ---- */

static void read_docker(struct search *search, struct snap_json_pick *pick,
			const struct snap_json *root)
{
	const char *name = snap_json_pick_text(pick, root, "Name", MOST_NAME);
	const char *id = snap_json_pick_text(pick, root, "ID", MOST_NAME);

	if (!snap_json_pick_failed(pick) && name && id && name[0] == '/' &&
	    strcmp(name + 1, search->name) == 0)
		found(search, id);
}

/* ---- containerd ---- */

static bool is_of_pod(const char *pod, const char *container, const char *wanted)
{
	size_t length = pod ? strlen(pod) : 0;

	return length && strncmp(wanted, pod, length) == 0 && wanted[length] == '/' &&
	       strcmp(wanted + length + 1, container) == 0;
}

/* Its id is the name of its folder. */
static void read_oci(struct search *search, struct snap_json_pick *pick,
		     const struct snap_json *root, const char *id)
{
	const struct snap_json *notes = snap_json_pick_object(pick, root, "annotations");
	const char *own, *container, *pod;

	if (!notes)
		return;
	own = snap_json_pick_text(pick, notes, "nerdctl/name", MOST_NAME);
	container = snap_json_pick_text(pick, notes, "io.kubernetes.cri.container-name", MOST_NAME);
	pod = snap_json_pick_text(pick, notes, "io.kubernetes.cri.sandbox-name", MOST_NAME);
	if (snap_json_pick_failed(pick))
		return;
	if ((own && strcmp(own, search->name) == 0) ||
	    (container &&
	     (strcmp(container, search->name) == 0 || is_of_pod(pod, container, search->name))))
		found(search, id);
}

/* ---- podman and CRI-O ---- */

static void read_storage(struct search *search, struct snap_json_pick *pick,
			 const struct snap_json *root)
{
	struct snap_json_list rows = snap_json_pick_rows(pick, root);
	const struct snap_json *row;

	while ((row = snap_json_list_object(&rows))) {
		struct snap_json_list names = snap_json_pick_list(pick, row, "names");
		const char *id = snap_json_pick_text(pick, row, "id", MOST_NAME), *name;

		while (id && (name = snap_json_list_text(&names, MOST_NAME)))
			if (strcmp(name, search->name) == 0)
				found(search, id);
	}
}

/* ---- all of them ---- */

enum layout { DOCKER, OCI, STORAGE };

static void read_document(struct search *search, int file, enum layout layout, const char *folder)
{
	struct snap_json *root = NULL;
	struct snap_json_pick pick;
	struct snap_arena arena;
	struct stacksnap_error *err = layout == STORAGE
					      ? snap_json_pick_open_array(file, MOST_BYTES, &root)
					      : snap_json_pick_open(file, MOST_BYTES, &root);

	if (err) {
		/* It tells nothing. */
		snap_error_destroy(err);
		return;
	}
	snap_arena_init(&arena);
	snap_json_pick_init(&pick, &arena);
	if (layout == DOCKER)
		read_docker(search, &pick, root);
	else if (layout == OCI)
		read_oci(search, &pick, root, folder);
	else
		read_storage(search, &pick, root);
	snap_json_pick_deinit(&pick);
	snap_json_pick_close(root);
	snap_arena_deinit(&arena);
}

/* The document at `path` below the folder, whose name is `name`. */
static void read_file(struct search *search, int folder, const char *path, enum layout layout,
		      const char *name)
{
	_cleanup_fd_ int fd = -1;

	if (!search->files_left)
		return;
	search->files_left--;
	fd = open_trusted(folder, path);
	if (fd >= 0)
		read_document(search, fd, layout, name);
}

static void enter_docker(struct search *search, int folder, const char *name)
{
	read_file(search, folder, "config.v2.json", DOCKER, name);
}

static void enter_container(struct search *search, int folder, const char *name)
{
	read_file(search, folder, "config.json", OCI, name);
}

static void enter_container_namespace(struct search *search, int folder, const char *name _unused_)
{
	read_folders(search, folder, ".", enter_container);
}

static void enter_driver(struct search *search, int folder, const char *name)
{
	size_t length = strlen(name);
	static const char end[] = "-containers";

	if (length >= sizeof(end) && strcmp(name + length - (sizeof(end) - 1), end) == 0)
		read_file(search, folder, "containers.json", STORAGE, name);
}

void snap_containers_find_in(const struct snap_container_places *places, const char *name,
			     struct snap_container_ids *ids)
{
	struct search search = { .name = name, .ids = ids, .files_left = MOST_FILES };

	if (places->docker)
		read_folders(&search, AT_FDCWD, places->docker, enter_docker);
	search.files_left = MOST_FILES;
	if (places->containerd)
		read_folders(&search, AT_FDCWD, places->containerd, enter_container_namespace);
	search.files_left = MOST_FILES;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(places->storage); i++)
		if (places->storage[i])
			read_folders(&search, AT_FDCWD, places->storage[i], enter_driver);
}

struct snap_container_places snap_container_places(char *room, size_t size)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	struct snap_container_places places = {
		.docker = "/var/lib/docker/containers",
		.containerd = "/run/containerd/io.containerd.runtime.v2.task",
		.storage = { "/var/lib/containers/storage" },
	};
	int length = -1;

	if (data && data[0] == '/')
		length = snprintf(room, size, "%s/containers/storage", data);
	else if (home && home[0] == '/')
		length = snprintf(room, size, "%s/.local/share/containers/storage", home);
	if (length > 0 && (size_t)length < size)
		places.storage[1] = room;
	return places;
}

/* ---- in a process of its own ---- */

struct hunt {
	const char *name;
	struct snap_container_ids *ids; /* shared */
};

static void run_hunt(void *context)
{
	const struct hunt *hunt = context;
	char room[4096];
	const struct snap_container_places places = snap_container_places(room, sizeof(room));

	snap_spawn_close_all_but(-1);
	snap_containers_find_in(&places, hunt->name, hunt->ids);
}

struct snap_container_ids *snap_containers_find(const char *name)
{
	struct snap_container_ids *ids = mmap(NULL, sizeof(*ids), PROT_READ | PROT_WRITE,
					      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct hunt hunt = { name, ids };
	_cleanup_fd_ int pidfd = -1;
	pid_t pid;

	if (ids == MAP_FAILED)
		return NULL;
	ids->is_late = snap_error_ignore(snap_spawn(SNAP_SPAWN_ALLOCATES, SNAP_CONTAINERS_PROCESS,
						    run_hunt, &hunt, &pid, &pidfd)) ||
		       snap_spawn_end(pidfd, HUNT_MS, END_MS) != 0;
	return ids;
}
