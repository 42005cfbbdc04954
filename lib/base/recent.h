/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Texts that come again, found without a table that grows.
 *
 * Each text has one place among a few, by its hash; the last one that was put there is what a
 * place remembers. A text that another one has displaced is not found, and kept once more. Who
 * sees the same texts in the same order finds the same ones, so a copy of a list takes no more than
 * the list did. Knows nothing of who keeps the texts: a place is a number.
 */
#ifndef SNAP_BASE_RECENT_H
#define SNAP_BASE_RECENT_H

#include "base/table.h"

enum { SNAP_RECENT_PLACES = 1024 };

static inline size_t snap_recent_place(const char *text, size_t length)
{
	return snap_hash_bytes(text, length, 0) % SNAP_RECENT_PLACES;
}

#endif
