/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * HotSpot's data, for the files of this folder: where things lie in its memory, by the table that
 * it exports for debuggers (gHotSpotVMStructs, src/hotspot/share/runtime/vmStructs.hpp), and the
 * monitors and names of threads that are found there. Knows nothing of Java's frames.
 */
#pragma once

#include "analyze/runtime/runtime.h"

enum {
	/* struct VMStructEntry, the same since JDK 6: six words, of which the last … */
	SNAP_JAVA_ENTRY = 48,
	SNAP_JAVA_ENTRY_TYPE = 0,    /* char *; NULL: the end of the table */
	SNAP_JAVA_ENTRY_FIELD = 8,   /* char * */
	SNAP_JAVA_ENTRY_STATIC = 24, /* i32 */
	SNAP_JAVA_ENTRY_OFFSET = 32,
	SNAP_JAVA_ENTRY_ADDRESS = 40, /* … is used if it is static */
	SNAP_JAVA_MOST_ENTRIES = 8192,
	SNAP_JAVA_MOST_NAME = 64,     /* of a type or field that is wanted, with its NUL */
	SNAP_JAVA_MOST_OFFSET = 8192, /* in an object */
	SNAP_JAVA_MOST_THREADS = 16384,
};

/* Fields, by their place in struct snap_java.fields; all but the first are offsets. */
enum snap_java_field {
	SNAP_JAVA_LIST, /* address of the word that leads to the ThreadsList */
	SNAP_JAVA_LENGTH,
	SNAP_JAVA_THREADS,
	SNAP_JAVA_OS_THREAD,
	SNAP_JAVA_PENDING,
	SNAP_JAVA_STACK_BASE,
	SNAP_JAVA_STACK_SIZE,
	SNAP_JAVA_TID,
	SNAP_JAVA_OWNER,
	SNAP_JAVA_FIELDS,
};

struct snap_java {
	const struct snap_runtime_process *process;
	uint64_t first, last; /* where libjvm.so is mapped; `last` is behind it */
	uint64_t pointer;     /* address of gHotSpotVMStructs */
	uint64_t table;       /* what it leads to */
	size_t entry_count;   /* of the table: as many as it takes for all fields */
	uint64_t fields[SNAP_JAVA_FIELDS];
};

/* ---- layout.c ---- */

/* Finds libjvm.so; false: it is not there, or does not export its table. */
bool snap_java_find(const struct snap_runtime_process *process, struct snap_java *ret);
/* A field of the table; a class or a field may have changed its name. */
struct snap_java_row {
	const char *type, *other_type, *name, *other_name;
	bool is_static; /* its value is an address, else an offset */
};

/*
 * Reads the table, down to the last of these fields; the value of one that is not there, or makes no
 * sense, is UINT64_MAX. False: there is no table.
 */
bool snap_java_read_fields(struct snap_java *java, const struct snap_java_row *rows, size_t count,
			   uint64_t *fields);
/* The same of java->fields; false: it has not all fields, or they make no sense. */
bool snap_java_read_layout(struct snap_java *java);
/* Adds what is to be copied; false: the plan has no room. */
bool snap_java_plan(const struct snap_java *java, struct snap_memory_plan *plan);

/* ---- names.c ---- */

/* Gives process->take_name what Java calls the threads of a process that runs. */
void snap_java_name_threads(struct snap_java *java);

/* ---- monitors.c ---- */

/* The threads that wait for a monitor. NO_MEMORY. */
struct stacksnap_error *snap_java_monitors(const struct snap_java *java,
					   struct snap_runtime_result *result) _must_check_;
