/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The phases of a tracee, by a table that was written from their description, and when a process
 * counts as known to its last thread: on folders that look like /proc/PID/task, as no test can make
 * a thread vanish at the right microsecond. (Their links count as those of procfs do on tmpfs.)
 */
#include "skip.h"
#include "stop/child/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	L = SNAP_TRACEE_LISTED,
	B = SNAP_TRACEE_RESTING,
	F = SNAP_TRACEE_REFUSED,
	X = SNAP_TRACEE_EXITING,
	S = SNAP_TRACEE_SEIZED,
	A = SNAP_TRACEE_AWAITED,
	D = SNAP_TRACEE_SLOW,
	T = SNAP_TRACEE_STOPPED,
	R = SNAP_TRACEE_RELEASED,
	G = SNAP_TRACEE_GONE,
};

static void test_phases(void **state _unused_)
{
	static const uint8_t expected[SNAP_TRACEE_PHASES][SNAP_TRACEE_EVENTS] = {
		/* RESTED RAN REFUSED ENDED SEIZED BORN INTERRUPTED DELAYED STOPPED KILLED RELEASED
		   EXECED GONE */
		[L] = { B, L, F, X, S, A, L, L, L, L, L, A, G },
		[B] = { B, L, B, B, B, B, B, B, B, B, B, A, G },
		[F] = { F, F, F, F, F, F, F, F, F, F, F, A, G },
		[X] = { X, X, X, X, X, X, X, X, X, X, X, A, G },
		[S] = { S, S, S, S, S, S, A, S, T, S, S, A, G },
		[A] = { A, A, A, X, A, A, A, D, T, A, A, A, G },
		[D] = { D, D, D, X, D, D, D, D, T, D, D, A, G },
		[T] = { T, T, T, T, T, T, T, T, T, A, R, A, G },
		[R] = { R, R, R, R, R, R, R, R, R, R, R, A, G },
		[G] = { G, G, G, G, G, G, G, G, G, G, G, A, G },
	};

	assert_int_equal(SNAP_TRACEE_LISTED, 0);
	for (unsigned phase = 0; phase < SNAP_TRACEE_PHASES; phase++)
		for (unsigned event = 0; event < SNAP_TRACEE_EVENTS; event++)
			if (snap_tracee_next(phase, event) != expected[phase][event])
				fail_msg("phase %u, event %u: %u", phase, event,
					 snap_tracee_next(phase, event));
}

static void test_predicates(void **state _unused_)
{
	static const struct {
		bool counted, unwatched, done;
	} expected[SNAP_TRACEE_PHASES] = {
		[L] = { .counted = true },
		[B] = { .counted = true },
		[F] = { .counted = true, .unwatched = true, .done = true },
		[X] = { .counted = true, .unwatched = true },
		[S] = { .counted = true },
		[A] = { .counted = true },
		[D] = { .counted = true },
		[T] = { .counted = true },
		[R] = { .counted = true, .done = true },
		[G] = { .done = true },
	};

	for (unsigned phase = 0; phase < SNAP_TRACEE_PHASES; phase++) {
		assert_int_equal(snap_tracee_is_counted(phase), expected[phase].counted);
		assert_int_equal(snap_tracee_is_unwatched(phase), expected[phase].unwatched);
		assert_int_equal(snap_tracee_is_done(phase), expected[phase].done);
	}
}

/* ---- a process of folders ---- */

enum { PID = 3900001, MOST = 16 };

struct bed {
	char folder[32];
	struct snap_traced process;
	struct snap_stop stop;
	struct snap_shared_memory *memory;
	struct snap_tracee tracees[MOST];
	struct snap_tracer tracer;
	int tasks_fd;
	uint32_t counted, unwatched;
};

static void set_up(struct bed *bed)
{
	static const struct snap_options options;
	struct stat status;

	*bed = (struct bed){ .folder = "/dev/shm/snap-tasks-XXXXXX" };
	if (!mkdtemp(bed->folder) || stat(bed->folder, &status) || status.st_nlink != 2)
		skip_because("kernel: /dev/shm does not count links of folders");
	bed->tasks_fd = open(bed->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(bed->tasks_fd >= 0);
	assert_null(snap_shared_memory_create(1 << 20, &bed->memory));
	bed->process.pid = PID;
	bed->stop.processes = &bed->process;
	bed->stop.process_count = bed->stop.process_capacity = 1;
	bed->tracer = (struct snap_tracer){
		.options = &options,
		.memory = bed->memory,
		.stop = &bed->stop,
		.tracees = bed->tracees,
		.capacity = MOST,
		.by_tid = calloc(SNAP_TRACER_TIDS, sizeof(uint32_t)),
		.task_fds = &bed->tasks_fd,
		.counted = &bed->counted,
		.unwatched = &bed->unwatched,
	};
	assert_non_null(bed->tracer.by_tid);
}

/* A thread as procfs shows it, or shows it now. */
static void show_thread(struct bed *bed, pid_t tid, char state, unsigned flags)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", bed->folder, tid);
	assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/%d/stat", bed->folder, tid);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "%d (relay) %c 1 1 1 0 -1 %u 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n", tid,
		state, flags);
	assert_int_equal(fclose(file), 0);
}

