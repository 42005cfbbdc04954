/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Crowds: the processes at the other end of an object, found once for all waiters: see kernel.h.
 *
 * A crowd has as many processes as the facts have ends, so all crowds together take no more room
 * than the facts. A waiter gets the first parties and one edge to a set.
 */
#include "analyze/wait/kernel/kernel.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <signal.h>

enum { MOST_CROWDS = 1 << 20 };

uint64_t snap_wait_object_of(enum snap_wait_kind kind, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t object = snap_hash_add(snap_hash_add(snap_hash_add(kind, a), b), c);

	return object ? object : 1;
}

const struct snap_wait_crowd *snap_wait_find_crowd(const struct snap_wait_analysis *waits,
						   uint64_t key)
{
	const struct snap_wait_lookup *lookup = waits->lookup;

	return snap_hash_find_in(&lookup->crowd_table, key, lookup->crowds, at, at->key == key);
}

static struct snap_wait_party outside_party(const struct snap_wait_analysis *waits, pid_t pid)
{
	const struct snap_wait_facts *facts = waits->facts;
	size_t at = snap_first_not(facts->outsider_count, i, facts->outsiders[i].pid < pid);
	struct snap_wait_party party = { .pid = pid, .outside = true };

	if (at < facts->outsider_count && facts->outsiders[at].pid == pid) {
		party.name = facts->outsiders[at].name;
		party.state = facts->outsiders[at].state;
	}
	return party;
}

/* A process of the report: its thread, if it has one alone. */
static struct snap_wait_party inside_party(const struct snap_wait_analysis *waits, size_t process)
{
	const struct snap_process *of = waits->analysis->processes[process].process;

	if (waits->first[process + 1] - waits->first[process] == 1 && of->threads_missed == 0)
		return snap_wait_party_of(&waits->waiters[waits->first[process]]);
	return (struct snap_wait_party){ .pid = of->pid, .name = of->name, .state = of->state };
}

struct snap_wait_party snap_wait_process_party(const struct snap_wait_analysis *waits, pid_t pid)
{
	size_t process = snap_wait_process_by_pid(waits, pid);

	return process == SIZE_MAX ? outside_party(waits, pid) : inside_party(waits, process);
}

/* Whether what the threads of a process do is known of all of them. */
static bool is_seen(const struct snap_wait_analysis *waits, size_t process)
{
	const struct snap_process *of = waits->analysis->processes[process].process;
	size_t shown = waits->first[process + 1] - waits->first[process];
	size_t living =
		snap_sum(of->thread_count, i, of->threads[i].result != SNAP_THREAD_VANISHED);

	return of->trouble == SNAP_TROUBLE_NONE && of->threads_missed == 0 && shown == living &&
	       shown > 0;
}

static bool find_seen(struct snap_wait_analysis *waits)
{
	size_t count = waits->analysis->capture->process_count;

	if (waits->lookup->seen)
		return true;
	waits->lookup->seen = snap_arena_new_array(&waits->analysis->scratch, count + 1, bool);
	if (!waits->lookup->seen)
		return false;
	for (size_t i = 0; i < count; i++)
		waits->lookup->seen[i] = is_seen(waits, i);
	return true;
}

static struct stacksnap_error *fill_crowd(struct snap_wait_analysis *waits, const pid_t *pids,
					  size_t count, struct snap_wait_crowd *crowd)
{
	struct snap_wait_set *set = &waits->sets[waits->set_count];
	size_t shown = count < SNAP_WAIT_LIST ? count : SNAP_WAIT_LIST;

	set->processes = snap_arena_new_array(&waits->analysis->scratch, count + 1, size_t);
	crowd->parties =
		snap_arena_new_array(snap_wait_arena(waits), shown + 1, struct snap_wait_party);
	SNAP_TRY(snap_no_memory_unless(set->processes && crowd->parties && find_seen(waits)));
	set->count = 0;
	for (size_t i = 0; i < count; i++) {
		size_t process = snap_wait_process_by_pid(waits, pids[i]);

		if (i > 0 && pids[i] == pids[i - 1])
			continue;
		crowd->total++;
		if (process == SIZE_MAX || !waits->lookup->seen[process])
			crowd->whole = false;
		if (process != SIZE_MAX)
			set->processes[set->count++] = process;
		if (crowd->party_count < shown)
			crowd->parties[crowd->party_count++] =
				snap_wait_process_party(waits, pids[i]);
	}
	/* No process at the other end of what a thread waits for: one was not seen. */
	if (crowd->total == 0)
		crowd->whole = false;
	if (set->count)
		crowd->set = waits->set_count++;
	return NULL;
}

