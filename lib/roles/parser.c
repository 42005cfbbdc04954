/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Work in a sandbox: see parser.h. The result follows a page that says how the work went. Both are
 * read once no process can write to them any more.
 */
#include "roles/parser.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/shared_memory.h"
#include "roles/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	TICK_MS = 20,    /* how often the cancel flag and the clock are looked at */
	MOST_CPU_S = 60, /* of one piece of work */
	TIMES_BUSY = 10, /* a busy machine leaves it one part in so many of a processor */
	HEADER_SIZE = SNAP_MOST_PAGE, /* before the result */
	/*
	 * A recorder waits for each answer of a parser that stays, before the next tick. Behind
	 * programs that compute, the answer would come too late for a fifth of the ticks.
	 */
	SHORT_SLICE_NS = 100000,
	/*
	 * A parser that a report waits for comes before programs that compute, until it has used so
	 * much of a processor: an adversary may have taken it over.
	 */
	FIRST_NICE = -10,
	FIRST_CPU_NS = 1000000000,
};

static const uint64_t DEFAULT_CAPACITY = 256u << 20;

struct header {
	volatile int enough; /* written by the maker, all else by the parser */
	uint64_t size, file_id, runtimes_of;
	uint32_t done;
	struct snap_wire_error error;
};

_Static_assert(sizeof(struct header) <= HEADER_SIZE, "the header has a page");

struct snap_parser {
	struct snap_parser_start start;
	struct snap_role role;
	struct header *header; /* the result is behind it */
	bool is_put_back;      /* it has lost its priority */
};

/* ---- in the parser ---- */

static unsigned cpu_seconds(int64_t deadline_ns)
{
	int64_t left = deadline_ns - snap_clock_ns(CLOCK_MONOTONIC);

	if (deadline_ns == 0 || left > MOST_CPU_S * SNAP_NS_PER_S)
		return MOST_CPU_S;
	return left < 0 ? 1 : (unsigned)(left / 1000000000) + 1;
}

/* A role blocks all signals, and the limit of processor time is a signal. */
static void hear_of_the_limit(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXCPU);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/*
 * The trace is in shared memory, which is unmapped here. The caller's flag may be there, too; a
 * private copy of it would never be set.
 */
static void forget_shared_options(const struct snap_options *options)
{
	((struct snap_options *)(uintptr_t)options)->cancel = NULL;
	((struct snap_options *)(uintptr_t)options)->trace = NULL;
}

/* Leaves the parser nothing of its maker's but what it is given here. */
static struct stacksnap_error *enter_sandbox(const struct snap_options *options,
					     const struct snap_sandbox *sandbox, const void *memory,
					     uint64_t memory_size)
{
	struct stacksnap_error *err;

	/* The C library's message about a broken heap would appear in the middle of the report. */
	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(&sandbox->channel, 1);
	hear_of_the_limit();
	forget_shared_options(options);
	err = snap_sandbox_leave_memory(memory, memory_size);
	if (options->no_sandbox) {
		snap_error_destroy(err);
		return NULL;
	}
	err = err ?: snap_sandbox_enter(sandbox);
	return snap_error_wrap(err, "cannot enter the sandbox (--no-sandbox runs without it)");
}

/* The first message says which inputs follow, each with a message of its own; gone: no work. */
static struct stacksnap_error *receive_inputs(struct snap_parser_job *job, bool *gone_ret)
{
	uint32_t inputs = 0, word;
	struct stacksnap_error *err;
	size_t size;

	err = snap_wire_receive(job->channel, &inputs, sizeof(inputs), &size, NULL);
	for (int i = 0; i < SNAP_PARSER_INPUTS; i++) {
		job->inputs[i] = -1;
		if (!err && size && inputs & 1u << i)
			err = snap_wire_receive(job->channel, &word, sizeof(word), &size,
						&job->inputs[i]);
	}
	*gone_ret = !err && size == 0;
	return err;
}

static void run_parser_job(void *context, int channel)
{
	struct snap_parser *parser = context;
	const struct snap_parser_start *start = &parser->start;
	const struct snap_sandbox sandbox = { .cpu_s = cpu_seconds(start->deadline_ns),
					      .channel = channel };
	struct header *header = parser->header;
	struct snap_parser_job job = {
		.channel = channel,
		.file_id = &header->file_id,
		.runtimes_of = &header->runtimes_of,
		.enough = &header->enough,
		.out = (uint8_t *)header + HEADER_SIZE,
		.capacity = start->capacity,
	};
	bool gone = false;
	struct stacksnap_error *err;

	snap_role_leave_priority(0);
	snap_role_come_first(FIRST_NICE);
	err = enter_sandbox(start->options, &sandbox, header, HEADER_SIZE + start->capacity);
	err = err ?: receive_inputs(&job, &gone);
	if (!err && !gone)
		err = start->work(start->context, &job);
	header->size = job.size;
	snap_wire_pack_error(err, &header->error);
	__atomic_store_n(&header->done, 1, __ATOMIC_RELEASE);
}

