/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwind: registers and copied stack bytes -> return addresses.
 *
 * The hot path uses rows of libdw's CFI by pc (rows.c). libunwind works on the copy where a row
 * does not suffice, and frame pointers are followed where there is no CFI. Reads the thread's bytes
 * and the modules; knows nothing of names. Several unwinders may use one set of modules, one after
 * the other: what they keep of its files belongs to the set.
 */
#pragma once

#include "analyze/elf/module.h"
#include "model/options.h"
#include "model/pc.h"
#include "model/snapshot.h"

/* The stack of one thread; pcs are in the unwinder's buffer, valid until its next call. */
struct snap_pcs {
	const struct snap_pc *pcs; /* innermost first */
	size_t count;
	enum snap_unwind_end end;
	uint64_t end_pc;    /* where it ended early, for the detail; 0: none */
	uint64_t missing;   /* if it ended for want of memory: where that is; 0: unknown */
	const char *reason; /* static text: "no unwind information"; NULL when complete */
	/* Of snap_unwind_whole(): the stack pointer of each frame; else NULL. */
	const uint64_t *sps;
	size_t gap_after;   /* index of the pc after which … */
	uint64_t gap_count; /* … so many were left out by max_frames; 0: no gap */
	/* Of a partial thread: it ended where a register is needed that only a stop can tell. */
	bool needs_register;
	bool is_lost; /* of a process in which the thread was to be unwound, and which gave no answer */
	/* A pc lay where no memory was known: the mappings may be older than the stack. */
	bool stale_mappings;
	bool no_memory; /* it ended early, or elsewhere, for want of memory */
};

struct snap_unwinder;

struct stacksnap_error *snap_unwinder_create(struct snap_module_set *set,
					     const struct snap_options *options,
					     struct snap_unwinder **ret) _must_check_;
void snap_unwinder_destroy(struct snap_unwinder *unwinder);

/* Begins with the threads of another process; its per-pc cache is dropped, the files' rows stay. */
struct stacksnap_error *snap_unwinder_enter(struct snap_unwinder *unwinder,
					    const struct snap_process *process,
					    struct snap_modules *modules) _must_check_;

/* Unwinds one thread of the process entered. Never fails: how it ended is in the result. */
void snap_unwind(struct snap_unwinder *unwinder, const struct snap_thread *thread,
		 struct snap_pcs *ret);
/*
 * The same within SNAP_USUAL_FRAMES where options ask for less, since filters look at frames that are not
 * shown. snap_raw_stack_limit() cuts the stack then.
 */
void snap_unwind_for_filters(struct snap_unwinder *unwinder, const struct snap_thread *thread,
			     struct snap_pcs *ret);
/* The innermost frames alone, at most `most`. */
void snap_unwind_inner(struct snap_unwinder *unwinder, const struct snap_thread *thread,
		       size_t most, struct snap_pcs *ret);

/*
 * The same for callers that need to know where in the stack each frame lies: all frames, whatever
 * max_frames says, with their stack pointers, which the reference engine does not tell.
 */
void snap_unwind_whole(struct snap_unwinder *unwinder, const struct snap_thread *thread,
		       struct snap_pcs *ret);
