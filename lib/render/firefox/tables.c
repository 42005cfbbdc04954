/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tables of the Firefox Profiler's format, as they are filled: see internal.h. Rows are
 * numbered by pools, whose bytes are the rows.
 */
#include "render/firefox/internal.h"

#include <string.h>

enum { WAYS = SNAP_FIREFOX_DISK + 1 };

struct snap_error *snap_firefox_tables_init(struct snap_firefox_tables *tables,
					    struct snap_profile *profile)
{
	*tables = (struct snap_firefox_tables){ .profile = profile };
	tables->rows = calloc(profile->recording->stack_count * WAYS + 1, sizeof(*tables->rows));
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
	switch (state) {
	case SNAP_STATE_RUNNING:
		return SNAP_FIREFOX_USER;
	case SNAP_STATE_SLEEPING:
	case SNAP_STATE_IDLE:
	case SNAP_STATE_PARKED:
		return SNAP_FIREFOX_IDLE;
	case SNAP_STATE_DISK:
		return SNAP_FIREFOX_DISK;
	case SNAP_STATE_UNKNOWN:
	case SNAP_STATE_STOPPED:
	case SNAP_STATE_TRACED:
	case SNAP_STATE_ZOMBIE:
	case SNAP_STATE_DEAD:
	case SNAP_STATE_COUNT:
		break;
	}
	return SNAP_FIREFOX_OTHER;
}

/* Remembers that there is no memory in *ok. */
static uint32_t numbered(struct snap_pool *pool, const void *bytes, size_t size, bool *ok)
{
	size_t number = snap_pool_add(pool, bytes, size);

	*ok = *ok && number < SNAP_FIREFOX_NONE;
	return (uint32_t)number;
}

static uint32_t number_text(struct snap_firefox_tables *tables, const char *text, bool *ok)
{
	return numbered(&tables->strings, text, strlen(text), ok);
}

static uint32_t number_lib(struct snap_firefox_tables *tables, const struct snap_frame *frame,
			   bool *ok)
{
	_cleanup_free_ char *key = NULL;
	const char *path;
	int length;

	if (!frame || !frame->module)
		return SNAP_FIREFOX_NONE;
	path = snap_profile_escaped(tables->profile, frame->module);
	*ok = *ok && path;
	if (!*ok)
		return SNAP_FIREFOX_NONE;
	length = asprintf(&key, "%s%c%s", path, 0, frame->build_id ? frame->build_id : "");
	if (length < 0) {
		*ok = false;
		return SNAP_FIREFOX_NONE;
	}
	return numbered(&tables->libs, key, (size_t)length, ok);
}

static uint32_t number_source(struct snap_firefox_tables *tables, const struct snap_entry *entry,
			      bool *ok)
{
	const char *name;
	uint32_t row;

	if (!entry || !entry->file)
		return SNAP_FIREFOX_NONE;
	name = snap_profile_escaped(tables->profile, entry->file);
	*ok = *ok && name;
	if (!*ok)
		return SNAP_FIREFOX_NONE;
	row = number_text(tables, name, ok);
	return numbered(&tables->sources, &row, sizeof(row), ok);
}

static enum snap_firefox_category category_of(const struct snap_line *line)
{
	if (!line->entry)
		return SNAP_FIREFOX_OTHER;
	if (line->entry->kernel)
		return SNAP_FIREFOX_KERNEL;
	if (line->entry->system)
		return SNAP_FIREFOX_SYSTEM;
	return line->frame->module ? SNAP_FIREFOX_USER : SNAP_FIREFOX_JIT;
}

static uint32_t number_frame(struct snap_firefox_tables *tables, const struct snap_line *line,
			     enum snap_firefox_category category, bool *ok)
{
	struct snap_firefox_func func = {
		.name = number_text(tables, line->name, ok),
		.lib = number_lib(tables, line->frame, ok),
		.source = number_source(tables, line->entry, ok),
	};
	struct snap_firefox_frame frame = {
		.func = numbered(&tables->funcs, &func, sizeof(func), ok),
		.lib = func.lib,
		.address = -1,
		.category = category,
	};

	if (line->entry) {
		frame.line = line->entry->line;
		frame.column = line->entry->column;
		frame.depth = (uint32_t)(line->frame->entry_count - 1 -
					 (size_t)(line->entry - line->frame->entries));
		/* Readers keep addresses in 32 bits. */
		if (func.lib != SNAP_FIREFOX_NONE && line->frame->has_offset &&
		    line->frame->offset <= UINT32_MAX)
			frame.address = (int64_t)line->frame->offset;
	}
	return numbered(&tables->frames, &frame, sizeof(frame), ok);
}

size_t snap_firefox_stack(struct snap_firefox_tables *tables, size_t stack, enum snap_state state)
{
	enum snap_firefox_category way = snap_firefox_category_of(state);
	uint32_t *row = &tables->rows[stack * WAYS + way], prefix = SNAP_FIREFOX_NONE;
	const struct snap_lines_of *lines;
	bool ok = true;

	if (*row)
		return *row - 1;
	lines = snap_profile_stack(tables->profile, stack);
	if (!lines)
		return SIZE_MAX;
	for (size_t i = 0; i < lines->count && ok; i++) {
		enum snap_firefox_category category = category_of(&lines->lines[i]);
		struct snap_firefox_stack next = { .prefix = prefix };

		if (i + 1 == lines->count && state != SNAP_STATE_RUNNING)
			category = way;
		next.frame = number_frame(tables, &lines->lines[i], category, &ok);
		prefix = numbered(&tables->stacks, &next, sizeof(next), &ok);
	}
	if (!ok)
		return SIZE_MAX;
	*row = prefix + 1;
	return prefix;
}
