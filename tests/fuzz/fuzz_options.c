/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Options by name and text: moments, durations, conditions, sizes, lists, regular expressions. */
#include "api/parse.h"
#include "fuzz.h"

#include <string.h>

/* Not here: those with regular expressions, whose compiler is the C library's. */
static const char *const names[] = {
	"pid",          "unit",       "cgroup",       "container", "state",
	"group-by",     "max-frames", "max-stack",    "timeout",   "engine",
	"stop-timeout", "perf-map",   "color",        "width",     "hz",
	"duration",     "ring",       "until",        "from",      "to",
	"mode",         "interval",   "state-frames", "debug-dir", "charset",
};

static void check_values(const char *text, size_t length)
{
	struct snap_moment moment = { 0 };
	struct snap_until until = { 0 };
	uint64_t number = 0;
	int64_t duration = 0;
	const char *cursor = text, *item;
	size_t item_length;

	if (snap_parse_number(text, length, 3, 1000, &number))
		fuzz_check(number >= 3 && number <= 1000, "a number is in its range");
	if (snap_parse_duration(text, length, &duration))
		fuzz_check(duration >= 0 && duration <= 10ll * 366 * 86400 * 1000000000,
			   "a duration is in its range");
	if (snap_parse_moment(text, &moment))
		fuzz_check(moment.kind != SNAP_MOMENT_NONE, "a moment is one");
	if (snap_parse_until(text, &until))
		fuzz_check(until.kind != SNAP_UNTIL_NONE && until.limit >= 0 && until.for_ns >= 0,
			   "a condition is one");
	while ((item = snap_parse_item(&cursor, &item_length)) != NULL)
		fuzz_check(item >= text && item + item_length <= text + length,
			   "an item is inside");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snap_options options;
	char *text;

	if (size < 1 || !(text = malloc(size)))
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	check_values(text, strlen(text));
	snap_options_init(&options);
	snap_error_destroy(
		snap_options_set(&options, names[data[0] % SNAP_ARRAY_SIZE(names)], text));
	snap_options_deinit(&options);
	free(text);
	return 0;
}
