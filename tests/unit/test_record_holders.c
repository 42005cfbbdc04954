/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who has what threads wait for, while they sleep: which words are read when, and what the log is
 * told. The memory of the processes is played by this test.
 */
#include "base/clock.h"
#include "fine.h"
#include "record/wait/holders.h"
#include "record/wait/object.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
	CALL_READ = 0,
	CALL_FUTEX = 202,
	MEMORY = 0x100000, /* of all processes, the same */
	MEMORY_BYTES = 1 << 20,
	PAGE = 4096,
	HZ = 100,
	PROCESSES = 2,
};

/* ---- what is played ---- */

static struct {
	uint8_t memory[MEMORY_BYTES];
	uint64_t hole; /* the page that cannot be read; 0: none */
	int error;     /* of the process `refuses` */
	const struct snap_sampled_process *refuses;
	unsigned calls, refused;
	uint32_t reads[MEMORY_BYTES / 4]; /* of each word, by the end of its second range */
	int64_t takes_ns;
} played;

int snap_sampler_read_bytes(struct snap_sampler *sampler _unused_,
			    struct snap_sampled_process *process, struct snap_sampled_bytes *words,
			    size_t count)
{
	size_t bytes = 0;

	played.calls++;
	assert_in_range(count, 1, SNAP_SAMPLED_WORDS_MOST);
	if (played.takes_ns)
		nanosleep(&(struct timespec){ .tv_nsec = played.takes_ns }, NULL);
	if (process == played.refuses) {
		played.refused++;
		return played.error;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t first = words[i].address / PAGE, end = words[i].address + words[i].size;

		/* no piece goes across a page */
		assert_int_equal(first, (end - 1) / PAGE);
		assert_in_range(words[i].address, MEMORY, MEMORY + MEMORY_BYTES - words[i].size);
		words[i].got = first == played.hole / PAGE ? 0 : words[i].size;
		memcpy(words[i].bytes, played.memory + (words[i].address - MEMORY), words[i].got);
		bytes += words[i].size;
		played.reads[(end - SNAP_WORDS_BEHIND - MEMORY) / 4]++;
	}
	assert_in_range(bytes, 1, SNAP_SAMPLED_WORDS_BYTES);
	return 0;
}

/* ---- a log, and threads that wait ---- */

struct bed {
	struct snap_log *log;
	struct snap_owner_watch holders;
	struct snap_sampled_process processes[PROCESSES];
	struct snap_owner_source sources[PROCESSES];
	uint32_t spaces[PROCESSES];
	int64_t share_ns; /* that it would have had */
};

static int set_up(void **state)
{
	const struct snap_host host = { .name = "host" };
	struct bed *bed = calloc(1, sizeof(*bed));
	uint32_t process;

	memset(&played, 0, sizeof(played));
	fine(snap_log_create(&host, 1, 1000000000 / HZ, false, &bed->log));
	for (int i = 0; i < PROCESSES; i++) {
		const struct snap_process facts = { .pid = 10 + i,
						    .name = "p",
						    .parent = SIZE_MAX };

		fine(snap_log_add_process(bed->log, 10 + i, 1, UINT32_MAX, UINT32_MAX, true,
					  &process));
		fine(snap_log_map_process(bed->log, process, &facts, NULL, &bed->spaces[i]));
		bed->sources[i].process = &bed->processes[i];
	}
	snap_owner_watch_init(&bed->holders, bed->log);
	bed->share_ns = bed->holders.share_ns;
	bed->holders.share_ns = INT64_MAX / 1000; /* however slow this machine is */
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	snap_owner_watch_deinit(&bed->holders);
	snap_log_destroy(bed->log);
	free(bed);
	return 0;
}

static uint64_t place(unsigned number)
{
	return MEMORY + 256 + number * 256;
}

static void set_word(uint64_t address, uint32_t word)
{
	memcpy(played.memory + (address - MEMORY), &word, sizeof(word));
}

static void begin(struct bed *bed)
{
	fine(snap_log_begin_tick(bed->log, (int64_t)bed->log->tick_count * bed->log->period_ns));
}

static void end(struct bed *bed)
{
	fine(snap_owner_watch_read(&bed->holders, NULL));
	snap_log_end_tick(bed->log, 0);
}

