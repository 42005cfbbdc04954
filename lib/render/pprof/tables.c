/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings, locations, functions and strings of a profile.proto: see tables.h.
 *
 * Mappings. A frame tells its address, and where that lies in its file, but not the bounds of the
 * line of maps it is in. What readers need to symbolize later is `address - memory_start +
 * file_offset`, the offset in the file. So there is one mapping for each file and difference of
 * address and offset, which is what a segment has, and it covers the pages of the addresses that
 * occur: a part of the real mapping, with the same sums. Where the offset in the file is not known
 * (a snapshot read from JSON has none), the address of the program header takes its place; for most
 * files they are the same.
 *
 * Addresses. Of callers it is the return address - 1, of innermost frames and those below a signal
 * frame the pc itself. A file is mapped by whole pages, so the last twelve bits of a pc and of the
 * offset that was looked up tell which of the two a frame is. Without a file its position in
 * the stack tells.
 *
 * Names. A frame without a name gets no line if its whole mapping has none: then has_functions is
 * false, and a reader with the file can symbolize. Else it is called "module+0xoffset", because
 * readers do not look into a mapping again that has functions already.
 */
#include "render/pprof/tables.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <string.h>

enum { MAIN_ID = 1 };

enum { PROFILE_MAPPING = 3, PROFILE_LOCATION = 4, PROFILE_FUNCTION = 5, PROFILE_STRING_TABLE = 6 };
enum {
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILENAMES = 8,
	MAPPING_HAS_LINES = 9,
	MAPPING_HAS_INLINES = 10,
};
enum { LOCATION_ID = 1, LOCATION_MAPPING = 2, LOCATION_ADDRESS = 3, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2, LINE_COLUMN = 3 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3, FUNCTION_FILENAME = 4 };

struct stacksnap_error *snap_pprof_init(struct snap_pprof *pprof,
					const struct snap_recording *recording)
{
	*pprof = (struct snap_pprof){ .recording = recording };
	SNAP_TRY(snap_profile_init(&pprof->profile, recording));
	pprof->stacks = calloc(recording->stack_count + 1, sizeof(*pprof->stacks));
	return snap_no_memory_unless(pprof->stacks &&
				     snap_pool_add(&pprof->strings, "", 0) != SIZE_MAX);
}

void snap_pprof_deinit(struct snap_pprof *pprof)
{
	snap_profile_deinit(&pprof->profile);
	snap_pool_deinit(&pprof->strings);
	snap_pool_deinit(&pprof->functions);
	snap_pool_deinit(&pprof->locations);
	snap_pool_deinit(&pprof->mapping_keys);
	snap_pointer_table_deinit(&pprof->mapping_of);
	snap_pointer_table_deinit(&pprof->location_of);
	snap_buffer_deinit(&pprof->message);
	snap_buffer_deinit(&pprof->inner);
	free(pprof->mappings);
	free(pprof->stacks);
}

static size_t clean_string(struct snap_pprof *pprof, const char *text)
{
	return snap_pool_add(&pprof->strings, text, strlen(text));
}

size_t snap_pprof_string(struct snap_pprof *pprof, const char *text)
{
	if (!text)
		return 0;
	text = snap_profile_escaped(&pprof->profile, text);
	return text ? clean_string(pprof, text) : SIZE_MAX;
}

/* ---- mappings ---- */

static bool lies_in_file(const struct snap_frame *frame)
{
	return frame->module && (frame->file_offset || frame->has_offset);
}

/* Its offset in the file, or what takes its place. */
static uint64_t file_offset(const struct snap_frame *frame)
{
	return frame->file_offset ? frame->file_offset : frame->offset;
}

static uint64_t looked_up_address(const struct snap_frame *frame, bool innermost)
{
	if (lies_in_file(frame))
		return frame->address - ((frame->address - file_offset(frame)) % SNAP_PAGE == 1);
	return innermost || frame->address == 0 ? frame->address : frame->address - 1;
}

