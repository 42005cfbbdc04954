/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits along the time of a thread: from when to when it waited for one object while one thread had
 * that in one function, for formats that draw time. Of objects that have a name.
 *
 * All marks together take so many bytes of texts at most; the last one says so. Texts are raw bytes
 * of the recording. Knows nothing of any format.
 */
#pragma once

#include "base/table.h"
#include "model/options.h"
#include "render/view/spans.h"
#include "render/wait/holders.h"

struct snap_wait_mark {
	uint32_t first, last; /* ticks, between which none were missed */
	const char *object;   /* equal text, equal pointer */
	bool has_holder;
	struct snap_holder_span holder;
	const char *holder_name; /* of the thread; NULL unknown */
};

struct snap_wait_marks {
	const struct snap_recording *recording;
	const struct snap_options *options;
	struct snap_holders holders;
	struct snap_timeline timeline;
	struct snap_interner texts;        /* in the holders' arena */
	struct snap_pointer_table objects; /* of waits: their texts */
	size_t bytes;                      /* that marks may still take */
	bool reported;                     /* that there are no more */
	/* of the current track */
	struct snap_wait_mark *items;
	size_t count, capacity;
};

/* NO_MEMORY. Released by snap_wait_marks_deinit() in any case. */
struct stacksnap_error *snap_wait_marks_init(struct snap_wait_marks *marks,
					     const struct snap_recording *recording,
					     const struct snap_options *options) _must_check_;
void snap_wait_marks_deinit(struct snap_wait_marks *marks);

/* Fills in those of a track, in order. False without memory. */
bool snap_wait_marks_make(struct snap_wait_marks *marks,
			  const struct snap_track *track) _must_check_;
