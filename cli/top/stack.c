/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A row's stack, copied: see stack.h. */
#include "top/stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	HEAD_LINES = 5, /* at the most, above the functions */
};

static void free_lines(struct snap_top_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(lines[i].text);
		free(lines[i].place);
	}
	free(lines);
}

void snap_top_stack_deinit(struct snap_top_stack *stack)
{
	free_lines(stack->lines, stack->count);
	*stack = (struct snap_top_stack){ .count = 0 };
}

__attribute__((format(printf, 2, 3))) static bool add_line(struct snap_top_stack *stack,
							   const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	int printed;

	va_start(arguments, format);
	printed = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (printed < 0)
		return false;
	stack->lines[stack->count++] = (struct snap_top_line){ .text = text };
	return true;
}

static bool add_head(struct snap_top_stack *stack, const struct snap_top_table *table,
		     const struct snap_top_row *row, const struct stacksnap_group *group)
{
	const char *what = group->is_task ? "tasks" : "threads";

	return add_line(stack, "%s[%d]  %s", group->process, group->pid,
			group->threads ? group->threads : "") &&
	       add_line(stack, "%s%s%s%s%s", group->state ? group->state : "several states",
			row->wait ? ", waits: " : "", row->wait ? row->wait : "",
			row->holder ? ", " : "", row->holder ? row->holder : "") &&
	       add_line(stack, "%.1f %% of all samples, %.1f %s on average",
			snap_top_row_share(table, row), snap_top_row_threads(table, row), what) &&
	       (row->groups == 1 ||
		add_line(stack, "the largest of %zu groups in this row", row->groups)) &&
	       add_line(stack, "%s", "");
}

static bool add_frames(struct snap_top_stack *stack, struct snap_top_table *table, size_t index,
		       size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *place = NULL,
			   *name = stacksnap_groups_frame(table->groups, index, i, &place);

		if (!name || !add_line(stack, "%s", name))
			return false;
		if (!place)
			continue;
		stack->lines[stack->count - 1].place = strdup(place);
	}
	return true;
}

static bool add_end(struct snap_top_stack *stack, const struct stacksnap_group *group)
{
	if (strcmp(group->unwind, "scanned") == 0 || strcmp(group->unwind, "guessed") == 0)
		return add_line(stack, "(complete, in part %s)", group->unwind);
	return strcmp(group->unwind, "complete") == 0 ||
	       add_line(stack, "(the stack ends here: %s)", group->unwind);
}

bool snap_top_stack_take(struct snap_top_stack *stack, struct snap_top_table *table,
			 const struct snap_top_row *row, enum snap_top_rows rows)
{
	const struct stacksnap_group *group = stacksnap_groups_get(table->groups, row->group);
	struct snap_top_stack made = { .count = 0 };

	made.lines = calloc(group->frame_count + HEAD_LINES + 1, sizeof(*made.lines));
	if (!made.lines || !add_head(&made, table, row, group) ||
	    !add_frames(&made, table, row->group, group->frame_count) || !add_end(&made, group)) {
		snap_top_stack_deinit(&made);
		return false;
	}
	snap_top_row_key(table, row, rows, made.key);
	snap_top_stack_deinit(stack);
	*stack = made;
	return true;
}

void snap_top_stack_renew(struct snap_top_stack *stack, struct snap_top_table *table,
			  enum snap_top_rows rows)
{
	char key[SNAP_TOP_KEY_SIZE];

	if (!stack->key[0])
		return;
	stack->gone = true;
	for (size_t i = 0; i < table->count; i++) {
		snap_top_row_key(table, &table->rows[i], rows, key);
		if (strcmp(key, stack->key) != 0)
			continue;
		/* Without memory what is there is as good. */
		(void)snap_top_stack_take(stack, table, &table->rows[i], rows);
		stack->gone = false;
		return;
	}
}
