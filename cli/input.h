/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file that is rendered: opened, recognized by its first bytes, and such that it can be read from its
 * beginning. Knows nothing of what is in it.
 */
#pragma once

#include "stacksnap.h"

#include <stdbool.h>

struct snap_cli_input {
	int fd; /* -1: closed */
	enum stacksnap_file_kind kind;
};

/* "-" is stdin; what is opened may be a FIFO, which waits for its writer. -1 with errno. */
int snap_cli_input_open(const char *path);

/*
 * "-" is stdin; a FIFO waits for its writer, and what comes from it is copied into an unnamed file
 * in $TMPDIR. False with errno, of which the second function says what it means here. Released by
 * snap_cli_input_deinit() in any case.
 */
bool snap_cli_input_init(struct snap_cli_input *input, const char *path);
const char *snap_cli_input_why(void);
void snap_cli_input_deinit(struct snap_cli_input *input);

/* The snapshot in a JSON document, a capture or a core. */
struct stacksnap_error *snap_cli_input_snapshot(const struct snap_cli_input *input,
						const struct stacksnap_options *options,
						struct stacksnap_snapshot **ret);
