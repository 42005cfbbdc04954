/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What an opener is told of a process whose capture it does not have: enough to find the files of
 * one of its mappings, and the descriptors that lead to it. Knows nothing of how they are used.
 */
#ifndef SNAP_ROLES_OPENER_DESCRIBE_H
#define SNAP_ROLES_OPENER_DESCRIBE_H

#include "roles/opener/message.h"

/* Sends it; the request points into the capture. OS. */
struct stacksnap_error *
snap_opener_describe(int channel, const struct snap_capture *capture,
		     const struct snap_broker_request *request) _must_check_;

#endif
