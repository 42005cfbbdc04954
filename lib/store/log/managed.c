/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed frames of a log, once each with their names, and labels of stacks: see index.h. A managed
 * frame is only its name. Knows nothing of stacks.
 */
#include "base/buffer.h"
#include "base/text.h"
#include "store/log/index.h"

#include <string.h>

static uint64_t hash_text(const char *text, uint64_t hash)
{
	return text ? snap_hash_bytes(text, strlen(text) + 1, hash) : snap_hash_add(1, hash);
}

/* ---- frames ---- */

uint64_t snap_log_managed_bits(const struct snap_frame *frame)
{
	uint64_t hash = snap_hash_add(frame->address, frame->entry_count);

	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		hash = hash_text(entry->function, hash);
		hash = hash_text(entry->symbol, hash);
		hash = hash_text(entry->file, hash);
		hash = hash_text(entry->language, hash);
		hash = snap_hash_add(((uint64_t)entry->line << 32) + entry->column, hash);
	}
	return hash;
}

static bool is_same_entry(const struct snap_entry *a, const struct snap_entry *b)
{
	return a->line == b->line && a->column == b->column && a->inlined == b->inlined &&
	       a->system == b->system && snap_same_text(a->function, b->function) &&
	       snap_same_text(a->symbol, b->symbol) && snap_same_text(a->file, b->file) &&
	       snap_same_text(a->language, b->language);
}

static bool is_same_frame(const struct snap_frame *a, const struct snap_frame *b)
{
	bool same = a->address == b->address && a->entry_count == b->entry_count;

	for (size_t i = 0; same && i < a->entry_count; i++)
		same = is_same_entry(&a->entries[i], &b->entries[i]);
	return same;
}

static struct stacksnap_error *add_managed(struct snap_log *log, uint32_t space, uint64_t bits,
					   const struct snap_frame *frame, uint32_t *ret)
{
	const struct snap_frame bare = { .address = frame->address,
					 .entries = frame->entries,
					 .entry_count = frame->entry_count };

	if (log->frame_count >= SNAP_LOG_MAX_FRAMES)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "the recording has too many different frames");
	if (!snap_reserve_array(log->frames, log->frame_capacity, log->frame_count + 1) ||
	    !snap_reserve_array(log->names, log->name_capacity, log->name_count + 1) ||
	    !snap_frame_copy(&log->strings, &bare, &log->names[log->name_count]) ||
	    !snap_hash_table_add(&log->index->frames, snap_log_hash_frame(space, bits),
				 log->frame_count))
		return snap_error_no_memory();
	*ret = (uint32_t)log->frame_count++;
	log->frames[*ret] = (struct snap_log_frame){ .bits = bits,
						     .space = space,
						     .name = (uint32_t)++log->name_count,
						     .is_managed = true };
	snap_log_charge_frame(log, *ret);
	return NULL;
}

struct stacksnap_error *snap_log_find_managed(struct snap_log *log, uint32_t space,
					      const struct snap_frame *frame, bool add,
					      uint32_t *ret)
{
	uint64_t bits = snap_log_managed_bits(frame);

	if (snap_hash_got(&log->index->frames, snap_log_hash_frame(space, bits), i,
			  log->frames[i].is_managed && log->frames[i].bits == bits &&
				  log->frames[i].space == space &&
				  is_same_frame(&log->names[log->frames[i].name - 1], frame),
			  ret))
		return NULL;
	*ret = UINT32_MAX;
	return add ? add_managed(log, space, bits, frame, ret) : NULL;
}

/* ---- labels ---- */

uint64_t snap_log_hash_labels(const struct snap_log_labels *set)
{
	uint64_t hash = snap_hash_add(set->space, set->count);

	for (size_t i = 0; i < set->count; i++)
		hash = hash_text(set->labels[i].value, hash_text(set->labels[i].key, hash));
	return hash;
}

static bool is_same_set(const struct snap_log_labels *a, const struct snap_log_labels *b)
{
	bool same = a->space == b->space && a->count == b->count;

	for (size_t i = 0; same && i < a->count; i++)
		same = strcmp(a->labels[i].key, b->labels[i].key) == 0 &&
		       strcmp(a->labels[i].value, b->labels[i].value) == 0;
	return same;
}

static bool add_managed_labels(struct snap_log *log, const struct snap_log_labels *from,
			       uint64_t hash)
{
	struct snap_log_labels set = *from;

	set.labels =
		snap_arena_memdup(&log->arena, from->labels, from->count * sizeof(*from->labels));
	if (!set.labels)
		return false;
	for (size_t i = 0; i < set.count; i++)
		if (!snap_intern_text(&log->strings, &set.labels[i].key, SNAP_MAX_NAME) ||
		    !snap_intern_text(&log->strings, &set.labels[i].value, SNAP_MAX_NAME))
			return false;
	if (!snap_reserve_array(log->label_sets, log->label_set_capacity,
				log->label_set_count + 1) ||
	    !snap_hash_table_add(&log->index->label_sets, hash, log->label_set_count))
		return false;
	log->label_sets[log->label_set_count++] = set;
	snap_log_charge_labels(log, (uint32_t)log->label_set_count - 1);
	return true;
}

struct stacksnap_error *snap_log_find_labels(struct snap_log *log, uint32_t space,
					     const struct snap_label *labels, size_t count,
					     bool add, uint32_t *ret)
{
	struct snap_log_labels set = { (struct snap_label *)(uintptr_t)labels, (uint32_t)count,
				       space };
	uint64_t hash;

	*ret = 0;
	if (count == 0)
		return NULL;
	if (count > SNAP_LOG_MAX_LABELS)
		set.count = SNAP_LOG_MAX_LABELS;
	hash = snap_log_hash_labels(&set);
	if (snap_hash_got(&log->index->label_sets, hash, i, is_same_set(&log->label_sets[i], &set),
			  ret)) {
		++*ret;
		return NULL;
	}
	if (!add) {
		*ret = UINT32_MAX;
		return NULL;
	}
	if (log->label_set_count >= SNAP_LOG_MAX_LABEL_SETS) {
		log->cuts |= SNAP_LOG_CUT_LABELS;
		return NULL;
	}
	SNAP_TRY(snap_no_memory_unless(add_managed_labels(log, &set, hash)));
	*ret = (uint32_t)log->label_set_count;
	return NULL;
}
