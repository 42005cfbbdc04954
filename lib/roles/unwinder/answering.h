/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Answering: what the parser's answers about a thread (managed.c) and about the tasks of a process
 * (tasks.c) share: the state that a process keeps from answer to answer, and the room of an answer.
 * No other file includes it.
 */
#pragma once

#include "analyze/runtime/runtime.h"
#include "base/table.h"
#include "roles/unwinder/managed.h"

enum { SNAP_ANSWERING_RESULTS = 8 };

/* The state of a process, until it is left. */
struct snap_managed {
	struct snap_arena arena; /* of this state */
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
	struct snap_arena arena; /* of the results of the runtimes */
	struct snap_runtime_result *results[SNAP_ANSWERING_RESULTS];
	size_t result_count;
	/* The merged stack: a pc, or a managed frame. */
	uint64_t *bits;
	const struct snap_runtime_frame **frames;
	size_t count;
};

void snap_answering_deinit(struct snap_answering *answering);

/* Makes the state of a process, or begins it anew if it is too large; false without memory. */
bool snap_answering_begin(struct snap_managed **managed, struct snap_exchange *exchange);

/*
 * Has the runtimes read a process, whose threads and memory are there, into the results.
 * `is_of_thread`: the memory is that of its one thread. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_answering_read(struct snap_answering *answering,
					    struct snap_process *process,
					    bool is_of_thread) _must_check_;

/* Puts a text, and returns its place + 1; false: there is no room. */
bool snap_answering_put_text(struct snap_answering *answering, const char *text, uint32_t *ret);

/* The number of a managed frame; a new frame is put into the answer. */
enum snap_numbered { SNAP_NUMBERED, SNAP_NUMBERED_NO_ROOM, SNAP_NUMBERED_NO_MEMORY };
enum snap_numbered snap_answering_number(struct snap_answering *answering,
					 const struct snap_runtime_frame *frame, uint32_t *ret);
