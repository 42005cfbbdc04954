/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Capture: from options to the plain bytes of a consistent moment.
 *
 * The stage that touches the target and understands nothing: discovers the tree, has a short-lived
 * child stop it and copy it (stop/tracer.c) or copies it while it runs (nostop.c), and puts what
 * came back into a struct snap_capture. Knows nothing of ELF, DWARF or output.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"
#include "stop/tracer.h"

/*
 * Takes one consistent snapshot's bytes, with --no-stop one that is not of one instant. Trouble of
 * single processes and threads is recorded on them. The result is the caller's, released by
 * snap_capture_destroy().
 */
struct stacksnap_error *snap_capture_take(const struct snap_options *options,
					  const struct snap_stop_hook *hook,
					  struct snap_capture **ret) _must_check_;

/* The tree alone: no stop, no threads, no maps (`stacksnap list`). */
struct stacksnap_error *snap_capture_list(const struct snap_options *options,
					  struct snap_capture **ret) _must_check_;
