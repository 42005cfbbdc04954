/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tables of the Firefox Profiler's format, as they are written: see internal.h. */
#include "render/firefox/internal.h"

#include <ctype.h>
#include <string.h>

static const int64_t CELL_NULL = INT64_MIN;

typedef int64_t (*cell_of)(const struct snap_firefox_tables *tables, size_t row);

static void column(struct snap_json_out *json, const struct snap_firefox_tables *tables,
		   const char *key, size_t count, cell_of cell)
{
	snap_json_out_raw(json, "\"");
	snap_json_out_raw(json, key);
	snap_json_out_raw(json, "\":[");
	for (size_t i = 0; i < count; i++) {
		int64_t number = cell(tables, i);

		if (i)
			snap_json_out_raw(json, ",");
		if (number == CELL_NULL)
			snap_json_out_raw(json, "null");
		else
			snap_json_out_number(json, number);
	}
	snap_json_out_raw(json, "],");
}

/* The same value in every row, as JSON. */
static void constant(struct snap_json_out *json, const char *key, size_t count, const char *value)
{
	snap_json_out_raw(json, "\"");
	snap_json_out_raw(json, key);
	snap_json_out_raw(json, "\":[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			snap_json_out_raw(json, ",");
		snap_json_out_raw(json, value);
	}
	snap_json_out_raw(json, "],");
}

static void length_of(struct snap_json_out *json, size_t count)
{
	snap_json_out_raw(json, "\"length\":");
	snap_json_out_number(json, (int64_t)count);
	snap_json_out_raw(json, "}");
}

static int64_t or_null(uint32_t number)
{
	return number == SNAP_FIREFOX_NONE ? CELL_NULL : (int64_t)number;
}

static struct snap_firefox_frame frame_at(const struct snap_firefox_tables *tables, size_t row)
{
	struct snap_firefox_frame frame;

	memcpy(&frame, tables->frames.entries[row].bytes, sizeof(frame));
	return frame;
}

static int64_t frame_address(const struct snap_firefox_tables *tables, size_t row)
{
	return frame_at(tables, row).address;
}

static int64_t frame_depth(const struct snap_firefox_tables *tables, size_t row)
{
	return frame_at(tables, row).depth;
}

static int64_t frame_category(const struct snap_firefox_tables *tables, size_t row)
{
	return frame_at(tables, row).category;
}

static int64_t frame_func(const struct snap_firefox_tables *tables, size_t row)
{
	return frame_at(tables, row).func;
}

static int64_t frame_line(const struct snap_firefox_tables *tables, size_t row)
{
	uint32_t line = frame_at(tables, row).line;

	return line ? (int64_t)line : CELL_NULL;
}

static int64_t frame_column(const struct snap_firefox_tables *tables, size_t row)
{
	uint32_t number = frame_at(tables, row).column;

	return number ? (int64_t)number : CELL_NULL;
}

static void put_frames(struct snap_json_out *json, const struct snap_firefox_tables *tables)
{
	size_t count = tables->frames.count;

	snap_json_out_raw(json, "\"frameTable\":{");
	column(json, tables, "address", count, frame_address);
	column(json, tables, "inlineDepth", count, frame_depth);
	column(json, tables, "category", count, frame_category);
	constant(json, "subcategory", count, "0");
	column(json, tables, "func", count, frame_func);
	constant(json, "nativeSymbol", count, "null");
	constant(json, "innerWindowID", count, "0");
	column(json, tables, "line", count, frame_line);
	column(json, tables, "column", count, frame_column);
	constant(json, "originalLocation", count, "null");
	length_of(json, count);
}

static struct snap_firefox_func func_at(const struct snap_firefox_tables *tables, size_t row)
{
	struct snap_firefox_func func;

	memcpy(&func, tables->funcs.entries[row].bytes, sizeof(func));
	return func;
}

static int64_t func_name(const struct snap_firefox_tables *tables, size_t row)
{
	return func_at(tables, row).name;
}

static int64_t func_resource(const struct snap_firefox_tables *tables, size_t row)
{
	uint32_t lib = func_at(tables, row).lib;

	return lib == SNAP_FIREFOX_NONE ? -1 : (int64_t)lib;
}

static int64_t func_source(const struct snap_firefox_tables *tables, size_t row)
{
	return or_null(func_at(tables, row).source);
}

static void put_funcs(struct snap_json_out *json, const struct snap_firefox_tables *tables)
{
	size_t count = tables->funcs.count;

	snap_json_out_raw(json, ",\n\"funcTable\":{");
	column(json, tables, "name", count, func_name);
	constant(json, "isJS", count, "false");
	constant(json, "relevantForJS", count, "false");
	column(json, tables, "resource", count, func_resource);
	column(json, tables, "source", count, func_source);
	constant(json, "lineNumber", count, "null");
	constant(json, "columnNumber", count, "null");
	constant(json, "originalLocation", count, "null");
	length_of(json, count);
}

