/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What threads in futex(2) wait for, and who holds it: each kind of object, each reason why there
 * is no owner, and memory that lies.
 */
#include "futex_bed.h"

enum { WAIT = 0x80, WAIT_BITSET = 0x89, SHARED_WAIT = 0, SHARED_BITSET = 9, LOCK_PI = 0x86 };
enum { M = HEAP + 0x100 }; /* an object */

static const struct snap_wait *found(const struct wait_bed *bed, size_t p, size_t t,
				     enum snap_wait_kind kind, uint64_t address,
				     enum snap_wait_confidence confidence)
{
	const struct snap_wait *wait = bed_wait(bed, p, t);

	assert_non_null(wait);
	assert_string_equal(snap_wait_kind_word(wait->kind), snap_wait_kind_word(kind));
	assert_int_equal(wait->address, address);
	assert_string_equal(snap_wait_confidence_word(wait->confidence),
			    snap_wait_confidence_word(confidence));
	return wait;
}

static void owned(const struct snap_wait *wait, pid_t pid, pid_t tid)
{
	assert_true(wait->has_owner);
	assert_int_equal(wait->owner_lack, SNAP_OWNER_KNOWN);
	assert_int_equal(wait->owner.pid, pid);
	assert_int_equal(wait->owner.tid, tid);
}

static void lacks(const struct snap_wait *wait, enum snap_owner_lack lack)
{
	assert_false(wait->has_owner);
	assert_string_equal(snap_owner_lack_word(wait->owner_lack), snap_owner_lack_word(lack));
}

#define CERTAIN SNAP_WAIT_IS_CERTAIN
#define LIKELY SNAP_WAIT_IS_LIKELY
#define GUESS SNAP_WAIT_IS_GUESS

/* One process with a thread 101 that may hold things, and 102, which waits below a function. */
static size_t waiter_below(struct wait_bed *bed, const char *function, uint64_t address,
			   unsigned op, uint32_t value)
{
	size_t t;

	bed_process(bed, 100, SIZE_MAX);
	BED_THREAD(bed, 0, 101, "app:hold");
	t = BED_THREAD(bed, 0, 102, function, "app:want");
	bed_futex(bed, 0, t, address, op, value);
	return t;
}

/* ---- mutexes ---- */

static void test_mutex(void **state _unused_)
{
	static const struct {
		unsigned op;
		uint32_t value, lock, kind;
		const char *variant;
	} rows[] = {
		{ WAIT, 2, 2, 0, NULL },
		{ WAIT, 2, 2, 1, "recursive" },
		{ WAIT, 2, 2, 2, "errorcheck" },
		{ WAIT, 2, 2, 3, "adaptive" },
		{ WAIT, 2, 2, 0x201, "recursive" },
		{ SHARED_WAIT, 2, 2, 0x80, "shared" },
		{ SHARED_WAIT, 0x80000000 + 101, 0x80000000 + 101, 0x90, "robust" },
		{ LOCK_PI, 0, 0x80000000 + 101, 0x20, "pi" },
		{ WAIT, 5 << 19 | 2, 5 << 19 | 2, 0x40, "protect" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, "libc.so.6:___pthread_mutex_lock", M, rows[i].op, rows[i].value);
		BED_WORDS(&bed, 0, M, rows[i].lock, 1, 101, 1, rows[i].kind);
		bed_find(&bed);
		wait = found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, CERTAIN);
		owned(wait, 100, 101);
		if (rows[i].variant)
			assert_string_equal(wait->variant, rows[i].variant);
		else
			assert_null(wait->variant);
		assert_string_equal(wait->place, "heap");
		assert_null(wait->owner.wait);
		bed_deinit(&bed);
	}
}

/*
 * Who began after the wait did has a number that was given out again, if that is known; but of a
 * mutex that the kernel hands over, by priority, he may be the owner.
 */
static void test_younger(void **state _unused_)
{
	static const struct {
		uint64_t start_ticks;
		int64_t blocked_ns;
		uint32_t kind;
		bool younger;
	} rows[] = {
		{ 199902, 1000000000, 0, true },  { 199901, 1000000000, 0, false },
		{ 150000, 1000000000, 0, false }, { 199902, -1, 0, false },
		{ 0, 1000000000, 0, false },      { 199902, 1000000000, 0x20, false },
		{ 199902, 900000000, 0, false },  { UINT64_MAX, 1000000000, 0, false },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		bed.capture.host.ticks_per_second = 100;
		bed.facts.boottime_ns = 2000000000000;
		waiter_below(&bed, "libc.so.6:___pthread_mutex_lock", M,
			     rows[i].kind ? LOCK_PI : WAIT, rows[i].kind ? 0 : 2);
		bed.of[0].threads[0].start_ticks = rows[i].start_ticks;
		bed.of[0].threads[1].blocked_ns = rows[i].blocked_ns;
		BED_WORDS(&bed, 0, M, rows[i].kind ? 0x80000000 + 101 : 2, 1, 101, 1, rows[i].kind);
		bed_find(&bed);
		wait = found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, CERTAIN);
		if (rows[i].younger)
			lacks(wait, SNAP_OWNER_YOUNGER);
		else
			owned(wait, 100, 101);
		bed_deinit(&bed);
	}
}

/* Names as they are with and without debug files; of the program itself they mean nothing. */
static void test_names(void **state _unused_)
{
	static const struct {
		const char *function;
		enum snap_wait_confidence confidence;
	} rows[] = {
		{ "libc.so.6:__GI___pthread_mutex_lock", CERTAIN },
		{ "libc.so.6:__pthread_mutex_lock_full", CERTAIN },
		{ "libc.so.6:pthread_mutex_timedlock@@GLIBC_2.34", CERTAIN },
		{ "libc.so.6:__pthread_mutex_clocklock_common", CERTAIN },
		{ "libpthread-2.31.so:__pthread_mutex_lock", CERTAIN },
		{ "libc.so.6:mtx_lock", CERTAIN },
		{ "libc.so.6", LIKELY },
		{ "app:pthread_mutex_lock", GUESS },
		{ "libmine.so:pthread_mutex_lock", GUESS },
		{ "libc.so.6:syscall", GUESS },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, rows[i].function, M, WAIT, 2);
		BED_WORDS(&bed, 0, M, 2, 1, 101, 1, 0);
		bed_find(&bed);
		if (rows[i].confidence == GUESS)
			lacks(found(&bed, 0, 1, SNAP_WAIT_FUTEX, M, GUESS), SNAP_OWNER_NOT_KEPT);
		else
			owned(found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, rows[i].confidence), 100, 101);
		bed_deinit(&bed);
	}
}

/* A static program has the C library's functions itself. */
static void test_static(void **state _unused_)
{
	struct wait_bed bed;

	bed_init(&bed);
	waiter_below(&bed, "app:__pthread_mutex_lock", M, WAIT, 2);
	bed.raw[0].has_libc = false;
	BED_WORDS(&bed, 0, M, 2, 1, 101, 1, 0);
	bed_find(&bed);
	owned(found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, CERTAIN), 100, 101);
	bed_deinit(&bed);

	/* Its own functions are called so, too, but not these. */
	bed_init(&bed);
	waiter_below(&bed, "app:free_all", M, WAIT, 7);
	bed.raw[0].has_libc = false;
	bed_find(&bed);
	found(&bed, 0, 1, SNAP_WAIT_FUTEX, M, GUESS);
	bed_deinit(&bed);
}

