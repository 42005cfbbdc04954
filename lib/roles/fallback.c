/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ladder of tries: see fallback.h. */
#include "roles/fallback.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum {
	MOST_REFUSED = 8, /* files, and processes, that it does without before it asks for less */
	MOST_LATE = 2,    /* tries that may be late before it asks for less */
	IDLE_LAST = 4,    /* of fallback->idle_ns one part for the last effort */
};

/* The time of the last effort if a caller waits; and its least time, even past the deadline. */
static const int64_t ASKED_NS = 330000000, LEAST_NS = 100000000;
/*
 * Kept for the last effort, and for listing addresses without a parser: one part of the time, at
 * most so much.
 */
static const int64_t RESERVE_PART = 5, RESERVE_NS = 800000000;
/* A try with less time than that is useless. */
static const int64_t USE_NS = 20000000;

/* ---- files that ended a parser ---- */

static bool is_among(const uint64_t *ids, size_t count, uint64_t id)
{
	return snap_any(count, i, ids[i] == id);
}

static bool is_refused(const struct snap_refusals *refusals, uint64_t file_id)
{
	return is_among(refusals->files, refusals->count, file_id);
}

/* The report gives this reason for the missing symbols of the file, and no other. */
static struct stacksnap_error *answer_request(void *context,
					      const struct snap_broker_request *request,
					      struct snap_broker_reply *reply)
{
	const struct snap_refusals *refusals = context;

	if (!is_refused(refusals, snap_broker_file_id(request)))
		return refusals->broker.answer(refusals->broker.context, request, reply);
	if (request->attempt > 0 || request->kind != SNAP_FILE_MODULE || !refusals->reason)
		return snap_error_not_found();
	return snap_error_format(SNAP_ERROR_CRASHED, "%s", snap_error_message(refusals->reason));
}

struct snap_broker snap_refusing_broker(struct snap_refusals *refusals)
{
	return (struct snap_broker){ .answer = answer_request, .context = refusals };
}

bool snap_refuse_file(struct snap_refusals *refusals, uint64_t file_id, size_t most)
{
	if (file_id == 0 || refusals->count >= most || is_refused(refusals, file_id))
		return false;
	refusals->files[refusals->count++] = file_id;
	return true;
}

static bool refuse_runtimes(struct snap_refusals *refusals, uint64_t process)
{
	if (process == 0 || refusals->runtime_count >= MOST_REFUSED ||
	    is_among(refusals->runtimes, refusals->runtime_count, process))
		return false;
	refusals->runtimes[refusals->runtime_count++] = process;
	return true;
}

/* ---- one try ---- */

struct
try {
	const struct snap_fallback *fallback;
	const struct snap_refusals *refusals; /* NULL: there are none yet */
	enum snap_effort effort;
	int64_t work_until_ns; /* for all efforts but the last; 0: without end */
	unsigned late;         /* tries of this effort */
	int64_t idle_ns;       /* of fallback->idle_ns: what is left */
};

static struct stacksnap_error *run_work(void *context, struct snap_parser_job *job)
{
	const struct try *try = context;

	job->refusals = try->refusals;
	return try->fallback->work(try->fallback->context, try->effort, job);
}

static struct stacksnap_error *make_parser(struct try *try, struct snap_parser **ret)
{
	const struct snap_fallback *fallback = try->fallback;
	const struct snap_parser_start start = {
		.options = fallback->options,
		.work = run_work,
		.context = try,
		.deadline_ns = fallback->deadline_ns,
		.capacity = fallback->capacity,
	};

	return snap_parser_create(&start, ret);
}

struct stacksnap_error *snap_fallback_prepare(const struct snap_fallback *fallback,
					      struct snap_parser **ret)
{
	struct try try = { .fallback = fallback, .effort = SNAP_EFFORT_ALL };

	return make_parser(&try, ret);
}

static bool is_asked(const struct snap_fallback *fallback)
{
	return fallback->asked_ns && atomic_load(fallback->asked_ns) != 0;
}

/*
 * Divides the time of the whole ladder, and keeps a reserve for its end: whatever the first parsers
 * do, the last one has its time, and so has the listing of addresses if that one is late as well.
 */
static void divide_time(struct try *try)
{
	int64_t deadline_ns = try->fallback->deadline_ns;
	int64_t left = deadline_ns - snap_clock_ns(CLOCK_MONOTONIC), reserve = left / RESERVE_PART;

	if (deadline_ns)
		try->work_until_ns = deadline_ns - (reserve < RESERVE_NS ? reserve : RESERVE_NS);
}

/* Five eighths of the time until then. */
static int64_t share_of_time(int64_t now, int64_t until_ns)
{
	return until_ns > now ? now + (until_ns - now) / 8 * 5 : now;
}

/* When a try has to be over: it leaves time for those behind it. */
static int64_t deadline_of_try(const struct try *try)
{
	int64_t deadline_ns = try->fallback->deadline_ns;
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), until;

	if (deadline_ns == 0)
		return 0;
	if (try->effort != SNAP_EFFORT_NO_FILES)
		return share_of_time(now, try->work_until_ns);
	if (is_asked(try->fallback))
		return now + ASKED_NS;
	until = share_of_time(now, deadline_ns);
	return until - now > LEAST_NS ? until : now + LEAST_NS;
}

