/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logs -> recordings: runs held against a model that looks at each tick, slices, filters, who is
 * shown, and names of a program that is really there.
 */
#include "analyze/log/log.h"
#include "analyze/unwind/unwind.h"
#include "api/options.h"
#include "base/buffer.h"
#include "files/files.h"
#include "fine.h"
#include "store/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { PERIOD = 10 };

/* Options as nobody has changed them. */
static struct snap_options *make_options(void)
{
	struct snap_options *options = calloc(1, sizeof(*options));

	options->symbols = options->lines = options->inlines = true;
	options->group_by = SNAP_GROUP_STACK;
	return options;
}

static struct snap_log *make_log(void)
{
	struct snap_host host = { .name = "host", .arch = "x86_64" };
	struct snap_log *log;

	fine(snap_log_create(&host, 1000000, PERIOD, false, &log));
	return log;
}

static uint32_t add_process(struct snap_log *log, pid_t pid, uint32_t parent, uint32_t before)
{
	struct snap_map maps[] = {
		{ .start = 0x1000, .end = 0x9000, .inode = 7, .execute = true, .path = "/bin/prog" }
	};
	struct snap_process facts = { .pid = pid,
				      .name = "prog",
				      .args = "prog",
				      .args_size = 5,
				      .arch = SNAP_ARCH_X86_64,
				      .maps = maps,
				      .map_count = 1 };
	uint32_t process, space;

	fine(snap_log_add_process(log, pid, 5, parent, before, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	return process;
}

static uint32_t add_thread(struct snap_log *log, uint32_t process, pid_t tid, const char *name)
{
	uint32_t thread;

	fine(snap_log_add_thread(log, process, tid, tid, name, false, &thread));
	return thread;
}

/* A stack of two frames: main, and the function of that number. */
static uint32_t stack_at(struct snap_log *log, uint32_t process, unsigned function)
{
	uint64_t bits[] = { 1ull << 63 | (0x2000 + function), 0x1000 };
	struct snap_log_pcs pcs = { .bits = bits, .count = 2 };
	uint32_t stack;

	fine(snap_log_stack(log, log->processes[process].space, &pcs, &stack));
	return stack;
}

static void change_to(struct snap_log *log, uint32_t thread, uint32_t stack, enum snap_state state,
		      int syscall)
{
	struct snap_log_change change = { .thread = thread,
					  .stack = stack,
					  .syscall = (int16_t)syscall,
					  .state = (uint8_t)state,
					  .taken = SNAP_TAKEN_ALONE };

	fine(snap_log_change(log, &change));
}

static void begin(struct snap_log *log)
{
	int64_t last = log->tick_count ? log->ticks[log->tick_count - 1].time_ns : -PERIOD;

	fine(snap_log_begin_tick(log, last + PERIOD));
}

static void pass(struct snap_log *log, int ticks)
{
	while (ticks-- > 0) {
		begin(log);
		snap_log_end_tick(log, 1);
	}
}

/* Names functions "fN", and those whose number ends in 5 all "same"; 0x1000 is main. */
static void name_all(struct snap_log *log)
{
	for (size_t i = log->name_count; i < log->frame_count; i++) {
		uint64_t address = log->frames[i].bits << 1 >> 1;
		struct snap_entry *entry = snap_arena_new(&log->arena, struct snap_entry);
		struct snap_frame frame = {
			.address = address,
			.module = "/bin/prog",
			.offset = snap_pc_lookup((struct snap_pc){ log->frames[i].bits }) - 0x1000,
			.has_offset = true,
			.entries = entry,
			.entry_count = 1
		};

		entry->function = address == 0x1000   ? "main"
				  : address % 10 == 5 ? "same"
						      : snap_arena_printf(&log->arena, "f%d",
									  (int)(address - 0x2000));
		entry->symbol = entry->function;
		assert_true(
			snap_reserve_array(log->names, log->name_capacity, log->name_count + 1));
		log->names[log->name_count++] = frame;
		log->frames[i].name = (uint32_t)log->name_count;
	}
}

static struct snap_recording *analyze(const struct snap_log *log,
				      const struct snap_options *options)
{
	struct snap_recording *recording;

	fine(snap_analyze_log(log, options, &recording));
	return recording;
}

static const char *function_of(const struct snap_recording *recording, const struct snap_run *run)
{
	const struct snap_recorded_stack *stack = &recording->stacks[run->stack];

	return stack->frame_count ? stack->frames[0]->entries[0].function : NULL;
}

/* ---- by hand ---- */

static void test_runs(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_log *log = make_log();
	struct snap_recording *recording;
	const struct snap_track *track;
	uint32_t process, thread, one, same, also;

	begin(log);
	process = add_process(log, 7, UINT32_MAX, UINT32_MAX);
	thread = add_thread(log, process, 7, "main");
	/* 0x2000 is 8192: 3 and 13 end in 5. */
	one = stack_at(log, process, 1);
	same = stack_at(log, process, 3);
	also = stack_at(log, process, 13);
	change_to(log, thread, one, SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 1);
	pass(log, 2);
	begin(log);
	change_to(log, thread, same, SNAP_STATE_SLEEPING, 202);
	snap_log_end_tick(log, 1);
	begin(log);
	change_to(log, thread, also, SNAP_STATE_SLEEPING, 202);
	snap_log_end_tick(log, 1);
	begin(log);
	fine(snap_log_end_thread(log, thread));
	snap_log_end_tick(log, 1);
	pass(log, 1);
	name_all(log);
	recording = analyze(log, options);
	snap_log_destroy(log);

	assert_int_equal(recording->tick_count, 7);
	assert_int_equal(recording->duration_ns, 7 * PERIOD);
	assert_int_equal(recording->process_count, 1);
	assert_string_equal(recording->processes[0].node->description, "prog");
	assert_int_equal(recording->track_count, 1);
	track = &recording->tracks[0];
	assert_string_equal(track->name, "main");
	assert_int_equal(track->run_count, 2);
	assert_int_equal(track->runs[0].first, 0);
	assert_int_equal(track->runs[0].last, 2);
	assert_string_equal(function_of(recording, &track->runs[0]), "f1");
	assert_null(track->runs[0].syscall);
	assert_int_equal(track->runs[0].taken, SNAP_TAKEN_ALONE);
	/* Two places of one function on no known line are the same stack, and one run. */
	assert_int_equal(track->runs[1].first, 3);
	assert_int_equal(track->runs[1].last, 4);
	assert_string_equal(function_of(recording, &track->runs[1]), "same");
	assert_string_equal(track->runs[1].syscall, "futex");
	assert_int_equal(recording->stack_count, 2);
	assert_string_equal(recording->stacks[0].description, "main");
	assert_int_equal(strlen(recording->stacks[0].id), 16);
	assert_false(recording->is_slice);
	snap_recording_destroy(recording);
}

static void test_ends_of_stacks(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_log *log = make_log();
	struct snap_recording *recording;
	uint64_t bits[] = { 1ull << 63 | 0x2001, 0x1100 };
	struct snap_log_pcs pcs = { .bits = bits,
				    .count = 2,
				    .end = SNAP_UNWIND_NO_CFI,
				    .end_pc = 0x10ff,
				    .reason = "no unwind information" };
	struct snap_log_pcs none = { .end = SNAP_UNWIND_NOT_STOPPED };
	uint32_t process, cut, blind, brief, stack;

	begin(log);
	process = add_process(log, 7, UINT32_MAX, UINT32_MAX);
	cut = add_thread(log, process, 7, "cut");
	brief = add_thread(log, process, 9, "brief");
	fine(snap_log_stack(log, log->processes[process].space, &pcs, &stack));
	change_to(log, cut, stack, SNAP_STATE_RUNNING, -1);
	fine(snap_log_stack(log, log->processes[process].space, &none, &stack));
	change_to(log, brief, stack, SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 1);
	/* Who goes before it could be read is no loss of the recording's. */
	begin(log);
	fine(snap_log_end_thread(log, brief));
	blind = add_thread(log, process, 8, "blind");
	change_to(log, blind, stack, SNAP_STATE_DISK, -1);
	snap_log_end_tick(log, 1);
	name_all(log);
	recording = analyze(log, options);
	snap_log_destroy(log);
	assert_int_equal(recording->stack_count, 2);
	assert_int_equal(recording->stacks[0].unwind, SNAP_UNWIND_NO_CFI);
	/* Where the file is mapped is known by a frame in it: 0x1000 is its beginning. */
	assert_string_equal(recording->stacks[0].unwind_detail, "prog+0xff: no unwind information");
	assert_int_equal(recording->stacks[1].frame_count, 0);
	assert_string_equal(recording->stacks[1].description, "(unknown)");
	assert_int_equal(recording->missing.threads, 1);
	assert_int_equal(recording->missing.shown, 1);
	snap_recording_destroy(recording);
}

/* How frames were found is in the log; equal stacks are one, shown with the least trust. */
static void test_trust(void **state _unused_)
{
	static const enum snap_unwind_end ends[] = { SNAP_UNWIND_COMPLETE, SNAP_UNWIND_SCANNED,
						     SNAP_UNWIND_COMPLETE };
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_log *log = make_log();
	struct snap_recording *recording;
	uint32_t process, thread, stack;

	begin(log);
	process = add_process(log, 7, UINT32_MAX, UINT32_MAX);
	thread = add_thread(log, process, 7, "main");
	snap_log_end_tick(log, 1);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(ends); i++) {
		struct snap_pc caller = snap_pc_return(0x1100);
		uint64_t bits[] = { snap_pc_exact(0x2001).bits, caller.bits };
		struct snap_log_pcs pcs = { .bits = bits, .count = 2, .end = ends[i] };

		if (ends[i] == SNAP_UNWIND_SCANNED)
			bits[1] = snap_pc_found_by(caller, SNAP_TRUST_SCAN).bits;
		begin(log);
		fine(snap_log_stack(log, log->processes[process].space, &pcs, &stack));
		change_to(log, thread, stack, SNAP_STATE_RUNNING, -1);
		snap_log_end_tick(log, 1);
	}
	name_all(log);
	recording = analyze(log, options);
	snap_log_destroy(log);
	assert_int_equal(recording->stack_count, 1);
	assert_int_equal(recording->stacks[0].unwind, SNAP_UNWIND_SCANNED);
	assert_int_equal(recording->stacks[0].frames[0]->trust, SNAP_TRUST_CFI);
	assert_int_equal(recording->stacks[0].frames[1]->trust, SNAP_TRUST_SCAN);
	assert_int_equal(recording->stacks[0].frames[1]->address, 0x1100);
	snap_recording_destroy(recording);
}

/* Stacks that there is no memory for are cut in their middle; what they are stays what it was. */
static void test_many_long_stacks(void **state _unused_)
{
	enum { STACKS = 100, FRAMES = 300 };
	struct snap_options *options = make_options();
	struct snap_recording *whole, *cut, *asked;
	struct snap_log *log = make_log();
	uint32_t process = add_process(log, 10, UINT32_MAX, UINT32_MAX);
	uint32_t thread = add_thread(log, process, 10, "main");

	for (uint64_t i = 0; i < STACKS; i++) {
		uint64_t bits[FRAMES] = { 1ull << 63 | 0x2000 };
		struct snap_log_pcs pcs = { .bits = bits, .count = i ? FRAMES : 3 };
		uint32_t stack;

		for (uint64_t k = 1; k < FRAMES; k++)
			bits[k] = 0x2000 + 16 * ((i * k) % 512);
		fine(snap_log_stack(log, log->processes[process].space, &pcs, &stack));
		begin(log);
		change_to(log, thread, stack, SNAP_STATE_RUNNING, -1);
		snap_log_end_tick(log, 1);
	}
	name_all(log);
	whole = analyze(log, options);
	options->max_memory = 20 * STACKS * 128;
	cut = analyze(log, options);
	options->frames_given = true;
	asked = analyze(log, options);
	assert_int_equal(whole->stack_count, STACKS);
	assert_int_equal(cut->stack_count, STACKS);
	assert_int_equal(whole->warning_count, 0);
	assert_int_equal(asked->warning_count, 0);
	assert_int_equal(cut->warning_count, 1);
	assert_string_equal(cut->warnings[0].code, "report_limited");
	assert_int_equal(cut->stacks[0].frame_count, 3);
	assert_int_equal(cut->stacks[0].gap_count, 0);
	for (int i = 1; i < STACKS; i++) {
		const struct snap_recorded_stack *stack = &cut->stacks[i];
		size_t left = stack->frame_count;

		assert_int_equal(left, 20);
		assert_int_equal(stack->gap_count, FRAMES - 20);
		assert_int_equal(stack->gap_frame, 9);
		assert_string_equal(stack->id, whole->stacks[i].id);
		assert_string_equal(stack->id, asked->stacks[i].id);
		assert_int_equal(whole->stacks[i].frame_count, FRAMES);
		assert_int_equal(stack->frames[9]->address, whole->stacks[i].frames[9]->address);
		assert_int_equal(stack->frames[10]->address,
				 whole->stacks[i].frames[FRAMES - 10]->address);
	}
	snap_recording_destroy(whole);
	snap_recording_destroy(cut);
	snap_recording_destroy(asked);
	snap_log_destroy(log);
	free(options);
}

static void test_programs_and_children(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_log *log = make_log();
	struct snap_recording *recording;
	uint32_t shell, program, child, a, b, c;

	begin(log);
	shell = add_process(log, 7, UINT32_MAX, UINT32_MAX);
	a = add_thread(log, shell, 7, "sh");
	change_to(log, a, stack_at(log, shell, 1), SNAP_STATE_RUNNING, -1);
	child = add_process(log, 9, shell, UINT32_MAX);
	b = add_thread(log, child, 9, "child");
	change_to(log, b, stack_at(log, child, 2), SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 1);
	pass(log, 1);
	begin(log);
	fine(snap_log_end_thread(log, a));
	program = add_process(log, 7, UINT32_MAX, shell);
	c = add_thread(log, program, 7, "prog");
	change_to(log, c, stack_at(log, program, 1), SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 1);
	begin(log);
	fine(snap_log_end_thread(log, b));
	snap_log_end_process(log, child);
	snap_log_end_tick(log, 1);
	name_all(log);

	recording = analyze(log, options);
	assert_int_equal(recording->process_count, 3);
	assert_int_equal(recording->processes[0].node->pid, 7);
	assert_true(recording->processes[0].execed && recording->processes[0].ended);
	assert_int_equal(recording->processes[0].last, 1);
	assert_int_equal(recording->processes[1].node->pid, 9);
	assert_int_equal(recording->processes[1].parent, 0);
	assert_int_equal(recording->processes[1].last, 2);
	assert_true(recording->processes[1].ended);
	assert_int_equal(recording->processes[2].node->pid, 7);
	assert_int_equal(recording->processes[2].first, 2);
	assert_false(recording->processes[2].ended);
	assert_int_equal(recording->processes[0].node->child_count, 1);
	assert_int_equal(recording->track_count, 3);
	assert_int_equal(recording->tracks[2].process, 2);
	/* The same place in two programs is two stacks with one id. */
	assert_int_equal(recording->stack_count, 3);
	assert_string_equal(recording->stacks[0].id, recording->stacks[2].id);
	snap_recording_destroy(recording);

	/* At the end there is neither the shell nor the child. */
	options->from = (struct snap_moment){ SNAP_MOMENT_BEFORE_END, PERIOD };
	recording = analyze(log, options);
	assert_int_equal(recording->tick_count, 1);
	assert_int_equal(recording->process_count, 1);
	assert_int_equal(recording->processes[0].first, 0);
	assert_int_equal(recording->track_count, 1);
	assert_string_equal(recording->tracks[0].name, "prog");
	assert_int_equal(recording->stack_count, 1);
	assert_true(recording->is_slice);
	snap_recording_destroy(recording);
	snap_log_destroy(log);
}

static void test_filters(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_log *log = make_log();
	struct snap_recording *recording;
	regex_t regex;
	uint32_t process, worker, flusher;

	begin(log);
	process = add_process(log, 7, UINT32_MAX, UINT32_MAX);
	worker = add_thread(log, process, 7, "worker-1");
	flusher = add_thread(log, process, 8, "flusher");
	change_to(log, worker, stack_at(log, process, 1), SNAP_STATE_RUNNING, -1);
	change_to(log, flusher, stack_at(log, process, 2), SNAP_STATE_DISK, 74);
	snap_log_end_tick(log, 1);
	begin(log);
	change_to(log, worker, stack_at(log, process, 4), SNAP_STATE_SLEEPING, 202);
	snap_log_end_tick(log, 1);
	name_all(log);

	options->states = 1u << SNAP_STATE_RUNNING;
	recording = analyze(log, options);
	assert_int_equal(recording->track_count, 1);
	assert_int_equal(recording->tracks[0].run_count, 1);
	assert_int_equal(recording->tracks[0].runs[0].last, 0);
	assert_int_equal(recording->stack_count, 1);
	snap_recording_destroy(recording);
	options->states = 0;

	assert_int_equal(regcomp(&regex, "^flush", REG_EXTENDED | REG_NOSUB), 0);
	options->thread_regex = &regex;
	recording = analyze(log, options);
	assert_int_equal(recording->track_count, 1);
	assert_string_equal(recording->tracks[0].name, "flusher");
	assert_string_equal(recording->tracks[0].runs[0].syscall, "fsync");
	snap_recording_destroy(recording);
	options->thread_regex = NULL;
	regfree(&regex);

	assert_int_equal(regcomp(&regex, "f4", REG_EXTENDED | REG_NOSUB), 0);
	options->match_regex = &regex;
	recording = analyze(log, options);
	assert_int_equal(recording->track_count, 1);
	assert_int_equal(recording->tracks[0].runs[0].first, 1);
	snap_recording_destroy(recording);
	regfree(&regex);

	/* Nothing is left: then there is not even the process. */
	assert_int_equal(regcomp(&regex, "nowhere", REG_EXTENDED | REG_NOSUB), 0);
	recording = analyze(log, options);
	assert_int_equal(recording->track_count, 0);
	assert_int_equal(recording->process_count, 0);
	assert_int_equal(recording->tick_count, 2);
	snap_recording_destroy(recording);
	regfree(&regex);
	snap_log_destroy(log);
}

static void expect_invalid(const struct snap_log *log, struct snap_moment from,
			   struct snap_moment to, const char *message)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_recording *recording;
	struct stacksnap_error *err;

	options->from = from;
	options->to = to;
	err = snap_analyze_log(log, options, &recording);
	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_INVALID);
	assert_non_null(strstr(snap_error_message(err), message));
	snap_error_destroy(err);
}

