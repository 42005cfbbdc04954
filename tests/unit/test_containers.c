/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The base: hash tables, what grows, and binary search, each against a simple model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

/* How many more allocations succeed: the linker sends all calls here. */
static size_t allocations_left = SIZE_MAX;

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool may_allocate(void)
{
	if (allocations_left == SIZE_MAX)
		return true;
	if (allocations_left == 0)
		return false;
	allocations_left--;
	return true;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *old, size_t size)
{
	return may_allocate() ? __real_realloc(old, size) : NULL;
}

/* Numbers that look random and are the same in each run. */
static uint64_t next_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return snap_hash_mix(snap_hash_mix(*state));
}

/* ---- the table ---- */

struct set {
	uint64_t *keys;
	size_t count, capacity;
	struct snap_hash_table table;
	uint64_t (*hash)(uint64_t key);
};

static uint64_t good_hash(uint64_t key)
{
	return snap_hash_mix(key);
}

/* Eight hashes for all keys, which are neighbours besides. */
static uint64_t poor_hash(uint64_t key)
{
	return key % 8 + 125;
}

static void set_deinit(struct set *set)
{
	free(set->keys);
	snap_hash_table_deinit(&set->table);
}

static size_t set_find(const struct set *set, uint64_t key)
{
	struct snap_probe probe = snap_hash_table_probe(&set->table, set->hash(key));

	while (snap_probe_next(&probe))
		if (set->keys[probe.number] == key)
			return probe.number;
	return SIZE_MAX;
}

static bool set_add(struct set *set, uint64_t key)
{
	if (!snap_reserve_array(set->keys, set->capacity, set->count + 1) ||
	    !snap_hash_table_add(&set->table, set->hash(key), set->count))
		return false;
	set->keys[set->count++] = key;
	return true;
}

static void check_against_model(uint64_t (*hash)(uint64_t), uint64_t range, size_t steps)
{
	_cleanup_(set_deinit) struct set set = { .hash = hash };
	_cleanup_free_ size_t *model = calloc(range, sizeof(*model)); /* number + 1 */
	uint64_t state = range;

	assert_non_null(model);
	for (size_t step = 0; step < steps; step++) {
		uint64_t key = next_random(&state) % range;
		size_t found = set_find(&set, key);

		assert_int_equal(found, model[key] - 1);
		if (found != SIZE_MAX)
			continue;
		assert_true(set_add(&set, key));
		model[key] = set.count;
	}
	assert_int_equal(set.table.count, set.count);
	assert_true(2 * set.table.count <= set.table.slot_count);
	assert_int_equal(set.table.slot_count & (set.table.slot_count - 1), 0);
	for (uint64_t key = 0; key < range; key++)
		assert_int_equal(set_find(&set, key), model[key] - 1);
}

static void test_table_is_like_a_model(void **state _unused_)
{
	check_against_model(good_hash, 1, 3);
	check_against_model(good_hash, 63, 1000);
	check_against_model(good_hash, 65, 1000);
	check_against_model(good_hash, 20000, 60000);
	check_against_model(poor_hash, 1000, 3000);
}

static void test_table_of_nothing(void **state _unused_)
{
	struct snap_hash_table table = { 0 };
	struct snap_probe probe = snap_hash_table_probe(&table, 7);

	assert_false(snap_probe_next(&probe));
	assert_false(snap_probe_next(&probe));
	assert_int_equal(snap_hash_table_bytes(&table), 0);
	snap_hash_table_clear(&table);
	snap_hash_table_deinit(&table);
	snap_hash_table_deinit(&table);
}

/* Elements of one hash come one after the other, those of its neighbours do not. */
static void test_table_gives_all_of_a_hash(void **state _unused_)
{
	struct snap_hash_table table = { 0 };
	struct snap_probe probe;
	size_t seen = 0;

	/* The last slots first, so that they go on at the beginning; half of the hash is kept. */
	for (size_t i = 0; i < 1000; i++)
		assert_true(snap_hash_table_add(&table, UINT64_MAX - i % 2, i));
	probe = snap_hash_table_probe(&table, UINT64_MAX & UINT32_MAX);
	for (; snap_probe_next(&probe); seen++)
		assert_int_equal(probe.number % 2, 0);
	assert_int_equal(seen, 500);
	assert_false(snap_probe_next(&probe));
	probe = snap_hash_table_probe(&table, 0);
	assert_false(snap_probe_next(&probe));
	snap_hash_table_deinit(&table);
}

