/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chrome trace events: byte for byte, and slices held against the spans they were made of. */
#include "big_recording.h"
#include "recordings.h"
#include "render/render.h"
#include "render/view/profile.h"
#include "render/view/spans.h"
#include "task_snapshots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"

#include <jansson.h>

static char *render(const struct snap_recording *recording, enum snap_state_frames state_frames)
{
	struct snap_options options = { .state_frames = state_frames };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_null(snap_render_chrome(recording, &options, out));
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strlen(text), length);
	return text;
}

static json_t *parse(const char *text)
{
	json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(document);
	return document;
}

static const char *text_of(const json_t *event, const char *key)
{
	return json_string_value(json_object_get(event, key));
}

static int64_t number_of(const json_t *event, const char *key)
{
	return json_integer_value(json_object_get(event, key));
}

static bool is_kind(const json_t *event, const char *kind)
{
	return strcmp(text_of(event, "ph"), kind) == 0;
}

/* ---- byte for byte ---- */

static void test_documents(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(snap_recording_destroyp) struct snap_recording *snapshot = NULL;
	_cleanup_free_ char *text = render(recording, SNAP_STATE_FRAMES_ROOT), *hostile_text = NULL;

	golden_check("service.trace", text);
	json_decref(parse(text));
	assert_null(snap_recording_of_snapshot(&hostile, &snapshot));
	hostile_text = render(snapshot, SNAP_STATE_FRAMES_LEAF);
	golden_check("hostile.trace", hostile_text);
	json_decref(parse(hostile_text));
}

static void test_nothing_is_a_document(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *empty = snap_recording_new();
	_cleanup_free_ char *text = render(empty, SNAP_STATE_FRAMES_ROOT);
	json_t *document = parse(text);

	assert_int_equal(json_array_size(json_object_get(document, "traceEvents")), 0);
	json_decref(document);
}

/* ---- slices against spans ---- */

enum { DEPTH = 2 * BIG_DEPTH + 2 };

struct slice {
	const char *name;
	int64_t begin, end;
};

/* The slices of one thread as its events are read. */
struct replay {
	const json_t *events;
	size_t at;
	struct slice open[DEPTH], closed[DEPTH];
	size_t depth;
};

/* Slices that are over by then are closed; all that begin until then are opened, if they nest. */
static void advance(struct replay *replay, pid_t tid, int64_t now)
{
	while (replay->depth && replay->open[replay->depth - 1].end <= now) {
		replay->depth--;
		replay->closed[replay->depth] = replay->open[replay->depth];
	}
	for (;;) {
		const json_t *event = json_array_get(replay->events, replay->at);
		struct slice slice;

		if (!event || !is_kind(event, "X") || number_of(event, "tid") != tid ||
		    number_of(event, "ts") > now)
			return;
		slice.name = text_of(event, "name");
		slice.begin = number_of(event, "ts");
		slice.end = slice.begin + number_of(event, "dur");
		assert_true(slice.end > now && slice.begin == now && replay->depth < DEPTH);
		if (replay->depth)
			assert_true(slice.end <= replay->open[replay->depth - 1].end);
		/* It would have gone on, were it the same function under the same callers. */
		if (replay->closed[replay->depth].name &&
		    replay->closed[replay->depth].end == slice.begin &&
		    (!replay->depth || replay->open[replay->depth - 1].begin < slice.begin))
			assert_string_not_equal(replay->closed[replay->depth].name, slice.name);
		replay->open[replay->depth++] = slice;
		replay->at++;
	}
}

static void check_span(const struct replay *replay, struct snap_profile *profile,
		       const struct snap_span *span, enum snap_state_frames state_frames)
{
	const struct snap_lines_of *lines = snap_profile_stack(profile, span->run->stack);
	const char *state = snap_profile_state(span->run->state);
	size_t before = state_frames == SNAP_STATE_FRAMES_ROOT;

	assert_int_equal(replay->depth, lines->count + (state_frames != SNAP_STATE_FRAMES_NO));
	for (size_t i = 0; i < lines->count; i++)
		assert_string_equal(replay->open[i + before].name, lines->lines[i].name);
	if (state_frames == SNAP_STATE_FRAMES_ROOT)
		assert_string_equal(replay->open[0].name, state);
	if (state_frames == SNAP_STATE_FRAMES_LEAF)
		assert_string_equal(replay->open[replay->depth - 1].name, state);
}

static void check_track(struct replay *replay, struct snap_profile *profile,
			const struct snap_timeline *timeline, const struct snap_track *track,
			enum snap_state_frames state_frames)
{
	struct snap_spans spans;
	struct snap_span span;

