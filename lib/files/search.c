/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where a file is looked for: see search.h. */
#include "files/search.h"

#include "base/reopen.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static const char debug_root[] = "/usr/lib/debug";

/* The list is made anew for each question, and stops at the candidate that is asked for. */
struct list {
	const struct snap_files *files;
	const struct snap_file_request *request;
	const struct snap_live *live;
	size_t wanted, count;
	struct snap_file_candidate *place;
	bool found;
};

static bool next(struct list *list, enum snap_file_candidate_kind kind)
{
	if (list->found || list->count++ != list->wanted)
		return false;
	list->place->kind = kind;
	list->place->fd = -1;
	list->place->embedded = NULL;
	list->place->path[0] = '\0';
	list->found = true;
	return true;
}

static void add_search_path(struct list *list, enum snap_file_candidate_kind kind, int fd,
			    const char *format, ...) _printf_(4, 5);

static void add_search_path(struct list *list, enum snap_file_candidate_kind kind, int fd,
			    const char *format, ...)
{
	va_list arguments;
	int length;

	if (!next(list, kind))
		return;
	va_start(arguments, format);
	length = vsnprintf(list->place->path, sizeof(list->place->path), format, arguments);
	va_end(arguments);
	list->place->fd = fd;
	/* A name that is too long names nothing: an empty path is not found. */
	if (length < 0 || (size_t)length >= sizeof(list->place->path))
		list->place->path[0] = '\0';
}

static const struct snap_map *request_map(const struct snap_file_request *request)
{
	if (!request->process || request->map >= request->process->map_count)
		return NULL;
	return &request->process->maps[request->map];
}

/* Only absolute paths name files; "[vdso]" and "anon_inode:…" do not. */
static const char *map_path(const struct snap_map *map)
{
	return map && map->path && map->path[0] == '/' && !snap_path_goes_up(map->path) ? map->path
											: NULL;
}

static bool same_search_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->path && b->path && strcmp(a->path, b->path) == 0;
}

static void add_embedded(struct list *list, const struct snap_map *map)
{
	const struct snap_process *process = list->request->process;

	for (size_t i = 0; i < process->embedded_count; i++) {
		const struct snap_embedded *embedded = &process->embedded[i];

		if (embedded->kind != SNAP_FILE_MODULE || embedded->map >= process->map_count ||
		    !same_search_file(&process->maps[embedded->map], map))
			continue;
		if (next(list, SNAP_CANDIDATE_BYTES))
			list->place->embedded = embedded;
	}
}

/*
 * Whether a mapping is of the program itself. Its path in maps is not always the path: a newline
 * stands as \012, and a name that really ends in " (deleted)" looks like a deleted one (proc(5)).
 * Where device numbers of maps are others than those of stat(2) (overlayfs, btrfs), the path tells.
 */
static bool is_program(const struct snap_process *process, const struct snap_live *live,
		       const struct snap_map *map, const char *path)
{
	struct stat status;

	if (path && process->exe && strcmp(path, process->exe) == 0)
		return true;
	return live->exe_fd >= 0 && snap_look(live->exe_fd, "", &status) &&
	       status.st_ino == map->inode && major(status.st_dev) == map->dev_major &&
	       minor(status.st_dev) == map->dev_minor;
}

void snap_mapping_entry(const struct snap_map *map, char out[SNAP_ENTRY_SIZE])
{
	snprintf(out, SNAP_ENTRY_SIZE, "map_files/%llx-%llx", (unsigned long long)map->start,
		 (unsigned long long)map->end);
}

/* What is mapped comes first; what has its name is believed only if it is the same file. */
static void add_live_module(struct list *list, const struct snap_map *map, const char *path)
{
	const struct snap_live *live = list->live;
	bool is_exe = is_program(list->request->process, live, map, path);
	int files_fd = live->files_fd >= 0 ? live->files_fd : live->proc_fd;
	char other[PATH_MAX], entry[SNAP_ENTRY_SIZE];

	snap_mapping_entry(map, entry);
	if (files_fd >= 0)
		add_search_path(list, SNAP_CANDIDATE_ENTRY, files_fd, "%s", entry);
	if (is_exe && live->exe_fd >= 0 && next(list, SNAP_CANDIDATE_FD))
		list->place->fd = live->exe_fd;
	/* What took a deleted file's name may be a copy: the build id will tell. */
	if (path && live->root_fd >= 0)
		add_search_path(list, SNAP_CANDIDATE_ROOT, live->root_fd, "%s", path);
	if (live->root_fd >= 0 && !map->deleted && snap_path_with_newlines(path, other))
		add_search_path(list, SNAP_CANDIDATE_ROOT, live->root_fd, "%s", other);
}

