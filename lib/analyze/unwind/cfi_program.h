/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CFI programs: a look through that of an address before libdw runs it.
 *
 * libdw makes room for every register up to the highest that a program names, whatever its number,
 * clears it, and copies all of it for each state that is remembered: a handful of bytes costs
 * gigabytes and seconds an address. So programs that name more registers than any processor has,
 * or remember more states than any compiler does, are not shown to it. Knows nothing of what
 * programs mean; see cfi_check.h for how long they may be.
 */
#ifndef SNAP_ANALYZE_UNWIND_CFI_PROGRAM_H
#define SNAP_ANALYZE_UNWIND_CFI_PROGRAM_H

#include "analyze/elf/image.h"

/* Of one section of one file; zeroed but for these two: nothing is known yet. */
struct snap_cfi_programs {
	struct snap_image *image;
	bool is_eh_frame; /* else .debug_frame */
	bool tried;
	enum snap_cfi_lookup {
		SNAP_CFI_REFUSED, /* none of them may be run */
		SNAP_CFI_WHOLE,   /* all of them were looked through */
		SNAP_CFI_TABLE,   /* they are found by the search table */
	} lookup;
	struct snap_bytes frames, table; /* the table: pairs of 32-bit numbers */
	uint64_t frames_vaddr, table_vaddr;
};

/* Whether libdw may be asked about an unbiased address. */
bool snap_cfi_program_is_bounded(struct snap_cfi_programs *check, uint64_t vaddr);

/* Where, by the search table, the last function begins that does so at or below it; 0: unknown. */
uint64_t snap_cfi_program_before(const struct snap_cfi_programs *check, uint64_t vaddr);

#endif
