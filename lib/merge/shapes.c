/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tables of shapes.h; keys are in the order in which our documents have them. */
#include "merge/shapes.h"

#include "base/cleanup.h"

#define ROW(key, type, number)                                  \
	{                                                       \
		key, sizeof(key) - 1, SNAP_MERGE_##type, number \
	}
#define INSIDE(key, kind)                                                  \
	{                                                                  \
		key, sizeof(key) - 1, SNAP_MERGE_INSIDE, SNAP_MERGE_##kind \
	}

static const struct snap_merge_row root[] = {
	ROW("schema", TEXT, ROOT_SCHEMA),
	ROW("schema_version", NUMBER, ROOT_VERSION),
	INSIDE("host", HOST),
	ROW("time", TEXT, ROOT_TIME),
	INSIDE("stacks", STACKS),
	INSIDE("processes", PROCESSES),
	INSIDE("deadlocks", DEADLOCKS),
	ROW("deadlock_hosts", TEXT, ROOT_DEADLOCK_HOSTS),
	INSIDE("hosts", HOSTS),
	INSIDE("modules", MODULES),
	INSIDE("groups", GROUPS),
};
static const struct snap_merge_row host[] = {
	ROW("name", TEXT, HOST_NAME),
	ROW("boot_id", TEXT, HOST_BOOT_ID),
	INSIDE("times", TIMES),
};
static const struct snap_merge_row process[] = {
	ROW("pid", NUMBER, PROCESS_PID), ROW("name", TEXT, PROCESS_NAME), INSIDE("stacks", STACKS),
	INSIDE("logical", LOGICALS),     INSIDE("children", PROCESSES),
};
static const struct snap_merge_row logical[] = {
	INSIDE("stacks", STACKS),
	INSIDE("children", LOGICALS),
};
static const struct snap_merge_row stack[] = {
	ROW("id", TEXT, STACK_ID),
	ROW("count", NUMBER, STACK_COUNT),
	ROW("kind", TEXT, STACK_KIND),
	ROW("runtime", TEXT, STACK_RUNTIME),
	ROW("description", TEXT, STACK_DESCRIPTION),
	INSIDE("labels", LABELS),
	ROW("unwind", TEXT, STACK_UNWIND),
	ROW("unwind_detail", TEXT, STACK_UNWIND_DETAIL),
	INSIDE("gap", GAP),
	INSIDE("threads", THREADS),
	INSIDE("tasks", THREADS),
	INSIDE("entries", ENTRIES),
};
static const struct snap_merge_row group[] = {
	ROW("id", TEXT, STACK_ID),
	ROW("process_count", NUMBER, STACK_PROCESSES),
	ROW("thread_count", NUMBER, STACK_THREADS),
	ROW("task_count", NUMBER, STACK_TASKS),
	ROW("hosts", TEXT, STACK_HOSTS),
	ROW("kind", TEXT, STACK_KIND),
	ROW("runtime", TEXT, STACK_RUNTIME),
	ROW("description", TEXT, STACK_DESCRIPTION),
	INSIDE("labels", LABELS),
	ROW("unwind", TEXT, STACK_UNWIND),
	ROW("unwind_detail", TEXT, STACK_UNWIND_DETAIL),
	INSIDE("gap", GAP),
	INSIDE("examples", EXAMPLES),
	INSIDE("entries", ENTRIES),
};
static const struct snap_merge_row gap[] = {
	ROW("after", NUMBER, GAP_AFTER),
	ROW("count", NUMBER, GAP_COUNT),
};
/* Of a task the id is a text. */
static const struct snap_merge_row thread[] = {
	ROW("pid", NUMBER, THREAD_PID),
	ROW("tid", NUMBER, THREAD_TID),
	ROW("id", TEXT, THREAD_ID),
	ROW("name", TEXT, THREAD_NAME),
};
static const struct snap_merge_row entry[] = {
	ROW("function", TEXT, ENTRY_FUNCTION),   ROW("symbol", TEXT, ENTRY_SYMBOL),
	ROW("file", TEXT, ENTRY_FILE),           ROW("line", NUMBER, ENTRY_LINE),
	ROW("column", NUMBER, ENTRY_COLUMN),     ROW("module", TEXT, ENTRY_MODULE),
	ROW("build_id", TEXT, ENTRY_BUILD_ID),   ROW("offset", HEX, ENTRY_OFFSET),
	ROW("address", HEX, ENTRY_ADDRESS),      ROW("inlined", FLAG, ENTRY_INLINED),
	ROW("tail_call", FLAG, ENTRY_TAIL_CALL), ROW("system", FLAG, ENTRY_SYSTEM),
	ROW("kernel", FLAG, ENTRY_KERNEL),       ROW("language", TEXT, ENTRY_LANGUAGE),
	ROW("trust", TEXT, ENTRY_TRUST),
};
static const struct snap_merge_row deadlock[] = {
	ROW("certain", FLAG, DEADLOCK_CERTAIN),
	ROW("timed", FLAG, DEADLOCK_TIMED),
};
static const struct snap_merge_row module[] = {
	ROW("module", TEXT, MODULE_PATH),
	ROW("build_id", TEXT, MODULE_BUILD_ID),
	ROW("hosts", TEXT, MODULE_HOSTS),
};
static const struct snap_merge_row example[] = {
	ROW("host_number", NUMBER, EXAMPLE_HOST), ROW("time", TEXT, EXAMPLE_TIME),
	ROW("pid", NUMBER, EXAMPLE_PID),          ROW("process", TEXT, EXAMPLE_PROCESS),
	ROW("tid", NUMBER, EXAMPLE_TID),          ROW("thread", TEXT, EXAMPLE_THREAD),
	ROW("task", TEXT, EXAMPLE_TASK),
};

