/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads come, go and are renamed. Their number is read in every tick; the list only when the
 * number has changed or a thread has gone.
 */
#include "sample/internal.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/clock.h"

#include <errno.h>
#include <string.h>

enum {
	LIST_SHARE = 8, /* of the time at most one part in so many is spent on listings */
	FIRST_TIDS = 256,
	RENAME_MS = 1000, /* between two names of a thread, once it is as old as that */
	LONGEST_SILENCE_S = 60,
};

static void close_kept(struct snap_sampler *sampler, int *fd)
{
	sampler->descriptors += *fd >= 0;
	snap_close(fd);
}

void snap_sampler_thread_destroy(struct snap_sampler *sampler, struct snap_sampler_thread *thread)
{
	close_kept(sampler, &sampler->guards[thread->guard].guard_fd);
	free(thread);
}

int snap_sampler_thread_open(struct snap_sampler *sampler, const struct snap_sampler_thread *thread,
			     const char *name, int *kept)
{
	int fd;

	if (*kept >= 0 || !name)
		return name ? *kept : -EINVAL;
	fd = snap_procfs_task_open_file(thread->process->shown.tasks_fd, thread->shown.tid, name);
	if (fd >= 0 && sampler->descriptors > 0) {
		sampler->descriptors--;
		*kept = fd;
	}
	return fd;
}

void snap_sampler_thread_set_letter(struct snap_sampler *sampler,
				    struct snap_sampler_thread *thread, char letter)
{
	sampler->disk += (letter == 'D') - (thread->letter == 'D');
	thread->letter = thread->shown.state = letter;
}

int snap_sampler_read_stat(const struct snap_sampler *sampler, struct snap_sampler_process *process,
			   pid_t tid, struct snap_stat *ret)
{
	const int64_t longest = LONGEST_SILENCE_S * SNAP_NS_PER_S;
	int error;

	if (snap_clock_ns(CLOCK_MONOTONIC) < process->silent_until_ns)
		return -ETIMEDOUT;
	error = snap_reader_stat(sampler->reader, process->facts.pid, tid, ret);
	if (error != -ETIMEDOUT)
		return error;
	process->silent_ns = process->silent_ns ? 2 * process->silent_ns : 1000000000;
	process->silent_ns = SNAP_MIN(process->silent_ns, longest);
	process->silent_until_ns = snap_clock_ns(CLOCK_MONOTONIC) + process->silent_ns;
	process->hold_due = process->state == SNAP_SAMPLER_PROCESS_SAMPLED;
	return error;
}

int snap_sampler_thread_stat(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
			     struct snap_stat *ret)
{
	return snap_sampler_read_stat(sampler, thread->process, thread->shown.tid, ret);
}

static bool has_thread_ended(const struct snap_stat *stat)
{
	return stat->state == 'Z' || stat->state == 'X';
}

struct stacksnap_error *snap_sampler_thread_read(struct snap_sampler *sampler,
						 struct snap_sampler_thread *thread)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_stat stat;
	int error = snap_sampler_thread_stat(sampler, thread, &stat);

	if (snap_procfs_is_gone(error) || (!error && has_thread_ended(&stat))) {
		thread->process->list_due = true;
		snap_sampler_thread_end(sampler, thread);
		return NULL;
	}
	if (error)
		return NULL;
	snap_sampler_process_compare(sampler, thread->process, &stat);
	if (snap_sampler_thread_gone(sampler, thread))
		return NULL;
	thread->read_ns = sampler->now_ns;
	thread->cpu = stat.cpu;
	thread->flags = stat.flags;
	snap_sampler_thread_set_letter(sampler, thread, stat.state);
	/* Of a thread that takes a new name with each job, not every name is reported. */
	if (strcmp(thread->name, stat.name) == 0 || sampler->now_ns < thread->rename_after_ns)
		return NULL;
	if (sampler->now_ns - thread->born_ns > RENAME_MS * SNAP_NS_PER_MS)
		thread->rename_after_ns = sampler->now_ns + RENAME_MS * SNAP_NS_PER_MS;
	memcpy(thread->name, stat.name, sizeof(thread->name));
	return sink->renamed(sink->context, &thread->shown);
}

void snap_sampler_thread_end(struct snap_sampler *sampler, struct snap_sampler_thread *thread)
{
	if (snap_sampler_thread_gone(sampler, thread))
		return;
	snap_sampler_thread_set(sampler, thread, SNAP_SAMPLER_THREAD_GONE);
	thread->process->ended_threads++;
	snap_sampler_thread_set_letter(sampler, thread, 'X');
	/* Room for all of them was made when they were born. */
	sampler->dead[sampler->dead_count++] = thread;
}

