/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pprof: a profile.proto, gzip, for `go tool pprof`, Pyroscope, Parca and their kind.
 *
 * A snapshot counts threads; a recording counts samples and their time on the wall clock. One
 * sample of the format is what a process's threads of one name have in common: stack, state, system
 * call, wait channel, what they wait for and, in a recording, in which function the holder was
 * meanwhile; the thread only on request, because profiles are meant to add up. These are
 * labels, each with one value of one kind. Knows nothing of how stacks become tables: that is
 * tables.c.
 */
#include "render/gzip.h"
#include "render/pprof/tables.h"
#include "render/render.h"
#include "render/view/figures.h"
#include "render/view/tally.h"

#include <inttypes.h>
#include <string.h>

enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_TEXT = 2, LABEL_NUMBER = 3 };

/* What is made goes out in pieces of about this size. */
enum { PIECE = 1 << 16 };

struct writer {
	struct snap_pprof pprof;
	struct snap_tally tally;
	struct snap_gzip *gzip;
	struct snap_buffer out, sample, label;
	bool failed; /* no memory for a string */
};

static void writer_deinit(struct writer *writer)
{
	snap_pprof_deinit(&writer->pprof);
	snap_tally_deinit(&writer->tally);
	snap_gzip_destroy(writer->gzip);
	snap_buffer_deinit(&writer->out);
	snap_buffer_deinit(&writer->sample);
	snap_buffer_deinit(&writer->label);
}

static bool is_snapshot(const struct writer *writer)
{
	return writer->pprof.recording->period_ns <= 0;
}

static void flush_output(struct writer *writer)
{
	if (!writer->out.failed)
		snap_gzip_write(writer->gzip, writer->out.data, writer->out.size);
	writer->failed |= writer->out.failed;
	snap_buffer_clear(&writer->out);
}

static uint64_t string_index(struct writer *writer, const char *text)
{
	size_t index = snap_pprof_string(&writer->pprof, text);

	writer->failed |= index == SIZE_MAX;
	return index;
}

static void put_value_type(struct writer *writer, unsigned field, const char *type,
			   const char *unit)
{
	struct snap_buffer *message = &writer->label;

	snap_buffer_clear(message);
	snap_protobuf_number(message, VALUE_TYPE, string_index(writer, type));
	snap_protobuf_number(message, VALUE_UNIT, string_index(writer, unit));
	snap_protobuf_message(&writer->out, field, message);
}

/* ---- samples ---- */

static void put_text_label(struct writer *writer, const char *key, const char *text)
{
	if (!text || !text[0])
		return;
	snap_buffer_clear(&writer->label);
	snap_protobuf_number(&writer->label, LABEL_KEY, string_index(writer, key));
	snap_protobuf_number(&writer->label, LABEL_TEXT, string_index(writer, text));
	snap_protobuf_message(&writer->sample, SAMPLE_LABEL, &writer->label);
}

static void put_number_label(struct writer *writer, const char *key, int64_t number)
{
	if (!number)
		return;
	snap_buffer_clear(&writer->label);
	snap_protobuf_number(&writer->label, LABEL_KEY, string_index(writer, key));
	snap_protobuf_number(&writer->label, LABEL_NUMBER, (uint64_t)number);
	snap_protobuf_message(&writer->sample, SAMPLE_LABEL, &writer->label);
}

/* A label of the program's own, whose key may be one of ours. */
static void put_task_label(struct writer *writer, const struct snap_label *label)
{
	_cleanup_free_ char *key = NULL;

	if (!snap_label_clashes(label->key)) {
		put_text_label(writer, label->key, label->value);
		return;
	}
	if (asprintf(&key, "label.%s", label->key) < 0) {
		key = NULL;
		writer->failed = true;
		return;
	}
	put_text_label(writer, key, label->value);
}

static void put_pprof_task(struct writer *writer, const struct snap_track *track)
{
	const struct snap_task *task = track->task;

	put_text_label(writer, "runtime", track->runtime);
	put_text_label(writer, "task", task->id);
	put_text_label(writer, "task_name", task->name);
	put_number_label(writer, "tid", task->tid);
	put_text_label(writer, "state", snap_task_state_word(task->state));
	put_text_label(writer, "wait", task->wait);
	for (size_t i = 0; i < task->label_count; i++)
		put_task_label(writer, &task->labels[i]);
}

