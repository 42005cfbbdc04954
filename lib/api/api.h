/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the public API share: how its names map to the inner ones. */
#pragma once

#include "stacksnap.h"

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"
#include "model/recording.h"
#include "roles/collector/collector.h"

/* Exported; everything else is hidden (and the version script says so again). */
#define API __attribute__((visibility("default")))

struct stacksnap_options {
	struct snap_options values;
};

struct stacksnap_capture {
	struct snap_collector *collector;
};

/* What they wrap. */
const struct snap_snapshot *snap_api_snapshot(const struct stacksnap_snapshot *snapshot);
const struct snap_recording *snap_api_recording(const struct stacksnap_recording *recording);

/* INVALID when there is no target. */
struct stacksnap_error *snap_api_check_targets(const struct snap_options *options) _must_check_;

/* Safe to print under the options' charset; in the arena; NULL without memory. */
const char *snap_api_escaped(struct snap_arena *arena, const char *text,
			     const struct snap_options *options);

/* The messages of warnings, each escaped like that; NULL without memory. */
const char **snap_api_messages(struct snap_arena *arena, const struct snap_warning *warnings,
			       size_t count, const struct snap_options *options);

/* The text of number `index` among bits of enum snap_wait_lack; NULL past the last; static. */
const char *snap_api_lack(unsigned lacks, size_t index);

/* What a warning says beside its message; pointers may be NULL. Always true. */
int snap_api_tell(const struct snap_warning *warning, const char **code_ret, pid_t *pid_ret,
		  pid_t *tid_ret);
