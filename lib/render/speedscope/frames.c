/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers of frames: see frames.h. */
#include "render/speedscope/frames.h"
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

void snap_scope_frames_deinit(struct snap_scope_frames *frames)
{
	snap_pointer_table_deinit(&frames->by_frame);
	snap_pool_deinit(&frames->keys);
	snap_arena_deinit(&frames->arena);
	free(frames->list);
}

/* The number that the key has, `frame`'s if it is new; SIZE_MAX without memory. */
static size_t number_frame(struct snap_scope_frames *frames, const char *key, size_t length,
			   const struct snap_scope_frame *frame)
{
	size_t count = frames->keys.count, number;

	if (!snap_reserve_array(frames->list, frames->capacity, count + 1))
		return SIZE_MAX;
	number = snap_pool_add(&frames->keys, key, length);
	if (number == count)
		frames->list[number] = *frame;
	return number;
}

size_t snap_scope_frame_named(struct snap_scope_frames *frames, const char *name)
{
	return number_frame(frames, name, strlen(name), &(struct snap_scope_frame){ .name = name });
}

static size_t number_function(struct snap_scope_frames *frames, const struct snap_line *line)
{
	const struct snap_entry *entry = line->entry;
	struct snap_scope_frame frame = { line->name, entry->file, entry->line, entry->column };
	char *key = NULL;
	/* Names are escaped: they have no newline. */
	int length = asprintf(&key, "%s\n%s", line->name, entry->file ? entry->file : "");
	size_t number;

	if (length < 0)
		return SIZE_MAX;
	number = number_frame(frames, key, (size_t)length, &frame);
	free(key);
	if (number == SIZE_MAX)
		return number;
	if (frames->list[number].line != entry->line)
		frames->list[number].line = frames->list[number].column = 0;
	if (frames->list[number].column != entry->column)
		frames->list[number].column = 0;
	return number;
}

size_t snap_scope_frame_of(struct snap_scope_frames *frames, const struct snap_line *line)
{
	struct snap_pointer_entry *found;
	uint32_t *numbers;
	size_t at, number;

	if (!line->entry)
		return snap_scope_frame_named(frames, line->name);
	found = snap_pointer_table_get(&frames->by_frame, line->frame);
	if (found && !found->pointer)
		found->pointer =
			snap_arena_new_array(&frames->arena, line->frame->entry_count, uint32_t);
	if (!found || !found->pointer)
		return SIZE_MAX;
	numbers = found->pointer;
	at = (size_t)(line->entry - line->frame->entries);
	if (numbers[at])
		return numbers[at] - 1;
	number = number_function(frames, line);
	if (number != SIZE_MAX)
		numbers[at] = (uint32_t)number + 1;
	return number;
}
