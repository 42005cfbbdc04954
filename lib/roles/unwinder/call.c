/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One call of a remote unwinder: hands a copy over, serves the parser's requests meanwhile, and
 * waits no longer than it must. See unwinder.h; unwinder.c decides which process to blame for a
 * lost parser, answer.c and take_tasks.c check the answers.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/shared_memory.h"
#include "roles/unwinder/internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
	SPARE_FRAMES = 64,          /* see unwind.c */
	KEPT_STACK = 1 << 20,       /* bytes that stay when it is trimmed */
	FIRST_LOOK_NS = 1000000,    /* the first check that the parser lives … */
	LOOK_NS = 20000000,         /* … and the later ones, with the clock and the cancel flag */
	THINK_NS = SNAP_NS_PER_S,   /* processor time for one stack, if none was late before */
	MOST_HALVINGS = 4,          /* of THINK_NS … */
	MOST_HALVINGS_OF_WAIT = 3,  /* … and of the wait: a busy machine delays every process */
	UNASKED_NS = 50000000,      /* … and from one answer to the next call */
	MOST_ASKED = 1 << 14,       /* files for one stack */
	LAST_STACKS_NS = 330000000, /* for the stacks of the last tick */
	SEND_TIMEOUT_US = 200000,   /* for a parser that asks, and does not read the answer */
};

/* Beyond the time of files: on a machine that is busy with other work. */
static const int64_t MOST_WAIT_NS = 3 * SNAP_NS_PER_S;
/* For the files of one stack, if none is downloaded. */
static const int64_t MOST_FILES_NS = 10 * SNAP_NS_PER_S;
/*
 * A parser ends by itself after twice this time without a call; a parser that ends sooner is lost.
 */
static const int64_t LEAST_IDLE_NS = 5 * SNAP_NS_PER_S;

/* ---- the exchange ---- */

void snap_remote_unmap_exchange(struct snap_remote_unwinder *unwinder)
{
	if (unwinder->exchange)
		munmap(unwinder->exchange, unwinder->exchange_size);
	unwinder->exchange = NULL;
}

static uint64_t whole_pages(uint64_t bytes)
{
	return snap_round_up(bytes, SNAP_MOST_PAGE);
}

static uint64_t room_bytes(uint64_t pcs)
{
	const struct snap_exchange_room *room = NULL;

	return whole_pages(SNAP_EXCHANGE_PIECES * sizeof(*room->pieces)) + SNAP_EXCHANGE_MEMORY +
	       SNAP_EXCHANGE_TEXT + whole_pages(pcs * sizeof(*room->managed)) +
	       whole_pages(SNAP_EXCHANGE_FRAMES * sizeof(*room->frames)) +
	       whole_pages(SNAP_EXCHANGE_ENTRIES * sizeof(*room->entries)) +
	       whole_pages(SNAP_EXCHANGE_THREADS * sizeof(*room->threads)) +
	       whole_pages(SNAP_EXCHANGE_THREADS * sizeof(*room->registers)) +
	       whole_pages(SNAP_EXCHANGE_TASKS * sizeof(*room->tasks)) +
	       whole_pages(SNAP_EXCHANGE_STACKS * sizeof(*room->stacks)) +
	       whole_pages(SNAP_EXCHANGE_STACK_FRAMES * sizeof(*room->stack_frames)) +
	       whole_pages(SNAP_EXCHANGE_TASK_LABELS * sizeof(*room->task_labels)) + SNAP_MOST_PAGE;
}

static void *place(uint8_t **at, uint64_t bytes)
{
	void *here = *at;

	*at += whole_pages(bytes);
	return here;
}

