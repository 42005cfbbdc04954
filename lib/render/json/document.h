/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots as JSON documents (stacksnap-json(5)): one for people's eyes, or many, a line each.
 *
 * Over many documents the text of stacks is kept: see frames.h for what that asks of their
 * frames. Knows nothing of recordings.
 */
#pragma once

#include "base/table.h"
#include "model/options.h"
#include "model/snapshot.h"
#include "render/json/frames.h"
#include "render/json/writer.h"
#include "render/view/together.h"

struct snap_json_document {
	struct snap_json_writer *json;
	const struct snap_options *options; /* NULL: it has no processes */
	struct snap_json_entries entries;
	int64_t sample_ns; /* length of a sample, of a recording */
	/* Of a recording: the numbers by which threads refer to waits; NULL: they have them whole. */
	const struct snap_pointer_table *wait_numbers;
	bool any_stopped; /* of the snapshot that is written */
	bool failed;      /* no memory */
};

/* NO_MEMORY; released by snap_json_document_deinit() in any case. */
struct stacksnap_error *snap_json_document_init(struct snap_json_document *document,
						const struct snap_options *options, FILE *out,
						enum snap_json_style style) _must_check_;
void snap_json_document_deinit(struct snap_json_document *document);

/* A whole document; any number of them. False without memory. */
bool snap_json_document_put(struct snap_json_document *document,
			    const struct snap_snapshot *snapshot);
/* What is buffered goes out. OS: the FILE has an error; NO_MEMORY. */
struct stacksnap_error *snap_json_document_finish(struct snap_json_document *document,
						  FILE *out) _must_check_;

/* The opening bracket and what tells the schema and the tool. */
void snap_json_schema_put(struct snap_json_writer *json, const char *schema);
/* The object "host" alone, as all documents have it. */
void snap_json_host_put(struct snap_json_writer *json, const struct snap_host *host);
/* "labels", "unwind" and "entries" of a group, and what else tells how its stack ended. */
void snap_json_stack_put(struct snap_json_document *document, const struct snap_stack *stack);
/* The array "warnings". */
void snap_json_warnings_put(struct snap_json_writer *json, const struct snap_warning *warnings,
			    size_t count);

/* Parts of other documents: the opening bracket and all up to "host". */
void snap_json_document_begin(struct snap_json_document *document, const char *schema,
			      const struct snap_host *host);
/* Stacks of all processes, the tree, the warnings, the closing bracket. */
void snap_json_document_end(struct snap_json_document *document,
			    const struct snap_together *together);
