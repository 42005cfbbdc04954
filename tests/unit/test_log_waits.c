/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What threads of a log wait for: objects, words, holds and sockets are there once, pairs that are
 * not explained yet are found, and a ring is held against a log that forgets nothing.
 */
#include "fine.h"
#include "store/log/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { FUTEX = 202, READ = 0, POLL = 7 };

struct bed {
	struct snap_log *log;
	uint32_t process, space, thread, stack;
};

static uint32_t add_space(struct snap_log *log, pid_t pid, uint32_t *process_ret)
{
	struct snap_process facts = { .pid = pid, .name = "prog", .parent = SIZE_MAX };
	uint32_t space;

	fine(snap_log_add_process(log, pid, 5, UINT32_MAX, UINT32_MAX, true, process_ret));
	fine(snap_log_map_process(log, *process_ret, &facts, NULL, &space));
	return space;
}

static uint32_t add_stack(struct snap_log *log, uint32_t space, uint64_t bits)
{
	struct snap_log_pcs pcs = { .bits = &bits, .count = 1 };
	uint32_t stack;

	fine(snap_log_stack(log, space, &pcs, &stack));
	return stack;
}

static int set_up(void **state)
{
	static struct bed bed;
	struct snap_host host = { .name = "host", .kernel = "6.1", .arch = "x86_64" };

	bed = (struct bed){ .log = NULL };
	fine(snap_log_create(&host, 1000, 10, false, &bed.log));
	bed.space = add_space(bed.log, 10, &bed.process);
	fine(snap_log_add_thread(bed.log, bed.process, 10, 10, "main", false, &bed.thread));
	bed.stack = add_stack(bed.log, bed.space, 0x1000);
	*state = &bed;
	return 0;
}

static int tear_down(void **state)
{
	snap_log_destroy(((struct bed *)*state)->log);
	return 0;
}

/* One piece of eight bytes; as many of these as tests have at once. */
static const struct snap_memory_image *words_of(uint64_t address, uint64_t word)
{
	static struct snap_memory_piece pieces[4];
	static struct snap_memory_image images[4];
	static uint64_t words[4];
	static unsigned next;
	unsigned at = next++ % 4;

	words[at] = word;
	pieces[at] = (struct snap_memory_piece){ address, sizeof(word), (void *)&words[at] };
	images[at] = (struct snap_memory_image){ .pieces = &pieces[at], .piece_count = 1 };
	return &images[at];
}

static struct snap_log_object call_of(uint32_t space, int64_t number, uint64_t argument)
{
	return (struct snap_log_object){
		.space = space,
		.call = { .known = true, .number = number, .arguments = { argument } },
		.is_futex = number == FUTEX,
	};
}

static uint32_t find(struct snap_log *log, struct snap_log_object object,
		     const struct snap_memory_image *words)
{
	uint32_t number = 0;

	fine(snap_log_find_object(log, &object, words, &number));
	return number;
}

static void begin_tick(struct snap_log *log)
{
	fine(snap_log_begin_tick(log, (int64_t)snap_log_tick_at(log) * 10));
}

static void change(struct snap_log *log, uint32_t thread, uint32_t stack, uint32_t object)
{
	struct snap_log_change change = {
		.thread = thread, .stack = stack, .syscall = -1, .object = object
	};

	fine(snap_log_change(log, &change));
}

static uint64_t word_of(const struct snap_log_wait_bytes *words)
{
	uint64_t word;

	assert_non_null(words);
	assert_int_equal(words->piece_count, 1);
	assert_int_equal(words->pieces[0].size, sizeof(word));
	memcpy(&word, words->pieces[0].bytes, sizeof(word));
	return word;
}

/* ---- objects ---- */

static void test_object_is_there_once(void **state)
{
	struct bed *bed = *state;
	struct snap_log_object object = call_of(bed->space, READ, 3);
	uint32_t process, space = add_space(bed->log, 11, &process);
	uint32_t first, other;

	first = find(bed->log, object, NULL);
	assert_int_equal(first, 1);
	assert_int_equal(find(bed->log, object, NULL), first);
	/* Where it stands is not what it waits with. */
	object.call.sp = 0x7000;
	object.call.pc = 0x4000;
	object.call.thread_pointer = 0x7100;
	assert_int_equal(find(bed->log, object, NULL), first);
	other = find(bed->log, call_of(bed->space, READ, 4), NULL);
	assert_int_not_equal(other, first);
	assert_int_not_equal(find(bed->log, call_of(bed->space, POLL, 3), NULL), first);
	assert_int_not_equal(find(bed->log, call_of(space, READ, 3), NULL), first);
	assert_int_equal(bed->log->object_count, 4);
	assert_int_equal(bed->log->objects[0].call.sp, 0);
	for (uint64_t i = 0; i < 5000; i++)
		assert_int_equal(find(bed->log, call_of(bed->space, FUTEX, i), NULL), 5 + i);
	assert_int_equal(find(bed->log, object, NULL), first);
}

