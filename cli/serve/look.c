/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looks: see look.h. */
#include "serve/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MOST_CAPTURES = 4, /* snapshots and recordings at one time */
	MOST_LISTS = 4,
	JOB_PATIENCE_S = 60, /* beyond the length of a recording */
};

static const int64_t SECOND_NS = 1000000000;
static const int64_t FRESH_NS = 1000000000;
static const int64_t MOST_WAIT_NS = 5000000000; /* until a look may begin */

bool snap_serve_look_is_capture(const struct snap_serve_order *order)
{
	return order->page == SNAP_SERVE_SNAPSHOT || order->page == SNAP_SERVE_RECORDING;
}

static unsigned length_s(const struct snap_serve_order *order)
{
	return order->page == SNAP_SERVE_RECORDING ? order->seconds : 0;
}

static unsigned *count_of(struct snap_serve_looks *looks, const struct snap_serve_order *order)
{
	return snap_serve_look_is_capture(order) ? &looks->captures : &looks->lists;
}

/* Formats and modes are static, but not each text has one place. */
static bool is_same_text(const char *one, const char *other)
{
	return one == other || (one && other && strcmp(one, other) == 0);
}

static bool is_same_order(const struct snap_serve_order *one, const struct snap_serve_order *other)
{
	return one->page == other->page && one->seconds == other->seconds && one->hz == other->hz &&
	       is_same_text(one->format, other->format) &&
	       is_same_text(one->target, other->target) && is_same_text(one->mode, other->mode);
}

/* Whether one more client may have it; a failure is for those alone that waited for it. */
static bool is_fresh(const struct snap_serve_look *look, int64_t now_ns)
{
	return !look->is_cancelled && (!look->begun_ns || now_ns - look->begun_ns < FRESH_NS) &&
	       (!look->is_done || look->answer.fd >= 0);
}

/* ---- their ends ---- */

static void fail_look(struct snap_serve_looks *looks, struct snap_serve_look *look, unsigned status,
		      const char *why)
{
	look->answer = (struct snap_serve_answer){ .status = status, .fd = -1 };
	strncpy(look->answer.message, why, sizeof(look->answer.message) - 1);
	look->is_done = true;
	--*count_of(looks, &look->order);
}

static void end_look(struct snap_serve_looks *looks, struct snap_serve_look *look)
{
	const struct snap_serve_work *work = &look->answer.work;
	int64_t now_ns = snap_serve_now_ns();

	snap_serve_job_finish(look->job, &look->answer);
	look->job = NULL;
	look->is_done = true;
	look->deadline_ns = INT64_MAX;
	--*count_of(looks, &look->order);
	if (look->order.page == SNAP_SERVE_RECORDING)
		snap_serve_ledger_give_back(&looks->ledger, now_ns, look->share, work->length_ns,
					    work->stopped_ns);
	else if (look->order.page == SNAP_SERVE_SNAPSHOT)
		snap_serve_ledger_add(&looks->ledger, now_ns, work->stopped_ns);
	if (look->is_cancelled)
		looks->metrics->cancelled++;
	else
		snap_serve_metrics_add_work(looks->metrics, work);
}

static void destroy_look(struct snap_serve_looks *looks, struct snap_serve_look *look)
{
	if (!look->is_done)
		--*count_of(looks, &look->order);
	if (look->is_done && look->answer.fd >= 0) {
		close(look->answer.fd);
		atomic_fetch_sub(&looks->common.bodies, look->answer.size);
	}
	free((char *)look->order.target);
	free(look);
}

/* ---- their beginnings ---- */

/* A thread has one tracer at a time, so the second of two snapshots would show nothing. */
static bool is_being_stopped(const struct snap_serve_looks *looks,
			     const struct snap_serve_order *order)
{
	const char *target = order->target;

	for (const struct snap_serve_look *look = looks->first; look; look = look->next)
		if (look->job && look->order.page == SNAP_SERVE_SNAPSHOT &&
		    (!target || !look->order.target || strcmp(target, look->order.target) == 0))
			return true;
	return false;
}

/*
 * 0: it may begin. A recording waits as a snapshot does: each begins with more stops than it has
 * later. Where it waits for the end of a job, that is when the loop wakes up.
 */
static int64_t time_to_wait(struct snap_serve_looks *looks, const struct snap_serve_order *order)
{
	int64_t wait_ns = 0;

	if (snap_serve_look_is_capture(order))
		wait_ns = snap_serve_ledger_wait(&looks->ledger, snap_serve_now_ns());
	if (wait_ns == 0 && order->page == SNAP_SERVE_SNAPSHOT && is_being_stopped(looks, order))
		return SECOND_NS;
	return wait_ns;
}

static void begin_look(struct snap_serve_looks *looks, struct snap_serve_look *look)
{
	int64_t now_ns = snap_serve_now_ns();

	if (look->order.page == SNAP_SERVE_RECORDING)
		look->share = snap_serve_ledger_set_aside(&looks->ledger, now_ns);
	look->job = snap_serve_job_start(&looks->common, &look->order, look->share);
	look->begun_ns = now_ns;
	if (look->job)
		return;
	if (look->share > 0)
		snap_serve_ledger_give_back(&looks->ledger, now_ns, look->share, 0, 0);
	fail_look(looks, look, 500, strerror(errno));
}

static struct snap_serve_look *make_look(struct snap_serve_looks *looks,
					 const struct snap_serve_order *order)
{
	struct snap_serve_look *look = calloc(1, sizeof(*look));
	char *target = order->target ? strdup(order->target) : NULL;

	if (!look || (order->target && !target)) {
		free(target);
		free(look);
		return NULL;
	}
	look->order = *order;
	look->order.target = target;
	look->answer.fd = -1;
	look->deadline_ns =
		snap_serve_now_ns() + (int64_t)(length_s(order) + JOB_PATIENCE_S) * SECOND_NS;
	look->next = looks->first;
	looks->first = look;
	++*count_of(looks, order);
	return look;
}

