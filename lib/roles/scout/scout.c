/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Asks a parser for plans: see scout.h. What the parser wants meanwhile is given to it, within
 * bounds of time and bytes; who exceeds them loses it, and a process that loses one has no plan.
 */
#include "roles/scout/scout.h"

#include "base/clock.h"
#include "roles/opener/opener.h"
#include "roles/parser.h"
#include "roles/process_message.h"
#include "roles/scout/messages.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum {
	TICK_MS = 20,      /* how often the cancel flag and the clock are looked at */
	MOST_LOSSES = 3,   /* parsers; then there are no more plans */
	MOST_LATE = 2,     /* reads of memory that did not come back */
	SHARE_OF_TIME = 4, /* of the whole run, for all processes */
};

/* For one process, files included, and for a program of a hundred megabytes. */
static const int64_t PROCESS_NS = 2000000000;

struct snap_scout {
	struct snap_scout_birth birth;
	struct snap_opener *opener;
	struct snap_broker broker;
	struct snap_peeker *peeker; /* NULL: not needed yet */
	struct snap_role role;
	uid_t user; /* whose files the parser has read */
	unsigned losses;
	int64_t spent_ns; /* on all processes so far */
	/* the process at hand */
	const struct snap_process *process;
	uint64_t peeked;
	unsigned late;
};

struct stacksnap_error *snap_scout_create(const struct snap_options *options,
					  const struct snap_runtime *const *runtimes,
					  struct snap_scout **ret)
{
	_cleanup_(snap_scout_destroyp) struct snap_scout *scout = calloc(1, sizeof(*scout));
	struct stacksnap_error *err;

	if (!scout)
		return snap_error_no_memory();
	scout->role = SNAP_ROLE_NONE;
	scout->birth = (struct snap_scout_birth){ options, runtimes };
	err = snap_opener_create(NULL, &scout->opener);
	if (err)
		return err;
	snap_opener_set_options(scout->opener, options, 0);
	scout->broker = snap_opener_broker(scout->opener);
	*ret = snap_take_ptr(scout);
	return NULL;
}

void snap_scout_destroy(struct snap_scout *scout)
{
	if (!scout)
		return;
	snap_role_end(&scout->role);
	snap_peeker_destroy(scout->peeker);
	snap_opener_destroy(scout->opener);
	free(scout);
}

/* ---- the parser ---- */

static struct stacksnap_error *need_parser(struct snap_scout *scout,
					   const struct snap_capture *capture)
{
	struct snap_parser_stay stay = { .options = scout->birth.options,
					 .run = snap_scout_serve,
					 .context = &scout->birth };
	struct stacksnap_error *err;

	/* One that files of a user have taken over reads no memory of another one's. */
	if (scout->role.pidfd >= 0 && scout->user != scout->process->uid)
		snap_role_end(&scout->role);
	scout->user = scout->process->uid;
	if (scout->role.pidfd >= 0)
		return NULL;
	err = snap_parser_pick_uid(capture, &stay.uid);
	return err ? err : snap_parser_spawn(&stay, &scout->role);
}

static struct stacksnap_error *ask(struct snap_scout *scout, size_t process)
{
	struct snap_scout_question question = { .process = (uint32_t)process };
	struct stacksnap_error *err =
		snap_wire_send(scout->role.channel, &question, sizeof(question), -1);

	return err ? err : snap_process_send(scout->role.channel, scout->process);
}

static struct stacksnap_error *serve_peek(struct snap_scout *scout,
					  const struct snap_peek_request *request)
{
	struct snap_peek_answer answer = { .sequence = request->sequence };
	_cleanup_fd_ int fd = -1;
	bool late = false;

	if (!scout->peeker)
		scout->peeker = snap_peeker_create();
	if (scout->peeker && scout->late < MOST_LATE && request->size <= SNAP_PEEK_MOST &&
	    scout->peeked + request->size <= SNAP_PEEK_TOTAL) {
		scout->peeked += request->size;
		fd = snap_peek(scout->peeker, scout->process->pid, request->address, request->size,
			       &answer.size, &late);
		scout->late += late;
	}
	if (fd < 0)
		answer.size = 0;
	return snap_wire_send(scout->role.channel, &answer, sizeof(answer), fd);
}

