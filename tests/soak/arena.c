/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hostile programs, a service and bystanders: see arena.h. */
#include "arena.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	READY_MS = 30000,
	MOST_WORDS = 6,
	END_MS = 20000, /* for programs that are killed */
	LEFT_MS = 2000, /* then for what they held */
};

/* Few of them are busy, and those are nice: deadlines are to mean something beside them. */
static const char *const hostile[][MOST_WORDS] = {
	{ "attack_stack", "plain" },
	{ "attack_stack", "detached" },
	{ "attack_stack", "chroot" },
	{ "attack_stack", "overlay" },
	{ "attack_stack", "swapped" },
	{ "attack_stack", "module" },
	{ "attack_stack", "swarm", "5" },
	{ "attack_lock", "lock", "2" },
	{ "attack_lock", "arguments" },
	{ "attack_lock", "huge" },
	{ "attack_lock", "exec" },
	{ "attack_lock", "flush" },
	{ "attack_path", "covered" },
	{ "attack_path", "root" },
	{ "attack_path", "folder" },
	{ "attack_path", "program" },
	{ "attack_path", "mapped" },
	{ "attack_path", "truncated" },
	{ "attack_maps", "paths", "30000", "20000" },
	{ "attack_maps", "files", "500", "4000" },
	{ "attack_maps", "mounts", "200", "3900" },
	{ "attack_maps", "change", "500" },
	{ "attack_maps", "arguments", "8", "1000000" },
	{ "attack_threads", "deep", "20" },
	{ "attack_threads", "woken", "200" },
	{ "attack_threads", "vfork", "8" },
	{ "attack_threads", "churn", "2" },
	{ "attack_threads", "unserved", "2" },
	{ "attack_threads", "traced", "3" },
	{ "attack_threads", "leader", "3" },
	{ "attack_threads", "notify", "1" },
};

static const char *const service[MOST_WORDS] = { "threads", "futex:20:worker:6", "epoll:4:loop:4",
						 "pipe:4:reader:3", "sleep:8:timer:5" };
enum { SERVICE_THREADS = 36 };

void soak_arena_enter(void)
{
	int status;
	pid_t child;

	if (geteuid() != 0 || unshare(CLONE_NEWPID | CLONE_NEWNS))
		soak_cannot("a pid namespace");
	fflush(stdout);
	child = fork();
	if (child < 0)
		soak_cannot("fork");
	if (child > 0) {
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		soak_cannot("mount of /proc");
}

/* The line that a program prints when it is in position; false: it does not come. */
static bool read_line(int fd, char *line, size_t room)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	size_t length = 0;

	while (length + 1 < room && poll(&ready, 1, READY_MS) > 0) {
		ssize_t got = read(fd, line + length, 1);

		if (got <= 0 || line[length] == '\n')
			break;
		length++;
	}
	line[length] = '\0';
	return strncmp(line, "ready ", 6) == 0;
}

/* A program of tests/targets; 0: it cannot run here, and says why on standard error. */
static pid_t start_program(struct soak_arena *arena, const char *const *words, char line[256])
{
	int in[2], out[2];
	char path[4096];
	bool ready;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/../targets/%s", arena->soak->tests, words[0]);
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		soak_broken("pipe2");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execv(path, (char **)(uintptr_t)words);
		_exit(126);
	}
	close(in[0]);
	close(out[1]);
	ready = read_line(out[0], line, 256);
	close(out[0]);
	if (ready) {
		arena->inputs[arena->input_count++] = in[1];
		return pid;
	}
	fprintf(stderr, "soak: %s %s: %s\n", words[0], words[1], *line ? line : "is not ready");
	kill(pid, SIGKILL);
	close(in[1]);
	return 0;
}

/* SOAK_WITHOUT in the environment names some that are left out, as "attack_lock lock,huge". */
static bool is_wanted(const char *const *words)
{
	const char *without = getenv("SOAK_WITHOUT");

	return !without || (!strstr(without, words[0]) && !strstr(without, words[1]));
}

static void start_hostile(struct soak_arena *arena, const char *const *words)
{
	char line[256], *bystander;
	pid_t pid = start_program(arena, words, line);

	if (!pid)
		return;
	arena->hostile[arena->hostile_count++] = pid;
	bystander = strstr(line, "bystander=");
	if (bystander && atoi(bystander + strlen("bystander=")) > 0) {
		arena->makers[arena->bystander_count] = words[1];
		arena->bystanders[arena->bystander_count++] =
			atoi(bystander + strlen("bystander="));
	}
	snprintf(arena->all_pids + strlen(arena->all_pids),
		 sizeof(arena->all_pids) - strlen(arena->all_pids), ",%d", pid);
}

