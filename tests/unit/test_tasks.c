/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Trees of tasks, by labels and by who awaits whom; their filters and groups. The runtime is made
 * up: task_bed.h.
 */
#include "base/clock.h"
#include "task_bed.h"

#include "analyze/filter.h"
#include "schema.h"

/* ---- the tree ---- */

static void test_server(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *text = NULL, *json = NULL;

	bed_init(&bed);
	make_server(&bed);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	text = text_of(snapshot);
	json = json_of(snapshot);
	golden_check("tasks-analyzed.txt", text);
	golden_check("tasks-analyzed.json", json);
	schema_check("stacksnap-snapshot.schema.json", json);
	assert_tree(snapshot, "web:1(r1:2(c1:1) r2:1) gone:0(orphan:1) -:2");
	assert_int_equal(snapshot->task_count, 8);
	assert_int_equal(snapshot->thread_count, 1);
	assert_int_equal(snapshot->processes[0]->thread_count, 3);
	assert_int_equal(snapshot->processes[0]->task_count, 8);
	assert_int_equal(snapshot->processes[0]->runtimes[0].tasks, 9);
	assert_int_equal(snapshot->processes[0]->runtimes[0].shown, 8);
	assert_int_equal(snapshot->processes[0]->runtimes[0].idle_threads, 1);
	bed_deinit(&bed);
}

static void test_labels_of_stacks(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *flat = NULL;
	const struct snap_logical *r1;
	const struct snap_stack *stack;

	bed_init(&bed);
	make_server(&bed);
	snapshot = analyze(&bed);
	r1 = &snapshot->processes[0]->logical[1];
	assert_string_equal(r1->id, "r1");
	assert_string_equal(r1->name, "GET:/");
	assert_string_equal(r1->parent, "web");
	assert_int_equal(r1->type, SNAP_LOGICAL_REQUEST);
	assert_int_equal(r1->label_count, 1);
	assert_int_equal(r1->stack_count, 1);
	stack = &r1->stacks[0];
	assert_string_equal(snap_stack_label(stack, "k"), "v");
	assert_string_equal(snap_stack_label(stack, "wait"), "chan receive");
	assert_null(snap_stack_label(stack, "empty"));
	assert_null(snap_stack_label(stack, "label.pid"));
	assert_int_equal(stack->label_count, 3);
	/* All of them, as the program wrote them. */
	assert_int_equal(stack->tasks[1].label_count, 6);
	assert_string_equal(stack->tasks[1].labels[0].key, "empty");
	assert_string_equal(stack->tasks[1].labels[0].value, "");
	set_option(&bed, "flat", NULL);
	flat = analyze(&bed);
	check_ways(flat);
	assert_tree(flat, "web:1 r1:2 c1:1 r2:1 gone:0 orphan:1 -:2");
	assert_string_equal(
		snap_stack_label(&flat->processes[0]->logical[1].stacks[0], "label.ppid") ?: "",
		"");
	assert_string_equal(snap_stack_label(&flat->processes[0]->logical[1].stacks[0], "ppid"),
			    "web");
	bed_deinit(&bed);
}

/* A key that is one of ours keeps it, where ours stand. */
static void test_clashing_keys(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	const struct snap_stack *stack;
	_cleanup_free_ char *json = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	add_task(&bed, "1", "state=mine label.state=other wait=w tid=7 empty= x=y", PARKED);
	set_option(&bed, "task-tree", "none");
	snapshot = analyze(&bed);
	check_ways(snapshot);
	stack = snapshot->processes[0]->stacks;
	stack += !stack->runtime;
	assert_string_equal(snap_stack_label(stack, "state"), "waiting");
	assert_string_equal(snap_stack_label(stack, "label.state"), "mine");
	assert_string_equal(snap_stack_label(stack, "label.label.state"), "other");
	assert_string_equal(snap_stack_label(stack, "label.wait"), "w");
	assert_string_equal(snap_stack_label(stack, "label.tid"), "7");
	assert_string_equal(snap_stack_label(stack, "empty"), "");
	json = json_of(snapshot);
	schema_check("stacksnap-snapshot.schema.json", json);
	bed_deinit(&bed);
}