static bool has_use(const struct try *try)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	return try->effort == SNAP_EFFORT_NO_FILES || !try->work_until_ns ||
	       share_of_time(now, try->work_until_ns) - now >= USE_NS;
}

/* What a parser was at. */
struct place {
	uint64_t file_id, runtimes_of;
};

static struct stacksnap_error *run_parser(const struct try *try, struct snap_parser *parser,
					  struct snap_refusals *refusals, struct place *place_ret)
{
	const struct snap_fallback *fallback = try->fallback;
	struct snap_parser_call call = { .broker = snap_refusing_broker(refusals),
					 .deadline_ns = deadline_of_try(try) };
	bool is_last = try->effort == SNAP_EFFORT_NO_FILES;
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);
	const uint8_t *bytes;
	struct stacksnap_error *err;
	uint64_t size;

	/* What is slow is more than the file that was left out: then a part of all is better than nothing. */
	if (try->late && call.deadline_ns)
		call.enough_ns = now + (call.deadline_ns - now) / 4 * 3;
	for (int i = 0; i < SNAP_PARSER_INPUTS; i++)
		call.inputs[i] = fallback->inputs[i];
	call.broker.until_ns = call.deadline_ns;
	call.asked_ns = is_last ? NULL : fallback->asked_ns;
	call.idle_ns = is_last ? fallback->idle_ns / IDLE_LAST : share_of_time(0, try->idle_ns);
	err = snap_parser_run(parser, &call, &bytes, &size);
	*place_ret = (struct place){ call.file_id, call.runtimes_of };
	if (err)
		return err;
	err = fallback->take(fallback->context, bytes, size);
	if (err)
		munmap((void *)(uintptr_t)bytes, size);
	return err;
}

/* ---- the ladder ---- */

static bool may_be_tried_again(const struct stacksnap_error *err)
{
	switch (snap_error_code(err)) {
	case SNAP_ERROR_OTHER: /* the result is too large */
	case SNAP_ERROR_OS: /* it asks and does not listen; a sandbox that fails will do so again */
	case SNAP_ERROR_CRASHED:
	case SNAP_ERROR_TIMEOUT:
	case SNAP_ERROR_NO_MEMORY:
	case SNAP_ERROR_FORMAT: /* of a result, or of a request for a file */
		return true;
	default:
		return false;
	}
}

/*
 * Decides what the next parser does without. If memory of a process was read, only the runtimes of
 * that process are left out at first: the memory is the likely cause. After a late try the file is
 * left out as well, as there is no time to find out which of the two it was.
 */
static bool refuse_place(struct snap_refusals *refusals, bool was_late, const struct place *place)
{
	bool has_news = refuse_runtimes(refusals, place->runtimes_of);

	if (!has_news || was_late)
		has_news |= snap_refuse_file(refusals, place->file_id, MOST_REFUSED);
	return has_news;
}

/*
 * A crash comes soon, so a hostile file that crashes a parser costs no more than its own symbols.
 */
static bool is_out_of_time(const struct snap_fallback *fallback, bool was_late)
{
	return is_asked(fallback) && (was_late || snap_parser_has_enough(fallback->asked_ns));
}

/* Chooses the try after a failed one: without what the failed one was reading. */
static void step_down(struct try *try, struct snap_refusals *refusals, bool was_late,
		      const struct place *place)
{
	try->late += was_late;
	if (was_late)
		try->idle_ns -= share_of_time(0, try->idle_ns);
	if (is_out_of_time(try->fallback, was_late)) {
		try->effort = SNAP_EFFORT_NO_FILES;
	} else if (!refuse_place(refusals, was_late, place) || try->late >= MOST_LATE) {
		try->effort++;
		try->late = 0;
	}
	if (!has_use(try))
		try->effort = SNAP_EFFORT_NO_FILES;
}

struct stacksnap_error *snap_fallback_run(struct snap_fallback *fallback,
					  struct snap_parser *prepared)
{
	_cleanup_(snap_parser_destroyp) struct snap_parser *parser = prepared;
	struct snap_refusals refusals = { .broker = fallback->broker };
	struct try try = { .fallback = fallback,
			   .refusals = &refusals,
			   .effort = fallback->first,
			   .idle_ns = fallback->idle_ns };

	fallback->reason = NULL;
	divide_time(&try);
	for (;;) {
		bool was_late;
		struct place place = { 0, 0 };
		struct stacksnap_error *err = parser ? NULL : make_parser(&try, &parser);

		err = err ?: run_parser(&try, parser, &refusals, &place);
		fallback->effort = try.effort;
		was_late = err && snap_error_code(err) == SNAP_ERROR_TIMEOUT;
		if (!err || !may_be_tried_again(err) || try.effort == SNAP_EFFORT_NO_FILES ||
		    (fallback->no_less && is_out_of_time(fallback, was_late)))
			return err;
		snap_parser_destroy(parser);
		parser = NULL;
		/* The first reason is the one that matters: the others follow from it. */
		if (fallback->reason)
			snap_error_destroy(err);
		else
			refusals.reason = fallback->reason = err;
		step_down(&try, &refusals, was_late, &place);
	}
}
