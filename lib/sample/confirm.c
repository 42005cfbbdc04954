/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that are in a call, all at one instant, though no thread is stopped: see sampler.h.
 *
 * Each thread was copied at a moment of its own. So it is looked at twice more: first that each is
 * in its call, with its counters; when all have been, memory is read; then that none of them has
 * run. A thread that has not run was in this call from the first check to the second, as all the
 * others were, and so while memory was read: none of them can have changed what it holds.
 */
#include "sample/internal.h"

#include "base/bsearch.h"
#include "model/wait/call.h"

#include <errno.h>

struct checked {
	struct snap_sampler_thread *thread;
	struct snap_thread_call call;
	struct snap_run_counters counters;
};

struct moment {
	struct snap_sampler *sampler;
	const struct snap_confirm *confirm;
	struct checked *list;
	size_t count;
};

static bool has_time(const struct moment *moment)
{
	return snap_clock_ns(CLOCK_MONOTONIC) < moment->sampler->until_ns &&
	       !snap_options_cancelled(moment->sampler->options);
}

static bool read_counters(struct snap_sampler *sampler, const struct snap_sampler_thread *thread,
			  struct snap_run_counters *ret)
{
	const char *name = snap_guard_file(sampler->guard_kind);
	int fd = sampler->guards[thread->guard].guard_fd;
	_cleanup_fd_ int opened = -1;

	if (fd < 0 && name)
		fd = opened = snap_procfs_task_open_file(thread->process->shown.tasks_fd,
							 thread->shown.tid, name);
	return fd >= 0 && snap_guard_read(sampler->guard_kind, fd, ret) == 0;
}

static void list_confirmed_threads(struct moment *moment)
{
	struct snap_sampler *sampler = moment->sampler;
	const struct snap_confirm *confirm = moment->confirm;

	for (size_t i = 0; i < sampler->guard_count; i++) {
		struct snap_sampler_thread *thread = sampler->guards[i].thread;
		struct checked checked = { .thread = thread };

		if (snap_sampler_thread_gone(sampler, thread) ||
		    thread->process->state != SNAP_SAMPLER_PROCESS_SAMPLED ||
		    !confirm->in_call(confirm->context, &thread->shown, &checked.call))
			continue;
		moment->list[moment->count++] = checked;
	}
}

/* A thread that was stopped in a call with a timeout goes on with it under another number. */
static bool is_same_call(enum snap_arch arch, const struct snap_thread_call *call,
			 const struct snap_syscall_line *line)
{
	return !line->running &&
	       (line->number == call->number ||
		snap_wait_call_row(arch, line->number)->call == SNAP_CALL_RESTART) &&
	       line->sp == call->sp && line->pc == call->pc &&
	       line->arguments[0] == call->arguments[0];
}

/* Those of a list that are in their calls; they stay, in their order. */
static size_t locate_stands(struct moment *moment, size_t from, size_t count, size_t kept)
{
	struct snap_sampler *sampler = moment->sampler;
	size_t listed = 0, late;

	for (size_t i = from; i < from + count; i++) {
		struct checked *checked = &moment->list[i];

		if (!read_counters(sampler, checked->thread, &checked->counters))
			continue;
		sampler->questions[listed] = (struct snap_reader_question){
			.target = snap_sampler_reader_target(sampler, checked->thread->process,
							     checked->thread),
		};
		moment->list[from + listed++] = *checked;
	}
	if (!listed || snap_reader_locate_all(sampler->reader, sampler->questions, listed, &late))
		return kept;
	for (size_t i = 0; i < listed; i++) {
		const struct checked *checked = &moment->list[from + i];
		struct snap_syscall_line line;

		if (snap_reader_located(sampler->reader, i, &line) == 0 &&
		    is_same_call(checked->thread->process->facts.arch, &checked->call, &line))
			moment->list[kept++] = *checked;
	}
	return kept;
}

static void find_in_calls(struct moment *moment)
{
	size_t kept = 0;

	for (size_t i = 0; i < moment->count && has_time(moment); i += SNAP_READER_MOST) {
		size_t left = moment->count - i;

		kept = locate_stands(moment, i, left < SNAP_READER_MOST ? left : SNAP_READER_MOST,
				     kept);
	}
	moment->count = kept;
}

struct memory {
	struct moment *moment;
	struct snap_sampler_process *process;
};

static ssize_t read_confirmed_memory(void *context, uint64_t address, uint8_t *bytes, size_t size)
{
	const struct memory *memory = context;
	struct snap_sampler *sampler = memory->moment->sampler;
	const struct snap_reader_target target =
		snap_sampler_reader_target(sampler, memory->process, NULL);

	if (!has_time(memory->moment))
		return -ETIMEDOUT;
	return snap_reader_read(sampler->reader, &target, address, bytes, size);
}

static int read_all_words(void *context, struct snap_sampled_bytes *words, size_t count)
{
	const struct memory *memory = context;

	if (!has_time(memory->moment))
		return -ETIMEDOUT;
	return snap_sampler_read_bytes(memory->moment->sampler, &memory->process->shown, words,
				       count);
}

/* No thread of a process is confirmed if its memory cannot be read again. */
static void read_confirmed_words(struct moment *moment)
{
	const struct snap_confirm *confirm = moment->confirm;
	size_t kept = 0;

	for (size_t i = 0, next; i < moment->count; i = next) {
		struct snap_sampler_process *process = moment->list[i].thread->process;
		struct memory of = { moment, process };
		const struct snap_confirm_memory memory = { read_confirmed_memory, read_all_words,
							    &of };
		bool is_read;

		is_read = !process->wait_bytes_stalled &&
			  confirm->read_words(confirm->context, &process->shown, &memory);
		for (next = i;
		     next < moment->count && moment->list[next].thread->process == process; next++)
			if (is_read)
				moment->list[kept++] = moment->list[next];
	}
	moment->count = kept;
}

SNAP_ORDER(compare_processes, struct checked, a, b,
	   snap_compare(a->thread->process->facts.pid, b->thread->process->facts.pid));

struct stacksnap_error *snap_sampler_confirm(struct snap_sampler *sampler,
					     const struct snap_confirm *confirm)
{
	_cleanup_free_ struct checked *list = malloc((sampler->guard_count + 1) * sizeof(*list));
	struct moment moment = { .sampler = sampler, .confirm = confirm, .list = list };

	SNAP_TRY(snap_no_memory_unless(list));
	if (sampler->guard_kind == SNAP_GUARD_NONE)
		return NULL;
	list_confirmed_threads(&moment);
	find_in_calls(&moment);
	qsort(list, moment.count, sizeof(*list), compare_processes);
	read_confirmed_words(&moment);
	for (size_t i = 0; i < moment.count; i++) {
		struct snap_run_counters now;

		if (read_counters(sampler, list[i].thread, &now) &&
		    snap_run_counters_equal(&now, &list[i].counters))
			confirm->confirmed(confirm->context, &list[i].thread->shown);
	}
	return NULL;
}
