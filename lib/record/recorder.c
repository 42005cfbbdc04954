/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The recorder: see recorder.h. Its beginning and end, its file, its ring, and the loop with its
 * clock. When a tick is due is in pace.c, when --until is met in until.c, what a tick sees in
 * log_sink.c, how stacks are unwound in roles/unwinder/.
 */
#include "record/recorder.h"

#include "analyze/log/log.h"
#include "base/clock.h"
#include "base/priority.h"
#include "record/log_sink.h"
#include "record/losses.h"
#include "record/memory_limit.h"
#include "record/tick_pacer.h"
#include "record/until.h"
#include "roles/file_opener/file_opener.h"
#include "roles/naming.h"
#include "sample/check_targets.h"
#include "store/recording/file.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum {
	NAP = SNAP_NS_PER_S / 10,        /* the longest sleep: a request to stop is seen so late */
	LEAST_RING = SNAP_NS_PER_S,      /* what a ring keeps, however short memory is */
	PLAN_SHARE = 8,                  /* of a period one part, for plans of memory … */
	MOST_PLAN = SNAP_NS_PER_S / 500, /* … and at most so long */
	UPKEEP_EVERY = SNAP_NS_PER_S, /* writing to the file, and forgetting what a ring has lost */
};

struct snap_recorder {
	const struct snap_options *options;
	struct snap_sampler_sink sink;
	struct snap_sampler *sampler;
	struct snap_log *log;
	/* serves the files that the unwinder asks for */
	struct snap_file_opener *opener;
	struct snap_remote_unwinder *unwinder;
	struct snap_log_sink log_sink;
	struct snap_until_watch watch;
	struct snap_log_writer *writer;
	int fd;
	_Atomic int64_t stop_ns; /* CLOCK_MONOTONIC: when it was asked to stop; 0: it was not */
	bool begun;              /* a run has begun: the log's time counts */
	int64_t start_ns;        /* CLOCK_MONOTONIC of the log's time 0 */
	/* of this run */
	struct snap_priority priority; /* of the caller's thread, when it is not raised */
	struct snap_tick_pacer pace;
	int64_t first_look_ns;     /* how long the first tick took, before time 0 */
	int64_t run_ns;            /* since start_ns: when it began */
	int64_t before_ns;         /* how long those before it took */
	struct snap_missed missed; /* ticks of those before it */
	int64_t next_flush_ns;     /* since start_ns */
	bool condition;            /* was met at the last tick */
	bool is_running;
	struct snap_losses losses;
};

static const int64_t NAMING_NS = 60 * SNAP_NS_PER_S;

/* What the discovery had to say is said of the recording. */
static void copy_warnings(const struct snap_capture *from, struct snap_capture *to)
{
	for (size_t i = 0; i < from->warning_count && i < SNAP_LOG_SINK_WARNINGS; i++) {
		const struct snap_warning *warning = &from->warnings[i];
		const char *code = snap_arena_strdup(&to->arena, warning->code);

		if (code)
			snap_capture_warn(to, code, warning->pid, warning->tid, "%s",
					  warning->message);
	}
}

static struct stacksnap_error *begin_unwinder(struct snap_recorder *recorder)
{
	struct stacksnap_error *err = snap_file_opener_create(NULL, &recorder->opener);
	struct snap_broker broker;

	if (err)
		return err;
	snap_file_opener_set_options(recorder->opener, recorder->options, 0);
	snap_file_opener_set_capture(recorder->opener, recorder->log->capture);
	broker = snap_file_opener_broker(recorder->opener);
	SNAP_TRY(snap_remote_unwinder_create(recorder->options, &broker, &recorder->unwinder));
	snap_remote_unwinder_heed(recorder->unwinder, &recorder->stop_ns);
	return NULL;
}

static struct stacksnap_error *begin_log(struct snap_recorder *recorder)
{
	const struct snap_options *options = recorder->options;
	const struct snap_capture *found = snap_sampler_capture(recorder->sampler);

	SNAP_TRY(snap_log_create(&found->host, snap_clock_ns(CLOCK_REALTIME),
				 SNAP_NS_PER_S / options->hz, options->cpu_only, &recorder->log));
	snap_log_set_limit(recorder->log, options->max_memory);
	recorder->log->explains = options->explain != SNAP_EXPLAIN_NO && !options->cpu_only;
	if (recorder->log->explains && snap_sampler_counts_runs(recorder->sampler))
		recorder->log->wakes_end = UINT64_MAX;
	copy_warnings(found, recorder->log->capture);
	recorder->log->stats.hz_asked = options->hz;
	recorder->log->end = SNAP_END_UNFINISHED;
	SNAP_TRY(begin_unwinder(recorder));
	snap_log_sink_init(&recorder->log_sink, options, recorder->log, recorder->unwinder);
	return NULL;
}

