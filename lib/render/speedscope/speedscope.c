/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * speedscope's own format, written as a stream: profiles first, and then the frames that they
 * needed.
 *
 * Profiles that add up: one sample for each stack in each state, weighed by how often it was seen;
 * of all threads, where the process is the first frame, and of each process. Samples stand in the
 * order of their frames, so that the viewer, which merges what is next to each other, shows a whole
 * flame graph at once.
 *
 * Profiles of threads, along the time of the recording: a sample is a span in which the stack and
 * the state stayed the same. Where a thread was not there, or ticks were missed, there is a sample
 * without frames, so that all threads have the same axis. The viewer draws one thread at a time and
 * lists all; of very many, only the busiest are written.
 */
#include "base/buffer.h"
#include "render/json/writer.h"
#include "render/render.h"
#include "render/speedscope/waits.h"
#include "render/view/spans.h"
#include "render/view/tally.h"
#include "render/view/when.h"

#include <stdlib.h>

enum { MAX_THREADS = 500 };

/* A stack as numbers of frames, root first. */
struct scope_stack {
	const uint32_t *frames; /* NULL: not made yet */
	size_t count;
};

struct scope {
	const struct snap_recording *recording;
	const struct snap_options *options;
	struct snap_json_writer *json;
	struct snap_profile profile;
	struct snap_timeline timeline;
	struct snap_scope_frames frames;
	struct scope_stack *stacks; /* one a stack of the recording */
	struct snap_scope_waits waits;
};

/* ---- stacks ---- */

/* NULL without memory. */
static const struct scope_stack *make_stack(struct scope *scope, size_t number)
{
	const struct snap_lines_of *lines = snap_profile_stack(&scope->profile, number);
	struct scope_stack *stack = &scope->stacks[number];
	uint32_t *frames;

	if (!lines || stack->frames)
		return lines ? stack : NULL;
	frames = snap_arena_new_array(&scope->frames.arena, lines->count, uint32_t);
	if (!frames)
		return NULL;
	for (size_t i = 0; i < lines->count; i++) {
		size_t frame = snap_scope_frame_of(&scope->frames, &lines->lines[i]);

		if (frame == SIZE_MAX)
			return NULL;
		frames[i] = (uint32_t)frame;
	}
	stack->count = lines->count;
	stack->frames = frames;
	return stack;
}

/* ---- a profile ---- */

/* `name` and `detail` (NULL: none) are escaped, and are joined by a space. */
static struct stacksnap_error *begin_profile(struct scope *scope, const char *name,
					     const char *detail)
{
	bool snapshot = scope->recording->period_ns == 0;

	if (detail)
		name = snap_arena_printf(&scope->profile.arena, "%s %s", name, detail);
	if (!name)
		return snap_error_no_memory();
	snap_json_line(scope->json);
	snap_json_begin(scope->json, NULL, '{');
	snap_json_clean(scope->json, "type", "sampled");
	snap_json_clean(scope->json, "unit", snapshot ? "none" : "nanoseconds");
	snap_json_clean(scope->json, "name", name);
	snap_json_number(scope->json, "startValue", 0);
	snap_json_begin(scope->json, "samples", '[');
	return NULL;
}

/* `process`: the text of a frame before all others, or NULL; `wait`: a frame + 1, or 0. */
static struct stacksnap_error *put_sample(struct scope *scope, const char *process,
					  enum snap_state state, size_t wait, size_t number)
{
	const struct scope_stack *stack = make_stack(scope, number);
	enum snap_state_frames where = scope->options->state_frames;
	size_t first = process ? snap_scope_frame_named(&scope->frames, process) : 0;
	size_t standing = snap_scope_frame_named(&scope->frames, snap_profile_state(state));

