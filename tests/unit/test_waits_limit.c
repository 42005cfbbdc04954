/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What waits may take in a report: names of locks and paths that are long, and longer when they are
 * escaped, more threads than there is room for, and honest ones of which nothing is missing.
 */
#include "wait_bed.h"

#include "golden.h"
#include "render/render.h"
#include "schema.h"

#include <string.h>

enum { HOSTILE, HONEST, PROCESSES, LONG = 4000, MOST_BYTES = 10 << 20 };

/* Two processes with a group each, without frames; the waits of the threads are made by hand. */
struct scene {
	struct bed bed;
	struct snap_node *nodes[PROCESSES];
	struct snap_wait *waits[PROCESSES];
	size_t counts[PROCESSES];
};

static void add_node(struct scene *scene, size_t process, pid_t pid, size_t count)
{
	struct snap_arena *arena = &scene->bed.arena;
	struct snap_node *node = snap_arena_new(arena, struct snap_node);
	struct snap_stack *stack = snap_arena_new(arena, struct snap_stack);

	bed_process(&scene->bed, pid, 1);
	scene->counts[process] = count;
	scene->waits[process] = snap_arena_new_array(arena, count, struct snap_wait);
	*stack = (struct snap_stack){ .id = "aaaaaaaaaaaaaaaa",
				      .description = "main",
				      .count = count,
				      .thread_count = count,
				      .threads = snap_arena_new_array(arena, count,
								      struct snap_member) };
	for (size_t i = 0; i < count; i++) {
		struct snap_wait *wait = &scene->waits[process][i];

		*wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);
		wait->address = 0x7f0000001000 + 64 * i;
		wait->call = "futex";
		stack->threads[i] = (struct snap_member){ .tid = pid + (pid_t)i,
							  .name = "thread",
							  .state = SNAP_STATE_SLEEPING,
							  .cpu = -1,
							  .wait = wait };
	}
	*node = (struct snap_node){ .pid = pid,
				    .name = "program",
				    .description = "program",
				    .stacks = stack,
				    .stack_count = 1,
				    .thread_count = count };
	scene->nodes[process] = node;
}

static void scene_init(struct scene *scene, size_t hostile, size_t honest)
{
	struct snap_snapshot *snapshot;

	memset(scene, 0, sizeof(*scene));
	bed_init(&scene->bed);
	scene->bed.options.max_frames = 256;
	add_node(scene, HOSTILE, 1000, hostile);
	add_node(scene, HONEST, 500000, honest);
	fine(snap_analysis_init(&scene->bed.analysis, &scene->bed.capture, &scene->bed.options,
				&scene->bed.finder));
	scene->bed.found = true;
	snapshot = scene->bed.analysis.snapshot;
	snapshot->host = (struct snap_host){ .name = "host", .kernel = "6.1", .arch = "x86_64" };
	snapshot->processes = scene->nodes;
	snapshot->root_count = PROCESSES;
	snapshot->waits.asked = true;
}

/* Control characters, which take five bytes each, and what tells it from the others. */
static const char *long_text(struct scene *scene, char byte, size_t number)
{
	char *text = snap_arena_alloc(&scene->bed.arena, LONG + 24);

	assert_non_null(text);
	memset(text, byte, LONG);
	snprintf(text + LONG, 24, "%zu", number);
	return text;
}

static struct snap_wait_party party_of(const struct scene *scene, size_t process, size_t number)
{
	const struct snap_member *thread = &scene->nodes[process]->stacks->threads[number];

	return (struct snap_wait_party){ .pid = scene->nodes[process]->pid,
					 .tid = thread->tid,
					 .name = "thread",
					 .state = 'S',
					 .wait = thread->wait };
}

/* Each waits for the next one; texts are as long as may be. */
static void make_hostile(struct scene *scene)
{
	size_t count = scene->counts[HOSTILE];

	for (size_t i = 0; i < count; i++) {
		struct snap_wait *wait = &scene->waits[HOSTILE][i];

		wait->symbol = long_text(scene, '\1', i);
		wait->path = long_text(scene, 'p', i);
		wait->has_owner = true;
		wait->owner = party_of(scene, HOSTILE, (i + 1) % count);
		wait->owner.function = long_text(scene, '\\', i);
	}
}

static const char *const HONEST_PATH = "/srv/some/where/that/is/not/short/but/usual/ledger.db";

