/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The head of a stack: see ../stack.h. */
#include "render/text/stack/parts.h"

#include "base/bsearch.h"
#include "render/text/task.h"

#include <inttypes.h>
#include <string.h>

void snap_text_share(struct snap_sheet *lines, uint64_t samples, uint64_t all, size_t width)
{
	snap_line_printf(lines, SNAP_STYLE_BOLD, "%5.1f %%", 100.0 * (double)samples / (double)all);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  %*" PRIu64 " sample%s %s ", (int)width,
			 samples, samples == 1 ? " " : "s", lines->signs->times);
}

/* "disk 90 %, running 10 %", the most frequent first. */
static void add_states(struct snap_sheet *lines, const struct snap_stack *stack)
{
	uint64_t left = UINT64_MAX;
	unsigned last = 0;

	for (bool begun = false;; begun = true) {
		unsigned most = SNAP_STATE_COUNT;

		/* The next one: fewer samples than the last, or as many and behind it. */
		for (unsigned i = 0; i < SNAP_STATE_COUNT; i++) {
			uint64_t count = stack->state_samples[i];

			if (count && (count < left || (count == left && i > last)) &&
			    (most == SNAP_STATE_COUNT || count > stack->state_samples[most]))
				most = i;
		}
		if (most == SNAP_STATE_COUNT)
			return;
		left = stack->state_samples[most];
		last = most;
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%s%s %.0f %%", begun ? ", " : "",
				 snap_state_word(most),
				 100.0 * (double)left / (double)stack->samples);
	}
}

/* The name of all threads, or the first few different ones. */
static void add_names(struct snap_sheet *lines, const struct snap_stack *stack)
{
	const char *common = snap_stack_label(stack, "thread_name");
	struct snap_line_names reported = { 0 };

	if (common) {
		snap_line_add_thread(lines, common);
		return;
	}
	for (size_t i = 0; i < stack->thread_count; i++) {
		const char *name = stack->threads[i].name ? stack->threads[i].name : "(no name)";

		if (!snap_line_add_name(lines, &reported, name))
			return;
	}
}

/* Capitals for what wants to be seen; colour only says it again. */
void snap_text_state(struct snap_sheet *lines, const struct snap_stack *stack)
{
	const char *word = snap_stack_label(stack, "state"),
		   *call = snap_stack_label(stack, "syscall"),
		   *wchan = snap_stack_label(stack, "wchan"), *in = call ? call : wchan;
	enum snap_style style = SNAP_STYLE_PLAIN;
	enum snap_state state = word ? snap_state_of_word(word) : SNAP_STATE_COUNT;

	if (state == SNAP_STATE_RUNNING) {
		word = "RUNNING";
		style = SNAP_STYLE_GREEN;
		in = NULL;
	} else if (state == SNAP_STATE_DISK) {
		word = "DISK";
		style = SNAP_STYLE_RED_BOLD;
		in = wchan ? wchan : call;
	} else if (state == SNAP_STATE_STOPPED || state == SNAP_STATE_TRACED ||
		   state == SNAP_STATE_FROZEN) {
		style = SNAP_STYLE_YELLOW;
	} else if (state == SNAP_STATE_ZOMBIE || state == SNAP_STATE_DEAD) {
		style = SNAP_STYLE_MAGENTA;
	}
	if (state == SNAP_STATE_UNKNOWN && in) {
		/* Of a core: the call is all that is known. */
		snap_line_add(lines, SNAP_STYLE_PLAIN, "in ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, in);
		return;
	}
	if (!word && stack->state_samples)
		add_states(lines, stack);
	else
		snap_line_add(lines, style, word ? word : "in several states");
	if (in) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, word ? " in " : ", ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, in);
	}
}

static pid_t number_at(const pid_t *first, size_t stride, size_t at)
{
	const void *place = (const char *)first + at * stride;

	return *(const pid_t *)place;
}

void snap_text_ranges(const char *noun, const pid_t *first, size_t stride, size_t count, size_t max,
		      char *out, size_t size)
{
	size_t ranges = 0, n, end;

	n = (size_t)snprintf(out, size, "%s%s ", noun, count == 1 ? "" : "s");
	for (size_t i = 0; i < count && n < size; i = end) {
		const char *comma = i ? ", " : "";
		pid_t from = number_at(first, stride, i), to = from;

		for (end = i + 1; end < count && number_at(first, stride, end) == to + 1; end++)
			to++;
		if (ranges++ == max) {
			snprintf(out + n, size - n, "%s+%zu", comma, count - i);
			return;
		}
		n += (size_t)(end == i + 1
				      ? snprintf(out + n, size - n, "%s%d", comma, from)
				      : snprintf(out + n, size - n, "%s%d-%d", comma, from, to));
	}
}

void snap_text_count_reads(const struct snap_stack *stack, struct snap_text_reads *reads)
{
	for (size_t i = 0; i < stack->thread_count; i++) {
		reads->unstopped += stack->threads[i].taken == SNAP_TAKEN_UNSTOPPED;
		reads->alone += stack->threads[i].taken == SNAP_TAKEN_ALONE;
		reads->confirmed += stack->threads[i].taken == SNAP_TAKEN_CONFIRMED;
	}
	reads->all += stack->thread_count;
}

