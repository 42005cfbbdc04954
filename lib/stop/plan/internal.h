/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Internal: what the files that execute a plan share.
 *
 *	execute.c  from a plan to its tables, step by step
 *	fields.c   where the pointers of a record point to
 *	fetch.c    requests, sorted and read; each address once
 *	known.c    what was read, by address
 */
#pragma once

#include "stop/plan/execute.h"

/* An entry of a table. Its bytes begin at `offset` of the image, or of table 0. */
struct snap_plan_record {
	uint64_t address;
	uint32_t offset, size;
};

struct snap_plan_table {
	size_t first, count; /* in run->records */
};

/* A request for a record. */
struct snap_plan_request {
	uint64_t address;
	uint32_t size;
	uint32_t list;   /* WALK: the list that it continues */
	uint32_t offset; /* place of its bytes; SNAP_PLAN_WANTED: still to be read */
	uint32_t got;
};

enum { SNAP_PLAN_WANTED = UINT32_MAX };

/* A list that is being followed. */
struct snap_plan_chain {
	uint64_t next;
	uint64_t head, owner; /* where it ends: the field that points to it, and its record */
	uint64_t last;        /* its last record so far; 0: none */
	uint32_t left;        /* records that may still follow */
};

/* A piece of the image that touches a page. */
struct snap_plan_page {
	uint64_t page; /* its number + 1; 0: a free slot */
	uint32_t piece;
};

struct snap_plan_run {
	const struct snap_plan_task *task;
	struct snap_region *room;
	struct snap_memory_image *image;
	uint8_t *begin;                  /* of the image's bytes */
	struct snap_memory_piece *after; /* piece i is after[-1 - i] */
	uint8_t *present;                /* pages of the room up to here are present */
	uint64_t bytes, most_bytes;
	size_t piece_count;
	struct snap_plan_table tables[SNAP_PLAN_MOST_STEPS + 1];
	struct snap_plan_record *records;
	size_t record_count, most_records;
	struct snap_plan_request *requests, *spare; /* SNAP_PLAN_REQUESTS each */
	size_t request_count;
	struct snap_plan_chain *lists;
	size_t list_count;
	/* Addresses that a table has, with the number of the table: open addressing. */
	uint64_t *seen;
	size_t seen_count, seen_size, most_seen;
	struct snap_plan_page *pages;
	size_t page_count, page_size, most_pages, paged_pieces;
	const struct snap_map *last_map;
	uint32_t turns, faults;
	enum snap_plan_cut cut; /* why nothing is read any more */
	bool full;              /* nothing is requested any more: there are too many records */
	/* The current step. */
	const struct snap_plan_step *step;
	unsigned generation; /* of addresses in `seen` */
};

enum { SNAP_PLAN_REQUESTS = 1 << 17 };

/* Whether the time is up; if so, it is noted. */
bool snap_plan_look_at_clock(struct snap_plan_run *run);

/* Called in each turn of a loop; true: time or memory is used up. */
static inline bool snap_plan_is_late(struct snap_plan_run *run)
{
	return run->cut || (++run->turns % 4096 == 0 && snap_plan_look_at_clock(run));
}

/* The same in a loop that requests records. */
static inline bool snap_plan_is_over(struct snap_plan_run *run)
{
	return run->full || snap_plan_is_late(run);
}

/* ---- fields.c ---- */

/* A record with its bytes; table 0 is made of threads. */
struct snap_plan_view {
	uint64_t address;
	const uint8_t *bytes;
	uint32_t size;
};

struct snap_plan_view snap_plan_view(const struct snap_plan_run *run, uint32_t table, size_t index);
/* The number of `width` bytes at an offset; false: it is outside of the record. */
bool snap_plan_number(const struct snap_plan_view *view, uint64_t offset, unsigned width,
		      uint64_t *ret);
/* A pointer by the step's mask, then `add`; 0: it is NULL. */
uint64_t snap_plan_pointer(const struct snap_plan_step *step, uint64_t value, bool with_add);
/* Whether the current step follows a record's fields, shifted by `base`. */
bool snap_plan_holds(struct snap_plan_run *run, const struct snap_plan_view *view, uint64_t base);
/* The further shift of its fields by `skip`. */
bool snap_plan_skip(const struct snap_plan_step *step, const struct snap_plan_view *view,
		    uint64_t base, uint64_t *ret);
/* The memory that the step's fields, so shifted, point to; false: none. */
struct snap_plan_target {
	uint64_t address;
	uint64_t size; /* bytes; EACH: pointers */
	uint64_t head; /* the address of the field */
};
bool snap_plan_target(const struct snap_plan_step *step, const struct snap_plan_view *view,
		      uint64_t shift, struct snap_plan_target *ret);

/* ---- fetch.c ---- */

/* Requests a new record; false: the table has this address, or the room is used up. */
bool snap_plan_request(struct snap_plan_run *run, uint64_t address, uint64_t size, uint32_t list);
/* Reads the requested memory, and appends it to the records. */
void snap_plan_fetch(struct snap_plan_run *run);

/* ---- known.c ---- */

/* Finds bytes in the image; false: they were not found. */
bool snap_plan_known(const struct snap_plan_run *run, uint64_t address, uint32_t size,
		     uint32_t *offset_ret);
/* Adds the bytes at the end of the image as a piece. False: the room is used up. */
bool snap_plan_add_piece(struct snap_plan_run *run, uint64_t address, const uint8_t *bytes,
			 size_t size);
/* Makes snap_plan_known() find the pieces that were added since the last call. */
void snap_plan_index_pieces(struct snap_plan_run *run);
/* Notes that a table has an address; false: it had it already. */
bool snap_plan_see(struct snap_plan_run *run, uint64_t address);
