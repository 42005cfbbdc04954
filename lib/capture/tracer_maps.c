/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child's view of an address space: the mappings, the first page of each module, the
 * vDSO. Read while the target runs; again inside the pause only where they turn out to be stale.
 */
#include "capture/tracer_child.h"

#include <errno.h>
#include <string.h>

enum {
	PAGE = 4096,
	PIECES_A_CALL = 64,
	LARGEST_VDSO = 1 << 20,
	NEAR_MAPS = 3, /* the stack of the next thread lies so near */
};

static const char *keep_path(struct snap_region *region, const struct snap_map *before,
			     const char *path, size_t length)
{
	if (length == 0)
		return NULL;
	if (length > SNAP_MAX_PATH)
		length = SNAP_MAX_PATH;
	/* The mappings of a file follow each other. */
	if (before && before->path && strlen(before->path) == length &&
	    memcmp(before->path, path, length) == 0)
		return before->path;
	return snap_region_text(region, path, length);
}

static int read_maps(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_region *records = &tracer->shared->records;
	_cleanup_fd_ int fd = snap_procfs_task_open_file(tracer->task_fds[process], tid, "maps");
	struct snap_lines lines;
	struct snap_map *maps;
	size_t count = 0, length;
	char *line;
	int more;

	if (fd < 0)
		return fd;
	snap_lines_init(&lines, fd, tracer->buffer, SNAP_TRACER_BUFFER);
	while ((more = snap_lines_next(&lines, &line, &length)) > 0 && count < SNAP_MAX_MAPS) {
		struct snap_map *map = &tracer->maps[count];
		const struct snap_map *before = count ? map - 1 : NULL;
		const char *path;
		size_t path_length;

		if (!snap_parse_map(line, length, map, &path, &path_length))
			continue;
		/* What must hold for maps, whatever changed while they were read. */
		if (map->start >= map->end || (before && map->start < before->end))
			continue;
		map->path = keep_path(records, before, path, path_length);
		count++;
	}
	if (more < 0)
		return more;
	if (count == 0)
		return -ESRCH;
	maps = snap_region_new_array(records, count, struct snap_map);
	if (!maps)
		return -ENOMEM;
	memcpy(maps, tracer->maps, count * sizeof(*maps));
	traced->maps = maps;
	traced->map_count = count;
	return 0;
}

static bool is_vdso(const struct snap_map *map)
{
	return map->path && strcmp(map->path, "[vdso]") == 0;
}

static bool same_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/*
 * The first mapping of a file that has code: its head holds the build id. The walk ends where the
 * file begins again, so all walks together pass each mapping once.
 */
static bool is_head(const struct snap_map *maps, size_t count, size_t index)
{
	const struct snap_map *map = &maps[index];

	if (map->inode == 0 || map->offset != 0 || !map->read)
		return false;
	for (size_t i = index; i < count && same_file(map, &maps[i]); i++) {
		if (i > index && maps[i].offset == 0)
			return false;
		if (maps[i].execute)
			return true;
	}
	return false;
}

static size_t piece_size(const struct snap_map *maps, size_t count, size_t index)
{
	size_t size = maps[index].end - maps[index].start;

	if (is_vdso(&maps[index]))
		return size < LARGEST_VDSO ? size : LARGEST_VDSO;
	if (!is_head(maps, count, index))
		return 0;
	return size < PAGE ? size : PAGE;
}

/*
 * A page that nobody serves (userfaultfd, a filesystem in user space) blocks process_vm_readv until
 * SIGKILL; a read of the file of the memory fails at once, but there is one call a range, which
 * makes the pause a tenth longer.
 */
static size_t read_carefully(struct snap_tracer *tracer, uint32_t process, pid_t tid,
			     uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	_cleanup_fd_ int fd = snap_procfs_task_open_file(tracer->task_fds[process], tid, "mem");
	size_t total = 0;

	for (size_t i = 0; fd >= 0 && i < count; i++) {
		ssize_t got = pread(fd, bytes + total, ranges[i].iov_len,
				    (off_t)(uintptr_t)ranges[i].iov_base);

		total += got > 0 ? (size_t)got : 0;
		if (got != (ssize_t)ranges[i].iov_len)
			break;
	}
	return total;
}

