/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Never the same for long: churn relay | join | fork | crowd | swarm | exec | hold | maps.
 *
 * relay: each thread starts its successor and ends. join: threads are made and joined. fork:
 * children that end at once. exec: a thread that is not the leader executes the program again.
 * hold: the same, while threads that no tracer follows (CLONE_UNTRACED) start successors and end.
 * crowd: twenty children with 2000 mappings at a time, each for 20 ms. swarm: the same with threads that come fifty at a
 * time, every 5 ms. maps: mappings come and go among 2000 others.
 */
#include "victim.h"

#include <sched.h>
#include <sys/mman.h>

static atomic_ulong turns;

static void *relay_main(void *unused)
{
	pthread_attr_t detached;
	pthread_t next;

	turns++;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&detached, 64 << 10);
	while (pthread_create(&next, &detached, relay_main, unused))
		sched_yield();
	return NULL;
}

static void *nothing_main(void *unused)
{
	turns++;
	return unused;
}

static void *join_main(void *unused)
{
	for (;;)
		pthread_join(victim_thread(nothing_main, unused, 64 << 10), NULL);
	return NULL;
}

static void *fork_main(void *unused)
{
	for (;;) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
		turns++;
	}
	return unused;
}

static void wait_ms(int milliseconds)
{
	struct timespec pause = { 0, milliseconds * 1000000 };

	nanosleep(&pause, NULL);
}

static void *crowd_main(void *unused)
{
	for (int children = 0;; turns++) {
		for (; children < 20; children++)
			if (fork() == 0) {
				wait_ms(20);
				_exit(0);
			}
		while (children > 10 && wait(NULL) > 0)
			children--;
	}
	return unused;
}

static void *wait_main(void *unused)
{
	wait_ms(20);
	return unused;
}

static void *swarm_main(void *unused)
{
	pthread_attr_t detached;
	pthread_t thread;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&detached, 64 << 10);
	for (;; turns++) {
		for (int i = 0; i < 50; i++)
			pthread_create(&thread, &detached, wait_main, unused);
		wait_ms(5);
	}
	return unused;
}

static void *maps_main(void *unused)
{
	for (;;) {
		void *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		munmap(page, 8192);
		turns++;
	}
	return unused;
}

static void *exec_main(void *argument)
{
	char **argv = argument;
	struct timespec pause = { 0, 2000000 };

	nanosleep(&pause, NULL);
	execv("/proc/self/exe", argv);
	_exit(1);
}

static int untraced_main(void *unused)
{
	enum { STACKS = 64, BYTES = 1 << 14 };
	static char stacks[STACKS][BYTES];
	static atomic_uint next;
	struct timespec pause = { 0, 200000 };

	nanosleep(&pause, NULL);
	turns++;
	clone(untraced_main, stacks[next++ % STACKS] + BYTES,
	      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
		      CLONE_UNTRACED,
	      unused);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "relay";
	static char mark[] = "again";
	char *again[] = { argv[0], argv[1], mark, NULL };

	if (!strcmp(mode, "maps") || !strcmp(mode, "crowd"))
		for (int i = 0; i < 2000; i++)
			mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	if (!strcmp(mode, "relay"))
		victim_thread(relay_main, NULL, 0);
	else if (!strcmp(mode, "join"))
		victim_thread(join_main, NULL, 0);
	else if (!strcmp(mode, "fork"))
		victim_thread(fork_main, NULL, 0);
	else if (!strcmp(mode, "crowd"))
		victim_thread(crowd_main, NULL, 0);
	else if (!strcmp(mode, "swarm"))
		victim_thread(swarm_main, NULL, 0);
	else if (!strcmp(mode, "maps"))
		victim_thread(maps_main, NULL, 0);
	else if (!strcmp(mode, "exec"))
		victim_thread(exec_main, again, 0);
	for (int i = 0; i < 4 && !strcmp(mode, "hold"); i++)
		untraced_main(NULL);
	if (strcmp(mode, "exec"))
		while (turns < 10)
			sched_yield();
	if (argc < 3)
		victim_ready("%s", mode);
	if (!strcmp(mode, "hold"))
		victim_thread(exec_main, again, 0);
	victim_hold();
}
