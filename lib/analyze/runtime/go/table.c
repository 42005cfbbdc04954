/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions of a Go program: see table.h. The layout is that of Go's src/runtime/symtab.go. */
#include "analyze/runtime/go/table.h"

#include "base/bsearch.h"
#include "base/bytes.h"

#include <string.h>

enum {
	INDEX_ENTRY = 8,       /* bytes of an entry of the index: offsets of code and record */
	RECORD_BYTES = 40,     /* of a function, without its data; four more with a start line */
	INLINE_INDEX = 2,      /* which pcdata */
	INLINE_TREE = 3,       /* which funcdata */
	MOST_VALUES = 1 << 20, /* pairs in a list */
	MOST_LOOKED_AT = 300,  /* functions with trees that a guess is held to */
	MOST_NODE = 1 << 16,
};

/* ---- the table ---- */

bool snap_go_header_parse(const uint8_t *bytes, size_t size, struct snap_go_header *ret)
{
	/* The last three: no padding, the least instruction, the size of a pointer. */
	static const uint8_t magic[] = { 0xf0, 0xff, 0xff, 0xff, 0, 0, 1, 8 };
	uint64_t parts[5], last = SNAP_GO_HEADER_BYTES;

	if (size < SNAP_GO_HEADER_BYTES || (bytes[0] & 0xfe) != magic[0] ||
	    memcmp(bytes + 1, magic + 1, sizeof(magic) - 1) != 0)
		return false;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(parts); i++) {
		parts[i] = snap_u64_at(bytes + 32 + 8 * i);
		if (parts[i] < last || parts[i] > UINT32_MAX)
			return false;
		last = parts[i];
	}
	if (snap_u64_at(bytes + 8) == 0 || snap_u64_at(bytes + 8) >= SNAP_GO_MOST_FUNCTIONS)
		return false;
	*ret = (struct snap_go_header){ .names = (uint32_t)parts[0],
					.units = (uint32_t)parts[1],
					.files = (uint32_t)parts[2],
					.values = (uint32_t)parts[3],
					.functions = (uint32_t)parts[4],
					.function_count = (uint32_t)snap_u64_at(bytes + 8),
					.has_start_line = bytes[0] & 1 };
	return true;
}

bool snap_go_table_parse(struct snap_bytes bytes, struct snap_go_table *ret)
{
	struct snap_go_header header;
	struct snap_go_table table = { .function_count = 0 };

	if (!snap_go_header_parse(bytes.data, bytes.size, &header) || header.functions > bytes.size)
		return false;
	table.names = (struct snap_bytes){ bytes.data + header.names, header.units - header.names };
	table.units = (struct snap_bytes){ bytes.data + header.units, header.files - header.units };
	table.files =
		(struct snap_bytes){ bytes.data + header.files, header.values - header.files };
	table.values =
		(struct snap_bytes){ bytes.data + header.values, header.functions - header.values };
	table.functions =
		(struct snap_bytes){ bytes.data + header.functions, bytes.size - header.functions };
	table.function_count = header.function_count;
	table.has_start_line = header.has_start_line;
	if (table.functions.size < ((size_t)table.function_count + 1) * INDEX_ENTRY)
		return false;
	*ret = table;
	return true;
}

static uint32_t entry_of(const struct snap_go_table *table, uint32_t number)
{
	return snap_u32_at(table->functions.data + (size_t)number * INDEX_ENTRY);
}

bool snap_go_table_bounds(const struct snap_go_table *table, uint32_t *first_ret, uint32_t *end_ret)
{
	*first_ret = entry_of(table, 0);
	*end_ret = entry_of(table, table->function_count);
	return *first_ret < *end_ret;
}

/* A text at an offset; NULL: it does not end, or lies outside. */
static const char *table_text_at(struct snap_bytes texts, uint64_t offset)
{
	if (offset >= texts.size || !memchr(texts.data + offset, '\0', texts.size - offset))
		return NULL;
	return (const char *)texts.data + offset;
}

/* ---- functions ---- */

bool snap_go_function_by_number(const struct snap_go_table *table, uint32_t number,
				struct snap_go_function *ret)
{
	const size_t head = table->has_start_line ? RECORD_BYTES + 4 : RECORD_BYTES;
	const uint8_t *bytes;
	uint32_t at;

	if (number >= table->function_count)
		return false;
	at = snap_u32_at(table->functions.data + (size_t)number * INDEX_ENTRY + 4);
	if (at > table->functions.size || table->functions.size - at < head)
		return false;
	bytes = table->functions.data + at;
	*ret = (struct snap_go_function){ .entry = entry_of(table, number),
					  .end = entry_of(table, number + 1),
					  .name = (int32_t)snap_u32_at(bytes + 4),
					  .frame_sizes = snap_u32_at(bytes + 16),
					  .files = snap_u32_at(bytes + 20),
					  .lines = snap_u32_at(bytes + 24),
					  .data_count = snap_u32_at(bytes + 28),
					  .unit = snap_u32_at(bytes + 32),
					  .kind = bytes[head - 4],
					  .flags = bytes[head - 3],
					  .extra_count = bytes[head - 1],
					  .data = bytes + head };
	return ret->entry < ret->end && snap_u32_at(bytes) == ret->entry &&
	       ((uint64_t)ret->data_count + ret->extra_count) * 4 <=
		       table->functions.size - at - head;
}

