/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording as JSON Lines: a snapshot's document (stacksnap-json(5)) on a line for each tick, or
 * for one every --interval; the recording's warnings are in the first.
 */
#include "render/json/document.h"
#include "render/render.h"
#include "render/view/recorded/instants.h"

static struct stacksnap_error *put_instants(struct snap_json_document *document,
					    struct snap_instants *instants, FILE *out)
{
	const struct snap_recording *recording = instants->recording;
	int64_t due = INT64_MIN, interval = instants->options->interval_ns;

	for (size_t i = 0; i < recording->tick_count; i++) {
		int64_t now = recording->ticks[i].time_ns;
		struct snap_snapshot *snapshot;

		if (now < due)
			continue;
		SNAP_TRY(snap_options_check(instants->options));
		snapshot = snap_instants_at(instants, i);
		SNAP_TRY(snap_no_memory_unless(snapshot));
		if (due == INT64_MIN) {
			snapshot->warnings = recording->warnings;
			snapshot->warning_count = recording->warning_count;
			due = now;
		}
		if (!snap_json_document_put(document, snapshot) || ferror(out))
			break;
		if (interval > 0)
			due += ((now - due) / interval + 1) * interval;
	}
	return NULL;
}

struct stacksnap_error *snap_render_jsonl_recording(const struct snap_recording *recording,
						    const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_json_document_deinit) struct snap_json_document document = { 0 };
	_cleanup_(snap_instants_deinit) struct snap_instants instants;

	SNAP_TRY(snap_instants_init(&instants, recording, options));
	SNAP_TRY(snap_json_document_init(&document, options, out, SNAP_JSON_ONE_LINE));
	return put_instants(&document, &instants, out) ?: snap_json_document_finish(&document, out);
}
