/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which texts name files: what stands in maps, and in the files of a target. Opens nothing, and
 * knows nothing of where files are looked for.
 */
#include "files/search.h"

#include "base/text.h"

#include <string.h>

/* The kernel writes no path that goes up; a forged capture could. */
bool snap_path_goes_up(const char *path)
{
	for (const char *p = path; (p = strstr(p, "/..")); p++)
		if (p[3] == '/' || p[3] == '\0')
			return true;
	return false;
}

/*
 * The kernel writes a newline of a path as \012, and a backslash as it is: such a text is one of
 * two paths. Both are tried, what is inside tells. False: there is no such text in it.
 */
bool snap_path_with_newlines(const char *path, char out[PATH_MAX])
{
	const char *from = path;
	size_t length = 0;

	if (!path || !strstr(path, "\\012") || strlen(path) >= PATH_MAX)
		return false;
	while (*from) {
		bool newline = snap_begins_with(from, "\\012");

		out[length++] = newline ? '\n' : *from;
		from += newline ? 4 : 1;
	}
	out[length] = '\0';
	return true;
}

/* A name out of a file of the target: a plain file name, or it is not looked for. */
bool snap_name_is_plain(const char *name)
{
	return name && name[0] && strlen(name) <= NAME_MAX && !strchr(name, '/') &&
	       strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}
