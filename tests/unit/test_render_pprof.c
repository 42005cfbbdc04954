/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Profiles for pprof, read back: the rules of the format, and what a profile says of a recording.
 */
#include "pprof_reader.h"
#include "recordings.h"
#include "render/render.h"
#include "task_snapshots.h"
#include "waited_recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

static char *unpack(char *file, size_t length, size_t *size_ret)
{
	z_stream stream = { .next_in = (Bytef *)file, .avail_in = (uInt)length };
	size_t room = 1 << 22;
	char *bytes = malloc(room);

	assert_non_null(bytes);
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	stream.next_out = (Bytef *)bytes;
	stream.avail_out = (uInt)room;
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	*size_ret = stream.total_out;
	inflateEnd(&stream);
	return bytes;
}

static char *render(const struct snap_recording *recording, unsigned group_by,
		    enum snap_explain explain, size_t *length_ret)
{
	struct snap_options options = { .group_by = group_by, .explain = explain };
	char *file = NULL;
	FILE *out = open_memstream(&file, length_ret);

	assert_non_null(out);
	assert_null(snap_render_pprof(recording, &options, out));
	assert_int_equal(fclose(out), 0);
	return file;
}

/* Rendered, unpacked, decoded, and nothing found wrong with it. */
static struct read_profile *profile_explained(const struct snap_recording *recording,
					      unsigned group_by, enum snap_explain explain)
{
	struct read_profile *profile = NULL;
	size_t length, size;
	_cleanup_free_ char *file = render(recording, group_by, explain, &length);
	_cleanup_free_ char *bytes = unpack(file, length, &size);
	const char *wrong = read_and_check(bytes, size, &profile);

	if (wrong)
		fail_msg("%s", wrong);
	return profile;
}

static struct read_profile *profile_of(const struct snap_recording *recording, unsigned group_by)
{
	return profile_explained(recording, group_by, SNAP_EXPLAIN_SURE);
}

static struct read_profile *profile_of_snapshot(const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;

	assert_null(snap_recording_of_snapshot(snapshot, &recording));
	return profile_of(recording, SNAP_GROUP_STACK);
}

static const char *text(const struct read_profile *profile, uint64_t index)
{
	assert_true(index < profile->string_count);
	return profile->strings[index];
}

static const char *label(const struct read_profile *profile, const struct read_sample *sample,
			 const char *key)
{
	static char number[32];

	for (size_t i = 0; i < sample->label_count; i++) {
		if (strcmp(text(profile, sample->labels[i].key), key) != 0)
			continue;
		if (sample->labels[i].text)
			return text(profile, sample->labels[i].text);
		snprintf(number, sizeof(number), "%llu",
			 (unsigned long long)sample->labels[i].number);
		return number;
	}
	return "";
}

/* The sum of a value over the samples whose label is so; key NULL: over all. */
static uint64_t sum(const struct read_profile *profile, size_t value, const char *key,
		    const char *wanted)
{
	uint64_t total = 0;

	for (size_t i = 0; i < profile->sample_count; i++)
		if (!key || strcmp(label(profile, &profile->samples[i], key), wanted) == 0)
			total += profile->samples[i].values[value];
	return total;
}

static const struct read_row *location_of(const struct read_profile *profile, const char *function)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct read_row *location = &profile->locations[i], *found;

		for (size_t k = 0; k < location->line_count; k++) {
			found = read_by_id(profile->functions, profile->function_count,
					   location->lines[k].fields[1]);
			if (found && strcmp(text(profile, found->fields[2]), function) == 0)
				return location;
		}
	}
	fail_msg("no location of %s", function);
	return NULL;
}