/* The last guard takes the place of one that is not needed any more. */
static void remove_thread(struct snap_sampler *sampler, struct snap_sampler_thread *thread)
{
	struct snap_sampler_guard last = sampler->guards[--sampler->guard_count];
	size_t guard = thread->guard;

	last.thread->guard = guard;
	close_kept(sampler, &sampler->guards[guard].guard_fd);
	sampler->guards[guard] = last;
	free(thread);
}

/* The files of a process are found through a thread that lives on when its leader has left. */
static void open_survivor_directory(struct snap_sampler *sampler,
				    const struct snap_sampler_thread *thread)
{
	struct snap_sampler_process *process = thread->process;
	struct snap_live *live = &process->live;
	char state;
	int fd;

	if (thread->shown.tid != process->facts.pid ||
	    process->state == SNAP_SAMPLER_PROCESS_LOST || live->proc_fd < 0 || live->files_fd >= 0)
		return;
	fd = snap_procfs_open_survivor(&sampler->procfs, live->proc_fd, &state);
	if (fd < 0)
		return;
	live->files_fd = fd;
	sampler->descriptors--;
}

struct stacksnap_error *snap_sampler_remove_threads(struct snap_sampler *sampler)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct stacksnap_error *err = NULL;
	size_t kept;

	for (size_t i = 0; i < sampler->dead_count; i++) {
		struct snap_sampler_process *process = sampler->dead[i]->process;

		err = err ?: sink->died(sink->context, &sampler->dead[i]->shown);
		open_survivor_directory(sampler, sampler->dead[i]);
		/* The first of a process's takes all of them from its list. */
		if (!process->ended_threads)
			continue;
		kept = 0;
		for (size_t k = 0; k < process->thread_count; k++)
			if (!snap_sampler_thread_gone(sampler, process->threads[k]))
				process->threads[kept++] = process->threads[k];
		process->thread_count = kept;
		process->ended_threads = 0;
	}
	for (size_t i = 0; i < sampler->dead_count; i++)
		remove_thread(sampler, sampler->dead[i]);
	sampler->dead_count = 0;
	return err;
}

/* For one more thread, and for the end of all of them, which then cannot fail. */
static bool make_thread_room(struct snap_sampler *sampler)
{
	size_t count = sampler->guard_count + 1;

	return snap_reserve_array(sampler->guards, sampler->guard_capacity, count) &&
	       snap_reserve_array(sampler->dead, sampler->dead_capacity, count);
}

static struct snap_sampler_thread *new_thread(struct snap_sampler *sampler,
					      struct snap_sampler_process *process, pid_t tid,
					      const struct snap_stat *stat)
{
	struct snap_sampler_thread *thread = calloc(1, sizeof(*thread));
	const char *guard = snap_guard_file(sampler->guard_kind);
	struct snap_status status;

	if (!thread)
		return NULL;
	thread->shown = (struct snap_sampled_thread){
		.tid = tid,
		.ns_tid = tid,
		.name = thread->name,
		.kernel = stat->flags & (SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER),
		.process = &process->shown,
	};
	if (process->facts.ns_pid && process->facts.ns_pid != process->facts.pid)
		thread->shown.ns_tid =
			snap_procfs_task_status(process->shown.tasks_fd, tid, &status) == 0
				? status.ns_pid
				: 0;
	thread->process = process;
	memcpy(thread->name, stat->name, sizeof(thread->name));
	thread->flags = stat->flags;
	thread->cpu = stat->cpu;
	thread->read_ns = thread->born_ns = sampler->now_ns;
	snap_sampler_thread_set_letter(sampler, thread, stat->state);
	thread->guard = sampler->guard_count++;
	sampler->guards[thread->guard] =
		(struct snap_sampler_guard){ .thread = thread, .guard_fd = -1 };
	/* One that is not kept is opened when it is needed. */
	if (guard && sampler->descriptors > 0)
		snap_sampler_thread_open(sampler, thread, guard,
					 &sampler->guards[thread->guard].guard_fd);
	return thread;
}

