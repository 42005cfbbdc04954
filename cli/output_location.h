/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where a name that is to be written, or trusted, leads: to a folder that is held open, and a name in it.
 *
 * A user with write permission in a shared folder may put a symbolic link, a FIFO or a device where
 * another user is going to write. Whether the kernel follows such a thing depends on sysctls
 * (fs.protected_symlinks, fs.protected_fifos), so names are walked here, link by link. Knows
 * nothing of what is written or read.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct snap_cli_location {
	int folder;              /* O_PATH; -1: none */
	char name[NAME_MAX + 1]; /* in the folder; no symbolic link, unless is_open_file */
	bool exists;
	bool is_open_file;  /* an entry of procfs for an open file */
	struct stat status; /* of the file behind the name, if it exists */
};

/*
 * Walks the path; `verb` ("write") is for messages. Every symbolic link on the way belongs to the
 * caller or root, else it is not followed; so does a FIFO or device at its end, if other users may
 * write into its folder. False after a message. The folder is the caller's to close.
 */
bool snap_cli_locate(const char *path, const char *verb, struct snap_cli_location *ret);
