/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The recorder: see recorder.h. Here are its beginning and end, its file and its ring; the loop is
 * in run.c, what a tick sees in log_sink.c, how stacks are unwound in spaces.c.
 */
#include "record/internal.h"

#include "analyze/log/log.h"
#include "record/targets.h"
#include "roles/naming.h"

#include <string.h>

static const int64_t NAMING_NS = 60ll * SNAP_SECOND;

/* What the discovery had to say is said of the recording. */
static void copy_warnings(const struct snap_capture *from, struct snap_capture *to)
{
	for (size_t i = 0; i < from->warning_count && i < SNAP_FOLLOW_WARNINGS; i++) {
		const struct snap_warning *warning = &from->warnings[i];
		const char *code = snap_arena_strdup(&to->arena, warning->code);

		if (code)
			snap_capture_warn(to, code, warning->pid, warning->tid, "%s",
					  warning->message);
	}
}

static struct snap_error *begin_log(struct snap_recorder *recorder)
{
	const struct snap_options *options = recorder->options;
	const struct snap_capture *found = snap_sampler_capture(recorder->sampler);
	struct snap_error *err;

	err = snap_log_create(&found->host, snap_clock_ns(CLOCK_REALTIME),
			      SNAP_SECOND / options->hz, options->cpu_only, &recorder->log);
	if (err)
		return err;
	copy_warnings(found, recorder->log->capture);
	recorder->log->stats.hz_asked = options->hz;
	recorder->log->end = SNAP_END_UNFINISHED;
	err = snap_spaces_create(options, recorder->log, &recorder->spaces);
	if (err)
		return err;
	snap_follow_init(&recorder->follow, options, recorder->log, recorder->spaces);
	return NULL;
}

struct snap_error *snap_recorder_create(const struct snap_options *options,
					struct snap_recorder **ret)
{
	_cleanup_(snap_recorder_destroyp) struct snap_recorder *recorder =
		calloc(1, sizeof(*recorder));
	struct snap_error *err;

	if (!recorder)
		return snap_error_no_memory();
	if (options->hz == 0)
		return snap_error_format(SNAP_ERROR_INVALID, "a rate of 0 would record nothing");
	recorder->options = options;
	recorder->fd = -1;
	recorder->sink = snap_follow_sink(&recorder->follow);
	err = snap_sampler_create(options, &recorder->sink, &recorder->sampler);
	if (!err)
		err = snap_targets_check(snap_sampler_capture(recorder->sampler));
	if (!err)
		err = begin_log(recorder);
	if (err)
		return err;
	*ret = snap_take_ptr(recorder);
	return NULL;
}

void snap_recorder_destroy(struct snap_recorder *recorder)
{
	if (!recorder)
		return;
	snap_sampler_destroy(recorder->sampler);
	snap_log_writer_destroy(recorder->writer);
	snap_follow_deinit(&recorder->follow);
	snap_spaces_destroy(recorder->spaces);
	snap_log_destroy(recorder->log);
	free(recorder);
}

const struct snap_log *snap_recorder_log(const struct snap_recorder *recorder)
{
	return recorder->log;
}

void snap_recorder_stop(struct snap_recorder *recorder)
{
	atomic_store(&recorder->stop, true);
}

/* ---- what was lost ---- */

static const char LOST[] = "parser_lost";

void snap_recorder_tell_losses(struct snap_recorder *recorder)
{
	struct snap_capture *capture = recorder->log->capture;
	const char *why, *text;
	unsigned losses = snap_spaces_losses(recorder->spaces, &why);

	if (losses == recorder->told_losses)
		return;
	recorder->told_losses = losses;
	text = losses == 1
		       ? snap_arena_printf(&capture->arena, "stacks lost: %s", why)
		       : snap_arena_printf(&capture->arena,
					   "stacks lost %u times, most recently: %s", losses, why);
	for (size_t i = 0; text && i < capture->warning_count; i++) {
		if (strcmp(capture->warnings[i].code, LOST) != 0)
			continue;
		capture->warnings[i].message = text;
		return;
	}
	if (text)
		snap_capture_warn(capture, LOST, 0, 0, "%s", text);
}

