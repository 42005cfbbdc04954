/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The names that runtimes have for threads, from the parser to the capture. A process that is asked
 * about twice has the later ones. Knows nothing of what the names mean.
 */
#include "roles/runtime_probe/messages.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

enum {
	MOST_NAMES = 1 << 16,
	MOST_OF_PROCESS = 1024,
};

struct snap_thread_name {
	pid_t pid;
	uint64_t start_ticks;
	size_t order;
	struct snap_runtime_probe_name said;
};

void snap_thread_names_deinit(struct snap_thread_names *names)
{
	free(names->list);
}

void snap_thread_names_begin(struct snap_thread_names *names)
{
	names->left = names->count < MOST_NAMES ? MOST_OF_PROCESS : 0;
}

void snap_thread_names_add(struct snap_thread_names *names, const struct snap_process *process,
			   const struct snap_runtime_probe_name *said)
{
	struct snap_thread_name *name;

	if (names->left == 0 || !snap_reserve_array(names->list, names->capacity, names->count + 1))
		return;
	names->left--;
	name = &names->list[names->count];
	*name = (struct snap_thread_name){ .pid = process->pid,
					   .start_ticks = process->start_ticks,
					   .order = names->count++,
					   .said = *said };
	name->said.name[sizeof(name->said.name) - 1] = '\0';
}

SNAP_ORDER(compare_thread_names, struct snap_thread_name, a, b, snap_compare(a->pid, b->pid),
	   snap_compare(a->start_ticks, b->start_ticks), snap_compare(a->said.tid, b->said.tid),
	   snap_compare(a->order, b->order));

/* The last one that was said of a thread; NULL: there is none. */
static const char *find_thread_name(const struct snap_thread_names *names,
				    const struct snap_process *process, uint32_t tid)
{
	const struct snap_thread_name thread = { .pid = process->pid,
						 .start_ticks = process->start_ticks,
						 .order = SIZE_MAX,
						 .said.tid = tid };
	size_t next =
		snap_first_not(names->count, i, compare_thread_names(&names->list[i], &thread) < 0);
	const struct snap_thread_name *name = next ? &names->list[next - 1] : NULL;

	return name && name->pid == thread.pid && name->start_ticks == thread.start_ticks &&
			       name->said.tid == tid && *name->said.name
		       ? name->said.name
		       : NULL;
}

/* The first thread keeps its comm, which is the name of the process. */
bool snap_thread_names_apply(struct snap_thread_names *names, struct snap_capture *capture)
{
	if (names->count == 0)
		return true;
	qsort(names->list, names->count, sizeof(*names->list), compare_thread_names);
	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count; k++) {
			struct snap_thread *thread = &process->threads[k];
			pid_t own = thread->ns_tid ? thread->ns_tid : thread->tid;
			const char *name = find_thread_name(names, process, (uint32_t)own);

			if (!name || thread->tid == process->pid)
				continue;
			thread->name = snap_arena_strdup(&capture->arena, name);
			if (!thread->name)
				return false;
		}
	}
	return true;
}
