/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What explains a wait, of one thread: see wait_context.h. */
#include "sample/reader/wait_context.h"

#include "base/bytes.h"
#include "base/table.h"
#include "model/wait/call.h"
#include "proc/wait/fdinfo.h"
#include "stop/wait_bytes.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum {
	MOST_PIECES = 2 * SNAP_MAX_POLLED, /* more than the ranges of one call and its futexes */
	MOST_NUMBER = 1 << 20,             /* of a descriptor (fs.nr_open) */
	SETS = 3,
	SET_BYTES = 128, /* of select(2) */
	NUMBER_BITS = 8,
	ALL_EVENTS = 0x7fff,
	BY_PIDFD = 3, /* waitid(2) */
};

struct piece {
	uint64_t address;
	size_t size;
	uint8_t *bytes;
};

struct reading {
	const struct snap_wait_context_source *source;
	const struct snap_thread_call *call;
	const struct snap_wait_call_row *row;
	struct snap_region *room;
	struct piece pieces[MOST_PIECES];
	size_t piece_count, bytes;
	int32_t numbers[SNAP_MAX_POLLED]; /* sorted, none twice */
	size_t number_count;
};

bool snap_wait_context_is_wanted(enum snap_arch arch, const struct snap_thread_call *call)
{
	return call->known && snap_wait_call_row(arch, call->number)->call != SNAP_CALL_OTHER;
}

/* ---- memory ---- */

/* What cannot be read ends at a page. */
static int read_beside_range(struct reading *reading, const struct snap_wait_range *range)
{
	const struct snap_wait_context_source *source = reading->source;
	uint64_t at = range->address, end = at + range->size;
	uint8_t *bytes = NULL;

	if (range->size <= SNAP_WAIT_CONTEXT_WORDS - reading->bytes)
		bytes = snap_region_alloc(reading->room, range->size);
	if (!bytes)
		return 0;
	reading->bytes += range->size;
	while (at < end && reading->piece_count < MOST_PIECES) {
		uint8_t *to = bytes + (at - range->address);
		ssize_t got = source->read(source->context, at, to, (size_t)(end - at));

		if (got == -ESTALE)
			return -ESTALE;
		if (got > 0) {
			reading->pieces[reading->piece_count++] =
				(struct piece){ at, (size_t)got, to };
			at += (uint64_t)got;
		}
		if (at < end)
			at = (at / SNAP_PAGE + 1) * SNAP_PAGE;
	}
	return 0;
}

/* Bytes that were read, where one piece has them all; NULL: none has. */
static uint8_t *bytes_at(const struct reading *reading, uint64_t address, size_t size)
{
	for (size_t i = 0; i < reading->piece_count; i++) {
		const struct piece *piece = &reading->pieces[i];

		if (address >= piece->address && size <= piece->size &&
		    address - piece->address <= piece->size - size)
			return piece->bytes + (address - piece->address);
	}
	return NULL;
}

/* An array that was read leads to futexes. */
static int follow_read_array(struct reading *reading, const struct snap_wait_range *array)
{
	const uint8_t *bytes = bytes_at(reading, array->address, array->size);
	uint64_t futexes[SNAP_MAX_POLLED];
	size_t count =
		bytes ? snap_futexes_of_array(bytes, array->size, futexes, SNAP_MAX_POLLED) : 0;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		struct snap_wait_range range = snap_wait_range_of_futex(futexes[i]);

		if (range.address + range.size > range.address)
			error = read_beside_range(reading, &range);
	}
	return error;
}

static int read_beside_words(struct reading *reading, enum snap_arch arch)
{
	struct snap_wait_range ranges[SNAP_MOST_WAIT_RANGES];
	struct snap_thread_call call = *reading->call;
	size_t count;
	int error = 0;

	/* For how long it waits is not what for. */
	if (reading->row->timeout >= 0)
		call.arguments[reading->row->timeout] = 0;
	if (reading->row->call == SNAP_CALL_RESTART)
		call.arguments[2] = 0;
	count = snap_wait_ranges(arch, &call, ranges, SNAP_MOST_WAIT_RANGES);
	for (size_t i = 0; i < count && !error; i++)
		error = read_beside_range(reading, &ranges[i]);
	if (!error && count && snap_wait_ranges_lead_on(arch, &call))
		error = follow_read_array(reading, &ranges[0]);
	return error;
}

