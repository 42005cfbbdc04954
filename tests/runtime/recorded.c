/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recorded images, written and read: see recorded.h. Knows nothing of what is in a result. */
#include "recorded.h"

#include "analyze/runtime/runtimes.h"
#include "base/error.h"
#include "store/capture/file.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const uint64_t most_memory = 256u << 20; /* of the decoder */
static const size_t most_bytes = 256u << 20;    /* of a capture that is unpacked */

/* ---- files ---- */

static uint8_t *read_whole(int fd, size_t *size_ret)
{
	struct stat status;
	uint8_t *bytes;

	if (fd < 0 || fstat(fd, &status) != 0)
		return NULL;
	*size_ret = (size_t)status.st_size;
	bytes = malloc(*size_ret + 1);
	if (bytes && pread(fd, bytes, *size_ret, 0) == (ssize_t)*size_ret)
		return bytes;
	free(bytes);
	return NULL;
}

bool recorded_write(const struct snap_capture *capture, const char *path)
{
	_cleanup_fd_ int plain = memfd_create("capture", MFD_CLOEXEC), fd = -1;
	_cleanup_free_ uint8_t *bytes = NULL, *packed = NULL;
	size_t size = 0, bound, packed_size = 0;

	errno = EIO;
	if (plain < 0 || snap_error_ignore(snap_capture_write(capture, plain)))
		return false;
	bytes = read_whole(plain, &size);
	bound = lzma_stream_buffer_bound(size);
	packed = malloc(bound);
	if (!bytes || !packed ||
	    lzma_easy_buffer_encode(9 | LZMA_PRESET_EXTREME, LZMA_CHECK_CRC32, NULL, bytes, size,
				    packed, &packed_size, bound) != LZMA_OK)
		return false;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return fd >= 0 && write(fd, packed, packed_size) == (ssize_t)packed_size;
}

/* Into a file in memory, piece by piece: how long it will be stands nowhere. */
static bool unpack(const void *bytes, size_t size, int fd)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	uint8_t piece[65536];
	lzma_ret status = lzma_stream_decoder(&stream, most_memory, 0);

	stream.next_in = bytes;
	stream.avail_in = size;
	while (status == LZMA_OK && stream.total_out < most_bytes) {
		size_t made;

		stream.next_out = piece;
		stream.avail_out = sizeof(piece);
		status = lzma_code(&stream, LZMA_FINISH);
		made = sizeof(piece) - stream.avail_out;
		if (write(fd, piece, made) != (ssize_t)made)
			break;
	}
	lzma_end(&stream);
	return status == LZMA_STREAM_END;
}

struct snap_capture *recorded_unpack(const void *bytes, size_t size)
{
	_cleanup_fd_ int fd = memfd_create("capture", MFD_CLOEXEC);
	struct snap_capture *capture = NULL;

	if (fd < 0 || !unpack(bytes, size, fd) || lseek(fd, 0, SEEK_SET) != 0 ||
	    snap_error_ignore(snap_capture_read(fd, &capture)))
		return NULL;
	if (capture->process_count == 1 && capture->processes[0].memory)
		return capture;
	snap_capture_destroy(capture);
	return NULL;
}

struct snap_capture *recorded_open(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size = 0;

	bytes = read_whole(fd, &size);
	return bytes ? recorded_unpack(bytes, size) : NULL;
}

/* ---- what readers are given ---- */

static bool read_image(void *context, uint64_t address, void *out, size_t size)
{
	const struct recorded *recorded = context;

	return snap_memory_image_read(recorded->process->memory, address, out, size);
}

static bool next_in_image(void *context, uint64_t address, uint64_t *start_ret, uint64_t *size_ret)
{
	const struct recorded *recorded = context;

	return snap_memory_image_next(recorded->process->memory, address, start_ret, size_ret);
}

