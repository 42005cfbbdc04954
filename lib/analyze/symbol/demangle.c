/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Demangles symbols of C++, Rust and D. The only file that uses libiberty.
 *
 * A library must not end its host, so it uses only those functions of libiberty that take a
 * callback: they allocate nothing. The function for D allocates, and exits if it cannot, so it is
 * called only for names whose result is known to be small. A mangled name can expand without end:
 * the callback leaves by longjmp when the limit is reached.
 */
#include "analyze/symbol/symbolizer.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

enum {
	MAX_OUTPUT = SNAP_MAX_NAME - 8, /* behind it: "..." and the mark of a stub */
	/*
	 * libiberty refuses longer C++ names unless a flag allows deep recursion. With
	 * names of at most 4 KiB it needs less than 1 MiB of stack, whatever they say.
	 */
	MAX_SHORT_NAME = 1024,
	MAX_LONG_NAME = 4096,
	MAX_D_NAME = 2048,
	MAX_D_COST = 1 << 20, /* characters, references counted as what they expand to */
};

static const char stub_mark[] = "@plt";

struct output {
	char text[SNAP_MAX_NAME];
	size_t length;
	jmp_buf full;
};

static void append_text(const char *text, size_t length, void *context)
{
	struct output *output = context;
	size_t room = MAX_OUTPUT - output->length;

	/* libiberty passes on nothing as NULL. */
	if (length == 0)
		return;
	memcpy(output->text + output->length, text, length < room ? length : room);
	output->length += length < room ? length : room;
	if (length > room)
		longjmp(output->full, 1);
}

typedef int callback_demangler(const char *mangled, int options, demangle_callbackref callback,
			       void *context);

/* False: not a name of this language. A name that is too long is cut and marked. */
static bool run_demangler(callback_demangler *demangler, const char *symbol, int options,
			  struct output *output)
{
	output->length = 0;
	if (setjmp(output->full)) {
		memcpy(output->text + output->length, "...", 3);
		output->length += 3;
		return true;
	}
	return demangler(symbol, options, append_text, output) != 0 && output->length > 0;
}

/*
 * A bound of the characters that a D name expands to. A reference ("Q", then a number in base 26,
 * small letter last) repeats a part of what precedes it, at most for all of it from the place
 * it points to; references inside that were counted when they were met.
 */
static bool is_modest_d_name(const char *symbol, size_t length)
{
	uint32_t before[MAX_D_NAME + 1]; /* cost of the first i characters */

	if (length > MAX_D_NAME)
		return false;
	before[0] = 0;
	for (size_t i = 0; i < length; i++) {
		size_t k = i + 1, distance = 0;
		uint32_t cost = 1;

		while (symbol[i] == 'Q' && symbol[k] >= 'A' && symbol[k] <= 'Z' &&
		       distance <= length)
			distance = distance * 26 + (size_t)(symbol[k++] - 'A');
		if (symbol[i] == 'Q' && symbol[k] >= 'a' && symbol[k] <= 'z') {
			distance = distance * 26 + (size_t)(symbol[k] - 'a');
			if (distance > 0 && distance <= i)
				cost += before[i] - before[i - distance];
		}
		before[i + 1] = before[i] + cost;
		if (before[i + 1] > MAX_D_COST)
			return false;
	}
	return true;
}

static bool run_d(const char *symbol, size_t length, struct output *output)
{
	_cleanup_free_ char *text = NULL;

	if (!is_modest_d_name(symbol, length))
		return false;
	text = dlang_demangle(symbol, DMGL_PARAMS);
	if (!text)
		return false;
	output->length = strnlen(text, MAX_OUTPUT);
	memcpy(output->text, text, output->length);
	return true;
}

static bool demangle_name(const char *symbol, size_t length, struct output *output)
{
	int options = DMGL_PARAMS | DMGL_ANSI;

	if (length > MAX_LONG_NAME)
		return false;
	if (symbol[0] == '_' && symbol[1] == 'D')
		return run_d(symbol, length, output);
	/* Rust's first form looks like C++, with a hash at its end that rust_demangle knows. */
	if ((symbol[0] == '_' && (symbol[1] == 'R' || symbol[1] == 'Z')) &&
	    run_demangler(rust_demangle_callback, symbol, options, output))
		return true;
	if (symbol[0] != '_' || symbol[1] != 'Z')
		return false;
	if (length > MAX_SHORT_NAME)
		options |= DMGL_NO_RECURSE_LIMIT;
	return run_demangler(cplus_demangle_v3_callback, symbol, options, output);
}

/* The stub of a function ("…@plt") is called like the function: `length` without that mark. */
static bool is_stub(const char *symbol, size_t *length)
{
	size_t mark = strlen(stub_mark);

	if (*length <= mark || *length > MAX_LONG_NAME ||
	    strcmp(symbol + *length - mark, stub_mark) != 0)
		return false;
	*length -= mark;
	return true;
}

const char *snap_symbolizer_demangle(struct snap_symbolizer *symbolizer, const char *symbol)
{
	const char *mangled = symbol;
	struct output output;
	size_t length = strlen(symbol), whole = length;
	bool stub = is_stub(symbol, &length);

	if (stub)
		mangled = snap_intern(&symbolizer->names, symbol, length);
	if (!mangled)
		return NULL;
	if (!demangle_name(mangled, length, &output))
		return snap_intern(&symbolizer->names, symbol,
				   snap_text_cut(symbol, whole, SNAP_MAX_NAME - 1));
	if (stub) {
		memcpy(output.text + output.length, stub_mark, strlen(stub_mark));
		output.length += strlen(stub_mark);
	}
	return snap_intern(&symbolizer->names, output.text, output.length);
}
