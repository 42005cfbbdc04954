/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What threads wait for in a trace: an instant on the thread's line where a wait begins, and where
 * another thread, or another function of it, has what it waits for.
 */
#include "render/chrome/chrome.h"

struct stacksnap_error *snap_chrome_put_waits(struct snap_chrome *chrome,
					      const struct snap_track *track)
{
	const struct snap_recording *recording = chrome->recording;
	struct snap_wait_marks *marks = &chrome->marks;
	struct snap_json_writer *json = chrome->json;

	SNAP_TRY(snap_no_memory_unless(snap_wait_marks_make(marks, track)));
	for (size_t i = 0; i < marks->count; i++) {
		const struct snap_wait_mark *mark = &marks->items[i];

		snap_chrome_begin(chrome, "i", recording->processes[track->process].node->pid,
				  track->tid);
		snap_json_clean(json, "name", "wait");
		snap_json_clean(json, "cat", "wait");
		snap_json_clean(json, "s", "t");
		snap_json_number(json, "ts", snap_chrome_us(recording->ticks[mark->first].time_ns));
		snap_json_begin(json, "args", '{');
		snap_json_text(json, "object", mark->object);
		if (mark->has_holder) {
			snap_json_text_if(json, "holder", mark->holder.function);
			snap_json_number(json, "held_by", mark->holder.tid);
			snap_json_text_if(json, "name", mark->holder_name);
		}
		snap_json_end(json, '}');
		snap_json_end(json, '}');
	}
	return NULL;
}