static void test_table_clears(void **state _unused_)
{
	struct snap_hash_table table = { 0 };
	struct snap_probe probe;
	size_t bytes;

	for (size_t i = 0; i < 500; i++)
		assert_true(snap_hash_table_add(&table, snap_hash_mix(i), i));
	bytes = snap_hash_table_bytes(&table);
	snap_hash_table_clear(&table);
	assert_int_equal(table.count, 0);
	assert_int_equal(snap_hash_table_bytes(&table), bytes);
	for (size_t i = 0; i < 500; i++) {
		probe = snap_hash_table_probe(&table, snap_hash_mix(i));
		assert_false(snap_probe_next(&probe));
	}
	snap_hash_table_deinit(&table);
	assert_int_equal(snap_hash_table_bytes(&table), 0);
}

static void test_table_without_memory(void **state _unused_)
{
	_cleanup_(set_deinit) struct set set = { .hash = good_hash };
	size_t slots;

	allocations_left = 0;
	assert_false(snap_hash_table_add(&set.table, 1, 0));
	assert_false(snap_hash_table_reserve(&set.table, 1));
	assert_null(set.table.slots);
	allocations_left = SIZE_MAX;
	for (uint64_t key = 0; 2 * set.count < set.table.slot_count || key == 0; key++)
		assert_true(set_add(&set, key));
	slots = set.table.slot_count;
	allocations_left = 0;
	assert_false(snap_hash_table_add(&set.table, good_hash(set.count), set.count));
	/* It is as it was. */
	assert_int_equal(set.table.slot_count, slots);
	assert_int_equal(set.table.count, set.count);
	for (uint64_t key = 0; key < set.count; key++)
		assert_int_equal(set_find(&set, key), key);
	assert_int_equal(set_find(&set, set.count), SIZE_MAX);
	allocations_left = SIZE_MAX;
	/* With room nothing fails. */
	assert_true(snap_hash_table_reserve(&set.table, 5000));
	assert_true(snap_reserve_array(set.keys, set.capacity, 5000));
	allocations_left = 0;
	for (uint64_t key = set.count; key < 5000; key++)
		assert_true(set_add(&set, key));
	allocations_left = SIZE_MAX;
	for (uint64_t key = 0; key < 5000; key++)
		assert_int_equal(set_find(&set, key), key);
}

static void test_table_has_a_limit(void **state _unused_)
{
	struct snap_hash_table table = { 0 };

	allocations_left = 0;
	assert_false(snap_hash_table_reserve(&table, (size_t)SNAP_HASH_TABLE_MOST + 1));
	assert_false(snap_hash_table_reserve(&table, SIZE_MAX));
	allocations_left = SIZE_MAX;
	assert_false(snap_hash_table_add(&table, 1, SNAP_HASH_TABLE_MOST));
	assert_false(snap_hash_table_add(&table, 1, SIZE_MAX));
	assert_true(snap_hash_table_add(&table, 1, SNAP_HASH_TABLE_MOST - 1));
	assert_int_equal(table.count, 1);
	snap_hash_table_deinit(&table);
}

/* ---- pointers as keys ---- */