	if (!stack || first == SIZE_MAX || standing == SIZE_MAX)
		return snap_error_no_memory();
	snap_json_line(scope->json);
	snap_json_begin(scope->json, NULL, '[');
	if (process)
		snap_json_number(scope->json, NULL, (int64_t)first);
	if (where == SNAP_STATE_FRAMES_ROOT)
		snap_json_number(scope->json, NULL, (int64_t)standing);
	if (wait)
		snap_json_number(scope->json, NULL, (int64_t)wait - 1);
	for (size_t i = 0; i < stack->count; i++)
		snap_json_number(scope->json, NULL, stack->frames[i]);
	if (where == SNAP_STATE_FRAMES_LEAF)
		snap_json_number(scope->json, NULL, (int64_t)standing);
	snap_json_end(scope->json, ']');
	return NULL;
}

static void begin_weights(struct scope *scope)
{
	snap_json_end(scope->json, ']');
	snap_json_line(scope->json);
	snap_json_begin(scope->json, "weights", '[');
}

static void end_profile(struct scope *scope, int64_t total)
{
	snap_json_end(scope->json, ']');
	snap_json_number(scope->json, "endValue", total);
	snap_json_end(scope->json, '}');
}

/* ---- profiles that add up ---- */

/* What was seen of a stack in a state. */
struct sum {
	size_t process, stack, wait; /* wait: a frame + 1, or 0 */
	enum snap_state state;
	int64_t weight;
};

static void count_samples(const struct snap_recording *recording, uint64_t *samples)
{
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_run *run = &track->runs[k];

			samples[run->stack * (size_t)SNAP_STATE_COUNT + run->state] +=
				snap_run_samples(run);
		}
	}
}

/* `sums` has room for all that is not zero; false without memory. */
static bool list_sums(struct scope *scope, const uint64_t *samples, struct sum **sums,
		      size_t *count_ret)
{
	const struct snap_recording *recording = scope->recording;
	int64_t each = recording->period_ns ? snap_recording_weight(recording) : 1;
	size_t capacity = 0, count = 0;

	for (size_t i = 0; i < recording->stack_count * SNAP_STATE_COUNT; i++) {
		size_t stack = i / SNAP_STATE_COUNT;

		if (!samples[i])
			continue;
		if (!make_stack(scope, stack) || !snap_reserve_array(*sums, capacity, count + 1))
			return false;
		(*sums)[count++] = (struct sum){
			.process = recording->stacks[stack].process,
			.stack = stack,
			.state = (enum snap_state)(i % SNAP_STATE_COUNT),
			.weight = (int64_t)samples[i] * each,
		};
	}
	*count_ret = count;
	return true;
}

/* The same, with what is waited for. */
static bool list_waits(struct scope *scope, struct sum **sums, size_t *count_ret)
{
	const struct snap_recording *recording = scope->recording;
	_cleanup_(snap_tally_deinit) struct snap_tally tally;
	int64_t each = recording->period_ns ? snap_recording_weight(recording) : 1;
	struct stacksnap_error *err =
		snap_tally_init(&tally, recording,
				SNAP_TALLY_STATE | (snap_tally_of_frames(scope->options) &
						    ~(unsigned)SNAP_TALLY_TID));

	if (snap_error_ignore(err))
		return false;
	*sums = calloc(tally.count + 1, sizeof(**sums));
	for (size_t i = 0; *sums && i < tally.count; i++) {
		const struct snap_tally_row *row = &tally.rows[i];
		size_t wait = snap_scope_frame_of_object(&scope->waits, row->object);

		if (wait == SIZE_MAX || !make_stack(scope, row->stack))
			return false;
		(*sums)[i] = (struct sum){ .process = row->process,
					   .stack = row->stack,
					   .wait = wait,
					   .state = row->state,
					   .weight = (int64_t)row->count * each };
	}
	*count_ret = tally.count;
	return *sums;
}

static int by_state(const struct sum *a, const struct sum *b)
{
	return (a->state > b->state) - (a->state < b->state);
}

static int by_frames(const struct scope_stack *a, const struct scope_stack *b)
{
	size_t count = a->count < b->count ? a->count : b->count;

	for (size_t i = 0; i < count; i++)
		if (a->frames[i] != b->frames[i])
			return a->frames[i] < b->frames[i] ? -1 : 1;
	return (a->count > b->count) - (a->count < b->count);
}

