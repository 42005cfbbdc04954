/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See node.h. */
#include "render/text/node.h"

#include "base/text.h"
#include "render/text/stack.h"
#include "render/text/task.h"
#include "render/view/elide.h"
#include "render/view/walk.h"
#include "render/view/when.h"

#include <inttypes.h>
#include <string.h>

static struct snap_text_reads count_all_reads(const struct snap_snapshot *snapshot)
{
	struct snap_text_reads reads = { 0 };
	struct snap_walk_step step;
	struct snap_walk walk;

	snap_walk_init(&walk, snapshot);
	while (snap_walk_next(&walk, &step)) {
		for (size_t i = 0; !step.leave && i < step.node->stack_count; i++)
			snap_text_count_reads(&step.node->stacks[i], &reads);
	}
	snap_walk_deinit(&walk);
	return reads;
}

/* "   not stopped: 62 of 65 threads read without a stop, 3 stopped one by one, …" */
static void head_reads(struct snap_sheet *lines, const struct snap_options *options,
		       const struct snap_snapshot *snapshot)
{
	struct snap_text_reads reads = count_all_reads(snapshot);
	char length[SNAP_WHEN_SIZE];

	snap_line_printf(lines, SNAP_STYLE_PLAIN,
			 "   not stopped: %zu of %zu thread%s read without a stop", reads.unstopped,
			 reads.all, reads.all == 1 ? "" : "s");
	if (reads.alone)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu stopped one by one", reads.alone);
	if (reads.alone && options->verbose && snapshot->stop_duration_ns) {
		snap_when_length(snapshot->stop_duration_ns, length);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " (at most %s each)", length);
	}
	if (reads.all > 1)
		snap_line_add(lines, SNAP_STYLE_PLAIN, ", not at one instant");
}

/* Of all processes, before filters. */
static size_t count_all_threads(const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;
	size_t count = 0;

	snap_walk_init(&walk, snapshot);
	while (snap_walk_next(&walk, &step))
		count += step.leave ? 0 : step.node->thread_count;
	return count;
}

/*
 * "   one instant, 1 thread late, 2 of 65 threads stopped for 212 us"; "   stopped 904 us", where all
 * were
 */
static void head_stop(struct snap_sheet *lines, const struct snap_options *options,
		      const struct snap_snapshot *snapshot)
{
	char length[SNAP_WHEN_SIZE];
	struct snap_text_reads reads;
	bool some_rested;

	if (snapshot->many_instants) {
		head_reads(lines, options, snapshot);
		return;
	}
	reads = count_all_reads(snapshot);
	some_rested = reads.confirmed || reads.unstopped;
	/* Trees are looked at one after the other. */
	if (some_rested)
		snap_line_add(lines, SNAP_STYLE_PLAIN,
			      snapshot->root_count == 1 ? "   one instant, " : "   ");
	if (reads.unstopped)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%zu thread%s late, ", reads.unstopped,
				 snap_plural(reads.unstopped));
	if (some_rested && !snapshot->stop_duration_ns)
		snap_line_add(lines, SNAP_STYLE_PLAIN, "no thread stopped");
	if (!snapshot->stop_duration_ns)
		return;
	snap_when_length(snapshot->stop_duration_ns, length);
	if (some_rested)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%zu of %zu threads stopped for %s",
				 snapshot->threads_stopped, count_all_threads(snapshot), length);
	else
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "   stopped %s", length);
	if (!options->verbose)
		return;
	snap_when_length(snapshot->stop_skew_ns, length);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, " (all within %s)", length);
}

/* "3 threads"; where none is shown, "0 of 8 threads" */
static void head_threads(struct snap_sheet *lines, const struct snap_snapshot *snapshot)
{
	size_t all = snapshot->thread_count ? 0 : count_all_threads(snapshot);
	char of[32] = "";

	if (all)
		snprintf(of, sizeof(of), " of %zu", all);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu%s thread%s", snapshot->thread_count, of,
			 snap_plural(all ? all : snapshot->thread_count));
}

