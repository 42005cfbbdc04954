/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of the analysis of a log, and its steps (names and waits, which come before, are found
 * by names.c and waits.c):
 *
 *     slice (ticks of --from, --to), order of the steps     log.c
 *     stacks (of the log -> named ones, once a process)     stacks.c
 *     runs (changes -> equal samples in a row, filtered)    runs.c
 *     tasks (what each of them is)                          tasks.c
 *     waits (what runs wait for, once a process)            recorded_waits.c
 *     wakes (when threads ran that wait)                    wakes.c
 *     holds (its owner, from tick to tick)               owner_spans.c, owners.c, peers.c
 *     processes (nodes, those left out), tracks, order     tree.c
 *
 * Results lie in the arena of analysis.snapshot, which becomes the recording's.
 */
#pragma once

#include "analyze/analysis.h"
#include "analyze/filter.h"
#include "analyze/log/log.h"
#include "base/table.h"

enum { SNAP_LOG_CALLS = 1024 };

/* Names of the common numbers; a restarted one depends on the stack. */
struct snap_log_call_name {
	const char *name;
	enum snap_arch arch;
};

/*
 * What is known of a stack of the log once its frames have names. The frames themselves are found
 * again where they are needed: hundreds of each stack would be most of a recording's memory.
 */
struct snap_log_named_stack {
	bool named;
	struct snap_filter_stack filter;
	enum snap_unwind_end end;
	unsigned doubt;
	uint32_t recorded; /* index + 1 in of->shown; 0: not shown yet */
	uint64_t key;
};

/* A stack of the recording: what is the same place in a process, once. */
struct snap_log_shown {
	uint64_t key;
	uint32_t process;  /* of the log */
	uint32_t original; /* the first such stack of the log */
	uint32_t source;   /* the one that is shown */
	/* Of tasks that differ by their labels: one of them; NULL: it has the stack's. */
	const struct snap_task *task;
};

/* What runs of a process wait for, once. */
struct snap_log_wait {
	uint32_t process;       /* of the log */
	struct snap_wait *wait; /* the recording's */
};

static const uint64_t SNAP_LOG_NO_DEATH = UINT64_MAX;

/* The processes of which a thread may own an object. */
struct snap_log_owners {
	uint32_t process;  /* of the log */
	uint32_t *sharers; /* processes that share it, if it is not private */
	size_t sharer_count;
};

/* The owner of an object. */
struct snap_log_owner {
	enum snap_owner_lack lack;
	uint32_t thread; /* of the log; UINT32_MAX: none */
	pid_t tid;       /* as this host numbers it; 0: not known */
	uint64_t death;  /* moment of the thread's end, or SNAP_LOG_NO_DEATH */
	bool is_process; /* the process of `thread` has it */
	bool is_any;     /* and which of its threads is not known */
};

/* A process of the log, for as long as it ran one program. */
struct snap_log_program {
	pid_t pid;
	uint32_t process, parent;
	uint64_t birth, death; /* moments, as of threads */
};

/* A thread of the log in the recording. */
struct snap_log_line {
	struct snap_run *runs;          /* as many as it may have */
	struct snap_wake *wakes;        /* likewise */
	size_t run_count, change_count; /* changes in the slice */
	size_t wake_count;
	bool sampled, readable; /* before filters: at all, and with a stack */
	bool stays;             /* it was sampled up to the end of the slice */
};

struct snap_log_analysis {
	const struct snap_log *log;
	const struct snap_options *options;
	struct snap_analysis analysis; /* for its arena, texts and nodes */
	struct snap_recording *recording;
	size_t first, end;                  /* ticks of the slice, as indices in log->ticks */
	struct snap_frame_record **records; /* of each frame, made when it is needed */
	struct snap_modules **modules;      /* of each space, made when they are needed */
	struct snap_log_named_stack *named_stacks; /* of each stack */
	struct snap_log_line *lines;               /* of each thread */
	struct snap_task **tasks;                  /* of each task, made when it is needed */
	struct snap_log_shown *shown; /* stacks of the recording, in the order of first sight */
	size_t shown_count, shown_capacity;
	const struct snap_frame **frames; /* of the current stack */
	size_t frame_capacity;
	struct snap_hash_table shown_table; /* of them, by process and key */
	struct snap_log_wait *waits;        /* of the recording, in the order of first sight */
	size_t wait_count, wait_capacity;
	struct snap_hash_table wait_table;      /* of them, by process and hash */
	struct snap_hash_table explained_table; /* of log->explained, by stack and object */
	uint32_t *of_explained;                 /* of each of those: its wait + 1 */
	struct snap_log_life *lives;            /* of threads, by process and number */
	struct snap_log_sharer *sharers;        /* shared mappings, by file */
	struct snap_log_program *programs;      /* by pid, then birth; as many as processes */
	uint32_t *children;                     /* of those: by parent, then birth */
	size_t child_steps;                     /* that may still be taken */
	size_t life_count, sharer_count;
	struct snap_log_call_name calls[SNAP_LOG_CALLS]; /* names of system calls by number */
};