/* A word on the waiter's own stack is told apart, by its own address. */
static void test_futex_on_a_stack(void **state)
{
	struct bed *bed = *state;
	struct snap_log_object object = call_of(bed->space, FUTEX, 0x7000);
	uint32_t first = find(bed->log, object, NULL), other;

	object.call.sp = 0x6000;
	assert_int_equal(find(bed->log, object, NULL), first);
	object.call.sp = 0x7000;
	other = find(bed->log, object, NULL);
	assert_int_not_equal(other, first);
	assert_int_equal(bed->log->objects[other - 1].call.sp, 0x7000);
	assert_int_equal(find(bed->log, object, NULL), other);
}

static void test_links_tell_objects_apart(void **state)
{
	struct bed *bed = *state;
	static char longest[2 * SNAP_MAX_LINK];
	char link[] = "socket:[77]";
	struct snap_descriptor descriptors[SNAP_LOG_MAX_OBJECT_DESCRIPTORS + 1] = {
		{ .number = 3, .kind = SNAP_DESCRIPTOR_SOCKET, .link = link, .inode = 77 },
	};
	struct snap_log_object object = call_of(bed->space, READ, 3);
	const struct snap_descriptor *kept;
	uint32_t first;

	object.descriptors = descriptors;
	object.descriptor_count = 1;
	first = find(bed->log, object, NULL);
	kept = bed->log->objects[first - 1].descriptors;
	/* What else is known of it is not kept. */
	descriptors[0].count = 7;
	descriptors[0].readable = true;
	assert_int_equal(find(bed->log, object, NULL), first);
	memset(link, 'x', 3);
	assert_string_equal(kept->link, "socket:[77]");
	assert_int_equal(kept->kind, SNAP_DESCRIPTOR_SOCKET);
	assert_int_equal(kept->inode, 77);
	assert_int_not_equal(find(bed->log, object, NULL), first);
	descriptors[0] = *kept;
	assert_int_equal(find(bed->log, object, NULL), first);
	descriptors[0].inode = 78;
	assert_int_not_equal(find(bed->log, object, NULL), first);
	/* Whatever is said is bounded, and found again. */
	memset(longest, 'a', sizeof(longest) - 1);
	descriptors[0].link = longest;
	object.descriptor_count = SNAP_LOG_MAX_OBJECT_DESCRIPTORS + 1;
	first = find(bed->log, object, NULL);
	assert_int_equal(bed->log->objects[first - 1].descriptor_count,
			 SNAP_LOG_MAX_OBJECT_DESCRIPTORS);
	assert_int_equal(strlen(bed->log->objects[first - 1].descriptors[0].link),
			 SNAP_MAX_LINK - 1);
	assert_int_equal(find(bed->log, object, NULL), first);
}

static void test_words_of_calls_are_part_of_them(void **state)
{
	struct bed *bed = *state;
	struct snap_log_object poll = call_of(bed->space, POLL, 0);
	uint32_t a, b;

	a = find(bed->log, poll, words_of(0x5000, 1));
	b = find(bed->log, poll, words_of(0x5000, 2));
	assert_int_not_equal(a, b);
	assert_int_equal(find(bed->log, poll, words_of(0x5000, 1)), a);
	assert_int_not_equal(find(bed->log, poll, NULL), a);
	assert_int_equal(word_of(snap_log_owner_bytes(bed->log, a - 1)), 1);
	assert_int_equal(word_of(snap_log_owner_bytes(bed->log, b - 1)), 2);
	assert_int_equal(bed->log->words_count, 2);
}

/* ---- words ---- */

