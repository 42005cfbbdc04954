/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What pairs of stack and object of a log mean: by names, words, descriptors and sockets, each by
 * its own ones, and never more than is known.
 */
#include "base/text.h"
#include "log_wait_bed.h"

#include <poll.h>

enum { M = HEAP + 0x100 };

static const char lock[] = "libc:___pthread_mutex_lock";

static const struct snap_wait *wait_of(const struct bed *bed, uint32_t stack, uint32_t object)
{
	const struct snap_log_explained *known = snap_log_explained(bed->log, stack, object);

	assert_non_null(known);
	return known->wait;
}

static const struct snap_wait *check(const struct bed *bed, uint32_t stack, uint32_t object,
				     enum snap_wait_kind kind, uint64_t address)
{
	const struct snap_wait *wait = wait_of(bed, stack, object);

	assert_non_null(wait);
	assert_string_equal(snap_wait_kind_word(wait->kind), snap_wait_kind_word(kind));
	assert_int_equal(wait->address, address);
	/* Nothing of one moment. */
	assert_false(wait->has_owner || wait->mutex_free || wait->peers_unknown);
	assert_int_equal(wait->owner.tid, 0);
	assert_int_equal(wait->since_ns, -1);
	assert_int_equal(wait->remaining_ns, -1);
	assert_int_equal(wait->readers, -1);
	return wait;
}

/* A process with two threads, of which the second waits in a stack with an object. */
struct scene {
	struct bed bed;
	uint32_t process, owner, waiter;
};

static void scene_init(struct scene *scene)
{
	bed_init(&scene->bed);
	bed_begin(&scene->bed);
	scene->process = bed_process(&scene->bed, 100, UINT32_MAX, UINT32_MAX);
	scene->owner = bed_thread(&scene->bed, scene->process, 101);
	scene->waiter = bed_thread(&scene->bed, scene->process, 102);
}

static void scene_wait(struct scene *scene, uint32_t stack, uint32_t object)
{
	bed_stand(&scene->bed, scene->waiter, stack, SNAP_STATE_SLEEPING, object);
	bed_end(&scene->bed);
	bed_begin(&scene->bed);
}

static void scene_explain(struct scene *scene)
{
	bed_end(&scene->bed);
	bed_explain(&scene->bed);
}

/* ---- locks ---- */

static void test_mutex(void **state _unused_)
{
	static const struct {
		uint64_t address;
		const char *place, *module;
	} rows[] = {
		{ M, "heap", NULL },
		{ MAIN_STACK + 0x100, "stack", NULL },
		/* Whose stack, or whether it is one, cannot be told. */
		{ ANONYMOUS + 0x100, NULL, NULL },
		{ APP_DATA + 0x100, NULL, "/bin/app" },
	};
	uint32_t stack, objects[SNAP_ARRAY_SIZE(rows)];
	struct scene scene;

	scene_init(&scene);
	stack = BED_STACK(&scene.bed, scene.process, lock, "app:work");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		objects[i] = bed_mutex(&scene.bed, scene.process, rows[i].address, 101);
		scene_wait(&scene, stack, objects[i]);
	}
	scene_explain(&scene);
	assert_int_equal(scene.bed.log->explained_count, SNAP_ARRAY_SIZE(rows));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_wait *wait =
			check(&scene.bed, stack, objects[i], SNAP_WAIT_MUTEX, rows[i].address);

		/* They did not stand still together. */
		assert_int_equal(wait->confidence, SNAP_WAIT_IS_LIKELY);
		assert_int_equal(wait->owner_lack, SNAP_OWNER_KNOWN);
		assert_int_equal(wait->owner_word.form, SNAP_OWNER_FORM_TID);
		assert_int_equal(wait->owner_word.address, rows[i].address + 8);
		assert_string_equal(wait->call, "futex");
		assert_true(snap_same_text(wait->place, rows[i].place));
		assert_true(snap_same_text(wait->module, rows[i].module));
	}
	bed_deinit(&scene.bed);
}

