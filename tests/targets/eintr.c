/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One thread a blocking call that the kernel restarts after a stop; counts the calls that came back
 * all the same. A line on standard input asks for the counts. With an argument there are threads in
 * calls that a stop does end, too.
 */
#include "victim.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

static sem_t empty;
static int ends[2];
static atomic_int in_position;
static atomic_int came_back[8];
static int no_events;

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
static sigset_t never_sent;
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

CALL(6, epoll_wait, epoll_wait(no_events, &(struct epoll_event){ 0 }, 1, -1))
CALL(7, sigtimedwait, sigtimedwait(&never_sent, NULL, &hour))

int main(int argc, char **argv)
{
	void *(*const all[])(
		void *) = { poll_main, select_main, nanosleep_main,  sem_wait_main,
			    recv_main, pause_main,  epoll_wait_main, sigtimedwait_main };
	int count = argc > 1 ? 8 : 6;
	char line[16];

	(void)argv;
	sem_init(&empty, 0, 0);
	sigemptyset(&never_sent);
	sigaddset(&never_sent, SIGUSR2);
	no_events = epoll_create1(EPOLL_CLOEXEC);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		victim_cannot("socketpair");
	for (int i = 0; i < count; i++)
		victim_thread(all[i], NULL, 0);
	while (in_position < count)
		sched_yield();
	victim_ready("eintr");
	while (read(STDIN_FILENO, line, sizeof(line)) > 0) {
		printf("poll=%d select=%d nanosleep=%d sem_wait=%d recv=%d pause=%d "
		       "epoll_wait=%d sigtimedwait=%d\n",
		       came_back[0], came_back[1], came_back[2], came_back[3], came_back[4],
		       came_back[5], came_back[6], came_back[7]);
		fflush(stdout);
	}
	return 0;
}
