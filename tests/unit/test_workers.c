/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists and calls done by workers; items that never end, workers that die, and what is left. */
#include "base/workers.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "patience.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { ITEMS = 500 };

static const int64_t PATIENCE_NS = 200000000;
#define LONG_NS with_patience(20000000000)

/* What an item does: by its number, in memory of both. */
enum deed { WORK, HANG, DIE };

struct list {
	uint8_t marks[ITEMS];
	uint8_t deeds[ITEMS];
	uint32_t calls[ITEMS];
	pid_t pids[ITEMS];
	int open_descriptors;
	int64_t sign_ns;
};

static struct list *list_new(void)
{
	struct list *list = mmap(NULL, sizeof(*list), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(list != MAP_FAILED);
	return list;
}

static void do_item(void *context, uint32_t item)
{
	struct list *list = context;

	list->pids[item] = getpid();
	__atomic_fetch_add(&list->calls[item], 1, __ATOMIC_RELAXED);
	if (list->deeds[item] == HANG)
		for (;;)
			pause();
	if (list->deeds[item] == DIE)
		raise(SIGKILL);
}

/* Nothing is left of it, not even a zombie. */
static void await_end(pid_t pid)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + LONG_NS;

	while (kill(pid, 0) == 0 && snap_clock_ns(CLOCK_MONOTONIC) < until)
		usleep(1000);
	assert_int_equal(kill(pid, 0), -1);
}

static struct snap_work work_of(struct list *list, uint32_t count)
{
	return (struct snap_work){ .run = do_item,
				   .context = list,
				   .count = count,
				   .marks = list->marks,
				   .patience_ns = PATIENCE_NS };
}

static void check_marks(const struct list *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(list->marks[i],
				 list->deeds[i] == WORK ? SNAP_ITEM_DONE : SNAP_ITEM_LATE);
		assert_int_equal(list->calls[i], 1);
	}
}

static void run_list(unsigned flags, uint32_t count, void (*fill)(struct list *list))
{
	struct snap_workers pool;
	struct list *list = list_new();
	struct snap_work work = work_of(list, count);
	bool all = true;

	if (fill)
		fill(list);
	for (uint32_t i = 0; i < count; i++)
		all &= list->deeds[i] == WORK;
	assert_int_equal(snap_workers_init(&pool, 0, -1, flags), 0);
	for (unsigned round = 0; round < 3; round++) {
		memset(list->marks, 0, sizeof(list->marks));
		memset(list->calls, 0, sizeof(list->calls));
		assert_int_equal(snap_workers_run(&pool, &work), all);
		check_marks(list, count);
	}
	snap_workers_deinit(&pool);
	for (uint32_t i = 0; i < count; i++)
		await_end(list->pids[i]);
	munmap(list, sizeof(*list));
}

static void test_every_item_is_done_once(void **state _unused_)
{
	run_list(0, ITEMS, NULL);
	run_list(SNAP_WORKERS_AWAKE, ITEMS, NULL);
	run_list(SNAP_WORKERS_BY_PROXY, 3, NULL);
	run_list(0, 0, NULL);
}

static void hang_often(struct list *list)
{
	for (uint32_t i = 0; i < ITEMS; i++)
		list->deeds[i] = i % 10 == 3 ? HANG : WORK;
}

static void die_often(struct list *list)
{
	for (uint32_t i = 0; i < ITEMS; i++)
		list->deeds[i] = i % 7 == 2 ? DIE : WORK;
}

static void test_what_hangs_costs_itself_alone(void **state _unused_)
{
	run_list(0, 200, hang_often);
	run_list(SNAP_WORKERS_BY_PROXY, 200, hang_often);
}

static void test_who_dies_costs_one_item(void **state _unused_)
{
	run_list(0, 50, die_often);
	run_list(SNAP_WORKERS_BY_PROXY, 50, die_often);
}

static void take_a_moment(void *context, uint32_t item)
{
	do_item(context, item);
	usleep(1000);
}

/* The time is that of an item, not of the list. */
static void test_long_list(void **state _unused_)
{
	struct snap_workers pool;
	struct list *list = list_new();
	struct snap_work work = work_of(list, ITEMS);

	work.run = take_a_moment;
	work.patience_ns = 2 * PATIENCE_NS;
	assert_int_equal(snap_workers_init(&pool, 0, -1, 0), 0);
	for (unsigned tries = 0; tries < 3; tries++) {
		memset(list->marks, 0, sizeof(list->marks));
		assert_true(snap_workers_run(&pool, &work));
	}
	snap_workers_deinit(&pool);
	munmap(list, sizeof(*list));
}

