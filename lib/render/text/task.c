/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See task.h. */
#include "render/text/task.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/text.h"
#include "model/group_label.h"
#include "render/view/when.h"

#include <inttypes.h>
#include <string.h>

enum {
	MAX_ADDRESSES = 2, /* ids that are no numbers are long, and make no ranges */
	LONGEST_PATTERN = 128,
};

const char *snap_text_task_noun(const char *runtime, const struct snap_node *node)
{
	if (node && node->runtime_count == 1)
		runtime = node->runtimes[0].name;
	return snap_same_text(runtime, "go") ? "goroutine" : "task";
}

void snap_text_task_names(struct snap_sheet *lines, const struct snap_stack *stack)
{
	struct snap_line_names reported = { 0 };
	char pattern[LONGEST_PATTERN];

	if (snap_label_fold_names(&stack->tasks[0].name, sizeof(stack->tasks[0]), stack->task_count,
				  pattern, sizeof(pattern)) &&
	    strlen(pattern) + 1 < sizeof(pattern)) {
		snap_line_add_thread(lines, pattern);
		return;
	}
	for (size_t i = 0; i < stack->task_count; i++) {
		const char *name = stack->tasks[i].name;

		if (name && !snap_line_add_name(lines, &reported, name))
			return;
	}
	/* Without the stack in --group-by, what they have in common may be no function of theirs. */
	if (reported.count == 0 && stack->task_count > 1 &&
	    strcmp(stack->description, "(unknown)") == 0)
		snap_line_add(lines, SNAP_STYLE_BOLD, "(several functions)");
	else if (reported.count == 0)
		snap_line_add_thread(lines, stack->description);
}

/* ", locked to its thread", ", labels not whole" */
static void add_oddities(struct snap_sheet *lines, const struct snap_stack *stack)
{
	size_t locked = 0, cut = 0;

	for (size_t i = 0; i < stack->task_count; i++) {
		locked += stack->tasks[i].locked;
		cut += stack->tasks[i].labels_cut;
	}
	if (locked && locked == stack->task_count)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", locked to %s",
				 locked == 1 ? "its thread" : "their threads");
	else if (locked)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu locked to %s", locked,
				 locked == 1 ? "its thread" : "their threads");
	if (cut)
		snap_line_add(lines, SNAP_STYLE_YELLOW, ", labels not whole");
}

static void add_task_time(struct snap_sheet *lines, const struct snap_stack *stack,
			  int64_t monotonic_ns)
{
	const int64_t minute_ns = 60 * SNAP_NS_PER_S;
	int64_t least_ns = INT64_MAX, most_ns = 0;
	char length[SNAP_WHEN_SIZE];

	for (size_t i = 0; i < stack->task_count; i++) {
		int64_t since_ns = stack->tasks[i].since_ns;
		int64_t ns = since_ns > 0 && since_ns < monotonic_ns ? monotonic_ns - since_ns : 0;

		least_ns = ns < least_ns ? ns : least_ns;
		most_ns = ns > most_ns ? ns : most_ns;
	}
	if (most_ns < minute_ns)
		return;
	snap_when_uptime(most_ns, length);
	if (most_ns < 60 * minute_ns)
		snprintf(length, sizeof(length), "%d min", (int)(most_ns / minute_ns));
	snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %s%s",
			 least_ns / minute_ns < most_ns / minute_ns ? "up to " : "", length);
}

void snap_text_task_state(struct snap_sheet *lines, const struct snap_stack *stack,
			  int64_t monotonic_ns)
{
	const char *word = snap_stack_label(stack, "state"),
		   *wait = snap_stack_label(stack, "wait");
	enum snap_style style = SNAP_STYLE_PLAIN;

	if (word && strcmp(word, snap_task_state_word(SNAP_TASK_RUNNING)) == 0) {
		word = "RUNNING";
		style = SNAP_STYLE_GREEN;
	}
	snap_line_add_escaped(lines, style, word ? word : "in several states");
	if (wait) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, ": ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, wait);
	}
	add_task_time(lines, stack, monotonic_ns);
	add_oddities(lines, stack);
}

