/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that wait for what keeps no mutex's owner: conditions, semaphores, barriers, once, the end
 * of a thread, FILEs, malloc's arena. See truth.h.
 */
#include "mutexes.h"
#include "truth.h"

#include <semaphore.h>
#include <threads.h>

/* ---- conditions ---- */

struct condition {
	pthread_cond_t condition;
	pthread_mutex_t mutex;
	bool signalled;
};

static NOINLINE void wait_condition(struct actor *me)
{
	struct condition *object = me->object;

	pthread_mutex_lock(&object->mutex);
	if (HAS_GLIBC)
		truth(me->row, "'kind':'condition','address':'%p','mutex':'%p','owner':0",
		      (void *)&object->condition, (void *)&object->mutex);
	else
		truth(me->row, "'kind':'condition','owner':0");
	while (!object->signalled)
		pthread_cond_wait(&object->condition, &object->mutex);
}

static NOINLINE void wait_condition_timed(struct actor *me)
{
	struct condition *object = me->object;
	struct timespec until = in_long(CLOCK_REALTIME);

	pthread_mutex_lock(&object->mutex);
	if (HAS_GLIBC)
		truth(me->row,
		      "'kind':'condition','address':'%p','mutex':'%p','owner':0,'timed':true,"
		      "'most_s':3000",
		      (void *)&object->condition, (void *)&object->mutex);
	else
		truth(me->row, "'kind':'condition','owner':0,'timed':true");
	while (!object->signalled)
		pthread_cond_timedwait(&object->condition, &object->mutex, &until);
}

__attribute__((unused)) static NOINLINE void take_and_signal(struct actor *me)
{
	struct condition *object = me->object;

	until_asleep(getpid(), me->other->tid);
	pthread_mutex_lock(&object->mutex);
	object->signalled = true;
	pthread_cond_signal(&object->condition);
	/* The lock word is 2 from the moment at which somebody sleeps for it. */
	while (*(_Atomic int *)&object->mutex != 2)
		sched_yield();
	rest("condition.signaller");
}

/* It waits for the condition first and for the mutex later: the signaller knows of what is last. */
__attribute__((unused)) static NOINLINE void wait_and_want_back(struct actor *me)
{
	struct condition *object = me->object;

	pthread_mutex_lock(&object->mutex);
	me->tid = own_tid();
	while (!object->signalled)
		pthread_cond_wait(&object->condition, &object->mutex);
}

static void make_conditions(const char *unused)
{
	static struct condition plain, held;
	struct actor *first;

	(void)unused;
	first = start(wait_condition, "condition.plain", &plain, NULL);
	until_asleep(getpid(), first->tid);
	start(wait_condition, "condition.plain", &plain, NULL);
	start(wait_condition_timed, "condition.timed", &plain, NULL);
	first = start(wait_condition, "condition.held", &held, NULL);
	until_asleep(getpid(), first->tid);
	start(hold_mutex, "", &held.mutex, NULL);
#ifdef __GLIBC__
	static struct condition back;
	struct actor *signaller;

	first = start(wait_and_want_back, "condition.back", &back, NULL);
	signaller = start(take_and_signal, "", &back, first);
	truth_of(first->tid, "condition.back", "'kind':'mutex','address':'%p','owner':%d",
		 (void *)&back.mutex, signaller->tid);
#endif
}

/* ---- semaphores, barriers, once, ends of threads ---- */

static NOINLINE void wait_semaphore(struct actor *me)
{
	truth(me->row, "'kind':'semaphore','address':'%p','owner':0%s", me->object,
	      HAS_GLIBC ? ",'value':0" : "");
	while (sem_wait(me->object) != 0)
		;
}

static NOINLINE void wait_semaphore_timed(struct actor *me)
{
	struct timespec until = in_long(CLOCK_REALTIME);

	truth(me->row, "'kind':'semaphore','address':'%p','owner':0,'timed':true,'most_s':3000",
	      me->object);
	while (sem_timedwait(me->object, &until) != 0)
		;
}

