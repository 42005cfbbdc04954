/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The flow, in order: capture or record, analyze, render. Knows the stages and nothing of what is
 * inside them.
 */
#pragma once

#include "base/error.h"
#include "merge/input.h"
#include "model/diff/diff.h"
#include "model/options.h"
#include "model/recording.h"
#include "record/recorder.h"
#include "render/view/recorded/groups.h"
#include "roles/collector/collector.h"

#include <stdio.h>

/*
 * A capture is held by its collector (roles/collector/collector.h). The options' timeout runs from
 * here, or, for one that was loaded, from its analysis.
 */
struct stacksnap_error *snap_pipeline_capture(const struct snap_options *options,
					      struct snap_collector **ret) _must_check_;
struct stacksnap_error *snap_pipeline_load_capture(int fd,
						   struct snap_collector **ret) _must_check_;
/* Of a core (core/core.h), packed or not: a file that can be read at any place. */
struct stacksnap_error *snap_pipeline_load_core(int fd, const struct snap_options *options,
						struct snap_collector **ret) _must_check_;
struct stacksnap_error *snap_pipeline_analyze(struct snap_collector *collector,
					      const struct snap_options *options,
					      struct snap_snapshot **ret) _must_check_;
/* Both in one, which is faster. The collector that is handed over is dismissed already. */
struct stacksnap_error *snap_pipeline_take(const struct snap_options *options,
					   struct snap_snapshot **ret,
					   struct snap_collector **collector_ret) _must_check_;
struct stacksnap_error *snap_pipeline_list(const struct snap_options *options,
					   struct snap_snapshot **ret) _must_check_;
/* A snapshot's JSON document, see snap_read_json_in_sandbox(). */
struct stacksnap_error *snap_pipeline_load_snapshot(int fd, const struct snap_options *options,
						    struct snap_snapshot **ret) _must_check_;
/* What a recorder holds, see snap_recorder_recording(). */
struct stacksnap_error *snap_pipeline_slice(struct snap_recorder *recorder,
					    const struct snap_options *options,
					    struct snap_recording **ret) _must_check_;
/* A recording file, with names for what has none yet; the slice of the options. */
struct stacksnap_error *snap_pipeline_load_recording(int fd, const struct snap_options *options,
						     struct snap_recording **ret) _must_check_;

/* In a format by its name; INVALID: there is none. `is_list`: a tree without stacks. */
struct stacksnap_error *snap_pipeline_render_snapshot(const struct snap_snapshot *snapshot,
						      bool is_list,
						      const struct snap_options *options,
						      const char *format, FILE *out) _must_check_;
/* *warning_ret, malloc'ed: what was left out for the size of the report; NULL: nothing. */
struct stacksnap_error *snap_pipeline_render_recording(const struct snap_recording *recording,
						       const struct snap_options *options,
						       const char *format, FILE *out,
						       char **warning_ret) _must_check_;
/* As snap_merge_input(), also of a packed file. */
struct stacksnap_error *snap_pipeline_merge(struct snap_merge_input *input, int fd,
					    const char *name) _must_check_;
/* What was merged, in the formats that can show it. */
struct stacksnap_error *snap_pipeline_render_merged(const struct snap_merger *merger,
						    const struct snap_options *options,
						    const char *format, FILE *out) _must_check_;

/* A snapshot or a recording, the other one NULL. */
struct snap_pipeline_look {
	const struct snap_snapshot *snapshot;
	const struct snap_recording *recording;
};

/* What changed between two, and what that borrows from beside them. */
struct snap_pipeline_diff {
	struct snap_diff *diff;
	struct snap_recorded_groups before, after; /* of recordings */
};

/* Both must outlive the result, which is to be released by snap_pipeline_diff_deinit() in any case. */
struct stacksnap_error *snap_pipeline_diff(const struct snap_pipeline_look *before,
					   const struct snap_pipeline_look *after,
					   const struct snap_options *options,
					   struct snap_pipeline_diff *ret) _must_check_;
/*
 * Threads of `after` that are stuck since `before` are marked, see snap_diff_mark_stuck(), and counted;
 * then the options' filters apply. Both were taken without filters of threads.
 */
struct stacksnap_error *snap_pipeline_mark_stuck(const struct snap_snapshot *before,
						 const struct snap_options *options,
						 struct snap_snapshot *after) _must_check_;
void snap_pipeline_diff_deinit(struct snap_pipeline_diff *diff);
/* INVALID: not in that format. */
struct stacksnap_error *snap_pipeline_render_diff(const struct snap_diff *diff,
						  const struct snap_options *options,
						  const char *format, FILE *out) _must_check_;