/* ---- in its maker ---- */

struct stacksnap_error *snap_parser_create(const struct snap_parser_start *start,
					   struct snap_parser **ret)
{
	_cleanup_(snap_parser_destroyp) struct snap_parser *parser = calloc(1, sizeof(*parser));
	void *memory;

	SNAP_TRY(snap_no_memory_unless(parser));
	parser->start = *start;
	parser->role = SNAP_ROLE_NONE;
	if (!parser->start.capacity)
		parser->start.capacity = DEFAULT_CAPACITY;
	memory = mmap(NULL, HEADER_SIZE + parser->start.capacity, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the result");
	parser->header = memory;
	SNAP_TRY(snap_role_spawn("snap-parser", run_parser_job, parser, &parser->role));
	*ret = snap_take_ptr(parser);
	return NULL;
}

void snap_parser_destroy(struct snap_parser *parser)
{
	if (!parser)
		return;
	snap_role_end(&parser->role);
	if (parser->header)
		munmap(parser->header, HEADER_SIZE + parser->start.capacity);
	free(parser);
}

/* A parser that has died already needs no input: its end is noticed at once. */
static struct stacksnap_error *send_inputs(const struct snap_parser *parser,
					   const struct snap_parser_call *call)
{
	uint32_t inputs = 0, word = 0;
	struct stacksnap_error *err;

	for (int i = 0; i < SNAP_PARSER_INPUTS; i++)
		inputs |= call->inputs[i] < 0 ? 0 : 1u << i;
	err = snap_wire_send(parser->role.channel, &inputs, sizeof(inputs), -1);
	for (int i = 0; !err && i < SNAP_PARSER_INPUTS; i++)
		if (call->inputs[i] >= 0)
			err = snap_wire_send(parser->role.channel, &word, sizeof(word),
					     call->inputs[i]);
	if (!err || (snap_error_errno(err) != EPIPE && snap_error_errno(err) != ECONNRESET))
		return err;
	snap_error_destroy(err);
	return NULL;
}

bool snap_parser_has_enough(_Atomic int64_t *asked_ns)
{
	int64_t asked = asked_ns ? atomic_load(asked_ns) : 0;

	return asked && snap_clock_ns(CLOCK_MONOTONIC) >= asked + SNAP_PARSER_HURRY_NS;
}

/*
 * Sets `enough` when the parser's time is up. True: it is past that time by half, or its deadline.
 */
static bool is_late(const struct snap_parser *parser, const struct snap_parser_call *call)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	if (call->deadline_ns && now > call->deadline_ns)
		return true;
	if (call->enough_ns && now > call->enough_ns)
		parser->header->enough = 1;
	if (!snap_parser_has_enough(call->asked_ns))
		return false;
	parser->header->enough = 1;
	return now > atomic_load(call->asked_ns) + SNAP_PARSER_HURRY_NS / 2 * 3;
}

/* Looks at its processor time; true: it has had too little of it since `begin_ns`. */
static bool is_idle(struct snap_parser *parser, const struct snap_parser_call *call,
		    int64_t begin_ns)
{
	int64_t used;
	clockid_t clock;

	if (clock_getcpuclockid(parser->role.pid, &clock))
		return false;
	used = snap_clock_ns(clock);
	if (!parser->is_put_back && used >= FIRST_CPU_NS) {
		snap_role_put_back(&parser->role);
		parser->is_put_back = true;
	}
	return call->idle_ns &&
	       snap_clock_ns(CLOCK_MONOTONIC) - begin_ns - TIMES_BUSY * used > call->idle_ns;
}

