/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Offsets in the memory of each version of CPython: a row for 3.8 to 3.12, by offsetof from their
 * headers. From 3.13 on _PyRuntime begins with a table of offsets, and only the order of this table
 * differs between versions. Knows nothing of where the interpreter is.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"

enum {
	FIRST_MINOR = 8,
	FIRST_DESCRIBED = 13,
	MOST_WORDS = 128,
	MOST_OF_GIL = 4096,  /* of struct _gil_runtime_state */
	MOST_OFFSET = 60000, /* of what lies in an interpreter's state, the largest structure */
	STRING_EXTRA = 16,   /* by how much a str that is not ASCII has a longer head */
};

/* clang-format off */
static const struct snap_python_layout rows[] = {
	{ .minor = 8,
	  .place = SNAP_PYTHON_PLACE_BYTES,
	  .lines = SNAP_PYTHON_LINES_LNOTAB,
	  .runtime = { .interpreters = 32, .gil_holder = 1160, .gil_locked = 1168 },
	  .interpreter = { .next = 0, .threads = 8, .number = 16, .modules = 56 },
	  .thread = { .next = 8, .interpreter = 16, .thread_id = 176, .frame = 24 },
	  .frame = { .previous = 24, .code = 32, .place = 104 },
	  .code = { .name = 112, .file = 104, .first_line = 40, .line_table = 120 },
	  .string = { .state = 32, .length = 16, .ascii = 48, .compact = 72, .kind_shift = 2 } },
	{ .minor = 9,
	  .place = SNAP_PYTHON_PLACE_BYTES,
	  .lines = SNAP_PYTHON_LINES_LNOTAB,
	  .runtime = { .interpreters = 32, .gil_holder = 360, .gil_locked = 368 },
	  .interpreter = { .next = 0, .threads = 8, .number = 24, .modules = 856 },
	  .thread = { .next = 8, .interpreter = 16, .thread_id = 176, .frame = 24 },
	  .frame = { .previous = 24, .code = 32, .place = 104 },
	  .code = { .name = 112, .file = 104, .first_line = 40, .line_table = 120 },
	  .string = { .state = 32, .length = 16, .ascii = 48, .compact = 72, .kind_shift = 2 } },
	{ .minor = 10,
	  .place = SNAP_PYTHON_PLACE_UNITS,
	  .lines = SNAP_PYTHON_LINES_LINETABLE,
	  .runtime = { .interpreters = 32, .gil_holder = 360, .gil_locked = 368 },
	  .interpreter = { .next = 0, .threads = 8, .number = 24, .modules = 856 },
	  .thread = { .next = 8, .interpreter = 16, .thread_id = 176, .frame = 24, .loop = 48 },
	  .loop = { .previous = 8 },
	  .frame = { .previous = 24, .code = 32, .place = 96 },
	  .code = { .name = 112, .file = 104, .first_line = 40, .line_table = 120 },
	  .string = { .state = 32, .length = 16, .ascii = 48, .compact = 72, .kind_shift = 2 } },
	{ .minor = 11,
	  .place = SNAP_PYTHON_PLACE_POINTER,
	  .lines = SNAP_PYTHON_LINES_LOCATIONS,
	  .runtime = { .interpreters = 40, .gil_holder = 368, .gil_locked = 376 },
	  .interpreter = { .next = 0, .threads = 16, .number = 48, .modules = 888 },
	  .thread = { .next = 8, .interpreter = 16, .thread_id = 152, .native_id = 160,
	              .loop = 56 },
	  .loop = { .frame = 8, .previous = 16 },
	  .frame = { .previous = 48, .code = 32, .place = 56, .is_entry = 68 },
	  .code = { .name = 128, .file = 112, .first_line = 72, .line_table = 136,
	            .bytecode = 184 },
	  .string = { .state = 32, .length = 16, .ascii = 48, .compact = 72, .kind_shift = 2 } },
	{ .minor = 12,
	  .place = SNAP_PYTHON_PLACE_POINTER,
	  .lines = SNAP_PYTHON_LINES_LOCATIONS,
	  .runtime = { .interpreters = 40 },
	  .interpreter = { .next = 0, .threads = 72, .number = 8, .modules = 944, .gil = 384,
	                   .gil_holder = 8, .gil_locked = 16 },
	  .thread = { .next = 8, .interpreter = 16, .thread_id = 136, .native_id = 144,
	              .loop = 56 },
	  .loop = { .frame = 0, .previous = 8 },
	  .frame = { .previous = 8, .code = 0, .place = 56, .owner = 70, .first_shim = 3 },
	  .code = { .name = 128, .file = 112, .first_line = 68, .line_table = 136,
	            .bytecode = 192 },
	  .string = { .state = 32, .length = 16, .ascii = 40, .compact = 56, .kind_shift = 2 },
	  .int_tag = 16,
	  .int_digits = 24 },
};
/* clang-format on */