size_t snap_tracer_read(struct snap_tracer *tracer, uint32_t process, pid_t tid, uint8_t *bytes,
			const struct iovec *ranges, size_t count)
{
	struct iovec local = { bytes, 0 };
	ssize_t got;

	if (tracer->stop->careful)
		return read_carefully(tracer, process, tid, bytes, ranges, count);
	for (size_t i = 0; i < count; i++)
		local.iov_len += ranges[i].iov_len;
	/* The parent looks at this clock, as a call that blocks cannot. */
	__atomic_store_n(&tracer->stop->reading_ns, snap_tracer_now(), __ATOMIC_RELEASE);
	got = process_vm_readv(tid, &local, 1, ranges, count, 0);
	__atomic_store_n(&tracer->stop->reading_ns, 0, __ATOMIC_RELEASE);
	return got < 0 ? 0 : (size_t)got;
}

/* Reads as many whole pieces as can be read from the front; how many. */
static size_t read_some(struct snap_tracer *tracer, uint32_t process, pid_t tid, uint8_t *bytes,
			struct snap_piece *pieces, size_t count)
{
	struct iovec remote[PIECES_A_CALL];
	size_t done = 0, total = 0, got;

	if (count > PIECES_A_CALL)
		count = PIECES_A_CALL;
	for (size_t i = 0; i < count; i++) {
		remote[i] = (struct iovec){ (void *)(uintptr_t)pieces[i].address, pieces[i].size };
		pieces[i].data = bytes + total;
		total += pieces[i].size;
	}
	got = snap_tracer_read(tracer, process, tid, bytes, remote, count);
	for (total = 0; done < count; done++) {
		total += pieces[done].size;
		if (got < total)
			break;
	}
	return done;
}

static void read_pieces(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_region *records = &tracer->shared->records;
	size_t wanted = 0, bytes = 0, kept = 0;
	struct snap_piece *pieces;
	uint8_t *data;

	for (size_t i = 0; i < traced->map_count; i++) {
		size_t size = piece_size(traced->maps, traced->map_count, i);

		wanted += size != 0;
		bytes += size;
	}
	pieces = snap_region_new_array(records, wanted, struct snap_piece);
	data = snap_region_alloc(records, bytes);
	if (!pieces || !data)
		return;
	wanted = 0;
	for (size_t i = 0; i < traced->map_count; i++) {
		size_t size = piece_size(traced->maps, traced->map_count, i);

		if (size)
			pieces[wanted++] = (struct snap_piece){ .address = traced->maps[i].start,
								.size = size };
	}
	for (size_t i = 0; i < wanted;) {
		size_t whole = read_some(tracer, process, tid, data, pieces + i, wanted - i);

		for (size_t k = 0; k < whole; k++) {
			pieces[kept] = pieces[i + k];
			data += pieces[kept++].size;
		}
		/* When none could be read, the first cannot. */
		i += whole + (whole == 0);
	}
	traced->pieces = pieces;
	traced->piece_count = kept;
}

int snap_tracer_read_maps(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	int error = read_maps(tracer, process, tid);

	if (!error)
		read_pieces(tracer, process, tid);
	return error;
}

const struct snap_map *snap_tracer_find_map(struct snap_tracer *tracer, uint32_t process,
					    uint64_t address)
{
	const struct snap_traced *traced = &tracer->stop->processes[process];
	size_t from = tracer->last_map > NEAR_MAPS ? tracer->last_map - NEAR_MAPS : 0;
	size_t low = 0, high = traced->map_count;

	/* Threads that were made one after the other have their stacks near each other. */
	for (size_t i = from; i < high && i <= tracer->last_map + NEAR_MAPS; i++) {
		const struct snap_map *map = &traced->maps[i];

		if (map->start <= address && address < map->end) {
			tracer->last_map = i;
			return map;
		}
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (traced->maps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == traced->map_count || traced->maps[low].start > address)
		return NULL;
	tracer->last_map = low;
	return &traced->maps[low];
}