/*
 * A stack with its frames, which are there until the next one is asked for. False without memory.
 */
bool snap_log_raw_stack(struct snap_log_analysis *of, uint32_t stack, struct snap_raw_stack *ret);
/* What is known of it, its key and what filters say of it. NULL without memory. */
struct snap_log_named_stack *snap_log_name_stack(struct snap_log_analysis *of, uint32_t stack);
/* Its number in the recording, which it gets when it is first shown. False without memory. */
bool snap_log_show_stack(struct snap_log_analysis *of, uint32_t stack, uint32_t *ret);
/* The same of a task: apart where labels that the options group by differ. */
bool snap_log_show_task(struct snap_log_analysis *of, uint32_t stack, const struct snap_task *task,
			uint32_t *ret);

/*
 * Stacks that are shown as recorded ones, without their processes; cut to as many frames as there
 * is memory for, with a warning. False without memory.
 */
bool snap_log_fill_stacks(struct snap_log_analysis *of, const struct snap_log_shown *const *shown,
			  size_t count, struct snap_recorded_stack *ret);

/* What a thread of the log is that is a task, without its state. NULL without memory. */
struct snap_task *snap_log_task(struct snap_log_analysis *of, uint32_t thread);
/* The same as it stands: `ret` is a copy. False without memory. */
bool snap_log_standing_task(struct snap_log_analysis *of, const struct snap_log_change *change,
			    struct snap_task *ret);

/* Prepares for the next one; whether the recording explains waits. False without memory. */
bool snap_log_index_waits(struct snap_log_analysis *of);
/* What a thread waits for as it stands, + 1; 0: nothing that is known. False without memory. */
bool snap_log_show_wait(struct snap_log_analysis *of, const struct snap_log_change *change,
			uint32_t *ret);
/*
 * The waits of the recording, with holds, when it has its tracks; `shown`: of each process of the
 * log its number there, or UINT32_MAX. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_log_make_waits(struct snap_log_analysis *of,
					    const uint32_t *shown) _must_check_;
/* Prepares for the next two. False without memory. */
bool snap_log_index_owners(struct snap_log_analysis *of);
/* The threads that may have a futex. False without memory. */
bool snap_log_owners_of(struct snap_log_analysis *of, const struct snap_log_object *object,
			struct snap_log_owners *ret);
/* The thread that a number meant to them at a moment: a tick of the log, + 1. */
struct snap_log_owner snap_log_find_owner(const struct snap_log_analysis *of,
					  const struct snap_log_owners *owners, pid_t tid,
					  uint64_t moment);
/* The only thread of a process at a moment, or its first one; in *ret, if there is one. */
void snap_log_find_thread(const struct snap_log_analysis *of, uint32_t process, uint64_t moment,
			  struct snap_log_owner *ret);
/* Prepares for the next two. False without memory. */
bool snap_log_index_programs(struct snap_log_analysis *of);
/* The process at the other end of what threads of a process wait with, by the words of a hold. */
struct snap_log_owner snap_log_find_peer(const struct snap_log_analysis *of,
					 const struct snap_log_wait_bytes *words, uint32_t process,
					 uint64_t moment);
/* The child that a process waits for, by its number; 0: any. */
struct snap_log_owner snap_log_find_child(struct snap_log_analysis *of, uint32_t process,
					  pid_t child, uint64_t moment);
/* The holds of them. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_log_make_owner_spans(struct snap_log_analysis *of) _must_check_;

/* Fills the lines from the changes of the slice. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_log_make_runs(struct snap_log_analysis *of) _must_check_;

/* The same for when threads ran that wait. False without memory. */
bool snap_log_make_wakes(struct snap_log_analysis *of);

/* Fills processes, tracks, stacks and waits of the recording. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_log_make_tree(struct snap_log_analysis *of) _must_check_;