static void test_pieces_are_sorted_and_joined(void **state)
{
	struct bed *bed = *state;
	static uint8_t bytes[2 * SNAP_LOG_MAX_OBJECT_WORDS];
	struct snap_memory_piece scattered[] = {
		{ 0x9000, 4, bytes + 0x40 },  { 0x5004, 4, bytes + 0x14 }, { 0x7000, 0, bytes },
		{ 0x5000, 6, bytes + 0x10 },  { 0x5006, 4, bytes + 0x16 }, { 0x9000, 2, bytes + 1 },
		{ UINT64_MAX - 1, 9, bytes },
	};
	struct snap_memory_piece sorted[] = {
		{ 0x5000, 10, bytes + 0x10 },
		{ 0x9000, 4, bytes + 0x40 },
		{ UINT64_MAX - 1, 1, bytes },
	};
	struct snap_memory_piece large[] = { { 0x1000, 16, bytes },
					     { 0x2000, sizeof(bytes), bytes },
					     { 0x90000, 16, bytes } };
	struct snap_memory_image image = { .pieces = scattered, .piece_count = 7 };
	struct snap_log_object poll = call_of(bed->space, POLL, 0);
	const struct snap_log_wait_bytes *words;
	uint32_t number;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	number = find(bed->log, poll, &image);
	words = snap_log_owner_bytes(bed->log, number - 1);
	assert_int_equal(words->piece_count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(words->pieces[i].address, sorted[i].address);
		assert_int_equal(words->pieces[i].size, sorted[i].size);
		assert_memory_equal(words->pieces[i].bytes, sorted[i].bytes, sorted[i].size);
	}
	image = (struct snap_memory_image){ .pieces = sorted, .piece_count = 3 };
	assert_int_equal(find(bed->log, poll, &image), number);
	/* Empty is none. */
	image.piece_count = 0;
	assert_null(snap_log_owner_bytes(bed->log, find(bed->log, poll, &image) - 1));
	assert_int_equal(find(bed->log, poll, NULL), find(bed->log, poll, &image));
	/* There is a most. */
	image = (struct snap_memory_image){ .pieces = large, .piece_count = 3 };
	words = snap_log_owner_bytes(bed->log, find(bed->log, poll, &image) - 1);
	assert_int_equal(words->piece_count, 2);
	assert_int_equal(words->pieces[1].size, SNAP_LOG_MAX_OBJECT_WORDS - 16);
	assert_int_equal(snap_log_wait_image(words).bytes, SNAP_LOG_MAX_OBJECT_WORDS);
}

/* ---- holds ---- */

static void test_holds_are_a_time_line(void **state)
{
	struct bed *bed = *state;
	struct snap_log *log = bed->log;
	uint32_t lock, other;

	begin_tick(log);
	lock = find(log, call_of(bed->space, FUTEX, 0x5000), words_of(0x5000, 7)) - 1;
	assert_int_equal(log->owner_count, 1);
	assert_int_equal(log->objects[lock].words, log->owners[0].words);
	snap_log_end_tick(log, 0);
	begin_tick(log);
	/* It is no other object with other words, and nothing changes by that. */
	assert_int_equal(find(log, call_of(bed->space, FUTEX, 0x5000), words_of(0x5000, 9)) - 1,
			 lock);
	fine(snap_log_set_owner(log, lock, words_of(0x5000, 7)));
	assert_int_equal(log->owner_count, 1);
	snap_log_end_tick(log, 0);
	begin_tick(log);
	fine(snap_log_set_owner(log, lock, words_of(0x5000, 8)));
	/* The later one of a tick stays. */
	fine(snap_log_set_owner(log, lock, words_of(0x5000, 9)));
	assert_int_equal(log->owner_count, 2);
	assert_int_equal(word_of(snap_log_owner_bytes(log, lock)), 9);
	other = find(log, call_of(bed->space, FUTEX, 0x6000), NULL) - 1;
	assert_null(snap_log_owner_bytes(log, other));
	assert_int_equal(log->owner_count, 2);
	fine(snap_log_set_owner(log, other, words_of(0x6000, 1)));
	snap_log_end_tick(log, 0);
	begin_tick(log);
	fine(snap_log_set_owner(log, lock, NULL));
	snap_log_end_tick(log, 0);
	assert_null(snap_log_owner_bytes(log, lock));
	assert_int_equal(log->owner_count, 4);
	assert_int_equal(log->owners[1].object, lock);
	assert_int_equal(word_of(&log->words[log->owners[1].words - 1]), 9);
	assert_int_equal(log->owners[2].object, other);
	assert_int_equal(log->owners[3].words, 0);
	assert_int_equal(log->ticks[0].owner_end, 1);
	assert_int_equal(log->ticks[1].owner_end, 1);
	assert_int_equal(log->ticks[2].owner_end, 3);
	assert_int_equal(log->ticks[3].owner_end, 4);
	/* What it was found with stays. */
	assert_int_equal(word_of(&log->words[log->objects[lock].words - 1]), 7);
}

