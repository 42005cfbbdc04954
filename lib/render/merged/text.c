/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What was merged as text: see merged.h. The head, files whose builds differ, then the groups, the
 * odd ones first. As all text it is gone through twice, to find the column of the right parts.
 */
#include "render/merged/merged.h"

#include "base/text.h"
#include "render/text/stack.h"
#include "render/view/when.h"

#include <errno.h>
#include <string.h>

enum { MOST_NAMED = 8 }; /* hosts in a line */

struct text {
	const struct snap_merged *merged;
	const struct snap_options *options;
	struct snap_sheet lines;
	struct snap_text_stacks shown;
	struct snap_arena arena;
	struct snap_interner strings;
	struct snap_stack *stacks; /* one a group */
};

static void merged_text_deinit(struct text *text)
{
	snap_text_stacks_deinit(&text->shown);
	snap_sheet_deinit(&text->lines);
	snap_interner_deinit(&text->strings);
	snap_arena_deinit(&text->arena);
}

/* "web-03, web-17, +4": of those in the set, or not in it. */
static void add_hosts(struct text *text, const struct snap_host_set *set, bool inside, size_t count)
{
	const struct snap_merged *merged = text->merged;
	struct snap_sheet *lines = &text->lines;
	uint32_t numbers[MOST_NAMED];
	size_t named = snap_merged_pick_hosts(set, merged->host_count, inside, numbers, MOST_NAMED);

	for (size_t i = 0; i < named; i++) {
		const struct snap_merged_host *host = &merged->hosts[numbers[i]];

		snap_line_add(lines, SNAP_STYLE_PLAIN, i ? ", " : "");
		snap_line_add_escaped(lines, SNAP_STYLE_BOLD,
				      host->name ? host->name : host->boot_id);
	}
	if (count > named)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", +%zu", count - named);
}

/* ---- the head ---- */

/* From when to when, by the hosts' own clocks. */
static void put_merged_times(struct text *text)
{
	const struct snap_merged *merged = text->merged;
	int64_t first = INT64_MAX, last = INT64_MIN;
	char when[SNAP_WHEN_SIZE];

	for (size_t i = 0; i < merged->host_count; i++) {
		const struct snap_merged_host *host = &merged->hosts[i];

		first = SNAP_MIN(first, host->times[0]);
		last = SNAP_MAX(last, host->times[host->time_count - 1]);
	}
	if (first > last)
		return;
	snap_when(first, ' ', 3, when);
	snap_line_printf(&text->lines, SNAP_STYLE_PLAIN, "  %s", when);
	if (first == last)
		return;
	snap_when(last, ' ', 3, when);
	snap_line_printf(&text->lines, SNAP_STYLE_PLAIN, " to %s", when);
}

static void put_merged_head(struct text *text)
{
	const struct snap_merged *merged = text->merged;
	struct snap_sheet *lines = &text->lines;
	uint64_t threads = 0, tasks = 0;

	for (size_t i = 0; i < merged->group_count; i++) {
		threads += merged->groups[i].thread_count;
		tasks += merged->groups[i].task_count;
	}
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_BOLD, "stacksnap");
	snap_line_printf(lines, SNAP_STYLE_PLAIN, ": %zu host%s, %zu document%s",
			 merged->host_count, snap_plural(merged->host_count),
			 merged->document_count, snap_plural(merged->document_count));
	put_merged_times(text);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "   %llu thread%s", (unsigned long long)threads,
			 snap_plural(threads));
	if (tasks)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %llu task%s",
				 (unsigned long long)tasks, snap_plural(tasks));
	snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu group%s", merged->group_count,
			 snap_plural(merged->group_count));
	if (merged->odd_count)
		snap_line_printf(lines, SNAP_STYLE_BOLD, ", %zu odd", merged->odd_count);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* Which threads wait for which is in the documents of the hosts alone. */
static void put_merged_deadlocks(struct text *text)
{
	const struct snap_merged *merged = text->merged;
	struct snap_sheet *lines = &text->lines;

	if (!merged->deadlock_count)
		return;
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_RED_BOLD, "DEADLOCK");
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  on %zu host%s: ", merged->deadlock_count,
			 snap_plural(merged->deadlock_count));
	add_hosts(text, &merged->deadlocks, true, merged->deadlock_count);
	snap_line_add(lines, SNAP_STYLE_PLAIN, " (waits are in the merged documents alone)");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* A file of which hosts have different builds, in one line. */
static void put_builds(struct text *text, const struct snap_merged_module *modules, size_t count)
{
	enum { SHOWN = 12 }; /* digits of a build id */
	struct snap_sheet *lines = &text->lines;
	size_t most = 0;

	for (size_t i = 1; i < count; i++)
		if (modules[i].host_count > modules[most].host_count)
			most = i;
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_YELLOW, "builds differ");
	snap_line_add(lines, SNAP_STYLE_PLAIN, ": ");
	snap_line_add_escaped(lines, SNAP_STYLE_BOLD, modules[0].path);
	for (size_t i = 0; i < count; i++) {
		char id[SHOWN + 1];

		snprintf(id, sizeof(id), "%s", modules[i].build_id);
		snap_line_add(lines, SNAP_STYLE_PLAIN, i ? "; " : "  ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, id);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " on %zu host%s", modules[i].host_count,
				 snap_plural(modules[i].host_count));
		/* Hosts that have what most have need no name. */
		if (i == most)
			continue;
		snap_line_add(lines, SNAP_STYLE_PLAIN, " (");
		add_hosts(text, &modules[i].hosts, true, modules[i].host_count);
		snap_line_add(lines, SNAP_STYLE_PLAIN, ")");
	}
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_all_builds(struct text *text)
{
	const struct snap_merged *merged = text->merged;
	bool begun = false;

	for (size_t i = 0, end; i < merged->module_count; i = end) {
		for (end = i + 1; end < merged->module_count &&
				  strcmp(merged->modules[end].path, merged->modules[i].path) == 0;)
			end++;
		if (end - i < 2)
			continue;
		if (!begun)
			snap_line_blank(&text->lines);
		begun = true;
		put_builds(text, &merged->modules[i], end - i);
	}
}

