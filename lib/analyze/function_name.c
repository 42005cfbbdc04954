/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Suffixes of compilers: see function_name.h. Only known suffixes are removed. In other languages
 * dots are a part of names, and a number behind a dot distinguishes functions
 * ("main.main.func1.2").
 */
#include "analyze/function_name.h"

#include "base/cleanup.h"

#include <string.h>

/* gcc's, and llvm's for its ThinLTO; each with or without ".0" behind it. */
static const char *const suffixes[] = {
	".cold", ".constprop", ".isra", ".llvm", ".localalias", ".lto_priv", ".part",
};

/* Without one suffix at the end of `length` characters; `length` itself: there is none. */
static size_t without_suffix(const char *name, size_t length)
{
	size_t end = length;

	while (end && name[end - 1] >= '0' && name[end - 1] <= '9')
		end--;
	if (end == length || !end || name[end - 1] != '.')
		end = length;
	else
		end--;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(suffixes); i++) {
		size_t size = strlen(suffixes[i]);

		if (end > size && memcmp(name + end - size, suffixes[i], size) == 0)
			return end - size;
	}
	return length;
}

/* "foo(int) [clone .part.0]" -> "foo(int)"; `length` itself: that is not how it ends. */
static size_t without_clone(const char *name, size_t length)
{
	static const char before[] = " [clone ";
	const size_t size = sizeof(before) - 1;
	size_t at = length - 1; /* of the suffix, whose first character is a dot */

	if (!length || name[length - 1] != ']')
		return length;
	while (at && name[at - 1] != ' ')
		at--;
	if (at <= size || length - at < 2 || memcmp(name + at - size, before, size) != 0 ||
	    without_suffix(name + at - 1, length - at) != 1)
		return length;
	return at - size;
}

size_t snap_function_name_length(const char *name)
{
	size_t length = strlen(name), shorter = length;

	do {
		length = shorter;
		shorter = without_suffix(name, length);
		if (shorter == length)
			shorter = without_clone(name, length);
	} while (shorter < length);
	return length;
}
