/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshot: the tree of processes with their grouped, named stacks. Renderers print it.
 *
 * A plain value in one arena (and the mapping that it was read from); pointers inside it are
 * borrowed. It deliberately knows nothing of processes that run, of registers or of files. Strings
 * are raw bytes (valid to escape, capped at SNAP_MAX_NAME), never "" where the JSON would leave the
 * key out: NULL then. Renderers escape.
 *
 * What must hold: stacks of a process are sorted, the crashed one first, by count down, then by id;
 * threads of a stack by tid, tasks by id; frames and entries run innermost first.
 */
#pragma once

#include "base/arena.h"
#include "model/capture.h"
#include "model/pc.h"
#include "model/task.h"
#include "model/wait/wait.h"

enum { SNAP_MAX_NAME = 4096 };

enum snap_process_type {
	SNAP_TYPE_NORMAL,
	SNAP_TYPE_SYSTEM,
	SNAP_TYPE_KERNEL,
	SNAP_TYPE_DEAD, /* "(dead process)" */
	SNAP_TYPE_NONE, /* "(unassociated)" */
};

enum snap_state {
	SNAP_STATE_UNKNOWN,
	SNAP_STATE_RUNNING,
	SNAP_STATE_SLEEPING,
	SNAP_STATE_DISK,
	SNAP_STATE_STOPPED,
	SNAP_STATE_TRACED,
	SNAP_STATE_ZOMBIE,
	SNAP_STATE_DEAD,
	SNAP_STATE_IDLE,
	SNAP_STATE_PARKED,
	SNAP_STATE_FROZEN, /* by a control group; no letter means it */
	SNAP_STATE_COUNT,
};

/* How a stack ended. */
enum snap_unwind_end {
	SNAP_UNWIND_COMPLETE,    /* the outermost frame was reached */
	SNAP_UNWIND_LIMIT,       /* -n, --max-stack or a ceiling */
	SNAP_UNWIND_NO_CFI,      /* no unwind information, and no caller found without */
	SNAP_UNWIND_UNREADABLE,  /* stack memory that was not there */
	SNAP_UNWIND_CYCLE,       /* the CFA did not grow */
	SNAP_UNWIND_NOT_STOPPED, /* the thread could not be stopped */
	SNAP_UNWIND_FAILED,
	SNAP_UNWIND_SCANNED, /* the outermost frame was reached, some by scanning the stack */
	SNAP_UNWIND_GUESSED, /* … or by frame pointers alone */
	SNAP_UNWIND_COUNT,
};

/* Whether the outermost frame was reached. */
static inline bool snap_unwind_is_whole(enum snap_unwind_end end)
{
	return end == SNAP_UNWIND_COMPLETE || end == SNAP_UNWIND_SCANNED ||
	       end == SNAP_UNWIND_GUESSED;
}

/* How a stack ends that is whole, and of which some frames were guessed. */
static inline enum snap_unwind_end snap_unwind_whole_by(enum snap_trust guessed)
{
	return guessed == SNAP_TRUST_CFI             ? SNAP_UNWIND_COMPLETE
	       : guessed == SNAP_TRUST_FRAME_POINTER ? SNAP_UNWIND_GUESSED
						     : SNAP_UNWIND_SCANNED;
}

/* A function in a frame. */
struct snap_entry {
	const char *function;  /* for display: demangled unless raw names; NULL unknown */
	const char *symbol;    /* linkage name; NULL unknown */
	const char *file;      /* in full; NULL unknown */
	uint32_t line, column; /* 0 unknown */
	bool inlined;          /* it has no frame of its own: inlined into the next entry, or … */
	bool tail_call; /* … it was called by the next entry, and ended in the call of another function */
	bool system; /* C library, loader, language start-up */
	bool kernel;
	const char *language; /* "go", "python", "php": of a managed frame; NULL: native */
};

/*
 * A machine frame: a return address and the functions there, the innermost inlined one first, the
 * real one last. One object a distinct pc of a process; stacks point to it.
 */
struct snap_frame {
	uint64_t address;     /* pc as unwound: a return address but for innermost frames */
	uint64_t offset;      /* what addr2line -e module takes: of the looked-up address */
	const char *module;   /* path in maps, "[vdso]", NULL: no module */
	const char *build_id; /* lower-case hex, NULL unknown */
	bool has_offset;
	struct snap_entry *entries; /* at least one */
	size_t entry_count;
	uint64_t file_offset;  /* where the looked-up address lies in the file; 0 unknown */
	enum snap_trust trust; /* how `address` was found */
};

/* The same frame; its entries and texts are in the interner and its arena. False without memory. */
bool snap_frame_copy(struct snap_interner *strings, const struct snap_frame *from,
		     struct snap_frame *ret) _must_check_;

