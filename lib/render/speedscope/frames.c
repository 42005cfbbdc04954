/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers of frames: see internal.h. Knows nothing of samples. */
#include "render/speedscope/internal.h"

#include <stdlib.h>
#include <string.h>

void snap_scope_frames_init(struct snap_scope_frames *frames)
{
	*frames = (struct snap_scope_frames){ .count = 0 };
	snap_arena_init(&frames->arena);
	snap_interner_init(&frames->keys, &frames->arena);
}

void snap_scope_frames_deinit(struct snap_scope_frames *frames)
{
	snap_pointer_map_clear(&frames->numbers, NULL);
	snap_pointer_map_clear(&frames->by_frame, NULL);
	snap_interner_deinit(&frames->keys);
	snap_arena_deinit(&frames->arena);
	free(frames->list);
}

/* The number that the key has, a new frame's if it has none; false without memory. */
static bool number_of(struct snap_scope_frames *frames, const char *key,
		      const struct snap_scope_frame *frame, uint32_t *ret)
{
	const char *interned = snap_intern(&frames->keys, key, strlen(key));
	void **slot = interned ? snap_pointer_map_slot(&frames->numbers, interned) : NULL;

	if (!slot)
		return false;
	if (!*slot) {
		if (!snap_grow_array(frames->list, frames->capacity, frames->count))
			return false;
		frames->list[frames->count++] = *frame;
		*slot = (void *)(uintptr_t)frames->count;
	}
	*ret = (uint32_t)((uintptr_t)*slot - 1);
	return true;
}

bool snap_scope_frame_named(struct snap_scope_frames *frames, const char *name, uint32_t *ret)
{
	return number_of(frames, name, &(struct snap_scope_frame){ .name = name }, ret);
}

static bool find_function(struct snap_scope_frames *frames, const struct snap_line *line,
			  uint32_t *ret)
{
	const struct snap_entry *entry = line->entry;
	struct snap_scope_frame frame = { line->name, entry->file, entry->line, entry->column };
	_cleanup_free_ char *key = NULL;

	/* Names are escaped: they have no newline. */
	if (asprintf(&key, "%s\n%s", line->name, entry->file ? entry->file : "") < 0) {
		key = NULL;
		return false;
	}
	if (!number_of(frames, key, &frame, ret))
		return false;
	if (frames->list[*ret].line != entry->line)
		frames->list[*ret].line = frames->list[*ret].column = 0;
	if (frames->list[*ret].column != entry->column)
		frames->list[*ret].column = 0;
	return true;
}

/* The numbers, each plus one, of a frame's functions; NULL without memory. */
static uint32_t *numbers_of(struct snap_scope_frames *frames, const struct snap_frame *frame)
{
	void **slot = snap_pointer_map_slot(&frames->by_frame, frame);

	if (slot && !*slot)
		*slot = snap_arena_new_array(&frames->arena, frame->entry_count, uint32_t);
	return slot ? *slot : NULL;
}

bool snap_scope_frame_of(struct snap_scope_frames *frames, const struct snap_line *line,
			 uint32_t *ret)
{
	uint32_t *numbers, *number;

	if (!line->entry)
		return snap_scope_frame_named(frames, line->name, ret);
	numbers = numbers_of(frames, line->frame);
	if (!numbers)
		return false;
	number = &numbers[line->entry - line->frame->entries];
	if (*number == 0) {
		if (!find_function(frames, line, ret))
			return false;
		*number = *ret + 1;
	}
	*ret = *number - 1;
	return true;
}
