/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The data of a merger, for the files that add to it (merger.c, group.c) and read it (finish.c).
 * Hosts and modules are numbered in the order of their arrival; finish.c sorts them in the result.
 * Knows nothing of files, nor of how a document is read.
 */
#pragma once

#include "merge/canon.h"
#include "merge/merger.h"
#include "merge/sets.h"

struct snap_merge_known_host {
	const char *name, *boot_id; /* interned */
	size_t document_count;      /* 0: only documents that were refused had it */
	uint64_t serial;            /* of the document that named it last */
};

/* A document that counts. */
struct snap_merge_known_document {
	uint32_t host;
	int64_t time_ns;
};

struct snap_merge_known_module {
	const char *path, *build_id; /* interned */
	struct snap_host_set hosts;
};

struct snap_merge_group {
	uint64_t id;
	char *body, *labels; /* malloc'ed: see struct snap_merged_group */
	size_t entries_size, body_size, labels_size;
	struct snap_host_set hosts;
	uint64_t process_count, thread_count, task_count;
	struct snap_merged_example examples[SNAP_MERGED_EXAMPLES];
	size_t example_count;
	uint32_t *modules; /* that the body of a snapshot is in; NULL: that is not known */
	size_t module_count;
};

/* A group and a process that has it, of one document. */
struct snap_merge_pair {
	uint32_t group;
	pid_t pid;
};

struct snap_merger {
	struct snap_arena arena;
	struct snap_interner strings;
	struct snap_merge_canon canon;
	uint64_t serial;
	struct snap_hash_table host_table, document_table, module_table, group_table;
	struct snap_merge_known_host *hosts;
	struct snap_merge_known_document *documents;
	struct snap_merge_known_module *modules;
	struct snap_merge_group *groups;
	struct snap_host_set deadlocks; /* hosts of which a document has one */
	size_t host_count, host_capacity, document_count, document_capacity, module_count,
		module_capacity, group_count, group_capacity;
	/* of the current document */
	uint32_t *numbers; /* of its hosts */
	size_t number_capacity;
	struct snap_merge_pair *pairs;
	size_t pair_count, pair_capacity;
	uint32_t *stack_modules, *stack_groups;
	size_t stack_module_capacity, stack_group_capacity;
	struct snap_host_set set;
};

/* The one copy of a text; *ret NULL: there is none. False: refused, or no memory. */
bool snap_merger_intern(struct snap_merger *merger, const struct snap_json_span *span,
			const char **ret);
/* The number of a module's build. False as above. */
bool snap_merger_module(struct snap_merger *merger, const struct snap_merge_place *place,
			uint32_t *ret);
/* The order of hosts: by name, then boot id. */
int snap_merger_compare_hosts(const struct snap_merge_known_host *a,
			      const struct snap_merge_known_host *b);

/*
 * Adds a stack or a group of a document to the group of its id, whose number is *ret. The numbers
 * of the document's hosts are known by now. False as above.
 */
bool snap_merger_add_stack(struct snap_merger *merger, const struct snap_merge_document *document,
			   const struct snap_merge_stack *stack, uint32_t *ret);
