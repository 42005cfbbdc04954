/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recorded images (tests/runtime/recorded) of Python and PHP that are not whole, because a page
 * could not be read, or a budget was reached. Of each stack that is still shown, all frames are of
 * the truth and in its order, with nothing left out between them; what is missing at an end is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "recorded.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAGE = 4096,
	MOST_PAGES = 100, /* of an image: of larger ones that many, evenly spread */
	SHARES = 4,
};

/* One image: as it was, and as it is while something is missing. */
struct bed {
	const char *name;
	const struct snap_runtime *runtime;
	struct recorded whole, cut;
	struct snap_runtime_result *truth, *result;
	char missing[64];
	const struct recorded_room *room; /* for plans */
};

/* ---- what is compared ---- */

static bool same_frame(const struct snap_runtime_frame *frame,
		       const struct snap_runtime_frame *truth)
{
	const struct snap_entry *a = &frame->entries[0], *b = &truth->entries[0];

	/* Its line is known by a table of its own. */
	return snap_same_text(a->function, b->function) && snap_same_text(a->file, b->file) &&
	       (a->line == b->line || a->line == 0);
}

/* Whether all its frames are those of the truth behind the first so many. */
static bool is_part(const struct snap_runtime_stack *stack, const struct snap_runtime_stack *truth,
		    size_t first)
{
	for (size_t i = 0; i < stack->count; i++)
		if (!same_frame(stack->frames[i], truth->frames[first + i]))
			return false;
	return true;
}

/* The innermost frames are what is known of a thread, the outermost of a task that waits. */
static void check_stack(const struct bed *bed, const char *whose,
			const struct snap_runtime_stack *stack,
			const struct snap_runtime_stack *truth, bool is_task)
{
	size_t more = truth->count - stack->count;

	if (stack->count > truth->count)
		fail_msg("%s, %s: %s has more frames", bed->name, bed->missing, whose);
	if (!is_part(stack, truth, 0) && !(is_task && is_part(stack, truth, more)))
		fail_msg("%s, %s: %s has other frames", bed->name, bed->missing, whose);
	if (more && (snap_unwind_is_whole(stack->end) || !stack->reason))
		fail_msg("%s, %s: %s has less frames, and nobody says so", bed->name, bed->missing,
			 whose);
}

static bool tells_that_it_is_cut(const struct bed *bed)
{
	const struct snap_memory_image *image = bed->cut.process->memory;

	for (uint32_t i = 0; i < image->step_count; i++)
		if (image->steps[i].cut)
			return true;
	return bed->result->refused || bed->result->torn || bed->result->cut;
}

static void check_threads(const struct bed *bed)
{
	for (size_t i = 0; i < bed->result->thread_count; i++) {
		const struct snap_runtime_thread *thread = &bed->result->threads[i], *truth = NULL;
		char whose[32];

		for (size_t k = 0; k < bed->truth->thread_count; k++)
			if (bed->truth->threads[k].tid == thread->tid)
				truth = &bed->truth->threads[k];
		snprintf(whose, sizeof(whose), "thread %d", thread->tid);
		if (!truth || (thread->holds_gil && !truth->holds_gil))
			fail_msg("%s, %s: %s is another one", bed->name, bed->missing, whose);
		check_stack(bed, whose, &thread->stack, &truth->stack, false);
		for (size_t k = 0; k < thread->run_count; k++)
			if (thread->runs[k].first != truth->runs[k].first ||
			    (thread->runs[k].anchor &&
			     thread->runs[k].anchor != truth->runs[k].anchor))
				fail_msg("%s, %s: %s runs elsewhere", bed->name, bed->missing,
					 whose);
	}
}

static void check_tasks(const struct bed *bed)
{
	for (size_t i = 0; i < bed->result->task_count; i++) {
		const struct snap_runtime_task *task = &bed->result->tasks[i], *truth = NULL;

		for (size_t k = 0; k < bed->truth->task_count; k++)
			if (strcmp(bed->truth->tasks[k].id, task->id) == 0)
				truth = &bed->truth->tasks[k];
		if (!truth || (task->name && !snap_same_text(task->name, truth->name)))
			fail_msg("%s, %s: task %s is another one", bed->name, bed->missing,
				 task->id);
		check_stack(bed, task->id, &task->stack, &truth->stack, true);
		if (task->state != truth->state && task->state != SNAP_TASK_UNKNOWN)
			fail_msg("%s, %s: task %s does something else", bed->name, bed->missing,
				 task->id);
	}
}

static void check(struct bed *bed)
{
	assert_null(recorded_read(&bed->cut, bed->runtime, &bed->result));
	/* Without its first page of data it is not seen to be there. */
	if (!bed->result)
		return;
	check_threads(bed);
	check_tasks(bed);
	if ((bed->result->thread_count < bed->truth->thread_count ||
	     bed->result->task_count < bed->truth->task_count) &&
	    !tells_that_it_is_cut(bed))
		fail_msg("%s, %s: threads or tasks are missing, and nobody says so", bed->name,
			 bed->missing);
}

/* ---- what is missing ---- */

/* All pieces but what lies in a page; the array has room for one more. */
static size_t leave_out(const struct snap_memory_image *image, uint64_t page,
			struct snap_memory_piece *pieces)
{
	size_t count = 0;

