/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source paths as text shows them: without the folders that all paths of a module have in common,
 * as a build directory is; a language's own code apart. Frames are added first, then asked about.
 * Knows nothing of trees.
 */
#pragma once

#include "base/table.h"
#include "model/options.h"
#include "model/snapshot.h"
#include "render/text/line.h"

struct snap_module_folder {
	const char *module; /* or the language, of code that is in none */
	bool library;       /* of the language's own code, which lies elsewhere */
	char *path;         /* tidied; the first of them */
	size_t length; /* of the folders of `path` that all have in common, with the last slash */
	size_t lines;  /* that show a path of the module */
};

/* All zero: empty. */
struct snap_folders {
	struct snap_pointer_table frames; /* struct snap_frame -> number of its folder plus 1 */
	struct snap_hash_table modules;
	struct snap_module_folder *folders;
	size_t count, capacity;
};

void snap_folders_deinit(struct snap_folders *folders);

/* Whether text shows the source file of an entry: of machine code of the system only with -v. */
bool snap_folders_shows(const struct snap_options *options, const struct snap_entry *entry);
/* A line that shows the frame. False without memory. */
bool snap_folders_add(struct snap_folders *folders, const struct snap_options *options,
		      const struct snap_frame *frame);
/*
 * The path of an entry as it is shown, malloc'ed, raw: tidied, without what is left out. Each keeps
 * its last folder. NULL without memory.
 */
char *snap_folders_path(const struct snap_folders *folders, const struct snap_options *options,
			const struct snap_frame *frame, const struct snap_entry *entry);
/* The line that tells what was left out, if anything was; behind an empty one if it is `first`. */
void snap_folders_note(const struct snap_folders *folders, struct snap_sheet *lines, bool first);
