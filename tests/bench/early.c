/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads in blocking calls that come back with EINTR after any ptrace stop (signal(7)):
 * epoll_wait, semop, sigtimedwait. A line on standard input asks how often they did.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <unistd.h>

static atomic_int early, in_position;
static int semaphores;

static void *wait_epoll(void *unused)
{
	int fd = epoll_create1(0);
	struct epoll_event event;

	in_position++;
	while (epoll_wait(fd, &event, 1, -1) < 0 && errno == EINTR)
		early++;
	return unused;
}

static void *wait_semop(void *unused)
{
	struct sembuf down = { 0, -1, 0 };

	in_position++;
	while (semop(semaphores, &down, 1) < 0 && errno == EINTR)
		early++;
	return unused;
}

static void *wait_signal(void *unused)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	in_position++;
	while (sigtimedwait(&set, NULL, &(struct timespec){ 3600, 0 }) < 0 && errno == EINTR)
		early++;
	return unused;
}

int main(void)
{
	void *(*const all[])(void *) = { wait_epoll, wait_semop, wait_signal };
	pthread_t thread;
	char line[16];

	semaphores = semget(IPC_PRIVATE, 1, 0600);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, all[i], NULL))
			return 1;
	while (in_position < 3)
		usleep(1000);
	usleep(100000);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, line, sizeof(line)) > 0) {
		printf("%d\n", (int)early);
		fflush(stdout);
	}
	semctl(semaphores, 0, IPC_RMID);
	return 0;
}