void snap_text_head(struct snap_sheet *lines, const struct snap_options *options,
		    const struct snap_snapshot *snapshot, bool list)
{
	char when[SNAP_WHEN_SIZE];

	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_BOLD, "stacksnap");
	if (snapshot->host.name) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, ": ");
		snap_line_add_escaped(lines, SNAP_STYLE_BOLD, snapshot->host.name);
	}
	if (snapshot->time_ns) {
		snap_when(snapshot->time_ns, ' ', 3, when);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "  %s", when);
	}
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "   %zu process%s", snapshot->process_count,
			 snapshot->process_count == 1 ? "" : "es");
	if (!list) {
		head_threads(lines, snapshot);
		if (snapshot->task_count)
			snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu %s%s",
					 snapshot->task_count,
					 snapshot->process_count == 1
						 ? snap_text_task_noun(NULL, snapshot->processes[0])
						 : "task",
					 snap_plural(snapshot->task_count));
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu stack%s", snapshot->stack_count,
				 snap_plural(snapshot->stack_count));
		head_stop(lines, options, snapshot);
	}
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_node_name(struct snap_sheet *lines, const struct snap_node *node)
{
	snap_line_add_escaped(lines, SNAP_STYLE_BOLD, node->name ? node->name : "?");
	snap_line_printf(lines, SNAP_STYLE_BOLD, "[%d]", node->pid);
}

/* The description is cut at its end on a terminal, and goes where there is no room for it. */
static void add_description(struct snap_sheet *lines, const struct snap_node *node, bool first,
			    size_t width)
{
	size_t gap = first ? 0 : 2;
	char *description = snap_sheet_escape(lines, node->description);

	if (!first)
		snap_line_add(lines, SNAP_STYLE_PLAIN, "  ");
	if (width > lines->columns + 8)
		snap_elide_end(description, width - lines->columns, lines->signs->dots);
	else if (width && node->folded && gap)
		return;
	snap_line_add(lines, SNAP_STYLE_PLAIN, description);
}

/* "postgres: checkpointer": the name need not precede it. */
static bool has_own_title(const struct snap_node *node)
{
	size_t length = node->name ? strlen(node->name) : 0;

	return length && node->description && strncmp(node->description, node->name, length) == 0 &&
	       node->description[length] == ':';
}

/* "23 × (udev-worker)  /lib/systemd/systemd-udevd   pids 234-256": the pids are shown in any case. */
static void folded_title(struct snap_sheet *lines, const struct snap_node *node)
{
	enum { GAP = 3, MOST_WITH_MORE = 26 };
	size_t max = SNAP_MOST_RANGES, width = 0, begin;
	bool says_name = has_own_title(node);
	char pids[1024];

	snap_line_printf(lines, SNAP_STYLE_BOLD, "%zu", node->folded_count);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->times);
	if (node->name && !says_name)
		snap_line_add_escaped(lines, SNAP_STYLE_BOLD, node->name);
	begin = lines->columns + GAP;
	do {
		snap_text_ranges("pid", node->folded, sizeof(*node->folded), node->folded_count,
				 max, pids, sizeof(pids));
	} while (lines->width && --max > 0 &&
		 (strlen(pids) > MOST_WITH_MORE || begin + strlen(pids) > lines->width));
	if (lines->width > strlen(pids) + GAP)
		width = lines->width - strlen(pids) - GAP;
	if (node->description)
		add_description(lines, node, !node->name || says_name, width);
	snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
	/* A wide description moves no column. */
	snap_line_end(lines, SNAP_STYLE_DIM, lines->measuring ? NULL : pids);
}

bool snap_text_is_counted_alone(const struct snap_node *node)
{
	return node->type == SNAP_TYPE_KERNEL && node->stack_count == 0 &&
	       node->state != SNAP_STATE_DISK;
}

/* Those below it are in no other line. */
static void add_kernel_count(struct snap_sheet *lines, const struct snap_node *node)
{
	size_t count = 1;

	for (size_t i = 0; i < node->child_count; i++)
		if (snap_text_is_counted_alone(node->children[i]))
			count += SNAP_MAX(node->children[i]->folded_count, 1);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  (%zu kernel threads)", count);
}

void snap_text_node_title(struct snap_sheet *lines, const struct snap_node *node)
{
	if (node->folded) {
		folded_title(lines, node);
		return;
	}
	snap_text_node_name(lines, node);
	if (snap_text_is_counted_alone(node) && node->child_count)
		add_kernel_count(lines, node);
	else if (node->description)
		add_description(lines, node, false, lines->width);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

/* The parts of the line under a process, parted by dots; begins the line at the first one. */
struct info {
	struct snap_sheet *lines;
	bool begun;
};

static void info_part(struct info *info, const char *word, const char *value)
{
	struct snap_sheet *lines = info->lines;

	if (!info->begun)
		snap_line_begin(lines);
	else
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " %s ", lines->signs->middot);
	info->begun = true;
	snap_line_add(lines, SNAP_STYLE_PLAIN, word);
	if (value)
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, value);
}

