/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The recorder of `stacksnap top`: see feed.h.
 *
 *     recorder's thread: run ── tick ──▶ every second a slice ──▶ latest ──▶ screen
 *                                  └───▶ what was asked for   ──▶ answer ──▶ file
 */
#include "top/feed.h"

#include "commands.h"
#include "message.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
	SECOND = 1000000000,
	SLICE_SHARE = 20, /* slices take one part in so many of the recorder's time */
	HOLD_S = 1,
};

struct snap_top_feed {
	struct snap_cli_request *request;
	struct stacksnap_recorder *recorder;
	pthread_t thread;
	bool has_thread;
	int wake_fd;
	/* of the recorder's thread */
	int64_t next_ns;                  /* CLOCK_MONOTONIC: when a slice is due */
	enum stacksnap_recording_end end; /* of the latest slice */

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t changed;
	struct stacksnap_recording *latest; /* not taken yet */
	struct snap_top_status status;
	char why[256];
	enum snap_top_ask ask;
	struct snap_top_answer answer;
	bool answered;
	bool paused;
	bool stopping;      /* the thread is to end */
	bool held, is_held; /* is to wait between two ticks; does so, or has none to make */
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

void snap_top_feed_wake(const struct snap_top_feed *feed)
{
	const uint64_t one = 1;
	ssize_t written;
	int os_errno = errno;

	/* It fails where it has been woken ever so often. */
	written = write(feed->wake_fd, &one, sizeof(one));
	(void)written;
	errno = os_errno;
}

void snap_top_feed_listen(struct snap_top_feed *feed)
{
	uint64_t count;
	ssize_t got = read(feed->wake_fd, &count, sizeof(count));

	(void)got;
}

int snap_top_feed_fd(const struct snap_top_feed *feed)
{
	return feed->wake_fd;
}

/* ---- in the recorder's thread ---- */

static struct stacksnap_error *slice(struct snap_top_feed *feed, const char *from,
				     struct stacksnap_recording **ret)
{
	struct stacksnap_options *options = feed->request->options;
	struct stacksnap_error *err = stacksnap_options_set(options, "from", from);

