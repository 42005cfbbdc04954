/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs: see job.h. */
#include "serve/job.h"

#include "serve/body.h"
#include "serve/pages.h"
#include "serve/targets.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_STOPPED_NS = 1000000000 }; /* of a snapshot: the default of --stop-timeout */

struct snap_serve_job {
	struct snap_serve_common *common;
	const struct snap_serve_order *order;
	double share; /* of the time, for which a recording may stop its targets */
	pthread_t thread;
	volatile int cancel; /* polled by the library */
	atomic_bool done;
	pthread_mutex_t lock;                /* of the next one */
	struct stacksnap_recorder *recorder; /* that is to be stopped; NULL: none */
	struct stacksnap_options *options;   /* from here on the thread's alone */
	struct snap_serve_body body;
	struct snap_serve_answer answer;
};

/* ---- failures ---- */

static void __attribute__((format(printf, 3, 4)))
fail(struct snap_serve_job *job, unsigned status, const char *format, ...)
{
	char text[sizeof(job->answer.message) / 4];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0)
		text[0] = '\0';
	job->answer.status = status;
	stacksnap_escape(text, strlen(text), 0, job->answer.message, sizeof(job->answer.message));
}

static unsigned status_of(enum stacksnap_error_code code)
{
	switch (code) {
	case STACKSNAP_ERROR_NOT_FOUND:
		return 404;
	case STACKSNAP_ERROR_PERMISSION:
		return 403;
	case STACKSNAP_ERROR_CANCELLED:
		return 503;
	case STACKSNAP_ERROR_TIMEOUT:
		return 504;
	case STACKSNAP_ERROR_OTHER:
	case STACKSNAP_ERROR_NO_MEMORY:
	case STACKSNAP_ERROR_OS:
	case STACKSNAP_ERROR_INVALID:
	case STACKSNAP_ERROR_FORMAT:
	case STACKSNAP_ERROR_CRASHED:
		break;
	}
	return 500;
}

