/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Strict parsing of the values of options: numbers, lists, words, regular expressions. What makes
 * no sense is an error that says which values do, never a guess. Knows nothing of which option a
 * value belongs to.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole decimal number of [low, high]: digits alone, no sign, no space. */
bool snap_parse_number(const char *text, size_t length, uint64_t low, uint64_t high, uint64_t *ret);
/* "'x' is not a number of frames (expected a whole number from 0 to 9)". */
struct stacksnap_error *snap_parse_number_error(const char *value, const char *what, uint64_t low,
						uint64_t high) _must_check_;

/* "3", "0.5": of [0, 100] with up to four decimals, in millionths of the whole. */
bool snap_parse_percent(const char *text, size_t length, uint64_t *ret);

/* The next item of a comma list from *cursor, NULL at the end; an empty one has length 0. */
const char *snap_parse_item(const char **cursor, size_t *length_ret);

/*
 * Seconds as a decimal number, or with ms, s, m, h: "30", "0.5", "250ms", "2m"; up to ten years, in
 * nanoseconds.
 */
bool snap_parse_duration(const char *text, size_t length, int64_t *ret);

/* A duration since the start, one before the end ("-10s"), or RFC 3339 with Z or an offset. */
bool snap_parse_moment(const char *text, struct snap_moment *ret);

/* "threads>500", "state=disk for 5s", "cpu<5% for 10s" …; `text` of the result is left NULL. */
bool snap_parse_until(const char *text, struct snap_until *ret);

/*
 * "deadlock,blocked>=3 for 10s,stuck for 5m": those alone are on, with what is said of them and
 * else the default. "all": each. False: one of them is no condition.
 */
bool snap_parse_watch(const char *text, struct snap_watch_rules *ret);

/* A word that an option takes; the array ends with a NULL word. */
struct snap_choice {
	const char *word;
	unsigned value;
};

/* Another word for the one before it, which is taken and not shown. */
bool snap_choice_is_alias(const struct snap_choice *choices, const struct snap_choice *choice);
/* The value of a word of `length` bytes. */
struct stacksnap_error *snap_parse_choice(const struct snap_choice *choices, const char *value,
					  size_t length, unsigned *ret) _must_check_;

/* POSIX extended; the result is to be released by snap_regex_destroy(). */
struct stacksnap_error *snap_parse_regex(const char *pattern, regex_t **ret) _must_check_;
/* Takes NULL. */
void snap_regex_destroy(regex_t *regex);