/* One address, and memory of two moments: each pair has its own words. */
static void test_own_words(void **state _unused_)
{
	uint32_t stack, plain, pi, unknown, late;
	const struct snap_wait *wait;
	struct bed_words words;
	struct scene scene;

	scene_init(&scene);
	stack = BED_STACK(&scene.bed, scene.process, lock, "app:work");
	plain = bed_mutex(&scene.bed, scene.process, M, 101);
	scene_wait(&scene, stack, plain);
	pi = bed_futex(&scene.bed, scene.process, M, FUTEX_LOCK_PI_PRIVATE, 0,
		       bed_mutex_words(&words, M, 101, MUTEX_PI_KIND));
	scene_wait(&scene, stack, pi);
	unknown = bed_futex(&scene.bed, scene.process, M + 0x100, FUTEX_WAIT_PRIVATE, 2, NULL);
	scene_wait(&scene, stack, unknown);
	/* The first words that could be read count. */
	late = bed_futex(&scene.bed, scene.process, M + 0x200, FUTEX_WAIT_PRIVATE, 2, NULL);
	scene_wait(&scene, stack, late);
	fine(snap_log_set_owner(scene.bed.log, late, bed_mutex_words(&words, M + 0x200, 101, 1)));
	scene_explain(&scene);
	wait = check(&scene.bed, stack, plain, SNAP_WAIT_MUTEX, M);
	assert_null(wait->variant);
	assert_int_equal(wait->owner_word.form, SNAP_OWNER_FORM_TID);
	wait = check(&scene.bed, stack, pi, SNAP_WAIT_MUTEX, M);
	assert_string_equal(wait->variant, "pi");
	assert_int_equal(wait->owner_word.address, M);
	assert_int_equal(wait->owner_word.form, SNAP_OWNER_FORM_MASKED);
	wait = check(&scene.bed, stack, unknown, SNAP_WAIT_MUTEX, M + 0x100);
	assert_null(wait->variant);
	assert_int_equal(wait->owner_word.address, M + 0x108);
	wait = check(&scene.bed, stack, late, SNAP_WAIT_MUTEX, M + 0x200);
	assert_string_equal(wait->variant, "recursive");
	bed_deinit(&scene.bed);
}

/* Two stacks with one object are two pairs. */
static void test_names(void **state _unused_)
{
	uint32_t condition, mutex, other, object;
	struct scene scene;

	scene_init(&scene);
	condition = BED_STACK(&scene.bed, scene.process, "libc:pthread_cond_wait", "app:idle");
	mutex = BED_STACK(&scene.bed, scene.process, lock, "app:work");
	other = BED_STACK(&scene.bed, scene.process, "app:mine", "app:work");
	object = bed_futex(&scene.bed, scene.process, M + 40, FUTEX_BITSET_PRIVATE, 0, NULL);
	scene_wait(&scene, condition, object);
	scene_wait(&scene, mutex, object);
	scene_wait(&scene, other, object);
	scene_explain(&scene);
	check(&scene.bed, condition, object, SNAP_WAIT_CONDITION, M);
	assert_int_equal(wait_of(&scene.bed, condition, object)->owner_lack, SNAP_OWNER_NOT_KEPT);
	check(&scene.bed, mutex, object, SNAP_WAIT_MUTEX, M + 40);
	check(&scene.bed, other, object, SNAP_WAIT_FUTEX, M + 40);
	assert_int_equal(wait_of(&scene.bed, other, object)->confidence, SNAP_WAIT_IS_GUESS);
	bed_deinit(&scene.bed);
}

