/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads come, go and are renamed. Their number is asked for in every tick; who they are, only
 * when that has changed or one of them has gone.
 */
#include "sample/internal.h"

#include <errno.h>
#include <string.h>

enum {
	LIST_SHARE = 8, /* of the time at most one part in so many is spent on listings */
	FIRST_TIDS = 256,
	RENAME_MS = 1000, /* between two names of a thread, once it is as old as that */
	STAT_SIZE = 2048,
};

static void close_kept(struct snap_sampler *sampler, int *fd)
{
	sampler->descriptors += *fd >= 0;
	snap_close(fd);
}

static void free_thread(struct snap_sampler *sampler, struct snap_watched *thread)
{
	close_kept(sampler, &thread->syscall_fd);
	close_kept(sampler, &thread->stat_fd);
	free(thread);
}

void snap_watched_destroy(struct snap_sampler *sampler, struct snap_watched *thread)
{
	close_kept(sampler, &sampler->spots[thread->spot].guard_fd);
	free_thread(sampler, thread);
}

int snap_watched_open(struct snap_sampler *sampler, const struct snap_watched *thread,
		      const char *name, int *kept)
{
	int fd;

	if (*kept >= 0 || !name)
		return name ? *kept : -EINVAL;
	fd = snap_procfs_task_open_file(thread->member->tasks_fd, thread->shown.tid, name);
	if (fd >= 0 && sampler->descriptors > 0) {
		sampler->descriptors--;
		*kept = fd;
	}
	return fd;
}

void snap_watched_state(struct snap_sampler *sampler, struct snap_watched *thread, char state)
{
	sampler->disk += (state == 'D') - (thread->state == 'D');
	thread->state = state;
}

static int read_stat(struct snap_sampler *sampler, struct snap_watched *thread,
		     struct snap_stat *ret)
{
	int fd = snap_watched_open(sampler, thread, "stat", &thread->stat_fd);
	char text[STAT_SIZE];
	ssize_t length;

	if (fd < 0)
		return fd;
	length = snap_procfs_reread(fd, text, sizeof(text));
	if (thread->stat_fd < 0)
		snap_close(&fd);
	if (length < 0)
		return (int)length;
	if (!snap_parse_stat(text, (size_t)length, ret))
		return -EBADMSG;
	snap_procfs_settle_name(thread->member->tasks_fd, thread->shown.tid, ret);
	return 0;
}

static bool has_ended(const struct snap_stat *stat)
{
	return stat->state == 'Z' || stat->state == 'X';
}

struct snap_error *snap_watched_read(struct snap_sampler *sampler, struct snap_watched *thread)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_stat stat;
	int error = read_stat(sampler, thread, &stat);

	if (snap_procfs_is_gone(error) || (!error && has_ended(&stat))) {
		thread->member->list_due = true;
		snap_watched_end(sampler, thread);
		return NULL;
	}
	if (error)
		return NULL;
	thread->read_ns = sampler->now_ns;
	thread->cpu = stat.cpu;
	thread->flags = stat.flags;
	snap_watched_state(sampler, thread, stat.state);
	/* One that is called otherwise all the time, with each job, is not told of each time. */
	if (strcmp(thread->name, stat.name) == 0 || sampler->now_ns < thread->rename_after_ns)
		return NULL;
	if (sampler->now_ns - thread->born_ns > RENAME_MS * (int64_t)SNAP_NS_PER_MS)
		thread->rename_after_ns = sampler->now_ns + RENAME_MS * (int64_t)SNAP_NS_PER_MS;
	memcpy(thread->name, stat.name, sizeof(thread->name));
	return sink->renamed(sink->context, &thread->shown);
}

void snap_watched_end(struct snap_sampler *sampler, struct snap_watched *thread)
{
	if (thread->gone)
		return;
	thread->gone = thread->member->thinned = true;
	snap_watched_state(sampler, thread, 'X');
	/* Room for all of them was made when they were born. */
	sampler->dead[sampler->dead_count++] = thread;
}