static void test_no_tree(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *none = NULL, *other = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, "task-tree", "none");
	none = analyze(&bed);
	assert_int_equal(none->processes[0]->logical_count, 0);
	assert_int_equal(none->task_count, 8);
	check_ways(none);
	set_option(&bed, "task-tree", "k");
	other = analyze(&bed);
	assert_tree(other, "v:4 -:4");
	set_option(&bed, "task-tree", "auto");
	assert_non_null(bed.options.task_tree[SNAP_TREE_TYPE]);
	bed_deinit(&bed);
}

static void test_circles(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	add_task(&bed, "1", "pid=a ppid=c", PARKED);
	add_task(&bed, "2", "pid=b ppid=a", PARKED);
	add_task(&bed, "3", "pid=c ppid=b", PARKED);
	add_task(&bed, "4", "pid=self ppid=self", PARKED);
	add_task(&bed, "5", "pid=below ppid=c", PARKED);
	/* Its first task has no parent, so it has none. */
	add_task(&bed, "6", "pid=two ppid=", PARKED);
	add_task(&bed, "7", "pid=two ppid=a", PARKED);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_tree(snapshot, "two:2 c:1(a:1(b:1) below:1) self:1");
	assert_null(snapshot->processes[0]->logical[1].parent);
	bed_deinit(&bed);
}

/* A chain of sixty thousand would be nested as deep by a program that likes to. */
static void test_deep(void **state _unused_)
{
	enum { MANY = 60 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_runtime_task *tasks = calloc(4 * MANY, sizeof(*tasks));

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	for (int i = 0; i < MANY; i++)
		add_task(&bed, snap_arena_printf(&bed.arena, "%d", i),
			 snap_arena_printf(&bed.arena, "pid=%d ppid=%d", i, i + 1), PARKED);
	for (int i = 0; i < 4 * MANY; i++) {
		tasks[i] = bed.tasks[0];
		tasks[i].label_count = 0;
		tasks[i].id = snap_arena_printf(&bed.arena, "%d", i);
		set_labels(&bed, &tasks[i],
			   snap_arena_printf(&bed.arena, "pid=%d ppid=%d", i, i + 1));
	}
	bed.result.tasks = tasks;
	bed.result.task_count = 4 * MANY;
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->processes[0]->logical_count, 4 * MANY + 1);
	assert_int_equal(snapshot->processes[0]->logical[4 * MANY].depth, 100);
	free(tasks);
	bed_deinit(&bed);
}

/* ---- filters, groups ---- */

/* Filtered while it is made, or later: the same. */
static char *filtered(struct bed *bed)
{
	struct snap_options kept = bed->options, plain;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = analyze(bed), *back;
	_cleanup_free_ char *json = NULL, *late = NULL;
	char *text = text_of(snapshot);

	check_ways(snapshot);
	snap_options_init(&plain);
	plain.perf_map = SNAP_PERF_MAP_ALWAYS;
	plain.all_threads = kept.all_threads;
	bed->options = plain;
	snap_snapshot_destroy(snapshot);
	snapshot = analyze(bed);
	json = json_of(snapshot);
	back = read_back(json);
	fine(snap_filter_snapshot(back, &kept, false));
	late = text_of(back);
	assert_string_equal(text, late);
	snap_options_deinit(&plain);
	bed->options = kept;
	return text;
}

static void check_filter(const char *name, const char *value, const char *tree, size_t tasks,
			 size_t threads)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, name, value);
	snapshot = analyze(&bed);
	assert_tree(snapshot, tree);
	assert_int_equal(snapshot->task_count, tasks);
	assert_int_equal(snapshot->thread_count, threads);
	free(filtered(&bed));
	bed_deinit(&bed);
}