static void test_holds_are_what_says_who_has_it(void **state)
{
	struct bed *bed = *state;
	struct snap_log *log = bed->log;
	uint8_t bytes[SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND] = { 0 };
	struct snap_memory_piece piece = { 0x5000 - SNAP_WORDS_BEFORE, sizeof(bytes), bytes };
	const struct snap_memory_image image = { .pieces = &piece, .piece_count = 1 };
	const struct snap_log_wait_bytes *words;
	uint32_t lock, other;

	begin_tick(log);
	lock = find(log, call_of(bed->space, FUTEX, 0x5000), &image) - 1;
	other = find(log, call_of(bed->space, FUTEX, 0x5000 + 4), NULL) - 1;
	snap_log_end_tick(log, 0);
	begin_tick(log);
	/* What it guards is no part of it. */
	bytes[0] = bytes[SNAP_WORDS_BEFORE - 1] = bytes[SNAP_WORDS_BEFORE + 32] = 7;
	fine(snap_log_set_owner(log, lock, &image));
	assert_int_equal(log->owner_count, 1);
	bytes[SNAP_WORDS_BEFORE + 8] = 8;
	fine(snap_log_set_owner(log, lock, &image));
	assert_int_equal(log->owner_count, 2);
	words = snap_log_owner_bytes(log, lock);
	assert_int_equal(words->piece_count, 1);
	assert_int_equal(words->pieces[0].address, 0x5000);
	assert_int_equal(words->pieces[0].size, SNAP_LOG_HOLD_BYTES);
	assert_int_equal(words->pieces[0].bytes[8], 8);
	/* One that was found without words is explained by the first ones. */
	assert_int_equal(log->objects[other].words, 0);
	fine(snap_log_set_owner(log, other, &image));
	assert_ptr_equal(snap_log_owner_bytes(log, other),
			 &log->words[log->objects[other].words - 1]);
	assert_int_equal(snap_log_owner_bytes(log, other)->pieces[0].size, sizeof(bytes));
	snap_log_end_tick(log, 0);
}

/* ---- changes ---- */

static void test_another_object_is_a_change(void **state)
{
	struct bed *bed = *state;
	struct snap_log *log = bed->log;
	uint32_t process, space = add_space(log, 11, &process);
	uint32_t a = find(log, call_of(bed->space, READ, 3), NULL);
	uint32_t b = find(log, call_of(bed->space, READ, 4), NULL);
	uint32_t foreign = find(log, call_of(space, READ, 3), NULL);

	begin_tick(log);
	change(log, bed->thread, bed->stack, a);
	snap_log_end_tick(log, 0);
	begin_tick(log);
	change(log, bed->thread, bed->stack, a);
	assert_int_equal(log->change_count, 1);
	change(log, bed->thread, bed->stack, b);
	assert_int_equal(log->change_count, 2);
	assert_int_equal(snap_log_standing(log, bed->thread)->object, b);
	snap_log_end_tick(log, 0);
	begin_tick(log);
	/* That of another program is none of its own. */
	change(log, bed->thread, bed->stack, foreign);
	assert_int_equal(snap_log_standing(log, bed->thread)->object, 0);
	snap_log_end_tick(log, 0);
	begin_tick(log);
	change(log, bed->thread, SNAP_LOG_GONE, a);
	assert_int_equal(log->changes[3].object, 0);
	snap_log_end_tick(log, 0);
	assert_int_equal(log->change_count, 4);
}

/* ---- sockets ---- */

static void test_socket_is_replaced(void **state)
{
	struct bed *bed = *state;
	char name[200];
	struct snap_socket socket = {
		.namespace = 1, .inode = 77, .family = SNAP_SOCKET_UNIX, .name = name
	};

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = 0;
	fine(snap_log_add_socket(bed->log, &socket));
	socket.namespace = 2;
	fine(snap_log_add_socket(bed->log, &socket));
	assert_int_equal(bed->log->socket_count, 2);
	assert_int_equal(strlen(bed->log->sockets[0].name), SNAP_MAX_SOCKET_NAME);
	socket.receive_queue = 5;
	socket.name = NULL;
	fine(snap_log_add_socket(bed->log, &socket));
	assert_int_equal(bed->log->socket_count, 2);
	assert_int_equal(bed->log->sockets[0].receive_queue, 0);
	assert_int_equal(bed->log->sockets[1].receive_queue, 5);
	assert_null(bed->log->sockets[1].name);
	assert_int_equal(bed->log->index->socket_stamp, 3);
	fine(snap_log_add_socket(bed->log, &socket));
	assert_int_equal(bed->log->index->socket_stamp, 3);
}

