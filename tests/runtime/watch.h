/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which pages of mapped files, and of some memory of our own, somebody looks at: they are mapped
 * without rights until then. A program that is linked with this has its mmap() wrapped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WATCH_PAGE = 4096 };

struct watched {
	uint8_t *bytes;
	size_t size;
	bool is_file;
	dev_t dev;
	ino_t inode;
	uint8_t *seen; /* one byte a page */
};

/* From here on files that are mapped read-only and private are watched. */
void watch_begin(void);
/* Memory that is watched once it is hidden; until then it can be written. */
uint8_t *watch_new(size_t size);
void watch_hide(const uint8_t *bytes);
/* NULL: it is not watched. */
struct watched *watch_file(dev_t dev, ino_t inode);
struct watched *watch_memory(const uint8_t *bytes);
/* As if these bytes had been looked at. */
void watch_look(struct watched *watched, uint64_t offset, uint64_t size);
/* Behind the last page that was looked at. */
size_t watch_end(const struct watched *watched);
