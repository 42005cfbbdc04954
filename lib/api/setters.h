/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the text of an option does to the options: a function for each kind of value. Which option
 * has which stands in the table of options.c; how numbers, lists and conditions are written, in
 * parse.h. For the files of this folder only.
 */
#pragma once

#include "api/parse.h"

struct snap_setting;

/* `value`: neither empty nor long; NULL for an option without argument. INVALID, NO_MEMORY. */
typedef struct stacksnap_error *snap_setter(struct snap_options *options,
					    const struct snap_setting *setting, const char *value);

/* A row of the table of options. */
struct snap_setting {
	const char *name;
	const char *argument; /* what the value is, for messages; NULL: the option takes none */
	snap_setter *set;
	size_t offset;  /* of the field, for setters that serve several options */
	unsigned value; /* what to put there */
	const struct snap_choice *choices; /* the words that it takes; NULL: any text */
};

/* Words of --runtimes beside those of enum snap_runtime_kind. */
enum {
	SNAP_RUNTIMES_AUTO = 1 << 16,
	SNAP_RUNTIMES_NONE = 1 << 17,
};

/* Added to the stop timeout where no --timeout is given. */
enum { SNAP_TIMEOUT_EXTRA_MS = 10000 };

/* Targets: processes. */
snap_setter snap_set_pid, snap_set_name, snap_set_target;
/* Fields of one kind, at setting->offset. */
snap_setter snap_set_flag, snap_set_value, snap_set_choice, snap_set_either, snap_set_list,
	snap_set_regex, snap_set_milliseconds, snap_set_duration, snap_set_moment;
/* Groups, trees, what is shown. */
snap_setter snap_set_group_by, snap_set_per_thread, snap_set_call_tree, snap_set_task_tree,
	snap_set_runtimes, snap_set_verbose, snap_set_number, snap_set_debug_dir, snap_set_exe;
/* Limits. */
snap_setter snap_set_max_frames, snap_set_max_stack, snap_set_runtime_memory, snap_set_max_memory,
	snap_set_max_stopped;
/* Recordings and watches. */
snap_setter snap_set_hz, snap_set_task_hz, snap_set_until, snap_set_watch;

/* The keys that --task-tree=auto means. */
void snap_set_default_tree_keys(struct snap_options *options);
