/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Asks a parser for plans: see probe.h. The parser's requests are served meanwhile, within limits
 * of time and bytes. A parser that exceeds them is ended, and its process has no plan.
 */
#include "roles/runtime_probe/probe.h"

#include "base/clock.h"
#include "roles/file_opener/file_opener.h"
#include "roles/parser.h"
#include "roles/process_message.h"
#include "roles/runtime_probe/messages.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum {
	TICK_MS = 20,      /* how often the cancel flag and the clock are looked at */
	MOST_LOSSES = 3,   /* lost parsers; then no more plans are made */
	MOST_LATE = 2,     /* of a process: reads of memory that took too long */
	SHARE_OF_TIME = 4, /* of the whole run, for all processes */
};

/*
 * The time for one process with its files, enough for a program of a hundred megabytes; and the
 * time after which losses are forgotten.
 */
static const int64_t PROCESS_NS = 2000000000, FORGIVEN_NS = 60000000000;

struct snap_runtime_probe {
	struct snap_runtime_probe_birth birth;
	bool is_of_thread;
	struct snap_file_opener *opener;
	struct snap_broker broker;
	struct snap_peeker *peeker; /* NULL: not needed yet */
	/* Reads memory in place of the peeker; NULL: the process runs. */
	size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count);
	void *read_context;
	struct snap_role role;
	uid_t user; /* the user whose files the parser has read */
	unsigned losses;
	int64_t lost_ns;  /* the last loss */
	int64_t spent_ns; /* on all processes so far, by snap_runtime_probe_plan() */
	/* the current process */
	bool is_asked; /* its answer has not come */
	const struct snap_process *process;
	size_t index;
	int64_t until_ns; /* for its answer */
	uint64_t peeked;
	unsigned late;
	bool is_held_back; /* it has a runtime whose memory cannot be read */
	/* of all processes */
	struct snap_thread_names names;
	struct snap_probe_images images;
};

struct stacksnap_error *snap_runtime_probe_create(const struct snap_options *options,
						  const struct snap_runtime *const *runtimes,
						  bool is_of_thread,
						  struct snap_runtime_probe **ret)
{
	_cleanup_(snap_runtime_probe_destroyp) struct snap_runtime_probe *probe =
		calloc(1, sizeof(*probe));

	SNAP_TRY(snap_no_memory_unless(probe));
	probe->role = SNAP_ROLE_NONE;
	probe->birth = (struct snap_runtime_probe_birth){ options, runtimes };
	probe->is_of_thread = is_of_thread;
	SNAP_TRY(snap_file_opener_create(NULL, &probe->opener));
	snap_file_opener_set_options(probe->opener, options, 0);
	probe->broker = snap_file_opener_broker(probe->opener);
	*ret = snap_take_ptr(probe);
	return NULL;
}

void snap_runtime_probe_destroy(struct snap_runtime_probe *probe)
{
	if (!probe)
		return;
	snap_role_end(&probe->role);
	snap_peeker_destroy(probe->peeker);
	snap_file_opener_destroy(probe->opener);
	snap_thread_names_deinit(&probe->names);
	snap_probe_images_deinit(&probe->images);
	free(probe);
}

void snap_runtime_probe_set_memory(struct snap_runtime_probe *probe,
				   size_t (*read)(void *context, uint8_t *bytes,
						  const struct iovec *ranges, size_t count),
				   void *context)
{
	probe->read = read;
	probe->read_context = context;
}

/* ---- the parser ---- */

static struct stacksnap_error *need_parser(struct snap_runtime_probe *probe)
{
	struct snap_parser_stay stay = { .options = probe->birth.options,
					 .run = snap_runtime_probe_serve,
					 .context = &probe->birth };

	/*
	 * A parser that files of one user have taken over must not read memory of another user's
	 * process.
	 */
	if (probe->role.pidfd >= 0 && probe->user != probe->process->uid)
		snap_role_end(&probe->role);
	probe->user = probe->process->uid;
	return probe->role.pidfd >= 0 ? NULL : snap_parser_spawn(&stay, &probe->role);
}

static struct stacksnap_error *ask_scout_parser(struct snap_runtime_probe *probe, size_t process,
						bool is_of_thread, bool wants_names)
{
	struct snap_runtime_probe_question question = { .process = (uint32_t)process,
							.is_of_thread = is_of_thread,
							.wants_names = wants_names };

	SNAP_TRY(snap_wire_send(probe->role.channel, &question, sizeof(question), -1));
	return snap_process_send(probe->role.channel, probe->process);
}

