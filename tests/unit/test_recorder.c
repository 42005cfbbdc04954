/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The recorder over processes that run: what it says of them must be so, whatever the rate that
 * this machine reaches.
 */
#include "own_calls.h"
#include "record/recorder.h"
#include "store/recording/file.h"
#include "victims.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static atomic_int in_place;

static void *sleeper(void *unused _unused_)
{
	in_place++;
	for (;;)
		pause();
	return NULL;
}

static void *spinner(void *unused _unused_)
{
	in_place++;
	for (volatile unsigned long n = 0;; n = n + 1)
		;
	return NULL;
}

/* Three threads that sleep, one that runs, and the first one, which waits for its end. */
static void workers(int commands, int answers)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, sleeper, NULL);
	pthread_create(&thread, NULL, spinner, NULL);
	/* A thread that is being made sleeps, too, here and there. */
	while (in_place < 4)
		sched_yield();
	answer(answers, 0);
	wait_for_end(commands);
}

/* At each command it becomes another program, which is this one's end. */
static void execs(int commands, int answers)
{
	answer(answers, 0);
	if (command(commands)) {
		/* The pipe stays open in the program, which reads from it for ever. */
		dup2(commands, 0);
		execlp("cat", "cat", NULL);
		_exit(4);
	}
}

static void leaves(int commands, int answers)
{
	answer(answers, 0);
	command(commands);
}

static unsigned count_sleeping(pid_t pid)
{
	char path[64], line[512];
	unsigned count = 0;
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	assert_non_null(tasks);
	while ((entry = readdir(tasks))) {
		_cleanup_fclose_ FILE *file = NULL;

		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)pid, entry->d_name);
		file = fopen(path, "re");
		if (file && fgets(line, sizeof(line), file))
			count += strstr(line, ") S ") != NULL;
	}
	closedir(tasks);
	return count;
}

struct bed {
	struct victim victim;
	struct snap_target target;
	struct snap_options options;
	struct snap_recorder *recorder;
};

static void begin(struct bed *bed, void (*body)(int, int))
{
	*bed = (struct bed){ .options = { .children = true,
					  .hz = 200,
					  .max_stack = 1 << 20,
					  .max_frames = 512,
					  .stop_timeout_ns = 1000000000,
					  .symbols = true } };
	victim_start(&bed->victim, body);
	wait_answer(&bed->victim);
	/* New threads may be on their way to where they sleep. */
	while (body == workers && count_sleeping(bed->victim.pid) < 4)
		sched_yield();
	bed->target = (struct snap_target){ .kind = SNAP_TARGET_PID, .pid = bed->victim.pid };
	bed->options.targets = &bed->target;
	bed->options.target_count = 1;
	assert_null(snap_recorder_create(&bed->options, &bed->recorder));
}

static void end(struct bed *bed)
{
	snap_recorder_destroy(bed->recorder);
	victim_end(&bed->victim);
}

static const struct snap_log *log_of(const struct bed *bed)
{
	return snap_recorder_log(bed->recorder);
}

/* Samples by state of all threads of a log that are not the first one. */
static void count_states(const struct snap_log *log, pid_t leader, uint64_t *states)
{
	size_t change = 0;
	struct snap_log_change *standing = calloc(log->thread_count + 1, sizeof(*standing));

	assert_non_null(standing);
	for (size_t i = 0; i < log->thread_count; i++)
		standing[i].stack = SNAP_LOG_GONE;
	for (size_t tick = 0; tick < log->tick_count; tick++) {
		for (; change < log->ticks[tick].change_end - log->first_change; change++)
			standing[log->changes[change].thread] = log->changes[change];
		for (size_t i = 0; i < log->thread_count; i++)
			if (standing[i].stack != SNAP_LOG_GONE && log->threads[i].tid != leader)
				states[standing[i].state]++;
	}
	free(standing);
}

