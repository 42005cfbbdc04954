/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory plan: the memory of a process to be copied while it stands still, besides its stacks.
 *
 * A short list of bounded reads, as plain numbers. The code that writes it (analyze/runtime/) knows a
 * managed runtime and has no rights. The code that executes it (stop/) knows no runtime and trusts
 * nothing: it calls snap_memory_plan_check() once, and has budgets while it runs. There are no jumps,
 * no variables and no writes, so a plan of n steps ends after n steps. Knows nothing of runtimes.
 *
 * Memory in read-only private mappings of files is not copied: its record is in the table, without
 * bytes. (If the writable data of the same file follows at once, the memory was relocated, and is
 * copied.)
 *
 * Each step makes one table: a list of records, an address and the bytes found there. It takes
 * pointers from a field of each record of an earlier table. Table 0 is there before: one record a
 * thread, struct snap_plan_thread. Step i (from 0) makes table i + 1. A record enters a table once,
 * by its address, so loops are followed once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SNAP_PLAN_MOST_STEPS = 128,      /* enough for all runtimes together */
	SNAP_PLAN_MOST_BYTES = 16 << 20, /* len and cap of a step */
	SNAP_PLAN_MOST_REP = 4096,
	SNAP_PLAN_LITERAL = 0xff, /* source: no table, but `address` */
};

/* What a record of table 0 holds, little-endian; 0: unknown. */
struct snap_plan_thread {
	uint64_t tid, rip, rsp, rbp, fs_base, rbx, r12, r13, r14, r15;
	uint64_t ns_tid; /* its number in the pid namespace that it is in */
	uint64_t rdi;    /* in a call: its first argument */
};

enum snap_plan_op {
	/* len bytes at the pointer in `field` */
	SNAP_PLAN_READ,
	/*
	 * A linked list: len bytes at the pointer, then at the pointer at `next` of those, at most
	 * `max` records a list; it ends at 0, at its head (the record or the field that the first
	 * pointer was taken from), at an address that the table has. mask and add hold for each
	 * pointer of it.
	 */
	SNAP_PLAN_WALK,
	/* min(count, max) times len bytes, in one piece, one record */
	SNAP_PLAN_ARRAY,
	/*
	 * The pointer leads to an array of count pointers; len bytes at each of the first `max`. mask
	 * holds for these, too, add does not.
	 */
	SNAP_PLAN_EACH,
	/*
	 * A stack from its pointer up: from the least of the words at low[0], low[1] that lies in
	 * [low bound, high bound) to the high bound, at most cap bytes. The bounds are the words at
	 * `base` and `high` of the record. `field` is not used.
	 */
	SNAP_PLAN_RANGE,
	/* min(size, cap) bytes at the pointer, size from `count` */
	SNAP_PLAN_BYTES,
	SNAP_PLAN_OP_COUNT,
};

enum {
	SNAP_PLAN_IF_EQUAL = 1 << 0,     /* only records whose predicate holds: see if_field */
	SNAP_PLAN_IF_NOT_EQUAL = 1 << 1, /* or does not hold */
	SNAP_PLAN_SHIFT = 1 << 2,        /* the count is 1 << (what the field says) */
	/*
	 * The pointer is the record's own address + add, and as much further on as a field would be:
	 * no field is looked at.
	 */
	SNAP_PLAN_RELATIVE = 1 << 3,
	/*
	 * WALK: the word at `next` leads into the new record itself, `next_add` bytes from where
	 * the next pointer is
	 */
	SNAP_PLAN_INSIDE = 1 << 4,
	/*
	 * Only records whose number at if_field is that of a thread in table 0, and not 0: its
	 * tid, its ns_tid or its fs_base. Not with the other two.
	 */
	SNAP_PLAN_IF_THREAD = 1 << 5,
	/* WALK: `skip` is of the new record, and moves `next`; not with INSIDE */
	SNAP_PLAN_SKIP_NEXT = 1 << 6,
	SNAP_PLAN_FLAGS = (1 << 7) - 1,
};

/*
 * One step. All widths are 1, 2, 4 or 8 bytes; numbers in records are little-endian and unsigned. A
 * field that does not lie in the record's bytes gives nothing for this record.
 */
struct snap_plan_step {
	uint8_t op;     /* enum snap_plan_op */
	uint8_t source; /* an earlier table, or SNAP_PLAN_LITERAL: one pointer, `address` */
	uint8_t flags;  /* SNAP_PLAN_IF_EQUAL and the others */
	uint8_t count_width, if_width;
	uint8_t low_count; /* RANGE: how many of low[] are used, 1 or 2 */
	uint8_t sources;   /* so many tables, from `source` on, are one; 0 and 1: one table */
	/* where in the record the pointer is: 8 bytes */
	uint16_t field;
	/*
	 * The same once more with pointer, count and bounds rep_step further on, … `rep` in all; 0
	 * and 1: once.
	 */
	uint16_t rep, rep_step;
	uint16_t next;   /* WALK: where in the new record the next pointer is */
	uint16_t count;  /* ARRAY, EACH, BYTES: where in the source's record the count is */
	uint16_t low[2]; /* RANGE */
	uint16_t high, base, if_field;
	/*
	 * Pointer, count and bounds lie (the number at skip) * skip_factor bytes further on, if
	 * skip_factor is not 0.
	 */
	uint16_t skip, skip_width, skip_factor;
	int16_t next_add; /* INSIDE */
	/*
	 * Again for each `every` bytes of the record, all fields (skip and if_field, too) that much
	 * further on; 0: once.
	 */
	uint32_t every;
	uint32_t len; /* bytes of a new record; READ, WALK, EACH, and of an element in ARRAY */
	uint32_t max; /* records a list, elements */
	uint64_t cap; /* RANGE, BYTES: bytes */
	/* the size or count that is used: field * mul + plus, 0 for mul counts as 1; after SHIFT */
	uint32_t mul, plus;
	uint64_t address;           /* LITERAL: the pointer */
	uint64_t mask;              /* the pointer is ANDed with it; 0: not */
	int64_t add;                /* then this is added */
	uint64_t if_mask, if_value; /* holds if (number at if_field & if_mask) == if_value */
};

struct snap_memory_plan {
	uint32_t step_count;
	uint32_t has_gaps; /* not 0: what was wanted, too, had no room; its image says so */
	struct snap_plan_step steps[SNAP_PLAN_MOST_STEPS];
};

/* Why a step ended early; the records it had read by then are there. */
enum snap_plan_cut {
	SNAP_PLAN_WHOLE,
	SNAP_PLAN_CUT_TIME,
	SNAP_PLAN_CUT_MEMORY,
	SNAP_PLAN_CUT_RECORDS,
};

/* Whether a plan makes sense, so that executing it is bounded by its budgets alone. */
bool snap_memory_plan_check(const struct snap_memory_plan *plan);
/* Whether so many steps may be added; if not, it is noted. */
bool snap_memory_plan_has_room(struct snap_memory_plan *plan, uint32_t steps);