/* Of a recording: a thread may be in several stacks. */
static void info_samples(struct info *info, const struct snap_node *node)
{
	uint64_t samples = 0;
	char text[160], tasks[48] = "";

	if (node->task_count)
		snprintf(tasks, sizeof(tasks), "%zu %s%s, ", node->task_count,
			 snap_text_task_noun(NULL, node), snap_plural(node->task_count));
	for (size_t i = 0; i < node->stack_count; i++)
		samples += node->stacks[i].samples;
	snprintf(text, sizeof(text), "%s%zu thread%s, %" PRIu64 " samples in %zu stack%s", tasks,
		 node->thread_count, snap_plural(node->thread_count), samples, node->stack_count,
		 snap_plural(node->stack_count));
	info_part(info, text, NULL);
}

/* When a process came and went, if that was while it was recorded. */
static void info_life(struct info *info, const struct snap_node *node)
{
	char text[96];

	if (node->late) {
		snprintf(text, sizeof(text), "from %.1f s on", (double)node->first_ns / 1e9);
		info_part(info, text, NULL);
	}
	if (!node->ended && !node->execed)
		return;
	snprintf(text, sizeof(text), "%s after %.1f s",
		 node->execed ? "executed another program" : "ended", (double)node->last_ns / 1e9);
	info_part(info, text, NULL);
}

/* "412 of 430 tasks, 3 of 12 threads in 17 stacks" */
static void info_stacks(struct info *info, const struct snap_node *node, size_t stacks)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;
	size_t threads = 0, tasks = 0;
	char of[32] = "", tasks_of[32] = "", text[200], tasks_text[96] = "";

	while ((stack = snap_node_next_stack(node, &cursor))) {
		threads += stack->thread_count;
		tasks += stack->task_count;
	}
	if (threads + node->threads_missed != node->thread_count)
		snprintf(of, sizeof(of), " of %zu", node->thread_count);
	if (tasks != node->task_count)
		snprintf(tasks_of, sizeof(tasks_of), " of %zu", node->task_count);
	if (node->task_count)
		snprintf(tasks_text, sizeof(tasks_text), "%zu%s %s%s, ", tasks, tasks_of,
			 snap_text_task_noun(NULL, node),
			 snap_plural(*tasks_of ? node->task_count : tasks));
	snprintf(text, sizeof(text), "%s%zu%s thread%s in %zu stack%s", tasks_text, threads, of,
		 snap_plural(*of ? node->thread_count : threads), stacks, snap_plural(stacks));
	info_part(info, text, NULL);
}

static void info_threads(struct info *info, const struct snap_node *node)
{
	size_t stacks = snap_node_stack_count(node);
	char text[160];

	if (node->recorded) {
		info_samples(info, node);
		info_life(info, node);
		return;
	}
	if (stacks == 0) {
		snprintf(text, sizeof(text), "%zu thread%s not seen", node->threads_missed,
			 snap_plural(node->threads_missed));
		info_part(info, text, NULL);
		return;
	}
	info_stacks(info, node, stacks);
	if (node->threads_missed) {
		snprintf(text, sizeof(text), "%zu not seen", node->threads_missed);
		info_part(info, text, NULL);
	}
}

/* ", GIL held by 1240", ", GIL held by 1240, 1241 (interpreter 2)": of the main one unless said */
static void info_gil(struct snap_sheet *lines, const struct snap_node_runtime *runtime)
{
	for (size_t i = 0; i < runtime->gil_count; i++) {
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%s%d", i ? ", " : ", GIL held by ",
				 runtime->gil[i].tid);
		if (runtime->gil[i].interpreter > 0)
			snap_line_printf(lines, SNAP_STYLE_PLAIN, " (interpreter %" PRId64 ")",
					 runtime->gil[i].interpreter);
	}
}

/* A core has no process that a tool of the runtime could ask. */
static void info_unread_java(struct snap_sheet *lines, const struct snap_node *node, bool is_core)
{
	snap_line_add(lines, SNAP_STYLE_PLAIN, " (functions of Java are not shown: ");
	if (is_core) {
		snap_line_add(lines, SNAP_STYLE_PLAIN, "jhsdb jstack --exe ");
		snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, node->exe ? node->exe : "java");
		snap_line_add(lines, SNAP_STYLE_PLAIN, " --core FILE)");
		return;
	}
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "jcmd %d Compiler.perfmap, or jstack %d)",
			 node->pid, node->pid);
}

