/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signals and the clock of the run: both set one flag that the library polls, so that the target is
 * released before anything else happens; a recording ends in order instead. Knows nothing of the
 * library.
 */
#pragma once

#include <stdbool.h>

/*
 * Catches INT, TERM and HUP (unless ignored, as under nohup): the second one kills, and the kernel
 * lets the target run. SIGPIPE becomes an error of write.
 */
void snap_cli_signals_init(void);

/* The flag: not 0 once a signal came or the time was up. */
const volatile int *snap_cli_signals_flag(void);

/* The run's time, from now; 0 stops the clock. */
void snap_cli_signals_set_timer(unsigned milliseconds);

/* Whether the time was up. */
bool snap_cli_signals_timed_out(void);

/* The signal that asked to end, 0 if none did. */
int snap_cli_signals_caught(void);

/* From here on the first signal only sets the flag: it is reported, and no reason to end. */
void snap_cli_signals_outlive(void);

/*
 * From here on it is none either: it calls `stop`, which must be fit for a
 * handler, and the flag stays as it is, so that all can be written. The second one still kills.
 * `stop` NULL: no more.
 */
void snap_cli_signals_end_in_order(void (*stop)(void *context), void *context);

/* A file that is to go away with a process that is killed by the second signal; a few at a time. */
struct snap_cli_leftover {
	int folder;
	const char *name;
};
void snap_cli_signals_add_leftover(const struct snap_cli_leftover *leftover);
void snap_cli_signals_remove_leftover(const struct snap_cli_leftover *leftover);

/* Catches USR1, which asks for what there is so far. */
void snap_cli_signals_catch_requests(void);
/* Whether one came since the last call. */
bool snap_cli_signals_take_request(void);

/* Ends the process by the signal that asked for it, if one did. */
void snap_cli_signals_die(void);
