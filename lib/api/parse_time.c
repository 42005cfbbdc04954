/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Durations and moments: see parse.h. Knows no time zone but those that are written out. */
#include "api/parse.h"

#include <string.h>

static const int64_t NS_PER_S = 1000000000;
/* More than any recording lasts, and far from where nanoseconds overflow. */
static const uint64_t MAX_SECONDS = 10ull * 366 * 86400;

/* The digits behind a point, nine at most, as nanoseconds of a second. */
static bool parse_fraction(const char *text, size_t length, int64_t *ns_ret)
{
	int64_t ns = 0, unit = NS_PER_S / 10;

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
	if (unit == 0 || number > MAX_SECONDS * (uint64_t)NS_PER_S / (uint64_t)unit)
		return false;
	/* The fraction is of one unit; an hour's, in nanoseconds of a second, fits 42 bits. */
	if (unit < NS_PER_S)
		*ret = (int64_t)number * unit + fraction / (NS_PER_S / unit);
	else
		*ret = (int64_t)number * unit + fraction * (unit / NS_PER_S);
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

/* RFC 3339, section 5.6; a space may stand for the T. */
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
		       NS_PER_S +
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
