/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Demangles symbols of C++, Rust, D, Ada and Fortran. The only file that uses libiberty.
 *
 * A library must not end its host, so it uses only those functions of libiberty that take a
 * callback: they allocate nothing. The functions for D and Ada allocate, and exit if they cannot, so
 * they are called only for names whose result is known to be small. A mangled name can expand without end:
 * the callback leaves by longjmp when the limit is reached. Of a long name the beginning and the end are
 * kept: the end has the function.
 */
#include "analyze/symbol/symbolizer.h"

#include "base/text.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

enum {
	HEAD = 2048,
	TAIL = SNAP_MAX_NAME - HEAD - 16, /* behind it: gap_mark and plt_mark */
	MAX_EXPANDED = 64 << 10,
	/* libiberty refuses longer C++ names unless a flag allows deep recursion. */
	MAX_SHORT_NAME = 1024,
	MAX_D_NAME = 2048,
	MAX_D_COST = 1 << 20, /* characters, references counted as what they expand to */
};

static const char plt_mark[] = "@plt", gap_mark[] = "...";

struct output {
	char text[SNAP_MAX_NAME]; /* first the beginning, and all of it by settle_output() */
	size_t length;
	char tail[TAIL]; /* a ring: the byte n of what follows the beginning is at n % TAIL */
	size_t written;
	jmp_buf full;
};

static void append_text(const char *text, size_t length, void *context)
{
	struct output *output = context;

	/* libiberty passes on nothing as NULL. */
	if (length > MAX_EXPANDED - output->written)
		longjmp(output->full, 1);
	for (size_t i = 0; i < length; i++, output->written++)
		if (output->written < HEAD)
			output->text[output->written] = text[i];
		else
			output->tail[(output->written - HEAD) % TAIL] = text[i];
}

/* The end without the beginning of a character that is cut. */
static size_t begin_of_tail(const struct output *output)
{
	size_t from = output->written - HEAD - TAIL;

	while (from < output->written - HEAD && (output->tail[from % TAIL] & 0xc0) == 0x80)
		from++;
	return from;
}

/* Puts the beginning and the end together. `has_end`: false for a name whose end is not known. */
static void settle_output(struct output *output, bool has_end)
{
	size_t from = 0, end = has_end ? output->written : 0;

	output->length = output->written < HEAD ? output->written : HEAD;
	if (!has_end || output->written > HEAD + TAIL) {
		output->length = snap_text_cut(output->text, output->length, HEAD - 4);
		memcpy(output->text + output->length, gap_mark, strlen(gap_mark));
		output->length += strlen(gap_mark);
		from = has_end ? begin_of_tail(output) : 0;
	}
	for (; HEAD + from < end; from++)
		output->text[output->length++] = output->tail[from % TAIL];
}

typedef int callback_demangler(const char *mangled, int options, demangle_callbackref callback,
			       void *context);

/* False: not a name of this language. */
static bool run_demangler(callback_demangler *demangler, const char *symbol, int options,
			  struct output *output)
{
	output->written = 0;
	if (setjmp(output->full)) {
		settle_output(output, false);
		return true;
	}
	if (demangler(symbol, options, append_text, output) == 0 || output->written == 0)
		return false;
	settle_output(output, true);
	return true;
}

static void take_text(struct output *output, const char *text, size_t length)
{
	output->written = 0;
	append_text(text, length, output);
	settle_output(output, true);
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
	take_text(output, text, strnlen(text, MAX_EXPANDED));
	return true;
}

/*
 * What libiberty does not know of GNAT's names: "TB" at the end of the body of a single task, before a
 * number that tells local symbols apart.
 */
static size_t without_task_body(const char *symbol, size_t length)
{
	size_t end = length;

	while (end > 1 && symbol[end - 1] >= '0' && symbol[end - 1] <= '9')
		end--;
	if (end < length && symbol[end - 1] == '.')
		length = end - 1;
	return length > 2 && memcmp(symbol + length - 2, "TB", 2) == 0 ? length - 2 : length;
}

/* Its result is at most seven characters longer than the symbol. False: GNAT did not make it. */
static bool run_ada(const char *symbol, size_t length, struct output *output)
{
	_cleanup_free_ char *text = NULL, *encoded = NULL;

	if (length > SNAP_MAX_NAME)
		return false;
	encoded = strndup(symbol, without_task_body(symbol, length));
	text = encoded ? ada_demangle(encoded, 0) : NULL;
	if (!text || text[0] == '<')
		return false;
	take_text(output, text, strnlen(text, MAX_EXPANDED));
	return true;
}

