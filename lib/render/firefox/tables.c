/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tables of the Firefox Profiler's format, filled and then written: see tables.h. */
#include "render/firefox/tables.h"

#include "base/text.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* States have none of the languages' categories. */
enum { NONE = UINT32_MAX, CATEGORIES = SNAP_FIREFOX_DISK + 1 };

/* Rows are compared as bytes: they have no holes. Any field may be NONE. */
struct func_row {
	uint32_t name, lib, source;
};

struct frame_row {
	uint32_t func, address, depth, category, line, column;
};

struct stack_row {
	uint32_t prefix, frame; /* prefix NONE: a root */
};

/* ---- filling ---- */

struct stacksnap_error *snap_firefox_tables_init(struct snap_firefox_tables *tables,
						 struct snap_profile *profile)
{
	*tables = (struct snap_firefox_tables){ .profile = profile };
	tables->rows =
		calloc(profile->recording->stack_count * CATEGORIES + 1, sizeof(*tables->rows));
	return tables->rows ? NULL : snap_error_no_memory();
}

void snap_firefox_tables_deinit(struct snap_firefox_tables *tables)
{
	snap_pool_deinit(&tables->strings);
	snap_pool_deinit(&tables->libs);
	snap_pool_deinit(&tables->sources);
	snap_pool_deinit(&tables->funcs);
	snap_pool_deinit(&tables->frames);
	snap_pool_deinit(&tables->stacks);
	free(tables->rows);
}

enum snap_firefox_category snap_firefox_category_of(enum snap_state state)
{
	static const enum snap_firefox_category categories[SNAP_STATE_COUNT] = {
		[SNAP_STATE_RUNNING] = SNAP_FIREFOX_USER, [SNAP_STATE_SLEEPING] = SNAP_FIREFOX_IDLE,
		[SNAP_STATE_IDLE] = SNAP_FIREFOX_IDLE,    [SNAP_STATE_PARKED] = SNAP_FIREFOX_IDLE,
		[SNAP_STATE_DISK] = SNAP_FIREFOX_DISK,
	};

	return categories[state];
}

/* The number of a row; without memory *ok becomes false. */
static uint32_t number_firefox_item(struct snap_pool *pool, const void *bytes, size_t size,
				    bool *ok)
{
	size_t number = snap_pool_add(pool, bytes, size);

	*ok = *ok && number < NONE;
	return (uint32_t)number;
}

static uint32_t number_text(struct snap_firefox_tables *tables, const char *text, bool *ok)
{
	return number_firefox_item(&tables->strings, text, strlen(text), ok);
}

static uint32_t number_lib(struct snap_firefox_tables *tables, const struct snap_frame *frame,
			   bool *ok)
{
	_cleanup_free_ char *key = NULL;
	const char *path;
	int length;

	if (!frame || !frame->module)
		return NONE;
	path = snap_profile_escaped(tables->profile, frame->module);
	*ok = *ok && path;
	if (!*ok)
		return NONE;
	length = asprintf(&key, "%s%c%s", path, 0, frame->build_id ? frame->build_id : "");
	if (length < 0) {
		*ok = false;
		return NONE;
	}
	return number_firefox_item(&tables->libs, key, (size_t)length, ok);
}

static uint32_t number_source(struct snap_firefox_tables *tables, const struct snap_entry *entry,
			      bool *ok)
{
	const char *name;
	uint32_t row;

	if (!entry || !entry->file)
		return NONE;
	name = snap_profile_escaped(tables->profile, entry->file);
	*ok = *ok && name;
	if (!*ok)
		return NONE;
	row = number_text(tables, name, ok);
	return number_firefox_item(&tables->sources, &row, sizeof(row), ok);
}

static enum snap_firefox_category category_of_language(const char *language)
{
	static const struct {
		const char *language;
		enum snap_firefox_category category;
	} languages[] = {
		{ "go", SNAP_FIREFOX_GO },
		{ "python", SNAP_FIREFOX_PYTHON },
		{ "php", SNAP_FIREFOX_PHP },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].language, language) == 0)
			return languages[i].category;
	return SNAP_FIREFOX_OTHER;
}

static enum snap_firefox_category category_of(const struct snap_line *line)
{
	if (!line->entry)
		return SNAP_FIREFOX_OTHER;
	if (line->entry->kernel)
		return SNAP_FIREFOX_KERNEL;
	if (line->entry->system)
		return SNAP_FIREFOX_SYSTEM;
	if (line->entry->language)
		return category_of_language(line->entry->language);
	return line->frame->module ? SNAP_FIREFOX_USER : SNAP_FIREFOX_JIT;
}

static uint32_t number_frame(struct snap_firefox_tables *tables, const struct snap_line *line,
			     enum snap_firefox_category category, bool *ok)
{
	struct func_row func = {
		.name = number_text(tables, line->name, ok),
		.lib = number_lib(tables, line->frame, ok),
		.source = number_source(tables, line->entry, ok),
	};
	struct frame_row frame = {
		.func = number_firefox_item(&tables->funcs, &func, sizeof(func), ok),
		.address = NONE,
		.line = NONE,
		.column = NONE,
		.category = category,
	};

