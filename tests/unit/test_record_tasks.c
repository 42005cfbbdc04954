/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Looks at tasks that wait, into a log: what changes from look to look, what a ring leaves of it, and
 * when the next look comes. The sampler and the unwinder are played by this test.
 */
#include "api/options.h"
#include "fine.h"
#include "record/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- what is played ---- */

static struct {
	struct snap_whole whole;
	struct snap_remote_tasks answer;
	bool is_lost;
	int64_t expected_ns; /* as the last look said */
	unsigned released;
} played;

struct stacksnap_error *snap_sampler_take_whole(struct snap_sampler *sampler _unused_,
						struct snap_sampled_process *process _unused_,
						const struct snap_memory_plan *plan _unused_,
						int64_t expected_ns, struct snap_whole *ret)
{
	played.expected_ns = expected_ns;
	*ret = played.whole;
	return NULL;
}

void snap_whole_release(struct snap_whole *whole _unused_)
{
	played.released++;
}

struct stacksnap_error *snap_remote_list_tasks(struct snap_remote_unwinder *unwinder _unused_,
					       uint32_t number _unused_,
					       const struct snap_process *process _unused_,
					       const struct snap_process *whole _unused_,
					       const struct snap_remote_tasks **ret)
{
	*ret = played.is_lost ? NULL : &played.answer;
	return NULL;
}

/* ---- a log with one process ---- */

struct bed {
	struct snap_options options;
	struct snap_log *log;
	struct snap_task_looks looks;
	struct snap_task_list list;
	struct snap_task_owner owner;
	int64_t time_ns;
};

static int set_up(void **state)
{
	static struct snap_map map = {
		.start = 0x1000, .end = 0x9000, .execute = true, .inode = 1, .path = "/bin/p"
	};
	const struct snap_process facts = {
		.pid = 10, .name = "p", .maps = &map, .map_count = 1, .parent = SIZE_MAX
	};
	const struct snap_host host = { .name = "host" };
	struct bed *bed = calloc(1, sizeof(*bed));

	snap_options_init(&bed->options);
	memset(&played, 0, sizeof(played));
	played.whole = (struct snap_whole){ .is_taken = true, .stopped_ns = 2000000 };
	fine(snap_log_create(&host, 1, 10000000, false, &bed->log));
	snap_log_set_limit(bed->log, 64 << 20);
	fine(snap_log_add_process(bed->log, 10, 1, UINT32_MAX, UINT32_MAX, true,
				  &bed->owner.number));
	fine(snap_log_map_process(bed->log, bed->owner.number, &facts, NULL, &bed->owner.space));
	bed->looks = (struct snap_task_looks){ .options = &bed->options, .log = bed->log };
	bed->owner.list = &bed->list;
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	snap_task_list_deinit(&bed->list);
	snap_log_destroy(bed->log);
	snap_options_deinit(&bed->options);
	free(bed);
	return 0;
}

/* ---- answers ---- */

static struct snap_entry places[] = {
	{ .function = "receive", .file = "a.go", .line = 3, .language = "go" },
	{ .function = "send", .file = "a.go", .line = 9, .language = "go" },
};
static const struct snap_frame frames[] = {
	{ .address = 0x1100, .entries = &places[0], .entry_count = 1 },
	{ .address = 0x1200, .entries = &places[1], .entry_count = 1 },
};
static const struct snap_log_managed receives[] = { { 0, &frames[0] } };
static const struct snap_log_managed sends[] = { { 0, &frames[1] } };
static const struct snap_log_pcs stacks[] = {
	{ .count = 1, .managed = receives, .managed_count = 1, .shows_all = true },
	{ .count = 1, .managed = sends, .managed_count = 1, .shows_all = true },
};
static const struct snap_label request_a[] = { { "request", "/a" } };
static const struct snap_label request_b[] = { { "request", "/b" } };

static struct snap_remote_task waits_in(const char *id, const struct snap_log_pcs *stack)
{
	return (struct snap_remote_task){ .id = id,
					  .runtime = "go",
					  .created_by = { .function = "main.main", .line = 7 },
					  .state = SNAP_TASK_WAITING,
					  .wait = "chan receive",
					  .stack = stack };
}

static struct snap_remote_task with_labels(struct snap_remote_task task,
					   const struct snap_label *labels)
{
	task.labels = labels;
	task.label_count = 1;
	return task;
}

static struct snap_remote_task runs(const char *id)
{
	struct snap_remote_task task = waits_in(id, NULL);

	task.state = SNAP_TASK_RUNNING;
	task.wait = NULL;
	return task;
}

/* A tick with a look. */
static void look(struct bed *bed, const struct snap_remote_task *tasks, size_t count)
{
	int64_t stopped_ns;

	played.answer.tasks = tasks;
	played.answer.count = count;
	played.answer.has_tasks = true;
	fine(snap_log_begin_tick(bed->log, bed->time_ns += 10000000));
	fine(snap_tasks_look(&bed->looks, NULL, &bed->owner, &stopped_ns));
	snap_log_end_tick(bed->log, stopped_ns);
}

