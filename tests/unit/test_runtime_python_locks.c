/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* RLocks that threads wait for, in made-up memory: see analyze/runtime/python/locks.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"
#include "model/arch/registers.h"

#include <string.h>

static const uint64_t BASE = 0x7f0000010000;

/* In the memory at BASE. */
enum {
	SIZE = 0x1000,
	STACK = 0x100,
	ON_STACK = STACK + 0xb8, /* where the stack has what points to the object */
	SEMAPHORE = STACK + 0x188,
	OBJECT = 0x600,
	TYPE = 0x700,
	NAME = 0x780,
	FUTEX = 202,
};

struct bed {
	struct snap_arena arena;
	struct snap_options options;
	struct snap_x86_64_registers registers;
	struct snap_thread thread;
	struct snap_process process;
	struct snap_runtime_memory memory;
	struct snap_runtime_process runtime;
	struct snap_python python;
	uint8_t bytes[SIZE];
};

static bool read_bytes(void *context, uint64_t address, void *out, size_t size)
{
	struct bed *bed = context;

	if (address < BASE || address - BASE > SIZE || size > SIZE - (address - BASE))
		return false;
	memcpy(out, bed->bytes + (address - BASE), size);
	return true;
}

static void put(struct bed *bed, uint64_t at, uint64_t value)
{
	memcpy(bed->bytes + at, &value, sizeof(value));
}

static void bed_open(struct bed *bed, unsigned minor)
{
	const uint64_t semaphore = BASE + (minor < 14 ? 0x900 : SEMAPHORE);

	memset(bed, 0, sizeof(*bed));
	snap_arena_init(&bed->arena);
	bed->options.explain = SNAP_EXPLAIN_ALL;
	bed->registers = (struct snap_x86_64_registers){
		.orig_rax = FUTEX, .rax = FUTEX, .rdi = semaphore, .rsp = BASE + STACK, .cs = 0x33
	};
	bed->thread = (struct snap_thread){ .tid = 7,
					    .state = 'S',
					    .registers = (uint8_t *)&bed->registers,
					    .registers_size = sizeof(bed->registers) };
	bed->process = (struct snap_process){ .arch = SNAP_ARCH_X86_64,
					      .threads = &bed->thread,
					      .thread_count = 1 };
	bed->memory = (struct snap_runtime_memory){ .read = read_bytes, .context = bed };
	bed->runtime = (struct snap_runtime_process){ .process = &bed->process,
						      .memory = &bed->memory,
						      .options = &bed->options,
						      .arena = &bed->arena };
	bed->python =
		(struct snap_python){ .process = &bed->runtime, .layout = { .minor = minor } };
	put(bed, OBJECT, 3);
	put(bed, OBJECT + 8, BASE + TYPE);
	put(bed, OBJECT + 16, minor < 14 ? semaphore : 3);
	put(bed, OBJECT + 24, BASE + 0xf00);
	put(bed, OBJECT + 32, 1);
	put(bed, TYPE + 24, BASE + NAME);
	memcpy(bed->bytes + NAME, "_thread.RLock", 14);
	put(bed, ON_STACK, BASE + OBJECT + (minor < 14 ? 0 : 16));
	put(bed, SEMAPHORE - 8, BASE + OBJECT + 16);
}

/* What is found; `owner` 1: nothing. */
static struct snap_runtime_lock bed_read(struct bed *bed)
{
	struct snap_runtime_result result = { .name = "cpython" };
	struct snap_runtime_lock lock = { .owner = 1 };

	assert_true(snap_python_locks(&bed->python, &result));
	if (result.lock_count)
		lock = result.locks[0];
	assert_in_range(result.lock_count, 0, 1);
	snap_arena_deinit(&bed->arena);
	return lock;
}

static void test_the_lock_of_a_thread_is_found(void **state _unused_)
{
	for (unsigned minor = 8; minor <= 15; minor++) {
		struct snap_runtime_lock lock;
		struct bed bed;

		bed_open(&bed, minor);
		lock = bed_read(&bed);
		assert_int_equal(lock.tid, 7);
		assert_int_equal(lock.address, BASE + OBJECT);
		assert_int_equal(lock.owner, BASE + 0xf00);
	}
}

static void test_what_makes_no_sense_is_no_lock(void **state _unused_)
{
	static const struct {
		uint64_t at, value;
	} changes[] = {
		{ OBJECT, 0 },                    /* it is not in use … */
		{ OBJECT, 0x7f0000010500 },       /* … and in the list of what is free */
		{ OBJECT + 8, 0x10 },             /* a type that is not there */
		{ OBJECT + 32, 1ull << 40 },      /* taken so often */
		{ TYPE + 24, 0x7f0000010fff },    /* a name that ends beyond what was copied */
		{ NAME, 0x006b636f4c2e7968 },     /* another type */
		{ ON_STACK, 0x7f0000010608 },     /* into an object, or not aligned */
		{ ON_STACK, 0x7f0000010ff0 },     /* to the end of what was copied */
		{ ON_STACK, 0xffff7f0000010600 }, /* of the kernel */
		{ ON_STACK, 0 },
	};

	for (size_t i = 0; i < 2 * SNAP_ARRAY_SIZE(changes); i++) {
		struct bed bed;

		bed_open(&bed, i % 2 ? 11 : 14);
		put(&bed, changes[i / 2].at, changes[i / 2].value);
		/* From 3.14 on the words before the semaphore have the address as well. */
		if (changes[i / 2].at == ON_STACK)
			put(&bed, SEMAPHORE - 8, changes[i / 2].value);
		assert_int_equal(bed_read(&bed).owner, 1);
	}
}

static void test_where_none_is_looked_for(void **state _unused_)
{
	for (unsigned what = 0; what < 8; what++) {
		struct bed bed;

		bed_open(&bed, what % 2 ? 13 : 14);
		bed.python.layout.is_free_threaded = what == 0;
		bed.runtime.is_of_thread = what == 1;
		if (what == 2)
			bed.process.arch = SNAP_ARCH_AARCH64;
		else if (what == 3)
			bed.options.explain = SNAP_EXPLAIN_NO;
		else if (what == 4)
			bed.registers.orig_rax = UINT64_MAX;
		else if (what == 5)
			bed.registers.rdi = BASE + 0x908; /* another semaphore */
		else if (what == 6)
			bed.registers.rdi = 4; /* where nothing is */
		else if (what == 7)
			bed.registers.rsp = UINT64_MAX - 7;
		assert_int_equal(bed_read(&bed).owner, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_lock_of_a_thread_is_found),
		cmocka_unit_test(test_what_makes_no_sense_is_no_lock),
		cmocka_unit_test(test_where_none_is_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
