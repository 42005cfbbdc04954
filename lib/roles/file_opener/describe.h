/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Describe: sends a process to an opener that does not have its capture. It sends what is needed to
 * find the files of one mapping, and the descriptors that lead to the process. Knows nothing of how
 * they are used.
 */
#pragma once

#include "roles/file_opener/message.h"

/* Sends it; the request points into the capture. OS. */
struct stacksnap_error *
snap_file_opener_describe(int channel, const struct snap_capture *capture,
			  const struct snap_broker_request *request) _must_check_;
