/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The header of a unit's line program: its shape, directories and files. */
#ifndef SNAP_ANALYZE_DWARF_LINE_TABLE_H
#define SNAP_ANALYZE_DWARF_LINE_TABLE_H

#include "analyze/dwarf/dwarf.h"

struct snap_line_file {
	const char *name; /* in a section; NULL unknown */
	uint64_t directory;
	const char *path; /* in full, once asked for; interned */
};

struct snap_line_table {
	bool fine;
	unsigned version, instruction_size, opcode_base;
	/* What a special opcode adds; [255] of the address is also DW_LNS_const_add_pc's. */
	uint32_t address_step[256];
	int32_t line_step[256];
	uint8_t operands[256];
	const char **directories;
	size_t directory_count;
	struct snap_line_file *files;
	size_t file_count;
	struct snap_cursor program;
};

/* The unit's table, read on first call; of a split unit its skeleton's. NULL: none. */
const struct snap_line_table *snap_line_table_of(struct snap_unit *unit);

#endif
