/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * No snapshot of a target that changes all the time misses a running thread without saying so.
 *
 * A thread that runs stamps the time. What was stopped stamps nothing between the moment at which
 * all stood still and the first release; so a stamp in there is one of a thread that was missed.
 * The document tells both moments but for the order of the releases: only the first half of that
 * time is held to it. And each line of threads that goes on for ever must be in every snapshot.
 *
 * "Saying so" is a warning, threads_missed, an error of the process, or a status above 0.
 */
#include "churn.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Behind the last stop: clocks are read one after the other. */
enum { MARGIN_NS = 3000, DISORDER_NS = 100000000 };

struct judge {
	const struct soak *soak;
	const char *kind;
	struct churn_log *log;
	pid_t pid;
	bool execs;
	long silent, said, missed, unjudged,
		ran; /* snapshots; stamps that were too old to look at */
};

/* Seconds and nanoseconds of "2026-11-20T07:52:18.106123456Z", since the epoch. */
static int64_t parse_time(const char *text)
{
	struct tm parts = { 0 };
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;

	if (!rest || *rest != '.')
		return 0;
	return (int64_t)timegm(&parts) * 1000000000 + atol(rest + 1);
}

static int64_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static bool has_line(const json_t *process, int line)
{
	char wanted[16];
	size_t i, j;
	json_t *stack, *thread;

	snprintf(wanted, sizeof(wanted), "line-%d", line);
	json_array_foreach(json_object_get(process, "stacks"), i, stack)
		json_array_foreach(json_object_get(stack, "threads"), j, thread)
	{
		const char *name = json_string_value(json_object_get(thread, "name"));

		if (name && strcmp(name, wanted) == 0)
			return true;
	}
	return false;
}

/* Whether a thread, or a thread of a child, has a stack in the report. */
static bool has_tid(const json_t *processes, pid_t tid)
{
	size_t i, j, k;
	json_t *process, *stack, *thread;

	json_array_foreach(processes, i, process)
	{
		json_array_foreach(json_object_get(process, "stacks"), j, stack)
			json_array_foreach(json_object_get(stack, "threads"), k,
					   thread) if (number(thread, "tid") == tid) return true;
		if (has_tid(json_object_get(process, "children"), tid))
			return true;
	}
	return false;
}

/* What has ended meanwhile is shown as dead: that says nothing of those that run. */
static bool is_trouble(const json_t *process)
{
	const char *type = json_string_value(json_object_get(process, "type"));

	return number(process, "threads_missed") ||
	       (json_object_get(process, "error") && (!type || strcmp(type, "dead") != 0));
}

static bool says_so(const json_t *processes)
{
	json_t *process;
	size_t i;

	json_array_foreach(processes, i,
			   process) if (is_trouble(process) ||
					says_so(json_object_get(process, "children"))) return true;
	return false;
}

/* Who ran in that time, and when; 0: nobody; -1: the stamps do not go back so far. */
static pid_t who_ran(const struct churn_log *log, int64_t from_ns, int64_t to_ns,
		     int64_t *time_ns_ret)
{
	uint64_t next = __atomic_load_n(&log->next, __ATOMIC_ACQUIRE);
	uint64_t oldest = next > CHURN_STAMPS ? next - CHURN_STAMPS : 0;
	pid_t first = 0;

	*time_ns_ret = to_ns;
	for (uint64_t i = next; i > oldest; i--) {
		const struct churn_stamp *stamp = &log->stamps[(i - 1) % CHURN_STAMPS];
		int64_t time_ns = __atomic_load_n(&stamp->time_ns, __ATOMIC_ACQUIRE);

		/* Stamps are in order but for those of threads that lost their processor. */
		if (time_ns && time_ns < from_ns - DISORDER_NS)
			return first;
		if (time_ns > from_ns && time_ns < *time_ns_ret) {
			*time_ns_ret = time_ns;
			first = stamp->tid;
		}
	}
	return first || !oldest ? first : -1;
}

/*
 * The first half of that time is held to nobody else running. Who is in the report was stopped, and
 * may have been let go before the others: for such a thread it is the first quarter.
 */
