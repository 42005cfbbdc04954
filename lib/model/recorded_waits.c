/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The waits of a snapshot as those of a recording: see snap_recording_set_waits(). The owner at that
 * one moment is an owner span.
 */
#include "model/recording.h"

#include "base/bsearch.h"
#include "base/table.h"

#include <stdlib.h>

/* A wait of the snapshot, for all tracks of a process that share it. */
struct shared {
	const struct snap_wait *wait; /* the snapshot's, with its owner */
	uint32_t process;
	uint32_t index; /* in the order of first sight */
};

struct pid_place {
	pid_t pid;
	size_t process;
};

struct setter {
	struct snap_recording *recording;
	struct shared *shared;
	size_t count;
	struct snap_hash_table table; /* of them */
	struct pid_place *pids;       /* of all processes, sorted */
};

static void setter_deinit(struct setter *setter)
{
	free(setter->shared);
	free(setter->pids);
	snap_hash_table_deinit(&setter->table);
}

/* Its number + 1 goes to the run. */
static bool share_holders(struct setter *setter, const struct snap_track *track)
{
	uint32_t process = (uint32_t)track->process;
	uint64_t hash = snap_wait_hash(track->wait, snap_hash_mix(process));
	struct snap_probe probe = snap_hash_table_probe(&setter->table, hash);

	while (snap_probe_next(&probe)) {
		const struct shared *known = &setter->shared[probe.number];

		if (known->process == process && snap_wait_same(known->wait, track->wait)) {
			track->runs->wait = (uint32_t)probe.number + 1;
			return true;
		}
	}
	if (!snap_hash_table_add(&setter->table, hash, setter->count))
		return false;
	setter->shared[setter->count] =
		(struct shared){ track->wait, process, (uint32_t)setter->count };
	track->runs->wait = (uint32_t)++setter->count;
	return true;
}

SNAP_ORDER(by_object, struct shared, a, b, snap_compare(a->process, b->process),
	   snap_wait_compare(a->wait, b->wait), snap_compare(a->index, b->index));

/* ---- owners ---- */

SNAP_ORDER(by_pid, struct pid_place, a, b, snap_compare(a->pid, b->pid),
	   snap_compare(a->process, b->process));

static bool list_recorded_pids(struct setter *setter)
{
	const struct snap_recording *recording = setter->recording;

	setter->pids = malloc((recording->process_count + 1) * sizeof(*setter->pids));
	if (!setter->pids)
		return false;
	for (size_t i = 0; i < recording->process_count; i++)
		setter->pids[i] = (struct pid_place){ recording->processes[i].node->pid, i };
	qsort(setter->pids, recording->process_count, sizeof(*setter->pids), by_pid);
	return true;
}

/* SIZE_MAX: it is not among the tracks. */
static size_t track_of(const struct setter *setter, const struct snap_wait_party *party)
{
	const struct snap_recording *recording = setter->recording;
	const struct pid_place *pids = setter->pids;
	const struct snap_track *tracks = recording->tracks;
	size_t at = snap_first_not(recording->process_count, i, pids[i].pid < party->pid), process;

	if (party->outside || at == recording->process_count || pids[at].pid != party->pid)
		return SIZE_MAX;
	process = pids[at].process;
	at = snap_first_not(recording->track_count, i,
			    tracks[i].process != process ? tracks[i].process < process
							 : tracks[i].tid < party->tid);
	return at < recording->track_count && tracks[at].process == process &&
			       tracks[at].tid == party->tid
		       ? at
		       : SIZE_MAX;
}

static bool keeps_recorded_owner(const struct snap_wait *wait)
{
	return wait->has_owner ||
	       (wait->owner_lack != SNAP_OWNER_KNOWN && wait->owner_lack != SNAP_OWNER_NOT_KEPT);
}

static bool fill_wait(const struct setter *setter, const struct shared *shared,
		      struct snap_recorded_wait *ret)
{
	struct snap_arena *arena = &setter->recording->arena;
	const struct snap_wait *from = shared->wait;
	struct snap_wait *wait = snap_arena_memdup(arena, from, sizeof(*from));

	*ret = (struct snap_recorded_wait){ .process = shared->process, .wait = wait };
	if (!wait)
		return false;
	wait->holders = wait->hints = NULL;
	wait->holder_count = wait->hint_count = 0;
	wait->has_owner = false;
	wait->owner = (struct snap_wait_party){ .tid = 0 };
	if (!keeps_recorded_owner(from))
		return true;
	wait->owner_lack = SNAP_OWNER_KNOWN;
	ret->owners = snap_arena_new(arena, struct snap_owner_span);
	if (!ret->owners)
		return false;
	ret->owner_count = 1;
	*ret->owners = (struct snap_owner_span){
		.track = from->has_owner ? track_of(setter, &from->owner) : SIZE_MAX,
		.tid = from->owner.tid,
		.lack = from->owner_lack,
	};
	return true;
}

/* ---- all ---- */

bool snap_recording_set_waits(struct snap_recording *recording)
{
	_cleanup_(setter_deinit) struct setter setter = { .recording = recording };
	_cleanup_free_ uint32_t *numbers = NULL;
	size_t waiting = snap_sum(recording->track_count, i, recording->tracks[i].wait != NULL);

	setter.shared = malloc((waiting + 1) * sizeof(*setter.shared));
	numbers = malloc((waiting + 1) * sizeof(*numbers));
	if (!setter.shared || !numbers || !list_recorded_pids(&setter))
		return false;
	for (size_t i = 0; i < recording->track_count; i++)
		if (recording->tracks[i].wait && !share_holders(&setter, &recording->tracks[i]))
			return false;
	recording->waits = snap_arena_new_array(&recording->arena, setter.count + 1,
						struct snap_recorded_wait);
	if (!recording->waits)
		return false;
	qsort(setter.shared, setter.count, sizeof(*setter.shared), by_object);
	for (size_t i = 0; i < setter.count; i++) {
		numbers[setter.shared[i].index] = (uint32_t)i;
		if (!fill_wait(&setter, &setter.shared[i], &recording->waits[i]))
			return false;
	}
	recording->wait_count = setter.count;
	for (size_t i = 0; i < recording->track_count; i++)
		if (recording->tracks[i].wait)
			recording->tracks[i].runs->wait =
				numbers[recording->tracks[i].runs->wait - 1] + 1;
	return true;
}
