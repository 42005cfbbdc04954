/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copy check: decides whether the copy of a thread that was not stopped suffices to unwind it
 * (--no-stop).
 *
 * It connects two stages: the capture asks through a callback while it reads, and the unwinder of a
 * parser answers. It keeps opened files from thread to thread. Knows nothing of how threads are
 * read.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"

struct snap_copy_check;

struct stacksnap_error *snap_copy_check_create(const struct snap_options *options,
					       struct snap_copy_check **ret) _must_check_;
void snap_copy_check_destroy(struct snap_copy_check *check);

SNAP_POINTER_GUARD(struct snap_copy_check, snap_copy_check_destroy);

/* As struct snap_stop_hook's `suffices`; false without memory. */
bool snap_copy_check_suffices(void *check, const struct snap_capture *capture, size_t process,
			      const struct snap_thread *copy);
