/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The pager: shows a long report on the terminal, as git does, after everything that was stopped
 * runs again. Knows nothing of what it shows.
 */
#pragma once

#include <stdbool.h>

/*
 * Runs the user's pager on the file `text` until it ends. False: there is none for the terminal
 * behind `fd`, or it cannot be run, and nothing was shown.
 */
bool snap_cli_pager_show(int text, int fd);
