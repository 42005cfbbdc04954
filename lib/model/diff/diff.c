/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See diff.h. */
#include "model/diff/diff.h"

#include <stdarg.h>
#include <stdio.h>

enum { MOST_WARNINGS = 16, LONGEST_WARNING = 512 };

struct snap_diff *snap_diff_new(void)
{
	struct snap_diff *diff = calloc(1, sizeof(*diff));

	if (diff)
		snap_arena_init(&diff->arena);
	return diff;
}

void snap_diff_destroy(struct snap_diff *diff)
{
	if (!diff)
		return;
	snap_arena_deinit(&diff->arena);
	free(diff);
}

void snap_diff_warn(struct snap_diff *diff, const char *code, const char *format, ...)
{
	char text[LONGEST_WARNING];
	const char *message;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!diff->warnings)
		diff->warnings =
			snap_arena_new_array(&diff->arena, MOST_WARNINGS, struct snap_warning);
	message = snap_arena_strdup(&diff->arena, text);
	if (diff->warnings && message && diff->warning_count < MOST_WARNINGS)
		diff->warnings[diff->warning_count++] =
			(struct snap_warning){ .code = code, .message = message };
}

bool snap_diff_differs(const struct snap_diff *diff)
{
	return diff->group_count || diff->process_count || diff->function_count;
}

const char *snap_change_word(enum snap_change change)
{
	static const char *const words[SNAP_CHANGE_COUNT] = {
		[SNAP_CHANGE_APPEARED] = "appeared",
		[SNAP_CHANGE_GREW] = "grew",
		[SNAP_CHANGE_SHRANK] = "shrank",
		[SNAP_CHANGE_WENT] = "went",
	};

	return words[change];
}
