/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fetches requests: see internal.h. They are sorted by address, near ones are read in one piece,
 * and many pieces in one call. A call ends at the first page that cannot be read. Requests that
 * begin on that page are given up; the rest is requested again.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "stop/plan/internal.h"

#include <string.h>

enum {
	NEAR_BYTES = 1024,
	PRESENT_BYTES = 64 << 10, /* of the room that are made present in advance */
	FEW_REQUESTS = 48,        /* are sorted in place */
	DIGITS = 7,               /* bytes of an address that are used */
	FAULTS_A_LOOK = 64,
};

static const uint64_t ADDRESS_END = 1ull << 56;

bool snap_plan_look_at_clock(struct snap_plan_run *run)
{
	if (!run->cut && snap_clock_ns(CLOCK_MONOTONIC) >= run->task->budget.until_ns)
		run->cut = SNAP_PLAN_CUT_TIME;
	return run->cut;
}

bool snap_plan_request(struct snap_plan_run *run, uint64_t address, uint64_t size, uint32_t list)
{
	if (!address || address >= ADDRESS_END)
		return false;
	if (size > ADDRESS_END - address)
		size = ADDRESS_END - address;
	if (size > run->most_bytes)
		size = run->most_bytes;
	if (!size || run->cut || run->full || !snap_plan_see(run, address))
		return false;
	if (run->record_count + run->request_count == run->most_records) {
		run->full = true;
		return false;
	}
	run->requests[run->request_count++] = (struct snap_plan_request){
		.address = address,
		.size = (uint32_t)size,
		.list = list,
		.offset = SNAP_PLAN_WANTED,
	};
	if (run->request_count == SNAP_PLAN_REQUESTS)
		snap_plan_fetch(run);
	return true;
}

/* ---- sorting ---- */

static void sort_few(struct snap_plan_request *requests, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct snap_plan_request request = requests[i];
		size_t k = i;

		for (; k && requests[k - 1].address > request.address; k--)
			requests[k] = requests[k - 1];
		requests[k] = request;
	}
}

/* A radix sort, byte by byte; bytes that are equal in all addresses are skipped. */
static void sort_many(struct snap_plan_run *run)
{
	uint32_t counts[DIGITS][256] = { { 0 } };
	size_t count = run->request_count;

	for (size_t i = 0; i < count; i++)
		for (unsigned d = 0; d < DIGITS; d++)
			counts[d][run->requests[i].address >> 8 * d & 0xff]++;
	for (unsigned d = 0; d < DIGITS; d++) {
		struct snap_plan_request *from = run->requests;
		uint32_t place = 0;

		if (counts[d][from[0].address >> 8 * d & 0xff] == count)
			continue;
		for (unsigned i = 0; i < 256; i++) {
			uint32_t here = counts[d][i];

			counts[d][i] = place;
			place += here;
		}
		for (size_t i = 0; i < count; i++)
			run->spare[counts[d][from[i].address >> 8 * d & 0xff]++] = from[i];
		run->requests = run->spare;
		run->spare = from;
	}
}

static void sort_requests(struct snap_plan_run *run)
{
	if (run->request_count <= FEW_REQUESTS)
		sort_few(run->requests, run->request_count);
	else
		sort_many(run);
}

/* ---- what need not be read ---- */

