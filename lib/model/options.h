/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options: the caller's wishes, as plain values that every stage reads and no stage writes.
 *
 * Deliberately knows nothing of command lines: lib/api/options.c fills it from names and texts.
 * Strings and arrays are owned by the options' arena.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "model/trace/trace.h"
#include "model/wait/watch_rules.h"

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>

enum snap_target_kind {
	SNAP_TARGET_PID,
	SNAP_TARGET_NAME, /* POSIX extended regex on comm or the basename of exe */
	SNAP_TARGET_UNIT,
	SNAP_TARGET_CGROUP,
	SNAP_TARGET_CONTAINER,
	SNAP_TARGET_ALL,
};

struct snap_target {
	enum snap_target_kind kind;
	pid_t pid;        /* PID */
	const char *text; /* the others, as given */
	regex_t *regex;   /* NAME, compiled; freed with the options */
};

enum snap_engine {
	SNAP_ENGINE_AUTO,      /* rows, then libunwind for what they refuse */
	SNAP_ENGINE_LIBUNWIND, /* libunwind alone, over the copy */
	SNAP_ENGINE_PTRACE,    /* libunwind-ptrace while stopped: the reference */
};

enum snap_perf_map {
	SNAP_PERF_MAP_AUTO,
	SNAP_PERF_MAP_ALWAYS,
	SNAP_PERF_MAP_NEVER,
};

/* Managed runtimes; a set of bits. */
enum snap_runtime_kind {
	SNAP_RUNTIME_GO = 1 << 0,
	SNAP_RUNTIME_CPYTHON = 1 << 1,
	SNAP_RUNTIME_PHP = 1 << 2,
	SNAP_RUNTIME_JAVA = 1 << 3, /* monitors that threads wait for, and nothing else */
	SNAP_RUNTIME_JIT = 1 << 4,  /* code registered with gdb: its names and CFI alone */
	SNAP_RUNTIME_ALL = (1 << 5) - 1,
};

enum { SNAP_USUAL_FRAMES = 512 }; /* of a stack: deeper ones are runaway recursions */

/* Labels that --group-by can name; a set of bits. */
enum snap_group_by {
	SNAP_GROUP_STACK = 1 << 0,
	SNAP_GROUP_STATE = 1 << 1,
	SNAP_GROUP_NAME = 1 << 2, /* thread_name, folded to its pattern */
	SNAP_GROUP_SYSCALL = 1 << 3,
	SNAP_GROUP_WCHAN = 1 << 4,
	SNAP_GROUP_CPU = 1 << 5,
	SNAP_GROUP_TYPE = 1 << 6,
	SNAP_GROUP_TID = 1 << 7, /* --per-thread */
	SNAP_GROUP_WAIT = 1 << 8,
	SNAP_GROUP_PROCESS = 1 << 9, /* never in options: see `together` */

	SNAP_GROUP_USUAL = SNAP_GROUP_STACK | SNAP_GROUP_STATE, /* unless options say more */
};

/* How much is said about waits. */
enum snap_explain {
	SNAP_EXPLAIN_SURE, /* certain and likely ones */
	SNAP_EXPLAIN_NO,   /* nothing: no wait is captured or shown */
	SNAP_EXPLAIN_ALL,  /* hints and times, too */
};

/* The fields of a logical process that labels of a task can set. */
enum snap_tree_key {
	SNAP_TREE_ID,
	SNAP_TREE_PARENT,
	SNAP_TREE_DESCRIPTION,
	SNAP_TREE_TYPE,
	SNAP_TREE_KEYS,
};

/* A state of tasks (enum snap_task_state), beside those of threads. */
#define SNAP_TASK_STATE_BIT(state) (1u << (16 + (state)))

/* Where formats with time lines show the state of a thread as a frame of its own. */
enum snap_state_frames {
	SNAP_STATE_FRAMES_ROOT,
	SNAP_STATE_FRAMES_LEAF,
	SNAP_STATE_FRAMES_NO,
};

/* A condition of --until. */
enum snap_until_kind {
	SNAP_UNTIL_NONE,
	SNAP_UNTIL_THREADS, /* so many threads there are */
	SNAP_UNTIL_STATE,   /* so many threads are in a state */
	SNAP_UNTIL_CPU,     /* so much of one processor all threads together use, in percent */
};

