/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Render: a pure function from a Snapshot or a Recording to bytes.
 *
 * To add a format: write render/NAME.c, or a folder, with the functions below, add one line to the
 * table in render.c; --format, its help and the suffixes of -o come from the table. Renderers know
 * nothing of processes that run, and escape every string they are given.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/recording.h"
#include "render/view/limit/limit.h"

#include <stdio.h>

enum snap_format_bytes {
	SNAP_TEXT,
	SNAP_BINARY, /* nothing for a terminal */
	SNAP_GZIP,   /* the same; what the functions below write is compressed */
};

struct snap_format {
	const char *name;
	const char *suffix; /* of -o FILE, with its dot */
	const char *help;
	/* NULL: a snapshot is rendered as a recording of one tick */
	struct stacksnap_error *(*snapshot)(const struct snap_snapshot *snapshot,
					    const struct snap_options *options, FILE *out);
	struct stacksnap_error *(*recording)(const struct snap_recording *recording,
					     const struct snap_options *options, FILE *out);
	enum snap_format_bytes bytes;
	enum snap_frame_use frames; /* of a recording */
};

/* The table, ended by a NULL name. */
extern const struct snap_format snap_formats[];

/* NULL: none is called so. */
const struct snap_format *snap_format_by_name(const char *name);
/* By the longest suffix that fits; NULL: none does. */
const struct snap_format *snap_format_by_path(const char *path);

/* Either in a format of the table. */
struct stacksnap_error *snap_render_snapshot(const struct snap_format *format,
					     const struct snap_snapshot *snapshot,
					     const struct snap_options *options,
					     FILE *out) _must_check_;
struct stacksnap_error *snap_render_recording(const struct snap_format *format,
					      const struct snap_recording *recording,
					      const struct snap_options *options,
					      FILE *out) _must_check_;
/*
 * The same; *warning_ret, malloc'ed, is what was left out for the size of the report, which not
 * each format can say. NULL: nothing was.
 */
struct stacksnap_error *snap_render_recording_telling(const struct snap_format *format,
						      const struct snap_recording *recording,
						      const struct snap_options *options, FILE *out,
						      char **warning_ret) _must_check_;

struct stacksnap_error *snap_render_text(const struct snap_snapshot *snapshot,
					 const struct snap_options *options,
					 FILE *out) _must_check_;
struct stacksnap_error *snap_render_json(const struct snap_snapshot *snapshot,
					 const struct snap_options *options,
					 FILE *out) _must_check_;
struct stacksnap_error *snap_render_pprof(const struct snap_recording *recording,
					  const struct snap_options *options,
					  FILE *out) _must_check_;
struct stacksnap_error *snap_render_jsonl(const struct snap_snapshot *snapshot,
					  const struct snap_options *options,
					  FILE *out) _must_check_;
struct stacksnap_error *snap_render_jsonl_recording(const struct snap_recording *recording,
						    const struct snap_options *options,
						    FILE *out) _must_check_;
struct stacksnap_error *snap_render_folded(const struct snap_recording *recording,
					   const struct snap_options *options,
					   FILE *out) _must_check_;
/* `stacksnap list`: the tree without stacks, as text. */
struct stacksnap_error *snap_render_list(const struct snap_snapshot *snapshot,
					 const struct snap_options *options,
					 FILE *out) _must_check_;

struct stacksnap_error *snap_render_chrome(const struct snap_recording *recording,
					   const struct snap_options *options,
					   FILE *out) _must_check_;
struct stacksnap_error *snap_render_speedscope(const struct snap_recording *recording,
					       const struct snap_options *options,
					       FILE *out) _must_check_;
struct stacksnap_error *snap_render_firefox(const struct snap_recording *recording,
					    const struct snap_options *options,
					    FILE *out) _must_check_;
struct stacksnap_error *snap_render_html(const struct snap_snapshot *snapshot,
					 const struct snap_options *options,
					 FILE *out) _must_check_;
struct stacksnap_error *snap_render_html_recording(const struct snap_recording *recording,
						   const struct snap_options *options,
						   FILE *out) _must_check_;
struct stacksnap_error *snap_render_json_recording(const struct snap_recording *recording,
						   const struct snap_options *options,
						   FILE *out) _must_check_;
struct stacksnap_error *snap_render_text_recording(const struct snap_recording *recording,
						   const struct snap_options *options,
						   FILE *out) _must_check_;

struct stacksnap_error *snap_render_snaprec(const struct snap_recording *recording,
					    const struct snap_options *options,
					    FILE *out) _must_check_;
