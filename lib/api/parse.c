/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Strict parsing of values: see parse.h. */
#include "api/parse.h"

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

struct snap_error *snap_parse_number_error(const char *value, const char *what, uint64_t low,
					   uint64_t high)
{
	return snap_error_format(SNAP_ERROR_INVALID,
				 "'%s' is not a %s (expected a whole number from %llu to %llu)",
				 value, what, (unsigned long long)low, (unsigned long long)high);
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

struct snap_error *snap_parse_regex(const char *pattern, regex_t **ret)
{
	regex_t *regex = calloc(1, sizeof(*regex));
	char text[256];
	int status;

	if (!regex)
		return snap_error_no_memory();
	status = regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB);
	if (status == 0) {
		*ret = regex;
		return NULL;
	}
	regerror(status, regex, text, sizeof(text));
	free(regex);
	if (status == REG_ESPACE)
		return snap_error_no_memory();
	return snap_error_format(SNAP_ERROR_INVALID,
				 "'%s' is not a POSIX extended regular expression: %s", pattern,
				 text);
}

struct snap_error *snap_parse_choice(const struct snap_choice *choices, size_t count,
				     const char *value, unsigned *ret)
{
	char list[128] = "";

	for (size_t i = 0; i < count; i++) {
		if (strcmp(choices[i].word, value) == 0) {
			*ret = choices[i].value;
			return NULL;
		}
		strncat(list, i ? ", " : "", sizeof(list) - strlen(list) - 1);
		strncat(list, choices[i].word, sizeof(list) - strlen(list) - 1);
	}
	return snap_error_format(SNAP_ERROR_INVALID, "'%s' is not one of %s", value, list);
}
