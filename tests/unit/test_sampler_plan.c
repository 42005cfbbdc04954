/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sampler with a plan for single threads, made up: what it names comes with each copy, of a
 * thread that is blocked and of one that runs, and is that thread's own.
 */
#include "sampler_bed.h"

#include <sched.h>
#include <sys/syscall.h>

/* What a runtime would know of its threads, in the victim. */
enum { THREADS = 3, SPINNER = 0, POLLER = 1, READER = 2, TEXT = 32 };

struct record {
	uint64_t tid;
	const char *text;
};

static struct record records[THREADS];
static char texts[THREADS][TEXT] = { "spinner's", "poller's", "reader's 0" };
static int pipe_fds[2];

/* What came with the copies, in the test. */
struct plan_bed {
	struct bed bed;
	struct snap_memory_plan plan;
	char seen[THREADS][TEXT]; /* the last text of each */
	unsigned shown[THREADS], strange;
};

static void make_record(unsigned index)
{
	records[index] = (struct record){ (uint64_t)syscall(SYS_gettid), texts[index] };
	__atomic_add_fetch(&in_position, 1, __ATOMIC_SEQ_CST);
}

static void *spin(void *unused)
{
	prctl(PR_SET_NAME, "spinner");
	make_record(SPINNER);
	for (;;)
		;
	return unused;
}

static void *poll_for_ever(void *unused)
{
	make_record(POLLER);
	return wait_in_epoll(unused);
}

/* It waits where it waited, with the same stack, when it has another text. */
static void *read_on(void *unused)
{
	char byte;

	prctl(PR_SET_NAME, "reader");
	make_record(READER);
	while (read(pipe_fds[0], &byte, 1) == 1)
		texts[READER][9]++;
	return unused;
}

static void victim_with_records(int commands, int answers)
{
	if (pipe(pipe_fds))
		_exit(4);
	start_thread(spin, NULL);
	start_thread(poll_for_ever, NULL);
	start_thread(read_on, NULL);
	/* The poller counts twice. */
	while (in_position < THREADS + 1)
		sched_yield();
	answer(answers, getpid());
	while (command(commands))
		if (write(pipe_fds[1], "x", 1) != 1)
			_exit(5);
}

static void make_plan(struct snap_memory_plan *plan)
{
	plan->steps[0] = (struct snap_plan_step){ .op = SNAP_PLAN_READ,
						  .source = SNAP_PLAN_LITERAL,
						  .address = (uintptr_t)records,
						  .len = sizeof(records) };
	plan->steps[1] = (struct snap_plan_step){ .op = SNAP_PLAN_READ,
						  .flags = SNAP_PLAN_IF_THREAD,
						  .source = 1,
						  .field = offsetof(struct record, text),
						  .every = sizeof(struct record),
						  .if_field = offsetof(struct record, tid),
						  .if_width = 8,
						  .len = TEXT };
	plan->step_count = 2;
	assert_true(snap_memory_plan_check(plan));
}

static struct stacksnap_error *program_with_plan(void *context,
						 struct snap_sampled_process *process, bool exec)
{
	struct plan_bed *planned = context;

	process->plan = &planned->plan;
	return bed_program(&planned->bed, process, exec);
}

/* Each gets its own text, and those of the others are not there. */
static void note_texts(struct plan_bed *planned, const struct snap_thread *copy)
{
	struct record got[THREADS];

	/* There was no time for it, or not enough: then it comes with the next tick. */
	if (!copy->memory)
		return;
	if (!snap_memory_image_read(copy->memory, (uintptr_t)records, got, sizeof(got))) {
		planned->strange += !copy->memory->steps[0].cut;
		return;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		char text[TEXT];
		bool has = snap_memory_image_read(copy->memory, (uintptr_t)got[i].text, text, TEXT);

		if (has && got[i].tid == (uint64_t)copy->tid) {
			memcpy(planned->seen[i], text, TEXT);
			planned->shown[i]++;
		}
	}
}

static struct stacksnap_error *sample_with_plan(void *context, struct snap_sampled_thread *thread,
						const struct snap_thread *copy,
						enum snap_verdict *verdict_ret)
{
	struct plan_bed *planned = context;

	if (copy->result == SNAP_THREAD_COPIED)
		note_texts(planned, copy);
	return bed_sample(&planned->bed, thread, copy, verdict_ret);
}

#define PASS(name, type)                                                       \
	static struct stacksnap_error *pass_##name(void *context, type *about) \
	{                                                                      \
		return bed_##name(&((struct plan_bed *)context)->bed, about);  \
	}

PASS(mapped, struct snap_sampled_process)
PASS(born, struct snap_sampled_thread)
PASS(renamed, struct snap_sampled_thread)
PASS(died, struct snap_sampled_thread)

static void pass_ended(void *context, struct snap_sampled_process *process)
{
	bed_ended(&((struct plan_bed *)context)->bed, process);
}

static void test_memory_comes_with_copies(void **state _unused_)
{
	struct plan_bed *planned = calloc(1, sizeof(*planned));
	struct bed *bed = &planned->bed;
	struct victim victim;

	assert_non_null(planned);
	victim_start(&victim, victim_with_records);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 1);
	make_plan(&planned->plan);
	bed_options(bed, victim.pid);
	bed->sink = (struct snap_sampler_sink){ planned,    program_with_plan, pass_mapped,
						pass_ended, pass_born,         pass_renamed,
						pass_died,  sample_with_plan,  NULL };
	bed_open(bed);
	bed_until(bed, planned->shown[SPINNER] >= 10 && planned->shown[POLLER] &&
			       planned->shown[READER]);
	assert_int_equal(planned->strange, 0);
	assert_string_equal(planned->seen[SPINNER], "spinner's");
	assert_string_equal(planned->seen[POLLER], "poller's");
	assert_string_equal(planned->seen[READER], "reader's 0");
	assert_true(bed_named(bed, "spinner")->alone >= 10);
	assert_int_equal(bed_named(bed, "reader")->alone, 0);
	assert_int_equal(planned->shown[POLLER], 1);
	/* It is shown again for what has come with it, though its stack is the same. */
	tell(&victim);
	bed_until(bed, planned->shown[READER] >= 2);
	assert_string_equal(planned->seen[READER], "reader's 1");
	victim_end(&victim);
	bed_end(bed);
	free(planned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_comes_with_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
