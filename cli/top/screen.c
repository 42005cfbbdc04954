/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The terminal, by curses: see screen.h. */
#include "top/screen.h"

#include "message.h"

#include <curses.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	ESCAPE_MS = 25, /* after which a lone Esc is that key, and not the beginning of another */
	PAIR_GREEN = 1,
	PAIR_RED = 2,
	CTRL_C = 3,
	CTRL_L = 12,
	CTRL_U = 21,
	CTRL_Z = 26,
	ESCAPE = 27,
	DELETE = 127,
};

static void take_size(struct snap_top_screen *screen)
{
	int rows, columns;

	getmaxyx(stdscr, rows, columns);
	screen->rows = rows > 0 ? (unsigned)rows : 1;
	screen->columns = columns > 0 ? (unsigned)columns : 1;
}

static bool refuse(const char *why)
{
	const char *term = getenv("TERM");

	return snap_cli_message("'top' cannot draw on this terminal (TERM=%s): %s",
				term ? term : "", why);
}

/* What is not there is NULL or -1, as a pointer. */
static bool can_place_cursor(void)
{
	const char *sequence = tigetstr("cup");

	return sequence && sequence != (const char *)-1;
}

static void set_modes(struct snap_top_screen *screen, bool color)
{
	/* Ctrl-C and Ctrl-Z are keys: the recorder can be asked to pause in time. */
	raw();
	noecho();
	nonl();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	/* Not all terminals can. */
	(void)curs_set(0);
	screen->color = color && has_colors() && start_color() == OK &&
			use_default_colors() == OK &&
			init_pair(PAIR_GREEN, COLOR_GREEN, -1) == OK &&
			init_pair(PAIR_RED, COLOR_RED, -1) == OK;
}

bool snap_top_screen_is_possible(void)
{
	return (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) ||
	       snap_cli_message("'top' needs a terminal as standard input and output; 'record' "
				"writes files");
}

bool snap_top_screen_open(struct snap_top_screen *screen, bool color, bool utf8)
{
	SCREEN *made;

	*screen = (struct snap_top_screen){ .utf8 = utf8 };
	/* The terminal's own size, whatever COLUMNS says. */
	use_env(TRUE);
	use_tioctl(TRUE);
	made = newterm(NULL, stdout, stdin);
	if (!made)
		return refuse("it is not known");
	screen->is_open = true;
	if (!can_place_cursor()) {
		snap_top_screen_close(screen);
		return refuse("it cannot place a cursor");
	}
	set_modes(screen, color);
	take_size(screen);
	return true;
}

void snap_top_screen_close(struct snap_top_screen *screen)
{
	if (screen->is_open)
		endwin();
	screen->is_open = false;
}

void snap_top_screen_suspend(struct snap_top_screen *screen)
{
	if (screen->is_open)
		endwin();
}

void snap_top_screen_resume(struct snap_top_screen *screen)
{
	if (!screen->is_open)
		return;
	reset_prog_mode();
	clearok(stdscr, TRUE);
	refresh();
	take_size(screen);
}

/* Keys of curses, and characters that mean the same. */
static int translate(int key)
{
	static const struct {
		int from, to;
	} keys[] = {
		{ '\r', SNAP_TOP_KEY_ENTER },
		{ '\n', SNAP_TOP_KEY_ENTER },
		{ KEY_ENTER, SNAP_TOP_KEY_ENTER },
		{ ESCAPE, SNAP_TOP_KEY_ESCAPE },
		{ KEY_BACKSPACE, SNAP_TOP_KEY_BACKSPACE },
		{ DELETE, SNAP_TOP_KEY_BACKSPACE },
		{ '\b', SNAP_TOP_KEY_BACKSPACE },
		{ CTRL_U, SNAP_TOP_KEY_KILL },
		{ KEY_UP, SNAP_TOP_KEY_UP },
		{ KEY_DOWN, SNAP_TOP_KEY_DOWN },
		{ KEY_PPAGE, SNAP_TOP_KEY_PAGE_UP },
		{ KEY_NPAGE, SNAP_TOP_KEY_PAGE_DOWN },
		{ KEY_HOME, SNAP_TOP_KEY_HOME },
		{ KEY_END, SNAP_TOP_KEY_END },
		{ CTRL_C, SNAP_TOP_KEY_INTERRUPT },
		{ CTRL_Z, SNAP_TOP_KEY_SUSPEND },
		{ CTRL_L, SNAP_TOP_KEY_REDRAW },
		{ KEY_RESIZE, SNAP_TOP_KEY_RESIZED },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].from == key)
			return keys[i].to;
	return key > 0xff ? SNAP_TOP_KEY_OTHER : key;
}

int snap_top_screen_key(struct snap_top_screen *screen)
{
	int key = getch();

	if (key == ERR)
		return SNAP_TOP_KEY_NONE;
	key = translate(key);
	if (key == SNAP_TOP_KEY_RESIZED)
		take_size(screen);
	if (key == SNAP_TOP_KEY_REDRAW)
		clearok(stdscr, TRUE);
	return key;
}

void snap_top_screen_begin(struct snap_top_screen *screen)
{
	take_size(screen);
	erase();
}

static attr_t attributes_of(const struct snap_top_screen *screen, unsigned style, short *pair)
{
	attr_t attributes = A_NORMAL;

	*pair = 0;
	if (style & SNAP_TOP_BOLD)
		attributes |= A_BOLD;
	if (style & SNAP_TOP_DIM)
		attributes |= A_DIM;
	if (style & SNAP_TOP_REVERSE)
		attributes |= A_REVERSE;
	if (screen->color && style & SNAP_TOP_GREEN)
		*pair = PAIR_GREEN;
	if (screen->color && style & SNAP_TOP_RED)
		*pair = PAIR_RED;
	return attributes;
}

unsigned snap_top_screen_put(struct snap_top_screen *screen, unsigned row, unsigned column,
			     unsigned columns, const char *text, enum snap_top_keep keep,
			     unsigned style)
{
	char cells[SNAP_TOP_CELLS_SIZE];
	short pair;
	attr_t attributes = attributes_of(screen, style, &pair);
	unsigned used;

	if (row >= screen->rows || column >= screen->columns)
		return 0;
	if (columns > screen->columns - column)
		columns = screen->columns - column;
	used = snap_top_cut(text, columns, keep, screen->utf8, cells);
	attr_set(attributes, pair, NULL);
	/* In the last cell of the last line curses says ERR, and has put it all the same. */
	(void)mvaddstr((int)row, (int)column, cells);
	attr_set(A_NORMAL, 0, NULL);
	return used;
}

void snap_top_screen_fill(struct snap_top_screen *screen, unsigned row, unsigned column,
			  unsigned style)
{
	short pair;
	attr_t attributes = attributes_of(screen, style, &pair);

	if (row >= screen->rows || column >= screen->columns)
		return;
	attr_set(attributes, pair, NULL);
	(void)mvhline((int)row, (int)column, ' ' | attributes, (int)(screen->columns - column));
	attr_set(A_NORMAL, 0, NULL);
}

void snap_top_screen_show(struct snap_top_screen *screen)
{
	(void)screen;
	refresh();
}