/* A file in memory with what is there, the caller's; -1: none. */
static int read_peeked(struct snap_runtime_probe *probe, uint64_t address, uint32_t size,
		       uint32_t *size_ret)
{
	bool late = false;
	int fd = -1;

	*size_ret = 0;
	if (size > SNAP_PEEK_MOST || probe->peeked + size > SNAP_PEEK_TOTAL)
		return -1;
	if (!probe->peeker && !probe->read)
		probe->peeker = snap_peeker_create();
	probe->peeked += size;
	if (probe->read) {
		fd = snap_peek_with(probe->read, probe->read_context, address, size, size_ret);
	} else if (probe->peeker && probe->late < MOST_LATE) {
		fd = snap_peek(probe->peeker, probe->process->pid, address, size, size_ret, &late);
		probe->late += late;
	}
	if (fd < 0)
		*size_ret = 0;
	return fd;
}

static void keep_image(struct snap_runtime_probe *probe, uint64_t address, uint32_t size)
{
	uint8_t *to = snap_probe_images_add(&probe->images, probe->process, address, size);
	uint32_t got = 1;

	for (uint32_t at = 0; to && at < size && got; at += got) {
		uint32_t part = size - at < SNAP_PEEK_MOST ? size - at : SNAP_PEEK_MOST;
		_cleanup_fd_ int fd = read_peeked(probe, address + at, part, &got);

		if (fd < 0 || pread(fd, to + at, got, 0) != (ssize_t)got)
			got = 0;
	}
	if (to && !got)
		snap_probe_images_drop(&probe->images);
}

static struct stacksnap_error *serve_peek(struct snap_runtime_probe *probe,
					  const struct snap_peek_request *request)
{
	struct snap_peek_answer answer = { .sequence = request->sequence };
	_cleanup_fd_ int fd = -1;

	if (!request->sequence) {
		keep_image(probe, request->address, request->size);
		return NULL;
	}
	fd = read_peeked(probe, request->address, request->size, &answer.size);
	return snap_wire_send(probe->role.channel, &answer, sizeof(answer), fd);
}

/* Handles one message of the parser. *done_ret: it is the answer. */
static struct stacksnap_error *receive_scout_answer(struct snap_runtime_probe *probe,
						    struct snap_runtime_probe_answer *answer,
						    bool *done_ret)
{
	union {
		struct snap_broker_request file;
		struct snap_peek_request peek;
		struct snap_runtime_probe_name name;
		struct snap_runtime_probe_answer answer;
	} message;
	struct stacksnap_error *err = NULL;
	bool gone = false;
	size_t size;

	SNAP_TRY(snap_wire_receive(probe->role.channel, &message, sizeof(message), &size, NULL));
	if (size == sizeof(message.file))
		err = snap_broker_serve_request(&probe->broker, probe->role.channel, &message.file,
						&gone);
	else if (size == sizeof(message.peek))
		err = serve_peek(probe, &message.peek);
	else if (size == sizeof(message.name))
		snap_thread_names_add(&probe->names, probe->process, &message.name);
	else if (size == sizeof(message.answer))
		*answer = message.answer;
	else
		gone = true;
	*done_ret = size == sizeof(message.answer);
	if (!err && gone)
		err = snap_error_format(SNAP_ERROR_CRASHED, "the parser exited early");
	return err;
}

/*
 * Serves the parser until it has answered (*done_ret), or until a time; after an error it must be
 * ended. A caller with other work passes a time close by.
 */
static struct stacksnap_error *hear_until(struct snap_runtime_probe *probe, int64_t until_ns,
					  struct snap_runtime_probe_answer *answer, bool *done_ret)
{
	const int64_t tick_ns = TICK_MS * SNAP_NS_PER_MS;
	struct pollfd channel = { .fd = probe->role.channel, .events = POLLIN };
	int64_t now;

	while (!*done_ret && (now = snap_clock_ns(CLOCK_MONOTONIC)) < until_ns) {
		int64_t left = until_ns - now < tick_ns ? until_ns - now : tick_ns;
		const struct timespec patience = { .tv_nsec = left };
		struct stacksnap_error *err = NULL;

		SNAP_TRY(snap_options_check(probe->birth.options));
		if (now > probe->until_ns)
			return snap_error_format(SNAP_ERROR_TIMEOUT, "the parser took too long");
		if (ppoll(&channel, 1, &patience, NULL) < 0 && errno != EINTR)
			return snap_error_os(errno, "cannot wait for a process");
		if (channel.revents)
			err = receive_scout_answer(probe, answer, done_ret);
		if (err)
			return err;
		channel.revents = 0;
	}
	return NULL;
}

/* ---- what it says ---- */

/*
 * Whether an address is in a mapping of a file, or in the anonymous memory right behind one: its
 * bss.
 */
static bool is_of_a_file(const struct snap_process *process, uint64_t address)
{
	const struct snap_map *map = snap_process_map(process, address);

	if (!map)
		return false;
	if (map->inode)
		return true;
	return map > process->maps && map[-1].inode && map[-1].end == map->start && !map->path;
}

