/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Eliding: see elide.h. Every step only ever makes a name shorter or leaves it as it was, and each
 * is one pass over the text without recursion, as the target chooses the names.
 */
#include "render/view/elide.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Two columns wide: the common ranges of East Asian scripts and pictographs (UAX 11). */
static size_t columns_of(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} wide[] = {
		{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0xa4cf },
		{ 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },
		{ 0xff00, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x1f300, 0x1f64f },
		{ 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd },
	};

	if ((code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200d))
		return 0;
	for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
		if (code >= wide[i].first && code <= wide[i].last)
			return 2;
	return 1;
}

size_t snap_text_character(const char *p, size_t *columns)
{
	unsigned char first = (unsigned char)p[0];
	size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	uint32_t code = length == 1 ? first : first & (0x7fu >> length);
	size_t i;

	if (first == '\\') {
		i = snap_escape_unit(p, strnlen(p, 4));
		*columns = i;
		return i;
	}
	for (i = 1; i < length && ((unsigned char)p[i] & 0xc0) == 0x80; i++)
		code = code << 6 | ((unsigned char)p[i] & 0x3f);
	*columns = columns_of(code);
	return i;
}

size_t snap_text_width(const char *text)
{
	size_t width = 0, columns;

	for (; *text; width += columns)
		text += snap_text_character(text, &columns);
	return width;
}

/* The bytes of the longest head of at most `most` columns. */
static size_t head_bytes(const char *text, size_t most)
{
	size_t at = 0, width = 0, columns, length;

	for (; text[at]; at += length, width += columns) {
		length = snap_text_character(text + at, &columns);
		if (width + columns > most)
			break;
	}
	return at;
}

/* The characters of an operator's name at `p`, which are no brackets: "operator<<" at "<<". */
static size_t operator_length(const char *name, const char *p)
{
	static const char *const operators[] = {
		"()", "->*", "->", "<=>", "<<=", "<<", "<=", "<", ">>=", ">>", ">=", ">",
	};

	if (p - name < 8 || memcmp(p - 8, "operator", 8) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (snap_begins_with(p, operators[i]))
			return strlen(operators[i]);
	return 0;
}

/* Where the template argument list or parameter list that opens at `p` closes; NULL: nowhere. */
static const char *find_closing(const char *name, const char *p)
{
	size_t depth = 0;

	for (; *p; p++) {
		size_t skip = operator_length(name, p);

		if (skip) {
			p += skip - 1;
			continue;
		}
		if (*p == '<' || *p == '(' || *p == '[' || *p == '{')
			depth++;
		else if ((*p == '>' && p > name && p[-1] != '-') || *p == ')' || *p == ']' ||
			 *p == '}')
			if (--depth == 0)
				return p;
	}
	return NULL;
}

/*
 * The same, once: a name with a bracket that never closes is searched to its end a single time, so
 * that the work stays linear in its length.
 */
static const char *find_closing_if(bool wanted, bool *balanced, const char *name, const char *p)
{
	const char *close = wanted && *balanced ? find_closing(name, p) : NULL;

	if (wanted && !close)
		*balanced = false;
	return close;
}

/* Where the argument at `p` of a list that closes at `close` ends; nested: it has templates. */
static const char *end_of_argument(const char *name, const char *p, const char *close, bool *nested)
{
	*nested = false;
	while (p < close && *p != ',') {
		size_t skip = operator_length(name, p);

		if (skip) {
			p += skip;
			continue;
		}
		if (*p == '<' || *p == '(' || *p == '{') {
			const char *end = find_closing(name, p);

			*nested = *nested || *p == '<';
			p = end && end < close ? end : p;
		}
		p++;
	}
	return p;
}

/*
 * Copies the list between `open` and `close` with those arguments that have templates inside as
 * dots; `all`: the whole list is dots. Never longer than it was, or it is left as it was.
 */
static size_t shorten_list(const char *name, const char *open, const char *close, bool all,
			   const char *dots, char *out)
{
	size_t length = (size_t)(close - open) + 1, n = 0, dots_length = strlen(dots);

	out[n++] = *open;
	for (const char *p = open + 1; p < close && !all;) {
		bool nested;
		const char *end = end_of_argument(name, p, close, &nested);
		size_t blanks = strspn(p, " "), size = (size_t)(end - p);

		if (nested) {
			all = size < blanks + dots_length;
			memcpy(out + n, p, blanks);
			memcpy(out + n + blanks, dots, dots_length);
			n += blanks + dots_length;
		} else {
			memcpy(out + n, p, size);
			n += size;
		}
		p = end;
		if (p < close)
			out[n++] = *p++;
	}
	if (all) {
		n = 1;
		memcpy(out + n, dots, dots_length);
		n += dots_length;
	}
	while (n > 1 && out[n - 1] == ' ')
		n--;
	out[n++] = *close;
	if (n > length) {
		memcpy(out, open, length);
		return length;
	}
	return n;
}

/*
 * Lists in these brackets, in place. Of templates `all` arguments, or only those with templates
 * inside; "(int, char)" -> "(…)"; "[abi:cxx11]" and " [clone .part.0]" go.
 * Behind a dot stands the type that a method of Go belongs to: "queue.(*Queue).Run".
 */
static void shorten_lists(char *name, const char *brackets, bool all, const char *dots,
			  char *scratch)
{
	size_t n = 0;
	const char *p = name;
	bool balanced = true;

	while (*p) {
		size_t skip = operator_length(name, p);
		bool opens = !skip && strchr(brackets, *p) && (*p != '<' || p > name);
		const char *close = find_closing_if(opens, &balanced, name, p);

		if (skip) {
			memcpy(scratch + n, p, skip);
			n += skip;
			p += skip;
		} else if (close && (*p == '<' || (*p == '(' && close > p + strlen(dots) &&
						   (p == name || p[-1] != '.') &&
						   !snap_begins_with(p, "(anonymous")))) {
			n += shorten_list(name, p, close, all, dots, scratch + n);
			p = close + 1;
		} else if (close &&
			   (snap_begins_with(p, "[abi:") || snap_begins_with(p, "[clone"))) {
			while (n && scratch[n - 1] == ' ')
				n--;
			p = close + 1;
		} else {
			scratch[n++] = *p++;
		}
	}
	scratch[n] = '\0';
	memcpy(name, scratch, n + 1);
}

/* Where the last component of a qualified name begins: after the last "::" outside brackets. */
static size_t last_component(const char *name)
{
	size_t start = 0;
	bool balanced = true;

	for (const char *p = name; *p; p++) {
		size_t skip = operator_length(name, p);
		bool opens = !skip && (*p == '<' || *p == '(' || *p == '{');
		const char *close = find_closing_if(opens, &balanced, name, p);

		if (skip)
			p += skip - 1;
		else if (close)
			p = close;
		else if (p[0] == ':' && p[1] == ':')
			start = (size_t)(p - name) + 2;
	}
	return start;
}

/* The first `head` bytes, dots, and the tail from `tail` on. */
static void cut_middle(char *name, size_t head, size_t tail, const char *dots)
{
	size_t dots_length = strlen(dots);

	if (tail < head + dots_length)
		return;
	memcpy(name + head, dots, dots_length);
	memmove(name + head + dots_length, name + tail, strlen(name + tail) + 1);
}

/* The first byte of the longest tail of at most `most` columns. */
static size_t tail_start(const char *text, size_t most)
{
	size_t width = snap_text_width(text), at = 0, columns;

	while (text[at] && width > most) {
		at += snap_text_character(text + at, &columns);
		width -= columns;
	}
	return at;
}

/* "std::string" for what it is short for, in place: of gcc since version 5 and before, of llvm. */
static void shorten_strings(char *name)
{
	static const char *const wholes[] = {
		"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>",
		"std::basic_string<char, std::char_traits<char>, std::allocator<char>",
		("std::__1::basic_string<char, std::__1::char_traits<char>, "
		 "std::__1::allocator<char>"),
	};
	static const char brief[] = "std::string";
	const size_t length = sizeof(brief) - 1;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(wholes); i++)
		for (char *at = name; (at = strstr(at, wholes[i])); at++) {
			const char *end = at + strlen(wholes[i]);

			end += *end == ' ';
			if (*end != '>')
				continue;
			memcpy(at, brief, length);
			memmove(at + length, end + 1, strlen(end + 1) + 1);
		}
}