/* A path in a saved file, on this host: its owner names it, unless the caller does. */
static void add_saved(struct list *list, const struct snap_map *map, const char *path)
{
	if (map->is_callers)
		add_search_path(list, SNAP_CANDIDATE_HOST, -1, "%s", path);
	else
		add_search_path(list, SNAP_CANDIDATE_ROOT, list->files->host_root, "%s", path);
}

static void add_module(struct list *list)
{
	const struct snap_options *options = list->files->options;
	const struct snap_map *map = request_map(list->request);
	const char *path = map_path(map);
	char other[PATH_MAX];

	if (!map)
		return;
	if (list->live) {
		add_live_module(list, map, path);
		return;
	}
	add_embedded(list, map);
	if (!path)
		return;
	for (size_t i = 0; i < options->debug_dir_count; i++) {
		add_search_path(list, SNAP_CANDIDATE_HOST, -1, "%s%s", options->debug_dirs[i],
				path);
		add_search_path(list, SNAP_CANDIDATE_HOST, -1, "%s%s", options->debug_dirs[i],
				strrchr(path, '/'));
	}
	add_saved(list, map, path);
	if (snap_path_with_newlines(path, other))
		add_saved(list, map, other);
}

/*
 * The same absolute path in the target's root, where that or its mounts are its own, and on this
 * host. The host's comes second: the target's files fit the target better.
 */
static void add_both(struct list *list, const char *path)
{
	bool own = list->live && list->live->root_fd >= 0 &&
		   !snap_is_same_place(list->live->root_fd, list->files->host_root);

	if (own)
		add_search_path(list, SNAP_CANDIDATE_ROOT, list->live->root_fd, "%s", path);
	add_search_path(list, SNAP_CANDIDATE_HOST, -1, "%s", path);
}

static void add_build_id(struct list *list)
{
	const struct snap_file_request *request = list->request;
	const struct snap_options *options = list->files->options;
	char tail[2 * 64 + 32], path[PATH_MAX], *p = tail;

	if (request->build_id_size < 2 || request->build_id_size > 64)
		return;
	p += sprintf(p, "/.build-id/%02x/", request->build_id[0]);
	for (size_t i = 1; i < request->build_id_size; i++)
		p += sprintf(p, "%02x", request->build_id[i]);
	strcpy(p, ".debug");
	for (size_t i = 0; i < options->debug_dir_count; i++)
		add_search_path(list, SNAP_CANDIDATE_HOST, -1, "%s%s", options->debug_dirs[i],
				tail);
	snprintf(path, sizeof(path), "%s%s", debug_root, tail);
	add_both(list, path);
}

/* Beside the module: in the target's root, or on this host for a capture from a file. */
static void add_near(struct list *list, const char *directory, const char *between)
{
	const char *name = list->request->name;
	char path[2 * PATH_MAX];

	if (list->live && list->live->root_fd >= 0)
		add_search_path(list, SNAP_CANDIDATE_NEAR, list->live->root_fd, "%s%s/%s",
				directory, between, name);
	if (list->live)
		return;
	snprintf(path, sizeof(path), "%s%s/%s", directory, between, name);
	add_saved(list, request_map(list->request), path);
}

static void add_named(struct list *list)
{
	const struct snap_file_request *request = list->request;
	const struct snap_options *options = list->files->options;
	const char *path = map_path(request_map(request));
	char directory[PATH_MAX] = "", place[2 * PATH_MAX];

	if (path && strlen(path) < sizeof(directory))
		*(strrchr(strcpy(directory, path), '/')) = '\0';
	for (size_t i = 0; i < options->debug_dir_count; i++) {
		if (path)
			add_search_path(list, SNAP_CANDIDATE_HOST, -1, "%s%s/%s",
					options->debug_dirs[i], directory, request->name);
		add_search_path(list, SNAP_CANDIDATE_HOST, -1, "%s/%s", options->debug_dirs[i],
				request->name);
	}
	if (path) {
		add_near(list, directory, "");
		add_near(list, directory, "/.debug");
		if (request->kind == SNAP_FILE_ALT)
			add_near(list, directory, "/.dwz");
	}
	if (path && request->kind == SNAP_FILE_DEBUG_LINK) {
		/* Packages built before /usr was merged lie under the shorter name. */
		if (snap_begins_with(directory, "/usr/")) {
			snprintf(place, sizeof(place), "%s%s/%s", debug_root, directory + 4,
				 request->name);
			add_both(list, place);
		}
		snprintf(place, sizeof(place), "%s%s/%s", debug_root, directory, request->name);
		add_both(list, place);
	}
}

