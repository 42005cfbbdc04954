/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Protocol buffers, the writing half: messages are made in buffers.
 *
 * A field whose value is 0 or empty is left out, as proto3 has it; a message or an element of a
 * list is not. A message inside another one is made in a buffer of its own and then copied. Fields
 * that are encoded already are added as bytes (base/buffer.h), which also remembers failures. Knows
 * nothing of any schema.
 */
#pragma once

#include "base/buffer.h"

/* uint64, uint32, bool; int64 by a cast. */
void snap_protobuf_number(struct snap_buffer *message, unsigned field, uint64_t value);
/* An element of a list of messages, strings or bytes: written if empty, too. */
void snap_protobuf_element(struct snap_buffer *message, unsigned field, const void *bytes,
			   size_t size);
/* A message inside; a failed one makes this one fail. */
void snap_protobuf_message(struct snap_buffer *message, unsigned field,
			   const struct snap_buffer *inside);
/* A packed list of numbers. */
void snap_protobuf_packed(struct snap_buffer *message, unsigned field, const uint64_t *values,
			  size_t count);