static void test_filters(void **state _unused_)
{
	check_filter("state", "running", "web:1(r2:1)", 1, 0);
	check_filter("state", "waiting,runnable", "web:1(r1:2(c1:1)) gone:0(orphan:1) -:2", 7, 0);
	check_filter("state", "sleeping", "", 0, 1);
	check_filter("match", "main.serve", "web:1", 1, 0);
	check_filter("match", "c_work", "", 0, 1);
	/* What waits in a library called by the function that it began with waits for that. */
	check_filter("no-idle", NULL, "web:1(r2:1)", 2, 1);
	check_filter("no-system", NULL, "r1:2(c1:1) r2:1 gone:0(orphan:1)", 5, 1);
}

static void test_more_is_shown(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, "threads", NULL);
	set_option(&bed, "system-tasks", NULL);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->thread_count, 3);
	assert_int_equal(snapshot->task_count, 9);
	assert_int_equal(snapshot->processes[0]->runtimes[0].idle_threads, 0);
	assert_tree(snapshot, "web:1(r1:2(c1:1) r2:1) gone:0(orphan:1) -:3");
	bed_deinit(&bed);
}

static void test_groups(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *by_label = NULL,
							       *each = NULL, *any = NULL;
	_cleanup_free_ char *text = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, "task-tree", "none");
	snapshot = analyze(&bed);
	/* Waiting, running, the one that serves; and a thread. */
	assert_int_equal(snapshot->stack_count, 4);
	assert_int_equal(snapshot->processes[0]->stacks[0].task_count, 6);
	set_option(&bed, "group-by", "stack,label:ppid");
	by_label = analyze(&bed);
	/* None, "" and the four that there are: web, r1 twice, gone. */
	assert_int_equal(by_label->stack_count, 6);
	set_option(&bed, "per-thread", NULL);
	each = analyze(&bed);
	assert_int_equal(each->stack_count, 9);
	bed.options.group_by = 0;
	set_option(&bed, "group-by", "label:k");
	any = analyze(&bed);
	/* Of those with the label two stand elsewhere: what they have in common is the end. */
	assert_int_equal(any->stack_count, 3);
	assert_int_equal(any->processes[0]->stacks[0].task_count, 4);
	assert_int_equal(any->processes[0]->stacks[0].frame_count +
				 any->processes[0]->stacks[1].frame_count,
			 4 + 1);
	bed.options.summary = true;
	bed.options.utf8 = true;
	text = golden_render(snap_render_text, any, &bed.options, NULL);
	assert_non_null(strstr(text, "4 × (several functions)"));
	assert_non_null(strstr(text, "  k=v"));
	bed_deinit(&bed);
}