	for (size_t i = 0; i < image->piece_count; i++) {
		const struct snap_memory_piece *piece = &image->pieces[i];
		uint64_t end = piece->address + piece->size, before = page, behind = page + PAGE;

		if (before > end)
			before = end;
		if (behind < piece->address)
			behind = piece->address;
		if (piece->address < before)
			pieces[count++] =
				(struct snap_memory_piece){ piece->address, before - piece->address,
							    piece->bytes };
		if (behind < end)
			pieces[count++] = (struct snap_memory_piece){
				behind, end - behind, piece->bytes + (behind - piece->address)
			};
	}
	return count;
}

/* The pages that an image has something of; malloc'ed. */
static uint64_t *list_pages(const struct snap_memory_image *image, size_t *count_ret)
{
	uint64_t *pages = malloc((image->bytes / PAGE + 2 * image->piece_count) * sizeof(*pages));
	size_t count = 0;

	assert_non_null(pages);
	for (size_t i = 0; i < image->piece_count; i++) {
		const struct snap_memory_piece *piece = &image->pieces[i];
		uint64_t page = piece->address & -(uint64_t)PAGE;

		for (; page < piece->address + piece->size; page += PAGE)
			if (!count || page > pages[count - 1])
				pages[count++] = page;
	}
	*count_ret = count;
	return pages;
}

static void check_without_each_page(struct bed *bed)
{
	struct snap_memory_image *image = bed->cut.process->memory, less = *image;
	size_t count, step;
	uint64_t *pages = list_pages(image, &count);

	less.pieces = malloc((image->piece_count + 1) * sizeof(*less.pieces));
	assert_non_null(less.pieces);
	bed->cut.process->memory = &less;
	step = count / MOST_PAGES + 1;
	for (size_t i = 0; i < count; i += step) {
		snprintf(bed->missing, sizeof(bed->missing), "without page %#llx",
			 (unsigned long long)pages[i]);
		less.piece_count = leave_out(image, pages[i], less.pieces);
		check(bed);
	}
	bed->cut.process->memory = image;
	free(less.pieces);
	free(pages);
}

/* Its plan is executed with less and less to take: records, or bytes. */
static void check_with_budgets(struct bed *bed)
{
	struct recorded_room room = *bed->room;
	struct snap_memory_plan plan = { .step_count = 0 };
	struct snap_memory_image *image = bed->cut.process->memory, copy = { .bytes = 0 };
	struct snap_runtime_memory memory;
	uint64_t records = 0, bytes;
	bool is_there = false;

	assert_null(recorded_begin(&bed->cut));
	memory = recorded_process(&bed->cut);
	bed->cut.given.memory = &memory;
	assert_null(bed->runtime->probe(&bed->cut.given, &plan, &is_there));
	assert_true(is_there);
	recorded_execute(&bed->cut, &plan, &room, &copy);
	for (uint32_t i = 0; i < copy.step_count; i++)
		records += copy.steps[i].records;
	bytes = copy.bytes;
	for (unsigned i = 0; i < 2 * SHARES; i++) {
		bool is_of_bytes = i >= SHARES;
		uint64_t share = i % SHARES + 1;

		room.budget.records = is_of_bytes ? SNAP_PLAN_RECORDS : records * share / SHARES;
		room.budget.bytes = is_of_bytes ? bytes * share / SHARES : 64 << 20;
		snprintf(bed->missing, sizeof(bed->missing), "with %llu quarters of all %s",
			 (unsigned long long)share, is_of_bytes ? "bytes" : "records");
		bed->cut.process->memory = image;
		recorded_execute(&bed->cut, &plan, &room, &copy);
		bed->cut.process->memory = &copy;
		check(bed);
	}
	bed->cut.process->memory = image;
}

/* ---- all images ---- */

static void open_image(struct recorded *recorded, const char *path)
{
	struct snap_capture *capture = recorded_open(path);

	if (!capture)
		fail_msg("%s is no recorded image", path);
	recorded_init(recorded, capture);
}

static void check_each(const char *pattern)
{
	const char *source = getenv("STACKSNAP_SOURCE");
	char images[SNAP_MAX_PATH], kind[32];
	struct recorded_room room = { .budget = { .records = SNAP_PLAN_RECORDS,
						  .bytes = 64 << 20,
						  .until_ns = 20000000000 } };
	glob_t found;

	assert_non_null(source);
	recorded_room_init(&room);
	snprintf(images, sizeof(images), "%s/tests/runtime/recorded/%s.image.xz", source, pattern);
	assert_int_equal(glob(images, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct bed bed = { .name = snap_base_name(found.gl_pathv[i]), .room = &room };

		snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(bed.name, "-"), bed.name);
		bed.runtime = recorded_runtime(kind);
		open_image(&bed.whole, found.gl_pathv[i]);
		open_image(&bed.cut, found.gl_pathv[i]);
		assert_null(recorded_read(&bed.whole, bed.runtime, &bed.truth));
		check_without_each_page(&bed);
		check_with_budgets(&bed);
		recorded_deinit(&bed.cut);
		recorded_deinit(&bed.whole);
	}
	globfree(&found);
	recorded_room_deinit(&room);
}

static void test_python(void **state)
{
	(void)state;
	check_each("cpython-*");
}

static void test_php(void **state)
{
	(void)state;
	check_each("php-*");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_python),
		cmocka_unit_test(test_php),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
