/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks in the answers of a parser that stays: a right answer is taken as it is, of a wrong one
 * nothing is believed, and whatever stands in the memory that it shares does no harm.
 */
#include "api/options.h"
#include "roles/unwinder/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
enum { ROUNDS = 2000 };
#else
enum { ROUNDS = 20000 };
#endif

struct bed {
	struct snap_options options;
	struct snap_remote_unwinder *unwinder;
	struct snap_exchange_answer *answer;
	struct snap_exchange_room *room;
};

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	struct snap_broker broker = { 0 };

	snap_options_init(&bed->options);
	assert_null(snap_remote_unwinder_create(&bed->options, &broker, &bed->unwinder));
	assert_null(snap_remote_renew_exchange(bed->unwinder));
	bed->unwinder->processes = calloc(1, sizeof(*bed->unwinder->processes));
	bed->unwinder->process_count = 1;
	bed->answer = &bed->unwinder->exchange->answer;
	bed->room = &bed->unwinder->room;
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	snap_remote_unwinder_destroy(bed->unwinder);
	snap_options_deinit(&bed->options);
	free(bed);
	return 0;
}

/* ---- a right answer ---- */

static uint32_t put_text(struct bed *bed, const char *text)
{
	uint32_t place = bed->answer->text_size;

	memcpy(bed->room->text + place, text, strlen(text) + 1);
	bed->answer->text_size += (uint32_t)strlen(text) + 1;
	return place + 1;
}

/* Two frames, two stacks (of both, and of one that ended early), two tasks that wait and one that runs. */
static void put_answer(struct bed *bed)
{
	const uint32_t frames[] = { 0, 1, 1 };

	snap_remote_forget_frames(&bed->unwinder->processes[0]);
	*bed->answer = (struct snap_exchange_answer){ .has_tasks = 1 };
	bed->room->frames[0] = (struct snap_exchange_frame){ 0x401000, 1 };
	bed->room->frames[1] = (struct snap_exchange_frame){ 0x402000, 1 };
	bed->room->entries[0] = (struct snap_exchange_entry){ .function = put_text(bed, "inner"),
							      .file = put_text(bed, "a.go"),
							      .line = 7 };
	bed->room->entries[1] =
		(struct snap_exchange_entry){ .function = put_text(bed, "outer"), .line = 9 };
	bed->answer->frame_count = bed->answer->entry_count = 2;
	memcpy(bed->room->stack_frames, frames, sizeof(frames));
	bed->answer->stack_frame_count = 3;
	bed->room->stacks[0] = (struct snap_exchange_stack){ .frame_count = 2 };
	bed->room->stacks[1] = (struct snap_exchange_stack){ .frame_count = 1,
							     .end = SNAP_UNWIND_LIMIT,
							     .reason = put_text(bed, "too long") };
	bed->answer->stack_count = 2;
	bed->room->tasks[0] = (struct snap_exchange_task){ .id = put_text(bed, "18"),
							   .name = put_text(bed, "worker"),
							   .runtime = put_text(bed, "go"),
							   .parent = put_text(bed, "1"),
							   .wait = put_text(bed, "select"),
							   .creator = put_text(bed, "main.main"),
							   .creator_line = 3,
							   .stack = 1,
							   .label_count = 2,
							   .state = SNAP_TASK_WAITING };
	bed->room->tasks[1] = bed->room->tasks[0];
	bed->room->tasks[1].id = put_text(bed, "19");
	bed->room->tasks[1].stack = 2;
	bed->room->tasks[1].label_count = 0;
	bed->room->tasks[2] = bed->room->tasks[1];
	bed->room->tasks[2].id = put_text(bed, "20");
	bed->room->tasks[2].stack = 0;
	bed->room->tasks[2].state = SNAP_TASK_RUNNING;
	bed->answer->task_count = 3;
	bed->room->task_labels[0] =
		(struct snap_exchange_label){ put_text(bed, "request"), put_text(bed, "/a") };
	bed->room->task_labels[1] =
		(struct snap_exchange_label){ put_text(bed, "user"), put_text(bed, "") };
	bed->answer->task_label_count = 2;
}