/* Words without a name must name a thread that lives, and be a mutex's. */
static void test_words_that_lie(void **state _unused_)
{
	static const struct {
		uint32_t value, lock, owner, kind;
	} rows[] = {
		{ 2, 2, 1, 0 },       /* init */
		{ 2, 2, 100, 0 },     /* the process's number, and no thread */
		{ 2, 2, 90, 0 },      /* the parent */
		{ 2, 2, 201, 0 },     /* a thread of another process */
		{ 2, 2, 4000000, 0 }, /* nobody */
		{ 2, 2, 0, 0 },       /* being taken */
		{ 2, 0, 101, 0 },     /* free */
		{ 2, 2, 101, 4 },     /* bits that no kind has */
		{ 2, 2, 101, 0x10000 },
		{ 2, 2, 0xffffffff, 0 },
		{ 2, 2, 0x80000065, 0 },
		{ 1, 1, 101, 0 }, /* no such value is waited for */
		{ 0, 0, 101, 0 },
		{ 0x80000065, 0x80000066, 101, 0x10 }, /* word and owner disagree */
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, "app:my_lock", M, WAIT, rows[i].value);
		bed.processes[0].parent = 1;
		bed_process(&bed, 90, SIZE_MAX);
		BED_THREAD(&bed, 1, 90, "app:main");
		BED_THREAD(&bed, 1, 201, "app:main");
		BED_WORDS(&bed, 0, M, rows[i].lock, 1, rows[i].owner, 1, rows[i].kind);
		bed_find(&bed);
		lacks(found(&bed, 0, 1, SNAP_WAIT_FUTEX, M, GUESS), SNAP_OWNER_NOT_KEPT);
		bed_deinit(&bed);
	}
}

static void test_no_owner(void **state _unused_)
{
	enum { GONE = 150, PARENTS = 90, LEADER = 103 };
	static const struct {
		uint32_t lock, owner, kind;
		enum snap_owner_lack lack;
		pid_t tid;
	} rows[] = {
		{ 2, 0, 0, SNAP_OWNER_CHANGING, 0 },
		{ 0, GONE, 0, SNAP_OWNER_CHANGING, 0 },
		{ 2, GONE, 0, SNAP_OWNER_EXITED, GONE },
		{ 2, LEADER, 0, SNAP_OWNER_EXITED, LEADER },
		{ 2, PARENTS, 0, SNAP_OWNER_AT_FORK, PARENTS },
		{ 2, 0x7fffffff, 0x10, SNAP_OWNER_UNREADABLE, 0 }, /* word and owner disagree */
		{ 0xc0000000 + GONE, 0x7fffffff, 0x10, SNAP_OWNER_DIED, GONE },
		{ 0x80000000, 0x7ffffffe, 0x10, SNAP_OWNER_DIED, 0 },
		{ 2, 0xfffffff0, 0, SNAP_OWNER_UNREADABLE, 0 },
		{ 2, 101, 8, SNAP_OWNER_UNREADABLE, 0 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, "libc.so.6:pthread_mutex_lock", M, WAIT, 2);
		BED_THREAD(&bed, 0, LEADER, "app:main");
		bed.of[0].threads[2].state = 'Z';
		bed.processes[0].parent = 1;
		bed_process(&bed, PARENTS, SIZE_MAX);
		BED_THREAD(&bed, 1, PARENTS, "app:main");
		BED_WORDS(&bed, 0, M, rows[i].lock, 1, rows[i].owner, 1, rows[i].kind);
		bed_find(&bed);
		wait = bed_wait(&bed, 0, 1);
		assert_int_equal(wait->kind, SNAP_WAIT_MUTEX);
		lacks(wait, rows[i].lack);
		assert_int_equal(wait->owner.tid, rows[i].tid);
		assert_int_equal(wait->confidence, rows[i].lack == SNAP_OWNER_UNREADABLE &&
								   rows[i].owner != 0xfffffff0
							   ? LIKELY
							   : CERTAIN);
		bed_deinit(&bed);
	}
}

/* Threads that are not in the report may be owners. */
static void test_owner_not_seen(void **state _unused_)
{
	struct wait_bed bed;

	bed_init(&bed);
	waiter_below(&bed, "libc.so.6:pthread_mutex_lock", M, WAIT, 2);
	bed.processes[0].threads_missed = 1;
	BED_WORDS(&bed, 0, M, 2, 1, 150, 1, 0);
	bed_find(&bed);
	lacks(bed_wait(&bed, 0, 1), SNAP_OWNER_NOT_SEEN);
	bed_deinit(&bed);
}

static void test_unreadable(void **state _unused_)
{
	static const char *const functions[] = {
		"libc.so.6:pthread_mutex_lock",
		"libc.so.6:pthread_cond_wait",
		"libc.so.6:pthread_rwlock_wrlock",
		"libc.so.6:sem_wait",
		"libc.so.6:pthread_join",
		"libc.so.6:pthread_barrier_wait",
		"libc.so.6:pthread_once",
		"libc.so.6:fputs",
		"libc.so.6:malloc",
		"libc.so.6:syscall",
		"libc.so.6",
		"app:x",
		"libc.so:sem_wait",
		"libc.so:pthread_mutex_lock",
		"libc.so:pthread_cond_wait",
		"libc.so:pthread_join",
		"libc.so:pthread_rwlock_rdlock",
		"libc.so:fputs",
	};
	static const uint64_t addresses[] = { 0,
					      4,
					      8,
					      12,
					      44,
					      720,
					      M,
					      M + 4,
					      UINT64_MAX,
					      UINT64_MAX - 3,
					      UINT64_MAX - 7,
					      1ull << 63,
					      STACKS + STACK_TOP_USED + 0x40 };
	static const unsigned ops[] = { WAIT,    WAIT_BITSET, SHARED_WAIT, SHARED_BITSET,
					LOCK_PI, 0x8d,        0x8b,        0x189 };
	static const uint32_t values[] = { 0, 1, 2, 101, 0x80000065, UINT32_MAX };
	struct wait_bed bed;

	for (size_t f = 0; f < SNAP_ARRAY_SIZE(functions); f++)
		for (size_t a = 0; a < SNAP_ARRAY_SIZE(addresses); a++)
			for (size_t i = 0; i < SNAP_ARRAY_SIZE(ops) * SNAP_ARRAY_SIZE(values);
			     i++) {
				unsigned op = ops[i / SNAP_ARRAY_SIZE(values)];
				uint32_t value = values[i % SNAP_ARRAY_SIZE(values)];
				const struct snap_wait *wait;

				bed_init(&bed);
				waiter_below(&bed, functions[f], addresses[a], op, value);
				bed.of[0].registers[1].r10 = addresses[a];
				bed_find(&bed);
				wait = bed_wait(&bed, 0, 1);
				assert_non_null(wait);
				/* A join alone can name a thread without words: its own number. */
				if (wait->has_owner)
					assert_int_equal(wait->kind, SNAP_WAIT_THREAD);
				bed_deinit(&bed);
			}
}

