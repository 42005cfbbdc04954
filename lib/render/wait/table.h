/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Time by wait as a table of text. Knows nothing of how it is counted (waited.h). */
#pragma once

#include "model/recording.h"
#include "render/text/line.h"
#include "render/wait/waited.h"

/* "held by 11447 worker-3 (in charge_order)"; malloc'ed, NULL without memory. */
char *snap_waited_holder_text(const struct snap_waited_row *row,
			      const struct snap_waited_holder *holder);

/* Deadlocks, and the table behind an empty line; nothing where nothing was waited for. NO_MEMORY. */
struct stacksnap_error *snap_waited_put_table(struct snap_sheet *lines,
					      const struct snap_options *options,
					      const struct snap_recording *recording) _must_check_;
