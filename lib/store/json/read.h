/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot read back from its JSON (stacksnap-json(5)), which another program may have
 * written: types, ranges and counts are checked, unknown keys are ignored.
 *
 * Rendered as JSON again it gives the same bytes. The document does not say which processes were asked
 * for by name: none is assumed. The counts of missing things follow from the rest.
 */
#pragma once

#include "model/snapshot.h"

enum { SNAP_JSON_MAX_BYTES = 1 << 30 };

/* From the descriptor's position to its end. FORMAT: no such document; OS, NO_MEMORY. */
struct stacksnap_error *snap_snapshot_read_json(int fd, struct snap_snapshot **ret) _must_check_;
