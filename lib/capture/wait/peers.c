/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes that have the other ends of what threads wait with: by the tables of descriptors of all
 * processes of the tree, and of all others of the machine where these can add something.
 *
 * They can if no process in the tree has the other end; or if all that have it seem to wait
 * themselves, because only another process with the end can then wake them. Only waits with a
 * single descriptor count: for a poll of many no process is named. The holder of a lock on a file
 * is found by the fdinfo of the processes that have the file open: the kernel's table names the
 * process that took the lock, which may have exited, and names none for some kinds.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"
#include "capture/wait/resolver.h"
#include "capture/wait/scan.h"

#include <string.h>

enum {
	MOST_LINKS = 200000, /* outside of the tree; inside twice as many */
	MOST_PIDS = 1 << 16,
	OUTSIDE_NS = 1000000000,
};

/* Which ends are waited for; bits. */
enum { NEEDS_READER = 1, NEEDS_WRITER = 2 };

struct candidate {
	struct snap_wanted_peer end; /* name: the descriptor's link, until it is asked for */
	unsigned needs;
	bool may_ask_outside, is_found;
	bool is_open; /* a process in the tree that has it could go on by itself */
};

struct ends {
	struct snap_wait_resolver *resolver;
	struct candidate *candidates;
	size_t count, capacity;
	bool *stuck; /* by process: all its threads wait for others, as far as their calls tell */
	struct snap_file_peer *found;
	size_t found_count, found_capacity;
	struct snap_outsider *outsiders;
	size_t outsider_count, outsider_capacity, lock_capacity;
	struct snap_file_lock *locks;
	size_t lock_count;
};

SNAP_FREES(ends_deinit, struct ends, candidates, stuck, found, outsiders, locks);

/* ---- what is wanted ---- */

static const unsigned ALONE = SNAP_WAIT_USE_READ | SNAP_WAIT_USE_WRITE | SNAP_WAIT_USE_ONE |
			      SNAP_WAIT_USE_CONNECT | SNAP_WAIT_USE_LOCK;

static struct stacksnap_error *add_candidate(struct ends *ends, const struct candidate *candidate)
{
	if (ends->count >= SNAP_MAX_FILE_PEERS) {
		ends->resolver->facts->lacks |= SNAP_LACK_CUT;
		return NULL;
	}
	return snap_no_memory_unless(
		snap_append(ends->candidates, ends->count, ends->capacity, *candidate));
}

static unsigned needs_of(unsigned uses)
{
	unsigned needs = 0;

	if (uses & (SNAP_WAIT_USE_READ | SNAP_WAIT_USE_ONE | SNAP_WAIT_USE_POLL))
		needs |= NEEDS_WRITER;
	if (uses & (SNAP_WAIT_USE_WRITE | SNAP_WAIT_USE_ONE | SNAP_WAIT_USE_POLL))
		needs |= NEEDS_READER;
	return needs;
}

static struct stacksnap_error *want_descriptor(struct ends *ends, const struct snap_wait_want *want)
{
	const struct snap_descriptor *descriptor = snap_wait_find_descriptor(
		snap_wait_process(ends->resolver, want->process), want->number);
	struct candidate candidate = { .needs = needs_of(want->uses),
				       .may_ask_outside = want->uses & ALONE };

	if (!descriptor)
		return NULL;
	candidate.end = (struct snap_wanted_peer){ .kind = descriptor->kind,
						   .inode = descriptor->inode,
						   .dev_major = descriptor->dev_major,
						   .dev_minor = descriptor->dev_minor };
	/*
	 * An end of a pipe that can do what is waited for is needed: the descriptor's own counts.
	 */
	if (descriptor->kind == SNAP_DESCRIPTOR_FIFO)
		candidate.end.name = descriptor->link;
	else if (descriptor->kind == SNAP_DESCRIPTOR_EVENTFD)
		candidate.end.inode = descriptor->id;
	else if (descriptor->kind != SNAP_DESCRIPTOR_PIPE)
		candidate.needs = 0;
	if (candidate.needs && !descriptor->readable)
		candidate.needs &= ~(unsigned)NEEDS_WRITER;
	if (candidate.needs && !descriptor->writable)
		candidate.needs &= ~(unsigned)NEEDS_READER;
	if (want->uses & SNAP_WAIT_USE_LOCK && descriptor->link && descriptor->link[0] == '/') {
		candidate.end.kind = SNAP_DESCRIPTOR_FILE;
		candidate.end.name = descriptor->link;
		candidate.needs = NEEDS_READER | NEEDS_WRITER;
	}
	return candidate.needs && candidate.end.inode ? add_candidate(ends, &candidate) : NULL;
}