static const struct snap_map *find_map(struct snap_plan_run *run, uint64_t address)
{
	const struct snap_map *map = run->last_map;
	size_t low = 0, high = run->task->map_count;

	if (map && map->start <= address && address < map->end)
		return map;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (run->task->maps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	map = &run->task->maps[low];
	if (low == run->task->map_count || map->start > address)
		return NULL;
	run->last_map = map;
	return map;
}

static bool is_same_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* The mapping was writable once: it is the relocated front of a data segment. */
static bool is_relocated(const struct snap_plan_run *run, const struct snap_map *map)
{
	const struct snap_map *next = map + 1;

	return next < run->task->maps + run->task->map_count && next->write && !next->shared &&
	       next->start == map->end && is_same_file(map, next) &&
	       next->offset == map->offset + (map->end - map->start);
}

static bool is_request_left_out(struct snap_plan_run *run, const struct snap_plan_request *request)
{
	const struct snap_map *map = find_map(run, request->address);

	return map && map->inode && map->read && !map->write && !map->shared &&
	       request->size <= map->end - request->address && !is_relocated(run, map);
}

/* ---- reading ---- */

/* How far a fetch has come. */
struct cursor {
	size_t request; /* the first request that is not read to its end */
	uint64_t from;  /* addresses below are done */
};

static uint64_t end_of_request(const struct snap_plan_request *request)
{
	return request->address + request->size;
}

/*
 * A list whose records are near each other, as the frames of deep recursion. The whole page is read
 * with one record, as the next records are on it, too.
 */
static bool goes_on_nearby(const struct snap_plan_run *run, const struct snap_plan_request *request)
{
	const struct snap_plan_chain *list = &run->lists[request->list];

	if (run->step->op != SNAP_PLAN_WALK || !list->last)
		return false;
	return request->address > list->last ? request->address - list->last < SNAP_PAGE
					     : list->last - request->address < SNAP_PAGE;
}

/* Extends a piece to the unread part of its page, if there is room. */
static void take_page(const struct cursor *cursor, uint64_t most, uint64_t *start, uint64_t *end)
{
	uint64_t first = *start & ~(uint64_t)(SNAP_PAGE - 1), last = first + SNAP_PAGE;

	first = first > cursor->from ? first : *start;
	last = last > *end ? last : *end;
	if (last - first > most)
		return;
	*start = first;
	*end = last;
}

/* Makes a piece for the next wanted requests, at most `most` bytes; false: there are none. */
static bool next_piece(struct snap_plan_run *run, struct cursor *cursor, uint64_t most,
		       struct iovec *piece, size_t *first_ret)
{
	const struct snap_plan_request *requests = run->requests;
	size_t i = cursor->request;
	uint64_t start, end;

	for (;; i++) {
		if (i == run->request_count || snap_plan_is_late(run))
			return false;
		if (requests[i].offset == SNAP_PLAN_WANTED &&
		    end_of_request(&requests[i]) > cursor->from)
			break;
	}
	*first_ret = i;
	start = requests[i].address > cursor->from ? requests[i].address : cursor->from;
	end = end_of_request(&requests[i]);
	if (goes_on_nearby(run, &requests[i]))
		take_page(cursor, most, &start, &end);
	for (i++; i < run->request_count && end - start < most; i++) {
		if (requests[i].address >= end + NEAR_BYTES || snap_plan_is_late(run))
			break;
		if (requests[i].offset == SNAP_PLAN_WANTED && end_of_request(&requests[i]) > end)
			end = end_of_request(&requests[i]);
	}
	/* A request that is too long for one call continues in the next one. */
	cursor->request = end - start > most ? *first_ret : i;
	if (end - start > most)
		end = start + most;
	cursor->from = end;
	*piece = (struct iovec){ (void *)(uintptr_t)start, end - start };
	return true;
}

/* The bytes of the room that a call may take; without any, the cut is noted. */
static uint64_t room_for_call(struct snap_plan_run *run)
{
	uint64_t pieces = SNAP_PLAN_CALL_PIECES * sizeof(struct snap_memory_piece);
	uint64_t room = (uint64_t)(run->room->end - run->room->next);
	uint64_t left = run->most_bytes - run->bytes;

	room = room > pieces ? room - pieces : 0;
	room = room < left ? room : left;
	if (!room)
		run->cut = SNAP_PLAN_CUT_MEMORY;
	return room < SNAP_PLAN_CALL_BYTES ? room : SNAP_PLAN_CALL_BYTES;
}

/* Pages that are made present together cost less than one by one. */
static void make_present(struct snap_plan_run *run, uint64_t size)
{
	uint8_t *from = run->present > run->room->next ? run->present : run->room->next;
	struct snap_region rest = { from, run->room->end };
	uint8_t *until = run->room->next + size;

	if (until <= from)
		return;
	until += PRESENT_BYTES + run->bytes / 4;
	run->present = until < rest.end ? until : rest.end;
	snap_region_prefault(&rest, (size_t)(run->present - from));
}

/*
 * Continues behind the page that could not be read: requests that begin on it, or before it, are
 * done.
 */
static void skip_page(struct snap_plan_run *run, struct cursor *cursor, size_t request,
		      uint64_t address)
{
	uint64_t next = (address | (SNAP_PAGE - 1)) + 1;

	while (request < run->request_count && run->requests[request].address < next &&
	       !snap_plan_is_late(run))
		request++;
	*cursor = (struct cursor){ request, 0 };
	if (++run->faults % FAULTS_A_LOOK == 0)
		snap_plan_look_at_clock(run);
}

/* Makes one call; false: all is read, or nothing more can be. */
static bool read_some(struct snap_plan_run *run, struct cursor *cursor)
{
	struct iovec pieces[SNAP_PLAN_CALL_PIECES];
	size_t firsts[SNAP_PLAN_CALL_PIECES], count = 0;
	uint64_t total = 0, most = room_for_call(run), got;
	uint8_t *bytes = run->room->next;

	while (count < SNAP_PLAN_CALL_PIECES && total < most &&
	       next_piece(run, cursor, most - total, &pieces[count], &firsts[count]))
		total += pieces[count++].iov_len;
	if (!count || snap_plan_look_at_clock(run))
		return false;
	make_present(run, total);
	/*
	 * A process that takes over an incomplete image must not use the bytes that are being read.
	 */
	run->room->next = bytes + total;
	got = run->task->source.read(run->task->source.context, bytes, pieces, count);
	got = got < total ? got : total;
	run->room->next = bytes + got;
	for (size_t i = 0; i < count; i++) {
		uint64_t address = (uintptr_t)pieces[i].iov_base, size = pieces[i].iov_len;
		uint64_t part = got < size ? got : size;

		if (part && !snap_plan_add_piece(run, address, bytes, part)) {
			run->cut = SNAP_PLAN_CUT_MEMORY;
			return false;
		}
		bytes += part;
		got -= part;
		if (part < size) {
			skip_page(run, cursor, firsts[i], address + part);
			break;
		}
	}
	return true;
}

/* ---- records ---- */

/* Finds the bytes of a request. The pieces of this fetch are sorted, as its requests are. */
static void take_bytes(struct snap_plan_run *run, struct snap_plan_request *request, size_t *index)
{
	const struct snap_memory_piece *piece = NULL;
	uint64_t skipped;

	for (; *index < run->piece_count; ++*index) {
		piece = &run->after[-1 - (ptrdiff_t)*index];
		if (piece->address + piece->size > request->address)
			break;
	}
	if (*index == run->piece_count || piece->address > request->address)
		return;
	skipped = request->address - piece->address;
	request->offset = (uint32_t)((uint64_t)(piece->bytes - run->begin) + skipped);
	request->got = request->size < piece->size - skipped ? request->size
							     : (uint32_t)(piece->size - skipped);
}

static void follow_list(struct snap_plan_run *run, const struct snap_plan_request *request)
{
	const struct snap_plan_view view = { request->address, run->begin + request->offset,
					     request->got };
	uint64_t next, at = run->step->next, skipped;

	/* An address outside the record gives no number. */
	if (run->step->flags & SNAP_PLAN_SKIP_NEXT)
		at = snap_plan_skip(run->step, &view, 0, &skipped) ? at + skipped : UINT64_MAX;
	if ((run->step->flags & SNAP_PLAN_INSIDE) && snap_plan_number(&view, at, 8, &at))
		at += (uint64_t)(int64_t)run->step->next_add - view.address;
	run->lists[request->list].last = request->address;
	run->lists[request->list].next = snap_plan_number(&view, at, 8, &next)
						 ? snap_plan_pointer(run->step, next, true)
						 : 0;
}

static void append_record(struct snap_plan_run *run, const struct snap_plan_request *request)
{
	struct snap_plan_result *result = &run->image->steps[run->step - run->task->plan->steps];

	run->records[run->record_count++] = (struct snap_plan_record){
		.address = request->address,
		.offset = request->got ? request->offset : 0,
		.size = request->got,
	};
	result->records++;
	result->bytes += request->got;
	if (run->step->op == SNAP_PLAN_WALK)
		follow_list(run, request);
}

void snap_plan_fetch(struct snap_plan_run *run)
{
	size_t first = run->piece_count;
	struct cursor cursor = { 0, 0 };
	bool wanted = false;

	sort_requests(run);
	for (size_t i = 0; i < run->request_count; i++) {
		struct snap_plan_request *request = &run->requests[i];

		if (is_request_left_out(run, request))
			request->offset = 0;
		else if (snap_plan_known(run, request->address, request->size, &request->offset))
			request->got = request->size;
		else
			wanted = true;
	}
	while (wanted && read_some(run, &cursor))
		;
	for (size_t i = 0; i < run->request_count; i++) {
		struct snap_plan_request *request = &run->requests[i];

		if (request->offset == SNAP_PLAN_WANTED)
			take_bytes(run, request, &first);
		if (request->got || !run->cut)
			append_record(run, request);
	}
	run->request_count = 0;
	snap_plan_index_pieces(run);
}
