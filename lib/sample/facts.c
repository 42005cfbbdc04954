/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a process of the tree is, and what it has mapped; and whether it still is that program. The
 * descriptor of its memory belongs to the address space that was there when it was opened: it
 * reads nothing once that has gone, by an exec or by the end of the process.
 */
#include "proc/fuse_maps.h"
#include "sample/internal.h"

#include <elf.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
	LINES = 1 << 16,
	MAP_LEAST_MS = 50, /* between two readings of the mappings of a process */
	MAP_SHARE = 33,    /* of the time at most one part in so many is spent on them */
};

static const size_t RECORDS = (size_t)256 << 20; /* address space only */

struct stacksnap_error *snap_facts_copy(struct snap_arena *arena, const struct snap_process *from,
					struct snap_process *ret)
{
	_cleanup_(snap_interner_deinit) struct snap_interner strings;

	snap_interner_init(&strings, arena);
	return snap_process_copy(&strings, from, ret) ? NULL : snap_error_no_memory();
}

/* In words; `process` is a copy whose trouble is written. */
static void explain_trouble(struct snap_capture *capture, struct snap_process *process,
			    int os_errno)
{
	char text[128];

	process->trouble = SNAP_TROUBLE_NONE;
	process->trouble_message = NULL;
	if (os_errno == ENOEXEC)
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_UNSUPPORTED_ARCH,
					 "cannot unwind %d: the word size or architecture of its "
					 "program is not supported",
					 (int)process->pid);
	else if (os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOMEM)
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_INTERNAL,
					 "cannot read %d: %s", (int)process->pid,
					 strerror_r(os_errno, text, sizeof(text)));
	else if (os_errno)
		/* Procfs says EACCES where ptrace says EPERM, for the same reasons. */
		snap_discover_explain(capture, process, os_errno == EACCES ? EPERM : os_errno);
}

struct stacksnap_error *snap_sampler_process_explain(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     int os_errno)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_process facts = process->facts;
	const char *message;

	if (!capture)
		return snap_error_no_memory();
	explain_trouble(capture, &facts, os_errno);
	message = facts.trouble_message;
	/* A process that is traced now and then says so in the same words: kept once. */
	if (message && (!process->trouble_text || strcmp(message, process->trouble_text) != 0)) {
		free(process->trouble_text);
		process->trouble_text = strdup(message);
		if (!process->trouble_text)
			return snap_error_no_memory();
	}
	process->facts.trouble = facts.trouble;
	process->facts.trouble_message = message ? process->trouble_text : NULL;
	return process->announced ? sink->mapped(sink->context, &process->shown) : NULL;
}

struct stacksnap_error *snap_sampler_process_refused(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     int os_errno)
{
	struct stacksnap_error *err = snap_sampler_process_explain(sampler, process, os_errno);

	snap_sampler_end_threads(sampler, process);
	process->state = SNAP_SAMPLER_PROCESS_UNREADABLE;
	if (process->facts.trouble == SNAP_TROUBLE_EXITED ||
	    process->facts.trouble == SNAP_TROUBLE_ZOMBIE)
		process->state = SNAP_SAMPLER_PROCESS_GONE;
	/* In the middle of an exec it may look like this: another look, if there is one, tells. */
	if (sampler->may_retry && os_errno != ENOEXEC &&
	    ++process->refusals < SNAP_SAMPLER_BELIEVED)
		process->state = SNAP_SAMPLER_PROCESS_LOST;
	return err;
}

static size_t read_memory(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	const int *fd = context;
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		ssize_t got = pread(*fd, bytes + total, ranges[i].iov_len,
				    (off_t)(uintptr_t)ranges[i].iov_base);

		total += got > 0 ? (size_t)got : 0;
		if (got != (ssize_t)ranges[i].iov_len)
			break;
	}
	return total;
}

static void unmap(struct snap_region *region)
{
	munmap(region->end - RECORDS, RECORDS);
}

