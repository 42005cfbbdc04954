/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What all experiments of the soak stand on: runs of the tool, looks at processes by procfs, a
 * victim with six threads that count, figures and complaints as lines on standard output.
 *
 * Knows nothing of the library: the tool is a program that is started, killed and read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <jansson.h>

#define SOAK_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum {
	SOAK_THREADS = 6,      /* of the victim that counts */
	SOAK_MOVE_MS = 100,    /* all of its counters have moved by then */
	SOAK_GONE_MS = 60000,  /* no process of the tool is left by then */
	SOAK_HANG_MS = 120000, /* a run that takes longer hangs */
	SOAK_MAX_PIDS = 256,
};

/* What the command line says. */
struct soak {
	const char *tool, *tests; /* the program under test; where the tests' own are */
	long count;
};

/* report.c: `figure NAME VALUE` and `bad TEXT` lines. */
void soak_figure(const char *name, long value);
/* Something that a figure counts, which not every round is held to. */
__attribute__((format(printf, 1, 2))) void soak_note(const char *format, ...);
__attribute__((format(printf, 1, 2))) void soak_bad(const char *format, ...);
long soak_bad_count(void);
/* Ends the program with 77, or with 2: the machine cannot, or the experiment is broken. */
__attribute__((noreturn)) void soak_cannot(const char *why);
__attribute__((noreturn)) void soak_broken(const char *what);

/* report.c */
int64_t soak_now(void); /* CLOCK_MONOTONIC, nanoseconds */
void soak_sleep_us(long us);
/* A number below `limit`; the same sequence for each run. */
long soak_random(long limit);

/* look.c: all by procfs; what has gone is in no state, and has no tracer and no children. */
char soak_state(pid_t pid, pid_t tid, pid_t *tracer_ret);
size_t soak_threads(pid_t pid, pid_t *tids, size_t room);
/* Children of all threads of a process; those and theirs. */
size_t soak_children(pid_t pid, pid_t *pids, size_t room);
size_t soak_descendants(pid_t pid, pid_t *pids, size_t room);
void soak_comm(pid_t pid, char name[16]);
long soak_kib(pid_t pid, const char *field); /* a line of status, as VmHWM; 0 without it */

/*
 * run.c: one run of the tool. Its processes become our children when it ends, as we are a
 * subreaper, so none gets away unseen.
 */
struct soak_run {
	pid_t pid;
	int out, err; /* files that hold what it wrote; -1: it was given another place */
	int64_t start_ns;
	pid_t before[8]; /* children of ours that are not its */
	size_t before_count;
};

/* `arguments` end with NULL; out_fd is its standard output, -1: a file. */
struct soak_run soak_start(const struct soak *soak, const char *const *arguments, int out_fd);
/* Waits for its end and returns what wait(2) tells; complains and kills when it does not come. */
int soak_wait(struct soak_run *run);
bool soak_is_over(const struct soak_run *run);
/* Complains of processes that it left behind, unless they go within a second. */
void soak_expect_no_leftovers(const struct soak_run *run, const char *what);
/* What it wrote; "" when that is not known. Freed by the caller. */
char *soak_text(int fd);
void soak_close(struct soak_run *run);
/* Runs it to its end, and returns its status; its document is the caller's, NULL when it is none.
 */
int soak_take(const struct soak *soak, const char *const *arguments, json_t **doc_ret);
/* The tool's usual time, in microseconds: the median of some runs. */
long soak_usual_us(const struct soak *soak, const char *const *arguments);
/* The number as text, in one of a few buffers that are used in turn. */
const char *soak_number(long number);

/* victim.c: a child whose six threads each wait in another way, and count. */
struct soak_victim {
	pid_t pid;
	pid_t tids[SOAK_THREADS];
	volatile unsigned long (*counters)[8]; /* a line of cache each */
	long stops, continues;                 /* that its parent was told of */
};

/* What experiments expect of a victim after each attack, and how it was. */
struct soak_rest {
	long free_us_max, move_us_max; /* the slowest so far */
	long delayed;                  /* later than that, but only for want of a processor */
};

struct soak_victim soak_victim_start(void);
void soak_victim_end(struct soak_victim *victim);
/* Complains if a thread is stopped or traced, or does not count on. */
void soak_expect_free(struct soak_victim *victim, struct soak_rest *rest, const char *what);
/* Takes note of stops and continues that a parent hears of. */
void soak_listen(struct soak_victim *victim);
void soak_report_rest(const struct soak_rest *rest);

/* One file each. */
void soak_kills(const struct soak *soak);
void soak_interrupts(const struct soak *soak, int number);
void soak_closed_output(const struct soak *soak);
void soak_full_pipe(const struct soak *soak);
void soak_role(const struct soak *soak, const char *comm);
void soak_signals(const struct soak *soak, bool record);
void soak_signals_ended(const struct soak *soak);
void soak_churn(const struct soak *soak, const char *kind);
void soak_group_stop(const struct soak *soak);
void soak_many_threads(const struct soak *soak);
void soak_many_mappings(const struct soak *soak);

/* Where a program that calls exec all the time goes on. */
int soak_exec_main(int argc, char **argv);
