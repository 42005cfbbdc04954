/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Protocol buffers, the writing half: one message at a time in memory.
 *
 * A field whose value is 0 or empty is left out, as proto3 has it; a message or an element of a
 * list is not. A message inside another one is made in a buffer of its own and then copied. Knows
 * nothing of any schema.
 */
#ifndef SNAP_RENDER_PPROF_PROTOBUF_H
#define SNAP_RENDER_PPROF_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct snap_protobuf {
	char *bytes;
	size_t size, capacity;
	bool failed; /* no memory: what is there is useless */
};

void snap_protobuf_deinit(struct snap_protobuf *message);
/* Empty once more; the memory stays. */
void snap_protobuf_clear(struct snap_protobuf *message);

/* uint64, uint32, bool; int64 by a cast. */
void snap_protobuf_number(struct snap_protobuf *message, unsigned field, uint64_t value);
/* bytes, string: left out if empty. */
void snap_protobuf_bytes(struct snap_protobuf *message, unsigned field, const void *bytes,
			 size_t size);
/* An element of a list of messages, strings or bytes: written if empty, too. */
void snap_protobuf_element(struct snap_protobuf *message, unsigned field, const void *bytes,
			   size_t size);
/* A message inside; a failed one makes this one fail. */
void snap_protobuf_message(struct snap_protobuf *message, unsigned field,
			   const struct snap_protobuf *inside);
/* Fields that are encoded already. */
void snap_protobuf_append(struct snap_protobuf *message, const void *bytes, size_t size);
/* A packed list of numbers. */
void snap_protobuf_packed(struct snap_protobuf *message, unsigned field, const uint64_t *values,
			  size_t count);

#endif
