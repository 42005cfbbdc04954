/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loop of looks and its snapshots: see watcher.h. */
#include "watch/watcher.h"

#include "base/clock.h"
#include "sample/check_targets.h"
#include "watch/conditions.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum {
	NAP_NS = 100000000, /* the longest sleep: a request to end is seen so late */
	COST_TIMES = 100,   /* what a snapshot costs is at most one part in so many of the time */
	ONCE_LOOKS = 2,
	ONCE_MOST_LOOKS = 5, /* until what was seen has been seen as often as it must be */
	ONCE_APART_NS = 100000000,
};

struct snap_watcher {
	const struct snap_options *options;
	struct snap_options view_options;
	struct snap_watcher_calls calls;
	struct snap_sweep sweep;
	struct snap_pools pools;
	struct snap_view view;
	struct snap_alarms alarms;
	int64_t next_view_ns; /* none before, CLOCK_MONOTONIC */
	_Atomic int stopped;
};

struct stacksnap_error *snap_watcher_create(const struct snap_options *options,
					    const struct snap_watcher_calls *calls,
					    struct snap_watcher **ret)
{
	struct snap_watcher *watcher = calloc(1, sizeof(*watcher));
	const struct snap_capture *found;
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(watcher));
	watcher->options = options;
	watcher->calls = *calls;
	/* How long each has waited is asked for: a wait may be older than the watch. */
	watcher->view_options = *options;
	watcher->view_options.no_stop = true;
	watcher->view_options.explain = SNAP_EXPLAIN_ALL;
	watcher->alarms = (struct snap_alarms){ .rules = &options->watch_rules,
						.tell = calls->tell,
						.context = calls->context };
	err = snap_sweep_init(&watcher->sweep, options,
			      options->watch_rules.of[SNAP_ALERT_SPINNING].least);
	err = err ?: snap_check_targets(watcher->sweep.sampler);
	if (err) {
		snap_watcher_destroy(watcher);
		return err;
	}
	/* Snapshots are of what the sweep found, whichever processes have these numbers later. */
	found = snap_sampler_capture(watcher->sweep.sampler);
	watcher->view_options.seen = found->processes;
	watcher->view_options.seen_count = found->process_count;
	*ret = watcher;
	return NULL;
}

void snap_watcher_destroy(struct snap_watcher *watcher)
{
	if (!watcher)
		return;
	snap_alarms_deinit(&watcher->alarms);
	snap_view_deinit(&watcher->view);
	snap_pools_deinit(&watcher->pools);
	snap_sweep_deinit(&watcher->sweep);
	free(watcher);
}

unsigned snap_watcher_lacks(const struct snap_watcher *watcher)
{
	const struct snap_watch_rules *rules = &watcher->options->watch_rules;

	if (!watcher->view.snapshot ||
	    (!rules->of[SNAP_ALERT_DEADLOCK].on && !rules->of[SNAP_ALERT_BLOCKED].on))
		return 0;
	return watcher->view.snapshot->waits.lacks;
}

void snap_watcher_stop(struct snap_watcher *watcher)
{
	atomic_store(&watcher->stopped, 1);
}

static bool was_asked_to_end(struct snap_watcher *watcher)
{
	return atomic_load(&watcher->stopped) || watcher->alarms.enough ||
	       snap_options_cancelled(watcher->options);
}

/* The targets may go while it is taken; a snapshot that fails is tried again later. */
static struct stacksnap_error *take_view(struct snap_watcher *watcher)
{
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), end;
	struct snap_snapshot *snapshot = NULL;
	struct stacksnap_error *err =
		watcher->calls.take(watcher->calls.context, &watcher->view_options, &snapshot);

	end = snap_clock_ns(CLOCK_MONOTONIC);
	watcher->next_view_ns = end + COST_TIMES * (end - begin);
	if (err && snap_error_code(err) == SNAP_ERROR_NO_MEMORY)
		return err;
	snap_error_destroy(err);
	return err ? NULL : snap_view_set(&watcher->view, snapshot, begin);
}

static struct stacksnap_error *check_conditions(struct snap_watcher *watcher,
						const struct snap_conditions *conditions)
{
	snap_alarms_begin(&watcher->alarms);
	SNAP_TRY(snap_conditions_check(conditions));
	snap_alarms_end(&watcher->alarms, watcher->sweep.now_ns);
	return NULL;
}

static bool may_take_view(const struct snap_watcher *watcher)
{
	/* The caller waits for the answer, and each of these allows one more at most. */
	return watcher->options->watch_once || !watcher->view.snapshot ||
	       snap_alarms_lack_evidence(&watcher->alarms) ||
	       watcher->sweep.now_ns >= watcher->next_view_ns;
}

static struct stacksnap_error *poll_targets(struct snap_watcher *watcher)
{
	const struct snap_conditions conditions = {
		.options = watcher->options,
		.sweep = &watcher->sweep,
		.pools = &watcher->pools,
		.view = &watcher->view,
		.alarms = &watcher->alarms,
	};
	struct stacksnap_error *err = snap_sweep_run(&watcher->sweep);

	if (!err && watcher->view.snapshot && !watcher->view.settled_ns)
		watcher->view.settled_ns = watcher->sweep.now_ns;
	err = err ?: snap_pools_look(&watcher->pools, &watcher->sweep);
	if (!err && snap_conditions_need_view(&conditions) && may_take_view(watcher))
		err = take_view(watcher);
	return err ? err : check_conditions(watcher, &conditions);
}

static void sleep_until(struct snap_watcher *watcher, int64_t until_ns)
{
	while (!was_asked_to_end(watcher)) {
		int64_t now = snap_clock_ns(CLOCK_MONOTONIC), next = now + NAP_NS;
		struct timespec when;

		if (now >= until_ns)
			return;
		if (next > until_ns)
			next = until_ns;
		when = (struct timespec){ next / 1000000000, next % 1000000000 };
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
	}
}

static bool is_answered(const struct snap_watcher *watcher, unsigned looks)
{
	return looks >= ONCE_MOST_LOOKS ||
	       (looks >= ONCE_LOOKS && !snap_alarms_lack_evidence(&watcher->alarms));
}

struct stacksnap_error *snap_watcher_run(struct snap_watcher *watcher, size_t *raised_ret)
{
	const struct snap_options *options = watcher->options;
	int64_t every = options->watch_once ? ONCE_APART_NS : options->every_ns;
	int64_t due = snap_clock_ns(CLOCK_MONOTONIC), now;
	unsigned looks = 0;
	struct stacksnap_error *err = NULL;

	while (!err && !was_asked_to_end(watcher) && !watcher->sweep.no_targets) {
		err = poll_targets(watcher);
		if (!err && watcher->sweep.refused && !watcher->sweep.no_targets)
			err = snap_error_format(SNAP_ERROR_PERMISSION,
						"none of the targets may be read any more");
		if (options->watch_once && is_answered(watcher, ++looks))
			break;
		/* Looks that are late are left out. */
		now = snap_clock_ns(CLOCK_MONOTONIC);
		do
			due += every;
		while (due <= now);
		if (!err)
			sleep_until(watcher, due);
	}
	if (err && snap_error_code(err) == SNAP_ERROR_CANCELLED) {
		snap_error_destroy(err);
		err = NULL;
	}
	if (!err)
		*raised_ret = watcher->alarms.raised;
	return err;
}
