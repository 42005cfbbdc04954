/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where a report goes: stdout, or a file that appears whole or not at all.
 *
 * A regular or absent file is written beside its place and renamed at the end; a device or FIFO is
 * written straight. What is written is the caller's: a file that another user has laid in its place
 * leaves it neither owner nor mode, and a process that has it open gets nothing. Knows nothing of
 * what is written.
 */
#pragma once

#include "output_location.h"
#include "signals.h"

#include <stdbool.h>
#include <stdio.h>

struct snap_cli_output {
	int fd;          /* -1: closed */
	char *path;      /* the place, as it was given; NULL: stdout */
	bool keeps_open; /* written straight, more than once: a commit does not close it */
	struct snap_cli_location at;
	char temporary[NAME_MAX + 1]; /* in at.folder until it is renamed; "": there is none */
	struct snap_cli_leftover leftover;
};

/*
 * Opens `path` (NULL or "-": stdout). `secret`: only for the caller's eyes, whatever was there. It
 * must stay where it is in memory. False after a message. Released by snap_cli_output_deinit() in
 * any case, which removes what was not committed.
 */
bool snap_cli_output_init(struct snap_cli_output *output, const char *path, bool secret);
void snap_cli_output_deinit(struct snap_cli_output *output);

/*
 * Whether something will be able to be written there, without leaving anything. A place that is
 * written straight is opened, and stays open; else output->fd is -1 afterwards. False after a
 * message.
 */
bool snap_cli_output_probe(struct snap_cli_output *output, const char *path);

/* A new file that is in its place from the beginning, and can be read meanwhile. */
bool snap_cli_output_init_growing(struct snap_cli_output *output, const char *path);

/* The file is whole: closes it and puts it in its place. False after a message. */
bool snap_cli_output_commit(struct snap_cli_output *output);

/* What "cannot write" is about, for messages. */
const char *snap_cli_output_name(const struct snap_cli_output *output);