struct stacksnap_error *snap_wait_make_crowd(struct snap_wait_analysis *waits, uint64_t key,
					     const pid_t *pids, size_t count, bool complete,
					     const struct snap_wait_crowd **ret)
{
	struct snap_wait_lookup *lookup = waits->lookup;
	struct snap_wait_crowd crowd = { .key = key,
					 .set = (size_t)SNAP_NO_SET,
					 .whole = complete };

	SNAP_TRY(snap_no_memory_unless(snap_reserve_array_most(
		lookup->crowds, lookup->crowd_capacity, lookup->crowd_count + 1, MOST_CROWDS)));
	SNAP_TRY(fill_crowd(waits, pids, count, &crowd));
	if (!snap_hash_table_add(&lookup->crowd_table, key, lookup->crowd_count))
		return snap_error_no_memory();
	lookup->crowds[lookup->crowd_count] = crowd;
	*ret = &lookup->crowds[lookup->crowd_count++];
	return NULL;
}

static bool is_crowd_before(const struct snap_file_peer *end, enum snap_descriptor_kind kind,
			    uint64_t inode)
{
	return end->kind != kind ? end->kind < kind : end->inode < inode;
}

struct stacksnap_error *snap_wait_crowd_of_peers(struct snap_wait_analysis *waits,
						 enum snap_descriptor_kind kind, uint64_t inode,
						 enum snap_wait_mode mode,
						 const struct snap_wait_crowd **ret)
{
	/* With these, a process that was not seen may have the end open. */
	const unsigned blind = SNAP_LACK_TIME | SNAP_LACK_RIGHTS | SNAP_LACK_CUT | SNAP_LACK_CORE |
			       SNAP_LACK_IN_FLIGHT;
	const struct snap_wait_facts *facts = waits->facts;
	const struct snap_file_peer *ends = facts->peers;
	uint64_t key = snap_hash_add(snap_wait_object_of(SNAP_WAIT_KINDS, kind, inode, 0), mode);
	size_t count = 0, kept = 0, at;
	pid_t *pids;

	*ret = snap_wait_find_crowd(waits, key);
	if (*ret)
		return NULL;
	at = snap_first_not(facts->peer_count, i, is_crowd_before(&ends[i], kind, inode));
	while (at + count < facts->peer_count && ends[at + count].kind == kind &&
	       ends[at + count].inode == inode)
		count++;
	pids = snap_arena_new_array(&waits->analysis->scratch, count + 1, pid_t);
	SNAP_TRY(snap_no_memory_unless(pids));
	for (size_t i = at; i < at + count; i++)
		if (mode == SNAP_WAIT_ANY_MODE ||
		    (mode == SNAP_WAIT_READ ? ends[i].readable : ends[i].writable))
			pids[kept++] = ends[i].pid;
	return snap_wait_make_crowd(waits, key, pids, kept, !(facts->lacks & blind), ret);
}

/* Only what a thread itself does raises these, and one that waits does nothing (signal(7)). */
static uint64_t without_own(uint64_t signals)
{
	static const int own[] = { SIGILL,  SIGTRAP, SIGABRT, SIGBUS,  SIGFPE,
				   SIGSEGV, SIGPIPE, SIGXCPU, SIGXFSZ, SIGSYS };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		signals &= ~(1ULL << (own[i] - 1));
	return signals;
}

/*
 * A process that has the other end of its own wait may write from the handler of a signal (the
 * self-pipe of event loops), or wait for the signal: make(1) selects on its own pipe of tokens, and
 * SIGCHLD ends that.
 */
static bool may_wake_itself(const struct snap_wait_analysis *waits,
			    const struct snap_waiter *waiter, const struct snap_wait_set *set)
{
	enum snap_wait_kind kind = waiter->wait->kind;

	if (kind == SNAP_WAIT_CHILD || kind == SNAP_WAIT_VFORK || kind == SNAP_WAIT_FILE_LOCK ||
	    !without_own(waits->analysis->processes[waiter->process].process->caught))
		return false;
	return snap_any(set->count, i, set->processes[i] == waiter->process);
}

void snap_wait_set_peers(const struct snap_wait_analysis *waits, struct snap_waiter *waiter,
			 const struct snap_wait_crowd *crowd, bool decides)
{
	struct snap_wait *wait = waiter->wait;

	wait->peers = crowd->parties;
	wait->peer_count = crowd->party_count;
	wait->peer_total = crowd->total;
	wait->peers_unknown = !crowd->whole;
	if (!decides || crowd->set == (size_t)SNAP_NO_SET)
		return;
	waiter->any_set = crowd->set;
	waiter->any_known =
		crowd->whole && !may_wake_itself(waits, waiter, &waits->sets[crowd->set]);
	waiter->any_certain = waiter->any_known && wait->confidence == SNAP_WAIT_IS_CERTAIN;
}