static bool until_ticks(void *context, const struct snap_recorder_status *status)
{
	return status->stats.ticks < *(const unsigned *)context;
}

static void test_states_are_right(void **state _unused_)
{
	uint64_t states[SNAP_STATE_COUNT] = { 0 }, all = 0;
	unsigned ticks = 60;
	struct bed bed;
	const struct snap_log *log;

	begin(&bed, workers);
	assert_null(snap_recorder_run(bed.recorder, until_ticks, &ticks));
	log = log_of(&bed);
	assert_int_equal(log->end, SNAP_END_ASKED);
	assert_int_equal(log->tick_count, ticks);
	assert_int_equal(log->thread_count, 5);
	assert_int_equal(log->process_count, 1);
	count_states(log, bed.victim.pid, states);
	for (int i = 0; i < SNAP_STATE_COUNT; i++)
		all += states[i];
	assert_int_equal(all, 4 * ticks);
	/*
	 * A sleeper that was stopped, as its place needs more registers than are told, has to run
	 * to sleep again: on a busy machine it still waits for a processor some ticks later.
	 */
	assert_int_equal(states[SNAP_STATE_SLEEPING] + states[SNAP_STATE_RUNNING], 4 * ticks);
	assert_true(states[SNAP_STATE_RUNNING] >= ticks);
	assert_true(states[SNAP_STATE_SLEEPING] >= 2 * ticks);
	assert_int_equal(log->stats.thread_samples, 5 * ticks);
	assert_int_equal(log->stats.threads, 5);
	/* Who sleeps is stopped once at most, where its place needs more registers than are told.
	 */
	assert_true(log->stats.alone <= ticks + 8);
	end(&bed);
}

static void test_ticks_are_kept_or_missed(void **state _unused_)
{
	struct bed bed;
	const struct snap_log *log;
	uint64_t slots;

	begin(&bed, workers);
	bed.options.record_ns = 300000000;
	assert_null(snap_recorder_run(bed.recorder, NULL, NULL));
	log = log_of(&bed);
	assert_int_equal(log->end, SNAP_END_TIME);
	assert_true(log->stats.duration_ns >= bed.options.record_ns);
	slots = (uint64_t)log->stats.duration_ns / 5000000;
	assert_in_range(log->stats.ticks + log->stats.ticks_missed, 60, slots + 1);
	assert_int_equal(log->stats.ticks, log->tick_count);
	end(&bed);
}

/* Tells the victim at the third tick, and goes on until so much has been seen or time is over. */
struct seen {
	struct bed *bed;
	size_t processes;
	unsigned ticks;
};

static bool until_processes(void *context, const struct snap_recorder_status *status)
{
	struct seen *seen = context;

	if (++seen->ticks == 3)
		tell(&seen->bed->victim);
	return log_of(seen->bed)->process_count < seen->processes &&
	       status->elapsed_ns < 60000000000;
}

static void test_children_are_followed(void **state _unused_)
{
	struct bed bed;
	struct seen seen = { .bed = &bed, .processes = 3 };
	const struct snap_log *log;

	/* Of the family one child is there at once, another one comes. */
	begin(&bed, family);
	assert_null(snap_recorder_run(bed.recorder, until_processes, &seen));
	log = log_of(&bed);
	assert_int_equal(log->process_count, 3);
	assert_int_equal(log->processes[1].parent, 0);
	assert_int_equal(log->processes[2].parent, 0);
	assert_int_equal(log->processes[2].pid, wait_answer(&bed.victim));
	assert_true(log->processes[2].first_tick > 0);
	assert_true(log->processes[0].is_target);
	assert_false(log->processes[2].is_target);
	end(&bed);
}