static void test_pointers(void **state _unused_)
{
	enum { COUNT = 5000 };
	static struct {
		char bytes[48];
	} things[COUNT];
	struct snap_pointer_table table = { 0 };

	assert_null(snap_pointer_table_find(&table, things));
	for (size_t round = 0; round < 2; round++) {
		for (size_t i = 0; i < COUNT; i++) {
			struct snap_pointer_entry *entry =
				snap_pointer_table_get(&table, &things[i]);

			assert_non_null(entry);
			assert_ptr_equal(entry->key, &things[i]);
			assert_int_equal(entry->number, round ? i + 1 : 0);
			entry->number = i + 1;
		}
		assert_int_equal(table.count, COUNT);
	}
	for (size_t i = 0; i < COUNT; i++) {
		assert_ptr_equal(table.entries[i].key, &things[i]);
		assert_ptr_equal(snap_pointer_table_find(&table, &things[i]), &table.entries[i]);
		assert_null(snap_pointer_table_find(&table, things[i].bytes + 1));
	}
	/* NULL is a pointer as any other. */
	assert_null(snap_pointer_table_find(&table, NULL));
	assert_non_null(snap_pointer_table_get(&table, NULL));
	assert_non_null(snap_pointer_table_find(&table, NULL));
	snap_pointer_table_clear(&table);
	assert_null(snap_pointer_table_find(&table, &things[0]));
	assert_int_equal(snap_pointer_table_get(&table, &things[0])->number, 0);
	assert_int_equal(table.count, 1);
	snap_pointer_table_deinit(&table);
	assert_null(table.entries);
}

static size_t released;

static void release(void *pointer)
{
	released += pointer != NULL;
	free(pointer);
}

static void test_pointers_are_released(void **state _unused_)
{
	struct snap_pointer_table table = { 0 };
	static const char keys[300];

	snap_pointer_table_release(&table, release);
	for (size_t i = 0; i < sizeof(keys); i++) {
		struct snap_pointer_entry *entry = snap_pointer_table_get(&table, &keys[i]);

		assert_non_null(entry);
		entry->pointer = i % 3 ? malloc(1) : NULL;
	}
	snap_pointer_table_release(&table, release);
	assert_int_equal(released, 200);
	assert_int_equal(table.count, 0);
	assert_null(table.entries);
}

static void test_pointers_without_memory(void **state _unused_)
{
	struct snap_pointer_table table = { 0 };
	static const char keys[1000];
	size_t added = 0;

	/* Whichever allocation fails, what was there stays there. */
	for (size_t i = 0; i < 10; i++) {
		struct snap_pointer_entry *entry;

		allocations_left = i;
		while (added < sizeof(keys) &&
		       (entry = snap_pointer_table_get(&table, &keys[added])))
			entry->number = ++added;
		assert_int_equal(table.count, added);
		for (size_t k = 0; k < added; k++)
			assert_int_equal(snap_pointer_table_find(&table, &keys[k])->number, k + 1);
		if (added < sizeof(keys))
			assert_null(snap_pointer_table_find(&table, &keys[added]));
	}
	assert_int_equal(added, sizeof(keys));
	allocations_left = SIZE_MAX;
	snap_pointer_table_clear(&table);
	assert_true(snap_pointer_table_reserve(&table, 3000));
	allocations_left = 0;
	for (uintptr_t key = 0; key < 3000; key++)
		assert_non_null(snap_pointer_table_get(&table, (const void *)(key * 4096)));
	allocations_left = SIZE_MAX;
	snap_pointer_table_deinit(&table);
}

/* ---- hashes ---- */

static void test_hashes(void **state _unused_)
{
	static const char text[] = "what is hashed here may stand in a file";
	uint32_t seen[256] = { 0 };

	/* Files hold these. */
	assert_int_equal(snap_hash_bytes(NULL, 0, 0), 0);
	assert_int_equal(snap_hash_bytes(text, 1, 0), 0xbeceedc167e2d6a3);
	assert_int_equal(snap_hash_bytes(text, 8, 2), 0x12a4b08fe0adf6b1);
	assert_int_equal(snap_hash_bytes(text, 39, 13), 0x47e53941e3866554);
	/* The order counts, and so does each part. */
	assert_int_not_equal(snap_hash_add(1, 2), snap_hash_add(2, 1));
	assert_int_not_equal(snap_hash_add(0, 1), snap_hash_add(0, 1ull << 63));
	assert_int_not_equal(snap_hash_add(0, 1), snap_hash_add(1ull << 63, 1));
	/* What differs in a few bits, wherever, differs in the lowest ones of the hash. */
	for (unsigned shift = 0; shift < 56; shift++) {
		size_t different = 0;

		memset(seen, 0, sizeof(seen));
		for (uint64_t i = 0; i < 256; i++)
			different += seen[snap_hash_mix(i << shift) & 255]++ == 0;
		assert_true(different > 100);
	}
}

