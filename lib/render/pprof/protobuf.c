/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Protocol buffers, the writing half: see protobuf.h. */
#include "render/pprof/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum {
	WIRE_VARINT = 0,
	WIRE_LENGTH = 2,
	MAX_VARINT = 10, /* bytes */
	FIRST_CAPACITY = 256,
};

void snap_protobuf_deinit(struct snap_protobuf *message)
{
	free(message->bytes);
	*message = (struct snap_protobuf){ 0 };
}

void snap_protobuf_clear(struct snap_protobuf *message)
{
	message->size = 0;
	message->failed = false;
}

/* Room for `size` more bytes; NULL: there is none, now or before. */
static char *room(struct snap_protobuf *message, size_t size)
{
	size_t capacity = message->capacity ? message->capacity : FIRST_CAPACITY;
	char *bytes;

	if (message->failed)
		return NULL;
	if (size <= message->capacity - message->size)
		return message->bytes + message->size;
	while (capacity - message->size < size && capacity <= SIZE_MAX / 4)
		capacity *= 2;
	bytes = capacity - message->size < size ? NULL : realloc(message->bytes, capacity);
	if (!bytes) {
		message->failed = true;
		return NULL;
	}
	message->bytes = bytes;
	message->capacity = capacity;
	return bytes + message->size;
}

static size_t varint_size(uint64_t value)
{
	size_t size = 1;

	while (value >>= 7)
		size++;
	return size;
}

static void put_varint(struct snap_protobuf *message, uint64_t value)
{
	char *to = room(message, MAX_VARINT);

	if (!to)
		return;
	for (; value >= 0x80; value >>= 7, message->size++)
		*to++ = (char)(value | 0x80);
	*to = (char)value;
	message->size++;
}

static void put_tag(struct snap_protobuf *message, unsigned field, unsigned wire)
{
	put_varint(message, (uint64_t)field << 3 | wire);
}

void snap_protobuf_number(struct snap_protobuf *message, unsigned field, uint64_t value)
{
	if (!value)
		return;
	put_tag(message, field, WIRE_VARINT);
	put_varint(message, value);
}

void snap_protobuf_bytes(struct snap_protobuf *message, unsigned field, const void *bytes,
			 size_t size)
{
	if (size)
		snap_protobuf_element(message, field, bytes, size);
}

void snap_protobuf_append(struct snap_protobuf *message, const void *bytes, size_t size)
{
	char *to = size ? room(message, size) : NULL;

	if (!to)
		return;
	memcpy(to, bytes, size);
	message->size += size;
}

void snap_protobuf_element(struct snap_protobuf *message, unsigned field, const void *bytes,
			   size_t size)
{
	put_tag(message, field, WIRE_LENGTH);
	put_varint(message, size);
	snap_protobuf_append(message, bytes, size);
}

void snap_protobuf_message(struct snap_protobuf *message, unsigned field,
			   const struct snap_protobuf *inside)
{
	if (inside->failed)
		message->failed = true;
	snap_protobuf_element(message, field, inside->bytes, inside->size);
}

void snap_protobuf_packed(struct snap_protobuf *message, unsigned field, const uint64_t *values,
			  size_t count)
{
	size_t size = 0;

	if (!count)
		return;
	for (size_t i = 0; i < count; i++)
		size += varint_size(values[i]);
	put_tag(message, field, WIRE_LENGTH);
	put_varint(message, size);
	for (size_t i = 0; i < count; i++)
		put_varint(message, values[i]);
}
