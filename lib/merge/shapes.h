/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where values are in a document: for each kind of object the keys that are read, and the type that
 * each must have. Other keys are ignored, as other programs may write them. These are tables alone:
 * read.c, stack.c and entry.c know what a value means and what is done with it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Kinds of objects and arrays. */
enum snap_merge_kind {
	SNAP_MERGE_SKIP, /* whatever is in it */
	SNAP_MERGE_ROOT,
	SNAP_MERGE_HOST,
	SNAP_MERGE_PROCESSES, /* children, too */
	SNAP_MERGE_PROCESS,
	SNAP_MERGE_LOGICALS,
	SNAP_MERGE_LOGICAL,
	SNAP_MERGE_STACKS,
	SNAP_MERGE_STACK,
	SNAP_MERGE_LABELS,
	SNAP_MERGE_GAP,
	SNAP_MERGE_THREADS,
	SNAP_MERGE_THREAD,
	SNAP_MERGE_ENTRIES,
	SNAP_MERGE_ENTRY,
	SNAP_MERGE_DEADLOCKS,
	SNAP_MERGE_DEADLOCK,
	/* of what was merged */
	SNAP_MERGE_HOSTS,
	SNAP_MERGE_TIMES,
	SNAP_MERGE_MODULES,
	SNAP_MERGE_MODULE,
	SNAP_MERGE_GROUPS,
	SNAP_MERGE_GROUP,
	SNAP_MERGE_EXAMPLES,
	SNAP_MERGE_EXAMPLE,
	SNAP_MERGE_KINDS,
};

enum snap_merge_type {
	SNAP_MERGE_TEXT,
	SNAP_MERGE_HEX,    /* "0x…" */
	SNAP_MERGE_NUMBER, /* from 0 */
	SNAP_MERGE_FLAG,
	SNAP_MERGE_INSIDE, /* an object or an array: `number` is its kind */
};

/* A key; the value of one that is not INSIDE goes to field `number` of its object. */
struct snap_merge_row {
	const char *key;
	unsigned char length, type, number;
};

struct snap_merge_shape {
	const struct snap_merge_row *rows;
	unsigned char row_count;
	unsigned char element; /* kind of an array's elements; SKIP: no array, or of no objects */
	bool array;
};

extern const struct snap_merge_shape snap_merge_shapes[SNAP_MERGE_KINDS];

enum { SNAP_MERGE_MOST_FIELDS = 16 };

enum { ROOT_SCHEMA, ROOT_VERSION, ROOT_TIME, ROOT_DEADLOCK_HOSTS };
enum { HOST_NAME, HOST_BOOT_ID };
enum { PROCESS_PID, PROCESS_NAME };
enum {
	STACK_ID,
	STACK_COUNT,
	STACK_KIND,
	STACK_RUNTIME,
	STACK_DESCRIPTION,
	STACK_UNWIND,
	STACK_UNWIND_DETAIL,
	STACK_HOSTS,
	STACK_PROCESSES,
	STACK_THREADS,
	STACK_TASKS,
};
enum { GAP_AFTER, GAP_COUNT };
enum { DEADLOCK_CERTAIN, DEADLOCK_TIMED };
enum { THREAD_PID, THREAD_TID, THREAD_ID, THREAD_NAME };
enum {
	ENTRY_FUNCTION,
	ENTRY_SYMBOL,
	ENTRY_FILE,
	ENTRY_LINE,
	ENTRY_COLUMN,
	ENTRY_MODULE,
	ENTRY_BUILD_ID,
	ENTRY_OFFSET,
	ENTRY_ADDRESS,
	ENTRY_INLINED,
	ENTRY_TAIL_CALL,
	ENTRY_SYSTEM,
	ENTRY_KERNEL,
	ENTRY_LANGUAGE,
	ENTRY_TRUST,
};
enum { MODULE_PATH, MODULE_BUILD_ID, MODULE_HOSTS };
enum {
	EXAMPLE_HOST,
	EXAMPLE_TIME,
	EXAMPLE_PID,
	EXAMPLE_PROCESS,
	EXAMPLE_TID,
	EXAMPLE_THREAD,
	EXAMPLE_TASK
};