/* ---- buffers ---- */

static void test_buffer_keeps_what_it_is_given(void **state _unused_)
{
	struct snap_buffer buffer = { 0 };
	_cleanup_free_ char *model = malloc(1 << 17), *taken = NULL;
	uint64_t random = 1;
	size_t size = 0;

	assert_non_null(model);
	while (size < 100000) {
		size_t length = next_random(&random) % 300;
		char byte = (char)next_random(&random);

		memset(model + size, byte, length);
		snap_buffer_add(&buffer, model + size, length);
		model[size + length] = 'b';
		snap_buffer_add_byte(&buffer, 'b');
		size += length + 1;
		size += (size_t)sprintf(model + size, "text%d;%zu", 1, length);
		snap_buffer_add_text(&buffer, "text");
		snap_buffer_printf(&buffer, "%d;%zu", 1, length);
		assert_int_equal(buffer.size, size);
	}
	assert_false(buffer.failed);
	assert_memory_equal(buffer.data, model, size);
	assert_memory_equal(snap_buffer_text(&buffer), model, size + 1);
	taken = snap_buffer_take(&buffer, &size);
	assert_memory_equal(taken, model, size + 1);
	assert_null(buffer.data);
	assert_int_equal(buffer.capacity, 0);
}

static void test_buffer_of_nothing(void **state _unused_)
{
	struct snap_buffer buffer = { 0 };
	_cleanup_free_ char *taken = NULL;
	size_t size = 1;

	assert_string_equal(snap_buffer_text(&buffer), "");
	snap_buffer_add(&buffer, NULL, 0);
	snap_buffer_add_text(&buffer, "");
	snap_buffer_printf(&buffer, "%s", "");
	assert_int_equal(buffer.size, 0);
	assert_string_equal(snap_buffer_text(&buffer), "");
	taken = snap_buffer_take(&buffer, &size);
	assert_string_equal(taken, "");
	assert_int_equal(size, 0);
	snap_buffer_deinit(&buffer);
}

/* Direct writing, at sizes around those at which memory is asked for. */
static void test_buffer_reserve(void **state _unused_)
{
	for (size_t size = 0; size < 1100; size++) {
		struct snap_buffer buffer = { 0 };
		char *to = snap_buffer_reserve(&buffer, size);

		assert_non_null(to);
		assert_int_equal(buffer.size, 0);
		memset(to, 'x', size);
		buffer.size += size;
		assert_int_equal(strlen(snap_buffer_text(&buffer)), size);
		snap_buffer_printf(&buffer, "%03d", 7);
		assert_string_equal(snap_buffer_text(&buffer) + size, "007");
		snap_buffer_deinit(&buffer);
	}
}