SNAP_ORDER(compare_candidates, struct candidate, a, b, snap_scan_compare(&a->end, &b->end));

/* Of files and FIFOs two may have one inode, on two devices. */
static bool is_same_end(const struct candidate *a, const struct candidate *b)
{
	return snap_scan_compare(&a->end, &b->end) == 0 && a->end.dev_major == b->end.dev_major &&
	       a->end.dev_minor == b->end.dev_minor && snap_same_text(a->end.name, b->end.name);
}

static void merge_candidates(struct ends *ends)
{
	size_t count = 0;

	if (ends->count)
		qsort(ends->candidates, ends->count, sizeof(*ends->candidates), compare_candidates);
	for (size_t i = 0; i < ends->count; i++) {
		struct candidate *last = count ? &ends->candidates[count - 1] : NULL;
		const struct candidate *next = &ends->candidates[i];

		if (last && is_same_end(last, next)) {
			last->needs |= next->needs;
			last->may_ask_outside |= next->may_ask_outside;
		} else {
			ends->candidates[count++] = *next;
		}
	}
	ends->count = count;
}

static struct stacksnap_error *find_candidates(struct ends *ends)
{
	const struct snap_wait_resolver *resolver = ends->resolver;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < resolver->want_count && !err; i++)
		if (resolver->wants[i].uses != SNAP_WAIT_USE_WATCH)
			err = want_descriptor(ends, &resolver->wants[i]);
	for (size_t i = 0; i < resolver->peer_count && !err; i++) {
		const struct snap_wait_peer *peer = &resolver->peers[i];
		const struct candidate candidate = {
			.end = { .kind = SNAP_DESCRIPTOR_SOCKET, .inode = peer->inode },
			.needs = NEEDS_READER | NEEDS_WRITER,
			.may_ask_outside = peer->uses & ALONE,
		};

		if (peer->uses & ~(unsigned)(SNAP_WAIT_USE_WATCH | SNAP_WAIT_USE_OTHER))
			err = add_candidate(ends, &candidate);
	}
	merge_candidates(ends);
	return err;
}

/*
 * Whether a call waits for an act of another thread, so that a circle of such calls may never end.
 */
static bool waits_for_others(const struct snap_process *process, const struct snap_thread *thread)
{
	struct snap_thread_call call = snap_wait_call_of(process->arch, thread);

	return call.known &&
	       snap_wait_call_row(process->arch, call.number)->facts & SNAP_CALL_FOR_OTHERS;
}

static struct stacksnap_error *find_stuck(struct ends *ends)
{
	const struct snap_capture *capture = ends->resolver->capture;

	ends->stuck = calloc(capture->process_count + 1, sizeof(*ends->stuck));
	SNAP_TRY(snap_no_memory_unless(ends->stuck));
	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		ends->stuck[i] = process->thread_count && !process->threads_missed;
		for (size_t k = 0; k < process->thread_count && ends->stuck[i]; k++)
			ends->stuck[i] = !snap_wait_is_alive(process, &process->threads[k]) ||
					 waits_for_others(process, &process->threads[k]);
	}
	return NULL;
}

/* ---- asking ---- */

/* The base name of a link, for workers. */
static const char *share_name(struct snap_wait_asker *asker, const char *link)
{
	size_t length = strlen(link);
	const char *name;
	char *shared = snap_region_text(&asker->memory->region, link, length);

	if (!shared)
		return NULL;
	if (snap_cut_deleted(shared, &length))
		shared[length] = '\0';
	name = snap_base_name(shared);
	return name;
}

/* A list of scans of `count` processes for all candidates, without their pids; NULL: no room. */
static struct snap_scans *make_scans(const struct ends *ends, size_t count, uint64_t most_links)
{
	struct snap_wait_asker *asker = ends->resolver->asker;
	struct snap_scans *scans = snap_wait_asker_new_array(asker, 1, struct snap_scans);
	struct snap_wanted_peer *wanted =
		snap_wait_asker_new_array(asker, ends->count, struct snap_wanted_peer);