static void get_on_slowly(void *context, uint32_t item)
{
	int64_t *sign = context;

	for (unsigned i = 0; i < 20; i++) {
		usleep(PATIENCE_NS / 1000 / 4);
		__atomic_store_n(sign, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
	}
	(void)item;
}

/* Who tells that it gets on is not late; and it may be on our own processor. */
static void test_signs(void **state _unused_)
{
	struct snap_workers pool;
	struct list *list = list_new();
	struct snap_work work = work_of(list, 1);
	int64_t *shared = &list->sign_ns;

	work.run = get_on_slowly;
	work.context = work.signs = shared;
	work.here = true;
	assert_int_equal(snap_workers_init(&pool, 0, -1, 0), 0);
	assert_true(snap_workers_prepare(&pool));
	snap_workers_follow(&pool);
	assert_true(snap_workers_run(&pool, &work));
	list->marks[0] = SNAP_ITEM_OPEN;
	work.signs = NULL;
	assert_false(snap_workers_run(&pool, &work));
	snap_workers_deinit(&pool);
	munmap(list, sizeof(*list));
}

static void compute(void *context, uint32_t item)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS;

	do_item(context, item);
	while (item == 1 && snap_clock_ns(CLOCK_MONOTONIC) < until)
		;
}

/* Who sleeps is late before the one who only gets no further. */
static void test_sleepers_have_less_time(void **state _unused_)
{
	struct snap_workers pool;
	struct list *list = list_new();
	struct snap_work work = work_of(list, 10);
	int procfs = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);

	list->deeds[4] = HANG;
	work.run = compute;
	work.patience_ns = LONG_NS;
	work.asleep_ns = PATIENCE_NS / 10;
	assert_int_equal(snap_workers_init(&pool, 0, procfs, 0), 0);
	assert_false(snap_workers_run(&pool, &work));
	assert_true(snap_clock_ns(CLOCK_MONOTONIC) < begin + LONG_NS / 2);
	check_marks(list, 10);
	snap_workers_deinit(&pool);
	munmap(list, sizeof(*list));
	close(procfs);
}

/* One that computes is held by nothing; but neither may it go on for ever. */
static void test_who_runs_has_more_time(void **state _unused_)
{
	struct snap_workers pool;
	struct list *list = list_new();
	struct snap_work work = work_of(list, 3);
	int procfs = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	work.run = compute;
	work.patience_ns = PATIENCE_NS * 3 / 4;
	assert_int_equal(snap_workers_init(&pool, 0, procfs, 0), 0);
	assert_true(snap_workers_run(&pool, &work));
	check_marks(list, 3);
	snap_workers_deinit(&pool);
	munmap(list, sizeof(*list));
	close(procfs);
}

/* As many hang as there can be workers, and more: it ends all the same. */
static void test_all_hang(void **state _unused_)
{
	struct snap_workers pool;
	struct list *list = list_new();
	struct snap_work work = work_of(list, 2 * SNAP_WORKERS_MOST);

	memset(list->deeds, HANG, sizeof(list->deeds));
	assert_int_equal(snap_workers_init(&pool, 0, -1, 0), 0);
	work.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + LONG_NS;
	assert_false(snap_workers_run(&pool, &work));
	assert_true(snap_clock_ns(CLOCK_MONOTONIC) < work.until_ns);
	for (uint32_t i = 0; i < work.count; i++)
		assert_int_equal(list->marks[i], SNAP_ITEM_LATE);
	snap_workers_deinit(&pool);
	munmap(list, sizeof(*list));
}

static void test_deadline_of_all(void **state _unused_)
{
	struct snap_workers pool;
	struct list *list = list_new();
	struct snap_work work = work_of(list, 10);

	list->deeds[4] = HANG;
	work.patience_ns = LONG_NS;
	assert_int_equal(snap_workers_init(&pool, 0, -1, 0), 0);
	work.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + with_patience(PATIENCE_NS);
	assert_false(snap_workers_run(&pool, &work));
	assert_true(snap_clock_ns(CLOCK_MONOTONIC) < work.until_ns + LONG_NS / 2);
	check_marks(list, 10);
	snap_workers_deinit(&pool);
	munmap(list, sizeof(*list));
}

