/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fills a log (model/log.h), and drops the old end of a ring.
 *
 * Everything is interned: an address space, a frame, a stack is there once. Knows nothing of how
 * threads are sampled and nothing of files.
 */
#pragma once

#include "model/log.h"

struct stacksnap_error *snap_log_create(const struct snap_host *host, int64_t time_ns,
					int64_t period_ns, bool cpu_only,
					struct snap_log **ret) _must_check_;
void snap_log_destroy(struct snap_log *log);

SNAP_POINTER_GUARD(struct snap_log, snap_log_destroy);

/*
 * The limit of the log's memory, together with the recording and report that are made of it; 0, the
 * initial value, is no limit. To be set before anything is added. Beyond the limit new stacks keep
 * their inner frames, then count as one; for everything else the caller asks for room before it adds.
 * log->cuts says what was left out.
 */
void snap_log_set_limit(struct snap_log *log, uint64_t bytes);
/* Its memory by this measure. */
uint64_t snap_log_cost(const struct snap_log *log);
/* Room for another process; for mappings, threads or names of one; else go on without. */
bool snap_log_has_room_for_process(const struct snap_log *log);
bool snap_log_has_room_for_maps(const struct snap_log *log, uint32_t process);
bool snap_log_has_room_for_thread(const struct snap_log *log, uint32_t process);
/* Ticks that should be left out after the last one, so that the room lasts. */
unsigned snap_log_ticks_to_leave_out(struct snap_log *log);
/* There is no room for another tick. */
bool snap_log_is_full(const struct snap_log *log);
/* A ring should forget sooner. */
bool snap_log_ring_is_tight(const struct snap_log *log);

/* A process, or (`before` not UINT32_MAX) the program that goes on where that one ended by exec. */
struct stacksnap_error *snap_log_add_process(struct snap_log *log, pid_t pid, uint64_t start_ticks,
					     uint32_t parent, uint32_t before, bool is_target,
					     uint32_t *ret) _must_check_;
void snap_log_end_process(struct snap_log *log, uint32_t process);

/*
 * Reports the state of a process now: facts, mappings, pieces, trouble, all copied; its threads are
 * not looked at. If all known file mappings of its space are still there, or their addresses are free,
 * the space stays and has the new ones too (*ret is the old number); else another space begins. `live`
 * (NULL: none): descriptors are duplicated. NULL-safe for processes without mappings. The number is in
 * *ret; capture->processes[*ret] does not move, but its mappings are new ones after each call: modules
 * made of the old ones are to be made anew.
 */
struct stacksnap_error *snap_log_map_process(struct snap_log *log, uint32_t process,
					     const struct snap_process *facts,
					     const struct snap_live *live,
					     uint32_t *ret) _must_check_;
/* Adds memory to what is known of a space, whose mappings stay: as above. */
struct stacksnap_error *snap_log_add_pieces(struct snap_log *log, uint32_t space,
					    struct snap_piece *pieces, size_t count) _must_check_;

struct stacksnap_error *snap_log_add_thread(struct snap_log *log, uint32_t process, pid_t tid,
					    pid_t ns_tid, const char *name, bool kernel,
					    uint32_t *ret) _must_check_;
struct stacksnap_error *snap_log_rename_thread(struct snap_log *log, uint32_t thread,
					       const char *name) _must_check_;

/*
 * A task, in place of a thread; texts are copied and cut, and `task->labels` is not looked at.
 * `labels`: sorted by key, each key once, or none. *ret is its number among the threads.
 */
struct stacksnap_error *snap_log_add_task(struct snap_log *log, uint32_t process, uint32_t space,
					  const struct snap_log_task *task,
					  const struct snap_label *labels, size_t label_count,
					  uint32_t *ret) _must_check_;
/*
 * The `syscall` of a task's change for a runtime's reason to wait; -1: there is none, or there are too
 * many.
 */
struct stacksnap_error *snap_log_wait(struct snap_log *log, const char *wait,
				      int16_t *ret) _must_check_;

/*
 * A thread has ended, within a tick: it has no stack from here on, and may be forgotten. A thread that
 * is only GONE (--mode cpu) may come back and keeps its number.
 */
struct stacksnap_error *snap_log_end_thread(struct snap_log *log, uint32_t thread) _must_check_;

/* A managed frame of a stack, in place of a pc. */
struct snap_log_managed {
	size_t at; /* index in the bits, whose element has no meaning */
	/* only the address (0: none) and the entries with their language are used */
	const struct snap_frame *frame;
};

/* A stack as the unwinder leaves it; `reason` NULL when complete. */
struct snap_log_pcs {
	const uint64_t *bits; /* struct snap_pc each, innermost first */
	size_t count;
	enum snap_unwind_end end;
	uint64_t end_pc;
	const char *reason;
	size_t gap_after;
	uint64_t gap_count;
	const struct snap_log_managed *managed; /* in the order of their places */
	size_t managed_count;
	bool shows_all;
	/* sorted by key, each key once; texts of at most SNAP_MAX_NAME bytes, not NULL */
	const struct snap_label *labels;
	size_t label_count;
};

