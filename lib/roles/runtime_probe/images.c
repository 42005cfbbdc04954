/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that is kept as it is before the stop: ELF images that describe code made at run time, what
 * describes greenlets. From a process to its pieces in the capture. Knows nothing of what is in it.
 */
#include "roles/runtime_probe/messages.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

enum {
	MOST_IMAGES = 1 << 14,
	MOST_BYTES = 256 << 20,
	MOST_OF_IMAGE = 32 << 20,
};

struct snap_probe_image {
	pid_t pid;
	uint64_t start_ticks, address;
	uint32_t size;
	uint8_t *bytes; /* malloc'ed */
};

void snap_probe_images_deinit(struct snap_probe_images *images)
{
	while (images->count)
		snap_probe_images_drop(images);
	free(images->list);
	*images = (struct snap_probe_images){ 0 };
}

static bool is_image_of(const struct snap_probe_image *image, const struct snap_process *process)
{
	return image->pid == process->pid && image->start_ticks == process->start_ticks;
}

void snap_probe_images_begin(struct snap_probe_images *images, const struct snap_process *process)
{
	size_t kept = 0;

	for (size_t i = 0; i < images->count; i++) {
		if (!is_image_of(&images->list[i], process)) {
			images->list[kept++] = images->list[i];
			continue;
		}
		images->bytes -= images->list[i].size;
		free(images->list[i].bytes);
	}
	images->count = kept;
}

uint8_t *snap_probe_images_add(struct snap_probe_images *images, const struct snap_process *process,
			       uint64_t address, uint32_t size)
{
	uint8_t *bytes;

	/* Those of one process are the last ones. */
	for (size_t i = images->count; i-- > 0 && is_image_of(&images->list[i], process);)
		if (images->list[i].address == address)
			return NULL;
	if (size == 0 || size > MOST_OF_IMAGE || address > UINT64_MAX - size ||
	    size > MOST_BYTES - images->bytes ||
	    !snap_reserve_array_most(images->list, images->capacity, images->count + 1,
				     MOST_IMAGES))
		return NULL;
	bytes = malloc(size);
	if (!bytes)
		return NULL;
	images->bytes += size;
	images->list[images->count++] =
		(struct snap_probe_image){ process->pid, process->start_ticks, address, size,
					   bytes };
	return bytes;
}

void snap_probe_images_drop(struct snap_probe_images *images)
{
	struct snap_probe_image *last = &images->list[--images->count];

	images->bytes -= last->size;
	free(last->bytes);
}

SNAP_ORDER(compare_pieces, struct snap_piece, a, b, snap_compare(a->address, b->address));

/* What is known of the process does not give way. */
static bool hides_piece(const struct snap_probe_image *image, const struct snap_process *process)
{
	for (size_t i = 0; i < process->piece_count; i++) {
		const struct snap_piece *piece = &process->pieces[i];

		if (piece->address < image->address + image->size &&
		    image->address < piece->address + piece->size)
			return true;
	}
	return false;
}

/* Of pieces that overlap the first one stays. */
static size_t drop_overlaps(struct snap_piece *pieces, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (kept == 0 ||
		    pieces[i].address - pieces[kept - 1].address >= pieces[kept - 1].size)
			pieces[kept++] = pieces[i];
	return kept;
}

bool snap_probe_images_apply(const struct snap_probe_images *images, struct snap_arena *arena,
			     struct snap_process *process)
{
	size_t count = process->piece_count, added = 0;
	struct snap_piece *pieces;

	for (size_t i = 0; i < images->count; i++)
		added += is_image_of(&images->list[i], process);
	if (!added)
		return true;
	pieces = snap_arena_new_array(arena, count + added, struct snap_piece);
	if (!pieces)
		return false;
	if (count)
		memcpy(pieces, process->pieces, count * sizeof(*pieces));
	for (size_t i = 0; i < images->count; i++) {
		const struct snap_probe_image *image = &images->list[i];

		if (!is_image_of(image, process) || hides_piece(image, process))
			continue;
		pieces[count] =
			(struct snap_piece){ image->address,
					     snap_arena_memdup(arena, image->bytes, image->size),
					     image->size };
		if (!pieces[count++].data)
			return false;
	}
	qsort(pieces, count, sizeof(*pieces), compare_pieces);
	process->pieces = pieces;
	process->piece_count = drop_overlaps(pieces, count);
	return true;
}