struct stacksnap_error *snap_recorder_create(const struct snap_options *options,
					     struct snap_recorder **ret)
{
	_cleanup_(snap_recorder_destroyp) struct snap_recorder *recorder =
		calloc(1, sizeof(*recorder));
	_cleanup_(snap_priority_restore) struct snap_priority before = { .raised = false };

	SNAP_TRY(snap_no_memory_unless(recorder));
	if (options->hz == 0)
		return snap_error_format(SNAP_ERROR_INVALID, "a rate of 0 would record nothing");
	/* Processes are looked for here. */
	snap_priority_raise(&before);
	recorder->options = options;
	recorder->fd = -1;
	recorder->sink = snap_log_sink_callbacks(&recorder->log_sink);
	SNAP_TRY(snap_sampler_create(options, &recorder->sink, &recorder->sampler));
	SNAP_TRY(snap_check_targets(recorder->sampler));
	SNAP_TRY(begin_log(recorder));
	*ret = snap_take_ptr(recorder);
	return NULL;
}

void snap_recorder_destroy(struct snap_recorder *recorder)
{
	if (!recorder)
		return;
	snap_sampler_destroy(recorder->sampler);
	snap_log_writer_destroy(recorder->writer);
	snap_log_sink_deinit(&recorder->log_sink);
	snap_remote_unwinder_destroy(recorder->unwinder);
	snap_file_opener_destroy(recorder->opener);
	snap_log_destroy(recorder->log);
	free(recorder);
}

const struct snap_log *snap_recorder_log(const struct snap_recorder *recorder)
{
	return recorder->log;
}

void snap_recorder_stop(struct snap_recorder *recorder)
{
	atomic_store(&recorder->stop_ns, snap_clock_ns(CLOCK_MONOTONIC));
}

/* What was lost by now. */
static void warn_of_recorder_losses(struct snap_recorder *recorder)
{
	recorder->losses.cut_looks = recorder->log_sink.looks.cut;
	snap_losses_warn(&recorder->losses, recorder->options, recorder->log, recorder->unwinder);
}

/* ---- the file ---- */

struct stacksnap_error *snap_recorder_write_to(struct snap_recorder *recorder, int fd)
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
 * A recording that is late has all its names; how long that takes depends on the programs. Unless
 * the caller sets a limit it is a long time; a second once it is asked to stop.
 */
static struct stacksnap_error *name_frames(struct snap_recorder *recorder,
					   const struct snap_options *options, bool for_file)
{
	_Atomic int64_t cancelled_ns = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_broker broker;
	struct snap_naming_limits limits = { .patience_ns = options->timeout_ns,
					     .asked_ns = &recorder->stop_ns,
					     .for_file = for_file };

	if (snap_options_cancelled(recorder->options))
		limits.asked_ns = &cancelled_ns;

	if (!options->timeout_given && limits.patience_ns < NAMING_NS)
		limits.patience_ns = NAMING_NS;
	broker = snap_file_opener_broker(recorder->opener);
	return snap_naming_run(recorder->log, options, &broker, &limits);
}

/* After an error nothing more is written. */
static struct stacksnap_error *flush_file(struct snap_recorder *recorder)
{
	struct stacksnap_error *err = NULL;

	if (recorder->fd < 0)
		return NULL;
	if (!recorder->writer)
		err = snap_log_writer_create(recorder->log, recorder->fd, &recorder->writer);
	err = err ?: snap_log_writer_flush(recorder->writer, recorder->log);
	if (err)
		snap_log_writer_destroy(snap_take_ptr(recorder->writer));
	if (err)
		recorder->fd = -1;
	return err;
}

struct stacksnap_error *snap_recorder_finish(struct snap_recorder *recorder)
{
	_cleanup_(snap_log_writer_destroyp) struct snap_log_writer *writer = NULL;
	struct snap_options options = *recorder->options;
	struct stacksnap_error *err, *naming;

	if (recorder->fd < 0)
		return NULL;
	SNAP_TRY(flush_file(recorder));
	/* A cancelled run still writes its file. */
	options.cancel = NULL;
	naming = name_frames(recorder, &options, true);
	writer = snap_take_ptr(recorder->writer);
	recorder->fd = -1;
	err = snap_log_writer_finish(writer, recorder->log);
	if (err)
		snap_error_destroy(naming);
	return err ? err : naming;
}

/* ---- the ring ---- */