/* Places the parts behind the pcs, each on pages of its own. */
static void place_room(struct snap_remote_unwinder *unwinder, uint8_t *at)
{
	struct snap_exchange_room *room = &unwinder->room;

	at += -(uintptr_t)at & (SNAP_MOST_PAGE - 1);
	room->memory = at;
	at += SNAP_EXCHANGE_MEMORY;
	room->text = (char *)at;
	at += SNAP_EXCHANGE_TEXT;
	room->pieces = place(&at, SNAP_EXCHANGE_PIECES * sizeof(*room->pieces));
	room->frames = place(&at, SNAP_EXCHANGE_FRAMES * sizeof(*room->frames));
	room->entries = place(&at, SNAP_EXCHANGE_ENTRIES * sizeof(*room->entries));
	room->threads = place(&at, SNAP_EXCHANGE_THREADS * sizeof(*room->threads));
	room->registers = place(&at, SNAP_EXCHANGE_THREADS * sizeof(*room->registers));
	room->tasks = place(&at, SNAP_EXCHANGE_TASKS * sizeof(*room->tasks));
	room->stacks = place(&at, SNAP_EXCHANGE_STACKS * sizeof(*room->stacks));
	room->stack_frames = place(&at, SNAP_EXCHANGE_STACK_FRAMES * sizeof(*room->stack_frames));
	room->task_labels = place(&at, SNAP_EXCHANGE_TASK_LABELS * sizeof(*room->task_labels));
	room->managed = (struct snap_exchange_managed *)(void *)at;
}

/* Address space only: what a call does not use takes no memory. */
struct stacksnap_error *snap_remote_renew_exchange(struct snap_remote_unwinder *unwinder)
{
	const struct snap_options *options = unwinder->options;
	size_t header = whole_pages(sizeof(struct snap_exchange));
	uint64_t stacks =
		(2 * options->max_stack + 2 * SNAP_MOST_PAGE) & ~(uint64_t)(SNAP_MOST_PAGE - 1);
	uint64_t pcs = stacks / sizeof(uint64_t) + SPARE_FRAMES;
	struct snap_exchange *exchange;
	uint64_t size;

	if (options->max_frames && options->max_frames < pcs)
		pcs = options->max_frames;
	snap_remote_unmap_exchange(unwinder);
	size = header + stacks + pcs * sizeof(struct snap_pc) + room_bytes(pcs);
	exchange = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (exchange == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the stacks");
	unwinder->exchange = exchange;
	unwinder->exchange_size = size;
	unwinder->stacks = (uint8_t *)exchange + header;
	unwinder->stack_capacity = stacks;
	unwinder->shared_pcs = (struct snap_pc *)(unwinder->stacks + stacks);
	unwinder->most_pcs = pcs;
	unwinder->most_used = unwinder->most_memory = 0;
	unwinder->calls = unwinder->asked = 0;
	exchange->pcs = unwinder->shared_pcs;
	exchange->most_pcs = pcs;
	place_room(unwinder, (uint8_t *)(unwinder->shared_pcs + pcs));
	exchange->room = unwinder->room;
	return NULL;
}

void snap_remote_trim_exchange(struct snap_remote_unwinder *unwinder)
{
	if (unwinder->most_memory > KEPT_STACK) {
		madvise(unwinder->room.memory, whole_pages(room_bytes(0)) - SNAP_MOST_PAGE,
			MADV_REMOVE);
		unwinder->most_memory = 0;
	}
	if (unwinder->most_used <= KEPT_STACK)
		return;
	madvise(unwinder->stacks + KEPT_STACK, unwinder->stack_capacity - KEPT_STACK, MADV_REMOVE);
	unwinder->most_used = 0;
}

/* ---- the parser ---- */

struct stacksnap_error *snap_remote_make_parser(struct snap_remote_unwinder *unwinder)
{
	struct snap_exchange_birth birth = { .options = unwinder->options };
	struct snap_parser_stay stay = { .options = unwinder->options,
					 .run = snap_exchange_serve,
					 .context = &birth };