static void test_a_right_answer(void **state)
{
	struct bed *bed = *state;
	const struct snap_remote_tasks *taken;
	const struct snap_remote_task *task;

	put_answer(bed);
	assert_true(snap_remote_take_task_answer(bed->unwinder, 0));
	taken = snap_remote_unwinder_task_answer(bed->unwinder);
	assert_int_equal(taken->count, 3);
	assert_true(taken->has_tasks && !taken->cut);
	task = &taken->tasks[0];
	assert_string_equal(task->id, "18");
	assert_string_equal(task->name, "worker");
	assert_string_equal(task->runtime, "go");
	assert_string_equal(task->parent, "1");
	assert_string_equal(task->wait, "select");
	assert_string_equal(task->created_by.function, "main.main");
	assert_int_equal(task->created_by.line, 3);
	assert_int_equal(task->state, SNAP_TASK_WAITING);
	assert_int_equal(task->label_count, 2);
	assert_string_equal(task->labels[1].key, "user");
	assert_string_equal(task->labels[1].value, "");
	assert_int_equal(task->stack->count, 2);
	assert_int_equal(task->stack->managed_count, 2);
	assert_string_equal(task->stack->managed[0].frame->entries[0].function, "inner");
	assert_int_equal(task->stack->managed[1].at, 1);
	assert_null(task->stack->reason);
	task = &taken->tasks[1];
	assert_string_equal(task->stack->managed[0].frame->entries[0].function, "outer");
	assert_int_equal(task->stack->end, SNAP_UNWIND_LIMIT);
	assert_string_equal(task->stack->reason, "too long");
	assert_null(taken->tasks[2].stack);
	/* The next one has no frame that this one had not, and need not tell them again. */
	bed->answer->frame_count = bed->answer->entry_count = 0;
	assert_true(snap_remote_take_task_answer(bed->unwinder, 0));
	bed->answer->forgets = 1;
	assert_false(snap_remote_take_task_answer(bed->unwinder, 0));
}

/* ---- wrong ones ---- */

static void long_text(struct bed *bed)
{
	char text[SNAP_MAX_NAME + 1];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	bed->room->tasks[0].name = put_text(bed, text);
}

#define change(name, what)                                                  \
	static void name(struct bed *bed)                                   \
	{                                                                   \
		struct snap_exchange_answer *answer _unused_ = bed->answer; \
		struct snap_exchange_room *room _unused_ = bed->room;       \
		what;                                                       \
	}

change(tasks_beyond, answer->task_count = SNAP_EXCHANGE_TASKS + 1) change(
	stacks_beyond,
	answer->stack_count =
		SNAP_EXCHANGE_STACKS +
		1) change(frames_beyond,
			  answer->stack_frame_count =
				  SNAP_EXCHANGE_STACK_FRAMES +
				  1) change(labels_beyond,
					    answer->task_label_count =
						    SNAP_EXCHANGE_TASK_LABELS +
						    1) change(text_beyond,
							      answer->text_size =
								      SNAP_EXCHANGE_TEXT + 1)
	change(new_frames_beyond, answer->frame_count = SNAP_EXCHANGE_FRAMES + 1) change(
		half_a_truth,
		answer->has_tasks = 2) change(half_a_cut,
					      answer->cut = 7) change(no_id, room->tasks[1].id = 0)
		change(empty_id, room->tasks[1].id = room->task_labels[1].value) change(
			id_outside,
			room->tasks[1].id = answer->text_size +
					    2) change(no_runtime, room->tasks[0].runtime = 0)
			change(other_runtime, room->tasks[0].runtime = room->tasks[0].name) change(
				wait_outside,
				room->tasks[0].wait =
					UINT32_MAX) change(creator_outside, room->tasks[0]
										    .creator = UINT32_MAX - 1)
				change(unknown_state, room->tasks[0].state = SNAP_TASK_STATE_COUNT) change(
					half_cut_labels,
					room->tasks[0].labels_cut =
						2) change(stack_beyond,
							  room->tasks[0]
								  .stack =
								  3) change(too_many_labels, room->tasks[0]
												     .label_count = 3)
					change(more_labels_than_may_be, room->tasks[0].label_count = SNAP_EXCHANGE_LABELS + 1) change(
						labels_in_disorder,
						room->task_labels[1].key =
							room->task_labels[0]
								.key) change(label_without_key,
									     room->task_labels[0]
										     .key = 0)
						change(
							label_without_value,
							room->task_labels[0].value =
								0) change(unknown_end,
									  room->stacks[0].end =
										  SNAP_UNWIND_COUNT)
							change(no_reason, room->stacks[1].reason = 0) change(
								needless_reason,
								room->stacks[0]
									.reason = room->stacks[1]
											  .reason) change(more_frames_than_there_are,
													  room->stacks[1]
														  .frame_count =
														  2)
								change(longer_than_may_be,
								       bed->unwinder->most_pcs =
									       1) change(gap_behind_the_end,
											 room->stacks[0]
												 .gap_count =
												 1;
											 room->stacks[0]
												 .gap_after =
												 2)
									change(unknown_frame,
									       room->stack_frames
										       [1] =
										       2) change(frame_without_entries,
												 room->frames[0]
													 .entry_count =
													 0)
										change(unknown_language,
										       room->entries[0]
											       .language =
											       SNAP_EXCHANGE_LANGUAGES)

											static void test_wrong_answers(
												void **state)
{
	static void (*const changes[])(struct bed *) = {
		tasks_beyond,
		stacks_beyond,
		frames_beyond,
		labels_beyond,
		text_beyond,
		new_frames_beyond,
		half_a_truth,
		half_a_cut,
		no_id,
		empty_id,
		id_outside,
		no_runtime,
		other_runtime,
		wait_outside,
		creator_outside,
		unknown_state,
		half_cut_labels,
		stack_beyond,
		too_many_labels,
		more_labels_than_may_be,
		labels_in_disorder,
		label_without_key,
		label_without_value,
		unknown_end,
		no_reason,
		needless_reason,
		more_frames_than_there_are,
		longer_than_may_be,
		gap_behind_the_end,
		unknown_frame,
		frame_without_entries,
		unknown_language,
		long_text,
	};
	struct bed *bed = *state;
	uint64_t most = bed->unwinder->most_pcs;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(changes); i++) {
		put_answer(bed);
		changes[i](bed);
		if (snap_remote_take_task_answer(bed->unwinder, 0))
			fail_msg("change %zu was believed", i);
		bed->unwinder->most_pcs = most;
	}
	put_answer(bed);
	assert_true(snap_remote_take_task_answer(bed->unwinder, 0));
}

