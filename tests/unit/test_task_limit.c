/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What tasks may take in a report: labels that are long, and longer when they are escaped, more
 * tasks than anybody reads, and honest ones of which nothing is missing. The runtime is made up:
 * task_bed.h.
 */
#include "task_bed.h"

#include "schema.h"

enum { MOST_BYTES = 73 << 20 };

/* As many tasks as the one, with ids of their own. */
static struct snap_runtime_task *make_many(struct bed *bed, size_t count)
{
	struct snap_runtime_task *tasks =
		snap_arena_new_array(&bed->arena, count, struct snap_runtime_task);
	const struct snap_runtime_task *first = add_task(bed, "1", "", PARKED);

	for (size_t i = 0; i < count; i++) {
		tasks[i] = *first;
		tasks[i].id = snap_arena_printf(&bed->arena, "%zu", i + 1);
	}
	bed->result.tasks = tasks;
	bed->result.task_count = count;
	return tasks;
}

static char *long_text(struct bed *bed, const char *key, size_t number)
{
	enum { LONG = 4000 };
	char *text = snap_arena_alloc(&bed->arena, LONG + 40);

	memset(text, 1, LONG);
	snprintf(text + LONG, 40, "%s%zu", key, number);
	return text;
}

static void put_label(struct snap_runtime_task *task, const char *key, const char *value)
{
	task->labels[task->label_count++] = (struct snap_label){ key, value };
}