static void test_slices_that_make_no_sense(void **state _unused_)
{
	static const struct snap_moment none;
	struct snap_log *log = make_log();

#define AT(ns) ((struct snap_moment){ SNAP_MOMENT_SINCE_START, ns })
#define BEFORE(ns) ((struct snap_moment){ SNAP_MOMENT_BEFORE_END, ns })
#define EPOCH(ns) ((struct snap_moment){ SNAP_MOMENT_EPOCH, ns })
	expect_invalid(log, AT(0), none, "has no samples");
	pass(log, 5);
	expect_invalid(log, AT(50), none, "--from is after the end");
	expect_invalid(log, EPOCH(1000050), none, "--from is after the end");
	expect_invalid(log, EPOCH(INT64_MAX), none, "--from is after the end");
	expect_invalid(log, none, EPOCH(999999), "--to is before the beginning");
	expect_invalid(log, none, EPOCH(INT64_MIN), "is not before");
	expect_invalid(log, none, AT(0), "--to is before the beginning");
	expect_invalid(log, AT(30), AT(20), "--from is not before --to");
	expect_invalid(log, AT(31), AT(39), "there is no sample");
	expect_invalid(log, BEFORE(10), BEFORE(20), "--from is not before --to");
	snap_log_destroy(log);
}

/* ---- against a model ---- */

