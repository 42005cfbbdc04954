/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines: a unit's line program, its rows streamed past the sorted addresses. No table of rows is
 * kept; a file's name is put together only for rows that were hit. The header is in line_table.c.
 */
#include "analyze/dwarf/line_table.h"

#include <dwarf.h>

struct row {
	uint64_t address;
	uint32_t file, line, column;
};

struct run {
	struct snap_unit *unit;
	struct snap_hit **hits;
	size_t count;
	struct row row, last;  /* the registers; the row before */
	bool in_sequence;      /* there is one */
	bool skip;             /* of code that was thrown away */
	size_t next;           /* the first hit that no row has passed … */
	uint64_t next_address; /* … and its address; UINT64_MAX: none */
};

static size_t hits_from(const struct run *run, uint64_t address)
{
	return snap_first_not(run->count, i, run->hits[i]->vaddr < address);
}

static void aim(struct run *run, size_t next)
{
	run->next = next;
	run->next_address = next < run->count ? run->hits[next]->vaddr : UINT64_MAX;
}

/* The row before ends where this one begins: what lies between belongs to it. */
static void pass(struct run *run)
{
	size_t i = run->next;

	for (; i < run->count && run->hits[i]->vaddr < run->row.address; i++) {
		struct snap_hit *hit = run->hits[i];

		if (hit->vaddr < run->last.address || hit->file || hit->line)
			continue;
		hit->file = snap_lines_file(run->unit, run->last.file);
		hit->line = run->last.line;
		hit->column = run->last.column;
	}
	aim(run, i);
}

static inline void emit(struct run *run)
{
	if (run->row.address > run->next_address && run->in_sequence && !run->skip)
		pass(run);
	if (!run->in_sequence || run->row.address < run->last.address)
		aim(run, hits_from(run, run->row.address));
	run->in_sequence = true;
	run->last = run->row;
}

static void end_sequence(struct run *run)
{
	emit(run);
	run->in_sequence = run->skip = false;
	run->row = (struct row){ .file = 1, .line = 1 };
}

static void extended(struct run *run, struct snap_cursor *cursor)
{
	uint64_t size = snap_cursor_uleb(cursor);
	struct snap_cursor inner = *cursor;

	snap_cursor_skip(cursor, size);
	if (cursor->failed || size == 0)
		return;
	inner.end = cursor->p;
	switch (snap_cursor_u8(&inner)) {
	case DW_LNE_end_sequence:
		end_sequence(run);
		break;
	case DW_LNE_set_address:
		run->row.address = snap_cursor_number(&inner, (unsigned)(size - 1));
		if (!run->in_sequence)
			run->skip = run->row.address < run->unit->dwarf->first_code;
		break;
	}
}

static void standard(struct run *run, const struct snap_line_table *table,
		     struct snap_cursor *cursor, unsigned opcode)
{
	switch (opcode) {
	case DW_LNS_copy:
		emit(run);
		break;
	case DW_LNS_advance_pc:
		run->row.address += snap_cursor_uleb(cursor) * table->instruction_size;
		break;
	case DW_LNS_advance_line:
		run->row.line += (uint32_t)snap_cursor_sleb(cursor);
		break;
	case DW_LNS_set_file:
		run->row.file = (uint32_t)snap_cursor_uleb(cursor);
		break;
	case DW_LNS_set_column:
		run->row.column = (uint32_t)snap_cursor_uleb(cursor);
		break;
	case DW_LNS_const_add_pc:
		run->row.address += table->address_step[255];
		break;
	case DW_LNS_fixed_advance_pc:
		run->row.address += snap_cursor_u16(cursor);
		break;
	default:
		for (unsigned i = 0; i < table->operands[opcode]; i++)
			snap_cursor_uleb(cursor);
		break;
	}
}

void snap_lines_find(struct snap_unit *unit, struct snap_hit **hits, size_t count)
{
	const struct snap_line_table *table = snap_line_table_of(unit);
	struct run run = { .unit = unit, .hits = hits, .count = count };
	struct snap_cursor cursor;

	if (!table || !snap_dwarf_spend(unit->dwarf, snap_cursor_left(&table->program)))
		return;
	run.row = (struct row){ .file = 1, .line = 1 };
	aim(&run, count);
	cursor = table->program;
	while (cursor.p < cursor.end) {
		unsigned opcode = *cursor.p++;

		if (opcode >= table->opcode_base) {
			run.row.address += table->address_step[opcode];
			run.row.line += (uint32_t)table->line_step[opcode];
			emit(&run);
		} else if (opcode == 0) {
			extended(&run, &cursor);
		} else {
			standard(&run, table, &cursor, opcode);
		}
	}
}