/* ---- explanations ---- */

static void test_pairs_are_explained_once(void **state)
{
	struct bed *bed = *state;
	struct snap_log *log = bed->log;
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_LIKELY);
	uint32_t a = find(log, call_of(bed->space, READ, 3), NULL);
	uint32_t b = find(log, call_of(bed->space, READ, 4), NULL);
	uint32_t stack = add_stack(log, bed->space, 0x2000);
	_cleanup_free_ struct snap_log_explained *left = NULL;
	const struct snap_log_explained *known;
	char symbol[] = "lock";
	size_t count;

	assert_false(snap_log_has_waits_left(log));
	for (int i = 0; i < 6; i++) {
		begin_tick(log);
		change(log, bed->thread, i & 1 ? bed->stack : stack, i % 3 ? a : b);
		snap_log_end_tick(log, 0);
	}
	begin_tick(log);
	change(log, bed->thread, stack, 0);
	snap_log_end_tick(log, 0);
	assert_true(snap_log_has_waits_left(log));
	fine(snap_log_waits_left(log, &left, &count));
	assert_int_equal(count, 4);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(left[i].stack, i < 2 ? bed->stack : stack);
		assert_int_equal(left[i].object, (i & 1 ? b : a) - 1);
		assert_null(left[i].wait);
		assert_null(snap_log_explained(log, left[i].stack, left[i].object));
	}
	wait.symbol = symbol;
	wait.has_owner = true;
	wait.owner = (struct snap_wait_party){ .pid = 10, .tid = 11 };
	wait.since_ns = 5;
	wait.owner_word = (struct snap_owner_word){ 0x5008, SNAP_OWNER_FORM_TID };
	fine(snap_log_explain(log, left[0].stack, left[0].object, &wait));
	fine(snap_log_explain(log, left[0].stack, left[0].object, NULL));
	fine(snap_log_explain(log, left[1].stack, left[1].object, NULL));
	fine(snap_log_explain(log, left[2].stack, left[2].object, &wait));
	memset(symbol, 'x', 4);
	known = snap_log_explained(log, left[0].stack, left[0].object);
	assert_non_null(known);
	assert_string_equal(known->wait->symbol, "lock");
	assert_false(known->wait->has_owner);
	assert_int_equal(known->wait->owner.tid, 0);
	assert_int_equal(known->wait->since_ns, -1);
	assert_int_equal(known->wait->owner_word.address, 0x5008);
	assert_null(snap_log_explained(log, left[1].stack, left[1].object)->wait);
	assert_true(snap_log_has_waits_left(log));
	free(snap_take_ptr(left));
	fine(snap_log_waits_left(log, &left, &count));
	assert_int_equal(count, 1);
	fine(snap_log_explain(log, left[0].stack, left[0].object, NULL));
	assert_int_equal(log->explained_count, 4);
	assert_false(snap_log_has_waits_left(log));
}

static void test_copy_has_no_threads(void **state _unused_)
{
	struct snap_wait_party parties[] = {
		{ .pid = 10, .tid = 11, .name = "worker" },
		{ .pid = 12, .name = "server", .stack = "abc", .outside = true },
		{ .pid = 10, .tid = 13 },
	};
	int32_t fds[] = { 3, 4 };
	uint32_t kinds[] = { SNAP_DESCRIPTOR_PIPE, SNAP_DESCRIPTOR_TTY };
	struct snap_wait from = snap_wait_init(SNAP_WAIT_POLL, SNAP_WAIT_IS_CERTAIN), copy;
	struct snap_arena arena;
	struct snap_interner strings;

	snap_arena_init(&arena);
	snap_interner_init(&strings, &arena);
	from.peers = parties;
	from.peer_count = 3;
	from.peer_total = 30;
	from.holders = parties;
	from.holder_count = 1;
	from.hints = parties;
	from.hint_count = 2;
	from.owner = parties[0];
	from.owner_lack = SNAP_OWNER_EXITED;
	from.fds = fds;
	from.fd_kinds = kinds;
	from.fds_count = 2;
	from.path = "/srv/x";
	parties[1].wait = &from;
	assert_true(snap_wait_copy(&strings, &from, &copy));
	assert_int_equal(copy.peer_count, 1);
	assert_int_equal(copy.peer_total, 28);
	assert_int_equal(copy.peers[0].pid, 12);
	assert_string_equal(copy.peers[0].name, "server");
	assert_null(copy.peers[0].wait);
	assert_null(copy.peers[0].stack);
	assert_int_equal(copy.holder_count, 0);
	assert_int_equal(copy.hint_count, 1);
	assert_int_equal(copy.owner.tid, 0);
	assert_int_equal(copy.owner_lack, SNAP_OWNER_KNOWN);
	assert_ptr_not_equal(copy.fds, fds);
	assert_memory_equal(copy.fds, fds, sizeof(fds));
	assert_memory_equal(copy.fd_kinds, kinds, sizeof(kinds));
	assert_string_equal(copy.path, "/srv/x");
	/* What has no thread is as it was. */
	from.peers = &parties[1];
	from.holder_count = from.hint_count = 0;
	from.peer_count = from.peer_total = 1;
	from.owner = (struct snap_wait_party){ .tid = 0 };
	from.owner_lack = SNAP_OWNER_NOT_KEPT;
	assert_true(snap_wait_copy(&strings, &from, &copy));
	assert_true(snap_wait_same(&from, &copy));
	snap_interner_deinit(&strings);
	snap_arena_deinit(&arena);
}