	return err ? err : stacksnap_recorder_slice(feed->recorder, options, ret);
}

/* What cannot be shown now may be in a second: a stretch without a sample. */
static void hand_over(struct snap_top_feed *feed)
{
	struct stacksnap_recording *recording = NULL, *old;
	char from[16];
	int64_t begin = now_ns(), took;

	snprintf(from, sizeof(from), "-%ds", SNAP_TOP_SHOWN_S);
	stacksnap_error_destroy(slice(feed, from, &recording));
	took = now_ns() - begin;
	feed->next_ns = begin + (took * SLICE_SHARE > SECOND ? took * SLICE_SHARE : SECOND);
	if (!recording)
		return;
	feed->end = stacksnap_recording_get_end(recording);
	pthread_mutex_lock(&feed->lock);
	old = feed->latest;
	feed->latest = recording;
	pthread_mutex_unlock(&feed->lock);
	stacksnap_recording_destroy(old);
	snap_top_feed_wake(feed);
}

/* Nothing else traces the targets meanwhile, as this is the recorder's thread. */
static void give_answer(struct snap_top_feed *feed, enum snap_top_ask ask)
{
	struct snap_top_answer answer = { .snapshot = NULL };

	if (ask == SNAP_TOP_ASK_SNAPSHOT)
		answer.error = stacksnap_take(feed->request->others[SNAP_CLI_OF_SNAPSHOTS],
					      &answer.snapshot);
	else
		answer.error = slice(feed, "0s", &answer.ring);
	pthread_mutex_lock(&feed->lock);
	feed->ask = SNAP_TOP_ASK_NOTHING;
	feed->answer = answer;
	feed->answered = true;
	pthread_mutex_unlock(&feed->lock);
	snap_top_feed_wake(feed);
}

static void wait_while_held(struct snap_top_feed *feed)
{
	pthread_mutex_lock(&feed->lock);
	while (feed->held && !feed->stopping) {
		feed->is_held = true;
		pthread_cond_broadcast(&feed->changed);
		pthread_cond_wait(&feed->changed, &feed->lock);
	}
	feed->is_held = false;
	pthread_mutex_unlock(&feed->lock);
}

static int on_tick(void *context, const struct stacksnap_recorder_status *status)
{
	struct snap_top_feed *feed = context;
	enum snap_top_ask ask;
	bool paused, stopping;

	wait_while_held(feed);
	pthread_mutex_lock(&feed->lock);
	feed->status.threads = status->threads;
	feed->status.ticks_missed = status->stats->ticks_missed;
	feed->status.hz_reached = status->stats->hz_reached;
	feed->status.stopped_percent = status->stats->stopped_percent;
	ask = feed->ask;
	paused = feed->paused;
	stopping = feed->stopping;
	pthread_mutex_unlock(&feed->lock);
	if (stopping)
		return 0;
	if (ask != SNAP_TOP_ASK_NOTHING)
		give_answer(feed, ask);
	if (!paused && now_ns() >= feed->next_ns)
		hand_over(feed);
	return 1;
}

/* Of a run that ended by itself. */
static const char *word_of(enum stacksnap_recording_end end)
{
	switch (end) {
	case STACKSNAP_END_TARGETS:
		return "all targets have exited";
	case STACKSNAP_END_PERMISSION:
		return "reading the targets is no longer permitted";
	case STACKSNAP_END_FAILED:
		return "the recording failed";
	case STACKSNAP_END_TIME:
	case STACKSNAP_END_ASKED:
	case STACKSNAP_END_CONDITION:
	case STACKSNAP_END_UNFINISHED:
		break;
	}
	return "the recording has ended";
}

static const char *why_it_ended(struct snap_top_feed *feed, const struct stacksnap_error *err)
{
	const char *message;

	if (!err)
		return word_of(feed->end);
	message = stacksnap_error_message(err);
	stacksnap_escape(message, strlen(message), false, feed->why, sizeof(feed->why));
	return feed->why;
}

/* The run is over, and what was recorded is still there. */
static void wait_for_questions(struct snap_top_feed *feed)
{
	enum snap_top_ask ask = SNAP_TOP_ASK_NOTHING;

	pthread_mutex_lock(&feed->lock);
	while (!feed->stopping) {
		feed->is_held = true;
		pthread_cond_broadcast(&feed->changed);
		ask = feed->ask;
		if (ask == SNAP_TOP_ASK_NOTHING || feed->held) {
			pthread_cond_wait(&feed->changed, &feed->lock);
			continue;
		}
		feed->is_held = false;
		pthread_mutex_unlock(&feed->lock);
		give_answer(feed, ask);
		pthread_mutex_lock(&feed->lock);
	}
	pthread_mutex_unlock(&feed->lock);
}

static void *run(void *context)
{
	struct snap_top_feed *feed = context;
	struct stacksnap_error *err = stacksnap_recorder_run(feed->recorder, on_tick, feed);
	bool stopping;

	pthread_mutex_lock(&feed->lock);
	stopping = feed->stopping;
	pthread_mutex_unlock(&feed->lock);
	if (!stopping) {
		hand_over(feed);
		pthread_mutex_lock(&feed->lock);
		feed->status.ended = true;
		feed->status.failed = err || feed->end == STACKSNAP_END_FAILED;
		feed->status.why = why_it_ended(feed, err);
		pthread_mutex_unlock(&feed->lock);
		snap_top_feed_wake(feed);
		wait_for_questions(feed);
	}
	stacksnap_error_destroy(err);
	return NULL;
}

/* ---- in the thread that draws ---- */

/* Signals are for the thread that draws, which has the terminal. */
int snap_top_feed_start(struct snap_top_feed *feed)
{
	sigset_t all, before;
	int os_errno;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	os_errno = pthread_create(&feed->thread, NULL, run, feed);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	feed->has_thread = os_errno == 0;
	return os_errno;
}

static int tell_why_not(struct stacksnap_error *err)
{
	bool is_usage = stacksnap_error_code(err) == STACKSNAP_ERROR_INVALID;

	snap_cli_message("%s", stacksnap_error_message(err));
	if (is_usage)
		snap_cli_message("see 'stacksnap help top'");
	stacksnap_error_destroy(err);
	return is_usage ? SNAP_CLI_USAGE : SNAP_CLI_TROUBLE;
}

static int prepare(struct snap_top_feed *feed)
{
	struct stacksnap_error *err =
		stacksnap_recorder_create(feed->request->options, &feed->recorder);

	if (err)
		return tell_why_not(err);
	feed->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (feed->wake_fd >= 0)
		return SNAP_CLI_WHOLE;
	snap_cli_message("cannot create an eventfd: %s", strerror(errno));
	return SNAP_CLI_TROUBLE;
}

int snap_top_feed_create(struct snap_cli_request *request, struct snap_top_feed **ret)
{
	struct snap_top_feed *feed = calloc(1, sizeof(*feed));
	int status;

	if (!feed) {
		snap_cli_message("out of memory");
		return SNAP_CLI_TROUBLE;
	}
	feed->request = request;
	feed->end = STACKSNAP_END_UNFINISHED;
	feed->wake_fd = -1;
	pthread_mutex_init(&feed->lock, NULL);
	pthread_cond_init(&feed->changed, NULL);
	status = prepare(feed);
	if (status == SNAP_CLI_WHOLE)
		*ret = feed;
	else
		snap_top_feed_destroy(feed);
	return status;
}

static void answer_deinit(struct snap_top_answer *answer)
{
	stacksnap_snapshot_destroy(answer->snapshot);
	stacksnap_recording_destroy(answer->ring);
	stacksnap_error_destroy(answer->error);
}

void snap_top_feed_destroy(struct snap_top_feed *feed)
{
	if (!feed)
		return;
	if (feed->has_thread) {
		pthread_mutex_lock(&feed->lock);
		feed->stopping = true;
		pthread_cond_broadcast(&feed->changed);
		pthread_mutex_unlock(&feed->lock);
		stacksnap_recorder_stop(feed->recorder);
		pthread_join(feed->thread, NULL);
	}
	stacksnap_recording_destroy(feed->latest);
	answer_deinit(&feed->answer);
	stacksnap_recorder_destroy(feed->recorder);
	if (feed->wake_fd >= 0)
		close(feed->wake_fd);
	pthread_cond_destroy(&feed->changed);
	pthread_mutex_destroy(&feed->lock);
	free(feed);
}

struct stacksnap_recording *snap_top_feed_take(struct snap_top_feed *feed)
{
	struct stacksnap_recording *recording;