void snap_shorten_name(char *name, size_t most, const char *dots)
{
	enum { LONGEST = 4 * 4096 + 16 };
	char scratch[LONGEST];

	shorten_strings(name);
	if (snap_text_width(name) <= most || strlen(name) >= sizeof(scratch) - 8)
		return;
	shorten_lists(name, "<", false, dots, scratch);
	if (snap_text_width(name) > most)
		shorten_lists(name, "([", true, dots, scratch);
	if (snap_text_width(name) > most)
		shorten_lists(name, "<", true, dots, scratch);
}

char *snap_short_name(const struct snap_options *options, bool utf8, const char *name)
{
	char *copy = strdup(name);

	if (copy && !options->full_names)
		snap_shorten_name(copy, SNAP_NAME_COLUMNS, utf8 ? "…" : "...");
	return copy;
}

void snap_elide_name(char *name, size_t most, const char *dots)
{
	size_t dots_width = snap_text_width(dots), last, tail_width;

	snap_shorten_name(name, most, dots);
	if (snap_text_width(name) <= most)
		return;
	last = last_component(name);
	tail_width = snap_text_width(name + last);
	if (last && tail_width + dots_width <= most)
		cut_middle(name, head_bytes(name, most - tail_width - dots_width), last, dots);
	else if (last)
		cut_middle(name, 0, last, dots);
	else if (most > dots_width + 2)
		cut_middle(name, head_bytes(name, (most - dots_width) / 2),
			   tail_start(name, most - dots_width - (most - dots_width) / 2), dots);
}

const char *snap_source_path(const char *file)
{
	const char *library = snap_begins_with(file, "/rustc/") ? strstr(file, "/library/") : NULL;

	return library && library - file == strlen("/rustc/") + 40 ? library + 1 : file;
}

void snap_elide_path(char *path, size_t most, const char *dots)
{
	size_t width = snap_text_width(path), dots_width = snap_text_width(dots);
	const char *slash = path;

	if (width <= most)
		return;
	/* From the second slash on, the first that leaves little enough. */
	for (const char *next = strchr(path + 1, '/'); next; next = strchr(next + 1, '/')) {
		slash = next;
		if (dots_width + snap_text_width(next) <= most)
			break;
	}
	if (slash > path && dots_width + snap_text_width(slash) <= most)
		cut_middle(path, 0, (size_t)(slash - path), dots);
	else if (slash > path)
		memmove(path, slash + 1, strlen(slash));
}

void snap_elide_end(char *text, size_t most, const char *dots)
{
	size_t dots_width = snap_text_width(dots), dots_length = strlen(dots);
	size_t length = strlen(text), at = 0, width = 0, columns, step;

	if (snap_text_width(text) <= most || most <= dots_width || length < dots_length)
		return;
	/* The dots may be more bytes than what they replace; whole characters make room. */
	for (; text[at]; at += step, width += columns) {
		step = snap_text_character(text + at, &columns);
		if (width + columns > most - dots_width || at + step + dots_length > length)
			break;
	}
	strcpy(text + at, dots);
}
