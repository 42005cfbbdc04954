/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The line of a stack in --summary: see ../stack.h. */
#include "render/text/stack/parts.h"

#include "base/text.h"
#include "render/text/stack/lock_numbers.h"
#include "render/text/task.h"
#include "render/view/elide.h"

#include <string.h>

static const char *name_of_link(struct snap_text_stacks *stacks, const struct snap_link *link)
{
	const struct snap_shown_frame *shown = snap_text_shown_frame(stacks, link->frame);

	return shown ? shown->entries[link->entry].name : "";
}

static void add_link(struct snap_text_stacks *stacks, const struct snap_link *link,
		     const char *name)
{
	const char *mark = snap_text_mark_guessed(stacks, link->frame->trust != SNAP_TRUST_CFI);

	if (mark)
		snap_line_printf(stacks->lines, SNAP_STYLE_CYAN, "%s ", mark);
	snap_line_add(stacks->lines, SNAP_STYLE_PLAIN, name);
}

/* One that is too wide for its column alone loses its middle, but keeps some letters. */
static void add_long_link(struct snap_text_stacks *stacks, const struct snap_link *link,
			  const char *name, size_t limit)
{
	enum { FEWEST = 16 };
	const struct snap_sheet *lines = stacks->lines;
	size_t room = limit > lines->columns ? limit - lines->columns : 0;
	_cleanup_free_ char *copy = strdup(name);

	if (copy)
		snap_elide_name(copy, SNAP_MAX(room, FEWEST), lines->signs->dots);
	add_link(stacks, link, copy ? copy : name);
}

/*
 * "queue_pop ← next_job … worker_main", up to a column: from the inside, and where the thread began,
 * if that is not left out as all others have it.
 */
static void add_functions(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			  const struct snap_link *links, size_t count, size_t limit)
{
	const struct snap_signs *signs = stacks->lines->signs;
	struct snap_sheet *lines = stacks->lines;
	const struct snap_link *last = &links[count - 1];
	const char *root = name_of_link(stacks, last);
	size_t tail = snap_text_width(signs->dots) + 2;

	if (!snap_same_text(last->frame->entries[last->entry].function, stack->description))
		root = "";
	tail += snap_text_width(root);
	for (size_t i = 0; i < count; i++) {
		const char *name = name_of_link(stacks, &links[i]);
		size_t mark = links[i].frame->trust != SNAP_TRUST_CFI ? 2 : 0;
		size_t end = lines->columns + 3 + mark + snap_text_width(name);

		if (i == 0 && lines->width && end - 3 > limit) {
			add_long_link(stacks, links, name, limit);
			continue;
		}
		if (i && end + (i + 1 < count ? tail : 0) > limit) {
			end = lines->columns + tail;
			snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s", signs->dots);
			if (*root && end <= limit) {
				snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
				add_link(stacks, last, root);
			}
			return;
		}
		if (i)
			snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", signs->arrow);
		add_link(stacks, &links[i], name);
	}
}

/* Where functions end; what a thread waits for follows, and the location: lines are in a column. */
static size_t limit_of_functions(const struct snap_sheet *lines, const struct snap_entry *own,
				 const char *location, const char *object)
{
	size_t limit = lines->widest_column - 2, right = snap_text_width(location) + 2,
	       waits = object ? snap_text_width(object) + 3 : 0;

	if (!own->file && lines->width > limit + right)
		limit = lines->width - right;
	return limit > waits ? limit - waits : 0;
}

/* "pipe from 4711 producer": its number says less; NULL: it is none, or without a known other end. */
static char *peer_text(const struct snap_wait *wait)
{
	const struct snap_wait_party *peer = wait->peers;
	char *text;

	if (wait->kind != SNAP_WAIT_PIPE || !wait->peer_count)
		return NULL;
	return asprintf(&text, "pipe %s %d%s%s%s", wait->mode == SNAP_WAIT_WRITE ? "to" : "from",
			peer->pid, peer->name ? " " : "", peer->name ? peer->name : "",
			wait->peer_count > 1 ? ", …" : "") < 0
		       ? NULL
		       : text;
}

char *snap_text_stack_object(const struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	enum snap_explain explain = stacks->options->explain;
	struct snap_wait shown;
	char *object;

	if (explain == SNAP_EXPLAIN_NO ||
	    !snap_wait_is_shown(stack->wait, explain == SNAP_EXPLAIN_ALL))
		return NULL;
	shown = snap_numbered_wait(stacks->lines->locks, stacks->options, stack->wait);
	object = peer_text(&shown) ?: snap_wait_object(&shown);
	stacks->lines->failed |= !object;
	if (object && *object)
		return object;
	free(object);
	return NULL;
}

void snap_text_stack_summary(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			     const struct snap_text_owner *owner)
{
	const char *state = snap_stack_label(stack, "state"), *location = NULL;
	struct snap_sheet *lines = stacks->lines;
	bool star = state && (strcmp(state, "running") == 0 || strcmp(state, "disk") == 0);
	_cleanup_free_ char *object = snap_text_stack_object(stacks, stack);
	size_t entry, count = 0;
	const struct snap_frame *own = snap_text_own_frame(stack, &entry);
	_cleanup_free_ struct snap_link *links =
		own ? snap_chains_of(&stacks->chains, stack, own, entry, &count) : NULL;
	const struct snap_shown_frame *shown =
		links ? snap_text_shown_frame(stacks, links->frame) : NULL;

	lines->failed |= own && !shown;
	snap_line_add(lines, SNAP_STYLE_RED_BOLD, star ? "* " : "  ");
	snap_text_stack_head(stacks, stack, owner);
	snap_text_group_labels(lines, stacks->options, stack);
	if (shown || object)
		snap_line_stop(lines, SNAP_STOP_FUNCTION, 3);
	if (shown) {
		location = shown->entries[links->entry].location;
		add_functions(stacks, stack, links, count,
			      stacks->options->full_names
				      ? SIZE_MAX
				      : limit_of_functions(lines,
							   &links->frame->entries[links->entry],
							   location, object));
	}
	if (shown && object)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->middot);
	if (object)
		snap_line_add_escaped(lines, SNAP_STYLE_CYAN, object);
	snap_line_end(lines, SNAP_STYLE_DIM, location);
}
