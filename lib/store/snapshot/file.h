/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot as bytes, which a parser hands to its supervisor. Never on disk, so it has no version;
 * checked on reading, as hostile bytes may have taken over the parser.
 *
 * Knows the fields of struct snap_snapshot that are not for recordings alone, and the rules between
 * them.
 */
#pragma once

#include "base/error.h"
#include "model/snapshot.h"

/* How many bytes snap_snapshot_write() will write; UINT64_MAX without memory. */
uint64_t snap_snapshot_size(const struct snap_snapshot *snapshot);

/* Writes it where there is room for `room` bytes, 1 or more; OTHER: it takes more. NO_MEMORY. */
struct stacksnap_error *snap_snapshot_write(const struct snap_snapshot *snapshot, uint8_t *bytes,
					    uint64_t room, uint64_t *size_ret) _must_check_;

/*
 * Reads one. Renderers can rely on the result: enums and counts are in range, texts end, no pointer is
 * missing, there is no cycle, each frame has entries, and no report takes more than gigabytes. The
 * result points into `bytes`: the caller sets snapshot->backing if the snapshot is to own them. FORMAT,
 * NO_MEMORY.
 */
struct stacksnap_error *snap_snapshot_read(const uint8_t *bytes, uint64_t size,
					   struct snap_snapshot **ret) _must_check_;