/* ---- groups ---- */

/* "in 1 process, only on 1 of 64 hosts: web-17" */
static void put_where(struct text *text, const struct snap_merged_group *group)
{
	struct snap_sheet *lines = &text->lines;
	size_t all = text->merged->host_count, missing = all - group->host_count;

	snap_line_begin(lines);
	snap_line_pad(lines, lines->columns + 2);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "in %llu process%s, ",
			 (unsigned long long)group->process_count,
			 group->process_count == 1 ? "" : "es");
	switch (group->odd) {
	case SNAP_ODD_RARE:
		snap_line_printf(lines, SNAP_STYLE_RED_BOLD, "only on %zu of %zu hosts",
				 group->host_count, all);
		snap_line_add(lines, SNAP_STYLE_PLAIN, ": ");
		add_hosts(text, &group->hosts, true, group->host_count);
		break;
	case SNAP_ODD_MISSING:
		snap_line_printf(lines, SNAP_STYLE_RED_BOLD, "not on %zu of %zu hosts", missing,
				 all);
		snap_line_add(lines, SNAP_STYLE_PLAIN, ": ");
		add_hosts(text, &group->hosts, false, missing);
		break;
	case SNAP_ODD_NOT:
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "on %zu of %zu host%s", group->host_count,
				 all, snap_plural(all));
		break;
	}
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* "for example orderd[1234] thread 1302 on web-17" */
static void put_example(struct text *text, const struct snap_merged_group *group)
{
	const struct snap_merged_example *example = &group->examples[0];
	const struct snap_merged_host *host = &text->merged->hosts[example->host];
	struct snap_sheet *lines = &text->lines;

	if (group->example_count == 0)
		return;
	snap_line_begin(lines);
	snap_line_pad(lines, lines->columns + 2);
	snap_line_add(lines, SNAP_STYLE_DIM, "for example ");
	if (example->process)
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, example->process);
	snap_line_printf(lines, SNAP_STYLE_DIM, "[%d]", (int)example->pid);
	if (example->task) {
		snap_line_add(lines, SNAP_STYLE_DIM, " task ");
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, example->task);
	} else {
		snap_line_printf(lines, SNAP_STYLE_DIM, " thread %d", (int)example->tid);
	}
	snap_line_add(lines, SNAP_STYLE_DIM, " on ");
	snap_line_add_escaped(lines, SNAP_STYLE_DIM, host->name ? host->name : host->boot_id);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_merged_group_text(struct text *text, size_t number)
{
	const struct snap_merged_group *group = &text->merged->groups[number];
	const struct snap_stack *stack = &text->stacks[number];
	const char *name = snap_stack_label(stack, "thread_name");
	struct snap_sheet *lines = &text->lines;

	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_BOLD, "%zu %s ", stack->count, lines->signs->times);
	snap_line_add_escaped(lines, SNAP_STYLE_BOLD, name ? name : stack->description);
	snap_line_add(lines, SNAP_STYLE_PLAIN, "   ");
	snap_text_state(lines, stack);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
	put_where(text, group);
	put_example(text, group);
	snap_text_stack_frames(&text->shown, stack);
}

static void put_merged_groups(struct text *text)
{
	for (size_t i = 0; i < text->merged->group_count && !text->lines.failed; i++)
		put_merged_group_text(text, i);
}

/* The stacks of all groups, and what they have in common. */
static bool make_merged_stacks(struct text *text)
{
	const struct snap_merged *merged = text->merged;

	text->stacks =
		snap_arena_new_array(&text->arena, merged->group_count + 1, struct snap_stack);
	for (size_t i = 0; text->stacks && i < merged->group_count; i++) {
		if (!snap_merged_stack(&merged->groups[i], &text->strings, &text->stacks[i]))
			return false;
		snap_text_stacks_survey(&text->shown, &text->stacks[i]);
	}
	return text->stacks != NULL;
}

struct stacksnap_error *snap_render_merged_text(const struct snap_merged *merged,
						const struct snap_options *options, FILE *out)
{
	enum { INDENT = 8 };
	_cleanup_(merged_text_deinit) struct text text = { .merged = merged, .options = options };

	snap_arena_init(&text.arena);
	snap_interner_init(&text.strings, &text.arena);
	snap_sheet_init(&text.lines, options, out);
	text.shown.lines = &text.lines;
	text.shown.options = options;
	text.shown.count_width = 1;
	text.shown.name_width = text.lines.widest_column - INDENT;
	SNAP_TRY(snap_no_memory_unless(make_merged_stacks(&text)));
	put_merged_head(&text);
	put_merged_deadlocks(&text);
	put_all_builds(&text);
	text.lines.measuring = true;
	put_merged_groups(&text);
	text.lines.measuring = false;
	put_merged_groups(&text);
	snap_text_stacks_note(&text.shown);
	snap_folders_note(&text.shown.folders, &text.lines, !text.shown.has_guessed);
	SNAP_TRY(snap_no_memory_unless(!text.lines.failed));
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}