static void make_semaphores(const char *unused)
{
	static sem_t slots, timed;
	char name[64];
	sem_t *named;

	(void)unused;
	sem_init(&slots, 0, 0);
	sem_init(&timed, 0, 0);
	start(wait_semaphore, "semaphore.private", &slots, NULL);
	start(wait_semaphore, "semaphore.private", &slots, NULL);
	start(wait_semaphore_timed, "semaphore.timed", &timed, NULL);
	snprintf(name, sizeof(name), "/waits-%d", getpid());
	named = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
	if (named == SEM_FAILED)
		return;
	sem_unlink(name);
	start(wait_semaphore, "semaphore.named", named, NULL);
}

static NOINLINE void come_to_barrier(struct actor *me)
{
	if (HAS_GLIBC)
		truth(me->row, "'kind':'barrier','address':'%p','owner':0,'arrived':2,'needed':3",
		      me->object);
	else
		truth(me->row, "'kind':'barrier','owner':0");
	pthread_barrier_wait(me->object);
}

static void make_barrier(const char *unused)
{
	static pthread_barrier_t barrier;

	(void)unused;
	pthread_barrier_init(&barrier, NULL, 3);
	start(come_to_barrier, "barrier", &barrier, NULL);
	start(come_to_barrier, "barrier", &barrier, NULL);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static NOINLINE void run_once(void)
{
	rest("once.runner");
}

static NOINLINE void first_once(struct actor *me)
{
	(void)me;
	pthread_once(&once, run_once);
	STAYS_A_CALL;
}

static NOINLINE void second_once(struct actor *me)
{
	truth(me->row, "'kind':'once','address':'%p','owner':%s%d]", (void *)&once,
	      HAS_GLIBC ? "[" : "[0,", me->other->tid);
	pthread_once(&once, run_once);
	STAYS_A_CALL;
}

static void make_once(const char *unused)
{
	(void)unused;
	start(second_once, "once", NULL, start(first_once, "", NULL, NULL));
}

static _Atomic pid_t idle_tid;

static void *idle_main(void *unused)
{
	idle_tid = own_tid();
	rest("thread.idle");
	return unused;
}

static NOINLINE void join(struct actor *me)
{
	struct timespec until = in_long(CLOCK_REALTIME);
	pthread_t thread = victim_thread(idle_main, NULL, 128 << 10);

	while (!idle_tid)
		sched_yield();
	truth(me->row, "'kind':'thread','owner':%d%s", idle_tid,
	      me->number ? ",'timed':true,'most_s':3000" : "");
	idle_tid = 0;
	if (me->number)
		pthread_timedjoin_np(thread, NULL, &until);
	pthread_join(thread, NULL);
}

static NOINLINE void join_timed(struct actor *me)
{
	me->number = 1;
	join(me);
}

static void make_join(const char *unused)
{
	(void)unused;
	start(join, "thread", NULL, NULL);
	start(join_timed, "thread.timed", NULL, NULL);
}

/* ---- the same by the names of C11 ---- */

static NOINLINE void hold_c11(struct actor *me)
{
	mtx_lock(me->object);
	rest("c11.holder");
}

static NOINLINE void want_c11(struct actor *me)
{
	truth(me->row, "'kind':'mutex','address':'%p','owner':%d", me->object,
	      HAS_GLIBC ? me->other->tid : 0);
	mtx_lock(me->object);
	STAYS_A_CALL;
}

static NOINLINE void want_c11_timed(struct actor *me)
{
	struct timespec until = in_long(CLOCK_REALTIME);

	/* One that can be waited for with a timeout is a plain one in both libraries. */
	truth(me->row, "'kind':'mutex','address':'%p','owner':%d,'timed':true,'most_s':3000",
	      me->object, HAS_GLIBC ? me->other->tid : 0);
	mtx_timedlock(me->object, &until);
	STAYS_A_CALL;
}

struct c11_condition {
	cnd_t condition;
	mtx_t mutex;
};

static NOINLINE void wait_c11(struct actor *me)
{
	struct c11_condition *object = me->object;

	mtx_lock(&object->mutex);
	if (HAS_GLIBC)
		truth(me->row, "'kind':'condition','address':'%p','mutex':'%p','owner':0",
		      (void *)&object->condition, (void *)&object->mutex);
	else
		truth(me->row, "'kind':'condition','owner':0");
	for (;;)
		cnd_wait(&object->condition, &object->mutex);
}

static int idle_c11(void *unused)
{
	return idle_main(unused) != NULL;
}

static NOINLINE void join_c11(struct actor *me)
{
	thrd_t thread;

	if (thrd_create(&thread, idle_c11, NULL) != thrd_success)
		victim_cannot("thrd_create");
	while (!idle_tid)
		sched_yield();
	truth(me->row, "'kind':'thread','owner':%d", idle_tid);
	idle_tid = 0;
	thrd_join(thread, NULL);
	STAYS_A_CALL;
}

static once_flag once_c11 = ONCE_FLAG_INIT;

static NOINLINE void first_c11(struct actor *me)
{
	(void)me;
	call_once(&once_c11, run_once);
	STAYS_A_CALL;
}

static NOINLINE void second_c11(struct actor *me)
{
	truth(me->row, "'kind':'once','address':'%p','owner':%s%d]", (void *)&once_c11,
	      HAS_GLIBC ? "[" : "[0,", me->other->tid);
	call_once(&once_c11, run_once);
	STAYS_A_CALL;
}

static void make_c11(const char *unused)
{
	static struct c11_condition condition;
	static mtx_t plain, timed;

	(void)unused;
	mtx_init(&plain, mtx_plain);
	mtx_init(&timed, mtx_timed);
	mtx_init(&condition.mutex, mtx_plain);
	cnd_init(&condition.condition);
	start(want_c11, "c11.mutex", &plain, start(hold_c11, "", &plain, NULL));
	start(want_c11_timed, "c11.mutex-timed", &timed, start(hold_c11, "", &timed, NULL));
	start(wait_c11, "c11.condition", &condition, NULL);
	start(join_c11, "c11.thread", NULL, NULL);
	start(second_c11, "c11.once", NULL, start(first_c11, "", NULL, NULL));
}

/* ---- with a clock of one's own ---- */

#ifdef __GLIBC__
static NOINLINE void wait_condition_clock(struct actor *me)
{
	struct condition *object = me->object;
	struct timespec until = in_long(CLOCK_MONOTONIC);

	pthread_mutex_lock(&object->mutex);
	truth(me->row,
	      "'kind':'condition','address':'%p','mutex':'%p','owner':0,'timed':true,"
	      "'most_s':3000",
	      (void *)&object->condition, (void *)&object->mutex);
	while (!object->signalled)
		pthread_cond_clockwait(&object->condition, &object->mutex, CLOCK_MONOTONIC, &until);
}

static NOINLINE void wait_semaphore_clock(struct actor *me)
{
	struct timespec until = in_long(CLOCK_MONOTONIC);

	truth(me->row, "'kind':'semaphore','address':'%p','owner':0,'timed':true,'most_s':3000",
	      me->object);
	while (sem_clockwait(me->object, CLOCK_MONOTONIC, &until) != 0)
		;
}

static NOINLINE void hold_rwlock(struct actor *me)
{
	pthread_rwlock_wrlock(me->object);
	rest("rwlock.writer");
}

static NOINLINE void want_rwlock_clock(struct actor *me)
{
	struct timespec until = in_long(CLOCK_MONOTONIC);

	truth(me->row,
	      "'kind':'rwlock','address':'%p','mode':'%s','owner':%d,'timed':true,'most_s':3000",
	      me->object, me->number ? "write" : "read", me->other->tid);
	if (me->number)
		pthread_rwlock_clockwrlock(me->object, CLOCK_MONOTONIC, &until);
	else
		pthread_rwlock_clockrdlock(me->object, CLOCK_MONOTONIC, &until);
	STAYS_A_CALL;
}

static NOINLINE void want_to_write_clock(struct actor *me)
{
	me->number = 1;
	want_rwlock_clock(me);
}

/* The kernel's other call for that: FUTEX_LOCK_PI2, where it is known. */
static NOINLINE void want_inherited_clock(struct actor *me)
{
	struct timespec until = in_long(CLOCK_MONOTONIC);

	truth(me->row, "'kind':'mutex','address':'%p','owner':%d,'timed':true,'most_s':3000",
	      me->object, me->other->tid);
	pthread_mutex_clocklock(me->object, CLOCK_MONOTONIC, &until);
	rest("inherited.refused"); /* before FUTEX_LOCK_PI2 */
}

static NOINLINE void join_clock(struct actor *me)
{
	struct timespec until = in_long(CLOCK_MONOTONIC);
	pthread_t thread = victim_thread(idle_main, NULL, 128 << 10);

	while (!idle_tid)
		sched_yield();
	truth(me->row, "'kind':'thread','owner':%d,'timed':true,'most_s':3000", idle_tid);
	idle_tid = 0;
	pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until);
	STAYS_A_CALL;
}