	replay->depth = 0;
	memset(replay->closed, 0, sizeof(replay->closed));
	while (!is_kind(json_array_get(replay->events, replay->at), "X"))
		replay->at++;
	snap_spans_init(&spans, timeline, track);
	while (snap_spans_next(&spans, &span)) {
		advance(replay, track->tid, span.begin_ns / 1000);
		check_span(replay, profile, &span, state_frames);
	}
	/* Nothing is left of this thread, and nothing goes on after its last span. */
	if (is_kind(json_array_get(replay->events, replay->at), "X"))
		assert_int_not_equal(number_of(json_array_get(replay->events, replay->at), "tid"),
				     track->tid);
	assert_int_equal(replay->open[0].end,
			 snap_timeline_tick_end(timeline, timeline->recording->tick_count - 1) /
				 1000);
}

static void check_recording(unsigned stay, enum snap_state_frames state_frames)
{
	struct big_shape shape = {
		.threads = 5, .ticks = 300, .stay = stay, .lost = 30, .period_ns = 10000000
	};
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = big_recording(&shape);
	_cleanup_free_ char *text = render(recording, state_frames);
	_cleanup_(snap_profile_deinit) struct snap_profile profile;
	_cleanup_(snap_timeline_deinit) struct snap_timeline timeline;
	json_t *document = parse(text);
	struct replay replay = { .events = json_object_get(document, "traceEvents") };

	assert_null(snap_profile_init(&profile, recording));
	assert_null(snap_timeline_init(&timeline, recording));
	assert_true(timeline.gap_count > 0);
	for (size_t i = 0; i < recording->track_count; i++)
		check_track(&replay, &profile, &timeline, &recording->tracks[i], state_frames);
	json_decref(document);
}

static void test_slices_say_what_the_spans_say(void **state _unused_)
{
	for (enum snap_state_frames i = SNAP_STATE_FRAMES_ROOT; i <= SNAP_STATE_FRAMES_NO; i++) {
		check_recording(1, i);
		check_recording(4, i);
	}
}

static void test_spans_break_where_ticks_were_missed(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_(snap_timeline_deinit) struct snap_timeline timeline;
	struct snap_spans spans;
	struct snap_span span;

	assert_null(snap_timeline_init(&timeline, recording));
	assert_int_equal(timeline.gap_count, 1);
	/* The main thread: one run over all ticks. */
	assert_int_equal(recording->tracks[0].run_count, 1);
	snap_spans_init(&spans, &timeline, &recording->tracks[0]);
	assert_true(snap_spans_next(&spans, &span));
	assert_int_equal(span.begin_ns, 0);
	assert_int_equal(span.end_ns, 6 * RECORDED_PERIOD);
	assert_true(snap_spans_next(&spans, &span));
	assert_int_equal(span.begin_ns, 8 * RECORDED_PERIOD);
	assert_int_equal(span.end_ns, 12 * RECORDED_PERIOD);
	assert_false(snap_spans_next(&spans, &span));
}

/* ---- names and counters ---- */

static size_t count_events(const json_t *events, const char *kind, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);

		count += is_kind(event, kind) && strcmp(text_of(event, "name"), name) == 0;
	}
	return count;
}

/* The service execs at the 5th tick: two programs, one pid. */
static void test_a_program_that_execs_has_its_last_name(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_node first = service_node, second = helper_node;
	_cleanup_free_ char *text = NULL;
	json_t *document, *events;

	first.pid = second.pid = 77;
	recording->processes[0].node = &first;
	recording->processes[0].last = 4;
	recording->processes[0].execed = true;
	recording->processes[1].node = &second;
	recording->processes[1].first = 5;
	/* The helper's only thread is the last; it has the number of the service's first. */
	recording->tracks[recording->track_count - 1].tid = recording->tracks[0].tid;
	text = render(recording, SNAP_STATE_FRAMES_ROOT);
	document = parse(text);
	events = json_object_get(document, "traceEvents");
	assert_int_equal(count_events(events, "M", "process_name"), 1);
	assert_int_equal(count_events(events, "i", "exec"), 1);
	assert_int_equal(count_events(events, "M", "thread_name"), recording->track_count - 1);
	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);

		assert_int_equal(number_of(event, "pid"), 77);
		if (is_kind(event, "M") && strcmp(text_of(event, "name"), "process_name") == 0)
			assert_string_equal(text_of(json_object_get(event, "args"), "name"),
					    "order-helper");
		if (is_kind(event, "i"))
			assert_int_equal(number_of(event, "ts"), 5 * RECORDED_PERIOD / 1000);
	}
	json_decref(document);
}

/* Threads in a state, by the last event until then. */
static int64_t counted(const json_t *events, int64_t time_us, const char *key)
{
	int64_t count = -1;

	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);

		if (is_kind(event, "C") && strcmp(text_of(event, "name"), "threads") == 0 &&
		    number_of(event, "pid") == service_node.pid &&
		    number_of(event, "ts") <= time_us)
			count = number_of(json_object_get(event, "args"), key);
	}
	return count;
}

