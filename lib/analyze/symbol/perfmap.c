/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Perf maps: names that a JIT compiler wrote for its code, "START SIZE name" a line in hexadecimal.
 *
 * A map is compared with the sorted addresses as it is read, and never kept. Code is compiled again
 * and memory is used again, so a later line wins over an earlier one. The code that opened the file
 * has decided whether to trust it; its contents may still make no sense.
 */
#include "analyze/symbol/symbolizer.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
	BUFFER = 1 << 16,
	MAX_LINE = SNAP_MAX_NAME + 64,
	MAX_LINES = 1 << 23, /* large JVMs have some 10^5 methods */
	MAX_HITS = 1 << 24,  /* addresses of lines, of which each could cover all */
};
static const uint64_t max_code = 1ull << 32, max_file = 256ull << 20;

struct scan {
	struct snap_symbolizer *symbolizer;
	struct snap_query *queries;
	size_t count;
	char **names; /* of the queries, so far; malloc'ed: most are replaced, not shown */
	size_t hits;
	bool out_of_memory;
};

/* A hexadecimal number with or without 0x (the JDK writes it), then one space or more. */
static bool parse_number(const char **text, const char *end, uint64_t *ret)
{
	const char *p = *text;
	uint64_t value = 0;
	int digits = 0;

	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	for (; p < end && isxdigit((unsigned char)*p); p++, digits++)
		value = value << 4 |
			(uint64_t)(isdigit((unsigned char)*p) ? *p - '0' : (*p | 0x20) - 'a' + 10);
	if (digits == 0 || digits > 16 || p == end || *p != ' ')
		return false;
	while (p < end && *p == ' ')
		p++;
	*text = p;
	*ret = value;
	return true;
}

static size_t query_from(const struct scan *scan, uint64_t address)
{
	return snap_first_not(scan->count, i, scan->queries[i].vaddr < address);
}

static void take_line(struct scan *scan, const char *line, const char *end)
{
	uint64_t start, size;

	if (!parse_number(&line, end, &start) || !parse_number(&line, end, &size))
		return;
	if (end > line && end[-1] == '\r')
		end--;
	if (start == 0 || size == 0 || size > max_code || start + size < start || line == end)
		return;
	for (size_t i = query_from(scan, start);
	     i < scan->count && scan->queries[i].vaddr - start < size && scan->hits < MAX_HITS;
	     i++, scan->hits++) {
		size_t length = (size_t)(end - line);
		char *name = strndup(line, snap_text_cut(line, length, SNAP_MAX_NAME - 1));

		if (!name) {
			scan->out_of_memory = true;
			return;
		}
		free(scan->names[i]);
		scan->names[i] = name;
	}
}

/* Takes the whole lines of the buffer; returns how many bytes are left over for the next turn. */
static size_t take_lines(struct scan *scan, char *buffer, size_t filled, size_t *lines)
{
	char *line = buffer, *end = buffer + filled;

	while (*lines < MAX_LINES) {
		char *newline = memchr(line, '\n', (size_t)(end - line));

		if (!newline)
			break;
		take_line(scan, line, newline);
		line = newline + 1;
		++*lines;
	}
	if (line == buffer && filled > MAX_LINE)
		return 0; /* no line of any use is so long: dropped in pieces */
	memmove(buffer, line, (size_t)(end - line));
	return (size_t)(end - line);
}

static struct stacksnap_error *read_map(struct scan *scan, int fd)
{
	_cleanup_free_ char *buffer = malloc(BUFFER);
	size_t filled = 0, lines = 0;
	uint64_t total = 0;

	SNAP_TRY(snap_no_memory_unless(buffer));
	while (total < max_file && lines < MAX_LINES) {
		ssize_t n = read(fd, buffer + filled, BUFFER - filled);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		SNAP_TRY(snap_options_check(scan->symbolizer->options));
		total += (uint64_t)n;
		filled = take_lines(scan, buffer, filled + (size_t)n, &lines);
	}
	/* The last line may lack its newline: it is being written, so not whole. */
	return snap_no_memory_unless(!scan->out_of_memory);
}

static struct stacksnap_error *fill_queries(struct scan *scan)
{
	for (size_t i = 0; i < scan->count; i++) {
		struct snap_entry *entry;

		if (!scan->names[i])
			continue;
		entry = snap_arena_new(scan->symbolizer->arena, struct snap_entry);
		SNAP_TRY(snap_no_memory_unless(entry));
		entry->symbol = snap_intern(&scan->symbolizer->names, scan->names[i],
					    strlen(scan->names[i]));
		entry->function = entry->symbol;
		SNAP_TRY(snap_no_memory_unless(entry->symbol));
		scan->queries[i].entries = entry;
		scan->queries[i].entry_count = 1;
	}
	return NULL;
}

struct stacksnap_error *snap_symbolize_perf_map(struct snap_symbolizer *symbolizer,
						const struct snap_process *process,
						struct snap_query *queries, size_t count,
						const char **trouble_ret)
{
	struct snap_file_request request = { .kind = SNAP_FILE_PERF_MAP, .process = process };
	struct scan scan = { .symbolizer = symbolizer, .queries = queries, .count = count };
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;

	*trouble_ret = NULL;
	if (count == 0 || !symbolizer->options->symbols)
		return NULL;
	err = symbolizer->finder->find(symbolizer->finder->context, &request, &fd);
	if (err) {
		if (snap_error_code(err) != SNAP_ERROR_NOT_FOUND)
			*trouble_ret =
				snap_arena_strdup(symbolizer->arena, snap_error_message(err));
		snap_error_destroy(err);
		return NULL;
	}
	scan.names = calloc(count, sizeof(*scan.names));
	SNAP_TRY(snap_no_memory_unless(scan.names));
	err = read_map(&scan, fd);
	err = err ?: fill_queries(&scan);
	for (size_t i = 0; i < count; i++)
		free(scan.names[i]);
	free(scan.names);
	return err;
}
