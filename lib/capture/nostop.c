/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reading processes one after the other without stopping them: see nostop.h. Mappings come
 * first, as they say where stacks end; then each thread, then those that must be stopped. Threads
 * that were born meanwhile are looked for at the end, a bounded number of times.
 */
#include "capture/nostop_internal.h"

#include "base/clock.h"
#include "discover/discover.h"
#include "proc/address_space.h"
#include "proc/fuse_maps.h"

#include <errno.h>

enum {
	LOOKS = 4,          /* for threads, and for processes, that were born meanwhile */
	SPARE_THREADS = 64, /* of a process, born meanwhile */
};

void snap_nostop_destroy(struct snap_nostop *nostop)
{
	if (!nostop)
		return;
	snap_single_destroy(nostop->single);
	free(nostop->buffer);
	free(nostop->maps);
	free(nostop->tids);
	free(nostop);
}

static struct snap_error *find_guard(struct snap_nostop *nostop)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_error *err = snap_procfs_open(NULL, &procfs);

	if (err)
		return err;
	nostop->guard = snap_guard_find(&procfs);
	if (nostop->guard == SNAP_GUARD_NONE)
		return snap_error_format(
			SNAP_ERROR_OTHER,
			"cannot read threads without stopping them: this kernel has neither "
			"schedstat nor counts of context switches, so a thread that ran meanwhile "
			"would go unnoticed; leave out --no-stop");
	return NULL;
}

struct snap_error *snap_nostop_create(const struct snap_options *options,
				      const struct snap_stop_hook *hook, struct snap_nostop **ret)
{
	_cleanup_(snap_nostop_destroyp) struct snap_nostop *nostop = calloc(1, sizeof(*nostop));
	struct snap_error *err;

	if (!nostop)
		return snap_error_no_memory();
	err = find_guard(nostop);
	if (err)
		return err;
	nostop->options = options;
	nostop->hook = hook && hook->suffices ? hook : NULL;
	nostop->until_ns = snap_clock_ns(CLOCK_MONOTONIC) + options->timeout_ns;
	nostop->buffer = malloc(SNAP_NOSTOP_BUFFER);
	nostop->maps = calloc(SNAP_MAX_MAPS, sizeof(*nostop->maps));
	nostop->tids = calloc(SNAP_MAX_THREADS, sizeof(*nostop->tids));
	if (!nostop->buffer || !nostop->maps || !nostop->tids)
		return snap_error_no_memory();
	*ret = snap_take_ptr(nostop);
	return NULL;
}

/* Up to the first byte that cannot be read. */
static size_t read_ranges(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	const struct snap_nostop *nostop = context;
	size_t done = 0;

	for (size_t i = 0; i < count; i++) {
		ssize_t got = pread(nostop->mem_fd, bytes + done, ranges[i].iov_len,
				    (off_t)(uintptr_t)ranges[i].iov_base);

		done += got > 0 ? (size_t)got : 0;
		if (got != (ssize_t)ranges[i].iov_len)
			break;
	}
	return done;
}

static void hide_fuse_maps(const struct snap_nostop *nostop, pid_t tid,
			   const struct snap_space_reader *reader, struct snap_space *space)
{
	_cleanup_fd_ int fd = -1;

	if (!snap_fuse_maps_possible(space))
		return;
	fd = snap_procfs_task_open_file(nostop->tasks_fd, tid, "mountinfo");
	snap_fuse_maps_hide(reader, fd, space);
}

int snap_nostop_read_maps(struct snap_nostop *nostop, pid_t tid)
{
	const struct snap_space_reader reader = {
		.records = &nostop->shared->records,
		.maps = nostop->maps,
		.buffer = nostop->buffer,
		.buffer_size = SNAP_NOSTOP_BUFFER,
		.read = read_ranges,
		.context = nostop,
	};
	_cleanup_fd_ int fd = snap_procfs_task_open_file(nostop->tasks_fd, tid, "maps");
	struct snap_traced *traced = nostop->traced;
	struct snap_space space = { 0 };
	int error = fd < 0 ? fd : snap_space_read_maps(&reader, fd, &space);

	if (error)
		return error;
	hide_fuse_maps(nostop, tid, &reader, &space);
	snap_space_read_pieces(&reader, &space);
	nostop->process->maps = traced->maps = space.maps;
	nostop->process->map_count = traced->map_count = space.map_count;
	nostop->process->pieces = traced->pieces = space.pieces;
	nostop->process->piece_count = traced->piece_count = space.piece_count;
	return 0;
}

/* A leader that has exited has no memory; the threads that it left behind have. */
static void open_memory(struct snap_nostop *nostop)
{
	const struct snap_traced *traced = nostop->traced;
	int error = -ESRCH;

	for (size_t i = 0; i < traced->thread_count && error == -ESRCH; i++) {
		pid_t tid = traced->threads[i].tid;

		snap_close(&nostop->mem_fd);
		nostop->mem_fd = snap_procfs_task_open_file(nostop->tasks_fd, tid, "mem");
		error = nostop->mem_fd < 0 ? nostop->mem_fd : snap_nostop_read_maps(nostop, tid);
	}
	if (error == -EACCES || error == -EPERM)
		nostop->traced->error = EPERM;
}

/* From the one found before on: a listing keeps its order, whoever has come and gone. */
static bool is_known(const struct snap_traced *traced, size_t count, pid_t tid, size_t *cursor)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = (*cursor + i) % count;

		if (traced->threads[at].tid == tid) {
			*cursor = at + 1;
			return true;
		}
	}
	return false;
}