/* Without a stop of all threads together nothing is certain. */
static void test_not_together(void **state _unused_)
{
	for (int who = 0; who < 2; who++) {
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, "libc.so.6:pthread_mutex_lock", M, WAIT, 2);
		bed.of[0].threads[who].taken = SNAP_TAKEN_UNSTOPPED;
		BED_WORDS(&bed, 0, M, 2, 1, 101, 1, 0);
		bed_find(&bed);
		owned(found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, LIKELY), 100, 101);
		bed_deinit(&bed);
	}
}

/* A word that names who waits for it is of another moment, but for one who has stood since. */
static void test_own_lock(void **state _unused_)
{
	static const struct {
		enum snap_taken taken;
		enum snap_thread_result result;
		bool stands, owns;
	} rows[] = {
		{ SNAP_TAKEN_UNSTOPPED, SNAP_THREAD_COPIED, false, false },
		{ SNAP_TAKEN_UNSTOPPED, SNAP_THREAD_COPIED, true, true },
		{ SNAP_TAKEN_TOGETHER, SNAP_THREAD_COPIED, false, true },
		/* It could not be had: its call was asked for later. */
		{ SNAP_TAKEN_TOGETHER, SNAP_THREAD_NOT_STOPPED, false, false },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_wait *wait;
		struct snap_thread *thread;
		struct wait_bed bed;

		bed_init(&bed);
		bed.capture.host.ticks_per_second = 100;
		bed.facts.boottime_ns = 2000000000000;
		waiter_below(&bed, "libc.so.6:pthread_mutex_lock", M, WAIT, 2);
		thread = &bed.of[0].threads[1];
		/* It has waited since it began, as far as that can be told. */
		thread->start_ticks = 199902;
		thread->blocked_ns = 1000000000;
		thread->taken = rows[i].taken;
		thread->result = rows[i].result;
		thread->confirmed = rows[i].stands;
		BED_WORDS(&bed, 0, M, 2, 1, thread->tid, 1, 0);
		bed_find(&bed);
		wait = bed_wait(&bed, 0, 1);
		assert_non_null(wait);
		assert_int_equal(wait->has_owner, rows[i].owns);
		assert_int_equal(wait->owner_lack,
				 rows[i].owns ? SNAP_OWNER_KNOWN : SNAP_OWNER_CHANGING);
		bed_deinit(&bed);
	}
}

/* ---- shared memory ---- */

/* Two processes that are not each other's parent, and a mutex in what both map. */
static void share(struct wait_bed *bed, uint32_t owner)
{
	uint64_t there = SHARED + 0x1000 + 0x40;
	size_t t;

	bed_process(bed, 100, SIZE_MAX);
	BED_THREAD(bed, 0, 101, "app:hold");
	bed_process(bed, 200, 0);
	t = BED_THREAD(bed, 1, 201, "libc.so.6:pthread_mutex_lock", "app:want");
	bed_futex(bed, 1, t, there, SHARED_WAIT, 2);
	BED_WORDS(bed, 1, there, 2, 1, owner, 1, 0x80);
	t = BED_THREAD(bed, 0, 102, "libc.so.6:pthread_mutex_lock", "app:want");
	bed_futex(bed, 0, t, SHARED + 0x40, SHARED_WAIT, 2);
	BED_WORDS(bed, 0, SHARED + 0x40, 2, 1, owner, 1, 0x80);
}

static void test_shared(void **state _unused_)
{
	const struct snap_wait *wait;
	struct wait_bed bed;

	bed_init(&bed);
	share(&bed, 101);
	bed_find(&bed);
	wait = found(&bed, 1, 0, SNAP_WAIT_MUTEX, SHARED + 0x1040, CERTAIN);
	owned(wait, 100, 101);
	assert_string_equal(wait->module, "/dev/shm/x");
	assert_int_equal(wait->offset, 0x3040);
	owned(bed_wait(&bed, 0, 1), 100, 101);
	bed_deinit(&bed);

	/* Each tree is a stop of its own. */
	bed_init(&bed);
	share(&bed, 101);
	bed.processes[1].parent = SIZE_MAX;
	bed_find(&bed);
	owned(found(&bed, 1, 0, SNAP_WAIT_MUTEX, SHARED + 0x1040, LIKELY), 100, 101);
	bed_deinit(&bed);

	/* Two threads of that number, in two namespaces. */
	bed_init(&bed);
	share(&bed, 101);
	BED_THREAD(&bed, 1, 202, "app:rest");
	bed.of[1].threads[1].ns_tid = 101;
	bed_find(&bed);
	lacks(bed_wait(&bed, 1, 0), SNAP_OWNER_NOT_SEEN);
	bed_deinit(&bed);

	/* Another place of the file, and private memory at the same place, are not shared. */
	bed_init(&bed);
	share(&bed, 101);
	bed.of[0].maps[3].offset = 0x9000;
	bed_find(&bed);
	lacks(bed_wait(&bed, 1, 0), SNAP_OWNER_NOT_SEEN);
	bed_deinit(&bed);

	bed_init(&bed);
	share(&bed, 777);
	bed_find(&bed);
	lacks(bed_wait(&bed, 1, 0), SNAP_OWNER_NOT_SEEN);
	bed_deinit(&bed);
}

/* Nobody has the number: of one process that is known, of the other one it is not. */
static void test_shared_with_the_dead(void **state _unused_)
{
	static struct snap_gone_thread gone[] = {
		{ 100, 776, true }, { 100, 777, true }, { 200, 776, true }, { 200, 778, true }
	};
	struct wait_bed bed;

	for (int everywhere = 0; everywhere < 2; everywhere++) {
		bed_init(&bed);
		share(&bed, 777);
		gone[1].everywhere = everywhere;
		bed.facts.gone = gone;
		bed.facts.gone_count = SNAP_ARRAY_SIZE(gone);
		bed_find(&bed);
		lacks(found(&bed, 0, 1, SNAP_WAIT_MUTEX, SHARED + 0x40,
			    everywhere ? CERTAIN : LIKELY),
		      SNAP_OWNER_EXITED);
		assert_int_equal(bed_wait(&bed, 0, 1)->owner.tid, 777);
		lacks(bed_wait(&bed, 1, 0), SNAP_OWNER_NOT_SEEN);
		/* Where it is not known whose it was, it is not said either. */
		assert_int_equal(bed.analysis.snapshot->waits.blocker_count, 1);
		assert_int_equal(bed.analysis.snapshot->waits.blockers[0].pid, 0);
		assert_int_equal(bed.analysis.snapshot->waits.blockers[0].tid, 777);
		bed_deinit(&bed);
	}
}

/* ---- other objects of glibc ---- */