static void judge_stamps(struct judge *judge, const json_t *doc)
{
	int64_t begin = parse_time(json_string_value(json_object_get(doc, "time")));
	int64_t still = begin + number(doc, "stop_skew_ns") + MARGIN_NS, time_ns = 0;
	int64_t end = begin + number(doc, "stop_duration_ns");
	pid_t runner = begin ? who_ran(judge->log, still, still + (end - still) / 2, &time_ns) : -1;
	bool reported = runner > 0 && has_tid(json_object_get(doc, "processes"), runner);

	if (runner < 0)
		judge->unjudged++;
	if (runner <= 0 || (reported && time_ns > still + (end - still) / 4))
		return;
	judge->ran++;
	soak_bad("%s: thread %d, which is%s in the report, ran while all others stood still (%lld "
		 "us after the last stop, %lld us before the last release), and nobody says so",
		 judge->kind, runner, reported ? "" : " not", (long long)(time_ns - still) / 1000,
		 (long long)(end - time_ns) / 1000);
}

static void judge_lines(struct judge *judge, const json_t *process)
{
	for (int line = 0; line < CHURN_LINES; line++)
		if (!has_line(process, line)) {
			judge->missed++;
			soak_bad("%s: no thread of line %d, and nobody says so", judge->kind, line);
			return;
		}
}

static void judge_once(struct judge *judge, const char *const *arguments)
{
	struct soak_run run = soak_start(judge->soak, arguments, -1);
	int status = soak_wait(&run);
	char *out = soak_text(run.out), *err = soak_text(run.err);
	json_t *doc = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
	json_t *processes = json_object_get(doc, "processes");

	if (!doc || !WIFEXITED(status) || WEXITSTATUS(status) > 2)
		soak_bad("%s: status %#x: %s", judge->kind, status, err);
	else if (strstr(err, "gave up"))
		soak_bad("%s: %s", judge->kind, err);
	else if (WEXITSTATUS(status) && !*err)
		soak_bad("%s: status %d without a word", judge->kind, WEXITSTATUS(status));
	if (WEXITSTATUS(status) || json_array_size(json_object_get(doc, "warnings")) ||
	    says_so(processes)) {
		judge->said++;
	} else {
		judge->silent++;
		judge_stamps(judge, doc);
		/* After an exec, lines begin again one by one. */
		if (!judge->execs)
			judge_lines(judge, json_array_get(processes, 0));
	}
	json_decref(doc);
	free(out);
	free(err);
	soak_expect_no_leftovers(&run, judge->kind);
	soak_close(&run);
}

static void start_target(struct judge *judge)
{
	/* Not closed by exec: the program that comes next finds it there. */
	int fd = memfd_create("stamps", 0);

	if (fd < 0 || ftruncate(fd, sizeof(*judge->log)))
		soak_broken("memfd_create");
	judge->log = mmap(NULL, sizeof(*judge->log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (judge->log == MAP_FAILED)
		soak_broken("mmap");
	fflush(stdout);
	judge->pid = fork();
	if (judge->pid == 0)
		churn_main(judge->kind, judge->log, fd);
	close(fd);
	for (size_t i = 0; i < CHURN_LINES; i++)
		while (!judge->log->lines[i])
			soak_sleep_us(100);
}

void soak_churn(const struct soak *soak, const char *kind)
{
	struct judge judge = { .soak = soak,
			       .kind = kind,
			       .execs = strncmp(kind, "execs", 5) == 0 };
	const char *pid;

	start_target(&judge);
	pid = soak_number(judge.pid);
	for (long i = 0; i < soak->count; i++)
		judge_once(&judge, (const char *const[]){ "--json", "-q", "-p", pid, NULL });
	soak_figure("snapshots", soak->count);
	soak_figure("missed_silently", judge.missed + judge.ran);
	soak_figure("said_so", judge.said);
	soak_figure("unjudged", judge.unjudged);
	if (judge.unjudged > soak->count / 10)
		soak_bad("%s: %ld snapshots cannot be judged", kind, judge.unjudged);
	kill(judge.pid, SIGKILL);
	waitpid(judge.pid, NULL, 0);
}
