/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Trace: what happened to each thread on its way from the list of threads to its stack.
 *
 * A ring of fixed events in memory that all roles share, so that their events have one order. It
 * is made before the first role, and only if the caller asks for it (stacksnap_options_set_trace()).
 * An event takes its place in the ring by an atomic counter. When the ring is full, new events
 * replace the oldest ones.
 *
 * An event is numbers and no text, so no text of a target gets into it. A sandboxed parser does not
 * have the ring: it unmaps all shared memory but its result. What a parser found is its ordinary
 * answer, and the process that checks the answer adds the event. A parser that was taken over can
 * give a false answer, which the trace then shows, as the report does. It can change no other
 * event. The reader (api/trace.c) checks what it reads all the same.
 *
 * Knows nothing of how events are shown.
 */
#ifndef SNAP_MODEL_TRACE_TRACE_H
#define SNAP_MODEL_TRACE_TRACE_H

#include <stdint.h>
#include <sys/types.h>

struct snap_thread;

/*
 * The kinds of events, with the words of a line. Three kinds of copies, in the order of enum
 * snap_taken, have numbers: bytes, their address, bytes up to the end of the mapping. UNWOUND to
 * GAP have the number of frames, the address of the last one, and enum snap_unwind_end. What comes
 * after UNWOUND is worth a look, and so is UNWOUND if the outermost frame was not reached: a copy
 * may be cut where its stack has ended already.
 */
#define SNAP_TRACE_KINDS(KIND)                                                                   \
	KIND(LISTED, "listed")                                                                   \
	KIND(STOPPED, "stopped together with all others")                                        \
	KIND(TOGETHER, "copied in that stop")                                                    \
	KIND(ALONE, "copied in a stop of its own")                                               \
	KIND(UNSTOPPED, "copied without a stop")                                                 \
	KIND(MAX_STACK, "the copy is cut (--max-stack)")                                         \
	KIND(MEMORY, "the copy is cut, as all stacks together take too much memory")             \
	KIND(UNKNOWN_END, "the copy is cut at 64 KiB, as it was not known where the stack ends") \
	KIND(PAGE, "the copy is cut at memory that could not be read")                           \
	KIND(UNWOUND, "unwound")                                                                 \
	KIND(REGISTER, "unwound up to where a register is needed that only a stop tells")        \
	KIND(LOST, "not unwound, as the parser took too long or was lost")                       \
	KIND(GAP, "unwound, and frames in the middle are left out (-n, or a report's limit)")    \
	KIND(MOVED, "the copy is thrown away, because it ran meanwhile")                         \
	KIND(UNREADABLE, "not copied: its stack cannot be read without a stop")                  \
	KIND(RAN, "stopped alone, because it ran")                                               \
	KIND(NOT_ENOUGH, "stopped alone, because a copy without a stop is not enough")           \
	KIND(MISSED, "missed: it did not stop, or its stack was not read")                       \
	KIND(LEFT_OUT, "left out, as its process stood still for too long (--max-stopped)")

#define SNAP_TRACE_NAME(name, text) SNAP_TRACE_##name,
enum snap_trace_kind { SNAP_TRACE_KINDS(SNAP_TRACE_NAME) SNAP_TRACE_KIND_COUNT };

enum { SNAP_TRACE_EVENTS = 1 << 18, SNAP_TRACE_TIDS = 64 };

struct snap_trace_event {
	uint64_t number; /* + 1; another one: it is not written yet */
	int64_t time_ns; /* CLOCK_MONOTONIC */
	unsigned long long numbers[3];
	pid_t tid;
	uint32_t kind; /* enum snap_trace_kind */
};

struct snap_trace {
	uint64_t next; /* number of the next event */
	int64_t begin_ns;
	pid_t tids
		[SNAP_TRACE_TIDS]; /* events of these threads alone; a 0 ends them. None: of all */
	struct snap_trace_event events[SNAP_TRACE_EVENTS]; /* by number */
};

/* Adds an event with three numbers, or NULL. Does nothing where there is no trace (NULL). */
void snap_trace(struct snap_trace *trace, pid_t tid, enum snap_trace_kind kind,
		const uint64_t *numbers);

/*
 * Adds a copy of a stack, and what has cut it. `end`: of its mapping; `most`: bytes that a copy may
 * have.
 */
void snap_trace_copy(struct snap_trace *trace, const struct snap_thread *copy, uint64_t end,
		     uint64_t most);

#endif
