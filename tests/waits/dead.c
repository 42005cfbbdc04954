/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Deadlocks of every kind, and threads that look like one but are none, because one of several could
 * wake them. See truth.h: {"deadlock": [tids], "behind": N} is one that there must be, "none": true
 * says that there is none at all.
 */
#include "mutexes.h"

#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>

enum { MOST_IN_RING = 2048 };

static const struct mutex_kind plain = { "", PTHREAD_MUTEX_ERRORCHECK, 0, false, false, true };
static const struct mutex_kind unchecked = { "", PTHREAD_MUTEX_NORMAL, 0, false, false, false };

static void none(const char *row)
{
	truth_says(row, "'none':true");
}

/* ---- rings of mutexes ---- */

static pthread_mutex_t ring[MOST_IN_RING];
static _Atomic pid_t ring_tids[MOST_IN_RING];
static int ring_size;
static _Atomic int ring_held;
static pthread_rwlock_t ring_gate =
	PTHREAD_RWLOCK_INITIALIZER; /* all hold one lock, then it opens */

struct place {
	int own;
	bool timed;
};

static NOINLINE void take_next(int own, bool timed)
{
	int next = (own + 1) % ring_size;
	struct timespec until = in_long(CLOCK_REALTIME);

	truth("ring", "'kind':'mutex','address':'%p','owner':%d%s", (void *)&ring[next],
	      ring_tids[next], timed ? ",'timed':true,'most_s':3000" : "");
	if (timed)
		pthread_mutex_timedlock(&ring[next], &until);
	pthread_mutex_lock(&ring[next]);
}

static void *ring_main(void *argument)
{
	struct place *place = argument;

	ring_tids[place->own] = own_tid();
	pthread_mutex_lock(&ring[place->own]);
	ring_held++;
	pthread_rwlock_rdlock(&ring_gate);
	pthread_rwlock_unlock(&ring_gate);
	take_next(place->own, place->timed);
	return NULL;
}

static NOINLINE void want_behind(struct actor *me)
{
	truth("ring.behind", "'kind':'mutex','address':'%p','owner':%d", me->object,
	      ring_tids[(pthread_mutex_t *)me->object - ring]);
	pthread_mutex_lock(me->object);
}

/* Says who is in the cycle, from its lowest tid on in the order in which they wait. */
static void say_ring(int size, int behind, bool timed)
{
	char tids[400] = "";
	int lowest = 0, length = 0;

	for (int i = 1; i < size; i++)
		if (ring_tids[i] < ring_tids[lowest])
			lowest = i;
	for (int i = 0; i < size && i < 16; i++)
		length += snprintf(tids + length, sizeof(tids) - (size_t)length, "%s%d",
				   i ? "," : "", ring_tids[(lowest + i) % size]);
	truth_says("ring", "'deadlock':[%s],'size':%d,'behind':%d,'certain':true%s", tids, size,
		   behind, timed ? ",'until':true" : "");
}

static void make_ring_of(int size, int behind, int timed)
{
	static struct place places[MOST_IN_RING];

	ring_size = size;
	pthread_rwlock_wrlock(&ring_gate);
	for (int i = 0; i < size; i++) {
		make_mutex(&ring[i], &plain);
		places[i] = (struct place){ i, i < timed };
		victim_thread(ring_main, &places[i], 64 << 10);
	}
	while (ring_held < size)
		sched_yield();
	pthread_rwlock_unlock(&ring_gate);
	until_truths(size);
	for (int i = 0; i < behind; i++)
		start(want_behind, "", &ring[i % size], NULL);
	say_ring(size, behind, timed);
}

static void make_ring(const char *size)
{
	make_ring_of(size ? atoi(size) : 5, 0, 0);
}

static void make_two(const char *unused)
{
	(void)unused;
	make_ring_of(2, 2, 0);
}

static void make_timed(const char *unused)
{
	(void)unused;
	make_ring_of(2, 0, 1);
}

/* ---- circles that end by themselves ---- */

enum { CHURN_THREADS = 24, CHURN_LOCKS = 6, CHURN_LIMIT_NS = 300000 };

static pthread_mutex_t churned[CHURN_LOCKS];

/* Locks are taken in their order, or the other way round with a time limit: no thread waits for ever. */
static void churn_once(pthread_mutex_t *low, pthread_mutex_t *high, bool in_order)
{
	struct timespec until;

	if (in_order) {
		pthread_mutex_lock(low);
		pthread_mutex_lock(high);
		pthread_mutex_unlock(high);
		pthread_mutex_unlock(low);
		return;
	}
	pthread_mutex_lock(high);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += CHURN_LIMIT_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	if (pthread_mutex_timedlock(low, &until) == 0)
		pthread_mutex_unlock(low);
	pthread_mutex_unlock(high);
}

