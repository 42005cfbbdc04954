/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Request targets: see query.h. */
#include "serve/query.h"

#include <string.h>

/* The value of a hexadecimal digit, -1 for anything else. */
static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

/* Decodes %XX and + where they stand. False for what no parameter of ours can hold. */
static bool decode(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		char c = *in;

		if (c == '+') {
			c = ' ';
		} else if (c == '%') {
			int high = digit_value(in[1]);
			int low = high < 0 ? -1 : digit_value(in[2]);

			if (low < 0)
				return false;
			c = (char)(high << 4 | low);
			in += 2;
		}
		if (is_control((unsigned char)c))
			return false;
		*out++ = c;
	}
	*out = '\0';
	return true;
}

/* "name=value" or "name"; false if it is there already, or there is no room. */
static bool add_parameter(struct snap_serve_query *query, char *text)
{
	char *value = strchr(text, '=');

	if (value)
		*value++ = '\0';
	else
		value = text + strlen(text);
	if (!decode(text) || !decode(value) || snap_serve_query_value(query, text) ||
	    query->parameter_count == SNAP_SERVE_MAX_PARAMETERS)
		return false;
	query->parameters[query->parameter_count++] =
		(struct snap_serve_parameter){ .name = text, .value = value };
	return true;
}

bool snap_serve_query_parse(const char *target, struct snap_serve_query *ret)
{
	size_t length = strnlen(target, SNAP_SERVE_MAX_TARGET + 1);
	char *rest, *part;

	if (length > SNAP_SERVE_MAX_TARGET || target[0] != '/')
		return false;
	for (size_t i = 0; i < length; i++)
		if (is_control((unsigned char)target[i]) || target[i] == ' ' || target[i] == '#')
			return false;
	memcpy(ret->text, target, length + 1);
	ret->path = ret->text;
	ret->parameter_count = 0;
	rest = strchr(ret->text, '?');
	if (rest)
		*rest++ = '\0';
	while ((part = strsep(&rest, "&")))
		if (*part && !add_parameter(ret, part))
			return false;
	return true;
}

const char *snap_serve_query_value(const struct snap_serve_query *query, const char *name)
{
	for (size_t i = 0; i < query->parameter_count; i++)
		if (strcmp(query->parameters[i].name, name) == 0)
			return query->parameters[i].value;
	return NULL;
}