/* Without names the words have to name a thread of the process. */
static void test_data(void **state _unused_)
{
	static const struct {
		uint32_t owner;
		enum snap_wait_kind kind;
	} rows[] = {
		{ 101, SNAP_WAIT_MUTEX }, { 100, SNAP_WAIT_FUTEX }, { 333, SNAP_WAIT_FUTEX },
		{ 201, SNAP_WAIT_FUTEX }, { 0, SNAP_WAIT_FUTEX },
	};
	uint32_t stack, objects[SNAP_ARRAY_SIZE(rows)];
	struct scene scene;

	scene_init(&scene);
	bed_thread(&scene.bed, bed_process(&scene.bed, 200, UINT32_MAX, UINT32_MAX), 201);
	stack = BED_STACK(&scene.bed, scene.process, "libc:", "app:work");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		objects[i] = bed_mutex(&scene.bed, scene.process, M + 0x100 * i, rows[i].owner);
		scene_wait(&scene, stack, objects[i]);
	}
	scene_explain(&scene);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		check(&scene.bed, stack, objects[i], rows[i].kind, M + 0x100 * i);
	bed_deinit(&scene.bed);
}

/* take_gil() waits with a timeout, which a log does not know. */
static void test_gil(void **state _unused_)
{
	/* Interval, last holder, locked, switches; behind them the condition, and its word. */
	static const uint32_t words[16] = { 5000, 0, M, 0, 1, 0, 7, 0 };
	struct bed_words memory;
	const struct snap_wait *wait;
	struct scene scene;
	uint32_t stack, object;

	scene_init(&scene);
	stack = BED_STACK(&scene.bed, scene.process, "libc:pthread_cond_timedwait", "app:take_gil");
	object = bed_futex(&scene.bed, scene.process, M + 32 + 40, FUTEX_BITSET_PRIVATE, 0,
			   bed_words(&memory, M, words, sizeof(words)));
	scene_wait(&scene, stack, object);
	bed_end(&scene.bed);
	bed_name_all(&scene.bed);
	for (size_t i = 0; i < scene.bed.log->name_count; i++)
		if (strcmp(scene.bed.log->names[i].module, "/bin/app") == 0)
			scene.bed.log->names[i].module = "/usr/bin/python3.11";
	bed_explain(&scene.bed);
	wait = check(&scene.bed, stack, object, SNAP_WAIT_GIL, M + 32);
	assert_int_equal(wait->owner_word.form, SNAP_OWNER_FORM_NONE);
	assert_int_equal(wait->owner_lack, SNAP_OWNER_KNOWN);
	bed_deinit(&scene.bed);
}

/* ---- other calls ---- */

static uint32_t call_with(struct scene *scene, int64_t number, const uint64_t arguments[3],
			  struct snap_descriptor *descriptors, uint32_t count,
			  const struct snap_memory_image *words)
{
	struct snap_log_object object = {
		.space = bed_space(&scene->bed, scene->process),
		.call = { .known = true,
			  .number = number,
			  .arguments = { arguments[0], arguments[1], arguments[2] } },
		.descriptors = descriptors,
		.descriptor_count = count,
	};

	return bed_object(&scene->bed, &object, words);
}

/* A number leads to one thing, and later to another one. */
static void test_descriptors(void **state _unused_)
{
	struct snap_descriptor pipe = { .number = 5,
					.kind = SNAP_DESCRIPTOR_PIPE,
					.readable = true,
					.link = "pipe:[77]",
					.inode = 77,
					.remaining_ns = -1 };
	struct snap_descriptor socket = { .number = 5,
					  .kind = SNAP_DESCRIPTOR_SOCKET,
					  .link = "socket:[88]",
					  .inode = 88,
					  .remaining_ns = -1 };
	struct snap_socket facts = { .namespace = 4026531840,
				     .inode = 88,
				     .family = SNAP_SOCKET_TCP4,
				     .state = 1,
				     .local = { .bytes = { 10, 0, 0, 4 }, .port = 51234 },
				     .remote = { .bytes = { 10, 0, 0, 9 }, .port = 5432 },
				     .receive_queue = 7,
				     .queues_known = true };
	const uint64_t arguments[3] = { 5 };
	uint32_t stack, of_pipe, of_socket, of_none;
	const struct snap_wait *wait;
	struct scene scene;

	scene_init(&scene);
	stack = BED_STACK(&scene.bed, scene.process, "libc:read", "app:work");
	fine(snap_log_add_socket(scene.bed.log, &facts));
	of_pipe = call_with(&scene, CALL_READ, arguments, &pipe, 1, NULL);
	scene_wait(&scene, stack, of_pipe);
	of_socket = call_with(&scene, CALL_READ, arguments, &socket, 1, NULL);
	scene_wait(&scene, stack, of_socket);
	of_none = call_with(&scene, CALL_READ, arguments, NULL, 0, NULL);
	scene_wait(&scene, stack, of_none);
	scene_explain(&scene);
	wait = check(&scene.bed, stack, of_pipe, SNAP_WAIT_PIPE, 0);
	assert_string_equal(wait->path, "pipe:[77]");
	assert_int_equal(wait->peer_total, 0);
	wait = check(&scene.bed, stack, of_socket, SNAP_WAIT_TCP, 0);
	assert_string_equal(wait->local, "10.0.0.4:51234");
	assert_string_equal(wait->remote, "10.0.0.9:5432");
	assert_int_equal(wait->recv_queue, -1);
	check(&scene.bed, stack, of_none, SNAP_WAIT_SYSCALL, 0);
	bed_deinit(&scene.bed);
}

