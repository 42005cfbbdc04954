/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Binary search: the first element of a sorted array that is not before something; and what sorts
 * an array.
 *
 * What "before" means is an expression of the caller's, so it fits arrays of structures and of
 * pointers, keys of several fields and keys that are computed. Knows nothing of the array, whose
 * length alone it is given.
 */
#pragma once

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

/*
 * Defines a static function for qsort(3) over elements of `type`. In the comparisons `a` and `b` are
 * pointers to two elements. The first of at most five comparisons that is not 0 decides:
 *
 *	SNAP_ORDER(by_size, struct row, a, b, snap_compare(b->size, a->size), strcmp(a->name, b->name));
 */
#define SNAP_ORDER(function, type, a, b, ...)                                                 \
	static int function(const void *snap_left, const void *snap_right)                    \
	{                                                                                     \
		__typeof__(type) const *a = snap_left, *b = snap_right;                       \
		return SNAP_ORDER_PICK(__VA_ARGS__, SNAP_ORDER_5, SNAP_ORDER_4, SNAP_ORDER_3, \
				       SNAP_ORDER_2, SNAP_ORDER_1)(__VA_ARGS__);              \
	}                                                                                     \
	_Static_assert(1, "for the semicolon behind it")
#define SNAP_ORDER_PICK(one, two, three, four, five, pick, ...) pick
#define SNAP_ORDER_1(key) (key)
#define SNAP_ORDER_2(key, ...) ((key) ?: SNAP_ORDER_1(__VA_ARGS__))
#define SNAP_ORDER_3(key, ...) ((key) ?: SNAP_ORDER_2(__VA_ARGS__))
#define SNAP_ORDER_4(key, ...) ((key) ?: SNAP_ORDER_3(__VA_ARGS__))
#define SNAP_ORDER_5(key, ...) ((key) ?: SNAP_ORDER_4(__VA_ARGS__))
