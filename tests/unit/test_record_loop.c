/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The recorder over a sampler made by hand: what a script tells it, tick after tick, and what then
 * stands in its log. The functions of sample/sampler.h are this file's own.
 */
#include "model/arch/registers.h"
#include "record/recorder.h"

#include "sample/sampler.h"
#include "store/log/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_VERDICTS = 16 };

struct script {
	/* Tells the sink what happens at tick number `tick`. */
	void (*play)(struct script *script, unsigned tick, struct snap_sampler_tick *ret);
	const struct snap_sampler_sink *sink;
	unsigned ticks; /* that were played */
	struct snap_process facts[3];
	struct snap_sampled_process processes[3];
	struct snap_sampled_thread threads[4];
	enum snap_verdict verdicts[MOST_VERDICTS];
	unsigned verdict_count;
	bool oom; /* the sampler runs out of memory at the next tick */
	struct snap_recorder *recorder;
};

struct snap_sampler {
	struct script *script;
	struct snap_capture *capture;
};

/* The one sampler that is made reads the script here: tests run one after the other. */
static struct script *current;

struct stacksnap_error *snap_sampler_create(const struct snap_options *options _unused_,
					    const struct snap_sampler_sink *sink,
					    struct snap_sampler **ret)
{
	struct snap_sampler *sampler = calloc(1, sizeof(*sampler));

	assert_non_null(sampler);
	sampler->script = current;
	sampler->capture = snap_capture_new();
	snap_capture_warn(sampler->capture, "not_found", 77, 0, "nobody is called so");
	current->sink = sink;
	*ret = sampler;
	return NULL;
}

void snap_sampler_destroy(struct snap_sampler *sampler)
{
	if (!sampler)
		return;
	snap_capture_destroy(sampler->capture);
	free(sampler);
}

struct snap_capture *snap_sampler_capture(const struct snap_sampler *sampler)
{
	return sampler->capture;
}

bool snap_sampler_counts_runs(const struct snap_sampler *sampler _unused_)
{
	return true;
}

int snap_sampler_try(struct snap_sampler *sampler, const struct snap_process *process)
{
	(void)sampler;
	(void)process;
	return 0;
}

/* Its memory cannot be read. */
int snap_sampler_read_bytes(struct snap_sampler *sampler _unused_,
			    struct snap_sampled_process *process _unused_,
			    struct snap_sampled_bytes *words _unused_, size_t count _unused_)
{
	return -ESRCH;
}

/* It has no tasks. */
struct stacksnap_error *snap_sampler_take_whole(struct snap_sampler *sampler _unused_,
						struct snap_sampled_process *process _unused_,
						const struct snap_memory_plan *plan _unused_,
						int64_t expected_ns _unused_,
						struct snap_whole *ret)
{
	*ret = (struct snap_whole){ .is_taken = false };
	return NULL;
}

void snap_whole_release(struct snap_whole *whole _unused_)
{
}

int64_t snap_sampler_stood_ns(const struct snap_sampler *sampler _unused_)
{
	return 0;
}

struct stacksnap_error *snap_sampler_tick(struct snap_sampler *sampler,
					  struct snap_sampler_tick *ret)
{
	struct script *script = sampler->script;

	if (script->oom)
		return snap_error_no_memory();
	*ret = (struct snap_sampler_tick){ .stopped_ns = 1000,
					   .stood_ns = 1000 * (1 + (int64_t)script->ticks) };
	script->play(script, script->ticks++, ret);
	return NULL;
}

/* ---- words of a script ---- */

static void program(struct script *script, unsigned number, bool exec)
{
	struct snap_sampled_process *process = &script->processes[number];
	struct snap_process *facts = &script->facts[number];

	facts->pid = 100 + (pid_t)number;
	facts->start_ticks = 5000 + number;
	facts->name = "prog";
	facts->arch = SNAP_ARCH_X86_64;
	process->facts = facts;
	process->parent = number ? &script->processes[0] : NULL;
	assert_null(script->sink->program(script->sink->context, process, exec));
}

static void born(struct script *script, unsigned number, unsigned process)
{
	struct snap_sampled_thread *thread = &script->threads[number];

	*thread = (struct snap_sampled_thread){ .tid = 200 + (pid_t)number,
						.name = "thread",
						.process = &script->processes[process] };
	assert_null(script->sink->born(script->sink->context, thread));
}

