/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Probes of managed runtimes, on recorded images that the input changes (images.h): the process is
 * its files and what was copied of it, and zeros elsewhere. The plan must be one that is allowed;
 * it is executed on that memory, and what it copies is read.
 */
#include "images.h"

/* The readers are given what was copied now, in place of what was recorded. */
static void read_copy(struct fuzz_image *image, const struct snap_memory_plan *plan)
{
	static struct recorded_room room = {
		.budget = { .records = 200000, .bytes = 32 << 20, .until_ns = 500000000 },
	};
	struct snap_memory_image *before = image->recorded.process->memory, copy = { .bytes = 0 };
	struct snap_runtime_result *result = NULL;

	if (!room.room.next)
		recorded_room_init(&room);
	recorded_execute(&image->recorded, plan, &room, &copy);
	image->recorded.process->memory = &copy;
	fuzz_no_error(recorded_read(&image->recorded, image->runtime, &result));
	if (result)
		fuzz_check_result(image->recorded.process, result);
	image->recorded.process->memory = before;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct snap_memory_plan plan;
	struct fuzz_bytes bytes = { data, data + size };
	struct snap_runtime_memory memory;
	struct fuzz_changed changed;
	struct recorded *recorded;
	bool found = false;

	fuzz_change(&bytes, &changed);
	recorded = &changed.image->recorded;
	memory = recorded_process(recorded);
	fuzz_no_error(recorded_begin(recorded));
	recorded->given.memory = &memory;
	recorded->given.is_of_thread = changed.how & 1;
	plan.step_count = 0;
	fuzz_no_error(changed.image->runtime->probe(&recorded->given, &plan, &found));
	fuzz_check(snap_memory_plan_check(&plan), "the plan is allowed");
	if (plan.step_count && !(changed.how & 1))
		read_copy(changed.image, &plan);
	recorded_forget(recorded);
	fuzz_change_back(&changed);
	return 0;
}
