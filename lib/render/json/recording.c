/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording as one JSON document, see stacksnap-json(5): the run's figures, what was waited for,
 * then the processes as in a snapshot's document, whose groups have samples.
 */
#include "render/json/document.h"
#include "render/json/recorded_waits.h"
#include "render/render.h"
#include "render/view/figures.h"
#include "render/view/recorded/groups.h"

static void put_recording_head(struct snap_json_document *document,
			       const struct snap_recording *recording,
			       const struct snap_recorded_groups *groups,
			       const struct snap_snapshot *snapshot)
{
	struct snap_json_writer *json = document->json;

	snap_json_document_begin(document, "stacksnap.recording", &recording->host);
	snap_json_time_if(json, "time", recording->time_ns);
	snap_json_number_if(json, "duration_ns", recording->duration_ns);
	snap_json_number_if(json, "period_ns", recording->period_ns);
	snap_json_true_if(json, "slice", recording->is_slice);
	if (recording->is_slice && recording->tick_count)
		snap_json_number(json, "from_ns", recording->ticks[0].time_ns);
	/* Of the whole run, whichever slice this is. */
	snap_json_begin(json, "recording", '{');
	snap_figures_put(json, recording);
	snap_json_end(json, '}');
	snap_json_number(json, "tick_count", (int64_t)recording->tick_count);
	snap_json_number(json, "sample_count", (int64_t)groups->samples);
	snap_json_number(json, "process_count", (int64_t)snapshot->process_count);
	snap_json_number(json, "thread_count", (int64_t)snapshot->thread_count);
	snap_json_number_if(json, "task_count", (int64_t)snapshot->task_count);
	snap_json_number(json, "stack_count", (int64_t)snapshot->stack_count);
}

struct stacksnap_error *snap_render_json_recording(const struct snap_recording *recording,
						   const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_json_document_deinit) struct snap_json_document document = { 0 };
	_cleanup_(snap_recorded_groups_deinit) struct snap_recorded_groups groups;
	_cleanup_(snap_pointer_table_deinit) struct snap_pointer_table numbers = { 0 };
	_cleanup_(snap_together_deinit) struct snap_together together = { .empty = NULL };

	SNAP_TRY(snap_recorded_groups_init(&groups, recording, options));
	SNAP_TRY(snap_no_memory_unless(snap_together_init(&together, &groups.snapshot, options)));
	SNAP_TRY(snap_json_document_init(&document, options, out, SNAP_JSON_SPACED));
	document.sample_ns = snap_recording_weight(recording);
	document.wait_numbers = &numbers;
	put_recording_head(&document, recording, &groups, &together.snapshot);
	SNAP_TRY(snap_json_recorded_waits_put(document.json, recording, options, &numbers));
	snap_json_document_end(&document, &together);
	return snap_json_document_finish(&document, out);
}
