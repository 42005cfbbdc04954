/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See frame.h. */
#include "render/text/frame.h"

#include "base/text.h"
#include "render/view/elide.h"

#include <inttypes.h>
#include <string.h>

/* The escaped text, with bytes to spare behind it for dots; malloc'ed. */
static char *escape_part(struct snap_sheet *lines, const char *text, size_t length)
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

char *snap_shown_name(struct snap_sheet *lines, const struct snap_shown_by *by,
		      const struct snap_frame *frame, const struct snap_entry *entry)
{
	const char *name = entry->function ? entry->function : entry->symbol;
	const char *module = by->alone && frame->module ? snap_base_name(frame->module) : "?? ";
	char unknown[512], *shown;

	if (!name && frame->has_offset)
		snprintf(unknown, sizeof(unknown), "%.480s+0x%" PRIx64,
			 snap_sheet_escape(lines, module), frame->offset);
	else if (!name)
		snprintf(unknown, sizeof(unknown), "?? 0x%" PRIx64, frame->address);
	if (by->options->raw_names && entry->symbol)
		name = entry->symbol;
	shown = name ? escape_part(lines, name, without_version(name)) : strdup(unknown);
	/* What is no template is whole where no line has to fit. */
	if (shown && by->name_width && lines->width)
		snap_elide_name(shown, by->name_width, lines->signs->dots);
	else if (shown && by->name_width && !by->options->full_names)
		snap_shorten_name(shown, by->name_width, lines->signs->dots);
	return shown;
}

/* The column of locations is known only once the report has been measured. */
static void elide_location(const struct snap_sheet *lines, char *location)
{
	size_t column = lines->measuring ? lines->widest_column : lines->column;

	if (lines->width > column)
		snap_elide_path(location, lines->width - column, lines->signs->dots);
}

/* Code that no file backs says so: made at run time, named by a perf map or not. */
static const char *module_of_frame(const struct snap_frame *frame, const struct snap_entry *entry)
{
	if (frame->module)
		return frame->module;
	if (entry->kernel)
		return "[kernel]";
	if (entry->language)
		return entry->language;
	return entry->function || entry->symbol ? "[jit]" : "[anon]";
}

/* What comes before the module: "dir/file.c:12", or the name of the module. */
static char *make_source(struct snap_sheet *lines, const struct snap_shown_by *by,
			 const struct snap_frame *frame, const struct snap_entry *entry,
			 bool has_line)
{
	_cleanup_free_ char *path = NULL, *clean = NULL;
	char *source;

	/* Of system code it says more which library it is than where that was built. */
	if (!snap_folders_shows(by->options, entry)) {
		const char *module = by->options->show_module
					     ? ""
					     : snap_base_name(module_of_frame(frame, entry));

		return escape_part(lines, module, strlen(module));
	}
	path = snap_folders_path(by->folders, by->options, frame, entry);
	clean = path ? escape_part(lines, path, strlen(path)) : NULL;
	if (!clean || !entry->line || !has_line)
		return snap_take_ptr(clean);
	return asprintf(&source, "%s:%u", clean, entry->line) < 0 ? NULL : source;
}

/* File and line where they are known, else the module; -m and -b add to it. */
char *snap_shown_location(struct snap_sheet *lines, const struct snap_shown_by *by,
			  const struct snap_frame *frame, const struct snap_entry *entry,
			  bool has_line)
{
	const struct snap_options *options = by->options;
	const char *module = module_of_frame(frame, entry);
	_cleanup_free_ char *source = make_source(lines, by, frame, entry, has_line),
			    *second = NULL;
	/* In a forged recording it can be any text. */
	_cleanup_free_ char *id = NULL;
	bool has_id = options->show_build_id && frame->build_id;
	char offset[32] = "", *location;

	if (options->show_module)
		second = escape_part(lines, module, strlen(module));
	if (has_id)
		id = escape_part(lines, frame->build_id, strlen(frame->build_id));
	if (!source || (options->show_module && !second) || (has_id && !id))
		return NULL;
	if (options->show_build_id && frame->has_offset)
		snprintf(offset, sizeof(offset), "+0x%" PRIx64, frame->offset);
	if (asprintf(&location, "%s%s%s%s%s%s%s", source, *source && second ? "  " : "",
		     second ? second : "", id ? "  [" : "", id ? id : "", id ? "]" : "",
		     offset) < 0)
		return NULL;
	elide_location(lines, location);
	return location;
}

struct snap_shown_frame *snap_shown_frame_create(struct snap_sheet *lines,
						 const struct snap_shown_by *by,
						 const struct snap_frame *frame)
{
	struct snap_shown_frame *shown =
		calloc(1, sizeof(*shown) + frame->entry_count * sizeof(shown->entries[0]));

	if (!shown)
		return NULL;
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *from = &frame->entries[i];
		struct snap_shown_entry *entry = &shown->entries[shown->count++];

		entry->name = snap_shown_name(lines, by, frame, from);
		entry->location = snap_shown_location(lines, by, frame, from, true);
		entry->inlined = from->inlined;
		entry->tail_call = from->tail_call;
		entry->system = from->system;
		entry->kernel = from->kernel;
		entry->guessed = i + 1 == frame->entry_count && frame->trust != SNAP_TRUST_CFI;
		if (!entry->name || !entry->location) {
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
		free(shown->entries[i].location);
	}
	free(shown);
}

bool snap_shown_frame_equal(const struct snap_shown_frame *a, const struct snap_shown_frame *b)
{
	if (a == b)
		return true;
	if (a->count != b->count)
		return false;
	return snap_all(a->count, i,
			strcmp(a->entries[i].name, b->entries[i].name) == 0 &&
				strcmp(a->entries[i].location, b->entries[i].location) == 0 &&
				a->entries[i].guessed == b->entries[i].guessed);
}
