/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where a recording goes: one file that each writing replaces, or, if its name has sequences like
 * %H or %N, a new file each time. Knows nothing of what is written.
 */
#ifndef SNAP_CLI_PLACE_H
#define SNAP_CLI_PLACE_H

#include "output.h"

struct snap_cli_place {
	const char *pattern; /* as given; NULL: stdout */
	unsigned written;    /* how many were */
	char *path;          /* of the latest; NULL: none yet, or stdout */
};

/*
 * `pattern` is borrowed. False after a message: it has a sequence that no name of a file may have.
 * Released by snap_cli_place_deinit() in any case.
 */
bool snap_cli_place_init(struct snap_cli_place *place, const char *pattern);
void snap_cli_place_deinit(struct snap_cli_place *place);

/* The name of the next file, into place->path. False after a message. */
bool snap_cli_place_name(struct snap_cli_place *place);

/* Whether all goes to stdout. */
bool snap_cli_place_is_stdout(const struct snap_cli_place *place);

#endif
