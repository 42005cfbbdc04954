/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines: see line.h. Blanks at the end of a line are never written.
 */
#include "render/text/line.h"

#include "base/escape.h"
#include "render/view/elide.h"

#include <stdarg.h>
#include <string.h>

static const struct snap_signs utf8_signs = {
	.tee = "├─ ",
	.corner = "└─ ",
	.rail = "│",
	.inlined = "┊",
	.tail_call = "›",
	.guessed = "~",
	.times = "×",
	.dots = "…",
	.middot = "·",
	.arrow = "←",
	.calls = "→",
};

static const struct snap_signs ascii_signs = {
	.tee = "|- ",
	.corner = "`- ",
	.rail = "|",
	.inlined = ":",
	.tail_call = ">",
	.guessed = "~",
	.times = "x",
	.dots = "...",
	.middot = "-",
	.arrow = "<-",
	.calls = "->",
};

void snap_sheet_init(struct snap_sheet *lines, const struct snap_options *options, FILE *out)
{
	enum { LEAST_RIGHT = 26, NARROWEST = 32 };
	bool is_dense = options->summary || options->call_tree;
	size_t widest = is_dense ? SNAP_WIDEST_DENSE_COLUMN : SNAP_WIDEST_COLUMN;
	size_t width = options->full_names ? 0 : options->width;

	if (width && width < widest + LEAST_RIGHT)
		widest = width > NARROWEST + LEAST_RIGHT ? width - LEAST_RIGHT : NARROWEST;
	*lines = (struct snap_sheet){
		.out = out,
		.signs = options->utf8 ? &utf8_signs : &ascii_signs,
		.escape_flags = options->utf8 ? 0 : SNAP_ESCAPE_ASCII,
		.color = options->color,
		.width = width,
		.widest_column = widest,
		.ignores_long = is_dense,
	};
}

void snap_sheet_deinit(struct snap_sheet *lines)
{
	snap_buffer_deinit(&lines->text);
	snap_buffer_deinit(&lines->escaped);
}

void snap_sheet_push(struct snap_sheet *lines, bool rail)
{
	if (lines->depth < SNAP_DEEPEST_RAILS)
		lines->rails[lines->depth] = rail;
	lines->depth++;
}

void snap_sheet_pop(struct snap_sheet *lines)
{
	lines->depth--;
}

static void append_text(struct snap_sheet *lines, const char *text, size_t length)
{
	snap_buffer_add(&lines->text, text, length);
	lines->failed = lines->failed || lines->text.failed;
}

static const char *code_of(enum snap_style style)
{
	static const char *const codes[] = {
		[SNAP_STYLE_PLAIN] = "",
		[SNAP_STYLE_BOLD] = "\033[1m",
		[SNAP_STYLE_DIM] = "\033[2m",
		[SNAP_STYLE_RED] = "\033[31m",
		[SNAP_STYLE_RED_BOLD] = "\033[1;31m",
		[SNAP_STYLE_GREEN] = "\033[32m",
		[SNAP_STYLE_YELLOW] = "\033[33m",
		[SNAP_STYLE_MAGENTA] = "\033[35m",
		[SNAP_STYLE_CYAN] = "\033[36m",
	};

	return codes[style];
}

void snap_line_add(struct snap_sheet *lines, enum snap_style style, const char *text)
{
	bool colored = lines->color && style != SNAP_STYLE_PLAIN && *text;

	if (colored)
		append_text(lines, code_of(style), strlen(code_of(style)));
	append_text(lines, text, strlen(text));
	if (colored)
		append_text(lines, "\033[0m", 4);
	lines->columns += snap_text_width(text);
}

void snap_line_printf(struct snap_sheet *lines, enum snap_style style, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	snap_line_add(lines, style, text);
}

char *snap_sheet_escape(struct snap_sheet *lines, const char *text)
{
	size_t length = strlen(text), most = 4 * length + 16;
	char *out;

	snap_buffer_clear(&lines->escaped);
	out = snap_buffer_reserve(&lines->escaped, most);
	if (!out) {
		lines->failed = true;
		return lines->nothing;
	}
	snap_escape(text, length, lines->escape_flags, out, most);
	return out;
}