static bool copy_file(const struct snap_embedded *embedded, struct recorded_file *ret)
{
	ret->fd = memfd_create("module", MFD_CLOEXEC);
	if (ret->fd < 0 ||
	    pwrite(ret->fd, embedded->data, embedded->size, 0) != (ssize_t)embedded->size)
		return false;
	ret->bytes = mmap(NULL, embedded->size, PROT_READ | PROT_WRITE, MAP_SHARED, ret->fd, 0);
	return ret->bytes != MAP_FAILED;
}

static struct stacksnap_error *find_file(void *context, const struct snap_file_request *request,
					 int *fd_ret)
{
	struct recorded *recorded = context;
	const struct snap_process *process = recorded->process;
	const struct snap_map *map = &process->maps[request->map];

	if (request->kind != SNAP_FILE_MODULE || request->attempt > 0)
		return snap_error_not_found();
	for (size_t i = 0; i < process->embedded_count; i++) {
		if (!recorded_same_file(&process->maps[process->embedded[i].map], map))
			continue;
		*fd_ret = fcntl(recorded->files[i].fd, F_DUPFD_CLOEXEC, 0);
		if (*fd_ret < 0)
			return snap_error_no_memory();
		if (request->identity_ret)
			*request->identity_ret = (struct snap_file_identity){
				.is_copy = true,
				.dev = makedev(map->dev_major, map->dev_minor),
				.inode = map->inode,
			};
		return NULL;
	}
	return snap_error_not_found();
}

struct snap_file_finder recorded_finder(struct recorded *recorded)
{
	return (struct snap_file_finder){ .find = find_file, .context = recorded };
}

void recorded_init(struct recorded *recorded, struct snap_capture *capture)
{
	size_t count = capture->processes[0].embedded_count;

	*recorded = (struct recorded){
		.capture = capture,
		.process = &capture->processes[0],
		.options = { .inlines = true, .lines = true, .symbols = true },
		.memory = { .read = read_image, .next = next_in_image, .context = recorded },
	};
	recorded->files = calloc(count + 1, sizeof(*recorded->files));
	if (!recorded->files)
		abort();
	for (size_t i = 0; i < count; i++)
		if (!copy_file(&capture->processes[0].embedded[i], &recorded->files[i]))
			abort();
}

void recorded_forget(struct recorded *recorded)
{
	if (!recorded->set)
		return;
	snap_module_set_destroy(recorded->set);
	snap_interner_deinit(&recorded->strings);
	snap_arena_deinit(&recorded->arena);
	recorded->set = NULL;
}

void recorded_deinit(struct recorded *recorded)
{
	recorded_forget(recorded);
	for (size_t i = 0; i < recorded->process->embedded_count; i++) {
		munmap(recorded->files[i].bytes, recorded->process->embedded[i].size);
		snap_close(&recorded->files[i].fd);
	}
	free(recorded->files);
	snap_capture_destroy(recorded->capture);
}

struct stacksnap_error *recorded_begin(struct recorded *recorded)
{
	struct snap_file_finder finder = recorded_finder(recorded);
	struct stacksnap_error *err;

	recorded_forget(recorded);
	snap_arena_init(&recorded->arena);
	snap_interner_init(&recorded->strings, &recorded->arena);
	err = snap_module_set_create(&finder, &recorded->arena, &recorded->set);
	if (err)
		return err;
	recorded->given = (struct snap_runtime_process){ .process = recorded->process,
							 .set = recorded->set,
							 .memory = &recorded->memory,
							 .options = &recorded->options,
							 .strings = &recorded->strings,
							 .arena = &recorded->arena };
	return snap_modules_create(recorded->set, recorded->process, &recorded->given.modules);
}

struct stacksnap_error *recorded_read(struct recorded *recorded, const struct snap_runtime *runtime,
				      struct snap_runtime_result **ret)
{
	struct stacksnap_error *err = recorded_begin(recorded);

	return err ? err : runtime->read(&recorded->given, ret);
}

const struct snap_runtime *recorded_runtime(const char *name)
{
	for (size_t i = 0; snap_runtimes[i]; i++)
		if (strcmp(snap_runtimes[i]->name, name) == 0)
			return snap_runtimes[i];
	return NULL;
}
