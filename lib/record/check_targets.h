/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Whether any of the targets that were found can be recorded, before anything is written.
 *
 * Asks by opening what a recording reads; nobody is stopped. Knows nothing of threads.
 */
#ifndef SNAP_RECORD_CHECK_TARGETS_H
#define SNAP_RECORD_CHECK_TARGETS_H

#include "base/error.h"
#include "model/capture.h"

/*
 * NULL if there is one. Else why the first target cannot be, as a snapshot would say it: NOT_FOUND,
 * PERMISSION; OTHER.
 */
struct stacksnap_error *snap_check_targets(const struct snap_capture *found) _must_check_;

#endif
