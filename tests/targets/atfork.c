/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process that is forked while its parent has a lock: atfork [copy]. A second thread waits for the
 * lock, and so does the first one, or else (copy) it could release what its copy has locked.
 */
#include "victim.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

NOINLINE static void *wants_lock(void *argument)
{
	pthread_mutex_lock(&lock);
	return argument;
}

int main(int argc, char **argv)
{
	bool is_copy = argc > 1 && strcmp(argv[1], "copy") == 0;
	pid_t child;

	pthread_mutex_lock(&lock);
	child = fork();
	if (child == 0) {
		victim_thread(wants_lock, NULL, 0);
		if (is_copy)
			pause();
		wants_lock(NULL);
	}
	victim_ready("child=%d", (int)child);
	victim_hold();
	return 0;
}
