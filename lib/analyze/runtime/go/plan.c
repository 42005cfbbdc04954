/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of a Go program that is needed to read its goroutines: the list, each goroutine with
 * its stack, threads, and labels; the most needed first.
 */
#include "analyze/runtime/go/internal.h"

enum {
	MOST_RUNNING_STACK = 256 << 10,
	MOST_OWN_STACK = 32 << 10, /* of the goroutine that a thread runs */
	SIGNAL_STACK_BYTES = 64,   /* of the goroutine that handles signals: bounds, its thread */
	LOCKED_BYTES = 80,
	MAP_BYTES = 48,
	BUCKET_BYTES = 272,
	PAIR_BYTES = 32,
};

static int add_go_step(struct snap_memory_plan *plan, const struct snap_plan_step *step)
{
	if (plan->step_count == SNAP_PLAN_MOST_STEPS)
		return -1;
	plan->steps[plan->step_count++] = *step;
	return (int)plan->step_count;
}

static int add_go_literal(struct snap_memory_plan *plan, uint64_t address, uint32_t size)
{
	return add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_READ,
							   .source = SNAP_PLAN_LITERAL,
							   .address = address,
							   .len = size });
}

static int add_go_read(struct snap_memory_plan *plan, int from, unsigned field, uint32_t size)
{
	return add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_READ,
							   .source = (uint8_t)from,
							   .field = (uint16_t)field,
							   .len = size });
}

static void add_texts(struct snap_memory_plan *plan, int from, unsigned count, uint32_t every)
{
	add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_BYTES,
						    .source = (uint8_t)from,
						    .field = every == BUCKET_BYTES ? 8 : 0,
						    .count = every == BUCKET_BYTES ? 16 : 8,
						    .count_width = 8,
						    .cap = SNAP_MAX_NAME,
						    .rep = (uint16_t)count,
						    .rep_step = 16,
						    .every = every });
}

/* Slices of pairs of texts. */
static void add_slices(struct snap_memory_plan *plan, int headers)
{
	int pairs = add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_ARRAY,
								.source = (uint8_t)headers,
								.count = 8,
								.count_width = 8,
								.len = PAIR_BYTES,
								.max = SNAP_GO_MOST_LABELS });

	add_texts(plan, pairs, 2, PAIR_BYTES);
}

/* Maps: the buckets, and what did not fit in one. */
static void add_maps(struct snap_memory_plan *plan, int pointers)
{
	int maps = add_go_read(plan, pointers, 0, MAP_BYTES);
	int buckets = add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_ARRAY,
								  .source = (uint8_t)maps,
								  .flags = SNAP_PLAN_SHIFT,
								  .field = 16,
								  .count = 9,
								  .count_width = 1,
								  .len = BUCKET_BYTES,
								  .max = 64 });
	int more = add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_WALK,
							       .source = (uint8_t)buckets,
							       .field = 264,
							       .next = 264,
							       .len = BUCKET_BYTES,
							       .max = 16,
							       .every = BUCKET_BYTES });

	add_texts(plan, buckets, 16, BUCKET_BYTES);
	add_texts(plan, more, 16, BUCKET_BYTES);
}

/* The stacks of goroutines that do not run, from where they stopped; of those that do, all. */
static void add_stacks(struct snap_memory_plan *plan, const struct snap_go_layout *layout,
		       int goroutines)
{
	add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_RANGE,
						    .source = (uint8_t)goroutines,
						    .low_count = 2,
						    .low = { SNAP_GO_SAVED_SP, layout->call_sp },
						    .base = SNAP_GO_STACK_LOW,
						    .high = SNAP_GO_STACK_HIGH,
						    .cap = SNAP_GO_MOST_STACK });
	add_go_step(plan, &(struct snap_plan_step){ .op = SNAP_PLAN_RANGE,
						    .source = (uint8_t)goroutines,
						    .flags = SNAP_PLAN_IF_EQUAL,
						    .if_field = layout->status,
						    .if_width = 4,
						    .if_mask = ~(uint32_t)SNAP_GO_SCANNED,
						    .if_value = SNAP_GO_RUNNING,
						    .low_count = 1,
						    .low = { SNAP_GO_STACK_LOW },
						    .base = SNAP_GO_STACK_LOW,
						    .high = SNAP_GO_STACK_HIGH,
						    .cap = MOST_RUNNING_STACK });
}