#define OBJECT(rows)                                                \
	{                                                           \
		rows, SNAP_ARRAY_SIZE(rows), SNAP_MERGE_SKIP, false \
	}
#define ARRAY(kind)                              \
	{                                        \
		NULL, 0, SNAP_MERGE_##kind, true \
	}

const struct snap_merge_shape snap_merge_shapes[SNAP_MERGE_KINDS] = {
	[SNAP_MERGE_ROOT] = OBJECT(root),         [SNAP_MERGE_HOST] = OBJECT(host),
	[SNAP_MERGE_PROCESSES] = ARRAY(PROCESS),  [SNAP_MERGE_PROCESS] = OBJECT(process),
	[SNAP_MERGE_LOGICALS] = ARRAY(LOGICAL),   [SNAP_MERGE_LOGICAL] = OBJECT(logical),
	[SNAP_MERGE_STACKS] = ARRAY(STACK),       [SNAP_MERGE_STACK] = OBJECT(stack),
	[SNAP_MERGE_GAP] = OBJECT(gap),           [SNAP_MERGE_THREADS] = ARRAY(THREAD),
	[SNAP_MERGE_THREAD] = OBJECT(thread),     [SNAP_MERGE_ENTRIES] = ARRAY(ENTRY),
	[SNAP_MERGE_ENTRY] = OBJECT(entry),       [SNAP_MERGE_HOSTS] = ARRAY(HOST),
	[SNAP_MERGE_DEADLOCKS] = ARRAY(DEADLOCK), [SNAP_MERGE_DEADLOCK] = OBJECT(deadlock),
	[SNAP_MERGE_TIMES] = ARRAY(SKIP),         [SNAP_MERGE_MODULES] = ARRAY(MODULE),
	[SNAP_MERGE_MODULE] = OBJECT(module),     [SNAP_MERGE_GROUPS] = ARRAY(GROUP),
	[SNAP_MERGE_GROUP] = OBJECT(group),       [SNAP_MERGE_EXAMPLES] = ARRAY(EXAMPLE),
	[SNAP_MERGE_EXAMPLE] = OBJECT(example),
};