/* The last spot takes the place of one that is not needed any more. */
static void leave_spot(struct snap_sampler *sampler, struct snap_watched *thread)
{
	struct snap_spot last = sampler->spots[--sampler->spot_count];
	size_t spot = thread->spot;

	last.thread->spot = spot;
	close_kept(sampler, &sampler->spots[spot].guard_fd);
	sampler->spots[spot] = last;
	free_thread(sampler, thread);
}

/* The files of a process are found through a thread that lives on when its leader has left. */
static void keep_files(struct snap_sampler *sampler, const struct snap_watched *thread)
{
	struct snap_member *member = thread->member;
	struct snap_live *live = &member->live;
	char state;
	int fd;

	if (thread->shown.tid != member->facts.pid || member->lost || live->proc_fd < 0 ||
	    live->files_fd >= 0)
		return;
	fd = snap_procfs_open_survivor(&sampler->procfs, live->proc_fd, &state);
	if (fd < 0)
		return;
	live->files_fd = fd;
	sampler->descriptors--;
}

struct snap_error *snap_sampler_bury(struct snap_sampler *sampler)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_error *err = NULL;
	size_t kept;

	for (size_t i = 0; i < sampler->dead_count; i++) {
		struct snap_member *member = sampler->dead[i]->member;

		if (!err)
			err = sink->died(sink->context, &sampler->dead[i]->shown);
		keep_files(sampler, sampler->dead[i]);
		/* The first of a member's takes all of them from its list. */
		if (!member->thinned)
			continue;
		kept = 0;
		for (size_t k = 0; k < member->thread_count; k++)
			if (!member->threads[k]->gone)
				member->threads[kept++] = member->threads[k];
		member->thread_count = kept;
		member->thinned = false;
	}
	for (size_t i = 0; i < sampler->dead_count; i++)
		leave_spot(sampler, sampler->dead[i]);
	sampler->dead_count = 0;
	return err;
}

static bool make_room(struct snap_sampler *sampler)
{
	if (!snap_grow_array(sampler->spots, sampler->spot_capacity, sampler->spot_count))
		return false;
	while (sampler->dead_capacity <= sampler->spot_count)
		if (!snap_grow_array(sampler->dead, sampler->dead_capacity, sampler->dead_capacity))
			return false;
	return true;
}

static struct snap_watched *new_thread(struct snap_sampler *sampler, struct snap_member *member,
				       pid_t tid, const struct snap_stat *stat)
{
	struct snap_watched *thread = calloc(1, sizeof(*thread));
	const char *guard = snap_peek_guard_name(sampler->guard);
	struct snap_status status;

	if (!thread)
		return NULL;
	thread->shown = (struct snap_sampled_thread){
		.tid = tid,
		.ns_tid = tid,
		.name = thread->name,
		.kernel = stat->flags & (SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER),
		.process = &member->shown,
	};
	if (member->facts.ns_pid && member->facts.ns_pid != member->facts.pid)
		thread->shown.ns_tid = snap_procfs_task_status(member->tasks_fd, tid, &status) == 0
					       ? status.ns_pid
					       : 0;
	thread->member = member;
	memcpy(thread->name, stat->name, sizeof(thread->name));
	thread->syscall_fd = thread->stat_fd = -1;
	thread->flags = stat->flags;
	thread->cpu = stat->cpu;
	thread->read_ns = thread->born_ns = sampler->now_ns;
	snap_watched_state(sampler, thread, stat->state);
	thread->spot = sampler->spot_count++;
	sampler->spots[thread->spot] = (struct snap_spot){ .thread = thread, .guard_fd = -1 };
	/* One that is not kept is opened when it is needed. */
	if (guard && sampler->descriptors > 0)
		snap_watched_open(sampler, thread, guard, &sampler->spots[thread->spot].guard_fd);
	return thread;
}