static void make_clocks(const char *unused)
{
	static const struct mutex_kind kind = {
		"", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, false, false, true
	};
	static struct condition condition;
	static pthread_rwlock_t rwlock;
	static pthread_mutex_t inherited;
	static sem_t semaphore;
	struct actor *writer;

	(void)unused;
	sem_init(&semaphore, 0, 0);
	make_mutex(&inherited, &kind);
	start(wait_condition_clock, "clock.condition", &condition, NULL);
	start(wait_semaphore_clock, "clock.semaphore", &semaphore, NULL);
	writer = start(hold_rwlock, "", &rwlock, NULL);
	start(want_rwlock_clock, "clock.rwlock-read", &rwlock, writer);
	start(want_to_write_clock, "clock.rwlock-write", &rwlock, writer);
	start(join_clock, "clock.thread", NULL, NULL);
	start(want_inherited_clock, "clock.inherited", &inherited,
	      start(hold_mutex, "", &inherited, NULL));
}
#else
static void make_clocks(const char *unused)
{
	(void)unused;
	truth_says("clocks", "'left_out':'musl'");
}
#endif

/* ---- the C library's own ---- */

static NOINLINE void hold_file(struct actor *me)
{
	flockfile(me->object);
	rest("stdio.holder");
}

static NOINLINE void write_file(struct actor *me)
{
#ifdef __GLIBC__
	truth(me->row, "'kind':'stdio','address':['%p','%p'],'owner':%d", me->object,
	      (void *)((FILE *)me->object)->_lock, me->other->tid);
#else
	truth(me->row, "'kind':['stdio','futex'],'owner':[0,%d]", me->other->tid);
#endif
	fputs("x", me->object);
}

