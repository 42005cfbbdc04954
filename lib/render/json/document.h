/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots as JSON documents (stacksnap-json(5)): one for people's eyes, or many, a line each.
 *
 * Over many documents the text of stacks is kept: see entries.h for what that asks of their
 * frames. Knows nothing of recordings.
 */
#ifndef SNAP_RENDER_JSON_DOCUMENT_H
#define SNAP_RENDER_JSON_DOCUMENT_H

#include "model/snapshot.h"
#include "render/json/entries.h"
#include "render/json/members.h"

struct snap_json_writer {
	struct snap_json_out *out;
	bool lines; /* a document is one line, and more are to come */
	struct snap_json_entries entries;
	int64_t sample_ns; /* what a sample of a recording stands for */
	bool failed;       /* no memory */
};

/* NO_MEMORY; released by snap_json_writer_deinit() in any case. */
struct snap_error *snap_json_writer_init(struct snap_json_writer *writer, FILE *out,
					 bool lines) _must_check_;
void snap_json_writer_deinit(struct snap_json_writer *writer);

/* A whole document, with an end of line. False without memory. */
bool snap_json_writer_put(struct snap_json_writer *writer, const struct snap_snapshot *snapshot);
/* What is buffered goes out. OS: the FILE has an error; NO_MEMORY. */
struct snap_error *snap_json_writer_finish(struct snap_json_writer *writer, FILE *out) _must_check_;

/* Parts of other documents: `"tool": …, "host": …`. */
void snap_json_put_origin(struct snap_members *members, const struct snap_host *host);
/* From behind the head on: the tree, the warnings, the end. */
void snap_json_put_processes(struct snap_json_writer *writer, const struct snap_snapshot *snapshot);

#endif
