/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "capture/discover.h"

struct snap_error *snap_discover(const struct snap_options *options, struct snap_capture *capture)
{
	capture->processes =
		snap_arena_new_array(&capture->arena, options->target_count, struct snap_process);
	if (!capture->processes)
		return snap_error_no_memory();
	for (size_t i = 0; i < options->target_count; i++)
		capture->processes[i] = (struct snap_process){ .pid = options->targets[i].pid,
							       .parent = SIZE_MAX,
							       .is_target = true };
	capture->process_count = options->target_count;
	return NULL;
}

void snap_discover_explain(struct snap_capture *capture _unused_, struct snap_process *process,
			   int os_errno _unused_)
{
	process->trouble = SNAP_TROUBLE_PERMISSION_DENIED;
}

struct snap_error *snap_discover_again(const struct snap_options *options _unused_,
				       struct snap_capture *capture _unused_, bool *grown_ret)
{
	*grown_ret = false;
	return NULL;
}