	if (unwinder->role.pidfd >= 0)
		return NULL;
	SNAP_TRY(snap_remote_renew_exchange(unwinder));
	stay.memory = birth.exchange = unwinder->exchange;
	stay.memory_size = unwinder->exchange_size;
	unwinder->maker = gettid();
	unwinder->answered_ns = snap_clock_ns(CLOCK_MONOTONIC);
	unwinder->used_ns = -1;
	return snap_parser_spawn(&stay, &unwinder->role);
}

int snap_remote_end_parser(struct snap_remote_unwinder *unwinder)
{
	for (size_t i = 0; i < unwinder->process_count; i++)
		unwinder->processes[i].is_entered = false;
	unwinder->left_count = 0;
	unwinder->resets = unwinder->has_left_any = false;
	unwinder->entered_bytes = 0;
	unwinder->used_ns = -1;
	return snap_role_end(&unwinder->role);
}

static int64_t processor_time(const struct snap_remote_unwinder *unwinder)
{
	clockid_t clock;

	return clock_getcpuclockid(unwinder->role.pid, &clock) ? 0 : snap_clock_ns(clock);
}

static bool may_have_left(const struct snap_remote_unwinder *unwinder)
{
	return snap_clock_ns(CLOCK_MONOTONIC) - unwinder->answered_ns >= LEAST_IDLE_NS;
}

void snap_remote_check_parser(struct snap_remote_unwinder *unwinder)
{
	const char *why = NULL;
	bool left;

	if (unwinder->role.pidfd < 0)
		return;
	left = atomic_load(&unwinder->exchange->has_left);
	if (left && !may_have_left(unwinder))
		why = "the parser exited early";
	else if (!left && unwinder->used_ns >= 0 &&
		 processor_time(unwinder) - unwinder->used_ns > UNASKED_NS)
		why = "the parser used processor time between two calls";
	if (why) {
		snprintf(unwinder->why, sizeof(unwinder->why), "%s", why);
		unwinder->losses++;
	}
	if (left || why)
		snap_remote_end_parser(unwinder);
}

/* ---- the call ---- */

static const uint8_t *put(struct snap_remote_unwinder *unwinder, uint64_t *used,
			  const uint8_t *bytes, size_t *size)
{
	uint8_t *to = unwinder->stacks + *used;

	*size = SNAP_MIN(*size, unwinder->stack_capacity - *used);
	if (*size)
		memcpy(to, bytes, *size);
	*used += (*size + 15) & ~(uint64_t)15;
	return *size ? to : NULL;
}

/*
 * Memory that does not fit is left out, as if it had not been copied. Nothing is read back: the
 * parser may write there.
 */
static void put_memory(struct snap_remote_unwinder *unwinder, const struct snap_memory_image *image)
{
	struct snap_memory_image put = *image;
	struct snap_memory_piece *pieces = unwinder->room.pieces;
	uint64_t used = 0;

	put.piece_count = 0;
	for (size_t i = 0; i < image->piece_count && i < SNAP_EXCHANGE_PIECES; i++) {
		const struct snap_memory_piece *piece = &image->pieces[i];

		if (piece->size > SNAP_EXCHANGE_MEMORY - used)
			break;
		memcpy(unwinder->room.memory + used, piece->bytes, piece->size);
		pieces[put.piece_count++] =
			(struct snap_memory_piece){ piece->address, piece->size,
						    unwinder->room.memory + used };
		used += piece->size;
	}
	put.pieces = pieces;
	unwinder->exchange->memory = put;
	unwinder->most_memory = SNAP_MAX(unwinder->most_memory, used);
}

/* Puts what identifies threads; their stacks are not needed. */
static void put_called_threads(struct snap_remote_unwinder *unwinder,
			       const struct snap_process *process)
{
	const struct snap_exchange_room *room = &unwinder->room;
	uint32_t count = 0;

	for (size_t i = 0; i < process->thread_count && count < SNAP_EXCHANGE_THREADS; i++) {
		const struct snap_thread *from = &process->threads[i];
		struct snap_thread copy = {
			.tid = from->tid,
			.ns_tid = from->ns_tid,
			.state = from->state,
			.result = from->result,
			.taken = from->taken,
			.stack_address = from->stack_address,
			.registers = room->registers[count],
		};

		if (from->registers_size <= sizeof(room->registers[0]) && from->registers_size) {
			copy.registers_size = from->registers_size;
			memcpy(room->registers[count], from->registers, from->registers_size);
		}
		room->threads[count++] = copy;
	}
	unwinder->exchange->thread_count = count;
	if (process->memory)
		put_memory(unwinder, process->memory);
	else
		unwinder->exchange->memory = (struct snap_memory_image){ .piece_count = 0 };
}

static void put_called_thread(struct snap_remote_unwinder *unwinder,
			      const struct snap_thread *thread)
{
	struct snap_exchange *exchange = unwinder->exchange;
	struct snap_thread copy = *thread;
	uint64_t used = 0;

	copy.name = copy.wchan = copy.kernel_stack = NULL;
	copy.reference_pcs = NULL;
	copy.reference_pc_count = 0;
	if (copy.registers_size > sizeof(exchange->registers))
		copy.registers_size = 0;
	if (copy.registers_size)
		memcpy(exchange->registers, thread->registers, copy.registers_size);
	copy.registers = exchange->registers;
	copy.stack = put(unwinder, &used, thread->stack, &copy.stack_size);
	copy.stack_limited |= copy.stack_size < thread->stack_size;
	copy.stack2 = put(unwinder, &used, thread->stack2, &copy.stack2_size);
	if (thread->memory)
		put_memory(unwinder, thread->memory);
	copy.memory = thread->memory ? &exchange->memory : NULL;
	exchange->thread = copy;
	unwinder->most_used = SNAP_MAX(unwinder->most_used, used);
}

static void hand_over(struct snap_remote_unwinder *unwinder, uint32_t number, bool enters,
		      const struct snap_remote_question *question)
{
	struct snap_exchange *exchange = unwinder->exchange;

	exchange->number = number;
	exchange->enters = enters;
	exchange->resets = unwinder->resets;
	exchange->left_count = (uint32_t)unwinder->left_count;
	memcpy(exchange->left, unwinder->left, unwinder->left_count * sizeof(*unwinder->left));
	unwinder->resets = false;
	unwinder->left_count = 0;
	exchange->file_id = 0;
	exchange->wants_tasks = question->whole;
	if (question->whole)
		put_called_threads(unwinder, question->whole);
	else
		put_called_thread(unwinder, question->thread);
	atomic_store(&exchange->calls, ++unwinder->calls);
	syscall(SYS_futex, &exchange->calls, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* What a call has cost so far. */
struct watch {
	int64_t begin_ns; /* without the time that files took … */
	int64_t files_ns; /* … which is this */
	int64_t used_ns;  /* processor time of the parser before the call; -1: not known yet */
	int64_t look_ns;  /* when the parser is checked next, even if it sends events until then */
	unsigned asked;
	bool may_have_left;
};

/*
 * All other stacks wait for a late one. The next parser does not get a file that took too long, so
 * a parser that is late again deserves less time.
 */
int64_t snap_remote_halved(int64_t ns, unsigned late, unsigned most)
{
	return ns >> (late < most ? late : most);
}

bool snap_remote_is_cancelled(const struct snap_remote_unwinder *unwinder)
{
	int64_t asked = unwinder->asked_ns ? atomic_load(unwinder->asked_ns) : 0;

	return snap_options_cancelled(unwinder->options) ||
	       (asked && snap_clock_ns(CLOCK_MONOTONIC) > asked + LAST_STACKS_NS);
}

static bool asks_too_much(const struct snap_remote_unwinder *unwinder, const struct watch *watch)
{
	return watch->asked > MOST_ASKED ||
	       (watch->files_ns > MOST_FILES_NS && !unwinder->options->debuginfod);
}

/* Checks the parser during the wait. ANSWERED: go on waiting. */
static enum snap_call_result look_at_parser(const struct snap_remote_unwinder *unwinder,
					    struct watch *watch)
{
	int64_t used;

	if (snap_role_has_ended(&unwinder->role, 0))
		return watch->may_have_left && atomic_load(&unwinder->exchange->has_left)
			       ? SNAP_CALL_LEFT
			       : SNAP_CALL_DIED;
	if (snap_remote_is_cancelled(unwinder))
		return SNAP_CALL_CANCELLED;
	used = processor_time(unwinder);
	if (watch->used_ns < 0)
		watch->used_ns = used;
	if (used - watch->used_ns > snap_remote_halved(THINK_NS, unwinder->late, MOST_HALVINGS) ||
	    snap_clock_ns(CLOCK_MONOTONIC) - watch->begin_ns >
		    snap_remote_halved(unwinder->most_wait_ns ?: MOST_WAIT_NS, unwinder->late,
				       MOST_HALVINGS_OF_WAIT) ||
	    asks_too_much(unwinder, watch))
		return SNAP_CALL_LATE;
	watch->look_ns = snap_clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
	return SNAP_CALL_ANSWERED;
}

/*
 * The parser signals a request for a file, perhaps falsely: then the channel is empty, and that
 * wait is as limited as every other one.
 */
static enum snap_call_result serve_file(struct snap_remote_unwinder *unwinder, struct watch *watch)
{
	struct pollfd channel = { .fd = unwinder->role.channel, .events = POLLIN };
	const struct snap_broker broker = snap_refusing_broker(&unwinder->refusals);
	int64_t begin, took;
	bool gone = false;

	if (poll(&channel, 1, LOOK_NS / 1000000) <= 0)
		return look_at_parser(unwinder, watch);
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	if (snap_error_ignore(snap_broker_serve(&broker, unwinder->role.channel, &gone)) || gone)
		return SNAP_CALL_DIED;
	unwinder->asked++;
	watch->asked++;
	took = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	watch->files_ns += took;
	watch->begin_ns += took;
	return asks_too_much(unwinder, watch) || snap_remote_is_cancelled(unwinder)
		       ? look_at_parser(unwinder, watch)
		       : SNAP_CALL_ANSWERED;
}

static void sleep_until(_Atomic uint32_t *futex, uint32_t seen, int64_t ns)
{
	struct timespec timeout = { .tv_nsec = ns };

	syscall(SYS_futex, futex, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

enum snap_call_result snap_remote_call(struct snap_remote_unwinder *unwinder, uint32_t number,
				       bool enters, const struct snap_remote_question *question)
{
	struct snap_exchange *exchange = unwinder->exchange;
	enum snap_call_result result = SNAP_CALL_ANSWERED;
	struct watch watch = { .used_ns = unwinder->used_ns,
			       .may_have_left = may_have_left(unwinder) };
	int64_t awake_until;

	hand_over(unwinder, number, enters, question);
	watch.begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	watch.look_ns = watch.begin_ns + FIRST_LOOK_NS;
	awake_until = watch.begin_ns + SNAP_EXCHANGE_AWAKE_NS;
	while (result == SNAP_CALL_ANSWERED) {
		uint32_t seen = atomic_load(&exchange->events);
		int64_t now;

		if (atomic_load(&exchange->done) == unwinder->calls) {
			unwinder->answered_ns = snap_clock_ns(CLOCK_MONOTONIC);
			unwinder->used_ns = processor_time(unwinder);
			return SNAP_CALL_ANSWERED;
		}
		if (atomic_load(&exchange->asked) != unwinder->asked) {
			result = serve_file(unwinder, &watch);
			continue;
		}
		now = snap_clock_ns(CLOCK_MONOTONIC);
		/*
		 * By the clock, so that a parser that signals events without end is checked, too.
		 */
		if (now < awake_until)
			snap_exchange_pause();
		else if (now >= watch.look_ns)
			result = look_at_parser(unwinder, &watch);
		else
			sleep_until(&exchange->events, seen, watch.look_ns - now);
	}
	return result;
}