	if (!scans || !wanted)
		return NULL;
	for (size_t i = 0; i < ends->count; i++) {
		wanted[i] = ends->candidates[i].end;
		if (wanted[i].name)
			wanted[i].name = share_name(asker, wanted[i].name);
		scans->kinds[wanted[i].kind] = true;
	}
	scans->memory = asker->memory;
	scans->wanted = wanted;
	scans->wanted_count = ends->count;
	scans->most_links = most_links;
	scans->most_found = SNAP_MAX_FILE_PEERS / 2;
	scans->list = snap_wait_asker_new_array(asker, count, struct snap_scan);
	return scans->list ? scans : NULL;
}

static struct stacksnap_error *add_found(struct ends *ends, const struct snap_scan *scan,
					 const struct snap_scan_end *end)
{
	const struct snap_wanted_peer *wanted = &ends->candidates[end->wanted].end;

	if (ends->found_count >= SNAP_MAX_FILE_PEERS) {
		ends->resolver->facts->lacks |= SNAP_LACK_CUT;
		return NULL;
	}
	return snap_no_memory_unless(
		snap_append(ends->found, ends->found_count, ends->found_capacity,
			    (struct snap_file_peer){ .pid = scan->pid,
						     .kind = wanted->kind,
						     .inode = wanted->inode,
						     .readable = end->readable,
						     .writable = end->writable }));
}

static struct stacksnap_error *take_scan(struct ends *ends, const struct snap_scan *scan,
					 bool is_stuck)
{
	struct stacksnap_error *err = NULL;

	for (const struct snap_scan_end *end = scan->ends; end && !err; end = end->next) {
		struct candidate *candidate = &ends->candidates[end->wanted];
		unsigned has =
			(end->readable ? NEEDS_READER : 0) | (end->writable ? NEEDS_WRITER : 0);

		if (candidate->needs & has) {
			candidate->is_found = true;
			candidate->is_open |= !is_stuck;
		}
		err = add_found(ends, scan, end);
	}
	for (const struct snap_scan_lock *lock = scan->locks; lock && !err; lock = lock->next) {
		if (ends->lock_count >= SNAP_MAX_FILE_LOCKS)
			return NULL;
		if (!snap_append(ends->locks, ends->lock_count, ends->lock_capacity, lock->lock))
			return snap_error_no_memory();
	}
	return err;
}

static void note_scans(struct snap_wait_facts *facts, const struct snap_scans *scans)
{
	facts->lacks |=
		(scans->is_cut ? SNAP_LACK_CUT : 0) | (scans->in_flight ? SNAP_LACK_IN_FLIGHT : 0);
}

static void note_scan(struct ends *ends, const struct snap_scan *scan)
{
	if (scan->status == -EACCES || scan->status == -EPERM)
		ends->resolver->facts->lacks |= SNAP_LACK_RIGHTS;
}

static struct stacksnap_error *scan_tree(struct ends *ends)
{
	struct snap_wait_resolver *resolver = ends->resolver;
	const struct snap_capture *capture = resolver->capture;
	struct snap_scans *scans = make_scans(ends, capture->process_count, 2 * MOST_LINKS);
	struct stacksnap_error *err = NULL;
	const uint8_t *marks;

	SNAP_TRY(snap_no_memory_unless(scans));
	scans->is_tree = true;
	for (size_t i = 0; i < capture->process_count; i++)
		scans->list[i].pid = capture->processes[i].pid;
	marks = snap_wait_asker_run(resolver->asker, snap_scan_run, scans, capture->process_count,
				    resolver->until_ns);
	note_scans(resolver->facts, scans);
	for (size_t i = 0; marks && i < capture->process_count && !err; i++) {
		const struct snap_scan *scan = &scans->list[i];

		if (marks[i] != SNAP_ITEM_DONE)
			continue;
		note_scan(ends, scan);
		if (scan->start_ticks == capture->processes[i].start_ticks)
			err = take_scan(ends, scan, ends->stuck[i]);
	}
	return err;
}

/* ---- outside of the tree ---- */

static bool has_open_question(const struct ends *ends)
{
	for (size_t i = 0; i < ends->count; i++) {
		const struct candidate *candidate = &ends->candidates[i];

		if (candidate->may_ask_outside && (!candidate->is_found || !candidate->is_open))
			return true;
	}
	return false;
}

SNAP_ORDER(compare_pids, pid_t, a, b, snap_compare(*a, *b));

