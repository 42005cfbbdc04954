/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a recording amounts to, in a few lines for people and as figures for programs.
 *
 * No formats of the table: neither has what a recording holds. Knows nothing of how it was taken.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/recording.h"

#include <stdio.h>

/* Rates, ticks, share of the time stopped, samples; the top functions of each state. */
struct stacksnap_error *snap_render_figures(const struct snap_recording *recording,
					    const struct snap_options *options,
					    FILE *out) _must_check_;
/* The same, and time by wait. */
struct stacksnap_error *snap_render_summary(const struct snap_recording *recording,
					    const struct snap_options *options,
					    FILE *out) _must_check_;

/* The figures as one JSON object and a newline. */
struct stacksnap_error *snap_render_stats(const struct snap_recording *recording,
					  FILE *out) _must_check_;