/* ---- the file ---- */

struct snap_error *snap_recorder_write_to(struct snap_recorder *recorder, int fd)
{
	if (fd >= 0 && recorder->options->ring_ns)
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"a ring cannot be written while it grows, only on request");
	if (fd >= 0 && recorder->begun)
		return snap_error_format(SNAP_ERROR_INVALID, "the recording has already begun");
	snap_log_writer_destroy(snap_take_ptr(recorder->writer));
	recorder->fd = fd;
	return NULL;
}

/*
 * A recording that is late has all its names; how long that takes depends on the programs. Without
 * a wish of the caller's it is a long time.
 */
static struct snap_error *name_frames(struct snap_recorder *recorder,
				      const struct snap_options *options)
{
	int64_t patience = options->timeout_ns;

	if (!options->timeout_given && patience < NAMING_NS)
		patience = NAMING_NS;
	return snap_naming_run(recorder->log, options, snap_spaces_broker(recorder->spaces),
			       patience);
}

/* After an error nothing more is written. */
struct snap_error *snap_recorder_flush(struct snap_recorder *recorder)
{
	struct snap_error *err = NULL;

	if (recorder->fd < 0)
		return NULL;
	if (!recorder->writer)
		err = snap_log_writer_create(recorder->log, recorder->fd, &recorder->writer);
	if (!err)
		err = snap_log_writer_flush(recorder->writer, recorder->log);
	if (err)
		snap_log_writer_destroy(snap_take_ptr(recorder->writer));
	if (err)
		recorder->fd = -1;
	return err;
}

struct snap_error *snap_recorder_finish(struct snap_recorder *recorder)
{
	_cleanup_(snap_log_writer_destroyp) struct snap_log_writer *writer = NULL;
	struct snap_options options = *recorder->options;
	struct snap_error *err, *naming;

	if (recorder->fd < 0)
		return NULL;
	err = snap_recorder_flush(recorder);
	if (err)
		return err;
	/* Whoever cancelled the run wants its file all the same. */
	options.cancel = NULL;
	naming = name_frames(recorder, &options);
	writer = snap_take_ptr(recorder->writer);
	recorder->fd = -1;
	err = snap_log_writer_finish(writer, recorder->log);
	if (err)
		snap_error_destroy(naming);
	return err ? err : naming;
}

/* ---- the ring ---- */

struct snap_error *snap_recorder_forget(struct snap_recorder *recorder)
{
	struct snap_log *log = recorder->log;
	bool renumbered = false;
	struct snap_error *err;
	int64_t end;

	if (!recorder->options->ring_ns || !log->tick_count)
		return NULL;
	end = log->ticks[log->tick_count - 1].time_ns + log->period_ns;
	err = snap_log_forget(log, end - recorder->options->ring_ns, &renumbered);
	if (!err && renumbered)
		snap_follow_renumber(&recorder->follow);
	return err;
}

/* ---- what is held ---- */

struct snap_error *snap_recorder_recording(struct snap_recorder *recorder,
					   const struct snap_options *options,
					   struct snap_recording **ret)
{
	struct snap_log *log = recorder->log;
	enum snap_recording_end end = log->end;
	struct snap_error *err = snap_recorder_forget(recorder);

	snap_recorder_tell_losses(recorder);
	if (!err)
		err = name_frames(recorder, options);
	if (err)
		return err;
	/* In the middle of a run it is complete as far as it goes: somebody asked for it here. */
	if (recorder->is_running && end == SNAP_END_UNFINISHED)
		log->end = recorder->condition ? SNAP_END_CONDITION : SNAP_END_ASKED;
	err = snap_analyze_log(log, options, ret);
	log->end = end;
	return err;
}
