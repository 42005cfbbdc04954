/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads whose words, names and descriptors lie: about who has what they wait for, about what it
 * is, about where it is. Nobody in this program waits for an innocent thread, but for one that
 * waits for a mutex which a liar really has. See truth.h.
 *
 *     words:syscall, words:own    futexes among words that look like locks, waited for by way of the
 *                                 C library's syscall(3), or by instructions of the program itself
 *     pages                       what arguments lead to is gone, closed or never served
 *     names                       of threads, files and functions
 */
#include "truth.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>

enum {
	WAIT = 0,
	WAIT_BITSET = 9,
	PRIVATE = 0x80,
	WORDS = 32, /* of an area … */
	WORD = 12,  /* … and the one that is waited for */
	MOST_AREAS = 40,
	SHARED_KIND = 0x80,
	ROBUST_KIND = 0x10,
	WAITERS = 0x80000000,
};

static uint32_t areas[MOST_AREAS][WORDS] __attribute__((aligned(64)));
static uint32_t *shared_areas; /* the same in shared memory of a file */
static int area_count, shared_count;
static bool by_syscall;
static struct actor *innocents[3];
static pid_t other_process;
static pthread_mutex_t real = PTHREAD_MUTEX_INITIALIZER;

/* A call that the C library knows nothing of. */
static inline long own_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#endif
}

static NOINLINE void futex(uint32_t *word, int op, uint32_t value)
{
	for (;;) {
		if (by_syscall)
			syscall(SYS_futex, word, op, value, NULL, NULL, -1);
		else
			own_call(SYS_futex, (long)word, op, value, 0, 0, -1);
	}
}

/* Functions that are called like those of the C library. */
void pthread_mutex_lock_full(uint32_t *word, int op, uint32_t value);
void pthread_rwlock_wrlock_slow(uint32_t *word, int op, uint32_t value);

NOINLINE void pthread_mutex_lock_full(uint32_t *word, int op, uint32_t value)
{
	futex(word, op, value);
	STAYS_A_CALL;
}

NOINLINE void pthread_rwlock_wrlock_slow(uint32_t *word, int op, uint32_t value)
{
	futex(word, op, value);
	STAYS_A_CALL;
}

/* What a liar waits with. */
struct lie {
	uint32_t *word;
	int op;
	uint32_t value;
	void (*by)(uint32_t *word, int op, uint32_t value);
};

static NOINLINE void innocent(struct actor *me)
{
	(void)me;
	rest("innocent");
}

static void say(struct actor *me, const struct lie *lie)
{
	truth(me->row, "'owner':0,'confidence':['guess','likely'],'address':'%p'",
	      (void *)lie->word);
}

static NOINLINE void liar(struct actor *me)
{
	struct lie lie = *(struct lie *)me->object;

	say(me, &lie);
	lie.by(lie.word, lie.op, lie.value);
	STAYS_A_CALL;
}

static struct actor *tell(const char *row, uint32_t *word, int op, uint32_t value)
{
	struct lie *lie = calloc(1, sizeof(*lie));

	*lie = (struct lie){ word, op, value, futex };
	return start(liar, row, lie, NULL);
}

/* Words of an area, from the one that is waited for on. */
static uint32_t *words(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e)
{
	uint32_t *word = &areas[area_count++][WORD];
	const uint32_t all[] = { a, b, c, d, e };

	memcpy(word, all, sizeof(all));
	return word;
}

static uint32_t *shared_words(uint32_t lock, uint32_t owner, uint32_t kind)
{
	uint32_t *word = &shared_areas[WORDS * shared_count++ + WORD];
	const uint32_t all[] = { lock, 1, owner, 1, kind };

	memcpy(word, all, sizeof(all));
	return word;
}

static uint64_t thread_pointer_of(struct actor *actor)
{
	return (uint64_t)actor->number;
}

static NOINLINE void innocent_with_pointer(struct actor *me)
{
	me->number = (long)pthread_self();
	innocent(me);
}

static void child_is_innocent(void *unused)
{
	(void)unused;
	rest("innocent.process");
}

