/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Targets: from what was named when the server started, and what a request chooses of it, to the
 * options of one snapshot. A request cannot name a process that is none of these. Knows nothing
 * of HTTP.
 */
#pragma once

#include "options.h"

/* The target number `index` that has a name other than a pid; NULL past the last. */
const char *snap_serve_targets_name(const struct snap_cli_request *request, size_t index);

/*
 * Fresh options, the caller's, with everything that the command line says. `target`: NULL for all,
 * or the text of a target as it was named, or the pid of a process that is among them now. `seen`:
 * what snap_cli_request_look() found. *found_ret is false if there is no such one; then, and with
 * an error, *ret stays as it is.
 */
struct stacksnap_error *snap_serve_targets_choose(const struct snap_cli_request *request,
						  const struct stacksnap_snapshot *seen,
						  const char *target, const volatile int *cancel,
						  bool *found_ret, struct stacksnap_options **ret);
