/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which file of this folder knows a call: see kernel.h. */
#include "analyze/wait/kernel/kernel.h"

static struct stacksnap_error *explain_other(struct snap_wait_analysis *waits,
					     struct snap_waiter *waiter)
{
	return snap_no_memory_unless(
		snap_wait_new(waits, waiter, SNAP_WAIT_SYSCALL, snap_wait_call_confidence(waiter)));
}

/* By the kind in the call's row; futexes come here when the folder above has said nothing of them. */
static struct stacksnap_error *explain_by_call(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter)
{
	static struct stacksnap_error *(*const explain[SNAP_WAIT_KINDS])(
		struct snap_wait_analysis * waits, struct snap_waiter * waiter) = {
		[SNAP_WAIT_FILE] = snap_wait_explain_descriptor,
		[SNAP_WAIT_POLL] = snap_wait_explain_poll,
		[SNAP_WAIT_SELECT] = snap_wait_explain_poll,
		[SNAP_WAIT_EPOLL] = snap_wait_explain_poll,
		[SNAP_WAIT_SOCKET] = snap_wait_explain_socket,
		[SNAP_WAIT_CHILD] = snap_wait_explain_child,
		[SNAP_WAIT_VFORK] = snap_wait_explain_vfork,
		[SNAP_WAIT_FILE_LOCK] = snap_wait_explain_file_lock,
		[SNAP_WAIT_SLEEP] = snap_wait_explain_sleep,
		[SNAP_WAIT_SIGNAL] = snap_wait_explain_signal,
		[SNAP_WAIT_MSGQUEUE] = snap_wait_explain_queue,
		[SNAP_WAIT_SYSV_SEMAPHORE] = snap_wait_explain_queue,
		[SNAP_WAIT_MQUEUE] = snap_wait_explain_queue,
		[SNAP_WAIT_IO_URING] = snap_wait_explain_queue,
		[SNAP_WAIT_AIO] = snap_wait_explain_queue,
		[SNAP_WAIT_DISK] = snap_wait_explain_path,
	};
	enum snap_wait_kind kind = waiter->row->kind;

	if (!explain[kind] || !snap_wait_call_may_wait(waiter->row, &waiter->call))
		return explain_other(waits, waiter);
	return explain[kind](waits, waiter);
}

struct stacksnap_error *snap_wait_explain_call(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;
	struct stacksnap_error *err;

	/* A thread that runs waits for nothing, whatever call it is in; nor does one that ends. */
	if (thread->state == 'R' || thread->state == 'Z' || thread->state == 'X')
		return NULL;
	/* Workers of the kernel, and processes that could not be read. */
	if (thread->result == SNAP_THREAD_UNTRACED && !waiter->call.known)
		return NULL;
	err = snap_wait_explain_state(waits, waiter);
	if (err || waiter->wait)
		return err;
	/* A parent of vfork(2) waits in state D, but for no disk. */
	if ((thread->state == 'D' && waiter->row->call != SNAP_CALL_VFORK) ||
	    snap_wait_is_at_fuse(waiter))
		return snap_wait_explain_disk(waits, waiter);
	if (!waiter->call.known || waiter->call.number < 0)
		return NULL;
	return explain_by_call(waits, waiter);
}
