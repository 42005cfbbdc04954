/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recording: the stack of each thread of a tree at every tick of a stretch of time, with names.
 * Renderers of profiles print it.
 *
 * A plain value in one arena; pointers inside it are borrowed. It is made from a log (model/log.h)
 * by analysis, or from a snapshot, which is a recording of one tick. It deliberately knows nothing
 * of processes that run, of files, or of how stacks were copied. Strings are raw bytes as in a
 * snapshot: renderers escape.
 *
 * What must hold: ticks grow strictly in time; runs of a track are in order and do not overlap;
 * tracks are sorted by process, then by tid; frames run innermost first.
 */
#pragma once

#include "base/error.h"
#include "model/snapshot.h"

enum { SNAP_NO_PARENT = -1 };

/* A moment at which all threads were looked at. */
struct snap_tick {
	int64_t time_ns;    /* since the recording's start (time_ns there) */
	int64_t stopped_ns; /* for how long a process stood still because of it, at the most */
};

/* Equal samples of one thread in a row: one at each tick of [first, last]. */
struct snap_run {
	uint32_t first, last; /* indices in ticks */
	uint32_t stack;       /* index in stacks */
	enum snap_state state;
	enum snap_taken taken; /* how the first of them was */
	const char *syscall;   /* name, or the number in decimal; NULL not in one, or unknown */
	const char *wchan;     /* of a task: its runtime's own reason for a wait */
	uint32_t wait;         /* index + 1 in waits; 0: it waits for nothing that is known */
	enum snap_task_state task_state; /* of a task, whose `state` is that of a like thread */
};

/*
 * The owner of an object from tick `first` to tick `last`: its bytes named it at each of them.
 */
struct snap_owner_span {
	uint32_t first, last;
	size_t track;              /* index in tracks; SIZE_MAX: none of the recording's */
	pid_t tid;                 /* as this host numbers it; 0: not known */
	enum snap_owner_lack lack; /* KNOWN: `track` or `tid` had it; else why no owner is named */
	bool is_process;           /* its process had it: which of several threads is not known */
};

/* What runs wait for: one for all of a process that wait for the same object. */
struct snap_recorded_wait {
	size_t process; /* index in processes: of the waiting threads */
	/* Kind, object, peers; not the owner, which changes: has_owner is false. */
	const struct snap_wait *wait;
	struct snap_owner_span *owners; /* in order, not overlapping; none: it keeps no owner */
	size_t owner_count;
};

/*
 * Before each of the ticks [first, last], since the one before it, a waiting thread has run. So it
 * waits anew there, even if for the same object.
 */
struct snap_wake {
	uint32_t first, last;
};

/* One thread of a process. Between two runs, before and after them, it was not sampled. */
struct snap_track {
	size_t process; /* index in processes */
	pid_t tid, ns_tid;
	const char *name; /* the last one it had */
	bool kernel;
	/*
	 * It is this task, of a runtime, in its last state; its tid is a number that no thread has,
	 * and the state of its runs that of a thread that does the same. NULL: a thread.
	 */
	const struct snap_task *task;
	const char *runtime;
	/* Of a snapshot: what it waits for, as there; NULL in a recording, or nothing is known. */
	const struct snap_wait *wait;
	struct snap_run *runs;
	size_t run_count;
	const struct snap_wake *wakes; /* in order, not touching each other */
	size_t wake_count;
};

struct snap_recorded_stack {
	size_t process;
	char id[17];             /* as snap_stack.id of grouping by stack alone */
	const char *description; /* NULL unknown */
	const struct snap_frame **frames;
	size_t frame_count;
	enum snap_unwind_end unwind;
	const char *unwind_detail;
	size_t gap_frame; /* as in struct snap_stack */
	uint64_t gap_count;
	/* Of what its threads did there: a request, a task; sorted by key. */
	struct snap_label *labels;
	size_t label_count;
};

/* A program that a process ran: an exec makes another one, with the same pid and start. */
struct snap_recorded_process {
	struct snap_node *node; /* its facts and children; without stacks */
	size_t parent;          /* index in processes, SIZE_MAX: a root */
	uint32_t first, last;   /* ticks at which it was there */
	bool ended;             /* it was gone before the recording ended */
	bool execed;            /* it went on as another program */
};