	pthread_mutex_lock(&feed->lock);
	recording = feed->latest;
	feed->latest = NULL;
	pthread_mutex_unlock(&feed->lock);
	return recording;
}

struct snap_top_status snap_top_feed_status(struct snap_top_feed *feed)
{
	struct snap_top_status status;

	pthread_mutex_lock(&feed->lock);
	status = feed->status;
	pthread_mutex_unlock(&feed->lock);
	return status;
}

void snap_top_feed_pause(struct snap_top_feed *feed, bool paused)
{
	pthread_mutex_lock(&feed->lock);
	feed->paused = paused;
	pthread_mutex_unlock(&feed->lock);
}

void snap_top_feed_ask(struct snap_top_feed *feed, enum snap_top_ask ask)
{
	pthread_mutex_lock(&feed->lock);
	feed->ask = ask;
	pthread_cond_broadcast(&feed->changed);
	pthread_mutex_unlock(&feed->lock);
}

bool snap_top_feed_answered(struct snap_top_feed *feed, struct snap_top_answer *ret)
{
	bool answered;

	pthread_mutex_lock(&feed->lock);
	answered = feed->answered;
	if (answered)
		*ret = feed->answer;
	feed->answer = (struct snap_top_answer){ .snapshot = NULL };
	feed->answered = false;
	pthread_mutex_unlock(&feed->lock);
	return answered;
}

void snap_top_feed_hold(struct snap_top_feed *feed)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HOLD_S;
	pthread_mutex_lock(&feed->lock);
	feed->held = true;
	while (feed->has_thread && !feed->is_held)
		if (pthread_cond_timedwait(&feed->changed, &feed->lock, &until) != 0)
			break;
	pthread_mutex_unlock(&feed->lock);
}

void snap_top_feed_release(struct snap_top_feed *feed)
{
	pthread_mutex_lock(&feed->lock);
	feed->held = false;
	pthread_cond_broadcast(&feed->changed);
	pthread_mutex_unlock(&feed->lock);
}
