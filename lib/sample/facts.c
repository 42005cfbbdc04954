/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a process of the tree is, and what it has mapped; and whether it still is that program, and
 * whether it responds. All that it could make sleep is asked by the reader's workers.
 */
#include "sample/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	MAP_LEAST_MS = 50, /* between two readings of the mappings of a process */
	MAP_SHARE = 33,    /* of the time at most one part in so many is spent on them */
	/* How long a process that does not respond is let be: at first it may be the machine. */
	FIRST_REST_MS = 250,
	REST_TIMES = 4, /* longer each time */
	LONGEST_REST_S = 60,
};

struct stacksnap_error *snap_facts_copy(struct snap_arena *arena, const struct snap_process *from,
					struct snap_process *ret)
{
	_cleanup_(snap_interner_deinit) struct snap_interner strings;

	snap_interner_init(&strings, arena);
	return snap_process_copy(&strings, from, ret) ? NULL : snap_error_no_memory();
}

/* In words; `process` is a copy whose trouble is written. */
static void explain_trouble(struct snap_sampler *sampler, struct snap_capture *capture,
			    struct snap_process *process, int os_errno)
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
		snap_discover_explain(capture, process, sampler->asker,
				      os_errno == EACCES ? EPERM : os_errno);
}

/* Its trouble is this from now on; the sink gets it. */
static struct stacksnap_error *take_trouble(struct snap_sampler *sampler,
					    struct snap_sampler_process *process,
					    enum snap_trouble trouble, const char *message)
{
	const struct snap_sampler_sink *sink = sampler->sink;

	/* A process that is traced now and then says so in the same words: kept once. */
	if (message && (!process->trouble_text || strcmp(message, process->trouble_text) != 0)) {
		free(process->trouble_text);
		process->trouble_text = strdup(message);
		SNAP_TRY(snap_no_memory_unless(process->trouble_text));
	}
	process->facts.trouble = trouble;
	process->facts.trouble_message = message ? process->trouble_text : NULL;
	return process->announced ? sink->mapped(sink->context, &process->shown) : NULL;
}

struct stacksnap_error *snap_sampler_process_explain(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     int os_errno)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	struct snap_process facts = process->facts;

	SNAP_TRY(snap_no_memory_unless(capture));
	explain_trouble(sampler, capture, &facts, os_errno);
	return take_trouble(sampler, process, facts.trouble, facts.trouble_message);
}

struct stacksnap_error *snap_sampler_process_stalled(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     const char *what)
{
	const int64_t longest = LONGEST_REST_S * SNAP_NS_PER_S;
	char text[128];

	process->unresponsive_ns = process->unresponsive_ns ? REST_TIMES * process->unresponsive_ns
							    : FIRST_REST_MS * SNAP_NS_PER_MS;
	process->unresponsive_ns = SNAP_MIN(process->unresponsive_ns, longest);
	process->unresponsive_until_ns = snap_clock_ns(CLOCK_MONOTONIC) + process->unresponsive_ns;
	snap_sampler_end_threads(sampler, process);
	process->state = SNAP_SAMPLER_PROCESS_UNRESPONSIVE;
	snprintf(text, sizeof(text), "process %d does not respond: %s took too long",
		 (int)process->facts.pid, what);
	return take_trouble(sampler, process, SNAP_TROUBLE_NOT_RESPONDING, text);
}

struct stacksnap_error *snap_sampler_process_refused(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     int os_errno)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	struct snap_process facts = process->facts;
	struct stacksnap_error *err;
	bool ended;

	SNAP_TRY(snap_no_memory_unless(capture));
	explain_trouble(sampler, capture, &facts, os_errno);
	ended = facts.trouble == SNAP_TROUBLE_EXITED || facts.trouble == SNAP_TROUBLE_ZOMBIE;
	snap_sampler_end_threads(sampler, process);
	process->state = ended ? SNAP_SAMPLER_PROCESS_GONE : SNAP_SAMPLER_PROCESS_UNREADABLE;
	/* It may look so while a thread that calls exec becomes the leader: see exec.c. */
	if (ended && process->was_announced && !sampler->options->no_stop) {
		process->state = SNAP_SAMPLER_PROCESS_LOST;
		return NULL;
	}
	err = take_trouble(sampler, process, facts.trouble, facts.trouble_message);
	/* In the middle of an exec it may look like this: another look, if there is one, tells. */
	if (sampler->may_retry && os_errno != ENOEXEC &&
	    ++process->refusals < SNAP_SAMPLER_BELIEVED)
		process->state = SNAP_SAMPLER_PROCESS_LOST;
	return err;
}