/* Whether a frame is in doubt; its name has the mark. */
static bool has_guess(const struct snap_recorded_stack *stack)
{
	return snap_any(stack->frame_count, i, stack->frames[i]->trust != SNAP_TRUST_CFI);
}

static void put_pprof_labels(struct writer *writer, const struct snap_tally_row *row)
{
	const struct snap_recording *recording = writer->pprof.recording;
	const struct snap_node *node = recording->processes[row->process].node;
	const struct snap_recorded_stack *stack = &recording->stacks[row->stack];

	put_text_label(writer, "process", node->name);
	put_number_label(writer, "pid", node->pid);
	if (has_guess(stack))
		put_text_label(writer, "guessed", "true");
	if (row->task) {
		put_pprof_task(writer, row->task);
		put_text_label(writer, "unit", node->unit);
		return;
	}
	put_text_label(writer, "thread_name", row->name);
	put_number_label(writer, "tid", row->tid);
	put_text_label(writer, "state", snap_state_word(row->state));
	put_text_label(writer, "syscall", row->syscall);
	put_text_label(writer, "wchan", row->wchan);
	put_text_label(writer, "wait", row->object);
	put_text_label(writer, "holder", row->holder);
	put_text_label(writer, "unit", node->unit);
	/* Those of a program have other keys than ours already. */
	for (size_t i = 0; i < stack->label_count; i++)
		put_text_label(writer, stack->labels[i].key, stack->labels[i].value);
}

static void put_values(struct writer *writer, uint64_t count)
{
	const struct snap_recording *recording = writer->pprof.recording;
	uint64_t weight = is_snapshot(writer) ? 0 : (uint64_t)recording->period_ns;
	uint64_t values[2] = { count };

	if (weight && (__builtin_mul_overflow(count, weight, &values[1]) || values[1] > INT64_MAX))
		values[1] = INT64_MAX;
	snap_protobuf_packed(&writer->sample, SAMPLE_VALUE, values, weight ? 2 : 1);
}

static bool put_pprof_samples(struct writer *writer)
{
	const struct snap_tally *tally = &writer->tally;

	for (size_t i = 0; i < tally->count; i++)
		if (!snap_pprof_look_through(&writer->pprof, tally->rows[i].stack))
			return false;
	for (size_t i = 0; i < tally->count; i++) {
		const struct snap_tally_row *row = &tally->rows[i];
		const struct snap_pprof_stack *stack = snap_pprof_stack(&writer->pprof, row->stack);

		if (!stack)
			return false;
		snap_buffer_clear(&writer->sample);
		snap_protobuf_packed(&writer->sample, SAMPLE_LOCATION, stack->locations,
				     stack->count);
		put_values(writer, row->count);
		put_pprof_labels(writer, row);
		snap_protobuf_message(&writer->out, PROFILE_SAMPLE, &writer->sample);
		if (writer->out.size > PIECE)
			flush_output(writer);
	}
	return true;
}

/* ---- the profile ---- */

static const char *missed_ticks(const struct snap_recording *recording, char out[64])
{
	uint64_t ticks = recording->stats.ticks_missed;

	out[0] = '\0';
	if (ticks)
		snprintf(out, 64, ", %" PRIu64 " tick%s missed%s", ticks, ticks == 1 ? "" : "s",
			 recording->is_slice ? " in the whole run" : "");
	return out;
}

/* The figures of the slice, where they differ from the run's. */
static struct snap_recording_stats slice_stats(const struct snap_recording *recording)
{
	struct snap_recording_stats stats = recording->stats;

	stats.duration_ns = recording->duration_ns;
	if (recording->is_slice)
		stats.stopped_ns = 0;
	/* A file may hold any times. */
	for (size_t i = 0; recording->is_slice && i < recording->tick_count; i++)
		if (__builtin_add_overflow(stats.stopped_ns, recording->ticks[i].stopped_ns,
					   &stats.stopped_ns))
			stats.stopped_ns = INT64_MAX;
	/* As asked, where that is known: the period is a whole number of nanoseconds. */
	if (!(stats.hz_asked > 0))
		stats.hz_asked = 1e9 / (double)recording->period_ns;
	return stats;
}