static struct stacksnap_error *forget_old_ticks(struct snap_recorder *recorder)
{
	struct snap_log *log = recorder->log;
	bool renumbered = false;
	struct stacksnap_error *err;
	int64_t end;

	if (!recorder->options->ring_ns || !log->tick_count)
		return NULL;
	end = log->ticks[log->tick_count - 1].time_ns + log->period_ns;
	if (snap_log_ring_is_tight(log) && end - log->ticks[0].time_ns > LEAST_RING)
		err = snap_log_forget_half(log, &renumbered);
	else
		err = snap_log_forget(log, end - recorder->options->ring_ns, &renumbered);
	if (!err && renumbered)
		snap_log_sink_renumber(&recorder->log_sink);
	return err;
}

/* ---- what is held ---- */

struct stacksnap_error *snap_recorder_recording(struct snap_recorder *recorder,
						const struct snap_options *options,
						struct snap_recording **ret)
{
	struct snap_log *log = recorder->log;
	enum snap_recording_end end = log->end;
	struct stacksnap_error *err = forget_old_ticks(recorder);

	warn_of_recorder_losses(recorder);
	snap_memory_limit_warn(log);
	SNAP_TRY(err ?: name_frames(recorder, options, false));
	/* In the middle of a run it is complete up to now: the caller asked for it here. */
	if (recorder->is_running && end == SNAP_END_UNFINISHED)
		log->end = recorder->condition ? SNAP_END_CONDITION : SNAP_END_ASKED;
	err = snap_analyze_log(log, options, ret);
	log->end = end;
	return err;
}

/* ---- the loop ---- */

/* The log's time. */
static int64_t now_ns(const struct snap_recorder *recorder)
{
	return snap_clock_ns(CLOCK_MONOTONIC) - recorder->start_ns;
}

static bool was_asked_to_stop(struct snap_recorder *recorder)
{
	return atomic_load(&recorder->stop_ns) || snap_options_cancelled(recorder->options);
}

/* Sleeps until the next tick is due (UNFINISHED), or the run is to end: then why. */
static enum snap_recording_end wait_for_tick(struct snap_recorder *recorder)
{
	const struct snap_options *options = recorder->options;
	int64_t due = recorder->run_ns + snap_tick_pacer_due(&recorder->pace), end = INT64_MAX;

	if (options->record_ns)
		end = recorder->run_ns + options->record_ns;
	for (;;) {
		int64_t now = now_ns(recorder), until = due < end ? due : end;
		struct timespec when;

		if (was_asked_to_stop(recorder))
			return SNAP_END_ASKED;
		if (now >= end)
			return SNAP_END_TIME;
		if (now >= due)
			return SNAP_END_UNFINISHED;
		until = SNAP_MIN(until, now + NAP);
		until += recorder->start_ns;
		when = (struct timespec){ until / SNAP_NS_PER_S, until % SNAP_NS_PER_S };
		/* A signal wakes us: perhaps it said stop. */
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
	}
}

static void count_tick(struct snap_recorder *recorder, const struct snap_sampler_tick *seen)
{
	struct snap_recording_stats *stats = &recorder->log->stats;
	const struct snap_log_sink *log_sink = &recorder->log_sink;
	uint64_t fresh = (uint64_t)seen->unstopped + seen->alone, kept = seen->kept;

	/* With --mode cpu the sampler keeps threads that are not sampled, too. */
	if (kept + fresh > log_sink->sampled)
		kept = log_sink->sampled > fresh ? log_sink->sampled - fresh : 0;
	stats->ticks++;
	stats->stopped_ns = seen->stood_ns;
	stats->left_out += seen->left_out;
	recorder->losses.waiting = seen->waiting;
	recorder->losses.in_exec += seen->in_exec;
	stats->threads = log_sink->born;
	stats->thread_samples += log_sink->sampled;
	stats->kept += kept;
	stats->unstopped += seen->unstopped;
	stats->alone += seen->alone;
}

static void count_time(struct snap_recorder *recorder)
{
	struct snap_recording_stats *stats = &recorder->log->stats;

	stats->duration_ns = recorder->before_ns + now_ns(recorder) - recorder->run_ns;
	stats->elapsed_ns = stats->duration_ns + recorder->first_look_ns;
	stats->ticks_missed = recorder->missed.slots + recorder->pace.missed.slots;
	stats->ticks_late = recorder->missed.late + recorder->pace.missed.late;
	stats->ticks_left_out = recorder->missed.left_out + recorder->pace.missed.left_out;
	stats->stacks = recorder->log->stack_count;
	if (stats->duration_ns > 0)
		stats->hz_reached =
			(double)stats->ticks * SNAP_NS_PER_S / (double)stats->duration_ns;
	/* The first tick is at time 0: after a short run there is one more than the time is long.
	 */
	stats->hz_reached = SNAP_MIN(stats->hz_reached, stats->hz_asked);
}

