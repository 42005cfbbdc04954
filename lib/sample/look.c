/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread that may have moved: where it is now, and a copy of it if that can be had without a
 * stop. What it had been shown at is remembered, so that one that went round and waits where it
 * waited before, with the same bytes on its stack, is not shown again.
 */
#include "sample/internal.h"

#include <errno.h>
#include <string.h>

enum {
	TRIES = 3,             /* for a thread that runs just when it is copied */
	UNKNOWN_STACK = 65536, /* what is copied where no mapping is known */
	READ_AGAIN_MS = 100,   /* names of threads that run */
	SELDOM_MS = 200,
	USUAL_STACK = 65536, /* more than that is not compared: unwinding it is cheaper */
};

/* The files of a thread that a look needs; those that are not kept are closed after it. */
struct files {
	int guard_fd, syscall_fd;
	int loose_guard_fd, loose_syscall_fd;
};

struct place {
	struct snap_watched *thread;
	bool limited; /* where no mapping is known, some of it must do */
};

static void files_close(struct files *files)
{
	snap_close(&files->loose_guard_fd);
	snap_close(&files->loose_syscall_fd);
}

static int open_files(struct snap_sampler *sampler, struct snap_watched *thread,
		      struct files *files)
{
	struct snap_spot *spot = &sampler->spots[thread->spot];

	files->guard_fd = snap_watched_open(sampler, thread, snap_peek_guard_name(sampler->guard),
					    &spot->guard_fd);
	if (files->guard_fd < 0)
		return files->guard_fd;
	if (spot->guard_fd < 0)
		files->loose_guard_fd = files->guard_fd;
	files->syscall_fd = snap_watched_open(sampler, thread, "syscall", &thread->syscall_fd);
	if (files->syscall_fd < 0)
		return files->syscall_fd;
	if (thread->syscall_fd < 0)
		files->loose_syscall_fd = files->syscall_fd;
	return 0;
}

static uint64_t stack_end(void *context, uint64_t sp)
{
	const struct place *place = context;
	struct snap_watched *thread = place->thread;
	const struct snap_map *map = snap_process_map(&thread->member->facts, sp);
	uint64_t end;

	if (map && map->read) {
		thread->stack_start = map->start;
		thread->stack_end = map->end;
		return map->end;
	}
	if (!place->limited || __builtin_add_overflow(sp, UNKNOWN_STACK, &end))
		return 0;
	return end & ~(uint64_t)4095;
}

/* What it has run is counted as far as it is known. */
static int read_mark(struct snap_sampler *sampler, struct snap_watched *thread, int fd,
		     struct snap_peek_mark *ret)
{
	int error = snap_peek_mark(sampler->guard, fd, ret);

	if (!error && ret->run_ns > thread->run_ns) {
		sampler->run_ns += ret->run_ns - thread->run_ns;
		thread->run_ns = ret->run_ns;
	}
	return error;
}

static enum snap_peek_result peek_once(struct snap_sampler *sampler, struct snap_watched *thread,
				       struct snap_peek *peek, struct snap_thread *copy)
{
	enum snap_arch arch;
	int error = read_mark(sampler, thread, peek->guard_fd, &peek->mark);

	if (error)
		return error == -ESRCH || error == -ENOENT ? SNAP_PEEK_GONE : SNAP_PEEK_UNUSABLE;
	return snap_peek(peek, copy, &arch);
}

/* Tries until it stands still for as long as the copy takes, and knows where its stack ends. */
static struct snap_error *take_peek(struct snap_sampler *sampler, struct snap_watched *thread,
				    const struct files *files, struct snap_peek *peek,
				    struct snap_thread *copy, enum snap_peek_result *result_ret)
{
	struct place place = { .thread = thread };
	enum snap_peek_result result = SNAP_PEEK_MOVED;
	struct snap_error *err;
	bool changed;

	peek->guard = sampler->guard;
	peek->guard_fd = files->guard_fd;
	peek->syscall_fd = files->syscall_fd;
	peek->mem_fd = thread->member->mem_fd;
	peek->stack_end = stack_end;
	peek->context = &place;
	peek->bytes = sampler->stack;
	peek->size = sampler->options->max_stack;
	for (unsigned i = 0; i < TRIES && result == SNAP_PEEK_MOVED; i++) {
		result = peek_once(sampler, thread, peek, copy);
		if (result != SNAP_PEEK_UNKNOWN)
			continue;
		err = snap_member_map(sampler, thread->member, &changed);
		if (err)
			return err;
		place.limited = true;
		result = peek_once(sampler, thread, peek, copy);
	}
	*result_ret = result;
	return NULL;
}

void snap_watched_describe(const struct snap_watched *thread, struct snap_thread *copy)
{
	copy->tid = thread->shown.tid;
	copy->ns_tid = thread->shown.ns_tid;
	copy->name = thread->shown.name;
	copy->state = thread->state;
	copy->cpu = thread->cpu;
	copy->flags = thread->flags;
}

