/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System V message queues and semaphores that somebody waits at: how full, and who used them last.
 *
 * Their numbers belong to a namespace. Those of one are asked, where a worker may go there: that of
 * the first process that waits so.
 */
#include "proc/wait/queues.h"
#include "capture/wait/resolver.h"
#include "proc/wait/fdinfo.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>

enum { TABLE_TEXT = 8192 };

struct queue {
	pid_t pid;
	bool is_semaphore;
	int32_t id;
	uint16_t number; /* of the semaphore in its set */
	/* the answer */
	bool is_found;
	bool is_elsewhere; /* in a namespace that cannot be asked */
	struct snap_ipc_queue found;
};

/* Seen by workers, too. */
struct queues {
	const struct snap_wait_memory *memory;
	struct queue *list;
	uint64_t namespace; /* of the first one */
};

/* ---- in a worker ---- */

static uint64_t namespace_of(int root_fd, const char *name)
{
	char text[SNAP_WAIT_NAME];
	ssize_t length = snap_procfs_link(root_fd, name, text, sizeof(text));
	uint64_t inode;

	return length > 0 && snap_parse_namespace(text, (size_t)length, &inode) ? inode : 0;
}

static bool enter_namespace(struct queues *queues, const struct queue *queue)
{
	static const char own[] = "thread-self/ns/ipc";
	int root_fd = queues->memory->root_fd;
	char name[SNAP_WAIT_NAME];
	_cleanup_fd_ int fd = -1;
	uint64_t wanted;

	snprintf(name, sizeof(name), "%d/ns/ipc", (int)queue->pid);
	wanted = namespace_of(root_fd, name);
	if (!queues->namespace)
		queues->namespace = wanted;
	if (!wanted || wanted != queues->namespace)
		return false;
	if (namespace_of(root_fd, own) == wanted)
		return true;
	fd = snap_procfs_open_file(root_fd, name);
	return fd >= 0 && setns(fd, CLONE_NEWIPC) == 0 && namespace_of(root_fd, own) == wanted;
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

	queue->is_elsewhere = !enter_namespace(queues, queue);
	if (queue->is_elsewhere)
		return;
	fd = snap_procfs_open_file(queues->memory->root_fd,
				   queue->is_semaphore ? "sysvipc/sem" : "sysvipc/msg");
	if (fd < 0)
		return;
	snap_lines_init(&lines, fd, text, sizeof(text));
	while (!queue->is_found && snap_lines_next(&lines, &line, &length) > 0) {
		if (queue->is_semaphore ? !snap_parse_semaphore_set(line, length, &found)
					: !snap_parse_message_queue(line, length, &found))
			continue;
		queue->is_found = found.id == queue->id;
		queue->found = found;
	}
	if (!queue->is_found || !queue->is_semaphore)
		return;
	last = semctl(queue->id, queue->number, GETPID);
	queue->found.last_sender = last > 0 ? last : 0;
}

/* ---- who asks ---- */

static bool queue_of(const struct snap_wait_resolver *resolver,
		     const struct snap_wait_caller *caller, struct queue *ret)
{
	const struct snap_process *process = snap_wait_process(resolver, caller->process);
	enum snap_wait_call call = caller->row->call;

	if (call != SNAP_CALL_MSGRCV && call != SNAP_CALL_MSGSND && call != SNAP_CALL_SEMOP)
		return false;
	*ret = (struct queue){ .pid = process->pid,
			       .is_semaphore = call == SNAP_CALL_SEMOP,
			       .id = (int32_t)caller->call.arguments[0] };
	/* struct sembuf begins with the number (semop(2)). */
	if (ret->is_semaphore &&
	    !snap_wait_read_memory(process, &process->threads[caller->thread],
				   caller->call.arguments[1], &ret->number, sizeof(ret->number)))
		ret->number = 0;
	return true;
}

static int compare_queues(const void *left, const void *right)
{
	const struct queue *a = left, *b = right;

	if (a->is_semaphore != b->is_semaphore)
		return a->is_semaphore - b->is_semaphore;
	return (a->id > b->id) - (a->id < b->id);
}

/* Each once, in the order of the result; *ret is the asker's. */
static struct stacksnap_error *list_queues(struct snap_wait_resolver *resolver, struct queue **ret,
					   size_t *count_ret)
{
	size_t count = 0, kept = 0;
	struct queue queue, *list;

	for (size_t i = 0; i < resolver->caller_count; i++)
		count += queue_of(resolver, &resolver->callers[i], &queue);
	*count_ret = 0;
	if (!count)
		return NULL;
	list = snap_wait_asker_new_array(resolver->asker, count, struct queue);
	if (!list)
		return snap_error_no_memory();
	count = 0;
	for (size_t i = 0; i < resolver->caller_count; i++)
		count += queue_of(resolver, &resolver->callers[i], &list[count]);
	qsort(list, count, sizeof(*list), compare_queues);
	for (size_t i = 0; i < count && kept < SNAP_MAX_QUEUES; i++)
		if (!kept || compare_queues(&list[kept - 1], &list[i]) != 0)
			list[kept++] = list[i];
	*ret = list;
	*count_ret = kept;
	return NULL;
}

static struct stacksnap_error *keep_queues(struct snap_wait_resolver *resolver,
					   const struct queues *queues, const uint8_t *marks,
					   size_t count)
{
	struct snap_wait_facts *facts = resolver->facts;

	facts->queues =
		snap_arena_new_array(&resolver->capture->arena, count, struct snap_ipc_queue);
	if (!facts->queues)
		return snap_error_no_memory();
	for (size_t i = 0; marks && i < count; i++) {
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
	struct queue *list = NULL;
	size_t count = 0;
	struct stacksnap_error *err = list_queues(resolver, &list, &count);
	struct queues *queues;

	if (err || !count)
		return err;
	queues = snap_wait_asker_new_array(asker, 1, struct queues);
	if (!queues)
		return snap_error_no_memory();
	queues->memory = asker->memory;
	queues->list = list;
	return keep_queues(resolver, queues,
			   snap_wait_asker_run(asker, ask_queue, queues, count, resolver->until_ns),
			   count);
}