enum { MODEL_TICKS = 200, MODEL_THREADS = 12, FUNCTIONS = 6 };

/* Where each thread stands at each tick: function + 1, 0: nowhere. */
struct model {
	unsigned char at[MODEL_TICKS][MODEL_THREADS];
	struct snap_log *log;
};

static void play(struct model *model, unsigned random)
{
	struct snap_log *log = model->log = make_log();
	uint32_t process[2], thread[MODEL_THREADS];

	for (int tick = 0; tick < MODEL_TICKS; tick++) {
		begin(log);
		for (int i = 0; i < 2 && tick == 0; i++)
			process[i] = add_process(log, 10 + i, UINT32_MAX, UINT32_MAX);
		for (int i = 0; i < MODEL_THREADS; i++) {
			unsigned char *at = &model->at[tick][i];

			if (tick == 0)
				thread[i] = add_thread(log, process[i % 2], 100 - i, "t");
			*at = tick ? model->at[tick - 1][i] : 0;
			random = random * 1103515245u + 12345u;
			if ((random >> 8) % 8)
				continue;
			*at = (unsigned char)((random >> 16) % (FUNCTIONS + 1));
			change_to(log, thread[i],
				  *at ? stack_at(log, process[i % 2], *at) : SNAP_LOG_GONE,
				  *at % 2 ? SNAP_STATE_RUNNING : SNAP_STATE_SLEEPING, -1);
		}
		snap_log_end_tick(log, 1);
	}
	name_all(log);
}

