/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child's view of address spaces: the mappings, the first page of each module, the
 * vDSO. Workers read them while the target runs; again inside the pause only where they turn out to
 * be stale.
 */
#include "proc/address_space.h"

#include "stop/child/internal.h"

#include <errno.h>

enum {
	NEAR_MAPS = 3, /* the stack of the next thread is so near */
	SAMPLES = 32,  /* stacks that are measured before the stop */
};

static uint32_t count_wanted(const struct snap_tracer *tracer)
{
	return snap_sum(tracer->stop->process_count, i, tracer->maps_wanted[i]);
}

/* Makes a list of the wanted maps, and clears the wish; NULL: memory is used up. */
static struct snap_maps_list *list_wanted(struct snap_tracer *tracer, uint32_t count)
{
	struct snap_maps_list *list = snap_region_alloc(&tracer->lists, sizeof(*list));
	struct snap_maps_item *items =
		snap_region_new_array(&tracer->lists, count, struct snap_maps_item);
	int64_t *signs = snap_region_new_array(&tracer->lists, count, int64_t);
	uint32_t step = tracer->count / SAMPLES + 1, at = 0;

	if (!list || !items || !signs)
		return NULL;
	for (uint32_t i = 0; at < count; i++) {
		const struct snap_tracee *leader;

		if (!tracer->maps_wanted[i])
			continue;
		tracer->maps_wanted[i] = false;
		leader = snap_tracer_leader(tracer, i);
		items[at++] = (struct snap_maps_item){
			.process = i,
			.tid = leader && leader->phase == SNAP_TRACEE_STOPPED ? leader->tid : 0,
		};
	}
	*list = (struct snap_maps_list){
		.reader = tracer->reader,
		.items = items,
		.signs = signs,
		.sample_step = step > 1 && !tracer->stopping ? step : 0,
		.may_probe = tracer->may_probe && !tracer->stopping,
	};
	return list;
}

/* Takes what is complete, even from a late worker. */
static void take_space(struct snap_traced *traced, const struct snap_maps_item *item)
{
	traced->maps = item->space.maps;
	traced->map_count = item->space.map_count;
	traced->maps_cut = item->space.cut;
	traced->credentials = item->credentials;
	traced->pieces = item->space.pieces;
	traced->piece_count = __atomic_load_n(&item->space.piece_count, __ATOMIC_ACQUIRE);
}

static void take_item(struct snap_tracer *tracer, const struct snap_maps_item *item, bool late)
{
	struct snap_traced *traced = &tracer->stop->processes[item->process];
	enum snap_reached place = __atomic_load_n(&item->reached, __ATOMIC_ACQUIRE);
	bool reached = place >= SNAP_REACHED_MAPS;

	if (reached && (late || !item->error))
		take_space(traced, item);
	if (late) {
		traced->stalled |= reached || tracer->stopping;
		/* No worker has begun with it, so the process is not to blame. */
		if (place == SNAP_REACHED_NOTHING && !tracer->stopping)
			traced->left_out = true;
		else if (!reached && !tracer->stopping)
			traced->unresponsive = SNAP_UNRESPONSIVE_MAPS;
		return;
	}
	traced->maps_error = snap_procfs_is_gone(item->error) ? 0 : -item->error;
	traced->runtimes |= item->runtimes;
	tracer->sample_bytes += item->sample_bytes;
	tracer->sample_count += item->sample_count;
	/* Only readable processes have maps; SEIZE will show as well whether it can be traced. */
	if ((item->error == -EACCES || item->error == -EPERM) && !tracer->stopping)
		traced->error = -item->error;
}

void snap_tracer_read_maps(struct snap_tracer *tracer, int64_t patience_ns, int64_t until_ns)
{
	uint32_t count = count_wanted(tracer);
	struct snap_maps_list *list = count ? list_wanted(tracer, count) : NULL;
	struct snap_work work = {
		.run = snap_stop_reader_read_maps,
		.context = list,
		.count = count,
		.marks = snap_region_alloc(&tracer->lists, count),
		.patience_ns = patience_ns,
		.asleep_ns = snap_tracer_patience(tracer, patience_ns),
		.until_ns = until_ns,
		.here = tracer->first,
	};

	if (!list || !work.marks)
		return;
	work.signs = list->signs;
	snap_workers_run(&tracer->pool, &work);
	for (uint32_t i = 0; i < count; i++)
		take_item(tracer, &list->items[i], work.marks[i] != SNAP_ITEM_DONE);
}

const struct snap_map *snap_tracer_find_map(struct snap_tracer *tracer, uint32_t process,
					    uint64_t address)
{
	const struct snap_traced *traced = &tracer->stop->processes[process];
	size_t from = tracer->last_map > NEAR_MAPS ? tracer->last_map - NEAR_MAPS : 0;
	size_t low, high = traced->map_count;

	/* Threads that were made in sequence have stacks near each other. */
	for (size_t i = from; i < high && i <= tracer->last_map + NEAR_MAPS; i++) {
		const struct snap_map *map = &traced->maps[i];

		if (map->start <= address && address < map->end) {
			tracer->last_map = i;
			return map;
		}
	}
	low = snap_space_find(traced->maps, high, address);
	if (low == traced->map_count || traced->maps[low].start > address)
		return NULL;
	tracer->last_map = low;
	return &traced->maps[low];
}
