/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public API's recorder and recordings: see stacksnap.h.
 *
 * A recording is the inner one, with its warnings made safe to print and a verdict on what it
 * amounts to. Knows nothing of ticks, terminals or exit statuses.
 */
#include "api/api.h"

#include "core/core.h"
#include "core/unpack.h"
#include "pipeline.h"
#include "render/summary.h"
#include "store/capture/file.h"
#include "store/recording/file.h"

#include <assert.h>
#include <string.h>

static_assert((int)STACKSNAP_END_FAILED == (int)SNAP_END_FAILED, "ends are the same");
static_assert((int)STACKSNAP_END_TARGETS == (int)SNAP_END_TARGETS, "ends are the same");

struct stacksnap_recorder {
	struct snap_recorder *inner;
};

struct stacksnap_recording {
	struct snap_recording *inner;
	struct stacksnap_recording_stats stats;
	const char **warnings; /* escaped, inner->warning_count of them; in the inner's arena */
	/* behind them: what the latest report left out, malloc'ed and escaped; NULL: nothing */
	char **limited;
};

API void stacksnap_recording_destroy(struct stacksnap_recording *recording)
{
	if (!recording)
		return;
	if (recording->limited)
		free(*recording->limited);
	free(recording->limited);
	snap_recording_destroy(recording->inner);
	free(recording);
}

const struct snap_recording *snap_api_recording(const struct stacksnap_recording *recording)
{
	return recording->inner;
}

static void destroy_recording(struct stacksnap_recording **recording)
{
	stacksnap_recording_destroy(*recording);
}

static struct stacksnap_recording_stats public_stats(const struct snap_recording_stats *stats)
{
	return (struct stacksnap_recording_stats){
		.hz_asked = stats->hz_asked,
		.hz_reached = stats->hz_reached,
		.ticks = stats->ticks,
		.ticks_missed = stats->ticks_missed,
		.duration_ns = stats->duration_ns,
		.stopped_ns = stats->stopped_ns,
		.stopped_percent = snap_recording_stopped_percent(stats),
		.threads = stats->threads,
		.thread_samples = stats->thread_samples,
		.stacks = stats->stacks,
		.kept = stats->kept,
		.unstopped = stats->unstopped,
		.alone = stats->alone,
		.left_out = stats->left_out,
		.ticks_late = stats->ticks_late,
		.ticks_left_out = stats->ticks_left_out,
	};
}

/* Takes over `inner`, also when it fails. */
static struct stacksnap_error *wrap_recording(struct snap_recording *inner,
					      const struct snap_options *options,
					      struct stacksnap_recording **ret)
{
	_cleanup_(destroy_recording) struct stacksnap_recording *recording =
		calloc(1, sizeof(*recording));

	if (!recording) {
		snap_recording_destroy(inner);
		return snap_error_no_memory();
	}
	recording->inner = inner;
	recording->stats = public_stats(&inner->stats);
	recording->limited = calloc(1, sizeof(*recording->limited));
	recording->warnings =
		snap_api_messages(&inner->arena, inner->warnings, inner->warning_count, options);
	SNAP_TRY(snap_no_memory_unless(recording->warnings && recording->limited));
	*ret = snap_take_ptr(recording);
	return NULL;
}

/* ---- recorders ---- */

API struct stacksnap_error *stacksnap_recorder_create(const struct stacksnap_options *options,
						      struct stacksnap_recorder **ret)
{
	_cleanup_free_ struct stacksnap_recorder *recorder = calloc(1, sizeof(*recorder));
	struct stacksnap_error *err = snap_api_check_targets(&options->values);

	if (!err && !recorder)
		err = snap_error_no_memory();
	SNAP_TRY(err ?: snap_recorder_create(&options->values, &recorder->inner));
	*ret = snap_take_ptr(recorder);
	return NULL;
}

API void stacksnap_recorder_destroy(struct stacksnap_recorder *recorder)
{
	if (!recorder)
		return;
	snap_recorder_destroy(recorder->inner);
	free(recorder);
}

API struct stacksnap_error *stacksnap_recorder_write_to(struct stacksnap_recorder *recorder, int fd)
{
	return snap_recorder_write_to(recorder->inner, fd);
}

struct caller {
	int (*tick)(void *context, const struct stacksnap_recorder_status *status);
	void *context;
};

static bool tell_caller(void *context, const struct snap_recorder_status *status)
{
	const struct caller *caller = context;
	const struct stacksnap_recording_stats stats = public_stats(&status->stats);
	const struct stacksnap_recorder_status shown = {
		.elapsed_ns = status->elapsed_ns,
		.remaining_ns = status->remaining_ns,
		.threads = status->threads,
		.stats = &stats,
		.condition = status->condition,
	};

	return caller->tick(caller->context, &shown);
}

API struct stacksnap_error *
stacksnap_recorder_run(struct stacksnap_recorder *recorder,
		       int (*tick)(void *context, const struct stacksnap_recorder_status *status),
		       void *context)
{
	struct caller caller = { .tick = tick, .context = context };

	return snap_recorder_run(recorder->inner, tick ? tell_caller : NULL, &caller);
}

