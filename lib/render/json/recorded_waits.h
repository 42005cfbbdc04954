/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits of a recording as JSON: time by wait, and what was waited for, which samples refer to by
 * number. Knows nothing of the rest of the document.
 */
#pragma once

#include "base/table.h"
#include "model/options.h"
#include "model/recording.h"
#include "render/json/writer.h"

/*
 * The keys of the document; nothing where nothing was looked at. `numbers`: of each wait (struct
 * snap_wait) that is listed its number, from 1 on. NO_MEMORY.
 */
struct stacksnap_error *
snap_json_recorded_waits_put(struct snap_json_writer *json, const struct snap_recording *recording,
			     const struct snap_options *options,
			     struct snap_pointer_table *numbers) _must_check_;