/* Until it has ended (NULL), or there is a reason to end it. */
static struct stacksnap_error *watch(struct snap_parser *parser,
				     const struct snap_parser_call *call)
{
	struct pollfd fds[] = {
		{ .fd = parser->role.pidfd, .events = POLLIN },
		{ .fd = parser->role.channel, .events = POLLIN },
	};
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);

	for (;;) {
		bool gone = false;
		struct stacksnap_error *err;

		SNAP_TRY(snap_options_check(parser->start.options));
		if (is_idle(parser, call, begin_ns) || is_late(parser, call))
			return snap_error_format(SNAP_ERROR_TIMEOUT,
						 "the process that reads files took too long");
		if (poll(fds, SNAP_ARRAY_SIZE(fds), TICK_MS) < 0 && errno != EINTR)
			return snap_error_os(errno, "cannot wait for a process");
		if (fds[1].revents) {
			begin_ns -= snap_clock_ns(CLOCK_MONOTONIC);
			err = snap_broker_serve(&call->broker, parser->role.channel, &gone);
			begin_ns += snap_clock_ns(CLOCK_MONOTONIC);
			if (err)
				return snap_error_wrap(err, "the process that reads files");
		}
		if (gone)
			fds[1].fd = -1;
		if (fds[0].revents)
			return NULL;
	}
}

static struct stacksnap_error *describe_end(int status)
{
	static const char who[] = "the process that reads files";

	if (status == -1)
		return snap_error_format(SNAP_ERROR_CRASHED, "%s exited early", who);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return snap_error_format(SNAP_ERROR_CRASHED, "%s used too much processor time",
					 who);
	if (WIFSIGNALED(status))
		return snap_error_format(SNAP_ERROR_CRASHED, "%s was killed by signal %d", who,
					 WTERMSIG(status));
	return snap_error_format(SNAP_ERROR_CRASHED, "%s exited with status %d", who,
				 WEXITSTATUS(status));
}

/* The error that the parser reports. It cannot claim that the run is cancelled. */
static struct stacksnap_error *unpack_error(const struct snap_wire_error *reported)
{
	struct stacksnap_error *err = snap_wire_unpack_error(reported);

	if (!err || snap_error_code(err) != SNAP_ERROR_CANCELLED)
		return err;
	snap_error_destroy(err);
	return snap_error_format(SNAP_ERROR_CRASHED, "the process that reads files exited early");
}

/*
 * Takes the result of a parser that has ended, so that no process can change it any more. The
 * mapping becomes the caller's, except for the unused rest, which is unmapped.
 */
static struct stacksnap_error *take_result(struct snap_parser *parser, int status,
					   const uint8_t **bytes_ret, uint64_t *size_ret)
{
	const struct header header = *parser->header;
	uint8_t *bytes = (uint8_t *)parser->header + HEADER_SIZE;
	uint64_t capacity = parser->start.capacity, size = header.size, used;

	if (!header.done)
		return describe_end(status);
	SNAP_TRY(unpack_error(&header.error));
	if (size == 0 || size > capacity)
		return snap_error_format(SNAP_ERROR_CRASHED,
					 "the process that reads files left no result");
	used = snap_round_up(size, HEADER_SIZE);
	if (used < capacity)
		munmap(bytes + used, capacity - used);
	munmap(parser->header, HEADER_SIZE);
	parser->header = NULL;
	*bytes_ret = bytes;
	*size_ret = size;
	return NULL;
}

struct stacksnap_error *snap_parser_run(struct snap_parser *parser, struct snap_parser_call *call,
					const uint8_t **bytes_ret, uint64_t *size_ret)
{
	struct stacksnap_error *err = send_inputs(parser, call);
	int status;

	err = err ?: watch(parser, call);
	status = snap_role_end(&parser->role);
	call->file_id = *(volatile uint64_t *)&parser->header->file_id;
	call->runtimes_of = *(volatile uint64_t *)&parser->header->runtimes_of;
	return err ? err : take_result(parser, status, bytes_ret, size_ret);
}

struct stacksnap_error *snap_parser_run_once(const struct snap_parser_start *start, int fd,
					     const uint8_t **bytes_ret, uint64_t *size_ret)
{
	_cleanup_(snap_parser_destroyp) struct snap_parser *parser = NULL;
	struct snap_parser_call call = { .broker = snap_no_broker(),
					 .inputs = { fd, -1 },
					 .deadline_ns = start->deadline_ns };

	return snap_parser_create(start, &parser)
		       ?: snap_parser_run(parser, &call, bytes_ret, size_ret);
}

/* ---- one that stays ---- */

static void run_staying(void *context, int channel)
{
	const struct snap_parser_stay *stay = context;
	const struct snap_sandbox sandbox = { .channel = channel };

	snap_role_leave_priority(SHORT_SLICE_NS);
	snap_role_come_first(0);
	if (!snap_error_ignore(
		    enter_sandbox(stay->options, &sandbox, stay->memory, stay->memory_size)))
		stay->run(stay->context, channel);
}

struct stacksnap_error *snap_parser_spawn(const struct snap_parser_stay *stay,
					  struct snap_role *ret)
{
	return snap_role_spawn("snap-parser", run_staying, (void *)(uintptr_t)stay, ret);
}