/* ---- a ring against a log that forgets nothing ---- */

enum { SEATS = 24, TICKS = 6000, RING = 200, LOCKS = 40 };

/* The same things in both logs, by their numbers in each. */
struct twin {
	struct snap_log *log;
	uint32_t process, thread[SEATS];
};

struct churn {
	struct twin ring, whole;
	uint32_t random;
	uint64_t next;
	size_t renumbered, most_objects, most_words;
	unsigned tick;
};

static unsigned roll(struct churn *churn, unsigned sides)
{
	churn->random = churn->random * 1103515245u + 12345u;
	return (churn->random >> 8) % sides;
}

/* Objects of all kinds, some of which come once. */
static uint32_t twin_object(const struct twin *twin, uint64_t key, uint64_t word)
{
	uint32_t space = twin->log->processes[twin->process].space;
	struct snap_descriptor descriptor = { .number = (int32_t)key,
					      .kind = SNAP_DESCRIPTOR_SOCKET,
					      .link = "socket:[]",
					      .inode = 1000 + key };
	struct snap_socket socket = { .namespace = 1, .inode = 1000 + key, .peer = key };
	struct snap_log_object read = call_of(space, READ, key);

	if (key % 3 == 0)
		return find(twin->log, call_of(space, FUTEX, 0x5000 + key * 8),
			    words_of(0x5000 + key * 8, word));
	if (key % 3 == 1)
		return find(twin->log, call_of(space, POLL, key), words_of(0x9000, key));
	read.descriptors = &descriptor;
	read.descriptor_count = 1;
	fine(snap_log_add_socket(twin->log, &socket));
	return find(twin->log, read, NULL);
}

static void twin_change(const struct twin *twin, int seat, uint64_t place, uint64_t key,
			uint64_t word)
{
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_LIKELY);
	uint32_t stack = add_stack(twin->log, twin->log->processes[twin->process].space, place);
	uint32_t object = key ? twin_object(twin, key, word) : 0;

	change(twin->log, twin->thread[seat], stack, object);
	wait.address = place;
	wait.offset = key;
	wait.symbol = "lock";
	if (object && place % 2)
		fine(snap_log_explain(twin->log, stack, object - 1, &wait));
}

static void twin_hold(const struct twin *twin, int seat, uint64_t owner)
{
	const struct snap_log *log = twin->log;
	uint32_t now = snap_log_standing(log, twin->thread[seat])->object;

	if (now && log->objects[now - 1].is_futex)
		fine(snap_log_set_owner(
			twin->log, now - 1,
			owner ? words_of(log->objects[now - 1].call.arguments[0], owner) : NULL));
}

static void churn_tick(struct churn *churn)
{
	begin_tick(churn->ring.log);
	begin_tick(churn->whole.log);
	for (int i = 0; i < SEATS; i++) {
		/* The first seat's thread stands for ever, and who has its lock changes once. */
		bool moves = i ? roll(churn, 8) == 0 : churn->tick == 0;
		uint64_t place = 1 + roll(churn, 30), word = roll(churn, 5), key;

		key = i == 0                ? 300000
		      : roll(churn, 4) == 0 ? 3000 + churn->next++
					    : roll(churn, LOCKS);
		/* Nobody stands with some, whatever they were made for. */
		if (roll(churn, 100) == 0)
			twin_object(&churn->ring, 600000 + 3 * churn->tick, word);
		if (moves) {
			twin_change(&churn->ring, i, place, key, word);
			twin_change(&churn->whole, i, place, key, word);
		}
		if (i ? roll(churn, 3) == 0 : churn->tick == 5) {
			uint64_t owner = roll(churn, 6) ? churn->next : 0;

			twin_hold(&churn->ring, i, owner);
			twin_hold(&churn->whole, i, owner);
		}
	}
	snap_log_end_tick(churn->ring.log, 0);
	snap_log_end_tick(churn->whole.log, 0);
}

