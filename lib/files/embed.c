/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of files into a capture that is going to be saved, so that a reader elsewhere finds what
 * it could not find by path: modules without a path on this host, and perf maps.
 *
 * Knows of what a file holds only that ELF begins with its magic.
 */
#include "base/reopen.h"
#include "files/search.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static const size_t max_file = 64u << 20, max_all = 256u << 20;

struct embedder {
	struct snap_capture *capture;
	struct snap_file_finder finder;
	const struct snap_embed_watch *watch;
	size_t left; /* bytes that may still be copied */
};

static bool is_same_map_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* The path leads to the same file on this host: compared by what both names open. */
static bool is_on_host(const struct snap_map *map, int fd)
{
	_cleanup_fd_ int host = -1;
	struct stat here, there;

	if (map->deleted || !map->path || map->path[0] != '/')
		return false;
	host = open(map->path, O_PATH | O_CLOEXEC);
	return host >= 0 && snap_look(host, "", &here) && snap_look(fd, "", &there) &&
	       here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* The bytes of a file, NULL if it is too large, cannot be read, or `magic` is not its beginning. */
static uint8_t *copy_file(struct embedder *embedder, int fd, const char *magic, size_t *size_ret)
{
	char head[8] = "";
	struct stat info;
	size_t size, done = 0;
	uint8_t *data;

	if (fstat(fd, &info) < 0 || info.st_size <= 0 || (uint64_t)info.st_size > max_file ||
	    (uint64_t)info.st_size > embedder->left)
		return NULL;
	if (pread(fd, head, strlen(magic), 0) < 0 || memcmp(head, magic, strlen(magic)) != 0)
		return NULL;
	size = (size_t)info.st_size;
	data = snap_arena_alloc(&embedder->capture->arena, size);
	while (data && done < size) {
		ssize_t n = pread(fd, data + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* shorter than it was: what is there is kept */
		done += (size_t)n;
	}
	if (!data || done == 0)
		return NULL;
	embedder->left -= done;
	*size_ret = done;
	return data;
}

static struct stacksnap_error *add_embedded_file(struct embedder *embedder,
						 struct snap_process *process,
						 struct snap_embedded embedded)
{
	size_t count = process->embedded_count;
	struct snap_embedded *array =
		snap_arena_new_array(&embedder->capture->arena, count + 1, struct snap_embedded);

	SNAP_TRY(snap_no_memory_unless(array));
	if (count)
		memcpy(array, process->embedded, count * sizeof(*array));
	array[count] = embedded;
	process->embedded = array;
	process->embedded_count = count + 1;
	return NULL;
}

static bool may_begin(const struct embedder *embedder, const struct snap_file_request *request)
{
	return !embedder->watch || embedder->watch->begin(embedder->watch->context, request);
}

/* A copy that another process already has of the same file. */
static const struct snap_embedded *find_copy(const struct embedder *embedder,
					     const struct snap_process *process,
					     const struct snap_map *map)
{
	for (const struct snap_process *p = embedder->capture->processes; p < process; p++)
		for (size_t i = 0; i < p->embedded_count; i++)
			if (p->embedded[i].kind == SNAP_FILE_MODULE &&
			    is_same_map_file(&p->maps[p->embedded[i].map], map))
				return &p->embedded[i];
	return NULL;
}

static struct stacksnap_error *embed_module(struct embedder *embedder, struct snap_process *process,
					    size_t map)
{
	struct snap_file_request request = { .kind = SNAP_FILE_MODULE,
					     .process = process,
					     .map = map };
	struct snap_embedded embedded = { .kind = SNAP_FILE_MODULE, .map = map };
	const struct snap_embedded *other = find_copy(embedder, process, &process->maps[map]);
	_cleanup_fd_ int fd = -1;

	if (other) {
		embedded.data = other->data;
		embedded.size = other->size;
		return add_embedded_file(embedder, process, embedded);
	}
	if (!may_begin(embedder, &request) ||
	    snap_error_ignore(embedder->finder.find(embedder->finder.context, &request, &fd)))
		return NULL;
	if (is_on_host(&process->maps[map], fd))
		return NULL;
	embedded.data = copy_file(embedder, fd, "\177ELF", &embedded.size);
	return embedded.data ? add_embedded_file(embedder, process, embedded) : NULL;
}

/* The first mapping of the file whose code `map` is: mappings of one file lie side by side. */
static size_t first_of_file(const struct snap_process *process, size_t map)
{
	size_t first = map;

	for (size_t i = map; i-- > 0;) {
		if (process->maps[i].inode == 0)
			continue;
		if (!is_same_map_file(&process->maps[i], &process->maps[map]))
			break;
		first = i;
	}
	return first;
}

static struct stacksnap_error *embed_modules(struct embedder *embedder,
					     struct snap_process *process)
{
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < process->map_count; i++) {
		size_t first;

		if (!process->maps[i].execute || process->maps[i].inode == 0)
			continue;
		first = first_of_file(process, i);
		if (first == last)
			continue;
		last = first;
		SNAP_TRY(embed_module(embedder, process, first));
	}
	return NULL;
}

static struct stacksnap_error *embed_perf_map(struct embedder *embedder,
					      struct snap_process *process)
{
	struct snap_file_request request = { .kind = SNAP_FILE_PERF_MAP, .process = process };
	struct snap_embedded embedded = { .kind = SNAP_FILE_PERF_MAP };
	_cleanup_fd_ int fd = -1;

	if (!may_begin(embedder, &request) ||
	    snap_error_ignore(embedder->finder.find(embedder->finder.context, &request, &fd)))
		return NULL;
	embedded.data = copy_file(embedder, fd, "", &embedded.size);
	return embedded.data ? add_embedded_file(embedder, process, embedded) : NULL;
}

struct stacksnap_error *snap_files_embed(struct snap_files *files, struct snap_capture *capture,
					 const struct snap_embed_watch *watch)
{
	struct embedder embedder = { .capture = capture,
				     .finder = snap_files_finder(files),
				     .watch = watch,
				     .left = max_all };

	if (!capture->live)
		return NULL;
	for (size_t i = 0; i < capture->process_count; i++) {
		SNAP_TRY(embed_perf_map(&embedder, &capture->processes[i]));
		SNAP_TRY(embed_modules(&embedder, &capture->processes[i]));
	}
	return NULL;
}
