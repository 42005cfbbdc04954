/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The recorder: see recorder.h. */
#include "record/recorder.h"

static struct snap_error *unable(void)
{
	return snap_error_format(SNAP_ERROR_INVALID, "this version cannot record");
}

struct snap_error *snap_recorder_create(const struct snap_options *options _unused_,
					struct snap_recorder **ret _unused_)
{
	return unable();
}

void snap_recorder_destroy(struct snap_recorder *recorder _unused_)
{
}

struct snap_error *snap_recorder_write_to(struct snap_recorder *recorder _unused_, int fd _unused_)
{
	return unable();
}

struct snap_error *
snap_recorder_run(struct snap_recorder *recorder _unused_,
		  bool (*tick)(void *context, const struct snap_recorder_status *status) _unused_,
		  void *context _unused_)
{
	return unable();
}

void snap_recorder_stop(struct snap_recorder *recorder _unused_)
{
}

struct snap_error *snap_recorder_recording(struct snap_recorder *recorder _unused_,
					   const struct snap_options *options _unused_,
					   struct snap_recording **ret _unused_)
{
	return unable();
}

struct snap_error *snap_recorder_finish(struct snap_recorder *recorder _unused_)
{
	return unable();
}