static void test_rwlock(void **state _unused_)
{
	static const struct {
		const char *function;
		uint64_t word; /* from the start */
		uint32_t value, readers, writer;
		enum snap_wait_mode mode;
		int64_t count;
		pid_t owner;
		enum snap_owner_lack lack;
	} rows[] = {
		{ "libc.so.6:__pthread_rwlock_rdlock", 8, 3, 0xb, 101, SNAP_WAIT_READ, -1, 101,
		  SNAP_OWNER_KNOWN },
		{ "libc.so.6:pthread_rwlock_wrlock", 12, 3, 3, 101, SNAP_WAIT_WRITE, -1, 101,
		  SNAP_OWNER_KNOWN },
		{ "libc.so.6:pthread_rwlock_clockwrlock", 8, 2, 0x12, 0, SNAP_WAIT_WRITE, 2, 0,
		  SNAP_OWNER_NOT_KEPT },
		{ "libc.so.6:pthread_rwlock_timedrdlock", 0, 0x16, 0x16, 0, SNAP_WAIT_READ, 2, 0,
		  SNAP_OWNER_NOT_KEPT },
		{ "libc.so.6:pthread_rwlock_wrlock", 12, 3, 3, 0, SNAP_WAIT_WRITE, -1, 0,
		  SNAP_OWNER_CHANGING },
		{ "libc.so.6:pthread_rwlock_wrlock", 8, 3, 0, 0, SNAP_WAIT_WRITE, 0, 0,
		  SNAP_OWNER_CHANGING },
		{ "libc.so.6:pthread_rwlock_wrlock", 8, 3, 1, 101, SNAP_WAIT_WRITE, -1, 0,
		  SNAP_OWNER_CHANGING },
		{ "libc.so.6:pthread_rwlock_wrlock", 12, 3, 3, 333, SNAP_WAIT_WRITE, -1, 0,
		  SNAP_OWNER_EXITED },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, rows[i].function, M + rows[i].word, WAIT_BITSET, rows[i].value);
		BED_WORDS(&bed, 0, M, rows[i].readers, 1, 2, 2, 0, 0, rows[i].writer, 0);
		bed_find(&bed);
		wait = found(&bed, 0, 1, SNAP_WAIT_RWLOCK, M, CERTAIN);
		assert_int_equal(wait->mode, rows[i].mode);
		assert_int_equal(wait->readers, rows[i].count);
		if (rows[i].owner)
			owned(wait, 100, rows[i].owner);
		else
			lacks(wait, rows[i].lack);
		bed_deinit(&bed);
	}
}

/* Old and new headers, both words, with the mutex on the stack or without. */
static void test_condition(void **state _unused_)
{
	enum { OLD = HEAP + 0x200, MUTEX = HEAP + 0x300 };

	for (int i = 0; i < 8; i++) {
		bool is_new = i & 1, second = i & 2, has_mutex = i & 4;
		uint64_t word = OLD + (is_new ? 32 : 40) + (second ? 4 : 0);
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, "libc.so.6:___pthread_cond_wait", word, WAIT_BITSET, 0);
		/* Saved registers that look like a condition with a free mutex. */
		bed_stack(&bed, 0, 1, 0xc0, OLD);
		bed_stack(&bed, 0, 1, 0xc8, word);
		bed_stack(&bed, 0, 1, 0xd0, 0);
		bed_stack(&bed, 0, 1, 0x100, OLD);
		if (has_mutex) {
			bed_stack(&bed, 0, 1, 0x108, MUTEX);
			bed_stack(&bed, 0, 1, 0x110, 0x80);
			BED_WORDS(&bed, 0, MUTEX, 2, 1, 101, 1, 0);
		}
		BED_WORDS(&bed, 0, OLD, 0, 0, 0, 0, 0, 0, 0, is_new ? 3 << 3 : 0, 0,
			  is_new ? 0 : 3 << 3, 0, 0, 0, 0, 0, 0);
		bed_find(&bed);
		wait = found(&bed, 0, 1, SNAP_WAIT_CONDITION, OLD, CERTAIN);
		lacks(wait, SNAP_OWNER_NOT_KEPT);
		assert_int_equal(wait->mutex, has_mutex ? MUTEX : 0);
		assert_false(wait->mutex_free);
		assert_int_equal(wait->waiters, 3);
		bed_deinit(&bed);
	}
}

/* It wants its mutex back. */
static void test_condition_mutex(void **state _unused_)
{
	struct wait_bed bed;

	bed_init(&bed);
	waiter_below(&bed, "libc.so.6:pthread_cond_wait", M, WAIT, 2);
	BED_WORDS(&bed, 0, M, 2, 1, 101, 1, 0);
	bed_find(&bed);
	owned(found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, CERTAIN), 100, 101);
	bed_deinit(&bed);
}

static void test_counts(void **state _unused_)
{
	const struct snap_wait *wait;
	struct wait_bed bed;

	bed_init(&bed);
	waiter_below(&bed, "libc.so.6:__new_sem_wait_slow64.constprop.0", M, WAIT_BITSET, 0);
	BED_WORDS(&bed, 0, M, 0, 2, 0);
	bed_find(&bed);
	wait = found(&bed, 0, 1, SNAP_WAIT_SEMAPHORE, M, CERTAIN);
	assert_int_equal(wait->value, 0);
	assert_int_equal(wait->waiters, 2);
	bed_deinit(&bed);

	bed_init(&bed);
	waiter_below(&bed, "libc.so.6:pthread_barrier_wait", M + 4, WAIT, 4);
	BED_WORDS(&bed, 0, M, 6, 4, 3, 0, 0);
	bed_find(&bed);
	wait = found(&bed, 0, 1, SNAP_WAIT_BARRIER, M, CERTAIN);
	assert_int_equal(wait->arrived, 2);
	assert_int_equal(wait->needed, 3);
	bed_deinit(&bed);
}

/* The word is in the other thread's descriptor: no name is needed. */
static void test_join(void **state _unused_)
{
	static const char *const functions[] = { "libc.so.6:__pthread_clockjoin_ex", "app:mine" };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(functions); i++) {
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, functions[i], bed_thread_pointer(0) + 720, SHARED_BITSET, 101);
		bed_find(&bed);
		owned(found(&bed, 0, 1, SNAP_WAIT_THREAD, bed_thread_pointer(0), CERTAIN), 100,
		      101);
		bed_deinit(&bed);

		/* The number of one thread at the place of another one. */
		bed_init(&bed);
		waiter_below(&bed, functions[i], bed_thread_pointer(1) + 720, SHARED_BITSET, 101);
		bed_find(&bed);
		assert_int_not_equal(bed_wait(&bed, 0, 1)->confidence, CERTAIN);
		bed_deinit(&bed);
	}
}

