/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A sampler whose sink writes down what it hears: who came and went, and of each thread the last
 * copy's outline. What it says of partial copies is the test's choice.
 */
#pragma once

#include "patience.h"
#include "victims.h"

#include "sample/internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>

enum { BED_THREADS = 2048, BED_PROCESSES = 256 };

struct bed_thread {
	pid_t tid, pid;
	const struct bed_process *process;
	char name[SNAP_MAX_COMM];
	bool alive;
	unsigned samples, copies, alone, unstopped, missed, renamed;
	unsigned first; /* which sample of all its first one was, + 1 */
	char state;
	uint64_t stack_bytes;
};

struct bed_process {
	pid_t pid, parent;
	uint64_t start_ticks;
	char name[SNAP_MAX_COMM];
	enum snap_trouble trouble;
	unsigned execs, mapped;
	size_t maps, pieces;
	bool alive;
};

struct bed {
	struct snap_options options;
	struct snap_target target;
	struct snap_sampler *sampler;
	struct snap_sampler_sink sink;
	struct snap_sampler_tick tick;
	struct bed_thread threads[BED_THREADS];
	size_t thread_count;
	struct bed_process processes[BED_PROCESSES];
	size_t process_count;
	enum snap_verdict of_partial; /* what is said of a partial copy */
	bool stale;                   /* the first time a copy is shown, say that */
	unsigned sample_calls;
	size_t copied_bytes;
};

static inline struct stacksnap_error *bed_program(void *context,
						  struct snap_sampled_process *process, bool exec)
{
	struct bed *bed = context;
	struct bed_process *mine = process->user;

	if (!exec) {
		assert_null(mine);
		assert_true(bed->process_count < BED_PROCESSES);
		mine = process->user = &bed->processes[bed->process_count++];
		mine->pid = process->facts->pid;
		mine->start_ticks = process->facts->start_ticks;
		mine->parent = process->parent ? process->parent->facts->pid : 0;
		mine->alive = true;
	}
	assert_non_null(mine);
	assert_true(mine->alive);
	if (process->parent)
		assert_true(((struct bed_process *)process->parent->user)->alive);
	mine->execs += exec;
	mine->trouble = process->facts->trouble;
	mine->maps = process->facts->map_count;
	mine->pieces = process->facts->piece_count;
	snprintf(mine->name, sizeof(mine->name), "%s",
		 process->facts->name ? process->facts->name : "");
	/* Of the old program nobody is left. */
	for (size_t i = 0; exec && i < bed->thread_count; i++)
		assert_false(bed->threads[i].alive && bed->threads[i].process == mine);
	return NULL;
}

static inline struct stacksnap_error *bed_mapped(void *context,
						 struct snap_sampled_process *process)
{
	struct bed_process *mine = process->user;

	(void)context;
	assert_non_null(mine);
	mine->mapped++;
	mine->maps = process->facts->map_count;
	mine->trouble = process->facts->trouble;
	return NULL;
}

static inline void bed_ended(void *context, struct snap_sampled_process *process)
{
	struct bed *bed = context;
	struct bed_process *mine = process->user;

	assert_true(mine->alive);
	mine->alive = false;
	for (size_t i = 0; i < bed->thread_count; i++)
		assert_false(bed->threads[i].alive && bed->threads[i].process == mine);
}

static inline struct stacksnap_error *bed_born(void *context, struct snap_sampled_thread *thread)
{
	struct bed *bed = context;
	struct bed_process *process = thread->process->user;

	assert_true(process && process->alive);
	assert_true(bed->thread_count < BED_THREADS);
	thread->user = (uint32_t)bed->thread_count++;
	bed->threads[thread->user] = (struct bed_thread){ .tid = thread->tid,
							  .pid = thread->process->facts->pid,
							  .alive = true };
	snprintf(bed->threads[thread->user].name, SNAP_MAX_COMM, "%s", thread->name);
	return NULL;
}

static inline struct stacksnap_error *bed_renamed(void *context, struct snap_sampled_thread *thread)
{
	struct bed *bed = context;

	bed->threads[thread->user].renamed++;
	snprintf(bed->threads[thread->user].name, SNAP_MAX_COMM, "%s", thread->name);
	return NULL;
}

static inline struct stacksnap_error *bed_died(void *context, struct snap_sampled_thread *thread)
{
	struct bed *bed = context;

	assert_true(bed->threads[thread->user].alive);
	bed->threads[thread->user].alive = false;
	return NULL;
}

static inline struct stacksnap_error *bed_sample(void *context, struct snap_sampled_thread *thread,
						 const struct snap_thread *copy,
						 enum snap_verdict *verdict_ret)
{
	struct bed *bed = context;
	struct bed_thread *mine = &bed->threads[thread->user];

	assert_true(mine->alive);
	assert_int_equal(copy->tid, thread->tid);
	bed->sample_calls++;
	*verdict_ret = SNAP_VERDICT_TAKEN;
	if (bed->stale && copy->result == SNAP_THREAD_COPIED) {
		bed->stale = false;
		*verdict_ret = SNAP_VERDICT_STALE_MAPPINGS;
		return NULL;
	}
	if (copy->result == SNAP_THREAD_COPIED && copy->partial)
		*verdict_ret = bed->of_partial;
	mine->first = mine->first ?: bed->sample_calls;
	mine->samples++;
	mine->state = copy->state;
	mine->missed += copy->result == SNAP_THREAD_NOT_STOPPED;
	if (copy->result == SNAP_THREAD_COPIED) {
		assert_true(copy->registers_size > 0);
		assert_true(copy->partial == (copy->taken == SNAP_TAKEN_UNSTOPPED));
		mine->copies++;
		mine->alone += copy->taken == SNAP_TAKEN_ALONE;
		mine->unstopped += copy->taken == SNAP_TAKEN_UNSTOPPED;
		mine->stack_bytes = copy->stack_size;
		bed->copied_bytes += copy->stack_size;
	}
	return NULL;
}