struct snap_until {
	enum snap_until_kind kind;
	bool below; /* less than `limit`, else more */
	double limit;
	unsigned states;  /* STATE: bits 1 << enum snap_state */
	int64_t for_ns;   /* how long it must hold without a break; 0: at once */
	const char *text; /* as given */
};

/* A moment of a recording: --from, --to. */
enum snap_moment_kind {
	SNAP_MOMENT_NONE,
	SNAP_MOMENT_SINCE_START, /* ns since the first sample that is there */
	SNAP_MOMENT_BEFORE_END,  /* ns */
	SNAP_MOMENT_EPOCH,       /* ns since 1970, UTC */
};

struct snap_moment {
	enum snap_moment_kind kind;
	int64_t ns;
};

/* Ids of containers, 64 hexadecimal digits each. */
enum { SNAP_CONTAINER_ID_LENGTH = 64, SNAP_MAX_CONTAINERS = 4096 };

struct snap_container_id {
	char text[SNAP_CONTAINER_ID_LENGTH + 1];
};

/* A mapping of its own. */
struct snap_container_ids {
	bool is_late; /* not all files could be read in time */
	size_t count;
	struct snap_container_id list[SNAP_MAX_CONTAINERS];
};

static inline void snap_container_ids_destroy(struct snap_container_ids *ids)
{
	if (ids)
		munmap(ids, sizeof(*ids));
}

SNAP_POINTER_GUARD(struct snap_container_ids, snap_container_ids_destroy);

/* The name of the process that reads the files: see containers/containers.h. */
#define SNAP_CONTAINERS_PROCESS "snap-containers"

