/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Buffers and arrays that grow: see buffer.h. A buffer always has room for one byte more than it
 * holds, so that its contents can get a NUL when the caller asks for text.
 */
#include "base/buffer.h"

#include <stdarg.h>
#include <string.h>

enum { FIRST_BYTES = 256, FIRST_ELEMENTS = 16, LONGEST_VARINT = 10 };

/* ---- buffers ---- */

void snap_buffer_deinit(struct snap_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct snap_buffer){ 0 };
}

void snap_buffer_clear(struct snap_buffer *buffer)
{
	buffer->size = 0;
	buffer->failed = false;
}

static bool grow_buffer(struct snap_buffer *buffer, size_t more)
{
	size_t most = buffer->most && buffer->most < SIZE_MAX ? buffer->most : SIZE_MAX - 1;
	size_t wanted,
		capacity = buffer->capacity < FIRST_BYTES / 2 ? FIRST_BYTES / 2 : buffer->capacity;
	char *grown;

	if (buffer->size > most || more > most - buffer->size)
		return false;
	wanted = buffer->size + more + 1;
	if (wanted <= buffer->capacity)
		return true;
	capacity = capacity <= SIZE_MAX / 2 && wanted < 2 * capacity ? 2 * capacity : wanted;
	grown = realloc(buffer->data, capacity);
	if (!grown)
		return false;
	buffer->data = grown;
	buffer->capacity = capacity;
	return true;
}

char *snap_buffer_reserve(struct snap_buffer *buffer, size_t more)
{
	if (buffer->failed)
		return NULL;
	if (!grow_buffer(buffer, more)) {
		buffer->failed = true;
		return NULL;
	}
	return buffer->data + buffer->size;
}

void snap_buffer_add(struct snap_buffer *buffer, const void *bytes, size_t size)
{
	char *to = size ? snap_buffer_reserve(buffer, size) : NULL;

	if (!to)
		return;
	memcpy(to, bytes, size);
	buffer->size += size;
}

void snap_buffer_add_text(struct snap_buffer *buffer, const char *text)
{
	snap_buffer_add(buffer, text, strlen(text));
}

void snap_buffer_add_byte(struct snap_buffer *buffer, char byte)
{
	snap_buffer_add(buffer, &byte, 1);
}

void snap_buffer_printf(struct snap_buffer *buffer, const char *format, ...)
{
	va_list arguments, again;
	char *to = NULL;
	int length;

	va_start(arguments, format);
	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, arguments);
	if (length < 0)
		buffer->failed = true;
	else
		to = snap_buffer_reserve(buffer, (size_t)length);
	/* The NUL goes to the byte that is always there. */
	if (to) {
		vsnprintf(to, (size_t)length + 1, format, again);
		buffer->size += (size_t)length;
	}
	va_end(again);
	va_end(arguments);
}

void snap_buffer_add_varint(struct snap_buffer *buffer, uint64_t number)
{
	char bytes[LONGEST_VARINT];
	size_t size = 0;

	for (; number >= 128; number >>= 7)
		bytes[size++] = (char)(number | 128);
	bytes[size++] = (char)number;
	snap_buffer_add(buffer, bytes, size);
}

const char *snap_buffer_text(struct snap_buffer *buffer)
{
	if (!buffer->data)
		return "";
	buffer->data[buffer->size] = '\0';
	return buffer->data;
}

char *snap_buffer_take(struct snap_buffer *buffer, size_t *size_ret)
{
	size_t most = buffer->most;
	char *taken = NULL;

	/* What is empty has no memory yet. */
	if (snap_buffer_reserve(buffer, 0)) {
		buffer->data[buffer->size] = '\0';
		if (size_ret)
			*size_ret = buffer->size;
		taken = snap_take_ptr(buffer->data);
	}
	snap_buffer_deinit(buffer);
	buffer->most = most;
	return taken;
}

/* ---- arrays ---- */

bool snap_array_reserve(void *pointer_to_array, size_t *capacity, size_t wanted,
			size_t element_size, size_t most)
{
	size_t room = *capacity ? *capacity : FIRST_ELEMENTS / 2, bytes;
	void *array;

	if (wanted <= *capacity)
		return true;
	if (wanted > most)
		return false;
	room = room <= SIZE_MAX / 2 && wanted < 2 * room ? 2 * room : wanted;
	room = SNAP_MIN(room, most);
	if (__builtin_mul_overflow(room, element_size, &bytes))
		return false;
	/* The caller's pointer has a type of its own, so its bytes are copied. */
	memcpy(&array, pointer_to_array, sizeof(array));
	array = realloc(array, bytes);
	if (!array)
		return false;
	memcpy(pointer_to_array, &array, sizeof(array));
	*capacity = room;
	return true;
}

bool snap_array_reserve_zeroed(void *pointer_to_array, size_t *capacity, size_t wanted,
			       size_t element_size, size_t most)
{
	size_t before = *capacity;
	char *array;

	if (!snap_array_reserve(pointer_to_array, capacity, wanted, element_size, most))
		return false;
	memcpy(&array, pointer_to_array, sizeof(array));
	if (*capacity > before)
		memset(array + before * element_size, 0, (*capacity - before) * element_size);
	return true;
}
