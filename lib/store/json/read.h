/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot read back from its JSON (stacksnap-json(5)), which need not be ours: types, ranges
 * and counts are checked, keys that are not known are left alone.
 *
 * Rendered as JSON again it gives the same bytes. What the document cannot say, which processes
 * were asked for by name, is assumed to be none; what is missing follows from the rest.
 */
#ifndef SNAP_STORE_JSON_READ_H
#define SNAP_STORE_JSON_READ_H

#include "model/snapshot.h"

enum { SNAP_JSON_MAX_BYTES = 1 << 30 };

/* From the descriptor's position to its end. FORMAT: no such document; OS, NO_MEMORY. */
struct stacksnap_error *snap_snapshot_read_json(int fd, struct snap_snapshot **ret) _must_check_;

#endif