struct pids {
	pid_t *list; /* malloc'ed */
	size_t count;
};

SNAP_FREES(pids_deinit, struct pids, list);

/* Those of another list, which is sorted. */
static void leave_out(struct pids *pids, const struct pids *known)
{
	size_t kept = 0;

	for (size_t i = 0; i < pids->count; i++)
		if (!bsearch(&pids->list[i], known->list, known->count, sizeof(pid_t),
			     compare_pids))
			pids->list[kept++] = pids->list[i];
	pids->count = kept;
}

/* Those of the tree and our own, sorted. */
static bool list_known(const struct ends *ends, struct pids *ret)
{
	const struct snap_wait_resolver *resolver = ends->resolver;
	const struct snap_capture *capture = resolver->capture;

	ret->list = calloc(capture->process_count + 3, sizeof(pid_t));
	if (!ret->list)
		return false;
	for (size_t i = 0; i < capture->process_count; i++)
		ret->list[ret->count++] = capture->processes[i].pid;
	ret->list[ret->count++] = getpid();
	ret->list[ret->count++] = getppid();
	ret->list[ret->count++] = resolver->options->self;
	qsort(ret->list, ret->count, sizeof(pid_t), compare_pids);
	return true;
}

/* Ancestors of processes of the tree, sorted, each once. */
static bool list_ancestors(const struct ends *ends, struct pids *ret)
{
	const struct snap_capture *capture = ends->resolver->capture;
	size_t count = 0;
	size_t most = snap_sum(capture->process_count, i, capture->processes[i].ancestor_count);

	ret->list = calloc(most + 1, sizeof(pid_t));
	if (!ret->list)
		return false;
	for (size_t i = 0; i < capture->process_count; i++)
		for (size_t k = 0; k < capture->processes[i].ancestor_count; k++)
			ret->list[count++] = capture->processes[i].ancestors[k].pid;
	qsort(ret->list, count, sizeof(pid_t), compare_pids);
	for (size_t i = 0; i < count; i++)
		if (!i || ret->list[i] != ret->list[i - 1])
			ret->list[ret->count++] = ret->list[i];
	return true;
}

/* All processes of the machine. */
static bool list_all(const struct ends *ends, struct pids *ret)
{
	const struct snap_wait_resolver *resolver = ends->resolver;
	ssize_t count;

	ret->list = calloc(MOST_PIDS, sizeof(pid_t));
	if (!ret->list)
		return false;
	count = snap_procfs_list(resolver->asker->root_fd, ret->list, MOST_PIDS);
	if (count > MOST_PIDS) {
		resolver->facts->lacks |= SNAP_LACK_CUT;
		count = MOST_PIDS;
	}
	ret->count = count > 0 ? (size_t)count : 0;
	return true;
}

static struct stacksnap_error *add_outsider(struct ends *ends, const struct snap_scan *scan)
{
	const char *name;

	if (ends->outsider_count >= SNAP_MAX_OUTSIDERS) {
		ends->resolver->facts->lacks |= SNAP_LACK_CUT;
		return NULL;
	}
	name = snap_arena_strdup(&ends->resolver->capture->arena, scan->name);
	return name && snap_append(ends->outsiders, ends->outsider_count, ends->outsider_capacity,
				   (struct snap_outsider){ .pid = scan->pid,
							   .name = scan->start_ticks ? name : NULL,
							   .state = scan->state })
		       ? NULL
		       : snap_error_no_memory();
}

static struct stacksnap_error *scan_outside(struct ends *ends, const struct pids *pids,
					    int64_t until_ns)
{
	struct snap_wait_resolver *resolver = ends->resolver;
	struct snap_scans *scans = make_scans(ends, pids->count, MOST_LINKS);
	struct stacksnap_error *err = NULL;
	const uint8_t *marks;

	SNAP_TRY(snap_no_memory_unless(scans));
	for (size_t i = 0; i < pids->count; i++)
		scans->list[i].pid = pids->list[i];
	marks = snap_wait_asker_run(resolver->asker, snap_scan_run, scans, pids->count, until_ns);
	note_scans(resolver->facts, scans);
	for (size_t i = 0; marks && i < pids->count && !err; i++) {
		const struct snap_scan *scan = &scans->list[i];

		if (marks[i] != SNAP_ITEM_DONE)
			continue;
		note_scan(ends, scan);
		if (!scan->ends && !scan->locks)
			continue;
		err = add_outsider(ends, scan);
		err = err ?: take_scan(ends, scan, false);
	}
	return err;
}

