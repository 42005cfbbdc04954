/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that grows: a buffer of bytes or text, and arrays of anything.
 *
 * Memory is malloc'ed and doubles. A buffer remembers that something did not fit, so its user may
 * add many things and check once at the end; an array reports it at once. Knows nothing of the
 * contents, nor where they go.
 */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- buffers ---- */

/* All zero: empty. `most` is set by the user, who may shorten the contents by `size`, too. */
struct snap_buffer {
	char *data; /* NULL: nothing was added yet */
	size_t size, capacity;
	size_t most; /* bytes; 0: as many as there is memory for */
	bool failed; /* something did not fit: nothing is added any more */
};

/* Releases the memory; the buffer is then empty, without a limit, and may be used again. */
void snap_buffer_deinit(struct snap_buffer *buffer);
/* Empties the buffer and forgets that it failed; memory and limit stay. */
void snap_buffer_clear(struct snap_buffer *buffer);

/*
 * Room for `more` bytes behind the contents, which the caller may fill and then add to `size`. NULL
 * if the buffer has failed, which it has without memory or beyond its limit.
 */
char *snap_buffer_reserve(struct snap_buffer *buffer, size_t more);

/* These add all or nothing; in the second case the buffer has failed. */
void snap_buffer_add(struct snap_buffer *buffer, const void *bytes, size_t size);
void snap_buffer_add_text(struct snap_buffer *buffer, const char *text);
void snap_buffer_add_byte(struct snap_buffer *buffer, char byte);
void snap_buffer_printf(struct snap_buffer *buffer, const char *format, ...) _printf_(2, 3);
/* Seven bits a byte, the lowest first, the eighth bit set in all but the last: 1 to 10 bytes. */
void snap_buffer_add_varint(struct snap_buffer *buffer, uint64_t number);

/* The contents with a NUL behind them, "" if there are none; borrowed until the next change. */
const char *snap_buffer_text(struct snap_buffer *buffer);
/*
 * The contents with a NUL behind them, malloc'ed, the caller's from now on. NULL if the buffer has
 * failed. It is then empty in any case, with the same limit. `size_ret` may be NULL.
 */
char *snap_buffer_take(struct snap_buffer *buffer, size_t *size_ret);

/* ---- arrays ---- */

/*
 * Makes room for `wanted` elements in all in a malloc'ed array; with this, *capacity is at least
 * doubled, but not beyond `most`. `pointer_to_array`: &array, NULL in it at first. False without
 * memory, when the bytes overflow, or when `wanted` is more than `most`; then nothing changed. The
 * array is the caller's to free.
 */
bool snap_array_reserve(void *pointer_to_array, size_t *capacity, size_t wanted,
			size_t element_size, size_t most) _must_check_;
/* The same; new elements are zeroed. */
bool snap_array_reserve_zeroed(void *pointer_to_array, size_t *capacity, size_t wanted,
			       size_t element_size, size_t most) _must_check_;

/* With variables in place of pointers to them. */
#define snap_reserve_array(array, capacity, wanted) \
	snap_array_reserve(&(array), &(capacity), (wanted), sizeof(*(array)), SIZE_MAX)
#define snap_reserve_array_most(array, capacity, wanted, most) \
	snap_array_reserve(&(array), &(capacity), (wanted), sizeof(*(array)), (most))
#define snap_reserve_array_zeroed(array, capacity, wanted) \
	snap_array_reserve_zeroed(&(array), &(capacity), (wanted), sizeof(*(array)), SIZE_MAX)
/*
 * Appends a value, which makes room for it: array[count++] = value. False without memory; then nothing
 * changed.
 *
 *	return snap_append(list->pids, list->count, list->capacity, pid);
 */
#define snap_append(array, count, capacity, ...)                                   \
	({                                                                         \
		bool _fits = snap_reserve_array((array), (capacity), (count) + 1); \
		if (_fits)                                                         \
			(array)[(count)++] = __VA_ARGS__;                          \
		_fits;                                                             \
	})