static int in_order(const void *left, const void *right, void *context)
{
	const struct scope *scope = context;
	const struct sum *a = left, *b = right;
	bool state_first = scope->options->state_frames == SNAP_STATE_FRAMES_ROOT;
	int order;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (state_first && a->state != b->state)
		return by_state(a, b);
	if (a->wait != b->wait)
		return a->wait < b->wait ? -1 : 1;
	order = by_frames(&scope->stacks[a->stack], &scope->stacks[b->stack]);
	if (!order)
		order = by_state(a, b);
	return order ? order : (a->stack > b->stack) - (a->stack < b->stack);
}

/* `process` is in front of each sample, unless it is the name of the profile itself. */
static struct stacksnap_error *put_sums(struct scope *scope, const struct sum *sums, size_t count,
					bool with_process)
{
	const char *process = NULL;

	for (size_t i = 0; i < count; i++) {
		struct stacksnap_error *err;

		if (with_process && (i == 0 || sums[i].process != sums[i - 1].process)) {
			process = snap_profile_process(&scope->profile, sums[i].process);
			if (!process)
				return snap_error_no_memory();
		}
		err = put_sample(scope, process, sums[i].state, sums[i].wait, sums[i].stack);
		if (err)
			return err;
	}
	return NULL;
}

static struct stacksnap_error *put_sum_profile(struct scope *scope, const char *name,
					       const struct sum *sums, size_t count,
					       bool with_process)
{
	int64_t total = 0;
	struct stacksnap_error *err;

	err = begin_profile(scope, name, NULL);
	if (err)
		return err;
	err = put_sums(scope, sums, count, with_process);
	if (err)
		return err;
	begin_weights(scope);
	for (size_t i = 0; i < count; i++) {
		snap_json_number(scope->json, NULL, sums[i].weight);
		total += sums[i].weight;
	}
	end_profile(scope, total);
	return NULL;
}

static struct stacksnap_error *put_sum_profiles(struct scope *scope, const struct sum *sums,
						size_t count)
{
	struct stacksnap_error *err;

	err = put_sum_profile(scope, "all threads", sums, count, true);
	if (err)
		return err;
	for (size_t i = 0, next; i < count; i = next) {
		const char *name = snap_profile_process(&scope->profile, sums[i].process);

		if (!name)
			return snap_error_no_memory();
		for (next = i + 1; next < count && sums[next].process == sums[i].process;)
			next++;
		err = put_sum_profile(scope, name, sums + i, next - i, false);
		if (err)
			return err;
	}
	return NULL;
}

static struct stacksnap_error *put_all_sums(struct scope *scope)
{
	_cleanup_free_ uint64_t *samples =
		calloc(scope->recording->stack_count + 1, SNAP_STATE_COUNT * sizeof(*samples));
	_cleanup_free_ struct sum *sums = NULL;
	size_t count = 0;

	if (!samples)
		return snap_error_no_memory();
	count_samples(scope->recording, samples);
	if (!(scope->options->group_by & SNAP_GROUP_WAIT
		      ? list_waits(scope, &sums, &count)
		      : list_sums(scope, samples, &sums, &count)))
		return snap_error_no_memory();
	if (count)
		qsort_r(sums, count, sizeof(*sums), in_order, scope);
	return put_sum_profiles(scope, sums, count);
}

/* ---- profiles of threads ---- */

struct candidate {
	size_t track;
	uint64_t running; /* samples */
	size_t runs;
};

/* Most samples on a processor first, then most changes; threads are there in order anyway. */
static int by_work(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->running != b->running)
		return a->running > b->running ? -1 : 1;
	if (a->runs != b->runs)
		return a->runs > b->runs ? -1 : 1;
	return (a->track > b->track) - (a->track < b->track);
}

static int by_track(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return (a->track > b->track) - (a->track < b->track);
}

static uint64_t running_samples(const struct snap_track *track)
{
	uint64_t samples = 0;

	for (size_t i = 0; i < track->run_count; i++)
		if (track->runs[i].state == SNAP_STATE_RUNNING)
			samples += snap_run_samples(&track->runs[i]);
	return samples;
}