struct snap_member {
	pid_t tid, ns_tid;
	const char *name;
	enum snap_state state;
	bool kernel;         /* type: a kernel-made worker, else user */
	const char *syscall; /* name, or the number in decimal; NULL not in one */
	const char *wchan;
	int cpu; /* -1 unknown */
	enum snap_taken taken;
	const struct snap_wait *wait; /* NULL: it waits for nothing that can be named */
	uint64_t runs; /* times that it had a processor before it was looked at; 0 unknown */
	bool stuck; /* it was in this stack for all of the snapshot's again_ns, and did not run */
	bool idle;  /* it waits for work, by its whole stack: see analyze/filter.h */
};

/* What people are shown first; of a recording all stacks have the first one. */
enum snap_urgency {
	SNAP_URGENT_RUNNING,
	SNAP_URGENT_DISK,
	SNAP_URGENT_HOLDER, /* another thread waits for a lock that one of its threads has */
	SNAP_URGENT_LOCK,   /* it waits for such a lock */
	SNAP_URGENT_REST,
	SNAP_URGENCIES,
};

struct snap_stack {
	char id[17]; /* 16 lower-case hex digits: hash of the grouping key */
	size_t count;
	const char *description;
	struct snap_label *labels; /* in the order of the table in analyze/label.c */
	size_t label_count;
	enum snap_unwind_end unwind;
	const char *unwind_detail;    /* module+offset and reason; NULL none */
	size_t gap_frame;             /* machine frames left out after frames[gap_frame] … */
	uint64_t gap_count;           /* … this many; 0: no gap */
	const struct snap_wait *wait; /* of all its threads, if they agree; NULL: they do not */
	struct snap_member *threads;
	size_t thread_count; /* equals count, or it is a stack of tasks */
	struct snap_task *tasks;
	size_t task_count;   /* equals count, or it is a stack of threads */
	const char *runtime; /* of the tasks, "go"; NULL: of threads */
	/* if those of all processes are together: the pid of each thread or task; NULL: of one */
	pid_t *pids;
	const struct snap_frame **frames; /* kernel frames, then user frames */
	size_t frame_count;
	bool crashed; /* of one of its threads, or tasks, is the signal of the process */
	enum snap_urgency urgency;
	/* of a recording that is shown as a whole; 0 and NULL in a snapshot */
	uint64_t samples;
	const uint64_t *thread_samples; /* one a thread */
	const uint64_t *state_samples;  /* one a state; of tasks one an enum snap_task_state */
};

/* The weakest trust of its frames; 0: all were found by call frame information. */
unsigned snap_frames_doubt(const struct snap_frame **frames, size_t count);

/* Whether one of its threads has this tid, or one of its tasks runs on it; 0: no. */
bool snap_stack_has_thread(const struct snap_stack *stack, pid_t tid);

/*
 * The order of stacks: the crashed one first, then by samples down, then by count down; then by id.
 * The second for qsort(3).
 */
int snap_stack_compare_urgency(const struct snap_stack *a, const struct snap_stack *b);
int snap_stack_compare_weight(const struct snap_stack *a, const struct snap_stack *b);
int snap_stack_compare(const void *left, const void *right);

/* A label of a group; NULL: it has none that is called so. */
const char *snap_stack_label(const struct snap_stack *stack, const char *key);

struct snap_node {
	pid_t pid, ppid, ns_pid;
	const char *name, *description;
	enum snap_process_type type;
	enum snap_state state;
	const char *exe;
	const char **args;
	size_t arg_count;
	uid_t uid; /* (uid_t)-1 unknown */
	const char *user;
	int64_t start_time_ns; /* 0 unknown */
	uint64_t start_ticks;  /* 0 unknown */
	const char *cgroup, *unit, *container;
	struct snap_ancestor *ancestors;
	size_t ancestor_count;
	size_t thread_count; /* before filters */
	size_t threads_missed;
	int64_t stop_duration_ns;
	struct snap_label *labels;
	size_t label_count;
	struct snap_stack *stacks;
	size_t stack_count;
	struct snap_node **children; /* sorted by pid */
	size_t child_count;
	/* of a process with a runtime that was read */
	struct snap_node_runtime *runtimes;
	size_t runtime_count;
	size_t task_count; /* before filters, without the runtime's own that are not asked for */
	/* Where tasks have labels for it, these have all stacks of tasks, and `stacks` none. */
	struct snap_logical *logical;
	size_t logical_count;
	struct snap_usage usage, usage_before; /* the second one: the snapshot's again_ns ago */
	struct snap_signal signal;             /* of a core; number 0: none */
	enum snap_trouble trouble;
	const char *trouble_message;
	/* of a recording that is shown as a whole: when it was seen, since the recording's start */
	bool recorded;
	bool late, ended, execed; /* it came, it ended meanwhile, it went on as another program */
	int64_t first_ns, last_ns;
	/* in a view where it represents several: their pids, sorted; NULL: it is one */
	pid_t *folded;
	size_t folded_count;
};