struct snap_error *snap_sampler_show(struct snap_sampler *sampler, struct snap_watched *thread,
				     const struct snap_thread *copy, enum snap_verdict *verdict_ret)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	enum snap_verdict verdict = SNAP_VERDICT_TAKEN;
	struct snap_error *err;
	bool changed;

	thread->again = false;
	err = sink->sample(sink->context, &thread->shown, copy, &verdict);
	if (!err && verdict == SNAP_VERDICT_STALE_MAPPINGS) {
		thread->again = sampler->now_ns < thread->member->map_after_ns;
		err = snap_member_map(sampler, thread->member, &changed);
		if (err)
			return err;
		verdict = SNAP_VERDICT_TAKEN;
		err = sink->sample(sink->context, &thread->shown, copy, &verdict);
	}
	*verdict_ret = verdict;
	return err;
}

struct snap_error *snap_sampler_miss(struct snap_sampler *sampler, struct snap_watched *thread,
				     enum snap_thread_result result)
{
	struct snap_thread copy = { .result = result };
	enum snap_verdict verdict;

	snap_watched_describe(thread, &copy);
	thread->place = thread->bytes = 0;
	return sampler->sink->sample(sampler->sink->context, &thread->shown, &copy, &verdict);
}

static bool may_be_stopped(const struct snap_watched *thread)
{
	return thread->state != 'D' && thread->state != 't';
}

/* It needs a stop, but would not stop: what is known of it must do. */
static struct snap_error *show_as_is(struct snap_sampler *sampler, struct snap_watched *thread,
				     struct snap_thread *copy)
{
	enum snap_verdict verdict;

	copy->result = SNAP_THREAD_NOT_STOPPED;
	sampler->tick.missed++;
	return sampler->sink->sample(sampler->sink->context, &thread->shown, copy, &verdict);
}

static struct snap_error *stop_blocked(struct snap_sampler *sampler, struct snap_watched *thread,
				       struct snap_thread *copy, uint64_t place, uint64_t bytes)
{
	const struct snap_picked picked = { .thread = thread,
					    .blocked = true,
					    .address = copy->stack_address,
					    .size = copy->stack_size };

	thread->stops = true;
	thread->place = place;
	thread->bytes = bytes;
	if (!may_be_stopped(thread))
		return show_as_is(sampler, thread, copy);
	sampler->spots[thread->spot].settled = false;
	return snap_sampler_pick(sampler, &picked);
}

/* It was blocked, and its copy is believed. */
static struct snap_error *take_blocked(struct snap_sampler *sampler, struct snap_watched *thread,
				       struct snap_thread *copy)
{
	uint64_t place = snap_hash(copy->registers, copy->registers_size, copy->stack_address);
	bool is_usual = copy->stack_size <= USUAL_STACK || thread->stops;
	uint64_t bytes = is_usual ? snap_hash(copy->stack, copy->stack_size, copy->stack_size) : 0;
	char before = thread->state;
	enum snap_verdict verdict;
	struct snap_error *err = snap_watched_read(sampler, thread);

	if (err || thread->gone)
		return err;
	/* Woken since: then it was not in R. */
	if (thread->state == 'R')
		snap_watched_state(sampler, thread, 'S');
	snap_watched_describe(thread, copy);
	sampler->spots[thread->spot].settled = true;
	if (bytes && thread->bytes == bytes && thread->place == place && before == thread->state) {
		sampler->tick.kept++;
		return NULL;
	}
	if (thread->stops && thread->place == place)
		return stop_blocked(sampler, thread, copy, place, bytes);
	err = snap_sampler_show(sampler, thread, copy, &verdict);
	if (err)
		return err;
	if (verdict == SNAP_VERDICT_NEEDS_REGISTERS)
		return stop_blocked(sampler, thread, copy, place, bytes);
	thread->stops = false;
	thread->place = place;
	thread->bytes = thread->again ? 0 : bytes;
	sampler->spots[thread->spot].settled = !thread->again;
	sampler->tick.unstopped++;
	return NULL;
}

static struct snap_error *take_running(struct snap_sampler *sampler, struct snap_watched *thread)
{
	const struct snap_picked picked = { .thread = thread };

	if (sampler->now_ns - thread->read_ns > READ_AGAIN_MS * SNAP_NS_PER_MS) {
		struct snap_error *err = snap_watched_read(sampler, thread);

		if (err || thread->gone)
			return err;
	}
	snap_watched_state(sampler, thread, 'R');
	sampler->tick.running++;
	return snap_sampler_pick(sampler, &picked);
}

/* Where no copy is wanted, or can be had: its state, if it is another one. */
static struct snap_error *look_at_state(struct snap_sampler *sampler, struct snap_watched *thread,
					enum snap_thread_result result)
{
	bool first = thread->place == 0;
	char before = thread->state;
	struct snap_error *err = snap_watched_read(sampler, thread);

