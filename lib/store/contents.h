/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bytes of a file, read into a mapping of their own: also from pipes, and only as far as asked.
 * Knows nothing of their meaning.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct snap_contents {
	const char *what; /* "capture", for messages */
	int fd;           /* the caller's; -1: all is there */
	uint8_t *bytes;   /* mapped, `capacity` of them */
	size_t capacity, size;
	/* Of a file how many bytes it had at first, which are all; of a pipe those that have come. */
	size_t total;
	bool is_file;
	uint64_t largest; /* bytes: more is refused */
};

/*
 * Makes room for a file, whose size is asked if it has one. Bytes of a file do not move any more, nor
 * do those of a pipe after the second snap_contents_load(), which reads all. NO_MEMORY, FORMAT: it is
 * too large.
 */
struct stacksnap_error *snap_contents_init(struct snap_contents *contents, int fd, const char *what,
					   size_t first_size, uint64_t largest) _must_check_;
void snap_contents_deinit(struct snap_contents *contents);

/* Maps a whole file as it is; for files that do not change any more: a memfd. FORMAT, OS. */
struct stacksnap_error *snap_contents_map(struct snap_contents *contents, int fd,
					  const char *what) _must_check_;

/*
 * Reads on until there are `wanted` bytes at least, or the file ends: what is behind them takes no
 * memory. FORMAT: it is too large.
 */
struct stacksnap_error *snap_contents_load(struct snap_contents *contents,
					   size_t wanted) _must_check_;

/* The mapping, which is then the caller's to munmap; *size_ret of it. */
void *snap_contents_take(struct snap_contents *contents, size_t *size_ret);
