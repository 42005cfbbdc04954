/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Strict parsing of values: see parse.h. Knows no time zone but those that are written out. */
#include "api/parse.h"

#include "base/clock.h"
#include "model/snapshot.h"
#include "model/wait/alert.h"

#include <string.h>

void snap_regex_destroy(regex_t *regex)
{
	if (!regex)
		return;
	regfree(regex);
	free(regex);
}

bool snap_parse_number(const char *text, size_t length, uint64_t low, uint64_t high, uint64_t *ret)
{
	uint64_t number = 0;

	if (length == 0 || length > 19)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		number = number * 10 + (uint64_t)(text[i] - '0');
	}
	if (number < low || number > high)
		return false;
	*ret = number;
	return true;
}

struct stacksnap_error *snap_parse_number_error(const char *value, const char *what, uint64_t low,
						uint64_t high)
{
	return snap_error_format(SNAP_ERROR_INVALID,
				 "'%s' is not a %s (expected a whole number from %llu to %llu)",
				 value, what, (unsigned long long)low, (unsigned long long)high);
}

bool snap_parse_percent(const char *text, size_t length, uint64_t *ret)
{
	enum { DECIMALS = 4, UNIT = 10000, WHOLE = 100 * UNIT };
	const char *point = memchr(text, '.', length);
	size_t whole = point ? (size_t)(point - text) : length;
	size_t decimals = point ? length - whole - 1 : 0;
	uint64_t number, rest = 0;

	if (decimals > DECIMALS || !snap_parse_number(text, whole, 0, 100, &number) ||
	    (point && !snap_parse_number(point + 1, decimals, 0, UNIT - 1, &rest)))
		return false;
	for (size_t i = decimals; i < DECIMALS; i++)
		rest *= 10;
	*ret = number * UNIT + rest;
	return *ret <= WHOLE;
}

const char *snap_parse_item(const char **cursor, size_t *length_ret)
{
	const char *item = *cursor;

	if (!item)
		return NULL;
	*length_ret = strcspn(item, ",");
	*cursor = item[*length_ret] == ',' ? item + *length_ret + 1 : NULL;
	return item;
}

struct stacksnap_error *snap_parse_regex(const char *pattern, regex_t **ret)
{
	regex_t *regex = calloc(1, sizeof(*regex));
	char text[256];
	int status;

	SNAP_TRY(snap_no_memory_unless(regex));
	status = regcomp(regex, pattern, REG_EXTENDED);
	if (status == 0) {
		*ret = regex;
		return NULL;
	}
	regerror(status, regex, text, sizeof(text));
	free(regex);
	SNAP_TRY(snap_no_memory_unless(status != REG_ESPACE));
	return snap_error_format(SNAP_ERROR_INVALID,
				 "'%s' is not a POSIX extended regular expression: %s", pattern,
				 text);
}

bool snap_choice_is_alias(const struct snap_choice *choices, const struct snap_choice *choice)
{
	return choice > choices && choice->value && choice[-1].value == choice->value;
}

struct stacksnap_error *snap_parse_choice(const struct snap_choice *choices, const char *value,
					  size_t length, unsigned *ret)
{
	char list[128] = "";

	for (const struct snap_choice *choice = choices; choice->word; choice++) {
		if (strlen(choice->word) == length && memcmp(choice->word, value, length) == 0) {
			*ret = choice->value;
			return NULL;
		}
		if (snap_choice_is_alias(choices, choice))
			continue;
		strncat(list, choice > choices ? ", " : "", sizeof(list) - strlen(list) - 1);
		strncat(list, choice->word, sizeof(list) - strlen(list) - 1);
	}
	return snap_error_format(SNAP_ERROR_INVALID, "'%.*s' is not one of %s", (int)length, value,
				 list);
}

/* ---- durations and moments ---- */

/* More than any recording lasts, and far from where nanoseconds overflow. */
static const uint64_t MAX_SECONDS = 10ull * 366 * 86400;

/* The digits behind a point, nine at most, as nanoseconds of a second. */
static bool parse_fraction(const char *text, size_t length, int64_t *ns_ret)
{
	int64_t ns = 0, unit = SNAP_NS_PER_S / 10;

	if (length == 0 || length > 9)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		ns += (text[i] - '0') * unit;
		unit /= 10;
	}
	*ns_ret = ns;
	return true;
}

