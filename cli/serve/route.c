/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Routes: see route.h. */
#include "serve/route.h"

#include "serve/accept.h"
#include "stacksnap.h"

#include <stdlib.h>
#include <string.h>

/* Parameters that a page takes; a set of bits. */
enum {
	TARGET = 1 << 0,
	SECONDS = 1 << 1,
	HZ = 1 << 2,
	MODE = 1 << 3,
	DEBUG = 1 << 4,
};

static const struct {
	const char *name;
	unsigned bit;
} parameters[] = {
	{ "target", TARGET }, { "seconds", SECONDS }, { "hz", HZ },
	{ "mode", MODE },     { "debug", DEBUG },
};

static const struct page {
	const char *path;
	enum snap_serve_page page;
	unsigned parameters;
	/* NULL: by the suffix of the path or by what the client accepts … */
	const char *format;
	/* … and this one where it accepts anything */
	const char *usual;
	unsigned seconds; /* where none are given */
	const char *mode;
} pages[] = {
	{ "/", SNAP_SERVE_HOME, 0, "text", NULL, 0, NULL },
	{ "/metrics", SNAP_SERVE_METRICS, 0, "prometheus", NULL, 0, NULL },
	{ "/debug/pprof", SNAP_SERVE_PPROF_REDIRECT, 0, "text", NULL, 0, NULL },
	{ "/debug/pprof/", SNAP_SERVE_PPROF_INDEX, TARGET, "text", NULL, 0, NULL },
	/* As of Go: of what runs, for 30 seconds. */
	{ "/debug/pprof/profile", SNAP_SERVE_RECORDING, TARGET | SECONDS | HZ | MODE, "pprof", NULL,
	  30, "cpu" },
	{ "/debug/pprof/threads", SNAP_SERVE_SNAPSHOT, TARGET | DEBUG, "pprof", NULL, 0, NULL },
	{ "/processes", SNAP_SERVE_PROCESSES, TARGET, NULL, "json", 0, NULL },
	{ "/snapshot", SNAP_SERVE_SNAPSHOT, TARGET, NULL, "text", 0, NULL },
	{ "/recording", SNAP_SERVE_RECORDING, TARGET | SECONDS | HZ | MODE, NULL, "text", 10,
	  "wall" },
};

static unsigned refuse(unsigned status, const char *why, const char **why_ret)
{
	*why_ret = why;
	return status;
}

/* The format with exactly this suffix; NULL: there is none. */
static const char *format_of_suffix(const char *wanted)
{
	const char *name, *suffix = NULL;

	for (size_t i = 0; (name = stacksnap_format_name(i, &suffix, NULL)); i++)
		if (suffix && strcmp(suffix, wanted) == 0)
			return name;
	return NULL;
}

/* The page of a path, and what stands behind its name there: "" or ".json". */
static const struct page *find_page(const char *path, const char **suffix_ret)
{
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		const struct page *page = &pages[i];
		size_t length = strlen(page->path);

		if (strncmp(path, page->path, length) != 0)
			continue;
		*suffix_ret = path + length;
		if (path[length] == '\0' || (!page->format && path[length] == '.'))
			return page;
	}
	return NULL;
}

/* A decimal number from 1 to `most`, without sign or spaces; 0: it is none. */
static unsigned number_of(const char *text, unsigned most)
{
	unsigned long number;

	if (!*text || strlen(text) > 6 || strspn(text, "0123456789") != strlen(text))
		return 0;
	number = strtoul(text, NULL, 10);
	return number <= most ? (unsigned)number : 0;
}

static unsigned set_debug(struct snap_serve_order *order, const char *value, const char **why_ret)
{
	if (strcmp(value, "0") == 0)
		return 0;
	if (strcmp(value, "1") == 0)
		order->format = "thread-counts";
	else if (strcmp(value, "2") == 0)
		order->format = "thread-dump";
	else
		return refuse(400, "debug: 0, 1 or 2", why_ret);
	return 0;
}

static unsigned set_parameter(struct snap_serve_order *order, unsigned bit, const char *value,
			      const char **why_ret)
{
	switch (bit) {
	case TARGET:
		order->target = value;
		return *value ? 0 : refuse(400, "target: is empty", why_ret);
	case SECONDS:
		order->seconds = number_of(value, SNAP_SERVE_MAX_SECONDS);
		return order->seconds ? 0 : refuse(400, "seconds: 1 to 60", why_ret);
	case HZ:
		order->hz = number_of(value, SNAP_SERVE_MAX_HZ);
		return order->hz ? 0 : refuse(400, "hz: 1 to 1000", why_ret);
	case MODE:
		order->mode = strcmp(value, "cpu") == 0 ? "cpu" : "wall";
		return strcmp(order->mode, value) == 0 ? 0
						       : refuse(400, "mode: wall or cpu", why_ret);
	default:
		return set_debug(order, value, why_ret);
	}
}

/* Every parameter that is there must be one of the page's: a misspelt one would be ignored. */
static unsigned set_parameters(const struct snap_serve_query *query, const struct page *page,
			       struct snap_serve_order *order, const char **why_ret)
{
	for (size_t i = 0; i < query->parameter_count; i++) {
		const struct snap_serve_parameter *given = &query->parameters[i];
		unsigned bit = 0, status;

		for (size_t j = 0; j < sizeof(parameters) / sizeof(parameters[0]); j++)
			if (strcmp(parameters[j].name, given->name) == 0)
				bit = parameters[j].bit;
		if (!(bit & page->parameters))
			return refuse(400, "unknown parameter", why_ret);
		status = set_parameter(order, bit, given->value, why_ret);
		if (status)
			return status;
	}
	return 0;
}

/* Of processes there is a list as text and as JSON, and nothing else. */
static bool can_show(const struct page *page, const char *format)
{
	return page->page != SNAP_SERVE_PROCESSES || strcmp(format, "text") == 0 ||
	       strcmp(format, "json") == 0;
}

/* Every client gets the older text, but one that would rather have the newer. */
static const char *metrics_format(const char *accept)
{
	const char *format = snap_serve_accept(accept, "prometheus");

	return format && strcmp(format, "openmetrics") == 0 ? format : "prometheus";
}

unsigned snap_serve_route(const struct snap_serve_query *query, const char *accept,
			  struct snap_serve_order *ret, const char **why_ret)
{
	const char *suffix;
	const struct page *page = find_page(query->path, &suffix);
	unsigned status;

	if (!page)
		return refuse(404, "no such page", why_ret);
	*ret = (struct snap_serve_order){ .page = page->page,
					  .format = page->format,
					  .seconds = page->seconds,
					  .hz = 99,
					  .mode = page->mode };
	if (!page->format)
		ret->format =
			*suffix ? format_of_suffix(suffix) : snap_serve_accept(accept, page->usual);
	else if (page->page == SNAP_SERVE_METRICS)
		ret->format = metrics_format(accept);
	if (!ret->format || !can_show(page, ret->format))
		return refuse(406, "no such format here: see 'stacksnap --help'", why_ret);
	status = set_parameters(query, page, ret, why_ret);
	ret->type = snap_serve_media_type(ret->format);
	return status;
}
