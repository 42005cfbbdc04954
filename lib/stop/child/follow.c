/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Other stacks that frames of copied threads lie in. A worker looks which threads may go on in one; for
 * these the parent is asked, which has a parser and so knows CFI. Where none do, which is usual, that
 * is all. Threads stand still meanwhile, or rest, so each of these has a short time.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "stop/child/internal.h"

#include <errno.h>
#include <poll.h>

enum {
	SEARCH_NS = 10000000,  /* for a worker, of all processes … */
	LEADS_NS = 20000000,   /* … before it is left behind */
	FOLLOW_NS = 100000000, /* for the parent */
	GRACE_NS = 10000000,   /* after that: usually it has noticed */
};

/* Of a process whose memory does not come, nothing is asked again. */
static void give_up_leads(struct snap_tracer *tracer, const struct snap_work *work)
{
	for (uint32_t i = 0; i < work->count; i++) {
		struct snap_traced *traced = &tracer->stop->processes[i];

		for (size_t k = 0; k < traced->thread_count; k++)
			if (traced->threads[k].lead == SNAP_LEAD_UNKNOWN)
				traced->threads[k].lead = SNAP_LEAD_NONE;
	}
}

/* Whether some thread may go on in another stack. */
static bool find_leads(struct snap_tracer *tracer)
{
	struct snap_lead_list *list = snap_region_alloc(&tracer->lists, sizeof(*list));
	struct snap_work work = {
		.run = snap_stop_reader_find_leads,
		.context = list,
		.count = tracer->stop->process_count,
		.marks = snap_region_alloc(&tracer->lists, tracer->stop->process_count),
		.patience_ns = LEADS_NS,
		.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + LEADS_NS,
		.here = tracer->first,
	};
	bool any = false;

	work.asleep_ns = snap_tracer_patience(tracer, work.patience_ns);
	if (!list || !work.marks)
		return false;
	*list = (struct snap_lead_list){
		.reader = tracer->reader,
		.signs = snap_region_new_array(&tracer->lists, work.count, int64_t),
		.until_ns = work.until_ns - LEADS_NS + SEARCH_NS,
	};
	work.signs = list->signs;
	if (!work.signs)
		return false;
	if (!snap_workers_run(&tracer->pool, &work))
		give_up_leads(tracer, &work);
	for (uint32_t i = 0; i < work.count && !any; i++)
		for (size_t k = 0; k < tracer->stop->processes[i].thread_count && !any; k++)
			any = tracer->stop->processes[i].threads[k].lead == SNAP_LEAD_ON;
	return any;
}

/* Whether the parent has answered in time. */
static bool await_follow(const struct snap_tracer *tracer, int64_t until_ns)
{
	struct pollfd answer = { .fd = tracer->answer_fd, .events = POLLIN };
	int64_t left;

	while ((left = until_ns - snap_clock_ns(CLOCK_MONOTONIC)) > 0) {
		const struct timespec patience = { .tv_nsec = left };

		if (ppoll(&answer, 1, &patience, NULL) > 0)
			return true;
	}
	return false;
}

void snap_tracer_follow(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	uint64_t value = SNAP_TRACER_FOLLOW;
	int64_t now;

	if (!tracer->may_follow || !find_leads(tracer))
		return;
	now = snap_clock_ns(CLOCK_MONOTONIC);
	stop->follow_until_ns = now + FOLLOW_NS;
	if (stop->follow_until_ns > tracer->copy_until_ns - GRACE_NS)
		stop->follow_until_ns = tracer->copy_until_ns - GRACE_NS;
	__atomic_store_n(&stop->followed, SNAP_FOLLOW_ASKED, __ATOMIC_RELEASE);
	if (stop->follow_until_ns < now || write(tracer->ask_fd, &value, sizeof(value)) < 0)
		return;
	/* What is taken by now is there in a moment. */
	if (!await_follow(tracer, stop->follow_until_ns + GRACE_NS) &&
	    snap_stop_end_follow(stop, SNAP_FOLLOW_GIVEN_UP))
		tracer->may_follow = false;
	else
		while (read(tracer->answer_fd, &value, sizeof(value)) < 0 && errno == EINTR)
			;
}
