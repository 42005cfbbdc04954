/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A run of the recorder: the loop and its clock. When a tick is due is in pace.c, when --until is
 * met in until.c. See recorder.h.
 */
#include "record/internal.h"

enum {
	NAP = SNAP_SECOND / 10,    /* the longest sleep: so late a wish to stop is seen */
	HOUSE_EVERY = SNAP_SECOND, /* the file, and what a ring forgets */
};

/* The log's time. */
static int64_t now_ns(const struct snap_recorder *recorder)
{
	return snap_clock_ns(CLOCK_MONOTONIC) - recorder->start_ns;
}

static bool is_told_to_stop(struct snap_recorder *recorder)
{
	return atomic_load(&recorder->stop) || snap_options_cancelled(recorder->options);
}

/* Sleeps until the next tick is due (UNFINISHED), or the run is to end: then why. */
static enum snap_recording_end wait_for_tick(struct snap_recorder *recorder)
{
	const struct snap_options *options = recorder->options;
	int64_t due = recorder->run_ns + snap_pace_due(&recorder->pace), end = INT64_MAX;

	if (options->record_ns)
		end = recorder->run_ns + options->record_ns;
	for (;;) {
		int64_t now = now_ns(recorder), until = due < end ? due : end;
		struct timespec when;

		if (is_told_to_stop(recorder))
			return SNAP_END_ASKED;
		if (now >= end)
			return SNAP_END_TIME;
		if (now >= due)
			return SNAP_END_UNFINISHED;
		if (until > now + NAP)
			until = now + NAP;
		until += recorder->start_ns;
		when = (struct timespec){ until / SNAP_SECOND, until % SNAP_SECOND };
		/* A signal wakes us: perhaps it said stop. */
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
	}
}

static void count_tick(struct snap_recorder *recorder, const struct snap_sampler_tick *seen)
{
	struct snap_recording_stats *stats = &recorder->log->stats;
	const struct snap_follow *follow = &recorder->follow;
	uint64_t fresh = (uint64_t)seen->unstopped + seen->alone, kept = seen->kept;

	/* With --mode cpu the sampler keeps threads that are not sampled, too. */
	if (kept + fresh > follow->sampled)
		kept = follow->sampled > fresh ? follow->sampled - fresh : 0;
	stats->ticks++;
	stats->stopped_ns += seen->stopped_ns;
	stats->threads = follow->born;
	stats->thread_samples += follow->sampled;
	stats->kept += kept;
	stats->unstopped += seen->unstopped;
	stats->alone += seen->alone;
}

static void count_time(struct snap_recorder *recorder)
{
	struct snap_recording_stats *stats = &recorder->log->stats;

	stats->duration_ns = recorder->before_ns + now_ns(recorder) - recorder->run_ns;
	stats->ticks_missed = recorder->missed + recorder->pace.missed;
	stats->stacks = recorder->log->stack_count;
	if (stats->duration_ns > 0)
		stats->hz_reached = (double)stats->ticks * SNAP_SECOND / (double)stats->duration_ns;
	/* The first tick is at time 0: after a short run there is one more than the time is long.
	 */
	if (stats->hz_reached > stats->hz_asked)
		stats->hz_reached = stats->hz_asked;
}

/* One look at all threads, and into the log with it. */
static struct snap_error *take_tick(struct snap_recorder *recorder, struct snap_sampler_tick *seen)
{
	int64_t now = now_ns(recorder);
	struct snap_error *err;

	snap_spaces_tidy(recorder->spaces);
	recorder->follow.tick++;
	snap_pace_take(&recorder->pace, now - recorder->run_ns);
	err = snap_log_begin_tick(recorder->log, now);
	if (err)
		return err;
	err = snap_sampler_tick(recorder->sampler, seen);
	snap_log_end_tick(recorder->log, err ? 0 : seen->stopped_ns);
	if (err)
		return err;
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

	recorder->start_ns += passed;
	recorder->run_ns = 0;
	recorder->log->ticks[0].time_ns = 0;
	recorder->log->time_ns += passed;
	recorder->log->capture->time_ns += passed;
	count_time(recorder);
}

static struct snap_error *take_next_tick(struct snap_recorder *recorder,
					 struct snap_sampler_tick *seen)
{
	bool first = recorder->log->stats.ticks == 0;
	struct snap_error *err = take_tick(recorder, seen);

	if (!err && first)
		start_clock(recorder);
	return err;
}

/* What is done each second. */
static struct snap_error *keep_house(struct snap_recorder *recorder)
{
	struct snap_error *err;

	if (now_ns(recorder) < recorder->next_flush_ns)
		return NULL;
	recorder->next_flush_ns = now_ns(recorder) + HOUSE_EVERY;
	err = snap_recorder_forget(recorder);
	return err ? err : snap_recorder_flush(recorder);
}

static bool watch_condition(struct snap_recorder *recorder, const struct snap_sampler_tick *seen)
{
	const struct snap_log *log = recorder->log;
	struct snap_until_tick tick = {
		.time_ns = log->ticks[log->tick_count - 1].time_ns,
		.threads = seen->threads,
		.states = recorder->follow.states,
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
	return SNAP_END_UNFINISHED;
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

static struct snap_error *
record(struct snap_recorder *recorder,
       bool (*tick)(void *context, const struct snap_recorder_status *status), void *context)
{
	struct snap_log *log = recorder->log;
	struct snap_sampler_tick seen = { 0 };
	struct snap_error *err;

	for (;;) {
		struct snap_recorder_status status;

		log->end = wait_for_tick(recorder);
		if (log->end != SNAP_END_UNFINISHED)
			return NULL;
		err = take_next_tick(recorder, &seen);
		if (!err)
			err = keep_house(recorder);
		if (err)
			return err;
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
	recorder->pace = (struct snap_pace){ .hz = recorder->options->hz };
	recorder->next_flush_ns = 0;
	recorder->is_running = true;
	recorder->log->end = SNAP_END_UNFINISHED;
}

static void end_run(struct snap_recorder *recorder)
{
	int64_t passed = now_ns(recorder) - recorder->run_ns;

	/* We wake a moment after the end, at which another tick would have been due. */
	if (recorder->log->end == SNAP_END_TIME && passed > recorder->options->record_ns)
		passed = recorder->options->record_ns;
	snap_pace_finish(&recorder->pace, passed);
	count_time(recorder);
	recorder->before_ns = recorder->log->stats.duration_ns;
	recorder->missed = recorder->log->stats.ticks_missed;
	snap_recorder_tell_losses(recorder);
	recorder->is_running = false;
	atomic_store(&recorder->stop, false);
}

struct snap_error *snap_recorder_run(struct snap_recorder *recorder,
				     bool (*tick)(void *context,
						  const struct snap_recorder_status *status),
				     void *context)
{
	struct snap_error *err;

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
	end_run(recorder);
	return err ? err : snap_recorder_flush(recorder);
}
