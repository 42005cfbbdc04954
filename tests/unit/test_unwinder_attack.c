/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A parser that stays, in the hands of somebody who can do nothing but write where it may and use
 * up time: what it can reach, and what its maker makes of it.
 */
#include "base/clock.h"
#include "mappings.h"
#include "skip.h"
#include "store/log/log.h"
#include "unwinder_bed.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifdef __SANITIZE_ADDRESS__
enum { ROUNDS = 400 };
#else
enum { ROUNDS = 3000 };
#endif

enum { PAGE = 65536 /* as large as any page is */, MOST_RANGES = 64 };

/* Memory as a program has it that uses the library, or another part of it. */
struct others {
	uint8_t *written, *read;
};

static struct others map_others(void)
{
	struct others others = {
		.written = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				-1, 0),
		.read = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
	};

	assert_true(others.written != MAP_FAILED && others.read != MAP_FAILED);
	memset(others.written, 0x5a, 3 * PAGE);
	/* More than one line of the list. */
	assert_int_equal(mprotect(others.written + PAGE, PAGE, PROT_NONE), 0);
	return others;
}

static void unmap_others(struct others *others)
{
	assert_int_equal(mprotect(others->written + PAGE, PAGE, PROT_READ), 0);
	for (int i = 0; i < 3 * PAGE; i++)
		assert_int_equal(others->written[i], 0x5a);
	munmap(others->written, 3 * PAGE);
	munmap(others->read, PAGE);
}

/* ---- what it can reach ---- */

static void assert_alone(const struct bed *bed)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct shared_range range = { 0, 0 };
	int count = shared_mappings(bed->unwinder->role.pid, &range, 1);

	if (count < 0)
		skip_because(NOT_ROOT);
	assert_int_equal(count, 1);
	assert_int_equal(range.start, (uintptr_t)bed->unwinder->exchange);
	assert_true(range.end - range.start <=
		    ((bed->unwinder->exchange_size + page - 1) & ~(page - 1)));
}

static void test_it_shares_nothing_but_its_own(void **state)
{
	struct bed *bed = *state;
	const struct snap_thread *thread = &bed->processes[0].threads[2];
	struct others others = map_others();
	pid_t before;

	assert_told(bed, 0, thread);
	assert_alone(bed);
	before = bed->unwinder->role.pid;
	kill(before, SIGKILL);
	assert_true(snap_role_has_ended(&bed->unwinder->role, 10000));
	for (int i = 0; i < 2; i++) {
		struct snap_pcs pcs;

		assert_null(snap_remote_unwind(bed->unwinder, 0, &bed->processes[0], thread, &pcs));
	}
	assert_int_not_equal(bed->unwinder->role.pid, before);
	assert_told(bed, 0, thread);
	assert_alone(bed);
	unmap_others(&others);
}

static void test_it_has_no_priority(void **state)
{
	struct bed *bed = *state;
	struct snap_options options = bed->options;

	if (setpriority(PRIO_PROCESS, 0, -5) < 0)
		skip_because(NOT_ROOT);
	assert_told(bed, 0, &bed->processes[0].threads[2]);
	errno = 0;
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)bed->unwinder->role.pid), 0);
	assert_int_equal(errno, 0);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), -5);
	/* Who waits for others has parsers that do. */
	assert_int_equal(setpriority(PRIO_PROCESS, 0, 7), 0);
	snap_remote_end_parser(bed->unwinder);
	assert_told(bed, 0, &bed->processes[0].threads[2]);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)bed->unwinder->role.pid), 7);
	assert_int_equal(setpriority(PRIO_PROCESS, 0, 0), 0);
	bed->options = options;
}

/* ---- time ---- */

static void answer_with_nothing(struct snap_exchange *exchange)
{
	while (atomic_load(&exchange->calls) == 0)
		usleep(100);
	exchange->answer.end = SNAP_UNWIND_FAILED;
	memcpy(exchange->answer.reason, "so", 3);
	atomic_store(&exchange->done, 1);
}

