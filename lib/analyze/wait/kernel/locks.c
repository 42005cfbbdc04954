/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * File locks: the holders of a lock that a thread waits for in flock(2) and fcntl(2): see kernel.h.
 *
 * /proc/locks lists a waiter below its holder, with the holder's number, but the pid there is that
 * of the process that took the lock. The true holders of flock and OFD locks are the processes
 * whose fdinfo shows the lock (proc_locks(5)). If the table was not read to its end, each process
 * whose fdinfo shows a conflicting lock is a holder.
 */
#include "analyze/wait/kernel/kernel.h"

#include "base/bsearch.h"

#include <fcntl.h>
#include <stdio.h>

enum {
	SET_OPEN_LOCK_WAIT = 38,
	MOST_OWN = 64, /* locks of one process on one file; of a process with more none is named */
};

/* What the call asks for. */
struct request {
	int kind; /* of struct snap_file_lock */
	bool range_known;
	uint64_t start, end;
};

static int compare_files(const struct snap_file_lock *a, const struct snap_file_lock *b)
{
	return snap_compare(a->inode, b->inode) ?: snap_compare(a->dev_major, b->dev_major)
						       ?: snap_compare(a->dev_minor, b->dev_minor);
}

/* ---- orders ---- */

static bool is_waiting(const struct snap_wait_facts *facts, size_t i)
{
	return facts->locks[i].waits;
}

static bool is_file_lock_held(const struct snap_wait_facts *facts, size_t i)
{
	return !facts->locks[i].waits && !facts->locks[i].is_holder;
}

static bool is_file_lock_shown(const struct snap_wait_facts *facts, size_t i)
{
	return facts->locks[i].is_holder;
}

static int compare_waiting(const struct snap_file_lock *a, const struct snap_file_lock *b)
{
	return compare_files(a, b) ?: snap_compare(a->kind, b->kind)
				      ?: snap_compare(a->pid, b->pid)
				      ?: snap_compare(a->start, b->start);
}

static int compare_shown(const struct snap_file_lock *a, const struct snap_file_lock *b)
{
	return compare_files(a, b) ?: snap_compare(a->kind, b->kind)
				      ?: snap_compare(a->start, b->start)
				      ?: snap_compare(a->end, b->end);
}

static int in_order_of_waiting(const void *left, const void *right, void *of)
{
	const struct snap_file_lock *all = ((const struct snap_wait_facts *)of)->locks;

	return compare_waiting(&all[*(const size_t *)left], &all[*(const size_t *)right])
		       ?: snap_compare(*(const size_t *)left, *(const size_t *)right);
}

static int in_order_of_numbers(const void *left, const void *right, void *of)
{
	const struct snap_file_lock *all = ((const struct snap_wait_facts *)of)->locks;
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return snap_compare(all[a].number, all[b].number) ?: snap_compare(a, b);
}

static int in_order_of_shown(const void *left, const void *right, void *of)
{
	const struct snap_file_lock *all = ((const struct snap_wait_facts *)of)->locks;
	const struct snap_file_lock *a = &all[*(const size_t *)left];
	const struct snap_file_lock *b = &all[*(const size_t *)right];

	return compare_shown(a, b) ?: snap_compare(a->pid, b->pid);
}

static struct stacksnap_error *make_orders(struct snap_wait_analysis *waits)
{
	struct snap_wait_lookup *lookup = waits->lookup;
	size_t count = waits->facts->lock_count;

	SNAP_TRY(snap_wait_order(waits, count, is_waiting, in_order_of_waiting, &lookup->waiting,
				 &lookup->waiting_count));
	SNAP_TRY(snap_wait_order(waits, count, is_file_lock_held, in_order_of_numbers,
				 &lookup->held, &lookup->held_count));
	return snap_wait_order(waits, count, is_file_lock_shown, in_order_of_shown, &lookup->shown,
			       &lookup->shown_count);
}

/* ---- the waiter's line ---- */

/* The lock that a thread waits for is the one that its line stands below; NULL: not found. */
static const struct snap_file_lock *find_held(const struct snap_wait_analysis *waits,
					      const struct snap_waiter *waiter,
					      const struct snap_descriptor *file,
					      const struct request *request)
{
	const struct snap_wait_lookup *lookup = waits->lookup;
	const struct snap_file_lock *all = waits->facts->locks, *line;
	struct snap_file_lock key = { .inode = file->inode,
				      .dev_major = file->dev_major,
				      .dev_minor = file->dev_minor,
				      .pid = request->kind == SNAP_LOCK_OFD
						     ? -1
						     : snap_waiter_process(waiter)->pid,
				      .start = request->start };
	size_t at;

	key.kind = request->kind;
	at = snap_first_not(lookup->waiting_count, i,
			    compare_waiting(&all[lookup->waiting[i]], &key) < 0);
	if (at == lookup->waiting_count)
		return NULL;
	line = &all[lookup->waiting[at]];
	key.start = request->range_known ? key.start : line->start;
	if (compare_waiting(line, &key) != 0)
		return NULL;
	at = snap_first_not(lookup->held_count, i, all[lookup->held[i]].number < line->number);
	if (at == lookup->held_count || all[lookup->held[at]].number != line->number ||
	    compare_files(&all[lookup->held[at]], &key) != 0)
		return NULL;
	return &all[lookup->held[at]];
}

