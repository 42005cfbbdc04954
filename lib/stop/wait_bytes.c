/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which memory explains a call: see wait_bytes.h. */
#include "stop/wait_bytes.h"

#include "model/wait/call.h"

#include <linux/futex.h>
#include <string.h>

enum {
	TIMESPEC_BYTES = 16,
	SETS = 3, /* of descriptors, select(2) */
	SET_WORD_BITS = 64,
	POLLFD_BYTES = 8,
	WAITV_BYTES = 24,  /* struct futex_waitv: value, address, flags, reserved */
	WAITV_ADDRESS = 8, /* in it */
};

static const uint64_t LEAST_ADDRESS = 1 << 12, MOST_ADDRESS = 1ull << 56;

struct ranges {
	struct snap_wait_range *ranges;
	size_t count, most;
};

static void add_futex_range(struct ranges *ranges, uint64_t address, uint64_t size)
{
	if (address < LEAST_ADDRESS || address >= MOST_ADDRESS || !size ||
	    ranges->count == ranges->most)
		return;
	ranges->ranges[ranges->count++] = (struct snap_wait_range){ address, (uint32_t)size };
}

struct snap_thread_call snap_call_of_line(const struct snap_syscall_line *line,
					  uint64_t thread_pointer)
{
	struct snap_thread_call call = {
		.known = true,
		.number = line->number,
		.sp = line->sp,
		.pc = line->pc,
		.thread_pointer = thread_pointer,
	};

	if (line->running)
		return (struct snap_thread_call){ .known = false };
	memcpy(call.arguments, line->arguments, sizeof(call.arguments));
	return call;
}

struct snap_wait_range snap_wait_range_of_futex(uint64_t address)
{
	uint64_t start = address > SNAP_WORDS_BEFORE ? address - SNAP_WORDS_BEFORE : 0;

	return (struct snap_wait_range){ start, (uint32_t)(address - start) + SNAP_WORDS_BEHIND };
}

static void add_futex(struct ranges *ranges, uint64_t address)
{
	struct snap_wait_range range = snap_wait_range_of_futex(address);

	if (address >= LEAST_ADDRESS)
		add_futex_range(ranges, range.address, range.size);
}

static void add_sets(struct ranges *ranges, const struct snap_thread_call *call, uint32_t most)
{
	uint64_t bits = (uint32_t)call->arguments[0];
	uint64_t size = (bits + SET_WORD_BITS - 1) / SET_WORD_BITS * (SET_WORD_BITS / 8);

	for (int i = 0; i < SETS; i++)
		add_futex_range(ranges, call->arguments[1 + i], size < most ? size : most);
}

/*
 * restart_syscall(2) hides the number of the call, and keeps its arguments: those of futex, poll,
 * nanosleep or clock_nanosleep.
 */
static void add_restarted(struct ranges *ranges, const struct snap_thread_call *call)
{
	uint64_t count = call->arguments[1];

	add_futex(ranges, call->arguments[0]);
	if (count <= SNAP_MAX_POLLED)
		add_futex_range(ranges, call->arguments[0], count * POLLFD_BYTES);
	add_futex_range(ranges, call->arguments[2], TIMESPEC_BYTES);
}

static void add_futex_array(struct ranges *ranges, const struct snap_thread_call *call,
			    const struct snap_wait_call_row *row)
{
	uint64_t count = row->count >= 0 ? (uint32_t)call->arguments[row->count] : 1;

	if (row->count >= 0 && count > row->most)
		count = row->most;
	add_futex_range(ranges, call->arguments[row->pointer], count * row->bytes);
}

size_t snap_wait_ranges(enum snap_arch arch, const struct snap_thread_call *call,
			struct snap_wait_range *ret, size_t most)
{
	const struct snap_wait_call_row *row = snap_wait_call_row(arch, call->number);
	struct ranges ranges = { .ranges = ret, .most = most };

	if (!call->known || row->call == SNAP_CALL_OTHER)
		return 0;
	if (row->call == SNAP_CALL_FUTEX) {
		add_futex(&ranges, call->arguments[0]);
		if ((call->arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_REQUEUE_PI)
			add_futex(&ranges, call->arguments[4]);
	}
	if (row->call == SNAP_CALL_RESTART)
		add_restarted(&ranges, call);
	if (row->call == SNAP_CALL_SELECT)
		add_sets(&ranges, call, row->bytes);
	else if (row->pointer >= 0)
		add_futex_array(&ranges, call, row);
	if (row->timeout >= 0 && row->limit != SNAP_LIMIT_MILLISECONDS)
		add_futex_range(&ranges, call->arguments[row->timeout], TIMESPEC_BYTES);
	return ranges.count;
}

bool snap_wait_ranges_lead_on(enum snap_arch arch, const struct snap_thread_call *call)
{
	return call->known && snap_wait_call_row(arch, call->number)->call == SNAP_CALL_FUTEX_WAITV;
}

size_t snap_futexes_of_array(const uint8_t *array, size_t size, uint64_t *ret, size_t most)
{
	size_t count = 0;

	for (size_t at = 0; size - at >= WAITV_BYTES && count < most; at += WAITV_BYTES)
		memcpy(&ret[count++], array + at + WAITV_ADDRESS, sizeof(*ret));
	return count;
}
