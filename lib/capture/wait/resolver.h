/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the steps of this folder share, and the steps: see resolve.h for their order. */
#pragma once

#include "base/error.h"
#include "capture/wait/asker.h"
#include "capture/wait/resolve.h"
#include "model/wait/call.h"

/* What a descriptor is waited with; a set of bits. */
enum snap_wait_use {
	SNAP_WAIT_USE_READ = 1 << 0,    /* a call of its own that waits for a writer */
	SNAP_WAIT_USE_WRITE = 1 << 1,   /* … for a reader */
	SNAP_WAIT_USE_ONE = 1 << 2,     /* poll, select: it alone … */
	SNAP_WAIT_USE_POLL = 1 << 3,    /* … or one of several */
	SNAP_WAIT_USE_WATCH = 1 << 4,   /* an epoll watches it */
	SNAP_WAIT_USE_LOCK = 1 << 5,    /* flock, fcntl */
	SNAP_WAIT_USE_CONNECT = 1 << 6, /* connect */
	SNAP_WAIT_USE_MQUEUE = 1 << 7,
	SNAP_WAIT_USE_OTHER = 1 << 8, /* epoll, accept, fsync …: there is no other end */
};

/* A descriptor that is to be looked at. */
struct snap_wait_want {
	size_t process; /* in capture->processes */
	int32_t number;
	uint32_t uses; /* bits of enum snap_wait_use */
};

/* A thread that waits with descriptors or queues: whether it still does is asked. */
struct snap_wait_caller {
	size_t process, thread;
	struct snap_thread_call call;
	const struct snap_wait_call_row *row;
};

/* A socket at the other end of one that is waited with, or that listens for it. */
struct snap_wait_peer {
	uint64_t inode;
	uint32_t uses; /* of the one that is waited with */
};

struct snap_wait_resolver {
	const struct snap_options *options;
	struct snap_capture *capture;
	struct snap_wait_facts *facts;
	struct snap_wait_asker *asker; /* NULL: there is nothing to ask */
	int64_t until_ns;
	/* malloc'ed */
	struct snap_wait_want *wants; /* by process, then number, once each */
	size_t want_count, want_capacity;
	struct snap_wait_caller *callers; /* by process, then thread */
	size_t caller_count, caller_capacity;
	struct snap_wait_peer *peers;
	size_t peer_count, peer_capacity;
};

static inline struct snap_process *snap_wait_process(const struct snap_wait_resolver *resolver,
						     size_t index)
{
	return &resolver->capture->processes[index];
}

/* Whether there was a thread to look at, and a process that it is in. */
bool snap_wait_is_alive(const struct snap_process *process, const struct snap_thread *thread);

/*
 * Bytes at an address of a thread's process: of its words, else of its own stack. False: the
 * capture has them not, or not all.
 */
bool snap_wait_read_memory(const struct snap_process *process, const struct snap_thread *thread,
			   uint64_t address, void *out, size_t size);

/* resolve.c: the asker, made at its first use. NO_MEMORY, SYSTEM. */
struct stacksnap_error *snap_wait_make_asker(struct snap_wait_resolver *resolver) _must_check_;

/* All: NO_MEMORY; what cannot be read is absent, and facts->lacks says why. */

/* threads.c: call, and wchan where it tells something, of threads that were not copied. */
struct stacksnap_error *snap_wait_ask_threads(struct snap_wait_resolver *resolver) _must_check_;
/* Whether there are such. */
bool snap_wait_has_silent_threads(const struct snap_capture *capture);
/* Which callers are still in the same call. */
struct stacksnap_error *snap_wait_confirm_callers(struct snap_wait_resolver *resolver) _must_check_;

/* wants.c: what the calls name. */
struct stacksnap_error *snap_wait_find_wants(struct snap_wait_resolver *resolver) _must_check_;
struct stacksnap_error *snap_wait_add_want(struct snap_wait_resolver *resolver, size_t process,
					   int32_t number, unsigned uses) _must_check_;
/* Sorts them, and makes those of one descriptor one. */
void snap_wait_settle_wants(struct snap_wait_resolver *resolver);
/* The want of a descriptor, NULL: there is none. */
const struct snap_wait_want *snap_wait_find_want(const struct snap_wait_resolver *resolver,
						 size_t process, int32_t number);
/* The captured descriptor of a process with a number, NULL: there is none. */
struct snap_descriptor *snap_wait_find_descriptor(const struct snap_process *process,
						  int32_t number);

/* descriptors.c: process->descriptors. */
struct stacksnap_error *snap_wait_ask_descriptors(struct snap_wait_resolver *resolver) _must_check_;
/* process->net_namespace; what was read of a pid that is another process by now is forgotten. */
struct stacksnap_error *snap_wait_identify(struct snap_wait_resolver *resolver) _must_check_;

/* sockets.c: those of the descriptors, and their peers. */
struct stacksnap_error *snap_wait_ask_sockets(struct snap_wait_resolver *resolver) _must_check_;

/* locks.c: lines of /proc/locks about files that are waited for. */
struct stacksnap_error *snap_wait_ask_locks(struct snap_wait_resolver *resolver) _must_check_;

/* peers.c: the processes at the other ends. */
struct stacksnap_error *snap_wait_ask_peers(struct snap_wait_resolver *resolver) _must_check_;

/* gone.c: owners of locks that have ended. */
struct stacksnap_error *snap_wait_ask_gone(struct snap_wait_resolver *resolver) _must_check_;

/*
 * tracers.c: the tracers of stopped threads; behind snap_wait_ask_peers(), as it adds to its list.
 */
struct stacksnap_error *snap_wait_ask_tracers(struct snap_wait_resolver *resolver) _must_check_;

/* queues.c: System V. */
struct stacksnap_error *snap_wait_ask_queues(struct snap_wait_resolver *resolver) _must_check_;

/* frozen.c: process->frozen; reads nothing that can block. */
void snap_wait_find_frozen(struct snap_capture *capture);