static void test_an_exec_is_followed(void **state _unused_)
{
	struct bed bed;
	struct seen seen = { .bed = &bed, .processes = 2 };
	const struct snap_log *log;

	begin(&bed, execs);
	assert_null(snap_recorder_run(bed.recorder, until_processes, &seen));
	log = log_of(&bed);
	assert_int_equal(log->process_count, 2);
	assert_int_equal(log->processes[1].pid, bed.victim.pid);
	assert_true(log->processes[0].execed);
	assert_true(log->processes[0].last_tick < log->processes[1].first_tick);
	assert_int_not_equal(log->processes[0].space, log->processes[1].space);
	assert_string_equal(log->capture->processes[log->processes[1].space].name, "cat");
	end(&bed);
}

static void test_the_end_of_all_targets_ends_it(void **state _unused_)
{
	struct bed bed;
	struct seen seen = { .bed = &bed, .processes = 99 };
	const struct snap_log *log;
	uint32_t last;

	begin(&bed, leaves);
	assert_null(snap_recorder_run(bed.recorder, until_processes, &seen));
	log = log_of(&bed);
	assert_int_equal(log->end, SNAP_END_TARGETS);
	assert_int_equal(log->process_count, 1);
	assert_true(log->processes[0].last_tick != UINT64_MAX);
	last = (uint32_t)log->change_count - 1;
	assert_int_equal(log->changes[last].stack, SNAP_LOG_GONE);
	assert_true(log->stats.thread_samples >= 3);
	end(&bed);
}

static void *stop_soon(void *recorder)
{
	struct timespec soon = { .tv_nsec = 50000000 };

	nanosleep(&soon, NULL);
	snap_recorder_stop(recorder);
	return NULL;
}

static void test_another_thread_may_stop_it(void **state _unused_)
{
	struct bed bed;
	pthread_t thread;

	begin(&bed, workers);
	bed.options.hz = 1;
	assert_int_equal(pthread_create(&thread, NULL, stop_soon, bed.recorder), 0);
	assert_null(snap_recorder_run(bed.recorder, NULL, NULL));
	pthread_join(thread, NULL);
	assert_int_equal(log_of(&bed)->end, SNAP_END_ASKED);
	end(&bed);
}

static void test_conditions_end_it(void **state _unused_)
{
	static const struct snap_until conditions[] = {
		{ .kind = SNAP_UNTIL_THREADS, .limit = 4 },
		{ .kind = SNAP_UNTIL_STATE, .states = 1u << SNAP_STATE_SLEEPING, .limit = 3 },
		{ .kind = SNAP_UNTIL_STATE,
		  .states = 1u << SNAP_STATE_RUNNING,
		  .for_ns = 20000000 },
		{ .kind = SNAP_UNTIL_CPU, .limit = 1 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(conditions); i++) {
		struct bed bed;

		begin(&bed, workers);
		bed.options.until = conditions[i];
		bed.options.record_ns = 60000000000;
		assert_null(snap_recorder_run(bed.recorder, NULL, NULL));
		assert_int_equal(log_of(&bed)->end, SNAP_END_CONDITION);
		end(&bed);
	}
}

static void test_it_leaves_the_thread_as_it_was(void **state _unused_)
{
	unsigned ticks = 2;
	struct bed bed;
	int before = nice(0);

	begin(&bed, workers);
	assert_null(snap_recorder_run(bed.recorder, until_ticks, &ticks));
	assert_int_equal(nice(0), before);
	end(&bed);
}

static void test_nobody_to_record_is_told_at_once(void **state _unused_)
{
	struct snap_target targets[2] = { { .kind = SNAP_TARGET_PID, .pid = 999999999 },
					  { .kind = SNAP_TARGET_PID, .pid = getppid() } };
	struct snap_options options = {
		.hz = 99, .max_stack = 1 << 20, .targets = targets, .target_count = 1
	};
	struct snap_recorder *recorder = NULL;
	struct stacksnap_error *err = snap_recorder_create(&options, &recorder);
	pid_t zombie;

	assert_int_equal(snap_error_code(err), SNAP_ERROR_NOT_FOUND);
	assert_non_null(strstr(snap_error_message(err), "999999999"));
	snap_error_destroy(err);
	zombie = fork();
	if (zombie == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)zombie, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	targets[0].pid = zombie;
	err = snap_recorder_create(&options, &recorder);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_NOT_FOUND);
	snap_error_destroy(err);
	waitpid(zombie, NULL, 0);
	/* One that can be is enough; the other one is a warning. */
	targets[0].pid = 999999999;
	options.target_count = 2;
	assert_null(snap_recorder_create(&options, &recorder));
	snap_recorder_destroy(recorder);
}