	if (line->entry) {
		frame.line = line->entry->line ? line->entry->line : NONE;
		frame.column = line->entry->column ? line->entry->column : NONE;
		frame.depth = (uint32_t)(line->frame->entry_count - 1 -
					 (size_t)(line->entry - line->frame->entries));
		/* Readers keep addresses in 32 bits. */
		if (func.lib != NONE && line->frame->has_offset && line->frame->offset < NONE)
			frame.address = (uint32_t)line->frame->offset;
	}
	return number_firefox_item(&tables->frames, &frame, sizeof(frame), ok);
}

size_t snap_firefox_stack(struct snap_firefox_tables *tables, size_t stack, enum snap_state state)
{
	enum snap_firefox_category leaf = snap_firefox_category_of(state);
	uint32_t *row = &tables->rows[stack * CATEGORIES + leaf], prefix = NONE;
	const struct snap_lines_of *lines;
	bool ok = true;

	if (*row)
		return *row - 1;
	lines = snap_profile_stack(tables->profile, stack);
	if (!lines)
		return SIZE_MAX;
	for (size_t i = 0; i < lines->count && ok; i++) {
		enum snap_firefox_category category = category_of(&lines->lines[i]);
		struct stack_row next = { .prefix = prefix };

		if (i + 1 == lines->count && state != SNAP_STATE_RUNNING)
			category = leaf;
		next.frame = number_frame(tables, &lines->lines[i], category, &ok);
		prefix = number_firefox_item(&tables->stacks, &next, sizeof(next), &ok);
	}
	if (!ok)
		return SIZE_MAX;
	*row = prefix + 1;
	return prefix;
}

/* ---- writing ---- */

/* A column of a table: a field of its rows, or the same value in all of them. */
struct column {
	const char *key;
	size_t offset;        /* of the field, a uint32_t */
	const char *none;     /* JSON for NONE */
	const char *constant; /* JSON; NULL: a field */
};

static uint32_t field_at(const struct snap_pool *rows, size_t row, size_t offset)
{
	uint32_t field;

	memcpy(&field, rows->entries[row].bytes + offset, sizeof(field));
	return field;
}

static void put_columns(struct snap_json_writer *json, const struct snap_pool *rows,
			const struct column *columns, size_t count)
{
	for (const struct column *column = columns; column < columns + count; column++) {
		snap_json_begin(json, column->key, '[');
		for (size_t i = 0; i < rows->count; i++) {
			uint32_t field =
				column->constant ? NONE : field_at(rows, i, column->offset);

			if (column->constant)
				snap_json_raw(json, NULL, column->constant);
			else if (field == NONE)
				snap_json_raw(json, NULL, column->none);
			else
				snap_json_number(json, NULL, field);
		}
		snap_json_end(json, ']');
	}
}

/* `first`, and from row to row one more. */
static void put_sequence(struct snap_json_writer *json, const char *key, size_t first, size_t count)
{
	snap_json_list(json, key, count, i, snap_json_number(json, NULL, (int64_t)(first + i)));
}

static void begin_table(struct snap_json_writer *json, const char *key)
{
	snap_json_begin_line(json, key, '{');
}

static void end_table(struct snap_json_writer *json, size_t count)
{
	snap_json_number(json, "length", (int64_t)count);
	snap_json_end(json, '}');
}

static void put_table(struct snap_json_writer *json, const char *key, const struct snap_pool *rows,
		      const struct column *columns, size_t count)
{
	begin_table(json, key);
	put_columns(json, rows, columns, count);
	end_table(json, rows->count);
}

static void put_firefox_frames(struct snap_json_writer *json,
			       const struct snap_firefox_tables *tables)
{
	static const struct column columns[] = {
		{ "address", offsetof(struct frame_row, address), "-1", NULL },
		{ "inlineDepth", offsetof(struct frame_row, depth), NULL, NULL },
		{ "category", offsetof(struct frame_row, category), NULL, NULL },
		{ "subcategory", 0, NULL, "0" },
		{ "func", offsetof(struct frame_row, func), NULL, NULL },
		{ "nativeSymbol", 0, NULL, "null" },
		{ "innerWindowID", 0, NULL, "0" },
		{ "line", offsetof(struct frame_row, line), "null", NULL },
		{ "column", offsetof(struct frame_row, column), "null", NULL },
		{ "originalLocation", 0, NULL, "null" },
	};

	put_table(json, "frameTable", &tables->frames, columns, SNAP_ARRAY_SIZE(columns));
}

