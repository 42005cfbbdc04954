/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of pointers: things with many pointers to them (texts, frames, lists of frames) are stored
 * once. See codec.h for the rest.
 *
 * Things of a kind are numbered from 1 on, and written where the first pointer to them is. A number
 * that is one more than the last says that the thing follows; 0 means NULL. Pointers that were equal
 * are equal again when read. For bytes that go from one process to another, never on disk. All values
 * that renderers rely on are checked, as hostile bytes may have taken over the writing process.
 */
#pragma once

#include "base/table.h"
#include "model/snapshot.h"
#include "store/codec.h"

enum { SNAP_LONGEST_MESSAGE = SNAP_MAX_ARGS };

struct snap_pointee {
	const void *pointer;
	uint64_t count; /* of its bytes or elements */
	uint64_t shown; /* READ: about how many bytes of a report it makes */
};

/* The things of a kind so far; when they are written, the table finds them. */
struct snap_pointers {
	struct snap_pointee *items;
	size_t count, capacity;
	struct snap_hash_table table;
};

struct snap_pointer_codec {
	struct snap_codec codec;
	struct snap_pointers texts, frames, lists, entries;
	/* Waits in the order in which they were first pointed to; read: and how often they are. */
	struct snap_pointer_table waits;
	bool no_memory; /* what was counted, written or read is of no use */
	/* READ */
	size_t waits_read; /* those of `waits` whose contents were reached */
	uint64_t shown;    /* about how many bytes of a report so far */
	const char *hex;   /* the last text that was found to be hexadecimal */
};

/* READ: a report has so many bytes more, about; one that has no end is refused. */
void snap_code_count_shown(struct snap_pointer_codec *to, uint64_t shown);

void snap_pointer_codec_deinit(struct snap_pointer_codec *to);

/*
 * Begins what `*pointer` points to, `*count` bytes or elements. True: it is not known yet, and the
 * caller is to describe it and, when it reads, to call snap_pointer_end(). False: all is done; when
 * reading, *pointer and *count are set.
 */
bool snap_pointer_begin(struct snap_pointer_codec *to, struct snap_pointers *pointers,
			const void **pointer, uint64_t *count);
void snap_pointer_end(struct snap_pointer_codec *to, struct snap_pointers *pointers,
		      struct snap_pointee item);

/* A text that others may point to as well; as snap_code_text(). */
void snap_code_text_pointer(struct snap_pointer_codec *to, const char **text, size_t most);
/* A frame that nothing else points to; its texts are as above. */
void snap_code_frame(struct snap_pointer_codec *to, struct snap_frame *frame);
/* A frame that others may point to as well; not NULL. */
void snap_code_frame_pointer(struct snap_pointer_codec *to, const struct snap_frame **frame);
/* A function that others may point to as well, or NULL. */
void snap_code_entry_pointer(struct snap_pointer_codec *to, const struct snap_entry **entry);
void snap_code_warning(struct snap_pointer_codec *to, struct snap_warning *warning);

/* A number that is at most `most`. */
void snap_code_at_most(struct snap_pointer_codec *to, size_t *value, uint64_t most);
/* A length of time: not negative, and two of them can be added up. */
void snap_code_length(struct snap_pointer_codec *to, int64_t *value);
/* A moment: the time between two of them is a number. */
void snap_code_moment(struct snap_pointer_codec *to, int64_t *value);
