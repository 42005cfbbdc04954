/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One baton goes round a ring of threads: baton COUNT. A thread has it in holds_baton(), which it has
 * left before it hands it on; so at no instant two threads are in there. It is handed on by a condition
 * variable, a pipe, an eventfd or a signal, in turns. The holder has `lock`, for which other threads wait.
 */
#include "victim.h"

#include <sched.h>
#include <sys/eventfd.h>

enum { MOST = 256, HANDS = 4, SPIN = 3000, LOCKERS = 4 };

static struct place {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool given;
	int pipe[2], event;
} places[MOST];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int count;

static void give(int to)
{
	struct place *place = &places[to];
	uint64_t one = 1;

	switch (to % HANDS) {
	case 0:
		pthread_mutex_lock(&place->mutex);
		place->given = true;
		pthread_cond_signal(&place->cond);
		pthread_mutex_unlock(&place->mutex);
		break;
	case 1:
		if (write(place->pipe[1], "b", 1) != 1)
			abort();
		break;
	case 2:
		if (write(place->event, &one, sizeof(one)) != sizeof(one))
			abort();
		break;
	case 3:
		pthread_kill(place->thread, SIGUSR1);
		break;
	}
}

static void take(int me)
{
	struct place *place = &places[me];
	sigset_t wanted;
	uint64_t value;
	char byte;
	int number;

	switch (me % HANDS) {
	case 0:
		pthread_mutex_lock(&place->mutex);
		while (!place->given)
			pthread_cond_wait(&place->cond, &place->mutex);
		place->given = false;
		pthread_mutex_unlock(&place->mutex);
		break;
	case 1:
		while (read(place->pipe[0], &byte, 1) != 1)
			;
		break;
	case 2:
		while (read(place->event, &value, sizeof(value)) != sizeof(value))
			;
		break;
	case 3:
		sigemptyset(&wanted);
		sigaddset(&wanted, SIGUSR1);
		while (sigwait(&wanted, &number))
			;
		break;
	}
}

static NOINLINE void holds_baton(int me)
{
	pthread_mutex_lock(&lock);
	for (volatile int i = 0; i < (me % 7) * SPIN; i++)
		;
	if (me % 3 == 0)
		usleep(50);
	if (me % 5 == 0)
		sched_yield();
	pthread_mutex_unlock(&lock);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

static void *baton_main(void *argument)
{
	int me = (int)(intptr_t)argument;

	for (;;) {
		take(me);
		holds_baton(me);
		give((me + 1) % count);
	}
	return NULL;
}

static void *locker_main(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		usleep(100);
	}
	return unused;
}

int main(int argc, char **argv)
{
	sigset_t usr1;

	count = argc > 1 ? atoi(argv[1]) : 16;
	count = count < MOST ? count : MOST;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	for (int i = 0; i < count; i++) {
		pthread_mutex_init(&places[i].mutex, NULL);
		pthread_cond_init(&places[i].cond, NULL);
		places[i].event = eventfd(0, 0);
		if (pipe(places[i].pipe) || places[i].event < 0)
			return 1;
		places[i].thread = victim_thread(baton_main, (void *)(intptr_t)i, 0);
	}
	for (int i = 0; i < LOCKERS; i++)
		victim_thread(locker_main, NULL, 0);
	give(0);
	victim_ready("threads=%d", count + LOCKERS + 1);
	victim_hold();
	return 0;
}
