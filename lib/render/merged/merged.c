/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The formats of what was merged, and hosts of a set: see merged.h. */
#include "render/merged/merged.h"

#include <string.h>

static bool has_merged_format(const char *format)
{
	return strcmp(format, "text") == 0 || strcmp(format, "json") == 0 ||
	       strcmp(format, "jsonl") == 0;
}

struct stacksnap_error *snap_render_merged(const struct snap_merged *merged,
					   const struct snap_options *options, const char *format,
					   FILE *out)
{
	if (strcmp(format, "text") == 0)
		return snap_render_merged_text(merged, options, out);
	if (has_merged_format(format))
		return snap_render_merged_json(merged, out, strcmp(format, "jsonl") == 0);
	return snap_error_format(
		SNAP_ERROR_INVALID,
		"format '%s' cannot show what was merged: text, json and jsonl can", format);
}

/* The numbers from `first` to before `end`, as far as there is room. */
static size_t pick(uint32_t first, uint32_t end, uint32_t *numbers, size_t count, size_t most)
{
	while (first < end && count < most)
		numbers[count++] = first++;
	return count;
}

size_t snap_merged_pick_hosts(const struct snap_host_set *set, size_t all, bool inside,
			      uint32_t *numbers, size_t most)
{
	size_t count = 0;
	uint32_t behind = 0;

	for (size_t i = 0; i < set->count; i++) {
		const struct snap_host_range *range = &set->ranges[i];

		if (inside)
			count = pick(range->first, range->last + 1, numbers, count, most);
		else
			count = pick(behind, range->first, numbers, count, most);
		behind = range->last + 1;
	}
	return inside ? count : pick(behind, (uint32_t)all, numbers, count, most);
}
