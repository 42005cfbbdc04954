/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs of the tool: see soak.h. */
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USUAL_RUNS = 7, MOST_ARGUMENTS = 32 };

static int new_file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		soak_broken("memfd_create");
	return fd;
}

static void spawn(struct soak_run *run, char **argv, int out_fd)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;

	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&actions);
	if (isatty(out_fd))
		posix_spawn_file_actions_adddup2(&actions, out_fd, STDIN_FILENO);
	else
		posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, run->err, STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
						      POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setsigmask(&attributes, &none);
	errno = posix_spawn(&run->pid, argv[0], &actions, &attributes, argv, environ);
	if (errno)
		soak_broken(argv[0]);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
}

struct soak_run soak_start(const struct soak *soak, const char *const *arguments, int out_fd)
{
	struct soak_run run = { .out = -1, .err = new_file("stderr") };
	char *argv[MOST_ARGUMENTS] = { (char *)(uintptr_t)soak->tool };

	for (size_t i = 0; arguments[i] && i + 2 < MOST_ARGUMENTS; i++)
		argv[i + 1] = (char *)(uintptr_t)arguments[i];
	if (out_fd < 0)
		out_fd = run.out = new_file("stdout");
	run.before_count = soak_children(getpid(), run.before, SOAK_ARRAY_SIZE(run.before));
	run.start_ns = soak_now();
	spawn(&run, argv, out_fd);
	return run;
}

static bool wait_for_end(pid_t pid, int milliseconds)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	bool ended;

	if (fd < 0)
		return true;
	ended = poll(&end, 1, milliseconds) > 0;
	close(fd);
	return ended;
}

int soak_wait(struct soak_run *run)
{
	int status = 0;

	if (!wait_for_end(run->pid, SOAK_HANG_MS)) {
		soak_bad("the tool hangs");
		kill(run->pid, SIGKILL);
	}
	waitpid(run->pid, &status, 0);
	return status;
}

bool soak_is_over(const struct soak_run *run)
{
	return wait_for_end(run->pid, 0);
}

static bool was_there(const struct soak_run *run, pid_t pid)
{
	for (size_t i = 0; i < run->before_count; i++)
		if (run->before[i] == pid)
			return true;
	return false;
}

/* A process that it left to us, 0: none. Ended ones are reaped. */
static pid_t leftover(const struct soak_run *run)
{
	pid_t pids[SOAK_MAX_PIDS];
	size_t count = soak_children(getpid(), pids, SOAK_MAX_PIDS);

	for (size_t i = 0; i < count; i++)
		if (!was_there(run, pids[i]) && waitpid(pids[i], NULL, __WALL | WNOHANG) != pids[i])
			return pids[i];
	return 0;
}

void soak_expect_no_leftovers(const struct soak_run *run, const char *what)
{
	int64_t until = soak_now() + SOAK_GONE_MS * 1000000ll;
	char name[16];
	pid_t pid;

	while ((pid = leftover(run)) && soak_now() < until)
		soak_sleep_us(200);
	if (!pid)
		return;
	soak_comm(pid, name);
	soak_bad("%s: process %d (%s) is left over", what, pid, name);
	while ((pid = leftover(run))) {
		kill(pid, SIGKILL);
		soak_sleep_us(1000);
	}
}

char *soak_text(int fd)
{
	struct stat status;
	char *text;

	if (fd < 0 || fstat(fd, &status))
		return strdup("");
	text = calloc(1, (size_t)status.st_size + 1);
	if (!text || pread(fd, text, (size_t)status.st_size, 0) < 0)
		soak_broken("reading what the tool wrote");
	return text;
}

void soak_close(struct soak_run *run)
{
	if (run->out >= 0)
		close(run->out);
	close(run->err);
	run->out = run->err = -1;
}

int soak_take(const struct soak *soak, const char *const *arguments, json_t **doc_ret)
{
	struct soak_run run = soak_start(soak, arguments, -1);
	int status = soak_wait(&run);
	char *text = soak_text(run.out);

	*doc_ret = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	soak_close(&run);
	return status;
}

static int compare(const void *left, const void *right)
{
	const long *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

long soak_usual_us(const struct soak *soak, const char *const *arguments)
{
	long times[USUAL_RUNS];

	for (size_t i = 0; i < USUAL_RUNS; i++) {
		struct soak_run run = soak_start(soak, arguments, -1);

		soak_wait(&run);
		times[i] = (soak_now() - run.start_ns) / 1000;
		soak_close(&run);
	}
	qsort(times, USUAL_RUNS, sizeof(times[0]), compare);
	return times[USUAL_RUNS / 2];
}

const char *soak_number(long number)
{
	static char texts[8][24];
	static size_t turn;
	char *text = texts[turn++ % SOAK_ARRAY_SIZE(texts)];

	snprintf(text, sizeof(texts[0]), "%ld", number);
	return text;
}
