/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines below the tree: see notes.h. */
#include "render/text/notes.h"

#include "base/arena.h"
#include "base/text.h"
#include "render/text/task.h"

#include <string.h>

void snap_text_put_left_out(struct snap_sheet *lines, size_t groups, size_t processes)
{
	if (groups == 0 && processes == 0)
		return;
	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_PLAIN, "and ");
	if (groups)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%zu more group%s", groups,
				 snap_plural(groups));
	if (processes)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%s%zu more process%s without stacks",
				 groups ? ", " : "", processes, processes == 1 ? "" : "es");
	snap_line_add(lines, SNAP_STYLE_PLAIN, " (--all-groups)");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void count_unnamed_frame(struct snap_text_notes *notes, const struct snap_frame *frame)
{
	const char *module = frame->module;
	struct snap_unnamed *at = notes->unnamed, *end = at + SNAP_MOST_UNNAMED;

	if (!module || *module != '/' || snap_begins_with(module, "/memfd:") ||
	    frame->entries[frame->entry_count - 1].function)
		return;
	while (at < end && at->module && strcmp(at->module, module) != 0)
		at++;
	if (at == end)
		return;
	at->module = module;
	at->build_id = frame->build_id;
	at->frames++;
}

static void note_mangled_name(struct snap_text_notes *notes, const struct snap_frame *frame)
{
	for (size_t i = 0; i < frame->entry_count; i++) {
		const char *name = frame->entries[i].function;

		if (name && snap_begins_with(name, "_Z") && name[2])
			notes->mangled = name;
	}
}

void snap_text_notes_take(struct snap_text_notes *notes, const struct snap_options *options,
			  const struct snap_stack *stack)
{
	for (size_t i = 0; i < stack->frame_count; i++) {
		count_unnamed_frame(notes, stack->frames[i]);
		if (options->verbose && !options->raw_names)
			note_mangled_name(notes, stack->frames[i]);
	}
}

/* The packages that have them, each once. False: none is known. */
static bool put_symbol_packages(const struct snap_text_notes *notes, struct snap_sheet *lines,
				const struct snap_options *options)
{
	_cleanup_(snap_arena_deinit) struct snap_arena arena;
	const char *names[SNAP_MOST_UNNAMED];
	size_t count = 0;

	snap_arena_init(&arena);
	for (size_t i = 0; i < SNAP_MOST_UNNAMED && notes->unnamed[i].module; i++) {
		const char *id = notes->unnamed[i].build_id;
		const char *name =
			id && options->symbol_package
				? options->symbol_package(options->symbol_package_context, id)
				: NULL;
		size_t known = 0;

		while (name && known < count && strcmp(names[known], name) != 0)
			known++;
		if (!name || known < count || !(names[count] = snap_arena_strdup(&arena, name)))
			continue;
		snap_line_add(lines, SNAP_STYLE_DIM, count++ ? ", " : ": ");
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, name);
	}
	return count > 0;
}

/* Files that have no symbols, and what would help. */
static void put_unnamed(const struct snap_text_notes *notes, struct snap_sheet *lines,
			const struct snap_options *options)
{
	const struct snap_unnamed *unnamed = notes->unnamed;

	if (!unnamed->module || !options->symbols)
		return;
	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_DIM, "no symbols: ");
	for (size_t i = 0; i < SNAP_MOST_UNNAMED && unnamed[i].module; i++) {
		snap_line_add(lines, SNAP_STYLE_DIM, i ? ", " : "");
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, snap_base_name(unnamed[i].module));
		snap_line_printf(lines, SNAP_STYLE_DIM, " (%zu%s)", unnamed[i].frames,
				 i                      ? ""
				 : unnamed->frames == 1 ? " frame"
							: " frames");
	}
	if (!put_symbol_packages(notes, lines, options))
		snap_line_add(lines, SNAP_STYLE_DIM, ": packages of their debug symbols");
	snap_line_add(lines, SNAP_STYLE_DIM, ", --debug-dir or --debuginfod");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* With -v: newer compilers make names that libiberty does not know. */
static void put_mangled(const struct snap_text_notes *notes, struct snap_sheet *lines)
{
	if (!notes->mangled)
		return;
	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_DIM, "the demangler does not know names such as ");
	snap_line_add_escaped(lines, SNAP_STYLE_DIM, notes->mangled);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_notes_put(const struct snap_text_notes *notes, struct snap_sheet *lines,
			 const struct snap_options *options)
{
	put_unnamed(notes, lines, options);
	put_mangled(notes, lines);
}

void snap_text_put_idle(struct snap_sheet *lines, const struct snap_idle *idle, unsigned lacks)
{
	if (!idle->threads && !idle->tasks)
		return;
	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_DIM, "hidden as idle: ");
	if (idle->tasks)
		snap_line_printf(lines, SNAP_STYLE_DIM, "%zu %s%s%s", idle->tasks,
				 snap_text_task_noun(idle->runtime, NULL), snap_plural(idle->tasks),
				 idle->threads ? ", " : "");
	if (idle->threads)
		snap_line_printf(lines, SNAP_STYLE_DIM, "%zu thread%s in %zu stack%s",
				 idle->threads, snap_plural(idle->threads), idle->stacks,
				 snap_plural(idle->stacks));
	if (idle->stacks > 1 && idle->most > 1)
		snap_line_printf(lines, SNAP_STYLE_DIM, ", most: %zu %s", idle->most,
				 lines->signs->times);
	else if (idle->name || idle->function)
		snap_line_add(lines, SNAP_STYLE_DIM, idle->stacks > 1 ? ", as" : ":");
	if (idle->name) {
		snap_line_add(lines, SNAP_STYLE_DIM, " ");
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, idle->name);
	}
	if (idle->function) {
		snap_line_add(lines, SNAP_STYLE_DIM, " in ");
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, idle->function);
	}
	if (lacks & SNAP_LACK_JAVA_LOCKS)
		snap_line_add(lines, SNAP_STYLE_YELLOW,
			      "; of them some may wait for locks of java.util.concurrent");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}