enum { DESCRIBED = 3 }; /* 3.13, 3.14, 3.15 */

static const size_t word_counts[DESCRIBED] = { 73, 95, 111 };

/* A field, the word that has it, the word that has the size of its group; 0: not there. */
struct word_row {
	size_t field;
	uint8_t word[DESCRIBED], size[DESCRIBED];
};

#define FIELD(name) offsetof(struct snap_python_layout, name)
/* clang-format off */
static const struct word_row words[] = {
	{ FIELD(runtime.interpreters),        {  5,  5,  5 }, {  3,  3,  3 } },
	{ FIELD(interpreter.number),          {  7,  7,  7 }, {  6,  6,  6 } },
	{ FIELD(interpreter.next),            {  8,  8,  8 }, {  6,  6,  6 } },
	{ FIELD(interpreter.threads),         {  9,  9,  9 }, {  6,  6,  6 } },
	{ FIELD(interpreter.modules),         { 11, 12, 12 }, {  6,  6,  6 } },
	{ FIELD(interpreter.gil),             { 14, 15, 15 }, {  6,  6,  6 } },
	{ FIELD(thread.next),                 { 21, 24, 24 }, { 19, 22, 22 } },
	{ FIELD(thread.interpreter),          { 22, 25, 25 }, { 19, 22, 22 } },
	{ FIELD(thread.frame),                { 23, 26, 26 }, { 19, 22, 22 } },
	{ FIELD(thread.base_frame),           {  0,  0, 27 }, { 19, 22, 22 } },
	{ FIELD(thread.thread_id),            { 24, 27, 30 }, { 19, 22, 22 } },
	{ FIELD(thread.native_id),            { 25, 28, 31 }, { 19, 22, 22 } },
	{ FIELD(frame.previous),              { 29, 32, 40 }, { 28, 31, 39 } },
	{ FIELD(frame.code),                  { 30, 33, 41 }, { 28, 31, 39 } },
	{ FIELD(frame.place),                 { 31, 34, 42 }, { 28, 31, 39 } },
	{ FIELD(frame.owner),                 { 33, 36, 44 }, { 28, 31, 39 } },
	{ FIELD(frame_stack_pointer),         {  0, 37, 45 }, { 28, 31, 39 } },
	{ FIELD(frame.bytecode_copy),         {  0, 38, 46 }, { 28, 31, 39 } },
	{ FIELD(code.file),                   { 35, 40, 48 }, { 34, 39, 47 } },
	{ FIELD(code.name),                   { 37, 42, 50 }, { 34, 39, 47 } },
	{ FIELD(code.line_table),             { 38, 43, 51 }, { 34, 39, 47 } },
	{ FIELD(code.first_line),             { 39, 44, 52 }, { 34, 39, 47 } },
	{ FIELD(code.bytecode),               { 43, 48, 56 }, { 34, 39, 47 } },
	{ FIELD(code.bytecode_copies),        {  0, 49, 57 }, { 34, 39, 47 } },
	{ FIELD(object_type),                 { 45, 51, 59 }, { 44, 50, 58 } },
	{ FIELD(bytes_size),                  { 65, 75, 87 }, { 64, 74, 86 } },
	{ FIELD(bytes_data),                  { 66, 76, 88 }, { 64, 74, 86 } },
	{ FIELD(string.state),                { 68, 78, 90 }, { 67, 77, 89 } },
	{ FIELD(string.length),               { 69, 79, 91 }, { 67, 77, 89 } },
	{ FIELD(string.ascii),                { 70, 80, 92 }, { 67, 77, 89 } },
	{ FIELD(string.compact),              {  0,  0, 93 }, { 67, 77, 89 } },
	{ FIELD(generator.name),              {  0, 84, 100 }, { 0, 83, 99 } },
	{ FIELD(generator.frame),             {  0, 85, 101 }, { 0, 83, 99 } },
	{ FIELD(generator.state),             {  0, 86, 102 }, { 0, 83, 99 } },
	{ FIELD(set_table),                   {  0, 64, 76 }, { 0, 62, 74 } },
	{ FIELD(set_mask),                    {  0, 65, 77 }, { 0, 62, 74 } },
	{ FIELD(int_tag),                     { 62, 72, 84 }, { 61, 71, 83 } },
	{ FIELD(int_digits),                  { 63, 73, 85 }, { 61, 71, 83 } },
};
/* clang-format on */

