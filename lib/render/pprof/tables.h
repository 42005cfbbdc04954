/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tables of a profile.proto, filled from stacks: mappings, locations, functions and strings.
 *
 * Numbers of the tables are ids where the format wants ids. Functions end with false, or SIZE_MAX,
 * without memory. Knows nothing of samples.
 */
#pragma once

#include "render/pprof/protobuf.h"
#include "render/view/pool.h"
#include "render/view/profile.h"

struct snap_pprof_mapping {
	size_t id;
	uint64_t low, high; /* looked-up addresses in it; low > high: none */
	size_t name, build_id;
	uint64_t delta; /* address - delta = offset in the file */
	bool placed;    /* delta is known */
	bool functions, filenames, lines, inlines;
};

/* The locations of a stack, innermost first. */
struct snap_pprof_stack {
	uint64_t *locations;
	size_t count;
	bool wanted;
};

struct snap_pprof {
	const struct snap_recording *recording;
	struct snap_profile profile;
	struct snap_pool strings;              /* index in string_table */
	struct snap_pool functions, locations; /* messages without their ids, which are index + 1 */
	struct snap_pool mapping_keys;         /* index in mappings */
	struct snap_pprof_mapping *mappings;
	size_t mapping_capacity, other_mappings;
	bool has_main;                         /* a mapping has the main program's id */
	struct snap_pointer_table mapping_of;  /* struct snap_frame -> index in mappings + 1 */
	struct snap_pointer_table location_of; /* struct snap_frame -> id, where it is a caller */
	struct snap_pprof_stack *stacks;       /* one a stack of the recording */
	struct snap_buffer message, inner;     /* being made */
};

/* Released by snap_pprof_deinit() in any case. */
struct stacksnap_error *snap_pprof_init(struct snap_pprof *pprof,
					const struct snap_recording *recording) _must_check_;
void snap_pprof_deinit(struct snap_pprof *pprof);

/* Index of a text of the target, which is escaped; NULL: of "". */
size_t snap_pprof_string(struct snap_pprof *pprof, const char *text);

/*
 * First all stacks that are to be written are looked through, for their mappings; then each has
 * locations.
 */
bool snap_pprof_look_through(struct snap_pprof *pprof, size_t stack);
const struct snap_pprof_stack *snap_pprof_stack(struct snap_pprof *pprof, size_t stack);

/* Appends the tables to a Profile: mapping, location, function, string_table. */
bool snap_pprof_put_tables(struct snap_pprof *pprof, struct snap_buffer *out);
