/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signals that a process is sent while it is looked at: each arrives once, queued ones in order,
 * and its parent hears of no stop. Real-time signals go to the process and to its threads; SIGUSR1,
 * which is not queued, is sent again only after it has arrived. In the last experiment the tool or
 * its tracer is ended while the process is traced, beside neighbours that hold a tracer; half of the
 * runs are recordings, --watch, and top on a terminal, which are ended at any moment.
 */
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BATCH = 10,      /* of each queue at once */
	PAUSE_US = 1500, /* between batches: so there are many snapshots meanwhile */
	COMPUTES = 128,  /* one thread in so many, the first one among them */
	MOST_QUEUED = 500,
	SETTLE_MS = 10000,
	PATIENCE_US = 2000000, /* for a signal that may be lost */
	ENOUGH_LOST = 3,
	MOST_THREADS = 300,
	RUNS_A_THOUSAND = 20, /* that are ended, of a thousand signals */
	AIM_US = 20000,       /* from the first look that finds a tracer */
	LASTS_US = 600000,    /* the life of what does not end by itself */
};

/* The process has one queue, and each thread another; so signals to each have an order. */
struct queue {
	volatile long sent, counted, disorder, expected;
	volatile pid_t worker;
};

static struct shared {
	struct queue queues[1 + MOST_THREADS]; /* the first is that of the process */
	size_t threads;
	bool ended;         /* runs are ended, and neighbours hold the tracer */
	const char *folder; /* of the tests' programs */
	volatile long sent, usr1_sent, usr1_counted, usr1_lost;
	volatile bool ready, enough, over;
} * shared;

static __thread struct queue *own;

static void note(struct queue *queue, int value)
{
	if (value != queue->expected)
		queue->disorder++;
	queue->expected = value + 1;
	queue->counted++;
}

static void on_queued(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	note(own, info->si_value.sival_int);
}

static void on_usr1(int number)
{
	(void)number;
	__atomic_fetch_add(&shared->usr1_counted, 1, __ATOMIC_RELAXED);
}

/* A third of the time on a processor, the rest asleep: signals and stops meet it in both. */
static void live(void)
{
	for (;;) {
		int64_t until = soak_now() + 300000;

		while (soak_now() < until)
			;
		soak_sleep_us(600);
	}
}

