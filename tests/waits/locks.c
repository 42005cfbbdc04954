/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that wait for mutexes of each kind and for rwlocks, with owners of each kind: in the same
 * process, in another, stopped, killed, gone, of the parent. See truth.h.
 */
#include "mutexes.h"

/* ---- mutexes ---- */

static const struct mutex_kind mutex_kinds[] = {
	{ "mutex.normal", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, false, false, false },
	{ "mutex.recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, false, false, true },
	{ "mutex.errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, false, false, true },
#ifdef __GLIBC__
	{ "mutex.adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, false, false, true },
	{ "mutex.protect", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, false, false, true },
#endif
	{ "mutex.robust", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, true, false, true },
	{ "mutex.pi", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, false, false, true },
	{ "mutex.robust-pi", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, true, false, true },
	{ "mutex.shared", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, false, true, false },
};
enum { MUTEX_KINDS = sizeof(mutex_kinds) / sizeof(*mutex_kinds) };

static pthread_mutex_t some_mutexes[MUTEX_KINDS];

/* number: 1 a kind of which musl keeps the owner, 2 timed, 3 timed by a clock. */
static NOINLINE void want_mutex(struct actor *me)
{
	struct timespec until = in_long(CLOCK_REALTIME);
	bool kept = HAS_GLIBC || me->number;

	truth(me->row, "'kind':'mutex','address':'%p','owner':%d%s", me->object,
	      kept ? me->other->tid : 0, me->number >= 2 ? ",'timed':true,'most_s':3000" : "");
	if (me->number == 2)
		pthread_mutex_timedlock(me->object, &until);
#ifdef __GLIBC__
	if (me->number == 3) {
		until = in_long(CLOCK_MONOTONIC);
		pthread_mutex_clocklock(me->object, CLOCK_MONOTONIC, &until);
	}
#endif
	pthread_mutex_lock(me->object);
}

static NOINLINE void want_kept_mutex(struct actor *me)
{
	me->number = 1;
	want_mutex(me);
}

static NOINLINE void want_timed_mutex(struct actor *me)
{
	me->number = 2;
	want_mutex(me);
}

static NOINLINE void want_clock_mutex(struct actor *me)
{
	me->number = 3;
	want_mutex(me);
}

static void make_mutexes(const char *unused)
{
	(void)unused;
	for (int i = 0; i < MUTEX_KINDS; i++) {
		const struct mutex_kind *kind = &mutex_kinds[i];
		struct actor *holder;

		if (!make_mutex(&some_mutexes[i], kind))
			continue;
		holder = start(hold_mutex, kind->row, &some_mutexes[i], NULL);
		if (holder->failed) { /* such as PROTECT without real-time priorities */
			truth_says(kind->row, "'left_out':'the kernel refuses it'");
			continue;
		}
		for (int k = 0; k < 2; k++)
			start(kind->kept ? want_kept_mutex : want_mutex, kind->row,
			      &some_mutexes[i], holder);
	}
}

/* Mutexes on the heap and on a stack. */
static void make_places(const char *unused)
{
	pthread_mutex_t *heap = calloc(1, sizeof(*heap));
	pthread_mutex_t stack;

	(void)unused;
	pthread_mutex_init(heap, NULL);
	pthread_mutex_init(&stack, NULL);
	start(want_mutex, "mutex.heap", heap, start(hold_mutex, "", heap, NULL));
	start(want_mutex, "mutex.stack", &stack, start(hold_mutex, "", &stack, NULL));
	truth_ready(); /* does not return: the main thread stays in this frame */
}

static void make_timed(const char *unused)
{
	static pthread_mutex_t mutex, clocked;
	static const struct mutex_kind kind = {
		"", PTHREAD_MUTEX_ERRORCHECK, 0, false, false, true
	};

	(void)unused;
	make_mutex(&mutex, &kind);
	make_mutex(&clocked, &kind);
	start(want_timed_mutex, "mutex.timed", &mutex, start(hold_mutex, "", &mutex, NULL));
	if (HAS_GLIBC)
		start(want_clock_mutex, "mutex.clock", &clocked,
		      start(hold_mutex, "", &clocked, NULL));
}

/* ---- rwlocks ---- */

static NOINLINE void hold_to_write(struct actor *me)
{
	pthread_rwlock_wrlock(me->object);
	rest("rwlock.writer");
}

static NOINLINE void hold_to_read(struct actor *me)
{
	pthread_rwlock_rdlock(me->object);
	rest("rwlock.reader");
}

static void say_rwlock(struct actor *me, const char *mode)
{
	bool write = me->other && me->other->act == hold_to_write;

	if (HAS_GLIBC && write)
		truth(me->row, "'kind':'rwlock','address':'%p','mode':'%s','owner':%d", me->object,
		      mode, me->other->tid);
	else if (HAS_GLIBC)
		truth(me->row, "'kind':'rwlock','address':'%p','mode':'%s','owner':0,'readers':2",
		      me->object, mode);
	else
		truth(me->row, "'kind':'rwlock','address':'%p','mode':'%s','owner':0", me->object,
		      mode);
}

static NOINLINE void want_to_write(struct actor *me)
{
	say_rwlock(me, "write");
	pthread_rwlock_wrlock(me->object);
}

static NOINLINE void want_to_read(struct actor *me)
{
	say_rwlock(me, "read");
	pthread_rwlock_rdlock(me->object);
}

static NOINLINE void want_to_read_timed(struct actor *me)
{
	struct timespec until = in_long(CLOCK_REALTIME);

	truth(me->row, "'kind':'rwlock','address':'%p','owner':%d,'timed':true,'most_s':3000",
	      me->object, HAS_GLIBC ? me->other->tid : 0);
	pthread_rwlock_timedrdlock(me->object, &until);
}

static void make_rwlocks(const char *unused)
{
	static pthread_rwlock_t written, read;
	struct actor *writer;

	(void)unused;
	pthread_rwlock_init(&written, NULL);
	pthread_rwlock_init(&read, NULL);
	writer = start(hold_to_write, "", &written, NULL);
	start(want_to_read, "rwlock.read-for-writer", &written, writer);
	start(want_to_read, "rwlock.read-for-writer", &written, writer);
	start(want_to_write, "rwlock.write-for-writer", &written, writer);
	start(want_to_read_timed, "rwlock.timed", &written, writer);
	start(hold_to_read, "", &read, NULL);
	start(hold_to_read, "", &read, NULL);
	start(want_to_write, "rwlock.write-for-readers", &read, NULL);
#ifdef __GLIBC__
	/* Who comes after a writer that waits, waits too, though nobody writes. */
	static pthread_rwlock_t preferred;
	pthread_rwlockattr_t attributes;

	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&preferred, &attributes);
	start(hold_to_read, "", &preferred, NULL);
	start(hold_to_read, "", &preferred, NULL);
	writer = start(want_to_write, "rwlock.preferred", &preferred, NULL);
	until_asleep(getpid(), writer->tid);
	start(want_to_read, "rwlock.behind-preferred", &preferred, NULL);
#endif
}

/* ---- owners that do not come ---- */

static NOINLINE void take_and_end(struct actor *me)
{
	pthread_mutex_lock(me->object);
	me->number = own_tid();
	me->tid = own_tid();
}

static NOINLINE void want_of_dead(struct actor *me)
{
	truth(me->row, "'kind':'mutex','address':'%p','owner':0,'lack':'exited'", me->object);
	pthread_mutex_lock(me->object);
}

static void make_exited(const char *unused)
{
	static pthread_mutex_t mutex;
	static const struct mutex_kind kind = {
		"", PTHREAD_MUTEX_ERRORCHECK, 0, false, false, true
	};
	struct actor *dead;

	(void)unused;
	make_mutex(&mutex, &kind);
	dead = start(take_and_end, "", &mutex, NULL);
	while (syscall(SYS_tgkill, getpid(), dead->tid, 0) == 0)
		sched_yield();
	start(want_of_dead, "mutex.exited", &mutex, dead);
}

static pthread_mutex_t at_fork;

static void want_at_fork(void *unused)
{
	(void)unused;
	truth("mutex.at-fork", "'kind':'mutex','address':'%p','owner':0,'lack':'held at fork'",
	      (void *)&at_fork);
	pthread_mutex_lock(&at_fork);
}

static void make_fork(const char *unused)
{
	static const struct mutex_kind kind = {
		"", PTHREAD_MUTEX_RECURSIVE, 0, false, false, true
	};

	(void)unused;
	make_mutex(&at_fork, &kind);
	start(hold_mutex, "", &at_fork, NULL);
	start_child(want_at_fork, NULL);
}

/* Each of two knows of the other's: the kernel refuses the second, who sleeps for ever. */
static pthread_mutex_t inherited[2];
static _Atomic int inherited_held;

static NOINLINE void take_both(struct actor *me)
{
	int own = (int)(intptr_t)me->object;

	pthread_mutex_lock(&inherited[own]);
	if (own == 0) {
		truth("pi.first", "'kind':['mutex','futex_pi'],'address':'%p'",
		      (void *)&inherited[1]);
		while (inherited_held < 1)
			sched_yield();
	} else {
		inherited_held++;
		until_asleep(getpid(), me->other->tid);
		truth("pi.refused",
		      "'kind':['mutex','futex_pi'],'lack':'refused by the kernel','owner':[0,%d]",
		      me->other->tid);
	}
	pthread_mutex_lock(&inherited[!own]);
	STAYS_A_CALL;
}

static void make_refused(const char *unused)
{
	static const struct mutex_kind kind = {
		"", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, false, false, true
	};

	(void)unused;
	make_mutex(&inherited[0], &kind);
	make_mutex(&inherited[1], &kind);
	start(take_both, "", (void *)1, start(take_both, "", (void *)0, NULL));
	truth_says("pi.refused", "'deadlock':[],'optional':true");
}

/* ---- between processes ---- */

struct shared {
	pthread_mutex_t mutex;
	_Atomic pid_t owner;
	enum {
		SHARED_ALIVE,
		SHARED_STOPPED,
		SHARED_KILLED,
		SHARED_ZOMBIE,  /* killed, and nobody has asked for it */
		SHARED_OUTSIDE, /* no child of the program: not in the report */
	} way;
	pthread_rwlock_t rwlock;
};

static int shared_life[2]; /* its writing end is open as long as the program is there */

/* What has a child that is gone belongs to nobody's tree. */
static void own_outside(struct shared *shared)
{
	char byte;

	if (fork() != 0)
		_exit(0);
	setsid();
	close(shared_life[1]);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	pthread_mutex_lock(&shared->mutex);
	pthread_rwlock_wrlock(&shared->rwlock);
	shared->owner = own_tid();
	(void)!read(shared_life[0], &byte, 1);
	_exit(0);
}

static void own_shared(void *argument)
{
	struct shared *shared = argument;

	if (shared->way == SHARED_OUTSIDE) {
		truths->count++; /* an empty line, as below */
		own_outside(shared);
	}
	pthread_mutex_lock(&shared->mutex);
	pthread_rwlock_wrlock(&shared->rwlock);
	shared->owner = own_tid();
	if (shared->way == SHARED_STOPPED) {
		truth("shared.stopped", "'kind':'stopped'");
		raise(SIGSTOP);
	}
	if (shared->way == SHARED_KILLED || shared->way == SHARED_ZOMBIE) {
		truths->count++; /* an empty line: it is gone soon */
		raise(SIGKILL);
	}
	rest("shared.holder");
}

/* Who must be named as its owner, and if nobody why; musl keeps none of a rwlock. */
static const char *said_of(const struct shared *shared, bool is_kept)
{
	static __thread char text[64];

	if (!is_kept)
		return "'owner':0";
	switch (shared->way) {
	case SHARED_KILLED:
	case SHARED_ZOMBIE:
		return "'owner':0,'lack':'exited'";
	case SHARED_OUTSIDE:
		return "'owner':0,'lack':'not seen'";
	default:
		snprintf(text, sizeof(text), "'owner':%d", shared->owner);
		return text;
	}
}

static NOINLINE void want_shared(struct actor *me)
{
	struct shared *shared = me->object;

	truth(me->row, "'kind':'mutex','address':'%p',%s", (void *)&shared->mutex,
	      said_of(shared, true));
	pthread_mutex_lock(&shared->mutex);
}

static NOINLINE void want_shared_rwlock(struct actor *me)
{
	struct shared *shared = me->object;

	truth(me->row, "'kind':'rwlock','address':'%p',%s", (void *)&shared->rwlock,
	      said_of(shared, HAS_GLIBC));
	pthread_rwlock_rdlock(&shared->rwlock);
}

/* The parent sees the memory at one address, the child at another. */
static void share(int fd, int place, const char *row, bool robust, int way)
{
	const struct mutex_kind kind = { row, PTHREAD_MUTEX_ERRORCHECK, 0, robust, true, true };
	off_t offset = place * 4096;
	struct shared *here = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	struct shared *there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	struct truth_line *line = &truths->lines[truths->count];
	pthread_rwlockattr_t attributes;
	siginfo_t info;
	pid_t child;

	if (here == MAP_FAILED || there == MAP_FAILED || !make_mutex(&here->mutex, &kind))
		victim_cannot("shared memory");
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_rwlock_init(&here->rwlock, &attributes);
	here->way = way;
	child = start_child(own_shared, there);
	munmap(there, 4096);
	if (way >= SHARED_KILLED) {
		waitid(P_PID, (id_t)child, &info, WEXITED | (way == SHARED_ZOMBIE ? WNOWAIT : 0));
		snprintf(line->text, TRUTH_BYTES, "{\"row\":\"%s\",\"gone\":%d}", row, child);
		line->written = 1;
	}
	while (!here->owner)
		sched_yield();
	start(want_shared, row, here, NULL);
	start(want_shared_rwlock, row, here, NULL);
}

static void make_shared(const char *unused)
{
	char path[] = "/dev/shm/waits.XXXXXX";
	int fd = mkstemp(path);

	(void)unused;
	if (fd < 0 || ftruncate(fd, 6 * 4096) != 0)
		victim_cannot("/dev/shm");
	unlink(path);
	if (pipe(shared_life) != 0)
		victim_cannot("pipe");
	share(fd, 0, "shared.alive", false, SHARED_ALIVE);
	share(fd, 1, "shared.robust", true, SHARED_ALIVE);
	share(fd, 2, "shared.stopped", false, SHARED_STOPPED);
	share(fd, 3, "shared.killed", false, SHARED_KILLED);
	share(fd, 4, "shared.zombie", false, SHARED_ZOMBIE);
	share(fd, 5, "shared.outside", false, SHARED_OUTSIDE);
}

/* ---- a number that was given out again ---- */

#ifdef __GLIBC__
enum { WAITED_MS = 300 };

static NOINLINE void rests(struct actor *me)
{
	(void)me;
	rest("reused.other");
}

static NOINLINE void want_stale_mutex(struct actor *me)
{
	me->tid = own_tid();
	pthread_mutex_lock(me->object);
}

static NOINLINE void want_stale_rwlock(struct actor *me)
{
	me->tid = own_tid();
	pthread_rwlock_wrlock(me->object);
}

static NOINLINE void hold_and_go(struct actor *me)
{
	pthread_mutex_lock(&((pthread_mutex_t *)me->object)[0]);
	pthread_mutex_lock(&((pthread_mutex_t *)me->object)[1]);
	me->tid = own_tid();
}

static void wait_ms(int64_t ms)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_BOOTTIME, &begin);
	do {
		sched_yield();
		clock_gettime(CLOCK_BOOTTIME, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

/*
 * The kernel gives numbers out again when all have been used, which takes long. To who looks from
 * outside it is the same where the owner's word has the number of another thread: one that began
 * when the wait had lasted for a while, and one that was there before.
 */
static void make_reused(const char *unused)
{
	static pthread_mutex_t mutexes[2];
	static pthread_rwlock_t rwlock;
	struct actor *older = start(rests, "", NULL, NULL), *waiters[3], *younger;

	(void)unused;
	start(hold_and_go, "", mutexes, NULL);
	pthread_rwlock_wrlock(&rwlock);
	waiters[0] = start(want_stale_mutex, "", &mutexes[0], NULL);
	waiters[1] = start(want_stale_mutex, "", &mutexes[1], NULL);
	waiters[2] = start(want_stale_rwlock, "", &rwlock, NULL);
	for (int i = 0; i < 3; i++)
		until_asleep(getpid(), waiters[i]->tid);
	wait_ms(WAITED_MS);
	younger = start(rests, "", NULL, NULL);
	mutexes[0].__data.__owner = younger->tid;
	mutexes[1].__data.__owner = older->tid;
	rwlock.__data.__cur_writer = younger->tid;
	truth_of(waiters[0]->tid, "reused.mutex",
		 "'kind':'mutex','address':'%p','owner':0,'lack':'owner younger'",
		 (void *)&mutexes[0]);
	truth_of(waiters[1]->tid, "reused.older", "'kind':'mutex','address':'%p','owner':%d",
		 (void *)&mutexes[1], older->tid);
	truth_of(waiters[2]->tid, "reused.rwlock",
		 "'kind':'rwlock','address':'%p','owner':0,'lack':'owner younger'",
		 (void *)&rwlock);
}
#else
static void make_reused(const char *unused)
{
	(void)unused;
	truth_says("reused", "'left_out':'musl'");
}
#endif

int main(int argc, char **argv)
{
	static const struct truth_mode modes[] = {
		{ "mutexes", make_mutexes }, { "places", make_places },
		{ "timed", make_timed },     { "rwlocks", make_rwlocks },
		{ "exited", make_exited },   { "fork", make_fork },
		{ "refused", make_refused }, { "shared", make_shared },
		{ "reused", make_reused },   { NULL, NULL },
	};

	(void)argc;
	return truth_main(modes, argv);
}