/* All stacks of a process, its own first; all zero: before the first one. */
struct snap_stack_cursor {
	size_t logical, stack;
};

/* NULL at the end. */
struct snap_stack *snap_node_next_stack(const struct snap_node *node,
					struct snap_stack_cursor *cursor);
/* How many they are. */
size_t snap_node_stack_count(const struct snap_node *node);

/*
 * Counts of missing things, for the exit status (stacksnap(1)), before filters. Each is a reason
 * for 1.
 */
struct snap_missing {
	size_t threads;   /* lived through the stop, but are not shown whole: not stopped, missed */
	size_t processes; /* live user processes that could not be read */
	size_t modules;   /* readable modules whose symbols could not be read */
	size_t shown;     /* processes that could be read: 0 is a reason for 2 */
};

/* Threads and tasks that --no-idle has hidden. */
struct snap_idle {
	size_t threads, stacks, tasks;
	const char *runtime;  /* of all tasks; NULL: of several */
	size_t most;          /* threads of the largest stack … */
	const char *name;     /* … and their name or pattern; NULL: they have none in common */
	const char *function; /* that waits; NULL unknown */
	char id[17];          /* of the largest stack */
	pid_t pid;
};

static inline bool snap_is_missing(const struct snap_missing *missing)
{
	return missing->threads || missing->processes || missing->modules;
}

struct snap_snapshot {
	struct snap_arena arena;
	struct snap_host host;
	int64_t time_ns, duration_ns, stop_duration_ns, stop_skew_ns;
	size_t process_count, thread_count, task_count, stack_count; /* after filters */
	struct snap_node **processes;                                /* roots */
	size_t root_count;
	size_t threads_stopped, threads_late; /* before filters */
	uint32_t stop_rounds;     /* of the tree that needed most; 0: there was no common instant */
	const char *tool_version; /* of the stacksnap that wrote the document; NULL: this one */
	int64_t monotonic_ns;     /* CLOCK_MONOTONIC of its host then, with waits; 0: unknown */
	int64_t again_ns;   /* --again: how long ago another one was taken; 0: there was none */
	size_t stuck;       /* threads that have not run since, before filters … */
	size_t stuck_idle;  /* … and those of them that wait for work */
	size_t stopped;     /* with --again: by a signal, before filters */
	bool many_instants; /* --no-stop: threads were taken one by one, see their `taken` */
	bool flat;          /* no nesting: JSON has no `children` */
	struct snap_waits waits;
	struct snap_missing missing;
	struct snap_idle idle;
	struct snap_warning *warnings;
	size_t warning_count, warning_capacity;
	uint64_t shown; /* of one that was read from bytes: how large a report it makes, about */
	/* A mapping that texts may point into (store/snapshot/file.h); munmap'ed at the end. */
	void *backing;
	size_t backing_size;
};

struct snap_snapshot *snap_snapshot_new(void);
void snap_snapshot_destroy(struct snap_snapshot *snapshot);

SNAP_POINTER_GUARD(struct snap_snapshot, snap_snapshot_destroy);

void snap_snapshot_warn(struct snap_snapshot *snapshot, const char *code, pid_t pid, pid_t tid,
			const char *format, ...) _printf_(5, 6);

/* The words of the JSON and of the options. */
const char *snap_process_type_word(enum snap_process_type type);
const char *snap_state_word(enum snap_state state);
const char *snap_unwind_word(enum snap_unwind_end end);
/* "SIGSEGV" (signal(7)); NULL: a number that has no name. */
const char *snap_signal_word(int number);
/*
 * Whether a thread with such a stack is missing in a report: it was not stopped, but had a stack.
 * Workers of the kernel have none, nor has a leader that exited before its other threads.
 */
bool snap_thread_is_missing(enum snap_unwind_end end, enum snap_state state, bool kernel);
const char *snap_trust_word(enum snap_trust trust);
/* The state that a letter of /proc/PID/stat means (proc(5)). */
enum snap_state snap_state_of_letter(char letter);
/* The state with this name, SNAP_STATE_COUNT if there is none. */
enum snap_state snap_state_of_word(const char *word);
/* The innermost function of a managed language is the program's own, not one of its library. */
bool snap_frames_are_own_managed(const struct snap_frame *const *frames, size_t count);