static void died(struct script *script, unsigned number)
{
	assert_null(script->sink->died(script->sink->context, &script->threads[number]));
}

/* A copy that stands at `pc`, in no module: one frame. pc 0: it could not be stopped. */
static enum snap_verdict sample(struct script *script, unsigned number, char state, uint64_t pc,
				long call, bool partial)
{
	struct snap_x86_64_registers registers = { .rip = pc,
						   .rsp = 0x7000,
						   .orig_rax = (uint64_t)call };
	struct snap_thread copy = {
		.state = state,
		.result = pc ? SNAP_THREAD_COPIED : SNAP_THREAD_NOT_STOPPED,
		.taken = state == 'R' ? SNAP_TAKEN_ALONE : SNAP_TAKEN_UNSTOPPED,
		.registers = pc ? &registers : NULL,
		.registers_size = pc ? sizeof(registers) : 0,
		.partial = partial,
	};
	enum snap_verdict verdict = (enum snap_verdict)99;

	assert_null(script->sink->sample(script->sink->context, &script->threads[number], &copy,
					 &verdict));
	assert_true(verdict <= SNAP_VERDICT_STALE_MAPPINGS);
	if (script->verdict_count < MOST_VERDICTS)
		script->verdicts[script->verdict_count++] = verdict;
	return verdict;
}

/* Until the copy will do, at most three times: as the sampler does. */
static void sample_until_taken(struct script *script, unsigned number, char state, uint64_t pc)
{
	for (int i = 0; i < 3; i++)
		if (sample(script, number, state, pc, -1, false) == SNAP_VERDICT_TAKEN)
			return;
	fail_msg("the copy of thread %u was never taken", number);
}

static struct snap_options options_of(unsigned hz, int64_t ns)
{
	return (struct snap_options){ .hz = hz, .record_ns = ns, .max_frames = 512 };
}

static void begin(struct script *script, const struct snap_options *options)
{
	current = script;
	assert_null(snap_recorder_create(options, &script->recorder));
}

static void end(struct script *script)
{
	snap_recorder_destroy(script->recorder);
}

static const struct snap_log *log_of(const struct script *script)
{
	return snap_recorder_log(script->recorder);
}

/* How a thread stands at a tick, by all changes up to it. */
static struct snap_log_change standing_at(const struct snap_log *log, uint32_t thread, size_t tick)
{
	struct snap_log_change found = { .stack = SNAP_LOG_GONE };

	for (uint64_t i = 0; i < log->ticks[tick].change_end - log->first_change; i++)
		if (log->changes[i].thread == thread)
			found = log->changes[i];
	return found;
}

/* ---- tests ---- */

static void play_life(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	ret->threads = 1;
	switch (tick) {
	case 0:
		program(script, 0, false);
		born(script, 0, 0);
		sample_until_taken(script, 0, 'R', 0x1000);
		ret->alone = 1;
		break;
	case 1:
		sample(script, 0, 'S', 0x2000, 202, false);
		ret->unstopped = 1;
		break;
	case 2:
		ret->kept = 1;
		break;
	case 3:
		program(script, 1, false);
		born(script, 1, 1);
		sample_until_taken(script, 1, 'D', 0x3000);
		ret->threads = 2;
		ret->kept = ret->unstopped = 1;
		break;
	case 4:
		died(script, 1);
		script->sink->ended(script->sink->context, &script->processes[1]);
		ret->kept = 1;
		break;
	default:
		died(script, 0);
		script->sink->ended(script->sink->context, &script->processes[0]);
		ret->threads = 0;
		ret->no_targets = true;
		break;
	}
}

