/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a thread waits with, of made-up copies: what of its call says for what it waits, and which
 * memory belongs to that.
 */
#include "record/wait/object.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

enum {
	CALL_READ = 0,
	CALL_OPEN = 2,
	CALL_POLL = 7,
	CALL_SELECT = 23,
	CALL_NANOSLEEP = 35,
	CALL_CONNECT = 42,
	CALL_WAIT4 = 61,
	CALL_FCNTL = 72,
	CALL_FUTEX = 202,
	CALL_RESTART = 219,
	CALL_CLOCK_NANOSLEEP = 230,
	CALL_OPENAT = 257,
	CALL_FUTEX_WAITV = 449,
	CALL_UNKNOWN = 333,
	SPACE = 3,
	STACK = 0x7000000,
	STACK_BYTES = 0x1000,
	SP = STACK + 0x100,
	HEAP = 0x500000, /* of what the copy of words has; within one page */
	HEAP_BYTES = 0x800,
	SOME_LIMIT = 1, /* of time */
};

/* A thread that waits in a call, in a process with a stack and a heap. */
struct scene {
	struct snap_map maps[2];
	struct snap_process facts;
	struct snap_sampled_process process;
	struct snap_memory_piece heap_piece;
	struct snap_memory_image words;
	struct snap_sampled_thread thread;
	struct snap_thread copy;
	uint8_t stack[STACK_BYTES], heap[HEAP_BYTES];
	struct snap_taken_object taken;
};

static struct scene scene;

static void set_call(int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	scene.copy.call = (struct snap_thread_call){
		.known = true,
		.number = number,
		.arguments = { a, b, c, d, 5, 6 },
		.sp = SP,
		.pc = 0x401000,
		.thread_pointer = 0x1234,
	};
}

static int set_up(void **state _unused_)
{
	memset(&scene, 0, sizeof(scene));
	scene.maps[0] = (struct snap_map){
		.start = HEAP, .end = HEAP + 0x10000, .read = true, .write = true
	};
	scene.maps[1] = (struct snap_map){
		.start = STACK, .end = STACK + 0x10000, .read = true, .write = true
	};
	scene.facts = (struct snap_process){ .pid = 9,
					     .arch = SNAP_ARCH_X86_64,
					     .maps = scene.maps,
					     .map_count = SNAP_ARRAY_SIZE(scene.maps) };
	scene.process.facts = &scene.facts;
	for (size_t i = 0; i < HEAP_BYTES; i++)
		scene.heap[i] = (uint8_t)(i * 7);
	scene.heap_piece = (struct snap_memory_piece){ HEAP, HEAP_BYTES, scene.heap };
	scene.words = (struct snap_memory_image){ .pieces = &scene.heap_piece, .piece_count = 1 };
	scene.thread = (struct snap_sampled_thread){ .tid = 9,
						     .process = &scene.process,
						     .words = &scene.words };
	scene.copy = (struct snap_thread){ .tid = 9,
					   .state = 'S',
					   .result = SNAP_THREAD_COPIED,
					   .partial = true,
					   .stack_address = STACK,
					   .stack = scene.stack,
					   .stack_size = STACK_BYTES };
	return 0;
}

static bool take(void)
{
	return snap_object_take(&scene.thread, &scene.copy, SPACE, &scene.taken);
}

static const struct snap_log_object *taken(void)
{
	assert_true(take());
	assert_int_equal(scene.taken.object.space, SPACE);
	assert_true(scene.taken.object.call.known);
	assert_int_equal(scene.taken.object.call.pc, 0);
	assert_int_equal(scene.taken.object.call.thread_pointer, 0);
	assert_int_equal(scene.taken.object.words, 0);
	return &scene.taken.object;
}

static void check_five_arguments(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	const uint64_t expected[SNAP_CALL_ARGUMENTS] = { a, b, c, d, e, 0 };
	const struct snap_log_object *object = taken();

	for (int i = 0; i < SNAP_CALL_ARGUMENTS; i++)
		assert_int_equal(object->call.arguments[i], expected[i]);
}

static void check_arguments(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	check_five_arguments(a, b, c, d, 0);
}

/* The only piece of its memory. */
static void check_piece(uint64_t address, const void *bytes, size_t size)
{
	assert_int_equal(scene.taken.words.piece_count, 1);
	assert_int_equal(scene.taken.words.bytes, size);
	assert_int_equal(scene.taken.pieces[0].address, address);
	assert_int_equal(scene.taken.pieces[0].size, size);
	assert_memory_equal(scene.taken.pieces[0].bytes, bytes, size);
}

