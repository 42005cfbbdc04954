/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options.h"

void snap_options_init(struct snap_options *options)
{
	*options = (struct snap_options){
		.children = true,
		.max_stack = 1 << 20,
		.max_snapshot = 256u << 20,
		.stop_timeout_ns = 1000000000,
		.timeout_ns = 11000000000,
		.max_frames = 512,
		.symbols = true,
		.inlines = true,
		.lines = true,
		.group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE,
	};
	snap_arena_init(&options->arena);
}

void snap_options_deinit(struct snap_options *options)
{
	snap_arena_deinit(&options->arena);
}

struct snap_error *snap_options_set(struct snap_options *options _unused_, const char *name,
				    const char *value _unused_)
{
	return snap_error_format(SNAP_ERROR_INVALID, "unknown option '%s'", name);
}