/* Since glibc 2.43 the word is a state. */
static void test_join_by_state(void **state _unused_)
{
	static const char *const functions[] = { "libc.so.6:__pthread_clockjoin_ex",
						 "libc.so.6:pthread_join" };

	for (uint32_t i = 0; i < SNAP_ARRAY_SIZE(functions); i++) {
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, functions[i], bed_thread_pointer(0) + 1560, SHARED_BITSET,
			     1 + i);
		bed_find(&bed);
		owned(found(&bed, 0, 1, SNAP_WAIT_THREAD, bed_thread_pointer(0), CERTAIN), 100,
		      101);
		bed_deinit(&bed);

		/* In no descriptor: it is not said that a thread with the state's number has exited. */
		bed_init(&bed);
		waiter_below(&bed, functions[i], M, SHARED_BITSET, 1 + i);
		bed_find(&bed);
		wait = bed_wait(&bed, 0, 1);
		assert_int_equal(wait->kind, SNAP_WAIT_THREAD);
		lacks(wait, SNAP_OWNER_NOT_SEEN);
		assert_int_equal(wait->owner.tid, 0);
		bed_deinit(&bed);
	}
}

static void test_once(void **state _unused_)
{
	struct wait_bed bed;
	size_t t;

	for (int runners = 0; runners < 3; runners++) {
		bed_init(&bed);
		waiter_below(&bed, "libc.so.6:__pthread_once_slow", M, WAIT, 1);
		for (int i = 0; i < runners; i++) {
			t = BED_THREAD(&bed, 0, 110 + i, "app:init",
				       "libc.so.6:__pthread_once_slow", "app:main");
			bed_stack(&bed, 0, t, 0x80, M);
		}
		/* In another one; and with the address, but not in any. */
		BED_THREAD(&bed, 0, 120, "app:init", "libc.so.6:pthread_once", "app:main");
		t = BED_THREAD(&bed, 0, 121, "app:init", "app:pthread_once", "app:main");
		bed_stack(&bed, 0, t, 0x80, M);
		bed_find(&bed);
		if (runners == 1)
			owned(found(&bed, 0, 1, SNAP_WAIT_ONCE, M, CERTAIN), 100, 110);
		else
			lacks(found(&bed, 0, 1, SNAP_WAIT_ONCE, M, CERTAIN), SNAP_OWNER_NOT_KEPT);
		bed_deinit(&bed);
	}
}

/* What the names of a stack say is found out once, and is not the same for each word. */
static void test_one_stack(void **state _unused_)
{
	struct wait_bed bed;
	size_t t;

	bed_init(&bed);
	waiter_below(&bed, "libc.so.6:__pthread_once_slow", M, WAIT, 1);
	for (uint32_t i = 0; i < 4; i++) {
		t = BED_THREAD(&bed, 0, (pid_t)(103 + i), "app:other");
		bed.raw[0].threads[t].stack = 1;
		bed_futex(&bed, 0, t, M + 0x100 * (i + 1), WAIT, i % 2 ? 1 : 2);
	}
	BED_WORDS(&bed, 0, M + 0x100, 2, 1, 101, 1, 0);
	bed_find(&bed);
	found(&bed, 0, 1, SNAP_WAIT_ONCE, M, CERTAIN);
	owned(found(&bed, 0, 2, SNAP_WAIT_MUTEX, M + 0x100, LIKELY), 100, 101);
	found(&bed, 0, 3, SNAP_WAIT_ONCE, M + 0x200, CERTAIN);
	found(&bed, 0, 4, SNAP_WAIT_FUTEX, M + 0x300, GUESS);
	found(&bed, 0, 5, SNAP_WAIT_ONCE, M + 0x400, CERTAIN);
	bed_deinit(&bed);
}

static void test_own_locks(void **state _unused_)
{
	uint32_t pointer = (uint32_t)bed_thread_pointer(0);
	struct wait_bed bed;
	size_t t;

	bed_init(&bed);
	bed_process(&bed, 100, SIZE_MAX);
	BED_THREAD(&bed, 0, 101, "app:hold");
	t = BED_THREAD(&bed, 0, 102, "libc.so.6:__lll_lock_wait_private", "libc.so.6:fputs",
		       "app:want");
	bed_futex(&bed, 0, t, M, WAIT, 2);
	BED_WORDS(&bed, 0, M, 2, 1, pointer, 0);
	bed_find(&bed);
	owned(found(&bed, 0, 1, SNAP_WAIT_STDIO, M, CERTAIN), 100, 101);
	bed_deinit(&bed);

	/* Two threads claim to be at that place. */
	bed_init(&bed);
	bed_process(&bed, 100, SIZE_MAX);
	BED_THREAD(&bed, 0, 101, "app:hold");
	t = BED_THREAD(&bed, 0, 102, "libc.so.6:fputs", "app:want");
	bed_futex(&bed, 0, t, M, WAIT, 2);
	BED_THREAD(&bed, 0, 103, "app:hold");
	bed.of[0].registers[2].fs_base = bed_thread_pointer(0);
	BED_WORDS(&bed, 0, M, 2, 1, pointer, 0);
	bed_find(&bed);
	lacks(found(&bed, 0, 1, SNAP_WAIT_STDIO, M, CERTAIN), SNAP_OWNER_NOT_SEEN);
	bed_deinit(&bed);

	/* A handler that calls malloc in malloc waits for itself; one that does not, for others. */
	for (int twice = 0; twice < 2; twice++) {
		bed_init(&bed);
		bed_process(&bed, 100, SIZE_MAX);
		t = BED_THREAD(&bed, 0, 101, "libc.so.6:__lll_lock_wait_private",
			       "libc.so.6:malloc", "app:handler", "!libc.so.6:__restore_rt",
			       twice ? "!libc.so.6:_int_malloc" : "!libc.so.6:memcpy", "app:main");
		bed_futex(&bed, 0, t, M, WAIT, 2);
		bed_find(&bed);
		if (twice)
			owned(found(&bed, 0, 0, SNAP_WAIT_MALLOC, M, CERTAIN), 100, 101);
		else
			lacks(found(&bed, 0, 0, SNAP_WAIT_MALLOC, M, CERTAIN), SNAP_OWNER_NOT_KEPT);
		bed_deinit(&bed);
	}
}

/* The kernel has refused it: glibc sleeps on a word of the stack, for ever. */
static void test_refused(void **state _unused_)
{
	const struct snap_wait *wait;
	struct wait_bed bed;

	bed_init(&bed);
	waiter_below(&bed, "libc.so.6:pthread_mutex_lock", bed_sp(1) + 0x20, WAIT_BITSET, 0);
	bed_stack(&bed, 0, 1, 0x60, M);
	BED_WORDS(&bed, 0, M, 0x80000065, 1, 101, 1, 0x20);
	bed_find(&bed);
	wait = found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, CERTAIN);
	lacks(wait, SNAP_OWNER_REFUSED);
	assert_string_equal(wait->variant, "pi");
	bed_deinit(&bed);
}

/* ---- musl ---- */

