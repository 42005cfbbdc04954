/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes and releases documents and their readers, and reads sets of hosts from text: see
 * document.h.
 */
#include "merge/document.h"

#include "merge/reader.h"

#include <string.h>

void snap_merge_document_deinit(struct snap_merge_document *document)
{
	free(document->hosts);
	free(document->times);
	free(document->processes);
	free(document->stacks);
	free(document->owners);
	free(document->examples);
	free(document->places);
	snap_buffer_deinit(&document->text);
	snap_buffer_deinit(&document->labels);
	*document = (struct snap_merge_document){ 0 };
}

void snap_merge_document_clear(struct snap_merge_document *document)
{
	document->host_count = document->time_count = document->process_count =
		document->stack_count = document->owner_count = document->example_count =
			document->place_count = 0;
	document->has_deadlock = false;
	document->deadlock_hosts = (struct snap_json_span){ 0 };
	snap_buffer_clear(&document->text);
	snap_buffer_clear(&document->labels);
}

struct snap_merge_reader *snap_merge_reader_create(void)
{
	return calloc(1, sizeof(struct snap_merge_reader));
}

void snap_merge_reader_destroy(struct snap_merge_reader *reader)
{
	if (!reader)
		return;
	snap_json_scan_deinit(&reader->scan);
	snap_merge_canon_deinit(&reader->canon);
	free(reader->values);
	free(reader->labels);
	snap_buffer_deinit(&reader->lines);
	free(reader);
}

/* A number below `most`, at most nine digits; false: there is none. */
static bool parse_number(const char **at, const char *end, size_t most, uint32_t *ret)
{
	const char *begin = *at;
	uint32_t number = 0;

	while (*at < end && **at >= '0' && **at <= '9' && *at - begin < 9)
		number = number * 10 + (uint32_t)(*(*at)++ - '0');
	*ret = number;
	return *at > begin && number < most;
}

bool snap_merge_parse_set(const struct snap_json_span *span, size_t hosts,
			  struct snap_host_set *set)
{
	const char *at = span->bytes, *end = at + span->length;

	set->count = 0;
	do {
		struct snap_host_range range;

		at += set->count > 0;
		if (!parse_number(&at, end, hosts, &range.first))
			return false;
		range.last = range.first;
		if (at < end && *at == '-') {
			at++;
			if (!parse_number(&at, end, hosts, &range.last))
				return false;
		}
		if (range.last < range.first ||
		    (set->count && range.first <= set->ranges[set->count - 1].last) ||
		    !snap_append(set->ranges, set->count, set->capacity, range))
			return false;
	} while (at < end && *at == ',');
	return at == end;
}