static void make_honest(struct scene *scene)
{
	for (size_t i = 0; i < scene->counts[HONEST]; i++) {
		struct snap_wait *wait = &scene->waits[HONEST][i];

		wait->address = 0x7f0000000000;
		wait->symbol = "ledger_lock";
		wait->module = HONEST_PATH;
		wait->has_owner = true;
		wait->owner = party_of(scene, HONEST, 0);
		wait->owner.function = "charge_order";
	}
}

static char *json_of(struct scene *scene)
{
	return golden_render(snap_render_json, scene->bed.analysis.snapshot, &scene->bed.options,
			     NULL);
}

/* Bytes of the report that its waits take; what they take with everything else, *json_ret. */
static size_t bytes_of_waits(struct scene *scene, char **json_ret)
{
	struct snap_snapshot *snapshot = scene->bed.analysis.snapshot;
	struct snap_waits waits = snapshot->waits;
	_cleanup_free_ char *without = NULL;

	*json_ret = json_of(scene);
	snapshot->waits = (struct snap_waits){ .asked = true };
	for (size_t i = 0; i < PROCESSES; i++)
		for (size_t k = 0; k < scene->counts[i]; k++)
			scene->nodes[i]->stacks->threads[k].wait = NULL;
	without = json_of(scene);
	snapshot->waits = waits;
	return strlen(*json_ret) - strlen(without);
}

static size_t count_waits(const struct scene *scene, size_t process)
{
	size_t count = 0;

	for (size_t i = 0; i < scene->counts[process]; i++)
		count += scene->nodes[process]->stacks->threads[i].wait != NULL;
	return count;
}

/* The one warning. */
static const char *limit(struct scene *scene)
{
	const struct snap_snapshot *snapshot = scene->bed.analysis.snapshot;

	fine(snap_report_limit(&scene->bed.analysis, scene->nodes));
	if (snapshot->warning_count == 0)
		return NULL;
	assert_int_equal(snapshot->warning_count, 1);
	assert_string_equal(snapshot->warnings[0].code, "report_limited");
	return snapshot->warnings[0].message;
}

static void long_names_are_cut(void **state _unused_)
{
	enum { MANY = 10000, FEW = 100 };
	struct scene scene;
	_cleanup_free_ char *json = NULL;
	const char *message, *last;

	scene_init(&scene, MANY, FEW);
	make_hostile(&scene);
	make_honest(&scene);
	message = limit(&scene);
	assert_non_null(message);
	assert_non_null(strstr(message, "are cut to 64 bytes"));
	assert_null(strstr(message, "left out"));
	assert_int_equal(count_waits(&scene, HOSTILE), MANY);
	/* They can be told apart. */
	last = scene.waits[HOSTILE][MANY - 1].symbol;
	assert_string_equal(last + strlen(last) - 4, "9999");
	/* It costs another process nothing. */
	for (size_t i = 0; i < FEW; i++)
		assert_ptr_equal(scene.waits[HONEST][i].module, HONEST_PATH);
	assert_in_range(bytes_of_waits(&scene, &json), 4 << 20, MOST_BYTES);
	bed_deinit(&scene.bed);
}

static void waits_are_left_out(void **state _unused_)
{
	enum { MANY = 30000, FEW = 100 };
	struct scene scene;
	_cleanup_free_ char *json = NULL;
	const char *message;
	char expected[64];

	scene_init(&scene, MANY, FEW);
	make_hostile(&scene);
	make_honest(&scene);
	message = limit(&scene);
	assert_non_null(message);
	snprintf(expected, sizeof(expected), "the waits of %zu threads are left out",
		 MANY - count_waits(&scene, HOSTILE));
	assert_non_null(strstr(message, expected));
	assert_non_null(scene.nodes[HOSTILE]->stacks->threads[0].wait);
	assert_int_equal(count_waits(&scene, HONEST), FEW);
	assert_in_range(bytes_of_waits(&scene, &json), 6 << 20, MOST_BYTES);
	bed_deinit(&scene.bed);
}

