/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "analyze/analyze.h"

struct snap_error *snap_analyze(const struct snap_capture *capture,
				const struct snap_options *options _unused_,
				const struct snap_file_finder *finder _unused_,
				struct snap_snapshot **ret)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = snap_snapshot_new();

	if (!snapshot)
		return snap_error_no_memory();
	snapshot->host = capture->host;
	*ret = snap_take_ptr(snapshot);
	return NULL;
}