/* A log knows whether there is a time limit, and not which. */
static void test_poll(void **state _unused_)
{
	struct pollfd polled[] = { { .fd = 3, .events = POLLIN }, { .fd = 4, .events = POLLIN } };
	const uint64_t arguments[3] = { MAIN_STACK + 0x100, 2, UINT32_MAX },
		       limited[3] = { MAIN_STACK + 0x100, 2, 1 };
	struct bed_words words;
	const struct snap_wait *wait;
	struct scene scene;
	uint32_t stack, object, other;

	scene_init(&scene);
	stack = BED_STACK(&scene.bed, scene.process, "libc:poll", "app:work");
	object = call_with(
		&scene, CALL_POLL, arguments, NULL, 0,
		bed_words(&words, MAIN_STACK + 0x100, (const uint32_t *)polled, sizeof(polled)));
	scene_wait(&scene, stack, object);
	other = call_with(
		&scene, CALL_POLL, limited, NULL, 0,
		bed_words(&words, MAIN_STACK + 0x100, (const uint32_t *)polled, sizeof(polled)));
	scene_wait(&scene, stack, other);
	scene_explain(&scene);
	assert_true(check(&scene.bed, stack, other, SNAP_WAIT_POLL, 0)->timed);
	wait = check(&scene.bed, stack, object, SNAP_WAIT_POLL, 0);
	assert_int_equal(wait->fds_count, 2);
	assert_int_equal(wait->fds[1], 4);
	assert_false(wait->timed);
	bed_deinit(&scene.bed);
}

/* Who was in state D waited for a disk. */
static void test_disk(void **state _unused_)
{
	struct snap_descriptor file = {
		.number = 5, .kind = SNAP_DESCRIPTOR_FILE, .link = "/var/db", .remaining_ns = -1
	};
	const uint64_t arguments[3] = { 5 };
	struct scene scene;
	uint32_t stack, sync, quick;

	scene_init(&scene);
	stack = BED_STACK(&scene.bed, scene.process, "libc:fsync", "app:work");
	quick = call_with(&scene, CALL_READ, arguments, &file, 1, NULL);
	sync = call_with(&scene, CALL_FSYNC, arguments, &file, 1, NULL);
	scene_wait(&scene, stack, quick);
	scene_wait(&scene, stack, sync);
	bed_stand(&scene.bed, scene.waiter, stack, SNAP_STATE_DISK, sync);
	scene_explain(&scene);
	assert_string_equal(check(&scene.bed, stack, sync, SNAP_WAIT_DISK, 0)->path, "/var/db");
	check(&scene.bed, stack, quick, SNAP_WAIT_FILE, 0);
	bed_deinit(&scene.bed);
}

/* ---- limits ---- */

struct told {
	struct bed *bed;
	size_t count, known;
	uint32_t last_object;
	int enough;
};

static struct stacksnap_error *count_told(void *context, uint32_t stack _unused_, uint32_t object,
					  const struct snap_wait *wait)
{
	struct told *told = context;

	assert_true(told->count == 0 || object > told->last_object);
	told->last_object = object;
	told->count++;
	told->known += wait != NULL;
	told->enough = 1;
	return NULL;
}

