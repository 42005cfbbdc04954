/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The probe: what runtimes are shown of a process in the sandbox, which plans are believed, and what
 * is left when a parser dies, thinks without end, or is somebody else's.
 */
#include "patience.h"
#include "roles/runtime_probe/messages.h"
#include "roles/runtime_probe/probe.h"
#include "unwinder_bed.h"

#include "base/clock.h"

#include <sys/mman.h>

enum { KNOWN = 3 << 20 };

/* Of the test, and at the same place in the victim, which is a copy of it. */
static uint8_t known[KNOWN] = { 1 };
static uint8_t *unreadable;

static struct snap_plan_step *add_step(struct snap_memory_plan *plan)
{
	return &plan->steps[plan->step_count++];
}

static void add_read(struct snap_memory_plan *plan, uint64_t address)
{
	*add_step(plan) = (struct snap_plan_step){
		.op = SNAP_PLAN_READ, .source = SNAP_PLAN_LITERAL, .address = address, .len = 64
	};
}

/* ---- runtimes, which run in the parser ---- */

static bool sees(const struct snap_runtime_process *process, const void *address, size_t size)
{
	_cleanup_free_ uint8_t *bytes = malloc(size);

	return process->memory->read(process->memory->context, (uintptr_t)address, bytes, size) &&
	       memcmp(bytes, address, size) == 0;
}

/* The number of things that are as they should be is the length of what is read. */
static struct stacksnap_error *look_around(const struct snap_runtime_process *process,
					   struct snap_memory_plan *plan, bool *found_ret)
{
	struct snap_module *module = snap_modules_find(process->modules, (uintptr_t)look_around);
	struct snap_bytes symbols, strings;
	uint32_t right = 0;
	uint8_t byte;

	right += sees(process, known, 8);
	right += sees(process, known + 4090, 12);
	right += sees(process, known + 1, KNOWN - 1);
	right += !process->memory->read(process->memory->context, (uintptr_t)unreadable, &byte, 1);
	right += !process->memory->read(process->memory->context, UINT64_MAX - 2, &byte, 1);
	right += !sees(process, unreadable - 4096, 8192);
	right += module && snap_module_open(process->set, module) &&
		 snap_image_symbols(module->file->image, false, &symbols, &strings);
	add_read(plan, (uintptr_t)known);
	plan->steps[plan->step_count - 1].len = right;
	*found_ret = true;
	return NULL;
}

static struct stacksnap_error *find_nothing(const struct snap_runtime_process *process _unused_,
					    struct snap_memory_plan *plan, bool *found_ret _unused_)
{
	add_read(plan, (uintptr_t)known);
	return NULL;
}

static struct stacksnap_error *add_bss(const struct snap_runtime_process *process _unused_,
				       struct snap_memory_plan *plan, bool *found_ret)
{
	add_read(plan, (uintptr_t)&unreadable);
	*found_ret = true;
	return NULL;
}

static struct stacksnap_error *read_a_stack(const struct snap_runtime_process *process _unused_,
					    struct snap_memory_plan *plan, bool *found_ret)
{
	add_read(plan, (uintptr_t)unreadable - 4096);
	*found_ret = true;
	return NULL;
}

static struct stacksnap_error *talk_nonsense(const struct snap_runtime_process *process _unused_,
					     struct snap_memory_plan *plan, bool *found_ret)
{
	add_read(plan, (uintptr_t)known);
	plan->steps[0].op = 77;
	*found_ret = true;
	return NULL;
}

static struct stacksnap_error *die(const struct snap_runtime_process *process _unused_,
				   struct snap_memory_plan *plan _unused_, bool *found_ret _unused_)
{
	abort();
}

static struct stacksnap_error *think(const struct snap_runtime_process *process _unused_,
				     struct snap_memory_plan *plan _unused_,
				     bool *found_ret _unused_)
{
	while (sink)
		;
	return NULL;
}

/* Reads more than a process may be read. */
static struct stacksnap_error *read_without_end(const struct snap_runtime_process *process,
						struct snap_memory_plan *plan, bool *found_ret)
{
	uint32_t read = 0;

	while (read < 1000 && sees(process, known, 1 << 20))
		read++;
	add_read(plan, (uintptr_t)known);
	plan->steps[0].len = read;
	*found_ret = true;
	return NULL;
}

/* More names than a process may have, and one that does not end. */
static struct stacksnap_error *say_names(const struct snap_runtime_process *process,
					 struct snap_memory_plan *plan _unused_, bool *found_ret)
{
	char name[2 * SNAP_MAX_THREAD_NAME] = "";

	*found_ret = true;
	if (!process->take_name)
		return NULL;
	process->take_name(process->take_context, 7, "the last one counts");
	process->take_name(process->take_context, 1, "the first thread keeps its own");
	memset(name, 'x', sizeof(name) - 1);
	process->take_name(process->take_context, 8, name);
	process->take_name(process->take_context, 9, "");
	for (uint32_t i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "number %u", i);
		process->take_name(process->take_context, 7, name);
	}
	return NULL;
}

