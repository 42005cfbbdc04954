/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Save: what the recorder answered, to a file whose suffix says in which format. Knows nothing of
 * screens: what it has to say are messages.
 */
#pragma once

#include "top/feed.h"

/* A name for a file of now: of a process (0: of none), and of the ring or a snapshot. */
void snap_top_save_name(pid_t pid, bool ring, char *out, size_t size);

/* Writes it and destroys it. Tells what came of it in any case. */
void snap_top_save(struct snap_cli_request *request, const char *path,
		   struct snap_top_answer *answer);
