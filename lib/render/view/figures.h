/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The figures of a run: names, decimals and units, the same in all formats.
 *
 * In JSON rates have three decimals, percents four; in text rates have one and percents two.
 * Does not know how they were measured.
 */
#pragma once

#include "model/recording.h"
#include "render/json/writer.h"
#include "render/view/when.h"

enum snap_figure {
	SNAP_FIGURE_HZ_ASKED,
	SNAP_FIGURE_HZ_REACHED,
	SNAP_FIGURE_TICKS,
	SNAP_FIGURE_TICKS_MISSED,
	SNAP_FIGURE_DURATION,
	SNAP_FIGURE_STOPPED,
	SNAP_FIGURE_STOPPED_PERCENT,
	SNAP_FIGURE_THREADS,
	SNAP_FIGURE_THREAD_SAMPLES,
	SNAP_FIGURE_STACKS,
	SNAP_FIGURE_KEPT,
	SNAP_FIGURE_UNSTOPPED,
	SNAP_FIGURE_ALONE,
	SNAP_FIGURE_LEFT_OUT,
	/* printed where there were any */
	SNAP_FIGURE_TICKS_LATE,
	SNAP_FIGURE_TICKS_LEFT_OUT,
	SNAP_FIGURE_TASK_LOOKS,
	SNAP_FIGURE_TASK_LOOKS_LEFT_OUT,
	SNAP_FIGURE_COUNT,
};

/* Some are printed if they are not zero, the others always. */
bool snap_figure_is_reported(const struct snap_recording_stats *stats, enum snap_figure figure);
/* "Rate reached", for people; static. */
const char *snap_figure_label(enum snap_figure figure);
/* "83.3 Hz", "10", "1.25 s", "0.83 %"; returns `out`. */
const char *snap_figure_text(const struct snap_recording_stats *stats, enum snap_figure figure,
			     char out[SNAP_WHEN_SIZE]);

/* All of them, and why the run ended, in an object that has been begun. */
void snap_figures_put(struct snap_json_writer *json, const struct snap_recording *recording);
