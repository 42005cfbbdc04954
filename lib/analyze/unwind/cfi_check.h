/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks call frame information before libdw gets it; and reads the header of .eh_frame.
 *
 * libdw runs a program of any length. It makes room for every register up to the highest that the
 * program names, clears that room, and copies all of it for each state that is remembered. So a few
 * bytes cost gigabytes, and seconds for an address. Therefore some entries are not given to it, nor
 * to libunwind, which keeps states, too: entries longer than any compiler makes, programs that name
 * more registers than any processor has, and programs that remember more states than any compiler
 * does. Knows nothing of what programs mean.
 */
#pragma once

#include "analyze/elf/image.h"

enum { SNAP_FRAME_HEADER_SIZE = 12 }; /* of .eh_frame_hdr before its table */

/* .eh_frame_hdr (Linux Standard Base, 10.6.2), in the one form that linkers write. */
struct snap_frame_header {
	uint64_t vaddr, frames_vaddr; /* unbiased addresses: its own, and that of .eh_frame */
	bool has_table;
	struct snap_bytes table; /* pairs of signed 32-bit distances from vaddr: function, entry */
};

/* The header in `bytes`, which lie at `vaddr`; false: it has another form, or is cut short. */
bool snap_frame_header_read(struct snap_bytes bytes, uint64_t vaddr, struct snap_frame_header *ret);
/* That of an image, by PT_GNU_EH_FRAME; false: there is none. */
bool snap_frame_header_find(const struct snap_image *image, struct snap_frame_header *ret);
/*
 * Keeps a header of another form, or one that no segment names, from libdw, which then reads all of
 * .eh_frame. To be called before libdw sees the image.
 */
void snap_frame_header_hide(struct snap_image *image);

/*
 * Whether libdw will find only entries of sane length in the section (".eh_frame", with the table
 * that searches it, or ".debug_frame"): what is small is, larger ones are looked through once.
 */
bool snap_cfi_is_bounded(struct snap_image *image, const char *section);

/* Programs of one section of one file; zeroed but for these two: nothing is known yet. */
struct snap_cfi_programs {
	struct snap_image *image;
	bool is_eh_frame; /* else .debug_frame */
	bool tried;
	enum snap_cfi_lookup {
		SNAP_CFI_REFUSED, /* none of them may be run */
		SNAP_CFI_WHOLE,   /* all of them were looked through */
		SNAP_CFI_TABLE,   /* they are found by the search table */
	} lookup;
	struct snap_bytes frames;
	struct snap_frame_header header;
};

/* Whether libdw may be asked about an unbiased address. */
bool snap_cfi_program_is_bounded(struct snap_cfi_programs *check, uint64_t vaddr);

/*
 * An address behind the beginning of the last function that, by the search table, begins at or
 * below `vaddr`: what begins later has no entry. 0: unknown.
 */
uint64_t snap_cfi_function_before(const struct snap_cfi_programs *check, uint64_t vaddr);
