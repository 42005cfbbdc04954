/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Protocol buffers, the writing half: see protobuf.h. */
#include "render/pprof/protobuf.h"

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2 };

static void put_tag(struct snap_buffer *message, unsigned field, unsigned wire)
{
	snap_buffer_add_varint(message, (uint64_t)field << 3 | wire);
}

void snap_protobuf_number(struct snap_buffer *message, unsigned field, uint64_t value)
{
	if (!value)
		return;
	put_tag(message, field, WIRE_VARINT);
	snap_buffer_add_varint(message, value);
}

void snap_protobuf_element(struct snap_buffer *message, unsigned field, const void *bytes,
			   size_t size)
{
	put_tag(message, field, WIRE_LENGTH);
	snap_buffer_add_varint(message, size);
	snap_buffer_add(message, bytes, size);
}

void snap_protobuf_message(struct snap_buffer *message, unsigned field,
			   const struct snap_buffer *inside)
{
	message->failed |= inside->failed;
	snap_protobuf_element(message, field, inside->data, inside->size);
}

static size_t varint_size(uint64_t value)
{
	size_t size = 1;

	while (value >>= 7)
		size++;
	return size;
}

void snap_protobuf_packed(struct snap_buffer *message, unsigned field, const uint64_t *values,
			  size_t count)
{
	size_t size = 0;
	char *to;

	if (!count)
		return;
	for (size_t i = 0; i < count; i++)
		size += varint_size(values[i]);
	put_tag(message, field, WIRE_LENGTH);
	snap_buffer_add_varint(message, size);
	/* Most of a profile is such lists, so they are written with one check for all numbers. */
	to = snap_buffer_reserve(message, size);
	if (!to)
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t rest = values[i];

		for (; rest >= 128; rest >>= 7)
			*to++ = (char)(rest | 128);
		*to++ = (char)rest;
	}
	message->size += size;
}
