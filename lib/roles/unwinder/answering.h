/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the parser's answers about a thread (managed.c) and about the tasks of a process (tasks.c)
 * have in common: what stays of a process from answer to answer, and the room that an answer has.
 * Nobody else includes it.
 */
#ifndef SNAP_ROLES_UNWINDER_ANSWERING_H
#define SNAP_ROLES_UNWINDER_ANSWERING_H

#include "analyze/runtime/runtime.h"
#include "base/table.h"
#include "roles/unwinder/managed.h"

enum { SNAP_ANSWERING_RESULTS = 8 };

/* Of a process, until it is left. */
struct snap_managed {
	struct snap_arena arena; /* of what stays */
	struct snap_interner strings;
	struct known *frames;
	size_t frame_count, frame_capacity;
	struct snap_hash_table table; /* of frames */
	struct named *names;
	size_t name_count, name_capacity;
	struct snap_hash_table name_table;
	struct snap_runtime_symbols symbols;
	unsigned absent; /* bits: runtimes of the table that are not in the process */
};

struct snap_answering {
	struct snap_managed *managed;
	const struct snap_managed_thread *thread;
	const struct snap_pcs *pcs;
	struct snap_exchange *exchange;
	struct snap_arena arena; /* of what the runtimes make */
	struct snap_runtime_result *results[SNAP_ANSWERING_RESULTS];
	size_t result_count;
	/* The merged stack: a pc, or a managed frame. */
	uint64_t *bits;
	const struct snap_runtime_frame **frames;
	size_t count;
};

void snap_answering_deinit(struct snap_answering *answering);

/* Makes what stays, or begins it anew where it is too much; false without memory. */
bool snap_answering_begin(struct snap_managed **managed, struct snap_exchange *exchange);

/*
 * What the runtimes know of a process, whose threads and memory are there, into results.
 * `is_of_thread`: the memory is that of its one thread. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_answering_read(struct snap_answering *answering,
					    struct snap_process *process,
					    bool is_of_thread) _must_check_;

/* Where a text begins, + 1; false: there is no room. */
bool snap_answering_put_text(struct snap_answering *answering, const char *text, uint32_t *ret);

/* The number of a managed frame, which is told if it is new. */
enum snap_numbered { SNAP_NUMBERED, SNAP_NUMBERED_NO_ROOM, SNAP_NUMBERED_NO_MEMORY };
enum snap_numbered snap_answering_number(struct snap_answering *answering,
					 const struct snap_runtime_frame *frame, uint32_t *ret);

#endif
