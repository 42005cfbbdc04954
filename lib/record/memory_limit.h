/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory limit: what a recording says when its log has reached --max-memory.
 *
 * What is left out, and when, is decided by the log (store/log/limit.c) and by its writer.
 */
#pragma once

#include "model/log.h"

/* Puts a warning into the log's capture, or brings it up to date; none if nothing was left out. */
void snap_memory_limit_warn(struct snap_log *log);

/* Whether the recording has to end here; then that is noted. */
bool snap_memory_limit_ends(struct snap_log *log);