/* The number of a stack, which is added if it is new. About a microsecond for one that is known. */
struct stacksnap_error *snap_log_stack(struct snap_log *log, uint32_t space,
				       const struct snap_log_pcs *pcs, uint32_t *ret) _must_check_;

/* The stack of a space that replaces all those that there was no room for. */
struct stacksnap_error *snap_log_other_stack(struct snap_log *log, uint32_t space,
					     uint32_t *ret) _must_check_;

/*
 * The number + 1 of the object of a wait, which is added if it is new. Its member `words` is ignored;
 * the argument `words` is the memory that explains the wait (pieces in any order), NULL: none. *ret 0:
 * there is no room. Within a tick a new futex has these bytes from here on.
 */
struct stacksnap_error *snap_log_find_object(struct snap_log *log,
					     const struct snap_log_object *object,
					     const struct snap_memory_image *words,
					     uint32_t *ret) _must_check_;
/*
 * Within a tick: from here on a futex (its number, not + 1) has these bytes; only those that may name
 * the owner are used. NULL: they cannot be read. Without effect if it has them already; without room
 * for them they count as unreadable.
 */
struct stacksnap_error *snap_log_set_owner(struct snap_log *log, uint32_t object,
					   const struct snap_memory_image *words) _must_check_;
/*
 * Within a tick, for an object that is no futex: these processes have its other end, or the object
 * itself, from now on; SNAP_LOG_MAX_HOLDERS at most.
 */
struct stacksnap_error *snap_log_set_peers(struct snap_log *log, uint32_t object,
					   const uint32_t *pids, size_t count) _must_check_;
/*
 * The last reported wait bytes of an object; NULL: unknown. Valid until an object or an owner change is
 * added.
 */
const struct snap_log_wait_bytes *snap_log_owner_bytes(const struct snap_log *log, uint32_t object);
/* Replaces the facts of a socket; copied. Without effect if there is no room. */
struct stacksnap_error *snap_log_add_socket(struct snap_log *log,
					    const struct snap_socket *socket) _must_check_;
/*
 * Sets the meaning of a pair of stack and object; copied, without owner, holders, peers and hints that
 * are threads. Once a pair.
 */
struct stacksnap_error *snap_log_explain(struct snap_log *log, uint32_t stack, uint32_t object,
					 const struct snap_wait *wait) _must_check_;
/* The explanation of a pair, NULL: it has none yet. */
const struct snap_log_explained *snap_log_explained(const struct snap_log *log, uint32_t stack,
						    uint32_t object);
/* Pairs of the log's changes (and before them) that are not explained yet. */
bool snap_log_has_waits_left(const struct snap_log *log);
/*
 * Lists them: malloc'ed, the caller's, in order of stack and object, no pair twice; `wait` is NULL.
 */
struct stacksnap_error *snap_log_waits_left(const struct snap_log *log,
					    struct snap_log_explained **ret,
					    size_t *count_ret) _must_check_;

/* A tick: begun, then its changes (one a thread at most), then ended. */
struct stacksnap_error *snap_log_begin_tick(struct snap_log *log, int64_t time_ns) _must_check_;
/* Without effect if this is the thread's state already. */
struct stacksnap_error *snap_log_change(struct snap_log *log,
					const struct snap_log_change *change) _must_check_;
void snap_log_end_tick(struct snap_log *log, int64_t stopped_ns);

/*
 * Within a tick, after its change: a waiting thread has run since the tick before. To be called for all
 * such threads at each tick; without effect before `wakes_end` is set.
 */
void snap_log_ran(struct snap_log *log, uint32_t thread);

/* The state of a thread now; stack SNAP_LOG_GONE: it is not there. */
const struct snap_log_change *snap_log_standing(const struct snap_log *log, uint32_t thread);

/*
 * Forgets the ticks before a time (CLOCK_MONOTONIC since the start). From time to time, when
 * enough is unused, it drops stacks, frames, threads, processes and spaces that nothing refers to any
 * more, and renumbers. Then *renumbered_ret is true, and the maps below give the caller the new numbers
 * of elements that it remembers, until the next call; UINT32_MAX: dropped.
 * Processes and threads that have not ended are never dropped. Spaces keep their numbers; the place
 * of one that was dropped is free for another.
 */
struct stacksnap_error *snap_log_forget(struct snap_log *log, int64_t before_ns,
					bool *renumbered_ret) _must_check_;
/* The same for the older half of its ticks, and drops what it can at once. */
struct stacksnap_error *snap_log_forget_half(struct snap_log *log,
					     bool *renumbered_ret) _must_check_;
uint32_t snap_log_moved_process(const struct snap_log *log, uint32_t old);
uint32_t snap_log_moved_space(const struct snap_log *log, uint32_t old);
uint32_t snap_log_moved_thread(const struct snap_log *log, uint32_t old);
uint32_t snap_log_moved_object(const struct snap_log *log, uint32_t old);