static bool watch_priority(void *context, const struct snap_recorder_status *status)
{
	assert_int_equal(nice(0), *(const int *)context);
	return status->stats.ticks < 3;
}

/* What the caller does in between has the caller's priority. */
static void test_the_callback_has_the_priority_it_had(void **state _unused_)
{
	struct bed bed;
	int before = nice(0);

	begin(&bed, workers);
	assert_null(snap_recorder_run(bed.recorder, watch_priority, &before));
	end(&bed);
}

static const struct snap_track *track_of(const struct snap_recording *recording, pid_t tid)
{
	for (size_t i = 0; i < recording->track_count; i++)
		if (recording->tracks[i].tid == tid)
			return &recording->tracks[i];
	return NULL;
}

static bool has_function(const struct snap_recorded_stack *stack, const char *function)
{
	for (size_t k = 0; k < stack->frame_count; k++) {
		const char *name = stack->frames[k]->entries[0].function;

		if (name && strcmp(name, function) == 0)
			return true;
	}
	return false;
}

/*
 * How many tracks have a function in one of their stacks. Not in each: who does not come to a stop
 * in time has its pc alone.
 */
static unsigned tracks_in(const struct snap_recording *recording, const char *function)
{
	unsigned count = 0;

	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];
		bool has = false;

		for (size_t k = 0; k < track->run_count && !has; k++)
			has = has_function(&recording->stacks[track->runs[k].stack], function);
		count += has;
	}
	return count;
}

static bool look_inside(void *context, const struct snap_recorder_status *status)
{
	struct bed *bed = context;

	if (status->stats.ticks == 5) {
		_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;

		assert_null(snap_recorder_recording(bed->recorder, &bed->options, &recording));
		assert_int_equal(recording->tick_count, 5);
		assert_int_equal(recording->end, SNAP_END_ASKED);
	}
	return status->stats.ticks < 40;
}

static void test_what_is_held_has_names(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	const struct snap_track *leader;
	struct bed bed;

	begin(&bed, workers);
	assert_null(snap_recorder_run(bed.recorder, look_inside, &bed));
	/* The files are found when the process has gone, too. */
	victim_end(&bed.victim);
	assert_null(snap_recorder_recording(bed.recorder, &bed.options, &recording));
	assert_int_equal(recording->tick_count, 40);
	assert_int_equal(recording->track_count, 5);
	assert_int_equal(recording->process_count, 1);
	assert_int_equal(recording->period_ns, 5000000);
	assert_false(recording->is_slice);
	assert_int_equal(tracks_in(recording, "sleeper"), 3);
	assert_true(tracks_in(recording, "spinner") <= 1);
	assert_int_equal(tracks_in(recording, "workers"), 1);
	leader = track_of(recording, recording->processes[0].node->pid);
	assert_non_null(leader);
	assert_int_equal(leader->run_count, 1);
	assert_int_equal(snap_run_samples(leader->runs), 40);
	assert_string_equal(leader->runs[0].syscall, OWN_POLL_NAME);
	end(&bed);
}

static bool until_seconds(void *context, const struct snap_recorder_status *status)
{
	return status->elapsed_ns < *(const int64_t *)context;
}

