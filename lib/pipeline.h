/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The flow, in order: capture, analyze. Rendering is the caller's next step. Knows the stages and
 * nothing of what is inside them.
 */
#ifndef SNAP_PIPELINE_H
#define SNAP_PIPELINE_H

#include "base/error.h"
#include "model/options.h"
#include "model/recording.h"

struct snap_error *snap_pipeline_capture(const struct snap_options *options,
					 struct snap_capture **ret) _must_check_;
struct snap_error *snap_pipeline_save(struct snap_capture *capture,
				      const struct snap_options *options, int fd) _must_check_;
struct snap_error *snap_pipeline_analyze(const struct snap_capture *capture,
					 const struct snap_options *options,
					 struct snap_snapshot **ret) _must_check_;
struct snap_error *snap_pipeline_list(const struct snap_options *options,
				      struct snap_snapshot **ret) _must_check_;
/* A recording file, with names for what has none yet; the slice of the options. */
struct snap_error *snap_pipeline_load_recording(int fd, const struct snap_options *options,
						struct snap_recording **ret) _must_check_;
/*
 * A snapshot from its JSON (render/json_read.h), from the descriptor's position on, with the
 * options' filters and --flat applied. FORMAT: it is none.
 */
struct snap_error *snap_pipeline_load_snapshot(int fd, const struct snap_options *options,
					       struct snap_snapshot **ret) _must_check_;

#endif
