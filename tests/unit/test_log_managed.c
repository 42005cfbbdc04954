/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed frames and labels in logs: told apart, forgotten and renumbered, paid for, written, read,
 * and shown as a recording shows them.
 */
#include "analyze/log/log.h"
#include "base/buffer.h"
#include "fine.h"
#include "render/render.h"
#include "store/log/index.h"
#include "store/recording/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PERIOD = 10, SLEEP = 0x2000, GLUE = 0x2100, LOOP = 0x2200, WORK = 0x2300, MAIN = 0x2400 };

static const char PYTHON[] = "/usr/bin/python3.11";

static struct snap_log *make_log(uint64_t limit)
{
	struct snap_host host = { .name = "host", .arch = "x86_64" };
	struct snap_process facts = {
		.pid = 7, .name = "prog", .arch = SNAP_ARCH_X86_64, .parent = SIZE_MAX
	};
	struct snap_log *log;
	uint32_t number;

	fine(snap_log_create(&host, 1000000, PERIOD, false, &log));
	snap_log_set_limit(log, limit);
	fine(snap_log_add_process(log, 7, 5, UINT32_MAX, UINT32_MAX, true, &number));
	fine(snap_log_map_process(log, number, &facts, NULL, &number));
	fine(snap_log_add_thread(log, 0, 7, 7, "main", false, &number));
	return log;
}

/* A frame of Python in the log's arena, or of an address alone (its first letter is a digit). */
static uint32_t stack_at(struct snap_log *log, const char *frames, struct snap_log_pcs pcs)
{
	struct snap_log_managed managed[16];
	struct snap_frame names[16] = { 0 };
	struct snap_entry entries[16] = { 0 };
	uint64_t bits[16] = { 0 };
	char text[256], *rest = text, *word;
	uint32_t stack;

	snprintf(text, sizeof(text), "%s", frames);
	while ((word = strtok_r(rest, " ", &rest))) {
		size_t i = pcs.count++;

		bits[i] = strtoull(word, NULL, 16);
		if (*word == '0')
			continue;
		entries[i] = (struct snap_entry){
			.function = word, .file = "/srv/a.py", .line = 4, .language = "python"
		};
		names[i] = (struct snap_frame){ .entries = &entries[i], .entry_count = 1 };
		managed[pcs.managed_count++] = (struct snap_log_managed){ i, &names[i] };
	}
	pcs.bits = bits;
	pcs.managed = managed;
	fine(snap_log_stack(log, 0, &pcs, &stack));
	return stack;
}

static uint32_t plain_stack(struct snap_log *log, const char *frames)
{
	return stack_at(log, frames, (struct snap_log_pcs){ 0 });
}

static uint32_t labelled_stack(struct snap_log *log, const char *frames, const char *value)
{
	const struct snap_label labels[] = { { "request_uri", value }, { "task", "mine" } };

	return stack_at(log, frames, (struct snap_log_pcs){ .labels = labels, .label_count = 2 });
}

static void tick(struct snap_log *log, uint32_t stack)
{
	struct snap_log_change change = { .stack = stack,
					  .syscall = -1,
					  .state = SNAP_STATE_RUNNING };
	int64_t last = log->tick_count ? log->ticks[log->tick_count - 1].time_ns : -PERIOD;

	fine(snap_log_begin_tick(log, last + PERIOD));
	fine(snap_log_change(log, &change));
	snap_log_end_tick(log, 0);
}

/* Machine frames get the names that an interpreter's have. */
static void name_all(struct snap_log *log)
{
	static const char *const names[] = { "time_sleep", "cfunction_vectorcall",
					     "_PyEval_EvalFrameDefault", "c_work", "main" };

	for (size_t i = 0; i < log->frame_count; i++) {
		struct snap_entry *entry = snap_arena_new(&log->arena, struct snap_entry);

		if (log->frames[i].name)
			continue;
		entry->function = names[(log->frames[i].bits - SLEEP) / 0x100];
		assert_true(
			snap_reserve_array(log->names, log->name_capacity, log->name_count + 1));
		log->names[log->name_count++] = (struct snap_frame){ .address = log->frames[i].bits,
								     .module = PYTHON,
								     .entries = entry,
								     .entry_count = 1 };
		log->frames[i].name = (uint32_t)log->name_count;
	}
}

