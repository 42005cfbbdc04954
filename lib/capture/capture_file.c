/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "capture/capture_file.h"

struct snap_error *snap_capture_write(const struct snap_capture *capture _unused_, int fd _unused_)
{
	return snap_error_format(SNAP_ERROR_OTHER, "captures cannot be written yet");
}

struct snap_error *snap_capture_read(int fd _unused_, struct snap_capture **ret _unused_)
{
	return snap_error_format(SNAP_ERROR_OTHER, "captures cannot be read yet");
}