/* "  (3 read without a stop, 1 stopped alone)"; nothing where all were stopped together. */
static void add_how_read(struct snap_sheet *lines, const struct snap_stack *stack)
{
	struct snap_text_reads reads = { 0 };

	snap_text_count_reads(stack, &reads);
	if (reads.unstopped && reads.alone)
		snap_line_printf(lines, SNAP_STYLE_DIM,
				 "  (%zu read without a stop, %zu stopped alone)", reads.unstopped,
				 reads.alone);
	else if (reads.unstopped || reads.alone)
		snap_line_add(lines, SNAP_STYLE_DIM,
			      reads.alone ? "  (stopped alone)" : "  (read without a stop)");
}

/* "forge[19152] GET: /issues [4] " */
static void add_owner(struct snap_sheet *lines, const struct snap_text_owner *owner)
{
	const struct snap_node *node = owner ? owner->node : NULL;

	if (node) {
		snap_line_add_escaped(lines, SNAP_STYLE_BOLD, node->name ? node->name : "?");
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "[%d] ", node->pid);
	}
	if (owner && owner->logical)
		snap_text_logical_name(lines, owner->logical);
}

/* "   crashed" */
static void add_crashed(struct snap_sheet *lines, const struct snap_stack *stack)
{
	if (stack->crashed)
		snap_line_add(lines, SNAP_STYLE_RED_BOLD, "   crashed");
}

/* "   stuck", "   3 of 62 stuck" */
static void add_stuck(struct snap_sheet *lines, const struct snap_stack *stack)
{
	size_t count = snap_sum(stack->thread_count, i, stack->threads[i].stuck);

	if (count && count < stack->thread_count)
		snap_line_printf(lines, SNAP_STYLE_YELLOW, "   %zu of %zu stuck", count,
				 stack->thread_count);
	else if (count)
		snap_line_add(lines, SNAP_STYLE_YELLOW, "   stuck");
}

void snap_text_stack_state(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	if (stack->runtime)
		snap_text_task_state(stacks->lines, stack, stacks->monotonic_ns);
	else
		snap_text_state(stacks->lines, stack);
}

void snap_text_stack_who(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	struct snap_sheet *lines = stacks->lines;

	if (stack->runtime)
		snap_text_task_names(lines, stack);
	else
		add_names(lines, stack);
	if (stacks->options->summary)
		snap_line_stop(lines, SNAP_STOP_STATE, 3);
	else
		snap_line_add(lines, SNAP_STYLE_PLAIN, "   ");
	snap_text_stack_state(stacks, stack);
	if (stacks->options->verbose)
		add_how_read(lines, stack);
	add_crashed(lines, stack);
	add_stuck(lines, stack);
}

void snap_text_stack_head(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			  const struct snap_text_owner *owner)
{
	struct snap_sheet *lines = stacks->lines;

	if (stacks->samples) {
		snap_text_share(lines, stack->samples, stacks->samples, stacks->samples_width);
	} else {
		snap_line_printf(lines, SNAP_STYLE_BOLD, "%*zu", (int)stacks->count_width,
				 stack->count);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->times);
	}
	add_owner(lines, owner);
	if (stacks->options->summary)
		snap_line_stop(lines, SNAP_STOP_NAME, 0);
	snap_text_stack_who(stacks, stack);
}

SNAP_ORDER(compare_pids, pid_t, a, b, snap_compare(*a, *b));

/* Malloc'ed: the processes that threads of all of them are of, each once. False without memory. */
static bool list_text_pids(const struct snap_stack *stack, pid_t **ret, size_t *count_ret)
{
	size_t count = stack->runtime ? stack->task_count : stack->thread_count, kept = 0;
	pid_t *pids = malloc((count + 1) * sizeof(*pids));

	*ret = pids;
	if (!pids)
		return false;
	memcpy(pids, stack->pids, count * sizeof(*pids));
	qsort(pids, count, sizeof(*pids), compare_pids);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || pids[i] != pids[kept - 1])
			pids[kept++] = pids[i];
	*count_ret = kept;
	return true;
}

void snap_text_stack_members(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	struct snap_sheet *lines = stacks->lines;
	size_t max = SNAP_MOST_RANGES, column;
	char ranges[1024];

	_cleanup_free_ pid_t *pids = NULL;
	size_t pid_count = 0;

	if (stack->pids && !list_text_pids(stack, &pids, &pid_count))
		lines->failed = true;
	column = lines->columns + 2 > lines->column ? lines->columns + 2 : lines->column;
	do {
		if (pids)
			snap_text_ranges("pid", pids, sizeof(*pids), pid_count, max, ranges,
					 sizeof(ranges));
		else if (stack->runtime)
			snap_text_task_ids(lines, stack, max, ranges, sizeof(ranges));
		else
			snap_text_ranges("tid", &stack->threads[0].tid, sizeof(stack->threads[0]),
					 stack->thread_count, max, ranges, sizeof(ranges));
	} while (lines->width && column + strlen(ranges) > lines->width && --max > 0);
	snap_line_end(lines, SNAP_STYLE_DIM, ranges);
}

void snap_text_stack_title(struct snap_text_stacks *stacks, const struct snap_stack *stack,
			   const struct snap_text_owner *owner)
{
	snap_text_stack_head(stacks, stack, owner);
	snap_text_stack_members(stacks, stack);
}