void snap_line_add_escaped(struct snap_sheet *lines, enum snap_style style, const char *text)
{
	snap_line_add(lines, style, snap_sheet_escape(lines, text));
}

void snap_line_add_thread(struct snap_sheet *lines, const char *name)
{
	char *text = snap_sheet_escape(lines, name);

	if (lines->ignores_long && lines->width)
		snap_elide_name(text, lines->width * 3 / 10, lines->signs->dots);
	snap_line_add(lines, SNAP_STYLE_BOLD, text);
}

bool snap_line_add_name(struct snap_sheet *lines, struct snap_line_names *reported,
			const char *name)
{
	if (snap_any(reported->count, i, strcmp(reported->names[i], name) == 0))
		return true;
	if (reported->count)
		snap_line_add(lines, SNAP_STYLE_PLAIN, ", ");
	if (reported->count == SNAP_ARRAY_SIZE(reported->names)) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, lines->signs->dots);
		return false;
	}
	reported->names[reported->count++] = name;
	snap_line_add_thread(lines, name);
	return true;
}

void snap_line_pad(struct snap_sheet *lines, size_t columns)
{
	while (lines->columns < columns && !lines->failed)
		snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
}

void snap_line_begin(struct snap_sheet *lines)
{
	snap_buffer_clear(&lines->text);
	lines->columns = lines->cell_begin = 0;
	lines->hang = 2;
	for (size_t i = 0; i < lines->depth && i < SNAP_DEEPEST_RAILS; i++) {
		snap_line_add(lines, SNAP_STYLE_DIM, lines->rails[i] ? lines->signs->rail : " ");
		snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
	}
}

void snap_line_begin_item(struct snap_sheet *lines, bool last)
{
	bool hidden = lines->depth > SNAP_DEEPEST_RAILS;

	snap_sheet_pop(lines);
	snap_line_begin(lines);
	if (!hidden)
		snap_line_add(lines, SNAP_STYLE_DIM,
			      last ? lines->signs->corner : lines->signs->tee);
	snap_sheet_push(lines, !last);
}

size_t snap_count_digits(uint64_t number)
{
	size_t n = 1;

	for (; number >= 10; number /= 10)
		n++;
	return n;
}

void snap_line_stop(struct snap_sheet *lines, enum snap_stop stop, size_t gap)
{
	enum { WIDEST_CELL = 48 };
	size_t width = lines->columns - lines->cell_begin + gap;
	/* Names of threads come before the states; a list of them leaves room for functions. */
	size_t part = lines->widest_column / (stop == SNAP_STOP_STATE ? 3 : 2);
	size_t widest = SNAP_MIN(part, (size_t)WIDEST_CELL);

	if (lines->stops_known) {
		snap_line_pad(lines, lines->columns + gap);
		snap_line_pad(lines, lines->stops[stop]);
		return;
	}
	if (width > lines->stops[stop] && width <= widest)
		lines->stops[stop] = width;
	lines->cell_begin = lines->columns;
}

void snap_sheet_fix_stops(struct snap_sheet *lines)
{
	for (int i = 1; i < SNAP_STOP_COUNT; i++)
		lines->stops[i] += lines->stops[i - 1];
	lines->stops_known = true;
	lines->column = 0;
}

/* In a dense report a line that is too long for the column moves no other. */
static void measure_line(struct snap_sheet *lines)
{
	size_t wanted = lines->columns + 2;

	if (wanted > lines->widest_column)
		wanted = lines->ignores_long ? 0 : lines->widest_column;
	lines->column = SNAP_MAX(lines->column, wanted);
}

/* A piece of a line that holds colours, as far as it fits into some columns. */
struct piece {
	size_t end;   /* bytes that fit */
	size_t space; /* the last blank among them that was followed by more, 0: none */
	size_t sgr;   /* where the colour that is on at the end was set, plus 1; 0: none is */
};