#define look_at(bed, ...)                                                 \
	do {                                                              \
		const struct snap_remote_task _tasks[] = { __VA_ARGS__ }; \
		look((bed), _tasks, SNAP_ARRAY_SIZE(_tasks));             \
	} while (0)

/* How the latest task with an id stands; NULL: the log has none. */
static const struct snap_log_change *standing(const struct bed *bed, const char *id)
{
	const struct snap_log *log = bed->log;

	for (size_t i = log->thread_count; i-- > 0;)
		if (log->threads[i].task &&
		    strcmp(log->tasks[log->threads[i].task - 1].id, id) == 0)
			return snap_log_standing(log, (uint32_t)i);
	return NULL;
}

/* ---- tests ---- */

static void test_what_changes_from_look_to_look(void **state)
{
	struct bed *bed = *state;
	const struct snap_log *log = bed->log;
	uint32_t stack;

	look_at(bed, waits_in("1", &stacks[0]), waits_in("2", &stacks[0]), runs("3"));
	assert_int_equal(log->task_count, 2);
	assert_int_equal(log->change_count, 2);
	stack = standing(bed, "1")->stack;
	assert_int_equal(standing(bed, "2")->stack, stack);
	assert_int_equal(standing(bed, "1")->state, SNAP_TASK_WAITING);
	assert_string_equal(log->calls[standing(bed, "1")->syscall - SNAP_LOG_FIRST_CALL].wchan,
			    "chan receive");
	assert_string_equal(log->tasks[0].created_by->function, "main.main");
	/* The same again is no news, however often. */
	look_at(bed, waits_in("1", &stacks[0]), waits_in("2", &stacks[0]), runs("3"));
	assert_int_equal(log->change_count, 2);
	/* One moves, one is run, one waits that was run before. */
	look_at(bed, waits_in("1", &stacks[1]), runs("2"), waits_in("3", &stacks[0]));
	assert_int_equal(log->task_count, 3);
	assert_int_not_equal(standing(bed, "1")->stack, stack);
	assert_int_equal(standing(bed, "2")->stack, SNAP_LOG_GONE);
	assert_int_equal(standing(bed, "3")->stack, stack);
	/* Who was run is the same task when it waits again; who is not there has ended. */
	look_at(bed, waits_in("2", &stacks[0]));
	assert_int_equal(log->task_count, 3);
	assert_int_equal(standing(bed, "2")->stack, stack);
	assert_int_equal(standing(bed, "1")->stack, SNAP_LOG_GONE);
	assert_int_equal(bed->list.count, 1);
	assert_int_equal(log->stats.task_looks, 4);
	assert_int_equal(played.released, 4);
}

static void test_who_changes_is_another_one(void **state)
{
	struct bed *bed = *state;
	const struct snap_log *log = bed->log;

	look_at(bed, with_labels(waits_in("1", &stacks[0]), request_a));
	look_at(bed, with_labels(waits_in("1", &stacks[0]), request_b));
	assert_int_equal(log->task_count, 2);
	assert_int_equal(snap_log_standing(log, 0)->stack, SNAP_LOG_GONE);
	assert_int_not_equal(snap_log_standing(log, 1)->stack, SNAP_LOG_GONE);
	assert_string_equal(log->label_sets[log->tasks[1].labels - 1].labels->value, "/b");
	/* Of two with one id the first is believed. */
	look_at(bed, with_labels(waits_in("1", &stacks[0]), request_b), waits_in("1", &stacks[1]));
	assert_int_equal(log->task_count, 2);
	assert_int_equal(bed->list.count, 1);
}

static void test_what_could_not_be_seen_has_not_ended(void **state)
{
	struct bed *bed = *state;

	look_at(bed, waits_in("1", &stacks[0]), waits_in("2", &stacks[0]));
	played.answer.cut = true;
	look_at(bed, waits_in("1", &stacks[0]));
	assert_int_equal(bed->looks.cut, 1);
	assert_int_equal(standing(bed, "2")->stack, SNAP_LOG_GONE);
	assert_int_not_equal(standing(bed, "1")->stack, SNAP_LOG_GONE);
	/* Without an answer nobody knows anything. */
	played.is_lost = true;
	look_at(bed, waits_in("1", &stacks[0]));
	assert_int_equal(standing(bed, "1")->stack, SNAP_LOG_GONE);
	assert_int_equal(bed->looks.cut, 2);
	played.is_lost = played.answer.cut = false;
	look_at(bed, waits_in("1", &stacks[0]), waits_in("2", &stacks[0]));
	assert_int_equal(bed->log->task_count, 2);
	assert_int_not_equal(standing(bed, "2")->stack, SNAP_LOG_GONE);
	fine(snap_log_begin_tick(bed->log, bed->time_ns += 10000000));
	fine(snap_tasks_end(bed->log, &bed->list));
	snap_log_end_tick(bed->log, 0);
	assert_int_equal(standing(bed, "1")->stack, SNAP_LOG_GONE);
	assert_int_equal(bed->list.count, 0);
}

