/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines: the header of a unit's line program, DWARF 2 to 5, and its rows, which are compared with
 * the sorted addresses as they are read. No table of rows is kept. The name of a file is put
 * together only for rows that match. Paths are kept as the compiler wrote them: directory of the
 * compilation, directory, name. Nothing is resolved or shortened.
 */
#include "analyze/dwarf/dwarf.h"
#include "base/bsearch.h"

#include <dwarf.h>

enum { MAX_ENTRIES = 1 << 20, MAX_FORMATS = 16 };

/* ---- the header ---- */

struct line_file {
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
	struct line_file *files;
	size_t file_count;
	struct snap_cursor program;
};

/* DWARF 2 to 4: strings until an empty one. Counted first, so that there is one array. */
static bool read_old_directories(struct snap_unit *unit, struct snap_line_table *table,
				 struct snap_cursor *cursor)
{
	struct snap_cursor ahead = *cursor;
	size_t count = 1;

	for (;;) {
		const char *name = snap_cursor_string(&ahead);

		if (!name || count >= MAX_ENTRIES)
			return false;
		if (!*name)
			break;
		count++;
	}
	table->directories = snap_dwarf_alloc(unit->dwarf, count, sizeof(*table->directories));
	if (!table->directories)
		return false;
	table->directories[0] = NULL; /* the directory of the compilation */
	for (size_t i = 1; i < count; i++)
		table->directories[i] = snap_cursor_string(cursor);
	table->directory_count = count;
	*cursor = ahead;
	return true;
}

static const char *read_old_file(struct snap_cursor *cursor, uint64_t *directory_ret)
{
	const char *name = snap_cursor_string(cursor);

	if (!name || !*name)
		return NULL;
	*directory_ret = snap_cursor_uleb(cursor);
	snap_cursor_uleb(cursor); /* time */
	snap_cursor_uleb(cursor); /* size */
	return cursor->failed ? NULL : name;
}

static bool read_old_files(struct snap_unit *unit, struct snap_line_table *table,
			   struct snap_cursor *cursor)
{
	struct snap_cursor ahead = *cursor;
	uint64_t directory;
	size_t count = 1;

	while (count < MAX_ENTRIES && read_old_file(&ahead, &directory))
		count++;
	table->files = snap_dwarf_alloc(unit->dwarf, count, sizeof(*table->files));
	if (!table->files)
		return false;
	table->files[0] = (struct line_file){ .name = unit->name };
	for (size_t i = 1; i < count; i++)
		table->files[i].name = read_old_file(cursor, &table->files[i].directory);
	table->file_count = count;
	return true;
}

struct formats {
	struct {
		uint64_t type;
		struct snap_attr_spec spec;
	} list[MAX_FORMATS];
	size_t count;
};

static bool read_formats(const struct snap_unit *shape, struct snap_cursor *cursor,
			 struct formats *formats)
{
	formats->count = snap_cursor_u8(cursor);
	if (formats->count > MAX_FORMATS)
		return false;
	for (size_t i = 0; i < formats->count; i++) {
		uint64_t type = snap_cursor_uleb(cursor), form = snap_cursor_uleb(cursor);

		if (form > UINT16_MAX || form == DW_FORM_implicit_const)
			return false;
		formats->list[i].type = type;
		formats->list[i].spec = (struct snap_attr_spec){ .form = (uint16_t)form };
		formats->list[i].spec.size = (int8_t)snap_form_size(
			(unsigned)form, shape->address_size, shape->offset_size, shape->version);
	}
	return !cursor->failed;
}

/* DWARF 5: each entry is a list of values whose types and forms were listed before. */
static bool read_entries(struct snap_unit *unit, const struct snap_unit *shape,
			 struct snap_cursor *cursor, struct line_file **ret, size_t *count_ret)
{
	struct formats formats;
	struct line_file *entries;
	uint64_t count;

