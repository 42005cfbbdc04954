/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What changed between two looks: groups, processes, threads that are stuck, functions; as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diff/diff.h"
#include "golden.h"
#include "recordings.h"
#include "render/diff/diff.h"
#include "render/view/recorded/groups.h"
#include "schema.h"
#include "snapshots.h"

enum { WORKERS = 12, FEWER = 7, MORE = 4 };

/*
 * The service of snapshots.h, and the same five seconds later: fewer workers wait, one that waited
 * for the disk still does, another one has come there; the helper has gone, a new one is there.
 */
struct scene {
	struct snap_snapshot before, after;
	struct snap_node old_node, old_helper, new_node, new_helper;
	struct snap_node *old_roots[1], *old_children[1], *new_roots[1], *new_children[1];
	struct snap_stack old_stacks[4], new_stacks[4];
	struct snap_member old_workers[WORKERS], new_workers[WORKERS], old_flusher[1],
		new_flushers[MORE], old_stuck[1], new_stuck[1];
};

static void copy_stacks(struct snap_stack *stacks, struct snap_member *pool,
			struct snap_member *flusher, struct snap_member *io)
{
	memcpy(stacks, service_stacks, sizeof(service_stacks));
	stacks[0].threads = pool;
	stacks[2].threads = flusher;
	stacks[3].threads = io;
}

static void make_node(struct snap_node *node, struct snap_stack *stacks, struct snap_node *helper,
		      struct snap_node **children)
{
	*node = service_node;
	*helper = helper_node;
	node->stacks = stacks;
	node->children = children;
	children[0] = helper;
}

static void make_scene(struct scene *scene)
{
	*scene = (struct scene){ .before = service, .after = service };
	memcpy(scene->old_workers, workers, sizeof(workers));
	memcpy(scene->new_workers, workers, sizeof(workers));
	scene->old_flusher[0] = flushers[0];
	for (int i = 0; i < MORE; i++) {
		scene->new_flushers[i] = flushers[0];
		scene->new_flushers[i].tid += 100 * i;
	}
	scene->old_stuck[0] = scene->new_stuck[0] = stuck[0];
	copy_stacks(scene->old_stacks, scene->old_workers, scene->old_flusher, scene->old_stuck);
	copy_stacks(scene->new_stacks, scene->new_workers, scene->new_flushers, scene->new_stuck);
	make_node(&scene->old_node, scene->old_stacks, &scene->old_helper, scene->old_children);
	make_node(&scene->new_node, scene->new_stacks, &scene->new_helper, scene->new_children);
	scene->old_roots[0] = &scene->old_node;
	scene->new_roots[0] = &scene->new_node;
	scene->before.processes = scene->old_roots;
	scene->after.processes = scene->new_roots;
	scene->after.time_ns += 5003000000;
}

/* What happens in those five seconds. */
static void let_time_pass(struct scene *scene)
{
	scene->new_stacks[0].count = scene->new_stacks[0].thread_count = FEWER;
	scene->new_stacks[2].count = scene->new_stacks[2].thread_count = MORE;
	scene->new_helper.pid = 1399;
	scene->new_helper.start_ticks += 500;
	memcpy(scene->new_stacks[1].id, "aaaaaaaaaaaaaaaa", 17);
	scene->new_stacks[1].gap_count = 0;
	scene->new_stacks[1].gap_frame = 0;
}

static struct snap_diff *compare(const struct snap_snapshot *before,
				 const struct snap_snapshot *after)
{
	const struct snap_diff_look looks[] = { { .snapshot = before }, { .snapshot = after } };
	struct snap_diff *diff = NULL;

	assert_null(snap_diff_make(&looks[0], &looks[1], &diff));
	return diff;
}

static struct snap_diff *compare_scene(const struct scene *scene)
{
	return compare(&scene->before, &scene->after);
}

typedef struct stacksnap_error *(*renderer)(const struct snap_diff *, const struct snap_options *,
					    FILE *);

