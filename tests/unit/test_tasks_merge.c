/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed frames among native ones, and what else is said of runtimes. The runtime is made up:
 * task_bed.h.
 */
#include "task_bed.h"

#include "analyze/runtime/memory.h"

/* ---- merged stacks ---- */

static struct snap_runtime_thread *add_managed(struct bed *bed, pid_t tid, const char *names)
{
	struct snap_runtime_thread *thread = &bed->managed[bed->result.thread_count++];

	bed->result.name = "cpython";
	*thread = (struct snap_runtime_thread){ .tid = tid,
						.stack = stack_of(bed, names),
						.loop_function = "_PyEval_EvalFrameDefault",
						.interpreter = -1 };
	for (size_t i = 0; i < bed->frame_count; i++)
		bed->frames[i]->entries[0].language = "python";
	thread->runs = snap_arena_new_array(&bed->arena, 4, struct snap_runtime_run);
	return thread;
}

static void add_run(struct snap_runtime_thread *thread, size_t count, uint64_t anchor)
{
	size_t first = 0;

	for (size_t i = 0; i < thread->run_count; i++)
		first += thread->runs[i].count;
	thread->runs[thread->run_count++] = (struct snap_runtime_run){ first, count, anchor };
}

/* The functions of the first stack, innermost first. */
static char *functions_of(const struct snap_snapshot *snapshot)
{
	const struct snap_stack *stack = &snapshot->processes[0]->stacks[0];
	struct snap_buffer text = { 0 };

	for (size_t i = 0; i < stack->frame_count; i++) {
		if (stack->gap_count && i == stack->gap_frame + 1)
			snap_buffer_add_text(&text, " ...");
		snap_buffer_printf(&text, "%s%s", i ? " " : "",
				   stack->frames[i]->entries[0].function);
	}
	return snap_buffer_take(&text, NULL);
}

#define assert_functions(bed, expected)                                                       \
	do {                                                                                  \
		_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *_shot = analyze(bed); \
		_cleanup_free_ char *_names = functions_of(_shot);                            \
		check_ways(_shot);                                                            \
		assert_string_equal(_names, (expected));                                      \
	} while (0)

static void test_merged_by_place(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_thread *thread;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, GLUE, LOOP, GLUE, LOOP, RUN_MAIN, MAIN);
	thread = add_managed(&bed, 100, "inner middle outer");
	add_run(thread, 1, in_frame(0, 2));
	add_run(thread, 2, in_frame(0, 4));
	assert_functions(&bed, "time_sleep inner middle outer main");
	set_option(&bed, "native", NULL);
	assert_functions(&bed, "time_sleep cfunction_vectorcall inner _PyEval_EvalFrameDefault "
			       "cfunction_vectorcall middle outer _PyEval_EvalFrameDefault "
			       "PyRun_Main main");
	bed_deinit(&bed);
}

static void test_merged_by_name(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_thread *thread;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, LOOP, C_WORK, LOOP, RUN_MAIN, MAIN);
	thread = add_managed(&bed, 100, "inner outer");
	add_run(thread, 1, 0);
	add_run(thread, 1, 0);
	thread->holds_gil = true;
	thread->interpreter = 0;
	assert_functions(&bed, "time_sleep inner c_work outer main");
	set_option(&bed, "max-frames", "3");
	assert_functions(&bed, "time_sleep inner ... main");
	set_option(&bed, "max-frames", "1");
	assert_functions(&bed, "time_sleep");
	bed_deinit(&bed);
}

static void check_does_not_fit(const uint64_t anchors[2], const char *loop)
{
	struct bed bed;
	struct snap_runtime_thread *thread;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *names = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, LOOP, RUN_MAIN, MAIN);
	thread = add_managed(&bed, 100, "inner outer");
	thread->loop_function = loop;
	add_run(thread, 1, anchors[0]);
	add_run(thread, 1, anchors[1]);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	names = functions_of(snapshot);
	assert_string_equal(names,
			    "inner outer time_sleep _PyEval_EvalFrameDefault PyRun_Main main");
	assert_non_null(strstr(snapshot->processes[0]->stacks[0].unwind_detail, "do not fit"));
	/* In text, what stands before a colon is a place. */
	assert_null(strstr(snapshot->processes[0]->stacks[0].unwind_detail, ": "));
	bed_deinit(&bed);
}