static void *churn_main(void *argument)
{
	unsigned seed = *(unsigned *)argument;

	for (;;) {
		int low = rand_r(&seed) % (CHURN_LOCKS - 1);
		int high = low + 1 + rand_r(&seed) % (CHURN_LOCKS - 1 - low);

		churn_once(&churned[low], &churned[high], rand_r(&seed) % 4 != 0);
	}
	return NULL;
}

static void make_churn(const char *unused)
{
	static unsigned seeds[CHURN_THREADS];

	(void)unused;
	for (int i = 0; i < CHURN_LOCKS; i++)
		make_mutex(&churned[i], &unchecked);
	for (int i = 0; i < CHURN_THREADS; i++) {
		seeds[i] = (unsigned)i;
		victim_thread(churn_main, &seeds[i], 64 << 10);
	}
	none("churn");
}

/* A thread locks what it has locked; musl keeps no owner of this kind. */
static NOINLINE void lock_twice(struct actor *me)
{
	pthread_mutex_lock(me->object);
	truth("self", "'kind':'mutex','address':'%p','owner':%d", me->object,
	      HAS_GLIBC ? own_tid() : 0);
	pthread_mutex_lock(me->object);
}

static void make_self(const char *unused)
{
	static pthread_mutex_t mutex;
	struct actor *alone;

	(void)unused;
	make_mutex(&mutex, &unchecked);
	alone = start(lock_twice, "", &mutex, NULL);
	truth_says("self", "'deadlock':[%d],'size':1,'behind':0,'certain':true%s", alone->tid,
		   HAS_GLIBC ? "" : ",'optional':true");
}

/* ---- two threads: the first holds a mutex and wants what the second has, who wants the mutex ---- */

static pthread_mutex_t middle;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static FILE *file;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic pid_t first_tid, second_tid;
static _Atomic pthread_t second_thread;

static NOINLINE void want_middle(void)
{
	while (!first_tid)
		sched_yield();
	truth("pair.middle", "'kind':'mutex','address':'%p','owner':%d", (void *)&middle,
	      first_tid);
	pthread_mutex_lock(&middle);
}

static NOINLINE void with_rwlock(struct actor *me)
{
	(void)me;
	pthread_rwlock_wrlock(&table);
	second_tid = own_tid();
	want_middle();
}

static NOINLINE void with_file(struct actor *me)
{
	(void)me;
	flockfile(file);
	second_tid = own_tid();
	want_middle();
}

static NOINLINE void in_once(void)
{
	second_tid = own_tid();
	want_middle();
}

static NOINLINE void with_once(struct actor *me)
{
	(void)me;
	pthread_once(&once, in_once);
	STAYS_A_CALL;
}

static NOINLINE void with_end(struct actor *me)
{
	(void)me;
	second_thread = pthread_self();
	second_tid = own_tid();
	want_middle();
}

static NOINLINE void want_second(struct actor *me)
{
	const char *what = me->object;

	pthread_mutex_lock(&middle);
	while (!second_tid)
		sched_yield();
	first_tid = own_tid();
	truth(what, "'kind':'%s','owner':%d", what, second_tid);
	if (strcmp(what, "rwlock") == 0)
		pthread_rwlock_rdlock(&table);
	else if (strcmp(what, "stdio") == 0)
		fputs("x", file);
	else if (strcmp(what, "once") == 0)
		pthread_once(&once, in_once);
	else
		pthread_join(second_thread, NULL);
	STAYS_A_CALL;
}

/* pair:rwlock, pair:stdio, pair:once, pair:thread */
static void make_pair(const char *what)
{
	static const struct {
		const char *what;
		void (*with)(struct actor *me);
	} ways[] = {
		{ "rwlock", with_rwlock },
		{ "stdio", with_file },
		{ "once", with_once },
		{ "thread", with_end },
	};
	static char words[16];
	int way = 0;

	while (strcmp(ways[way].what, what) != 0)
		way++;
	file = fopen("/dev/null", "w");
	make_mutex(&middle, &plain);
	snprintf(words, sizeof(words), "%s", what);
	launch(ways[way].with, "", NULL, NULL);
	while (!second_tid)
		sched_yield();
	start(want_second, "", words, NULL);
	until_truths(2);
	truth_says("pair", "'deadlock':[%d,%d],'size':2,'behind':0,'certain':true%s",
		   second_tid < first_tid ? second_tid : first_tid,
		   second_tid < first_tid ? first_tid : second_tid,
		   strcmp(what, "once") == 0 ? ",'optional':true" : "");
}

