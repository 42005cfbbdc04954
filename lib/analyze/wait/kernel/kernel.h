/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits for things that the kernel manages: descriptors, children, signals, times, stops. (The
 * objects of futexes lie in the process's memory; the folder above has them.)
 *
 *     explain.c        which of the others knows a call
 *     descriptors.c    read, write: what a descriptor leads to
 *     sockets.c        sockets, their addresses and peers; accept, connect
 *     polls.c          poll, select, epoll
 *     locks.c          flock, fcntl
 *     children.c       wait4, waitid, vfork
 *     sleeps.c         sleeps and signals
 *     queues.c         System V, POSIX message queues, io_uring, aio
 *     states.c         stopped, frozen, disk, page faults
 *     crowds.c         processes at the other end
 *     lookup.c         facts of the capture by their keys
 *
 * All use the facts of the capture alone. A fact that it does not have is unknown.
 */
#pragma once

#include "analyze/wait/waiter.h"

/* ---- lookup.c ---- */

/* Orders of facts that are not theirs; made when they are first asked for. All zero: empty. */
struct snap_wait_lookup {
	size_t *connections; /* sockets of TCP by namespace and both addresses */
	size_t connection_count;
	size_t *listeners; /* unix sockets that listen, by namespace and name */
	size_t listener_count;
	size_t *waiting; /* file locks that wait, by file, process and start */
	size_t waiting_count;
	size_t *held; /* lines of held locks by number */
	size_t held_count;
	size_t *shown; /* held locks of fdinfo, by file and range, then by pid */
	size_t shown_count;
	bool *seen;        /* of each process: what all of its threads do is known */
	size_t *by_parent; /* processes of the capture by the pid of their parent */
	struct snap_wait_crowd *crowds;
	size_t crowd_count, crowd_capacity;
	struct snap_hash_table crowd_table;
	struct snap_pointer_table epolls; /* their waits: many threads wait for one */
};

/* A descriptor of the waiter's process; NULL: not known. */
const struct snap_descriptor *snap_wait_descriptor(const struct snap_waiter *waiter, int32_t fd);
/* NULL: not known; also for inode 0. */
const struct snap_socket *snap_wait_socket(const struct snap_wait_analysis *waits,
					   uint64_t namespace, uint64_t inode);
/* The socket of a descriptor. */
const struct snap_socket *snap_wait_descriptor_socket(const struct snap_wait_analysis *waits,
						      const struct snap_waiter *waiter,
						      const struct snap_descriptor *descriptor);
/* The other end of a connection on this host; NULL: not known. *ret; NO_MEMORY. */
struct stacksnap_error *snap_wait_socket_peer(struct snap_wait_analysis *waits,
					      const struct snap_socket *socket,
					      const struct snap_socket **ret) _must_check_;
/* The one unix socket that listens under a name; NULL: none, or several. */
struct stacksnap_error *snap_wait_unix_listener(struct snap_wait_analysis *waits,
						uint64_t namespace, const char *name,
						const struct snap_socket **ret) _must_check_;
/* The children of a process in the report: indices in the lookup's by_parent. */
struct stacksnap_error *snap_wait_children(struct snap_wait_analysis *waits, pid_t pid,
					   const size_t **ret, size_t *count_ret) _must_check_;
/*
 * An array of the numbers below `count` for which `keep` is true, sorted; in the scratch arena.
 */
struct stacksnap_error *snap_wait_order(struct snap_wait_analysis *waits, size_t count,
					bool (*keep)(const struct snap_wait_facts *facts, size_t i),
					int (*compare)(const void *a, const void *b, void *facts),
					size_t **ret, size_t *count_ret) _must_check_;

/* ---- crowds.c ---- */

/* Processes at the other end of something, once for all that wait for it. */
struct snap_wait_crowd {
	uint64_t key;
	size_t set; /* of edges; SNAP_NO_SET: none of them is in the report */
	bool whole; /* the set has all that there are, and all their threads were seen */
	struct snap_wait_party *parties; /* the first SNAP_WAIT_LIST */
	size_t party_count, total;
};

/* What a thread waits for, as a number: the same kind and numbers give the same. Never 0. */
uint64_t snap_wait_object_of(enum snap_wait_kind kind, uint64_t a, uint64_t b, uint64_t c);

/* The crowd with a key, NULL: there is none by now. Valid until the next one is made. */
const struct snap_wait_crowd *snap_wait_find_crowd(const struct snap_wait_analysis *waits,
						   uint64_t key);
/*
 * Makes one of processes (pids as this host numbers them, sorted, repeats are left out).
 * `complete`: there are no others.
 */
struct stacksnap_error *snap_wait_make_crowd(struct snap_wait_analysis *waits, uint64_t key,
					     const pid_t *pids, size_t count, bool complete,
					     const struct snap_wait_crowd **ret) _must_check_;
/*
 * The processes that have an end of a pipe, socket or file open: `mode` says which end. They are
 * found once for each kind, inode and mode.
 */
struct stacksnap_error *snap_wait_crowd_of_peers(struct snap_wait_analysis *waits,
						 enum snap_descriptor_kind kind, uint64_t inode,
						 enum snap_wait_mode mode,
						 const struct snap_wait_crowd **ret) _must_check_;
/* A process, in the report or outside. */
struct snap_wait_party snap_wait_process_party(const struct snap_wait_analysis *waits, pid_t pid);
/* Makes a crowd the peers of a wait, and its edges if `decides`: one of them must act. */
void snap_wait_set_peers(const struct snap_wait_analysis *waits, struct snap_waiter *waiter,
			 const struct snap_wait_crowd *crowd, bool decides);

/* ---- what each file knows ---- */

/* A wait whose argument is a descriptor is certain if the thread was still in its call later. */
enum snap_wait_confidence snap_wait_call_confidence(const struct snap_waiter *waiter);
/* The first argument as a descriptor, or that which the call's row names. */
int32_t snap_wait_call_fd(const struct snap_waiter *waiter);
/* The link of a descriptor, as the snapshot keeps it; NULL unknown. */
const char *snap_wait_path(struct snap_wait_analysis *waits,
			   const struct snap_descriptor *descriptor);

/*
 * Peers and edges of a wait for one descriptor: the processes at the other end of a pipe, FIFO or
 * connection, as `mode` says what is waited for. Of other kinds nothing.
 */
struct stacksnap_error *snap_wait_find_peers(struct snap_wait_analysis *waits,
					     struct snap_waiter *waiter,
					     const struct snap_descriptor *descriptor,
					     enum snap_wait_mode mode) _must_check_;
struct stacksnap_error *snap_wait_find_socket_peers(struct snap_wait_analysis *waits,
						    struct snap_waiter *waiter,
						    const struct snap_descriptor *descriptor,
						    enum snap_wait_mode mode) _must_check_;

/* "10.0.0.4:51234", or the name of a unix socket; NULL: it has none. */
const char *snap_wait_local_text(struct snap_wait_analysis *waits,
				 const struct snap_socket *socket);

/* Each sets waiter->wait, or leaves it NULL. NO_MEMORY. */
struct stacksnap_error *snap_wait_explain_descriptor(struct snap_wait_analysis *waits,
						     struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_socket(struct snap_wait_analysis *waits,
						 struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_poll(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_file_lock(struct snap_wait_analysis *waits,
						    struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_child(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_vfork(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_sleep(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_signal(struct snap_wait_analysis *waits,
						 struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_queue(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter) _must_check_;
struct stacksnap_error *snap_wait_explain_path(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter) _must_check_;
/* What holds a thread whatever its call is: stopped, traced, frozen, vfork, a page. */
struct stacksnap_error *snap_wait_explain_state(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter) _must_check_;
/*
 * In a call that the server of a FUSE file system does not answer: asleep so that signals end it,
 * or in D if one has come, as a stop's.
 */
bool snap_wait_is_at_fuse(const struct snap_waiter *waiter);
/* Asleep in D, in a call or none; or as above. */
struct stacksnap_error *snap_wait_explain_disk(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter) _must_check_;
