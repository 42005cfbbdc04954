/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See waits.h. */
#include "render/speedscope/waits.h"

#include "render/view/tally.h"

#include <stdlib.h>

void snap_scope_waits_deinit(struct snap_scope_waits *waits)
{
	snap_pointer_table_deinit(&waits->table);
}

size_t snap_scope_frame_of_object(struct snap_scope_waits *waits, const char *object)
{
	const char *name = object && *object ? snap_profile_wait(waits->profile, object) : NULL;
	size_t number = name ? snap_scope_frame_named(waits->frames, name) : SIZE_MAX;

	if (!object || !*object)
		return 0;
	return number == SIZE_MAX ? number : number + 1;
}

size_t snap_scope_frame_of_run(struct snap_scope_waits *waits, const struct snap_run *run)
{
	const struct snap_recording *recording = waits->recording;
	unsigned by = snap_tally_of_frames(waits->options);
	struct snap_pointer_entry *found;
	const struct snap_wait *wait;

	if (!(by & SNAP_TALLY_OBJECT) || !run->wait || run->wait > recording->wait_count)
		return 0;
	wait = recording->waits[run->wait - 1].wait;
	if (!snap_wait_is_shown(wait, by & SNAP_TALLY_GUESS))
		return 0;
	found = snap_pointer_table_get(&waits->table, wait);
	if (found && !found->number) {
		_cleanup_free_ char *object = snap_wait_object(wait);
		size_t frame = object ? snap_scope_frame_of_object(waits, object) : SIZE_MAX;

		if (frame == SIZE_MAX)
			return frame;
		found->number = frame + 1;
	}
	return found ? found->number - 1 : SIZE_MAX;
}