	if (!read_formats(shape, cursor, &formats))
		return false;
	count = snap_cursor_uleb(cursor);
	/* Each entry takes at least one byte, or the count is a lie. */
	if (cursor->failed || count > MAX_ENTRIES || count > snap_cursor_left(cursor) ||
	    (count > 0 && formats.count == 0))
		return false;
	entries = snap_dwarf_alloc(unit->dwarf, count ? count : 1, sizeof(*entries));
	if (!entries)
		return false;
	for (size_t i = 0; i < count && !cursor->failed; i++) {
		for (size_t k = 0; k < formats.count; k++) {
			struct snap_attr_value value;

			snap_form_read(shape, &formats.list[k].spec, cursor, &value);
			if (formats.list[k].type == DW_LNCT_path)
				entries[i].name = snap_value_string(shape, &value);
			else if (formats.list[k].type == DW_LNCT_directory_index)
				entries[i].directory = value.number;
		}
	}
	*ret = entries;
	*count_ret = (size_t)count;
	return !cursor->failed;
}

static bool read_new_lists(struct snap_unit *unit, struct snap_line_table *table,
			   struct snap_cursor *cursor, unsigned offset_size)
{
	struct snap_unit shape = *unit;
	struct line_file *directories;

	shape.offset_size = (uint8_t)offset_size;
	if (!read_entries(unit, &shape, cursor, &directories, &table->directory_count))
		return false;
	table->directories = snap_dwarf_alloc(unit->dwarf, table->directory_count + 1,
					      sizeof(*table->directories));
	if (!table->directories)
		return false;
	for (size_t i = 0; i < table->directory_count; i++)
		table->directories[i] = directories[i].name;
	return read_entries(unit, &shape, cursor, &table->files, &table->file_count);
}

static void set_steps(struct snap_line_table *table, int line_base, unsigned line_range)
{
	for (unsigned opcode = table->opcode_base; opcode < 256; opcode++) {
		unsigned adjusted = opcode - table->opcode_base;

		table->address_step[opcode] = adjusted / line_range * table->instruction_size;
		table->line_step[opcode] = line_base + (int)(adjusted % line_range);
	}
}

/* Everything up to the lists; the cursor ends at the unit's end. */
static bool read_shape(struct snap_line_table *table, struct snap_cursor *cursor,
		       unsigned *offset_size_ret)
{
	uint64_t header_length;
	unsigned line_range;
	int line_base;

	if (!snap_cursor_enter(cursor, offset_size_ret))
		return false;
	table->version = snap_cursor_u16(cursor);
	if (table->version < 2 || table->version > 5)
		return false;
	if (table->version >= 5)
		snap_cursor_skip(cursor, 2); /* sizes of addresses and of segment selectors */
	header_length = snap_cursor_number(cursor, *offset_size_ret);
	table->program = *cursor;
	snap_cursor_skip(&table->program, header_length);
	table->instruction_size = snap_cursor_u8(cursor);
	if (table->version >= 4)
		snap_cursor_u8(cursor); /* operations of an instruction: 1 but on VLIW machines */
	snap_cursor_u8(cursor);         /* is_stmt at the start */
	line_base = (int8_t)snap_cursor_u8(cursor);
	line_range = snap_cursor_u8(cursor);
	table->opcode_base = snap_cursor_u8(cursor);
	if (cursor->failed || table->program.failed || line_range == 0 || table->opcode_base == 0)
		return false;
	for (unsigned i = 1; i < table->opcode_base; i++)
		table->operands[i] = snap_cursor_u8(cursor);
	set_steps(table, line_base, line_range);
	return !cursor->failed;
}

static void read_line_table(struct snap_unit *unit, struct snap_line_table *table)
{
	struct snap_cursor cursor =
		snap_cursor_at(snap_dwarf_section(unit->dwarf, SNAP_SECTION_LINE), unit->stmt_list);
	unsigned offset_size;

	if (cursor.failed || !read_shape(table, &cursor, &offset_size))
		return;
	cursor.end = table->program.p > cursor.p ? table->program.p : cursor.p;
	if (table->version >= 5)
		table->fine = read_new_lists(unit, table, &cursor, offset_size);
	else
		table->fine = read_old_directories(unit, table, &cursor) &&
			      read_old_files(unit, table, &cursor);
}