static void pass(struct bed *bed, unsigned ticks)
{
	for (unsigned i = 0; i < ticks; i++) {
		begin(bed);
		end(bed);
	}
}

/* The number + 1 of a futex. */
static uint32_t futex(struct bed *bed, int process, uint64_t address)
{
	struct snap_log_object object = {
		.space = bed->spaces[process],
		.call = { .known = true, .number = CALL_FUTEX, .arguments = { address, 128, 2 } },
		.is_futex = true,
	};
	uint32_t number;

	fine(snap_log_find_object(bed->log, &object, NULL, &number));
	assert_int_not_equal(number, 0);
	return number;
}

/* Within a tick; the sample has brought no words. */
static void move(struct bed *bed, int process, uint32_t before, uint32_t after)
{
	fine(snap_owner_watch_stand(&bed->holders, &bed->sources[process], before, after, NULL));
}

/* The same, with the words that are there now. */
static void move_with_words(struct bed *bed, uint32_t before, uint32_t after)
{
	uint64_t address = bed->log->objects[after - 1].call.arguments[0] - SNAP_WORDS_BEFORE;
	struct snap_memory_piece piece = { address, SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND,
					   played.memory + (address - MEMORY) };
	const struct snap_memory_image image = { .pieces = &piece, .piece_count = 1 };

	fine(snap_owner_watch_stand(&bed->holders, &bed->sources[0], before, after, &image));
}

static unsigned reads(uint64_t address)
{
	return played.reads[(address - MEMORY) / 4];
}

/* What the log says of a futex now; UINT32_MAX: nothing. */
static uint32_t held(const struct bed *bed, uint32_t number)
{
	const struct snap_log_wait_bytes *words = snap_log_owner_bytes(bed->log, number - 1);
	const struct snap_log_object *object = &bed->log->objects[number - 1];
	struct snap_memory_image image;
	uint32_t word;

	if (!words)
		return UINT32_MAX;
	image = snap_log_wait_image(words);
	assert_true(snap_memory_image_read(&image, object->call.arguments[0], &word, sizeof(word)));
	return word;
}

/* ---- tests ---- */

static void test_words_of_who_waits_are_read(void **state)
{
	struct bed *bed = *state;
	uint32_t lock = futex(bed, 0, place(1));

	set_word(place(1), 77);
	begin(bed);
	move(bed, 0, 0, lock);
	assert_int_equal(held(bed, lock), UINT32_MAX);
	end(bed);
	assert_int_equal(held(bed, lock), 77);
	assert_int_equal(bed->log->owner_count, 1);
	/* Nobody waits: nobody looks. */
	begin(bed);
	move(bed, 0, lock, 0);
	end(bed);
	assert_int_equal(played.calls, 1);
	pass(bed, 200);
	assert_int_equal(played.calls, 1);
}

/* Who has got it does not wait any more, and the others have not run. */
static void test_a_look_follows_who_ceases_to_wait(void **state)
{
	struct bed *bed = *state;
	uint32_t lock = futex(bed, 0, place(1));

	begin(bed);
	set_word(place(1), 1);
	for (int i = 0; i < 3; i++)
		move_with_words(bed, 0, lock);
	end(bed);
	assert_int_equal(played.calls, 0);
	assert_int_equal(held(bed, lock), 1);
	pass(bed, 100);
	for (uint32_t owner = 2; owner < 4; owner++) {
		unsigned before = played.calls;

		set_word(place(1), owner);
		begin(bed);
		move(bed, 0, lock, 0);
		end(bed);
		assert_int_equal(held(bed, lock), owner);
		assert_int_equal(played.calls, before + 1);
	}
	/* so does who fails to get it and brings the words, which may be older than that */
	begin(bed);
	move_with_words(bed, 0, lock);
	move(bed, 0, lock, 0);
	set_word(place(1), 9);
	move_with_words(bed, lock, lock);
	set_word(place(1), 10);
	end(bed);
	assert_int_equal(held(bed, lock), 10);
}

