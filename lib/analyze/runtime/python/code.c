/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Code objects and places in them: a frame of Python's interpreter -> a frame of the result. Each
 * code object is read once, and each of its lines is one frame. Knows nothing of chains.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"

#include "base/buffer.h"

enum {
	MOST_CODE = 1 << 24, /* bytes of bytecode */
	MOST_COPIES = 4096,  /* copies of the bytecode of one function */
};

/* What is known of one code object. */
struct code {
	uint64_t address;
	bool makes_sense;
	const char *name, *file;
	uint32_t first_line;
	uint64_t bytecode; /* its address, 0: places are no addresses */
	uint64_t bytecode_size;
	uint64_t copies; /* address of the array of other copies; 0: none */
	uint8_t *table;
	size_t table_size;
	bool has_lines; /* the table is there, though it may be empty */
};

struct place {
	const struct code *code;
	uint32_t line;
	const struct snap_runtime_frame *frame;
};

struct snap_python_places {
	struct snap_pointer_table codes; /* keys: addresses of the target */
	struct snap_hash_table table;    /* of places */
	struct place *places;
	size_t count, capacity;
};

static void release_code(void *pointer)
{
	struct code *code = pointer;

	if (code)
		free(code->table);
	free(code);
}

bool snap_python_places_create(struct snap_python *python)
{
	python->places = calloc(1, sizeof(*python->places));
	return python->places;
}

void snap_python_places_destroy(struct snap_python *python)
{
	struct snap_python_places *places = python->places;

	if (!places)
		return;
	snap_pointer_table_release(&places->codes, release_code);
	snap_hash_table_deinit(&places->table);
	free(places->places);
	free(places);
	python->places = NULL;
}

/* ---- code objects ---- */

/* The line table, a bytes object, as much of it as is there; false: no memory. */
static bool read_code_table(const struct snap_python *python, uint64_t address, struct code *code)
{
	const struct snap_python_layout *layout = &python->layout;
	uint64_t size;

	if (!snap_runtime_word(python->process, address + layout->bytes_size, &size))
		return true;
	code->has_lines = size == 0;
	if (size == 0)
		return true;
	if (size > SNAP_PYTHON_MOST_LINES)
		size = SNAP_PYTHON_MOST_LINES;
	code->table = malloc(size);
	if (!code->table)
		return false;
	code->has_lines =
		snap_runtime_read(python->process, address + layout->bytes_data, code->table, size);
	code->table_size = code->has_lines ? size : 0;
	return true;
}

static bool read_names(const struct snap_python *python, const uint8_t *record, struct code *code)
{
	const struct snap_python_layout *layout = &python->layout;

	return snap_python_string(python, snap_runtime_field(record, layout->code.name, 8),
				  &code->name) &&
	       snap_python_string(python, snap_runtime_field(record, layout->code.file, 8),
				  &code->file);
}

static bool read_code(const struct snap_python *python, struct code *code)
{
	const struct snap_python_layout *layout = &python->layout;
	uint8_t record[SNAP_PYTHON_RECORD];

	if (!snap_runtime_read(python->process, code->address, record, layout->code.size))
		return true;
	if (python->code_type &&
	    snap_runtime_field(record, layout->object_type, 8) != python->code_type)
		return true;
	code->first_line = (uint32_t)snap_runtime_field(record, layout->code.first_line, 4);
	if (layout->place == SNAP_PYTHON_PLACE_POINTER) {
		code->bytecode = code->address + layout->code.bytecode;
		code->bytecode_size = snap_runtime_field(record, layout->var_size, 8);
		if (code->bytecode_size > MOST_CODE / 2)
			return true;
		code->bytecode_size *= 2;
		if (layout->code.bytecode_copies)
			code->copies = snap_runtime_field(record, layout->code.bytecode_copies, 8);
	}
	if (!read_names(python, record, code))
		return false;
	if (!code->name || !code->name[0] || !code->file || code->first_line > INT32_MAX)
		return true;
	code->makes_sense = true;
	if (!python->process->options->lines)
		return true;
	return read_code_table(python, snap_runtime_field(record, layout->code.line_table, 8),
			       code);
}

/* The code object at an address, which may make no sense; NULL: no memory. */
static struct code *find_code(struct snap_python *python, uint64_t address)
{
	struct snap_pointer_entry *entry =
		snap_pointer_table_get(&python->places->codes, (const void *)(uintptr_t)address);
	struct code *code;

