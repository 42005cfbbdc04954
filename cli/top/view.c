/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keys, and what they do: see view.h. */
#include "top/view.h"

#include "top/screen.h"

#include <stdio.h>
#include <string.h>

static const char *const help_lines[] = {
	"Up Down PgUp PgDn Home End  move (also k j)",
	"Enter  the stack of a row       Esc  back",
	"Tab    groups or functions",
	"s      sort by urgency, share, function, wait",
	"f      filter: a regular expression on any text of a row; empty shows all",
	"p      pause what is shown; the recording goes on",
	"w      write a snapshot or the last minute to a file; its suffix says the format",
	"q      quit",
	"",
	"urgency  what runs, waits for a disk, has a lock, waits for a lock, the rest",
	"share    of all samples of the last seconds",
	"threads  how many stood there at once, on average",
};

const char *snap_top_help_line(size_t index)
{
	return index < sizeof(help_lines) / sizeof(help_lines[0]) ? help_lines[index] : NULL;
}

void snap_top_view_deinit(struct snap_top_view *view)
{
	snap_top_stack_deinit(&view->stack);
}

void snap_top_view_tell(struct snap_top_view *view, const char *line)
{
	snprintf(view->message, sizeof(view->message), "%s", line);
}

/* ---- rows ---- */

static void clip_cursor(struct snap_top_view *view, const struct snap_top_table *table)
{
	if (view->cursor >= table->count)
		view->cursor = table->count ? table->count - 1 : 0;
}

/* The row that the cursor stood on is where it stands now, if it is there. */
static void find_chosen(struct snap_top_view *view, const struct snap_top_table *table)
{
	char key[SNAP_TOP_KEY_SIZE];

	for (size_t i = 0; i < table->count && view->follows; i++) {
		snap_top_row_key(table, &table->rows[i], view->choice.rows, key);
		if (strcmp(key, view->chosen) == 0) {
			view->cursor = i;
			return;
		}
	}
	clip_cursor(view, table);
}

void snap_top_view_renew(struct snap_top_view *view, struct snap_top_table *table)
{
	if (!snap_top_table_choose(table, &view->choice))
		snap_top_view_tell(view, "out of memory: there are no rows");
	find_chosen(view, table);
	snap_top_stack_renew(&view->stack, table, view->choice.rows);
}

static void move_cursor(struct snap_top_view *view, const struct snap_top_table *table,
			size_t cursor)
{
	view->cursor = cursor;
	clip_cursor(view, table);
	/* A cursor at the top stays at the top, whatever row is there. */
	view->follows = view->cursor > 0;
	if (view->follows)
		snap_top_row_key(table, &table->rows[view->cursor], view->choice.rows,
				 view->chosen);
}

static size_t moved(size_t from, int key, size_t page, size_t last)
{
	switch (key) {
	case SNAP_TOP_KEY_UP:
	case 'k':
		return from ? from - 1 : 0;
	case SNAP_TOP_KEY_DOWN:
	case 'j':
		return from + 1;
	case SNAP_TOP_KEY_PAGE_UP:
		return from > page ? from - page : 0;
	case SNAP_TOP_KEY_PAGE_DOWN:
		return from + page;
	case SNAP_TOP_KEY_HOME:
		return 0;
	case SNAP_TOP_KEY_END:
		return last;
	default:
		return from;
	}
}

static void open_stack(struct snap_top_view *view, struct snap_top_table *table)
{
	if (view->cursor >= table->count)
		return;
	if (!snap_top_stack_take(&view->stack, table, &table->rows[view->cursor],
				 view->choice.rows)) {
		snap_top_view_tell(view, "out of memory");
		return;
	}
	view->page = SNAP_TOP_PAGE_STACK;
	view->scroll = 0;
}

static void choose_rows(struct snap_top_view *view, struct snap_top_table *table)
{
	view->choice.rows = (view->choice.rows + 1) % SNAP_TOP_ROWS_COUNT;
	view->follows = false;
	view->cursor = 0;
	snap_top_view_renew(view, table);
}

static void press_in_rows(struct snap_top_view *view, struct snap_top_table *table, int key)
{
	switch (key) {
	case SNAP_TOP_KEY_ENTER:
		open_stack(view, table);
		break;
	case '\t':
		choose_rows(view, table);
		break;
	case 's':
		view->choice.sort = (view->choice.sort + 1) % SNAP_TOP_SORT_COUNT;
		snap_top_view_renew(view, table);
		break;
	case 'f':
		view->prompt = SNAP_TOP_PROMPT_FILTER;
		memcpy(view->input, view->choice.filter, sizeof(view->choice.filter));
		break;
	default:
		move_cursor(view, table, moved(view->cursor, key, view->page_size, table->count));
	}
}

/* ---- a stack, the help ---- */

static size_t line_count(const struct snap_top_view *view)
{
	size_t count = 0;

	if (view->page == SNAP_TOP_PAGE_STACK)
		return view->stack.count;
	while (snap_top_help_line(count))
		count++;
	return count;
}

