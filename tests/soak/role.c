/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One process of the tool is killed at random moments of its life: the tool ends by itself, with
 * all threads or with a word about what is missing; the target runs on, nobody is left over.
 */
#include "soak.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIVES = 9, MOST_TRIES = 6 };

struct hunt {
	const struct soak *soak;
	const char *comm;
	struct soak_victim victim;
	struct soak_rest rest;
	long lives_us[2]; /* how long it usually lives in a snapshot, in a recording */
	long hits, statuses[3], whole;
};

/* A process with the name among those of the run, as a pidfd; -1: there is none. */
static int find(const struct soak_run *run, const char *comm)
{
	pid_t pids[SOAK_MAX_PIDS];
	size_t count = soak_descendants(run->pid, pids, SOAK_MAX_PIDS);
	char name[16];
	int fd;

	for (size_t i = 0; i < count; i++) {
		soak_comm(pids[i], name);
		if (strcmp(name, comm) != 0)
			continue;
		fd = (int)syscall(SYS_pidfd_open, pids[i], 0);
		/* It may have ended, and another one have taken its number. */
		soak_comm(pids[i], name);
		if (fd >= 0 && strcmp(name, comm) == 0)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

static int wait_for_role(const struct soak_run *run, const char *comm)
{
	int fd;

	while ((fd = find(run, comm)) < 0 && !soak_is_over(run))
		soak_sleep_us(50);
	return fd;
}

static bool has_ended(int pidfd, int milliseconds)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	return poll(&end, 1, milliseconds) > 0;
}

static int compare(const void *left, const void *right)
{
	const long *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* How long it lives after it was found; 0: it was never found. */
static long usual_life(const struct hunt *hunt, const char *const *arguments)
{
	long lives[LIVES] = { 0 };

	for (size_t i = 0; i < LIVES; i++) {
		struct soak_run run = soak_start(hunt->soak, arguments, -1);
		int fd = wait_for_role(&run, hunt->comm);
		int64_t found = soak_now();

		if (fd >= 0) {
			has_ended(fd, SOAK_HANG_MS);
			lives[i] = (soak_now() - found) / 1000 + 1;
			close(fd);
		}
		soak_wait(&run);
		soak_close(&run);
	}
	qsort(lives, LIVES, sizeof(lives[0]), compare);
	return lives[LIVES / 2];
}

static size_t threads_of(const json_t *process)
{
	size_t index, count = 0;
	json_t *stack;

	json_array_foreach(json_object_get(process, "stacks"), index, stack) count +=
		json_array_size(json_object_get(stack, "threads"));
	return count;
}

static size_t lines_of(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

/* What a snapshot says of itself must be so. */
static void judge(struct hunt *hunt, int status, const char *out, const char *err)
{
	json_t *doc = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
	json_t *process = json_array_get(json_object_get(doc, "processes"), 0);
	size_t threads = threads_of(process), lines = lines_of(err);
	bool parser = strcmp(hunt->comm, "snap-parser") == 0;

	if (!doc)
		soak_bad("%s killed: status %d, not a document: %.60s", hunt->comm, status, out);
	if (status == 0 && (threads != SOAK_THREADS || lines))
		soak_bad("%s killed: status 0 with %zu threads, %s", hunt->comm, threads, err);
	if (status && (!lines || strncmp(err, "stacksnap: ", 11) != 0))
		soak_bad("%s killed: status %d without a word", hunt->comm, status);
	if (parser && (threads != SOAK_THREADS || status == 2 || (status && lines != 1)))
		soak_bad("%s killed: status %d, %zu threads, %s", hunt->comm, status, threads, err);
	hunt->whole += threads == SOAK_THREADS;
	json_decref(doc);
}

static void expect_answer(struct hunt *hunt, struct soak_run *run, bool record)
{
	int status = soak_wait(run);
	char *out = soak_text(run->out), *err = soak_text(run->err);

	if (!WIFEXITED(status) || WEXITSTATUS(status) > 2) {
		soak_bad("%s killed: the tool ended with %#x: %s", hunt->comm, status, err);
	} else {
		hunt->statuses[WEXITSTATUS(status)]++;
		if (!record)
			judge(hunt, WEXITSTATUS(status), out, err);
		/* Threads that a busy machine did not stop in time are told by the recording. */
		else if (WEXITSTATUS(status) && !*err && !strstr(out, "not_stopped"))
			soak_bad("%s killed: a recording ends with %d without a word", hunt->comm,
				 WEXITSTATUS(status));
	}
	free(out);
	free(err);
}

static void hunt_once(struct hunt *hunt, const char *const *arguments, bool record)
{
	struct soak_run run = soak_start(hunt->soak, arguments, -1);
	int fd = wait_for_role(&run, hunt->comm);

	if (fd >= 0) {
		soak_sleep_us(soak_random(hunt->lives_us[record]));
		hunt->hits += !has_ended(fd, 0) &&
			      syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
		close(fd);
	}
	expect_answer(hunt, &run, record);
	soak_expect_free(&hunt->victim, &hunt->rest, hunt->comm);
	soak_expect_no_leftovers(&run, hunt->comm);
	soak_close(&run);
}

/* Every fourth run is a recording, where recordings have such a process. */
void soak_role(const struct soak *soak, const char *comm)
{
	struct hunt hunt = { .soak = soak, .comm = comm, .victim = soak_victim_start() };
	const char *pid = soak_number(hunt.victim.pid);
	const char *const snapshot[] = { "--json", "-p", pid, NULL };
	const char *const record[] = { "record", "-d", "100ms", "-f", "json", pid, NULL };

	hunt.lives_us[0] = usual_life(&hunt, snapshot);
	hunt.lives_us[1] = usual_life(&hunt, record);
	if (!hunt.lives_us[0] && !hunt.lives_us[1])
		soak_bad("no process is called %s", comm);
	for (long turn = 0; hunt.hits < soak->count && turn < MOST_TRIES * soak->count; turn++) {
		bool is_record = turn % 4 == 3 ? hunt.lives_us[1] != 0 : !hunt.lives_us[0];

		hunt_once(&hunt, is_record ? record : snapshot, is_record);
	}
	if (hunt.hits < soak->count)
		soak_bad("only %ld of %ld came in time", hunt.hits, soak->count);
	soak_figure("hits", hunt.hits);
	soak_figure("status_0", hunt.statuses[0]);
	soak_figure("status_1", hunt.statuses[1]);
	soak_figure("status_2", hunt.statuses[2]);
	soak_report_rest(&hunt.rest);
	soak_victim_end(&hunt.victim);
}
