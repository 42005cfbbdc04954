/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Folders that are left out: see source_paths.h. Paths are the target's: none is believed to be sane. */
#include "render/text/source_paths.h"

#include "base/text.h"
#include "render/view/elide.h"

#include <string.h>

void snap_folders_deinit(struct snap_folders *folders)
{
	for (size_t i = 0; i < folders->count; i++)
		free(folders->folders[i].path);
	free(folders->folders);
	snap_pointer_table_deinit(&folders->frames);
	snap_hash_table_deinit(&folders->modules);
}

bool snap_folders_shows(const struct snap_options *options, const struct snap_entry *entry)
{
	return entry->file && (!entry->system || entry->language || options->verbose);
}

/* A language has its own code in a folder of its own. */
static uint64_t hash_key(const char *module, bool system)
{
	return snap_hash_text(module, system);
}

/* What a folder is of; NULL: of nothing that has one. */
static const char *module_of_path(const struct snap_frame *frame, const struct snap_entry *entry)
{
	return frame->module ? frame->module : entry->language;
}

static bool is_of_library(const struct snap_entry *entry)
{
	return entry->system && entry->language;
}

/* SIZE_MAX: there is none. */
static size_t find_folder(const struct snap_folders *folders, const char *module, bool library)
{
	return snap_hash_find(&folders->modules, hash_key(module, library), i,
			      folders->folders[i].library == library &&
				      strcmp(folders->folders[i].module, module) == 0);
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

/* The length of an absolute path's folders but for the last one; 0: of a relative path. */
static size_t outer_length(const char *path)
{
	size_t outer = 0, last = 0;

	if (*path != '/')
		return 0;
	for (size_t i = 0; path[i]; i++)
		if (path[i] == '/') {
			outer = last;
			last = i + 1;
		}
	return outer;
}

static void narrow_folder(struct snap_module_folder *folder, const char *path)
{
	size_t most = outer_length(path), i = 0;

	while (i < most && i < folder->length && folder->path[i] == path[i])
		i++;
	while (i && folder->path[i - 1] != '/')
		i--;
	folder->length = i;
}

/* The number of the module's folder plus 1, with this path in mind; 0 without memory. */
static size_t add_folder_path(struct snap_folders *folders, const char *module, bool library,
			      const char *file)
{
	size_t known = find_folder(folders, module, library), number = folders->count;
	_cleanup_free_ char *path = strdup(snap_source_path(file));

	if (!path)
		return 0;
	tidy_path(path);
	if (known != SIZE_MAX) {
		narrow_folder(&folders->folders[known], path);
		return known + 1;
	}
	if (!snap_reserve_array(folders->folders, folders->capacity, number + 1) ||
	    !snap_hash_table_add(&folders->modules, hash_key(module, library), number))
		return 0;
	folders->folders[folders->count++] = (struct snap_module_folder){
		.module = module,
		.library = library,
		.length = outer_length(path),
	};
	folders->folders[number].path = snap_take_ptr(path);
	return number + 1;
}

bool snap_folders_add(struct snap_folders *folders, const struct snap_options *options,
		      const struct snap_frame *frame)
{
	struct snap_pointer_entry *known;

	if (options->full_names)
		return true;
	known = snap_pointer_table_find(&folders->frames, frame);
	if (known) {
		folders->folders[known->number - 1].lines++;
		return true;
	}
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];
		const char *module = module_of_path(frame, entry);
		size_t number;

		if (!module || !snap_folders_shows(options, entry))
			continue;
		number = add_folder_path(folders, module, is_of_library(entry), entry->file);
		known = number ? snap_pointer_table_get(&folders->frames, frame) : NULL;
		if (!known)
			return false;
		known->number = number;
		folders->folders[number - 1].lines++;
	}
	return true;
}

/* The line that tells of it has to pay, too. */
static bool is_folder_left_out(const struct snap_module_folder *folder)
{
	enum { COLUMNS_OF_NOTE = 40 };

	return folder->length > 1 && (folder->lines - 1) * folder->length > COLUMNS_OF_NOTE;
}

char *snap_folders_path(const struct snap_folders *folders, const struct snap_options *options,
			const struct snap_frame *frame, const struct snap_entry *entry)
{
	const char *module = module_of_path(frame, entry);
	const struct snap_module_folder *folder;
	char *shown = strdup(options->full_names ? entry->file : snap_source_path(entry->file));
	size_t number = SIZE_MAX;

	if (!shown)
		return NULL;
	tidy_path(shown);
	if (module && !options->full_names)
		number = find_folder(folders, module, is_of_library(entry));
	if (number == SIZE_MAX)
		return shown;
	folder = &folders->folders[number];
	if (is_folder_left_out(folder) && strncmp(shown, folder->path, folder->length) == 0)
		memmove(shown, shown + folder->length, strlen(shown + folder->length) + 1);
	return shown;
}

static void add_folder(struct snap_sheet *lines, const struct snap_module_folder *folder)
{
	char *path = strndup(folder->path, folder->length);

	lines->failed = lines->failed || !path;
	snap_line_add_escaped(lines, SNAP_STYLE_DIM, path ? path : "");
	snap_line_add(lines, SNAP_STYLE_DIM, " (");
	snap_line_add_escaped(lines, SNAP_STYLE_DIM, snap_base_name(folder->module));
	snap_line_add(lines, SNAP_STYLE_DIM, ")");
	free(path);
}

void snap_folders_note(const struct snap_folders *folders, struct snap_sheet *lines, bool first)
{
	enum { MOST_NAMED = 8 };
	size_t count = 0;

	for (size_t i = 0; i < folders->count; i++) {
		if (!is_folder_left_out(&folders->folders[i]) || count++ >= MOST_NAMED)
			continue;
		if (count == 1) {
			if (first)
				snap_line_blank(lines);
			snap_line_begin(lines);
		}
		snap_line_add(lines, SNAP_STYLE_DIM,
			      count == 1 ? "folders left out of source paths (--full-names): "
					 : ", ");
		add_folder(lines, &folders->folders[i]);
	}
	if (count > MOST_NAMED)
		snap_line_printf(lines, SNAP_STYLE_DIM, ", and %zu more", count - MOST_NAMED);
	if (count)
		snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}
