/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A pool of 18 workers. One of them refreshes a cache, has the cache's lock, and asks a database that does
 * not answer. One by one the others come to need the cache; soon none is left for work. `pool calm`: there
 * is no work yet.
 */
#include "incident.h"

#include <signal.h>
#include <sys/socket.h>

enum { WORKERS = 18 };

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static int jobs, prices[64];
static int database;

static void ask_database(int key)
{
	if (send(database, &key, sizeof(key), MSG_NOSIGNAL) < 0)
		perror("send");
	if (recv(database, &prices[key], sizeof(prices[key]), 0) < 0)
		perror("recv");
}

static int price_of(int key)
{
	int price;

	pthread_mutex_lock(&cache_lock);
	if (prices[key] == 0)
		ask_database(key);
	price = prices[key];
	pthread_mutex_unlock(&cache_lock);
	return price;
}

static int next_job(void)
{
	pthread_mutex_lock(&queue_lock);
	while (jobs == 0)
		pthread_cond_wait(&queue_filled, &queue_lock);
	jobs--;
	pthread_mutex_unlock(&queue_lock);
	return jobs % 64;
}

static void *work(void *argument)
{
	char name[16];

	snprintf(name, sizeof(name), "worker-%d", (int)(size_t)argument);
	call_oneself(name);
	for (;;)
		price_of(next_job());
}

/* It takes questions and never answers. */
static void be_database(int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	call_oneself("database");
	for (int key; read(fd, &key, sizeof(key)) > 0;)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
		perror("socketpair");
		return 1;
	}
	database = pair[0];
	if (fork() == 0) {
		close(pair[0]);
		be_database(pair[1]);
	}
	close(pair[1]);
	for (size_t i = 0; i < WORKERS; i++)
		start(work, (void *)i);
	if (argc > 1 && strcmp(argv[1], "calm") == 0) {
		until_asleep(WORKERS, SYS_futex, -1);
		return live();
	}
	pthread_mutex_lock(&queue_lock);
	jobs = 1000;
	pthread_cond_broadcast(&queue_filled);
	pthread_mutex_unlock(&queue_lock);
	until_asleep(1, SYS_recvfrom, -1);
	until_asleep(WORKERS - 1, SYS_futex, (long)&cache_lock);
	return live();
}
