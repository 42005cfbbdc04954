/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The waits of a log when it drops unreferenced elements: see compaction.h. Threads and owner changes
 * keep their object; objects and owner changes keep their wait bytes; descriptors keep the socket that
 * they lead to, and its other end; the meaning of a pair stays while both of its parts do.
 */
#include "base/buffer.h"
#include "store/log/compaction.h"

#include <string.h>

/* ---- marking ---- */

static void mark_words(struct snap_log_compaction *compaction, uint32_t words)
{
	if (words)
		compaction->words.to[words - 1] = 1;
}

void snap_log_mark_waits(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	for (size_t i = 0; i < log->owner_count; i++) {
		compaction->objects.to[log->owners[i].object] = 1;
		mark_words(compaction, log->owners[i].words);
	}
	for (size_t i = 0; i < log->object_count; i++) {
		if (!compaction->objects.to[i])
			continue;
		mark_words(compaction, log->objects[i].words);
		mark_words(compaction, log->index->held[i].words);
		if (i < log->owners_before_count)
			mark_words(compaction, log->owners_before[i]);
	}
}

/* ---- copies ---- */

static bool copy_words(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	compaction->kept_words = calloc(log->words_count + 1, sizeof(*compaction->kept_words));
	for (size_t i = 0; compaction->kept_words && i < log->words_count; i++) {
		uint32_t to = compaction->words.to[i];

		if (to == UINT32_MAX)
			continue;
		compaction->kept_words[to] = log->words[i];
		if (!snap_log_copy_wait_bytes(&compaction->arena, &compaction->kept_words[to]))
			return false;
	}
	return compaction->kept_words;
}

static bool copy_objects(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	compaction->kept_objects = calloc(log->object_count + 1, sizeof(*compaction->kept_objects));
	for (size_t i = 0; compaction->kept_objects && i < log->object_count; i++) {
		uint32_t to = compaction->objects.to[i];
		struct snap_log_object *object;

		if (to == UINT32_MAX)
			continue;
		object = &compaction->kept_objects[to];
		*object = log->objects[i];
		if (object->words)
			object->words = compaction->words.to[object->words - 1] + 1;
		if (!snap_log_copy_descriptors(&compaction->strings, object))
			return false;
	}
	return compaction->kept_objects;
}

/* Those whose inodes are in the table of pointers, which are no pointers. */
static bool copy_sockets(const struct snap_log *log, struct snap_log_compaction *compaction,
			 const struct snap_pointer_table *inodes)
{
	size_t count = log->socket_count;

	compaction->sockets = calloc(count + 1, sizeof(*compaction->sockets));
	compaction->socket_stamps = calloc(count + 1, sizeof(*compaction->socket_stamps));
	if (!compaction->sockets || !compaction->socket_stamps)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct snap_socket *from = &log->sockets[i];
		struct snap_socket *socket = &compaction->sockets[compaction->socket_count];

		if (!snap_pointer_table_find(inodes, (void *)(uintptr_t)from->inode) &&
		    !snap_pointer_table_find(inodes, (void *)(uintptr_t)from->peer))
			continue;
		*socket = *from;
		if (!snap_intern_text(&compaction->strings, &socket->name, SIZE_MAX))
			return false;
		compaction->socket_stamps[compaction->socket_count++] =
			log->index->socket_stamps[i];
	}
	return true;
}

static bool find_inodes(const struct snap_log *log, const struct snap_log_compaction *compaction,
			struct snap_pointer_table *inodes)
{
	for (size_t i = 0; log->socket_count && i < log->object_count; i++) {
		const struct snap_log_object *object = &log->objects[i];

		if (compaction->objects.to[i] == UINT32_MAX)
			continue;
		for (uint32_t k = 0; k < object->descriptor_count; k++) {
			uint64_t inode = object->descriptors[k].inode;

			if (object->descriptors[k].kind == SNAP_DESCRIPTOR_SOCKET && inode &&
			    !snap_pointer_table_get(inodes, (void *)(uintptr_t)inode))
				return false;
		}
	}
	return true;
}

