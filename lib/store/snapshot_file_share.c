/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What many point to, once: see snapshot_file_inside.h. Knows nothing of what it is. */
#include "store/snapshot_file_inside.h"

#include <string.h>

enum { FIRST_SLOTS = 1024 };

/* Renderers make no more of a snapshot than this, about, so that a report has an end. */
static const uint64_t MOST_SHOWN = 1ull << 33;

void snap_shared_deinit(struct snap_shared *shared)
{
	free(shared->items);
	free(shared->slots);
	*shared = (struct snap_shared){ 0 };
}

static struct snap_shared_slot *find(struct snap_shared_slot *slots, size_t slot_count,
				     const void *pointer, uint64_t count)
{
	uint64_t hash = ((uint64_t)(uintptr_t)pointer + count) * 0x9e3779b97f4a7c15ull;
	size_t k = (size_t)(hash >> 20) & (slot_count - 1);

	while (slots[k].number && (slots[k].pointer != pointer || slots[k].count != count))
		k = (k + 1) & (slot_count - 1);
	return &slots[k];
}

static bool grow(struct snap_shared *shared)
{
	size_t slot_count = shared->slot_count ? shared->slot_count * 2 : FIRST_SLOTS;
	struct snap_shared_slot *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < shared->slot_count; i++) {
		const struct snap_shared_slot *old = &shared->slots[i];

		if (old->number)
			*find(slots, slot_count, old->pointer, old->count) = *old;
	}
	free(shared->slots);
	shared->slots = slots;
	shared->slot_count = slot_count;
	return true;
}

/* From here on nothing is written, but counted: what was written is of no use. */
static void give_up(struct snap_snapshot_codec *to)
{
	to->no_memory = true;
	to->codec.mode = SNAP_CODEC_COUNT;
}

static bool write_number(struct snap_snapshot_codec *to, struct snap_shared *shared,
			 const void *pointer, uint64_t count)
{
	struct snap_shared_slot *slot = NULL;
	uint32_t number;
	bool new;

	if (2 * shared->count < shared->slot_count || grow(shared))
		slot = find(shared->slots, shared->slot_count, pointer, count);
	else
		give_up(to);
	new = !slot || slot->number == 0;
	if (new) {
		shared->count++;
		if (slot)
			*slot = (struct snap_shared_slot){ pointer, count,
							   (uint32_t)shared->count };
	}
	number = slot ? slot->number : 0;
	snap_code_u32(&to->codec, &number);
	return new;
}

static void count_shown(struct snap_snapshot_codec *to, uint64_t shown)
{
	to->shown += shown;
	if (to->shown > MOST_SHOWN)
		snap_codec_refuse(&to->codec, "its report would never end");
}

bool snap_share_begin(struct snap_snapshot_codec *to, struct snap_shared *shared,
		      const void **pointer, uint64_t *count)
{
	uint32_t number = 0;

	if (!snap_codec_reads(&to->codec))
		return write_number(to, shared, *pointer, *count);
	*pointer = NULL;
	*count = 0;
	snap_code_u32(&to->codec, &number);
	if (to->codec.problem)
		return false;
	if (number && number - 1 == shared->count)
		return true;
	if (number == 0 || number > shared->count) {
		snap_codec_refuse(&to->codec, "a number stands for nothing");
		return false;
	}
	*pointer = shared->items[number - 1].pointer;
	*count = shared->items[number - 1].count;
	count_shown(to, shared->items[number - 1].shown);
	return false;
}

void snap_share_end(struct snap_snapshot_codec *to, struct snap_shared *shared,
		    struct snap_shared_item item)
{
	if (!snap_codec_reads(&to->codec) || to->codec.problem)
		return;
	if (!snap_grow_array(shared->items, shared->item_capacity, shared->count)) {
		snap_codec_refuse(&to->codec, "there is not enough memory for it");
		to->no_memory = true;
		return;
	}
	shared->items[shared->count++] = item;
	count_shown(to, item.shown);
}

/* NULL is one of them, and takes nothing. */
void snap_share_text(struct snap_snapshot_codec *to, const char **text, size_t most)
{
	bool reads = snap_codec_reads(&to->codec);
	uint64_t size = !reads && *text ? strnlen(*text, most) + 1 : 0;
	const void *pointer = *text;

	if (!snap_share_begin(to, &to->texts, &pointer, &size)) {
		if (!reads)
			return;
		*text = pointer;
		snap_codec_check(&to->codec, size <= (uint64_t)most + 1, "a text is too long");
		return;
	}
	snap_code_text(&to->codec, text, most);
	if (!reads)
		return;
	size = *text ? strlen(*text) + 1 : 0;
	snap_share_end(to, &to->texts, (struct snap_shared_item){ *text, size, size });
}

void snap_code_at_most(struct snap_snapshot_codec *to, size_t *value, uint64_t most)
{
	uint64_t number = *value;

	snap_code_u64(&to->codec, &number);
	snap_codec_check(&to->codec, number <= most, "a number is too large");
	if (snap_codec_reads(&to->codec))
		*value = to->codec.problem ? 0 : (size_t)number;
}

void snap_code_length(struct snap_snapshot_codec *to, int64_t *value)
{
	snap_code_i64(&to->codec, value);
	snap_codec_check(&to->codec, *value >= 0, "a length is negative");
}