static void test_lives_are_written_down(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_life };
	const struct snap_log *log;

	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	log = log_of(&script);
	assert_int_equal(log->end, SNAP_END_TARGETS);
	assert_int_equal(log->tick_count, 6);
	assert_int_equal(log->process_count, 2);
	assert_int_equal(log->processes[1].parent, 0);
	assert_int_equal(log->processes[1].pid, 101);
	assert_int_equal(log->processes[1].first_tick, 3);
	assert_int_equal(log->processes[1].last_tick, 3);
	assert_int_equal(log->thread_count, 2);
	assert_int_equal(standing_at(log, 0, 0).state, SNAP_STATE_RUNNING);
	assert_int_equal(standing_at(log, 0, 0).taken, SNAP_TAKEN_ALONE);
	assert_int_equal(standing_at(log, 0, 2).state, SNAP_STATE_SLEEPING);
	assert_int_equal(standing_at(log, 0, 2).syscall, 202);
	assert_int_not_equal(standing_at(log, 0, 0).stack, standing_at(log, 0, 1).stack);
	assert_int_equal(standing_at(log, 1, 3).state, SNAP_STATE_DISK);
	assert_int_equal(standing_at(log, 1, 4).stack, SNAP_LOG_GONE);
	assert_int_equal(standing_at(log, 0, 5).stack, SNAP_LOG_GONE);
	assert_int_equal(log->stack_count, 3);
	assert_int_equal(log->stats.ticks, 6);
	assert_int_equal(log->stats.threads, 2);
	assert_int_equal(log->stats.thread_samples, 1 + 1 + 1 + 2 + 1);
	assert_int_equal(log->stats.kept, 3);
	assert_int_equal(log->stats.unstopped, 2);
	assert_int_equal(log->stats.alone, 1);
	assert_int_equal(log->stats.stopped_ns, 6000);
	assert_int_equal(log->stats.stacks, 3);
	assert_string_equal(log->capture->warnings[0].code, "not_found");
	end(&script);
}

static void play_exec(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	ret->threads = 1;
	if (tick == 0) {
		program(script, 0, false);
		born(script, 0, 0);
		sample_until_taken(script, 0, 'R', 0x1000);
	} else if (tick == 1) {
		died(script, 0);
		program(script, 0, true);
		born(script, 0, 0);
		/* The same address means another thing in the new program. */
		sample_until_taken(script, 0, 'R', 0x1000);
	} else {
		ret->no_targets = true;
	}
}

static void test_an_exec_is_another_program_with_lines_of_its_own(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_exec };
	const struct snap_log *log;

	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	log = log_of(&script);
	assert_int_equal(log->process_count, 2);
	assert_true(log->processes[0].execed);
	assert_false(log->processes[1].execed);
	assert_int_equal(log->processes[0].pid, log->processes[1].pid);
	assert_int_equal(log->thread_count, 2);
	assert_int_equal(log->threads[1].process, 1);
	assert_int_equal(log->threads[1].tid, log->threads[0].tid);
	assert_int_equal(standing_at(log, 0, 1).stack, SNAP_LOG_GONE);
	assert_int_not_equal(standing_at(log, 1, 1).stack, standing_at(log, 0, 0).stack);
	assert_int_equal(log->stacks[standing_at(log, 1, 1).stack].space, log->processes[1].space);
	assert_int_equal(log->stats.threads, 2);
	assert_int_equal(log->stats.thread_samples, 3);
	end(&script);
}

static void play_cpu(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	ret->threads = 2;
	ret->kept = 1;
	if (tick == 0) {
		program(script, 0, false);
		born(script, 0, 0);
		born(script, 1, 0);
		sample_until_taken(script, 0, 'R', 0x1000);
		sample(script, 1, 'S', 0, -1, false);
		ret->alone = 1;
	} else if (tick == 1) {
		sample(script, 0, 'S', 0, -1, false);
		ret->unstopped = 0;
	} else {
		ret->no_targets = tick == 3;
	}
}

static void test_mode_cpu_has_no_samples_of_who_does_not_run(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_cpu };
	const struct snap_log *log;

	options.cpu_only = true;
	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	log = log_of(&script);
	assert_true(log->cpu_only);
	assert_int_not_equal(standing_at(log, 0, 0).stack, SNAP_LOG_GONE);
	assert_int_equal(standing_at(log, 0, 1).stack, SNAP_LOG_GONE);
	assert_int_equal(standing_at(log, 1, 3).stack, SNAP_LOG_GONE);
	assert_int_equal(log->stats.thread_samples, 1);
	assert_int_equal(log->stats.alone, 1);
	assert_int_equal(log->stats.kept, 0);
	end(&script);
}

static void play_stale(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	ret->threads = 1;
	if (tick == 0) {
		program(script, 0, false);
		born(script, 0, 0);
	}
	if (tick < 2)
		sample_until_taken(script, 0, 'R', 0x400000000 + 0x1000 * (tick + 1));
	else
		ret->no_targets = true;
}

