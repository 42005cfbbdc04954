/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The codec of files: primitives that count, write or read, one call for all three.
 *
 * A structure is described once, field by field; the codec's mode decides what the description
 * does. So writing and reading cannot differ. Integers are little endian on every machine, texts have
 * their length and end in a NUL, bulk bytes are aligned and, when read, stay in place. The first error
 * stays: then nothing more is read or written, and values are 0.
 *
 * What a target says must cost no more than its own field. So a value that a reader would refuse is
 * written as the nearest that it takes, and a list that is too long is cut.
 * Knows nothing of captures.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum snap_codec_mode { SNAP_CODEC_COUNT, SNAP_CODEC_WRITE, SNAP_CODEC_READ };

enum {
	SNAP_CODEC_ALIGNMENT = 16,
	SNAP_CODEC_CHUNK = 1 << 16, /* bytes that are hashed and written at once */
};

struct snap_codec {
	enum snap_codec_mode mode;
	uint64_t position; /* in the section */
	/* READ */
	const uint8_t *bytes; /* of the section; aligned like the section in the file */
	uint64_t size;
	struct snap_arena *arena; /* for arrays */
	const char *problem;      /* what is wrong with the bytes; NULL: nothing yet */
	/* WRITE */
	uint8_t *memory; /* all goes there; NULL: to fd */
	/* Its room, beyond which bytes are counted and not written; 0: for all that COUNT counted. */
	uint64_t memory_size;
	int fd;
	uint8_t *chunk; /* SNAP_CODEC_CHUNK bytes */
	size_t chunk_used;
	uint64_t hash;
	int write_errno;
	/*
	 * From process to process on one machine: nothing is hashed, and bytes in this memory are not
	 * copied: they are given by their offset, which is the same for both processes.
	 */
	bool handed;
	const uint8_t *outside;
	uint64_t outside_size;
};

static inline bool snap_codec_reads(const struct snap_codec *codec)
{
	return codec->mode == SNAP_CODEC_READ;
}

/* Marks what was read as wrong; `problem` is static text, the first one stays. */
void snap_codec_refuse(struct snap_codec *codec, const char *problem);
/* The bytes are right, but there is no memory for their contents. */
void snap_codec_refuse_memory(struct snap_codec *codec);
bool snap_codec_lacks_memory(const struct snap_codec *codec);
/* For checks between values; does nothing when they hold, or when not reading. */
void snap_codec_check(struct snap_codec *codec, bool holds, const char *problem);

void snap_code_u64(struct snap_codec *codec, uint64_t *value);
void snap_code_i64(struct snap_codec *codec, int64_t *value);
void snap_code_u32(struct snap_codec *codec, uint32_t *value);
void snap_code_i32(struct snap_codec *codec, int32_t *value);
/* The same of numbers that have a limit. */
void snap_code_most(struct snap_codec *codec, uint64_t *value, uint64_t most);
void snap_code_range(struct snap_codec *codec, int64_t *value, int64_t least, int64_t most);
void snap_code_least(struct snap_codec *codec, int32_t *value, int32_t least);
void snap_code_bool(struct snap_codec *codec, bool *value);
/* In one byte, which of the first alone is that of snap_code_bool(). */
void snap_code_two_bools(struct snap_codec *codec, bool *first, bool *second);
/* A letter of stat, or 0. */
void snap_code_letter(struct snap_codec *codec, char *value);
/* A value of an enum with `count` values, the first 0. */
void snap_code_enum(struct snap_codec *codec, void *value, uint32_t count);
#define snap_code_enumerator(codec, value, count)                                \
	do {                                                                     \
		_Static_assert(sizeof(*(value)) == sizeof(uint32_t), "an enum"); \
		snap_code_enum((codec), (value), (count));                       \
	} while (0)
/* At most `most`; SIZE_MAX, where a value may be absent, is kept. */
void snap_code_size(struct snap_codec *codec, size_t *value, uint64_t most);
/* NULL is kept; no NUL inside, at most `most` bytes. When read, lies in the section's bytes. */
void snap_code_text(struct snap_codec *codec, const char **text, size_t most);
/* Aligned bytes. When read, lies in the section's bytes; NULL when there are none. */
void snap_code_bytes(struct snap_codec *codec, void *pointer_to_data, size_t *size, uint64_t most);
/* The same without alignment. */
void snap_code_packed_bytes(struct snap_codec *codec, void *pointer_to_data, size_t *size,
			    uint64_t most);
/* An array of 64-bit numbers; when read, it is made. */
void snap_code_numbers(struct snap_codec *codec, const uint64_t **numbers, size_t *count,
		       uint64_t most);
/*
 * The number of elements of an array, each of which takes `least` bytes of the file or more; when
 * read, makes room for them, zeroed.
 */
void snap_code_array(struct snap_codec *codec, void *pointer_to_array, size_t *count, uint64_t most,
		     size_t element_size, size_t least);

/*
 * An array with all of its elements: `code` describes element `i` of it.
 *
 *	snap_code_list(codec, facts->locks, facts->lock_count, MOST, LEAST, i,
 *		       code_lock(codec, &facts->locks[i]));
 */
#define snap_code_list(codec, array, count, most, least, i, code)                                \
	do {                                                                                     \
		snap_code_array((codec), &(array), &(count), (most), sizeof(*(array)), (least)); \
		for (size_t i = 0; i < (count) && !(codec)->problem; i++)                        \
			code;                                                                    \
	} while (0)

/* Ends the section when writing: what is left in the chunk goes out. */
void snap_codec_flush(struct snap_codec *codec);
/* The hash of a section as the writer makes it, chunk by chunk. */
uint64_t snap_codec_hash(const uint8_t *bytes, uint64_t size);
/* Writes all bytes; 0 or an errno. */
int snap_write_all(int fd, const void *bytes, size_t size);