static void test_does_not_fit(void **state _unused_)
{
	/* One loop for two runs, in the wrong order, elsewhere, and without a name for it. */
	check_does_not_fit((uint64_t[]){ 0, 0 }, "_PyEval");
	check_does_not_fit((uint64_t[]){ in_frame(0, 2), in_frame(0, 1) }, "_PyEval");
	check_does_not_fit((uint64_t[]){ 16, in_frame(0, 1) }, "_PyEval");
	check_does_not_fit((uint64_t[]){ in_frame(0, 1), 0 }, NULL);
}

/* Where there are none of the machine, none follow. */
static void test_not_stopped(void **state _unused_)
{
	struct bed bed;
	const struct snap_stack *stack;
	struct snap_runtime_thread *thread;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, MAIN);
	bed.threads[0].result = SNAP_THREAD_NOT_STOPPED;
	bed.threads[0].state = 'D';
	thread = add_managed(&bed, 100, "inner outer");
	add_run(thread, 2, in_frame(0, 1));
	/* The memory of the runtime was copied while another one stood. */
	ADD_THREAD(&bed, 101, SLEEP, MAIN);
	snapshot = analyze(&bed);
	stack = snapshot->processes[0]->stacks;
	while (stack->threads[0].tid != 100)
		stack++;
	assert_int_equal(stack->frame_count, 2);
	assert_string_equal(stack->unwind_detail, "state disk");
	bed_deinit(&bed);
}

/* Frames that say where the managed part ended early. */
static void test_cut_managed_part(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_thread *thread;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *text = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, GLUE, LOOP, GLUE, LOOP, RUN_MAIN, MAIN);
	thread = add_managed(&bed, 100, "inner");
	thread->stack.end = SNAP_UNWIND_UNREADABLE;
	thread->stack.reason = "a frame was not copied";
	add_run(thread, 1, 0);
	snapshot = analyze(&bed);
	assert_int_equal(snapshot->processes[0]->stacks[0].unwind, SNAP_UNWIND_UNREADABLE);
	assert_string_equal(snapshot->processes[0]->stacks[0].unwind_detail,
			    "a frame was not copied");
	assert_string_equal(snapshot->processes[0]->runtimes[0].name, "cpython");
	text = text_of(snapshot);
	assert_non_null(strstr(text, "(not whole: a frame was not copied)"));
	/* In place of what is not known stand the interpreter's own, from the loop on. */
	assert_functions(&bed, "time_sleep inner _PyEval_EvalFrameDefault cfunction_vectorcall "
			       "_PyEval_EvalFrameDefault PyRun_Main main");
	bed_deinit(&bed);
}

static void test_task_in_c(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_task *task;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, C_WORK, CGO, MAIN);
	task = add_task(&bed, "5", "", "main.call runtime.goexit");
	task->tid = 100;
	task->native_until = "asmcgocall";
	assert_functions(&bed, "futex_wait c_work main.call runtime.goexit");
	task->native_until = "elsewhere";
	assert_functions(&bed, "main.call runtime.goexit");
	bed_deinit(&bed);
}

/* ---- what else is said ---- */

static bool look(const struct snap_runtime_process *process)
{
	char bytes[4];
	uint64_t word, start, size;

	/* The image, a stack, and nothing. */
	return snap_runtime_read(process, 0x9000, bytes, 4) && memcmp(bytes, "imag", 4) == 0 &&
	       snap_runtime_word(process, STACK + FRAME - 0x10, &word) &&
	       word == STACK + 2 * FRAME - 0x10 &&
	       !snap_runtime_word(process, STACK + 0x80000, &word) &&
	       process->memory->next(process->memory->context, 0, &start, &size) &&
	       start == 0x9000 && size == 8;
}

static void test_memory(void **state _unused_)
{
	struct bed bed;
	struct snap_snapshot *snapshot;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, GLUE, MAIN);
	bed.piece = (struct snap_memory_piece){ 0x9000, 8, (const uint8_t *)"imagined" };
	bed.image.pieces = &bed.piece;
	bed.image.piece_count = 1;
	look_at_memory = look;
	snap_snapshot_destroy(analyze(&bed));
	set_option(&bed, "runtimes", "php");
	look_at_memory = NULL;
	snapshot = analyze(&bed);
	assert_int_equal(snapshot->processes[0]->runtime_count, 0);
	snap_snapshot_destroy(snapshot);
	/* Without an image nobody looks. */
	set_option(&bed, "runtimes", "auto");
	bed.process.memory = NULL;
	bed.image.piece_count = 0;
	snap_snapshot_destroy(analyze(&bed));
	bed_deinit(&bed);
}