/* A mutex-like word for a number; all of these mean nobody who could be named. */
static void tell_of_numbers(uint32_t it)
{
	static const uint32_t numbers[] = { 0, 1, 0x3fffffff, 0x7fffffff, 0x7ffffffe, 0xffffffff };
	static const char *const rows[] = { "tid.0",    "tid.init",          "tid.most",
					    "tid.dead", "tid.unrecoverable", "tid.-1" };

	tell("tid.innocent", words(2, 1, it, 1, 0), PRIVATE | WAIT, 2);
	tell("tid.other-process", words(2, 1, (uint32_t)other_process, 1, 0), PRIVATE | WAIT, 2);
	tell("tid.parent", words(2, 1, (uint32_t)getppid(), 1, 0), PRIVATE | WAIT, 2);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		tell(rows[i], words(2, 1, numbers[i], 1, 0), PRIVATE | WAIT, 2);
}

static void tell_of_kinds(uint32_t it)
{
	static const uint32_t kinds[] = { 1, 2, 3, 0x40, 0x100, 0x201, 0x3f3, 4, 0x12345 };
	uint64_t pointer = thread_pointer_of(innocents[0]);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		tell("kind", words(2, 1, it, 1, kinds[i]), PRIVATE | WAIT, 2);
	tell("kind.robust", words(WAITERS | it, 1, it, 1, ROBUST_KIND | SHARED_KIND), WAIT,
	     WAITERS | it);
	tell("kind.musl", words(WAITERS | it, 1, 0, 0, 0), PRIVATE | WAIT, WAITERS | it);
	/* readers, writers, phase, the word, padding, writer: three of them stand in front */
	{
		uint32_t *word = words(2, 0, 0, it, 0);

		word[-3] = 3;
		word[-2] = 1;
		word[-1] = 2;
		tell("rwlock", word, PRIVATE | WAIT_BITSET, 2);
	}
	tell("file", words(2, 1, (uint32_t)pointer, (uint32_t)(pointer >> 32), 0), PRIVATE | WAIT,
	     2);
	tell("barrier", words(1, 2, 0, it, it), PRIVATE | WAIT, 1);
	tell("semaphore", words(0, it, 128, it, 0), PRIVATE | WAIT_BITSET, 0);
}

/* A list that leads to itself, of locks that name each other's waiters. */
static NOINLINE void in_ring(struct actor *me)
{
	struct lie *lie = me->object;

	me->tid = own_tid();
	while (!lie->word[2])
		sched_yield();
	liar(me);
}

static void tell_in_circles(void)
{
	static struct lie ring[3];
	struct actor *actors[3];

	for (int i = 0; i < 3; i++) {
		ring[i] = (struct lie){ words(2, 1, 0, 1, 0), PRIVATE | WAIT, 2, futex };
		*(void **)(ring[i].word + 6) = ring[i].word + 6;
		actors[i] = start(in_ring, "ring", &ring[i], NULL);
	}
	for (int i = 0; i < 3; i++)
		ring[i].word[2] = (uint32_t)actors[(i + 1) % 3]->tid;
}

/* Its own number, and words on its own stack. */
static NOINLINE void name_itself(struct actor *me)
{
	struct lie lie = { words(2, 1, (uint32_t)own_tid(), 1, 0), PRIVATE | WAIT, 2, futex };

	say(me, &lie);
	lie.by(lie.word, lie.op, lie.value);
}

static NOINLINE void lie_on_stack(struct actor *me)
{
	uint32_t here[WORDS] = { 0 };
	struct lie lie = { &here[WORD], PRIVATE | WAIT, 2, futex };

	here[WORD] = 2;
	here[WORD + 1] = here[WORD + 3] = 1;
	here[WORD + 2] = (uint32_t)innocents[0]->tid;
	say(me, &lie);
	lie.by(lie.word, lie.op, lie.value);
	STAYS_A_CALL;
}

/* An own pointer that is another thread's. */
static NOINLINE void forge_pointer(struct actor *me)
{
	uint64_t pointer = thread_pointer_of(innocents[1]);
	uint32_t *word = words(2, 1, (uint32_t)pointer, (uint32_t)(pointer >> 32), 0);
	struct lie lie = { word, PRIVATE | WAIT, 2, futex };

	say(me, &lie);
#if defined(__x86_64__)
	own_call(SYS_arch_prctl, 0x1002 /* ARCH_SET_FS */, (long)pointer, 0, 0, 0, 0);
#else
	__asm__ volatile("msr tpidr_el0, %0" : : "r"(pointer));
#endif
	for (;;)
		own_call(SYS_futex, (long)word, PRIVATE | WAIT, 2, 0, 0, -1);
}