static size_t count_digits(const char *text, size_t length)
{
	size_t count = 0;

	while (count < length && text[count] >= '0' && text[count] <= '9')
		count++;
	return count;
}

/* Nanoseconds of one of the unit; 0: there is no such unit. */
static int64_t unit_ns(const char *text, size_t length)
{
	static const struct {
		const char *word;
		int64_t ns;
	} units[] = { { "", 1000000000 },
		      { "ms", 1000000 },
		      { "s", 1000000000 },
		      { "m", 60000000000 },
		      { "h", 3600000000000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].word) == length && memcmp(units[i].word, text, length) == 0)
			return units[i].ns;
	return 0;
}

bool snap_parse_duration(const char *text, size_t length, int64_t *ret)
{
	size_t whole = count_digits(text, length), used = whole;
	int64_t fraction = 0, unit;
	uint64_t number = 0;

	if (whole == 0 || !snap_parse_number(text, whole, 0, MAX_SECONDS * 1000, &number))
		return false;
	if (used < length && text[used] == '.') {
		size_t digits = count_digits(text + used + 1, length - used - 1);

		if (!parse_fraction(text + used + 1, digits, &fraction))
			return false;
		used += 1 + digits;
	}
	unit = unit_ns(text + used, length - used);
	if (unit == 0 || number > MAX_SECONDS * (uint64_t)SNAP_NS_PER_S / (uint64_t)unit)
		return false;
	/* The fraction is of one unit; an hour's, in nanoseconds of a second, fits 42 bits. */
	if (unit < SNAP_NS_PER_S)
		*ret = (int64_t)number * unit + fraction / (SNAP_NS_PER_S / unit);
	else
		*ret = (int64_t)number * unit + fraction * (unit / SNAP_NS_PER_S);
	return true;
}

/* Exactly `digits` digits within [low, high] at *cursor, then the byte `end` (0: none). */
static bool take_number(const char **cursor, size_t digits, int low, int high, char end, int *ret)
{
	uint64_t number;

	if (strnlen(*cursor, digits) < digits ||
	    !snap_parse_number(*cursor, digits, (uint64_t)low, (uint64_t)high, &number))
		return false;
	*cursor += digits;
	if (end) {
		if (**cursor != end)
			return false;
		(*cursor)++;
	}
	*ret = (int)number;
	return true;
}

static int days_of_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* Days since 1970-01-01 of the Gregorian calendar. */
static int64_t days_since_epoch(int year, int month, int day)
{
	int64_t past = year - 1, days = past * 365 + past / 4 - past / 100 + past / 400;

	for (int m = 1; m < month; m++)
		days += days_of_month(year, m);
	return days + day - 1 - 719162; /* from the first day of year 1 */
}

/* "Z" or "+hh:mm" up to the end of the text, as seconds to take away. */
static bool parse_offset(const char *text, int64_t *ret)
{
	int hours, minutes;
	char sign = *text;

	if (sign == 'Z' || sign == 'z') {
		*ret = 0;
		return text[1] == '\0';
	}
	if (sign != '+' && sign != '-')
		return false;
	text++;
	if (!take_number(&text, 2, 0, 23, ':', &hours) ||
	    !take_number(&text, 2, 0, 59, '\0', &minutes) || *text)
		return false;
	*ret = (hours * 60 + minutes) * (sign == '-' ? -60 : 60);
	return true;
}

/* RFC 3339, section 5.6; a space may replace the T. */
static bool parse_date(const char *text, int64_t *ret)
{
	int year, month, day, hour, minute, second;
	int64_t fraction = 0, offset;

	if (!take_number(&text, 4, 1970, 2199, '-', &year) ||
	    !take_number(&text, 2, 1, 12, '-', &month) ||
	    !take_number(&text, 2, 1, days_of_month(year, month), '\0', &day))
		return false;
	if (*text != 'T' && *text != 't' && *text != ' ')
		return false;
	text++;
	if (!take_number(&text, 2, 0, 23, ':', &hour) ||
	    !take_number(&text, 2, 0, 59, ':', &minute) ||
	    !take_number(&text, 2, 0, 60, '\0', &second))
		return false;
	if (*text == '.') {
		size_t digits = count_digits(text + 1, strlen(text + 1));

		if (!parse_fraction(text + 1, digits, &fraction))
			return false;
		text += 1 + digits;
	}
	if (!parse_offset(text, &offset))
		return false;
	*ret = (days_since_epoch(year, month, day) * 86400 + hour * 3600 + minute * 60 + second -
		offset) *
		       SNAP_NS_PER_S +
	       fraction;
	return true;
}