static bool is_main(const struct snap_pprof *pprof, const struct snap_frame *frame, size_t process)
{
	const char *exe = pprof->recording->processes[0].node->exe;

	return process == 0 && exe && frame->module && strcmp(frame->module, exe) == 0;
}

/* What tells mappings apart; no padding. */
struct mapping_key {
	uint64_t name, build_id, delta, placed;
};

/* Index of the frame's mapping, SIZE_MAX without memory. */
static size_t find_mapping(struct snap_pprof *pprof, const struct snap_frame *frame, size_t process)
{
	bool kernel = frame->entries[0].kernel;
	struct mapping_key key = {
		.name = snap_pprof_string(pprof, kernel ? "[kernel]" : frame->module),
		.build_id = snap_pprof_string(pprof, kernel ? NULL : frame->build_id),
		.placed = !kernel && lies_in_file(frame),
	};
	size_t count = pprof->mapping_keys.count, number;

	if (key.name == SIZE_MAX || key.build_id == SIZE_MAX)
		return SIZE_MAX;
	if (key.placed)
		key.delta = looked_up_address(frame, false) - file_offset(frame);
	if (!snap_reserve_array(pprof->mappings, pprof->mapping_capacity, count + 1))
		return SIZE_MAX;
	number = snap_pool_add(&pprof->mapping_keys, &key, sizeof(key));
	if (number != count)
		return number;
	pprof->mappings[number] = (struct snap_pprof_mapping){ .id = MAIN_ID,
							       .low = UINT64_MAX,
							       .name = key.name,
							       .build_id = key.build_id,
							       .delta = key.delta,
							       .placed = key.placed };
	/* Some readers want ids in order, without a hole. */
	if (!pprof->has_main && is_main(pprof, frame, process))
		pprof->has_main = true;
	else
		pprof->mappings[number].id = MAIN_ID + ++pprof->other_mappings;
	return number;
}

static bool is_entry_named(const struct snap_entry *entry)
{
	return (entry->function && entry->function[0]) || (entry->symbol && entry->symbol[0]);
}

static void widen_mapping(struct snap_pprof_mapping *mapping, const struct snap_frame *frame)
{
	uint64_t address = looked_up_address(frame, false);

	if (mapping->placed) {
		mapping->low = address < mapping->low ? address : mapping->low;
		mapping->high = address > mapping->high ? address : mapping->high;
	}
	mapping->inlines |= frame->entry_count > 1;
	for (size_t i = 0; i < frame->entry_count; i++) {
		mapping->functions |= is_entry_named(&frame->entries[i]);
		mapping->filenames |= frame->entries[i].file != NULL;
		mapping->lines |= frame->entries[i].line != 0;
	}
}

bool snap_pprof_look_through(struct snap_pprof *pprof, size_t number)
{
	const struct snap_recorded_stack *stack = &pprof->recording->stacks[number];

	if (pprof->stacks[number].wanted)
		return true;
	pprof->stacks[number].wanted = true;
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];
		struct snap_pointer_entry *found;
		size_t mapping;

		if (!frame->module && !frame->entries[0].kernel)
			continue;
		found = snap_pointer_table_get(&pprof->mapping_of, frame);
		if (!found)
			return false;
		if (found->number)
			continue;
		mapping = find_mapping(pprof, frame, stack->process);
		if (mapping == SIZE_MAX)
			return false;
		found->number = mapping + 1;
		widen_mapping(&pprof->mappings[mapping], frame);
	}
	return true;
}

/* ---- functions and locations ---- */

