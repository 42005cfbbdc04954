/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which file of this folder knows a call: see kernel.h. */
#include "analyze/wait/kernel/kernel.h"

/* Calls of fcntl(2) that wait. */
enum { SET_LOCK_WAIT = 7, SET_OPEN_LOCK_WAIT = 38 };

static struct stacksnap_error *explain_other(struct snap_wait_analysis *waits,
					     struct snap_waiter *waiter)
{
	if (!snap_wait_new(waits, waiter, SNAP_WAIT_SYSCALL, snap_wait_call_confidence(waiter)))
		return snap_error_no_memory();
	return NULL;
}

static struct stacksnap_error *explain_by_call(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter)
{
	uint32_t command = (uint32_t)waiter->call.arguments[1];
	const struct snap_descriptor *descriptor;

	switch (waiter->row->call) {
	case SNAP_CALL_READ:
	case SNAP_CALL_WRITE:
	case SNAP_CALL_SYNC:
	case SNAP_CALL_FSTAT:
		return snap_wait_explain_descriptor(waits, waiter);
	case SNAP_CALL_POLL:
	case SNAP_CALL_PPOLL:
	case SNAP_CALL_SELECT:
	case SNAP_CALL_PSELECT:
	case SNAP_CALL_EPOLL:
		return snap_wait_explain_poll(waits, waiter);
	case SNAP_CALL_ACCEPT:
	case SNAP_CALL_CONNECT:
		descriptor = snap_wait_descriptor(waiter, snap_wait_call_fd(waiter));
		return snap_wait_explain_socket(waits, waiter, descriptor);
	case SNAP_CALL_WAIT4:
	case SNAP_CALL_WAITID:
		return snap_wait_explain_child(waits, waiter);
	case SNAP_CALL_VFORK:
		return snap_wait_explain_vfork(waits, waiter);
	case SNAP_CALL_FCNTL:
		if (command != SET_LOCK_WAIT && command != SET_OPEN_LOCK_WAIT)
			return explain_other(waits, waiter);
		return snap_wait_explain_file_lock(waits, waiter);
	case SNAP_CALL_FLOCK:
		return snap_wait_explain_file_lock(waits, waiter);
	case SNAP_CALL_NANOSLEEP:
	case SNAP_CALL_CLOCK_NANOSLEEP:
		return snap_wait_explain_sleep(waits, waiter);
	case SNAP_CALL_PAUSE:
	case SNAP_CALL_SIGSUSPEND:
	case SNAP_CALL_SIGTIMEDWAIT:
		return snap_wait_explain_signal(waits, waiter);
	case SNAP_CALL_MSGRCV:
	case SNAP_CALL_MSGSND:
	case SNAP_CALL_SEMOP:
	case SNAP_CALL_MQ_RECEIVE:
	case SNAP_CALL_MQ_SEND:
	case SNAP_CALL_IO_URING_ENTER:
	case SNAP_CALL_IO_GETEVENTS:
		return snap_wait_explain_queue(waits, waiter);
	case SNAP_CALL_OPEN:
	case SNAP_CALL_STAT:
		return snap_wait_explain_path(waits, waiter);
	case SNAP_CALL_FUTEX: /* the folder above has said nothing of it */
	case SNAP_CALL_FUTEX_WAITV:
	case SNAP_CALL_RESTART:
	case SNAP_CALL_OTHER:
	case SNAP_CALL_KINDS:
		break;
	}
	return explain_other(waits, waiter);
}

/* What a thread in state D waits for by its call, and not by the kernel's function. */
static bool waits_by_call(enum snap_wait_call call)
{
	return call == SNAP_CALL_VFORK;
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
	if ((thread->state == 'D' && !waits_by_call(waiter->row->call)) ||
	    snap_wait_is_at_fuse(waiter))
		return snap_wait_explain_disk(waits, waiter);
	if (!waiter->call.known || waiter->call.number < 0)
		return NULL;
	return explain_by_call(waits, waiter);
}