static const struct snap_line_table *line_table_of(struct snap_unit *unit)
{
	struct snap_unit *owner = unit->skeleton ? unit->skeleton : unit;

	if (!owner->lines && owner->has_stmt_list) {
		owner->lines = snap_dwarf_alloc(owner->dwarf, 1, sizeof(*owner->lines));
		if (owner->lines)
			read_line_table(owner, owner->lines);
	}
	return owner->lines && owner->lines->fine ? owner->lines : NULL;
}

/* Joins up to three parts with slashes; an absolute part makes those before it void. */
static const char *join_path(struct snap_symbolizer *symbolizer, const char *const *parts,
			     size_t count)
{
	char path[SNAP_MAX_NAME];
	size_t length = 0, first = 0;

	for (size_t i = 0; i < count; i++)
		if (parts[i] && parts[i][0] == '/')
			first = i;
	for (size_t i = first; i < count; i++) {
		int n;

		if (!parts[i] || !parts[i][0])
			continue;
		n = snprintf(path + length, sizeof(path) - length, "%s%s",
			     length && path[length - 1] != '/' ? "/" : "", parts[i]);
		length += n > 0 ? (size_t)n : 0;
		if (length >= sizeof(path))
			length = sizeof(path) - 1;
	}
	return length ? snap_intern(&symbolizer->names, path, length) : NULL;
}

const char *snap_lines_file(struct snap_unit *unit, uint64_t index)
{
	const struct snap_line_table *table = line_table_of(unit);
	struct snap_unit *owner = unit->skeleton ? unit->skeleton : unit;
	const char *directory = NULL;
	struct line_file *file;

	if (!table || index >= table->file_count || !table->files[index].name)
		return NULL;
	file = &table->files[index];
	if (!file->path) {
		if (file->directory < table->directory_count)
			directory = table->directories[file->directory];
		file->path = join_path(
			unit->dwarf->symbolizer,
			(const char *const[]){ owner->comp_dir, directory, file->name }, 3);
		if (!file->path && file->name[0])
			unit->dwarf->out_of_memory = true;
	}
	return file->path;
}

/* ---- the program ---- */

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

static void aim_at_hit(struct run *run, size_t next)
{
	run->next = next;
	run->next_address = next < run->count ? run->hits[next]->vaddr : UINT64_MAX;
}

/* The row before ends where this one begins: what lies between belongs to it. */
static void pass_hits(struct run *run)
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
	aim_at_hit(run, i);
}

static inline void emit_row(struct run *run)
{
	if (run->row.address > run->next_address && run->in_sequence && !run->skip)
		pass_hits(run);
	if (!run->in_sequence || run->row.address < run->last.address)
		aim_at_hit(run, hits_from(run, run->row.address));
	run->in_sequence = true;
	run->last = run->row;
}

static void end_sequence(struct run *run)
{
	emit_row(run);
	run->in_sequence = run->skip = false;
	run->row = (struct row){ .file = 1, .line = 1 };
}

static void run_extended(struct run *run, struct snap_cursor *cursor)
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

static void run_standard(struct run *run, const struct snap_line_table *table,
			 struct snap_cursor *cursor, unsigned opcode)
{
	switch (opcode) {
	case DW_LNS_copy:
		emit_row(run);
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
	const struct snap_line_table *table = line_table_of(unit);
	struct run run = { .unit = unit, .hits = hits, .count = count };
	struct snap_cursor cursor;

	if (!table || !snap_dwarf_spend(unit->dwarf, snap_cursor_left(&table->program)))
		return;
	run.row = (struct row){ .file = 1, .line = 1 };
	aim_at_hit(&run, count);
	cursor = table->program;
	while (cursor.p < cursor.end) {
		unsigned opcode = *cursor.p++;

		if (opcode >= table->opcode_base) {
			run.row.address += table->address_step[opcode];
			run.row.line += (uint32_t)table->line_step[opcode];
			emit_row(&run);
		} else if (opcode == 0) {
			run_extended(&run, &cursor);
		} else {
			run_standard(&run, table, &cursor, opcode);
		}
	}
}