/* An address outside of all mappings stays there however often they are read. */
static void test_a_better_copy_is_asked_for_once_in_a_tick(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_stale };

	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	assert_int_equal(script.verdict_count, 4);
	assert_int_equal(script.verdicts[0], SNAP_VERDICT_STALE_MAPPINGS);
	assert_int_equal(script.verdicts[1], SNAP_VERDICT_TAKEN);
	assert_int_equal(script.verdicts[2], SNAP_VERDICT_STALE_MAPPINGS);
	assert_int_equal(script.verdicts[3], SNAP_VERDICT_TAKEN);
	end(&script);
}

static void play_on(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	if (tick == 0) {
		program(script, 0, false);
		born(script, 0, 0);
		sample_until_taken(script, 0, 'S', 0x1000);
	}
	ret->threads = 1;
	ret->kept = tick > 0;
	ret->unstopped = tick == 0;
}

static void test_ticks_and_missed_ones_fill_the_duration(void **state _unused_)
{
	struct snap_options options = options_of(200, 250000000);
	struct script script = { .play = play_on };
	const struct snap_log *log;

	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	log = log_of(&script);
	assert_int_equal(log->end, SNAP_END_TIME);
	assert_true(log->stats.ticks >= 1);
	assert_true(log->stats.duration_ns >= options.record_ns);
	/* Later than asked for by no more than it took to wake up. */
	assert_in_range(log->stats.ticks + log->stats.ticks_missed, 50,
			1 + log->stats.duration_ns / (options.record_ns / 50));
	assert_int_equal(log->stats.ticks, script.ticks);
	assert_int_equal(log->period_ns, 5000000);
	assert_true(log->stats.hz_reached <= 200);
	for (size_t i = 1; i < log->tick_count; i++)
		assert_true(log->ticks[i].time_ns > log->ticks[i - 1].time_ns);
	end(&script);
}

static bool say_no(void *context, const struct snap_recorder_status *status)
{
	assert_int_equal(status->threads, 1);
	assert_int_equal(status->remaining_ns, -1);
	return status->stats.ticks < *(const unsigned *)context;
}

static bool stop_it(void *context, const struct snap_recorder_status *status)
{
	if (status->stats.ticks == 2)
		snap_recorder_stop(context);
	return true;
}

static void test_runs_end_when_told_and_go_on(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_on };
	unsigned most = 3;
	volatile int cancel = 0;

	options.cancel = &cancel;
	begin(&script, &options);
	/* Before the run: then it has no tick. */
	snap_recorder_stop(script.recorder);
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	assert_int_equal(log_of(&script)->end, SNAP_END_ASKED);
	assert_int_equal(script.ticks, 0);
	assert_null(snap_recorder_run(script.recorder, stop_it, script.recorder));
	assert_int_equal(log_of(&script)->end, SNAP_END_ASKED);
	assert_int_equal(script.ticks, 2);
	assert_null(snap_recorder_run(script.recorder, say_no, &most));
	assert_int_equal(script.ticks, 3);
	cancel = 1;
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	assert_int_equal(log_of(&script)->end, SNAP_END_ASKED);
	assert_int_equal(log_of(&script)->stats.ticks, 3);
	end(&script);
}

static void play_refused(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	play_on(script, tick, ret);
	ret->refused = tick == 1;
}

static void test_lost_permission_ends_it(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_refused };

	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, NULL, NULL));
	assert_int_equal(log_of(&script)->end, SNAP_END_PERMISSION);
	assert_int_equal(script.ticks, 2);
	end(&script);
}

static void test_an_error_ends_it_and_is_returned(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_on, .oom = true };
	struct stacksnap_error *err;

	begin(&script, &options);
	err = snap_recorder_run(script.recorder, NULL, NULL);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_NO_MEMORY);
	snap_error_destroy(err);
	assert_int_equal(log_of(&script)->end, SNAP_END_FAILED);
	end(&script);
}

static void play_crowd(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	play_on(script, tick, ret);
	ret->threads = tick % 10 >= 5 ? 20 : 1;
}

static bool count_conditions(void *context, const struct snap_recorder_status *status)
{
	*(unsigned *)context += status->condition;
	return status->stats.ticks < 30;
}