/* A leader that has exited has no memory any more; any other thread does. */
struct snap_reader_target snap_sampler_reader_target(const struct snap_sampler *sampler,
						     const struct snap_sampler_process *process,
						     const struct snap_sampler_thread *thread)
{
	struct snap_reader_target target = { .pid = process->facts.pid,
					     .tid = process->facts.pid,
					     .program = process->program };
	struct snap_status status;

	for (size_t i = process->thread_count; i > 0 && !thread; i--)
		if (!snap_sampler_thread_gone(sampler, process->threads[i - 1]))
			thread = process->threads[i - 1];
	target.is_file = thread && thread->stack_is_file;
	if (thread)
		target.tid = thread->shown.tid;
	else if (process->live.files_fd >= 0 &&
		 snap_procfs_status(process->live.files_fd, &status) == 0)
		target.tid = status.pid;
	return target;
}

/*
 * What tells its program from another one. ESTALE: it is another one already than that whose name
 * and arguments were read, or is becoming one.
 */
static int learn_program(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	struct snap_reader_target target = snap_sampler_reader_target(sampler, process, NULL);
	uint64_t before = process->facts.program;
	struct snap_stat stat;
	int error = snap_sampler_read_stat(sampler, process, target.tid, &stat);

	process->program = error ? 0 : stat.program;
	if (error && !snap_procfs_is_gone(error))
		return error;
	/* Of a leader that has exited nothing was known. */
	if (!before && target.tid != process->facts.pid)
		return 0;
	return process->program != before ? -ESTALE : 0;
}

void snap_sampler_process_reported(struct snap_sampler_process *process)
{
	process->facts.pieces = NULL;
	process->facts.piece_count = 0;
	snap_arena_deinit(&process->pieces);
}

struct mapping {
	struct snap_sampler *sampler;
	struct snap_sampler_process *process;
	bool changed;
};

static struct stacksnap_error *copy_pieces(struct snap_arena *arena, const struct snap_space *space,
					   struct snap_process *facts)
{
	facts->pieces = snap_arena_memdup(arena, space->pieces,
					  space->piece_count * sizeof(*facts->pieces));
	facts->piece_count = facts->pieces ? space->piece_count : 0;
	for (size_t i = 0; i < facts->piece_count; i++) {
		struct snap_piece *piece = &facts->pieces[i];

		piece->data = snap_arena_memdup(arena, piece->data, piece->size);
		if (!piece->data)
			facts->piece_count = i;
	}
	return facts->piece_count == space->piece_count ? NULL : snap_error_no_memory();
}

/* The sink may still use the old mappings until it knows the new ones. */
static struct stacksnap_error *take_space(void *context, const struct snap_reader_space *about)
{
	const struct snap_space *space = &about->space;
	struct mapping *mapping = context;
	struct snap_sampler *sampler = mapping->sampler;
	struct snap_sampler_process *process = mapping->process;
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_sampler_space *old = process->space;
	struct stacksnap_error *err = NULL;

