/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Programs that know what their own threads wait for, and say so: one JSON object a line, which
 * e2e/waits.py compares with the report of the tool. It knows nothing of how a wait is found.
 *
 * A thread calls truth() as the last thing before it waits. truth_ready() waits until all who
 * called it are asleep in a system call, prints "ready PID truth=N" and then N lines. Keys are
 * those of `threads[].wait` (see e2e/waits.py for the few that are not), and
 *
 *   row   a name for messages
 *   owner the tid of the owner; 0: it has none that could be named
 *
 * A list stands for any of its values where the report has one value. A line without tid is about
 * the whole report: {"deadlock": [tids], "behind": 2, …}.
 */
#pragma once

#include "../targets/victim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { MOST_TRUTHS = 2500, TRUTH_BYTES = 640 };

struct truth_line {
	pid_t pid, tid; /* tid 0: of the whole report */
	_Atomic int written;
	char text[TRUTH_BYTES];
};

/* Shared with children, which write lines of their own. */
static struct truth_table {
	_Atomic int count;
	struct truth_line lines[MOST_TRUTHS];
} * truths;

/* A thread: what it does, with what, and who holds it. */
struct actor {
	void (*act)(struct actor *me);
	const char *row;
	void *object;
	struct actor *other;
	long number;
	_Atomic pid_t tid; /* set when it is in position, or about to wait */
	atomic_bool failed;
};

/* Behind a call that is the last one of its function, or it is a jump, and nothing tells of it. */
#define STAYS_A_CALL __asm__ volatile("")

static __thread struct actor *self_actor;

static pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static void truth_open(void)
{
	truths = mmap(NULL, sizeof(*truths), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (truths == MAP_FAILED)
		victim_cannot("mmap");
}

/* A line with ' for ". */
static void truth_add(pid_t tid, const char *row, const char *format, va_list args)
{
	struct truth_line *line = &truths->lines[truths->count++];
	int length = snprintf(line->text, TRUTH_BYTES, "{'row':'%s',", row);

	if (tid)
		length += snprintf(line->text + length, (size_t)(TRUTH_BYTES - length),
				   "'pid':%d,'tid':%d,", getpid(), tid);
	length += vsnprintf(line->text + length, (size_t)(TRUTH_BYTES - length), format, args);
	if (length + 2 > TRUTH_BYTES)
		abort();
	strcpy(line->text + length, "}");
	for (char *at = line->text; *at; at++)
		if (*at == '\'')
			*at = '"';
	line->pid = getpid();
	line->tid = tid;
	line->written = 1;
}

/* The calling thread is about to wait. */
__attribute__((format(printf, 2, 3), unused)) static void truth(const char *row, const char *format,
								...)
{
	va_list args;

	va_start(args, format);
	truth_add(own_tid(), row, format, args);
	va_end(args);
	if (self_actor)
		self_actor->tid = own_tid();
}

/* Of another thread, which waits already or will by itself. */
__attribute__((format(printf, 3, 4), unused)) static void truth_of(pid_t tid, const char *row,
								   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	truth_add(tid, row, format, args);
	va_end(args);
}

/* Of the whole report. */
__attribute__((format(printf, 2, 3), unused)) static void truth_says(const char *row,
								     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	truth_add(0, row, format, args);
	va_end(args);
}

static bool read_text(char *into, size_t size, const char *format, ...)
{
	char path[128];
	va_list args;
	ssize_t got;
	int fd;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, into, size - 1);
	close(fd);
	into[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* Asleep in a system call, or stopped, or (a page fault) asleep in none. */
static bool asleep(pid_t pid, pid_t tid, bool fault)
{
	char stat[512], call[256], *state;

	if (!read_text(stat, sizeof(stat), "/proc/%d/task/%d/stat", pid, tid))
		return false;
	state = strrchr(stat, ')');
	if (!state || !strchr("SDTt", state[2]))
		return false;
	if (fault || state[2] == 'T')
		return true;
	return read_text(call, sizeof(call), "/proc/%d/task/%d/syscall", pid, tid) &&
	       strncmp(call, "running", 7) != 0 && strncmp(call, "-1 ", 3) != 0;
}

__attribute__((unused)) static void until_asleep(pid_t pid, pid_t tid)
{
	while (!asleep(pid, tid, false))
		sched_yield();
}

static void *actor_main(void *argument)
{
	self_actor = argument;
	self_actor->act(self_actor);
	return NULL;
}

/* Starts a thread, which may call truth() later. */
static struct actor *launch(void (*act)(struct actor *me), const char *row, void *object,
			    struct actor *other)
{
	struct actor *actor = calloc(1, sizeof(*actor));

	if (!actor)
		victim_cannot("calloc");
	actor->act = act;
	actor->row = row;
	actor->object = object;
	actor->other = other;
	victim_thread(actor_main, actor, 128 << 10);
	return actor;
}

/* Starts a thread and returns when it has called truth(), or given up. */
__attribute__((unused)) static struct actor *start(void (*act)(struct actor *me), const char *row,
						   void *object, struct actor *other)
{
	struct actor *actor = launch(act, row, object, other);

	while (!actor->tid && !actor->failed)
		sched_yield();
	return actor;
}

/* Until so many lines are there. */
__attribute__((unused)) static void until_truths(int count)
{
	while (truths->count < count)
		sched_yield();
}

/* Waits for ever, in a way that is known, too. */
__attribute__((unused)) static void rest(const char *row)
{
#ifdef SYS_pause
	truth(row, "'kind':'signal','call':'pause'");
#else
	truth(row, "'kind':'signal','call':'ppoll'");
#endif
	for (;;)
		pause();
}

/* A child that dies with its parent, and runs `act` in its only thread. */
__attribute__((unused)) static pid_t start_child(void (*act)(void *argument), void *argument)
{
	int before = truths->count;
	pid_t child = fork();

	if (child < 0)
		victim_cannot("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		self_actor = NULL;
		act(argument);
		_exit(1);
	}
	until_truths(before + 1);
	return child;
}

/* Prints all of it once everybody is in position, and holds the main thread. */
static void truth_ready(void)
{
	truth("main", "'kind':'pipe','fd':0,'call':'read'");
	for (int i = 0; i < truths->count; i++) {
		struct truth_line *line = &truths->lines[i];

		while (!line->written)
			sched_yield();
		while (line->tid && line->tid != own_tid() &&
		       !asleep(line->pid, line->tid, strstr(line->text, "page_fault")))
			sched_yield();
	}
	victim_ready("truth=%d", truths->count);
	for (int i = 0; i < truths->count; i++)
		printf("%s\n", truths->lines[i].text);
	fflush(stdout);
	victim_hold();
}

/* What a program can be asked for. */
struct truth_mode {
	const char *name;
	void (*make)(const char *argument); /* what follows ':' in the name; NULL: nothing */
};

/* Makes all that the arguments name ("mutexes", "ring:5"), then gets ready. */
static int truth_main(const struct truth_mode *modes, char **argv)
{
	truth_open();
	for (char **word = argv + 1; *word; word++) {
		char *colon = strchr(*word, ':');
		const struct truth_mode *mode = modes;

		if (colon)
			*colon++ = '\0';
		while (mode->name && strcmp(mode->name, *word) != 0)
			mode++;
		if (!mode->name) {
			fprintf(stderr, "no mode %s\n", *word);
			return 64;
		}
		mode->make(colon);
	}
	truth_ready();
	return 0;
}