bool snap_go_function_find(const struct snap_go_table *table, uint32_t offset,
			   struct snap_go_function *ret)
{
	size_t next =
		snap_first_not(table->function_count, i, entry_of(table, (uint32_t)i) <= offset);

	return next > 0 && snap_go_function_by_number(table, (uint32_t)next - 1, ret) &&
	       offset < ret->end;
}

const char *snap_go_function_name(const struct snap_go_table *table,
				  const struct snap_go_function *function)
{
	const char *name =
		function->name < 0 ? NULL : table_text_at(table->names, (uint32_t)function->name);

	return name ? name : "";
}

/* ---- values by address ---- */

/* A list of pairs: how the value changes, and for how many bytes of code it holds. */
struct values {
	const uint8_t *at, *end;
	uint32_t offset; /* of code, up to which the value holds */
	int32_t value;
	bool begun;
};

static bool next_varint(struct values *values, uint32_t *ret)
{
	uint32_t number = 0;

	for (unsigned shift = 0; shift < 35 && values->at < values->end; shift += 7) {
		uint8_t byte = *values->at++;

		number |= (uint32_t)(byte & 0x7f) << (shift < 32 ? shift : 31);
		if (!(byte & 0x80)) {
			*ret = number;
			return true;
		}
	}
	return false;
}

static bool values_begin(const struct snap_go_table *table, uint32_t list,
			 const struct snap_go_function *function, struct values *ret)
{
	if (list == 0 || list >= table->values.size)
		return false;
	*ret = (struct values){ .at = table->values.data + list,
				.end = table->values.data + table->values.size,
				.offset = function->entry,
				.value = -1 };
	return true;
}

static bool values_next(struct values *values)
{
	uint32_t change, length;

	if (!next_varint(values, &change) || (change == 0 && values->begun) ||
	    !next_varint(values, &length) || length == 0 || length > UINT32_MAX - values->offset)
		return false;
	values->begun = true;
	values->value =
		(int32_t)((uint32_t)values->value + (change & 1 ? ~(change >> 1) : change >> 1));
	values->offset += length;
	return true;
}

bool snap_go_value(const struct snap_go_table *table, uint32_t list,
		   const struct snap_go_function *function, uint32_t offset, int32_t *ret)
{
	struct values values;

	if (!values_begin(table, list, function, &values))
		return false;
	for (unsigned i = 0; i < MOST_VALUES && values_next(&values); i++) {
		if (offset >= values.offset)
			continue;
		*ret = values.value;
		return true;
	}
	return false;
}

bool snap_go_frame_size(const struct snap_go_table *table, const struct snap_go_function *function,
			uint32_t offset, uint32_t *ret)
{
	int32_t value;

	if (!snap_go_value(table, function->frame_sizes, function, offset, &value) || value < 0 ||
	    value % 8 != 0)
		return false;
	*ret = (uint32_t)value;
	return true;
}

bool snap_go_keeps_return(const struct snap_go_table *table,
			  const struct snap_go_function *function, uint32_t offset)
{
	int32_t value;

	return snap_go_value(table, function->frame_sizes, function, offset, &value) &&
	       value == -8 &&
	       strcmp(snap_go_function_name(table, function), "syscall.rawVforkSyscall") == 0;
}

static const char *file_at(const struct snap_go_table *table,
			   const struct snap_go_function *function, uint32_t offset)
{
	uint32_t at;
	uint64_t unit;
	int32_t file;

	if (!snap_go_value(table, function->files, function, offset, &file) || file < 0)
		return NULL;
	unit = ((uint64_t)function->unit + (uint32_t)file) * 4;
	if (table->units.size < 4 || unit > table->units.size - 4)
		return NULL;
	at = snap_u32_at(table->units.data + unit);
	return at == UINT32_MAX ? NULL : table_text_at(table->files, at);
}

/* ---- what was inlined ---- */

static bool data_at(const struct snap_go_function *function, uint32_t index, uint32_t *ret)
{
	if (index >= function->data_count + function->extra_count)
		return false;
	*ret = snap_u32_at(function->data + (size_t)4 * index);
	return true;
}

bool snap_go_tree_of(const struct snap_go_table *table, const struct snap_go_function *function,
		     uint32_t *ret)
{
	(void)table;
	return function->extra_count > INLINE_TREE &&
	       data_at(function, function->data_count + INLINE_TREE, ret) && *ret != UINT32_MAX;
}

/* A function that was inlined: its name, and where in the outer one its call stood. */
struct node {
	uint8_t kind;
	uint32_t name;
	uint32_t parent; /* offset of code in the function */
};