/* ---- calls one by one ---- */

struct call {
	uint32_t number, answer;
	bool hang;
	bool is_kept_open, is_other_open;
	int kept, other;
	pid_t pid;
};

static void answer_call(void *area, uint32_t item _unused_)
{
	struct call *call = area;

	call->pid = getpid();
	call->is_kept_open = fcntl(call->kept, F_GETFD) >= 0;
	call->is_other_open = fcntl(call->other, F_GETFD) >= 0;
	while (call->hang)
		pause();
	call->answer = call->number + 1;
}

static bool call_worker(struct snap_workers *pool, int64_t patience_ns)
{
	struct snap_work work = { .run = answer_call, .patience_ns = patience_ns };

	return snap_workers_call(pool, &work);
}

static void test_calls(void **state _unused_)
{
	struct snap_workers pool;
	int kept = open("/dev/null", O_RDONLY), other = open("/dev/null", O_RDONLY);
	struct call *call, *late;
	pid_t pid = 0;

	assert_int_equal(snap_workers_init(&pool, 1 << 20, kept, SNAP_WORKERS_AWAKE), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		call = snap_workers_area(&pool);
		assert_non_null(call);
		*call = (struct call){ .number = i, .kept = kept, .other = other };
		assert_true(call_worker(&pool, LONG_NS));
		assert_int_equal(call->answer, i + 1);
		assert_true(call->is_kept_open);
		assert_false(call->is_other_open);
		assert_true(pid == 0 || pid == call->pid);
		pid = call->pid;
	}
	late = snap_workers_area(&pool);
	assert_ptr_equal(late, call);
	late->hang = true;
	assert_false(call_worker(&pool, PATIENCE_NS));
	call = snap_workers_area(&pool);
	assert_non_null(call);
	*call = (struct call){ .number = 7, .kept = kept, .other = other };
	assert_true(call_worker(&pool, LONG_NS));
	assert_int_equal(call->answer, 8);
	assert_int_not_equal(call->pid, pid);
	snap_workers_deinit(&pool);
	assert_int_equal(kill(pid, 0), -1);
	close(kept);
	close(other);
}

/* Many that stall one after the other have less and less time, but some; later all of it. */
static void test_patience(void **state _unused_)
{
	const int64_t whole = 1000000000;
	struct snap_workers pool;
	struct call *call;

	assert_int_equal(snap_workers_init(&pool, 4096, -1, 0), 0);
	assert_int_equal(snap_workers_patience(&pool, whole), whole);
	call = snap_workers_area(&pool);
	*call = (struct call){ .hang = true, .kept = -1, .other = -1 };
	assert_false(call_worker(&pool, PATIENCE_NS));
	assert_in_range(snap_workers_patience(&pool, whole), whole / 10, whole / 2);
	pool.lost_ns = 1000 * whole;
	assert_int_equal(snap_workers_patience(&pool, whole), whole / 10);
	pool.lost_at_ns -= 100000 * whole;
	assert_int_equal(snap_workers_patience(&pool, whole), whole);
	snap_workers_deinit(&pool);
}

/* Killed by somebody else between two calls, or in one. */
static void test_worker_is_killed(void **state _unused_)
{
	struct snap_workers pool;
	struct call *call;

	assert_int_equal(snap_workers_init(&pool, 4096, -1, 0), 0);
	for (unsigned i = 0; i < 20; i++) {
		call = snap_workers_area(&pool);
		*call = (struct call){ .number = i, .kept = -1, .other = -1 };
		assert_true(call_worker(&pool, LONG_NS));
		kill(call->pid, SIGKILL);
	}
	snap_workers_deinit(&pool);
}

struct other_thread {
	struct snap_workers pool;
	unsigned flags;
};

static void *make_pool(void *context)
{
	struct other_thread *other = context;
	struct call *call;

	assert_int_equal(snap_workers_init(&other->pool, 4096, -1, other->flags), 0);
	call = snap_workers_area(&other->pool);
	*call = (struct call){ .kept = -1, .other = -1 };
	assert_true(call_worker(&other->pool, LONG_NS));
	return NULL;
}