	if (err || thread->gone)
		return err;
	sampler->tick.kept++;
	sampler->tick.running += thread->state == 'R';
	sampler->spots[thread->spot].settled = thread->state != 'R';
	if (!first && thread->state == before)
		return NULL;
	err = snap_sampler_miss(sampler, thread, result);
	thread->place = 1;
	return err;
}

/* --mode cpu: who runs is stopped, of all others it is said that they do not. */
static struct snap_error *look_for_running(struct snap_sampler *sampler,
					   struct snap_watched *thread)
{
	const struct snap_picked picked = { .thread = thread };
	struct snap_error *err;
	int fd = snap_watched_open(sampler, thread, snap_peek_guard_name(sampler->guard),
				   &sampler->spots[thread->spot].guard_fd);
	struct snap_peek_mark mark;
	bool told = thread->place != 0;
	char before = thread->state;

	if (fd >= 0)
		read_mark(sampler, thread, fd, &mark);
	if (fd != sampler->spots[thread->spot].guard_fd)
		snap_close(&fd);
	err = snap_watched_read(sampler, thread);
	if (err || thread->gone)
		return err;
	if (thread->state == 'R') {
		sampler->tick.running++;
		thread->place = 0;
		return snap_sampler_pick(sampler, &picked);
	}
	sampler->tick.kept++;
	sampler->spots[thread->spot].settled = true;
	if (told && before == thread->state)
		return NULL;
	err = snap_sampler_miss(sampler, thread, SNAP_THREAD_NOT_STOPPED);
	thread->place = 1;
	return err;
}

/* No counters: nothing else tells that it stood still. */
static struct snap_error *look_by_stop(struct snap_sampler *sampler, struct snap_watched *thread)
{
	const struct snap_picked picked = { .thread = thread };
	struct snap_error *err = snap_watched_read(sampler, thread);

	if (err || thread->gone)
		return err;
	sampler->tick.running += thread->state == 'R';
	if (may_be_stopped(thread))
		return snap_sampler_pick(sampler, &picked);
	sampler->tick.missed++;
	return snap_sampler_miss(sampler, thread, SNAP_THREAD_NOT_STOPPED);
}

/*
 * Its stack cannot be read, now or ever: a stop would tell its registers, but it moves the thread,
 * and would so be the reason for the next one.
 */
static struct snap_error *look_seldom(struct snap_sampler *sampler, struct snap_watched *thread)
{
	if (sampler->now_ns < thread->seldom_after_ns) {
		sampler->tick.missed++;
		return NULL;
	}
	thread->seldom_after_ns = sampler->now_ns + SELDOM_MS * (int64_t)SNAP_NS_PER_MS;
	return look_by_stop(sampler, thread);
}

/* Where descriptors or memory are short its last stack stays, and that is not known to be right. */
static struct snap_error *cannot_open(struct snap_sampler *sampler, struct snap_watched *thread,
				      int error)
{
	if (error == -EACCES || error == -EPERM)
		return snap_member_refused(sampler, thread->member, -error);
	if (error == -ESRCH || error == -ENOENT) {
		thread->member->list_due = true;
		snap_watched_end(sampler, thread);
		return NULL;
	}
	sampler->tick.missed++;
	return NULL;
}

static struct snap_error *look_by_peek(struct snap_sampler *sampler, struct snap_watched *thread)
{
	enum snap_peek_result result = SNAP_PEEK_UNUSABLE;
	struct snap_thread copy = { 0 };
	struct snap_peek peek = { 0 };
	_cleanup_(files_close) struct files files = { -1, -1, -1, -1 };
	int error = open_files(sampler, thread, &files);
	struct snap_error *err;

	if (error)
		return cannot_open(sampler, thread, error);
	err = take_peek(sampler, thread, &files, &peek, &copy, &result);
	if (err)
		return err;
	switch (result) {
	case SNAP_PEEK_TAKEN:
		return take_blocked(sampler, thread, &copy);
	case SNAP_PEEK_RUNNING:
	case SNAP_PEEK_MOVED:
		return take_running(sampler, thread);
	case SNAP_PEEK_UNKNOWN:
	case SNAP_PEEK_UNUSABLE:
		return look_seldom(sampler, thread);
	case SNAP_PEEK_REFUSED:
		return snap_member_refused(sampler, thread->member, EACCES);
	case SNAP_PEEK_GONE:
		break;
	}
	return cannot_open(sampler, thread, -ESRCH);
}

struct snap_error *snap_sampler_look(struct snap_sampler *sampler, struct snap_watched *thread)
{
	const uint32_t workers = SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER | SNAP_PF_KTHREAD;

	snap_member_check(sampler, thread->member);
	if (thread->gone)
		return NULL;
	if (thread->flags & workers)
		return look_at_state(sampler, thread, SNAP_THREAD_UNTRACED);
	if (sampler->options->cpu_only)
		return look_for_running(sampler, thread);
	if (sampler->guard == SNAP_PEEK_NO_GUARD)
		return look_by_stop(sampler, thread);
	return look_by_peek(sampler, thread);
}
