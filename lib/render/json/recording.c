/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording as one JSON document, see stacksnap-json(5): the run's figures, then the processes as
 * in a snapshot's document, whose groups have samples.
 */
#include "render/json/document.h"
#include "render/render.h"
#include "render/view/recorded_groups.h"

static void put_figure(struct snap_members *members, const char *key, double figure)
{
	snap_members_key(members, key);
	/* What a file says may be no number at all. */
	snap_json_out_decimal(members->out,
			      figure > 0 && figure < 1e12 ? (int64_t)(figure * 10000 + 0.5) : 0, 4);
}

/* The run's own figures, as --stats has them, whatever slice is at hand. */
static void put_run(struct snap_members *outer, const struct snap_recording *recording)
{
	const struct snap_recording_stats *stats = &recording->stats;
	struct snap_members members = { .out = outer->out };

	snap_members_key(outer, "recording");
	snap_json_out_raw(outer->out, "{");
	put_figure(&members, "hz_asked", stats->hz_asked);
	put_figure(&members, "hz_reached", stats->hz_reached);
	snap_members_number(&members, "ticks", (int64_t)stats->ticks);
	snap_members_number(&members, "ticks_missed", (int64_t)stats->ticks_missed);
	snap_members_number(&members, "duration_ns", stats->duration_ns);
	snap_members_number(&members, "stopped_ns", stats->stopped_ns);
	put_figure(&members, "stopped_percent", snap_recording_stopped_percent(stats));
	snap_members_number(&members, "threads", (int64_t)stats->threads);
	snap_members_number(&members, "thread_samples", (int64_t)stats->thread_samples);
	snap_members_number(&members, "stacks", (int64_t)stats->stacks);
	snap_members_number(&members, "kept", (int64_t)stats->kept);
	snap_members_number(&members, "unstopped", (int64_t)stats->unstopped);
	snap_members_number(&members, "alone", (int64_t)stats->alone);
	snap_members_text(&members, "mode", recording->cpu_only ? "cpu" : "wall");
	snap_members_text(&members, "end", snap_recording_end_word(recording->end));
	snap_json_out_raw(outer->out, "}");
}

static void put_head(struct snap_json_out *out, const struct snap_recording *recording,
		     const struct snap_recorded_groups *groups)
{
	const struct snap_snapshot *snapshot = &groups->snapshot;
	struct snap_members members = { .out = out };

	snap_json_out_raw(out, "{");
	snap_members_text(&members, "schema", "stacksnap.recording");
	snap_members_number(&members, "schema_version", 1);
	snap_json_put_origin(&members, &recording->host);
	snap_members_time(&members, "time", recording->time_ns);
	snap_members_count(&members, "duration_ns", recording->duration_ns);
	snap_members_count(&members, "period_ns", recording->period_ns);
	snap_members_flag(&members, "slice", recording->is_slice);
	if (recording->is_slice && recording->tick_count)
		snap_members_number(&members, "from_ns", recording->ticks[0].time_ns);
	put_run(&members, recording);
	snap_members_number(&members, "tick_count", (int64_t)recording->tick_count);
	snap_members_number(&members, "sample_count", (int64_t)groups->samples);
	snap_members_number(&members, "process_count", (int64_t)snapshot->process_count);
	snap_members_number(&members, "thread_count", (int64_t)snapshot->thread_count);
	snap_members_number(&members, "stack_count", (int64_t)snapshot->stack_count);
}

struct snap_error *snap_render_json_recording(const struct snap_recording *recording,
					      const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_json_writer_deinit) struct snap_json_writer writer = { 0 };
	_cleanup_(snap_recorded_groups_deinit) struct snap_recorded_groups groups;
	struct snap_error *err;

	err = snap_recorded_groups_init(&groups, recording, options);
	if (err)
		return err;
	err = snap_json_writer_init(&writer, out, false);
	if (err)
		return err;
	writer.sample_ns = snap_recording_weight(recording);
	put_head(writer.out, recording, &groups);
	snap_json_put_processes(&writer, &groups.snapshot);
	return snap_json_writer_finish(&writer, out);
}
