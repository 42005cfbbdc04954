/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process that was read, as a recorded image: what nobody has looked at is left out. */
#include "live.h"

#include "recorded.h"
#include "watch.h"

#include <errno.h>
#include <string.h>

enum { LONG_PIECE = 64 << 10, LINE = 64 };

static struct live_file *file_of(struct live *live, const struct snap_map *map)
{
	for (size_t i = 0; i < live->file_count; i++)
		if (recorded_same_file(&live->files[i].map, map))
			return &live->files[i];
	return NULL;
}

/* The bytes of a file behind memory that was read, as who reads the file finds them there. */
static void look_at_memory(struct live *live)
{
	for (size_t i = 0; i < live->range_count; i++) {
		const struct live_range *range = &live->ranges[i];
		const struct snap_map *map = snap_process_map(&live->process, range->address);
		const struct live_file *file = map ? file_of(live, map) : NULL;
		struct watched *watched = file ? watch_file(file->dev, file->inode) : NULL;

		if (watched)
			watch_look(watched, map->offset + (range->address - map->start),
				   range->size);
	}
}

/* As long as it was, with zeros where nobody has looked. */
static struct snap_embedded copy_file(struct snap_arena *arena, const struct watched *watched,
				      size_t map)
{
	uint8_t *bytes = snap_arena_alloc(arena, watched->size);

	if (!bytes)
		fail("out of memory");
	memset(bytes, 0, watched->size);
	for (size_t at = 0; at < watched->size; at += WATCH_PAGE) {
		size_t left = watched->size - at;

		if (watched->seen[at / WATCH_PAGE])
			memcpy(bytes + at, watched->bytes + at,
			       left < WATCH_PAGE ? left : WATCH_PAGE);
	}
	return (struct snap_embedded){ SNAP_FILE_MODULE, map, bytes, watched->size };
}

static void copy_files(struct live *live, struct snap_process *process)
{
	process->embedded =
		snap_arena_new_array(&live->arena, live->file_count + 1, struct snap_embedded);
	if (!process->embedded)
		fail("out of memory");
	for (size_t i = 0; i < process->map_count; i++) {
		const struct live_file *file = file_of(live, &process->maps[i]);
		const struct watched *watched = file ? watch_file(file->dev, file->inode) : NULL;

		if (watched &&
		    (i == 0 || !recorded_same_file(&process->maps[i - 1], &process->maps[i])) &&
		    process->embedded_count < live->file_count)
			process->embedded[process->embedded_count++] =
				copy_file(&live->arena, watched, i);
	}
}

static void cut_stacks(struct snap_process *process)
{
	for (size_t i = 0; i < process->thread_count; i++) {
		struct snap_thread *thread = &process->threads[i];
		const struct watched *watched = watch_memory(thread->stack);

		if (watched && watch_end(watched) < thread->stack_size)
			thread->stack_size = watch_end(watched);
	}
}

/* One byte for each LINE bytes of a piece: whether somebody has read of them. */
static uint8_t *lines_of(const struct live *live, const struct snap_memory_piece *piece)
{
	uint8_t *lines = calloc(piece->size / LINE + 1, 1);

	if (!lines)
		fail("out of memory");
	for (size_t i = 0; i < live->range_count; i++) {
		const struct live_range *range = &live->ranges[i];
		uint64_t end = range->address + range->size;
		uint64_t at = range->address > piece->address ? range->address : piece->address;

		if (end > piece->address + piece->size)
			end = piece->address + piece->size;
		for (at -= (at - piece->address) % LINE; at < end; at += LINE)
			lines[(at - piece->address) / LINE] = 1;
	}
	return lines;
}

/* The lines that were read, those that follow each other in one. */
static size_t cut_piece(const struct snap_memory_piece *piece, const uint8_t *lines,
			struct snap_memory_piece *ret)
{
	size_t count = 0;

	for (uint64_t at = 0; at < piece->size; at += LINE) {
		uint64_t size = piece->size - at < LINE ? piece->size - at : LINE;

		if (!lines[at / LINE])
			continue;
		if (count && ret[count - 1].address + ret[count - 1].size == piece->address + at)
			ret[count - 1].size += size;
		else
			ret[count++] = (struct snap_memory_piece){ piece->address + at, size,
								   piece->bytes + at };
	}
	return count;
}

/* Of a long piece, which is a heap, what was read. */
static void cut_image(struct live *live, struct snap_memory_image *image)
{
	const struct snap_memory_image whole = *image;
	size_t most = whole.piece_count;

	for (size_t i = 0; i < whole.piece_count; i++)
		most += whole.pieces[i].size < LONG_PIECE ? 0 : whole.pieces[i].size / LINE + 1;
	image->pieces = snap_arena_new_array(&live->arena, most, struct snap_memory_piece);
	if (!image->pieces)
		fail("out of memory");
	image->piece_count = 0;
	for (size_t i = 0; i < whole.piece_count; i++) {
		const struct snap_memory_piece *piece = &whole.pieces[i];
		uint8_t *lines;

		if (piece->size < LONG_PIECE) {
			image->pieces[image->piece_count++] = *piece;
			continue;
		}
		lines = lines_of(live, piece);
		image->piece_count += cut_piece(piece, lines, &image->pieces[image->piece_count]);
		free(lines);
	}
}

/* First pages of the modules whose files are there. */
static void cut_pieces(struct live *live, struct snap_process *process)
{
	size_t count = 0;

	for (size_t i = 0; i < process->piece_count; i++) {
		const struct snap_map *map = snap_process_map(process, process->pieces[i].address);

		if (map && file_of(live, map))
			process->pieces[count++] = process->pieces[i];
	}
	process->piece_count = count;
}

/* What was written is read again: it must say the same. */
static void check_saved(const char *path, const struct snap_runtime *runtime, const char *truth)
{
	struct snap_capture *capture = recorded_open(path);
	struct snap_runtime_result *result = NULL;
	struct recorded recorded;
	char *text;

	if (!capture)
		fail("%s cannot be read", path);
	recorded_init(&recorded, capture);
	if (snap_error_ignore(recorded_read(&recorded, runtime, &result)))
		fail("%s cannot be understood", path);
	text = recorded_text(result);
	if (!text || strcmp(text, truth) != 0)
		fail("%s says something else:\n%s", path, text);
	free(text);
	recorded_deinit(&recorded);
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		fail("%s: %s", path, strerror(errno));
}

void live_save(const char *name, struct live *live, const struct snap_runtime *runtime,
	       const struct live_report *report)
{
	struct snap_capture *capture = snap_capture_new();
	struct snap_process process = live->process;
	struct snap_memory_image image = report->image->image;
	char *truth = recorded_text(report->result);
	char path[SNAP_MAX_PATH];

	if (!capture || !truth)
		fail("out of memory");
	process.memory = &image;
	process.parent = SIZE_MAX;
	process.state = 'S';
	look_at_memory(live);
	copy_files(live, &process);
	cut_stacks(&process);
	cut_pieces(live, &process);
	cut_image(live, &image);
	capture->processes = &process;
	capture->process_count = 1;
	snprintf(path, sizeof(path), "%s.image.xz", name);
	if (!recorded_write(capture, path))
		fail("%s: %s", path, strerror(errno));
	capture->processes = NULL;
	capture->process_count = 0;
	check_saved(path, runtime, truth);
	snprintf(path, sizeof(path), "%s.truth", name);
	write_text(path, truth);
	free(truth);
	snap_capture_destroy(capture);
}
