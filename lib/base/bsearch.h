/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Binary search: the first element of a sorted array that is not before something; and what sorts
 * an array.
 *
 * What "before" means is an expression of the caller's, so it fits arrays of structures and of
 * pointers, keys of several fields and keys that are computed. Knows nothing of the array, whose
 * length alone it is given.
 */
#ifndef SNAP_BASE_BSEARCH_H
#define SNAP_BASE_BSEARCH_H

#include <stddef.h>

/*
 * The first number of [0, count) for which `is_before` is false; `count` if there is none. The
 * expression uses `i`, a size_t that exists in it alone; where it is true, it must be true for all
 * smaller numbers. With < it finds the first element that is not below the key (lower bound), with
 * <= the first above it (upper bound):
 *
 *	size_t at = snap_first_not(hit_count, i, hits[i].vaddr < vaddr);
 *	size_t next = snap_first_not(piece_count, i, pieces[i].address <= address);
 */
#define snap_first_not(count, i, is_before)                   \
	({                                                    \
		size_t _low = 0, _high = (count);             \
		while (_low < _high) {                        \
			size_t i = _low + (_high - _low) / 2; \
			if (is_before)                        \
				_low = i + 1;                 \
			else                                  \
				_high = i;                    \
		}                                             \
		_low;                                         \
	})

/*
 * -1, 0 or 1, as qsort(3) wants it. Of several keys the first that differs decides:
 *
 *	return snap_compare(a->pid, b->pid) ?: snap_compare(a->start, b->start);
 */
#define snap_compare(a, b) (((a) > (b)) - ((a) < (b)))

#endif