static void test_snapshot_counts_threads(void **state _unused_)
{
	_cleanup_(read_free) struct read_profile *profile = profile_of_snapshot(&service);

	assert_int_equal(profile->type_count, 1);
	assert_string_equal(text(profile, profile->types[0].fields[1]), "threads");
	assert_string_equal(text(profile, profile->types[0].fields[2]), "count");
	assert_string_equal(text(profile, profile->period_type.fields[1]), "snapshot");
	assert_string_equal(text(profile, profile->period_type.fields[2]), "count");
	assert_int_equal(profile->facts.fields[12], 1);
	assert_string_equal(text(profile, profile->facts.fields[14]), "threads");
	assert_string_equal(text(profile, profile->facts.fields[13]),
			    "stacksnap " SNAP_VERSION
			    ": orderd[1234] and 1 more, stopped for 7.4 ms");
	assert_int_equal(profile->facts.fields[9], service.time_ns);
	assert_int_equal(profile->facts.fields[10], 0);
	assert_int_equal(sum(profile, 0, NULL, NULL), 17);
	assert_int_equal(sum(profile, 0, "state", "disk"), 2);
	assert_int_equal(sum(profile, 0, "pid", "1310"), 1);
	assert_int_equal(sum(profile, 0, "wchan", "folio_wait_bit"), 1);
	assert_int_equal(sum(profile, 0, "unit", "orderd.service"), 17);
	assert_int_equal(sum(profile, 0, "tid", ""), 17);
}

static void test_recording_weighs_samples(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(read_free) struct read_profile *profile = profile_of(recording, SNAP_GROUP_STACK);
	uint64_t samples = recording->stats.thread_samples;

	assert_int_equal(profile->type_count, 2);
	assert_string_equal(text(profile, profile->types[0].fields[1]), "samples");
	assert_string_equal(text(profile, profile->types[1].fields[1]), "wall");
	assert_string_equal(text(profile, profile->types[1].fields[2]), "nanoseconds");
	assert_string_equal(text(profile, profile->period_type.fields[1]), "wall");
	assert_int_equal(profile->facts.fields[12], RECORDED_PERIOD);
	assert_int_equal(profile->facts.fields[10], recording->duration_ns);
	assert_string_equal(text(profile, profile->facts.fields[14]), "wall");
	assert_string_equal(text(profile, profile->facts.fields[13]),
			    "stacksnap " SNAP_VERSION
			    ": orderd[1234] and 1 more, 120.0 ms at 100 Hz, "
			    "stopped 0.83 %, 2 ticks missed");
	assert_int_equal(sum(profile, 0, NULL, NULL), samples);
	assert_int_equal(sum(profile, 1, NULL, NULL), samples * RECORDED_PERIOD);
	/* The walker's three and three, the flusher's one, the main thread and the helper. */
	assert_int_equal(sum(profile, 0, "state", "running"), 6 + 1 + 10 + 10);
	assert_int_equal(sum(profile, 0, "thread_name", "worker-11"), 4);
	assert_int_equal(sum(profile, 0, "thread_name", "reindex"), 10);
}

/* What threads did in a stack, a request or a task, is told with its samples. */
static void test_labels_of_stacks(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(read_free) struct read_profile *profile = NULL;
	struct snap_label labels[] = { { "request_uri", "/a\xff" }, { "task", "load" } };
	const struct snap_run *run = &recording->tracks[0].runs[0];
	uint64_t samples = 0;

	recording->stacks[run->stack].labels = labels;
	recording->stacks[run->stack].label_count = 2;
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++)
			if (recording->tracks[i].runs[k].stack == run->stack)
				samples += snap_run_samples(&recording->tracks[i].runs[k]);
	profile = profile_of(recording, SNAP_GROUP_STACK);
	assert_int_equal(sum(profile, 0, "task", "load"), samples);
	assert_true(sum(profile, 0, "request_uri", "") < sum(profile, 0, NULL, NULL));
}

static void test_a_slice_begins_later(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(read_free) struct read_profile *profile = NULL;

	recording->ticks += 3;
	recording->tick_count -= 3;
	recording->is_slice = true;
	recording->cpu_only = true;
	profile = profile_of(recording, SNAP_GROUP_STACK);
	assert_int_equal(profile->facts.fields[9], service.time_ns + 3 * RECORDED_PERIOD);
	assert_non_null(
		strstr(text(profile, profile->facts.fields[13]),
		       "at 100 Hz of running threads, stopped 0.58 %, 2 ticks missed in the "
		       "whole run"));
}