static struct snap_firefox_stack stack_at(const struct snap_firefox_tables *tables, size_t row)
{
	struct snap_firefox_stack stack;

	memcpy(&stack, tables->stacks.entries[row].bytes, sizeof(stack));
	return stack;
}

static int64_t stack_frame(const struct snap_firefox_tables *tables, size_t row)
{
	return stack_at(tables, row).frame;
}

static int64_t stack_offset(const struct snap_firefox_tables *tables, size_t row)
{
	uint32_t prefix = stack_at(tables, row).prefix;

	return prefix == SNAP_FIREFOX_NONE ? 0 : (int64_t)row - prefix;
}

static void put_stacks(struct snap_json_out *json, const struct snap_firefox_tables *tables)
{
	size_t count = tables->stacks.count;

	snap_json_out_raw(json, ",\n\"stackTable\":{");
	column(json, tables, "frame", count, stack_frame);
	column(json, tables, "prefixOffset", count, stack_offset);
	length_of(json, count);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static int64_t same_number(const struct snap_firefox_tables *tables _unused_, size_t row)
{
	return (int64_t)row;
}

/* Libraries are put into the strings when the tables are whole: see snap_firefox_put_shared(). */
static int64_t lib_name(const struct snap_firefox_tables *tables, size_t row)
{
	return (int64_t)(tables->strings.count + row);
}

static int64_t source_name(const struct snap_firefox_tables *tables, size_t row)
{
	uint32_t name;

	memcpy(&name, tables->sources.entries[row].bytes, sizeof(name));
	return name;
}

static void put_places(struct snap_json_out *json, const struct snap_firefox_tables *tables)
{
	size_t libs = tables->libs.count, sources = tables->sources.count;

	snap_json_out_raw(json, ",\n\"resourceTable\":{");
	column(json, tables, "lib", libs, same_number);
	column(json, tables, "name", libs, lib_name);
	constant(json, "host", libs, "null");
	constant(json, "type", libs, "1");
	length_of(json, libs);
	snap_json_out_raw(json, ",\n\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
				"\"functionSize\":[],\"length\":0}"
				",\n\"sources\":{");
	constant(json, "id", sources, "null");
	column(json, tables, "filename", sources, source_name);
	constant(json, "startLine", sources, "1");
	constant(json, "startColumn", sources, "1");
	constant(json, "sourceMapURL", sources, "null");
	constant(json, "content", sources, "null");
	length_of(json, sources);
	snap_json_out_raw(json, ",\n\"sourceLocationTable\":{\"source\":[],\"line\":[],"
				"\"column\":[],\"length\":0}");
}

void snap_firefox_put_shared(struct snap_json_out *json, const struct snap_firefox_tables *tables)
{
	snap_json_out_raw(json, "\"shared\":{");
	put_frames(json, tables);
	put_funcs(json, tables);
	put_stacks(json, tables);
	put_places(json, tables);
	snap_json_out_raw(json, ",\n\"stringArray\":[");
	for (size_t i = 0; i < tables->strings.count; i++) {
		snap_json_out_raw(json, i ? ",\n" : "");
		snap_json_out_clean(json, tables->strings.entries[i].bytes);
	}
	for (size_t i = 0; i < tables->libs.count; i++) {
		snap_json_out_raw(json, tables->strings.count + i ? ",\n" : "");
		snap_json_out_clean(json, base_name(tables->libs.entries[i].bytes));
	}
	snap_json_out_raw(json, "]}");
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

void snap_firefox_put_libs(struct snap_json_out *json, const struct snap_firefox_tables *tables)
{
	snap_json_out_raw(json, "\"libs\":[");
	for (size_t i = 0; i < tables->libs.count; i++) {
		const char *path = tables->libs.entries[i].bytes, *id = path + strlen(path) + 1;
		const char *name = base_name(path), *arch = tables->profile->recording->host.arch;
		char breakpad[34] = "";
		const char *const members[][2] = {
			{ "name", name },      { "path", path },           { "debugName", name },
			{ "debugPath", path }, { "breakpadId", breakpad },
		};

		if (*id)
			breakpad_id(id, breakpad);
		snap_json_out_raw(json, i ? ",\n{\"arch\":" : "\n{\"arch\":");
		snap_json_out_text(json, arch);
		for (size_t k = 0; k < SNAP_ARRAY_SIZE(members); k++) {
			snap_json_out_raw(json, ",\"");
			snap_json_out_raw(json, members[k][0]);
			snap_json_out_raw(json, "\":");
			snap_json_out_clean(json, members[k][1]);
		}
		snap_json_out_raw(json, ",\"codeId\":");
		if (*id)
			snap_json_out_text(json, id);
		else
			snap_json_out_raw(json, "null");
		snap_json_out_raw(json, "}");
	}
	snap_json_out_raw(json, "]");
}