/* It has a mutex that an innocent thread wants, and says that it waits for that one. */
static NOINLINE void hold_and_lie(struct actor *me)
{
	uint32_t *word = words(2, 1, 0, 1, 0);
	struct lie lie = { word, PRIVATE | WAIT, 2, futex };

	pthread_mutex_lock(&real);
	me->tid = own_tid();
	while (!me->other)
		sched_yield();
	while (!me->other->tid)
		sched_yield();
	word[2] = (uint32_t)me->other->tid;
	say(me, &lie);
	lie.by(lie.word, lie.op, lie.value);
}

static NOINLINE void want_real(struct actor *me)
{
	truth(me->row, "'kind':'mutex','owner':%d,'address':'%p','confidence':'certain'",
	      me->other->tid, (void *)&real);
	pthread_mutex_lock(&real);
}

static void make_shared_areas(void)
{
	char path[] = "/dev/shm/lies.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || ftruncate(fd, 4096) != 0)
		victim_cannot("/dev/shm");
	unlink(path);
	shared_areas = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

static void make_words(const char *how)
{
	static struct lie named[2];
	struct actor *holder;
	uint32_t it;

	by_syscall = how && strcmp(how, "syscall") == 0;
	make_shared_areas();
	for (int i = 0; i < 3; i++)
		innocents[i] = start(innocent_with_pointer, "innocent", NULL, NULL);
	it = (uint32_t)innocents[0]->tid;
	other_process = start_child(child_is_innocent, NULL);
	tell_of_numbers(it);
	tell_of_kinds(it);
	tell_in_circles();
	start(name_itself, "itself", NULL, NULL);
	start(lie_on_stack, "stack", NULL, NULL);
	start(forge_pointer, "pointer", NULL, NULL);
	tell("shared.innocent", shared_words(2, it, SHARED_KIND), WAIT, 2);
	tell("shared.other-process", shared_words(2, (uint32_t)other_process, SHARED_KIND), WAIT,
	     2);
	tell("shared.robust",
	     shared_words(WAITERS | (uint32_t)other_process, (uint32_t)other_process,
			  ROBUST_KIND | SHARED_KIND),
	     WAIT, WAITERS | (uint32_t)other_process);
	named[0] =
		(struct lie){ words(2, 1, it, 1, 0), PRIVATE | WAIT, 2, pthread_mutex_lock_full };
	named[1] = (struct lie){ words(2, 1, it, 1, 0), PRIVATE | WAIT, 2,
				 pthread_rwlock_wrlock_slow };
	start(liar, "function.mutex", &named[0], NULL);
	start(liar, "function.rwlock", &named[1], NULL);
	holder = start(hold_and_lie, "holder", NULL, NULL);
	holder->other = start(want_real, "wants-real", NULL, holder);
	until_asleep(getpid(), holder->other->tid);
}

/* ---- pages ---- */

static NOINLINE void with_page(struct actor *me)
{
	truth(me->row, "'owner':0,'confidence':['guess','likely'],'address':'%p'", me->object);
	futex(me->object, PRIVATE | WAIT, 2);
}

static NOINLINE void with_pollfds(struct actor *me)
{
	truth(me->row, "'kind':'poll','fd_count':3");
	for (;;)
#ifdef SYS_poll
		own_call(SYS_poll, (long)me->object, 3, -1, 0, 0, 0);
#else
		own_call(SYS_ppoll, (long)me->object, 3, 0, 0, 0, 0);
#endif
}

static NOINLINE void with_timespec(struct actor *me)
{
	struct timespec *when = me->object;

	when->tv_sec = 3000;
	when->tv_nsec = 0;
	truth(me->row, "'kind':'sleep','timed':true");
	own_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)when, 0, 0, 0);
}

static void *page_with_lock(void)
{
	uint32_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		victim_cannot("mmap");
	page[0] = 2;
	page[1] = page[3] = 1;
	page[2] = (uint32_t)innocents[0]->tid;
	return page;
}

/* The kernel asks us for the page, and is not answered. */
static void take_page(void *page)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	unsigned long api[3] = { 0xaa, 0, 0 }; /* struct uffdio_api */
	unsigned long range[4] = { (unsigned long)page, 4096, 1 /* MISSING */, 0 }; /* …_register */

	if (fd < 0 || ioctl(fd, 0xc018aa3f /* UFFDIO_API */, api) != 0 ||
	    ioctl(fd, 0xc020aa00 /* UFFDIO_REGISTER */, range) != 0)
		victim_cannot("userfaultfd");
	madvise(page, 4096, MADV_DONTNEED);
}

