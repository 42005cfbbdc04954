/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "capture/capture.h"

#include "capture/discover.h"

struct snap_error *snap_capture_list(const struct snap_options *options, struct snap_capture **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	struct snap_error *err;

	if (!capture)
		return snap_error_no_memory();
	err = snap_discover(options, capture);
	if (err)
		return err;
	*ret = snap_take_ptr(capture);
	return NULL;
}

struct snap_error *snap_capture_take(const struct snap_options *options,
				     const struct snap_stop_hook *hook _unused_,
				     struct snap_capture **ret)
{
	return snap_capture_list(options, ret);
}