static void test_samples_are_added_up_unless_threads_matter(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(read_free) struct read_profile *together = NULL, *apart = NULL;

	for (size_t i = 0; i < recording->track_count; i++)
		recording->tracks[i].name = i % 2 ? "same" : strdupa("same");
	together = profile_of(recording, SNAP_GROUP_STACK);
	apart = profile_of(recording, SNAP_GROUP_STACK | SNAP_GROUP_TID);
	assert_true(together->sample_count < apart->sample_count);
	assert_int_equal(sum(together, 0, NULL, NULL), sum(apart, 0, NULL, NULL));
	assert_int_equal(sum(apart, 0, "tid", "1302"), 10);
	assert_int_equal(sum(apart, 0, "tid", ""), 0);
	/* Eleven workers in the same wait, and the one who is born late. */
	for (size_t i = 0; i < together->sample_count; i++)
		for (size_t k = 0; k < i; k++)
			assert_memory_not_equal(&together->samples[i], &together->samples[k],
						sizeof(together->samples[i]));
}

/* In the same place and state, but in another system call, or waiting elsewhere in the kernel. */
static void test_waits_are_told_apart(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(read_free) struct read_profile *profile = NULL;

	for (size_t i = 0; i < recording->track_count; i++)
		recording->tracks[i].name = "same";
	for (size_t i = 0; i < recording->track_count; i++) {
		struct snap_track *track = &recording->tracks[i];

		if (track->tid == 1240)
			track->runs[0].syscall = "read";
		if (track->tid == 1241)
			track->runs[0].wchan = "pipe_read";
	}
	profile = profile_of(recording, SNAP_GROUP_STACK);
	assert_int_equal(sum(profile, 0, "syscall", "read"), 10);
	assert_int_equal(sum(profile, 0, "wchan", "pipe_read"), 10);
}

/* What a thread waits for, once for those that wait for the same thing; hints on request alone. */
static void test_objects_of_waits(void **state _unused_)
{
	struct snap_wait lock = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);
	struct snap_wait same = lock, guess = lock, sleep = lock;
	struct snap_wait *const waits[] = { &lock, &same, &guess, &sleep };
	const struct {
		enum snap_explain explain;
		size_t samples, locks, guesses;
	} rows[] = { { SNAP_EXPLAIN_SURE, 2, 2, 0 },
		     { SNAP_EXPLAIN_ALL, 3, 2, 1 },
		     { SNAP_EXPLAIN_NO, 1, 0, 0 } };
	struct snap_member threads[4];
	struct snap_stack stack = {
		.id = "aaaaaaaaaaaaaaaa", .count = 4, .threads = threads, .thread_count = 4
	};
	struct snap_node node = { .pid = 7, .name = "p", .stacks = &stack, .stack_count = 1 };
	struct snap_node *root = &node;
	struct snap_snapshot snapshot = { .processes = &root, .root_count = 1 };

	lock.symbol = same.symbol = "ledger_lock";
	guess.symbol = "guessed_lock";
	guess.confidence = SNAP_WAIT_IS_GUESS;
	sleep.kind = SNAP_WAIT_SLEEP;
	for (int i = 0; i < 4; i++)
		threads[i] = (struct snap_member){ .tid = 7 + i, .name = "t", .wait = waits[i] };
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
		_cleanup_(read_free) struct read_profile *profile = NULL;

		assert_null(snap_recording_of_snapshot(&snapshot, &recording));
		profile = profile_explained(recording, SNAP_GROUP_STACK, rows[i].explain);
		assert_int_equal(profile->sample_count, rows[i].samples);
		assert_int_equal(sum(profile, 0, NULL, NULL), 4);
		assert_int_equal(sum(profile, 0, "wait", "mutex ledger_lock"), rows[i].locks);
		assert_int_equal(sum(profile, 0, "wait", "mutex guessed_lock"), rows[i].guesses);
	}
}

/* Samples of one thread that waits for one lock are parted by who has it. */
static void test_objects_of_recordings(void **state _unused_)
{
	struct waited_bed bed;
	_cleanup_(read_free) struct read_profile *profile = NULL, *without = NULL;

	waited_set_up(&bed);
	profile = profile_of(&bed.recording, SNAP_GROUP_STACK);
	assert_int_equal(sum(profile, 0, NULL, NULL), 800);
	assert_int_equal(sum(profile, 0, "wait", "mutex ledger_lock"), 200);
	assert_int_equal(sum(profile, 1, "wait", "mutex ledger_lock"), 2000000000);
	assert_int_equal(sum(profile, 0, "wait", "mutex cache_lock"), 50);
	assert_int_equal(sum(profile, 0, "wait", "tcp 10.0.0.4:51236 -> 10.0.0.9:5432"), 20);
	assert_int_equal(sum(profile, 0, "holder", "audit"), 100);
	assert_int_equal(sum(profile, 0, "holder", "charge_order"), 80);
	assert_int_equal(sum(profile, 0, "holder", ""), 620);
	without = profile_explained(&bed.recording, SNAP_GROUP_STACK, SNAP_EXPLAIN_NO);
	assert_int_equal(sum(without, 0, NULL, NULL), 800);
	assert_int_equal(sum(without, 0, "wait", ""), 800);
	assert_int_equal(sum(without, 0, "holder", ""), 800);
}

