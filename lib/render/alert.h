/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Alerts of a watch as lines: text, or JSON Lines (stacksnap-json(5)). Each line is of one alert, and
 * says nothing of others. Knows nothing of how an alert is noticed, nor where lines go.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/wait/alert.h"

#include <stdio.h>

/* One line, escaped for the options' charset. NO_MEMORY; OS: the FILE has an error. */
struct stacksnap_error *snap_render_alert_text(const struct snap_alert *alert,
					       const struct snap_options *options,
					       FILE *out) _must_check_;
struct stacksnap_error *snap_render_alert_json(const struct snap_alert *alert,
					       FILE *out) _must_check_;
