/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the unwinder: unwind.c (threads, the hot path), step.c (all that is not a
 * simple row), no_cfi.c (code without rows) and sink.c (where pcs go). No other file includes it.
 */
#pragma once

#include "analyze/unwind/engine.h"
#include "analyze/unwind/rows.h"
#include "analyze/unwind/unwind.h"

/*
 * Collects the pcs of one thread within max_frames: the first of them, and the last ones in a ring
 * behind, so that a million frames need no more memory than are shown.
 */
struct snap_sink {
	struct snap_pc *pcs;
	size_t capacity;
	size_t head, tail; /* how many are kept; head SIZE_MAX: all */
	uint64_t total;    /* how many came */
	uint64_t ceiling;  /* more cannot be */
	bool no_memory;
	bool is_cut; /* no memory, or the tail is of no use: what came later is not kept */
};

void snap_sink_begin(struct snap_sink *sink, size_t max_frames, bool is_whole, uint64_t ceiling);
/* False: no more is wanted; then the stack ends as `limit`. */
bool snap_sink_add(struct snap_sink *sink, struct snap_pc pc);
/* The pc that was added last turned out to be no return address. */
void snap_sink_mark_exact(struct snap_sink *sink);
/* Puts head and tail in a row and fills pcs, count and the gap. */
void snap_sink_end(struct snap_sink *sink, struct snap_pcs *ret);

/*
 * An address and what to do there; 0: free. Half a cache line. A hash table of its own: with
 * base/table, where a slot and its element are two loads, a frame costs 12 ns in place of 9.
 */
struct snap_cached_row {
	uint64_t lookup;
	struct snap_row row;
};

struct snap_unwinder {
	struct snap_module_set *set;
	const struct snap_options *options;
	const struct snap_process *process;
	struct snap_modules *modules;
	const struct snap_arch_ops *arch;
	struct snap_cached_row *cache;
	size_t cache_size, cache_used;        /* a power of two */
	struct snap_libunwind *own_libunwind; /* for processes of this machine's processor … */
	struct snap_libunwind *libunwind;     /* … of which the current one is; else NULL */
	struct snap_sink sink;
	uint64_t *sps; /* of the frames in the sink, if they are wanted */
	size_t sp_count, sp_capacity;
	bool wants_sps;
	/* The current frame. */
	const struct snap_thread *thread;
	struct snap_frame_state state; /* its registers */
	struct snap_pc pc;
	uint64_t address_mask; /* of its process: what of a return address is one */
	/* The least trust of a frame of this thread that was guessed … */
	enum snap_trust guessed;
	bool is_confirmed; /* … and whether the frames further out lead to where the thread began */
	/* How the stack ended. */
	enum snap_unwind_end end;
	uint64_t end_pc;
	const char *reason;
	bool needs_register, stale_mappings; /* as in struct snap_pcs */
	uint64_t missing;  /* the last address that was wanted and is not in the copy */
	unsigned descents; /* how often it went on in a stack that lies lower */
};

/* The row for a looked-up address, from the cache or computed. */
const struct snap_row *snap_unwinder_row(struct snap_unwinder *unwinder, uint64_t lookup);

/* A word of the thread's copied stacks; the second one also of read-only files. */
bool snap_unwinder_read_stack(const struct snap_unwinder *unwinder, uint64_t address,
			      uint64_t *ret);
bool snap_unwinder_read(void *unwinder, uint64_t address, uint64_t *ret);

/* A return address as it lies in memory or a register, as an address. */
static inline struct snap_pc snap_unwinder_return_to(const struct snap_unwinder *unwinder,
						     uint64_t word)
{
	return snap_pc_return(word & unwinder->address_mask);
}

/* Whether an address lies in memory that can be executed. */
bool snap_unwinder_is_executable(const struct snap_unwinder *unwinder, uint64_t address);
/* No memory as far as is known, though it could be: reserved, or mapped since. */
void snap_unwinder_note_stale(struct snap_unwinder *unwinder, uint64_t address);

/*
 * From the current frame to its caller, by any row. False: the stack ends, and how is written down.
 */
bool snap_unwinder_step(struct snap_unwinder *unwinder, const struct snap_row *row);
/* The same, by a row of kind SNAP_ROW_NONE: by a guess, which the pc of the caller tells. */
bool snap_unwinder_step_without_cfi(struct snap_unwinder *unwinder, const struct snap_row *row);
/*
 * Whether a stack may go on there. A lower CFA is one of another stack: below all that was copied of the
 * current one, or `computed`, as only code that switches stacks has it.
 */
bool snap_unwinder_may_go_on(struct snap_unwinder *unwinder, uint64_t sp, uint64_t cfa,
			     bool computed);
/* What is known of the function at an address, whatever CFI it has. */
struct snap_row snap_unwinder_code(struct snap_unwinder *unwinder, uint64_t lookup);
/*
 * Of a thread that was not stopped, by a simple row whose CFA is by the frame pointer: what that must
 * be. False: it is not known.
 */
bool snap_unwinder_find_frame_pointer(struct snap_unwinder *unwinder, const struct snap_row *row);
/*
 * The end of a step: moves to the caller, whose registers are in place but for pc and sp. False: it
 * has no address, and the stack ends as complete; or a guess has led to what is no code.
 */
bool snap_unwinder_move(struct snap_unwinder *unwinder, struct snap_pc pc, uint64_t sp);

/* The pc of the next frame: in doubt, if one before it was guessed. */
struct snap_pc snap_unwinder_doubt(struct snap_unwinder *unwinder, struct snap_pc pc);

/* What an address without CFI is: NONE, REFUSED (libunwind finds some), RETURN or WILD. */
enum snap_row_kind snap_unwinder_classify(struct snap_unwinder *unwinder, uint64_t lookup);

/* With a link register: whether the pc stands where a signal handler returns, whatever CFI says. */
bool snap_unwinder_leaves_signal(struct snap_unwinder *unwinder);

#define SNAP_NEEDS_REGISTER "it needs a register that is readable only in a stopped thread"

/* Whether a register's value is known; all are but those of partial threads. */
static inline bool snap_unwinder_knows(const struct snap_unwinder *unwinder, unsigned number)
{
	return unwinder->state.known >> number & 1;
}

/* Of a partial thread: a register now has a value that was found, or lost the one it had. */
static inline void snap_unwinder_set_known(struct snap_unwinder *unwinder, unsigned number,
					   bool is_known)
{
	uint64_t bit = 1ull << number;

	if (unwinder->thread->partial)
		unwinder->state.known = (unwinder->state.known & ~bit) | (is_known ? bit : 0);
}

/* Writes down how the stack ended; always false. */
bool snap_unwinder_end(struct snap_unwinder *unwinder, enum snap_unwind_end end,
		       const char *reason);
/* The same where the thread began, as CFI says of the current frame: the stack is complete. */
bool snap_unwinder_end_at_start(struct snap_unwinder *unwinder);
/* The same, because memory at an address is not there: it was not copied, or is none. */
bool snap_unwinder_end_missing(struct snap_unwinder *unwinder, uint64_t address);
/* The same of a partial thread, because a register is not known. */
bool snap_unwinder_end_unknown(struct snap_unwinder *unwinder);
/* The same, because CFI is there and says nothing that can be used. */
bool snap_unwinder_end_unusable(struct snap_unwinder *unwinder);