/* Codes take no columns; they are ours, so each ends in an m. */
static struct piece fit_piece(const char *text, size_t length, size_t most)
{
	struct piece piece = { 0 };
	size_t columns, width = 0, step;

	while (piece.end < length) {
		const char *p = text + piece.end;

		if (*p == '\033') {
			const char *m = memchr(p, 'm', length - piece.end);

			step = m ? (size_t)(m - p) + 1 : length - piece.end;
			piece.sgr = step == 4 && p[2] == '0' ? 0 : piece.end + 1;
		} else {
			step = snap_text_character(p, &columns);
			if (width + columns > most)
				break;
			if (*p == ' ')
				piece.space = piece.end;
			width += columns;
		}
		piece.end += step;
	}
	return piece;
}

static void write_piece(struct snap_sheet *lines, const char *text, size_t length, const char *sgr,
			const char *tail)
{
	size_t code = sgr ? strcspn(sgr, "m") + 1 : 0;

	if (sgr && sgr < text)
		fwrite_unlocked(sgr, 1, code, lines->out);
	if (length > 0)
		fwrite_unlocked(text, 1, length, lines->out);
	fputs_unlocked(tail, lines->out);
}

/* Too long, and no part of it may go: it is broken at blanks, and goes on behind its rails. */
static void write_wrapped(struct snap_sheet *lines)
{
	size_t length = 0, at = 0, width = lines->width, hang = lines->hang;
	_cleanup_free_ char *whole = snap_buffer_take(&lines->text, &length);
	const char *sgr = NULL; /* the colour that goes on from the line before */

	snap_line_begin(lines);
	snap_line_pad(lines, lines->columns + hang);
	while (at < length && !lines->failed) {
		struct piece piece = fit_piece(whole + at, length - at, width);
		size_t end = at + piece.end;

		if (end < length && piece.space) {
			for (end = at + piece.space; end > at && whole[end - 1] == ' ';)
				end--;
			piece = fit_piece(whole + at, end - at, width);
		} else if (piece.end == 0) {
			end = length;
		}
		if (at)
			fwrite_unlocked(lines->text.data, 1, lines->text.size, lines->out);
		write_piece(lines, whole + at, end - at, sgr, "");
		if (piece.sgr)
			sgr = whole + at + piece.sgr - 1;
		else if (memchr(whole + at, '\033', end - at))
			sgr = NULL;
		fputs_unlocked(sgr ? "\033[0m\n" : "\n", lines->out);
		for (at = end; at < length && whole[at] == ' ';)
			at++;
		width = lines->width - lines->columns;
	}
}

/* Of what is still too long for its line, folders go. */
static void put_location(struct snap_sheet *lines, enum snap_style style, const char *right)
{
	enum { HANG = 8 };
	_cleanup_free_ char *copy = strdup(right);
	size_t before;

	snap_line_add(lines, SNAP_STYLE_PLAIN, "  ");
	snap_line_pad(lines, lines->column);
	lines->hang = HANG;
	before = lines->columns < lines->width ? lines->columns : 2 * lines->depth + HANG;
	if (copy && lines->width > before)
		snap_elide_path(copy, lines->width - before, lines->signs->dots);
	snap_line_add(lines, style, copy ? copy : right);
}

void snap_line_end(struct snap_sheet *lines, enum snap_style style, const char *right)
{
	enum { NARROWEST = 20 };
	bool fits;

	if (lines->measuring) {
		if (right)
			measure_line(lines);
		return;
	}
	lines->written++;
	if (right)
		put_location(lines, style, right);
	while (lines->text.size && lines->text.data[lines->text.size - 1] == ' ')
		lines->text.size--;
	if (lines->failed)
		return;
	fits = lines->width < NARROWEST || lines->columns <= lines->width ||
	       2 * lines->depth + NARROWEST > lines->width;
	if (fits)
		write_piece(lines, lines->text.data, lines->text.size, NULL, "\n");
	else
		write_wrapped(lines);
}

void snap_line_blank(struct snap_sheet *lines)
{
	snap_line_begin(lines);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}