/* Whether it runs with an option; both - and _ are written in names of V8's. */
static bool has_node_option(const struct snap_node *node, const char *option)
{
	for (size_t i = 0; i < node->arg_count; i++) {
		const char *a = node->args[i], *b = option;

		while (*b && (*a == *b || (*a == '_' && *b == '-'))) {
			a++;
			b++;
		}
		if (!*b)
			return true;
	}
	return false;
}

/* How to see the functions of a runtime that is not read. */
static void info_unread(struct snap_sheet *lines, const struct snap_node *node, const char *name,
			bool is_core)
{
	static const char *const options[] = { "--perf-basic-prof",
					       "--interpreted-frames-native-stack" };
	const bool is_node = strcmp(name, "node") == 0;
	size_t missing = 0;

	if (strcmp(name, "java") == 0) {
		info_unread_java(lines, node, is_core);
		return;
	}
	while (missing < SNAP_ARRAY_SIZE(options) && has_node_option(node, options[missing]))
		missing++;
	snap_line_printf(lines, SNAP_STYLE_PLAIN, " (functions of %s are not shown%s%s)",
			 is_node ? "JavaScript" : "Ruby",
			 is_node && missing < SNAP_ARRAY_SIZE(options) ? ": node " : "",
			 is_node && missing < SNAP_ARRAY_SIZE(options) ? options[missing] : "");
}

/* What is missing of a runtime's stacks and tasks, and what would help. */
static const char *const cut_texts[] = {
	[SNAP_RUNTIME_CUT_TIME] = "not all is shown for lack of time (--runtime-budget)",
	[SNAP_RUNTIME_CUT_MEMORY] = "not all is shown: memory was left out (--runtime-memory)",
	[SNAP_RUNTIME_CUT_RECORDS] = "not all is shown: there are too many records",
	[SNAP_RUNTIME_TORN] = "not all is shown: it was changing",
};
_Static_assert(SNAP_ARRAY_SIZE(cut_texts) == SNAP_RUNTIME_CUT_COUNT, "a text each");

/* "go 1.21.13", "cpython 3.11.2, GIL held by 1240", "go 1.22.1, not all is shown: …" */
static void info_runtimes(struct info *info, const struct snap_node *node, bool is_core)
{
	struct snap_sheet *lines = info->lines;

	for (size_t i = 0; i < node->runtime_count; i++) {
		const struct snap_node_runtime *runtime = &node->runtimes[i];

		info_part(info, "", runtime->name);
		if (runtime->version) {
			snap_line_add(lines, SNAP_STYLE_PLAIN, " ");
			snap_line_add_escaped(lines, SNAP_STYLE_PLAIN, runtime->version);
		}
		if (runtime->unread)
			info_unread(lines, node, runtime->name, is_core);
		info_gil(lines, runtime);
		if (runtime->cut)
			snap_line_printf(lines, SNAP_STYLE_YELLOW, ", %s", cut_texts[runtime->cut]);
	}
}

/* "91 % cpu · 61.2 MB rss, 54.1 MB 3.00 s ago": since then, else since its start; ticks have 10 ms. */
static void info_usage(struct info *info, int64_t age_ns, int64_t again_ns,
		       const struct snap_node *node)
{
	enum { LEAST_NS = 500000000 };
	const struct snap_usage *usage = &node->usage, *before = &node->usage_before;
	int64_t over_ns = before->rss_bytes ? again_ns : age_ns;
	double share = 100.0 * (double)(usage->cpu_ns - before->cpu_ns) / (double)over_ns;
	char text[64], ago[SNAP_WHEN_SIZE];

	if (!usage->rss_bytes)
		return;
	if (over_ns >= LEAST_NS && share >= 0) {
		snprintf(text, sizeof(text), "%.*f %% cpu%s", share < 10, share,
			 before->rss_bytes ? "" : " since its start");
		info_part(info, text, NULL);
	}
	snprintf(text, sizeof(text), "%.1f MB rss", (double)usage->rss_bytes / (1 << 20));
	info_part(info, text, NULL);
	if (!before->rss_bytes)
		return;
	snap_when_length(again_ns, ago);
	snap_line_printf(info->lines, SNAP_STYLE_PLAIN, ", %.1f MB %s ago",
			 (double)before->rss_bytes / (1 << 20), ago);
}