	if (!entry)
		return NULL;
	if (entry->pointer)
		return entry->pointer;
	code = calloc(1, sizeof(*code));
	entry->pointer = code;
	if (!code)
		return NULL;
	code->address = address;
	return read_code(python, code) ? code : NULL;
}

/* ---- places ---- */

/* Where the bytecode lies that a frame of a free-threaded interpreter runs. */
static bool find_bytecode(const struct snap_python *python, const uint8_t *frame,
			  const struct code *code, uint64_t *ret)
{
	const struct snap_python_layout *layout = &python->layout;
	uint32_t index;
	uint64_t count;

	*ret = code->bytecode;
	if (!layout->frame.bytecode_copy)
		return true;
	index = (uint32_t)snap_runtime_field(frame, layout->frame.bytecode_copy, 4);
	if (index == 0 || code->copies == 0)
		return true;
	if (index >= MOST_COPIES || !snap_runtime_word(python->process, code->copies, &count) ||
	    index >= count)
		return false;
	return snap_runtime_word(python->process, code->copies + 8 + 8 * (uint64_t)index, ret);
}

/* The offset into the bytecode, -2 or -1 before the first instruction; false: it is absurd. */
static bool offset_of(const struct snap_python *python, const uint8_t *frame,
		      const struct code *code, int64_t *ret)
{
	const struct snap_python_layout *layout = &python->layout;
	int64_t offset = (int32_t)snap_runtime_field(frame, layout->frame.place, 4);
	uint64_t bytecode;

	switch (layout->place) {
	case SNAP_PYTHON_PLACE_BYTES:
		break;
	case SNAP_PYTHON_PLACE_UNITS:
		offset *= 2;
		break;
	case SNAP_PYTHON_PLACE_POINTER:
		if (!find_bytecode(python, frame, code, &bytecode))
			return false;
		offset = (int64_t)(snap_runtime_field(frame, layout->frame.place, 8) - bytecode);
		if (offset > (int64_t)code->bytecode_size)
			return false;
		break;
	}
	*ret = offset;
	return offset >= -2 && offset < MOST_CODE;
}

static bool make_python_frame(struct snap_python *python, const struct code *code, uint32_t line,
			      const struct snap_runtime_frame **ret)
{
	struct snap_arena *arena = python->process->arena;
	struct snap_runtime_frame *frame = snap_arena_new(arena, struct snap_runtime_frame);

	if (!frame)
		return false;
	frame->entries = snap_arena_new(arena, struct snap_entry);
	if (!frame->entries)
		return false;
	frame->entry_count = 1;
	frame->entries[0] = (struct snap_entry){ .function = code->name, .language = "python" };
	if (python->process->options->lines && code->file[0]) {
		frame->entries[0].file = code->file;
		frame->entries[0].line = line;
	}
	*ret = frame;
	return true;
}

static bool find_python_place(struct snap_python *python, const struct code *code, uint32_t line,
			      const struct snap_runtime_frame **ret)
{
	struct snap_python_places *places = python->places;
	uint64_t hash = snap_hash_add(code->address, line);
	struct snap_probe probe = snap_hash_table_probe(&places->table, hash);
	struct place place = { .code = code, .line = line };

	while (snap_probe_next(&probe)) {
		const struct place *known = &places->places[probe.number];

		if (known->code != code || known->line != line)
			continue;
		*ret = known->frame;
		return true;
	}
	if (!make_python_frame(python, code, line, &place.frame) ||
	    !snap_reserve_array(places->places, places->capacity, places->count + 1) ||
	    !snap_hash_table_add(&places->table, hash, places->count))
		return false;
	places->places[places->count++] = place;
	*ret = place.frame;
	return true;
}

bool snap_python_frame(struct snap_python *python, const uint8_t *frame,
		       const struct snap_runtime_frame **ret)
{
	/* From 3.14 on the low bits of the reference say how it is counted. */
	uint64_t address = snap_runtime_field(frame, python->layout.frame.code, 8) & ~3ull;
	const struct code *code;
	uint32_t line = 0; /* not that of another place */
	int64_t offset;

	*ret = NULL;
	if (address == 0)
		return true;
	code = find_code(python, address);
	if (!code)
		return false;
	if (!code->makes_sense || !offset_of(python, frame, code, &offset))
		return true;
	if (code->has_lines)
		line = snap_python_line(python->layout.lines, code->table, code->table_size,
					code->first_line, offset);
	return find_python_place(python, code, line, ret);
}
