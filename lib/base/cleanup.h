/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Attributes, scope guards, and small expressions that every file may use.
 *
 * A resource is created and destroyed by a pair of functions; the guard calls the second one on
 * every path out of a block, so code needs no goto. Handing a guarded pointer to the caller is
 * `*ret = snap_take_ptr(p)`. Knows nothing of what it guards.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))
#define _must_check_ __attribute__((warn_unused_result))
#define _printf_(text, first) __attribute__((format(printf, text, first)))
#define _unused_ __attribute__((unused))

#define SNAP_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* The smaller and the larger of two numbers, one of which is evaluated twice. */
#define SNAP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define SNAP_MAX(a, b) ((a) > (b) ? (a) : (b))

/*
 * Whether the expression is true for a number of [0, count). It uses `i`, a size_t that exists in it
 * alone, and is not evaluated again after the first number for which it is true:
 *
 *	return snap_any(thread_count, i, threads[i].tid == tid);
 */
#define snap_any(count, i, holds)                                                \
	({                                                                       \
		bool _holds = false;                                             \
		for (size_t i = 0, _count = (count); i < _count && !_holds; i++) \
			_holds = (holds);                                        \
		_holds;                                                          \
	})
/* Whether the expression is true for all of them. */
#define snap_all(count, i, holds) (!snap_any((count), i, !(holds)))
/* The sum of the expression for all of them: how many it holds for, if it is a truth. */
#define snap_sum(count, i, each)                                    \
	({                                                          \
		uint64_t _sum = 0;                                  \
		for (size_t i = 0, _many = (count); i < _many; i++) \
			_sum += (each);                             \
		_sum;                                               \
	})

/* The pointer, which its guard then no longer releases. */
#define snap_take_ptr(p)                       \
	({                                     \
		__typeof__(p) *_from = &(p);   \
		__typeof__(p) _taken = *_from; \
		*_from = NULL;                 \
		_taken;                        \
	})

/* The descriptor, which its guard then no longer closes. */
static inline int snap_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void snap_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void snap_freep(void *pointer)
{
	free(*(void **)pointer);
}

static inline void snap_fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

/*
 * Defines what guards a pointer to `type`: `destroy`p(), which calls `destroy` with the pointer.
 *
 *	SNAP_POINTER_GUARD(struct snap_log, snap_log_destroy);
 */
#define SNAP_POINTER_GUARD(type, destroy)             \
	static inline void destroy##p(type **pointer) \
	{                                             \
		destroy(*pointer);                    \
	}                                             \
	_Static_assert(1, "for the semicolon behind it")

/*
 * Defines a static function that frees members of a structure, of which there are at most six:
 *
 *	SNAP_FREES(lists_deinit, struct lists, names, numbers);
 */
#define SNAP_FREES(function, type, ...)                                                \
	static void function(type *snap_of)                                            \
	{                                                                              \
		SNAP_FREES_PICK(__VA_ARGS__, SNAP_FREES_6, SNAP_FREES_5, SNAP_FREES_4, \
				SNAP_FREES_3, SNAP_FREES_2, SNAP_FREES_1)              \
		(__VA_ARGS__);                                                         \
	}                                                                              \
	_Static_assert(1, "for the semicolon behind it")
#define SNAP_FREES_PICK(one, two, three, four, five, six, pick, ...) pick
#define SNAP_FREES_1(member) free(snap_of->member)
#define SNAP_FREES_2(member, ...) SNAP_FREES_1(member), SNAP_FREES_1(__VA_ARGS__)
#define SNAP_FREES_3(member, ...) SNAP_FREES_1(member), SNAP_FREES_2(__VA_ARGS__)
#define SNAP_FREES_4(member, ...) SNAP_FREES_1(member), SNAP_FREES_3(__VA_ARGS__)
#define SNAP_FREES_5(member, ...) SNAP_FREES_1(member), SNAP_FREES_4(__VA_ARGS__)
#define SNAP_FREES_6(member, ...) SNAP_FREES_1(member), SNAP_FREES_5(__VA_ARGS__)

#define _cleanup_fd_ _cleanup_(snap_close)
#define _cleanup_free_ _cleanup_(snap_freep)
#define _cleanup_fclose_ _cleanup_(snap_fclosep)