static void compare(const struct model *model, const struct snap_recording *recording, int from,
		    int to)
{
	size_t samples = 0, expected = 0;

	assert_int_equal(recording->tick_count, to - from);
	for (int tick = from; tick < to; tick++)
		for (int i = 0; i < MODEL_THREADS; i++)
			expected += model->at[tick][i] != 0;
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];
		int thread = 100 - track->tid;

		assert_int_equal(recording->processes[track->process].node->pid, 10 + thread % 2);
		if (i)
			assert_true(track[-1].process < track->process ||
				    (track[-1].process == track->process &&
				     track[-1].tid < track->tid));
		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_run *run = &track->runs[k];
			char name[8];

			assert_true(run->first <= run->last && run->last < recording->tick_count);
			if (k)
				assert_true(run[-1].last < run->first);
			assert_int_equal(recording->stacks[run->stack].process, track->process);
			for (uint32_t tick = run->first; tick <= run->last; tick++) {
				snprintf(name, sizeof(name), "f%d",
					 model->at[(uint32_t)from + tick][thread]);
				assert_string_equal(function_of(recording, run),
						    strcmp(name, "f3") ? name : "same");
			}
			samples += snap_run_samples(run);
			/* Equal neighbours are one. */
			if (k && run[-1].last + 1 == run->first)
				assert_true(run[-1].stack != run->stack);
		}
	}
	assert_int_equal(samples, expected);
	for (size_t i = 0; i < recording->stack_count; i++) {
		bool used = false;

		for (size_t k = 0; k < recording->track_count; k++)
			for (size_t r = 0; r < recording->tracks[k].run_count; r++)
				used = used || recording->tracks[k].runs[r].stack == i;
		assert_true(used);
	}
}

