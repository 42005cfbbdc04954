/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reading and writing: the object that the descriptor of a call leads to: see kernel.h. Sockets are
 * in sockets.c. The other end of a pipe is each process that has it open, the own process's other
 * threads included.
 */
#include "analyze/wait/kernel/kernel.h"

enum {
	CALL_SPLICE = 275,
	CALL_IOCTL = 16,
};

enum snap_wait_confidence snap_wait_call_confidence(const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;

	if (thread->call_confirmed)
		return SNAP_WAIT_IS_CERTAIN;
	/* What no descriptor is needed for, the registers of the stop tell. */
	if (waiter->row->fd < 0 && thread->registers_size && !thread->partial &&
	    snap_taken_at_once(thread->taken))
		return SNAP_WAIT_IS_CERTAIN;
	return SNAP_WAIT_IS_LIKELY;
}

int32_t snap_wait_call_fd(const struct snap_waiter *waiter)
{
	int at = waiter->row->fd >= 0 ? waiter->row->fd : 0;

	return SNAP_MAX((int32_t)waiter->call.arguments[at], -1);
}

const char *snap_wait_path(struct snap_wait_analysis *waits,
			   const struct snap_descriptor *descriptor)
{
	return descriptor ? snap_analysis_text(waits->analysis, descriptor->link) : NULL;
}

static enum snap_wait_kind kind_of_descriptor(const struct snap_descriptor *descriptor)
{
	static const enum snap_wait_kind kinds[SNAP_DESCRIPTOR_KINDS] = {
		[SNAP_DESCRIPTOR_OTHER] = SNAP_WAIT_SYSCALL,
		[SNAP_DESCRIPTOR_FILE] = SNAP_WAIT_FILE,
		[SNAP_DESCRIPTOR_FIFO] = SNAP_WAIT_FIFO,
		[SNAP_DESCRIPTOR_TTY] = SNAP_WAIT_TTY,
		[SNAP_DESCRIPTOR_PIPE] = SNAP_WAIT_PIPE,
		[SNAP_DESCRIPTOR_SOCKET] = SNAP_WAIT_SOCKET,
		[SNAP_DESCRIPTOR_EVENTFD] = SNAP_WAIT_EVENTFD,
		[SNAP_DESCRIPTOR_EPOLL] = SNAP_WAIT_EPOLL,
		[SNAP_DESCRIPTOR_TIMERFD] = SNAP_WAIT_TIMERFD,
		[SNAP_DESCRIPTOR_SIGNALFD] = SNAP_WAIT_SIGNALFD,
		[SNAP_DESCRIPTOR_INOTIFY] = SNAP_WAIT_INOTIFY,
		[SNAP_DESCRIPTOR_FANOTIFY] = SNAP_WAIT_INOTIFY,
		[SNAP_DESCRIPTOR_PIDFD] = SNAP_WAIT_PIDFD,
		[SNAP_DESCRIPTOR_USERFAULTFD] = SNAP_WAIT_USERFAULTFD,
		[SNAP_DESCRIPTOR_IO_URING] = SNAP_WAIT_IO_URING,
		[SNAP_DESCRIPTOR_MQUEUE] = SNAP_WAIT_MQUEUE,
		[SNAP_DESCRIPTOR_MEMFD] = SNAP_WAIT_FILE,
	};

	/* A forged capture may hold any number. */
	if (!descriptor || (unsigned)descriptor->kind >= SNAP_DESCRIPTOR_KINDS)
		return SNAP_WAIT_SYSCALL;
	return kinds[descriptor->kind];
}

static uint64_t object_of_descriptor(const struct snap_waiter *waiter, enum snap_wait_kind kind,
				     const struct snap_descriptor *descriptor)
{
	uint64_t device = (uint64_t)descriptor->dev_major << 32 | descriptor->dev_minor;

	switch (descriptor->kind) {
	case SNAP_DESCRIPTOR_EVENTFD:
		if (descriptor->id)
			return snap_wait_object_of(kind, descriptor->id - 1, 0, 0);
		break;
	case SNAP_DESCRIPTOR_FILE:
	case SNAP_DESCRIPTOR_FIFO:
	case SNAP_DESCRIPTOR_PIPE:
	case SNAP_DESCRIPTOR_TTY:
		if (descriptor->inode)
			return snap_wait_object_of(kind, descriptor->inode, device, 0);
		break;
	case SNAP_DESCRIPTOR_OTHER:
	case SNAP_DESCRIPTOR_SOCKET:
	case SNAP_DESCRIPTOR_EPOLL:
	case SNAP_DESCRIPTOR_TIMERFD:
	case SNAP_DESCRIPTOR_SIGNALFD:
	case SNAP_DESCRIPTOR_INOTIFY:
	case SNAP_DESCRIPTOR_PIDFD:
	case SNAP_DESCRIPTOR_USERFAULTFD:
	case SNAP_DESCRIPTOR_IO_URING:
	case SNAP_DESCRIPTOR_MQUEUE:
	case SNAP_DESCRIPTOR_MEMFD:
	case SNAP_DESCRIPTOR_FANOTIFY:
	case SNAP_DESCRIPTOR_KINDS:
		break;
	}
	return snap_wait_object_of(kind, waiter->process, (uint32_t)descriptor->number, ~0ull);
}

