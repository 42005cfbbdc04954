/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON Lines: whole snapshot documents (stacksnap-json(5)), each on a line. Of a recording there is
 * one a tick, or one every --interval; its warnings are in the first.
 */
#include "render/json/document.h"
#include "render/render.h"
#include "render/view/instant.h"

static struct snap_error *put_instants(struct snap_json_writer *writer,
				       struct snap_instants *instants, FILE *out)
{
	const struct snap_recording *recording = instants->recording;
	int64_t due = INT64_MIN, interval = instants->options->interval_ns;

	for (size_t i = 0; i < recording->tick_count; i++) {
		int64_t now = recording->ticks[i].time_ns;
		struct snap_snapshot *snapshot;

		if (now < due)
			continue;
		if (snap_options_cancelled(instants->options))
			return snap_error_cancelled();
		snapshot = snap_instants_at(instants, i);
		if (!snapshot)
			return snap_error_no_memory();
		if (due == INT64_MIN) {
			snapshot->warnings = recording->warnings;
			snapshot->warning_count = recording->warning_count;
			due = now;
		}
		if (!snap_json_writer_put(writer, snapshot) || ferror(out))
			break;
		if (interval > 0)
			due += ((now - due) / interval + 1) * interval;
	}
	return NULL;
}

struct snap_error *snap_render_jsonl_recording(const struct snap_recording *recording,
					       const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_json_writer_deinit) struct snap_json_writer writer = { 0 };
	_cleanup_(snap_instants_deinit) struct snap_instants instants;
	struct snap_error *err;

	err = snap_instants_init(&instants, recording, options);
	if (err)
		return err;
	err = snap_json_writer_init(&writer, out, true);
	if (err)
		return err;
	err = put_instants(&writer, &instants, out);
	if (err)
		return err;
	return snap_json_writer_finish(&writer, out);
}

struct snap_error *snap_render_jsonl(const struct snap_snapshot *snapshot,
				     const struct snap_options *options _unused_, FILE *out)
{
	_cleanup_(snap_json_writer_deinit) struct snap_json_writer writer;
	struct snap_error *err;

	err = snap_json_writer_init(&writer, out, true);
	if (err)
		return err;
	(void)snap_json_writer_put(&writer, snapshot);
	return snap_json_writer_finish(&writer, out);
}
