/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The texts that Go's net/http/pprof prints of goroutines, for the threads and tasks of a snapshot.
 *
 * No file has their names, so they are not in the table of formats. Know nothing of the web.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/snapshot.h"

#include <stdio.h>

/*
 * "threads profile: total N", then each stack with its count, its addresses, its labels and its
 * functions. `go tool pprof` reads it, labels aside.
 */
struct stacksnap_error *snap_render_thread_counts(const struct snap_snapshot *snapshot,
						  const struct snap_options *options,
						  FILE *out) _must_check_;

/* Each thread and task with its whole stack, as a Go program dumps its goroutines. */
struct stacksnap_error *snap_render_thread_dump(const struct snap_snapshot *snapshot,
						const struct snap_options *options,
						FILE *out) _must_check_;
