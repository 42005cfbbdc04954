/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracer that has stopped a thread, such as a debugger. Only for threads in a trace stop (state
 * t); a traced thread that runs waits for no tracer.
 */
#include "capture/wait/resolver.h"

#include <string.h>
#include <unistd.h>

struct traced {
	pid_t pid, tid;
	/* the answer */
	pid_t tracer; /* its process; 0: it is none, or not to be seen from here */
	char state;
	char name[SNAP_MAX_COMM];
};

/* Seen by workers, too. */
struct all_traced {
	const struct snap_wait_memory *memory;
	struct traced *list;
};

/* ---- in a worker ---- */

static void ask_tracer(void *context, uint32_t item)
{
	const struct all_traced *all = context;
	struct traced *traced = &all->list[item];
	int root_fd = all->memory->root_fd;
	struct snap_status status;
	struct snap_stat stat;

	/* The file of a thread stands beside that of its process, though no list has it. */
	if (snap_procfs_task_status(root_fd, traced->tid, &status) || status.state != 't' ||
	    status.tracer_pid <= 0)
		return;
	if (snap_procfs_task_status(root_fd, status.tracer_pid, &status) || status.tgid <= 0 ||
	    status.ppid == getppid())
		return; /* the last is our own tracing child */
	traced->tracer = status.tgid;
	if (snap_procfs_task_stat(root_fd, status.tgid, &stat))
		return;
	traced->state = stat.state;
	memcpy(traced->name, stat.name, sizeof(traced->name));
}

/* ---- the asking side ---- */

static bool is_traced(const struct snap_process *process, const struct snap_thread *thread)
{
	return thread->state == 't' && snap_wait_is_alive(process, thread);
}

static size_t count_traced(const struct snap_capture *capture)
{
	size_t count = 0;

	for (size_t i = 0; i < capture->process_count; i++)
		for (size_t k = 0; k < capture->processes[i].thread_count; k++)
			count += is_traced(&capture->processes[i],
					   &capture->processes[i].threads[k]);
	return count;
}

static bool is_in_capture(const struct snap_capture *capture, pid_t pid)
{
	return snap_any(capture->process_count, i, capture->processes[i].pid == pid);
}

/* A tracer of thousands is named once. */
static struct stacksnap_error *name_tracer(struct snap_wait_resolver *resolver,
					   const struct traced *traced)
{
	struct snap_wait_facts *facts = resolver->facts;
	struct snap_outsider *all;
	size_t at = 0;

	while (at < facts->outsider_count && facts->outsiders[at].pid < traced->tracer)
		at++;
	if ((at < facts->outsider_count && facts->outsiders[at].pid == traced->tracer) ||
	    facts->outsider_count >= SNAP_MAX_OUTSIDERS || !traced->state ||
	    is_in_capture(resolver->capture, traced->tracer))
		return NULL;
	all = snap_arena_new_array(&resolver->capture->arena, facts->outsider_count + 1,
				   struct snap_outsider);
	SNAP_TRY(snap_no_memory_unless(all));
	if (facts->outsider_count) {
		memcpy(all, facts->outsiders, at * sizeof(*all));
		memcpy(all + at + 1, facts->outsiders + at,
		       (facts->outsider_count - at) * sizeof(*all));
	}
	all[at] = (struct snap_outsider){
		.pid = traced->tracer,
		.name = snap_arena_strdup(&resolver->capture->arena, traced->name),
		.state = traced->state,
	};
	facts->outsiders = all;
	facts->outsider_count++;
	return all[at].name ? NULL : snap_error_no_memory();
}

static struct all_traced *list_traced(struct snap_wait_resolver *resolver, size_t count)
{
	const struct snap_capture *capture = resolver->capture;
	struct all_traced *all = snap_wait_asker_new_array(resolver->asker, 1, struct all_traced);
	size_t found = 0;

	if (!all)
		return NULL;
	all->memory = resolver->asker->memory;
	all->list = snap_wait_asker_new_array(resolver->asker, count, struct traced);
	for (size_t i = 0; all->list && i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count; k++)
			if (is_traced(process, &process->threads[k]))
				all->list[found++] =
					(struct traced){ .pid = process->pid,
							 .tid = process->threads[k].tid };
	}
	return all->list ? all : NULL;
}

struct stacksnap_error *snap_wait_ask_tracers(struct snap_wait_resolver *resolver)
{
	struct snap_capture *capture = resolver->capture;
	size_t count = count_traced(capture), at = 0;
	struct stacksnap_error *err = count ? snap_wait_make_asker(resolver) : NULL;
	struct all_traced *all;
	const uint8_t *marks;

	if (err || !count)
		return err;
	all = list_traced(resolver, count);
	SNAP_TRY(snap_no_memory_unless(all));
	marks = snap_wait_asker_run(resolver->asker, ask_tracer, all, count, resolver->until_ns);
	for (size_t i = 0; marks && i < capture->process_count; i++) {
		struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count && !err; k++) {
			struct snap_thread *thread = &process->threads[k];

			if (!is_traced(process, thread))
				continue;
			if (marks[at] == SNAP_ITEM_DONE && all->list[at].tracer) {
				thread->tracer = all->list[at].tracer;
				err = name_tracer(resolver, &all->list[at]);
			}
			at++;
		}
	}
	return err;
}
