/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the number of an object's owner stands, so that later words of the object tell who has it
 * then: of each kind that keeps a number, whoever has it, and none of all others.
 */
#include "futex_bed.h"

enum { WAIT = 0x80, WAIT_BITSET = 0x89, SHARED_WAIT = 0, SHARED_BITSET = 9, LOCK_PI = 0x86 };
enum { M = HEAP + 0x100, OWNER = 101 };

struct row {
	const char *function;
	unsigned op;
	uint32_t value;
	uint64_t word;      /* that is waited on, from M on */
	uint32_t words[8];  /* from M on; all 0: they cannot be read */
	int64_t owner_word; /* from M on; -1: there is none */
	enum snap_owner_form form;
	enum snap_wait_kind kind;
};

static bool has_words(const struct row *row)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(row->words); i++)
		if (row->words[i])
			return true;
	return false;
}

static void check(const struct row *row)
{
	const struct snap_wait *wait;
	struct wait_bed bed;
	uint32_t number;
	size_t t;

	bed_init(&bed);
	bed_process(&bed, 100, SIZE_MAX);
	BED_THREAD(&bed, 0, OWNER, "app:hold");
	t = BED_THREAD(&bed, 0, 102, row->function, "app:want");
	bed_futex(&bed, 0, t, M + row->word, row->op, row->value);
	if (has_words(row))
		bed_words(&bed, 0, M, row->words, sizeof(row->words));
	bed_find(&bed);
	wait = bed_wait(&bed, 0, t);
	assert_non_null(wait);
	assert_string_equal(snap_wait_kind_word(wait->kind), snap_wait_kind_word(row->kind));
	assert_int_equal(wait->owner_word.form, row->form);
	assert_int_equal(wait->owner_word.address, row->owner_word < 0 ? 0 : M + row->owner_word);
	/* The number there is the owner's, if it has one. */
	if (wait->has_owner && row->form != SNAP_OWNER_FORM_NONE) {
		assert_true(snap_memory_image_read(&bed.of[0].words, wait->owner_word.address,
						   &number, sizeof(number)));
		if (row->form == SNAP_OWNER_FORM_MASKED)
			number &= 0x3fffffff;
		assert_int_equal(number, wait->owner.tid);
	}
	bed_deinit(&bed);
}

#define TID SNAP_OWNER_FORM_TID
#define MASKED SNAP_OWNER_FORM_MASKED
#define NO_WORD -1, SNAP_OWNER_FORM_NONE
#define GNU(function) "libc.so.6:" function
#define MUSL(function) "libc.so:" function
#define HELD (0x80000000 + OWNER)

