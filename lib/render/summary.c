/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a recording amounts to: see summary.h. */
#include "render/summary.h"

#include "render/json_out.h"

struct snap_error *snap_render_summary(const struct snap_recording *recording _unused_,
				       const struct snap_options *options _unused_,
				       FILE *out _unused_)
{
	return snap_error_format(SNAP_ERROR_INVALID, "this version has no summary of recordings");
}

struct field {
	const char *key;
	int64_t number;
	int decimals; /* 0: whole; else number / 10^decimals */
};

struct snap_error *snap_render_stats(const struct snap_recording *recording, FILE *out)
{
	const struct snap_recording_stats *stats = &recording->stats;
	double percent = snap_recording_stopped_percent(stats);
	const struct field fields[] = {
		{ "hz_asked", (int64_t)(stats->hz_asked * 1000 + 0.5), 3 },
		{ "hz_reached", (int64_t)(stats->hz_reached * 1000 + 0.5), 3 },
		{ "ticks", (int64_t)stats->ticks, 0 },
		{ "ticks_missed", (int64_t)stats->ticks_missed, 0 },
		{ "duration_ns", stats->duration_ns, 0 },
		{ "stopped_ns", stats->stopped_ns, 0 },
		{ "stopped_percent", (int64_t)(percent * 10000 + 0.5), 4 },
		{ "threads", (int64_t)stats->threads, 0 },
		{ "thread_samples", (int64_t)stats->thread_samples, 0 },
		{ "stacks", (int64_t)stats->stacks, 0 },
		{ "kept", (int64_t)stats->kept, 0 },
		{ "unstopped", (int64_t)stats->unstopped, 0 },
		{ "alone", (int64_t)stats->alone, 0 },
	};
	_cleanup_(snap_json_out_destroyp) struct snap_json_out *json = snap_json_out_create(out);

	if (!json)
		return snap_error_no_memory();
	snap_json_out_raw(json, "{");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(fields); i++) {
		snap_json_out_clean(json, fields[i].key);
		snap_json_out_raw(json, ":");
		if (fields[i].decimals)
			snap_json_out_decimal(json, fields[i].number, fields[i].decimals);
		else
			snap_json_out_number(json, fields[i].number);
		snap_json_out_raw(json, ",");
	}
	snap_json_out_raw(json, "\"end\":");
	snap_json_out_clean(json, snap_recording_end_word(recording->end));
	snap_json_out_raw(json, "}\n");
	snap_json_out_flush(json);
	return json->failed ? snap_error_no_memory() : NULL;
}