static void test_model(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct model model;

	for (unsigned seed = 1; seed < 20; seed++) {
		play(&model, seed);
		for (int i = 0; i < 20; i++) {
			int from = i ? (int)(seed * 7 + (unsigned)i * 31) % (MODEL_TICKS - 1) : 0;
			int to = i ? from + 1 + (i * 13) % (MODEL_TICKS - from) : MODEL_TICKS;
			struct snap_recording *recording;

			options->from =
				(struct snap_moment){ SNAP_MOMENT_SINCE_START, from * PERIOD };
			options->to = (struct snap_moment){ SNAP_MOMENT_SINCE_START, to * PERIOD };
			recording = analyze(model.log, options);
			compare(&model, recording, from, to);
			snap_recording_destroy(recording);
		}
		snap_log_destroy(model.log);
	}
}

/* A ring that has forgotten its beginning tells the same of the rest. */
static void test_model_of_ring(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_recording *recording;
	struct model model;
	bool renumbered;

	play(&model, 77);
	fine(snap_log_forget(model.log, 120 * PERIOD, &renumbered));
	recording = analyze(model.log, options);
	compare(&model, recording, 120, MODEL_TICKS);
	assert_true(recording->is_slice);
	snap_recording_destroy(recording);
	/* Times count from the first sample that is left, dates from the beginning of the run. */
	options->from = (struct snap_moment){ SNAP_MOMENT_SINCE_START, 10 * PERIOD };
	options->to = (struct snap_moment){ SNAP_MOMENT_SINCE_START, 30 * PERIOD };
	recording = analyze(model.log, options);
	compare(&model, recording, 130, 150);
	snap_recording_destroy(recording);
	options->from =
		(struct snap_moment){ SNAP_MOMENT_EPOCH, model.log->time_ns + 140 * PERIOD };
	options->to = (struct snap_moment){ SNAP_MOMENT_BEFORE_END, 20 * PERIOD };
	recording = analyze(model.log, options);
	compare(&model, recording, 140, MODEL_TICKS - 20);
	snap_recording_destroy(recording);
	snap_log_destroy(model.log);
}