static void hide_thread(struct bed *bed, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%d/stat", bed->folder, tid);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/%d", bed->folder, tid);
	assert_int_equal(rmdir(path), 0);
}

static void tear_down(struct bed *bed)
{
	for (pid_t tid = PID; tid < PID + MOST; tid++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/%d", bed->folder, tid);
		if (access(path, F_OK) == 0)
			hide_thread(bed, tid);
	}
	assert_int_equal(rmdir(bed->folder), 0);
	close(bed->tasks_fd);
	snap_shared_memory_destroy(bed->memory);
	free(bed->tracer.by_tid);
}

static struct snap_tracee *add(struct bed *bed, pid_t tid, enum snap_tracee_event event)
{
	struct snap_tracee *tracee = snap_tracer_add(&bed->tracer, 0, tid);

	assert_non_null(tracee);
	snap_tracer_note(&bed->tracer, tracee, event);
	return tracee;
}

/* A thread that was seized, and stands still. */
static void add_stopped(struct bed *bed, pid_t tid)
{
	struct snap_tracee *tracee = add(bed, tid, SNAP_TRACEE_ON_SEIZED);

	show_thread(bed, tid, 't', 0);
	snap_tracer_note(&bed->tracer, tracee, SNAP_TRACEE_ON_INTERRUPTED);
	snap_tracer_note(&bed->tracer, tracee, SNAP_TRACEE_ON_STOPPED);
	assert_int_equal(tracee->phase, SNAP_TRACEE_STOPPED);
}

static enum snap_thread_result result_of(const struct bed *bed, const struct snap_tracee *tracee)
{
	return snap_tracer_thread(&bed->tracer, tracee)->result;
}

static void test_counts_follow_the_phases(void **state _unused_)
{
	struct bed bed;
	struct snap_tracee *leader, *thread;

	set_up(&bed);
	leader = add(&bed, PID, SNAP_TRACEE_ON_ENDED);
	thread = add(&bed, PID + 1, SNAP_TRACEE_ON_SEIZED);
	add(&bed, PID + 2, SNAP_TRACEE_ON_ENDED);
	assert_int_equal(bed.counted, 3);
	assert_int_equal(bed.unwatched, 2);
	/* An exited leader is shown while others live on, another thread is not. */
	assert_int_equal(result_of(&bed, leader), SNAP_THREAD_UNTRACED);
	assert_int_equal(snap_tracer_thread(&bed.tracer, leader)->state, 'Z');
	assert_int_equal(result_of(&bed, &bed.tracees[2]), SNAP_THREAD_VANISHED);
	assert_int_equal(result_of(&bed, thread), SNAP_THREAD_NOT_STOPPED);
	assert_true(bed.process.seized);

	snap_tracer_note(&bed.tracer, thread, SNAP_TRACEE_ON_GONE);
	snap_tracer_note(&bed.tracer, thread, SNAP_TRACEE_ON_GONE);
	assert_int_equal(bed.counted, 2);
	assert_int_equal(result_of(&bed, thread), SNAP_THREAD_VANISHED);
	snap_tracer_note(&bed.tracer, leader, SNAP_TRACEE_ON_EXECED);
	assert_int_equal(bed.counted, 2);
	assert_int_equal(bed.unwatched, 1);
	assert_int_equal(result_of(&bed, leader), SNAP_THREAD_NOT_STOPPED);
	tear_down(&bed);
}

static void test_equal_numbers_settle(void **state _unused_)
{
	struct bed bed;

	set_up(&bed);
	add_stopped(&bed, PID);
	add_stopped(&bed, PID + 1);
	assert_true(snap_tracer_is_settled(&bed.tracer, 0));
	show_thread(&bed, PID + 2, 'R', 0);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	snap_tracer_note_missed(&bed.tracer);
	assert_int_equal(bed.process.threads_missed, 1);
	tear_down(&bed);
}

/*
 * The silent miss: a thread that could not be seized, as it was exiting, has vanished by the time
 * the threads are counted, and its successor, born untraced, makes the number whole again.
 */
static void test_successor_of_a_vanished_thread(void **state _unused_)
{
	struct bed bed;
	struct snap_tracee *exiting;

	set_up(&bed);
	add_stopped(&bed, PID);
	exiting = add(&bed, PID + 1, SNAP_TRACEE_ON_ENDED);
	show_thread(&bed, PID + 1, 'X', SNAP_PF_EXITING);
	assert_true(snap_tracer_is_settled(&bed.tracer, 0));
	show_thread(&bed, PID + 2, 'R', 0);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	hide_thread(&bed, PID + 1);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	/* Not even when its number is given to the successor. */
	hide_thread(&bed, PID + 2);
	show_thread(&bed, PID + 1, 'R', 0);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	snap_tracer_note_missed(&bed.tracer);
	assert_int_equal(bed.process.threads_missed, 1);
	assert_int_equal(exiting->phase, SNAP_TRACEE_EXITING);
	tear_down(&bed);
}