static void test_mappings(void **state _unused_)
{
	_cleanup_(read_free) struct read_profile *profile = profile_of_snapshot(&service);
	const struct read_row *row = &profile->mappings[0];
	bool helper = false, kernel = false;

	assert_string_equal(text(profile, row->fields[5]), APP);
	assert_string_equal(text(profile, row->fields[6]), APP_ID);
	/* Where the fixture's frames lie: address - start + offset is the offset in the file. */
	assert_int_equal(row->fields[2], 0x555500001000);
	assert_int_equal(row->fields[3], 0x555500005000);
	assert_int_equal(row->fields[4], 0);
	for (size_t i = 0; i < profile->mapping_count; i++) {
		row = &profile->mappings[i];
		if (strcmp(text(profile, row->fields[5]), "[kernel]") == 0) {
			kernel = true;
			assert_int_equal(row->fields[7], 1);
			assert_int_equal(row->fields[3], 0);
		} else if (strcmp(text(profile, row->fields[5]), "/srv/orders/order-helper") == 0) {
			/* Nothing is named in it: a reader that has the file may look. */
			helper = true;
			assert_int_equal(row->fields[7], 0);
			assert_int_equal(row->fields[4], 0x5000);
		}
	}
	assert_true(helper);
	assert_true(kernel);
}

static void test_locations(void **state _unused_)
{
	_cleanup_(read_free) struct read_profile *profile = profile_of_snapshot(&service);
	const struct read_row *location = location_of(profile, "next_job"), *function;

	/* The address of the call, not the one it returns to; the innermost function first. */
	assert_int_equal(location->fields[3], at_frame.address - 1);
	assert_int_equal(location->line_count, 2);
	function = read_by_id(profile->functions, profile->function_count,
			      location->lines[0].fields[1]);
	assert_string_equal(text(profile, function->fields[2]), at_entries[0].function);
	assert_string_equal(text(profile, function->fields[3]), at_entries[0].symbol);
	assert_string_equal(text(profile, function->fields[4]), "include/vector");
	assert_int_equal(location->lines[0].fields[2], 13);
	assert_int_equal(location->lines[1].fields[2], 80);
	location = location_of(profile, "(9488 frames left out)");
	assert_int_equal(location->fields[2], 0);
	location = location_of(profile, "(not stopped)");
	assert_int_equal(location->fields[2], 0);
	location = location_of(profile, "0x7e0000001234");
	assert_int_equal(location->fields[2], 0);
	assert_int_equal(location->fields[3], jit_frame.address - 1);
}