/* Id of a function; 0 without memory. */
static size_t find_pprof_function(struct snap_pprof *pprof, const struct snap_line *line)
{
	const struct snap_entry *entry = line->entry;
	struct snap_buffer *message = &pprof->inner;
	size_t name = clean_string(pprof, line->name), system_name = name, file = 0, number;

	if (entry && entry->symbol && entry->symbol[0])
		system_name = snap_pprof_string(pprof, entry->symbol);
	if (entry)
		file = snap_pprof_string(pprof, entry->file);
	if (name == SIZE_MAX || system_name == SIZE_MAX || file == SIZE_MAX)
		return 0;
	snap_buffer_clear(message);
	snap_protobuf_number(message, FUNCTION_NAME, name);
	snap_protobuf_number(message, FUNCTION_SYSTEM_NAME, system_name);
	snap_protobuf_number(message, FUNCTION_FILENAME, file);
	if (message->failed)
		return 0;
	number = snap_pool_add(&pprof->functions, message->data, message->size);
	return number == SIZE_MAX ? 0 : number + 1;
}

static bool add_line(struct snap_pprof *pprof, const struct snap_line *line)
{
	size_t function = find_pprof_function(pprof, line);

	if (!function)
		return false;
	snap_buffer_clear(&pprof->inner);
	snap_protobuf_number(&pprof->inner, LINE_FUNCTION, function);
	if (line->entry) {
		snap_protobuf_number(&pprof->inner, LINE_LINE, line->entry->line);
		snap_protobuf_number(&pprof->inner, LINE_COLUMN, line->entry->column);
	}
	snap_protobuf_message(&pprof->message, LOCATION_LINE, &pprof->inner);
	return true;
}

/*
 * Id of the location of `count` lines of one frame, outermost first as in a profile's stack; the
 * format wants the innermost first. 0 without memory.
 */
static size_t make_location(struct snap_pprof *pprof, const struct snap_line *lines, size_t count,
			    bool innermost)
{
	const struct snap_frame *frame = lines->frame;
	struct snap_buffer *message = &pprof->message;
	const struct snap_pprof_mapping *mapping = NULL;
	size_t number;

	snap_buffer_clear(message);
	if (frame && (frame->module || frame->entries[0].kernel)) {
		/* All frames were looked through. */
		mapping = &pprof->mappings
				   [snap_pointer_table_find(&pprof->mapping_of, frame)->number - 1];
		snap_protobuf_number(message, LOCATION_MAPPING, mapping->id);
	}
	if (frame)
		snap_protobuf_number(message, LOCATION_ADDRESS,
				     looked_up_address(frame, innermost));
	/* Readers find the names of such a file themselves, but not that a frame is in doubt. */
	if (!mapping || mapping->functions || !mapping->placed || frame->trust != SNAP_TRUST_CFI)
		for (size_t i = count; i > 0; i--)
			if (!add_line(pprof, &lines[i - 1]))
				return 0;
	if (message->failed)
		return 0;
	number = snap_pool_add(&pprof->locations, message->data, message->size);
	return number == SIZE_MAX ? 0 : number + 1;
}

static size_t find_location(struct snap_pprof *pprof, const struct snap_line *lines, size_t count,
			    bool innermost)
{
	struct snap_pointer_entry *found;

	/* The address of an innermost frame without a file depends on its being one. */
	if (innermost || !lines->frame)
		return make_location(pprof, lines, count, innermost);
	found = snap_pointer_table_get(&pprof->location_of, lines->frame);
	if (found && !found->number)
		found->number = make_location(pprof, lines, count, false);
	return found ? found->number : 0;
}

const struct snap_pprof_stack *snap_pprof_stack(struct snap_pprof *pprof, size_t number)
{
	const struct snap_lines_of *lines = snap_profile_stack(&pprof->profile, number);
	struct snap_pprof_stack *stack = &pprof->stacks[number];
	bool innermost = true;

	if (stack->locations || !lines)
		return lines ? stack : NULL;
	stack->locations = snap_arena_new_array(&pprof->profile.arena, lines->count, uint64_t);
	for (size_t left = lines->count, entries; stack->locations && left > 0; left -= entries) {
		const struct snap_line *last = &lines->lines[left - 1];
		size_t id;

		entries = last->frame ? last->frame->entry_count : 1;
		id = find_location(pprof, last - (entries - 1), entries, innermost);
		if (!id)
			return NULL;
		stack->locations[stack->count++] = id;
		innermost = innermost && last->entry && last->entry->kernel;
	}
	return stack->locations ? stack : NULL;
}