static void test_musl(void **state _unused_)
{
	static const struct {
		const char *function;
		uint32_t type, lock;
		pid_t owner;
		enum snap_wait_confidence confidence;
	} rows[] = {
		{ "libc.so:__pthread_mutex_timedlock", 0, 0x80000010, 0, CERTAIN },
		{ "ld-musl-x86_64.so.1:pthread_mutex_lock", 1, 0x80000065, 101, CERTAIN },
		{ "libc.so:pthread_mutex_lock", 0x84, 0x80000065, 101, CERTAIN },
		{ "libc.so", 2, 0x80000065, 101, LIKELY },
		{ "libc.so", 0, 0x80000010, 0, LIKELY },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, rows[i].function, M + 4, WAIT, rows[i].lock);
		BED_WORDS(&bed, 0, M, rows[i].type, rows[i].lock, 1, 0, 0, 0);
		bed_find(&bed);
		wait = found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, rows[i].confidence);
		if (rows[i].owner)
			owned(wait, 100, rows[i].owner);
		else
			lacks(wait, SNAP_OWNER_NOT_KEPT);
		if (rows[i].owner == 0)
			assert_string_equal(wait->variant, "musl");
		bed_deinit(&bed);
	}
}

static void test_musl_others(void **state _unused_)
{
	const struct snap_wait *wait;
	struct wait_bed bed;

	bed_init(&bed);
	waiter_below(&bed, "libc.so", bed_sp(1) + 0x24, WAIT, 2);
	bed_stack(&bed, 0, 1, 0x20, 2ull << 32);
	bed_find(&bed);
	found(&bed, 0, 1, SNAP_WAIT_CONDITION, 0, LIKELY);
	bed_deinit(&bed);

	bed_init(&bed);
	waiter_below(&bed, "libc.so", bed_thread_pointer(0) + 56, WAIT, 2);
	bed_find(&bed);
	owned(found(&bed, 0, 1, SNAP_WAIT_THREAD, bed_thread_pointer(0), LIKELY), 100, 101);
	bed_deinit(&bed);

	bed_init(&bed);
	waiter_below(&bed, "libc.so:pthread_rwlock_wrlock", M, WAIT, 0x80000002);
	BED_WORDS(&bed, 0, M, 0x80000002, 1, 0);
	bed_find(&bed);
	wait = found(&bed, 0, 1, SNAP_WAIT_RWLOCK, M, CERTAIN);
	assert_int_equal(wait->readers, 2);
	bed_deinit(&bed);

	bed_init(&bed);
	waiter_below(&bed, "libc.so:sem_wait", M, WAIT, UINT32_MAX);
	BED_WORDS(&bed, 0, M, UINT32_MAX, 1, 0);
	bed_find(&bed);
	assert_int_equal(found(&bed, 0, 1, SNAP_WAIT_SEMAPHORE, M, CERTAIN)->value, 0);
	bed_deinit(&bed);
}

/* ---- languages ---- */

