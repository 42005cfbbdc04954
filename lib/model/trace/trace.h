/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Trace: what happened to each thread on its way from the list of threads to its stack, and to tasks.
 *
 * A ring of fixed events in memory that all roles share, so that their events have one order: a
 * counter gives each its place, and a full ring loses its oldest ones. It is made before the first
 * role, if the caller asks for it (stacksnap_options_set_trace()).
 *
 * An event has no text of a target. A sandboxed parser has no ring: the process that checks its answer
 * adds the event, and api/trace.c checks what it reads. Knows nothing of how events are shown.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct snap_thread;

/*
 * The kinds of events, with the words of a line. Copies, in the order of enum snap_taken, have numbers:
 * bytes, their address, bytes up to the end of the mapping. UNWOUND to REPORT: frames, the address of the
 * last one, enum snap_unwind_end. TASK, of the tid -PID: its id, frames, end. These two are worth a look
 * if the outermost frame was not reached, and so is what follows: a copy may end where its stack does.
 */
#define SNAP_TRACE_KINDS(KIND)                                                                   \
	KIND(LISTED, "listed")                                                                   \
	KIND(STOPPED, "stopped together with all others")                                        \
	KIND(TOGETHER, "copied in that stop")                                                    \
	KIND(ALONE, "copied in a stop of its own")                                               \
	KIND(UNSTOPPED, "copied without a stop")                                                 \
	KIND(CONFIRMED, "copied without a stop, at rest until all others stood still")           \
	KIND(MAX_STACK, "the copy is cut (--max-stack)")                                         \
	KIND(MEMORY, "the copy is cut, as all stacks together take too much memory")             \
	KIND(UNKNOWN_END, "the copy is cut at 64 KiB, as it was not known where the stack ends") \
	KIND(PAGE, "the copy is cut at memory that could not be read")                           \
	KIND(TASK, "task")                                                                       \
	KIND(UNWOUND, "unwound")                                                                 \
	KIND(REGISTER, "unwound up to where a register is needed that only a stop tells")        \
	KIND(LOST, "not unwound, as the parser took too long or was lost")                       \
	KIND(GAP, "unwound, and frames in the middle are left out (-n)")                         \
	KIND(REPORT, "unwound, and the report has no room for the frames in the middle")         \
	KIND(RECORDED, "the recording has not all of it (--max-memory)")                         \
	KIND(MOVED, "the copy is thrown away, because it ran meanwhile")                         \
	KIND(UNREADABLE, "not copied: its stack cannot be read without a stop")                  \
	KIND(RAN, "needs a stop of its own, because it ran")                                     \
	KIND(NOT_ENOUGH, "needs a stop of its own, as a copy without a stop is not enough")      \
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
	pid_t tids[SNAP_TRACE_TIDS]; /* of events, a 0 ends them; none: events of all threads */
	struct snap_trace_event events[SNAP_TRACE_EVENTS]; /* by number */
};

/* Adds an event with three numbers, or NULL. Does nothing where there is no trace (NULL). */
void snap_trace(struct snap_trace *trace, pid_t tid, enum snap_trace_kind kind,
		const uint64_t *numbers);

void snap_trace_task(struct snap_trace *trace, pid_t pid, const char *id, size_t count, int end);

/* Adds a copy of a stack, and what cut it. `end`: of its mapping; `most`: bytes of a copy. */
void snap_trace_copy(struct snap_trace *trace, const struct snap_thread *copy, uint64_t end,
		     uint64_t most);