/* ---- the tables ---- */

static void put_mapping(struct snap_pprof *pprof, const struct snap_pprof_mapping *mapping,
			struct snap_buffer *out)
{
	struct snap_buffer *message = &pprof->message;

	snap_buffer_clear(message);
	snap_protobuf_number(message, MAPPING_ID, mapping->id);
	if (mapping->low <= mapping->high) {
		uint64_t start = mapping->low - mapping->low % SNAP_PAGE;
		uint64_t last = mapping->high | (SNAP_PAGE - 1);

		snap_protobuf_number(message, MAPPING_START, start);
		snap_protobuf_number(message, MAPPING_LIMIT, last == UINT64_MAX ? last : last + 1);
		snap_protobuf_number(message, MAPPING_OFFSET, start - mapping->delta);
	}
	snap_protobuf_number(message, MAPPING_FILENAME, mapping->name);
	snap_protobuf_number(message, MAPPING_BUILD_ID, mapping->build_id);
	snap_protobuf_number(message, MAPPING_HAS_FUNCTIONS, mapping->functions);
	snap_protobuf_number(message, MAPPING_HAS_FILENAMES, mapping->filenames);
	snap_protobuf_number(message, MAPPING_HAS_LINES, mapping->lines);
	snap_protobuf_number(message, MAPPING_HAS_INLINES, mapping->inlines);
	snap_protobuf_message(out, PROFILE_MAPPING, message);
}

/* The main program is the first mapping, whether or not a stack is in it. */
static bool put_mappings(struct snap_pprof *pprof, struct snap_buffer *out)
{
	const struct snap_recording *recording = pprof->recording;

	if (!pprof->has_main && recording->process_count) {
		const struct snap_node *node = recording->processes[0].node;
		const char *name = node->exe ? node->exe : node->name;
		struct snap_pprof_mapping mapping = { .id = MAIN_ID,
						      .low = 1,
						      .name = snap_pprof_string(pprof, name) };

		if (mapping.name == SIZE_MAX)
			return false;
		put_mapping(pprof, &mapping, out);
	}
	for (int main_first = 1; main_first >= 0; main_first--)
		for (size_t i = 0; i < pprof->mapping_keys.count; i++)
			if ((pprof->mappings[i].id == MAIN_ID) == main_first)
				put_mapping(pprof, &pprof->mappings[i], out);
	return true;
}

static void put_numbered(struct snap_pprof *pprof, const struct snap_pool *pool, unsigned field,
			 unsigned id_field, struct snap_buffer *out)
{
	for (size_t i = 0; i < pool->count; i++) {
		snap_buffer_clear(&pprof->inner);
		snap_protobuf_number(&pprof->inner, id_field, i + 1);
		snap_buffer_add(&pprof->inner, pool->entries[i].bytes, pool->entries[i].size);
		snap_protobuf_message(out, field, &pprof->inner);
	}
}

bool snap_pprof_put_tables(struct snap_pprof *pprof, struct snap_buffer *out)
{
	if (!put_mappings(pprof, out))
		return false;
	put_numbered(pprof, &pprof->locations, PROFILE_LOCATION, LOCATION_ID, out);
	put_numbered(pprof, &pprof->functions, PROFILE_FUNCTION, FUNCTION_ID, out);
	for (size_t i = 0; i < pprof->strings.count; i++)
		snap_protobuf_element(out, PROFILE_STRING_TABLE, pprof->strings.entries[i].bytes,
				      pprof->strings.entries[i].size);
	return true;
}