/* ---- its holders ---- */

static struct stacksnap_error *find_holders(struct snap_wait_analysis *waits,
					    const struct snap_file_lock *lock,
					    const struct snap_wait_crowd **ret)
{
	const unsigned blind = SNAP_LACK_TIME | SNAP_LACK_RIGHTS | SNAP_LACK_CUT | SNAP_LACK_CORE;
	const struct snap_wait_lookup *lookup = waits->lookup;
	const struct snap_file_lock *all = waits->facts->locks;
	uint64_t key = snap_wait_object_of(SNAP_WAIT_FILE_LOCK, (uint64_t)(lock - all), 0, 0);
	size_t at, next, count = 0;
	pid_t *pids;

	*ret = snap_wait_find_crowd(waits, key);
	if (*ret)
		return NULL;
	/*
	 * A lock of POSIX belongs to the process that took it, whichever processes have the file
	 * open.
	 */
	if (lock->kind == SNAP_LOCK_POSIX)
		return snap_wait_make_crowd(waits, key, &lock->pid, 1, true, ret);
	at = snap_first_not(lookup->shown_count, i,
			    compare_shown(&all[lookup->shown[i]], lock) < 0);
	next = snap_first_not(lookup->shown_count, i,
			      compare_shown(&all[lookup->shown[i]], lock) <= 0);
	pids = snap_arena_new_array(&waits->analysis->scratch, next - at + 2, pid_t);
	SNAP_TRY(snap_no_memory_unless(pids));
	for (size_t i = at; i < next; i++)
		if (all[lookup->shown[i]].write == lock->write)
			pids[count++] = all[lookup->shown[i]].pid;
	if (count)
		return snap_wait_make_crowd(waits, key, pids, count, !(waits->facts->lacks & blind),
					    ret);
	/* The process that took it may have ended since, and another one has it. */
	if (lock->pid > 0)
		pids[count++] = lock->pid;
	return snap_wait_make_crowd(waits, key, pids, count, false, ret);
}

/* Locks of POSIX and OFD exclude each other, and none of them that of flock(2). */
static bool conflicts(const struct request *request, bool writes,
		      const struct snap_file_lock *shown)
{
	bool is_flock = request->kind == SNAP_LOCK_FLOCK;

	return is_flock == (shown->kind == SNAP_LOCK_FLOCK) && shown->kind != SNAP_LOCK_LEASE &&
	       (writes || shown->write) && shown->start <= request->end &&
	       shown->end >= request->start;
}

/* One that the waiter's process has itself, and which it may be about to change. */
static bool is_own_file_lock(const struct snap_file_lock *const *own, size_t count,
			     const struct snap_file_lock *shown)
{
	for (size_t i = 0; i < count; i++)
		if (compare_shown(own[i], shown) == 0 && own[i]->write == shown->write)
			return shown->kind != SNAP_LOCK_POSIX || own[i]->pid == shown->pid;
	return false;
}

SNAP_ORDER(compare_pids, pid_t, a, b, snap_compare(*a, *b));

/* Without the waiter's line: by what fdinfo shows of this file. */
static struct stacksnap_error *find_conflicting(struct snap_wait_analysis *waits,
						const struct snap_waiter *waiter,
						const struct snap_descriptor *file,
						const struct request *request,
						const struct snap_wait_crowd **ret)
{
	const struct snap_wait_lookup *lookup = waits->lookup;
	const struct snap_file_lock *all = waits->facts->locks, **own;
	const struct snap_file_lock key = { .inode = file->inode,
					    .dev_major = file->dev_major,
					    .dev_minor = file->dev_minor };
	bool writes = waiter->wait->mode == SNAP_WAIT_WRITE;
	pid_t pid = snap_waiter_process(waiter)->pid, *pids;
	size_t at = snap_first_not(lookup->shown_count, i,
				   compare_files(&all[lookup->shown[i]], &key) < 0);
	size_t next = snap_first_not(lookup->shown_count, i,
				     compare_files(&all[lookup->shown[i]], &key) <= 0);
	size_t own_count = 0, count = 0;

	if (at == next || !request->range_known)
		return NULL;
	own = snap_arena_new_array(&waits->analysis->scratch, next - at,
				   const struct snap_file_lock *);
	pids = snap_arena_new_array(&waits->analysis->scratch, next - at, pid_t);
	SNAP_TRY(snap_no_memory_unless(own && pids));
	for (size_t i = at; i < next && own_count < MOST_OWN; i++)
		if (all[lookup->shown[i]].pid == pid)
			own[own_count++] = &all[lookup->shown[i]];
	for (size_t i = at; own_count < MOST_OWN && i < next; i++) {
		const struct snap_file_lock *shown = &all[lookup->shown[i]];

		if (conflicts(request, writes, shown) && !is_own_file_lock(own, own_count, shown))
			pids[count++] = shown->pid;
	}
	if (!count)
		return NULL;
	qsort(pids, count, sizeof(*pids), compare_pids);
	return snap_wait_make_crowd(waits,
				    snap_wait_object_of(SNAP_WAIT_FILE_LOCK, waiter->object,
							(uint64_t)(waiter - waits->waiters), 1),
				    pids, count, false, ret);
}