static struct stacksnap_error *look_at_tasks(struct snap_recorder *recorder,
					     struct snap_sampler_tick *seen)
{
	int64_t stopped_ns;
	struct stacksnap_error *err =
		snap_log_sink_look_at_tasks(&recorder->log_sink, recorder->sampler, &stopped_ns);

	if (stopped_ns == 0)
		return err;
	seen->stopped_ns = SNAP_MAX(seen->stopped_ns, stopped_ns);
	seen->stood_ns = snap_sampler_stood_ns(recorder->sampler);
	return err;
}

/* One look at all threads, and into the log with it. */
static struct stacksnap_error *take_tick(struct snap_recorder *recorder,
					 struct snap_sampler_tick *seen)
{
	int64_t now = now_ns(recorder);
	struct stacksnap_error *err = NULL;

	snap_remote_unwinder_tidy(recorder->unwinder);
	recorder->log_sink.tick++;
	snap_tick_pacer_take(&recorder->pace, now - recorder->run_ns);
	SNAP_TRY(snap_log_begin_tick(recorder->log, now));
	err = snap_sampler_tick(recorder->sampler, seen);
	err = err ?: snap_log_sink_look_at_frozen(&recorder->log_sink);
	/* The first look opens all that there is, before the time counts. */
	if (!err && recorder->log->stats.ticks)
		err = snap_log_sink_read_owners(&recorder->log_sink, recorder->sampler);
	if (!err && recorder->log->stats.ticks)
		err = look_at_tasks(recorder, seen);
	snap_log_end_tick(recorder->log, err ? 0 : seen->stopped_ns);
	if (err)
		return err;
	snap_tick_pacer_leave_out(&recorder->pace, snap_log_ticks_to_leave_out(recorder->log));
	count_tick(recorder, seen);
	count_time(recorder);
	return NULL;
}

/*
 * The first look opens files of each thread and copies all of them, which takes many periods. What
 * it saw is the first tick; the clock starts when it is done.
 */
static void start_clock(struct snap_recorder *recorder)
{
	int64_t passed = now_ns(recorder);

	recorder->first_look_ns = passed;
	recorder->start_ns += passed;
	recorder->run_ns = 0;
	recorder->log->ticks[0].time_ns = 0;
	recorder->log->time_ns += passed;
	recorder->log->capture->time_ns += passed;
	count_time(recorder);
}

static struct stacksnap_error *take_next_tick(struct snap_recorder *recorder,
					      struct snap_sampler_tick *seen)
{
	bool first = recorder->log->stats.ticks == 0;
	struct stacksnap_error *err = take_tick(recorder, seen);

	if (!err && first)
		start_clock(recorder);
	return err;
}

/* In little of the time that there is until the next tick. */
static struct stacksnap_error *make_plans(struct snap_recorder *recorder)
{
	int64_t share = recorder->log->period_ns / PLAN_SHARE;

	return snap_plans_work(&recorder->log_sink.plans,
			       snap_clock_ns(CLOCK_MONOTONIC) +
				       (share < MOST_PLAN ? share : MOST_PLAN));
}

/* What is done each second. */
static struct stacksnap_error *keep_house(struct snap_recorder *recorder)
{
	if (now_ns(recorder) < recorder->next_flush_ns)
		return NULL;
	recorder->next_flush_ns = now_ns(recorder) + UPKEEP_EVERY;
	return forget_old_ticks(recorder) ?: flush_file(recorder);
}

static bool watch_condition(struct snap_recorder *recorder, const struct snap_sampler_tick *seen)
{
	const struct snap_log *log = recorder->log;
	struct snap_until_tick tick = {
		.time_ns = log->ticks[log->tick_count - 1].time_ns,
		.threads = seen->threads,
		.states = recorder->log_sink.states,
		.run_ns = seen->run_ns,
	};

	return snap_until_met(&recorder->watch, &recorder->options->until, &tick);
}

static struct snap_recorder_status status_of(const struct snap_recorder *recorder,
					     const struct snap_sampler_tick *seen)
{
	const struct snap_options *options = recorder->options;
	int64_t passed = now_ns(recorder) - recorder->run_ns, remaining = -1;

	if (options->record_ns)
		remaining = passed < options->record_ns ? options->record_ns - passed : 0;
	return (struct snap_recorder_status){
		.elapsed_ns = recorder->log->stats.duration_ns,
		.remaining_ns = remaining,
		.threads = seen->threads,
		.stats = recorder->log->stats,
		.condition = recorder->condition,
	};
}