/* The size of an object's head, which is larger in free-threaded builds. */
static const uint8_t object_words[DESCRIBED] = { 44, 50, 58 };

static const uint8_t gil_words[DESCRIBED][4] = {
	/* runtime state, enabled, locked, holder */
	{ 15, 16, 17, 18 },
	{ 16, 17, 18, 19 },
	{ 16, 17, 18, 19 },
};

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* How much of each structure is read. */
static void fill_sizes(struct snap_python_layout *layout)
{
	layout->runtime.size =
		larger(layout->runtime.size,
		       larger(layout->runtime.interpreters,
			      larger(layout->runtime.gil_holder, layout->runtime.gil_locked)) +
			       8);
	layout->interpreter.size =
		larger(larger(layout->interpreter.next, layout->interpreter.number),
		       larger(layout->interpreter.threads, layout->interpreter.gil)) +
		8;
	layout->thread.size =
		larger(larger(layout->thread.next, layout->thread.interpreter),
		       larger(larger(layout->thread.thread_id, layout->thread.native_id),
			      larger(layout->thread.frame,
				     larger(layout->thread.loop, layout->thread.base_frame)))) +
		8;
	layout->loop.size = larger(layout->loop.frame, layout->loop.previous) + 8;
	layout->frame.size =
		larger(larger(layout->frame.previous, layout->frame.code),
		       larger(larger(layout->frame.place, layout->frame.owner),
			      larger(larger(layout->frame.is_entry, layout->frame.bytecode_copy),
				     layout->frame_stack_pointer))) +
		8;
	layout->code.size = larger(larger(layout->code.name, layout->code.file),
				   larger(larger(layout->code.first_line, layout->code.line_table),
					  larger(layout->code.bytecode_copies,
						 larger(layout->object_type, layout->var_size)))) +
			    8;
}

/* What all versions up to 3.12 have in common. */
static void take_row(struct snap_python *python, const struct snap_python_layout *row)
{
	python->layout = *row;
	python->layout.object_type = 8;
	python->layout.object_size = 16;
	python->layout.var_size = 16;
	python->layout.bytes_size = 16;
	python->layout.bytes_data = 32;
	fill_sizes(&python->layout);
}

/* Each offset is below the size of its structure, and none is absurd. */
static bool take_layout_words(struct snap_python_layout *layout, const uint64_t *table,
			      size_t column)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(words); i++) {
		unsigned word = words[i].word[column];
		uint32_t offset;

		if (word == 0)
			continue;
		if (table[word] >= table[words[i].size[column]] || table[word] > MOST_OFFSET)
			/* the size of a str's head is that of the whole */
			if (words[i].field != FIELD(string.ascii) &&
			    words[i].field != FIELD(string.compact))
				return false;
		if (table[word] > MOST_OFFSET)
			return false;
		offset = (uint32_t)table[word];
		memcpy((uint8_t *)layout + words[i].field, &offset, sizeof(offset));
	}
	return true;
}

