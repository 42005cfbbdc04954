/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Groups of all processes as one list, where --group-by does not name the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "render/view/together.h"
#include "task_snapshots.h"

/* Two of a service, whose workers stand in the same place, and a kernel thread. */
struct machine {
	struct snap_node first, second, kernel, *roots[3];
	struct snap_stack stacks[2];
	struct snap_member threads[12];
	struct snap_snapshot snapshot;
};

static void make_machine(struct machine *machine)
{
	*machine = (struct machine){ .first = service_node, .second = helper_node };
	memcpy(machine->threads, workers, sizeof(workers));
	for (size_t i = 0; i < 12; i++)
		machine->threads[i].tid += i < 6 ? -100 : 100;
	machine->stacks[0] = service_stacks[0];
	machine->stacks[0].threads = machine->threads;
	machine->stacks[1] = helper_stacks[0];
	machine->second.pid = 1100;
	machine->second.stacks = machine->stacks;
	machine->second.stack_count = 2;
	machine->kernel = (struct snap_node){
		.pid = 2,
		.name = "kthreadd",
		.description = "(kernel thread)",
		.type = SNAP_TYPE_KERNEL,
		.trouble = SNAP_TROUBLE_KERNEL_THREAD,
		.trouble_message = "2 is a kernel thread and has no user stacks",
	};
	machine->roots[0] = &machine->kernel;
	machine->roots[1] = &machine->second;
	machine->roots[2] = &machine->first;
	machine->snapshot = service;
	machine->snapshot.processes = machine->roots;
	machine->snapshot.root_count = 3;
	machine->snapshot.process_count = 4;
	machine->snapshot.thread_count = 30;
	machine->snapshot.stack_count = 7;
}

static void test_groups_are_joined(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK, .together = true };
	_cleanup_(snap_together_deinit) struct snap_together together;
	struct machine machine;
	const struct snap_stack *joined;

	make_machine(&machine);
	assert_true(snap_together_init(&together, &machine.snapshot, &options));
	/* The helpers have a frame of no module, which is another one in each process. */
	assert_int_equal(together.stack_count, 6);
	assert_int_equal(together.snapshot.stack_count, 6);
	joined = &together.stacks[0];
	assert_string_equal(joined->id, "00c0ffee00c0ffee");
	assert_int_equal(joined->count, 24);
	assert_int_equal(joined->thread_count, 24);
	for (size_t i = 0; i < 24; i++) {
		assert_true(i == 0 || joined->threads[i].tid > joined->threads[i - 1].tid);
		assert_int_equal(joined->pids[i], i < 6 || i >= 18 ? 1100 : 1234);
	}
	assert_string_equal(snap_stack_label(joined, "thread_name"), "worker-*");
	for (size_t i = 0; i < together.snapshot.root_count; i++)
		assert_int_equal(together.snapshot.processes[i]->stack_count, 0);
	assert_int_equal(together.snapshot.processes[2]->child_count, 1);
	assert_int_equal(together.snapshot.processes[2]->children[0]->stack_count, 0);
	assert_int_equal(together.empty_count, 1);
	assert_int_equal(together.empty[0]->pid, 2);
	/* The snapshot is as it was. */
	assert_int_equal(service_node.stack_count, 4);
	assert_int_equal(machine.roots[1]->stacks[0].count, 12);
}

/* Threads in one state, wherever they stand: what all have in common is shown. */
static void test_common_part(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STATE, .together = true };
	_cleanup_(snap_together_deinit) struct snap_together together;
	struct machine machine;

	make_machine(&machine);
	machine.second.stack_count = 1;
	machine.stacks[0].frames = flusher_frames;
	machine.stacks[0].frame_count = 6;
	machine.stacks[0].description = "flusher_main";
	assert_true(snap_together_init(&together, &machine.snapshot, &options));
	assert_int_equal(together.stacks[0].count, 24);
	assert_int_equal(together.stacks[0].frame_count, 2);
	assert_ptr_equal(together.stacks[0].frames[0], &thread_frame);
	assert_string_equal(together.stacks[0].description, "(unknown)");
}

static void test_apart_unless_asked(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	_cleanup_(snap_together_deinit) struct snap_together together;

	assert_true(snap_together_init(&together, &service, &options));
	assert_null(together.stacks);
	assert_ptr_equal(together.snapshot.processes, service.processes);
}

static void test_formats(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK,
					.together = true,
					.utf8 = true };
	_cleanup_free_ char *text = NULL, *summary = NULL, *json = NULL, *tasks = NULL;
	struct machine machine;

	make_machine(&machine);
	text = golden_render(snap_render_text, &machine.snapshot, &options, NULL);
	golden_check("together.txt", text);
	json = golden_render(snap_render_json, &machine.snapshot, &options, NULL);
	golden_check("together.json", json);
	tasks = golden_render(snap_render_text, &gitea, &options, NULL);
	golden_check("together-tasks.txt", tasks);
	options.summary = true;
	summary = golden_render(snap_render_text, &machine.snapshot, &options, NULL);
	golden_check("together-summary.txt", summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups_are_joined),
		cmocka_unit_test(test_common_part),
		cmocka_unit_test(test_apart_unless_asked),
		cmocka_unit_test(test_formats),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