static void test_a_condition_ends_it_or_with_a_ring_tells(void **state _unused_)
{
	struct snap_options options = options_of(1000, 0);
	struct script script = { .play = play_crowd }, ring = { .play = play_crowd };
	unsigned told = 0;

	options.until = (struct snap_until){ .kind = SNAP_UNTIL_THREADS, .limit = 10 };
	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, count_conditions, &told));
	assert_int_equal(log_of(&script)->end, SNAP_END_CONDITION);
	assert_int_equal(script.ticks, 6);
	assert_int_equal(told, 1);
	end(&script);
	options.ring_ns = 1000000000;
	told = 0;
	begin(&ring, &options);
	assert_null(snap_recorder_run(ring.recorder, count_conditions, &told));
	assert_int_equal(log_of(&ring)->end, SNAP_END_ASKED);
	assert_int_equal(ring.ticks, 30);
	assert_int_equal(told, 3);
	end(&ring);
}

static void test_a_rate_of_nothing_and_a_ring_that_grows_are_refused(void **state _unused_)
{
	struct snap_options options = options_of(0, 0);
	struct script script = { .play = play_on };
	struct snap_recorder *recorder = NULL;
	struct stacksnap_error *err;

	current = &script;
	err = snap_recorder_create(&options, &recorder);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_INVALID);
	snap_error_destroy(err);
	options.hz = 99;
	options.ring_ns = 1000000000;
	begin(&script, &options);
	err = snap_recorder_write_to(script.recorder, 1);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_INVALID);
	snap_error_destroy(err);
	end(&script);
}

static void play_churn(struct script *script, unsigned tick, struct snap_sampler_tick *ret)
{
	if (tick == 0) {
		program(script, 0, false);
		born(script, 0, 0);
	}
	/* A child at each tick, at an address of its own each time. */
	if (tick > 0) {
		died(script, 1);
		script->sink->ended(script->sink->context, &script->processes[1]);
	}
	program(script, 1, false);
	born(script, 1, 1);
	sample_until_taken(script, 0, 'R', 0x1000 + tick % 100);
	sample_until_taken(script, 1, 'R', 0x100000 + tick);
	ret->threads = ret->alone = 2;
}

struct churn {
	struct script *script;
	size_t most_ticks;
};

static bool watch_churn(void *context, const struct snap_recorder_status *status)
{
	struct churn *churn = context;
	const struct snap_log *log = log_of(churn->script);

	if (log->tick_count > churn->most_ticks)
		churn->most_ticks = log->tick_count;
	return status->elapsed_ns < 3500000000;
}

static void test_a_ring_stays_within_its_window(void **state _unused_)
{
	struct snap_options options = options_of(2000, 0);
	struct script script = { .play = play_churn };
	struct churn churn = { .script = &script };
	const struct snap_log *log;

	options.ring_ns = 200000000;
	begin(&script, &options);
	assert_null(snap_recorder_run(script.recorder, watch_churn, &churn));
	log = log_of(&script);
	assert_true(log->first_tick > 0);
	assert_true(log->stats.ticks == log->first_tick + log->tick_count);
	/* The window, and what comes until it is looked at again. */
	assert_true(churn.most_ticks <= 2000 * 1.3 + 1);
	/* Children that are older than the window were let go of, but for what waits to be. */
	assert_true(log->process_count <= 2 * churn.most_ticks + 64);
	assert_true(log->thread_count <= 2 * churn.most_ticks + 64);
	assert_true(log->stack_count <= 2 * churn.most_ticks + 64);
	assert_int_equal(log->stats.threads, 1 + script.ticks);
	end(&script);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lives_are_written_down),
		cmocka_unit_test(test_an_exec_is_another_program_with_lines_of_its_own),
		cmocka_unit_test(test_mode_cpu_has_no_samples_of_who_does_not_run),
		cmocka_unit_test(test_a_better_copy_is_asked_for_once_in_a_tick),
		cmocka_unit_test(test_ticks_and_missed_ones_fill_the_duration),
		cmocka_unit_test(test_runs_end_when_told_and_go_on),
		cmocka_unit_test(test_lost_permission_ends_it),
		cmocka_unit_test(test_an_error_ends_it_and_is_returned),
		cmocka_unit_test(test_a_condition_ends_it_or_with_a_ring_tells),
		cmocka_unit_test(test_a_rate_of_nothing_and_a_ring_that_grows_are_refused),
		cmocka_unit_test(test_a_ring_stays_within_its_window),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
