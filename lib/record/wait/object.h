/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Objects: what a sampled thread waits with, as logs keep it (struct snap_log_object).
 *
 * Threads that wait for the same thing have equal objects, so an object leaves out all that differs
 * from one wait to the next and does not identify it: timeouts, buffers, lengths, events that have
 * come. Knows neither locks nor names, and keeps nothing.
 */
#pragma once

#include "model/log.h"
#include "sample/sampler.h"
#include "stop/wait_bytes.h"

enum { SNAP_OBJECT_BYTES = 4096, SNAP_OBJECT_PIECES = 3 /* the sets of select */ };

/* An object with all that it points to; not to be moved. */
struct snap_taken_object {
	struct snap_log_object object; /* its `words` is 0 */
	struct snap_memory_image words;
	struct snap_memory_piece pieces[SNAP_OBJECT_PIECES];
	struct snap_descriptor descriptors[SNAP_LOG_MAX_OBJECT_DESCRIPTORS];
	uint8_t bytes[SNAP_OBJECT_BYTES];
};

/*
 * What a thread waits with by its copy, in an address space of the log. False: it does not wait, or
 * that is not known; *ret is undefined then.
 */
bool snap_object_take(const struct snap_sampled_thread *thread, const struct snap_thread *copy,
		      uint32_t space, struct snap_taken_object *ret);

/*
 * The memory around a futex word, to be read: the bytes of one range lie behind those of the other.
 * A page may be missing, so no range goes across the end of one.
 */
struct snap_futex_bytes {
	uint64_t address; /* of the word */
	struct snap_wait_range ranges[2];
	uint32_t got[2]; /* to be set: how many bytes there are of each, from its first on */
	size_t count;
	uint8_t bytes[SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND];
};

void snap_futex_bytes_init(struct snap_futex_bytes *words, uint64_t address);
/* The bytes around a futex whose ranges were read so: borrowed. False: the word is missing. */
bool snap_futex_bytes_piece(const struct snap_futex_bytes *words, struct snap_memory_piece *ret);