static void works_unasked(void *context, int channel _unused_)
{
	answer_with_nothing(context);
	for (volatile unsigned i = 0;; i = i + 1)
		;
}

static int64_t processor_time(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : snap_clock_ns(clock);
}

static pid_t let_work_unasked(struct bed *bed)
{
	struct snap_remote_unwinder *unwinder = bed->unwinder;
	struct snap_pcs pcs;

	snap_remote_end_parser(unwinder);
	assert_null(snap_remote_renew_exchange(unwinder));
	assert_null(snap_role_spawn("hostile", works_unasked, unwinder->exchange, &unwinder->role));
	assert_null(snap_remote_unwind(unwinder, 0, &bed->processes[0],
				       &bed->processes[0].threads[2], &pcs));
	assert_string_equal(pcs.reason, "so");
	while (processor_time(unwinder->role.pid) < 200000000)
		usleep(1000);
	return unwinder->role.pid;
}

/* Seen at the next call, which another one answers; and between ticks, where there is no call. */
static void test_one_that_works_unasked(void **state)
{
	struct bed *bed = *state;
	const char *why = NULL;
	pid_t before;

	assert_told(bed, 0, &bed->processes[0].threads[2]);
	before = let_work_unasked(bed);
	assert_told(bed, 0, &bed->processes[0].threads[2]);
	assert_int_not_equal(bed->unwinder->role.pid, before);
	assert_int_equal(snap_remote_unwinder_losses(bed->unwinder, &why), 1);
	assert_string_equal(why, "the parser used processor time between two calls");
	let_work_unasked(bed);
	snap_remote_unwinder_tidy(bed->unwinder);
	assert_int_equal(bed->unwinder->role.pidfd, -1);
	assert_int_equal(losses(bed), 2);
	assert_int_equal(bed->unwinder->processes[0].losses, 0);
}

static void takes_its_time(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;
	clockid_t own = CLOCK_PROCESS_CPUTIME_ID;

	for (uint32_t served = 0;;) {
		int64_t begin = snap_clock_ns(own);

		while (atomic_load(&exchange->calls) == served)
			usleep(100);
		while (snap_clock_ns(own) - begin < 200000000)
			;
		exchange->answer.end = SNAP_UNWIND_FAILED;
		memcpy(exchange->answer.reason, "so", 3);
		atomic_store(&exchange->done, ++served);
	}
}

static void forgive(struct snap_remote_unwinder *unwinder)
{
	unwinder->losses = unwinder->late = 0;
	for (size_t i = 0; i < unwinder->process_count; i++)
		unwinder->processes[i].losses = 0;
	for (size_t i = 0; i < unwinder->user_count; i++)
		unwinder->users[i].losses = 0;
}

/* Until a parser is lost; why. */
static const char *lose_one(struct bed *bed)
{
	struct snap_remote_unwinder *unwinder = bed->unwinder;
	const struct snap_thread *thread = &bed->processes[0].threads[2];
	const char *why = NULL;
	struct snap_pcs pcs;
	unsigned calls = 0;

	forgive(unwinder);
	snap_remote_end_parser(unwinder);
	assert_null(snap_remote_renew_exchange(unwinder));
	assert_null(
		snap_role_spawn("hostile", takes_its_time, unwinder->exchange, &unwinder->role));
	for (; unwinder->processes[0].losses == 0 && calls < 100; calls++)
		assert_null(snap_remote_unwind(unwinder, 0, &bed->processes[0], thread, &pcs));
	assert_in_range(calls, 1, 99);
	assert_int_equal(snap_remote_unwinder_losses(unwinder, &why), 1);
	assert_non_null(why);
	return why;
}