	process->facts.credentials = about->credentials;
	process->shown.net_namespace = about->net_namespace;
	if (snap_sampler_space_is(old, space))
		return NULL;
	mapping->changed = true;
	process->shown.runtimes =
		sampler->options->runtimes_given ? sampler->options->runtimes : about->runtimes;
	snap_sampler_process_reported(process);
	SNAP_TRY(copy_pieces(&process->pieces, space, &process->facts));
	process->space = snap_sampler_space_get(sampler, space);
	if (!process->space) {
		process->space = old;
		return snap_error_no_memory();
	}
	process->facts.maps = process->space->maps;
	process->facts.map_count = process->space->map_count;
	process->facts.maps_cut = process->space->cut;
	if (process->announced) {
		err = sink->mapped(sink->context, &process->shown);
		snap_sampler_process_reported(process);
	}
	snap_sampler_space_put(sampler, old);
	return err;
}

struct stacksnap_error *snap_sampler_process_map(struct snap_sampler *sampler,
						 struct snap_sampler_process *process,
						 bool *changed_ret)
{
	struct mapping mapping = { sampler, process, false };
	const struct snap_reader_target target = snap_sampler_reader_target(sampler, process, NULL);
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);
	int error;

	*changed_ret = false;
	/* Those that there was no room for are not kept by another try. */
	if (begin < process->map_after_ns ||
	    (sampler->options->no_stop && process->facts.maps_cut &&
	     process->state == SNAP_SAMPLER_PROCESS_SAMPLED))
		return NULL;
	SNAP_TRY(snap_reader_space(sampler->reader, &target, sampler->space_bytes, take_space,
				   &mapping, &error));
	if (error == -ETIMEDOUT)
		return snap_sampler_process_stalled(sampler, process, "reading its mappings");
	if (error == -ESTALE)
		snap_sampler_process_lose(sampler, process);
	*changed_ret = mapping.changed;
	process->map_after_ns =
		snap_sampler_after(sampler, begin, MAP_LEAST_MS * SNAP_NS_PER_MS, MAP_SHARE);
	return NULL;
}

static int open_sampled_tasks(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	_cleanup_fd_ int loose = -1;
	int process_fd = process->live.proc_fd;

	sampler->descriptors += process->shown.tasks_fd >= 0;
	snap_close(&process->shown.tasks_fd);
	if (process_fd < 0)
		process_fd = loose = snap_sampler_process_directory(sampler, process);
	if (process_fd < 0)
		return process_fd;
	process->shown.tasks_fd = snap_procfs_open_tasks(process_fd);
	sampler->descriptors -= process->shown.tasks_fd >= 0;
	return process->shown.tasks_fd < 0 ? process->shown.tasks_fd : 0;
}

/* 0 or a negative errno. ESTALE: it has just become another program. */
static int try_memory(const struct snap_sampler *sampler,
		      const struct snap_sampler_process *process)
{
	const struct snap_reader_target target = snap_sampler_reader_target(sampler, process, NULL);

	return snap_reader_try(sampler->reader, &target);
}

int snap_sampler_try(struct snap_sampler *sampler, const struct snap_process *process)
{
	const struct snap_sampler_process *mine =
		snap_sampler_process_find(sampler, process->pid, process->start_ticks);
	const struct snap_reader_target target = {
		.pid = process->pid,
		.tid = mine ? snap_sampler_reader_target(sampler, mine, NULL).tid : process->pid,
	};

	return snap_reader_try(sampler->reader, &target);
}

int snap_sampler_read_bytes(struct snap_sampler *sampler, struct snap_sampled_process *shown,
			    struct snap_sampled_bytes *words, size_t count)
{
	struct snap_sampler_process *process = (struct snap_sampler_process *)(void *)shown;
	const struct snap_reader_target target = snap_sampler_reader_target(sampler, process, NULL);
	size_t bytes = 0;
	int status;

	for (size_t i = 0; i < count && bytes <= SNAP_SAMPLED_WORDS_BYTES; i++) {
		words[i].got = 0;
		bytes += words[i].size;
	}
	if (count > SNAP_SAMPLED_WORDS_MOST || bytes > SNAP_SAMPLED_WORDS_BYTES)
		return -EINVAL;
	if (process->state != SNAP_SAMPLER_PROCESS_SAMPLED)
		return -ESTALE;
	/* A process that once kept us waiting is not asked. */
	if (process->wait_bytes_stalled)
		return -ETIMEDOUT;
	status = count ? snap_reader_read_bytes(sampler->reader, &target, words, count) : 0;
	process->wait_bytes_stalled = status == -ETIMEDOUT;
	return status;
}

