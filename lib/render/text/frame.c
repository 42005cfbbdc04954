/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See frame.h. */
#include "render/text/frame.h"

#include "base/text.h"
#include "render/view/elide.h"

#include <inttypes.h>
#include <string.h>

/* The escaped text, with room behind it for dots; malloc'ed. */
static char *escaped(struct snap_sheet *lines, const char *text, size_t length)
{
	_cleanup_free_ char *cut = strndup(text, length);
	char *clean = cut ? snap_sheet_escape(lines, cut) : NULL;
	char *copy = clean ? malloc(strlen(clean) + 8) : NULL;

	return copy ? strcpy(copy, clean) : NULL;
}

/* "pthread_cond_wait@@GLIBC_2.3.2", "clone@GLIBC_2.2.5" are shown without their version. */
static size_t without_version(const char *name)
{
	const char *at = strchr(name, '@');

	if (at && at > name && (at[1] == '@' || (at[1] >= 'A' && at[1] <= 'Z')))
		return (size_t)(at - name);
	return strlen(name);
}

static char *make_name(struct snap_sheet *lines, const struct snap_options *options,
		       const struct snap_frame *frame, const struct snap_entry *entry, size_t room)
{
	const char *name = entry->function ? entry->function : entry->symbol;
	char unknown[64], *shown;

	if (!name && frame->has_offset)
		snprintf(unknown, sizeof(unknown), "?? +0x%" PRIx64, frame->offset);
	else if (!name)
		snprintf(unknown, sizeof(unknown), "?? 0x%" PRIx64, frame->address);
	if (options->raw_names && entry->symbol)
		name = entry->symbol;
	shown = name ? escaped(lines, name, without_version(name)) : strdup(unknown);
	if (shown && room)
		snap_elide_name(shown, room, lines->signs->dots);
	return shown;
}

/* The column of places is known only once the report has been measured. */
static void elide_place(const struct snap_sheet *lines, char *place)
{
	size_t column = lines->measuring ? lines->widest_column : lines->column;

	if (lines->width > column)
		snap_elide_path(place, lines->width - column, lines->signs->dots);
}

/*
 * Takes "dir/.." and "." out of a path for display: build systems leave many of them. The JSON has
 * the path as it stands, since a directory that is a link makes the two differ.
 */
static void tidy_path(char *path)
{
	char *out = path, *floor = path;

	if (*path == '/')
		floor = ++out;
	for (const char *p = out; *p;) {
		size_t length = strcspn(p, "/");
		const char *next = p + length + (p[length] == '/');
		bool up = length == 2 && memcmp(p, "..", 2) == 0;

		if (up && out > floor) {
			for (out--; out > floor && out[-1] != '/';)
				out--;
		} else if (up || !(length == 0 || (length == 1 && p[0] == '.'))) {
			memmove(out, p, (size_t)(next - p));
			out += next - p;
			floor = up ? out : floor;
		}
		p = next;
	}
	*out = '\0';
}

/* Code that no file backs says so: made at run time, named by a perf map or not. */
static const char *module_of(const struct snap_frame *frame, const struct snap_entry *entry)
{
	if (frame->module)
		return frame->module;
	if (entry->kernel)
		return "[kernel]";
	return entry->function || entry->symbol ? "[jit]" : "[anon]";
}

/* File and line where they are known, else the module; -m and -b add to it. */
static char *make_place(struct snap_sheet *lines, const struct snap_options *options,
			const struct snap_frame *frame, const struct snap_entry *entry)
{
	const char *module = module_of(frame, entry);
	/* Of system code it says more which library it is than where that was built. */
	bool by_file = entry->file && (!entry->system || options->verbose);
	const char *source = by_file ? entry->file : snap_base_name(module);
	_cleanup_free_ char *first = escaped(lines, source, strlen(source)), *second = NULL;
	/* Of a recording that somebody else wrote, it can be any text. */
	_cleanup_free_ char *id = NULL;
	char line[32] = "", offset[32] = "", *place;
	bool add_module = options->show_module, add_id = options->show_build_id;

	if (by_file && entry->line)
		snprintf(line, sizeof(line), ":%u", entry->line);
	if (add_module)
		second = escaped(lines, module, strlen(module));
	if (add_id && frame->build_id)
		id = escaped(lines, frame->build_id, strlen(frame->build_id));
	if (!first || (add_module && !second) || (add_id && frame->build_id && !id))
		return NULL;
	if (by_file)
		tidy_path(first);
	else if (add_module)
		first[0] = '\0';
	if (add_id && frame->has_offset)
		snprintf(offset, sizeof(offset), "+0x%" PRIx64, frame->offset);
	if (asprintf(&place, "%s%s%s%s%s%s%s%s", first, line, *first && second ? "  " : "",
		     second ? second : "", id ? "  [" : "", id ? id : "", id ? "]" : "",
		     offset) < 0)
		return NULL;
	elide_place(lines, place);
	return place;
}

struct snap_shown_frame *snap_shown_frame_create(struct snap_sheet *lines,
						 const struct snap_options *options,
						 const struct snap_frame *frame, size_t room)
{
	struct snap_shown_frame *shown =
		calloc(1, sizeof(*shown) + frame->entry_count * sizeof(shown->entries[0]));

	if (!shown)
		return NULL;
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *from = &frame->entries[i];
		struct snap_shown_entry *entry = &shown->entries[shown->count++];

		entry->name = make_name(lines, options, frame, from, room);
		entry->place = make_place(lines, options, frame, from);
		entry->inlined = from->inlined;
		entry->system = from->system;
		entry->kernel = from->kernel;
		if (!entry->name || !entry->place) {
			snap_shown_frame_destroy(shown);
			return NULL;
		}
	}
	return shown;
}

void snap_shown_frame_destroy(void *frame)
{
	struct snap_shown_frame *shown = frame;

	for (size_t i = 0; shown && i < shown->count; i++) {
		free(shown->entries[i].name);
		free(shown->entries[i].place);
	}
	free(shown);
}

bool snap_shown_frame_equal(const struct snap_shown_frame *a, const struct snap_shown_frame *b)
{
	if (a == b)
		return true;
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->entries[i].name, b->entries[i].name) != 0 ||
		    strcmp(a->entries[i].place, b->entries[i].place) != 0)
			return false;
	return true;
}
