/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The objects of waits in a log, once each: see log.h. Knows nothing of what a call means.
 */
#include "base/buffer.h"
#include "base/text.h"
#include "store/log/index.h"

#include <assert.h>
#include <string.h>

/* The fields of a descriptor that identify it. */
static struct snap_descriptor bare_descriptor(const struct snap_descriptor *from)
{
	return (struct snap_descriptor){ .number = from->number,
					 .kind = from->kind,
					 .link = from->link,
					 .inode = from->inode,
					 .remaining_ns = -1 };
}

/* The fields that identify an object. */
static struct snap_log_object bare_object(const struct snap_log_object *from)
{
	struct snap_log_object object = *from;

	object.descriptor_count =
		SNAP_MIN(object.descriptor_count, SNAP_LOG_MAX_OBJECT_DESCRIPTORS);
	if (!object.is_futex || object.call.sp != object.call.arguments[0])
		object.call.sp = 0;
	object.call.pc = 0;
	object.call.thread_pointer = 0;
	object.words = 0;
	return object;
}

/* The bytes of a futex are not among them, as they change. */
static uint64_t hash_log_object(const struct snap_log_object *object)
{
	uint64_t hash = snap_hash_add(object->space, (uint64_t)object->call.number);

	hash = snap_hash_add(hash, object->is_futex + 2u * object->call.known);
	hash = snap_hash_bytes(object->call.arguments, sizeof(object->call.arguments), hash);
	hash = snap_hash_add(hash, object->call.sp);
	hash = snap_hash_add(hash, object->is_futex ? 0 : object->words);
	for (uint32_t i = 0; i < object->descriptor_count; i++) {
		const struct snap_descriptor *descriptor = &object->descriptors[i];

		hash = snap_hash_add(hash, (uint32_t)descriptor->number);
		hash = snap_hash_add(hash, descriptor->kind);
		hash = snap_hash_text(descriptor->link, snap_hash_add(hash, descriptor->inode));
	}
	return hash;
}

static bool same_descriptors(const struct snap_log_object *a, const struct snap_log_object *b)
{
	if (a->descriptor_count != b->descriptor_count)
		return false;
	for (uint32_t i = 0; i < a->descriptor_count; i++) {
		const struct snap_descriptor *left = &a->descriptors[i];
		const struct snap_descriptor *right = &b->descriptors[i];

		if (left->number != right->number || left->kind != right->kind ||
		    left->inode != right->inode || !snap_same_text(left->link, right->link))
			return false;
	}
	return true;
}

static bool is_same_object(const struct snap_log_object *a, const struct snap_log_object *b)
{
	return a->space == b->space && a->is_futex == b->is_futex &&
	       a->call.known == b->call.known && a->call.number == b->call.number &&
	       memcmp(a->call.arguments, b->call.arguments, sizeof(a->call.arguments)) == 0 &&
	       a->call.sp == b->call.sp && (a->is_futex || a->words == b->words) &&
	       same_descriptors(a, b);
}

static uint32_t known_object(const struct snap_log *log, const struct snap_log_object *object)
{
	struct snap_probe probe =
		snap_hash_table_probe(&log->index->objects, hash_log_object(object));

	while (snap_probe_next(&probe))
		if (is_same_object(&log->objects[probe.number], object))
			return probe.number + 1;
	return 0;
}

bool snap_log_copy_descriptors(struct snap_interner *strings, struct snap_log_object *object)
{
	const struct snap_descriptor *from = object->descriptors;
	struct snap_descriptor *descriptors;

	object->descriptors = NULL;
	if (!object->descriptor_count)
		return true;
	descriptors = snap_arena_new_array(strings->arena, object->descriptor_count,
					   struct snap_descriptor);
	for (uint32_t i = 0; descriptors && i < object->descriptor_count; i++) {
		descriptors[i] = bare_descriptor(&from[i]);
		if (!snap_intern_text(strings, &descriptors[i].link, SIZE_MAX))
			return false;
	}
	object->descriptors = descriptors;
	return descriptors;
}