/* The pc itself where it was looked up, whatever the frame's place in the stack. */
static void test_addresses_of_innermost_and_signal_frames(void **state _unused_)
{
	static struct snap_entry exact_entry[] = { { .function = "exact" } };
	static struct snap_entry caller_entry[] = { { .function = "caller" } };
	static struct snap_entry jit_entry[] = { { .function = "jit" } };
	static const struct snap_frame exact = { 0x401010, 0x401010, "/bin/fixed",
						 "aa",     true,     exact_entry,
						 1,        0x1010,   SNAP_TRUST_CFI };
	static const struct snap_frame caller = { 0x402011, 0x402010, "/bin/fixed",
						  "aa",     true,     caller_entry,
						  1,        0x2010,   SNAP_TRUST_CFI };
	static const struct snap_frame jit = { .address = 0x7000,
					       .entries = jit_entry,
					       .entry_count = 1 };
	static const struct snap_frame *frames[] = { &kernel_frame, &jit, &exact, &caller };
	static struct snap_member members[] = { { .tid = 7, .name = "t" } };
	static struct snap_stack stack = { .count = 1,
					   .threads = members,
					   .thread_count = 1,
					   .frames = frames,
					   .frame_count = 4 };
	static struct snap_node node = {
		.pid = 7, .name = "n", .stacks = &stack, .stack_count = 1
	};
	static struct snap_node *roots[] = { &node };
	const struct snap_snapshot snapshot = { .processes = roots, .root_count = 1 };
	_cleanup_(read_free) struct read_profile *profile = profile_of_snapshot(&snapshot);

	assert_int_equal(location_of(profile, "jit")->fields[3], 0x7000);
	assert_int_equal(location_of(profile, "exact")->fields[3], 0x401010);
	assert_int_equal(location_of(profile, "caller")->fields[3], 0x402010);
	/* Nobody knows the program's file: the first mapping says at least its name. */
	assert_string_equal(text(profile, profile->mappings[0].fields[5]), "n");
	assert_int_equal(profile->mappings[2].fields[2], 0x401000);
	assert_int_equal(profile->mappings[2].fields[3], 0x403000);
	assert_int_equal(profile->mappings[2].fields[4], 0x1000);
}

static void test_hostile_and_troubled(void **state _unused_)
{
	const struct snap_snapshot troubled_only = all_troubled();
	_cleanup_(read_free) struct read_profile *profile = profile_of_snapshot(&hostile);
	_cleanup_(read_free) struct read_profile *empty = profile_of_snapshot(&troubled_only);

	assert_int_equal(sum(profile, 0, NULL, NULL), 1);
	assert_non_null(strstr(label(profile, &profile->samples[0], "thread_name"), "\\x1b[31m"));
	assert_int_equal(empty->sample_count, 0);
	assert_int_equal(empty->type_count, 1);
}

static void test_same_input_same_bytes(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(snap_recording_destroyp) struct snap_recording *same = recorded_service();
	size_t length, again;
	_cleanup_free_ char *file = render(recording, SNAP_GROUP_STACK, SNAP_EXPLAIN_SURE, &length);
	_cleanup_free_ char *other = render(same, SNAP_GROUP_STACK, SNAP_EXPLAIN_SURE, &again);

	assert_int_equal(length, again);
	assert_memory_equal(file, other, length);
}

/* One sample a task, labels as labels; those that have the key of one of ours keep it. */
static void test_tasks(void **state _unused_)
{
	_cleanup_(read_free) struct read_profile *profile = profile_of_snapshot(&gitea);
	const struct read_sample *request = NULL;
	size_t tasks = 0;

	for (size_t i = 0; i < profile->sample_count; i++) {
		const char *task = label(profile, &profile->samples[i], "task");

		tasks += task && *task;
		if (task && strcmp(task, "412") == 0)
			request = &profile->samples[i];
	}
	assert_int_equal(tasks, gitea.task_count);
	assert_int_equal(profile->sample_count, gitea.task_count + gitea.thread_count);
	assert_non_null(request);
	assert_string_equal(label(profile, request, "runtime"), "go");
	assert_string_equal(label(profile, request, "process"), "gitea");
	assert_string_equal(label(profile, request, "state"), "running");
	assert_string_equal(label(profile, request, "label.state"), "open");
	assert_string_equal(label(profile, request, "label.pid"), "a1");
	assert_string_equal(label(profile, request, "process-type"), "request");
	assert_string_equal(label(profile, request, "tid"), "4100");
	assert_string_equal(label(profile, request, "thread_name") ?: "", "");
	/* The request that a process serves is told of its threads, our own labels are not. */
	assert_int_equal(sum(profile, 0, "request_method", "GET"), 1);
	assert_int_equal(sum(profile, 0, "exe_deleted", "true"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshot_counts_threads),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_recording_weighs_samples),
		cmocka_unit_test(test_labels_of_stacks),
		cmocka_unit_test(test_a_slice_begins_later),
		cmocka_unit_test(test_samples_are_added_up_unless_threads_matter),
		cmocka_unit_test(test_waits_are_told_apart),
		cmocka_unit_test(test_objects_of_waits),
		cmocka_unit_test(test_objects_of_recordings),
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_addresses_of_innermost_and_signal_frames),
		cmocka_unit_test(test_hostile_and_troubled),
		cmocka_unit_test(test_same_input_same_bytes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