static bool is_believed(const struct snap_runtime_probe *probe,
			const struct snap_runtime_probe_answer *answer, size_t process)
{
	const struct snap_memory_plan *plan = &answer->plan;

	if (answer->process != process || !snap_memory_plan_check(plan))
		return false;
	for (uint32_t i = 0; i < plan->step_count; i++) {
		const struct snap_plan_step *step = &plan->steps[i];

		if (step->source == SNAP_PLAN_LITERAL &&
		    !is_of_a_file(probe->process, step->address))
			return false;
	}
	return true;
}

/* A lost parser counts for a minute, as a recording may be long. */
static bool has_lost_too_many(struct snap_runtime_probe *probe)
{
	if (probe->losses && snap_clock_ns(CLOCK_MONOTONIC) - probe->lost_ns > FORGIVEN_NS)
		probe->losses = 0;
	return probe->losses >= MOST_LOSSES;
}

static void lose_parser(struct snap_runtime_probe *probe)
{
	snap_role_end(&probe->role);
	probe->losses++;
	probe->lost_ns = snap_clock_ns(CLOCK_MONOTONIC);
}

void snap_runtime_probe_leave(struct snap_runtime_probe *probe)
{
	snap_role_end(&probe->role);
	probe->is_asked = false;
}

static bool begin_question(struct snap_runtime_probe *probe, const struct snap_capture *capture,
			   size_t process, bool is_of_thread, bool wants_names)
{
	struct stacksnap_error *err;

	if (probe->is_asked)
		snap_runtime_probe_leave(probe);
	if (has_lost_too_many(probe))
		return false;
	probe->process = &capture->processes[process];
	probe->index = process;
	probe->peeked = 0;
	probe->late = 0;
	probe->is_held_back = false;
	probe->until_ns = snap_clock_ns(CLOCK_MONOTONIC) + PROCESS_NS;
	snap_thread_names_begin(&probe->names);
	snap_probe_images_begin(&probe->images, probe->process);
	snap_file_opener_set_capture(probe->opener, capture);
	err = need_parser(probe) ?: ask_scout_parser(probe, process, is_of_thread, wants_names);
	probe->is_asked = !err;
	if (err)
		lose_parser(probe);
	snap_error_destroy(err);
	return probe->is_asked;
}

bool snap_runtime_probe_begin(struct snap_runtime_probe *probe, const struct snap_capture *capture,
			      size_t process, bool is_of_thread)
{
	snap_probe_images_deinit(&probe->images);
	return begin_question(probe, capture, process, is_of_thread, false);
}

struct stacksnap_error *snap_runtime_probe_go_on(struct snap_runtime_probe *probe, int64_t until_ns,
						 struct snap_memory_plan *plan, bool *found_ret,
						 bool *done_ret)
{
	struct snap_runtime_probe_answer answer = { .found = 0 };
	bool answered = false;
	struct stacksnap_error *err = hear_until(probe, until_ns, &answer, &answered);

	*found_ret = false;
	*done_ret = err || answered;
	if (!*done_ret)
		return NULL;
	probe->is_asked = false;
	if (err && snap_error_code(err) == SNAP_ERROR_CANCELLED)
		return err;
	if (err || !is_believed(probe, &answer, probe->index)) {
		snap_error_destroy(err);
		lose_parser(probe);
		return NULL;
	}
	*found_ret = answer.found && answer.plan.step_count;
	probe->is_held_back = answer.found && !answer.plan.step_count && probe->late > 0;
	if (*found_ret)
		*plan = answer.plan;
	return NULL;
}

struct stacksnap_error *snap_runtime_probe_plan(void *context, const struct snap_options *options,
						struct snap_capture *capture, size_t process,
						struct snap_memory_plan *plan, bool *found_ret)
{
	struct snap_runtime_probe *probe = context;
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	struct stacksnap_error *err = NULL;
	bool done = false;

	*found_ret = false;
	if (probe->spent_ns >= options->timeout_ns / SHARE_OF_TIME ||
	    !begin_question(probe, capture, process, probe->is_of_thread, true))
		return NULL;
	while (!done && !err)
		err = snap_runtime_probe_go_on(probe, INT64_MAX, plan, found_ret, &done);
	if (probe->is_held_back)
		snap_capture_warn(capture, "memory_stalled", probe->process->pid, 0,
				  "reading a memory page of %d blocked (userfaultfd, FUSE, or its "
				  "mappings change): the memory of its runtime could not be read",
				  probe->process->pid);
	probe->spent_ns += snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
	return err;
}

struct stacksnap_error *snap_runtime_probe_complete(struct snap_runtime_probe *probe,
						    struct snap_capture *capture)
{
	bool done = snap_thread_names_apply(&probe->names, capture);

	for (size_t i = 0; done && probe->images.count && i < capture->process_count; i++)
		done = snap_probe_images_apply(&probe->images, &capture->arena,
					       &capture->processes[i]);
	return done ? NULL : snap_error_no_memory();
}

bool snap_runtime_probe_images(const struct snap_runtime_probe *probe, struct snap_arena *arena,
			       struct snap_process *process)
{
	return snap_probe_images_apply(&probe->images, arena, process);
}