static void test_languages(void **state _unused_)
{
	static const struct {
		const char *frames[4];
		enum snap_wait_kind kind;
		uint64_t before;
	} rows[] = {
		{ { "libc.so.6:syscall", "libstdc++.so.6:__cxa_guard_acquire", "app:get" },
		  SNAP_WAIT_STATIC_INIT,
		  0 },
		{ { "libc.so.6:syscall",
		    "libstdc++.so.6:_ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_"
		    "untilEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000"
		    "EEEE",
		    "app:get" },
		  SNAP_WAIT_FUTURE,
		  0 },
		{ { "libc.so.6:syscall",
		    "app:_RNvMNtNtNtNtCsjrHSEGnQ3l9_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_"
		    "contended",
		    "app:get" },
		  SNAP_WAIT_MUTEX,
		  0 },
		{ { "libc.so.6:syscall",
		    "app:std::sys::sync::rwlock::futex::RwLock::write_contended", "app:get" },
		  SNAP_WAIT_RWLOCK,
		  4 },
		{ { "libc.so.6:syscall", "app:std::thread::park",
		    "app:std::sync::mpmc::list::Channel::recv", "app:get" },
		  SNAP_WAIT_CHANNEL,
		  0 },
		{ { "libc.so.6:syscall", "app:std::thread::park", "app:get",
		    "app:std::sync::mpmc::list::Channel::recv" },
		  SNAP_WAIT_PARK,
		  0 },
		{ { "app:runtime.futex", "app:runtime.futexsleep" }, SNAP_WAIT_RUNTIME, 0 },
		{ { "libc.so.6:syscall", "app:get" }, SNAP_WAIT_FUTEX, 0 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const char *frames[5] = { rows[i].frames[0], rows[i].frames[1], rows[i].frames[2],
					  rows[i].frames[3], NULL };
		struct wait_bed bed;

		bed_init(&bed);
		bed_process(&bed, 100, SIZE_MAX);
		bed_thread(&bed, 0, 101, frames);
		bed_futex(&bed, 0, 0, M, WAIT, 2);
		bed_find(&bed);
		lacks(found(&bed, 0, 0, rows[i].kind, M - rows[i].before,
			    rows[i].kind == SNAP_WAIT_FUTEX ? GUESS : CERTAIN),
		      SNAP_OWNER_NOT_KEPT);
		bed_deinit(&bed);
	}
}

/* Who has the address of a lock on the stack, and does not wait for it; with all hints alone. */
static void test_hints(void **state _unused_)
{
	for (int all = 0; all < 2; all++) {
		const struct snap_wait *wait;
		struct wait_bed bed;

		bed_init(&bed);
		if (!all)
			bed.options.explain = SNAP_EXPLAIN_SURE;
		bed_process(&bed, 100, SIZE_MAX);
		for (int i = 0; i < 2; i++) {
			BED_THREAD(&bed, 0, 101 + i, "libc.so.6:syscall",
				   "app:std::sys::sync::mutex::futex::Mutex::lock_contended");
			bed_futex(&bed, 0, (size_t)i, M, WAIT, 2);
			bed_stack(&bed, 0, (size_t)i, 0x20, M);
		}
		BED_THREAD(&bed, 0, 110, "app:hold");
		bed_stack(&bed, 0, 2, 0x100, M - 8);
		bed_stack(&bed, 0, 2, 0x200, M);
		BED_THREAD(&bed, 0, 111, "app:rest");
		bed_stack(&bed, 0, 3, 0x100, M + 4);
		bed_find(&bed);
		wait = found(&bed, 0, 1, SNAP_WAIT_MUTEX, M, CERTAIN);
		assert_int_equal(wait->hint_count, all);
		if (all)
			assert_int_equal(wait->hints[0].tid, 110);
		lacks(wait, SNAP_OWNER_NOT_KEPT);
		bed_deinit(&bed);
	}
}

/* ---- Python ---- */

enum { GIL = HEAP + 0x400, STATE = HEAP + 0x800 };

static void python(struct wait_bed *bed, const char *python, uint32_t locked)
{
	uint32_t pointer = (uint32_t)bed_thread_pointer(0);
	size_t t;

	bed_process(bed, 100, SIZE_MAX);
	BED_THREAD(bed, 0, 101, "app:hold");
	t = BED_THREAD(bed, 0, 102, "libc.so.6:pthread_cond_timedwait", python);
	bed_futex(bed, 0, t, GIL + 32 + 40, WAIT_BITSET, 0);
	bed->of[0].registers[t].r10 = bed_sp(t) + 0x40;
	bed_stack(bed, 0, t, 0x100, GIL + 32);
	BED_WORDS(bed, 0, GIL, 5000, 0, STATE, 0, locked, 0, 7, 0, 0, 0, 0);
	BED_WORDS(bed, 0, STATE, 1, 2, 3, 4, pointer, 0, 0, 0);
}

static void test_gil(void **state _unused_)
{
	struct wait_bed bed;

	bed_init(&bed);
	python(&bed, "libpython3.11.so.1.0:take_gil", 1);
	bed_find(&bed);
	owned(found(&bed, 0, 1, SNAP_WAIT_GIL, GIL + 32, CERTAIN), 100, 101);
	/* The timeout of its condition does not end it. */
	assert_false(bed_wait(&bed, 0, 1)->timed);
	assert_int_equal(bed_wait(&bed, 0, 1)->remaining_ns, -1);
	bed_deinit(&bed);

	bed_init(&bed);
	python(&bed, "python3.13:PyEval_RestoreThread", 1);
	bed_find(&bed);
	owned(found(&bed, 0, 1, SNAP_WAIT_GIL, GIL + 32, LIKELY), 100, 101);
	bed_deinit(&bed);

	bed_init(&bed);
	python(&bed, "libpython3.11.so.1.0:take_gil", 0);
	bed_find(&bed);
	lacks(found(&bed, 0, 1, SNAP_WAIT_GIL, GIL + 32, CERTAIN), SNAP_OWNER_CHANGING);
	bed_deinit(&bed);

	/* The same words in a program that is not Python. */
	bed_init(&bed);
	python(&bed, "app:take_gil", 1);
	bed_find(&bed);
	found(&bed, 0, 1, SNAP_WAIT_CONDITION, GIL + 32, CERTAIN);
	bed_deinit(&bed);
}

/* What the runtime's own data say comes first. */
static void test_gil_of_runtime(void **state _unused_)
{
	struct snap_runtime_thread threads[2] = { { .tid = 102 },
						  { .tid = 103, .holds_gil = true } };
	struct snap_runtime_result result = { .name = "cpython",
					      .threads = threads,
					      .thread_count = 2 };
	struct snap_runtime_result *runtimes[] = { &result };
	struct wait_bed bed;

	bed_init(&bed);
	python(&bed, "libpython3.11.so.1.0:take_gil", 1);
	BED_THREAD(&bed, 0, 103, "app:hold");
	bed.raw[0].runtimes = runtimes;
	bed.raw[0].runtime_count = 1;
	bed_find(&bed);
	owned(found(&bed, 0, 1, SNAP_WAIT_GIL, GIL + 32, CERTAIN), 100, 103);
	bed_deinit(&bed);
}

/* An RLock: thread 101 has it, 102 of a child has what 90 of the parent had, or no thread. */
static void test_rlocks(void **state _unused_)
{
	enum { LOCK = HEAP + 0x200, OBJECT = HEAP + 0x300, PARENTS = 90, GONE = 7 };
	static const struct {
		int owner; /* a thread of the bed, -1: the parent's */
		uint64_t pointer;
		uint64_t began; /* the parent's thread, after the fork at 50 */
		enum snap_owner_lack lack;
	} rows[] = {
		{ 0, 0, 10, SNAP_OWNER_KNOWN },     { 1, 0, 10, SNAP_OWNER_CHANGING }, /* itself */
		{ 0, GONE, 10, SNAP_OWNER_EXITED }, { -1, 0, 10, SNAP_OWNER_AT_FORK },
		{ -1, 0, 60, SNAP_OWNER_EXITED },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_runtime_lock lock = { .tid = 102, .address = OBJECT };
		struct snap_runtime_result result = { .name = "cpython",
						      .locks = &lock,
						      .lock_count = 1 };
		struct snap_runtime_result *runtimes[] = { &result };
		const struct snap_wait *wait;
		struct wait_bed bed;
		size_t t;

		bed_init(&bed);
		bed_process(&bed, 100, SIZE_MAX);
		BED_THREAD(&bed, 0, 101, "app:hold");
		t = BED_THREAD(&bed, 0, 102, "libc.so.6:sem_wait", "python3.11:rlock_acquire");
		bed_futex(&bed, 0, t, LOCK, WAIT_BITSET, 0);
		BED_WORDS(&bed, 0, LOCK, 0, 1);
		bed.processes[0].parent = 1;
		bed.processes[0].start_ticks = 50;
		bed_process(&bed, PARENTS, SIZE_MAX);
		for (size_t k = 0; k < 4; k++)
			BED_THREAD(&bed, 1, (pid_t)(PARENTS + k), "app:main");
		bed.of[1].threads[3].start_ticks = rows[i].began;
		bed.raw[0].runtimes = runtimes;
		bed.raw[0].runtime_count = 1;
		lock.owner = rows[i].pointer     ? rows[i].pointer
			     : rows[i].owner < 0 ? bed_thread_pointer(3)
						 : bed_thread_pointer((size_t)rows[i].owner);
		bed_find(&bed);
		wait = found(&bed, 0, 1, SNAP_WAIT_MUTEX, OBJECT, CERTAIN);
		assert_string_equal(wait->variant, "rlock");
		if (rows[i].lack == SNAP_OWNER_KNOWN)
			owned(wait, 100, 101);
		else
			lacks(wait, rows[i].lack);
		if (rows[i].lack == SNAP_OWNER_AT_FORK)
			assert_int_equal(wait->owner.tid, PARENTS + 3);
		bed_deinit(&bed);
	}
}

/* From 3.14 on threads park on words of their stacks: what they wait for is before these. */
static void test_parked_threads_have_one_lock(void **state _unused_)
{
	enum { LOCK = HEAP + 0x200 };
	struct wait_bed bed;

	bed_init(&bed);
	bed_process(&bed, 100, SIZE_MAX);
	for (size_t i = 0; i < 2; i++) {
		size_t t = BED_THREAD(&bed, 0, (pid_t)(101 + i), "libc.so.6:sem_wait",
				      "python3.14:_PyParkingLot_Park");

		bed_futex(&bed, 0, t, bed_sp(t) + 0x48, WAIT_BITSET, 0);
		bed_stack(&bed, 0, t, 0x40, LOCK);
	}
	BED_WORDS(&bed, 0, LOCK, 3, 0);
	bed_find(&bed);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(found(&bed, 0, i, SNAP_WAIT_SEMAPHORE, LOCK, CERTAIN)->variant,
				    "python");
	bed_deinit(&bed);
}

/* ---- what is in common ---- */

/* The owner's own wait is known, whoever was explained first; and each stands in its place. */
static void test_chain(void **state _unused_)
{
	struct wait_bed bed;

	bed_init(&bed);
	bed_process(&bed, 100, SIZE_MAX);
	for (int i = 0; i < 3; i++) {
		uint64_t mutex = HEAP + 0x100 * (uint64_t)(i + 1);

		BED_THREAD(&bed, 0, 101 + i, "libc.so.6:pthread_mutex_lock", "app:work");
		bed_futex(&bed, 0, (size_t)i, mutex, WAIT, 2);
		BED_WORDS(&bed, 0, mutex, 2, 1, (uint32_t)(101 + (i + 1) % 3), 1, 0);
	}
	bed_find(&bed);
	for (size_t i = 0; i < 3; i++)
		assert_ptr_equal(bed_wait(&bed, 0, i)->owner.wait, bed_wait(&bed, 0, (i + 1) % 3));
	bed_deinit(&bed);
}

static void test_places(void **state _unused_)
{
	struct wait_bed bed;

	bed_init(&bed);
	waiter_below(&bed, "app:x", bed_sp(0) + 0x40, WAIT, 9);
	bed_find(&bed);
	assert_string_equal(bed_wait(&bed, 0, 1)->place, "stack of 101");
	bed_deinit(&bed);

	/* Below every stack pointer of that mapping, and nowhere at all. */
	bed_init(&bed);
	waiter_below(&bed, "app:x", bed_sp(0) - 0x4000, WAIT, 9);
	bed_find(&bed);
	assert_string_equal(bed_wait(&bed, 0, 1)->place, "heap");
	bed_deinit(&bed);

	bed_init(&bed);
	waiter_below(&bed, "app:x", 0x1000, WAIT, 9);
	bed_find(&bed);
	assert_null(bed_wait(&bed, 0, 1)->place);
	assert_null(bed_wait(&bed, 0, 1)->module);
	bed_deinit(&bed);
}

/* Who wakes others, or is in no call, waits for nothing. */
static void test_not_waiting(void **state _unused_)
{
	static const unsigned ops[] = { 0x81, 0x85, 0x87, 0x8a };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(ops); i++) {
		struct wait_bed bed;

		bed_init(&bed);
		waiter_below(&bed, "libc.so.6:pthread_mutex_unlock", M, ops[i], 1);
		bed_find(&bed);
		assert_true(!bed_wait(&bed, 0, 1) ||
			    bed_wait(&bed, 0, 1)->kind == SNAP_WAIT_SYSCALL);
		bed_deinit(&bed);
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Whatever the words are: an owner is a thread of the same process, or shares its memory. */
static void test_random(void **state _unused_)
{
	static const char *const functions[] = {
		"libc.so.6:pthread_mutex_lock",
		"libc.so.6:pthread_cond_wait",
		"libc.so.6:pthread_rwlock_wrlock",
		"libc.so.6:sem_wait",
		"libc.so.6:pthread_join",
		"libc.so.6:fputs",
		"libc.so.6",
		"app:x",
		"libc.so",
		"libc.so:pthread_mutex_lock",
		"libc.so:fputs",
		"libpython3.11.so:take_gil",
	};
	static const unsigned ops[] = { WAIT, WAIT_BITSET, SHARED_WAIT, SHARED_BITSET, LOCK_PI };
	static const uint32_t values[] = { 0,          1,          2,          16,
					   101,        102,        201,        0x80000065,
					   0x80000010, 0xc0000065, 0x7fffffff, UINT32_MAX,
					   HEAP,       M,          0x20,       0x10 };
	uint64_t seed = 1;

	for (int round = 0; round < 20000; round++) {
		uint64_t base = round % 3 ? M - 96 : SHARED + 0x100 - 96;
		uint32_t words[40];
		struct wait_bed bed;
		const struct snap_wait *wait;

		bed_init(&bed);
		waiter_below(&bed, functions[next_random(&seed) % SNAP_ARRAY_SIZE(functions)],
			     base + 96 + next_random(&seed) % 5 * 4,
			     ops[next_random(&seed) % SNAP_ARRAY_SIZE(ops)],
			     values[next_random(&seed) % SNAP_ARRAY_SIZE(values)]);
		bed_process(&bed, 200, 0);
		BED_THREAD(&bed, 1, 201, "app:x");
		for (size_t i = 0; i < SNAP_ARRAY_SIZE(words); i++)
			words[i] = values[next_random(&seed) % SNAP_ARRAY_SIZE(values)];
		bed_words(&bed, 0, base, words, sizeof(words));
		bed_find(&bed);
		wait = bed_wait(&bed, 0, 1);
		assert_non_null(wait);
		if (wait->has_owner && wait->owner.pid == 200) {
			assert_int_equal(wait->owner.tid, 201);
			assert_true(base > HEAP + 0x10000);
		} else if (wait->has_owner) {
			assert_int_equal(wait->owner.pid, 100);
			assert_in_range(wait->owner.tid, 101, 102);
		}
		bed_deinit(&bed);
	}
}

/* Without debug files the functions of InnoDB that wait have no names. */
static void test_locks_of_rows(void **state _unused_)
{
	static const struct {
		const char *called;
		unsigned lacks;
	} rows[] = { { "mariadbd:handler::ha_index_read_map", SNAP_LACK_OWNERS },
		     { "mariadbd:handle_connections_sockets", 0 } };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct wait_bed bed;
		size_t t;

		bed_init(&bed);
		bed_process(&bed, 100, SIZE_MAX);
		t = BED_THREAD(&bed, 0, 102, "libc.so.6:pthread_cond_timedwait", rows[i].called);
		bed_futex(&bed, 0, t, M, WAIT_BITSET, 2);
		bed_find(&bed);
		assert_int_equal(bed_wait(&bed, 0, t)->kind, SNAP_WAIT_CONDITION);
		assert_int_equal(bed.analysis.snapshot->waits.lacks, rows[i].lacks);
		bed_deinit(&bed);
	}
}

/* Of a cut stack it is not known what called futex(2), and so not whether a deadlock is missed. */
static void test_cut_stack(void **state _unused_)
{
	for (int is_cut = 0; is_cut < 2; is_cut++) {
		struct wait_bed bed;
		size_t t;

		bed_init(&bed);
		t = waiter_below(&bed, "libc.so.6:__lll_lock_wait_private", M, WAIT, 2);
		bed.of[0].threads[t].stack_limited = is_cut;
		bed_find(&bed);
		found(&bed, 0, t, SNAP_WAIT_FUTEX, M, GUESS);
		assert_int_equal(bed.analysis.snapshot->waits.lacks, is_cut ? SNAP_LACK_CUT : 0);
		bed_deinit(&bed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mutex),
		cmocka_unit_test(test_younger),
		cmocka_unit_test(test_cut_stack),
		cmocka_unit_test(test_locks_of_rows),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_static),
		cmocka_unit_test(test_words_that_lie),
		cmocka_unit_test(test_no_owner),
		cmocka_unit_test(test_owner_not_seen),
		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_not_together),
		cmocka_unit_test(test_own_lock),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_shared_with_the_dead),
		cmocka_unit_test(test_rwlock),
		cmocka_unit_test(test_condition),
		cmocka_unit_test(test_condition_mutex),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_join_by_state),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_one_stack),
		cmocka_unit_test(test_own_locks),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_musl),
		cmocka_unit_test(test_musl_others),
		cmocka_unit_test(test_languages),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_gil),
		cmocka_unit_test(test_gil_of_runtime),
		cmocka_unit_test(test_rlocks),
		cmocka_unit_test(test_parked_threads_have_one_lock),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_not_waiting),
		cmocka_unit_test(test_random),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