/* No stack takes too long, all together do: others wait no longer than that for this process. */
static void test_one_that_takes_its_time(void **state)
{
	struct bed *bed = *state;
	struct snap_remote_unwinder *unwinder = bed->unwinder;
	const struct snap_thread *thread = &bed->processes[0].threads[2];
	const char *why = NULL;
	struct snap_pcs pcs;

	assert_told(bed, 0, thread);
	/* Where a busy machine lets one of its stacks take too long, it is ended for that one. */
	for (unsigned tries = 0; tries < 20; tries++) {
		why = lose_one(bed);
		if (strstr(why, "over the stacks of a process"))
			break;
		assert_non_null(strstr(why, "took too long over a stack"));
	}
	assert_non_null(strstr(why, "over the stacks of a process"));
	/* It is hopeless, and nobody else is. */
	assert_null(snap_remote_unwind(unwinder, 0, &bed->processes[0], thread, &pcs));
	assert_non_null(pcs.reason);
	assert_string_equal(pcs.reason, "the unwinding process was lost");
	assert_null(snap_remote_unwind(unwinder, 1, &bed->processes[0], thread, &pcs));
	assert_true(!pcs.reason || strcmp(pcs.reason, "the unwinding process was lost") != 0);
}

static void never_answers(void *context _unused_, int channel _unused_)
{
	for (;;)
		pause();
}

/* All others wait for each of its stacks: for the next ones less and less. */
static void test_one_that_never_answers(void **state)
{
	struct bed *bed = *state;
	struct snap_remote_unwinder *unwinder = bed->unwinder;
	const struct snap_thread *thread = &bed->processes[0].threads[2];
	int64_t least = INT64_MAX, took;
	struct snap_pcs pcs;

	assert_told(bed, 0, thread);
	for (unsigned i = 0; i < 4; i++) {
		forgive(unwinder);
		unwinder->late = i;
		snap_remote_end_parser(unwinder);
		assert_null(snap_remote_renew_exchange(unwinder));
		assert_null(snap_role_spawn("hostile", never_answers, NULL, &unwinder->role));
		took = snap_clock_ns(CLOCK_MONOTONIC);
		assert_null(snap_remote_unwind(unwinder, 0, &bed->processes[0], thread, &pcs));
		took = snap_clock_ns(CLOCK_MONOTONIC) - took;
		least = took < least ? took : least;
		assert_int_equal(unwinder->late, i + 1);
	}
	/* The first one had three seconds; the others a half, a quarter, an eighth of that. */
	assert_in_range(least, 300000000, 2900000000);
	assert_int_equal(snap_remote_halved(1000, 2, 3), 250);
	assert_int_equal(snap_remote_halved(1000, 9, 3), 125);
}

static void blames_another(void *context, int channel _unused_)
{
	struct snap_exchange *exchange = context;

	while (atomic_load(&exchange->calls) == 0)
		usleep(100);
	exchange->file_id = (1ull << 32 | 5) + 1;
	signal(SIGABRT, SIG_DFL);
	abort();
}

/* Files of another user's process stay what they are, whatever it says that it was reading. */
static void test_one_that_blames_another(void **state)
{
	struct bed *bed = *state;
	struct snap_remote_unwinder *unwinder = bed->unwinder;
	struct snap_process other = bed->processes[0];
	struct snap_pcs pcs;

	for (unsigned i = 0; i < 2; i++) {
		other.uid = bed->processes[0].uid + 1 - i;
		assert_null(snap_remote_unwind(unwinder, 1, &other, &bed->processes[0].threads[2],
					       &pcs));
		snap_remote_end_parser(unwinder);
		assert_null(snap_remote_renew_exchange(unwinder));
		assert_null(snap_role_spawn("hostile", blames_another, unwinder->exchange,
					    &unwinder->role));
		assert_null(snap_remote_unwind(unwinder, 0, &bed->processes[0],
					       &bed->processes[0].threads[2], &pcs));
		assert_int_equal(losses(bed), i + 1);
		assert_int_equal(unwinder->refusals.count, i);
	}
}

/* ---- memory ---- */

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Everything that its maker shares; what of it is there it finds out itself. */
struct attack {
	struct snap_exchange *exchange;
	struct snap_exchange_room room;
	struct snap_pc *pcs;
	uint64_t seed;
	struct shared_range ranges[MOST_RANGES];
	int count;
};