/* What can be read, the same once more, what lies over it, and what is not there. */
static struct stacksnap_error *say_images(const struct snap_runtime_process *process,
					  struct snap_memory_plan *plan _unused_,
					  bool *found_ret _unused_)
{
	void (*say)(void *, uint64_t, uint64_t) = process->keep_memory;
	void *context = process->take_context;
	uint64_t at = (uintptr_t)known;

	say(context, at + 100, 2 << 20);
	say(context, at + 100, 50);
	say(context, at + 200, 1 << 20);
	say(context, at, 100);
	say(context, at, 0);
	say(context, (uintptr_t)unreadable - 10, 20);
	say(context, UINT64_MAX - 2, 4096);
	say(context, at + 10, UINT32_MAX);
	say(context, at + 20, 1ull << 60);
	for (unsigned i = 0; i < 5000; i++)
		say(context, at + 30 + i, 60 << 20);
	return NULL;
}

static const struct snap_runtime looks_around = { .kind = SNAP_RUNTIME_GO, .probe = look_around },
				 finds_nothing = { .kind = SNAP_RUNTIME_GO, .probe = find_nothing },
				 adds_bss = { .kind = SNAP_RUNTIME_GO, .probe = add_bss },
				 reads_a_stack = { .kind = SNAP_RUNTIME_GO, .probe = read_a_stack },
				 talks_nonsense = { .kind = SNAP_RUNTIME_GO,
						    .probe = talk_nonsense },
				 dies = { .kind = SNAP_RUNTIME_GO, .probe = die },
				 says_names = { .kind = SNAP_RUNTIME_GO, .probe = say_names },
				 says_images = { .kind = SNAP_RUNTIME_JIT, .probe = say_images },
				 thinks = { .kind = SNAP_RUNTIME_GO, .probe = think },
				 reads_without_end = { .kind = SNAP_RUNTIME_GO,
						       .probe = read_without_end };

/* ---- tests ---- */

static bool plan_with(struct bed *bed, const struct snap_runtime *const *runtimes,
		      struct snap_memory_plan *plan)
{
	_cleanup_(snap_runtime_probe_destroyp) struct snap_runtime_probe *probe = NULL;
	bool found = true;

	*plan = (struct snap_memory_plan){ 0 };
	assert_null(snap_runtime_probe_create(&bed->options, runtimes, false, &probe));
	assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, plan, &found));
	return found;
}

static bool plan_of(struct bed *bed, const struct snap_runtime *runtime,
		    struct snap_memory_plan *plan)
{
	const struct snap_runtime *const runtimes[] = { runtime, NULL };

	return plan_with(bed, runtimes, plan);
}

static void test_memory_and_files(void **state)
{
	struct snap_memory_plan plan;

	assert_true(plan_of(*state, &looks_around, &plan));
	assert_int_equal(plan.step_count, 1);
	assert_int_equal(plan.steps[0].address, (uintptr_t)known);
	assert_int_equal(plan.steps[0].len, 7);
}

/* What a runtime that is not there has added is taken out again. */
static void test_several_runtimes(void **state)
{
	const struct snap_runtime *const runtimes[] = { &finds_nothing, &looks_around,
							&finds_nothing, &adds_bss, NULL };
	struct snap_memory_plan plan;

	assert_true(plan_with(*state, runtimes, &plan));
	assert_int_equal(plan.step_count, 2);
	assert_int_equal(plan.steps[1].address, (uintptr_t)&unreadable);
	assert_false(plan_of(*state, &finds_nothing, &plan));
	assert_int_equal(plan.step_count, 0);
}

static void test_plans_that_are_refused(void **state)
{
	struct snap_memory_plan plan;

	assert_false(plan_of(*state, &reads_a_stack, &plan));
	assert_false(plan_of(*state, &talks_nonsense, &plan));
}

static void test_budget(void **state)
{
	struct snap_memory_plan plan;

	assert_true(plan_of(*state, &reads_without_end, &plan));
	assert_int_equal(plan.steps[0].len, SNAP_PEEK_TOTAL >> 20);
}

static void test_one_that_dies(void **state)
{
	_cleanup_(snap_runtime_probe_destroyp) struct snap_runtime_probe *probe = NULL;
	struct bed *bed = *state;
	const struct snap_runtime *runtimes[] = { &dies, NULL };
	struct snap_memory_plan plan;
	bool found = true;

	assert_null(snap_runtime_probe_create(&bed->options, runtimes, false, &probe));
	assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan, &found));
	assert_false(found);
	/* Another one is asked about the next process. */
	runtimes[0] = &looks_around;
	assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan, &found));
	assert_true(found);
	/* Files of another user are another one's to read. */
	runtimes[0] = &dies;
	bed->capture->processes[0].uid++;
	assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan, &found));
	bed->capture->processes[0].uid--;
	assert_false(found);
	runtimes[0] = &looks_around;
	assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan, &found));
	assert_true(found);
	/* The one that is there stays. */
	runtimes[0] = &dies;
	assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan, &found));
	assert_true(found);
}

