/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The header of a line program, DWARF 2 to 5. Paths are kept as the compiler wrote them: directory
 * of the compilation, directory, name; nothing is resolved or shortened.
 */
#include "analyze/dwarf/line_table.h"

#include <dwarf.h>

enum { MAX_ENTRIES = 1 << 20, MAX_FORMATS = 16 };

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
	table->files[0] = (struct snap_line_file){ .name = unit->name };
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

/* DWARF 5: each entry is a list of values whose types and forms were told before. */
static bool read_entries(struct snap_unit *unit, const struct snap_unit *shape,
			 struct snap_cursor *cursor, struct snap_line_file **ret, size_t *count_ret)
{
	struct formats formats;
	struct snap_line_file *entries;
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
	struct snap_line_file *directories;

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

static void read_table(struct snap_unit *unit, struct snap_line_table *table)
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

const struct snap_line_table *snap_line_table_of(struct snap_unit *unit)
{
	struct snap_unit *owner = unit->skeleton ? unit->skeleton : unit;

	if (!owner->lines && owner->has_stmt_list) {
		owner->lines = snap_dwarf_alloc(owner->dwarf, 1, sizeof(*owner->lines));
		if (owner->lines)
			read_table(owner, owner->lines);
	}
	return owner->lines && owner->lines->fine ? owner->lines : NULL;
}

/* Joins up to three parts with slashes; an absolute part makes those before it void. */
static const char *join(struct snap_symbolizer *symbolizer, const char *const *parts, size_t count)
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
	const struct snap_line_table *table = snap_line_table_of(unit);
	struct snap_unit *owner = unit->skeleton ? unit->skeleton : unit;
	const char *directory = NULL;
	struct snap_line_file *file;

	if (!table || index >= table->file_count || !table->files[index].name)
		return NULL;
	file = &table->files[index];
	if (!file->path) {
		if (file->directory < table->directory_count)
			directory = table->directories[file->directory];
		file->path =
			join(unit->dwarf->symbolizer,
			     (const char *const[]){ owner->comp_dir, directory, file->name }, 3);
		if (!file->path && file->name[0])
			unit->dwarf->out_of_memory = true;
	}
	return file->path;
}