/* User and since when; of a child only what is different from its parent. */
static void info_facts(struct info *info, const struct snap_options *options,
		       const struct snap_snapshot *snapshot, const struct snap_node *node,
		       const struct snap_node *parent)
{
	char number[48], up[SNAP_WHEN_SIZE];
	int64_t age_ns = 0;

	if (!parent || parent->uid != node->uid) {
		snprintf(number, sizeof(number), "%u", node->uid);
		if (node->user || node->uid != (uid_t)-1)
			info_part(info, "user ", node->user ? node->user : number);
	}
	if (node->start_time_ns &&
	    __builtin_sub_overflow(snapshot->time_ns, node->start_time_ns, &age_ns))
		age_ns = 0;
	if ((!parent || options->verbose) && age_ns > 0) {
		snap_when_uptime(age_ns, up);
		info_part(info, "up ", up);
	}
	if (!parent || options->verbose || node->usage_before.rss_bytes)
		info_usage(info, age_ns, snapshot->again_ns, node);
	if (node->unit && (!parent || !snap_same_text(parent->unit, node->unit)))
		info_part(info, "", node->unit);
	if (node->container && (!parent || !snap_same_text(parent->container, node->container)))
		info_part(info, "container ", node->container);
	if (node->ns_pid && node->ns_pid != node->pid) {
		snprintf(number, sizeof(number), "pid %d in its namespace", node->ns_pid);
		info_part(info, number, NULL);
	}
	if (options->verbose && node->exe)
		info_part(info, "program ", node->exe);
	if (options->verbose && node->cgroup)
		info_part(info, "cgroup ", node->cgroup);
	for (size_t i = 0; i < node->label_count; i++) {
		const struct snap_label *label = &node->labels[i];

		if (strcmp(label->key, "exe_deleted") == 0) {
			info_part(info, "program file deleted", NULL);
			continue;
		}
		info_part(info, "", label->key);
		snap_line_add(info->lines, SNAP_STYLE_PLAIN, "=");
		snap_line_add_escaped(info->lines, SNAP_STYLE_PLAIN, label->value);
	}
}

/* "signal SIGSEGV at 0x0 in thread 4711" */
static void put_signal(struct snap_sheet *lines, const struct snap_node *node)
{
	const struct snap_signal *signal = &node->signal;
	const char *word = snap_signal_word(signal->number);

	if (!signal->number)
		return;
	snap_line_begin(lines);
	if (word)
		snap_line_printf(lines, SNAP_STYLE_RED, "signal %s", word);
	else
		snap_line_printf(lines, SNAP_STYLE_RED, "signal %d", signal->number);
	if (signal->has_address)
		snap_line_printf(lines, SNAP_STYLE_RED, " at 0x%" PRIx64, signal->address);
	if (signal->tid)
		snap_line_printf(lines, SNAP_STYLE_RED, " in thread %d", (int)signal->tid);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_node_trouble(struct snap_sheet *lines, const struct snap_node *node)
{
	if (!node->trouble || node->trouble == SNAP_TROUBLE_KERNEL_THREAD)
		return;
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_RED, "error: ");
	snap_line_add_escaped(lines, SNAP_STYLE_RED,
			      node->trouble_message ? node->trouble_message
						    : snap_trouble_word(node->trouble));
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

bool snap_text_is_filtered(const struct snap_options *options)
{
	return options->states || options->thread_regex || options->match_regex || options->no_idle;
}

bool snap_text_has_items(const struct snap_node *node)
{
	return node->stack_count || node->logical_count || node->child_count ||
	       snap_text_has_rest(node);
}

void snap_text_node_facts(struct snap_sheet *lines, const struct snap_options *options,
			  const struct snap_snapshot *snapshot, const struct snap_node *node,
			  const struct snap_node *parent)
{
	struct info info = { .lines = lines };
	size_t stacks = snap_node_stack_count(node);
	size_t processes = node->folded ? node->folded_count : 1;
	bool has_items = snap_text_has_items(node);

	if (snap_text_is_counted_alone(node))
		return;
	info_facts(&info, options, snapshot, node, parent);
	info_runtimes(&info, node, node->signal.number || snapshot->waits.lacks & SNAP_LACK_CORE);
	/* Nothing else would say what such a thread does. */
	if (node->type == SNAP_TYPE_KERNEL && node->state == SNAP_STATE_DISK && stacks == 0)
		info_part(&info, "DISK", NULL);
	if (node->recorded || stacks > 1 || node->threads_missed > processes ||
	    (stacks && (!parent || node->threads_missed)))
		info_threads(&info, node);
	else if (stacks == 0 && !node->trouble && snap_text_is_filtered(options))
		info_part(&info, "no stacks match", NULL);
	if (info.begun)
		snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
	put_signal(lines, node);
	snap_text_node_trouble(lines, node);
	if ((info.begun || node->trouble || node->signal.number) && has_items && !options->summary)
		snap_line_blank(lines);
}