/* Why a tick was the last one; UNFINISHED: it was not. */
static enum snap_recording_end end_after(const struct snap_recorder *recorder,
					 const struct snap_sampler_tick *seen)
{
	if (seen->no_targets)
		return SNAP_END_TARGETS;
	if (seen->refused)
		return SNAP_END_PERMISSION;
	if (recorder->condition && !recorder->options->ring_ns)
		return SNAP_END_CONDITION;
	return snap_memory_limit_ends(recorder->log) ? SNAP_END_FAILED : SNAP_END_UNFINISHED;
}

/* The caller may do what takes long, as write a ring down: that is not for our priority. */
static bool ask_caller(struct snap_recorder *recorder,
		       bool (*tick)(void *context, const struct snap_recorder_status *status),
		       void *context, const struct snap_recorder_status *status)
{
	bool goes_on;

	snap_priority_restore(&recorder->priority);
	goes_on = tick(context, status);
	snap_priority_raise(&recorder->priority);
	return goes_on;
}

static struct stacksnap_error *
record(struct snap_recorder *recorder,
       bool (*tick)(void *context, const struct snap_recorder_status *status), void *context)
{
	struct snap_log *log = recorder->log;
	struct snap_sampler_tick seen = { 0 };

	for (;;) {
		struct snap_recorder_status status;

		snap_tick_pacer_done(&recorder->pace, now_ns(recorder) - recorder->run_ns);
		log->end = wait_for_tick(recorder);
		if (log->end != SNAP_END_UNFINISHED)
			return NULL;
		SNAP_TRY(take_next_tick(recorder, &seen));
		SNAP_TRY(make_plans(recorder));
		SNAP_TRY(snap_log_sink_look_at_sockets(&recorder->log_sink, false));
		SNAP_TRY(keep_house(recorder));
		recorder->condition = watch_condition(recorder, &seen);
		log->end = end_after(recorder, &seen);
		status = status_of(recorder, &seen);
		if (tick && !ask_caller(recorder, tick, context, &status) &&
		    log->end == SNAP_END_UNFINISHED)
			log->end = SNAP_END_ASKED;
		recorder->condition = false;
		if (log->end != SNAP_END_UNFINISHED)
			return NULL;
	}
}

static void begin_run(struct snap_recorder *recorder)
{
	if (!recorder->begun) {
		recorder->begun = true;
		recorder->start_ns = snap_clock_ns(CLOCK_MONOTONIC);
		recorder->log->time_ns = snap_clock_ns(CLOCK_REALTIME);
		recorder->log->capture->time_ns = recorder->log->time_ns;
	}
	recorder->run_ns = now_ns(recorder);
	recorder->pace = (struct snap_tick_pacer){ .hz = recorder->options->hz };
	recorder->next_flush_ns = 0;
	recorder->is_running = true;
	recorder->log->end = SNAP_END_UNFINISHED;
}

static void end_recording_run(struct snap_recorder *recorder)
{
	int64_t passed = now_ns(recorder) - recorder->run_ns;

	/* We wake a moment after the end, at which another tick would have been due. */
	if (recorder->log->end == SNAP_END_TIME && passed > recorder->options->record_ns)
		passed = recorder->options->record_ns;
	snap_tick_pacer_finish(&recorder->pace, passed);
	count_time(recorder);
	recorder->before_ns = recorder->log->stats.duration_ns;
	recorder->missed = (struct snap_missed){ recorder->log->stats.ticks_missed,
						 recorder->log->stats.ticks_late,
						 recorder->log->stats.ticks_left_out };
	warn_of_recorder_losses(recorder);
	snap_memory_limit_warn(recorder->log);
	recorder->is_running = false;
	atomic_store(&recorder->stop_ns, 0);
}

struct stacksnap_error *snap_recorder_run(struct snap_recorder *recorder,
					  bool (*tick)(void *context,
						       const struct snap_recorder_status *status),
					  void *context)
{
	struct stacksnap_error *err;

	begin_run(recorder);
	snap_priority_raise(&recorder->priority);
	err = record(recorder, tick, context);
	snap_priority_restore(&recorder->priority);
	if (err && snap_error_code(err) == SNAP_ERROR_CANCELLED) {
		snap_error_destroy(err);
		err = NULL;
		recorder->log->end = SNAP_END_ASKED;
	}
	if (err)
		recorder->log->end = SNAP_END_FAILED;
	end_recording_run(recorder);
	err = err ?: snap_log_sink_look_at_sockets(&recorder->log_sink, true);
	return err ? err : flush_file(recorder);
}