static bool take_gil(struct snap_python_layout *layout, const uint64_t *table, size_t column)
{
	uint64_t state = table[gil_words[column][0]], enabled = table[gil_words[column][1]];

	/* That one alone counts from the lock's own beginning (pycore_debug_offsets.h). */
	if (enabled > MOST_OF_GIL)
		return false;
	for (size_t i = 2; i < 4; i++) {
		uint64_t offset = table[gil_words[column][i]];

		if (offset < state || offset - state > MOST_OF_GIL)
			return false;
	}
	layout->interpreter.gil_enabled = layout->is_free_threaded ? (uint32_t)enabled : 0;
	layout->interpreter.gil_locked = (uint32_t)(table[gil_words[column][2]] - state);
	layout->interpreter.gil_holder = (uint32_t)(table[gil_words[column][3]] - state);
	return true;
}

/* What is read of the structures whole must fit in a record. */
static bool sizes_fit(const struct snap_python_layout *layout)
{
	return layout->thread.size <= SNAP_PYTHON_RECORD &&
	       layout->frame.size <= SNAP_PYTHON_RECORD &&
	       layout->code.size <= SNAP_PYTHON_RECORD &&
	       layout->string.ascii <= SNAP_PYTHON_RECORD && layout->string.ascii >= 24 &&
	       layout->string.state + 4 <= layout->string.ascii &&
	       layout->string.length + 8 <= layout->string.ascii &&
	       layout->object_type + 8 <= layout->string.ascii &&
	       layout->object_size <= layout->string.ascii && layout->object_size >= 16 &&
	       layout->bytes_data <= SNAP_PYTHON_RECORD &&
	       layout->bytes_size + 8 <= layout->bytes_data &&
	       layout->generator.frame <= SNAP_PYTHON_RECORD &&
	       layout->generator.state <= layout->generator.frame;
}

static const char *load_described(struct snap_python *python)
{
	static const char *const strange = "its memory does not describe itself as it should";
	struct snap_python_layout *layout = &python->layout;
	size_t column = python->layout.minor - FIRST_DESCRIBED;
	uint64_t table[MOST_WORDS];

	if (!snap_runtime_read(python->process, python->runtime, table,
			       word_counts[column] * sizeof(table[0])))
		return "its memory cannot be read";
	if (memcmp(table, "xdebugpy", sizeof(table[0])) != 0)
		return strange;
	if (python->has_micro ? table[1] != python->version
			      : (table[1] >> 16 & 255) != layout->minor)
		return strange;
	python->version = (uint32_t)table[1];
	python->has_micro = true;
	layout->is_free_threaded = table[2] & 1;
	layout->place = SNAP_PYTHON_PLACE_POINTER;
	layout->lines = SNAP_PYTHON_LINES_LOCATIONS;
	layout->frame.first_shim = 3;
	layout->runtime.size = (uint32_t)(word_counts[column] * sizeof(table[0]));
	if (!take_layout_words(layout, table, column) || !take_gil(layout, table, column))
		return strange;
	layout->object_size = (uint32_t)table[object_words[column]];
	layout->var_size = layout->bytes_size;
	if (layout->string.compact == 0)
		layout->string.compact = layout->string.ascii + STRING_EXTRA;
	layout->string.kind_shift = layout->is_free_threaded && layout->minor >= 14 ? 8 : 2;
	if (!layout->is_free_threaded)
		layout->frame.bytecode_copy = layout->code.bytecode_copies = 0;
	fill_sizes(layout);
	return sizes_fit(layout) ? NULL : strange;
}

const char *snap_python_layout_load(struct snap_python *python)
{
	unsigned minor = python->version >> 16 & 255;

	python->layout = (struct snap_python_layout){ .minor = minor };
	if (minor == 0)
		return "its version is unknown";
	if (minor < FIRST_MINOR)
		return "it is older than 3.8";
	if (minor >= FIRST_DESCRIBED + DESCRIBED)
		return "it is newer than 3.15";
	if (minor >= FIRST_DESCRIBED)
		return load_described(python);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		if (rows[i].minor == minor)
			take_row(python, &rows[i]);
	return NULL;
}