/* Whoever watches is told whose memory is read, and when that is over. */
static const struct snap_process *noted;
static unsigned notes;

static void note_runtimes(void *context _unused_, const struct snap_process *process)
{
	noted = process;
	notes++;
}

static bool look_at_note(const struct snap_runtime_process *process)
{
	return noted == process->process && notes == 1;
}

static void test_memory_is_noted(void **state _unused_)
{
	const struct snap_file_finder finder = { .find = find_file,
						 .note_runtimes = note_runtimes };
	struct snap_snapshot *snapshot = NULL;
	struct bed bed;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, MAIN);
	look_at_memory = look_at_note;
	fine(snap_analyze_with(&bed.capture, &bed.options, &finder, runtimes, &snapshot));
	assert_null(noted);
	assert_int_equal(notes, 2);
	snap_snapshot_destroy(snapshot);
	bed_deinit(&bed);
}

/* ---- threads that were copied one after the other ---- */

/* What a thread runs stands at one address, each holds the GIL, frames are new each time. */
static struct stacksnap_error *read_names(const struct snap_runtime_process *process,
					  struct snap_runtime_result **ret)
{
	const struct snap_process *of = process->process;
	struct snap_runtime_result *result = *ret =
		snap_arena_new(process->arena, struct snap_runtime_result);

	result->name = "cpython";
	result->threads =
		snap_arena_new_array(process->arena, of->thread_count, struct snap_runtime_thread);
	for (size_t i = 0; i < of->thread_count; i++) {
		struct snap_runtime_thread *thread = &result->threads[result->thread_count++];
		struct snap_runtime_stack *stack = &thread->stack;
		struct snap_runtime_frame *frame =
			snap_arena_new(process->arena, struct snap_runtime_frame);
		char name[8];

		assert_true(snap_runtime_read(process, 0x9000, name, sizeof(name)));
		frame->entries = snap_arena_new(process->arena, struct snap_entry);
		frame->entry_count = 1;
		frame->entries[0] =
			(struct snap_entry){ .function = snap_intern(process->strings, name,
								     strlen(name)),
					     .language = "python" };
		stack->frames =
			snap_arena_new_array(process->arena, 1, const struct snap_runtime_frame *);
		stack->frames[stack->count++] = frame;
		thread->tid = of->threads[i].tid;
		thread->holds_gil = true;
		thread->loop_function = "_PyEval_EvalFrameDefault";
		thread->runs = snap_arena_new(process->arena, struct snap_runtime_run);
		thread->runs[thread->run_count++].count = 1;
	}
	return NULL;
}

static void add_thread_with_memory(struct bed *bed, pid_t tid, const char *name)
{
	struct snap_memory_image *image = snap_arena_new(&bed->arena, struct snap_memory_image);
	struct snap_thread *thread =
		&bed->threads[ADD_THREAD(bed, tid, SLEEP, LOOP, RUN_MAIN, MAIN)];

	thread->taken = SNAP_TAKEN_ALONE;
	image->pieces = snap_arena_new(&bed->arena, struct snap_memory_piece);
	image->pieces[image->piece_count++] =
		(struct snap_memory_piece){ 0x9000, 8, (const uint8_t *)name };
	if (name)
		thread->memory = image;
}