/* ---- futexes ---- */

static void test_futex_is_its_word(void **state _unused_)
{
	uint64_t word = HEAP + 0x200;

	set_call(CALL_FUTEX, word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 2, STACK + 64);
	check_arguments(word, FUTEX_WAIT_BITSET_PRIVATE, 2, SOME_LIMIT);
	assert_true(scene.taken.object.is_futex);
	assert_int_equal(scene.taken.object.call.sp, 0);
	check_piece(word - SNAP_WORDS_BEFORE, scene.heap + 0x200 - SNAP_WORDS_BEFORE,
		    SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND);
}

/* Sequences and the like do not make another object each time; what analysis asks of them stays. */
static void test_futex_values(void **state _unused_)
{
	static const struct {
		unsigned op;
		uint32_t value, kept;
	} rows[] = {
		{ FUTEX_WAIT_PRIVATE, 0, 0 },
		{ FUTEX_WAIT_PRIVATE, 3, 3 },
		{ FUTEX_WAIT_PRIVATE, 4712, 4 },
		{ FUTEX_WAIT_PRIVATE, 9000, 4 },
		{ FUTEX_WAIT_PRIVATE, 4713, 5 },
		{ FUTEX_WAIT, 4712, 4712 }, /* the number of a thread that is joined */
		{ FUTEX_WAIT, 0x7000000, 4 },
		{ FUTEX_WAIT_PRIVATE, 0x80001234, 0x80000000 },
		{ FUTEX_WAIT, 0x80001234, 0x80000000 },
		{ FUTEX_WAIT_PRIVATE, (17u << 19) + 2, (17u << 19) + 2 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		set_call(CALL_FUTEX, HEAP + 0x200, rows[i].op, rows[i].value, 0);
		check_arguments(HEAP + 0x200, rows[i].op, rows[i].kept, 0);
	}
}

/* Where the page before is not there, as little as that of the word may be. */
static void test_futex_near_the_end_of_a_page(void **state _unused_)
{
	set_call(CALL_FUTEX, HEAP + 8, FUTEX_WAIT_PRIVATE, 2, 0);
	(void)taken();
	check_piece(HEAP, scene.heap, 8 + SNAP_WORDS_BEHIND);
	scene.heap_piece.size = 8;
	(void)taken();
	assert_int_equal(scene.taken.words.piece_count, 0);
	scene.heap_piece.size = 12;
	(void)taken();
	check_piece(HEAP, scene.heap, 12);
	scene.thread.words = NULL;
	(void)taken();
	assert_int_equal(scene.taken.words.piece_count, 0);
}

/* Two samples of one futex are equal, wherever its waiter stands and whatever lies below that. */
static void test_futex_on_own_stack(void **state _unused_)
{
	uint64_t word = SP + 0x80;

	set_call(CALL_FUTEX, word, FUTEX_WAIT_PRIVATE, 0, 0);
	(void)taken();
	assert_int_equal(scene.taken.object.call.sp, word);
	check_piece(word - SNAP_WORDS_BEFORE, scene.stack + 0x180 - SNAP_WORDS_BEFORE,
		    SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND);
	scene.copy.call.sp += 16;
	(void)taken();
	assert_int_equal(scene.taken.object.call.sp, word);
	/* below it is another's, or nobody's */
	scene.copy.call.sp = word + 8;
	(void)taken();
	assert_int_equal(scene.taken.object.call.sp, 0);
}

static void test_vector_without_values(void **state _unused_)
{
	uint64_t row[6] = { 77, HEAP + 0x300, 2, 78, HEAP + 0x308, 2 };

	memcpy(scene.heap + 0x40, row, sizeof(row));
	set_call(CALL_FUTEX_WAITV, HEAP + 0x40, 2, 0, STACK);
	check_arguments(HEAP + 0x40, 2, 0, SOME_LIMIT);
	row[0] = row[3] = 0;
	check_piece(HEAP + 0x40, row, sizeof(row));
	assert_false(scene.taken.object.is_futex);
}

static void test_restarted(void **state _unused_)
{
	struct pollfd polled = { .fd = 4, .events = POLLIN };

	set_call(CALL_RESTART, HEAP + 0x200, FUTEX_WAIT_PRIVATE, 2, STACK);
	check_arguments(HEAP + 0x200, FUTEX_WAIT_PRIVATE, 2, SOME_LIMIT);
	assert_true(scene.taken.object.is_futex);
	memcpy(scene.heap, &polled, sizeof(polled));
	set_call(CALL_RESTART, HEAP, 1, 5000, 0);
	check_arguments(HEAP, 1, SOME_LIMIT, 0);
	assert_false(scene.taken.object.is_futex);
	check_piece(HEAP, &polled, sizeof(polled));
	set_call(CALL_RESTART, STACK + 0x40, STACK + 0x40, 0, 0);
	check_arguments(STACK + 0x40, 0, 0, 0);
	assert_int_equal(scene.taken.words.piece_count, 0);
}

/* ---- descriptors ---- */

static void test_call_with_descriptor(void **state _unused_)
{
	struct snap_descriptor descriptor = { .number = 7,
					      .kind = SNAP_DESCRIPTOR_PIPE,
					      .readable = true,
					      .link = "pipe:[12]",
					      .inode = 12,
					      .count = 99,
					      .remaining_ns = 5 };

	scene.thread.descriptors = &descriptor;
	scene.thread.descriptor_count = 1;
	set_call(CALL_READ, 0xffffffff00000007, STACK + 8, 4096, 0);
	check_arguments(7, 0, 0, 0);
	assert_int_equal(scene.taken.object.descriptor_count, 1);
	assert_string_equal(scene.taken.object.descriptors->link, "pipe:[12]");
	assert_int_equal(scene.taken.object.descriptors->inode, 12);
	assert_int_equal(scene.taken.object.descriptors->kind, SNAP_DESCRIPTOR_PIPE);
	assert_true(scene.taken.object.descriptors->readable);
	/* what changes while somebody waits is no part of it */
	assert_int_equal(scene.taken.object.descriptors->count, 0);
	assert_int_equal(scene.taken.words.piece_count, 0);
	scene.thread.descriptors = NULL;
	assert_int_equal(taken()->descriptor_count, 0);
	assert_null(scene.taken.object.descriptors);
}

static void test_many_descriptors_are_cut(void **state _unused_)
{
	static struct snap_descriptor many[SNAP_LOG_MAX_OBJECT_DESCRIPTORS + 5];

	scene.thread.descriptors = many;
	scene.thread.descriptor_count = SNAP_ARRAY_SIZE(many);
	set_call(CALL_POLL, HEAP, UINT32_MAX, 0, 0);
	assert_int_equal(taken()->descriptor_count, SNAP_LOG_MAX_OBJECT_DESCRIPTORS);
	/* and so is the array, of which there is less */
	assert_int_equal(scene.taken.words.bytes, SNAP_MAX_POLLED * sizeof(struct pollfd));
	scene.heap_piece.size = 20;
	(void)taken();
	assert_int_equal(scene.taken.words.bytes, 2 * sizeof(struct pollfd));
}

/* Events that have come are of the moment. */
static void test_polled(void **state _unused_)
{
	struct pollfd polled[2] = { { 4, POLLIN, POLLIN }, { 5, POLLOUT, -1 } };

	memcpy(scene.stack + 0x200, polled, sizeof(polled));
	set_call(CALL_POLL, STACK + 0x200, 2, 1000, 0);
	check_arguments(STACK + 0x200, 2, SOME_LIMIT, 0);
	set_call(CALL_POLL, STACK + 0x200, 2, (uint64_t)-1, 0);
	check_arguments(STACK + 0x200, 2, UINT32_MAX, 0);
	polled[0].revents = polled[1].revents = 0;
	check_piece(STACK + 0x200, polled, sizeof(polled));
}

static void test_selected(void **state _unused_)
{
	set_call(CALL_SELECT, 70, HEAP, 0, HEAP + 0x40);
	check_five_arguments(70, HEAP, 0, HEAP + 0x40, SOME_LIMIT);
	assert_int_equal(scene.taken.words.piece_count, 2);
	assert_int_equal(scene.taken.pieces[0].size, 16);
	assert_int_equal(scene.taken.pieces[1].address, HEAP + 0x40);
	assert_memory_equal(scene.taken.pieces[1].bytes, scene.heap + 0x40, 16);
	/* of more than there can be, what the copy may have */
	set_call(CALL_SELECT, 1 << 30, HEAP, HEAP, HEAP);
	(void)taken();
	assert_int_equal(scene.taken.words.bytes, 3 * 128);
}

/* ---- others ---- */

static void test_address_of_connect(void **state _unused_)
{
	set_call(CALL_CONNECT, 3, HEAP + 0x10, 16, 99);
	check_arguments(3, HEAP + 0x10, 16, 0);
	check_piece(HEAP + 0x10, scene.heap + 0x10, 16);
	set_call(CALL_CONNECT, 3, HEAP, UINT32_MAX, 0);
	(void)taken();
	assert_int_equal(scene.taken.words.bytes, 128);
}

static void test_file_lock_without_padding(void **state _unused_)
{
	struct flock lock, *there = (void *)(scene.heap + 0x20);

	memset(there, 0xee, sizeof(*there));
	there->l_type = F_WRLCK;
	there->l_whence = SEEK_SET;
	there->l_start = 100;
	there->l_len = 10;
	memset(&lock, 0, sizeof(lock));
	lock.l_type = F_WRLCK;
	lock.l_start = 100;
	lock.l_len = 10;
	set_call(CALL_FCNTL, 3, F_SETLKW, HEAP + 0x20, 0);
	check_arguments(3, F_SETLKW, HEAP + 0x20, 0);
	check_piece(HEAP + 0x20, &lock, sizeof(lock));
	set_call(CALL_FCNTL, 3, F_GETFL, HEAP + 0x20, 0);
	check_arguments(3, F_GETFL, 0, 0);
	assert_int_equal(scene.taken.words.piece_count, 0);
}

static void test_paths(void **state _unused_)
{
	strcpy((char *)scene.heap, "/run/ctl");
	set_call(CALL_OPEN, HEAP, O_WRONLY | O_CLOEXEC, 0666, 0);
	check_arguments(HEAP, O_WRONLY, 0, 0);
	check_piece(HEAP, "/run/ctl", 9);
	set_call(CALL_OPENAT, (uint64_t)AT_FDCWD, HEAP, O_RDONLY | O_CLOEXEC, 0);
	check_arguments((uint32_t)AT_FDCWD, HEAP, 0, 0);
	check_piece(HEAP, "/run/ctl", 9);
}

/* Whoever sleeps waits for the same thing, however long it takes. */
static void test_sleeps_and_children(void **state _unused_)
{
	set_call(CALL_NANOSLEEP, STACK + 8, STACK + 8, 0, 0);
	check_arguments(SOME_LIMIT, 0, 0, 0);
	assert_int_equal(scene.taken.words.piece_count, 0);
	set_call(CALL_CLOCK_NANOSLEEP, 1, 1, STACK + 8, 0);
	check_arguments(0, 0, SOME_LIMIT, 0);
	set_call(CALL_WAIT4, (uint64_t)-1, STACK, 0, 0);
	check_arguments(UINT32_MAX, 0, 0, 0);
	set_call(CALL_UNKNOWN, 1, 2, 3, 4);
	check_arguments(0, 0, 0, 0);
	assert_int_equal(scene.taken.object.call.number, CALL_UNKNOWN);
}

static void test_who_does_not_wait(void **state _unused_)
{
	set_call(CALL_READ, 3, STACK, 10, 0);
	assert_true(take());
	for (const char *letter = "RZXIP"; *letter; letter++) {
		scene.copy.state = *letter;
		assert_false(take());
	}
	scene.copy.state = 'D';
	assert_true(take());
	/* for who has stopped it; a lock is what it wants all the same */
	scene.copy.state = 'T';
	assert_false(take());
	set_call(CALL_FUTEX, HEAP + 0x200, FUTEX_WAIT_PRIVATE, 2, 0);
	assert_true(take());
	scene.copy.state = 'S';
	scene.copy.call.number = -1; /* in no call: a page fault */
	assert_false(take());
	scene.copy.call = (struct snap_thread_call){ .known = false };
	assert_false(take());
	set_call(CALL_READ, 3, STACK, 10, 0);
	scene.copy.result = SNAP_THREAD_UNTRACED;
	assert_false(take());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_futex_is_its_word, set_up),
		cmocka_unit_test_setup(test_futex_values, set_up),
		cmocka_unit_test_setup(test_futex_near_the_end_of_a_page, set_up),
		cmocka_unit_test_setup(test_futex_on_own_stack, set_up),
		cmocka_unit_test_setup(test_vector_without_values, set_up),
		cmocka_unit_test_setup(test_restarted, set_up),
		cmocka_unit_test_setup(test_call_with_descriptor, set_up),
		cmocka_unit_test_setup(test_many_descriptors_are_cut, set_up),
		cmocka_unit_test_setup(test_polled, set_up),
		cmocka_unit_test_setup(test_selected, set_up),
		cmocka_unit_test_setup(test_address_of_connect, set_up),
		cmocka_unit_test_setup(test_file_lock_without_padding, set_up),
		cmocka_unit_test_setup(test_paths, set_up),
		cmocka_unit_test_setup(test_sleeps_and_children, set_up),
		cmocka_unit_test_setup(test_who_does_not_wait, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
