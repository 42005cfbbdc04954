/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The top of the text report: deadlocks, threads that hold up others, contended locks. Knows no tree and
 * no stacks; the words are those of model/wait/.
 */
#pragma once

#include "model/recording.h"
#include "render/text/line.h"

/*
 * Lines of their own, with an empty one in front unless they are the whole report; nothing where
 * there is nothing to say.
 */
void snap_text_top(struct snap_sheet *lines, const struct snap_options *options,
		   const struct snap_snapshot *snapshot);

/* Lines of the deadlocks alone, of a recording. */
void snap_text_deadlocks(struct snap_sheet *lines, const struct snap_options *options,
			 const struct snap_recording *recording, const struct snap_waits *waits);