/* How a log stood at each moment, played from its beginning. */
struct play {
	const struct snap_log *log;
	const struct snap_log_change **threads;
	uint32_t *held;
	size_t change, hold;
};

static void play_init(struct play *play, const struct snap_log *log)
{
	*play = (struct play){ .log = log };
	play->threads = calloc(log->thread_count + 1, sizeof(*play->threads));
	play->held = calloc(log->object_count + 1, sizeof(*play->held));
	for (size_t i = 0; i < log->before_count; i++)
		play->threads[i] = &log->before[i];
	for (size_t i = 0; i < log->owners_before_count; i++)
		play->held[i] = log->owners_before[i];
}

static void play_deinit(struct play *play)
{
	assert_int_equal(play->change, play->log->change_count);
	assert_int_equal(play->hold, play->log->owner_count);
	free(play->threads);
	free(play->held);
}

static void play_tick(struct play *play, uint64_t number)
{
	const struct snap_log *log = play->log;
	const struct snap_log_tick *tick = &log->ticks[number - log->first_tick];

	for (; log->first_change + play->change < tick->change_end; play->change++)
		play->threads[log->changes[play->change].thread] = &log->changes[play->change];
	for (; log->first_owner + play->hold < tick->owner_end; play->hold++)
		play->held[log->owners[play->hold].object] = log->owners[play->hold].words;
}

static void compare_words(const struct play *ring, uint32_t a, const struct play *whole, uint32_t b)
{
	assert_int_equal(a != 0, b != 0);
	if (!a)
		return;
	assert_int_equal(word_of(&ring->log->words[a - 1]), word_of(&whole->log->words[b - 1]));
	assert_int_equal(ring->log->words[a - 1].pieces[0].address,
			 whole->log->words[b - 1].pieces[0].address);
}

static void compare_sockets(const struct play *ring, const struct snap_log_object *object)
{
	for (size_t i = 0; i < ring->log->socket_count; i++)
		if (ring->log->sockets[i].inode == object->descriptors[0].inode)
			return;
	fail_msg("a socket is gone");
}

static void compare_thread(const struct play *ring, const struct snap_log_change *a,
			   const struct play *whole, const struct snap_log_change *b)
{
	const struct snap_log_object *left, *right;
	const struct snap_log_explained *known, *same;

	assert_int_equal(a && a->stack != SNAP_LOG_GONE, b && b->stack != SNAP_LOG_GONE);
	if (!a || a->stack == SNAP_LOG_GONE)
		return;
	assert_int_equal(a->object != 0, b->object != 0);
	if (!a->object)
		return;
	left = &ring->log->objects[a->object - 1];
	right = &whole->log->objects[b->object - 1];
	assert_int_equal(left->call.known, right->call.known);
	assert_int_equal(left->call.number, right->call.number);
	assert_int_equal(left->call.sp, right->call.sp);
	assert_memory_equal(left->call.arguments, right->call.arguments,
			    sizeof(left->call.arguments));
	assert_int_equal(left->descriptor_count, right->descriptor_count);
	compare_words(ring, left->words, whole, right->words);
	compare_words(ring, ring->held[a->object - 1], whole, whole->held[b->object - 1]);
	known = snap_log_explained(ring->log, a->stack, a->object - 1);
	same = snap_log_explained(whole->log, b->stack, b->object - 1);
	assert_int_equal(known != NULL, same != NULL);
	if (known) {
		assert_true(snap_wait_same(known->wait, same->wait));
		assert_string_equal(known->wait->symbol, "lock");
	}
	if (left->descriptor_count) {
		assert_int_equal(left->descriptors[0].inode, right->descriptors[0].inode);
		assert_string_equal(left->descriptors[0].link, "socket:[]");
		compare_sockets(ring, left);
	}
}