/* Where nothing happens a look is rare, and there is one all the same. */
static void test_looks_become_rare(void **state)
{
	struct bed *bed = *state;
	uint32_t lock = futex(bed, 0, place(1));
	unsigned soon;

	begin(bed);
	move(bed, 0, 0, lock);
	end(bed);
	pass(bed, HZ);
	soon = reads(place(1));
	assert_in_range(soon, 4, 9);
	pass(bed, 10 * HZ);
	assert_in_range(reads(place(1)) - soon, 9, 11);
	set_word(place(1), 5);
	for (unsigned i = 0; held(bed, lock) != 5; i++) {
		assert_in_range(i, 0, HZ);
		pass(bed, 1);
	}
	/* It changes again: so it may change soon. */
	soon = reads(place(1));
	for (uint32_t i = 0; i < 20; i++) {
		set_word(place(1), 100 + i);
		pass(bed, 1);
	}
	assert_int_equal(reads(place(1)) - soon, 20);
}

/* A sample that has brought the words needs no look. */
static void test_words_of_samples_do(void **state)
{
	struct bed *bed = *state;
	uint32_t lock = futex(bed, 0, place(1));

	for (uint32_t i = 0; i < 100; i++) {
		begin(bed);
		set_word(place(1), i);
		move_with_words(bed, i ? lock : 0, lock);
		end(bed);
		assert_int_equal(held(bed, lock), i);
	}
	assert_int_equal(played.calls, 0);
	assert_int_equal(bed->log->owner_count, 100);
}

static void test_most_waited_for_comes_first(void **state)
{
	enum { MANY = 1000 };
	struct bed *bed = *state;
	uint32_t locks[MANY], popular = futex(bed, 0, place(2000));
	unsigned missing = 0;

	begin(bed);
	for (unsigned i = 0; i < MANY; i++) {
		locks[i] = futex(bed, 0, place(i));
		move(bed, 0, 0, locks[i]);
		if (i % 10 == 0)
			move(bed, 0, 0, popular);
	}
	end(bed);
	assert_int_equal(reads(place(2000)), 1);
	for (unsigned i = 0; i < MANY; i++)
		missing += reads(place(i)) == 0;
	/* not all at once, but all in turn */
	assert_in_range(missing, MANY / 2, MANY - 10);
	pass(bed, 100);
	for (unsigned i = 0; i < MANY; i++)
		assert_in_range(reads(place(i)), 1, 20);
}

/* A late answer is paid for: for a while there is no look. */
static void test_time_is_bounded(void **state)
{
	struct bed *bed = *state;
	unsigned calls;

	bed->holders.share_ns = bed->share_ns;
	begin(bed);
	move(bed, 0, 0, futex(bed, 0, place(1)));
	played.takes_ns = 5000000; /* half of a period, or 25 times of what may be */
	end(bed);
	calls = played.calls;
	assert_int_equal(calls, 1);
	pass(bed, 20);
	assert_int_equal(played.calls, calls);
	played.takes_ns = 0;
	pass(bed, 200);
	assert_true(played.calls > calls);
}

static void test_who_refuses_is_left_alone(void **state)
{
	struct bed *bed = *state;
	uint32_t locks[PROCESSES];

	played.refuses = &bed->processes[0];
	played.error = -ETIMEDOUT;
	begin(bed);
	for (int i = 0; i < PROCESSES; i++) {
		locks[i] = futex(bed, i, place(1));
		move(bed, i, 0, locks[i]);
		move(bed, i, 0, locks[i]);
	}
	set_word(place(1), 3);
	end(bed);
	assert_int_equal(played.calls, PROCESSES);
	assert_int_equal(held(bed, locks[0]), UINT32_MAX);
	assert_int_equal(held(bed, locks[1]), 3);
	begin(bed);
	move(bed, 0, locks[0], 0);
	end(bed);
	pass(bed, HZ);
	assert_int_equal(played.refused, 1);
	played.refuses = NULL;
	pass(bed, 6 * HZ);
	assert_int_equal(held(bed, locks[0]), 3);
}