static bool node_at(struct snap_bytes trees, unsigned node_bytes, uint32_t tree, uint32_t index,
		    struct node *ret)
{
	uint64_t at = tree + (uint64_t)index * node_bytes;
	const uint8_t *bytes;

	if (at > trees.size || trees.size - at < node_bytes)
		return false;
	bytes = trees.data + at;
	if (node_bytes == 16)
		*ret = (struct node){ bytes[0], snap_u32_at(bytes + 4), snap_u32_at(bytes + 8) };
	else
		*ret = (struct node){ bytes[2], snap_u32_at(bytes + 12), snap_u32_at(bytes + 16) };
	return true;
}

/* The innermost function that was inlined at an offset of code. */
static bool inlined_at(const struct snap_go_table *table, const struct snap_go_function *function,
		       uint32_t offset, struct node *ret)
{
	uint32_t tree, list;
	int32_t index;

	return table->node_bytes && snap_go_tree_of(table, function, &tree) &&
	       function->data_count > INLINE_INDEX && data_at(function, INLINE_INDEX, &list) &&
	       snap_go_value(table, list, function, offset, &index) && index >= 0 &&
	       node_at(table->trees, table->node_bytes, tree, (uint32_t)index, ret) &&
	       ret->parent < function->end - function->entry;
}

size_t snap_go_places(const struct snap_go_table *table, const struct snap_go_function *function,
		      uint32_t offset, struct snap_go_place *ret, size_t most)
{
	size_t count = 0;
	struct node node;
	int32_t line;

	while (count + 1 < most && inlined_at(table, function, offset, &node)) {
		bool known = snap_go_value(table, function->lines, function, offset, &line);

		ret[count++] =
			(struct snap_go_place){ .name = table_text_at(table->names, node.name),
						.file = file_at(table, function, offset),
						.line = known && line > 0 ? (uint32_t)line : 0,
						.kind = node.kind,
						.inlined = true };
		offset = function->entry + node.parent;
	}
	if (count < most) {
		bool known = snap_go_value(table, function->lines, function, offset, &line);

		ret[count++] =
			(struct snap_go_place){ .name = snap_go_function_name(table, function),
						.file = file_at(table, function, offset),
						.line = known && line > 0 ? (uint32_t)line : 0,
						.kind = function->kind };
	}
	return count;
}

/* The greatest node that a function's code names. */
static uint32_t last_node(const struct snap_go_table *table,
			  const struct snap_go_function *function)
{
	struct values values;
	uint32_t list, last = 0;

	if (function->data_count <= INLINE_INDEX || !data_at(function, INLINE_INDEX, &list) ||
	    !values_begin(table, list, function, &values))
		return 0;
	for (unsigned i = 0; i < MOST_NODE && values_next(&values); i++)
		if (values.value > 0 && (uint32_t)values.value > last)
			last = (uint32_t)values.value;
	return last < MOST_NODE ? last : MOST_NODE;
}

static bool nodes_fit(const struct snap_go_table *table, const struct snap_go_function *function,
		      struct snap_bytes trees, unsigned node_bytes, uint32_t tree)
{
	uint32_t last = last_node(table, function);

	for (uint32_t i = 0; i <= last; i++) {
		struct node node;

		if (!node_at(trees, node_bytes, tree, i, &node) || node.name >= table->names.size ||
		    (node.name > 0 && table->names.data[node.name - 1] != '\0') ||
		    node.parent >= function->end - function->entry)
			return false;
	}
	return true;
}

bool snap_go_trees_fit(const struct snap_go_table *table, struct snap_bytes trees,
		       unsigned node_bytes, unsigned *seen_ret)
{
	uint32_t step = table->function_count / (4 * MOST_LOOKED_AT) + 1;

	*seen_ret = 0;
	for (uint32_t i = 0; i < table->function_count && *seen_ret < MOST_LOOKED_AT; i += step) {
		struct snap_go_function function;
		uint32_t tree;

		if (!snap_go_function_by_number(table, i, &function) ||
		    !snap_go_tree_of(table, &function, &tree))
			continue;
		++*seen_ret;
		if (!nodes_fit(table, &function, trees, node_bytes, tree))
			return false;
	}
	return true;
}

const char *snap_go_shown_name(const char *name, char *text, size_t size)
{
	const char *open = strchr(name, '['), *close = strrchr(name, ']');
	int length;

	if (strcmp(name, "runtime.gopanic") == 0)
		return "panic";
	if (!open || !close || close < open)
		return name;
	length = snprintf(text, size, "%.*s[...]%s", (int)(open - name), name, close + 1);
	return length < 0 || (size_t)length >= size ? name : text;
}

uint8_t snap_go_wrapper_kind(const struct snap_go_table *table)
{
	struct snap_go_function function;
	uint8_t kind = 0;

	for (uint32_t i = 0; i < table->function_count; i++)
		if (snap_go_function_by_number(table, i, &function) && function.kind > kind)
			kind = function.kind;
	return kind;
}
