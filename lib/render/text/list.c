/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * `stacksnap list`: the tree of processes as text; no process is stopped. One line per process:
 * name, user, command, and why it could not be read. Knows nothing of stacks.
 */
#include "render/render.h"
#include "render/text/node.h"
#include "render/view/elide.h"
#include "render/view/walk.h"

#include <errno.h>
#include <string.h>

/* What stands right of the tree: user, type unless it is normal, description, trouble. */
static char *facts_of(struct snap_sheet *lines, const struct snap_node *node)
{
	const char *message =
		node->trouble_message ? node->trouble_message : snap_trouble_word(node->trouble);
	_cleanup_free_ char *user = NULL, *description = NULL, *trouble = NULL;
	char number[32] = "-", *facts;

	if (node->uid != (uid_t)-1)
		snprintf(number, sizeof(number), "%u", node->uid);
	user = strdup(snap_sheet_escape(lines, node->user ? node->user : number));
	description = strdup(snap_sheet_escape(lines, node->description ? node->description : "?"));
	trouble = strdup(snap_sheet_escape(lines, message));
	if (!user || !description || !trouble ||
	    asprintf(&facts, "%-8s  %s%s%s%s", user,
		     node->type == SNAP_TYPE_SYSTEM ? "(system) " : "", description,
		     node->trouble ? "   error: " : "", trouble) < 0)
		return NULL;
	return facts;
}

static void put_node(struct snap_sheet *lines, const struct snap_node *node, bool nested, bool last)
{
	_cleanup_free_ char *facts = facts_of(lines, node);

	if (!facts) {
		lines->failed = true;
		return;
	}
	snap_line_begin(lines);
	if (nested)
		snap_line_add(lines, SNAP_STYLE_DIM,
			      last ? lines->signs->corner : lines->signs->tee);
	snap_text_node_name(lines, node);
	if (lines->width > lines->column + 8)
		snap_elide_end(facts, lines->width - lines->column, lines->signs->dots);
	snap_line_end(lines, SNAP_STYLE_PLAIN, facts);
}

static void put_listed_tree(struct snap_sheet *lines, const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	snap_walk_init(&walk, snapshot);
	while (!lines->failed && snap_walk_next(&walk, &step)) {
		if (step.leave && step.parent)
			snap_sheet_pop(lines);
		if (step.leave)
			continue;
		put_node(lines, step.node, step.parent, step.last);
		if (step.parent)
			snap_sheet_push(lines, !step.last);
	}
	lines->failed = lines->failed || walk.failed;
}

struct stacksnap_error *snap_render_list(const struct snap_snapshot *snapshot,
					 const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_sheet_deinit) struct snap_sheet lines;

	snap_sheet_init(&lines, options, out);
	snap_text_head(&lines, options, snapshot, true);
	snap_line_blank(&lines);
	lines.measuring = true;
	put_listed_tree(&lines, snapshot);
	lines.measuring = false;
	put_listed_tree(&lines, snapshot);
	SNAP_TRY(snap_no_memory_unless(!lines.failed));
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}
