/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The victim that counts: see soak.h. */
#include "soak.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEAD_LOOKS = 50 };

/* In memory that both see. */
struct shared {
	volatile unsigned long counters[SOAK_THREADS][8];
	volatile pid_t tids[SOAK_THREADS];
};

static struct shared *shared;
static int there[2], back[2]; /* pipes between two of the threads */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void sleeps(volatile unsigned long *counter)
{
	soak_sleep_us(1000);
	++*counter;
}

static void polls(volatile unsigned long *counter)
{
	poll(NULL, 0, 1);
	++*counter;
}

static void asks(volatile unsigned long *counter)
{
	char byte = 'x';

	while (write(there[1], &byte, 1) < 0 && errno == EINTR)
		;
	while (read(back[0], &byte, 1) < 0 && errno == EINTR)
		;
	++*counter;
	soak_sleep_us(500);
}

static void answers(volatile unsigned long *counter)
{
	char byte = 'x';

	while (read(there[0], &byte, 1) < 0 && errno == EINTR)
		;
	++*counter;
	while (write(back[1], &byte, 1) < 0 && errno == EINTR)
		;
}

/* Half of the time, as the machine may have work besides. */
static void computes(volatile unsigned long *counter)
{
	int64_t until = soak_now() + 300000;

	while (soak_now() < until)
		++*counter;
	soak_sleep_us(300);
}

static void waits(volatile unsigned long *counter)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&lock);
	pthread_cond_timedwait(&never, &lock, &until);
	pthread_mutex_unlock(&lock);
	++*counter;
}

static void (*const ways[SOAK_THREADS])(volatile unsigned long *counter) = {
	sleeps, polls, asks, answers, computes, waits,
};

static void *thread_main(void *number)
{
	uintptr_t own = (uintptr_t)number;

	shared->tids[own] = (pid_t)syscall(SYS_gettid);
	for (;;)
		ways[own](shared->counters[own]);
	return NULL;
}

static void victim_main(pid_t parent)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_NAME, "soak-victim");
	if (getppid() != parent || pipe(there) || pipe(back))
		_exit(1);
	for (uintptr_t i = 1; i < SOAK_THREADS; i++)
		if (pthread_create(&thread, NULL, thread_main, (void *)i))
			_exit(1);
	thread_main(NULL);
}

struct soak_victim soak_victim_start(void)
{
	struct soak_victim victim = { .pid = 0 };
	pid_t self = getpid();

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		soak_broken("mmap");
	fflush(stdout);
	victim.pid = fork();
	if (victim.pid == 0)
		victim_main(self);
	for (size_t i = 0; i < SOAK_THREADS; i++)
		while (!shared->tids[i] || !shared->counters[i][0]) {
			if (waitpid(victim.pid, NULL, WNOHANG))
				soak_broken("the victim did not start");
			soak_sleep_us(100);
		}
	for (size_t i = 0; i < SOAK_THREADS; i++)
		victim.tids[i] = shared->tids[i];
	victim.counters = shared->counters;
	return victim;
}

void soak_victim_end(struct soak_victim *victim)
{
	kill(victim->pid, SIGKILL);
	waitpid(victim->pid, NULL, 0);
	munmap(shared, sizeof(*shared));
}

/* The first thread that is stopped or traced; 0: none. */
static pid_t held(const struct soak_victim *victim, char *state_ret, pid_t *tracer_ret)
{
	for (size_t i = 0; i < SOAK_THREADS; i++) {
		*state_ret = soak_state(victim->pid, victim->tids[i], tracer_ret);
		if (!*state_ret || *state_ret == 'T' || *state_ret == 't' || *tracer_ret)
			return victim->tids[i];
	}
	return 0;
}

static void expect_not_held(const struct soak_victim *victim, struct soak_rest *rest,
			    const char *what)
{
	int64_t start = soak_now(), until = start + SOAK_GONE_MS * 1000000ll;
	char state;
	pid_t tid, tracer;

	while ((tid = held(victim, &state, &tracer)) && soak_now() < until)
		soak_sleep_us(100);
	if (tid)
		soak_bad("%s: thread %d is in state '%c', traced by %d", what, tid, state, tracer);
	else if ((soak_now() - start) / 1000 > rest->free_us_max)
		rest->free_us_max = (soak_now() - start) / 1000;
}

/* The first counter that is where it was; SOAK_THREADS: none. */
static size_t resting(const struct soak_victim *victim, const unsigned long *before)
{
	for (size_t i = 0; i < SOAK_THREADS; i++)
		if (victim->counters[i][0] == before[i])
			return i;
	return SOAK_THREADS;
}

static bool is_runnable(const struct soak_victim *victim)
{
	pid_t tracer;

	for (size_t i = 0; i < SOAK_THREADS; i++)
		if (soak_state(victim->pid, victim->tids[i], &tracer) == 'R')
			return true;
	return false;
}

/*
 * Past the time, threads that could run wait for a processor, and others for them: that is the
 * machine's matter. Where none could, somebody holds them.
 */
static void expect_moves(const struct soak_victim *victim, struct soak_rest *rest, const char *what)
{
	int64_t start = soak_now(), late = start + SOAK_MOVE_MS * 1000000ll;
	int64_t until = start + 50 * SOAK_MOVE_MS * 1000000ll;
	unsigned long before[SOAK_THREADS];
	size_t i, dead_looks = 0;

	for (i = 0; i < SOAK_THREADS; i++)
		before[i] = victim->counters[i][0];
	while ((i = resting(victim, before)) < SOAK_THREADS && soak_now() < until) {
		if (soak_now() > late)
			dead_looks = is_runnable(victim) ? 0 : dead_looks + 1;
		if (dead_looks == DEAD_LOOKS)
			soak_bad("%s: thread %zu stands still", what, i);
		soak_sleep_us(100);
	}
	if (i < SOAK_THREADS)
		soak_bad("%s: thread %zu does not move any more", what, i);
	else if (soak_now() > late)
		rest->delayed++;
	else if ((soak_now() - start) / 1000 > rest->move_us_max)
		rest->move_us_max = (soak_now() - start) / 1000;
}

void soak_listen(struct soak_victim *victim)
{
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)victim->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) ||
		    !info.si_pid)
			return;
		if (info.si_code == CLD_CONTINUED)
			victim->continues++;
		else
			victim->stops++;
	}
}

void soak_expect_free(struct soak_victim *victim, struct soak_rest *rest, const char *what)
{
	expect_not_held(victim, rest, what);
	expect_moves(victim, rest, what);
	soak_listen(victim);
	if (victim->stops || victim->continues)
		soak_bad("%s: the parent was told of %ld stops and %ld continues", what,
			 victim->stops, victim->continues);
}

void soak_report_rest(const struct soak_rest *rest)
{
	soak_figure("free_us_max", rest->free_us_max);
	soak_figure("move_us_max", rest->move_us_max);
	soak_figure("delayed_by_the_machine", rest->delayed);
}
