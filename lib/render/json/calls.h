/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A call tree as JSON, each function in the array of those below the one that it is called by, or,
 * in reverse, that it calls. Knows nothing of processes.
 */
#pragma once

#include "render/json/writer.h"
#include "render/view/calls/tree.h"

/* The value of "call_tree", with its key. */
void snap_json_calls_put(struct snap_json_writer *json, const struct snap_call_tree *tree);