/* "stacksnap X: orderd[1234] and 2 more, 10.00 s at 99 Hz, stopped 0.31 %, 2 ticks missed" */
static char *make_comment(struct writer *writer)
{
	const struct snap_recording *recording = writer->pprof.recording;
	struct snap_arena *arena = &writer->pprof.profile.arena;
	struct snap_recording_stats stats;
	const char *process = "nothing";
	char more[48] = "", tail[64], length[SNAP_WHEN_SIZE], hz[SNAP_WHEN_SIZE],
	     percent[SNAP_WHEN_SIZE];

	if (recording->process_count) {
		process = snap_profile_process(&writer->pprof.profile, 0);
		if (!process)
			return NULL;
	}
	if (recording->process_count > 1)
		snprintf(more, sizeof(more), " and %zu more", recording->process_count - 1);
	if (is_snapshot(writer)) {
		snap_when_length(recording->tick_count ? recording->ticks[0].stopped_ns : 0,
				 length);
		return snap_arena_printf(arena, "stacksnap %s: %s%s, stopped for %s", SNAP_VERSION,
					 process, more, length);
	}
	stats = slice_stats(recording);
	return snap_arena_printf(arena, "stacksnap %s: %s%s, %s at %s%s, stopped %s%s",
				 SNAP_VERSION, process, more,
				 snap_figure_text(&stats, SNAP_FIGURE_DURATION, length),
				 snap_figure_text(&stats, SNAP_FIGURE_HZ_ASKED, hz),
				 recording->cpu_only ? " of running threads" : "",
				 snap_figure_text(&stats, SNAP_FIGURE_STOPPED_PERCENT, percent),
				 missed_ticks(recording, tail));
}

static void put_types(struct writer *writer)
{
	bool snapshot = is_snapshot(writer);

	put_value_type(writer, PROFILE_SAMPLE_TYPE, snapshot ? "threads" : "samples", "count");
	if (!snapshot)
		put_value_type(writer, PROFILE_SAMPLE_TYPE, "wall", "nanoseconds");
	put_value_type(writer, PROFILE_PERIOD_TYPE, snapshot ? "snapshot" : "wall",
		       snapshot ? "count" : "nanoseconds");
}

static bool put_pprof_facts(struct writer *writer)
{
	const struct snap_recording *recording = writer->pprof.recording;
	struct snap_buffer *out = &writer->out;
	bool snapshot = is_snapshot(writer);
	uint64_t time = (uint64_t)recording->time_ns;
	const char *text = make_comment(writer);
	uint64_t comments[1];

	if (!text)
		return false;
	comments[0] = snap_pool_add(&writer->pprof.strings, text, strlen(text));
	if (comments[0] == SIZE_MAX)
		return false;
	if (recording->tick_count)
		time += (uint64_t)recording->ticks[0].time_ns;
	snap_protobuf_number(out, PROFILE_TIME, time);
	/* A snapshot is a moment: the time that it took is not the length of a profile. */
	snap_protobuf_number(out, PROFILE_DURATION,
			     snapshot ? 0 : (uint64_t)recording->duration_ns);
	snap_protobuf_number(out, PROFILE_PERIOD, snapshot ? 1 : (uint64_t)recording->period_ns);
	snap_protobuf_packed(out, PROFILE_COMMENT, comments, 1);
	snap_protobuf_number(out, PROFILE_DEFAULT_SAMPLE_TYPE,
			     string_index(writer, snapshot ? "threads" : "wall"));
	return true;
}

struct stacksnap_error *snap_render_pprof(const struct snap_recording *recording,
					  const struct snap_options *options, FILE *out)
{
	_cleanup_(writer_deinit) struct writer writer = { 0 };

	SNAP_TRY(snap_pprof_init(&writer.pprof, recording));
	SNAP_TRY(snap_tally_init(&writer.tally, recording, snap_tally_of_profile(options)));
	SNAP_TRY(snap_gzip_create(out, &writer.gzip));
	put_types(&writer);
	if (!put_pprof_samples(&writer) || !put_pprof_facts(&writer) ||
	    !snap_pprof_put_tables(&writer.pprof, &writer.out))
		return snap_error_no_memory();
	flush_output(&writer);
	return writer.failed ? snap_error_no_memory() : snap_gzip_finish(writer.gzip);
}
