/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory beside the stack of a blocked thread: see copy_wait_bytes.h. */
#include "sample/copy_wait_bytes.h"

#include "base/bytes.h"

#include <errno.h>
#include <string.h>

enum {
	TOP_BYTES = 1 << 14, /* of a stack, in which struct pthread stands, and what is above it */
	TCB_ALIGNMENT = 16,
	TCB_SELF = 16, /* offsets in tcbhead_t on x86-64: `self`; `tcb` is the first */
	TCB_TID = 720, /* in struct pthread of glibc 2.3 to 2.43 */
};

static bool is_range_in_stack(const struct snap_thread *copy, const struct snap_wait_range *range)
{
	uint64_t offset = range->address - copy->stack_address;

	return range->address >= copy->stack_address && offset <= copy->stack_size &&
	       copy->stack_size - offset >= range->size;
}

struct words {
	snap_wait_bytes_reader *read;
	void *context;
	struct snap_copied_wait_bytes *words;
	size_t used;
};

/* Within one page. */
static int read_piece(struct words *words, uint64_t address, size_t size)
{
	struct snap_copied_wait_bytes *ret = words->words;
	uint8_t *bytes = ret->bytes + words->used;
	ssize_t got;

	if (ret->stalled || ret->image.piece_count == SNAP_WAIT_BYTES_PIECES ||
	    size > sizeof(ret->bytes) - words->used)
		return 0;
	got = words->read(words->context, address, bytes, size);
	ret->stalled = got == -ETIMEDOUT;
	if (got <= 0)
		return got == -ESTALE ? -ESTALE : 0;
	ret->pieces[ret->image.piece_count++] =
		(struct snap_memory_piece){ address, (uint64_t)got, bytes };
	ret->image.bytes += (uint64_t)got;
	words->used += (size_t)got;
	return 0;
}

/* But for what lies in the stack; page by page. */
static int read_futex_range(struct words *words, const struct snap_thread *copy,
			    const struct snap_wait_range *range)
{
	uint64_t at = range->address, end = at + range->size;
	int error = 0;

	if (is_range_in_stack(copy, range))
		return 0;
	while (at < end && !error) {
		uint64_t next = (at / SNAP_PAGE + 1) * SNAP_PAGE, until = next < end ? next : end;

		error = read_piece(words, at, until - at);
		at = until;
	}
	return error;
}

/* An array that was read, or lies in the stack, leads to futexes. */
static int follow_word_array(struct words *words, const struct snap_thread *copy,
			     const struct snap_wait_range *array)
{
	const struct snap_memory_piece *first = &words->words->pieces[0];
	uint64_t futexes[SNAP_WAIT_BYTES_PIECES];
	size_t count = 0;
	int error = 0;

	if (is_range_in_stack(copy, array))
		count = snap_futexes_of_array(copy->stack + (array->address - copy->stack_address),
					      array->size, futexes, SNAP_WAIT_BYTES_PIECES);
	else if (words->words->image.piece_count && first->address == array->address)
		count = snap_futexes_of_array(first->bytes, first->size, futexes,
					      SNAP_WAIT_BYTES_PIECES);
	for (size_t i = 0; i < count && !error; i++) {
		struct snap_wait_range range = snap_wait_range_of_futex(futexes[i]);

		error = read_futex_range(words, copy, &range);
	}
	return error;
}

int snap_copy_wait_bytes(enum snap_arch arch, const struct snap_thread *copy,
			 snap_wait_bytes_reader *read, void *context,
			 struct snap_copied_wait_bytes *ret)
{
	struct snap_wait_range ranges[SNAP_MOST_WAIT_RANGES];
	size_t count = snap_wait_ranges(arch, &copy->call, ranges, SNAP_MOST_WAIT_RANGES);
	struct words words = { .read = read, .context = context, .words = ret };
	int error = 0;

	ret->image = (struct snap_memory_image){ .pieces = ret->pieces };
	for (size_t i = 0; i < count && !error; i++)
		error = read_futex_range(&words, copy, &ranges[i]);
	if (!error && count && snap_wait_ranges_lead_on(arch, &copy->call))
		error = follow_word_array(&words, copy, &ranges[0]);
	return error;
}

static uint64_t stack_word_at(const struct snap_thread *copy, size_t offset)
{
	uint64_t word;

	memcpy(&word, copy->stack + offset, sizeof(word));
	return word;
}

/* Another number is that of another thread's, or of nothing. */
static bool is_own_tid(const struct snap_thread *copy, size_t offset)
{
	uint32_t tid;

	if (offset + TCB_TID + sizeof(tid) > copy->stack_size)
		return false;
	memcpy(&tid, copy->stack + offset + TCB_TID, sizeof(tid));
	return tid != 0 && (!copy->ns_tid || (pid_t)tid == copy->ns_tid);
}

uint64_t snap_find_thread_pointer(const struct snap_thread *copy)
{
	size_t size = copy->stack_size & ~(size_t)(TCB_ALIGNMENT - 1);
	size_t lowest = size > TOP_BYTES ? size - TOP_BYTES : 0;

	if (copy->stack_limited)
		return 0;
	for (size_t at = size; at >= lowest + TCB_ALIGNMENT;) {
		uint64_t address;

		at -= TCB_ALIGNMENT;
		address = copy->stack_address + at;
		if (stack_word_at(copy, at) == address && at + TCB_SELF + 8 <= size &&
		    stack_word_at(copy, at + TCB_SELF) == address && is_own_tid(copy, at))
			return address;
	}
	return 0;
}
