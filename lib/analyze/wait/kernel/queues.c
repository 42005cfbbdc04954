/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System V and POSIX message queues, sets of semaphores, io_uring and aio: see kernel.h. The last
 * user of a System V queue is only a hint, because every process may use it. An id means a queue in
 * the waiter's namespace, and another one elsewhere.
 */
#include "analyze/wait/kernel/kernel.h"

#include "base/bsearch.h"

#include <stdlib.h>

enum { ALL_BUT_THAT = 020000 /* MSG_EXCEPT of msgrcv(2) */ };

struct semaphore_operation {
	uint16_t number;
	int16_t operation, flags;
};

static int compare(const struct snap_ipc_queue *a, const struct snap_ipc_queue *b)
{
	return snap_compare(a->is_semaphore, b->is_semaphore)
		       ?: snap_compare(a->namespace, b->namespace) ?: snap_compare(a->id, b->id)
		       ?: snap_compare(a->number, b->number);
}

/* NULL: nothing is known of it. Captures of before namespaces were asked have none of any. */
static const struct snap_ipc_queue *find_queue(const struct snap_wait_facts *facts,
					       const struct snap_waiter *waiter, bool is_semaphore,
					       uint16_t number)
{
	const struct snap_ipc_queue *all = facts->queues;
	const struct snap_ipc_queue key = {
		.is_semaphore = is_semaphore,
		.namespace = snap_waiter_process(waiter)->ipc_namespace,
		.id = (int32_t)waiter->call.arguments[0],
		.number = number,
	};
	size_t at = snap_first_not(facts->queue_count, i, compare(&all[i], &key) < 0);

	return at < facts->queue_count && compare(&all[at], &key) == 0 ? &all[at] : NULL;
}

/* What msgrcv(2) asks for, and msgsnd(2) brings. */
static void set_type(struct snap_waiter *waiter, bool receives)
{
	struct snap_wait *wait = waiter->wait;
	int64_t type;

	if (receives) {
		wait->message_type = (int64_t)waiter->call.arguments[3];
		if (waiter->call.arguments[4] & ALL_BUT_THAT && wait->message_type > 0)
			wait->variant = "except";
	} else if (snap_wait_read(waiter, waiter->call.arguments[1], &type, sizeof(type)) &&
		   type > 0) {
		wait->message_type = type;
	}
}

static struct stacksnap_error *hint_at(struct snap_wait_analysis *waits, struct snap_waiter *waiter,
				       pid_t pid)
{
	uint64_t key = snap_wait_object_of(SNAP_WAIT_MSGQUEUE, (uint64_t)pid, ~0ull, 0);
	const struct snap_wait_crowd *crowd = snap_wait_find_crowd(waits, key);
	struct stacksnap_error *err = NULL;

	if (pid <= 0 || pid == snap_waiter_process(waiter)->pid)
		return NULL;
	if (!crowd)
		err = snap_wait_make_crowd(waits, key, &pid, 1, false, &crowd);
	if (err)
		return err;
	waiter->wait->hints = crowd->parties;
	waiter->wait->hint_count = crowd->party_count;
	return NULL;
}

static struct stacksnap_error *explain_messages(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	bool receives = waiter->row->call == SNAP_CALL_MSGRCV;
	int32_t id = (int32_t)waiter->call.arguments[0];
	const struct snap_ipc_queue *queue = find_queue(waits->facts, waiter, false, 0);
	struct snap_wait *wait = waiter->wait;

	wait->id = id;
	wait->mode = receives ? SNAP_WAIT_READ : SNAP_WAIT_WRITE;
	waiter->object = snap_wait_object_of(SNAP_WAIT_MSGQUEUE, (uint32_t)id,
					     snap_waiter_process(waiter)->ipc_namespace, 0);
	/* In recordings a wait is the queue's, whatever type one of its spells was for. */
	if (waits->has_times)
		set_type(waiter, receives);
	if (!queue)
		return NULL;
	wait->value = snap_wait_number(queue->messages);
	wait->recv_queue = snap_wait_number(queue->bytes);
	return hint_at(waits, waiter, receives ? queue->last_sender : queue->last_receiver);
}

static struct stacksnap_error *explain_semaphores(struct snap_wait_analysis *waits,
						  struct snap_waiter *waiter)
{
	int32_t id = (int32_t)waiter->call.arguments[0];
	const struct snap_ipc_queue *queue;
	struct semaphore_operation first = { 0 };
	bool is_read = snap_wait_read(waiter, waiter->call.arguments[1], &first, sizeof(first));

	waiter->wait->id = id;
	waiter->object = snap_wait_object_of(SNAP_WAIT_SYSV_SEMAPHORE, (uint32_t)id,
					     snap_waiter_process(waiter)->ipc_namespace, 0);
	/* Which of several operations has to wait is not known. */
	if (waiter->call.arguments[2] == 1 && is_read) {
		waiter->wait->needed = abs(first.operation);
		if (waits->has_times)
			waiter->wait->semaphore = first.number;
	}
	queue = find_queue(waits->facts, waiter, true, is_read ? first.number : 0);
	return queue ? hint_at(waits, waiter, queue->last_sender) : NULL;
}

static void explain_descriptor(struct snap_wait_analysis *waits, struct snap_waiter *waiter)
{
	const struct snap_descriptor *descriptor;

	waiter->wait->fd = snap_wait_call_fd(waiter);
	descriptor = snap_wait_descriptor(waiter, waiter->wait->fd);
	waiter->wait->path = snap_wait_path(waits, descriptor);
	waiter->object = snap_wait_object_of(waiter->wait->kind, waiter->process,
					     (uint32_t)waiter->wait->fd, 0);
	if (!descriptor)
		return;
	if (descriptor->kind == SNAP_DESCRIPTOR_IO_URING)
		waiter->wait->value = snap_wait_number(descriptor->count);
	else if (descriptor->inode)
		waiter->object = snap_wait_object_of(
			waiter->wait->kind, descriptor->inode,
			(uint64_t)descriptor->dev_major << 32 | descriptor->dev_minor, 0);
}

struct stacksnap_error *snap_wait_explain_queue(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	enum snap_wait_kind kind = waiter->row->kind;
	struct snap_wait *wait =
		snap_wait_new(waits, waiter, kind, snap_wait_call_confidence(waiter));

	SNAP_TRY(snap_no_memory_unless(wait));
	snap_wait_set_timeout(waits, waiter);
	if (kind == SNAP_WAIT_MSGQUEUE)
		return explain_messages(waits, waiter);
	if (kind == SNAP_WAIT_SYSV_SEMAPHORE)
		return explain_semaphores(waits, waiter);
	wait->mode = waiter->row->mode;
	if (waiter->row->fd >= 0)
		explain_descriptor(waits, waiter);
	return NULL;
}