static void block(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Most sleep: more that compute would leave no processor to the tool. */
static void *worker_main(void *queue)
{
	own = queue;
	block(SIGRTMIN + 1);
	own->worker = (pid_t)syscall(SYS_gettid);
	if ((own - shared->queues) % COMPUTES == 1)
		live();
	for (;;)
		pause();
	return queue;
}

/* A child that holds a tracer, while this process lives. */
static void start_neighbour(const char *name, const char *mode)
{
	char path[PATH_MAX];
	int ends[2];

	snprintf(path, sizeof(path), "%s/../targets/%s", shared->folder, name);
	if (pipe2(ends, O_CLOEXEC) || fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(ends[0], STDIN_FILENO);
	execl(path, path, mode, "again", NULL);
	_exit(1);
}

static void victim_main(void)
{
	struct sigaction queued = { .sa_sigaction = on_queued,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction usr1 = { .sa_handler = on_usr1, .sa_flags = SA_RESTART };
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (shared->ended) {
		start_neighbour("churn", "hold");
		start_neighbour("churn", "hold");
		start_neighbour("vforker", "again");
	}
	own = &shared->queues[0];
	sigaction(SIGRTMIN + 1, &queued, NULL);
	sigaction(SIGRTMIN + 2, &queued, NULL);
	sigaction(SIGUSR1, &usr1, NULL);
	for (size_t i = 1; i <= shared->threads; i++) {
		if (pthread_create(&thread, NULL, worker_main, &shared->queues[i]))
			_exit(1);
		while (!shared->queues[i].worker)
			soak_sleep_us(100);
	}
	block(SIGRTMIN + 2);
	shared->ready = true;
	live();
}

/* To the process, or to a thread; waits while the queue is long. */
static void send_queued(pid_t target, size_t which)
{
	struct queue *queue = &shared->queues[which];
	siginfo_t info = { .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_value.sival_int = (int)queue->sent;
	for (int i = 0; queue->sent - queue->counted > MOST_QUEUED && i < PATIENCE_US / 100; i++)
		soak_sleep_us(100);
	while (which ? syscall(SYS_rt_tgsigqueueinfo, target, queue->worker, SIGRTMIN + 2, &info)
		     : syscall(SYS_rt_sigqueueinfo, target, SIGRTMIN + 1, &info)) {
		if (errno != EAGAIN)
			_exit(1);
		soak_sleep_us(100);
	}
	queue->sent++;
	shared->sent++;
}

static void send_usr1(pid_t target)
{
	for (int i = 0; shared->usr1_counted + shared->usr1_lost < shared->usr1_sent; i++) {
		if (i == PATIENCE_US / 20)
			shared->usr1_lost++;
		soak_sleep_us(20);
	}
	shared->usr1_sent++;
	kill(target, SIGUSR1);
}

/* Every other signal goes to one that computes, as these are stopped by a look. */
static size_t thread_of(long turn)
{
	size_t number = (size_t)turn % shared->threads;

	return 1 + (turn % 2 ? number : number / COMPUTES * COMPUTES);
}

static void sender_main(pid_t target, long count)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((shared->sent < count || !shared->enough) && shared->usr1_lost < ENOUGH_LOST) {
		for (long i = 0; i < BATCH; i++) {
			send_queued(target, 0);
			send_queued(target, thread_of(shared->queues[0].sent));
		}
		/* One in ten of all. */
		for (int i = 0; i < 2 * BATCH / 10; i++) {
			send_usr1(target);
		}
		soak_sleep_us(PAUSE_US);
	}
	shared->over = true;
	_exit(0);
}

static long sum_counted(void)
{
	long counted = 0;

	for (size_t i = 0; i <= shared->threads; i++)
		counted += shared->queues[i].counted;
	return counted;
}

static bool has_settled(void)
{
	return shared->usr1_counted == shared->usr1_sent && sum_counted() == shared->sent;
}

struct totals {
	long queued, usr1, lost, disorder, runs, stops, continues;
};

static void add_up(struct totals *totals, const char *what, const struct soak_victim *victim,
		   long runs)
{
	long counted = sum_counted(), disorder = 0;

	for (size_t i = 0; i <= shared->threads; i++)
		disorder += shared->queues[i].disorder;
	if (shared->sent != counted || disorder)
		soak_bad("%s: of %ld queued signals %ld came, %ld out of order", what, shared->sent,
			 counted, disorder);
	if (shared->usr1_sent != shared->usr1_counted)
		soak_bad("%s: of %ld SIGUSR1 %ld came", what, shared->usr1_sent,
			 shared->usr1_counted);
	if (victim->stops || victim->continues)
		soak_bad("%s: the parent heard of %ld stops and %ld continues", what, victim->stops,
			 victim->continues);
	totals->queued += shared->sent;
	totals->usr1 += shared->usr1_sent;
	totals->lost += shared->sent - counted + shared->usr1_sent - shared->usr1_counted;
	totals->disorder += disorder;
	totals->runs += runs;
	totals->stops += victim->stops;
	totals->continues += victim->continues;
}

static void report(const struct totals *totals)
{
	soak_figure("queued", totals->queued);
	soak_figure("usr1", totals->usr1);
	soak_figure("lost", totals->lost);
	soak_figure("disorder", totals->disorder);
	soak_figure("runs", totals->runs);
	soak_figure("stops_seen", totals->stops);
	soak_figure("continues_seen", totals->continues);
}

static pid_t start(void (*body)(pid_t target, long count), pid_t target, long count)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (body)
			body(target, count);
		victim_main();
	}
	return pid;
}

static void look_to_end(const struct soak *soak, struct soak_victim *victim,
			const char *const *words)
{
	struct soak_run run = soak_start(soak, words, -1);
	int status = soak_wait(&run);
	char *err = soak_text(run.err);

	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		soak_bad("status %#x: %s", status, err);
	soak_listen(victim);
	free(err);
	soak_close(&run);
}

static bool is_made_by(pid_t pid, const struct soak_run *run)
{
	pid_t pids[SOAK_MAX_PIDS];
	size_t count = soak_descendants(run->pid, pids, SOAK_MAX_PIDS);

	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static pid_t find_tracer(const struct soak_run *run)
{
	pid_t pids[SOAK_MAX_PIDS];
	size_t count = soak_descendants(run->pid, pids, SOAK_MAX_PIDS);
	char name[16];

	for (size_t i = 0; i < count; i++) {
		soak_comm(pids[i], name);
		if (strcmp(name, "snap-tracer") == 0)
			return pids[i];
	}
	return 0;
}

/* How a run is ended while the last thread is traced; `number` 0: by itself. */
struct ending {
	const char *name;
	int number;
	bool tracer; /* the tracer alone gets the signal */
	const char *word;
};

enum way { SNAPSHOT, RECORD, WATCH, TOP, WAYS };

/* A terminal, from which a child reads what comes, while it is open. */
static int open_terminal(void)
{
	int keeper = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), terminal;
	char text[4096];

	if (keeper < 0 || grantpt(keeper) || unlockpt(keeper))
		soak_broken("posix_openpt");
	terminal = open(ptsname(keeper), O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(terminal);
		while (read(keeper, text, sizeof(text)) > 0)
			;
		_exit(0);
	}
	close(keeper);
	return terminal;
}

static bool end_once(const struct soak *soak, struct soak_victim *victim,
		     const struct ending *ending, enum way way)
{
	const char *pid = soak_number(victim->pid);
	const char *const arguments[WAYS][8] = {
		[SNAPSHOT] = { "-q", "-p", pid, ending->word },
		[RECORD] = { "record", "-d", "300ms", "--hz", "200", pid },
		[WATCH] = { "-q", "--watch", "--every", "100ms", "-p", pid },
		[TOP] = { "top", "--hz", "200", pid },
	};
	pid_t last = shared->queues[shared->threads].worker, tracer = 0;
	int terminal = way == TOP ? open_terminal() : -1;
	struct soak_run run = soak_start(soak, arguments[way], terminal);
	bool lasts = way == WATCH || way == TOP, hit = false;
	int64_t until;

	if (terminal >= 0)
		close(terminal);
	while (!lasts && ending->number && !tracer && !soak_is_over(&run))
		soak_state(victim->pid, last, &tracer);
	until = soak_now() + soak_random(lasts ? LASTS_US : AIM_US) * 1000;
	while ((tracer || lasts) && soak_now() < until)
		;
	/* They have one now and then. */
	until += LASTS_US * 1000ll;
	while (lasts && !tracer && ending->tracer && soak_now() < until)
		tracer = find_tracer(&run);
	if (lasts && !ending->tracer)
		hit = kill(run.pid, ending->number) == 0;
	else if (tracer && is_made_by(tracer, &run))
		hit = kill(ending->tracer ? tracer : run.pid, ending->number) == 0;
	/* These two do not end by themselves. */
	if (lasts && (!hit || ending->tracer))
		kill(run.pid, SIGTERM);
	soak_wait(&run);
	soak_listen(victim);
	soak_close(&run);
	return hit || !ending->number;
}

static struct soak_victim begin(const struct soak *soak, pid_t *sender_ret, bool ended)
{
	struct soak_victim victim = { .pid = 0 };

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		soak_broken("mmap");
	shared->threads = ended ? MOST_THREADS : 1;
	shared->ended = ended;
	shared->folder = soak->tests;
	shared->enough = !ended;
	victim.pid = start(NULL, 0, 0);
	while (!shared->ready)
		soak_sleep_us(100);
	*sender_ret = start(sender_main, victim.pid, soak->count);
	return victim;
}

static void finish(struct soak_victim *victim, pid_t sender, const char *what,
		   struct totals *totals, long runs)
{
	int64_t until;

	waitpid(sender, NULL, 0);
	until = soak_now() + SETTLE_MS * 1000000ll;
	while (!has_settled() && soak_now() < until)
		soak_sleep_us(1000);
	soak_listen(victim);
	add_up(totals, what, victim, runs);
	kill(victim->pid, SIGKILL);
	waitpid(victim->pid, NULL, 0);
	munmap(shared, sizeof(*shared));
}

void soak_signals(const struct soak *soak, bool record)
{
	struct totals totals = { 0 };
	pid_t sender;
	struct soak_victim victim = begin(soak, &sender, false);
	const char *pid = soak_number(victim.pid);
	const char *const snapshot[] = { "-q", "-p", pid, NULL };
	const char *const recording[] = { "record", "-d", "300ms", "--hz", "997", pid, NULL };
	long runs = 0;

	for (; !shared->over; runs++)
		look_to_end(soak, &victim, record ? recording : snapshot);
	finish(&victim, sender, record ? "recordings" : "snapshots", &totals, runs);
	report(&totals);
}

void soak_signals_ended(const struct soak *soak)
{
	static const struct ending endings[] = {
		{ "SIGINT", SIGINT, false, NULL },
		{ "SIGTERM", SIGTERM, false, NULL },
		{ "SIGKILL", SIGKILL, false, NULL },
		{ "SIGKILL of the tracer", SIGKILL, true, NULL },
		{ "--stop-timeout", 0, false, "--stop-timeout=20" },
	};
	/* About one in three finds the tracer: with four tries each, one round in twelve had too few. */
	enum { TRIES = 10 };
	long wanted = soak->count * RUNS_A_THOUSAND / 1000 + 1, ways[WAYS] = { 0 };
	struct totals totals = { 0 };

	setenv("TERM", "xterm", true);
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(endings); i++) {
		pid_t sender;
		struct soak_victim victim = begin(soak, &sender, true);
		long ended = 0;

		/* Half of them are others than snapshots, which have no such timeout. */
		for (long turn = 0; !shared->over; turn++) {
			enum way way = turn % 2 ? 1 + turn / 2 % (WAYS - 1) : SNAPSHOT;

			if (!endings[i].number)
				way = SNAPSHOT;
			if (end_once(soak, &victim, &endings[i], way)) {
				ended++;
				ways[way]++;
			}
			shared->enough = ended >= wanted || turn >= TRIES * wanted;
		}
		if (ended < wanted)
			soak_bad("%s: only %ld of %ld came in time", endings[i].name, ended,
				 wanted);
		finish(&victim, sender, endings[i].name, &totals, ended);
	}
	report(&totals);
	soak_figure("watches", ways[WATCH]);
	soak_figure("tops", ways[TOP]);
}