/* Each page may be missing. */
static void test_pages(void **state)
{
	struct bed *bed = *state;
	uint64_t first = MEMORY + 2 * PAGE + 8, last = MEMORY + 5 * PAGE - 8;
	uint32_t low = futex(bed, 0, first), high = futex(bed, 0, last), gone;

	set_word(first, 1);
	set_word(last, 2);
	played.hole = MEMORY + PAGE;
	begin(bed);
	move(bed, 0, 0, low);
	end(bed);
	assert_int_equal(held(bed, low), 1);
	assert_int_equal(snap_log_owner_bytes(bed->log, low - 1)->pieces[0].address, first - 8);
	played.hole = MEMORY + 5 * PAGE;
	begin(bed);
	move(bed, 0, 0, high);
	end(bed);
	assert_int_equal(held(bed, high), 2);
	assert_int_equal(snap_log_owner_bytes(bed->log, high - 1)->pieces[0].size,
			 SNAP_WORDS_BEFORE + 8);
	/* One that has gone is unknown from then on, and looked at seldom. */
	gone = futex(bed, 0, place(100));
	set_word(place(100), 4);
	played.hole = 0;
	begin(bed);
	move(bed, 0, 0, gone);
	end(bed);
	assert_int_equal(held(bed, gone), 4);
	played.hole = place(100);
	pass(bed, 3 * HZ);
	assert_int_equal(held(bed, gone), UINT32_MAX);
	assert_in_range(reads(place(100)), 2, 8);
}

static void test_what_has_no_words_that_change(void **state)
{
	struct bed *bed = *state;
	struct snap_log_object reading = {
		.space = bed->spaces[0],
		.call = { .known = true, .number = CALL_READ, .arguments = { 3 } },
	};
	struct snap_log_object own = {
		.space = bed->spaces[0],
		.call = { .known = true,
			  .number = CALL_FUTEX,
			  .arguments = { place(1), 128 },
			  .sp = place(1) },
		.is_futex = true,
	};
	uint32_t numbers[2];

	fine(snap_log_find_object(bed->log, &reading, NULL, &numbers[0]));
	fine(snap_log_find_object(bed->log, &own, NULL, &numbers[1]));
	begin(bed);
	move(bed, 0, 0, numbers[0]);
	move(bed, 0, 0, numbers[1]);
	end(bed);
	begin(bed);
	move(bed, 0, numbers[0], numbers[1]);
	move(bed, 0, numbers[1], 0);
	end(bed);
	assert_int_equal(played.calls, 0);
}

static void test_ended_process(void **state)
{
	struct bed *bed = *state;
	uint32_t lock = futex(bed, 0, place(1)), other = futex(bed, 1, place(2));

	begin(bed);
	move(bed, 0, 0, lock);
	move(bed, 1, 0, other);
	snap_owner_watch_forget(&bed->holders, &bed->sources[0]);
	end(bed);
	assert_int_equal(reads(place(1)), 0);
	assert_int_equal(reads(place(2)), 1);
	/* who says so twice does no harm */
	begin(bed);
	move(bed, 0, lock, 0);
	end(bed);
}

/* A ring lets go of what nobody stands with any more; the others have other numbers then. */
static void test_renumbered(void **state)
{
	struct bed *bed = *state;
	uint32_t thread, stack, lock = 0;
	uint64_t bits = 0x1000;
	struct snap_log_pcs pcs = { .bits = &bits, .count = 1 };
	bool renumbered = false;

	fine(snap_log_add_thread(bed->log, 0, 10, 10, "t", false, &thread));
	fine(snap_log_stack(bed->log, bed->spaces[0], &pcs, &stack));
	for (unsigned i = 0; i < 300 || !renumbered; i++) {
		struct snap_log_change change = { .thread = thread, .stack = stack, .syscall = -1 };
		uint32_t before = lock;

		assert_in_range(i, 0, 3000);
		begin(bed);
		set_word(place(i), i);
		lock = futex(bed, 0, place(i));
		change.object = lock;
		move(bed, 0, before, lock);
		fine(snap_log_change(bed->log, &change));
		end(bed);
		assert_int_equal(held(bed, lock), i);
		fine(snap_log_forget(bed->log,
				     ((int64_t)bed->log->tick_count - 20) * bed->log->period_ns,
				     &renumbered));
		if (!renumbered)
			continue;
		snap_owner_watch_renumber(&bed->holders);
		lock = snap_log_standing(bed->log, thread)->object;
		assert_int_equal(held(bed, lock), i);
		set_word(place(i), i + 5000);
		pass(bed, HZ);
		assert_int_equal(held(bed, lock), i + 5000);
		return;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_words_of_who_waits_are_read, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_a_look_follows_who_ceases_to_wait, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_looks_become_rare, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_words_of_samples_do, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_most_waited_for_comes_first, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_time_is_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_who_refuses_is_left_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pages, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_has_no_words_that_change, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_ended_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_renumbered, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