/* Behind the end of a path there is what was there before. */
static void cut_path(struct reading *reading)
{
	struct piece *piece = &reading->pieces[0];

	if (reading->piece_count) {
		size_t length = strnlen((const char *)piece->bytes, piece->size);

		if (length < piece->size) {
			piece->size = length + 1;
			reading->piece_count = 1;
		}
	}
}

/* ---- descriptors ---- */

static void add_number(struct reading *reading, int64_t number)
{
	size_t at = reading->number_count;

	if (number < 0 || number >= MOST_NUMBER || at == SNAP_MAX_POLLED)
		return;
	while (at && reading->numbers[at - 1] > number)
		at--;
	if (at && reading->numbers[at - 1] == number)
		return;
	memmove(&reading->numbers[at + 1], &reading->numbers[at],
		(reading->number_count - at) * sizeof(*reading->numbers));
	reading->numbers[at] = (int32_t)number;
	reading->number_count++;
}

static uint64_t polled_count(const struct reading *reading)
{
	uint64_t count = (uint32_t)reading->call->arguments[1];

	return count < SNAP_MAX_POLLED ? count : SNAP_MAX_POLLED;
}

/* What the call wrote there when it came back the last time is none of this one's. */
static void add_beside_polled(struct reading *reading)
{
	for (uint64_t i = 0; i < polled_count(reading); i++) {
		uint64_t address = reading->call->arguments[0] + i * sizeof(struct pollfd);
		uint8_t *bytes = bytes_at(reading, address, sizeof(struct pollfd));
		struct pollfd polled;

		if (!bytes)
			return;
		memcpy(&polled, bytes, sizeof(polled));
		polled.revents = 0;
		memcpy(bytes, &polled, sizeof(polled));
		add_number(reading, polled.fd);
	}
}

/* restart_syscall(2) may be a poll; if it does not look like one nothing is added. */
static void add_perhaps_polled(struct reading *reading)
{
	if (reading->call->arguments[1] > SNAP_MAX_POLLED)
		return;
	for (uint64_t i = 0; i < polled_count(reading); i++) {
		uint64_t address = reading->call->arguments[0] + i * sizeof(struct pollfd);
		const uint8_t *bytes = bytes_at(reading, address, sizeof(struct pollfd));
		struct pollfd polled;

		if (!bytes)
			return;
		memcpy(&polled, bytes, sizeof(polled));
		if (polled.revents || polled.events & ~ALL_EVENTS || polled.fd >= MOST_NUMBER) {
			reading->number_count = 0;
			return;
		}
		add_number(reading, polled.fd);
	}
}

/* Those that are in one of the three sets, the lowest first. */
static void add_selected(struct reading *reading)
{
	uint64_t most = (uint32_t)reading->call->arguments[0];
	uint8_t all[SET_BYTES] = { 0 };
	size_t bytes;

	most = SNAP_MIN(most, SET_BYTES * NUMBER_BITS);
	/* The kernel reads whole words. */
	bytes = (size_t)(most + 63) / 64 * 8;
	for (int i = 0; i < SETS; i++) {
		const uint8_t *set = bytes_at(reading, reading->call->arguments[1 + i], bytes);

		for (size_t k = 0; set && k < bytes; k++)
			all[k] |= set[k];
	}
	for (uint64_t i = 0; i < most; i++)
		if (all[i / NUMBER_BITS] >> i % NUMBER_BITS & 1)
			add_number(reading, (int64_t)i);
}

static void find_numbers(struct reading *reading)
{
	const uint64_t *arguments = reading->call->arguments;

	switch (reading->row->call) {
	case SNAP_CALL_POLL:
		add_beside_polled(reading);
		break;
	case SNAP_CALL_RESTART:
		add_perhaps_polled(reading);
		break;
	case SNAP_CALL_SELECT:
		add_selected(reading);
		break;
	case SNAP_CALL_WAITID:
		if ((uint32_t)arguments[0] == BY_PIDFD)
			add_number(reading, (int32_t)arguments[1]);
		break;
	default:
		if (reading->row->fd >= 0 && snap_wait_call_may_wait(reading->row, reading->call))
			add_number(reading, (int32_t)arguments[reading->row->fd]);
		break;
	}
}

