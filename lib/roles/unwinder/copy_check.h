/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copy check: decides whether the copy of a thread that was not stopped suffices to unwind it
 * (--no-stop), and adds memory of other stacks that its frames lie in.
 *
 * It connects two stages: the capture asks through callbacks while it reads, and the unwinder of a
 * parser answers. It keeps opened files from thread to thread. Knows nothing of how threads are
 * read, and of memory only addresses.
 */
#pragma once

#include "base/error.h"
#include "base/shared_memory.h"
#include "model/capture.h"
#include "model/options.h"

#include <sys/uio.h>

struct snap_copy_check;

struct stacksnap_error *snap_copy_check_create(const struct snap_options *options,
					       struct snap_copy_check **ret) _must_check_;
void snap_copy_check_destroy(struct snap_copy_check *check);

SNAP_POINTER_GUARD(struct snap_copy_check, snap_copy_check_destroy);

/* Memory is read by this, as struct snap_space_reader has it, and not of a process that runs. */
void snap_copy_check_set_memory(struct snap_copy_check *check,
				size_t (*read)(void *context, uint8_t *bytes,
					       const struct iovec *ranges, size_t count),
				void *context);

/* As struct snap_stop_hook's `suffices`; false without memory. */
bool snap_copy_check_suffices(void *check, const struct snap_capture *capture, size_t process,
			      const struct snap_thread *copy);

/* As `follow` of the same. */
void snap_copy_check_follow(void *check, const struct snap_capture *capture, size_t process,
			    struct snap_thread *thread, struct snap_shared_memory *memory,
			    int64_t until_ns);