static void test_mutexes(void **state _unused_)
{
	static const char lock[] = GNU("___pthread_mutex_lock");
	static const struct row rows[] = {
		{ lock, WAIT, 2, 0, { 2, 1, OWNER, 1, 0 }, 8, TID, SNAP_WAIT_MUTEX },
		{ lock, WAIT, 2, 0, { 2, 3, OWNER, 1, 1 }, 8, TID, SNAP_WAIT_MUTEX },
		{ lock, WAIT, 2, 0, { 2, 1, OWNER, 1, 2 }, 8, TID, SNAP_WAIT_MUTEX },
		{ lock,
		  WAIT,
		  0x280002,
		  0,
		  { 0x280002, 1, OWNER, 1, 0x40 },
		  8,
		  TID,
		  SNAP_WAIT_MUTEX },
		{ lock, SHARED_WAIT, 2, 0, { 2, 1, OWNER, 1, 0x80 }, 8, TID, SNAP_WAIT_MUTEX },
		{ lock,
		  SHARED_WAIT,
		  HELD,
		  0,
		  { HELD, 1, OWNER, 1, 0x90 },
		  0,
		  MASKED,
		  SNAP_WAIT_MUTEX },
		{ lock, LOCK_PI, 0, 0, { HELD, 1, OWNER, 1, 0x20 }, 0, MASKED, SNAP_WAIT_MUTEX },
		/* Nobody has it now, or nobody who is there. */
		{ lock, WAIT, 2, 0, { 2, 1, 0, 1, 0 }, 8, TID, SNAP_WAIT_MUTEX },
		{ lock, WAIT, 2, 0, { 2, 1, 333, 1, 0 }, 8, TID, SNAP_WAIT_MUTEX },
		{ lock,
		  SHARED_WAIT,
		  HELD,
		  0,
		  { 0xc0000000, 1, OWNER, 1, 0x90 },
		  0,
		  MASKED,
		  SNAP_WAIT_MUTEX },
		/* Words that cannot be read: where it would stand. */
		{ lock, WAIT, 2, 0, { 0 }, 8, TID, SNAP_WAIT_MUTEX },
		{ lock, LOCK_PI, 0, 0, { 0 }, 0, MASKED, SNAP_WAIT_MUTEX },
		/* By data alone, below a function without a name; and the mutex that a condition takes back. */
		{ "libc.so.6", WAIT, 2, 0, { 2, 1, OWNER, 1, 0 }, 8, TID, SNAP_WAIT_MUTEX },
		{ GNU("pthread_cond_wait"),
		  SHARED_WAIT,
		  2,
		  0,
		  { 2, 1, OWNER, 1, 0x80 },
		  8,
		  TID,
		  SNAP_WAIT_MUTEX },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void test_rwlocks(void **state _unused_)
{
	static const char want[] = GNU("pthread_rwlock_wrlock");
	static const struct row rows[] = {
		{ want,
		  WAIT_BITSET,
		  3,
		  12,
		  { 3, 1, 2, 3, 0, 0, OWNER, 0 },
		  24,
		  TID,
		  SNAP_WAIT_RWLOCK },
		{ GNU("pthread_rwlock_rdlock"),
		  WAIT_BITSET,
		  3,
		  8,
		  { 0xb, 1, 3, 2, 0, 0, OWNER, 0 },
		  24,
		  TID,
		  SNAP_WAIT_RWLOCK },
		/* Readers have it: the number is 0 until a writer has it. */
		{ want,
		  WAIT_BITSET,
		  2,
		  8,
		  { 0x12, 1, 2, 2, 0, 0, 0, 0 },
		  24,
		  TID,
		  SNAP_WAIT_RWLOCK },
		{ MUSL("pthread_rwlock_wrlock"),
		  WAIT,
		  0x80000002,
		  0,
		  { 0x80000002, 1 },
		  NO_WORD,
		  SNAP_WAIT_RWLOCK },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void test_musl(void **state _unused_)
{
	static const struct row rows[] = {
		{ MUSL("pthread_mutex_lock"),
		  WAIT,
		  HELD,
		  4,
		  { 1, HELD, 1 },
		  4,
		  MASKED,
		  SNAP_WAIT_MUTEX },
		{ MUSL("pthread_mutex_lock"),
		  SHARED_WAIT,
		  HELD,
		  4,
		  { 0x84, HELD, 1 },
		  4,
		  MASKED,
		  SNAP_WAIT_MUTEX },
		{ MUSL("pthread_mutex_lock"),
		  LOCK_PI,
		  0,
		  4,
		  { 9, HELD, 0 },
		  4,
		  MASKED,
		  SNAP_WAIT_MUTEX },
		/* A plain one keeps none. */
		{ MUSL("pthread_mutex_lock"),
		  WAIT,
		  0x80000010,
		  4,
		  { 0, 0x80000010, 1 },
		  NO_WORD,
		  SNAP_WAIT_MUTEX },
		{ MUSL("fputs"),
		  WAIT,
		  HELD - 0x40000000,
		  0,
		  { HELD - 0x40000000 },
		  0,
		  MASKED,
		  SNAP_WAIT_STDIO },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

/* What keeps none, or none that is a number. */
static void test_none(void **state _unused_)
{
	static const struct row rows[] = {
		{ GNU("pthread_cond_wait"),
		  WAIT_BITSET,
		  0,
		  40,
		  { 0 },
		  NO_WORD,
		  SNAP_WAIT_CONDITION },
		{ GNU("sem_wait"), WAIT_BITSET, 0, 0, { 0, 1 }, NO_WORD, SNAP_WAIT_SEMAPHORE },
		{ GNU("pthread_barrier_wait"),
		  WAIT,
		  1,
		  4,
		  { 2, 1, 3 },
		  NO_WORD,
		  SNAP_WAIT_BARRIER },
		{ GNU("pthread_once"), WAIT, 1, 0, { 1 }, NO_WORD, SNAP_WAIT_ONCE },
		{ GNU("fputs"), WAIT, 2, 0, { 2, 1, 0x4000f000 }, NO_WORD, SNAP_WAIT_STDIO },
		{ GNU("malloc"), WAIT, 2, 0, { 2 }, NO_WORD, SNAP_WAIT_MALLOC },
		{ GNU("__libc_malloc2"), WAIT, 2, 0, { 2 }, NO_WORD, SNAP_WAIT_MALLOC },
		{ GNU("_int_free_chunk"), WAIT, 2, 0, { 2 }, NO_WORD, SNAP_WAIT_MALLOC },
		{ "app:parking_lot::raw_mutex::RawMutex::lock_slow",
		  WAIT,
		  2,
		  0,
		  { 2 },
		  NO_WORD,
		  SNAP_WAIT_MUTEX },
		{ "app:mine", WAIT, 7, 0, { 7 }, NO_WORD, SNAP_WAIT_FUTEX },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

/* The word of the thread itself, which the kernel clears at its end. */
static void test_join(void **state _unused_)
{
	const struct snap_wait *wait;
	struct wait_bed bed;
	uint64_t word = bed_thread_pointer(0) + 720;

	bed_init(&bed);
	bed_process(&bed, 100, SIZE_MAX);
	BED_THREAD(&bed, 0, OWNER, "app:hold");
	BED_THREAD(&bed, 0, 102, GNU("__pthread_clockjoin_ex"));
	bed_futex(&bed, 0, 1, word, SHARED_BITSET, OWNER);
	bed_find(&bed);
	wait = bed_wait(&bed, 0, 1);
	assert_int_equal(wait->kind, SNAP_WAIT_THREAD);
	assert_int_equal(wait->owner_word.form, SNAP_OWNER_FORM_TID);
	assert_int_equal(wait->owner_word.address, word);
	bed_deinit(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mutexes), cmocka_unit_test(test_rwlocks),
		cmocka_unit_test(test_musl),    cmocka_unit_test(test_none),
		cmocka_unit_test(test_join),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