static void compare(const struct churn *churn)
{
	const struct snap_log *log = churn->ring.log;
	struct play ring, whole;

	play_init(&ring, log);
	play_init(&whole, churn->whole.log);
	for (uint64_t tick = 0; tick < log->first_tick; tick++)
		play_tick(&whole, tick);
	for (uint64_t tick = log->first_tick; tick < log->first_tick + log->tick_count; tick++) {
		play_tick(&ring, tick);
		play_tick(&whole, tick);
		for (int i = 0; i < SEATS; i++)
			compare_thread(&ring, ring.threads[churn->ring.thread[i]], &whole,
				       whole.threads[churn->whole.thread[i]]);
	}
	play_deinit(&ring);
	play_deinit(&whole);
	/* And those that come next are compared with what is held now. */
	for (int i = 0; i < SEATS; i++) {
		uint32_t a = snap_log_standing(log, churn->ring.thread[i])->object;
		uint32_t b = snap_log_standing(whole.log, churn->whole.thread[i])->object;
		const struct snap_log_wait_bytes *held =
			a ? snap_log_owner_bytes(log, a - 1) : NULL;
		const struct snap_log_wait_bytes *same =
			b ? snap_log_owner_bytes(whole.log, b - 1) : NULL;

		assert_int_equal(held != NULL, same != NULL);
		if (held)
			assert_int_equal(word_of(held), word_of(same));
	}
}

static void forget(struct churn *churn)
{
	struct twin *ring = &churn->ring;
	uint32_t stood[SEATS];
	bool renumbered;

	for (int i = 0; i < SEATS; i++)
		stood[i] = snap_log_standing(ring->log, ring->thread[i])->object;
	if (churn->tick % 1500 == 1499)
		fine(snap_log_forget_half(ring->log, &renumbered));
	else
		fine(snap_log_forget(ring->log, ((int64_t)churn->tick - RING) * 10, &renumbered));
	if (!renumbered)
		return;
	churn->renumbered++;
	for (int i = 0; i < SEATS; i++) {
		ring->thread[i] = snap_log_moved_thread(ring->log, ring->thread[i]);
		if (stood[i])
			assert_int_equal(snap_log_standing(ring->log, ring->thread[i])->object,
					 snap_log_moved_object(ring->log, stood[i] - 1) + 1);
	}
	compare(churn);
}

static void twin_init(struct twin *twin)
{
	struct snap_host host = { .name = "host", .kernel = "6.1", .arch = "x86_64" };

	fine(snap_log_create(&host, 1000, 10, false, &twin->log));
	add_space(twin->log, 10, &twin->process);
	for (int i = 0; i < SEATS; i++)
		fine(snap_log_add_thread(twin->log, twin->process, 10 + i, 10 + i, "worker", false,
					 &twin->thread[i]));
}

static void test_ring_is_the_end_of_the_whole(void **state _unused_)
{
	struct churn churn = { .random = 4711, .next = 1 };
	bool renumbered;

	twin_init(&churn.ring);
	twin_init(&churn.whole);
	for (churn.tick = 0; churn.tick < TICKS; churn.tick++) {
		const struct snap_log *log = churn.ring.log;

		churn_tick(&churn);
		forget(&churn);
		if (log->object_count > churn.most_objects)
			churn.most_objects = log->object_count;
		if (log->words_count > churn.most_words)
			churn.most_words = log->words_count;
	}
	compare(&churn);
	assert_true(churn.renumbered > 5);
	assert_true(churn.whole.log->object_count > 4 * churn.most_objects);
	assert_true(churn.whole.log->words_count > 2 * churn.most_words);
	/* All is forgotten but who has what is waited for now. */
	fine(snap_log_forget(churn.ring.log, INT64_MAX, &renumbered));
	assert_int_equal(churn.ring.log->owner_count, 0);
	fine(snap_log_forget_half(churn.ring.log, &renumbered));
	assert_true(churn.ring.log->object_count <= SEATS);
	assert_true(churn.ring.log->socket_count <= SEATS);
	assert_true(churn.ring.log->explained_count < churn.whole.log->explained_count / 4);
	assert_true(churn.ring.log->words_count <= 3 * SEATS);
	snap_log_destroy(churn.ring.log);
	snap_log_destroy(churn.whole.log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_object_is_there_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_futex_on_a_stack, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_links_tell_objects_apart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_words_of_calls_are_part_of_them, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_pieces_are_sorted_and_joined, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_holds_are_a_time_line, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_holds_are_what_says_who_has_it, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_another_object_is_a_change, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_socket_is_replaced, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pairs_are_explained_once, set_up, tear_down),
		cmocka_unit_test(test_copy_has_no_threads),
		cmocka_unit_test(test_ring_is_the_end_of_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