/* What says what is where, and the first goroutines of the list. */
static int add_goroutines(const struct snap_go *go, struct snap_memory_plan *plan, uint32_t most)
{
	bool is_old = go->minor && go->minor < 24;
	int list = add_go_literal(plan, go->list_at, 24);

	for (size_t i = 0; i < go->text_count; i++)
		add_go_literal(plan, go->texts[i].header_at, SNAP_GO_MODULE_BYTES);
	if (go->reasons_at)
		add_go_literal(plan, go->reasons_at, SNAP_GO_MOST_REASONS * 16);
	return add_go_step(plan,
			   &(struct snap_plan_step){ .op = SNAP_PLAN_EACH,
						     .source = (uint8_t)list,
						     .count = 8,
						     .count_width = 8,
						     .len = is_old ? SNAP_GO_OLD_GOROUTINE_BYTES
								   : SNAP_GO_GOROUTINE_BYTES,
						     .max = most });
}

static void add_go_label_steps(struct snap_memory_plan *plan, const struct snap_go_layout *layout,
			       int goroutines)
{
	int labels =
		add_go_read(plan, goroutines, layout->labels, layout->labels_are_slices ? 24 : 8);

	if (layout->labels_are_slices)
		add_slices(plan, labels);
	else
		add_maps(plan, labels);
}

void snap_go_make_plan(const struct snap_go *go, struct snap_memory_plan *plan)
{
	const struct snap_go_layout *layout = go->layout;
	struct snap_memory_plan made = *plan;
	int goroutines, threads;

	goroutines = add_goroutines(go, &made, SNAP_GO_MOST_GOROUTINES);
	add_stacks(&made, layout, goroutines);
	threads = add_go_read(&made, goroutines, SNAP_GO_THREAD, SNAP_GO_THREAD_BYTES);
	add_go_read(&made, threads, layout->thread_signal_stack, SIGNAL_STACK_BYTES);
	add_go_read(&made, goroutines, layout->locked_thread, LOCKED_BYTES);
	add_go_label_steps(&made, layout, goroutines);
	/* Together with what others need there may be no room: then nothing of it. */
	if (snap_memory_plan_has_room(plan, made.step_count + 1 - plan->step_count))
		*plan = made;
}

/*
 * The goroutine that the current thread runs. While that one is in the scheduler, or in C, its own
 * goroutine is another one than its thread-local memory says, and its stack is no thread's.
 */
void snap_go_make_plan_of_thread(const struct snap_go *go, struct snap_memory_plan *plan)
{
	const struct snap_go_layout *layout = go->layout;
	bool is_old = go->minor && go->minor < 24;
	uint32_t bytes = is_old ? SNAP_GO_OLD_GOROUTINE_BYTES : SNAP_GO_GOROUTINE_BYTES;
	struct snap_memory_plan made = *plan;
	int local, own, thread, runs;

	add_goroutines(go, &made, SNAP_GO_FEW);
	local = add_go_step(&made, &(struct snap_plan_step){
					   .op = SNAP_PLAN_READ,
					   .field = offsetof(struct snap_plan_thread, fs_base),
					   .add = SNAP_GO_LOCAL,
					   .len = 8,
				   });
	own = add_go_read(&made, local, 0, bytes);
	thread = add_go_read(&made, own, SNAP_GO_THREAD, SNAP_GO_THREAD_BYTES);
	runs = add_go_read(&made, thread, (unsigned)snap_go_runs_at(layout), bytes);
	add_go_read(&made, thread, layout->thread_signal_stack, SIGNAL_STACK_BYTES);
	add_go_label_steps(&made, layout, runs);
	add_go_step(&made, &(struct snap_plan_step){ .op = SNAP_PLAN_RANGE,
						     .source = (uint8_t)runs,
						     .low_count = 2,
						     .low = { SNAP_GO_SAVED_SP, layout->call_sp },
						     .base = SNAP_GO_STACK_LOW,
						     .high = SNAP_GO_STACK_HIGH,
						     .cap = MOST_OWN_STACK });
	if (snap_memory_plan_has_room(plan, made.step_count + 1 - plan->step_count))
		*plan = made;
}