/* ---- names ---- */

int named_function(int number);

__attribute__((noinline)) int named_function(int number)
{
	return number * 3 + 1;
}

/* This process, as far as its mappings go. */
static size_t own_maps(struct snap_map *maps, size_t most, struct snap_arena *arena)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[8192], permissions[8], path[4096];
	size_t count = 0;

	assert_non_null(file);
	while (count < most && fgets(line, sizeof(line), file)) {
		unsigned long long start, end, offset, inode;
		unsigned major, minor;

		path[0] = '\0';
		if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %4095[^\n]", &start, &end,
			   permissions, &offset, &major, &minor, &inode, path) < 7)
			continue;
		maps[count++] = (struct snap_map){ .start = start,
						   .end = end,
						   .offset = offset,
						   .inode = inode,
						   .dev_major = major,
						   .dev_minor = minor,
						   .read = permissions[0] == 'r',
						   .write = permissions[1] == 'w',
						   .execute = permissions[2] == 'x',
						   .path = path[0] ? snap_arena_strdup(arena, path)
								   : NULL };
	}
	fclose(file);
	return count;
}

enum { LONG_NAMES = 4000, FEW_NAMES = 10, LONG_NAME = 4000 };

/* A perf map of functions with very long names. */
static struct stacksnap_error *find_perf_map(void *context _unused_,
					     const struct snap_file_request *request, int *fd_ret)
{
	char name[LONG_NAME + 1];
	FILE *map;

	if (request->kind != SNAP_FILE_PERF_MAP)
		return snap_error_not_found();
	map = tmpfile();
	assert_non_null(map);
	memset(name, 'n', LONG_NAME);
	name[LONG_NAME] = '\0';
	for (int i = 0; i < LONG_NAMES; i++)
		fprintf(map, "%x 10 f%05d%s\n", (unsigned)(0x100000 + 16 * i), i, name);
	fflush(map);
	rewind(map);
	*fd_ret = dup(fileno(map));
	fclose(map);
	return NULL;
}

