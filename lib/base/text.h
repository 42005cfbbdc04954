/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Small functions on texts, for all stages. Knows nothing of what the texts mean. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Equal texts; NULL equals NULL alone. */
static inline bool snap_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* NULL begins with nothing. */
static inline bool snap_begins_with(const char *text, const char *beginning)
{
	return text && strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The ending of a noun after this number: "1 thread", "2 threads". */
static inline const char *snap_plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* What follows the last slash of a path; all of it where there is none, or nothing follows. */
static inline const char *snap_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}