/* The threads to write, in their order; NULL without memory. */
static struct candidate *choose_threads(const struct snap_recording *recording, size_t *count_ret)
{
	struct candidate *list = calloc(recording->track_count + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return NULL;
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		if (track->run_count)
			list[count++] =
				(struct candidate){ i, running_samples(track), track->run_count };
	}
	if (count > MAX_THREADS) {
		qsort(list, count, sizeof(*list), by_work);
		count = MAX_THREADS;
		qsort(list, count, sizeof(*list), by_track);
	}
	*count_ret = count;
	return list;
}

/* ---- one thread ---- */

/* The samples that are written, and those of which only the weight is still to come. */
struct thread_line {
	struct scope *scope;
	int64_t *weights;
	size_t count, capacity;
	int64_t at_ns;              /* where the last sample ends */
	const struct snap_run *run; /* of the last sample; NULL: it has no frames */
	size_t wait;                /* of the same: a frame + 1, or 0 */
};

static void thread_line_deinit(struct thread_line *line)
{
	free(line->weights);
}

static bool add_weight(struct thread_line *line, int64_t end_ns)
{
	if (!snap_reserve_array(line->weights, line->capacity, line->count + 1))
		return false;
	line->weights[line->count++] = end_ns - line->at_ns;
	line->at_ns = end_ns;
	return true;
}