/* Main programs and GNAT's own packages: "a__b" of others may be a function of C. */
static bool is_of_gnat(const char *symbol)
{
	return snap_begins_with(symbol, "_ada_") || snap_begins_with(symbol, "ada__") ||
	       snap_begins_with(symbol, "system__") || snap_begins_with(symbol, "gnat__") ||
	       snap_begins_with(symbol, "interfaces__");
}

/* "__module_MOD_procedure" of gfortran, which gdb calls "module::procedure". */
static bool run_fortran(const char *symbol, size_t length, struct output *output)
{
	static const char mark[] = "_MOD_";
	const char *found = snap_begins_with(symbol, "__") ? strstr(symbol + 2, mark) : NULL;
	char text[SNAP_MAX_NAME];

	if (!found || found == symbol + 2 || length > HEAD || symbol[2] == '_' ||
	    !found[strlen(mark)])
		return false;
	take_text(output, text,
		  (size_t)snprintf(text, sizeof(text), "%.*s::%.*s", (int)(found - symbol - 2),
				   symbol + 2, (int)(symbol + length - found - strlen(mark)),
				   found + strlen(mark)));
	return true;
}

static bool demangle_name(const char *symbol, size_t length, struct output *output)
{
	int options = DMGL_PARAMS | DMGL_ANSI;

	if (length > SNAP_MAX_MANGLED)
		return false;
	if (symbol[0] == '_' && symbol[1] == 'D')
		return run_d(symbol, length, output);
	/* Rust's first form looks like C++, with a hash at its end that rust_demangle knows. */
	if ((symbol[0] == '_' && (symbol[1] == 'R' || symbol[1] == 'Z')) &&
	    run_demangler(rust_demangle_callback, symbol, options, output))
		return true;
	if (is_of_gnat(symbol))
		return run_ada(symbol, length, output);
	if (symbol[0] != '_' || symbol[1] != 'Z')
		return run_fortran(symbol, length, output);
	if (length > MAX_SHORT_NAME)
		options |= DMGL_NO_RECURSE_LIMIT;
	return run_demangler(cplus_demangle_v3_callback, symbol, options, output);
}

/* A PLT entry ("…@plt") has the name of its function: `length` without that mark. */
static bool is_of_plt(const char *symbol, size_t *length)
{
	size_t mark = strlen(plt_mark);

	if (*length <= mark || *length > SNAP_MAX_MANGLED ||
	    strcmp(symbol + *length - mark, plt_mark) != 0)
		return false;
	*length -= mark;
	return true;
}

const char *snap_symbolizer_demangle(struct snap_symbolizer *symbolizer, const char *symbol)
{
	const char *mangled = symbol;
	struct output output;
	size_t length = strlen(symbol);
	bool is_plt = is_of_plt(symbol, &length);

	if (is_plt)
		mangled = snap_intern(&symbolizer->names, symbol, length);
	if (!mangled)
		return NULL;
	if (!demangle_name(mangled, length, &output))
		return snap_symbolizer_cut(symbolizer, symbol);
	if (is_plt) {
		memcpy(output.text + output.length, plt_mark, strlen(plt_mark));
		output.length += strlen(plt_mark);
	}
	return snap_intern(&symbolizer->names, output.text, output.length);
}

bool snap_symbolizer_is_unknown(struct snap_symbolizer *symbolizer, const char *name, size_t length)
{
	const char *mangled;

	if (symbolizer->options->raw_names || length < 2 || length > SNAP_MAX_MANGLED ||
	    memcmp(name, "_Z", 2) != 0)
		return false;
	mangled = snap_intern(&symbolizer->names, name, length);
	return mangled && snap_symbolizer_demangle(symbolizer, mangled) == mangled;
}

const char *snap_symbolizer_decode_ada(struct snap_symbolizer *symbolizer, const char *symbol)
{
	struct output output;

	if (!run_ada(symbol, strlen(symbol), &output))
		return snap_symbolizer_cut(symbolizer, symbol);
	return snap_intern(&symbolizer->names, output.text, output.length);
}

const char *snap_symbolizer_cut(struct snap_symbolizer *symbolizer, const char *name)
{
	size_t length = name ? strnlen(name, SNAP_MAX_NAME + 4) : 0;

	return length < SNAP_MAX_NAME ? name
				      : snap_intern(&symbolizer->names, name,
						    snap_text_cut(name, length, SNAP_MAX_NAME - 1));
}
