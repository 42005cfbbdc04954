/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Conditions of --until: see parse.h.
 *
 *     threads>N, threads<N      state=LIST, state=LIST>N, state=LIST<N      cpu>N%, cpu<N%
 *
 * each perhaps followed by " for TIME". Knows nothing of when one is met.
 */
#include "api/parse.h"
#include "model/snapshot.h"

#include <string.h>

enum { MAX_WORD = 16 };

static const uint64_t MAX_THREADS = 1 << 22; /* PID_MAX_LIMIT of Linux */
static const uint64_t MAX_PERCENT = 1000000; /* of one processor */

/* A stretch of the text. */
struct piece {
	const char *text;
	size_t length;
};

static struct piece trim(struct piece piece)
{
	while (piece.length && piece.text[0] == ' ')
		piece = (struct piece){ piece.text + 1, piece.length - 1 };
	while (piece.length && piece.text[piece.length - 1] == ' ')
		piece.length--;
	return piece;
}

static bool is_word(struct piece piece, const char *word)
{
	return piece.length == strlen(word) && memcmp(piece.text, word, piece.length) == 0;
}

/* What stands before and after the first of the bytes; false: none of them is there. */
static bool split(struct piece piece, const char *bytes, struct piece *left_ret,
		  struct piece *right_ret, char *byte_ret)
{
	for (size_t i = 0; i < piece.length; i++) {
		if (!strchr(bytes, piece.text[i]))
			continue;
		*left_ret = trim((struct piece){ piece.text, i });
		*right_ret = trim((struct piece){ piece.text + i + 1, piece.length - i - 1 });
		*byte_ret = piece.text[i];
		return true;
	}
	return false;
}

static bool parse_states(struct piece list, unsigned *ret)
{
	unsigned states = 0;

	for (bool more = true; more;) {
		struct piece item = list, rest = { NULL, 0 };
		enum snap_state state;
		char word[MAX_WORD], comma;

		more = split(list, ",", &item, &rest, &comma);
		if (item.length == 0 || item.length >= sizeof(word))
			return false;
		memcpy(word, item.text, item.length);
		word[item.length] = '\0';
		state = snap_state_of_word(word);
		if (state == SNAP_STATE_COUNT)
			return false;
		states |= 1u << state;
		list = rest;
	}
	*ret = states;
	return true;
}

static bool parse_limit(struct piece number, uint64_t most, double *ret)
{
	uint64_t limit;

	if (!snap_parse_number(number.text, number.length, 0, most, &limit))
		return false;
	*ret = (double)limit;
	return true;
}

/* "N%", with a fraction or without. */
static bool parse_percent(struct piece number, double *ret)
{
	struct piece whole, fraction;
	double limit, part = 0, unit = 1;
	char point;

	if (number.length == 0 || number.text[number.length - 1] != '%')
		return false;
	number = trim((struct piece){ number.text, number.length - 1 });
	if (!split(number, ".", &whole, &fraction, &point))
		return parse_limit(number, MAX_PERCENT, ret);
	if (fraction.length > 9 || !parse_limit(whole, MAX_PERCENT, &limit) ||
	    !parse_limit(fraction, UINT32_MAX, &part))
		return false;
	for (size_t i = 0; i < fraction.length; i++)
		unit *= 10;
	*ret = limit + part / unit;
	return true;
}

/* The condition without its time. */
static bool parse_what(struct piece what, struct snap_until *until)
{
	struct piece subject, value, states, limit;
	char sign, compare;

	if (!split(what, "=<>", &subject, &value, &sign))
		return false;
	if (sign == '=') {
		until->kind = SNAP_UNTIL_STATE;
		if (!is_word(subject, "state"))
			return false;
		if (!split(value, "<>", &states, &limit, &compare))
			return parse_states(value, &until->states);
		until->below = compare == '<';
		return parse_states(states, &until->states) &&
		       parse_limit(limit, MAX_THREADS, &until->limit);
	}
	until->below = sign == '<';
	if (is_word(subject, "threads")) {
		until->kind = SNAP_UNTIL_THREADS;
		return parse_limit(value, MAX_THREADS, &until->limit);
	}
	until->kind = SNAP_UNTIL_CPU;
	return is_word(subject, "cpu") && parse_percent(value, &until->limit);
}

bool snap_parse_until(const char *text, struct snap_until *ret)
{
	static const char word[] = " for ";
	const char *time = strstr(text, word);
	struct snap_until until = { .kind = SNAP_UNTIL_NONE };
	struct piece what = { text, time ? (size_t)(time - text) : strlen(text) };

	if (time) {
		struct piece length = trim(
			(struct piece){ time + sizeof(word) - 1, strlen(time + sizeof(word) - 1) });

		if (!snap_parse_duration(length.text, length.length, &until.for_ns))
			return false;
	}
	if (!parse_what(trim(what), &until))
		return false;
	*ret = until;
	return true;
}
