/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The function of a program that a stack stands in: see own.h. */
#include "render/view/own.h"

#include "base/text.h"

#include <string.h>

/* An interpreter's file begins with one of these: "php-fpm8.2", "libpython3.11.so.1.0". */
static const char *const interpreters[] = { "python", "php", "libpython", "libphp", NULL };

/* Where the machine keeps its libraries. */
static const char *const library_folders[] = { "/lib", "/usr/lib", "/usr/local/lib", NULL };

/* A part of the path of each extension, wherever the interpreter is. */
static const char *const extension_parts[] = { "/site-packages/",
					       "/dist-packages/",
					       "/lib-dynload/",
					       "/lib/php/",
					       ".cpython-",
					       ".abi3.so",
					       NULL };

static bool begins_with_any(const char *text, const char *const *beginnings)
{
	for (; *beginnings; beginnings++)
		if (snap_begins_with(text, *beginnings))
			return true;
	return false;
}

/* Of the interpreter, its extensions or the machine; without a file it is what was compiled. */
static bool serves_a_language(const char *module)
{
	if (!module || begins_with_any(module, library_folders) ||
	    begins_with_any(snap_base_name(module), interpreters))
		return true;
	for (const char *const *part = extension_parts; *part; part++)
		if (strstr(module, *part))
			return true;
	return false;
}

/* Go's functions are machine code, those of the others are run by an interpreter. */
static bool is_interpreted(const struct snap_entry *entry)
{
	return entry->language && strcmp(entry->language, "go") != 0;
}

static bool has_interpreted(const struct snap_frame *const *frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (snap_any(frames[i]->entry_count, k, is_interpreted(&frames[i]->entries[k])))
			return true;
	return false;
}

/* Done for a function of the language: by C code, or by one of its own that no file has. */
static bool is_done_for_another(const struct snap_frame *frame, const struct snap_entry *entry)
{
	return is_interpreted(entry) ? !entry->file
				     : !entry->language && serves_a_language(frame->module);
}

enum rule {
	OWN,         /* all but system code and what is done for another function */
	WITH_A_FILE, /* of the language; also in its library */
	NOT_SYSTEM,
};

static bool fits(enum rule rule, bool interpreted, const struct snap_frame *frame,
		 const struct snap_entry *entry)
{
	if (rule == WITH_A_FILE)
		return is_interpreted(entry) && entry->file;
	return !entry->system && !entry->kernel &&
	       (rule == NOT_SYSTEM || !interpreted || !is_done_for_another(frame, entry));
}

static const struct snap_frame *innermost(const struct snap_frame *const *frames, size_t count,
					  enum rule rule, bool interpreted, size_t *entry_ret)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < frames[i]->entry_count; k++)
			if (fits(rule, interpreted, frames[i], &frames[i]->entries[k])) {
				*entry_ret = k;
				return frames[i];
			}
	*entry_ret = 0;
	return NULL;
}

/* One that has no name says less than one with a name that it was called by, if that is near. */
static const struct snap_frame *named_neighbour(const struct snap_frame *const *frames,
						size_t count, size_t *entry_ret)
{
	enum { NEAR = 3 };
	const struct snap_frame *plain = innermost(frames, count, NOT_SYSTEM, false, entry_ret);
	size_t at = 0, entry = *entry_ret;

	while (plain && frames[at] != plain)
		at++;
	for (size_t i = at; plain && i < count && i <= at + NEAR; i++, entry = 0)
		for (; entry < frames[i]->entry_count; entry++) {
			const struct snap_entry *near = &frames[i]->entries[entry];

			if (!near->function || near->system || near->kernel)
				continue;
			*entry_ret = entry;
			return frames[i];
		}
	return plain;
}

const struct snap_frame *snap_own_frame(const struct snap_frame *const *frames, size_t count,
					size_t *entry_ret)
{
	const struct snap_frame *plain = named_neighbour(frames, count, entry_ret), *own;
	size_t entry = 0;

	if (!plain || !has_interpreted(frames, count))
		return plain;
	own = innermost(frames, count, OWN, true, &entry);
	if (!own)
		own = innermost(frames, count, WITH_A_FILE, true, &entry);
	if (!own)
		return plain;
	*entry_ret = entry;
	return own;
}