static void close_page(struct snap_top_view *view)
{
	view->page = SNAP_TOP_PAGE_ROWS;
	view->stack.key[0] = '\0';
}

static void press_in_text(struct snap_top_view *view, int key)
{
	size_t count = line_count(view);
	size_t last = count > view->page_size ? count - view->page_size : 0;

	if (key == SNAP_TOP_KEY_ESCAPE) {
		close_page(view);
		return;
	}
	view->scroll = moved(view->scroll, key, view->page_size, last);
	if (view->scroll > last)
		view->scroll = last;
}

/* ---- the last line ---- */

/* Bytes of a character go together. */
static void erase_character(char *input)
{
	size_t length = strlen(input);

	while (length && ((unsigned char)input[length - 1] & 0xc0) == 0x80)
		length--;
	input[length ? length - 1 : 0] = '\0';
}

static void type(struct snap_top_view *view, int key, size_t size)
{
	size_t length = strlen(view->input);

	if (key == SNAP_TOP_KEY_BACKSPACE) {
		erase_character(view->input);
	} else if (key == SNAP_TOP_KEY_KILL) {
		view->input[0] = '\0';
	} else if (key >= ' ' && key <= 0xff && length + 1 < size) {
		view->input[length] = (char)key;
		view->input[length + 1] = '\0';
	}
}

static void take_filter(struct snap_top_view *view, struct snap_top_table *table)
{
	char why[128], text[SNAP_TOP_INPUT_SIZE];

	if (*view->input && !snap_top_filter_is_valid(view->input, why, sizeof(why))) {
		snprintf(text, sizeof(text), "this is no regular expression: %s", why);
		snap_top_view_tell(view, text);
		return;
	}
	snprintf(view->choice.filter, sizeof(view->choice.filter), "%.*s",
		 (int)sizeof(view->choice.filter) - 1, view->input);
	view->prompt = SNAP_TOP_PROMPT_NONE;
	snap_top_view_renew(view, table);
}

static enum snap_top_wish choose_what(struct snap_top_view *view, int key)
{
	if (key != 's' && key != 'm')
		return SNAP_TOP_WISH_NOTHING;
	view->ring = key == 'm';
	view->prompt = SNAP_TOP_PROMPT_NAME;
	return SNAP_TOP_WISH_NAME;
}

static enum snap_top_wish press_in_prompt(struct snap_top_view *view, struct snap_top_table *table,
					  int key)
{
	if (key == SNAP_TOP_KEY_ESCAPE) {
		view->prompt = SNAP_TOP_PROMPT_NONE;
		return SNAP_TOP_WISH_NOTHING;
	}
	if (view->prompt == SNAP_TOP_PROMPT_WHAT)
		return choose_what(view, key);
	if (key != SNAP_TOP_KEY_ENTER) {
		type(view, key,
		     view->prompt == SNAP_TOP_PROMPT_FILTER ? sizeof(view->choice.filter)
							    : sizeof(view->input));
		return SNAP_TOP_WISH_NOTHING;
	}
	if (view->prompt == SNAP_TOP_PROMPT_FILTER) {
		take_filter(view, table);
		return SNAP_TOP_WISH_NOTHING;
	}
	view->prompt = SNAP_TOP_PROMPT_NONE;
	return *view->input ? SNAP_TOP_WISH_WRITE : SNAP_TOP_WISH_NOTHING;
}

/* ---- all keys ---- */

enum snap_top_wish snap_top_view_press(struct snap_top_view *view, struct snap_top_table *table,
				       int key)
{
	if (key == SNAP_TOP_KEY_INTERRUPT)
		return SNAP_TOP_WISH_QUIT;
	if (key == SNAP_TOP_KEY_SUSPEND)
		return SNAP_TOP_WISH_SUSPEND;
	if (key == SNAP_TOP_KEY_RESIZED || key == SNAP_TOP_KEY_REDRAW)
		return SNAP_TOP_WISH_NOTHING;
	view->message[0] = '\0';
	if (view->prompt != SNAP_TOP_PROMPT_NONE)
		return press_in_prompt(view, table, key);
	switch (key) {
	case 'q':
		return SNAP_TOP_WISH_QUIT;
	case 'p':
		view->paused = !view->paused;
		return SNAP_TOP_WISH_PAUSE;
	case 'w':
		view->prompt = SNAP_TOP_PROMPT_WHAT;
		return SNAP_TOP_WISH_NOTHING;
	case '?':
		view->page = SNAP_TOP_PAGE_HELP;
		view->scroll = 0;
		return SNAP_TOP_WISH_NOTHING;
	default:
		break;
	}
	if (view->page == SNAP_TOP_PAGE_ROWS)
		press_in_rows(view, table, key);
	else
		press_in_text(view, key);
	return SNAP_TOP_WISH_NOTHING;
}