/* The names of a process with very many are short, those of one with few are not. */
static void test_long_names_take_their_part(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_file_finder finder = { .find = find_perf_map };
	struct snap_map map = { .start = 0x100000, .end = 0x200000, .read = true, .execute = true };
	struct snap_process facts = { .pid = 10, .name = "jit", .maps = &map, .map_count = 1 };
	uint64_t *bits = calloc(LONG_NAMES, sizeof(*bits));
	struct snap_log_pcs pcs = { .bits = bits, .count = LONG_NAMES };
	struct snap_log *log = make_log();
	uint32_t process, space, stack;

	options->max_memory = 16 << 20;
	for (uint64_t i = 0; i < LONG_NAMES; i++)
		bits[i] = 1ull << 63 | (0x100000 + 16 * i);
	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	fine(snap_log_stack(log, space, &pcs, &stack));
	facts.pid = 11;
	pcs.count = FEW_NAMES;
	fine(snap_log_add_process(log, 11, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	fine(snap_log_stack(log, space, &pcs, &stack));
	fine(snap_analyze_log_names(log, options, &finder));
	assert_int_equal(log->name_count, LONG_NAMES + FEW_NAMES);
	for (int i = 0; i < LONG_NAMES + FEW_NAMES; i++) {
		const char *name = log->names[i].entries[0].function;
		char begin_of[8];

		assert_non_null(name);
		snprintf(begin_of, sizeof(begin_of), "f%05d", i % LONG_NAMES);
		assert_int_equal(strncmp(name, begin_of, 6), 0);
		assert_int_equal(strlen(name) == 256, i < LONG_NAMES);
	}
	assert_true(log->arena.total < 6 << 20);
	free(bits);
	snap_log_destroy(log);
}

static void test_names(void **state _unused_)
{
	_cleanup_free_ struct snap_options *options = make_options();
	struct snap_arena arena = { 0 };
	struct snap_map maps[400];
	struct snap_process facts = { .pid = getpid(), .name = "self", .uid = getuid() };
	struct snap_log *log = make_log();
	struct snap_live live = { -1, -1, -1, -1, -1 };
	uint64_t bits[] = { 1ull << 63 | (uint64_t)(uintptr_t)named_function, 0x10 };
	struct snap_log_pcs pcs = { .bits = bits, .count = 2 };
	struct snap_files *files;
	struct snap_file_finder finder;
	struct snap_recording *recording;
	const struct snap_frame *frame;
	uint32_t process, space, stack;
	char fd_path[64];

	facts.maps = maps;
	facts.map_count = own_maps(maps, SNAP_ARRAY_SIZE(maps), &arena);
	snprintf(fd_path, sizeof(fd_path), "/proc/%d", getpid());
	live.proc_fd = open(fd_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	live.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	begin(log);
	fine(snap_log_add_process(log, getpid(), 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, &live, &space));
	fine(snap_log_stack(log, space, &pcs, &stack));
	change_to(log, add_thread(log, process, getpid(), "self"), stack, SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 1);
	fine(snap_files_create(options, log->capture, &files));
	finder = snap_files_finder(files);
	fine(snap_analyze_log_names(log, options, &finder));
	assert_int_equal(log->name_count, 2);
	/* Named once. */
	fine(snap_analyze_log_names(log, options, &finder));
	assert_int_equal(log->name_count, 2);
	snap_files_destroy(files);

	recording = analyze(log, options);
	frame = recording->stacks[0].frames[0];
	assert_string_equal(frame->entries[0].function, "named_function");
	assert_non_null(strstr(frame->entries[0].file, "test_analyze_log.c"));
	assert_true(frame->entries[0].line > 0);
	assert_non_null(strstr(frame->module, program_invocation_short_name));
	assert_true(frame->has_offset && frame->file_offset);
	assert_non_null(frame->build_id);
	/* What lies nowhere has an entry all the same. */
	frame = recording->stacks[0].frames[1];
	assert_int_equal(frame->entry_count, 1);
	assert_null(frame->entries[0].function);
	assert_null(frame->module);
	snap_recording_destroy(recording);

	options->lines = false;
	recording = analyze(log, options);
	assert_null(recording->stacks[0].frames[0]->entries[0].file);
	assert_string_equal(recording->stacks[0].frames[0]->entries[0].function, "named_function");
	snap_recording_destroy(recording);
	options->symbols = false;
	recording = analyze(log, options);
	assert_null(recording->stacks[0].frames[0]->entries[0].function);
	snap_recording_destroy(recording);
	snap_live_close(&live);
	snap_log_destroy(log);
	snap_arena_deinit(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_many_long_stacks),
		cmocka_unit_test(test_ends_of_stacks),
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_programs_and_children),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_slices_that_make_no_sense),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_model_of_ring),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_names_take_their_part),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
