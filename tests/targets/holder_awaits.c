/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread that holds a mutex waits for its child, which sleeps in a child of its own; another thread
 * waits for the mutex. "ready" has the pids of child and grandchild.
 */
#include "victim.h"

#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int numbers[2];

static pid_t start_child(void (*work)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	work();
	_exit(0);
}

static void sleep_long(void)
{
	for (;;)
		sleep(1000);
}

static void wait_for_grandchild(void)
{
	pid_t pid = start_child(sleep_long);

	if (write(numbers[1], &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	waitpid(pid, NULL, 0);
}

static void *holder_main(void *child)
{
	pthread_mutex_lock(&mutex);
	*(pid_t *)child = start_child(wait_for_grandchild);
	waitpid(*(pid_t *)child, NULL, 0);
	return NULL;
}

static void *waiter_main(void *unused)
{
	pthread_mutex_lock(&mutex);
	return unused;
}

int main(void)
{
	pid_t child = 0, grandchild;

	if (pipe(numbers))
		victim_cannot("pipe");
	victim_thread(holder_main, &child, 0);
	if (read(numbers[0], &grandchild, sizeof(grandchild)) != sizeof(grandchild))
		victim_cannot("read");
	victim_thread(waiter_main, NULL, 0);
	victim_ready("child=%d grandchild=%d", child, grandchild);
	victim_hold();
}