void soak_arena_start(struct soak_arena *arena, const struct soak *soak)
{
	char line[256];

	*arena = (struct soak_arena){ .soak = soak, .service_threads = SERVICE_THREADS };
	arena->watch = mmap(NULL, sizeof(*arena->watch), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	arena->service = start_program(arena, service, line);
	if (!arena->service)
		soak_broken("the service");
	snprintf(arena->all_pids, sizeof(arena->all_pids), "%d", arena->service);
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(hostile); i++)
		if (is_wanted(hostile[i]))
			start_hostile(arena, hostile[i]);
	if (arena->hostile_count == 0 && !getenv("SOAK_WITHOUT"))
		soak_cannot("any hostile program");
	soak_watch_start(arena);
}

void soak_arena_reap(pid_t mine)
{
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) || !info.si_pid ||
		    info.si_pid == mine)
			return;
		waitpid(info.si_pid, NULL, __WALL | WNOHANG);
	}
}

/* By name: the kernel may have us wait for ever for the program of a hostile process. */
static bool is_ours(const char *pid)
{
	char path[300], name[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	if (fd >= 0)
		close(fd);
	return strncmp(name, "snap-", 5) == 0 || strncmp(name, "stacksnap", 9) == 0;
}

/* All processes but this one: those of the tool, or those that are none of it. */
static size_t list_processes(bool ours, pid_t *pids, size_t room)
{
	struct dirent *entry;
	size_t count = 0;
	DIR *folder = opendir("/proc");

	if (!folder)
		soak_broken("/proc");
	while (count < room && (entry = readdir(folder)))
		if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' &&
		    atoi(entry->d_name) != getpid() && is_ours(entry->d_name) == ours)
			pids[count++] = atoi(entry->d_name);
	closedir(folder);
	return count;
}

size_t soak_arena_ours(pid_t *pids, size_t room)
{
	return list_processes(true, pids, room);
}

/* Whether a thread is in `t` at each of many looks, in the hands of one and the same tracer. */
static bool stays_stopped(pid_t pid, pid_t tid)
{
	enum { LOOKS = 40, LOOK_US = 2500 };
	pid_t first, tracer;

	if (soak_state(pid, tid, &first) != 't')
		return false;
	for (int i = 0; i < LOOKS; i++) {
		soak_sleep_us(LOOK_US);
		if (soak_state(pid, tid, &tracer) != 't' || tracer != first)
			return false;
	}
	return true;
}

long soak_arena_expect_free(struct soak_arena *arena, const char *what)
{
	pid_t tids[SOAK_MAX_PIDS];
	long stopped = 0;

	for (size_t i = 0; i <= arena->bystander_count; i++) {
		pid_t pid = i ? arena->bystanders[i - 1] : arena->service;
		size_t count = soak_threads(pid, tids, SOAK_MAX_PIDS);

		for (size_t t = 0; t < count; t++)
			if (stays_stopped(pid, tids[t])) {
				soak_bad("%s: thread %d of %d stays in t", what, tids[t], pid);
				stopped++;
			}
	}
	return stopped;
}

/*
 * A program that stands on its own silent page does not hear that it is to end, and its server
 * lives for as long as it does: so all are killed. A server's end is the end of its silence.
 */
static void end_programs(const struct soak_arena *arena)
{
	int64_t until = soak_now() + END_MS * 1000000ll;
	pid_t others[SOAK_MAX_PIDS];
	size_t count;

	for (size_t i = 0; i < arena->input_count; i++)
		close(arena->inputs[i]);
	do {
		count = list_processes(false, others, SOAK_MAX_PIDS);
		for (size_t i = 0; i < count; i++)
			kill(others[i], SIGKILL);
		soak_arena_reap(0);
		soak_sleep_us(10000);
	} while (count && soak_now() < until);
	soak_figure("programs_left", (long)count);
}

void soak_arena_end(struct soak_arena *arena)
{
	pid_t left[SOAK_MAX_PIDS];
	int64_t begin;
	size_t count;
	char name[16];

	soak_watch_end(arena);
	end_programs(arena);
	begin = soak_now();
	do {
		soak_arena_reap(0);
		count = soak_arena_ours(left, SOAK_MAX_PIDS);
		soak_sleep_us(10000);
	} while (count && soak_now() - begin < LEFT_MS * 1000000ll);
	soak_figure("gone_ms", (soak_now() - begin) / 1000000);
	for (size_t i = 0; i < count; i++) {
		soak_comm(left[i], name);
		soak_note("process %d (%s) is left over", left[i], name);
		kill(left[i], SIGKILL);
	}
	soak_figure("left_over", (long)count);
}