/* NULL in *ret: it has gone already, or is a zombie. */
static struct stacksnap_error *add_sampled_thread(struct snap_sampler *sampler,
						  struct snap_sampler_process *process, pid_t tid,
						  struct snap_sampler_thread **ret)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_sampler_thread *thread;
	struct snap_stat stat;
	int error = snap_sampler_read_stat(sampler, process, tid, &stat);

	*ret = NULL;
	/* What cannot be read now may be readable at the next listing. */
	if (error && !snap_procfs_is_gone(error)) {
		process->list_due = true;
		return NULL;
	}
	if (error || has_thread_ended(&stat) || sampler->guard_count >= SNAP_MAX_THREADS)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(make_thread_room(sampler)));
	thread = new_thread(sampler, process, tid, &stat);
	SNAP_TRY(snap_no_memory_unless(thread));
	*ret = thread;
	snap_trace(sampler->options->trace, tid, SNAP_TRACE_LISTED, NULL);
	return sink->born(sink->context, &thread->shown);
}

SNAP_ORDER(compare_tids, pid_t, a, b, snap_compare(*a, *b));

/* The tids of a process, sorted; a negative errno. */
static struct stacksnap_error *list_tids(struct snap_sampler *sampler,
					 const struct snap_sampler_process *process,
					 ssize_t *count_ret)
{
	size_t room = FIRST_TIDS;
	ssize_t count;

	for (;;) {
		if (!snap_reserve_array(sampler->tids, sampler->tid_capacity, room))
			return snap_error_no_memory();
		count = snap_procfs_list(process->shown.tasks_fd, sampler->tids,
					 sampler->tid_capacity);
		if (count <= (ssize_t)sampler->tid_capacity)
			break;
		room = (size_t)count + (size_t)count / 8;
	}
	for (ssize_t i = 1; i < count; i++) {
		if (sampler->tids[i - 1] > sampler->tids[i]) {
			qsort(sampler->tids, (size_t)count, sizeof(pid_t), compare_tids);
			break;
		}
	}
	*count_ret = count;
	return NULL;
}

SNAP_ORDER(compare_threads, const struct snap_sampler_thread *, a, b,
	   snap_compare((*a)->shown.tid, (*b)->shown.tid));

/* Both lists are sorted; a thread in one alone has gone, or is new. */
static struct stacksnap_error *merge_listing(struct snap_sampler *sampler,
					     struct snap_sampler_process *process, size_t count)
{
	size_t old = process->thread_count, at = 0;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		pid_t tid = sampler->tids[i];
		struct snap_sampler_thread *thread;

		for (; at < old && process->threads[at]->shown.tid < tid; at++)
			snap_sampler_thread_end(sampler, process->threads[at]);
		if (at < old && process->threads[at]->shown.tid == tid) {
			at++;
			continue;
		}
		SNAP_TRY(snap_no_memory_unless(snap_reserve_array(
			process->threads, process->thread_capacity, process->thread_count + 1)));
		err = add_sampled_thread(sampler, process, tid, &thread);
		if (thread)
			process->threads[process->thread_count++] = thread;
	}
	for (; !err && at < old; at++)
		snap_sampler_thread_end(sampler, process->threads[at]);
	if (process->thread_count > old)
		qsort(process->threads, process->thread_count, sizeof(struct snap_sampler_thread *),
		      compare_threads);
	return err;
}

struct stacksnap_error *snap_sampler_list(struct snap_sampler *sampler,
					  struct snap_sampler_process *process)
{
	int64_t begin;
	struct stacksnap_error *err = NULL;
	size_t counted = 0;
	ssize_t count = 0;

	if (snap_procfs_thread_count(process->shown.tasks_fd, &counted) != 0)
		counted = 0;
	if (counted != process->listed)
		process->list_due = true;
	if (!process->list_due || sampler->now_ns < process->list_after_ns)
		return NULL;
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	process->list_due = false;
	process->listed = counted;
	SNAP_TRY(list_tids(sampler, process, &count));
	/* A list that cannot be read does not mean that threads are gone. */
	if (count < 0 && !snap_procfs_is_gone(count))
		process->list_due = true;
	else
		err = merge_listing(sampler, process, count > 0 ? (size_t)count : 0);
	if (err)
		return err;
	/*
	 * No thread of it lives any more: not one is listed, or a zombie alone. So it looks for a
	 * moment of an exec, too, which another look tells, if there is one.
	 */
	if (process->ended_threads == process->thread_count && !process->list_due)
		process->state = sampler->may_retry || !sampler->options->no_stop
					 ? SNAP_SAMPLER_PROCESS_LOST
					 : SNAP_SAMPLER_PROCESS_GONE;
	process->list_after_ns = snap_sampler_after(sampler, begin, 0, LIST_SHARE);
	return NULL;
}
