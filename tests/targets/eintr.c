/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One thread a blocking call that the kernel restarts after a stop; counts the calls that came back
 * all the same. A line on standard input asks for the counts.
 */
#include "victim.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/select.h>
#include <sys/socket.h>

static sem_t empty;
static int ends[2];
static atomic_int in_position;
static atomic_int came_back[6];

#define CALL(index, name, call)                     \
	static void *name##_main(void *unused)      \
	{                                           \
		prctl(PR_SET_NAME, #name, 0, 0, 0); \
		in_position++;                      \
		for (;;) {                          \
			call;                       \
			came_back[index]++;         \
		}                                   \
		return unused;                      \
	}

static char scratch;
static struct timespec hour = { 3600, 0 };
static void one_select(void)
{
	struct timeval long_time = { 3600, 0 };
	fd_set none;

	FD_ZERO(&none);
	select(0, &none, NULL, NULL, &long_time);
}

CALL(0, poll, poll(NULL, 0, 3600000))
CALL(1, select, one_select())
CALL(2, nanosleep, nanosleep(&hour, NULL))
CALL(3, sem_wait, sem_wait(&empty))
CALL(4, recv, if (recv(ends[0], &scratch, 1, 0)){})
CALL(5, pause, sigsuspend(&(sigset_t){ 0 }))

int main(void)
{
	void *(*const all[])(void *) = { poll_main,     select_main, nanosleep_main,
					 sem_wait_main, recv_main,   pause_main };
	char line[16];

	sem_init(&empty, 0, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		victim_cannot("socketpair");
	for (size_t i = 0; i < 6; i++)
		victim_thread(all[i], NULL, 0);
	while (in_position < 6)
		sched_yield();
	victim_ready("eintr");
	while (read(STDIN_FILENO, line, sizeof(line)) > 0) {
		printf("poll=%d select=%d nanosleep=%d sem_wait=%d recv=%d pause=%d\n",
		       came_back[0], came_back[1], came_back[2], came_back[3], came_back[4],
		       came_back[5]);
		fflush(stdout);
	}
	return 0;
}