/* The same memory was used by one thread, then by the other: nobody runs what the other ran. */
static void test_each_thread_by_its_own_memory(void **state _unused_)
{
	static const struct snap_runtime names = { .name = "cpython",
						   .kind = SNAP_RUNTIME_CPYTHON,
						   .read = read_names };
	const struct snap_runtime *const all[] = { &names, NULL };
	const struct snap_file_finder finder = { .find = find_file };
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	const struct snap_stack *stacks;
	struct bed bed;

	bed_init(&bed);
	add_thread_with_memory(&bed, 100, "inner\0\0");
	add_thread_with_memory(&bed, 101, "outer\0\0");
	add_thread_with_memory(&bed, 102, "inner\0\0");
	add_thread_with_memory(&bed, 105, NULL);
	bed.process.memory = (struct snap_memory_image *)(uintptr_t)bed.threads[0].memory;
	fine(snap_analyze_with(&bed.capture, &bed.options, &finder, all, &snapshot));
	check_ways(snapshot);
	assert_int_equal(snapshot->processes[0]->stack_count, 3);
	stacks = snapshot->processes[0]->stacks;
	assert_int_equal(stacks[0].thread_count, 2);
	assert_string_equal(stacks[0].frames[1]->entries[0].function, "inner");
	for (size_t i = 1; i < 3; i++) {
		bool is_bare = stacks[i].threads[0].tid == 105;

		assert_int_equal(stacks[i].threads[0].tid, is_bare ? 105 : 101);
		assert_string_equal(stacks[i].frames[1]->entries[0].function,
				    is_bare ? "_PyEval_EvalFrameDefault" : "outer");
	}
	assert_int_equal(snapshot->processes[0]->runtimes[0].gil_count, 1);
	assert_int_equal(snapshot->processes[0]->runtimes[0].gil[0].tid, 100);
	bed_deinit(&bed);
}

static void test_refused(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, MAIN);
	bed.result.refused = "Go 1.29: goroutines not understood";
	bed.result.version = "1.29";
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->warning_count, 1);
	assert_string_equal(snapshot->warnings[0].code, "runtime_unsupported");
	assert_int_equal(snapshot->warnings[0].pid, 100);
	assert_string_equal(snapshot->processes[0]->runtimes[0].version, "1.29");
	assert_int_equal(snapshot->thread_count, 1);
	bed_deinit(&bed);
}

/* Memory that was not copied whole is why something is missing, and the word is the true one. */
static void test_cut(void **state _unused_)
{
	static const struct {
		enum snap_plan_cut cut;
		enum snap_runtime_cut word;
		const char *why;
	} cases[] = {
		{ SNAP_PLAN_WHOLE, SNAP_RUNTIME_TORN, "otherwise" },
		{ SNAP_PLAN_CUT_TIME, SNAP_RUNTIME_CUT_TIME, "its memory was not copied in time" },
		{ SNAP_PLAN_CUT_MEMORY, SNAP_RUNTIME_CUT_MEMORY,
		  "its memory is more than was to be copied" },
		{ SNAP_PLAN_CUT_RECORDS, SNAP_RUNTIME_CUT_RECORDS,
		  "its memory has more records than are followed" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
		struct snap_runtime_process process = { .is_of_thread = false };
		struct bed bed;

		bed_init(&bed);
		ADD_THREAD(&bed, 100, SLEEP, MAIN);
		bed.image.step_count = 3;
		bed.image.steps[1].cut = bed.image.steps[2].cut = cases[i].cut;
		bed.result.torn = true;
		snapshot = analyze(&bed);
		assert_int_equal(snapshot->processes[0]->runtimes[0].cut, cases[i].word);
		process.process = &bed.capture.processes[0];
		assert_string_equal(snap_runtime_why(&process, "otherwise"), cases[i].why);
		bed_deinit(&bed);
	}
}

/* What the runtime says is whatever the target likes. */
static void test_odd_results(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_task *task;
	struct snap_runtime_thread *thread;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, LOOP, MAIN);
	add_task(&bed, "", "", PARKED);
	add_task(&bed, "9", "a=1 a=2 a=1", "");
	task = add_task(&bed, "3", "", PARKED);
	task->since_ns = INT64_MIN;
	task->tid = -5;
	task->labels[task->label_count++] = (struct snap_label){ NULL, "x" };
	task->labels[task->label_count++] = (struct snap_label){ "y", NULL };
	thread = add_managed(&bed, 100, "inner");
	add_run(thread, 7, 0);
	bed.result.torn = true;
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->task_count, 2);
	assert_int_equal(snapshot->processes[0]->runtimes[0].cut, SNAP_RUNTIME_TORN);
	bed_deinit(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merged_by_place),
		cmocka_unit_test(test_merged_by_name),
		cmocka_unit_test(test_does_not_fit),
		cmocka_unit_test(test_not_stopped),
		cmocka_unit_test(test_cut_managed_part),
		cmocka_unit_test(test_task_in_c),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_is_noted),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_odd_results),
		cmocka_unit_test(test_each_thread_by_its_own_memory),
		cmocka_unit_test(test_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
