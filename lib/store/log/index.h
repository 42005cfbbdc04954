/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The index of a log, besides the arrays of model/log.h: it finds elements that are there already, and
 * owns memory that is not in an arena. For the files that fill, forget, write and read logs: store/,
 * and render/snaprec*.c, which make a log of a recording again. All other files include log.h.
 */
#pragma once

#include "base/buffer.h"
#include "base/table.h"
#include "store/log/log.h"

/* Bytes of a target's memory, once for all spaces that have them. */
struct snap_log_blob {
	struct snap_log_blob *next; /* in the same list */
	uint64_t hash;
	size_t size, users;
	uint8_t bytes[];
};

enum { SNAP_LOG_BLOB_LISTS = 1024 };

/* The parts of a space that are replaced when its mappings are read again. */
struct snap_log_space_index {
	struct snap_interner strings; /* in the space's arena */
	struct snap_map *maps;
	struct snap_piece *pieces;
	struct snap_log_blob **blobs; /* one a piece */
	size_t blob_count;
	uint64_t bytes;   /* all of this */
	uint64_t version; /* counts up with each change; 0: no space */
	uint64_t content; /* a hash of its contents in a file */
};

struct snap_log_standing {
	struct snap_log_change change;
	uint64_t last;  /* number of its last change in the run, + 1 */
	uint64_t begin; /* the tick at which it was added */
	bool ended;
	uint8_t ran;       /* enum snap_log_ran: its last wake */
	uint64_t ran_tick; /* the last one before which it had run, + 1 */
};

/* The last reported bytes of a futex. */
struct snap_log_last_owner {
	uint32_t words; /* as in an owner change */
	uint64_t last;  /* number of its last owner change in the run, + 1 */
};

/* How an array of `old` numbers was renumbered. */
struct snap_log_moves {
	uint32_t *to; /* UINT32_MAX: dropped */
	size_t count;
};

/* Sizes after the last renumbering: the next one comes when they have doubled. */
struct snap_log_kept {
	size_t processes, threads, spaces, frames, frame_ids, stacks, label_sets, text;
	size_t objects, words, sockets, explained;
};

/* The cost of a process so far, see limit.c. */
struct snap_log_account {
	uint64_t things; /* stacks, frames, threads */
	uint64_t spaces;
	uint64_t waits; /* objects, their wait bytes, their meaning */
};

struct snap_log_index {
	/* elements of spaces (here and in the log), capture->processes and capture->live */
	size_t space_capacity;
	size_t space_count;  /* in use */
	uint32_t free_space; /* the lowest that may be free */
	struct snap_log_space_index *spaces;
	uint64_t version;
	struct snap_log_blob *blobs[SNAP_LOG_BLOB_LISTS];
	size_t blob_bytes;
	/* of the log's arrays */
	struct snap_hash_table frames, stacks, label_sets, words, objects, sockets, explained;
	struct snap_log_standing *standing; /* one a thread */
	size_t standing_capacity, before_capacity;
	struct snap_log_last_owner *held; /* one an object */
	size_t held_capacity, owners_before_capacity;
	/* of each socket, the number of its last change among those of all sockets */
	uint64_t *socket_stamps, socket_stamp;
	size_t socket_stamp_capacity;
	struct snap_memory_piece *pieces; /* of the current wait bytes, which follow each other */
	size_t piece_capacity;
	uint8_t *piece_bytes;
	uint32_t *ids; /* of the current stack */
	size_t id_capacity;
	bool in_tick;
	uint32_t *awake; /* threads that have run before each tick; see wakes.c */
	size_t awake_count, awake_capacity, ran_before_capacity;
	/* where there is a limit: one account a process, and what all have cost */
	struct snap_log_account *accounts;
	size_t account_count, account_capacity;
	uint64_t things, space_bytes, waits;
	/* ticks, changes, owner changes and wakes begin so many elements into their memory */
	size_t tick_gap, change_gap, hold_gap, wake_gap;
	struct snap_log_kept kept;
	struct snap_log_moves process_moves, space_moves, thread_moves, stack_moves, object_moves;
};

/* A log without a host, and with room for so many spaces. */
struct stacksnap_error *snap_log_new(size_t spaces, struct snap_log **ret) _must_check_;
/* Room for twice as many spaces. They move: no caller may have pointers to them. */
struct stacksnap_error *snap_log_grow_spaces(struct snap_log *log) _must_check_;

/* A free slot for a space of the process. OTHER: there is none. */
struct stacksnap_error *snap_log_space_add(struct snap_log *log, uint32_t process,
					   uint32_t *ret) _must_check_;
void snap_log_space_drop(struct snap_log *log, uint32_t space);

/*
 * The union of mappings that were known with those that are there now, which begin anew where
 * code was replaced by other code (*fits_ret false). Allocates *ret.
 */
struct stacksnap_error *snap_log_join_maps(const struct snap_process *known,
					   const struct snap_process *now, struct snap_map **ret,
					   size_t *count_ret, bool *fits_ret) _must_check_;

/* ---- the limit: limit.c ---- */

/* How much of a stack there is room for. */
enum snap_log_detail {
	SNAP_LOG_ALL,
	SNAP_LOG_FEW,    /* of its inner frames */
	SNAP_LOG_FEWEST, /* likewise */
	SNAP_LOG_NOTHING,
	SNAP_LOG_DETAIL_COUNT,
};