struct snap_options {
	struct snap_arena arena;
	struct snap_target *targets;
	size_t target_count, target_capacity;
	/* Of an earlier look, by pid and start time alone; a pid means no others. NULL: there was none. */
	const struct snap_process *seen;
	size_t seen_count;
	bool children; /* descendants too; default true */
	/* The ids of containers with that name; NULL: no memory. NULL: names are not known. */
	struct snap_container_ids *(*find_containers)(const char *name);
	/* capture */
	uint64_t max_stack;        /* bytes a thread, default 1 MiB */
	uint64_t max_snapshot;     /* bytes of all stacks, 128 MiB */
	int64_t stop_timeout_ns;   /* default 1 s */
	int64_t timeout_ns;        /* whole run, default stop timeout + 10 s */
	bool timeout_given;        /* then it does not follow the stop timeout */
	bool kernel_stacks;        /* --kernel */
	bool wchan;                /* read wchan of every thread: grouping or -v asks for it */
	bool no_stop;              /* --no-stop */
	bool force_stop;           /* --force-stop: threads in calls that a stop changes, too */
	bool stop_all;             /* --stop-all: threads on no processor are stopped, too */
	bool never_stop;           /* of a sampler: data that needs a stop is left out */
	bool no_sandbox;           /* --no-sandbox: parsers keep their rights */
	enum snap_explain explain; /* --explain, --no-explain */
	bool deadlocks_only;       /* --deadlocks */
	/* managed runtimes */
	unsigned runtimes;   /* bits of enum snap_runtime_kind, default all; 0: none */
	bool runtimes_given; /* by name: also searched in processes that do not look like it */
	int64_t runtime_budget_ns; /* of a stop, for the memory of one process; default 30 ms */
	uint64_t runtime_memory;   /* bytes of a process, default 64 MiB */
	/* recording */
	unsigned hz;       /* 1 to 10000, default 99 */
	int64_t record_ns; /* --duration, default 30 s; 0: until it is asked to end */
	int64_t ring_ns;   /* --ring; 0: none */
	bool cpu_only;     /* --mode cpu */
	/* --task-hz: looks at the tasks that wait, in 1000 seconds; default 1000, 0: none */
	uint32_t task_millihertz;
	struct snap_until until; /* --until */
	uint64_t max_memory;     /* bytes of what is recorded, default 256 MiB; 0: no limit */
	/* of the time that a process may stand still because of us: millionths, default 3 %; 0:
	 * any */
	uint32_t max_stopped;
	int64_t again_ns; /* --again: between two snapshots; 0: one is taken */
	/* watching */
	bool watch; /* --watch */
	struct snap_watch_rules watch_rules;
	int64_t every_ns; /* --every: between two looks, default 1 s */
	bool watch_once;  /* --once */
	/* recordings, when they are rendered */
	struct snap_moment from, to;
	enum snap_state_frames state_frames;
	int64_t interval_ns; /* jsonl: between documents; 0: each tick */
	/* analysis */
	enum snap_engine engine;
	size_t max_frames;   /* machine frames, default SNAP_USUAL_FRAMES, 0 = all */
	bool frames_given;   /* then the report may be of any size */
	bool symbols;        /* false: -q */
	bool inlines, lines; /* default true */
	bool raw_names;      /* -r */
	bool go_names;       /* Go code is named as Go does it, with its language: recordings */
	enum snap_perf_map perf_map;
	bool debuginfod;
	const char **debug_dirs; /* --debug-dir, in order */
	size_t debug_dir_count, debug_dir_capacity;
	const char *exe;   /* --exe: where the program of a core lies; NULL: where the core says */
	unsigned group_by; /* bits of enum snap_group_by */
	bool together; /* --group-by without process: the groups of all processes are one list */
	/* tasks: also, their labels that make groups */
	const char **group_labels;
	size_t group_label_count, group_label_capacity;
	/* labels of the tree of logical processes, by enum snap_tree_key; all NULL: no tree */
	const char *task_tree[SNAP_TREE_KEYS];
	bool await_tree;   /* where labels make no tree: tasks below those that await them */
	bool all_threads;  /* --threads: those, too, that only carry tasks */
	bool system_tasks; /* tasks of the runtime itself */
	bool native;       /* frames of the interpreter itself */
	/* views and filters */
	bool flat, no_system, no_idle;
	/* bits 1 << enum snap_state, and SNAP_TASK_STATE_BIT() of those of tasks; 0: all */
	unsigned states;
	regex_t *thread_regex, *match_regex; /* NULL: all */
	/* text */
	bool no_fold;   /* stacks that are alike are shown one by one */
	bool call_tree; /* the stacks of a process are one tree … */
	bool reverse;   /* … from the innermost functions */
	bool summary, show_module, show_build_id, full_names, color, utf8;
	unsigned width;       /* columns; 0: not a terminal, nothing is elided */
	unsigned group_lines; /* after as many lines groups are only counted; 0: never */
	unsigned verbose;
	bool no_files; /* no file of the target is read: stacks are a guess */
	bool pcs_only; /* nor its stacks: each is only the pc of its thread */
	/* tests: a kernel on which schedstat (1), or the switches too (2), never move; one without BPF */
	unsigned dead_counters;
	bool no_bpf;
	pid_t self; /* of the program for which this process works; 0: its own */
	/* the caller's wish to stop, polled by every stage; NULL: never */
	const volatile int *cancel;
	struct snap_trace *trace; /* NULL: none; shared memory, which a sandboxed parser leaves */
	/* not 0: names that are not known by now stay unknown; NULL: all are wanted */
	const volatile int *enough;
	/* progress of downloads, NULL: not wanted; text is one line, ended by the library
	 */
	void (*progress)(void *context, const char *text);
	void *progress_context;
	/* which package has the symbols of a build id; NULL: that is not known */
	const char *(*symbol_package)(void *context, const char *build_id);
	void *symbol_package_context;
};

static inline bool snap_options_cancelled(const struct snap_options *options)
{
	return options->cancel && *options->cancel;
}

/* An error once the caller has cancelled what is under way. */
static inline struct stacksnap_error *snap_options_check(const struct snap_options *options)
{
	return snap_options_cancelled(options) ? snap_error_cancelled() : NULL;
}

static inline bool snap_options_has_pid(const struct snap_options *options, pid_t pid)
{
	return snap_any(options->target_count, i,
			options->targets[i].kind == SNAP_TARGET_PID &&
				options->targets[i].pid == pid);
}

/* Whether a target is named by anything but a pid: then any process may be one. */
static inline bool snap_options_look_for_targets(const struct snap_options *options)
{
	return snap_any(options->target_count, i, options->targets[i].kind != SNAP_TARGET_PID);
}

/* Whether the report may be of any size: a number of frames was asked for, or each thread. */
static inline bool snap_options_any_size(const struct snap_options *options)
{
	return options->frames_given || options->group_by & SNAP_GROUP_TID;
}

static inline bool snap_options_have_enough(const struct snap_options *options)
{
	return options->enough && *options->enough;
}