static uint64_t any_value(uint64_t *seed)
{
	static const uint64_t extremes[] = {
		0,          1,         2,          0x7f,           0xff,
		0xffff,     1u << 31,  UINT32_MAX, 1ull << 32,     1ull << 47,
		1ull << 63, INT64_MAX, UINT64_MAX, UINT64_MAX - 7, 512,
		513,        4096,
	};
	uint64_t random = next_random(seed);

	return random & 1 ? extremes[(random >> 8) % SNAP_ARRAY_SIZE(extremes)]
			  : next_random(seed) >> (random >> 8) % 64;
}

/* A call that writes a result says whether there is memory; signals cannot be handled any more. */
static bool is_writable(uintptr_t address)
{
	return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, address) == 0;
}

static void write_anywhere(struct attack *attack)
{
	for (int i = 0; i < attack->count; i++) {
		uintptr_t start = attack->ranges[i].start;
		size_t size = attack->ranges[i].end - start;

		if (start == (uintptr_t)attack->exchange || !is_writable(start))
			continue;
		*(uint64_t *)(start + next_random(&attack->seed) % (size / 8) * 8) =
			any_value(&attack->seed);
	}
}

/* All but the number of calls, by which the rounds are counted, and their answer. */
static void write_to_exchange(struct attack *attack)
{
	struct snap_exchange *exchange = attack->exchange;
	uint32_t *words = (uint32_t *)exchange;
	size_t calls = offsetof(struct snap_exchange, calls) / sizeof(*words);
	size_t done = offsetof(struct snap_exchange, done) / sizeof(*words);
	size_t answer = offsetof(struct snap_exchange, answer) / sizeof(*words);
	size_t end = sizeof(*exchange) / sizeof(*words);

	for (int i = 0; i < 8; i++) {
		size_t from = next_random(&attack->seed) & 1 ? answer : 0;
		size_t at = from + next_random(&attack->seed) % (end - from);

		if (at != calls && at != done)
			words[at] = (uint32_t)any_value(&attack->seed);
	}
	attack->pcs[next_random(&attack->seed) % 512].bits = any_value(&attack->seed);
	attack->room.managed[next_random(&attack->seed) % 8].at =
		(uint32_t)any_value(&attack->seed);
	attack->room.frames[next_random(&attack->seed) % 8].entry_count =
		(uint32_t)any_value(&attack->seed);
	attack->room.entries[next_random(&attack->seed) % 8].file =
		(uint32_t)any_value(&attack->seed);
	attack->room.text[next_random(&attack->seed) % 4096] = (char)next_random(&attack->seed);
}

/* Functions of an interpreter, as they may be, but for some. */
static void pretend_managed(struct attack *attack)
{
	struct snap_exchange_answer *answer = &attack->exchange->answer;
	uint64_t random = next_random(&attack->seed);
	uint32_t most = answer->count < 8 ? (uint32_t)answer->count : 8;

	answer->forgets = (random & 7) == 0;
	answer->shows_all = (random >> 3 & 7) == 0;
	answer->text_size = 64;
	answer->frame_count = (uint32_t)(random >> 8 & 3);
	answer->entry_count = answer->frame_count;
	answer->managed_count = most;
	for (uint32_t i = 0; i < 8; i++) {
		attack->room.managed[i] =
			(struct snap_exchange_managed){ i, (uint32_t)(random >> 16 & 1) };
		attack->room.frames[i] = (struct snap_exchange_frame){ 0, 1 };
		attack->room.entries[i] = (struct snap_exchange_entry){
			.function = 1 + (random >> 20 & 31), .file = 1, .language = 1
		};
	}
	memset(attack->room.text, 'a', 63);
	attack->room.text[63] = 0;
	if (random & 1 << 28) {
		answer->label_count = 1 + (random >> 29 & 1);
		answer->labels[0] = (struct snap_exchange_label){ 2, 1 };
		answer->labels[1] = (struct snap_exchange_label){ 1, 64 };
	}
	if ((random >> 32 & 7) == 0)
		((uint32_t *)answer)[(random >> 40) % (sizeof(*answer) / 4)] =
			(uint32_t)any_value(&attack->seed);
}