static void test_a_ring_holds_its_last_seconds(void **state _unused_)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	int64_t seconds = 1500000000;
	struct bed bed;
	const struct snap_log *log;

	begin(&bed, workers);
	bed.options.ring_ns = 300000000;
	assert_null(snap_recorder_run(bed.recorder, until_seconds, &seconds));
	assert_null(snap_recorder_recording(bed.recorder, &bed.options, &recording));
	log = log_of(&bed);
	assert_true(recording->is_slice);
	assert_true(recording->tick_count >= 1 && recording->tick_count <= 60);
	assert_true(recording->ticks[0].time_ns >=
		    log->ticks[log->tick_count - 1].time_ns - bed.options.ring_ns);
	/* Who has not moved since before the window stands in it all the same. */
	assert_int_equal(recording->track_count, 5);
	assert_int_equal(tracks_in(recording, "sleeper"), 3);
	assert_true(recording->stats.ticks > recording->tick_count);
	end(&bed);
}

static void test_the_file_can_be_read_while_it_grows(void **state _unused_)
{
	struct snap_log *read = NULL;
	unsigned ticks = 20;
	int fd = memfd_create("recording", MFD_CLOEXEC);
	char magic[SNAP_LOG_MAGIC_SIZE];
	struct bed bed;

	assert_true(fd >= 0);
	begin(&bed, workers);
	assert_null(snap_recorder_write_to(bed.recorder, fd));
	assert_null(snap_recorder_run(bed.recorder, until_ticks, &ticks));
	assert_int_equal(pread(fd, magic, sizeof(magic), 0), sizeof(magic));
	assert_true(snap_log_is_recording(magic, sizeof(magic)));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_null(snap_log_read(fd, &read));
	assert_int_equal(read->end, SNAP_END_UNFINISHED);
	assert_int_equal(read->tick_count, ticks);
	snap_log_destroy(read);
	assert_true(lseek(fd, 0, SEEK_END) > 0);
	assert_null(snap_recorder_finish(bed.recorder));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_null(snap_log_read(fd, &read));
	assert_int_equal(read->end, SNAP_END_ASKED);
	assert_int_equal(read->tick_count, ticks);
	assert_int_equal(read->stats.thread_samples, log_of(&bed)->stats.thread_samples);
	snap_log_destroy(read);
	end(&bed);
	close(fd);
}

static void test_a_full_destination_ends_the_file_alone(void **state _unused_)
{
	unsigned ticks = 20;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct stacksnap_error *err;
	struct bed bed;

	assert_true(fd >= 0);
	begin(&bed, workers);
	assert_null(snap_recorder_write_to(bed.recorder, fd));
	err = snap_recorder_run(bed.recorder, until_ticks, &ticks);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
	assert_int_equal(snap_error_errno(err), ENOSPC);
	snap_error_destroy(err);
	assert_int_equal(log_of(&bed)->end, SNAP_END_FAILED);
	/* Told once: the run can go on. */
	assert_null(snap_recorder_run(bed.recorder, until_ticks, &ticks));
	assert_int_equal(log_of(&bed)->end, SNAP_END_ASKED);
	assert_null(snap_recorder_finish(bed.recorder));
	end(&bed);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states_are_right),
		cmocka_unit_test(test_ticks_are_kept_or_missed),
		cmocka_unit_test(test_children_are_followed),
		cmocka_unit_test(test_an_exec_is_followed),
		cmocka_unit_test(test_the_end_of_all_targets_ends_it),
		cmocka_unit_test(test_another_thread_may_stop_it),
		cmocka_unit_test(test_conditions_end_it),
		cmocka_unit_test(test_it_leaves_the_thread_as_it_was),
		cmocka_unit_test(test_nobody_to_record_is_told_at_once),
		cmocka_unit_test(test_the_callback_has_the_priority_it_had),
		cmocka_unit_test(test_what_is_held_has_names),
		cmocka_unit_test(test_a_ring_holds_its_last_seconds),
		cmocka_unit_test(test_the_file_can_be_read_while_it_grows),
		cmocka_unit_test(test_a_full_destination_ends_the_file_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