static void test_buffer_varint(void **state _unused_)
{
	static const struct {
		uint64_t number;
		size_t size;
	} table[] = {
		{ 0, 1 },     { 127, 1 },        { 128, 2 },         { 16383, 2 },
		{ 16384, 3 }, { 1ull << 62, 9 }, { 1ull << 63, 10 }, { UINT64_MAX, 10 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(table); i++) {
		struct snap_buffer buffer = { 0 };
		uint64_t number = 0;

		snap_buffer_add_varint(&buffer, table[i].number);
		assert_int_equal(buffer.size, table[i].size);
		for (size_t k = 0; k < buffer.size; k++) {
			assert_int_equal(!(buffer.data[k] & 128), k + 1 == buffer.size);
			number |= (uint64_t)(buffer.data[k] & 127) << 7 * k;
		}
		assert_true(number == table[i].number);
		snap_buffer_deinit(&buffer);
	}
}

static void test_buffer_has_a_limit(void **state _unused_)
{
	struct snap_buffer buffer = { .most = 1000 };

	for (size_t i = 0; i < 1000; i++)
		snap_buffer_add_byte(&buffer, 'a');
	assert_false(buffer.failed);
	snap_buffer_add_byte(&buffer, 'a');
	assert_true(buffer.failed);
	assert_int_equal(strlen(snap_buffer_text(&buffer)), 1000);
	/* A failure stays until it is cleared, with room and all. */
	buffer.size = 10;
	snap_buffer_add_text(&buffer, "b");
	snap_buffer_printf(&buffer, "b");
	snap_buffer_add_varint(&buffer, 1);
	assert_null(snap_buffer_reserve(&buffer, 0));
	assert_int_equal(buffer.size, 10);
	snap_buffer_clear(&buffer);
	assert_int_equal(buffer.size, 0);
	snap_buffer_add_text(&buffer, "b");
	assert_string_equal(snap_buffer_text(&buffer), "b");
	assert_null(snap_buffer_reserve(&buffer, 1000));
	assert_null(snap_buffer_take(&buffer, NULL));
	assert_null(buffer.data);
	assert_false(buffer.failed);
	assert_int_equal(buffer.most, 1000);
}

static void test_buffer_without_memory(void **state _unused_)
{
	struct snap_buffer buffer = { 0 };

	snap_buffer_add_text(&buffer, "before");
	/* No sum overflows. */
	assert_null(snap_buffer_reserve(&buffer, SIZE_MAX));
	assert_null(snap_buffer_reserve(&buffer, 1));
	buffer.failed = false;
	assert_null(snap_buffer_reserve(&buffer, SIZE_MAX - buffer.size));
	buffer.failed = false;
	allocations_left = 0;
	assert_null(snap_buffer_reserve(&buffer, 5000));
	assert_true(buffer.failed);
	allocations_left = SIZE_MAX;
	assert_string_equal(snap_buffer_text(&buffer), "before");
	snap_buffer_deinit(&buffer);
	allocations_left = 0;
	snap_buffer_printf(&buffer, "%d", 1);
	assert_true(buffer.failed);
	assert_string_equal(snap_buffer_text(&buffer), "");
	assert_null(snap_buffer_take(&buffer, NULL));
	allocations_left = SIZE_MAX;
}

/* ---- arrays ---- */

static void test_array_grows(void **state _unused_)
{
	_cleanup_free_ const char **texts = NULL;
	size_t capacity = 0, growths = 0;

	for (size_t i = 0; i < 10000; i++) {
		size_t before = capacity;

		assert_true(snap_reserve_array(texts, capacity, i + 1));
		assert_true(capacity > i);
		growths += capacity != before;
		texts[i] = (const char *)i;
	}
	assert_true(growths < 12);
	for (size_t i = 0; i < 10000; i++)
		assert_ptr_equal(texts[i], (const char *)i);
	/* Far more at once, and nothing at all. */
	assert_true(snap_reserve_array(texts, capacity, 100000));
	assert_int_equal(capacity, 100000);
	assert_true(snap_reserve_array(texts, capacity, 0));
	assert_int_equal(capacity, 100000);
}

static void test_array_of_nothing(void **state _unused_)
{
	int *numbers = NULL;
	size_t capacity = 0;

	assert_true(snap_reserve_array(numbers, capacity, 0));
	assert_null(numbers);
	assert_int_equal(capacity, 0);
}

static void test_array_zeroed(void **state _unused_)
{
	_cleanup_free_ uint32_t *numbers = NULL;
	size_t capacity = 0;

	for (size_t i = 0; i < 3000; i++) {
		assert_true(snap_reserve_array_zeroed(numbers, capacity, i + 1));
		for (size_t k = i; k < capacity; k++)
			assert_int_equal(numbers[k], 0);
		numbers[i] = 0xffffffff;
	}
}

static void test_array_has_limits(void **state _unused_)
{
	_cleanup_free_ uint64_t *numbers = NULL;
	uint64_t *before;
	size_t capacity = 0;

	assert_false(snap_reserve_array_most(numbers, capacity, 11, 10));
	assert_null(numbers);
	assert_true(snap_reserve_array_most(numbers, capacity, 1, 10));
	assert_int_equal(capacity, 10);
	assert_false(snap_reserve_array_most(numbers, capacity, 11, 10));
	assert_true(snap_reserve_array_most(numbers, capacity, 11, 15));
	assert_int_equal(capacity, 15);
	before = numbers;
	/* Bytes that overflow are not asked for. */
	allocations_left = 1;
	assert_false(snap_reserve_array(numbers, capacity, SIZE_MAX));
	assert_false(snap_reserve_array(numbers, capacity, SIZE_MAX / 8 + 1));
	assert_false(snap_reserve_array_zeroed(numbers, capacity, SIZE_MAX / 8 + 1));
	assert_int_equal(allocations_left, 1);
	allocations_left = 0;
	assert_false(snap_reserve_array(numbers, capacity, 16));
	assert_false(snap_reserve_array_zeroed(numbers, capacity, 16));
	allocations_left = SIZE_MAX;
	assert_ptr_equal(numbers, before);
	assert_int_equal(capacity, 15);
}

/* ---- binary search ---- */

struct place {
	uint64_t address, size;
};

static int compare_places(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

/* With many duplicates, and at each key between. */
static void test_search_is_like_a_model(void **state _unused_)
{
	enum { MOST = 70 };
	struct place places[MOST], *pointers[MOST];
	uint64_t random = 5;

	for (size_t count = 0; count <= MOST; count++) {
		for (size_t i = 0; i < count; i++)
			places[i] = (struct place){ next_random(&random) % 40 + 1, 1 };
		qsort(places, count, sizeof(*places), compare_places);
		for (size_t i = 0; i < count; i++)
			pointers[i] = &places[i];
		for (uint64_t key = 0; key < 44; key++) {
			size_t lower = 0, upper = 0;

			while (lower < count && places[lower].address < key)
				lower++;
			while (upper < count && places[upper].address <= key)
				upper++;
			assert_int_equal(snap_first_not(count, i, places[i].address < key), lower);
			assert_int_equal(snap_first_not(count, i, pointers[i]->address <= key),
					 upper);
			assert_int_equal(
				snap_first_not(count, i, places[i].address + places[i].size <= key),
				key ? snap_first_not(count, i, places[i].address < key) : 0);
		}
	}
}

static void test_search_of_nothing_and_of_all(void **state _unused_)
{
	assert_int_equal(snap_first_not(0, i, (abort(), i > 0)), 0);
	assert_int_equal(snap_first_not(SIZE_MAX, i, i < 12345), 12345);
	assert_int_equal(snap_first_not(SIZE_MAX, i, i < SIZE_MAX - 1), SIZE_MAX - 1);
	assert_true(snap_first_not(SIZE_MAX, i, true) == SIZE_MAX);
	assert_int_equal(snap_first_not(SIZE_MAX, i, false), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_is_like_a_model),
		cmocka_unit_test(test_table_of_nothing),
		cmocka_unit_test(test_table_gives_all_of_a_hash),
		cmocka_unit_test(test_table_clears),
		cmocka_unit_test(test_table_without_memory),
		cmocka_unit_test(test_table_has_a_limit),
		cmocka_unit_test(test_pointers),
		cmocka_unit_test(test_pointers_are_released),
		cmocka_unit_test(test_pointers_without_memory),
		cmocka_unit_test(test_hashes),
		cmocka_unit_test(test_buffer_keeps_what_it_is_given),
		cmocka_unit_test(test_buffer_of_nothing),
		cmocka_unit_test(test_buffer_reserve),
		cmocka_unit_test(test_buffer_varint),
		cmocka_unit_test(test_buffer_has_a_limit),
		cmocka_unit_test(test_buffer_without_memory),
		cmocka_unit_test(test_array_grows),
		cmocka_unit_test(test_array_of_nothing),
		cmocka_unit_test(test_array_zeroed),
		cmocka_unit_test(test_array_has_limits),
		cmocka_unit_test(test_search_is_like_a_model),
		cmocka_unit_test(test_search_of_nothing_and_of_all),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