static void add_alt(struct list *list)
{
	static const char *const between[] = {
		[SNAP_ARCH_UNKNOWN] = "",
		[SNAP_ARCH_X86_64] = "/x86_64-linux-gnu",
		[SNAP_ARCH_AARCH64] = "/aarch64-linux-gnu",
	};
	const struct snap_file_request *request = list->request;
	char path[PATH_MAX];

	add_build_id(list);
	if (!request->name)
		return;
	add_named(list);
	snprintf(path, sizeof(path), "%s/.dwz/%s", debug_root, request->name);
	add_both(list, path);
	if (!request->process || request->process->arch == SNAP_ARCH_UNKNOWN)
		return;
	snprintf(path, sizeof(path), "%s/.dwz%s/%s", debug_root, between[request->process->arch],
		 request->name);
	add_both(list, path);
}

bool snap_file_candidate_get(const struct snap_files *files,
			     const struct snap_file_request *request, size_t index,
			     struct snap_file_candidate *ret)
{
	struct list list = { .files = files, .request = request, .wanted = index, .place = ret };

	if (index >= SNAP_MAX_CANDIDATES)
		return false;
	if (request->name && !snap_name_is_plain(request->name))
		return false;
	list.live = snap_files_live(files, request->process);
	switch (request->kind) {
	case SNAP_FILE_MODULE:
		add_module(&list);
		break;
	case SNAP_FILE_DEBUG:
		add_build_id(&list);
		break;
	case SNAP_FILE_DEBUG_LINK:
	case SNAP_FILE_DWO:
		if (request->name)
			add_named(&list);
		break;
	case SNAP_FILE_ALT:
		add_alt(&list);
		break;
	case SNAP_FILE_PERF_MAP:
		break;
	}
	return list.found;
}

/*
 * Before openat2 (Linux 5.6), or where a sandbox refuses it: name by name, and no symbolic link is
 * followed. Paths in maps hold none.
 */
static int open_steps(int root, const char *path, int flags)
{
	_cleanup_fd_ int directory = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];

	while (directory >= 0) {
		const char *end;
		int fd;

		path += strspn(path, "/");
		end = strchrnul(path, '/');
		if (end == path || (size_t)(end - path) > NAME_MAX) {
			errno = ENOENT;
			return -1;
		}
		memcpy(name, path, (size_t)(end - path));
		name[end - path] = '\0';
		if (strcmp(name, "..") == 0) {
			errno = ENOENT;
			return -1;
		}
		path = end + strspn(end, "/");
		fd = openat(directory, name,
			    *path ? O_PATH | O_NOFOLLOW | O_CLOEXEC : flags | O_NOFOLLOW);
		if (!*path)
			return fd;
		snap_close(&directory);
		directory = fd;
	}
	return -1;
}

static int open_by_rules(int root, const char *path, bool follow, uint64_t more)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
			   (follow ? 0 : RESOLVE_NO_SYMLINKS) | more,
	};

	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static int open_below(int root, const char *path, bool follow)
{
	int fd = open_by_rules(root, path, follow, 0);

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = open_steps(root, path, O_PATH | O_CLOEXEC);
	return fd;
}

bool snap_file_candidate_open_known(const struct snap_file_candidate *place, bool follow, int *ret)
{
	int fd;

	if (place->kind != SNAP_CANDIDATE_ROOT && place->kind != SNAP_CANDIDATE_NEAR)
		return false;
	/* Since Linux 5.12. */
	fd = open_by_rules(place->fd, place->path, follow, RESOLVE_CACHED);
	if (fd < 0)
		return false;
	*ret = fd;
	return true;
}

struct stacksnap_error *snap_file_candidate_open(const struct snap_file_candidate *place,
						 bool follow, int *ret)
{
	int fd = -1;

	switch (place->kind) {
	case SNAP_CANDIDATE_HOST:
		fd = open(place->path, O_PATH | O_CLOEXEC);
		break;
	case SNAP_CANDIDATE_ROOT:
	case SNAP_CANDIDATE_NEAR:
		fd = open_below(place->fd, place->path, follow);
		break;
	case SNAP_CANDIDATE_ENTRY:
		fd = openat(place->fd, place->path, O_PATH | O_CLOEXEC);
		/* It takes a right that not every caller has, and a process that is still there. */
		if (fd < 0)
			errno = ENOENT;
		break;
	case SNAP_CANDIDATE_FD:
		fd = fcntl(place->fd, F_DUPFD_CLOEXEC, 0);
		break;
	case SNAP_CANDIDATE_BYTES:
		errno = ENOENT;
		break;
	}
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return snap_error_not_found();
	if (fd < 0)
		return snap_error_os(errno, "cannot open %s", place->path);
	*ret = fd;
	return NULL;
}