/* One message of the parser. *done_ret: it is the answer. */
static struct stacksnap_error *hear(struct snap_scout *scout, struct snap_scout_answer *answer,
				    bool *done_ret)
{
	union {
		struct snap_broker_request file;
		struct snap_peek_request peek;
		struct snap_scout_answer answer;
	} message;
	struct stacksnap_error *err;
	bool gone = false;
	size_t size;

	err = snap_wire_receive(scout->role.channel, &message, sizeof(message), &size, NULL);
	if (err)
		return err;
	if (size == sizeof(message.file))
		err = snap_broker_serve_request(&scout->broker, scout->role.channel, &message.file,
						&gone);
	else if (size == sizeof(message.peek))
		err = serve_peek(scout, &message.peek);
	else if (size == sizeof(message.answer))
		*answer = message.answer;
	else
		gone = true;
	*done_ret = size == sizeof(message.answer);
	if (!err && gone)
		err = snap_error_format(SNAP_ERROR_CRASHED, "the parser exited early");
	return err;
}

/* Until it has answered; an error means that it must be ended. */
static struct stacksnap_error *await(struct snap_scout *scout, int64_t until_ns,
				     struct snap_scout_answer *answer)
{
	struct pollfd channel = { .fd = scout->role.channel, .events = POLLIN };
	bool done = false;

	while (!done) {
		struct stacksnap_error *err = NULL;

		if (snap_options_cancelled(scout->birth.options))
			return snap_error_cancelled();
		if (snap_clock_ns(CLOCK_MONOTONIC) > until_ns)
			return snap_error_format(SNAP_ERROR_TIMEOUT, "the parser took too long");
		if (poll(&channel, 1, TICK_MS) < 0 && errno != EINTR)
			return snap_error_os(errno, "cannot wait for a process");
		if (channel.revents)
			err = hear(scout, answer, &done);
		if (err)
			return err;
		channel.revents = 0;
	}
	return NULL;
}

/* ---- what it says ---- */

/* In a mapping of a file, or in the memory without one that follows it at once: its bss. */
static bool is_of_a_file(const struct snap_process *process, uint64_t address)
{
	const struct snap_map *map = snap_process_map(process, address);

	if (!map)
		return false;
	if (map->inode)
		return true;
	return map > process->maps && map[-1].inode && map[-1].end == map->start && !map->path;
}

static bool is_believed(const struct snap_scout *scout, const struct snap_scout_answer *answer,
			size_t process)
{
	const struct snap_memory_plan *plan = &answer->plan;

	if (answer->process != process || !snap_memory_plan_check(plan))
		return false;
	for (uint32_t i = 0; i < plan->step_count; i++) {
		const struct snap_plan_step *step = &plan->steps[i];

		if (step->source == SNAP_PLAN_LITERAL && step->op != SNAP_PLAN_HEAP &&
		    !is_of_a_file(scout->process, step->address))
			return false;
	}
	return true;
}

static bool has_time(const struct snap_scout *scout)
{
	return scout->losses < MOST_LOSSES &&
	       scout->spent_ns < scout->birth.options->timeout_ns / SHARE_OF_TIME;
}

struct stacksnap_error *snap_scout_plan(void *context, const struct snap_options *options _unused_,
					struct snap_capture *capture, size_t process,
					struct snap_memory_plan *plan, bool *found_ret)
{
	struct snap_scout *scout = context;
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_scout_answer answer = { .found = 0 };
	struct stacksnap_error *err;

	*found_ret = false;
	if (!has_time(scout))
		return NULL;
	scout->process = &capture->processes[process];
	scout->peeked = 0;
	scout->late = 0;
	snap_opener_set_capture(scout->opener, capture);
	err = need_parser(scout, capture);
	if (!err)
		err = ask(scout, process);
	if (!err)
		err = await(scout, begin_ns + PROCESS_NS, &answer);
	scout->spent_ns += snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
	if (err && snap_error_code(err) == SNAP_ERROR_CANCELLED)
		return err;
	if (err || !is_believed(scout, &answer, process)) {
		snap_error_destroy(err);
		snap_role_end(&scout->role);
		scout->losses++;
		return NULL;
	}
	*found_ret = answer.found && answer.plan.step_count;
	if (*found_ret)
		*plan = answer.plan;
	return NULL;
}