static void test_counters_follow_the_states(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	_cleanup_free_ char *text = render(recording, SNAP_STATE_FRAMES_ROOT);
	json_t *document = parse(text), *events = json_object_get(document, "traceEvents");

	for (uint32_t tick = 0; tick < recording->tick_count; tick++) {
		int64_t now = recording->ticks[tick].time_ns / 1000, running = 0, disk = 0;

		for (size_t i = 0; i < recording->track_count; i++) {
			const struct snap_track *track = &recording->tracks[i];

			for (size_t k = 0; track->process == 0 && k < track->run_count; k++) {
				const struct snap_run *run = &track->runs[k];
				bool now_here = run->first <= tick && tick <= run->last;

				running += now_here && run->state == SNAP_STATE_RUNNING;
				disk += now_here && run->state == SNAP_STATE_DISK;
			}
		}
		assert_int_equal(counted(events, now, "running"), running);
		assert_int_equal(counted(events, now, "disk"), disk);
	}
	/* All ticks stopped something for the same time: told once before, once after the gap. */
	assert_int_equal(count_events(events, "C", "stop_us"), 4);
	assert_int_equal(counted(events, INT64_MAX, "disk"), 2);
	json_decref(document);
}

/* ---- what managed runtimes tell ---- */

static const json_t *event_named(const json_t *events, size_t from, const char *kind,
				 const char *name, size_t *at_ret)
{
	for (size_t i = from; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);

		if (!is_kind(event, kind) || strcmp(text_of(event, "name"), name) != 0)
			continue;
		if (at_ret)
			*at_ret = i;
		return event;
	}
	fail_msg("no event %s %s", kind, name);
	return NULL;
}

/* Slices of managed functions have their language, tasks their labels. */
static void test_tasks_and_languages(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	_cleanup_free_ char *text = NULL;
	json_t *document;
	const json_t *events, *labels;
	size_t at = 0;

	assert_null(snap_recording_of_snapshot(&gitea, &recording));
	text = render(recording, SNAP_STATE_FRAMES_ROOT);
	golden_check("tasks.trace", text);
	document = parse(text);
	events = json_object_get(document, "traceEvents");
	assert_string_equal(text_of(event_named(events, 0, "X", "Handler.do_GET", NULL), "cat"),
			    "python");
	assert_string_equal(text_of(event_named(events, 0, "X", "runtime.goexit", NULL), "cat"),
			    "go");
	assert_null(text_of(event_named(events, 0, "X", "fsync", NULL), "cat"));
	do {
		labels = event_named(events, at, "i", "labels", &at);
		at++;
	} while (!text_of(json_object_get(labels, "args"), "process-type"));
	labels = json_object_get(labels, "args");
	assert_string_equal(text_of(labels, "process-description"), "GET: /me/repo");
	assert_string_equal(text_of(labels, "state"), "open");
	json_decref(document);
}

/* One instant where labels change, none where they go on. */
static void test_labels(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = recorded_service();
	struct snap_label labels[] = { { "request_uri", "/a" } };
	_cleanup_free_ char *text = NULL;
	const struct snap_track *track = recording->tracks;
	const json_t *events, *first, *second;
	json_t *document;
	size_t at;

	while (track->tid != 1303)
		track++;
	recording->stacks[track->runs[0].stack].labels = labels;
	recording->stacks[track->runs[0].stack].label_count = 1;
	text = render(recording, SNAP_STATE_FRAMES_ROOT);
	document = parse(text);
	events = json_object_get(document, "traceEvents");
	for (at = 0, first = NULL; !first || number_of(first, "tid") != 1303; at++)
		first = event_named(events, at, "i", "labels", &at);
	assert_int_equal(number_of(first, "ts"), 0);
	assert_string_equal(text_of(json_object_get(first, "args"), "request_uri"), "/a");
	second = event_named(events, at, "i", "labels", &at);
	assert_int_equal(number_of(second, "ts"), 30000);
	assert_int_equal(json_object_size(json_object_get(second, "args")), 0);
	assert_int_equal(number_of(event_named(events, at + 1, "i", "labels", &at), "ts"), 90000);
	json_decref(document);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_documents),
		cmocka_unit_test(test_nothing_is_a_document),
		cmocka_unit_test(test_slices_say_what_the_spans_say),
		cmocka_unit_test(test_spans_break_where_ticks_were_missed),
		cmocka_unit_test(test_a_program_that_execs_has_its_last_name),
		cmocka_unit_test(test_counters_follow_the_states),
		cmocka_unit_test(test_tasks_and_languages),
		cmocka_unit_test(test_labels),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
