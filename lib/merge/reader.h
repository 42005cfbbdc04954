/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files that read a document (document.h): read.c walks over its tokens, stack.c and
 * entry.c handle stacks.
 */
#pragma once

#include "merge/canon.h"
#include "merge/document.h"
#include "merge/shapes.h"

struct snap_merge_value {
	struct snap_json_span text;
	int64_t number;
};

/* An open object or array. */
struct snap_merge_frame {
	unsigned char kind, next_row;
	uint32_t given; /* bits of the fields that came */
	uint32_t owner; /* number of the process it is in; UINT32_MAX: in none */
	size_t values;  /* where those of its fields are */
};

struct snap_merge_label {
	struct snap_json_span key, value;
};

struct snap_merge_reader {
	struct snap_json_scan scan;
	struct snap_merge_canon canon;
	struct snap_merge_document *document;
	struct snap_merge_frame frames[SNAP_JSON_DEEPEST + 1];
	size_t depth;
	struct snap_merge_value *values;
	size_t value_capacity;
	struct stacksnap_error *error; /* the first one */
	bool has_groups;
	size_t time_at; /* of the current host */
	/* of the current stack */
	bool has_entries, has_gap;
	int64_t gap_after, gap_count;
	uint64_t threads, tasks; /* that came */
	struct snap_merge_label *labels;
	size_t label_count, label_capacity;
	struct snap_buffer lines; /* of labels */
};

/* The first refusal is the document's. */
void snap_merge_refuse(struct snap_merge_reader *reader, const char *key, const char *expected);
void snap_merge_no_memory(struct snap_merge_reader *reader);
/* Forgets all but the memory. */
void snap_merge_document_clear(struct snap_merge_document *document);

/* Fields of the object that is about to end. A text without bytes was not given. */
struct snap_json_span snap_merge_value(const struct snap_merge_reader *reader, unsigned field);
int64_t snap_merge_number(const struct snap_merge_reader *reader, unsigned field, int64_t absent);
pid_t snap_merge_pid(struct snap_merge_reader *reader, unsigned field, const char *key);
/* A text that will be kept is of a reasonable length. */
void snap_merge_check_text(struct snap_merge_reader *reader, const char *key,
			   const struct snap_json_span *span);
int64_t snap_merge_time(struct snap_merge_reader *reader, const struct snap_json_span *span);

/* ---- stack.c ---- */

void snap_merge_begin_stack(struct snap_merge_reader *reader, uint32_t owner);
void snap_merge_end_stack(struct snap_merge_reader *reader);
void snap_merge_take_label(struct snap_merge_reader *reader, enum snap_json_token token);
void snap_merge_end_labels(struct snap_merge_reader *reader);
void snap_merge_end_gap(struct snap_merge_reader *reader);
void snap_merge_end_thread(struct snap_merge_reader *reader);
void snap_merge_end_example(struct snap_merge_reader *reader);
/* What can be checked only at the end: sets of hosts, owners of threads. */
void snap_merge_check_document(struct snap_merge_reader *reader);

/* ---- entry.c ---- */

void snap_merge_begin_entries(struct snap_merge_reader *reader);
void snap_merge_end_entry(struct snap_merge_reader *reader);
void snap_merge_end_entries(struct snap_merge_reader *reader);
