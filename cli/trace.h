/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The trace of threads, which -vv and STACKSNAP_TRACE ask for: printed on stderr at the end, thread
 * by thread. Knows nothing of what the events mean.
 */
#pragma once

#include "options.h"

/* Begins a trace if one is asked for; false after a message. */
bool snap_cli_trace_begin(const struct snap_cli_request *request);

/*
 * Prints it. With STACKSNAP_TRACE every event of every thread that it names; else the last events of
 * one thread for each set of kinds of events, and of no thread where nothing is wrong.
 */
void snap_cli_trace_print(const struct snap_cli_request *request);
