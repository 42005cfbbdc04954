/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System V message queues and semaphores that threads wait at: how full they are, and which process
 * used them last.
 *
 * Their numbers belong to a namespace, and mean something else in another one. So each process's is
 * asked first; a queue is looked up in the waiter's namespace, if a worker may enter it, and
 * nowhere else. Semaphores of a set are distinguished.
 */
#include "proc/wait/queues.h"
#include "base/bsearch.h"
#include "capture/wait/resolver.h"
#include "proc/wait/fdinfo.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>

enum {
	TABLE_TEXT = 8192,
	MOST_OF_ONE = SNAP_MAX_QUEUES / 16, /* that one process waits at */
};

/* A process with callers, and its namespace. */
struct home {
	size_t process; /* in the capture */
	pid_t pid;
	uint64_t namespace; /* the answer; 0: it cannot be read */
};

struct queue {
	pid_t pid; /* of a process in the namespace */
	struct snap_ipc_queue key;
	/* the answer */
	bool is_found;
	bool is_elsewhere; /* in a namespace that cannot be asked */
	struct snap_ipc_queue found;
};

/* Seen by workers, too. */
struct queues {
	const struct snap_wait_memory *memory;
	struct home *homes; /* by process */
	size_t home_count;
	struct queue *list;
	size_t count;
};

/* ---- in a worker ---- */

static uint64_t namespace_of(int root_fd, const char *name)
{
	char text[SNAP_WAIT_NAME];
	ssize_t length = snap_procfs_link(root_fd, name, text, sizeof(text));
	uint64_t inode;

	return length > 0 && snap_parse_namespace(text, (size_t)length, &inode) ? inode : 0;
}

static void ask_home(void *context, uint32_t item)
{
	struct queues *queues = context;
	char name[SNAP_WAIT_NAME];

	snprintf(name, sizeof(name), "%d/ns/ipc", (int)queues->homes[item].pid);
	queues->homes[item].namespace = namespace_of(queues->memory->root_fd, name);
}

/* Afterwards the worker is there, wherever it was before. */
static bool enter_queue_namespace(int root_fd, const struct queue *queue)
{
	static const char own[] = "thread-self/ns/ipc";
	char name[SNAP_WAIT_NAME];
	_cleanup_fd_ int fd = -1;

	if (namespace_of(root_fd, own) == queue->key.namespace)
		return true;
	snprintf(name, sizeof(name), "%d/ns/ipc", (int)queue->pid);
	fd = snap_procfs_open_file(root_fd, name);
	return fd >= 0 && setns(fd, CLONE_NEWIPC) == 0 &&
	       namespace_of(root_fd, own) == queue->key.namespace;
}

static void ask_queue(void *context, uint32_t item)
{
	struct queues *queues = context;
	struct queue *queue = &queues->list[item];
	char text[TABLE_TEXT], *line;
	_cleanup_fd_ int fd = -1;
	struct snap_ipc_queue found;
	struct snap_lines lines;
	size_t length;
	int last;

	queue->is_elsewhere = !enter_queue_namespace(queues->memory->root_fd, queue);
	if (queue->is_elsewhere)
		return;
	fd = snap_procfs_open_file(queues->memory->root_fd,
				   queue->key.is_semaphore ? "sysvipc/sem" : "sysvipc/msg");
	if (fd < 0)
		return;
	snap_lines_init(&lines, fd, text, sizeof(text));
	while (!queue->is_found && snap_lines_next(&lines, &line, &length) > 0) {
		if (queue->key.is_semaphore ? !snap_parse_semaphore_set(line, length, &found)
					    : !snap_parse_message_queue(line, length, &found))
			continue;
		queue->is_found = found.id == queue->key.id;
		queue->found = found;
	}
	queue->found.namespace = queue->key.namespace;
	queue->found.number = queue->key.number;
	if (!queue->is_found || !queue->key.is_semaphore)
		return;
	last = semctl(queue->key.id, queue->key.number, GETPID);
	queue->found.last_sender = last > 0 ? last : 0;
}

/* ---- the asking side ---- */

static bool is_of_queue(const struct snap_wait_caller *caller)
{
	return caller->row->kind == SNAP_WAIT_MSGQUEUE ||
	       caller->row->kind == SNAP_WAIT_SYSV_SEMAPHORE;
}

/* Callers come by process. NULL in *ret: there are none. */
static struct stacksnap_error *list_homes(struct snap_wait_resolver *resolver, struct queues **ret)
{
	struct snap_wait_asker *asker = resolver->asker;
	struct queues *queues;
	size_t count = 0;

