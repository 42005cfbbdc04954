/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A look at the targets before a recording: see check_targets.h. */
#include "sample/check_targets.h"

#include "discover/discover.h"
#include "sample/internal.h"

#include <errno.h>

static struct stacksnap_error *explain_missing_target(const struct snap_process *process)
{
	const struct snap_trouble_row *row = &snap_troubles[process->trouble];

	if (process->trouble_message)
		return snap_error_format(row->error, "%s", process->trouble_message);
	return snap_error_format(row->error, "process %d cannot be looked at (%s)",
				 (int)process->pid, row->word);
}

struct stacksnap_error *snap_check_targets(struct snap_sampler *sampler)
{
	const struct snap_capture *found = snap_sampler_capture(sampler);
	_cleanup_(snap_capture_destroyp) struct snap_capture *scratch = snap_capture_new();
	struct stacksnap_error *first = NULL;
	bool is_of_target = false;

	SNAP_TRY(snap_no_memory_unless(scratch));
	for (size_t i = 0; i < found->process_count; i++) {
		struct snap_process process = found->processes[i];

		if (process.trouble == SNAP_TROUBLE_NONE) {
			int error = snap_sampler_try(sampler, &process);

			/*
			 * Without descriptors nothing can be said; nor is it the target's fault.
			 * One that does not answer may do so later.
			 */
			if (error == 0 || error == -EMFILE || error == -ENFILE ||
			    error == -ETIMEDOUT) {
				snap_error_destroy(first);
				return NULL;
			}
			snap_discover_explain(scratch, &process, sampler->asker, -error);
		}
		if (first && (is_of_target || !process.is_target))
			continue;
		snap_error_destroy(first);
		first = explain_missing_target(&process);
		is_of_target = process.is_target;
	}
	return first;
}