/* Of who has the other end there are twenty, each with a long name. */
static void lists_are_cut(void **state _unused_)
{
	enum { MANY = 5000 };
	struct scene scene;
	_cleanup_free_ char *json = NULL;
	const char *message;

	scene_init(&scene, MANY, 1);
	make_honest(&scene);
	for (size_t i = 0; i < MANY; i++) {
		struct snap_wait *wait = &scene.waits[HOSTILE][i];

		wait->kind = SNAP_WAIT_PIPE;
		wait->mode = SNAP_WAIT_READ;
		wait->peers = snap_arena_new_array(&scene.bed.arena, SNAP_WAIT_LIST,
						   struct snap_wait_party);
		for (size_t k = 0; k < SNAP_WAIT_LIST; k++)
			wait->peers[k] = party_of(&scene, HOSTILE, (i + k) % MANY);
		wait->peer_count = wait->peer_total = SNAP_WAIT_LIST;
	}
	message = limit(&scene);
	assert_non_null(message);
	assert_non_null(strstr(message, "lists of processes at the other end to the first one"));
	assert_null(strstr(message, "left out"));
	assert_int_equal(scene.waits[HOSTILE][MANY - 1].peer_count, 1);
	assert_int_equal(scene.waits[HOSTILE][MANY - 1].peer_total, SNAP_WAIT_LIST);
	assert_in_range(bytes_of_waits(&scene, &json), 1 << 20, MOST_BYTES);
	bed_deinit(&scene.bed);
}

/* What is said of all together is written besides, of threads that the tree may not have. */
static void the_top_is_cut(void **state _unused_)
{
	struct scene scene;
	_cleanup_free_ char *json = NULL;
	struct snap_waits *waits;
	const char *message;

	scene_init(&scene, SNAP_WAIT_LIST * SNAP_DEADLOCK_SHOWN, 1);
	make_hostile(&scene);
	make_honest(&scene);
	waits = &scene.bed.analysis.snapshot->waits;
	waits->deadlocks =
		snap_arena_new_array(&scene.bed.arena, SNAP_WAIT_LIST, struct snap_deadlock);
	waits->deadlock_count = waits->deadlock_total = SNAP_WAIT_LIST;
	for (size_t i = 0; i < SNAP_WAIT_LIST; i++) {
		struct snap_deadlock *deadlock = &waits->deadlocks[i];

		deadlock->until_ns = -1;
		deadlock->size = deadlock->thread_count = SNAP_DEADLOCK_SHOWN;
		deadlock->threads = snap_arena_new_array(&scene.bed.arena, SNAP_DEADLOCK_SHOWN,
							 struct snap_wait_link);
		for (size_t k = 0; k < SNAP_DEADLOCK_SHOWN; k++) {
			size_t number = i * SNAP_DEADLOCK_SHOWN + k;

			deadlock->threads[k] = (struct snap_wait_link){
				.pid = 1000,
				.tid = 1000 + (pid_t)number,
				.name = "thread",
				.function = long_text(&scene, '\2', number),
				.file = long_text(&scene, '\3', number),
				.wait = &scene.waits[HOSTILE][number],
			};
		}
	}
	message = limit(&scene);
	assert_non_null(message);
	assert_true(strlen(waits->deadlocks[0].threads[0].file) <= SNAP_WAIT_ADDRESS_TEXT * 4);
	assert_in_range(bytes_of_waits(&scene, &json), 100 << 10, MOST_BYTES);
	schema_check("stacksnap-snapshot.schema.json", json);
	bed_deinit(&scene.bed);
}

/* Ten thousand threads at one lock: nothing goes. */
static void honest_waits_stay(void **state _unused_)
{
	enum { MANY = 10000 };
	struct scene scene;
	_cleanup_free_ char *before = NULL, *after = NULL;

	scene_init(&scene, 1, MANY);
	make_honest(&scene);
	before = json_of(&scene);
	assert_null(limit(&scene));
	after = json_of(&scene);
	assert_string_equal(before, after);
	bed_deinit(&scene.bed);
}

/* Who asks for all gets all. */
static void all_is_given_on_request(void **state _unused_)
{
	enum { MANY = 1000 };
	struct scene scene;

	scene_init(&scene, MANY, 1);
	make_hostile(&scene);
	scene.bed.options.frames_given = true;
	assert_null(limit(&scene));
	assert_int_equal(strlen(scene.waits[HOSTILE][0].symbol), LONG + 1);
	bed_deinit(&scene.bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_names_are_cut), cmocka_unit_test(waits_are_left_out),
		cmocka_unit_test(lists_are_cut),      cmocka_unit_test(the_top_is_cut),
		cmocka_unit_test(honest_waits_stay),  cmocka_unit_test(all_is_given_on_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
