/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where a report goes: stdout, or a file that appears whole or not at all.
 *
 * A regular or absent file is written beside its place and renamed at the end; a device or FIFO is
 * written straight. Knows nothing of what is written.
 */
#ifndef SNAP_CLI_OUTPUT_H
#define SNAP_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct snap_cli_output {
	int fd;          /* -1: closed */
	char *path;      /* the place; NULL: stdout */
	char *temporary; /* the file beside it until it is renamed; NULL: written straight */
};

/*
 * Opens `path` (NULL or "-": stdout). `secret`: only for the owner's eyes. False after a message.
 * Released by snap_cli_output_deinit() in any case, which removes what was not committed.
 */
bool snap_cli_output_init(struct snap_cli_output *output, const char *path, bool secret);
void snap_cli_output_deinit(struct snap_cli_output *output);

/* The file is whole: closes it and puts it in its place. False after a message. */
bool snap_cli_output_commit(struct snap_cli_output *output);

/* What "cannot write" is about, for messages. */
const char *snap_cli_output_name(const struct snap_cli_output *output);

#endif
