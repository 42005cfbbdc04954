/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signals that a process is sent while it is looked at: each arrives once, queued ones in order,
 * and its parent hears of no stop. Real-time signals go to the process and to one of its threads;
 * SIGUSR1, which is not queued, is sent again only after it has arrived.
 */
#include "soak.h"

#include <errno.h>
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
	MOST_QUEUED = 500,
	SETTLE_MS = 10000,
	PATIENCE_US = 2000000, /* for a signal that may be lost */
	ENOUGH_LOST = 3,
};

/* The process has one queue, and a thread another; so signals to each have an order. */
struct queue {
	volatile long sent, counted, disorder, expected;
};

static struct shared {
	struct queue queues[2];
	volatile long usr1_sent, usr1_counted, usr1_lost;
	volatile pid_t worker;
	volatile bool ready, over;
} * shared;

static void note(struct queue *queue, int value)
{
	if (value != queue->expected)
		queue->disorder++;
	queue->expected = value + 1;
	queue->counted++;
}

static void on_queued(int number, siginfo_t *info, void *context)
{
	(void)context;
	note(&shared->queues[number - SIGRTMIN - 1], info->si_value.sival_int);
}

static void on_usr1(int number)
{
	(void)number;
	__atomic_fetch_add(&shared->usr1_counted, 1, __ATOMIC_RELAXED);
}

/* Half of the time on a processor, half of it asleep: signals and stops meet it in both. */
static void live(void)
{
	for (;;) {
		int64_t until = soak_now() + 400000;

		while (soak_now() < until)
			;
		soak_sleep_us(300);
	}
}

static void block(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void *worker_main(void *unused)
{
	block(SIGRTMIN + 1);
	shared->worker = (pid_t)syscall(SYS_gettid);
	live();
	return unused;
}

static void victim_main(void)
{
	struct sigaction queued = { .sa_sigaction = on_queued,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction usr1 = { .sa_handler = on_usr1, .sa_flags = SA_RESTART };
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	sigaction(SIGRTMIN + 1, &queued, NULL);
	sigaction(SIGRTMIN + 2, &queued, NULL);
	sigaction(SIGUSR1, &usr1, NULL);
	if (pthread_create(&thread, NULL, worker_main, NULL))
		_exit(1);
	block(SIGRTMIN + 2);
	while (!shared->worker)
		soak_sleep_us(100);
	shared->ready = true;
	live();
}

/* To the process, or to the thread; waits while the queue is long. */
static void send_queued(pid_t target, size_t which)
{
	struct queue *queue = &shared->queues[which];
	siginfo_t info = { .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_value.sival_int = (int)queue->sent;
	for (int i = 0; queue->sent - queue->counted > MOST_QUEUED && i < PATIENCE_US / 100; i++)
		soak_sleep_us(100);
	while (which ? syscall(SYS_rt_tgsigqueueinfo, target, shared->worker, SIGRTMIN + 2, &info)
		     : syscall(SYS_rt_sigqueueinfo, target, SIGRTMIN + 1, &info)) {
		if (errno != EAGAIN)
			_exit(1);
		soak_sleep_us(100);
	}
	queue->sent++;
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

static void sender_main(pid_t target, long count)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (shared->queues[1].sent < count / 2 && shared->usr1_lost < ENOUGH_LOST) {
		for (long i = 0; i < BATCH && shared->queues[1].sent < count / 2; i++) {
			send_queued(target, 0);
			send_queued(target, 1);
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

static bool has_settled(void)
{
	return shared->usr1_counted == shared->usr1_sent &&
	       shared->queues[0].counted == shared->queues[0].sent &&
	       shared->queues[1].counted == shared->queues[1].sent;
}

static void report(const struct soak_victim *victim, long runs)
{
	long sent = shared->queues[0].sent + shared->queues[1].sent;
	long counted = shared->queues[0].counted + shared->queues[1].counted;
	long disorder = shared->queues[0].disorder + shared->queues[1].disorder;

	soak_figure("queued", sent);
	soak_figure("usr1", shared->usr1_sent);
	soak_figure("lost", sent - counted + shared->usr1_sent - shared->usr1_counted);
	soak_figure("disorder", disorder);
	soak_figure("runs", runs);
	soak_figure("stops_seen", victim->stops);
	soak_figure("continues_seen", victim->continues);
	if (sent != counted || disorder)
		soak_bad("of %ld queued signals %ld came, %ld out of order", sent, counted,
			 disorder);
	if (shared->usr1_sent != shared->usr1_counted)
		soak_bad("of %ld SIGUSR1 %ld came", shared->usr1_sent, shared->usr1_counted);
	if (victim->stops || victim->continues)
		soak_bad("the parent heard of %ld stops and %ld continues", victim->stops,
			 victim->continues);
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

static long look_until_over(const struct soak *soak, struct soak_victim *victim, bool record)
{
	const char *pid = soak_number(victim->pid);
	const char *const snapshot[] = { "-q", "-p", pid, NULL };
	const char *const recording[] = { "record", "-d", "300ms", "--hz", "997", pid, NULL };
	long runs = 0;

	while (!shared->over) {
		struct soak_run run = soak_start(soak, record ? recording : snapshot, -1);
		int status = soak_wait(&run);
		char *err = soak_text(run.err);

		if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
			soak_bad("status %#x: %s", status, err);
		soak_listen(victim);
		free(err);
		soak_close(&run);
		runs++;
	}
	return runs;
}

void soak_signals(const struct soak *soak, bool record)
{
	struct soak_victim victim = { .pid = 0 };
	int64_t until;
	pid_t sender;
	long runs;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		soak_broken("mmap");
	victim.pid = start(NULL, 0, 0);
	while (!shared->ready)
		soak_sleep_us(100);
	sender = start(sender_main, victim.pid, soak->count);
	runs = look_until_over(soak, &victim, record);
	waitpid(sender, NULL, 0);
	until = soak_now() + SETTLE_MS * 1000000ll;
	while (!has_settled() && soak_now() < until)
		soak_sleep_us(1000);
	soak_listen(&victim);
	report(&victim, runs);
	kill(victim.pid, SIGKILL);
	waitpid(victim.pid, NULL, 0);
}