/* Whether an id is a number of few digits, without zeros in front: then runs of them fold. */
static bool parse_id(const char *id, uint64_t *ret)
{
	size_t digits = strspn(id, "0123456789");
	uint64_t number = 0;

	if (digits == 0 || digits > 18 || id[digits] || (digits > 1 && id[0] == '0'))
		return false;
	for (size_t i = 0; i < digits; i++)
		number = number * 10 + (uint64_t)(id[i] - '0');
	*ret = number;
	return true;
}

/* Ids of tasks, or of logical processes: of anything that has one. */
struct ids {
	const struct snap_task *tasks; /* NULL: */
	const char *const *texts;
	size_t count;
};

static const char *id_at(const struct ids *ids, size_t number)
{
	return ids->tasks ? ids->tasks[number].id : ids->texts[number];
}

/*
 * The end of the run of consecutive numbers that begins with the first one. Tasks of different
 * processes may have the same id, which is printed once.
 */
static size_t end_of_id_run(const struct ids *ids, size_t first)
{
	uint64_t number, next;
	size_t end = first + 1;

	while (end < ids->count && strcmp(id_at(ids, end), id_at(ids, first)) == 0)
		end++;
	if (!parse_id(id_at(ids, first), &number))
		return end;
	while (end < ids->count && parse_id(id_at(ids, end), &next) &&
	       (next == number || next == number + 1)) {
		number = next;
		end++;
	}
	return end;
}

/* Escaped, cut to what a column can hold; borrowed as snap_sheet_escape() says. */
static const char *short_id(struct snap_sheet *lines, const char *id)
{
	enum { LONGEST = 24 };
	size_t length = strnlen(id, LONGEST + 4);
	char text[LONGEST + 4];

	if (length > LONGEST)
		length = snap_text_cut(id, length, LONGEST);
	memcpy(text, id, length);
	text[length] = '\0';
	return snap_sheet_escape(lines, text);
}

/* "7-126, 130, +4" */
static void write_ids(struct snap_sheet *lines, const struct ids *ids, size_t max, char *out,
		      size_t size)
{
	size_t runs = 0, n = 0, end;
	uint64_t number;

	if (ids->count && !parse_id(id_at(ids, 0), &number) && max > MAX_ADDRESSES)
		max = MAX_ADDRESSES;
	for (size_t i = 0; i < ids->count && n < size; i = end) {
		const char *comma = i ? ", " : "";

		end = end_of_id_run(ids, i);
		if (runs++ == max) {
			snprintf(out + n, size - n, "%s+%zu", comma, ids->count - i);
			return;
		}
		n += (size_t)snprintf(out + n, size - n, "%s%s", comma,
				      short_id(lines, id_at(ids, i)));
		if (strcmp(id_at(ids, end - 1), id_at(ids, i)) != 0 && n < size)
			n += (size_t)snprintf(out + n, size - n, "-%s",
					      short_id(lines, id_at(ids, end - 1)));
	}
}

void snap_text_task_ids(struct snap_sheet *lines, const struct snap_stack *stack, size_t max,
			char *out, size_t size)
{
	struct ids ids = { .tasks = stack->tasks, .count = stack->task_count };
	size_t n = (size_t)snprintf(out, size, "%s%s ", snap_text_task_noun(stack->runtime, NULL),
				    snap_plural(ids.count));

	write_ids(lines, &ids, max, out + n, size - n);
}

/* What stands in the title of a stack already. */
static bool is_task_reported(const char *key)
{
	static const char *const reported[] = { "state",       "wait",    "task_name",
						"thread_name", "syscall", "wchan",
						"cpu",         "type",    "exe_deleted" };

	return snap_any(SNAP_ARRAY_SIZE(reported), i, strcmp(key, reported[i]) == 0);
}