/* ---- between processes ---- */

struct ends {
	int read, write; /* of the first; the second has the other two */
	int other_read, other_write;
	const char *kind;
};

static void read_for_ever(struct ends *ends, const char *row)
{
	char byte;

	close(ends->other_read);
	if (ends->other_write != ends->other_read)
		close(ends->other_write);
	truth(row, "'kind':'%s','fd':%d,'call':'read'", ends->kind, ends->read);
	while (read(ends->read, &byte, 1) != 0)
		;
	for (;;)
		pause();
}

static void first_reader(void *argument)
{
	read_for_ever(argument, "processes.first");
}

static void second_reader(void *argument)
{
	struct ends *ends = argument, turned = *ends;

	turned.read = ends->other_read;
	turned.write = ends->other_write;
	turned.other_read = ends->read;
	turned.other_write = ends->write;
	read_for_ever(&turned, "processes.second");
}

static void close_ends(struct ends *ends)
{
	close(ends->read);
	close(ends->other_read);
	if (ends->write != ends->read) {
		close(ends->write);
		close(ends->other_write);
	}
}

static void say_processes(const char *row, pid_t first, pid_t second)
{
	/* What descriptors lead to is asked later, and sure only of who has come back meanwhile. */
	truth_says(row, "'deadlock':[%d,%d],'size':2,'behind':0", first < second ? first : second,
		   first < second ? second : first);
}

static void two_readers(struct ends *ends)
{
	pid_t first = start_child(first_reader, ends), second = start_child(second_reader, ends);

	close_ends(ends);
	say_processes(ends->kind, first, second);
}

static struct ends pipe_ends(void)
{
	int there[2], back[2];

	if (pipe(there) != 0 || pipe(back) != 0)
		victim_cannot("pipe");
	return (struct ends){ there[0], back[1], back[0], there[1], "pipe" };
}

static void make_pipe(const char *unused)
{
	struct ends ends = pipe_ends();

	(void)unused;
	two_readers(&ends);
}

static void make_unix(const char *unused)
{
	int pair[2];

	(void)unused;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		victim_cannot("socketpair");
	two_readers(&(struct ends){ pair[0], pair[0], pair[1], pair[1], "unix" });
}

static void make_tcp(const char *unused)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	int server;

	(void)unused;
	if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
	    connect(client, (struct sockaddr *)&address, size) != 0)
		victim_cannot("tcp");
	server = accept(listener, NULL, NULL);
	close(listener);
	two_readers(&(struct ends){ client, client, server, server, "tcp" });
}

/* A process that waits for what only itself could write. */
static void read_own(void *argument)
{
	struct ends *ends = argument;

	truth("pipe.self", "'kind':'pipe','fd':%d", ends->read);
	if (read(ends->read, ends, 1) == 0)
		_exit(1);
}

static void make_own(const char *unused)
{
	int pipe_fds[2];
	struct ends ends;
	pid_t child;

	(void)unused;
	if (pipe(pipe_fds) != 0)
		victim_cannot("pipe");
	ends = (struct ends){ .read = pipe_fds[0] };
	child = start_child(read_own, &ends);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	truth_says("pipe.self", "'deadlock':[%d],'size':1,'behind':0", child);
}

/* Two processes, each of which has what the other one wants: mutexes, or locks on files. */
static struct crossing {
	pthread_mutex_t mutexes[2];
	char paths[2][64];
	_Atomic pid_t pids[2];
} * crossing;

static void cross_mutexes(int own)
{
	pthread_mutex_lock(&crossing->mutexes[own]);
	crossing->pids[own] = getpid();
	while (!crossing->pids[!own])
		sched_yield();
	truth("shared", "'kind':'mutex','address':'%p','owner':%d",
	      (void *)&crossing->mutexes[!own], crossing->pids[!own]);
	pthread_mutex_lock(&crossing->mutexes[!own]);
}

static void cross_locks(int own)
{
	int mine = open(crossing->paths[own], O_RDWR | O_CLOEXEC);
	int other = open(crossing->paths[!own], O_RDWR | O_CLOEXEC);

	if (mine < 0 || other < 0 || flock(mine, LOCK_EX) != 0)
		_exit(1);
	crossing->pids[own] = getpid();
	while (!crossing->pids[!own])
		sched_yield();
	truth("flock", "'kind':'file_lock','fd':%d,'holders':[%d]", other, crossing->pids[!own]);
	flock(other, LOCK_EX);
}

