/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The figures of a run: see figures.h. */
#include "render/view/figures.h"

#include <inttypes.h>
#include <stddef.h>

enum kind { COUNT, RATE, LENGTH, PERCENT };
enum { RATE_DECIMALS = 3, PERCENT_DECIMALS = 4 };

/* A field of the statistics by its name, which is its key, too. */
#define STATISTIC(field) #field, offsetof(struct snap_recording_stats, field)

static const struct {
	const char *key;
	size_t at; /* of a double, a uint64_t or an int64_t, by its kind */
	const char *label;
	enum kind kind;
} figures[SNAP_FIGURE_COUNT] = {
	[SNAP_FIGURE_HZ_ASKED] = { STATISTIC(hz_asked), "Rate asked for", RATE },
	[SNAP_FIGURE_HZ_REACHED] = { STATISTIC(hz_reached), "Rate reached", RATE },
	[SNAP_FIGURE_TICKS] = { STATISTIC(ticks), "Ticks", COUNT },
	[SNAP_FIGURE_TICKS_MISSED] = { STATISTIC(ticks_missed), "Ticks missed", COUNT },
	[SNAP_FIGURE_DURATION] = { STATISTIC(duration_ns), "Duration", LENGTH },
	[SNAP_FIGURE_STOPPED] = { STATISTIC(stopped_ns), "Time stopped", LENGTH },
	[SNAP_FIGURE_STOPPED_PERCENT] = { "stopped_percent", 0, "Part of the time stopped",
					  PERCENT },
	[SNAP_FIGURE_THREADS] = { STATISTIC(threads), "Threads", COUNT },
	[SNAP_FIGURE_THREAD_SAMPLES] = { STATISTIC(thread_samples), "Samples", COUNT },
	[SNAP_FIGURE_STACKS] = { STATISTIC(stacks), "Distinct stacks", COUNT },
	[SNAP_FIGURE_KEPT] = { STATISTIC(kept), "Samples of threads that had not run", COUNT },
	[SNAP_FIGURE_UNSTOPPED] = { STATISTIC(unstopped), "Samples read without a stop", COUNT },
	[SNAP_FIGURE_ALONE] = { STATISTIC(alone), "Samples of stopped threads", COUNT },
	[SNAP_FIGURE_LEFT_OUT] = { STATISTIC(left_out), "Samples left out (--max-stopped)", COUNT },
	[SNAP_FIGURE_TICKS_LATE] = { STATISTIC(ticks_late), "Ticks missed, no processor was free",
				     COUNT },
	[SNAP_FIGURE_TICKS_LEFT_OUT] = { STATISTIC(ticks_left_out), "Ticks left out (memory)",
					 COUNT },
	[SNAP_FIGURE_TASK_LOOKS] = { STATISTIC(task_looks), "Looks at tasks that wait", COUNT },
	[SNAP_FIGURE_TASK_LOOKS_LEFT_OUT] = { STATISTIC(task_looks_left_out),
					      "Looks at tasks left out", COUNT },
};

/* What a file says may be no number at all. */
static int64_t fixed_point(double value, double unit)
{
	return value > 0 && value < 1e12 ? (int64_t)(value * unit + 0.5) : 0;
}

/* Counts, nanoseconds, thousandths of a Hz, ten-thousandths of a percent. */
static int64_t value_of_figure(const struct snap_recording_stats *stats, enum snap_figure figure)
{
	const void *field = (const char *)stats + figures[figure].at;

	switch (figures[figure].kind) {
	case COUNT:
		return (int64_t) * (const uint64_t *)field;
	case RATE:
		return fixed_point(*(const double *)field, 1e3);
	case LENGTH:
		return *(const int64_t *)field;
	case PERCENT:
		return fixed_point(snap_recording_stopped_percent(stats), 1e4);
	}
	return 0;
}

bool snap_figure_is_reported(const struct snap_recording_stats *stats, enum snap_figure figure)
{
	return figure < SNAP_FIGURE_TICKS_LATE || value_of_figure(stats, figure) != 0;
}

const char *snap_figure_label(enum snap_figure figure)
{
	return figures[figure].label;
}

const char *snap_figure_text(const struct snap_recording_stats *stats, enum snap_figure figure,
			     char out[SNAP_WHEN_SIZE])
{
	int64_t value = value_of_figure(stats, figure);

	switch (figures[figure].kind) {
	case COUNT:
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64, value);
		break;
	case RATE:
		value = (value + 50) / 100;
		if (value % 10)
			snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 ".%d Hz", value / 10,
				 (int)(value % 10));
		else
			snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 " Hz", value / 10);
		break;
	case LENGTH:
		snap_when_length(value, out);
		break;
	case PERCENT:
		value = (value + 50) / 100;
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 ".%02d %%", value / 100,
			 (int)(value % 100));
		break;
	}
	return out;
}

void snap_figures_put(struct snap_json_writer *json, const struct snap_recording *recording)
{
	static const int decimals[] = { [RATE] = RATE_DECIMALS, [PERCENT] = PERCENT_DECIMALS };

	for (unsigned i = 0; i < SNAP_FIGURE_COUNT; i++) {
		if (snap_figure_is_reported(&recording->stats, i))
			snap_json_decimal(json, figures[i].key,
					  value_of_figure(&recording->stats, i),
					  decimals[figures[i].kind]);
	}
	snap_json_text(json, "mode", recording->cpu_only ? "cpu" : "wall");
	snap_json_text(json, "end", snap_recording_end_word(recording->end));
}