/* NULL in *ret: it has gone already, or is a zombie. */
static struct snap_error *bear(struct snap_sampler *sampler, struct snap_member *member, pid_t tid,
			       struct snap_watched **ret)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_watched *thread;
	struct snap_stat stat;
	int error = snap_procfs_task_stat(member->tasks_fd, tid, &stat);

	*ret = NULL;
	/* What cannot be read now may be readable at the next listing. */
	if (error && !snap_procfs_is_gone(error)) {
		member->list_due = true;
		return NULL;
	}
	if (error || has_ended(&stat) || sampler->spot_count >= SNAP_MAX_THREADS)
		return NULL;
	if (!make_room(sampler))
		return snap_error_no_memory();
	thread = new_thread(sampler, member, tid, &stat);
	if (!thread)
		return snap_error_no_memory();
	*ret = thread;
	return sink->born(sink->context, &thread->shown);
}

static int compare_tids(const void *left, const void *right)
{
	const pid_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* The tids of a process, sorted; a negative errno. */
static struct snap_error *list_tids(struct snap_sampler *sampler, const struct snap_member *member,
				    ssize_t *count_ret)
{
	size_t room = sampler->tid_capacity ? sampler->tid_capacity : FIRST_TIDS;
	ssize_t count;

	for (;;) {
		if (room > sampler->tid_capacity) {
			pid_t *grown = reallocarray(sampler->tids, room, sizeof(*grown));

			if (!grown)
				return snap_error_no_memory();
			sampler->tids = grown;
			sampler->tid_capacity = room;
		}
		count = snap_procfs_list(member->tasks_fd, sampler->tids, room);
		if (count <= (ssize_t)room)
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

static int by_tid(const void *left, const void *right)
{
	const struct snap_watched *const *a = left, *const *b = right;

	return ((*a)->shown.tid > (*b)->shown.tid) - ((*a)->shown.tid < (*b)->shown.tid);
}

/* Both lists are sorted; who is in one alone has gone, or is new. */
static struct snap_error *merge(struct snap_sampler *sampler, struct snap_member *member,
				size_t count)
{
	size_t old = member->thread_count, at = 0;
	struct snap_error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		pid_t tid = sampler->tids[i];
		struct snap_watched *thread;

		for (; at < old && member->threads[at]->shown.tid < tid; at++)
			snap_watched_end(sampler, member->threads[at]);
		if (at < old && member->threads[at]->shown.tid == tid) {
			at++;
			continue;
		}
		if (!snap_grow_array(member->threads, member->thread_capacity,
				     member->thread_count))
			return snap_error_no_memory();
		err = bear(sampler, member, tid, &thread);
		if (thread)
			member->threads[member->thread_count++] = thread;
	}
	for (; !err && at < old; at++)
		snap_watched_end(sampler, member->threads[at]);
	if (member->thread_count > old)
		qsort(member->threads, member->thread_count, sizeof(struct snap_watched *), by_tid);
	return err;
}

static bool has_living(const struct snap_member *member)
{
	for (size_t i = 0; i < member->thread_count; i++)
		if (!member->threads[i]->gone)
			return true;
	return false;
}

struct snap_error *snap_sampler_list(struct snap_sampler *sampler, struct snap_member *member)
{
	int64_t begin;
	struct snap_error *err;
	size_t counted = 0;
	ssize_t count = 0;

	if (snap_procfs_thread_count(member->tasks_fd, &counted) != 0)
		counted = 0;
	if (counted != member->listed)
		member->list_due = true;
	if (!member->list_due || sampler->now_ns < member->list_after_ns)
		return NULL;
	begin = snap_sampler_now();
	member->list_due = false;
	member->listed = counted;
	err = list_tids(sampler, member, &count);
	if (err)
		return err;
	/* Nobody is gone because the list cannot be read. */
	if (count < 0 && !snap_procfs_is_gone(count))
		member->list_due = true;
	else
		err = merge(sampler, member, count > 0 ? (size_t)count : 0);
	if (err)
		return err;
	/* No thread of it lives any more: not one is listed, or a zombie alone. */
	if (!has_living(member) && !member->list_due)
		member->gone = true;
	member->list_after_ns = snap_sampler_after(begin, 0, LIST_SHARE);
	return NULL;
}
