/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options by name: fills struct snap_options from the names and texts that the command line and the
 * library share. Knows nothing of letters, help texts or argv.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"

/* The defaults that stacksnap(1) gives. */
void snap_options_init(struct snap_options *options);
void snap_options_deinit(struct snap_options *options);

/* See stacksnap_options_set(). */
struct stacksnap_error *snap_options_set(struct snap_options *options, const char *name,
					 const char *value) _must_check_;

/* See stacksnap_options_value(). */
const char *snap_options_value(const char *name, size_t index);