static bool reserve(struct snap_nostop *nostop, size_t wanted)
{
	struct snap_traced *traced = nostop->traced;
	struct snap_thread *threads;

	if (wanted <= traced->thread_capacity)
		return true;
	wanted += wanted / 4 + SPARE_THREADS;
	threads = snap_region_new_array(&nostop->shared->records, wanted, struct snap_thread);
	if (!threads)
		return false;
	for (size_t i = 0; i < traced->thread_count; i++)
		threads[i] = traced->threads[i];
	traced->threads = threads;
	traced->thread_capacity = wanted;
	return true;
}

/* Adds the threads that are new; how many, or a negative errno. */
static ssize_t list(struct snap_nostop *nostop)
{
	struct snap_traced *traced = nostop->traced;
	ssize_t count = snap_procfs_list(nostop->tasks_fd, nostop->tids, SNAP_MAX_THREADS);
	size_t before = traced->thread_count, cursor = 0;

	if (count <= 0)
		return count < 0 ? count : -ESRCH;
	count = count < SNAP_MAX_THREADS ? count : SNAP_MAX_THREADS;
	for (ssize_t i = 0; i < count; i++) {
		pid_t tid = nostop->tids[i];

		if (is_known(traced, before, tid, &cursor))
			continue;
		if (!reserve(nostop, traced->thread_count + 1))
			break;
		traced->threads[traced->thread_count++] = (struct snap_thread){
			.tid = tid,
			.ns_tid = traced->foreign_namespace ? 0 : tid,
			.cpu = -1,
			.result = SNAP_THREAD_UNTRACED,
			.late = before > 0,
		};
	}
	return (ssize_t)(traced->thread_count - before);
}

static bool has_time(const struct snap_nostop *nostop)
{
	return snap_clock_ns(CLOCK_MONOTONIC) < nostop->until_ns;
}

/* Those from `first` on: the blocked ones, then the others. */
static struct snap_error *take_threads(struct snap_nostop *nostop, size_t first)
{
	struct snap_traced *traced = nostop->traced;
	size_t left = 0;

	for (size_t i = first; i < traced->thread_count; i++) {
		if (snap_options_cancelled(nostop->options))
			return snap_error_cancelled();
		if (!has_time(nostop)) {
			traced->timed_out = true;
			break;
		}
		nostop->left = traced->thread_count - i;
		left += snap_nostop_copy(nostop, &traced->threads[i]);
	}
	for (size_t i = first; i < traced->thread_count && left && has_time(nostop); i++) {
		struct snap_error *err;

		if (traced->threads[i].result != SNAP_THREAD_NOT_STOPPED)
			continue;
		nostop->left = left--;
		err = snap_nostop_stop(nostop, &traced->threads[i]);
		if (err)
			return err;
	}
	return NULL;
}

static struct snap_error *take_process(struct snap_nostop *nostop)
{
	struct snap_traced *traced = nostop->traced;
	struct snap_error *err = NULL;

	for (int look = 0; look < LOOKS && !err; look++) {
		size_t first = traced->thread_count;
		ssize_t new = list(nostop);

		if (new < 0 && look == 0) {
			traced->vanished = new == -ESRCH || new == -ENOENT;
			traced->error = traced->vanished ? 0 : (int)-new;
		}
		if (new <= 0)
			break;
		if (look == 0 && !traced->look_only)
			open_memory(nostop);
		err = take_threads(nostop, first);
	}
	return err;
}

static struct snap_error *enter(struct snap_nostop *nostop, uint32_t index)
{
	const struct snap_capture *capture = nostop->capture;
	struct snap_traced *traced = &nostop->stop->processes[index];
	_cleanup_fd_ int opened = -1;
	struct snap_error *err;
	int fd = capture->live ? capture->live[traced->index].proc_fd : -1;

	nostop->traced = traced;
	nostop->process = &nostop->capture->processes[traced->index];
	nostop->maps_read_again = false;
	nostop->mem_fd = -1;
	if (fd < 0)
		fd = opened = snap_discover_open(nostop->process);
	nostop->tasks_fd = fd < 0 ? fd : snap_procfs_open_tasks(fd);
	if (nostop->tasks_fd < 0) {
		traced->vanished = nostop->tasks_fd == -ESRCH || nostop->tasks_fd == -ENOENT;
		traced->error = traced->vanished ? 0 : -nostop->tasks_fd;
		return NULL;
	}
	err = take_process(nostop);
	snap_close(&nostop->tasks_fd);
	snap_close(&nostop->mem_fd);
	return err;
}

struct snap_error *snap_nostop_run(struct snap_nostop *nostop, struct snap_capture *capture,
				   const struct snap_stop_again *again,
				   struct snap_shared_memory *shared, struct snap_stop *stop)
{
	struct snap_error *err = NULL;
	bool grown = true;
	uint32_t next = 0;

	nostop->capture = capture;
	nostop->shared = shared;
	nostop->stop = stop;
	stop->begin_ns = stop->still_ns = snap_clock_ns(CLOCK_MONOTONIC);
	for (int look = 0; look < LOOKS && grown && !err; look++) {
		for (; next < stop->process_count && !err; next++)
			err = enter(nostop, next);
		grown = false;
		if (!err)
			err = again->look(again->context, stop, &grown);
	}
	stop->end_ns = snap_clock_ns(CLOCK_MONOTONIC);
	return err;
}
