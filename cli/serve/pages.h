/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The HTML pages: plain lists of links, without script. Every text of a target is escaped twice: of
 * what no terminal should see, and of what HTML has a meaning for. Knows nothing of connections.
 */
#pragma once

#include "options.h"

/* The list of the targets and their processes. */
void snap_serve_put_home(const struct snap_cli_request *request,
			 const struct stacksnap_snapshot *list, FILE *out);
/* What /debug/pprof/ has; `target` as of the order, or NULL. */
void snap_serve_put_pprof_index(const char *target, FILE *out);
