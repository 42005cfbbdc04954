/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Unpacks parts of a compressed section: see partial.h. */
#include "analyze/dwarf/partial.h"

#include "analyze/elf/cursor.h"

#include <elf.h>
#include <sys/mman.h>
#include <zlib.h>

enum { WINDOW = 1 << 16, HEADER = 12, SMALL = 1 << 12 };
/* Of a section, and of what is unpacked of it: the rest stays zero. */
static const uint64_t max_size = 2ull << 30, max_unpacked = 96ull << 20;

bool snap_partial_open(struct snap_image *image, const char *name, struct snap_partial *ret)
{
	struct snap_bytes packed = snap_image_packed_section(image, name);
	Elf64_Chdr header;
	void *data;

	if (packed.size < sizeof(header))
		return false;
	memcpy(&header, packed.data, sizeof(header));
	if (header.ch_type != ELFCOMPRESS_ZLIB || header.ch_size < SMALL ||
	    header.ch_size > max_size)
		return false;
	data = mmap(NULL, header.ch_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data == MAP_FAILED)
		return false;
	*ret = (struct snap_partial){
		.data = data,
		.size = header.ch_size,
		.packed = { packed.data + sizeof(header), packed.size - sizeof(header) },
	};
	return true;
}

void snap_partial_close(struct snap_partial *partial)
{
	if (partial->data)
		munmap(partial->data, partial->size);
	*partial = (struct snap_partial){ 0 };
}

/* Begins to unpack into `window`; the input is fed whole, in pieces that zlib can count. */
static bool start_inflating(const struct snap_partial *partial, z_stream *stream)
{
	*stream = (z_stream){ .next_in = (Bytef *)partial->packed.data };
	if (partial->packed.size > UINT32_MAX)
		return false;
	stream->avail_in = (uInt)partial->packed.size;
	return inflateInit(stream) == Z_OK;
}

/* Where the copying of wanted units stands. */
struct copier {
	struct snap_partial *partial;
	const uint64_t *offsets;
	size_t count, next;
	uint64_t end;   /* of what is wanted of the next unit; 0: not begun */
	bool in_header; /* `end` is that of the header, which will say more */
	uint64_t room;  /* bytes that may still be copied */
};

/* How far a unit goes whose first bytes were copied. */
static uint64_t unit_end(const struct snap_partial *partial, uint64_t offset)
{
	struct snap_cursor cursor =
		snap_cursor_at((struct snap_bytes){ partial->data, partial->size }, offset);
	unsigned offset_size;

	if (!snap_cursor_enter(&cursor, &offset_size))
		return offset;
	return (uint64_t)(cursor.end - partial->data);
}

/* Takes of the bytes at [at, at + size) of the section what is wanted. */
static void copy_wanted(struct copier *copier, uint64_t at, const uint8_t *bytes, size_t size)
{
	struct snap_partial *partial = copier->partial;

	while (copier->next < copier->count) {
		uint64_t from = copier->offsets[copier->next], to;

		if (copier->end == 0) {
			copier->in_header = true;
			copier->end = from + HEADER;
		}
		if (copier->end > partial->size)
			copier->end = partial->size;
		to = copier->end < at + size ? copier->end : at + size;
		if (from < at)
			from = at;
		if (from < to && to - from > copier->room) {
			copier->next = copier->count;
			return;
		}
		if (from < to) {
			memcpy(partial->data + from, bytes + (from - at), to - from);
			copier->room -= to - from;
		}
		if (copier->end > at + size)
			return; /* the rest comes with the next bytes */
		if (copier->in_header) {
			copier->in_header = false;
			copier->end = unit_end(partial, copier->offsets[copier->next]);
			if (copier->end > copier->offsets[copier->next] + HEADER)
				continue;
		}
		copier->next++;
		copier->end = 0;
	}
}

bool snap_partial_units(struct snap_partial *partial, const uint64_t *offsets, size_t count)
{
	_cleanup_free_ uint8_t *window = malloc(WINDOW);
	struct copier copier = {
		.partial = partial, .offsets = offsets, .count = count, .room = max_unpacked
	};
	uint64_t at = 0;
	z_stream stream;
	int result = Z_OK;

	while (count > 0 && offsets[count - 1] >= partial->size)
		count--;
	copier.count = count;
	if (partial->whole || count == 0)
		return true;
	if (!window || !start_inflating(partial, &stream))
		return false;
	while (result == Z_OK && copier.next < count) {
		size_t size;

		stream.next_out = window;
		stream.avail_out = WINDOW;
		result = inflate(&stream, Z_NO_FLUSH);
		size = WINDOW - stream.avail_out;
		if (size == 0 || (result != Z_OK && result != Z_STREAM_END) ||
		    size > partial->size - at)
			break;
		copy_wanted(&copier, at, window, size);
		at += size;
	}
	inflateEnd(&stream);
	return true;
}

void snap_partial_whole(struct snap_partial *partial)
{
	z_stream stream;

	if (partial->whole || partial->size > max_unpacked || !start_inflating(partial, &stream))
		return;
	partial->whole = true;
	stream.next_out = partial->data;
	stream.avail_out = (uInt)partial->size;
	/* The result does not matter: what could be unpacked is there. */
	inflate(&stream, Z_FINISH);
	inflateEnd(&stream);
}