/* Each has a logical process of its own, named by control characters. */
static void test_control_characters(void **state _unused_)
{
	enum { MANY = 700 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *json = NULL, *text = NULL;
	struct snap_runtime_task *tasks;
	const struct snap_node *node;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	tasks = make_many(&bed, MANY);
	for (size_t i = 0; i < MANY; i++) {
		tasks[i].labels = snap_arena_new_array(&bed.arena, 8, struct snap_label);
		tasks[i].label_count = 0;
		put_label(&tasks[i], "pid", long_text(&bed, "", i));
		put_label(&tasks[i], "ppid", i ? long_text(&bed, "", i - 1) : "");
		put_label(&tasks[i], "process-description", long_text(&bed, "name", i));
		put_label(&tasks[i], "k", long_text(&bed, "k", i));
		put_label(&tasks[i], long_text(&bed, "key", i), "v");
	}
	snapshot = analyze(&bed);
	json = json_of(snapshot);
	text = text_of(snapshot);
	assert_true(strlen(json) < 8 << 20);
	assert_true(strlen(text) < 8 << 20);
	schema_check("stacksnap-snapshot.schema.json", json);
	check_ways(snapshot);
	assert_int_equal(snapshot->warning_count, 1);
	assert_string_equal(snapshot->warnings[0].code, "report_limited");
	assert_int_equal(snapshot->warnings[0].pid, 100);
	/* Nobody is missing, and they can be told apart. */
	node = snapshot->processes[0];
	assert_int_equal(snapshot->task_count, MANY);
	assert_int_equal(node->logical_count, MANY);
	for (size_t i = 1; i < MANY; i++) {
		assert_string_equal(node->logical[i].parent, node->logical[i - 1].id);
		assert_string_not_equal(node->logical[i].id, node->logical[i - 1].id);
		assert_true(node->logical[i].stacks[0].tasks[0].labels_cut);
		assert_int_equal(node->logical[i].stacks[0].tasks[0].label_count, 4);
	}
	bed_deinit(&bed);
}

/* Where texts are short enough, and still too many. */
static void test_labels_go(void **state _unused_)
{
	enum { MANY = 4000, LABELS = 100 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *json = NULL;
	struct snap_label labels[LABELS];
	struct snap_runtime_task *tasks;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	tasks = make_many(&bed, MANY);
	for (size_t i = 0; i < LABELS; i++)
		labels[i] = (struct snap_label){ snap_arena_printf(&bed.arena, "key%zu", i),
						 long_text(&bed, "", i) };
	for (size_t i = 0; i < MANY; i++) {
		tasks[i].labels = labels;
		tasks[i].label_count = LABELS;
	}
	snapshot = analyze(&bed);
	json = json_of(snapshot);
	assert_in_range(strlen(json), 32 << 20, MOST_BYTES);
	schema_check("stacksnap-snapshot.schema.json", json);
	assert_int_equal(snapshot->task_count, MANY);
	assert_int_equal(snapshot->warning_count, 1);
	assert_non_null(strstr(snapshot->warnings[0].message, "the labels of "));
	assert_null(strstr(snapshot->warnings[0].message, "tasks are left out"));
	bed_deinit(&bed);
}

static void test_tasks_go(void **state _unused_)
{
	enum { MANY = 90000 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *json = NULL;
	struct snap_runtime_task *tasks;
	struct snap_entry creator = { .language = "go" };
	const struct snap_node *node;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	tasks = make_many(&bed, MANY);
	creator.function = long_text(&bed, "function", 1);
	creator.file = long_text(&bed, "file", 1);
	for (size_t i = 0; i < MANY; i++) {
		tasks[i].name = creator.function;
		tasks[i].created_by = &creator;
	}
	snapshot = analyze(&bed);
	json = json_of(snapshot);
	assert_in_range(strlen(json), 32 << 20, MOST_BYTES);
	node = snapshot->processes[0];
	assert_int_equal(snapshot->warning_count, 1);
	assert_non_null(strstr(snapshot->warnings[0].message, "tasks are left out"));
	assert_int_equal(node->task_count, MANY);
	assert_in_range(snapshot->task_count, 10000, MANY - 1);
	assert_int_equal(node->runtimes[0].shown, snapshot->task_count);
	check_ways(snapshot);
	bed_deinit(&bed);
}

/* Of what honest programs have nothing goes, and nothing of what was asked for. */
static void test_honest(void **state _unused_)
{
	enum { MANY = 10000, LABELS = 5 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_runtime_task *tasks;
	const struct snap_stack *stack;
	const char *long_one;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	long_one = long_text(&bed, "", 1) + 3900;
	tasks = make_many(&bed, MANY);
	for (size_t i = 0; i < MANY; i++) {
		tasks[i].labels = NULL;
		tasks[i].label_count = 0;
		set_labels(&bed, &tasks[i], "a=/srv/api/v1/users b=0123456789abcdef c=x d=y");
		put_label(&tasks[i], "long", long_one);
	}
	snapshot = analyze(&bed);
	assert_int_equal(snapshot->warning_count, 0);
	stack = snapshot->processes[0]->stacks;
	stack += !stack->runtime;
	assert_int_equal(stack->task_count, MANY);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(stack->tasks[i].label_count, LABELS);
		assert_false(stack->tasks[i].labels_cut);
	}
	bed_deinit(&bed);
}

/* A chain of tasks that takes all of the report costs another process nothing. */
static void test_innocent(void **state _unused_)
{
	enum { MANY = 30000 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_process processes[2];
	struct snap_runtime_task *tasks;
	const struct snap_node *hostile, *innocent;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	ADD_THREAD(&bed, 200, FUTEX, C_WORK, CGO, C_WORK, CGO, C_WORK, RUN_MAIN, MAIN);
	tasks = make_many(&bed, MANY);
	bed.result.name = "cpython";
	bed.result.parents_await = true;
	for (size_t i = 1; i < MANY; i++)
		tasks[i].parent = tasks[i - 1].id;
	processes[0] = processes[1] = bed.process;
	processes[0].thread_count = processes[1].thread_count = 1;
	processes[1].pid = 200;
	processes[1].threads++;
	processes[1].memory = NULL;
	bed.capture.processes = processes;
	bed.capture.process_count = 2;
	snapshot = analyze(&bed);
	assert_int_equal(snapshot->root_count, 2);
	hostile = snapshot->processes[0];
	innocent = snapshot->processes[1];
	assert_int_equal(hostile->logical_count, MANY);
	assert_true(hostile->logical[MANY - 1].stacks[0].gap_count > 0);
	assert_int_equal(innocent->logical_count, 0);
	assert_int_equal(innocent->stack_count, 1);
	assert_int_equal(innocent->stacks[0].gap_count, 0);
	assert_int_equal(innocent->stacks[0].frame_count, 8);
	assert_int_equal(snapshot->warning_count, 1);
	assert_non_null(strstr(snapshot->warnings[0].message,
			       "stacks of the 1 process with the most are cut to 2 frames"));
	bed_deinit(&bed);
}

/* What a stack is called is a name, too, and stands in it once more. */
static void test_descriptions(void **state _unused_)
{
	enum { MANY = 10000, LONG = 4000 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *json = NULL;
	char name[LONG + 1];
	struct snap_runtime_task *tasks;

	memset(name, 'x', LONG);
	name[LONG] = '\0';
	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	tasks = make_many(&bed, MANY);
	bed.result.name = "cpython";
	bed.result.parents_await = true;
	for (size_t i = 0; i < MANY; i++) {
		tasks[i].stack = i ? tasks[0].stack : stack_of(&bed, name);
		tasks[i].parent = i ? tasks[i - 1].id : NULL;
	}
	snapshot = analyze(&bed);
	json = json_of(snapshot);
	assert_int_equal(snapshot->processes[0]->logical_count, MANY);
	assert_true(strlen(snapshot->processes[0]->logical[0].stacks[0].description) < 300);
	assert_true(strlen(json) < 24 << 20);
	bed_deinit(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_control_characters), cmocka_unit_test(test_labels_go),
		cmocka_unit_test(test_tasks_go),           cmocka_unit_test(test_honest),
		cmocka_unit_test(test_innocent),           cmocka_unit_test(test_descriptions),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
