/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Whether any of the targets that were found can be looked at, before that begins.
 *
 * Has the sampler try what a look reads; no process is stopped. Knows nothing of threads.
 */
#pragma once

#include "base/error.h"
#include "sample/sampler.h"

/*
 * NULL if there is one. Else why the first target cannot be, as a snapshot would say it: NOT_FOUND,
 * PERMISSION; OTHER.
 */
struct stacksnap_error *snap_check_targets(struct snap_sampler *sampler) _must_check_;
