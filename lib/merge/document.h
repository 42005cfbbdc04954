/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One document, which is read and checked as a whole before anything of it counts. It is of a
 * snapshot, or of an earlier merge, which has the same form with many hosts.
 *
 * The parts that the groups need are written again in one form, so that equal stacks are equal
 * bytes: known keys in a fixed order, without addresses. All other parts are spans of the document,
 * which must stay in memory as long. Knows nothing of other documents.
 */
#pragma once

#include "base/error.h"
#include "model/merged/merged.h"
#include "store/json/scan.h"

/* A span without bytes: there is no such text. */
struct snap_merge_example {
	uint32_t host;
	int64_t time_ns;
	pid_t pid, tid;
	struct snap_json_span process, thread, task;
};

/* A build of a file that some entry is in. */
struct snap_merge_place {
	struct snap_json_span module, build_id, hosts; /* hosts: of what was merged */
};

struct snap_merge_host {
	struct snap_json_span name, boot_id;
	size_t time_at, time_count; /* in `times` */
};

struct snap_merge_process {
	pid_t pid;
	struct snap_json_span name;
};

/* The threads of a process that stand in one group; or a whole group. */
struct snap_merge_stack {
	uint64_t id;
	uint32_t process; /* UINT32_MAX: threads say themselves whose they are */
	size_t body_at, entries_size, body_size; /* in `text`: see struct snap_merged_group */
	size_t labels_at, labels_size;           /* in `labels`, likewise */
	uint64_t processes, threads, tasks;      /* processes: of what was merged */
	struct snap_json_span hosts;             /* of what was merged */
	size_t example_at, example_count, place_at, place_count;
};

/* A process that has a stack: more than one of these may be the same. */
struct snap_merge_owner {
	uint32_t stack;
	pid_t pid;
};

struct snap_merge_document {
	bool merged;
	bool broken;                          /* it is no JSON, so its end is not known */
	bool has_deadlock;                    /* beyond doubt, of a snapshot */
	struct snap_json_span deadlock_hosts; /* of what was merged */
	struct snap_merge_host *hosts;        /* one, of a snapshot */
	int64_t *times;
	struct snap_merge_process *processes;
	struct snap_merge_stack *stacks;
	struct snap_merge_owner *owners; /* of threads that say whose they are */
	struct snap_merge_example *examples;
	struct snap_merge_place *places; /* of stacks; of what was merged its modules */
	struct snap_buffer text, labels;
	size_t host_count, time_count, process_count, stack_count, owner_count, example_count,
		place_count;
	/* inside */
	size_t host_capacity, time_capacity, process_capacity, stack_capacity, owner_capacity,
		example_capacity, place_capacity;
};

/* All zero: empty. */
void snap_merge_document_deinit(struct snap_merge_document *document);

/* Reads documents one after the other, with the memory of the one before. */
struct snap_merge_reader;
struct snap_merge_reader *snap_merge_reader_create(void); /* NULL without memory */
void snap_merge_reader_destroy(struct snap_merge_reader *reader);

/*
 * The document at `bytes`, behind whose end is a NUL, replaces what is in `document`. *end_ret is
 * set in any case: behind the document, or where it is broken. FORMAT: it is none; NO_MEMORY.
 */
struct stacksnap_error *snap_merge_read(struct snap_merge_reader *reader, const char *bytes,
					struct snap_merge_document *document,
					const char **end_ret) _must_check_;

/* A set of hosts as it is written, "0-3,7", of fewer than `hosts`; false: it is none. */
bool snap_merge_parse_set(const struct snap_json_span *span, size_t hosts,
			  struct snap_host_set *set);