/* What a ring lets go of: tasks that have ended, with their labels; the others are found again. */
static void test_a_ring(void **state)
{
	struct bed *bed = *state;
	const struct snap_log *log = bed->log;
	bool renumbered;

	look_at(bed, with_labels(waits_in("1", &stacks[0]), request_a),
		with_labels(waits_in("2", &stacks[1]), request_b));
	look_at(bed, with_labels(waits_in("2", &stacks[1]), request_b), runs("3"));
	for (int i = 0; i < 4; i++)
		look_at(bed, with_labels(waits_in("2", &stacks[1]), request_b));
	fine(snap_log_forget_half(bed->log, &renumbered));
	assert_true(renumbered);
	snap_tasks_renumber(log, &bed->list);
	assert_int_equal(log->task_count, 1);
	assert_int_equal(log->thread_count, 1);
	assert_int_equal(log->threads[0].task, 1);
	assert_string_equal(log->tasks[0].id, "2");
	assert_string_equal(log->tasks[0].created_by->function, "main.main");
	assert_int_equal(log->label_set_count, 1);
	assert_string_equal(log->label_sets[log->tasks[0].labels - 1].labels->value, "/b");
	look_at(bed, with_labels(waits_in("2", &stacks[1]), request_b));
	assert_int_equal(log->task_count, 1);
	assert_int_not_equal(standing(bed, "2")->stack, SNAP_LOG_GONE);
}

static void test_they_are_no_more_than_memory_holds(void **state)
{
	struct bed *bed = *state;
	struct snap_log *log;
	size_t count = 60000;
	struct snap_remote_task *tasks = calloc(count, sizeof(*tasks));
	char(*ids)[16] = calloc(count, sizeof(*ids));

	bed->log->max_bytes = 32 << 20;
	log = bed->log;
	for (size_t i = 0; i < count; i++) {
		snprintf(ids[i], sizeof(ids[i]), "%zu", i);
		tasks[i] = waits_in(ids[i], &stacks[0]);
	}
	look(bed, tasks, count);
	assert_true(log->cuts & SNAP_LOG_CUT_TASKS);
	assert_in_range(log->task_count, 1000, (32 << 20) / 2 / 1024);
	assert_true(snap_log_cost(log) < 32 << 20);
	assert_int_equal(bed->list.count, log->task_count);
	free(tasks);
	free(ids);
}

/* ---- when ---- */

static void test_when_the_next_one_comes(void **state)
{
	struct bed *bed = *state;
	const int64_t ms = 1000000;
	int64_t stopped_ns;

	/* The period; a hundred times what it stood; ten times what all of it took. */
	assert_int_equal(snap_tasks_next(&bed->options, 0, 10 * ms, 2 * ms), 1000 * ms);
	assert_int_equal(snap_tasks_next(&bed->options, 0, 20 * ms, 15 * ms), 1520 * ms);
	assert_int_equal(snap_tasks_next(&bed->options, 0, 200 * ms, 2 * ms), 2200 * ms);
	bed->options.task_millihertz = 200;
	assert_int_equal(snap_tasks_next(&bed->options, 7, 10 * ms, 2 * ms), 5000 * ms + 7);
	/* A look that there is no room for costs nothing, and is counted. */
	look_at(bed, waits_in("1", &stacks[0]));
	assert_true(bed->list.due_ns > bed->list.last_ns);
	played.whole = (struct snap_whole){ .is_left_out = true };
	fine(snap_log_begin_tick(bed->log, bed->time_ns += 10000000));
	fine(snap_tasks_look(&bed->looks, NULL, &bed->owner, &stopped_ns));
	snap_log_end_tick(bed->log, stopped_ns);
	assert_int_equal(stopped_ns, 0);
	assert_int_equal(played.expected_ns, 2 * ms);
	assert_int_equal(bed->log->stats.task_looks, 1);
	assert_int_equal(bed->log->stats.task_looks_left_out, 1);
	assert_int_not_equal(standing(bed, "1")->stack, SNAP_LOG_GONE);
}

/* Who has no tasks is looked at less and less. */
static void test_who_has_none_is_left_alone(void **state)
{
	struct bed *bed = *state;
	int64_t before = 0, stopped_ns;

	for (int i = 0; i < 10; i++) {
		int64_t wait_ns;

		fine(snap_log_begin_tick(bed->log, bed->time_ns += 10000000));
		fine(snap_tasks_look(&bed->looks, NULL, &bed->owner, &stopped_ns));
		snap_log_end_tick(bed->log, stopped_ns);
		wait_ns = bed->list.due_ns - bed->list.last_ns;
		assert_true(wait_ns >= before && wait_ns <= 61000000000);
		before = wait_ns;
	}
	assert_int_equal(before, 60000000000);
	look_at(bed, waits_in("1", &stacks[0]));
	assert_int_equal(bed->list.idle_ns, 0);
}

#define with_bed(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(test_what_changes_from_look_to_look),
		with_bed(test_who_changes_is_another_one),
		with_bed(test_what_could_not_be_seen_has_not_ended),
		with_bed(test_a_ring),
		with_bed(test_they_are_no_more_than_memory_holds),
		with_bed(test_when_the_next_one_comes),
		with_bed(test_who_has_none_is_left_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