static char *render(renderer write, const struct snap_diff *diff,
		    const struct snap_options *options)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_null(write(diff, options, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

static void check_golden(const char *name, const struct snap_diff *diff,
			 const struct snap_options *options)
{
	_cleanup_free_ char *text = render(snap_render_diff_text, diff, options);

	golden_check(name, text);
}

static bool has_warning(const struct snap_diff *diff, const char *code)
{
	for (size_t i = 0; i < diff->warning_count; i++)
		if (strcmp(diff->warnings[i].code, code) == 0)
			return true;
	return false;
}

static void test_same(void **state _unused_)
{
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = compare(&service, &service);

	assert_false(snap_diff_differs(diff));
	assert_int_equal(diff->group_count, 0);
	assert_int_equal(diff->same_count, 5);
	assert_int_equal(diff->process_count, 0);
}

static void test_groups(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;

	make_scene(&scene);
	let_time_pass(&scene);
	diff = compare_scene(&scene);
	assert_true(snap_diff_differs(diff));
	assert_int_equal(diff->group_count, 4);
	assert_int_equal(diff->same_count, 2); /* the one that hangs, and the helper's */
	assert_int_equal(diff->groups[0].change, SNAP_CHANGE_APPEARED);
	assert_string_equal(diff->groups[0].stack->id, "aaaaaaaaaaaaaaaa");
	assert_int_equal(diff->groups[0].after, 2 * SNAP_DIFF_THREAD);
	assert_int_equal(diff->groups[1].change, SNAP_CHANGE_GREW);
	assert_int_equal(diff->groups[1].before, 1 * SNAP_DIFF_THREAD);
	assert_int_equal(diff->groups[1].after, MORE * SNAP_DIFF_THREAD);
	assert_int_equal(diff->groups[2].change, SNAP_CHANGE_SHRANK);
	assert_int_equal(diff->groups[2].after, FEWER * SNAP_DIFF_THREAD);
	assert_ptr_equal(diff->groups[2].stack, &scene.new_stacks[0]);
	assert_int_equal(diff->groups[3].change, SNAP_CHANGE_WENT);
	assert_ptr_equal(diff->groups[3].stack, &scene.old_stacks[1]);
	assert_int_equal(diff->groups[3].pids[0], 1234);
}

/* The groups of a service that was started anew are the same ones; its processes are not. */
static void test_restarted(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;

	make_scene(&scene);
	scene.new_node.pid = 4321;
	diff = compare_scene(&scene);
	assert_int_equal(diff->group_count, 0);
	assert_int_equal(diff->process_count, 2);
	assert_true(diff->processes[0].came);
	assert_int_equal(diff->processes[0].node->pid, 4321);
	assert_false(diff->processes[1].came);
	assert_int_equal(diff->processes[1].node->pid, 1234);
}

static void let_run(struct snap_member *before, struct snap_member *after, uint64_t runs)
{
	before->runs = 1000;
	after->runs = 1000 + runs;
}

static void test_stuck(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;

	make_scene(&scene);
	for (int i = 0; i < WORKERS; i++)
		let_run(&scene.old_workers[i], &scene.new_workers[i], (uint64_t)i);
	/* Read while it was blocked: nothing of ours has made it run. */
	let_run(&scene.old_stuck[0], &scene.new_stuck[0], 1);
	scene.old_stuck[0].taken = SNAP_TAKEN_UNSTOPPED;
	let_run(&scene.old_flusher[0], &scene.new_flushers[0], 0);
	/* Another one was given its number. */
	scene.new_workers[0].runs = 5;
	diff = compare_scene(&scene);
	assert_int_equal(diff->stuck_count, 3);
	assert_int_equal(diff->stuck[0].thread->tid, scene.old_workers[1].tid);
	assert_int_equal(diff->stuck[1].thread->tid, scene.old_workers[2].tid);
	assert_int_equal(diff->stuck[2].thread->tid, scene.old_flusher[0].tid);
	assert_ptr_equal(diff->stuck[2].node, &scene.new_node);
	assert_false(snap_diff_differs(diff));
	assert_false(has_warning(diff, "runs_unknown"));
}

/* Whoever has the pid of another process is not stuck, and came. */
static void test_pid_reused(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;

	make_scene(&scene);
	let_run(&scene.old_flusher[0], &scene.new_flushers[0], 0);
	scene.new_node.start_ticks++;
	diff = compare_scene(&scene);
	assert_int_equal(diff->stuck_count, 0);
	assert_int_equal(diff->process_count, 2);
	assert_int_equal(diff->processes[0].node->pid, diff->processes[1].node->pid);
}

static void test_runs_unknown(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;

	make_scene(&scene);
	diff = compare_scene(&scene);
	assert_int_equal(diff->stuck_count, 0);
	assert_true(has_warning(diff, "runs_unknown"));
}

static void test_moved_is_not_stuck(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;

	make_scene(&scene);
	let_run(&scene.old_flusher[0], &scene.new_flushers[0], 0);
	memcpy(scene.new_stacks[2].id, "bbbbbbbbbbbbbbbb", 17);
	diff = compare_scene(&scene);
	assert_int_equal(diff->stuck_count, 0);
}

static void test_elsewhere(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL, *rebooted = NULL;

	make_scene(&scene);
	let_run(&scene.old_flusher[0], &scene.new_flushers[0], 0);
	scene.new_node.pid++;
	scene.after.host.boot_id = "22222222-2222-3333-4444-555555555555";
	rebooted = compare_scene(&scene);
	assert_true(has_warning(rebooted, "other_boot"));
	assert_int_equal(rebooted->stuck_count + rebooted->process_count, 0);
	scene.after.host.name = "db-8";
	scene.after.tool_version = "9.9.9";
	scene.after.time_ns = 1;
	diff = compare_scene(&scene);
	assert_true(has_warning(diff, "other_host"));
	assert_true(has_warning(diff, "other_version"));
	assert_false(has_warning(diff, "reversed"));
	assert_false(snap_diff_differs(diff));
}

static void test_warnings(void **state _unused_)
{
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;

	make_scene(&scene);
	for (int i = 0; i < 4; i++)
		memcpy(scene.new_stacks[i].id, "cccccccccccccccc", 15);
	scene.new_node.child_count = 0;
	scene.after.time_ns = 1;
	diff = compare_scene(&scene);
	assert_true(has_warning(diff, "nothing_in_common"));
	assert_true(has_warning(diff, "reversed"));
}

static void test_golden(void **state _unused_)
{
	const struct snap_options plain = { .utf8 = true }, ascii = { .utf8 = false },
				  summary = { .utf8 = true, .summary = true };
	struct scene scene;
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;
	_cleanup_free_ char *json = NULL;

	make_scene(&scene);
	let_time_pass(&scene);
	for (int i = 0; i < FEWER; i++)
		let_run(&scene.old_workers[i], &scene.new_workers[i], (uint64_t)i);
	let_run(&scene.old_flusher[0], &scene.new_flushers[0], 0);
	let_run(&scene.old_stuck[0], &scene.new_stuck[0], 7);
	diff = compare_scene(&scene);
	check_golden("diff.txt", diff, &plain);
	check_golden("diff-ascii.txt", diff, &ascii);
	check_golden("diff-summary.txt", diff, &summary);
	json = render(snap_render_diff_json, diff, &plain);
	golden_check("service.diff", json);
	schema_check("../diff/stacksnap-diff.schema.json", json);
}

/* A function in doubt has its mark here as well. */
static void test_guessed_functions(void **state _unused_)
{
	const struct snap_options summary = { .utf8 = true, .summary = true };
	struct scene scene;
	struct snap_frame guessed;
	const struct snap_frame *frames[] = { &guessed };
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;
	_cleanup_free_ char *text = NULL;

	make_scene(&scene);
	let_time_pass(&scene);
	guessed = *scene.new_stacks[1].frames[0];
	guessed.trust = SNAP_TRUST_UNCONFIRMED;
	scene.new_stacks[1].frames = frames;
	scene.new_stacks[1].frame_count = 1;
	diff = compare_scene(&scene);
	text = render(snap_render_diff_text, diff, &summary);
	assert_non_null(strstr(text, " compare [?] "));
	assert_null(strstr(text, "queue_pop [?]"));
}

static void test_hostile(void **state _unused_)
{
	const struct snap_snapshot nothing = { .host = TEST_HOST };
	const struct snap_options options = { .utf8 = true };
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = compare(&nothing, &hostile);
	_cleanup_free_ char *text = render(snap_render_diff_text, diff, &options),
			    *json = render(snap_render_diff_json, diff, &options);

	for (const char *p = text; *p; p++)
		assert_true((unsigned char)*p >= 0x20 || *p == '\n');
	assert_null(strstr(text, "\xe2\x80\xae"));
	assert_null(strstr(json, "\xe2\x80\xae"));
	schema_check("../diff/stacksnap-diff.schema.json", json);
}

/* ---- recordings ---- */

/* From tick 2 on the walker does something else, and never sleeps. */
static void move_walker(struct snap_recording *recording)
{
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0;
		     recording->tracks[i].tid == 1303 && k < recording->tracks[i].run_count; k++) {
			struct snap_run *run = &recording->tracks[i].runs[k];

			run->state = SNAP_STATE_RUNNING;
			if (k > 0)
				run->stack = recorded_stack(recording, &recording->tracks[i],
							    "worker_main");
		}
}

static void test_recordings(void **state _unused_)
{
	const struct snap_options options = { .utf8 = true, .group_by = SNAP_GROUP_STACK };
	_cleanup_(snap_recording_destroyp) struct snap_recording *before = recorded_service(),
								 *after = recorded_service();
	_cleanup_(snap_recorded_groups_deinit) struct snap_recorded_groups old, new;
	_cleanup_(snap_diff_destroyp) struct snap_diff *same = NULL, *diff = NULL;
	struct snap_diff_look looks[2] = { { &old.snapshot, before }, { &new.snapshot, after } };
	_cleanup_free_ char *json = NULL, *text = NULL;
	const struct snap_frame *frame;
	struct snap_frame guessed;

	assert_non_null(before);
	assert_non_null(after);
	assert_null(snap_recorded_groups_init(&old, before, &options));
	assert_null(snap_recorded_groups_init(&new, after, &options));
	assert_null(snap_diff_make(&looks[0], &looks[1], &same));
	assert_false(snap_diff_differs(same));
	assert_true(same->before.samples && same->before.ticks == RECORDED_TICKS);
	snap_recorded_groups_deinit(&new);
	move_walker(after);
	assert_null(snap_recorded_groups_init(&new, after, &options));
	assert_null(snap_diff_make(&looks[0], &looks[1], &diff));
	assert_true(diff->function_count > 0);
	assert_true(diff->functions[0].running);
	check_golden("diff-recordings.txt", diff, &options);
	json = render(snap_render_diff_json, diff, &options);
	schema_check("../diff/stacksnap-diff.schema.json", json);
	assert_false(snap_any(diff->function_count, i, diff->functions[i].guessed));
	snap_diff_destroy(diff);
	guessed = *after->stacks[0].frames[0];
	guessed.trust = SNAP_TRUST_SCAN;
	frame = &guessed;
	after->stacks[0].frames = &frame;
	after->stacks[0].frame_count = 1;
	assert_null(snap_diff_make(&looks[0], &looks[1], &diff));
	assert_true(snap_any(diff->function_count, i, diff->functions[i].guessed));
	text = render(snap_render_diff_text, diff, &options);
	assert_non_null(strstr(text, " [?] "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_restarted),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_pid_reused),
		cmocka_unit_test(test_runs_unknown),
		cmocka_unit_test(test_moved_is_not_stuck),
		cmocka_unit_test(test_elsewhere),
		cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_guessed_functions),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_recordings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