/* Links are cut before they are compared. False without memory. */
static bool cut_links(struct snap_log *log, struct snap_log_object *object)
{
	for (uint32_t i = 0; i < object->descriptor_count; i++) {
		const char *link = object->descriptors[i].link;

		if (link && strnlen(link, SNAP_MAX_LINK) == SNAP_MAX_LINK)
			object->descriptors[i].link =
				snap_intern(&log->strings, link, SNAP_MAX_LINK - 1);
		if (link && !object->descriptors[i].link)
			return false;
	}
	return true;
}

static struct stacksnap_error *add_object(struct snap_log *log, struct snap_log_object *object,
					  uint32_t *ret)
{
	struct snap_log_index *index = log->index;
	uint32_t number = (uint32_t)log->object_count;

	if (!snap_reserve_array(log->objects, log->object_capacity, number + (size_t)1) ||
	    !snap_reserve_array(index->held, index->held_capacity, number + (size_t)1) ||
	    !snap_log_copy_descriptors(&log->strings, object) ||
	    !snap_hash_table_add(&index->objects, hash_log_object(object), number))
		return snap_error_no_memory();
	log->objects[number] = *object;
	index->held[number] = (struct snap_log_last_owner){ .words = 0 };
	log->object_count++;
	snap_log_charge_object(log, number);
	*ret = number + 1;
	/* The owners of a futex are a time line from its first moment on. */
	if (object->is_futex && object->words && index->in_tick)
		return snap_log_add_owner_change(log, number, object->words);
	return NULL;
}

static struct stacksnap_error *find_same_object(struct snap_log *log,
						struct snap_log_object *object,
						const struct snap_memory_image *words,
						uint32_t *ret)
{
	bool fits;

	*ret = 0;
	if (!object->is_futex)
		SNAP_TRY(
			snap_log_find_wait_bytes(log, object->space, words, false, &object->words));
	/* New wait bytes belong to a new object. */
	if (object->words != UINT32_MAX)
		*ret = known_object(log, object);
	if (*ret)
		return NULL;
	fits = log->object_count < SNAP_LOG_MAX_OBJECTS &&
	       snap_log_has_room_for_object(log, object->space);
	if (fits && (object->is_futex || object->words == UINT32_MAX)) {
		uint32_t asked = object->words;

		SNAP_TRY(snap_log_find_wait_bytes(log, object->space, words, true, &object->words));
		fits = object->is_futex || asked != UINT32_MAX || object->words;
	}
	if (!fits) {
		log->cuts |= SNAP_LOG_CUT_OBJECTS;
		return NULL;
	}
	return add_object(log, object, ret);
}

struct stacksnap_error *snap_log_find_object(struct snap_log *log,
					     const struct snap_log_object *asked,
					     const struct snap_memory_image *words, uint32_t *ret)
{
	struct snap_descriptor descriptors[SNAP_LOG_MAX_OBJECT_DESCRIPTORS];
	struct snap_log_object object = bare_object(asked);

	assert(object.space < log->capture->process_count &&
	       log->index->spaces[object.space].version);
	for (uint32_t i = 0; i < object.descriptor_count; i++)
		descriptors[i] = asked->descriptors[i];
	object.descriptors = descriptors;
	SNAP_TRY(snap_no_memory_unless(cut_links(log, &object)));
	return find_same_object(log, &object, words, ret);
}

bool snap_log_rebuild_wait_tables(struct snap_log *log)
{
	struct snap_log_index *index = log->index;

	snap_hash_table_deinit(&index->words);
	snap_hash_table_deinit(&index->objects);
	snap_hash_table_deinit(&index->sockets);
	snap_hash_table_deinit(&index->explained);
	for (size_t i = 0; i < log->words_count; i++)
		if (!snap_hash_table_add(&index->words, log->words[i].hash, i))
			return false;
	for (size_t i = 0; i < log->object_count; i++)
		if (!snap_hash_table_add(&index->objects, hash_log_object(&log->objects[i]), i))
			return false;
	return snap_all(log->socket_count, i,
			snap_hash_table_add(&index->sockets, snap_log_hash_socket(&log->sockets[i]),
					    i)) &&
	       snap_all(log->explained_count, i, snap_log_index_explained(log, i));
}