/* Figures of the whole run, also for a slice of it. */
struct snap_recording_stats {
	double hz_asked, hz_reached;
	uint64_t ticks, ticks_missed;
	/* Of those missed: no processor was free when they were due; left out, as memory was short.
	 * For the rest, the tick before took longer than a period. */
	uint64_t ticks_late, ticks_left_out;
	int64_t duration_ns;
	/* since the first tick began, which the duration does not count; 0: as the duration */
	int64_t elapsed_ns;
	/* of the process that stood still the longest because of us; where it is not known, the
	 * sum of the ticks' */
	int64_t stopped_ns;
	uint64_t threads; /* that were seen */
	uint64_t thread_samples;
	uint64_t stacks; /* distinct */
	/* of the samples: kept because the thread had not run, copied without a stop, stopped */
	uint64_t kept, unstopped, alone;
	uint64_t left_out; /* further ones, as their process would have been stopped for too long */
	/* At the tasks of a process that wait; and those that were left out for that reason. */
	uint64_t task_looks, task_looks_left_out;
};

/*
 * The part of the duration for which some thread of a process was stopped. The stops of the first
 * tick count, its time does not.
 */
static inline double snap_recording_stopped_percent(const struct snap_recording_stats *stats)
{
	if (stats->duration_ns <= 0)
		return 0;
	if (stats->stopped_ns > stats->duration_ns)
		return 100.0;
	return 100.0 * (double)stats->stopped_ns / (double)stats->duration_ns;
}

/* Why a recording ended. */
enum snap_recording_end {
	SNAP_END_TIME,       /* its duration was over */
	SNAP_END_ASKED,      /* a signal, or the caller */
	SNAP_END_CONDITION,  /* --until */
	SNAP_END_TARGETS,    /* no target was left */
	SNAP_END_PERMISSION, /* the targets may not be read any more */
	SNAP_END_UNFINISHED, /* it goes on, or was killed: the file has no end */
	SNAP_END_FAILED,     /* something else; see the warnings */
	SNAP_END_COUNT,
};

struct snap_recording {
	struct snap_arena arena;
	struct snap_host host;
	int64_t time_ns;     /* CLOCK_REALTIME of the whole run's first tick: 0 of the ticks */
	int64_t period_ns;   /* between ticks, as asked; 0: a snapshot */
	int64_t duration_ns; /* of these ticks: the sum of their lengths */
	bool cpu_only;       /* --mode cpu: threads that do not run have no samples */
	bool is_slice;       /* --from, --to or a ring: not the whole run */
	enum snap_recording_end end;
	struct snap_recording_stats stats;
	struct snap_tick *ticks;
	size_t tick_count;
	struct snap_recorded_process *processes; /* a parent before its children */
	size_t process_count;
	struct snap_track *tracks;
	size_t track_count;
	struct snap_recorded_stack *stacks;
	size_t stack_count;
	struct snap_recorded_wait *waits; /* by process, then by kind and object */
	size_t wait_count;
	bool explains;    /* waits were looked for: none means that there are none */
	size_t wakes_end; /* from this tick on the wakes of tracks are not known */
	struct snap_missing missing;
	struct snap_warning *warnings;
	size_t warning_count, warning_capacity;
};

struct snap_recording *snap_recording_new(void);
void snap_recording_destroy(struct snap_recording *recording);

SNAP_POINTER_GUARD(struct snap_recording, snap_recording_destroy);

/*
 * Until when a sample of a tick counts: the next tick, or if that one is more than two periods away
 * (ticks were missed), a period later. Since the recording's start.
 */
int64_t snap_recording_tick_end(const struct snap_recording *recording, size_t tick);

/* Samples of a run. */
static inline uint64_t snap_run_samples(const struct snap_run *run)
{
	return (uint64_t)run->last - run->first + 1;
}

/*
 * The time of one sample in nanoseconds: the period; 0 in a snapshot, whose samples are counted.
 */
static inline int64_t snap_recording_weight(const struct snap_recording *recording)
{
	return recording->period_ns;
}

/*
 * A snapshot as a recording of one tick, in which each thread has one sample. The result borrows
 * frames and texts of the snapshot, which must outlive it.
 */
struct stacksnap_error *snap_recording_of_snapshot(const struct snap_snapshot *snapshot,
						   struct snap_recording **ret) _must_check_;

/*
 * For such a recording: the waits of its tracks, with one owner span each. False without memory.
 */
bool snap_recording_set_waits(struct snap_recording *recording);

/* The tid of a task that is number `number` of a recording's. */
enum { SNAP_TASK_FIRST_TID = 1 << 30 }; /* kernels count to a hundredth of this number */

/* The state of a thread that does what a task in that state does. */
enum snap_state snap_recording_state_of_task(enum snap_task_state state);

const char *snap_taken_word(enum snap_taken taken); /* "stopped", "late" … */
const char *snap_recording_end_word(enum snap_recording_end end);