struct stacksnap_error *snap_sampler_process_open(struct snap_sampler *sampler,
						  struct snap_sampler_process *process)
{
	process->state = SNAP_SAMPLER_PROCESS_UNREADABLE;
	/* Others have asked, and had no answer. */
	if (process->facts.trouble == SNAP_TROUBLE_NOT_RESPONDING)
		return snap_sampler_process_stalled(sampler, process, "reading its arguments");
	if (process->facts.trouble != SNAP_TROUBLE_NONE)
		return NULL;
	return snap_sampler_process_reopen(sampler, process);
}

struct stacksnap_error *snap_sampler_process_reopen(struct snap_sampler *sampler,
						    struct snap_sampler_process *process)
{
	struct stacksnap_error *err;
	bool changed;
	int error;

	process->state = SNAP_SAMPLER_PROCESS_UNREADABLE;
	error = open_sampled_tasks(sampler, process);
	if (!error)
		error = learn_program(sampler, process);
	if (!error)
		error = try_memory(sampler, process);
	if (error == -ETIMEDOUT)
		return snap_sampler_process_stalled(sampler, process, "opening its memory");
	if (error == -ESTALE)
		process->state = SNAP_SAMPLER_PROCESS_LOST;
	else if (error)
		return snap_sampler_process_refused(sampler, process, -error);
	if (error)
		return NULL;
	process->map_after_ns = 0;
	err = snap_sampler_process_map(sampler, process, &changed);
	if (err || process->state == SNAP_SAMPLER_PROCESS_UNRESPONSIVE ||
	    process->state == SNAP_SAMPLER_PROCESS_LOST)
		return err;
	if (process->space && process->space->is_32_bit)
		return snap_sampler_process_refused(sampler, process, ENOEXEC);
	/* A program that has just begun maps its libraries. */
	process->map_after_ns = 0;
	/* Without mappings it is just leaving, or becoming another program. */
	process->state =
		process->facts.map_count ? SNAP_SAMPLER_PROCESS_SAMPLED : SNAP_SAMPLER_PROCESS_LOST;
	process->list_due = true;
	process->listed = 0;
	return NULL;
}

void snap_sampler_process_lose(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	process->state = SNAP_SAMPLER_PROCESS_LOST;
	snap_sampler_end_threads(sampler, process);
}

/* A thread that has given up its memory, as it exits, says nothing of the others. */
void snap_sampler_process_compare(struct snap_sampler *sampler,
				  struct snap_sampler_process *process,
				  const struct snap_stat *stat)
{
	if (process->state == SNAP_SAMPLER_PROCESS_SAMPLED && stat->program &&
	    stat->program != process->program)
		snap_sampler_process_lose(sampler, process);
}

void snap_sampler_process_check(struct snap_sampler *sampler, struct snap_sampler_thread *thread)
{
	struct snap_sampler_process *process = thread->process;
	struct snap_stat stat;

	if (process->state != SNAP_SAMPLER_PROCESS_SAMPLED || process->checked == sampler->looks ||
	    snap_sampler_thread_stat(sampler, thread, &stat))
		return;
	process->checked = sampler->looks;
	snap_sampler_process_compare(sampler, process, &stat);
}

/*
 * Only the first thread can be of another program: any other one that was there becomes the first
 * one by an exec, or ends. In the middle of the next exec, or at its end, there is no memory that
 * would tell: so that is not believed, and no exec either.
 */
bool snap_sampler_copy_is_of_program(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread)
{
	struct snap_stat stat;

	if (thread->shown.tid != thread->process->facts.pid)
		return true;
	if (snap_sampler_thread_stat(sampler, thread, &stat) || !stat.program)
		return false;
	snap_sampler_process_compare(sampler, thread->process, &stat);
	return !snap_sampler_thread_gone(sampler, thread);
}