static void test_successor_of_a_refused_thread(void **state _unused_)
{
	struct bed bed;

	set_up(&bed);
	add_stopped(&bed, PID);
	add(&bed, PID + 1, SNAP_TRACEE_ON_REFUSED);
	show_thread(&bed, PID + 1, 'S', SNAP_PF_IO_WORKER);
	assert_true(snap_tracer_is_settled(&bed.tracer, 0));
	hide_thread(&bed, PID + 1);
	show_thread(&bed, PID + 2, 'R', 0);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	tear_down(&bed);
}

/* An exec of another thread makes a zombie leader live again, and the program has new threads. */
static void test_leader_that_lives_again(void **state _unused_)
{
	struct bed bed;

	set_up(&bed);
	add(&bed, PID, SNAP_TRACEE_ON_ENDED);
	show_thread(&bed, PID, 'Z', 0);
	add_stopped(&bed, PID + 1);
	assert_true(snap_tracer_is_settled(&bed.tracer, 0));
	show_thread(&bed, PID, 'R', 0);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	tear_down(&bed);
}

static void show_garbage(struct bed *bed, pid_t tid)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d/stat", bed->folder, tid);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs("garbage\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void add_refused(struct bed *bed, pid_t tid)
{
	add(bed, tid, SNAP_TRACEE_ON_REFUSED);
	show_thread(bed, tid, 'S', SNAP_PF_IO_WORKER);
}

/* One that nothing is known of now is neither there nor gone: nothing is settled, nobody dropped. */
static void test_thread_that_cannot_be_looked_at(void **state _unused_)
{
	pid_t tids[MOST];
	struct bed bed;

	set_up(&bed);
	bed.tracer.tids = tids;
	add_refused(&bed, PID);
	add_refused(&bed, PID + 1);
	assert_true(snap_tracer_is_settled(&bed.tracer, 0));
	show_garbage(&bed, PID + 1);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	assert_int_equal(snap_tracer_settle(&bed.tracer, 0), 0);
	assert_int_equal(bed.tracees[1].phase, SNAP_TRACEE_REFUSED);
	assert_int_equal(bed.counted, 2);
	tear_down(&bed);
}

/* A new listing has one that cannot be seized any more: it is not ours. */
static void test_late_thread_that_has_gone(void **state _unused_)
{
	pid_t tids[MOST];
	struct bed bed;

	set_up(&bed);
	bed.tracer.tids = tids;
	add_refused(&bed, PID);
	show_thread(&bed, PID + 1, 'X', SNAP_PF_EXITING);
	assert_int_equal(snap_tracer_settle(&bed.tracer, 0), 0);
	assert_int_equal(bed.tracer.count, 2);
	assert_int_equal(bed.tracees[1].tid, PID + 1);
	assert_true(bed.tracees[1].phase == SNAP_TRACEE_EXITING ||
		    bed.tracees[1].phase == SNAP_TRACEE_GONE);
	assert_false(bed.process.execed);
	/* There is no room for more. */
	bed.tracer.capacity = bed.tracer.count;
	show_thread(&bed, PID + 2, 'S', 0);
	assert_int_equal(snap_tracer_settle(&bed.tracer, 0), 0);
	assert_int_equal(bed.tracer.count, 2);
	tear_down(&bed);
}

/* Nothing is waited for where the report says already that a process could not be traced. */
static void test_what_is_not_traced_is_settled(void **state _unused_)
{
	struct bed bed;

	set_up(&bed);
	show_thread(&bed, PID, 'S', 0);
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	bed.process.error = EPERM;
	assert_true(snap_tracer_is_settled(&bed.tracer, 0));
	bed.process.seized = true;
	assert_false(snap_tracer_is_settled(&bed.tracer, 0));
	bed.process.look_only = true;
	assert_true(snap_tracer_is_settled(&bed.tracer, 0));
	tear_down(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_predicates),
		cmocka_unit_test(test_counts_follow_the_phases),
		cmocka_unit_test(test_equal_numbers_settle),
		cmocka_unit_test(test_successor_of_a_vanished_thread),
		cmocka_unit_test(test_successor_of_a_refused_thread),
		cmocka_unit_test(test_leader_that_lives_again),
		cmocka_unit_test(test_thread_that_cannot_be_looked_at),
		cmocka_unit_test(test_late_thread_that_has_gone),
		cmocka_unit_test(test_what_is_not_traced_is_settled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