static void fail_with(struct snap_serve_job *job, struct stacksnap_error *err)
{
	if (job->body.is_full)
		fail(job, 500, "the answer would be larger than %d MiB",
		     SNAP_SERVE_MOST_BODY >> 20);
	else if (job->body.is_crowded)
		fail(job, 503, "other answers, which are being read, take all the memory");
	else if (job->cancel)
		fail(job, 503, "the server is ending");
	else
		fail(job, status_of(stacksnap_error_code(err)), "%s", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
}

/* Of a snapshot without stacks: what its first process says of it. */
static void fail_with_nothing(struct snap_serve_job *job, const struct stacksnap_snapshot *snapshot)
{
	const char *code = NULL, *message = NULL;

	if (!stacksnap_snapshot_trouble(snapshot, 0, &code, &message, NULL))
		fail(job, 500, "no process could be shown");
	else if (strcmp(code, "no_such_process") == 0)
		fail(job, 404, "%s", message);
	else
		fail(job, strcmp(code, "permission") == 0 ? 403 : 500, "%s", message);
}

/* ---- what is made ---- */

static struct stacksnap_error *make_list(struct snap_serve_job *job)
{
	struct stacksnap_snapshot *list = NULL;
	struct stacksnap_error *err = stacksnap_list(job->options, &list);
	FILE *out = job->body.out;

	if (!err && job->order->page == SNAP_SERVE_HOME)
		snap_serve_put_home(job->common->request, list, out);
	else if (!err)
		err = stacksnap_snapshot_render(list, job->options, job->order->format, out);
	job->answer.work.is_made = !err;
	stacksnap_snapshot_destroy(list);
	return err;
}

int64_t snap_serve_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How long targets may have stood in a snapshot that failed, which took so long. */
static int64_t most_stopped(const struct stacksnap_error *err, int64_t taken_ns)
{
	enum stacksnap_error_code code = stacksnap_error_code(err);

	if (code == STACKSNAP_ERROR_NOT_FOUND || code == STACKSNAP_ERROR_PERMISSION)
		return 0;
	return taken_ns < MOST_STOPPED_NS ? taken_ns : MOST_STOPPED_NS;
}

static struct stacksnap_error *make_snapshot(struct snap_serve_job *job)
{
	struct snap_serve_work *work = &job->answer.work;
	struct stacksnap_snapshot *snapshot = NULL;
	int64_t begin_ns = snap_serve_now_ns();
	struct stacksnap_error *err = stacksnap_take(job->options, &snapshot);

	if (err) {
		work->stopped_ns = most_stopped(err, snap_serve_now_ns() - begin_ns);
		return err;
	}
	work->is_partial = stacksnap_snapshot_outcome(snapshot) != STACKSNAP_OUTCOME_WHOLE;
	work->stopped_ns = stacksnap_snapshot_stop_duration_ns(snapshot);
	work->is_made = stacksnap_snapshot_outcome(snapshot) != STACKSNAP_OUTCOME_NOTHING;
	if (work->is_made)
		err = stacksnap_snapshot_render(snapshot, job->options, job->order->format,
						job->body.out);
	else
		fail_with_nothing(job, snapshot);
	stacksnap_snapshot_destroy(snapshot);
	return err;
}

/* The recorder that a cancel is to reach; NULL: none any more. */
static void publish(struct snap_serve_job *job, struct stacksnap_recorder *recorder)
{
	pthread_mutex_lock(&job->lock);
	job->recorder = recorder;
	pthread_mutex_unlock(&job->lock);
}

static struct stacksnap_error *render_recording(struct snap_serve_job *job,
						const struct stacksnap_recording *recording)
{
	const struct stacksnap_recording_stats *stats = stacksnap_recording_get_stats(recording);
	enum stacksnap_outcome outcome = stacksnap_recording_outcome(recording);

	job->answer.work = (struct snap_serve_work){
		.page = job->order->page,
		.is_made = outcome != STACKSNAP_OUTCOME_NOTHING,
		.is_partial = outcome != STACKSNAP_OUTCOME_WHOLE,
		.stopped_ns = stats->stopped_ns,
		.length_ns = stats->duration_ns,
		.ticks = stats->ticks,
		.ticks_missed = stats->ticks_missed,
	};
	if (outcome != STACKSNAP_OUTCOME_NOTHING)
		return stacksnap_recording_render(recording, job->options, job->order->format,
						  job->body.out);
	fail(job, 500, "no process could be recorded");
	return NULL;
}

static struct stacksnap_error *set_number(struct stacksnap_options *options, const char *name,
					  double number)
{
	char text[32];

	snprintf(text, sizeof(text), "%.10g", number);
	return stacksnap_options_set(options, name, text);
}

/* Of one that is cancelled there is nothing else to tell how long targets stood still. */
static int note_figures(void *context, const struct stacksnap_recorder_status *status)
{
	struct snap_serve_job *job = context;

	job->answer.work.stopped_ns = status->stats->stopped_ns;
	job->answer.work.length_ns = status->elapsed_ns;
	return 1;
}

static struct stacksnap_error *record(struct snap_serve_job *job,
				      struct stacksnap_recorder *recorder)
{
	struct stacksnap_recording *recording = NULL;
	struct stacksnap_error *err = stacksnap_recorder_run(recorder, note_figures, job);

	if (!err && !job->cancel)
		err = stacksnap_recorder_slice(recorder, job->options, &recording);
	if (!err && recording)
		err = render_recording(job, recording);
	if (!err && job->cancel)
		fail(job, 503, "the server is ending");
	stacksnap_recording_destroy(recording);
	return err;
}

static struct stacksnap_error *make_recording(struct snap_serve_job *job)
{
	const struct snap_serve_order *order = job->order;
	struct stacksnap_recorder *recorder = NULL;
	struct stacksnap_error *err = set_number(job->options, "duration", order->seconds);

	if (!err)
		err = set_number(job->options, "hz", order->hz);
	if (!err)
		err = set_number(job->options, "max-stopped",
				 (double)(long)(job->share * 1e6) / 1e4);
	if (!err)
		err = stacksnap_options_set(job->options, "mode", order->mode);
	if (!err)
		err = stacksnap_recorder_create(job->options, &recorder);
	if (err)
		return err;
	publish(job, recorder);
	err = record(job, recorder);
	publish(job, NULL);
	stacksnap_recorder_destroy(recorder);
	return err;
}

static struct stacksnap_error *make(struct snap_serve_job *job)
{
	switch (job->order->page) {
	case SNAP_SERVE_RECORDING:
		return make_recording(job);
	case SNAP_SERVE_SNAPSHOT:
		return make_snapshot(job);
	case SNAP_SERVE_HOME:
	case SNAP_SERVE_PROCESSES:
	case SNAP_SERVE_PPROF_INDEX:
	case SNAP_SERVE_PPROF_REDIRECT:
	case SNAP_SERVE_METRICS:
		break;
	}
	return make_list(job);
}

/* ---- the thread ---- */

static void end_body(struct snap_serve_job *job)
{
	struct snap_serve_answer *answer = &job->answer;

	if (!snap_serve_body_finish(&job->body)) {
		if (job->body.is_full || job->body.is_crowded)
			fail_with(job, NULL);
		else
			fail(job, 500, "no room for the answer: %s", strerror(errno));
		return;
	}
	answer->size = job->body.size;
	answer->fd = snap_serve_body_take(&job->body);
	answer->type =
		job->order->page == SNAP_SERVE_HOME ? "text/html; charset=utf-8" : job->order->type;
}

static void run_job(struct snap_serve_job *job)
{
	const struct snap_serve_order *order = job->order;
	struct stacksnap_error *err;
	bool found;

	err = snap_serve_targets_choose(job->common->request, job->common->seen, order->target,
					&job->cancel, &found, &job->options);
	if (!err && !found) {
		fail(job, 404, "target: no such one is served");
		return;
	}
	if (!err && !snap_serve_body_open(&job->body, &job->common->bodies)) {
		fail(job, 500, "no room for an answer: %s", strerror(errno));
		return;
	}
	if (!err)
		err = make(job);
	if (err)
		fail_with(job, err);
	else if (job->answer.status == 200)
		end_body(job);
}

static void *run_thread(void *context)
{
	struct snap_serve_job *job = context;
	const uint64_t one = 1;

	run_job(job);
	snap_serve_body_deinit(&job->body);
	stacksnap_options_destroy(job->options);
	job->done = true;
	/* An eventfd takes it unless it has been written to 2^64 times. */
	while (write(job->common->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
	return NULL;
}

struct snap_serve_job *snap_serve_job_start(struct snap_serve_common *common,
					    const struct snap_serve_order *order, double share)
{
	struct snap_serve_job *job = calloc(1, sizeof(*job));
	int os_errno;

	if (!job)
		return NULL;
	job->common = common;
	job->order = order;
	job->share = share;
	job->body.fd = -1;
	job->answer =
		(struct snap_serve_answer){ .status = 200, .fd = -1, .work.page = order->page };
	pthread_mutex_init(&job->lock, NULL);
	os_errno = pthread_create(&job->thread, NULL, run_thread, job);
	if (os_errno == 0)
		return job;
	pthread_mutex_destroy(&job->lock);
	free(job);
	errno = os_errno;
	return NULL;
}

void snap_serve_job_cancel(struct snap_serve_job *job)
{
	job->cancel = 1;
	pthread_mutex_lock(&job->lock);
	if (job->recorder)
		stacksnap_recorder_stop(job->recorder);
	pthread_mutex_unlock(&job->lock);
}

bool snap_serve_job_is_done(const struct snap_serve_job *job)
{
	return job->done;
}

void snap_serve_job_finish(struct snap_serve_job *job, struct snap_serve_answer *ret)
{
	pthread_join(job->thread, NULL);
	pthread_mutex_destroy(&job->lock);
	*ret = job->answer;
	free(job);
}
