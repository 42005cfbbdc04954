/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The line on a terminal that says where a recording stands. Knows nothing of how it is made.
 */
#pragma once

#include "stacksnap.h"

#include <stdbool.h>
#include <stdint.h>

struct snap_cli_record_progress {
	bool on;          /* stderr is a terminal */
	bool ring;        /* it goes on until a signal ends it */
	int64_t shown_ms; /* when it was printed last */
};

void snap_cli_record_progress_init(struct snap_cli_record_progress *progress, bool ring);

/* Prints the line, if it is time to; to be called after each tick. */
void snap_cli_record_progress_show(struct snap_cli_record_progress *progress,
				   const struct stacksnap_recorder_status *status);
