/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two processes, of which one waits for the other, which is in work_slowly():
 *
 *     waits_flow MODE
 *
 * pipe: to read; full: to write; several: to read what two others may write; threads: what one of
 * several threads may write. unix, tcp: a client that waits for its server. child, any: a parent.
 * flock:PATH, fcntl:PATH: a file. Says who is who.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[1 << 16];

__attribute__((noinline)) static void work_slowly(void)
{
	for (;;)
		usleep(1000);
}

static void *work_context(void *argument)
{
	work_slowly();
	return argument;
}

static void check(int result)
{
	if (result >= 0)
		return;
	perror("waits_flow");
	exit(1);
}

static pid_t start(void)
{
	pid_t maker = getpid(), pid = fork();

	check(pid);
	if (pid == 0) {
		check(prctl(PR_SET_PDEATHSIG, SIGKILL));
		if (getppid() != maker)
			_exit(1);
	}
	return pid;
}

/* Until its parent's standard input is closed, which ends all of them. */
static _Noreturn void stay(pid_t waiter, pid_t holder)
{
	printf("ready %d waiter=%d holder=%d\n", (int)getpid(), (int)waiter, (int)holder);
	fflush(stdout);
	while (read(STDIN_FILENO, block, 1) > 0)
		;
	_exit(0);
}

static _Noreturn void fill(int fd)
{
	for (;;)
		check((int)write(fd, block, sizeof(block)));
}

/* All but the ends that it has are closed. */
static void run_pipe(const char *mode)
{
	pid_t waiter, holder, other = 0;
	bool is_full = strcmp(mode, "full") == 0;
	int ends[2];

	check(pipe(ends));
	waiter = start();
	if (waiter == 0) {
		close(ends[!is_full]);
		if (is_full)
			fill(ends[1]);
		_exit(read(ends[0], block, 1) < 0);
	}
	holder = start();
	if (holder == 0) {
		pthread_t thread;

		close(ends[is_full]);
		if (strcmp(mode, "threads") == 0)
			check(-pthread_create(&thread, NULL, work_context, NULL));
		work_slowly();
	}
	if (strcmp(mode, "several") == 0)
		other = start();
	if (strcmp(mode, "several") == 0 && other == 0)
		work_slowly();
	close(ends[0]);
	close(ends[1]);
	stay(waiter, holder);
}

static void run_socket(const char *mode)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int ends[2] = { -1, -1 }, listener = socket(AF_INET, SOCK_STREAM, 0);
	bool is_unix = strcmp(mode, "unix") == 0;
	pid_t waiter, holder;

	check(listener);
	check(bind(listener, (struct sockaddr *)&address, size));
	check(listen(listener, 1));
	check(getsockname(listener, (struct sockaddr *)&address, &size));
	if (is_unix) {
		check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	} else {
		ends[0] = socket(AF_INET, SOCK_STREAM, 0);
		check(connect(ends[0], (struct sockaddr *)&address, size));
		ends[1] = accept(listener, NULL, NULL);
		check(ends[1]);
	}
	close(listener);
	waiter = start();
	if (waiter == 0) {
		close(ends[1]);
		_exit(recv(ends[0], block, 1, 0) < 0);
	}
	holder = start();
	if (holder == 0) {
		close(ends[0]);
		work_slowly();
	}
	close(ends[0]);
	close(ends[1]);
	stay(waiter, holder);
}

static void run_child(const char *mode)
{
	int told[2];
	pid_t waiter, holder;

	check(pipe(told));
	waiter = start();
	if (waiter == 0) {
		holder = start();
		if (holder == 0) {
			close(told[0]);
			close(told[1]);
			work_slowly();
		}
		check((int)write(told[1], &holder, sizeof(holder)));
		_exit(waitpid(strcmp(mode, "any") == 0 ? -1 : holder, NULL, 0) < 0);
	}
	check(read(told[0], &holder, sizeof(holder)) == sizeof(holder) ? 0 : -1);
	stay(waiter, holder);
}

static void take(const char *path, bool is_flock)
{
	struct flock range = { .l_type = F_WRLCK, .l_start = 100, .l_len = 10 };
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	check(fd);
	check(is_flock ? flock(fd, LOCK_EX) : fcntl(fd, F_SETLKW, &range));
}

static void run_lock(const char *path, bool is_flock)
{
	int told[2];
	pid_t waiter, holder;

	check(pipe(told));
	holder = start();
	if (holder == 0) {
		take(path, is_flock);
		check((int)write(told[1], "x", 1));
		work_slowly();
	}
	check(read(told[0], block, 1) == 1 ? 0 : -1);
	waiter = start();
	if (waiter == 0) {
		take(path, is_flock);
		_exit(0);
	}
	stay(waiter, holder);
}

int main(int argc, char **argv)
{
	const char *mode = argc == 2 ? argv[1] : "";

	if (strncmp(mode, "flock:", 6) == 0)
		run_lock(mode + 6, true);
	else if (strncmp(mode, "fcntl:", 6) == 0)
		run_lock(mode + 6, false);
	else if (strcmp(mode, "child") == 0 || strcmp(mode, "any") == 0)
		run_child(mode);
	else if (strcmp(mode, "unix") == 0 || strcmp(mode, "tcp") == 0)
		run_socket(mode);
	else
		run_pipe(mode);
	return 1;
}