static void make_crossing(const char *row, void (*cross)(int own))
{
	int before = truths->count;

	for (int own = 0; own < 2; own++) {
		pid_t child = fork();

		if (child < 0)
			victim_cannot("fork");
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			cross(own);
			_exit(1);
		}
	}
	until_truths(before + 2);
	say_processes(row, crossing->pids[0], crossing->pids[1]);
}

static void new_crossing(void)
{
	crossing = mmap(NULL, sizeof(*crossing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (crossing == MAP_FAILED)
		victim_cannot("mmap");
}

static void make_shared(const char *unused)
{
	static const struct mutex_kind kind = {
		"", PTHREAD_MUTEX_ERRORCHECK, 0, false, true, true
	};

	(void)unused;
	new_crossing();
	if (!make_mutex(&crossing->mutexes[0], &kind) || !make_mutex(&crossing->mutexes[1], &kind))
		victim_cannot("pthread_mutex_init");
	make_crossing("shared", cross_mutexes);
}

/* An empty file; who calls this removes it. */
static void make_lock_file(char path[64])
{
	strcpy(path, "/tmp/waits-lock.XXXXXX");
	close(mkstemp(path));
}

static void make_flock(const char *unused)
{
	(void)unused;
	new_crossing();
	for (int i = 0; i < 2; i++)
		make_lock_file(crossing->paths[i]);
	make_crossing("flock", cross_locks);
	for (int i = 0; i < 2; i++)
		unlink(crossing->paths[i]);
}

/* A parent that waits for its child, which waits for the parent's lock on a file. */
struct family {
	char path[64];
	_Atomic pid_t child;
};

static void want_lock(void *argument)
{
	struct family *family = argument;
	int fd = open(family->path, O_RDWR);

	family->child = getpid();
	truth("child.lock", "'kind':'file_lock','fd':%d,'holders':[%d]", fd, getppid());
	flock(fd, LOCK_EX);
}

static void hold_and_wait(void *argument)
{
	struct family *family = argument;
	int fd = open(family->path, O_RDWR | O_CLOEXEC);
	pid_t child;

	if (flock(fd, LOCK_EX) != 0)
		_exit(1);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		close(fd);
		want_lock(family);
		_exit(1);
	}
	while (!family->child)
		sched_yield();
	truth("child.parent", "'kind':'child','children':[%d]", child);
	waitpid(child, NULL, 0);
}

static void make_child(const char *unused)
{
	struct family *family =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent;

	(void)unused;
	make_lock_file(family->path);
	parent = start_child(hold_and_wait, family);
	until_truths(2);
	unlink(family->path);
	say_processes("child", parent, family->child);
}

/* ---- what is none ---- */

/* Two that read from each other, and a third that could write to both. */
static void keep_ends(void *unused)
{
	(void)unused;
	rest("near.third");
}

static void make_near_pipe(const char *unused)
{
	struct ends ends = pipe_ends();

	(void)unused;
	start_child(first_reader, &ends);
	start_child(second_reader, &ends);
	start_child(keep_ends, NULL);
	close_ends(&ends);
	none("near.pipe");
}

/* Nobody else could write to its pipe; but it would by itself, as soon as there is a signal. */
static int handler_end;

static void on_signal(int number)
{
	(void)number;
	if (write(handler_end, "", 1) != 1)
		_exit(1);
}

static void read_own_of_handler(void *argument)
{
	struct ends *ends = argument;

	handler_end = ends->write;
	signal(SIGUSR1, on_signal);
	truth("near.handler", "'kind':'pipe','fd':%d", ends->read);
	if (read(ends->read, ends, 1) == 0)
		_exit(1);
}

static void keep_none(void *argument)
{
	struct ends *ends = argument;

	close(ends->read);
	close(ends->write);
	rest("near.child");
}

/* As make(1) waits for tokens, which it alone could write: SIGCHLD ends that. */
static void select_own_of_parent(void *argument)
{
	struct ends *ends = argument;
	fd_set set;

	handler_end = ends->write;
	signal(SIGCHLD, on_signal);
	start_child(keep_none, ends);
	FD_ZERO(&set);
	FD_SET(ends->read, &set);
	truth("near.tokens", "'kind':'select'");
	if (select(ends->read + 1, &set, NULL, NULL, NULL) == 0)
		_exit(1);
}

static void start_with_own(void (*act)(void *argument))
{
	int pipe_fds[2];
	struct ends ends;

	if (pipe(pipe_fds) != 0)
		victim_cannot("pipe");
	ends = (struct ends){ .read = pipe_fds[0], .write = pipe_fds[1] };
	start_child(act, &ends);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void make_near_handler(const char *unused)
{
	(void)unused;
	start_with_own(read_own_of_handler);
	start_with_own(select_own_of_parent);
	none("near.handler");
}

/* One of the two has a second thread, which could write. */
static NOINLINE void idle(struct actor *me)
{
	(void)me;
	rest("near.second-thread");
}

static void reader_of_two(void *argument)
{
	start(idle, "", NULL, NULL);
	first_reader(argument);
}

static void make_near_threads(const char *unused)
{
	struct ends ends = pipe_ends();

	(void)unused;
	start_child(reader_of_two, &ends);
	start_child(second_reader, &ends);
	close_ends(&ends);
	none("near.threads");
}

/* Whoever has the mutex waits for a condition, which anybody could signal. */
static pthread_mutex_t near_mutex, other_mutex;
static pthread_cond_t near_condition = PTHREAD_COND_INITIALIZER;

static NOINLINE void wait_with_mutex(struct actor *me)
{
	pthread_mutex_lock(&near_mutex);
	pthread_mutex_lock(&other_mutex);
	truth("near.condition", "'kind':'condition'");
	me->number = 1;
	for (;;)
		pthread_cond_wait(&near_condition, &other_mutex);
}

static NOINLINE void want_near(struct actor *me)
{
	truth("near.mutex", "'kind':'mutex','address':'%p','owner':%d", me->object, me->other->tid);
	pthread_mutex_lock(me->object);
}

static void make_near_condition(const char *unused)
{
	struct actor *holder;

	(void)unused;
	make_mutex(&near_mutex, &plain);
	make_mutex(&other_mutex, &plain);
	holder = start(wait_with_mutex, "", NULL, NULL);
	for (int i = 0; i < 3; i++)
		start(want_near, "", &near_mutex, holder);
	none("near.condition");
	truth_says("near.condition", "'blocker':%d,'blocked':3", holder->tid);
}

/* A writer waits for two readers; one of them waits for the writer's mutex, the other does not. */
static NOINLINE void read_and_want(struct actor *me)
{
	(void)me;
	pthread_rwlock_rdlock(&table);
	second_tid = own_tid();
	want_middle();
}

static NOINLINE void read_and_rest(struct actor *me)
{
	(void)me;
	pthread_rwlock_rdlock(&table);
	rest("near.reader");
}

static NOINLINE void write_with_mutex(struct actor *me)
{
	(void)me;
	pthread_mutex_lock(&middle);
	first_tid = own_tid();
	truth("near.writer", "'kind':'rwlock','readers':2,'owner':0");
	pthread_rwlock_wrlock(&table);
}

static void make_near_readers(const char *unused)
{
	(void)unused;
	make_mutex(&middle, &plain);
	start(read_and_rest, "", NULL, NULL);
	launch(read_and_want, "", NULL, NULL);
	while (!second_tid)
		sched_yield();
	start(write_with_mutex, "", NULL, NULL);
	until_truths(3);
	none("near.readers");
}

/* 17 threads at one mutex, and a chain behind them: nobody is dead. */
static void make_near_pool(const char *unused)
{
	static pthread_mutex_t pool;
	struct actor *holder;

	(void)unused;
	make_mutex(&pool, &plain);
	holder = start(hold_mutex, "", &pool, NULL);
	for (int i = 0; i < 17; i++)
		start(want_near, "", &pool, holder);
	none("near.pool");
	truth_says("near.pool", "'blocker':%d,'blocked':17", holder->tid);
	truth_says("near.pool", "'contended':'%p','waiters':17", (void *)&pool);
}

int main(int argc, char **argv)
{
	static const struct truth_mode modes[] = {
		{ "two", make_two },
		{ "ring", make_ring },
		{ "timed", make_timed },
		{ "churn", make_churn },
		{ "self", make_self },
		{ "pair", make_pair },
		{ "pipe", make_pipe },
		{ "unix", make_unix },
		{ "tcp", make_tcp },
		{ "own", make_own },
		{ "child", make_child },
		{ "shared", make_shared },
		{ "flock", make_flock },
		{ "near-pipe", make_near_pipe },
		{ "near-threads", make_near_threads },
		{ "near-handler", make_near_handler },
		{ "near-condition", make_near_condition },
		{ "near-readers", make_near_readers },
		{ "near-pool", make_near_pool },
		{ NULL, NULL },
	};

	(void)argc;
	return truth_main(modes, argv);
}
