/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The pattern that --output gives: the name of one file that each writing replaces, or, if it has
 * sequences like %H or %N, of a new file each time. Touches no file; output.h writes them.
 */
#pragma once

#include "output.h"

struct snap_cli_pattern {
	const char *text; /* as given; NULL: stdout */
	unsigned written; /* how many files were */
	char *path;       /* of the latest; NULL: none yet, or stdout */
};

/*
 * `text` is borrowed. False after a message: it has a sequence that no name of a file may have.
 * Released by snap_cli_pattern_deinit() in any case.
 */
bool snap_cli_pattern_init(struct snap_cli_pattern *pattern, const char *text);
void snap_cli_pattern_deinit(struct snap_cli_pattern *pattern);

/* The name of the next file, into pattern->path. False after a message. */
bool snap_cli_pattern_name(struct snap_cli_pattern *pattern);

/* Whether all goes to stdout. */
bool snap_cli_pattern_is_stdout(const struct snap_cli_pattern *pattern);