/* What fdinfo says of a kind. */
static void set_details(struct snap_wait *wait, const struct snap_descriptor *descriptor)
{
	switch (descriptor->kind) {
	case SNAP_DESCRIPTOR_EVENTFD:
		wait->id = (int64_t)descriptor->id - 1;
		wait->value = snap_wait_number(descriptor->count);
		break;
	case SNAP_DESCRIPTOR_TIMERFD:
		wait->timed = descriptor->remaining_ns >= 0;
		wait->remaining_ns = descriptor->remaining_ns;
		break;
	case SNAP_DESCRIPTOR_SIGNALFD:
		wait->signals = descriptor->signals;
		break;
	case SNAP_DESCRIPTOR_FANOTIFY:
		wait->variant = "fanotify";
		wait->value = descriptor->watches;
		break;
	case SNAP_DESCRIPTOR_INOTIFY:
		wait->value = descriptor->watches;
		break;
	case SNAP_DESCRIPTOR_USERFAULTFD:
		wait->value = snap_wait_number(descriptor->count);
		break;
	case SNAP_DESCRIPTOR_PIDFD:
		wait->id = descriptor->pid;
		break;
	case SNAP_DESCRIPTOR_PIPE:
	case SNAP_DESCRIPTOR_FIFO:
		wait->id = descriptor->inode ? (int64_t)descriptor->inode : -1;
		break;
	case SNAP_DESCRIPTOR_OTHER:
	case SNAP_DESCRIPTOR_FILE:
	case SNAP_DESCRIPTOR_TTY:
	case SNAP_DESCRIPTOR_SOCKET:
	case SNAP_DESCRIPTOR_EPOLL:
	case SNAP_DESCRIPTOR_IO_URING:
	case SNAP_DESCRIPTOR_MQUEUE:
	case SNAP_DESCRIPTOR_MEMFD:
	case SNAP_DESCRIPTOR_KINDS:
		break;
	}
}

/* Every process may open an end of a FIFO with a name, so the present holders do not decide. */
struct stacksnap_error *snap_wait_find_peers(struct snap_wait_analysis *waits,
					     struct snap_waiter *waiter,
					     const struct snap_descriptor *descriptor,
					     enum snap_wait_mode mode)
{
	const struct snap_wait_crowd *crowd;

	if (descriptor->kind == SNAP_DESCRIPTOR_SOCKET)
		return snap_wait_find_socket_peers(waits, waiter, descriptor, mode);
	if ((descriptor->kind != SNAP_DESCRIPTOR_PIPE &&
	     descriptor->kind != SNAP_DESCRIPTOR_FIFO) ||
	    descriptor->inode == 0 || mode == SNAP_WAIT_ANY_MODE)
		return NULL;
	SNAP_TRY(snap_wait_crowd_of_peers(waits, descriptor->kind, descriptor->inode,
					  mode == SNAP_WAIT_READ ? SNAP_WAIT_WRITE : SNAP_WAIT_READ,
					  &crowd));
	snap_wait_set_peers(waits, waiter, crowd, descriptor->kind == SNAP_DESCRIPTOR_PIPE);
	return NULL;
}

static enum snap_wait_mode mode_of_descriptor_call(const struct snap_waiter *waiter)
{
	/* It may wait for either of its two descriptors. */
	if (waiter->number == CALL_SPLICE || waiter->number == CALL_IOCTL)
		return SNAP_WAIT_ANY_MODE;
	return waiter->row->call == SNAP_CALL_READ ? SNAP_WAIT_READ : SNAP_WAIT_WRITE;
}

struct stacksnap_error *snap_wait_explain_descriptor(struct snap_wait_analysis *waits,
						     struct snap_waiter *waiter)
{
	int32_t fd = snap_wait_call_fd(waiter);
	const struct snap_descriptor *descriptor = snap_wait_descriptor(waiter, fd);
	enum snap_wait_kind kind = kind_of_descriptor(descriptor);
	struct snap_wait *wait;

	if (descriptor && descriptor->kind == SNAP_DESCRIPTOR_SOCKET)
		return snap_wait_explain_socket(waits, waiter);
	wait = snap_wait_new(waits, waiter, kind, snap_wait_call_confidence(waiter));
	SNAP_TRY(snap_no_memory_unless(wait));
	wait->fd = fd;
	wait->mode = mode_of_descriptor_call(waiter);
	if (!descriptor)
		return NULL;
	wait->path = snap_wait_path(waits, descriptor);
	waiter->object = object_of_descriptor(waiter, kind, descriptor);
	set_details(wait, descriptor);
	return snap_wait_find_peers(waits, waiter, descriptor, wait->mode);
}