static void set_holders(const struct snap_wait_analysis *waits, struct snap_waiter *waiter,
			const struct snap_wait_crowd *crowd)
{
	struct snap_wait *wait = waiter->wait;

	snap_wait_set_peers(waits, waiter, crowd, true);
	wait->holders = wait->peers;
	wait->holder_count = wait->peer_count;
	wait->peers = NULL;
	wait->peer_count = 0;
	wait->peer_total = 0;
	if (crowd->total)
		wait->owner_lack = SNAP_OWNER_KNOWN;
	if (crowd->total == 1) {
		wait->has_owner = true;
		wait->owner = crowd->parties[0];
	}
}

/* ---- the request ---- */

static void read_file_lock_range(struct snap_waiter *waiter, struct request *request)
{
	struct flock lock;

	if (!snap_wait_read(waiter, waiter->call.arguments[2], &lock, sizeof(lock)) ||
	    lock.l_whence != SEEK_SET || lock.l_start < 0)
		return;
	request->range_known = true;
	request->start = (uint64_t)lock.l_start;
	request->end = UINT64_MAX;
	if (lock.l_len > 0)
		request->end = request->start + (uint64_t)lock.l_len - 1;
	waiter->wait->mode = lock.l_type == F_RDLCK ? SNAP_WAIT_READ : SNAP_WAIT_WRITE;
}

static struct request read_request(struct snap_waiter *waiter)
{
	struct request request = { .kind = SNAP_LOCK_FLOCK,
				   .range_known = true,
				   .end = UINT64_MAX };
	bool is_shared;

	if (waiter->row->call == SNAP_CALL_FLOCK) {
		is_shared = waiter->call.arguments[1] & 1; /* LOCK_SH */
		waiter->wait->mode = is_shared ? SNAP_WAIT_READ : SNAP_WAIT_WRITE;
		waiter->wait->variant = "flock";
		waiter->wait->range_end = UINT64_MAX;
		return request;
	}
	request.range_known = false;
	request.kind =
		waiter->call.arguments[1] == SET_OPEN_LOCK_WAIT ? SNAP_LOCK_OFD : SNAP_LOCK_POSIX;
	waiter->wait->variant = request.kind == SNAP_LOCK_OFD ? "ofd" : "posix";
	waiter->wait->range_end = UINT64_MAX;
	read_file_lock_range(waiter, &request);
	if (request.range_known) {
		waiter->wait->range_start = request.start;
		waiter->wait->range_end = request.end;
	}
	return request;
}

struct stacksnap_error *snap_wait_explain_file_lock(struct snap_wait_analysis *waits,
						    struct snap_waiter *waiter)
{
	struct snap_wait *wait = snap_wait_new(waits, waiter, SNAP_WAIT_FILE_LOCK,
					       snap_wait_call_confidence(waiter));
	const struct snap_descriptor *file;
	const unsigned partial =
		SNAP_LACK_TIME | SNAP_LACK_CUT | SNAP_LACK_FILE_LOCKS | SNAP_LACK_CORE;
	const struct snap_wait_crowd *crowd = NULL;
	const struct snap_file_lock *held;
	struct stacksnap_error *err = NULL;
	struct request request;

	SNAP_TRY(snap_no_memory_unless(wait));
	wait->fd = snap_wait_call_fd(waiter);
	wait->owner_lack = waits->facts->lacks & SNAP_LACK_RIGHTS ? SNAP_OWNER_OTHER_USER
								  : SNAP_OWNER_NOT_SEEN;
	request = read_request(waiter);
	file = snap_wait_descriptor(waiter, wait->fd);
	wait->path = snap_wait_path(waits, file);
	if (!file || file->inode == 0)
		return NULL;
	waiter->object = snap_wait_object_of(SNAP_WAIT_FILE_LOCK, file->inode, file->dev_major,
					     file->dev_minor);
	SNAP_TRY(make_orders(waits));
	held = find_held(waits, waiter, file, &request);
	if (held)
		err = find_holders(waits, held, &crowd);
	else if (waits->facts->lacks & partial)
		err = find_conflicting(waits, waiter, file, &request, &crowd);
	if (!err && crowd)
		set_holders(waits, waiter, crowd);
	return err;
}
