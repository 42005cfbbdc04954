/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Collect: what the tracing child has found becomes part of the capture.
 *
 * Nothing is copied: threads, maps, registers and stacks stay in the shared mapping. Says what went
 * wrong in the words of the model. Stops no thread.
 */
#pragma once

#include "stop/tracer.h"

/* Takes over one stop, complete or not. NO_MEMORY. */
struct stacksnap_error *snap_capture_collect(const struct snap_options *options,
					     struct snap_capture *capture,
					     struct snap_stop *stop) _must_check_;

/*
 * How many bytes are to be read at its arguments in the moment of the stacks; 0: none. The command line
 * that discovery has read may be older.
 */
size_t snap_capture_args_wanted(const struct snap_process *process);

/* A process that was not copied as nothing more could be: the trouble that it has. */
void snap_capture_set_out_of_time(struct snap_capture *capture, struct snap_process *process);
