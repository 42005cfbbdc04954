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
#include "roles/collector/collector.h"

/*
 * A capture is held by its collector (roles/collector/collector.h). The options' timeout runs from
 * here, or, for one that was loaded, from its analysis.
 */
struct snap_error *snap_pipeline_capture(const struct snap_options *options,
					 struct snap_collector **ret) _must_check_;
struct snap_error *snap_pipeline_load_capture(int fd, struct snap_collector **ret) _must_check_;
struct snap_error *snap_pipeline_analyze(struct snap_collector *collector,
					 const struct snap_options *options,
					 struct snap_snapshot **ret) _must_check_;
/* Both in one, which is faster. The collector that is handed over is dismissed already. */
struct snap_error *snap_pipeline_take(const struct snap_options *options,
				      struct snap_snapshot **ret,
				      struct snap_collector **collector_ret) _must_check_;
struct snap_error *snap_pipeline_list(const struct snap_options *options,
				      struct snap_snapshot **ret) _must_check_;
/* A recording file, with names for what has none yet; the slice of the options. */
struct snap_error *snap_pipeline_load_recording(int fd, const struct snap_options *options,
						struct snap_recording **ret) _must_check_;

#endif