/* A leader that has exited has no mappings any more; any other thread does. */
static int open_file(const struct snap_sampler *sampler, const struct snap_sampler_process *process,
		     const char *name)
{
	int from = process->live.files_fd;

	for (size_t i = process->thread_count; i > 0; i--) {
		const struct snap_sampler_thread *thread = process->threads[i - 1];
		bool gone = snap_sampler_thread_gone(sampler, thread);
		int fd = gone ? -1
			      : snap_procfs_task_open_file(process->shown.tasks_fd,
							   thread->shown.tid, name);

		if (fd >= 0)
			return fd;
		if (!gone && fd != -ENOENT && fd != -ESRCH)
			return fd;
	}
	if (from >= 0)
		return snap_procfs_open_file(from, name);
	return snap_procfs_task_open_file(process->shown.tasks_fd, process->facts.pid, name);
}

static void hide_fuse_maps(const struct snap_sampler *sampler,
			   const struct snap_sampler_process *process,
			   const struct snap_space_reader *reader, struct snap_space *space)
{
	_cleanup_fd_ int fd = -1;

	if (!snap_fuse_maps_possible(space))
		return;
	fd = open_file(sampler, process, "mountinfo");
	snap_fuse_maps_hide(reader, fd, space);
}

/* 0 or a negative errno in *error_ret; then there is no space. */
static struct stacksnap_error *read_space(const struct snap_sampler *sampler,
					  const struct snap_sampler_process *process,
					  struct snap_arena *arena, int *error_ret,
					  struct snap_space *ret)
{
	_cleanup_fd_ int maps_fd = open_file(sampler, process, "maps");
	_cleanup_free_ char *buffer = malloc(LINES);
	struct snap_region records;
	struct snap_space space = { 0 };
	int mem_fd = process->mem_fd;
	struct snap_space_reader reader = { .records = &records,
					    .buffer = buffer,
					    .buffer_size = LINES,
					    .read = read_memory,
					    .context = &mem_fd };
	struct stacksnap_error *err;

	*error_ret = maps_fd < 0 ? maps_fd : 0;
	if (maps_fd < 0)
		return NULL;
	err = buffer ? snap_scratch_create(RECORDS, &records) : snap_error_no_memory();
	if (err)
		return err;
	reader.maps = snap_region_new_array(&records, SNAP_MAX_MAPS, struct snap_map);
	*error_ret = snap_space_read_maps(&reader, maps_fd, &space);
	if (*error_ret == 0) {
		hide_fuse_maps(sampler, process, &reader, &space);
		snap_space_read_pieces(&reader, &space);
		err = snap_space_copy(arena, &space, ret);
	}
	unmap(&records);
	return err;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_maps(const struct snap_process *process, const struct snap_space *space)
{
	if (process->map_count != space->map_count || process->piece_count != space->piece_count)
		return false;
	for (size_t i = 0; i < space->map_count; i++) {
		const struct snap_map *a = &process->maps[i], *b = &space->maps[i];

		if (a->start != b->start || a->end != b->end || a->offset != b->offset ||
		    a->inode != b->inode || a->dev_major != b->dev_major ||
		    a->dev_minor != b->dev_minor || a->read != b->read || a->write != b->write ||
		    a->execute != b->execute || a->shared != b->shared ||
		    a->deleted != b->deleted || !same_text(a->path, b->path))
			return false;
	}
	return true;
}

/* The sink may still use the old mappings until it knows the new ones. */
static struct stacksnap_error *replace_space(struct snap_sampler *sampler,
					     struct snap_sampler_process *process,
					     const struct snap_space *space,
					     struct snap_arena *arena)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_arena old = process->space;
	struct stacksnap_error *err = NULL;

	process->space = *arena;
	snap_arena_init(arena);
	process->facts.maps = space->maps;
	process->facts.map_count = space->map_count;
	process->facts.pieces = space->pieces;
	process->facts.piece_count = space->piece_count;
	if (process->announced)
		err = sink->mapped(sink->context, &process->shown);
	snap_arena_deinit(&old);
	return err;
}

