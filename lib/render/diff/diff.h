/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What changed between two looks, as text, as JSON (stacksnap-json(5)) and as a page for a browser
 * (render/html/diff.c): see model/diff/diff.h. All three show a diff that is whole; none compares
 * anything (diff/).
 */
#pragma once

#include "base/error.h"
#include "model/diff/diff.h"
#include "model/options.h"

#include <stdio.h>

struct stacksnap_error *snap_render_diff_text(const struct snap_diff *diff,
					      const struct snap_options *options,
					      FILE *out) _must_check_;
struct stacksnap_error *snap_render_diff_json(const struct snap_diff *diff,
					      const struct snap_options *options,
					      FILE *out) _must_check_;
struct stacksnap_error *snap_render_diff_html(const struct snap_diff *diff,
					      const struct snap_options *options,
					      FILE *out) _must_check_;