static void test_many(void **state _unused_)
{
	enum { MANY = 20000 };
	const struct snap_file_finder finder = { .find = bed_no_file };
	_cleanup_free_ struct snap_log_explained *pairs = NULL;
	const volatile int is_over = 1;
	struct told told = { .count = 0 };
	struct stacksnap_error *err;
	struct scene scene;
	uint32_t stack;
	size_t count;

	scene_init(&scene);
	stack = BED_STACK(&scene.bed, scene.process, lock, "app:work");
	for (size_t i = 0; i < MANY; i++)
		scene_wait(&scene, stack,
			   bed_mutex(&scene.bed, scene.process, HEAP + 0x20 * i, 101));
	bed_end(&scene.bed);
	bed_name_all(&scene.bed);
	fine(snap_log_waits_left(scene.bed.log, &pairs, &count));
	assert_int_equal(count, MANY);
	fine(snap_analyze_log_waits(scene.bed.log, &scene.bed.options, &finder, pairs, count,
				    count_told, &told));
	assert_int_equal(told.count, MANY);
	assert_int_equal(told.known, MANY);

	/* Told in parts, so that there is an end when time is up. */
	told = (struct told){ .count = 0 };
	scene.bed.options.enough = &told.enough;
	fine(snap_analyze_log_waits(scene.bed.log, &scene.bed.options, &finder, pairs, count,
				    count_told, &told));
	assert_in_range(told.count, 1, MANY - 1);
	scene.bed.options.enough = NULL;

	told = (struct told){ .count = 0 };
	scene.bed.options.cancel = &is_over;
	err = snap_analyze_log_waits(scene.bed.log, &scene.bed.options, &finder, pairs, count,
				     count_told, &told);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	snap_error_destroy(err);
	assert_int_equal(told.count, 0);
	scene.bed.options.cancel = NULL;

	scene.bed.options.explain = SNAP_EXPLAIN_NO;
	fine(snap_analyze_log_waits(scene.bed.log, &scene.bed.options, &finder, pairs, count,
				    count_told, &told));
	assert_int_equal(told.count, 0);
	bed_deinit(&scene.bed);
}

/* Pairs that no recorder makes: of two processes, and with a call of which nothing is known. */
static void test_odd_pairs(void **state _unused_)
{
	const struct snap_file_finder finder = { .find = bed_no_file };
	struct snap_log_explained pairs[3] = { 0 };
	const uint64_t arguments[3] = { 0 };
	struct scene scene;
	uint32_t other;

	scene_init(&scene);
	other = bed_process(&scene.bed, 200, UINT32_MAX, UINT32_MAX);
	pairs[0].stack = pairs[1].stack = BED_STACK(&scene.bed, scene.process, lock, "app:work");
	pairs[2].stack = BED_STACK(&scene.bed, other, lock, "app:work");
	pairs[0].object = pairs[2].object = bed_mutex(&scene.bed, scene.process, M, 101);
	pairs[1].object = call_with(&scene, -1, arguments, NULL, 0, NULL);
	bed_end(&scene.bed);
	bed_name_all(&scene.bed);
	fine(snap_analyze_log_waits(scene.bed.log, &scene.bed.options, &finder, pairs, 3, bed_tell,
				    scene.bed.log));
	check(&scene.bed, pairs[0].stack, pairs[0].object, SNAP_WAIT_MUTEX, M);
	assert_null(wait_of(&scene.bed, pairs[1].stack, pairs[1].object));
	assert_null(wait_of(&scene.bed, pairs[2].stack, pairs[2].object));
	bed_deinit(&scene.bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mutex), cmocka_unit_test(test_own_words),
		cmocka_unit_test(test_names), cmocka_unit_test(test_data),
		cmocka_unit_test(test_gil),   cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_poll),  cmocka_unit_test(test_disk),
		cmocka_unit_test(test_many),  cmocka_unit_test(test_odd_pairs),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
