/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parser's side of a remote unwinder: see unwinder.h. It runs in the sandbox from its first
 * instruction here, and waits for calls, each to unwind one thread of a process.
 *
 * Each entered process has modules of its own, and an unwinder as long as it is used now and then;
 * the files behind them are shared. Without memory the parser ends: the next one begins anew.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "roles/process_message.h"
#include "roles/unwinder/exchange.h"
#include "roles/unwinder/managed.h"
#include "roles/unwinder/unwinder.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
	IDLE_SECONDS = 10, /* without a call, then it ends: it keeps a copy of its maker's memory */
	MOST_UNWINDERS = 128, /* of 70 KB each; more processes share them in turns */
	NO_MEMORY = 3,        /* exit status */
};

/* A process that was entered. */
struct space {
	struct snap_modules *modules; /* NULL: not entered */
	uint32_t seat;                /* of its unwinder, if that is still its own */
	size_t bytes;                 /* of its modules and its description */
	struct snap_managed *managed; /* NULL: it has had no frames of an interpreter */
};

/* An unwinder, and the process that uses it now: the one that used it last. */
struct seat {
	struct snap_unwinder *unwinder;
	uint32_t number; /* of the process; UINT32_MAX: none */
	uint64_t used;   /* the number of its last call */
};

struct parser {
	struct snap_exchange *exchange;
	const struct snap_options *options;
	int channel;
	struct snap_capture capture; /* its processes by number; most entries are empty */
	struct snap_remote_finder remote;
	struct snap_file_finder finder;
	struct snap_arena arena;     /* of descriptions, the set and all modules */
	struct snap_module_set *set; /* NULL: not made yet */
	struct space *spaces;
	struct seat seats[MOST_UNWINDERS];
	size_t seat_count;
	uint64_t calls;
	/* They stay until all is forgotten: a vDSO that serves as a file may be in one of them. */
	struct snap_process_bytes *descriptions;
	size_t description_count, description_capacity;
	size_t left; /* bytes that are not needed any more */
};

/* ---- signals to the client ---- */