/* The longest wait of a group, in minutes, as runtimes know it no better. */
static void test_time_of_waits(void **state _unused_)
{
	static const struct {
		int64_t since[2];
		const char *text;
	} rows[] = {
		{ { 0, 0 }, "chan receive  goroutines" },
		{ { 999950, 999999 }, "chan receive  goroutines" },
		{ { 999939, 999999 }, "chan receive, up to 1 min  goroutines" },
		{ { 999150, 999160 }, "chan receive, 14 min  goroutines" },
		{ { 1000001, 990000 }, "chan receive, up to 2h46m  goroutines" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_wait_facts facts = { .monotonic_ns = 1000000 * SNAP_NS_PER_S };
		struct bed bed;
		_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
		_cleanup_free_ char *text = NULL;

		bed_init(&bed);
		bed.capture.waits = &facts;
		ADD_THREAD(&bed, 100, FUTEX, MAIN);
		for (size_t k = 0; k < 2; k++)
			add_task(&bed, k ? "2" : "1", "", PARKED)->since_ns =
				rows[i].since[k] * SNAP_NS_PER_S;
		snapshot = analyze(&bed);
		check_ways(snapshot);
		text = text_of(snapshot);
		assert_non_null(strstr(text, rows[i].text));
		bed_deinit(&bed);
	}
}

/* What is said of single tasks. */
static void test_locked_and_cut(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *text = NULL, *json = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	add_task(&bed, "1", "a=b", PARKED)->locked = true;
	add_task(&bed, "2", "a=b", PARKED)->labels_cut = true;
	add_task(&bed, "3", "", "main.call runtime.goexit")->locked = true;
	snapshot = analyze(&bed);
	check_ways(snapshot);
	text = text_of(snapshot);
	json = json_of(snapshot);
	schema_check("stacksnap-snapshot.schema.json", json);
	assert_non_null(strstr(text, "chan receive, 1 locked to its thread, labels not whole"));
	assert_non_null(strstr(text, "chan receive, locked to its thread"));
	assert_non_null(strstr(json, "\"locked\": true"));
	assert_non_null(strstr(json, "\"labels_cut\": true"));
	bed_deinit(&bed);
}

/* ---- the tree of who awaits whom ---- */

static struct snap_runtime_task *add_awaited(struct bed *bed, const char *id, const char *name,
					     const char *parent, const char *names)
{
	struct snap_runtime_task *task = add_task(bed, id, "", names);

	task->name = name;
	task->parent = parent;
	task->wait = NULL;
	task->start = task->stack.frames[task->stack.count - 1]->entries;
	bed->result.name = "cpython";
	bed->result.parents_await = true;
	return task;
}

/* main() awaits workers and two requests, which await what they fetch; nobody awaits one. */
static void make_loop(struct bed *bed)
{
	ADD_THREAD(bed, 100, SLEEP, MAIN);
	add_awaited(bed, "0x10", "worker-1", "0x80", "get worker");
	add_awaited(bed, "0x20", "worker-2", "0x80", "get worker");
	add_awaited(bed, "0x30", "worker-3", "0x80", "get worker");
	add_awaited(bed, "0x40", "GET /a", "0x80", "handle");
	add_awaited(bed, "0x50", "GET /b", "0x80", "handle");
	add_awaited(bed, "0x60", "Task-9", "0x40", "fetch");
	add_awaited(bed, "0x70", "Task-8", "0x50", "fetch");
	add_awaited(bed, "0x80", "Task-1", NULL, "main");
	add_awaited(bed, "0x90", "Task-7", "0x50", "fetch");
	add_awaited(bed, "0xa0", "alone", NULL, "sleeper");
}

#define LOOP_TREE "0x80:1(0x10:3 0x40:2(0x60:3)) 0xa0:1"

static void test_awaited(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *other = NULL;
	const struct snap_logical *logical;
	_cleanup_free_ char *text = NULL, *json = NULL;

	bed_init(&bed);
	make_loop(&bed);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_tree(snapshot, LOOP_TREE);
	text = text_of(snapshot);
	json = json_of(snapshot);
	golden_check("tasks-awaited.txt", text);
	golden_check("tasks-awaited.json", json);
	schema_check("stacksnap-snapshot.schema.json", json);
	logical = snapshot->processes[0]->logical;
	for (size_t i = 0; i < snapshot->processes[0]->logical_count; i++) {
		assert_int_equal(logical[i].type, SNAP_LOGICAL_TASK);
		assert_int_equal(logical[i].stack_count, 1);
	}
	assert_string_equal(logical[0].name, "Task-1");
	assert_string_equal(logical[1].name, "worker");
	assert_string_equal(logical[3].parent, "0x40");
	/* Ids of stacks know the way up, and no addresses. */
	bed.tasks[7].id = "0x88";
	for (int i = 0; i < 5; i++)
		bed.tasks[i].parent = "0x88";
	other = analyze(&bed);
	assert_tree(other, "0x88:1(0x10:3 0x40:2(0x60:3)) 0xa0:1");
	assert_string_equal(logical[3].stacks[0].id, other->processes[0]->logical[3].stacks[0].id);
	bed_deinit(&bed);
}

static void check_loop(const char *name, const char *value, const char *tree)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	make_loop(&bed);
	set_option(&bed, name, value);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_tree(snapshot, tree);
	bed_deinit(&bed);
}