/* Everything that was believed can be looked at. */
static size_t read_all(const struct snap_remote_tasks *taken)
{
	size_t seen = 0;

	for (size_t i = 0; i < taken->count; i++) {
		const struct snap_remote_task *task = &taken->tasks[i];

		seen += strlen(task->id) + strlen(task->runtime);
		seen += task->name ? strlen(task->name) : 0;
		for (size_t k = 0; k < task->label_count; k++)
			seen += strlen(task->labels[k].key) + strlen(task->labels[k].value);
		for (size_t k = 0; task->stack && k < task->stack->managed_count; k++)
			seen += task->stack->managed[k].frame->entry_count;
	}
	return seen;
}

static unsigned next_random(unsigned *random)
{
	*random = *random * 1103515245u + 12345u;
	return *random >> 8;
}

static void test_anything_at_all(void **state)
{
	struct bed *bed = *state;
	unsigned random = 1, believed = 0;
	size_t seen = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct {
			void *bytes;
			size_t size;
		} parts[] = {
			{ bed->answer, sizeof(*bed->answer) },
			{ bed->room->tasks, 3 * sizeof(*bed->room->tasks) },
			{ bed->room->stacks, 2 * sizeof(*bed->room->stacks) },
			{ bed->room->stack_frames, 3 * sizeof(*bed->room->stack_frames) },
			{ bed->room->task_labels, 2 * sizeof(*bed->room->task_labels) },
			{ bed->room->text, 64 },
		};

		put_answer(bed);
		for (unsigned k = 0; k <= next_random(&random) % 4; k++) {
			unsigned part = next_random(&random) % SNAP_ARRAY_SIZE(parts);
			uint8_t *bytes = parts[part].bytes;

			bytes[next_random(&random) % parts[part].size] =
				(uint8_t)next_random(&random);
		}
		if (!snap_remote_take_task_answer(bed->unwinder, 0))
			continue;
		believed++;
		seen += read_all(snap_remote_unwinder_task_answer(bed->unwinder));
	}
	assert_true(believed > ROUNDS / 100 && believed < ROUNDS);
	assert_true(seen > 0);
}

#define with_bed(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(test_a_right_answer),
		with_bed(test_wrong_answers),
		with_bed(test_anything_at_all),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