static struct snap_recording *analyze(const struct snap_log *log, bool native)
{
	struct snap_options options = { .symbols = true,
					.lines = true,
					.inlines = true,
					.native = native,
					.group_by = SNAP_GROUP_STACK };
	struct snap_recording *recording;

	fine(snap_analyze_log(log, &options, &recording));
	return recording;
}

/* The functions of the stacks, with their labels. */
static char *stacks_of(const struct snap_recording *recording)
{
	struct snap_buffer text = { 0 };
	size_t size;

	for (size_t i = 0; i < recording->stack_count; i++) {
		const struct snap_recorded_stack *stack = &recording->stacks[i];

		for (size_t k = 0; k < stack->frame_count; k++)
			snap_buffer_printf(&text, "%s%s",
					   k   ? " "
					   : i ? "; "
					       : "",
					   stack->frames[k]->entries[0].function);
		for (size_t k = 0; k < stack->label_count; k++)
			snap_buffer_printf(&text, " %s=%s", stack->labels[k].key,
					   stack->labels[k].value);
	}
	assert_false(text.failed);
	return snap_buffer_take(&text, &size);
}

static void assert_stacks(const struct snap_log *log, bool native, const char *expected)
{
	struct snap_recording *recording = analyze(log, native);
	_cleanup_free_ char *stacks = stacks_of(recording);

	assert_string_equal(stacks, expected);
	snap_recording_destroy(recording);
}

/* ---- the log ---- */

static void test_told_apart(void **state _unused_)
{
	struct snap_log *log = make_log(0);
	uint32_t one = plain_stack(log, "f 0x2000 g"), frame;
	struct snap_entry entry;
	struct snap_frame other;

	assert_int_equal(plain_stack(log, "f 0x2000 g"), one);
	assert_int_not_equal(plain_stack(log, "f 0x2000 h"), one);
	assert_int_not_equal(labelled_stack(log, "f 0x2000 g", "/"), one);
	assert_int_not_equal(labelled_stack(log, "f 0x2000 g", "/"),
			     labelled_stack(log, "f 0x2000 g", "/b"));
	assert_int_equal(log->label_set_count, 2);
	assert_int_not_equal(
		stack_at(log, "f 0x2000 g", (struct snap_log_pcs){ .shows_all = true }), one);
	assert_int_equal(log->frame_count, 4);
	/* A machine's pc may have any bits: those of a managed frame, too. */
	frame = log->frame_ids[log->stacks[one].frame_start];
	assert_true(log->frames[frame].is_managed);
	fine(snap_log_stack(log, 0,
			    &(struct snap_log_pcs){ .bits = &log->frames[frame].bits, .count = 1 },
			    &one));
	assert_int_equal(log->frame_count, 5);
	assert_false(log->frames[log->frame_ids[log->stacks[one].frame_start]].is_managed);
	/* Everything that is shown tells frames apart. */
	entry = log->names[log->frames[frame].name - 1].entries[0];
	other = (struct snap_frame){ .entries = &entry, .entry_count = 1 };
	fine(snap_log_find_managed(log, 0, &other, false, &one));
	assert_int_equal(one, frame);
	entry.line++;
	fine(snap_log_find_managed(log, 0, &other, false, &one));
	assert_int_equal(one, UINT32_MAX);
	entry.line--;
	entry.file = NULL;
	fine(snap_log_find_managed(log, 0, &other, false, &one));
	assert_int_equal(one, UINT32_MAX);
	snap_log_destroy(log);
}

static void test_forgotten(void **state _unused_)
{
	struct snap_log *log = make_log(0);
	uint32_t stack;
	bool renumbered;

	tick(log, labelled_stack(log, "old 0x2200", "/old"));
	tick(log, labelled_stack(log, "0x2000 0x2100 f 0x2200 0x2400", "/new"));
	name_all(log);
	tick(log, labelled_stack(log, "g 0x2200 0x2400", "/new"));
	tick(log, labelled_stack(log, "g 0x2200 0x2400", "/new"));
	fine(snap_log_forget_half(log, &renumbered));
	assert_true(renumbered);
	assert_int_equal(log->tick_count, 2);
	assert_int_equal(log->label_set_count, 1);
	/* How it stood before is told, too. */
	assert_int_equal(log->frame_count, 6);
	assert_int_equal(log->name_count, 6);
	name_all(log);
	assert_stacks(log, false, "g request_uri=/new task=mine");
	/* What is left is found again, and what is new comes behind it. */
	stack = labelled_stack(log, "g 0x2200 0x2400", "/new");
	assert_int_equal(stack, log->changes[log->change_count - 1].stack);
	tick(log, labelled_stack(log, "0x2000 old 0x2200", "/old"));
	assert_int_equal(log->label_set_count, 2);
	name_all(log);
	assert_stacks(log, false,
		      "g request_uri=/new task=mine; "
		      "time_sleep old request_uri=/old task=mine");
	snap_log_destroy(log);
}