/* An answer that is mostly right is looked at more closely. */
static void pretend(struct attack *attack)
{
	struct snap_exchange_answer *answer = &attack->exchange->answer;
	uint64_t random = next_random(&attack->seed);

	*answer = (struct snap_exchange_answer){
		.count = random % 514,
		.end = (uint32_t)(random >> 16) % (SNAP_UNWIND_COUNT + 1),
		.end_pc = any_value(&attack->seed),
		.gap_count = random & 1 << 24 ? any_value(&attack->seed) : 0,
		.gap_after = (random >> 32) % 514,
		.needs_register = random >> 48 & 1,
		.stale_mappings = random >> 49 & 1,
	};
	if (random & 1 << 25)
		memcpy(answer->reason, "so or not so", 13);
}

/* One that is right, and stays as it is until the next call. */
static void answer_rightly(struct attack *attack)
{
	struct snap_exchange *exchange = attack->exchange;

	exchange->answer = (struct snap_exchange_answer){
		.count = 8,
		.end = SNAP_UNWIND_COMPLETE,
		.forgets = 1,
		.frame_count = 1,
		.entry_count = 1,
		.managed_count = 2,
		.text_size = 64,
	};
	for (uint32_t i = 0; i < 8; i++)
		attack->pcs[i].bits = 0x1000 + i;
	for (uint32_t i = 0; i < 2; i++)
		attack->room.managed[i] = (struct snap_exchange_managed){ .at = i, .number = 0 };
	attack->room.frames[0] = (struct snap_exchange_frame){ 0, 1 };
	attack->room.entries[0] =
		(struct snap_exchange_entry){ .function = 1, .file = 1, .language = 1 };
	memset(attack->room.text, 'a', 63);
	attack->room.text[63] = 0;
}

static void send_anything(struct attack *attack, int channel)
{
	struct snap_broker_request request = {
		.kind = next_random(&attack->seed) % 4,
		.process = (uint32_t)any_value(&attack->seed),
		.map = (uint32_t)any_value(&attack->seed),
		.build_id_size = (uint32_t)next_random(&attack->seed) % 66,
	};
	size_t size = next_random(&attack->seed) & 3 ? sizeof(request)
						     : next_random(&attack->seed) % sizeof(request);

	atomic_fetch_add(&attack->exchange->asked, 1);
	send(channel, &request, size, MSG_DONTWAIT);
}