static void test_one_that_thinks(void **state)
{
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_memory_plan plan;

	assert_false(plan_of(*state, &thinks, &plan));
	/* A limit, and not for ever; how long a busy machine takes is its own affair. */
	assert_true(snap_clock_ns(CLOCK_MONOTONIC) - begin < with_patience(30000000000));
}

static void test_cancel(void **state)
{
	_cleanup_(snap_runtime_probe_destroyp) struct snap_runtime_probe *probe = NULL;
	struct bed *bed = *state;
	const struct snap_runtime *const runtimes[] = { &thinks, NULL };
	static volatile int cancel = 1;
	struct snap_memory_plan plan;
	struct stacksnap_error *err;
	bool found;

	bed->options.cancel = &cancel;
	assert_null(snap_runtime_probe_create(&bed->options, runtimes, false, &probe));
	err = snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan, &found);
	bed->options.cancel = NULL;
	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	snap_error_destroy(err);
	assert_false(found);
}

static void test_names(void **state)
{
	_cleanup_(snap_runtime_probe_destroyp) struct snap_runtime_probe *probe = NULL;
	struct bed *bed = *state;
	const struct snap_runtime *const runtimes[] = { &says_names, NULL };
	struct snap_process *process = &bed->capture->processes[0];
	struct snap_process saved = *process;
	struct snap_thread threads[] = { { .tid = 5, .ns_tid = 7, .name = "comm" },
					 { .tid = 8, .name = "comm" },
					 { .tid = 9, .name = "comm" },
					 { .tid = process->pid, .ns_tid = 1, .name = "comm" } };
	struct snap_memory_plan plan = { 0 };
	bool found;

	process->threads = threads;
	process->thread_count = SNAP_ARRAY_SIZE(threads);
	assert_null(snap_runtime_probe_create(&bed->options, runtimes, false, &probe));
	assert_null(snap_runtime_probe_complete(probe, bed->capture));
	assert_string_equal(threads[0].name, "comm");
	assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan, &found));
	assert_null(snap_runtime_probe_complete(probe, bed->capture));
	assert_string_equal(threads[0].name, "number 1019");
	assert_int_equal(strlen(threads[1].name), SNAP_MAX_THREAD_NAME - 1);
	assert_string_equal(threads[2].name, "comm");
	assert_string_equal(threads[3].name, "comm");
	/* Of another process with the same id. */
	process->start_ticks++;
	threads[0].name = "comm";
	assert_null(snap_runtime_probe_complete(probe, bed->capture));
	assert_string_equal(threads[0].name, "comm");
	*process = saved;
}

static void test_images(void **state)
{
	_cleanup_(snap_runtime_probe_destroyp) struct snap_runtime_probe *probe = NULL;
	struct bed *bed = *state;
	const struct snap_runtime *const runtimes[] = { &says_images, NULL };
	struct snap_process *process = &bed->capture->processes[0];
	struct snap_process saved = *process;
	struct snap_memory_plan plan = { 0 };
	size_t first = 0;
	bool found;

	assert_null(snap_runtime_probe_create(&bed->options, runtimes, false, &probe));
	/* Twice: what the second question found counts. */
	for (unsigned i = 0; i < 2; i++)
		assert_null(snap_runtime_probe_plan(probe, &bed->options, bed->capture, 0, &plan,
						    &found));
	assert_false(found);
	assert_null(snap_runtime_probe_complete(probe, bed->capture));
	assert_int_equal(process->piece_count, saved.piece_count + 2);
	while (process->pieces[first].address < (uintptr_t)known)
		first++;
	assert_int_equal(process->pieces[first].address, (uintptr_t)known);
	assert_int_equal(process->pieces[first].size, 100);
	assert_int_equal(process->pieces[first + 1].address, (uintptr_t)known + 100);
	assert_int_equal(process->pieces[first + 1].size, 2 << 20);
	assert_memory_equal(process->pieces[first + 1].data, known + 100, 2 << 20);
	/* What is there does not give way. */
	assert_null(snap_runtime_probe_complete(probe, bed->capture));
	assert_int_equal(process->piece_count, saved.piece_count + 2);
	*process = saved;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_memory_and_files),
		TEST(test_several_runtimes),
		TEST(test_plans_that_are_refused),
		TEST(test_budget),
		TEST(test_names),
		TEST(test_images),
		TEST(test_one_that_dies),
		TEST(test_one_that_thinks),
		TEST(test_cancel),
	};

	for (size_t i = 0; i < sizeof(known); i++)
		known[i] = (uint8_t)(i * 7 + i / 251);
	/*
	 * A page that is there, and one behind it that cannot be read. Right behind a mapping of a
	 * file, where some kernels put it, the first one would count as that file's memory.
	 */
	unreadable = mmap(NULL, 12288, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (unreadable == MAP_FAILED || mprotect(unreadable + 4096, 4096, PROT_READ | PROT_WRITE))
		return 1;
	unreadable += 8192;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