/* A program that has a new function and a new request each time spoils its own stacks. */
static void test_paid_for(void **state _unused_)
{
	struct snap_log *log = make_log(4 << 20);
	char frames[200], value[600];

	memset(value, 'v', sizeof(value));
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(frames, sizeof(frames), "%0100u_f g%0*u 0x2000", 9, 50, i);
		frames[0] = 'f';
		snprintf(value + 500, 90, "%u", i);
		tick(log, labelled_stack(log, frames, value));
	}
	assert_true(log->cuts & SNAP_LOG_CUT_LABELS);
	assert_true(log->cuts & SNAP_LOG_CUT_ALL);
	assert_true(log->index->things < 4 << 19);
	assert_true(log->arena.total < 4 << 19);
	snap_log_destroy(log);
}

/* ---- shown ---- */

static void test_shown(void **state _unused_)
{
	struct snap_log *log = make_log(0);

	tick(log, plain_stack(log, "0x2000 0x2100 f 0x2200 0x2300 g h 0x2200 0x2400"));
	name_all(log);
	assert_stacks(log, false, "time_sleep f c_work g h");
	assert_stacks(log, true,
		      "time_sleep cfunction_vectorcall f _PyEval_EvalFrameDefault c_work g h "
		      "_PyEval_EvalFrameDefault main");
	snap_log_destroy(log);
	/* They did not fit together. */
	log = make_log(0);
	tick(log, stack_at(log, "f 0x2000 0x2200 0x2400",
			   (struct snap_log_pcs){ .shows_all = true, .reason = "do not fit" }));
	name_all(log);
	assert_stacks(log, false, "f time_sleep _PyEval_EvalFrameDefault main");
	snap_log_destroy(log);
}

/* What lies beside a gap was not run by what lies on the other side. */
static void test_gap(void **state _unused_)
{
	struct snap_log *log = make_log(0);
	struct snap_log_pcs pcs = { .gap_after = 3, .gap_count = 10 };
	struct snap_recording *recording;

	tick(log, stack_at(log, "0x2000 f 0x2200 g 0x2300 0x2400", pcs));
	name_all(log);
	assert_stacks(log, false, "time_sleep f g c_work");
	recording = analyze(log, false);
	assert_int_equal(recording->stacks[0].gap_frame, 2);
	assert_int_equal(recording->stacks[0].gap_count, 10);
	snap_recording_destroy(recording);
	snap_log_destroy(log);
}

/* As a file of its own, what is left out stays so, and nothing else goes. */
static void test_written_as_shown(void **state _unused_)
{
	_cleanup_free_ char *bytes = NULL;
	_cleanup_fd_ int fd = memfd_create("shown", MFD_CLOEXEC);
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	struct snap_log *log = make_log(0);
	struct snap_recording *recording;
	size_t size;
	FILE *out = open_memstream(&bytes, &size);

	tick(log, labelled_stack(log, "0x2000 f 0x2200 0x2300 g 0x2200 0x2400", "/a"));
	name_all(log);
	recording = analyze(log, false);
	snap_log_destroy(log);
	fine(snap_render_recording(snap_format_by_name("snaprec"), recording, &options, out));
	fclose(out);
	snap_recording_destroy(recording);
	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	fine(snap_log_read(fd, &log));
	assert_stacks(log, false, "time_sleep f c_work g request_uri=/a task=mine");
	snap_log_destroy(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told_apart), cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_paid_for),   cmocka_unit_test(test_shown),
		cmocka_unit_test(test_gap),        cmocka_unit_test(test_written_as_shown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