static void put_funcs(struct snap_json_writer *json, const struct snap_firefox_tables *tables)
{
	static const struct column columns[] = {
		{ "name", offsetof(struct func_row, name), NULL, NULL },
		{ "isJS", 0, NULL, "false" },
		{ "relevantForJS", 0, NULL, "false" },
		{ "resource", offsetof(struct func_row, lib), "-1", NULL },
		{ "source", offsetof(struct func_row, source), "null", NULL },
		{ "lineNumber", 0, NULL, "null" },
		{ "columnNumber", 0, NULL, "null" },
		{ "originalLocation", 0, NULL, "null" },
	};

	put_table(json, "funcTable", &tables->funcs, columns, SNAP_ARRAY_SIZE(columns));
}

static void put_firefox_stacks(struct snap_json_writer *json,
			       const struct snap_firefox_tables *tables)
{
	static const struct column frame = { "frame", offsetof(struct stack_row, frame), NULL,
					     NULL };
	size_t count = tables->stacks.count;

	begin_table(json, "stackTable");
	put_columns(json, &tables->stacks, &frame, 1);
	snap_json_begin(json, "prefixOffset", '[');
	for (size_t i = 0; i < count; i++) {
		uint32_t prefix = field_at(&tables->stacks, i, offsetof(struct stack_row, prefix));

		snap_json_number(json, NULL, prefix == NONE ? 0 : (int64_t)i - prefix);
	}
	snap_json_end(json, ']');
	end_table(json, count);
}

static void put_resources(struct snap_json_writer *json, const struct snap_firefox_tables *tables)
{
	static const struct column rest[] = {
		{ "host", 0, NULL, "null" },
		{ "type", 0, NULL, "1" },
	};
	size_t count = tables->libs.count;

	begin_table(json, "resourceTable");
	put_sequence(json, "lib", 0, count);
	/* In stringArray the names of libraries follow all others. */
	put_sequence(json, "name", tables->strings.count, count);
	put_columns(json, &tables->libs, rest, SNAP_ARRAY_SIZE(rest));
	end_table(json, count);
}

static void put_sources(struct snap_json_writer *json, const struct snap_firefox_tables *tables)
{
	static const struct column columns[] = {
		{ "id", 0, NULL, "null" },           { "filename", 0, NULL, NULL },
		{ "startLine", 0, NULL, "1" },       { "startColumn", 0, NULL, "1" },
		{ "sourceMapURL", 0, NULL, "null" }, { "content", 0, NULL, "null" },
	};

	put_table(json, "sources", &tables->sources, columns, SNAP_ARRAY_SIZE(columns));
}

void snap_firefox_put_tables(struct snap_json_writer *json,
			     const struct snap_firefox_tables *tables)
{
	snap_json_begin_line(json, "shared", '{');
	put_firefox_frames(json, tables);
	put_funcs(json, tables);
	put_firefox_stacks(json, tables);
	put_resources(json, tables);
	snap_json_line(json);
	snap_json_raw(
		json, "nativeSymbols",
		"{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],\"length\":0}");
	put_sources(json, tables);
	snap_json_line(json);
	snap_json_raw(json, "sourceLocationTable",
		      "{\"source\":[],\"line\":[],\"column\":[],\"length\":0}");
	snap_json_begin_line(json, "stringArray", '[');
	for (size_t i = 0; i < tables->strings.count; i++) {
		snap_json_line(json);
		snap_json_clean(json, NULL, tables->strings.entries[i].bytes);
	}
	for (size_t i = 0; i < tables->libs.count; i++) {
		snap_json_line(json);
		snap_json_clean(json, NULL, snap_base_name(tables->libs.entries[i].bytes));
	}
	snap_json_end(json, ']');
	snap_json_end(json, '}');
}

/*
 * The build id as a GUID and an age of 0: 32 digits, of which the first three numbers are read as
 * little-endian ones.
 */
static void breakpad_id(const char *build_id, char out[34])
{
	static const int order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	size_t length = strlen(build_id);

	for (size_t i = 0; i < 16; i++)
		for (size_t k = 0; k < 2; k++) {
			size_t from = 2 * (size_t)order[i] + k;

			out[2 * i + k] = from < length && isxdigit((unsigned char)build_id[from])
						 ? (char)toupper((unsigned char)build_id[from])
						 : '0';
		}
	out[32] = '0';
	out[33] = '\0';
}

void snap_firefox_put_libs(struct snap_json_writer *json, const struct snap_firefox_tables *tables)
{
	snap_json_begin_line(json, "libs", '[');
	for (size_t i = 0; i < tables->libs.count; i++) {
		const char *path = tables->libs.entries[i].bytes, *id = path + strlen(path) + 1;
		const char *name = snap_base_name(path);
		char breakpad[34] = "";

		if (*id)
			breakpad_id(id, breakpad);
		snap_json_begin_line(json, NULL, '{');
		snap_json_text(json, "arch", tables->profile->recording->host.arch);
		snap_json_clean(json, "name", name);
		snap_json_clean(json, "path", path);
		snap_json_clean(json, "debugName", name);
		snap_json_clean(json, "debugPath", path);
		snap_json_clean(json, "breakpadId", breakpad);
		if (*id)
			snap_json_text(json, "codeId", id);
		else
			snap_json_null(json, "codeId");
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}