/* Nothing was seen until then. */
static struct stacksnap_error *add_gap(struct thread_line *line, int64_t end_ns)
{
	if (end_ns <= line->at_ns)
		return NULL;
	snap_json_line(line->scope->json);
	snap_json_begin(line->scope->json, NULL, '[');
	snap_json_end(line->scope->json, ']');
	line->run = NULL;
	return add_weight(line, end_ns) ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *add_span(struct thread_line *line, const struct snap_span *span)
{
	const struct snap_run *run = span->run;
	size_t wait = snap_scope_frame_of_run(&line->scope->waits, run);
	struct stacksnap_error *err;

	err = add_gap(line, span->begin_ns);
	if (err)
		return err;
	if (wait == SIZE_MAX)
		return snap_error_no_memory();
	if (line->run && line->run->stack == run->stack && line->run->state == run->state &&
	    line->wait == wait) {
		line->weights[line->count - 1] += span->end_ns - line->at_ns;
		line->at_ns = span->end_ns;
		return NULL;
	}
	err = put_sample(line->scope, NULL, run->state, wait, run->stack);
	if (err)
		return err;
	line->run = run;
	line->wait = wait;
	return add_weight(line, span->end_ns) ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *put_spans(struct scope *scope, const struct snap_track *track,
					 struct thread_line *line)
{
	const struct snap_recording *recording = scope->recording;
	struct snap_spans spans;
	struct snap_span span;
	struct stacksnap_error *err = NULL;

	snap_spans_init(&spans, &scope->timeline, track);
	while (!err && snap_spans_next(&spans, &span))
		err = add_span(line, &span);
	if (err)
		return err;
	return add_gap(line, snap_timeline_tick_end(&scope->timeline, recording->tick_count - 1));
}

static struct stacksnap_error *put_thread(struct scope *scope, const struct snap_track *track)
{
	const struct snap_recording *recording = scope->recording;
	const char *thread = snap_profile_thread(&scope->profile, track);
	const char *process = snap_profile_process(&scope->profile, track->process);
	int64_t begin_ns = recording->ticks[0].time_ns;
	_cleanup_(thread_line_deinit) struct thread_line line = { .scope = scope,
								  .at_ns = begin_ns };
	struct stacksnap_error *err;

	if (!thread || !process)
		return snap_error_no_memory();
	err = recording->process_count == 1 ? begin_profile(scope, thread, NULL)
					    : begin_profile(scope, process, thread);
	if (err)
		return err;
	err = put_spans(scope, track, &line);
	if (err)
		return err;
	begin_weights(scope);
	for (size_t i = 0; i < line.count; i++)
		snap_json_number(scope->json, NULL, line.weights[i]);
	end_profile(scope, line.at_ns - begin_ns);
	return NULL;
}

static struct stacksnap_error *put_threads(struct scope *scope)
{
	size_t count = 0;
	_cleanup_free_ struct candidate *list = choose_threads(scope->recording, &count);

	if (!list)
		return snap_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		struct stacksnap_error *err;

		err = put_thread(scope, &scope->recording->tracks[list[i].track]);
		if (err)
			return err;
	}
	return NULL;
}

/* ---- the document ---- */

static void put_frames(struct scope *scope)
{
	struct snap_json_writer *json = scope->json;

	snap_json_begin(json, "frames", '[');
	for (size_t i = 0; i < scope->frames.keys.count; i++) {
		const struct snap_scope_frame *frame = &scope->frames.list[i];

		snap_json_line(json);
		snap_json_begin(json, NULL, '{');
		snap_json_clean(json, "name", frame->name);
		snap_json_text_if(json, "file", frame->file);
		snap_json_number_if(json, "line", frame->line);
		snap_json_number_if(json, "col", frame->column);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static struct stacksnap_error *put_head(struct scope *scope)
{
	const struct snap_recording *recording = scope->recording;
	struct snap_json_writer *json = scope->json;
	const char *root = recording->process_count ? snap_profile_process(&scope->profile, 0) : "";
	const char *name = NULL;
	char when[SNAP_WHEN_SIZE];

	snap_when(recording->time_ns, 'T', 3, when);
	if (root)
		name = snap_arena_printf(&scope->profile.arena, "%s%s%s", root, *root ? " " : "",
					 when);
	if (!name)
		return snap_error_no_memory();
	snap_json_clean(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
	snap_json_line(json);
	snap_json_clean(json, "exporter", "stacksnap@" SNAP_VERSION);
	snap_json_line(json);
	snap_json_clean(json, "name", name);
	snap_json_line(json);
	snap_json_number(json, "activeProfileIndex", 0);
	snap_json_line(json);
	return NULL;
}

static struct stacksnap_error *put_document(struct scope *scope)
{
	struct snap_json_writer *json = scope->json;
	struct stacksnap_error *err;

	snap_json_begin(json, NULL, '{');
	err = put_head(scope);
	if (err)
		return err;
	snap_json_begin(json, "profiles", '[');
	err = put_all_sums(scope);
	if (err)
		return err;
	err = scope->recording->period_ns ? put_threads(scope) : NULL;
	if (err)
		return err;
	snap_json_end(json, ']');
	snap_json_line(json);
	snap_json_begin(json, "shared", '{');
	put_frames(scope);
	snap_json_end(json, '}');
	snap_json_end(json, '}');
	snap_json_end_document(json);
	snap_json_flush(json);
	return json->failed ? snap_error_no_memory() : NULL;
}

static void scope_deinit(struct scope *scope)
{
	snap_timeline_deinit(&scope->timeline);
	snap_profile_deinit(&scope->profile);
	snap_scope_frames_deinit(&scope->frames);
	snap_json_writer_destroy(scope->json);
	snap_scope_waits_deinit(&scope->waits);
	free(scope->stacks);
}

struct stacksnap_error *snap_render_speedscope(const struct snap_recording *recording,
					       const struct snap_options *options, FILE *out)
{
	_cleanup_(scope_deinit) struct scope scope = {
		.recording = recording,
		.options = options,
		.json = snap_json_writer_create(out, SNAP_JSON_COMPACT),
		.stacks = calloc(recording->stack_count + 1, sizeof(*scope.stacks)),
	};
	struct stacksnap_error *err;

	err = snap_profile_init(&scope.profile, recording);
	if (err)
		return err;
	snap_profile_show_labels(&scope.profile, options);
	scope.waits = (struct snap_scope_waits){ .recording = recording,
						 .options = options,
						 .profile = &scope.profile,
						 .frames = &scope.frames };
	err = snap_timeline_init(&scope.timeline, recording);
	if (err)
		return err;
	return scope.json && scope.stacks ? put_document(&scope) : snap_error_no_memory();
}