bool snap_parse_moment(const char *text, struct snap_moment *ret)
{
	bool before_end = *text == '-';
	int64_t ns;

	if (snap_parse_duration(text + before_end, strlen(text + before_end), &ns)) {
		*ret = (struct snap_moment){ .kind = before_end ? SNAP_MOMENT_BEFORE_END
								: SNAP_MOMENT_SINCE_START,
					     .ns = ns };
		return true;
	}
	if (!parse_date(text, &ns))
		return false;
	*ret = (struct snap_moment){ .kind = SNAP_MOMENT_EPOCH, .ns = ns };
	return true;
}

/*
 * ---- conditions ----
 *
 *     threads>N, threads<N      state=LIST, state=LIST>N, state=LIST<N      cpu>N%, cpu<N%
 *
 * each perhaps followed by " for TIME".
 */

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
		state = word[1] ? snap_state_of_word(word) : snap_state_of_letter(word[0]);
		if (state == SNAP_STATE_COUNT || (!word[1] && state == SNAP_STATE_UNKNOWN))
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

/* ---- --watch ---- */

/* The threshold of a condition: threads, or percent with its sign. */
static bool parse_threshold(enum snap_alert_kind kind, struct piece value, uint32_t *ret)
{
	bool is_percent = kind == SNAP_ALERT_SPINNING || kind == SNAP_ALERT_GROWTH;
	double percent;
	uint64_t number;

	if (is_percent) {
		if (!parse_percent(value, &percent) || percent < 1)
			return false;
		*ret = (uint32_t)percent;
		return true;
	}
	if (kind != SNAP_ALERT_BLOCKED ||
	    !snap_parse_number(value.text, value.length, 1, MAX_THREADS, &number))
		return false;
	*ret = (uint32_t)number;
	return true;
}

/* "blocked>=3 for 10s" */
static bool parse_condition(struct piece item, struct snap_watch_rules *rules)
{
	static const char word[] = " for ";
	const char *time = memmem(item.text, item.length, word, sizeof(word) - 1);
	struct piece what = item, value = { NULL, 0 };
	struct snap_watch_rule *rule;
	enum snap_alert_kind kind;
	char sign;

	if (time)
		what = trim((struct piece){ item.text, (size_t)(time - item.text) });
	if (split(what, ">", &what, &value, &sign) && (value.length < 2 || value.text[0] != '='))
		return false;
	kind = snap_alert_of_word(what.text, what.length);
	if (kind == SNAP_ALERT_KINDS)
		return false;
	rule = &rules->of[kind];
	rule->on = true;
	if (value.length &&
	    !parse_threshold(kind, trim((struct piece){ value.text + 1, value.length - 1 }),
			     &rule->least))
		return false;
	if (!time)
		return true;
	time += sizeof(word) - 1;
	value = trim((struct piece){ time, (size_t)(item.text + item.length - time) });
	return snap_parse_duration(value.text, value.length, &rule->for_ns);
}

bool snap_parse_watch(const char *text, struct snap_watch_rules *ret)
{
	struct snap_watch_rules rules = snap_watch_default_rules();
	struct piece list = { text, strlen(text) };

	if (strcmp(text, "all") == 0) {
		*ret = rules;
		return true;
	}
	for (int kind = 0; kind < SNAP_ALERT_KINDS; kind++)
		rules.of[kind].on = false;
	for (bool more = true; more;) {
		struct piece item = list, rest = { NULL, 0 };
		char comma;

		more = split(list, ",", &item, &rest, &comma);
		if (!parse_condition(trim(item), &rules))
			return false;
		list = rest;
	}
	*ret = rules;
	return true;
}
