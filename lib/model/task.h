/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks: the threads of a runtime that the kernel does not know (goroutines, tasks of asyncio), the
 * runtimes of a process, and the tree of logical processes that labels of tasks describe.
 *
 * A part of struct snap_snapshot, and like it plain values. Labels are whatever a program writes:
 * keys and values are raw bytes, and values may be "". Knows nothing of how a runtime is read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct snap_entry;
struct snap_stack;

struct snap_label {
	const char *key, *value;
};

enum snap_task_state {
	SNAP_TASK_UNKNOWN,
	SNAP_TASK_RUNNING,
	SNAP_TASK_RUNNABLE,
	SNAP_TASK_SYSCALL,
	SNAP_TASK_WAITING,
	SNAP_TASK_DEAD,
	SNAP_TASK_STATE_COUNT,
};

struct snap_task {
	const char *id;   /* unique in its runtime */
	const char *name; /* NULL: none */
	enum snap_task_state state;
	const char *wait;   /* the runtime's own reason; NULL: none */
	int64_t since_ns;   /* CLOCK_MONOTONIC of its host; 0: unknown */
	pid_t tid;          /* of the thread that it runs on, or is locked to; 0: neither */
	bool locked;        /* to a thread, which runs nothing else */
	const char *parent; /* id of the task that made it, or awaits it; NULL: unknown */
	const struct snap_entry *created_by; /* function, file, line; NULL: unknown */
	struct snap_label *labels;           /* all of them, as the program wrote them */
	size_t label_count;
	bool labels_cut; /* some could not be read, or there was no room for them */
	bool idle;       /* it waits for work, by its whole stack */
};

/* Why the memory from which a runtime's tasks and frames are read is not whole. */
enum snap_runtime_cut {
	SNAP_RUNTIME_WHOLE,
	SNAP_RUNTIME_CUT_TIME,
	SNAP_RUNTIME_CUT_MEMORY,
	SNAP_RUNTIME_CUT_RECORDS,
	SNAP_RUNTIME_TORN, /* it was changing */
	SNAP_RUNTIME_CUT_COUNT,
};

/* The thread that holds the lock of an interpreter. */
struct snap_gil {
	pid_t tid;
	int64_t interpreter; /* its number; -1: unknown */
};

/* A runtime of a process. */
struct snap_node_runtime {
	const char *name, *version; /* version NULL: unknown */
	size_t tasks;               /* live ones, with the runtime's own */
	size_t shown;               /* of them in stacks */
	size_t idle_threads;        /* its own, left out of the stacks of threads */
	bool unread;                /* its functions are not shown */
	enum snap_runtime_cut cut;
	uint64_t memory_bytes; /* copied for it; 0: unknown, as where several share an image */
	int64_t plan_ns;       /* that this took while the process stood still; 0: unknown */
	struct snap_gil *gil;
	size_t gil_count;
};

enum snap_logical_type {
	SNAP_LOGICAL_NORMAL,
	SNAP_LOGICAL_REQUEST,
	SNAP_LOGICAL_SYSTEM,
	SNAP_LOGICAL_DEAD, /* only children name it: "(dead process)" */
	SNAP_LOGICAL_NONE, /* tasks without an id: "(unassociated)" */
	SNAP_LOGICAL_TASK, /* equal tasks, which those of the parent await; no label says so */
	SNAP_LOGICAL_TYPE_COUNT,
};

/*
 * A logical process: the tasks whose labels have its id, or equal ones that the same tasks await,
 * and then its id is that of the first one. They are listed in the order of the tree,
 * a parent before its children; the parent is the last one before it that is one level higher.
 */
struct snap_logical {
	const char *id;     /* NULL: (unassociated) */
	const char *parent; /* its id, which may be that of one that is not shown; NULL: none */
	const char *name;
	enum snap_logical_type type;
	uint32_t depth; /* 0: a root */
	/* that all of its tasks share, but for those that say which process it is */
	struct snap_label *labels;
	size_t label_count;
	size_t task_count; /* before filters, without those below it */
	struct snap_stack *stacks;
	size_t stack_count;
};

/* The words of the JSON and of the options. */
const char *snap_task_state_word(enum snap_task_state state);
const char *snap_logical_type_word(enum snap_logical_type type);
/* SNAP_LOGICAL_NORMAL for any word but request and system: what a program may say of itself. */
enum snap_logical_type snap_logical_type_of_label(const char *word);
/* "" if nothing was. */
const char *snap_runtime_cut_word(enum snap_runtime_cut cut);

/* Ids in their order: as numbers, if both are, before all others. */
int snap_task_compare_ids(const char *a, const char *b);

/* Whether a label of a program has the key of one of ours: it is then shown as "label.KEY". */
bool snap_label_clashes(const char *key);