static void make_stdio(const char *unused)
{
	FILE *file = fopen("/dev/null", "w");

	(void)unused;
	if (!file)
		victim_cannot("fopen");
	start(write_file, "stdio", file, start(hold_file, "", file, NULL));
}

static _Atomic pid_t in_handler;
static void *volatile piece; /* or the compiler leaves malloc and free out */
static void *volatile piece_of_handler;

static NOINLINE void on_alarm(int signal)
{
	(void)signal;
	in_handler = own_tid();
	piece_of_handler = malloc(5000);
	free(piece_of_handler);
	in_handler = 0;
}

static NOINLINE void churn(struct actor *me)
{
	me->tid = own_tid();
	for (;;) {
		piece = malloc(5000 + (size_t)(me->number++ & 4095) * 16);
		free(piece);
	}
}

/* Signals interrupt malloc until one does so while it holds the lock of its arena. */
static void make_malloc(const char *unused)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct actor *churner;

	(void)unused;
	sigaction(SIGUSR1, &action, NULL);
	churner = start(churn, "", NULL, NULL);
	while (!in_handler || !asleep(getpid(), churner->tid, false)) {
		if (!in_handler)
			syscall(SYS_tgkill, getpid(), churner->tid, SIGUSR1);
		sched_yield();
	}
	truth_of(churner->tid, "malloc", "'kind':'malloc'");
	truth_says("malloc", "'deadlock':[%d],'behind':0,'optional':true", churner->tid);
}

int main(int argc, char **argv)
{
	static const struct truth_mode modes[] = {
		{ "conditions", make_conditions },
		{ "semaphores", make_semaphores },
		{ "barrier", make_barrier },
		{ "once", make_once },
		{ "join", make_join },
		{ "c11", make_c11 },
		{ "clocks", make_clocks },
		{ "stdio", make_stdio },
		{ "malloc", make_malloc },
		{ NULL, NULL },
	};

	(void)argc;
	return truth_main(modes, argv);
}
