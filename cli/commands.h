/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The commands: each is one function from a request to an exit status, in a file of its own. To add
 * one: cmd_NAME.c, a line here, a line in the table of verbs (options.c) and in main.c.
 */
#pragma once

#include "options.h"

enum snap_cli_status {
	SNAP_CLI_WHOLE = 0,
	SNAP_CLI_PARTIAL = 1,
	SNAP_CLI_TROUBLE = 2,
	SNAP_CLI_UNKNOWN = 3, /* nothing was found, and not all could be looked at */
	SNAP_CLI_USAGE = 64,
};

int snap_cli_cmd_snapshot(struct snap_cli_request *request);
/* --watch */
int snap_cli_cmd_watch(struct snap_cli_request *request);
int snap_cli_cmd_record(struct snap_cli_request *request);
/* Where it was built: SNAP_WITH_TOP. */
int snap_cli_cmd_top(struct snap_cli_request *request);
int snap_cli_cmd_render(struct snap_cli_request *request);
int snap_cli_cmd_core(struct snap_cli_request *request);
int snap_cli_cmd_merge(struct snap_cli_request *request);
int snap_cli_cmd_diff(struct snap_cli_request *request);
int snap_cli_cmd_list(struct snap_cli_request *request);
/* Where it was built. */
int snap_cli_cmd_serve(struct snap_cli_request *request);