/* When the first of the running jobs is likely to be done, in seconds, at least one. */
static unsigned seconds_until_free(const struct snap_serve_looks *looks)
{
	int64_t now_ns = snap_serve_now_ns(), first = INT64_MAX;

	for (const struct snap_serve_look *look = looks->first; look; look = look->next) {
		int64_t end_ns = look->begun_ns + (int64_t)length_s(&look->order) * SECOND_NS;

		if (look->job && end_ns < first)
			first = end_ns;
	}
	return first == INT64_MAX || first < now_ns ? 1
						    : (unsigned)((first - now_ns) / SECOND_NS) + 1;
}

struct snap_serve_look *snap_serve_looks_join(struct snap_serve_looks *looks,
					      const struct snap_serve_order *order,
					      unsigned *status_ret, const char **why_ret,
					      unsigned *retry_s_ret)
{
	struct snap_serve_look *look = looks->first;
	int64_t now_ns = snap_serve_now_ns(), wait_ns;

	while (look && !(is_fresh(look, now_ns) && is_same_order(&look->order, order)))
		look = look->next;
	if (look) {
		look->clients++;
		return look;
	}
	*status_ret = 503;
	*retry_s_ret = 0;
	*why_ret = "the server is about to end";
	if (looks->is_ending)
		return NULL;
	*retry_s_ret = seconds_until_free(looks);
	*status_ret = 429;
	*why_ret = "too many at once";
	if (*count_of(looks, order) >=
	    (snap_serve_look_is_capture(order) ? MOST_CAPTURES : MOST_LISTS))
		return NULL;
	wait_ns = time_to_wait(looks, order);
	*status_ret = 503;
	*why_ret = "the targets were stopped for too long just now, see --max-stopped";
	if (wait_ns > MOST_WAIT_NS && wait_ns < INT64_MAX)
		*retry_s_ret = (unsigned)(wait_ns / SECOND_NS) + 1;
	if (wait_ns > MOST_WAIT_NS)
		return NULL;
	look = make_look(looks, order);
	*status_ret = 500;
	*why_ret = "out of memory";
	*retry_s_ret = 0;
	if (look)
		look->clients = 1;
	if (look && wait_ns == 0)
		begin_look(looks, look);
	return look;
}

/* ---- their lives ---- */

static void cancel_look(struct snap_serve_look *look)
{
	if (look->job)
		snap_serve_job_cancel(look->job);
	look->deadline_ns = INT64_MAX;
}

/* A snapshot is soon there, and how long it stops its targets has to be known in any case. */
void snap_serve_look_leave(struct snap_serve_look *look)
{
	look->clients--;
	if (look->clients || look->is_done || look->order.page != SNAP_SERVE_RECORDING)
		return;
	look->is_cancelled = true;
	cancel_look(look);
}

static void go_on_with_look(struct snap_serve_looks *looks, struct snap_serve_look *look)
{
	int64_t now_ns = snap_serve_now_ns();

	if (look->job && snap_serve_job_is_done(look->job)) {
		end_look(looks, look);
	} else if (!look->is_done && now_ns >= look->deadline_ns) {
		look->is_late = look->job != NULL;
		if (look->job)
			cancel_look(look);
		else
			fail_look(looks, look, 503, "no moment to stop the targets came");
	} else if (!look->is_done && !look->job && look->clients &&
		   time_to_wait(looks, &look->order) == 0) {
		begin_look(looks, look);
	}
}

void snap_serve_looks_go_on(struct snap_serve_looks *looks)
{
	struct snap_serve_look **place = &looks->first, *look;

	while ((look = *place)) {
		go_on_with_look(looks, look);
		if (look->clients || look->job ||
		    (look->is_done && is_fresh(look, snap_serve_now_ns()))) {
			place = &look->next;
			continue;
		}
		*place = look->next;
		destroy_look(looks, look);
	}
}

int64_t snap_serve_looks_due(struct snap_serve_looks *looks)
{
	int64_t now_ns = snap_serve_now_ns(), first = INT64_MAX, wait_ns;

	for (struct snap_serve_look *look = looks->first; look; look = look->next) {
		int64_t due = look->is_done ? INT64_MAX : look->deadline_ns;

		if (look->is_done && !look->clients)
			due = look->begun_ns + FRESH_NS;
		if (!look->is_done && !look->job) {
			wait_ns = time_to_wait(looks, &look->order);
			if (wait_ns < due - now_ns)
				due = now_ns + wait_ns;
		}
		if (due < first)
			first = due;
	}
	return first;
}

void snap_serve_looks_cancel(struct snap_serve_looks *looks)
{
	looks->is_ending = true;
	for (struct snap_serve_look *look = looks->first; look; look = look->next) {
		if (look->job)
			cancel_look(look);
		else if (!look->is_done)
			fail_look(looks, look, 503, "the server is ending");
	}
}

void snap_serve_looks_finish(struct snap_serve_looks *looks)
{
	snap_serve_looks_cancel(looks);
	for (struct snap_serve_look *look = looks->first; look; look = look->next)
		if (look->job)
			end_look(looks, look);
}

void snap_serve_looks_deinit(struct snap_serve_looks *looks)
{
	struct snap_serve_look *look;

	while ((look = looks->first)) {
		looks->first = look->next;
		destroy_look(looks, look);
	}
}