static void make_pages(const char *how)
{
	void *pages[4];
	struct actor *actors[4];

	innocents[0] = start(innocent_with_pointer, "innocent", NULL, NULL);
	for (int i = 0; i < 4; i++)
		pages[i] = page_with_lock();
	if (how && strcmp(how, "served") == 0) {
		actors[0] = start(with_page, "page.never-served", pages[0], NULL);
		until_asleep(getpid(), actors[0]->tid);
		take_page(pages[0]);
		return;
	}
	memset(pages[2], 0xff, 4096); /* descriptors that are left out */
	actors[0] = start(with_page, "page.closed", pages[0], NULL);
	actors[1] = start(with_page, "page.gone", pages[1], NULL);
	actors[2] = start(with_pollfds, "page.pollfds", pages[2], NULL);
	actors[3] = start(with_timespec, "page.timespec", pages[3], NULL);
	for (int i = 0; i < 4; i++) {
		until_asleep(getpid(), actors[i]->tid);
		if (i == 0 ? mprotect(pages[i], 4096, PROT_NONE) : munmap(pages[i], 4096))
			victim_cannot("munmap");
	}
}

/* ---- words that change while somebody looks ---- */

static uint32_t said_owners[4];

static void *rewrite(void *unused)
{
	volatile int *owner = (volatile int *)((char *)&real + 8);

	(void)unused;
	for (unsigned i = 0;; i++)
		*owner = (int)said_owners[i % 4];
	return NULL;
}

static NOINLINE void hold_real(struct actor *me)
{
	pthread_mutex_lock(&real);
	truth(me->row, "'kind':'signal'");
	for (;;)
		pause();
}

static NOINLINE void want_rewritten(struct actor *me)
{
	truth(me->row, "'kind':'mutex','address':'%p','owner':[0,%d,%d]", (void *)&real,
	      (int)said_owners[0], (int)said_owners[1]);
	pthread_mutex_lock(&real);
}

/* The mutex is one of the C library's; its owner's number is another one each time. */
static void make_rewritten(const char *unused)
{
	struct actor *waiter;

	(void)unused;
	said_owners[0] = (uint32_t)start(hold_real, "holder", NULL, NULL)->tid;
	said_owners[1] = (uint32_t)start(innocent, "innocent", NULL, NULL)->tid;
	said_owners[3] = 1;
	waiter = start(want_rewritten, "rewritten", NULL, NULL);
	until_asleep(getpid(), waiter->tid);
	victim_thread(rewrite, NULL, 128 << 10);
}

/* ---- names ---- */

static NOINLINE void with_name(struct actor *me)
{
	prctl(PR_SET_NAME, me->object, 0, 0, 0);
	rest(me->row);
}

static NOINLINE void lock_file(struct actor *me)
{
	truth(me->row, "'kind':'file_lock','path':'%s','holders':[%d]", (const char *)me->object,
	      other_process);
	flock((int)me->number, LOCK_EX);
}

static void child_locks(void *path)
{
	if (flock(open(path, O_RDWR | O_CLOEXEC), LOCK_EX) != 0)
		victim_cannot("flock");
	rest("innocent.process");
}

/* `folder`: where files can be called as they like. */
static void make_names(const char *folder)
{
	static char escape_name[] = "\033[31mDEADLOCK", newline_name[] = "a\nDEADLOCK  9";
	static char held_name[] = ", held by 1 ini";
	static char path[512];
	struct actor *locker = calloc(1, sizeof(*locker));

	start(with_name, "name.escape", escape_name, NULL);
	start(with_name, "name.newline", newline_name, NULL);
	start(with_name, "name.held", held_name, NULL);
	snprintf(path, sizeof(path), "%s/pipe:[1]", folder);
	close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	other_process = start_child(child_locks, path);
	locker->act = lock_file;
	locker->row = "name.file";
	locker->object = path;
	locker->number = open(path, O_RDWR | O_CLOEXEC);
	victim_thread(actor_main, locker, 128 << 10);
	while (!locker->tid)
		sched_yield();
}

int main(int argc, char **argv)
{
	static const struct truth_mode modes[] = {
		{ "words", make_words },         { "pages", make_pages }, { "names", make_names },
		{ "rewritten", make_rewritten }, { NULL, NULL },
	};

	(void)argc;
	return truth_main(modes, argv);
}