void snap_text_labels(struct snap_sheet *lines, const struct snap_label *labels, size_t count,
		      size_t indent)
{
	bool begun = false;

	for (size_t i = 0; i < count; i++) {
		if (is_task_reported(labels[i].key))
			continue;
		if (!begun) {
			snap_line_begin(lines);
			snap_line_pad(lines, lines->columns + indent);
		}
		snap_line_add(lines, SNAP_STYLE_DIM, begun ? "  " : "");
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, labels[i].key);
		snap_line_add(lines, SNAP_STYLE_DIM, "=");
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, labels[i].value);
		begun = true;
	}
	if (begun)
		snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_group_labels(struct snap_sheet *lines, const struct snap_options *options,
			    const struct snap_stack *stack)
{
	for (size_t i = 0; i < options->group_label_count; i++) {
		const char *key = options->group_labels[i], *value;

		value = snap_label_clashes(key) ? NULL : snap_stack_label(stack, key);
		if (!value)
			continue;
		snap_line_add(lines, SNAP_STYLE_PLAIN, "  ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, key);
		snap_line_add(lines, SNAP_STYLE_PLAIN, "=");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, value);
	}
}

static void add_logical_ids(struct snap_sheet *lines, const struct snap_alike *alike)
{
	struct ids ids = { .texts = alike->ids, .count = alike->id_count };
	enum { MOST_RUNS = 6 };
	char text[512];

	snap_line_add(lines, SNAP_STYLE_PLAIN, " [");
	if (ids.count == 1) {
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, ids.texts[0]);
	} else {
		write_ids(lines, &ids, MOST_RUNS, text, sizeof(text));
		snap_line_add(lines, SNAP_STYLE_PLAIN, text);
	}
	snap_line_add(lines, SNAP_STYLE_PLAIN, "]");
}

void snap_text_logical_title(struct snap_sheet *lines, const struct snap_alike *alike)
{
	const struct snap_logical *logical = &alike->logical;

	if (alike->id_count > 1) {
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%zu", alike->id_count);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->times);
	}
	snap_line_add_escaped(lines, SNAP_STYLE_BOLD, logical->name);
	if (alike->id_count > 1 || (logical->id && !snap_same_text(logical->id, logical->name)))
		add_logical_ids(lines, alike);
	if (logical->type == SNAP_LOGICAL_REQUEST || logical->type == SNAP_LOGICAL_SYSTEM)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "  %s",
				 snap_logical_type_word(logical->type));
	if (logical->type != SNAP_LOGICAL_DEAD)
		snap_line_printf(lines, SNAP_STYLE_DIM, "   %zu task%s", logical->task_count,
				 snap_plural(logical->task_count));
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_logical_name(struct snap_sheet *lines, const struct snap_logical *logical)
{
	if (!logical->id || logical->type == SNAP_LOGICAL_TASK)
		return;
	snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, logical->name);
	if (!snap_same_text(logical->id, logical->name)) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, " [");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, logical->id);
		snap_line_add(lines, SNAP_STYLE_PLAIN, "]");
	}
	snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
}

static size_t own_tasks(const struct snap_node *node)
{
	size_t tasks = 0;

	for (size_t i = 0; i < node->runtime_count; i++)
		tasks += node->runtimes[i].tasks;
	return tasks > node->task_count ? tasks - node->task_count : 0;
}

bool snap_text_has_rest(const struct snap_node *node)
{
	return snap_any(node->runtime_count, i, node->runtimes[i].idle_threads) ||
	       own_tasks(node) > 0;
}

void snap_text_rest(struct snap_sheet *lines, const struct snap_node *node)
{
	size_t tasks = own_tasks(node);
	bool begun = false;

	for (size_t i = 0; i < node->runtime_count; i++) {
		const struct snap_node_runtime *runtime = &node->runtimes[i];

		if (runtime->idle_threads == 0)
			continue;
		snap_line_printf(lines, SNAP_STYLE_DIM, "%s%zu idle thread%s of ",
				 begun ? ", " : "", runtime->idle_threads,
				 snap_plural(runtime->idle_threads));
		snap_line_add_escaped(lines, SNAP_STYLE_DIM, runtime->name);
		begun = true;
	}
	if (begun)
		snap_line_add(lines, SNAP_STYLE_DIM, " (--threads)");
	if (tasks)
		snap_line_printf(lines, SNAP_STYLE_DIM,
				 "%s%zu task%s of the runtime itself "
				 "(--system-tasks)",
				 begun ? ", " : "", tasks, snap_plural(tasks));
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}
