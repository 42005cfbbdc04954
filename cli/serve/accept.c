/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Media types: see accept.h. */
#include "serve/accept.h"

#include "stacksnap.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { MOST_RANGES = 32 /* of a header; the others are not looked at */ };

/* Formats that are not there, as of another build, are passed over. */
static const struct {
	const char *format, *type;
} types[] = {
	{ "text", "text/plain; charset=utf-8" },
	{ "json", "application/json" },
	{ "jsonl", "application/x-ndjson" },
	{ "html", "text/html; charset=utf-8" },
	{ "pprof", "application/octet-stream" },
	{ "folded", "text/plain; charset=utf-8" },
	{ "chrome", "application/json" },
	{ "speedscope", "application/json" },
	{ "firefox", "application/json" },
	{ "firefox-gz", "application/gzip" },
	{ "json-gz", "application/gzip" },
	{ "chrome-gz", "application/gzip" },
	{ "speedscope-gz", "application/gzip" },
	{ "snaprec", "application/octet-stream" },
	{ "thread-counts", "text/plain; charset=utf-8" },
	{ "thread-dump", "text/plain; charset=utf-8" },
	/* of /metrics, where the library has no say */
	{ "prometheus", "text/plain; version=0.0.4; charset=utf-8" },
	{ "openmetrics", "application/openmetrics-text; version=1.0.0; charset=utf-8" },
};

/* What a client may call what it wants. */
static const struct {
	const char *range, *format;
} ranges[] = {
	{ "text/plain", "text" },
	{ "text/html", "html" },
	{ "text/*", "text" },
	{ "application/json", "json" },
	{ "application/x-ndjson", "jsonl" },
	{ "application/jsonl", "jsonl" },
	{ "application/vnd.google.protobuf+gzip", "pprof" },
	{ "application/octet-stream", "pprof" },
	{ "application/openmetrics-text", "openmetrics" },
	{ "application/*", "json" },
};

const char *snap_serve_media_type(const char *format)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i].format, format) == 0)
			return types[i].type;
	return "application/octet-stream";
}

/* Whether a page has it that `usual` is a format of: the library's, or those of /metrics. */
static bool has_format(const char *format, const char *usual)
{
	const char *name;

	if (strcmp(usual, "prometheus") == 0)
		return strcmp(format, "openmetrics") == 0 || strcmp(format, "text") == 0;
	for (size_t i = 0; (name = stacksnap_format_name(i, NULL, NULL)); i++)
		if (strcmp(name, format) == 0)
			return true;
	return false;
}

static const char *format_of_range(const char *range, size_t length, const char *usual)
{
	if (length == 3 && memcmp(range, "*/*", 3) == 0)
		return usual;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (strlen(ranges[i].range) == length &&
		    strncasecmp(range, ranges[i].range, length) == 0 &&
		    has_format(ranges[i].format, usual))
			return ranges[i].format;
	return NULL;
}

/* The weight in thousandths: ";q=0.8". What is no weight counts as 1, as other parameters do. */
static unsigned weight_of(const char *text, size_t length)
{
	const char *end = text + length;
	unsigned weight = 0, unit = 1000;

	while (text < end && (text = memchr(text, ';', (size_t)(end - text)))) {
		do
			text++;
		while (text < end && (*text == ' ' || *text == '\t'));
		if (end - text < 3 || (*text != 'q' && *text != 'Q') || text[1] != '=')
			continue;
		for (text += 2; text < end && unit; text++) {
			if (*text == '.')
				continue;
			if (*text < '0' || *text > '9')
				break;
			weight += (unsigned)(*text - '0') * unit;
			unit /= 10;
		}
		return weight < 1000 ? weight : 1000;
	}
	return 1000;
}

const char *snap_serve_accept(const char *accept, const char *usual)
{
	const char *best = NULL;
	unsigned best_weight = 0;

	if (!accept || !accept[strspn(accept, " \t")])
		return usual;
	for (int i = 0; i < MOST_RANGES && *accept; i++) {
		size_t length, name_length;
		const char *format;
		unsigned weight;

		accept += strspn(accept, " \t,");
		length = strcspn(accept, ",");
		name_length = strcspn(accept, " \t;,");
		format = format_of_range(accept, name_length, usual);
		weight = weight_of(accept + name_length, length - name_length);
		if (format && weight > best_weight) {
			best = format;
			best_weight = weight;
		}
		accept += length;
	}
	return best;
}
