/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A look at the targets before a recording: see check_targets.h. */
#include "record/check_targets.h"

#include "discover/discover.h"
#include "proc/procfs.h"

#include <errno.h>

/* 0 or a negative errno. */
static int try_memory(const struct snap_process *process)
{
	_cleanup_fd_ int process_fd = snap_discover_open(process);
	_cleanup_fd_ int memory_fd = -1;

	if (process_fd < 0)
		return process_fd;
	memory_fd = snap_procfs_open_file(process_fd, "mem");
	return memory_fd < 0 ? memory_fd : 0;
}

static struct stacksnap_error *explain(const struct snap_process *process)
{
	const struct snap_trouble_row *row = &snap_troubles[process->trouble];

	if (process->trouble_message)
		return snap_error_format(row->error, "%s", process->trouble_message);
	return snap_error_format(row->error, "process %d cannot be recorded (%s)",
				 (int)process->pid, row->word);
}

struct stacksnap_error *snap_check_targets(const struct snap_capture *found)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *scratch = snap_capture_new();
	struct stacksnap_error *first = NULL;
	bool is_of_target = false;

	if (!scratch)
		return snap_error_no_memory();
	for (size_t i = 0; i < found->process_count; i++) {
		struct snap_process process = found->processes[i];

		if (process.trouble == SNAP_TROUBLE_NONE) {
			int error = try_memory(&process);

			/* Without descriptors nothing can be told; nor is it a matter of the
			 * target. */
			if (error == 0 || error == -EMFILE || error == -ENFILE) {
				snap_error_destroy(first);
				return NULL;
			}
			snap_discover_explain(scratch, &process, -error);
		}
		if (first && (is_of_target || !process.is_target))
			continue;
		snap_error_destroy(first);
		first = explain(&process);
		is_of_target = process.is_target;
	}
	return first;
}
