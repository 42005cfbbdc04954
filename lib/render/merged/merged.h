/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What was merged of many snapshots, as JSON (stacksnap-json(5)) and as text. Pure functions of the
 * value: the same bytes for the same documents.
 */
#pragma once

#include "base/error.h"
#include "model/merged/merged.h"
#include "model/options.h"
#include "model/snapshot.h"

#include <stdio.h>

/* "text", "json" or "jsonl". INVALID: another format. */
struct stacksnap_error *snap_render_merged(const struct snap_merged *merged,
					   const struct snap_options *options, const char *format,
					   FILE *out) _must_check_;

/* ---- for the files of this folder ---- */

struct stacksnap_error *snap_render_merged_json(const struct snap_merged *merged, FILE *out,
						bool one_line) _must_check_;
struct stacksnap_error *snap_render_merged_text(const struct snap_merged *merged,
						const struct snap_options *options,
						FILE *out) _must_check_;

/*
 * The stack that a group's body tells of, without threads; all of it is the interner's and its
 * arena's. False without memory, or where the body is none.
 */
bool snap_merged_stack(const struct snap_merged_group *group, struct snap_interner *strings,
		       struct snap_stack *ret) _must_check_;

/*
 * The numbers of at most `most` hosts that are in the set, or of those that are not; returns how
 * many. `all`: the hosts that there are.
 */
size_t snap_merged_pick_hosts(const struct snap_host_set *set, size_t all, bool inside,
			      uint32_t *numbers, size_t most);
