/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages about a command line that cannot be run: each names what is wrong and what to type
 * instead. All return false, so that "return snap_cli_wrong_…" says "failed".
 */
#pragma once

#include "options.h"

/* The line that names the page of help. */
bool snap_cli_see_help(const struct snap_cli_request *request);

/* No option, or the beginning of one. */
bool snap_cli_wrong_option(const struct snap_cli_request *request, const char *typed);
/* -o FILE, whose ending is that of no format. */
bool snap_cli_wrong_ending(const struct snap_cli_request *request, const char *ending);
/* An option of other commands. */
bool snap_cli_wrong_command(const struct snap_cli_request *request,
			    const struct snap_cli_option *option);
/* Neither a command nor a process id. */
bool snap_cli_wrong_operand(const struct snap_cli_request *request, const char *operand);
/* The topic of help has no page. */
bool snap_cli_wrong_topic(const struct snap_cli_request *request);
/* Neither a process id nor another target. */
bool snap_cli_no_target(const struct snap_cli_request *request);