static bool copy_explained(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	compaction->explained = calloc(log->explained_count + 1, sizeof(*compaction->explained));
	for (size_t i = 0; compaction->explained && i < log->explained_count; i++) {
		const struct snap_log_explained *from = &log->explained[i];
		struct snap_log_explained *to = &compaction->explained[compaction->explained_count];
		struct snap_wait *wait;

		to->stack = compaction->stacks.to[from->stack];
		to->object = compaction->objects.to[from->object];
		if (to->stack == UINT32_MAX || to->object == UINT32_MAX)
			continue;
		compaction->explained_count++;
		if (!from->wait)
			continue;
		wait = snap_arena_new(&compaction->arena, struct snap_wait);
		if (!wait || !snap_wait_copy(&compaction->strings, from->wait, wait))
			return false;
		to->wait = wait;
	}
	return compaction->explained;
}

bool snap_log_copy_waits(const struct snap_log *log, struct snap_log_compaction *compaction)
{
	_cleanup_(snap_pointer_table_deinit) struct snap_pointer_table inodes = { .count = 0 };

	return copy_words(log, compaction) && copy_objects(log, compaction) &&
	       find_inodes(log, compaction, &inodes) && copy_sockets(log, compaction, &inodes) &&
	       copy_explained(log, compaction);
}

/* ---- renumbering ---- */

static void move_words(const struct snap_log_compaction *compaction, uint32_t *words)
{
	if (*words)
		*words = compaction->words.to[*words - 1] + 1;
}

static void move_held(struct snap_log *log, const struct snap_log_compaction *compaction)
{
	struct snap_log_last_owner *held = log->index->held;
	size_t before = 0;

	for (size_t i = 0; i < log->object_count; i++) {
		uint32_t to = compaction->objects.to[i];

		if (to == UINT32_MAX)
			continue;
		held[to] = held[i];
		move_words(compaction, &held[to].words);
		if (i < log->owners_before_count) {
			log->owners_before[to] = log->owners_before[i];
			move_words(compaction, &log->owners_before[to]);
			before = to + (size_t)1;
		}
	}
	log->owners_before_count = before;
	for (size_t i = 0; i < log->owner_count; i++) {
		log->owners[i].object = compaction->objects.to[log->owners[i].object];
		move_words(compaction, &log->owners[i].words);
	}
}

static void move_array(void *to, const void *from, size_t count, size_t size)
{
	if (count)
		memcpy(to, from, count * size);
}

static void shrink_waits(struct snap_log *log)
{
	struct snap_log_index *index = log->index;

	snap_log_shrink(log->words, log->words_capacity, log->words_count);
	snap_log_shrink(log->objects, log->object_capacity, log->object_count);
	snap_log_shrink(index->held, index->held_capacity, log->object_count);
	snap_log_shrink(log->owners_before, index->owners_before_capacity,
			log->owners_before_count);
	snap_log_shrink(log->sockets, log->socket_capacity, log->socket_count);
	snap_log_shrink(index->socket_stamps, index->socket_stamp_capacity, log->socket_count);
	snap_log_shrink(log->explained, log->explained_capacity, log->explained_count);
}

void snap_log_move_waits(struct snap_log *log, const struct snap_log_compaction *compaction)
{
	move_held(log, compaction);
	log->words_count = snap_log_kept_count(&compaction->words);
	move_array(log->words, compaction->kept_words, log->words_count, sizeof(*log->words));
	log->object_count = snap_log_kept_count(&compaction->objects);
	move_array(log->objects, compaction->kept_objects, log->object_count,
		   sizeof(*log->objects));
	log->socket_count = compaction->socket_count;
	move_array(log->sockets, compaction->sockets, log->socket_count, sizeof(*log->sockets));
	move_array(log->index->socket_stamps, compaction->socket_stamps, log->socket_count,
		   sizeof(*log->index->socket_stamps));
	log->explained_count = compaction->explained_count;
	move_array(log->explained, compaction->explained, log->explained_count,
		   sizeof(*log->explained));
	shrink_waits(log);
}