/* Of a process that was just added; `before` as in snap_log_add_process(). False without memory. */
bool snap_log_open_account(struct snap_log *log, uint32_t process, uint32_t before);
void snap_log_charge_frame(struct snap_log *log, uint32_t frame);
void snap_log_charge_labels(struct snap_log *log, uint32_t set);
void snap_log_charge_stack(struct snap_log *log, uint32_t space, size_t frames);
void snap_log_charge_thread(struct snap_log *log, uint32_t process);
/* The cost of a task besides its thread, by the number of the thread. */
void snap_log_charge_task(struct snap_log *log, uint32_t thread);
void snap_log_charge_name(struct snap_log *log, uint32_t process);
/* Its strings, mappings and pieces have changed. */
void snap_log_charge_space(struct snap_log *log, uint32_t space);
/* Whether an object or wait bytes of a space may be added; a socket; the meaning of a wait. */
bool snap_log_has_room_for_object(const struct snap_log *log, uint32_t space);
bool snap_log_has_room_for_socket(const struct snap_log *log);
bool snap_log_has_room_for_explained(const struct snap_log *log, uint32_t space);
/* Whether another wake may be added. */
bool snap_log_has_room_for_wake(const struct snap_log *log);
void snap_log_charge_object(struct snap_log *log, uint32_t object);
void snap_log_charge_wait_bytes(struct snap_log *log, uint32_t words);
void snap_log_charge_socket(struct snap_log *log);
void snap_log_charge_explained(struct snap_log *log, uint32_t explained);
/* All anew, when things were renumbered. */
void snap_log_count_costs(struct snap_log *log);

enum snap_log_detail snap_log_stack_detail(const struct snap_log *log, uint32_t space,
					   size_t frames);

/* Whether addresses in a mapping may be looked up: a file has no others. */
static inline bool snap_log_tells(const struct snap_map *map)
{
	return map->execute || map->inode || map->path;
}

/* The tick that is being made, or that will be the next one. */
static inline uint64_t snap_log_tick_at(const struct snap_log *log)
{
	return log->first_tick + log->tick_count - log->index->in_tick;
}

/* All tables made anew from the arrays. False without memory. */
bool snap_log_rebuild_tables(struct snap_log *log);

/* ---- managed frames and labels: managed.c ---- */

/* The bits of a managed frame. */
uint64_t snap_log_managed_bits(const struct snap_frame *frame);
/*
 * The number of a managed frame, or of labels plus 1. *ret UINT32_MAX: it is new, and not to be
 * added; 0: there are no labels, or too many.
 */
struct stacksnap_error *snap_log_find_managed(struct snap_log *log, uint32_t space,
					      const struct snap_frame *frame, bool add,
					      uint32_t *ret) _must_check_;
struct stacksnap_error *snap_log_find_labels(struct snap_log *log, uint32_t space,
					     const struct snap_label *labels, size_t count,
					     bool add, uint32_t *ret) _must_check_;
uint64_t snap_log_hash_labels(const struct snap_log_labels *set);

static inline uint64_t snap_log_hash_frame(uint32_t space, uint64_t bits)
{
	return snap_hash_add(bits, space);
}

/* ---- waits: wait_bytes.c, object.c, socket.c, owner_changes.c, explained.c ---- */

/*
 * The number + 1 of wait bytes, pieces in any order; 0: there are none, or no room for them. New ones
 * that are not to be added: UINT32_MAX.
 */
struct stacksnap_error *snap_log_find_wait_bytes(struct snap_log *log, uint32_t space,
						 const struct snap_memory_image *image, bool add,
						 uint32_t *ret) _must_check_;
uint64_t snap_log_hash_wait_bytes(const struct snap_log_wait_bytes *words);
/* Their pieces and bytes become copies in the arena. False without memory, as those below. */
bool snap_log_copy_wait_bytes(struct snap_arena *arena, struct snap_log_wait_bytes *words);
bool snap_log_copy_descriptors(struct snap_interner *strings, struct snap_log_object *object);
uint64_t snap_log_hash_socket(const struct snap_socket *socket);
/* The one with its namespace and inode; NULL: there is none. */
struct snap_socket *snap_log_find_socket(struct snap_log *log, const struct snap_socket *socket);
/* Within a tick: from here on a futex has these bytes, as in an owner change. */
struct stacksnap_error *snap_log_add_owner_change(struct snap_log *log, uint32_t object,
						  uint32_t words) _must_check_;
/* An element of owners_before for each object; new ones are 0. */
bool snap_log_make_owners_before(struct snap_log *log);
/* Within a tick: a wake of a thread. Where there is no room, none is known from this tick on. */
void snap_log_add_wake(struct snap_log *log, uint32_t thread, enum snap_log_ran ran);
/* At the end of a tick: ends the wakes of threads that ran before each tick and did not now. */
void snap_log_settle_wakes(struct snap_log *log);
/* An element of ran_before for each thread; new ones are NOT. */
bool snap_log_make_ran_before(struct snap_log *log);
/* Makes a pair that stands in the array known. */
bool snap_log_index_explained(struct snap_log *log, size_t index);
/* A part of snap_log_rebuild_tables(). */
bool snap_log_rebuild_wait_tables(struct snap_log *log);

/* Room at the end of an array that loses elements at its beginning, `gap` of them. */
bool snap_log_grow_behind_gap(void *pointer_to_array, size_t *gap, size_t *capacity, size_t count,
			      size_t size);

/* An element of `before` for each thread; new ones are GONE. False without memory. */
bool snap_log_make_before(struct snap_log *log);