static void send_ready(struct snap_exchange *exchange)
{
	atomic_fetch_add(&exchange->events, 1);
	syscall(SYS_futex, &exchange->events, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Signals the request first: the client waits at the futex, not at the channel. */
static struct stacksnap_error *find_remotely(void *context, const struct snap_file_request *request,
					     int *fd_ret)
{
	struct parser *parser = context;
	struct snap_file_finder finder = snap_remote_finder(&parser->remote);

	atomic_fetch_add(&parser->exchange->asked, 1);
	send_ready(parser->exchange);
	return finder.find(finder.context, request, fd_ret);
}

static void note_remotely(void *context, const struct snap_file_request *request)
{
	struct parser *parser = context;
	struct snap_file_finder finder = snap_remote_finder(&parser->remote);

	snap_file_finder_note(&finder, request);
}

/* ---- processes ---- */

static void leave_space(struct parser *parser, uint32_t number)
{
	struct space *space = &parser->spaces[number];
	struct seat *seat = &parser->seats[space->seat];

	if (seat->number == number)
		seat->number = UINT32_MAX;
	parser->left += space->bytes;
	snap_managed_destroy(space->managed);
	*space = (struct space){ 0 };
}

/* The unwinders belong to the set of modules. */
static void forget_all(struct parser *parser)
{
	for (size_t i = 0; i < parser->seat_count; i++)
		snap_unwinder_destroy(parser->seats[i].unwinder);
	parser->seat_count = 0;
	for (uint32_t i = 0; i < SNAP_MAX_PROCESSES; i++)
		if (parser->spaces[i].modules) {
			snap_managed_destroy(parser->spaces[i].managed);
			parser->spaces[i] = (struct space){ 0 };
		}
	snap_module_set_destroy(snap_take_ptr(parser->set));
	for (size_t i = 0; i < parser->description_count; i++)
		munmap(parser->descriptions[i].bytes, parser->descriptions[i].size);
	parser->description_count = 0;
	snap_arena_deinit(&parser->arena);
	parser->left = 0;
}

static bool receive_space(struct parser *parser, uint32_t number, uint64_t *size_ret)
{
	struct snap_process_bytes bytes;

	if (!snap_reserve_array(parser->descriptions, parser->description_capacity,
				parser->description_count + 1) ||
	    !snap_process_receive(parser->channel, &parser->arena,
				  &parser->capture.processes[number], &bytes))
		return false;
	parser->descriptions[parser->description_count++] = bytes;
	*size_ret = bytes.size;
	return true;
}

static struct stacksnap_error *make_modules(struct parser *parser, uint32_t number)
{
	struct stacksnap_error *err = NULL;

	if (!parser->set)
		err = snap_module_set_create(&parser->finder, &parser->arena, &parser->set);
	return err ? err
		   : snap_modules_create(parser->set, &parser->capture.processes[number],
					 &parser->spaces[number].modules);
}

static void enter_space(struct parser *parser, uint32_t number)
{
	size_t before = parser->arena.total;
	uint64_t size = 0;

	leave_space(parser, number);
	if (!receive_space(parser, number, &size) ||
	    snap_error_ignore(make_modules(parser, number)))
		_exit(NO_MEMORY);
	parser->spaces[number].bytes = parser->arena.total - before + size;
}

/* A new seat, or the least recently used one. */
static struct stacksnap_error *free_seat(struct parser *parser, uint32_t *ret)
{
	uint32_t oldest = 0;

	if (parser->seat_count == MOST_UNWINDERS) {
		for (uint32_t i = 1; i < MOST_UNWINDERS; i++)
			if (parser->seats[i].used < parser->seats[oldest].used)
				oldest = i;
		*ret = oldest;
		return NULL;
	}
	*ret = (uint32_t)parser->seat_count;
	parser->seats[*ret] = (struct seat){ .number = UINT32_MAX };
	return snap_unwinder_create(parser->set, parser->options,
				    &parser->seats[parser->seat_count++].unwinder);
}

static struct snap_unwinder *unwinder_of(struct parser *parser, uint32_t number)
{
	struct space *space = &parser->spaces[number];
	struct seat *seat = &parser->seats[space->seat];
	struct stacksnap_error *err;

	if (space->seat >= parser->seat_count || seat->number != number) {
		err = free_seat(parser, &space->seat);
		seat = &parser->seats[space->seat];
		err = err
			      ?: snap_unwinder_enter(seat->unwinder,
						     &parser->capture.processes[number],
						     space->modules);
		if (snap_error_ignore(err))
			_exit(NO_MEMORY);
		seat->number = number;
	}
	seat->used = ++parser->calls;
	return seat->unwinder;
}

/* ---- calls ---- */

static void answer_stack(struct snap_exchange *exchange, const struct snap_pcs *pcs)
{
	size_t count = pcs->count < exchange->most_pcs ? pcs->count : exchange->most_pcs;
	struct snap_exchange_answer *answer = &exchange->answer;

	if (count)
		memcpy(exchange->pcs, pcs->pcs, count * sizeof(*exchange->pcs));
	answer->count = count;
	answer->end = pcs->end;
	answer->end_pc = pcs->end_pc;
	answer->missing = pcs->missing;
	answer->gap_after = pcs->gap_after;
	answer->gap_count = pcs->gap_count;
	answer->needs_register = pcs->needs_register;
	answer->stale_mappings = pcs->stale_mappings;
	answer->reason[0] = 0;
	if (pcs->reason)
		memccpy(answer->reason, pcs->reason, 0, sizeof(answer->reason) - 1);
}

static void begin_answer(struct snap_exchange_answer *answer)
{
	answer->missing = 0;
	answer->shows_all = answer->forgets = 0;
	answer->managed_count = answer->frame_count = answer->entry_count = 0;
	answer->text_size = answer->label_count = 0;
	answer->count = answer->gap_count = answer->gap_after = 0;
	answer->task_count = answer->stack_count = 0;
	answer->stack_frame_count = answer->task_label_count = 0;
	answer->has_tasks = answer->cut = 0;
}

/* False: the thread has native frames only. */
static bool answer_managed(struct parser *parser, struct snap_pcs *pcs)
{
	struct snap_exchange *exchange = parser->exchange;
	struct space *space = &parser->spaces[exchange->number];
	const struct snap_managed_thread thread = {
		.set = parser->set,
		.modules = space->modules,
		.process = &parser->capture.processes[exchange->number],
		.options = parser->options,
		.thread = &exchange->thread,
	};
	bool made = false;

	if (!exchange->thread.memory || !parser->options->runtimes)
		return false;
	snap_unwind_whole(unwinder_of(parser, exchange->number), &exchange->thread, pcs);
	if (pcs->no_memory ||
	    snap_error_ignore(snap_managed_answer(&space->managed, &thread, pcs, exchange, &made)))
		_exit(NO_MEMORY);
	return made;
}

static void answer_tasks(struct parser *parser)
{
	struct snap_exchange *exchange = parser->exchange;
	struct space *space = &parser->spaces[exchange->number];
	struct snap_process process = parser->capture.processes[exchange->number];
	const struct snap_managed_thread whose = {
		.set = parser->set,
		.modules = space->modules,
		.process = &process,
		.options = parser->options,
	};

	process.threads = exchange->room.threads;
	process.thread_count = exchange->thread_count;
	process.memory = &exchange->memory;
	if (snap_error_ignore(snap_managed_tasks(&space->managed, &whose, &process, exchange)))
		_exit(NO_MEMORY);
}

static void serve_unwinder_request(struct parser *parser)
{
	struct snap_exchange *exchange = parser->exchange;
	struct snap_pcs pcs;

	if (exchange->resets)
		forget_all(parser);
	for (uint32_t i = 0; i < exchange->left_count; i++)
		leave_space(parser, exchange->left[i]);
	if (exchange->enters)
		enter_space(parser, exchange->number);
	begin_answer(&exchange->answer);
	if (exchange->wants_tasks) {
		answer_tasks(parser);
	} else if (!answer_managed(parser, &pcs)) {
		snap_unwind(unwinder_of(parser, exchange->number), &exchange->thread, &pcs);
		if (pcs.no_memory)
			_exit(NO_MEMORY);
		answer_stack(exchange, &pcs);
	}
	atomic_store(&exchange->left_bytes, parser->left);
}

/* False when none came for long. */
static bool wait_for_call(struct snap_exchange *exchange, uint32_t served)
{
	const struct timespec patience = { .tv_sec = IDLE_SECONDS };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + SNAP_EXCHANGE_AWAKE_NS;

	while (atomic_load(&exchange->calls) == served) {
		if (snap_clock_ns(CLOCK_MONOTONIC) < until) {
			snap_exchange_pause();
			continue;
		}
		if (syscall(SYS_futex, &exchange->calls, FUTEX_WAIT, served, &patience, NULL, 0) &&
		    errno == ETIMEDOUT)
			return false;
	}
	return true;
}

/* Nothing is released: the process ends with it. */
void snap_exchange_serve(void *context, int channel)
{
	const struct snap_exchange_birth *birth = context;
	struct snap_exchange *exchange = birth->exchange;
	struct parser parser = { .exchange = exchange,
				 .options = birth->options,
				 .channel = channel };
	uint32_t served = atomic_load(&exchange->done);

	snap_arena_init(&parser.arena);
	/* Address space only: entries that are not used take no memory. */
	parser.capture.processes = calloc(SNAP_MAX_PROCESSES, sizeof(*parser.capture.processes));
	parser.capture.process_count = SNAP_MAX_PROCESSES;
	parser.spaces = calloc(SNAP_MAX_PROCESSES, sizeof(*parser.spaces));
	if (!parser.capture.processes || !parser.spaces)
		_exit(NO_MEMORY);
	parser.remote = (struct snap_remote_finder){ .channel = channel,
						     .capture = &parser.capture,
						     .file_id = &exchange->file_id };
	parser.finder = (struct snap_file_finder){ .find = find_remotely,
						   .note = note_remotely,
						   .context = &parser };
	while (wait_for_call(exchange, served)) {
		serve_unwinder_request(&parser);
		atomic_store(&exchange->done, ++served);
		send_ready(exchange);
	}
	atomic_store(&exchange->has_left, 1);
}
