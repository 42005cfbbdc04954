/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bytes that a log takes, for tests of its limits: counted again from all that it has, as the log
 * itself only keeps sums. Does not know what the kernel adds.
 */
#pragma once

#include "store/log/index.h"

static inline size_t log_bytes(const struct snap_log *log)
{
	const struct snap_log_index *index = log->index;
	size_t bytes = log->arena.total + log->capture->arena.total + index->blob_bytes;

	for (size_t i = 0; i < log->capture->process_count; i++)
		bytes += log->spaces[i].arena.total +
			 log->capture->processes[i].map_count * sizeof(struct snap_map) +
			 index->spaces[i].blob_count * (sizeof(struct snap_piece) + sizeof(void *));
	bytes += log->process_capacity * sizeof(*log->processes);
	bytes += log->thread_capacity * (sizeof(*log->threads) + sizeof(*index->standing));
	bytes += log->task_capacity * sizeof(*log->tasks);
	bytes += log->frame_capacity * sizeof(*log->frames);
	bytes += log->frame_id_capacity * sizeof(*log->frame_ids);
	bytes += log->stack_capacity * sizeof(*log->stacks);
	bytes += log->name_capacity * sizeof(*log->names);
	bytes += (log->tick_capacity + index->tick_gap) * sizeof(*log->ticks);
	bytes += (log->change_capacity + index->change_gap) * sizeof(*log->changes);
	bytes += log->before_count * sizeof(*log->before);
	bytes += log->words_capacity * sizeof(*log->words);
	bytes += log->object_capacity * (sizeof(*log->objects) + sizeof(*index->held));
	bytes += (log->owner_capacity + index->hold_gap) * sizeof(*log->owners);
	bytes += (log->wake_capacity + index->wake_gap) * sizeof(*log->wakes);
	bytes += log->socket_capacity * sizeof(*log->sockets);
	bytes += log->explained_capacity * sizeof(*log->explained);
	bytes += snap_hash_table_bytes(&index->frames) + snap_hash_table_bytes(&index->stacks);
	bytes += snap_hash_table_bytes(&index->words) + snap_hash_table_bytes(&index->objects);
	return bytes;
}