/*
 * The parent of a program has mostly made its pipes: ancestors come first, and if they answer all
 * questions, the others, which may be thousands, are not asked.
 */
static struct stacksnap_error *scan_others(struct ends *ends)
{
	_cleanup_(pids_deinit) struct pids known = { .count = 0 }, ancestors = { .count = 0 },
					   all = { .count = 0 };
	int64_t until_ns = snap_clock_ns(CLOCK_MONOTONIC) + OUTSIDE_NS;
	struct stacksnap_error *err = NULL;

	if (!list_known(ends, &known) || !list_ancestors(ends, &ancestors))
		return snap_error_no_memory();
	leave_out(&ancestors, &known);
	if (ancestors.count)
		err = scan_outside(ends, &ancestors, until_ns);
	if (err || !has_open_question(ends))
		return err;
	SNAP_TRY(snap_no_memory_unless(list_all(ends, &all)));
	leave_out(&all, &known);
	leave_out(&all, &ancestors);
	return scan_outside(ends, &all, until_ns);
}

/* ---- the result ---- */

SNAP_ORDER(compare_ends, struct snap_file_peer, a, b, snap_compare(a->kind, b->kind),
	   snap_compare(a->inode, b->inode), snap_compare(a->pid, b->pid));

static void merge_ends(struct ends *ends)
{
	size_t count = 0;

	if (ends->found_count)
		qsort(ends->found, ends->found_count, sizeof(*ends->found), compare_ends);
	for (size_t i = 0; i < ends->found_count; i++) {
		struct snap_file_peer *last = count ? &ends->found[count - 1] : NULL;
		const struct snap_file_peer *next = &ends->found[i];

		if (last && compare_ends(last, next) == 0) {
			last->readable |= next->readable;
			last->writable |= next->writable;
		} else {
			ends->found[count++] = *next;
		}
	}
	ends->found_count = count;
}

SNAP_ORDER(compare_outsiders, struct snap_outsider, a, b, snap_compare(a->pid, b->pid));

/* The kernel's table comes first. */
static struct stacksnap_error *give_locks(struct ends *ends)
{
	struct snap_wait_facts *facts = ends->resolver->facts;
	size_t count = facts->lock_count;
	struct snap_file_lock *all;

	if (!ends->lock_count)
		return NULL;
	all = snap_arena_new_array(&ends->resolver->capture->arena, count + ends->lock_count,
				   struct snap_file_lock);
	SNAP_TRY(snap_no_memory_unless(all));
	if (count)
		memcpy(all, facts->locks, count * sizeof(*all));
	for (size_t i = 0; i < ends->lock_count && count < SNAP_MAX_FILE_LOCKS; i++)
		all[count++] = ends->locks[i];
	facts->locks = all;
	facts->lock_count = count;
	return NULL;
}

static struct stacksnap_error *give_ends(struct ends *ends)
{
	struct snap_wait_facts *facts = ends->resolver->facts;
	struct snap_arena *arena = &ends->resolver->capture->arena;

	merge_ends(ends);
	if (ends->outsider_count)
		qsort(ends->outsiders, ends->outsider_count, sizeof(*ends->outsiders),
		      compare_outsiders);
	if (ends->found_count)
		facts->peers = snap_arena_memdup(arena, ends->found,
						 ends->found_count * sizeof(*ends->found));
	if (ends->outsider_count)
		facts->outsiders = snap_arena_memdup(
			arena, ends->outsiders, ends->outsider_count * sizeof(*ends->outsiders));
	if ((ends->found_count && !facts->peers) || (ends->outsider_count && !facts->outsiders))
		return snap_error_no_memory();
	facts->peer_count = ends->found_count;
	facts->outsider_count = ends->outsider_count;
	return give_locks(ends);
}

struct stacksnap_error *snap_wait_ask_peers(struct snap_wait_resolver *resolver)
{
	_cleanup_(ends_deinit) struct ends ends = { .resolver = resolver };
	struct stacksnap_error *err = find_candidates(&ends);

	if (err || !ends.count)
		return err;
	err = find_stuck(&ends);
	err = err ?: scan_tree(&ends);
	if (!err && has_open_question(&ends))
		err = scan_others(&ends);
	return err ? err : give_ends(&ends);
}
