/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Downloads by debuginfod. Servers decide how long an answer takes and how large it is, so all files
 * share one budget of time and bytes. A file that exceeds three quarters of the rest of the time, or
 * the rest of the bytes, is left out.
 */
#pragma once

#include "model/options.h"
#include "roles/broker.h"

struct snap_download;

/*
 * *download is NULL before the first file. A file that came once, or that no server has, needs no time
 * when it is asked for again. `until_ns`: how long the caller waits, 0: for ever. TIMEOUT: the file is
 * left out, nothing of it stays in the cache. NOT_FOUND, PERMISSION, OTHER, OS.
 */
struct stacksnap_error *snap_download_find(struct snap_download **download,
					   const struct snap_options *options,
					   const struct snap_broker_request *request,
					   int64_t until_ns, int *fd_ret) _must_check_;
/* After the last file. NULL-safe. */
void snap_download_destroy(struct snap_download *download);
