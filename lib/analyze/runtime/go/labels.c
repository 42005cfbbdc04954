/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Labels of goroutines (runtime/pprof): a slice of pairs since Go 1.24, a map before. A goroutine
 * shares the labels of the goroutine that made it, so they are read once. Knows no goroutine.
 */
#include "analyze/runtime/go/internal.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

/* Of Go's maps, src/runtime/map.go. */
enum {
	MAP_BYTES = 32,
	MAP_LOG_BUCKETS = 9,
	MAP_FLAGS = 8,
	MAP_BUCKETS = 16,
	MAP_OLD_BUCKETS = 24,
	SAME_SIZE_GROW = 8,
	BUCKET_BYTES = 272,
	BUCKET_KEYS = 8,
	BUCKET_VALUES = 8 + 8 * 16,
	BUCKET_NEXT = 264,
	SLOTS = 8,
	LEAST_USED = 5,      /* tophash of a slot that is used */
	FIRST_EVACUATED = 2, /* tophash[0] of a bucket that has moved, up to the next */
	LAST_EVACUATED = 4,
	MOST_LOG_BUCKETS = 8,
	MOST_CHAIN = 64,
	MOST_TEXT_IN_ALL = 1 << 29, /* bytes of texts, however often the same ones are read */
};

/* Labels that are being read. */
struct reading {
	struct snap_go *go;
	struct snap_label list[SNAP_GO_MOST_LABELS];
	size_t count;
	bool cut;
};

static const char *label_text_at(struct reading *reading, const uint8_t *header)
{
	uint64_t address = snap_runtime_field(header, 0, 8),
		 length = snap_runtime_field(header, 8, 8);
	char text[SNAP_MAX_NAME];
	const char *made;

	if (length > sizeof(text)) {
		length = sizeof(text);
		reading->cut = true;
	}
	reading->go->label_bytes += length;
	if (length > 0 && !snap_go_read_constant(reading->go, address, text, length)) {
		reading->cut = true;
		return NULL;
	}
	made = snap_intern(reading->go->process->strings, text, length);
	reading->go->no_memory |= !made;
	return made;
}

static void add_go_label(struct reading *reading, const uint8_t *key, const uint8_t *value)
{
	struct snap_label label;

	if (reading->count == SNAP_GO_MOST_LABELS ||
	    reading->go->label_bytes >= (uint64_t)MOST_TEXT_IN_ALL ||
	    reading->go->labels_in_all >= SNAP_GO_MOST_LABELS_IN_ALL) {
		reading->cut = true;
		return;
	}
	reading->go->labels_in_all++;
	label.key = label_text_at(reading, key);
	label.value = label.key ? label_text_at(reading, value) : NULL;
	if (label.value)
		reading->list[reading->count++] = label;
}

/* ---- slices ---- */

static void read_slice(struct reading *reading, uint64_t pointer)
{
	uint64_t header[2];
	uint8_t pair[32];

	if (!snap_runtime_read(reading->go->process, pointer, header, sizeof(header))) {
		reading->cut = true;
		return;
	}
	if (header[1] > SNAP_GO_MOST_LABELS) {
		header[1] = SNAP_GO_MOST_LABELS;
		reading->cut = true;
	}
	for (uint64_t i = 0; i < header[1]; i++) {
		if (!snap_runtime_read(reading->go->process, header[0] + i * sizeof(pair), pair,
				       sizeof(pair))) {
			reading->cut = true;
			return;
		}
		add_go_label(reading, pair, pair + 16);
	}
}

/* ---- maps ---- */

static void read_bucket(struct reading *reading, uint64_t address, bool is_old)
{
	uint8_t bucket[BUCKET_BYTES];

	for (unsigned i = 0; i < MOST_CHAIN && address != 0; i++) {
		if (!snap_runtime_read(reading->go->process, address, bucket, sizeof(bucket))) {
			reading->cut = true;
			return;
		}
		if (is_old && bucket[0] >= FIRST_EVACUATED && bucket[0] <= LAST_EVACUATED)
			return;
		for (unsigned slot = 0; slot < SLOTS; slot++)
			if (bucket[slot] >= LEAST_USED)
				add_go_label(reading, bucket + BUCKET_KEYS + slot * 16,
					     bucket + BUCKET_VALUES + slot * 16);
		address = snap_runtime_field(bucket, BUCKET_NEXT, 8);
	}
	reading->cut |= address != 0;
}

SNAP_ORDER(compare_labels, struct snap_label, a, b, strcmp(a->key, b->key));

/* The same key twice: a map that was read while it grew. */
static bool keys_differ(const struct reading *reading)
{
	for (size_t i = 1; i < reading->count; i++)
		if (reading->list[i].key == reading->list[i - 1].key)
			return false;
	return true;
}

static void read_map(struct reading *reading, uint64_t pointer)
{
	uint8_t map[MAP_BYTES];
	uint64_t address, old;
	unsigned log;

	if (!snap_runtime_word(reading->go->process, pointer, &address)) {
		reading->cut = true;
		return;
	}
	if (address == 0)
		return;
	if (!snap_runtime_read(reading->go->process, address, map, sizeof(map)) ||
	    map[MAP_LOG_BUCKETS] > MOST_LOG_BUCKETS) {
		reading->cut = true;
		return;
	}
	log = map[MAP_LOG_BUCKETS];
	for (uint64_t i = 0; i < 1u << log && snap_runtime_field(map, MAP_BUCKETS, 8); i++)
		read_bucket(reading, snap_runtime_field(map, MAP_BUCKETS, 8) + i * BUCKET_BYTES,
			    false);
	old = snap_runtime_field(map, MAP_OLD_BUCKETS, 8);
	if (!(map[MAP_FLAGS] & SAME_SIZE_GROW) && log > 0)
		log--;
	for (uint64_t i = 0; old != 0 && i < 1u << log; i++)
		read_bucket(reading, old + i * BUCKET_BYTES, true);
	qsort(reading->list, reading->count, sizeof(*reading->list), compare_labels);
	reading->cut |= snap_runtime_field(map, 0, 8) != reading->count || !keys_differ(reading);
}

/* ---- all of them ---- */

static struct snap_go_labels *add_go_labels(struct snap_go *go, const struct reading *reading)
{
	struct snap_go_labels *labels;

	if (!snap_reserve_array(go->labels, go->label_capacity, go->label_count + 1)) {
		go->no_memory = true;
		return NULL;
	}
	labels = &go->labels[go->label_count];
	*labels = (struct snap_go_labels){ .count = reading->count, .cut = reading->cut };
	if (reading->count > 0)
		labels->list = snap_arena_memdup(go->process->arena, reading->list,
						 reading->count * sizeof(*reading->list));
	if (reading->count > 0 && !labels->list) {
		go->no_memory = true;
		return NULL;
	}
	go->label_count++;
	return labels;
}

const struct snap_go_labels *snap_go_labels(struct snap_go *go, uint64_t pointer)
{
	struct reading reading = { .go = go, .count = 0 };
	struct snap_pointer_entry *entry;
	struct snap_go_labels *labels;

	if (pointer == 0)
		return NULL;
	entry = snap_pointer_table_get(&go->label_table, (void *)(uintptr_t)pointer);
	if (!entry) {
		go->no_memory = true;
		return NULL;
	}
	if (entry->number > 0)
		return &go->labels[entry->number - 1];
	if (go->layout->labels_are_slices)
		read_slice(&reading, pointer);
	else
		read_map(&reading, pointer);
	labels = add_go_labels(go, &reading);
	if (labels)
		entry->number = go->label_count;
	return labels;
}