struct stacksnap_error *snap_sampler_process_map(struct snap_sampler *sampler,
						 struct snap_sampler_process *process,
						 bool *changed_ret)
{
	_cleanup_(snap_arena_deinit) struct snap_arena arena;
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_space space = { 0 };
	struct stacksnap_error *err;
	int error;

	*changed_ret = false;
	snap_arena_init(&arena);
	if (begin < process->map_after_ns)
		return NULL;
	err = read_space(sampler, process, &arena, &error, &space);
	if (err)
		return err;
	if (!error && !same_maps(&process->facts, &space)) {
		*changed_ret = true;
		err = replace_space(sampler, process, &space, &arena);
	}
	process->map_after_ns = snap_sampler_after(
		sampler, begin, MAP_LEAST_MS * (int64_t)SNAP_NS_PER_MS, MAP_SHARE);
	return err;
}

/* Its modules say what they are made for. */
static bool is_32_bit(const struct snap_process *process)
{
	for (size_t i = 0; i < process->piece_count; i++) {
		const struct snap_piece *piece = &process->pieces[i];

		if (piece->size > EI_CLASS && memcmp(piece->data, ELFMAG, SELFMAG) == 0)
			return piece->data[EI_CLASS] == ELFCLASS32;
	}
	return false;
}

/* A child of vfork() runs in its parent's memory until it executes a program. */
static bool shares_memory(const struct snap_process *process)
{
	return process->ppid > 0 &&
	       syscall(SYS_kcmp, process->pid, process->ppid, KCMP_VM, 0, 0) == 0;
}

static void close_memory(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	sampler->descriptors += (process->mem_fd >= 0) + (process->shown.tasks_fd >= 0);
	snap_close(&process->mem_fd);
	snap_close(&process->shown.tasks_fd);
}

static int open_memory(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	_cleanup_fd_ int loose = -1;
	int process_fd = process->live.proc_fd;

	close_memory(sampler, process);
	if (process_fd < 0)
		process_fd = loose = snap_sampler_process_directory(sampler, process);
	if (process_fd < 0)
		return process_fd;
	process->shown.tasks_fd = snap_procfs_open_tasks(process_fd);
	if (process->shown.tasks_fd < 0)
		return process->shown.tasks_fd;
	process->mem_fd = open_file(sampler, process, "mem");
	sampler->descriptors -= 1 + (process->mem_fd >= 0);
	return process->mem_fd < 0 ? process->mem_fd : 0;
}

struct stacksnap_error *snap_sampler_process_open(struct snap_sampler *sampler,
						  struct snap_sampler_process *process)
{
	struct stacksnap_error *err;
	bool changed;
	int error;

	process->state = SNAP_SAMPLER_PROCESS_UNREADABLE;
	if (process->facts.trouble != SNAP_TROUBLE_NONE)
		return NULL;
	process->in_parents_memory = shares_memory(&process->facts);
	error = open_memory(sampler, process);
	if (error)
		return snap_sampler_process_refused(sampler, process, -error);
	process->map_after_ns = 0;
	err = snap_sampler_process_map(sampler, process, &changed);
	if (err)
		return err;
	if (is_32_bit(&process->facts))
		return snap_sampler_process_refused(sampler, process, ENOEXEC);
	/* Without mappings it is just leaving, or becoming another program. */
	process->state =
		process->facts.map_count ? SNAP_SAMPLER_PROCESS_SAMPLED : SNAP_SAMPLER_PROCESS_LOST;
	process->list_due = true;
	process->listed = 0;
	return NULL;
}

static bool has_lost_memory(const struct snap_sampler_process *process)
{
	char byte;

	if (process->in_parents_memory && !shares_memory(&process->facts))
		return true;
	/* Whatever is there: an error says that the address space is. */
	return pread(process->mem_fd, &byte, 1, 0) == 0;
}

void snap_sampler_process_check(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	if (process->state != SNAP_SAMPLER_PROCESS_SAMPLED || process->checked == sampler->looks)
		return;
	process->checked = sampler->looks;
	if (!has_lost_memory(process))
		return;
	process->state = SNAP_SAMPLER_PROCESS_LOST;
	snap_sampler_end_threads(sampler, process);
}