	*ret = NULL;
	for (size_t i = 0; i < resolver->caller_count; i++)
		count += is_of_queue(&resolver->callers[i]);
	if (!count)
		return NULL;
	queues = snap_wait_asker_new_array(asker, 1, struct queues);
	SNAP_TRY(snap_no_memory_unless(queues));
	queues->memory = asker->memory;
	queues->homes = snap_wait_asker_new_array(asker, count, struct home);
	queues->list = snap_wait_asker_new_array(asker, count, struct queue);
	SNAP_TRY(snap_no_memory_unless(queues->homes && queues->list));
	for (size_t i = 0; i < resolver->caller_count; i++) {
		size_t process = resolver->callers[i].process, last = queues->home_count;

		if (is_of_queue(&resolver->callers[i]) &&
		    (!last || queues->homes[last - 1].process != process))
			queues->homes[queues->home_count++] =
				(struct home){ .process = process,
					       .pid = snap_wait_process(resolver, process)->pid };
	}
	*ret = queues;
	return NULL;
}

static void take_homes(struct snap_wait_resolver *resolver, const struct queues *queues,
		       const uint8_t *marks)
{
	for (size_t i = 0; marks && i < queues->home_count; i++)
		if (marks[i] == SNAP_ITEM_DONE)
			snap_wait_process(resolver, queues->homes[i].process)->ipc_namespace =
				queues->homes[i].namespace;
}

static struct queue queue_of(const struct snap_wait_resolver *resolver,
			     const struct snap_wait_caller *caller)
{
	const struct snap_process *process = snap_wait_process(resolver, caller->process);
	const struct snap_thread_call *call = &caller->call;
	struct queue queue = { .pid = process->pid,
			       .key = { .is_semaphore = caller->row->call == SNAP_CALL_SEMOP,
					.namespace = process->ipc_namespace,
					.id = (int32_t)call->arguments[0] } };

	/* struct sembuf begins with the number (semop(2)). */
	if (queue.key.is_semaphore &&
	    !snap_wait_read_memory(process, &process->threads[caller->thread], call->arguments[1],
				   &queue.key.number, sizeof(queue.key.number)))
		queue.key.number = 0;
	return queue;
}

SNAP_ORDER(compare_queues, struct queue, a, b,
	   snap_compare(a->key.is_semaphore, b->key.is_semaphore),
	   snap_compare(a->key.namespace, b->key.namespace), snap_compare(a->key.id, b->key.id),
	   snap_compare(a->key.number, b->key.number));

/* Each once, in the order of the result; those of a namespace that is not known are left out. */
static void list_queues(struct snap_wait_resolver *resolver, struct queues *queues)
{
	size_t count = 0, of_others = 0;

	for (size_t i = 0; i < resolver->caller_count; i++) {
		const struct snap_wait_caller *caller = &resolver->callers[i];
		struct queue queue;

		if (i && caller[-1].process != caller->process)
			of_others = count;
		if (!is_of_queue(caller))
			continue;
		queue = queue_of(resolver, caller);
		if (count > of_others && compare_queues(&queues->list[count - 1], &queue) == 0)
			continue;
		if (!queue.key.namespace)
			resolver->facts->lacks |= SNAP_LACK_NAMESPACES;
		else if (count - of_others < MOST_OF_ONE)
			queues->list[count++] = queue;
		else
			resolver->facts->lacks |= SNAP_LACK_CUT;
	}
	if (count)
		qsort(queues->list, count, sizeof(*queues->list), compare_queues);
	for (size_t i = 0; i < count; i++) {
		size_t kept = queues->count;

		if (kept && compare_queues(&queues->list[kept - 1], &queues->list[i]) == 0)
			continue;
		if (kept == SNAP_MAX_QUEUES) {
			resolver->facts->lacks |= SNAP_LACK_CUT;
			break;
		}
		queues->list[queues->count++] = queues->list[i];
	}
}

static struct stacksnap_error *keep_queues(struct snap_wait_resolver *resolver,
					   const struct queues *queues, const uint8_t *marks)
{
	struct snap_wait_facts *facts = resolver->facts;

	facts->queues = snap_arena_new_array(&resolver->capture->arena, queues->count,
					     struct snap_ipc_queue);
	SNAP_TRY(snap_no_memory_unless(facts->queues));
	for (size_t i = 0; marks && i < queues->count; i++) {
		const struct queue *queue = &queues->list[i];

		if (marks[i] != SNAP_ITEM_DONE)
			continue;
		if (queue->is_elsewhere)
			facts->lacks |= SNAP_LACK_NAMESPACES;
		if (queue->is_found)
			facts->queues[facts->queue_count++] = queue->found;
	}
	return NULL;
}

struct stacksnap_error *snap_wait_ask_queues(struct snap_wait_resolver *resolver)
{
	struct snap_wait_asker *asker = resolver->asker;
	struct queues *queues;
	struct stacksnap_error *err = list_homes(resolver, &queues);

	if (err || !queues)
		return err;
	take_homes(resolver, queues,
		   snap_wait_asker_run(asker, ask_home, queues, queues->home_count,
				       resolver->until_ns));
	list_queues(resolver, queues);
	if (!queues->count)
		return NULL;
	return keep_queues(
		resolver, queues,
		snap_wait_asker_run(asker, ask_queue, queues, queues->count, resolver->until_ns));
}