static inline void bed_options(struct bed *bed, pid_t pid)
{
	memset(bed, 0, sizeof(*bed));
	bed->target = (struct snap_target){ .kind = SNAP_TARGET_PID, .pid = pid };
	bed->options = (struct snap_options){ .children = true,
					      .no_bpf = true,
					      .force_stop = true,
					      .targets = &bed->target,
					      .target_count = 1,
					      .max_stack = 1 << 20,
					      .max_snapshot = 256 << 20,
					      .stop_timeout_ns = 1000000000,
					      .hz = 99 };
	bed->sink = (struct snap_sampler_sink){ bed,       bed_program, bed_mapped,
						bed_ended, bed_born,    bed_renamed,
						bed_died,  bed_sample,  NULL };
}

static inline void bed_open(struct bed *bed)
{
	struct stacksnap_error *err = snap_sampler_create(&bed->options, &bed->sink, &bed->sampler);

	if (err)
		fail_msg("%s", snap_error_message(err));
}

static inline void bed_start(struct bed *bed, pid_t pid)
{
	bed_options(bed, pid);
	bed_open(bed);
}

static inline void bed_end(struct bed *bed)
{
	snap_sampler_destroy(bed->sampler);
	bed->sampler = NULL;
}

static inline void bed_tick(struct bed *bed)
{
	struct stacksnap_error *err = snap_sampler_tick(bed->sampler, &bed->tick);

	if (err)
		fail_msg("%s", snap_error_message(err));
}

static inline struct bed_thread *bed_thread(struct bed *bed, pid_t tid)
{
	for (size_t i = bed->thread_count; i > 0; i--)
		if (bed->threads[i - 1].tid == tid)
			return &bed->threads[i - 1];
	return NULL;
}

static inline struct bed_thread *bed_named(struct bed *bed, const char *name)
{
	for (size_t i = bed->thread_count; i > 0; i--)
		if (strcmp(bed->threads[i - 1].name, name) == 0)
			return &bed->threads[i - 1];
	return NULL;
}

static inline struct bed_process *bed_process(struct bed *bed, pid_t pid)
{
	for (size_t i = bed->process_count; i > 0; i--)
		if (bed->processes[i - 1].pid == pid)
			return &bed->processes[i - 1];
	return NULL;
}

static inline size_t bed_living(const struct bed *bed)
{
	size_t count = 0;

	for (size_t i = 0; i < bed->thread_count; i++)
		count += bed->threads[i].alive;
	return count;
}

/* Ticks a millisecond apart until something holds; the test's own time limit ends it otherwise. */
#define bed_until(bed, condition)                       \
	for (unsigned _i = 0; !(condition); _i++) {     \
		assert_true(_i < with_patience(20000)); \
		bed_tick(bed);                          \
		usleep(1000);                           \
	}

/* What victims do, and what tests do with them. */
static volatile int interrupted, in_position;

/* A call that a stop does not restart: it counts how often it came back. */
static inline void *wait_in_epoll(void *unused)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	prctl(PR_SET_NAME, "poller");
	__atomic_add_fetch(&in_position, 1, __ATOMIC_SEQ_CST);
	for (;;)
		if (epoll_wait(fd, &event, 1, -1) < 0)
			__atomic_add_fetch(&interrupted, 1, __ATOMIC_SEQ_CST);
	return unused;
}

static inline pthread_t start_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, argument))
		_exit(4);
	return thread;
}

/* All blocked: the copies are taken and nobody is disturbed. */
static inline void settle(struct bed *bed)
{
	bed_until(bed, bed->tick.threads > 0 && bed->tick.kept == bed->tick.threads);
}

static inline void answers_commands(int commands, int answers)
{
	answer(answers, getpid());
	while (command(commands))
		answer(answers, 1);
}

static inline size_t open_descriptors(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 4096; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* All threads of a victim but so many sleep: one that is just going to would be met running, and
 * stopped. */
static inline void wait_until_asleep(pid_t pid, unsigned awake)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_fd_ int process_fd = -1, tasks_fd = -1;
	pid_t tids[BED_THREADS];
	ssize_t count, asleep = 0;

	assert_null(snap_procfs_open(NULL, &procfs));
	process_fd = snap_procfs_open_process(&procfs, pid);
	tasks_fd = snap_procfs_open_tasks(process_fd);
	do {
		struct snap_stat stat;

		count = snap_procfs_list(tasks_fd, tids, BED_THREADS);
		assert_true(count > 0 && count <= BED_THREADS);
		asleep = 0;
		for (ssize_t i = 0; i < count; i++)
			asleep += snap_procfs_task_stat(tasks_fd, tids[i], &stat) == 0 &&
				  stat.state == 'S';
		usleep(1000);
	} while (asleep + (ssize_t)awake < count);
}

static inline int give_bed(void **state)
{
	*state = calloc(1, sizeof(struct bed));
	return *state ? 0 : -1;
}

static inline int take_bed(void **state)
{
	free(*state);
	return 0;
}

#define bed_test(name) cmocka_unit_test_setup_teardown(name, give_bed, take_bed)