static void test_awaited_options(void **state _unused_)
{
	struct bed bed;

	check_loop("task-tree", "auto", LOOP_TREE);
	check_loop("task-tree", "none", "");
	check_loop("task-tree", "request", "");
	check_loop("no-system", NULL, LOOP_TREE);
	check_loop("flat", NULL, "0x80:1 0x10:3 0x40:2 0x60:3 0xa0:1");
	check_loop("match", "fetch", "0x80:1(0x40:2(0x60:3))");
	check_loop("thread", "^GET", "0x80:1(0x40:2)");
	check_loop("per-thread", NULL,
		   "0x80:1(0x10:1 0x20:1 0x30:1 0x40:1(0x60:1) 0x50:1(0x70:1 0x90:1)) 0xa0:1");
	bed_init(&bed);
	make_loop(&bed);
	set_option(&bed, "match", "fetch");
	free(filtered(&bed));
	bed_deinit(&bed);
}

/* Whatever memory says of who awaits whom, each task is shown once. */
static void test_awaited_oddly(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *made = NULL,
							       *labelled = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, MAIN);
	add_awaited(&bed, "0x1", "self", "0x1", "a");
	add_awaited(&bed, "0x2", "x", "0x4", "b");
	add_awaited(&bed, "0x3", "y", "0x2", "c");
	add_awaited(&bed, "0x4", "z", "0x3", "d");
	add_awaited(&bed, "0x5", "nobody knows it", "0x77", "e");
	add_awaited(&bed, "0x6", NULL, "0x4", "f");
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->task_count, 6);
	assert_tree(snapshot, "0x1:1 0x4:1(0x2:1(0x3:1) 0x6:1) 0x5:1");
	assert_string_equal(snapshot->processes[0]->logical[4].name, "f");
	/* A parent that made a task is none that awaits it. */
	bed.result.parents_await = false;
	made = analyze(&bed);
	assert_tree(made, "");
	bed.result.parents_await = true;
	set_labels(&bed, &bed.tasks[5], "pid=1");
	labelled = analyze(&bed);
	assert_tree(labelled, "1:1 -:5");
	bed_deinit(&bed);
}

static void test_awaited_many(void **state _unused_)
{
	enum { MANY = 3000, DEEP_CHAIN = 300 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_runtime_task *tasks = calloc(MANY, sizeof(*tasks));
	const struct snap_node *node;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, MAIN);
	add_awaited(&bed, "0x1", "main", NULL, "main");
	add_awaited(&bed, "0x2", "worker", "0x1000", "worker");
	for (unsigned i = 0; i < MANY; i++) {
		tasks[i] = bed.tasks[i > 0];
		tasks[i].id = snap_arena_printf(&bed.arena, "0x%x", 0x1000 + i);
		/* A chain of tasks that await one another, then many that the first one awaits. */
		if (i && i < DEEP_CHAIN)
			tasks[i].parent = tasks[i - 1].id;
	}
	bed.result.tasks = tasks;
	bed.result.task_count = MANY;
	snapshot = analyze(&bed);
	check_ways(snapshot);
	node = snapshot->processes[0];
	assert_int_equal(node->logical_count, DEEP_CHAIN);
	assert_int_equal(node->logical[1].task_count, MANY - DEEP_CHAIN + 1);
	assert_int_equal(node->logical[DEEP_CHAIN - 1].depth, 100);
	free(tasks);
	bed_deinit(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_server),          cmocka_unit_test(test_labels_of_stacks),
		cmocka_unit_test(test_clashing_keys),   cmocka_unit_test(test_no_tree),
		cmocka_unit_test(test_circles),         cmocka_unit_test(test_deep),
		cmocka_unit_test(test_filters),         cmocka_unit_test(test_more_is_shown),
		cmocka_unit_test(test_groups),          cmocka_unit_test(test_awaited),
		cmocka_unit_test(test_awaited_options), cmocka_unit_test(test_awaited_oddly),
		cmocka_unit_test(test_awaited_many),    cmocka_unit_test(test_time_of_waits),
		cmocka_unit_test(test_locked_and_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