/* They end with the thread that made them, a moment after that was seen to end. */
static void check_other_thread(unsigned flags)
{
	struct other_thread other = { .flags = flags };
	struct list *list = list_new();
	struct snap_work work = work_of(list, 3);
	struct call *call;
	pthread_t thread;

	work.patience_ns = LONG_NS;
	for (unsigned i = 0; i < 20; i++) {
		memset(list, 0, sizeof(*list));
		assert_int_equal(pthread_create(&thread, NULL, make_pool, &other), 0);
		pthread_join(thread, NULL);
		if (i % 2) {
			call = snap_workers_area(&other.pool);
			assert_non_null(call);
			*call = (struct call){ .number = i, .kept = -1, .other = -1 };
			assert_true(call_worker(&other.pool, LONG_NS));
			assert_int_equal(call->answer, i + 1);
		}
		assert_true(snap_workers_run(&other.pool, &work));
		check_marks(list, 3);
		snap_workers_deinit(&other.pool);
	}
	munmap(list, sizeof(*list));
}

static void test_thread_of_workers_has_ended(void **state _unused_)
{
	check_other_thread(0);
	check_other_thread(SNAP_WORKERS_BY_PROXY);
}

/* ---- descriptors ---- */

struct gift {
	struct snap_workers pool; /* of the maker, which workers have copies of */
	struct list *list;
};

/* With a number that only this item has; items of other numbers give nothing. */
static void give_pipe(void *context, uint32_t item)
{
	const struct gift *gift = context;
	int fds[2];

	gift->list->calls[item] = 1;
	if (item % 2 || pipe(fds))
		return;
	if (write(fds[1], &item, sizeof(item)) == sizeof(item) &&
	    snap_workers_give(&gift->pool, 7000 + item, fds, 2))
		gift->list->calls[item] = 2;
	close(fds[0]);
	close(fds[1]);
}

static unsigned take_all(struct gift *gift)
{
	int fds[SNAP_WORKERS_GIVEN];
	unsigned taken = 0;
	uint64_t tag;
	size_t count;

	for (; snap_workers_take(&gift->pool, &tag, fds, &count); taken++) {
		uint32_t item;

		assert_int_equal(count, 2);
		assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
		assert_int_equal(read(fds[0], &item, sizeof(item)), sizeof(item));
		assert_int_equal(tag, 7000 + item);
		assert_int_equal(gift->list->calls[item], 2);
		close(fds[0]);
		close(fds[1]);
	}
	return taken;
}

static void check_gifts(unsigned flags)
{
	struct gift gift = { .list = list_new() };
	struct snap_work work = work_of(gift.list, 200);
	int before = dup(0), after;

	close(before);
	work.run = give_pipe;
	work.context = &gift;
	work.patience_ns = LONG_NS;
	assert_int_equal(snap_workers_init(&gift.pool, 0, -1, flags | SNAP_WORKERS_GIVE), 0);
	for (unsigned round = 0; round < 3; round++) {
		memset(gift.list, 0, sizeof(*gift.list));
		assert_true(snap_workers_run(&gift.pool, &work));
		assert_int_equal(take_all(&gift), 100);
	}
	/* What nobody takes is no more than there is room for, and holds nobody. */
	work.count = ITEMS;
	for (unsigned round = 0; round < 20; round++) {
		memset(gift.list, 0, sizeof(*gift.list));
		assert_true(snap_workers_run(&gift.pool, &work));
	}
	assert_int_equal(gift.list->calls[0], 1);
	snap_workers_deinit(&gift.pool);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	munmap(gift.list, sizeof(*gift.list));
}

static void test_descriptors_are_handed_over(void **state _unused_)
{
	check_gifts(0);
	check_gifts(SNAP_WORKERS_BY_PROXY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_item_is_done_once),
		cmocka_unit_test(test_what_hangs_costs_itself_alone),
		cmocka_unit_test(test_who_dies_costs_one_item),
		cmocka_unit_test(test_long_list),
		cmocka_unit_test(test_signs),
		cmocka_unit_test(test_sleepers_have_less_time),
		cmocka_unit_test(test_who_runs_has_more_time),
		cmocka_unit_test(test_all_hang),
		cmocka_unit_test(test_deadline_of_all),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_worker_is_killed),
		cmocka_unit_test(test_thread_of_workers_has_ended),
		cmocka_unit_test(test_descriptors_are_handed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