static void scribble(void *context, int channel)
{
	struct attack attack = *(struct attack *)context;
	struct snap_exchange *exchange = attack.exchange;

	bool is_quiet = false;

	for (uint32_t served = 0;;) {
		uint32_t calls = atomic_load(&exchange->calls);
		uint64_t random = next_random(&attack.seed);

		if (calls == served && is_quiet)
			continue;
		if (calls == served || random % 4) {
			write_to_exchange(&attack);
			write_anywhere(&attack);
			continue;
		}
		is_quiet = (random >> 24) % 8 == 0;
		if (random >> 8 & 7)
			pretend(&attack);
		if ((random >> 11 & 3) == 0)
			pretend_managed(&attack);
		if (is_quiet)
			answer_rightly(&attack);
		else if ((random >> 16) % 32 == 0)
			send_anything(&attack, channel);
		atomic_store(&exchange->done, served = calls);
		atomic_fetch_add(&exchange->events, 1);
		syscall(SYS_futex, &exchange->events, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}

static void spawn_attack(struct bed *bed, struct attack *attack)
{
	struct snap_remote_unwinder *unwinder = bed->unwinder;
	struct snap_parser_stay stay = { .options = &bed->options,
					 .run = scribble,
					 .context = attack };

	/* As one that the unwinder makes: else it is not asked for the first stack. */
	unwinder->maker = gettid();
	assert_null(snap_remote_renew_exchange(unwinder));
	attack->count = shared_mappings(getpid(), attack->ranges, MOST_RANGES);
	assert_true(attack->count > 0 && attack->count <= MOST_RANGES);
	attack->exchange = stay.memory = unwinder->exchange;
	stay.memory_size = unwinder->exchange_size;
	attack->pcs = unwinder->shared_pcs;
	attack->room = unwinder->room;
	assert_null(snap_parser_spawn(&stay, &unwinder->role));
}

/* All of it is read, and goes where a recording's go. */
static void use(const struct snap_remote_unwinder *unwinder, const struct snap_pcs *pcs,
		struct snap_log *log, uint32_t space)
{
	const struct snap_remote_managed *managed = snap_remote_unwinder_managed(unwinder);
	const struct snap_log_pcs stack = {
		.bits = pcs->count ? &pcs->pcs->bits : NULL,
		.count = pcs->count,
		.end = pcs->end,
		.end_pc = pcs->end_pc,
		.reason = pcs->reason,
		.gap_after = pcs->gap_after,
		.gap_count = pcs->gap_count,
		.managed = managed->frames,
		.managed_count = managed->frame_count,
		.shows_all = managed->shows_all,
		.labels = managed->labels,
		.label_count = managed->label_count,
	};
	uint32_t number;

	assert_true(pcs->count <= 512 && pcs->end < SNAP_UNWIND_COUNT);
	assert_true(!pcs->gap_count || pcs->gap_after < pcs->count);
	for (const char *c = pcs->reason; c && *c; c++)
		assert_true(*c >= ' ' && *c <= '~');
	assert_null(snap_log_stack(log, space, &stack, &number));
	assert_true(number < log->stack_count);
	for (size_t i = 0; i < managed->frame_count; i++)
		assert_true(managed->frames[i].at < pcs->count &&
			    (!i || managed->frames[i - 1].at < managed->frames[i].at));
}

static struct snap_log *log_of(const struct bed *bed, uint32_t *space_ret)
{
	const struct snap_live none = { -1, -1, -1, -1, -1 };
	const struct snap_process *process = &bed->processes[0];
	struct snap_log *log = NULL;
	uint32_t number;

	assert_null(snap_log_create(&bed->capture->host, 0, 1000000, false, &log));
	assert_null(snap_log_add_process(log, process->pid, process->start_ticks, UINT32_MAX,
					 UINT32_MAX, true, &number));
	assert_null(snap_log_map_process(log, number, process, &none, space_ret));
	return log;
}

static void test_one_that_writes_wherever_it_may(void **state)
{
	struct bed *bed = *state;
	struct snap_remote_unwinder *unwinder = bed->unwinder;
	const struct snap_process *process = &bed->processes[0];
	struct others others = map_others();
	struct attack attack = { .seed = 20240914 };
	uint32_t space;
	struct snap_log *log = log_of(bed, &space);
	unsigned believed = 0, believed_managed = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct snap_pcs pcs;

		if (unwinder->role.pidfd < 0)
			spawn_attack(bed, &attack);
		next_random(&attack.seed);
		/* The maker itself would make an honest one. */
		unwinder->used_ns = -1;
		atomic_store(&unwinder->exchange->has_left, 0);
		assert_null(snap_remote_unwind(unwinder, 0, process,
					       &process->threads[i % process->thread_count], &pcs));
		believed += unwinder->losses == 0;
		believed_managed += snap_remote_unwinder_managed(unwinder)->frame_count > 0;
		use(unwinder, &pcs, log, space);
		snap_remote_unwinder_tidy(unwinder);
		forgive(unwinder);
	}
	assert_in_range(believed, 1, ROUNDS - 1);
	assert_in_range(believed_managed, 1, ROUNDS);
	snap_remote_end_parser(unwinder);
	unmap_others(&others);
	unwinder->refusals.count = 0;
	assert_told(bed, 0, &process->threads[2]);
	snap_log_destroy(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_shares_nothing_but_its_own, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_it_has_no_priority, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_works_unasked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_takes_its_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_never_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_blames_another, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_writes_wherever_it_may, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