API void stacksnap_recorder_stop(struct stacksnap_recorder *recorder)
{
	snap_recorder_stop(recorder->inner);
}

API struct stacksnap_error *stacksnap_recorder_slice(struct stacksnap_recorder *recorder,
						     const struct stacksnap_options *options,
						     struct stacksnap_recording **ret)
{
	struct snap_recording *inner = NULL;

	SNAP_TRY(snap_pipeline_slice(recorder->inner, &options->values, &inner));
	return wrap_recording(inner, &options->values, ret);
}

API struct stacksnap_error *stacksnap_recorder_finish(struct stacksnap_recorder *recorder)
{
	return snap_recorder_finish(recorder->inner);
}

/* ---- recordings ---- */

API struct stacksnap_error *stacksnap_recording_load(int fd,
						     const struct stacksnap_options *options,
						     struct stacksnap_recording **ret)
{
	struct snap_recording *inner = NULL;

	SNAP_TRY(snap_pipeline_load_recording(fd, &options->values, &inner));
	return wrap_recording(inner, &options->values, ret);
}

API struct stacksnap_error *stacksnap_recording_render(const struct stacksnap_recording *recording,
						       const struct stacksnap_options *options,
						       const char *format, FILE *out)
{
	free(*recording->limited);
	return snap_pipeline_render_recording(recording->inner, &options->values, format, out,
					      recording->limited);
}

API const struct stacksnap_recording_stats *
stacksnap_recording_get_stats(const struct stacksnap_recording *recording)
{
	return &recording->stats;
}

API enum stacksnap_recording_end
stacksnap_recording_get_end(const struct stacksnap_recording *recording)
{
	return (enum stacksnap_recording_end)recording->inner->end;
}

/* Whether it was recorded to its end, the caller's word included. */
static bool ended_well(enum snap_recording_end end)
{
	switch (end) {
	case SNAP_END_TIME:
	case SNAP_END_ASKED:
	case SNAP_END_CONDITION:
		return true;
	case SNAP_END_TARGETS:
	case SNAP_END_PERMISSION:
	case SNAP_END_UNFINISHED:
	case SNAP_END_FAILED:
	case SNAP_END_COUNT:
		return false;
	}
	return false;
}

/* Whether there was a process to record; filters and --mode cpu may still show none.
 */
static bool was_read(const struct snap_recording *recording)
{
	if (recording->stats.thread_samples)
		return true;
	/* With --mode cpu, or by filters, no thread may be left to show, and that is no error. */
	if (recording->process_count == 0)
		return ended_well(recording->end);
	return snap_any(recording->process_count, i,
			recording->processes[i].node->trouble == SNAP_TROUBLE_NONE);
}

API enum stacksnap_outcome stacksnap_recording_outcome(const struct stacksnap_recording *recording)
{
	const struct snap_recording *inner = recording->inner;

	if (inner->tick_count == 0 || !was_read(inner))
		return STACKSNAP_OUTCOME_NOTHING;
	if (!ended_well(inner->end) || snap_is_missing(&inner->missing))
		return STACKSNAP_OUTCOME_PARTIAL;
	return STACKSNAP_OUTCOME_WHOLE;
}

API int stacksnap_recording_warning(const struct stacksnap_recording *recording, size_t index,
				    const char **code_ret, const char **message_ret, pid_t *pid_ret,
				    pid_t *tid_ret)
{
	static const struct snap_warning limited = { .code = "report_limited" };

	if (index == recording->inner->warning_count && *recording->limited) {
		if (message_ret)
			*message_ret = *recording->limited;
		return snap_api_tell(&limited, code_ret, pid_ret, tid_ret);
	}
	if (index >= recording->inner->warning_count)
		return false;
	if (message_ret)
		*message_ret = recording->warnings[index];
	return snap_api_tell(&recording->inner->warnings[index], code_ret, pid_ret, tid_ret);
}

API struct stacksnap_error *stacksnap_recording_summary(const struct stacksnap_recording *recording,
							const struct stacksnap_options *options,
							FILE *out)
{
	return snap_render_summary(recording->inner, &options->values, out);
}

API struct stacksnap_error *
stacksnap_recording_render_stats(const struct stacksnap_recording *recording, FILE *out)
{
	return snap_render_stats(recording->inner, out);
}

/* ---- files ---- */

API enum stacksnap_file_kind stacksnap_file_kind(const void *bytes, size_t size)
{
	const char *text = bytes;

	if (snap_capture_is_capture(bytes, size))
		return STACKSNAP_FILE_CAPTURE;
	if (snap_log_is_recording(bytes, size))
		return STACKSNAP_FILE_RECORDING;
	if (snap_core_is_core(bytes, size) || snap_packing_of(bytes, size))
		return STACKSNAP_FILE_CORE;
	for (size_t i = 0; i < size; i++)
		if (!memchr(" \t\r\n", text[i], 4))
			return text[i] == '{' ? STACKSNAP_FILE_JSON : STACKSNAP_FILE_UNKNOWN;
	return STACKSNAP_FILE_UNKNOWN;
}