static void read_links(struct reading *reading, struct snap_wait_context *ret)
{
	const struct snap_wait_context_source *source = reading->source;

	if (reading->number_count)
		ret->descriptors = snap_region_new_array(reading->room, reading->number_count,
							 struct snap_descriptor);
	for (size_t i = 0; ret->descriptors && i < reading->number_count; i++) {
		struct snap_descriptor *descriptor = &ret->descriptors[ret->descriptor_count];
		char text[SNAP_MAX_LINK + 1];
		ssize_t length =
			source->link(source->context, reading->numbers[i], text, sizeof(text));

		if (length < 0)
			continue;
		*descriptor = (struct snap_descriptor){ .number = reading->numbers[i],
							.remaining_ns = -1 };
		descriptor->kind =
			snap_parse_descriptor_link(text, (size_t)length, &descriptor->inode);
		descriptor->link = snap_region_text(reading->room, text, (size_t)length);
		ret->descriptor_count++;
	}
}

/* ---- both ---- */

/* A call that was interrupted may be one. */
static bool is_futex(enum snap_wait_call call)
{
	return call == SNAP_CALL_FUTEX || call == SNAP_CALL_FUTEX_WAITV ||
	       call == SNAP_CALL_RESTART;
}

static void keep_pieces(const struct reading *reading, struct snap_wait_context *ret)
{
	if (reading->piece_count)
		ret->pieces = snap_region_new_array(reading->room, reading->piece_count,
						    struct snap_memory_piece);
	for (size_t i = 0; ret->pieces && i < reading->piece_count; i++) {
		const struct piece *piece = &reading->pieces[i];

		ret->pieces[i] =
			(struct snap_memory_piece){ piece->address, piece->size, piece->bytes };
		ret->piece_count++;
	}
}

int snap_wait_context_read(const struct snap_wait_context_source *source, enum snap_arch arch,
			   const struct snap_thread_call *call, struct snap_region *room,
			   struct snap_wait_context *ret)
{
	struct reading reading;
	int error;

	*ret = (struct snap_wait_context){ .pieces = NULL };
	if (!snap_wait_context_is_wanted(arch, call))
		return 0;
	reading.source = source;
	reading.call = call;
	reading.row = snap_wait_call_row(arch, call->number);
	reading.room = room;
	reading.piece_count = reading.bytes = reading.number_count = 0;
	ret->is_futex = is_futex(reading.row->call);
	error = read_beside_words(&reading, arch);
	if (error)
		return error;
	find_numbers(&reading);
	if (reading.row->call == SNAP_CALL_OPEN || reading.row->call == SNAP_CALL_STAT)
		cut_path(&reading);
	ret->reads = (uint32_t)(reading.piece_count + reading.number_count);
	keep_pieces(&reading, ret);
	read_links(&reading, ret);
	return 0;
}

/* ---- the holder ---- */

void snap_wait_context_keep(const struct snap_wait_context *from, void *room,
			    struct snap_wait_context *ret)
{
	struct snap_region region = { room, (uint8_t *)room + SNAP_WAIT_CONTEXT_ROOM };

	*ret = (struct snap_wait_context){ .is_futex = from->is_futex, .reads = from->reads };
	if (from->piece_count)
		ret->pieces =
			snap_region_new_array(&region, from->piece_count, struct snap_memory_piece);
	for (size_t i = 0; ret->pieces && i < from->piece_count; i++) {
		const struct snap_memory_piece *piece = &from->pieces[i];
		uint8_t *bytes = snap_region_alloc(&region, piece->size);

		if (!bytes)
			break;
		memcpy(bytes, piece->bytes, piece->size);
		ret->pieces[ret->piece_count++] =
			(struct snap_memory_piece){ piece->address, piece->size, bytes };
	}
	if (from->descriptor_count)
		ret->descriptors = snap_region_new_array(&region, from->descriptor_count,
							 struct snap_descriptor);
	for (size_t i = 0; ret->descriptors && i < from->descriptor_count; i++) {
		struct snap_descriptor *kept = &ret->descriptors[ret->descriptor_count++];

		*kept = from->descriptors[i];
		if (kept->link)
			kept->link = snap_region_text(&region, kept->link, strlen(kept->link));
	}
}

uint64_t snap_wait_context_hash(const struct snap_wait_context *context)
{
	uint64_t hash = context->descriptor_count;

	for (size_t i = 0; i < context->descriptor_count; i++) {
		hash = snap_hash_add(hash, (uint64_t)context->descriptors[i].number);
		hash = snap_hash_text(context->descriptors[i].link, hash);
	}
	for (size_t i = 0; i < context->piece_count && !context->is_futex; i++) {
		hash = snap_hash_add(hash, context->pieces[i].address);
		hash = snap_hash_bytes(context->pieces[i].bytes, context->pieces[i].size, hash);
	}
	return hash ? hash : 1;
}
