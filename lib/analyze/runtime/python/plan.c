/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of CPython that is copied during the stop, as a memory plan: interpreters, threads,
 * frames, their code, its names and line tables; the most useful first. Knows the layout, and
 * nothing of the contents.
 */
#include "analyze/runtime/python/plan.h"

enum {
	STEPS = 6 + SNAP_PYTHON_CODE_STEPS, /* at most, of threads */
	RUNNING_STEPS = 5,
	TASK_STEPS = 6 + 3 * (1 + SNAP_PYTHON_CODE_STEPS),
	MOST_TASKS = 100000, /* of a thread */
	MOST_AWAITERS = 4096,
	COPIED_COPIES = 128,
	DESCRIPTION = 1024, /* bytes of the runtime, which describe it */
	POINTER = 8,
};

uint8_t snap_python_plan_step(struct snap_memory_plan *plan, struct snap_plan_step step)
{
	plan->steps[plan->step_count++] = step;
	return (uint8_t)plan->step_count;
}

uint8_t snap_python_plan_read(struct snap_memory_plan *plan, uint8_t source, uint32_t field,
			      uint32_t len)
{
	return snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
								    .source = source,
								    .field = (uint16_t)field,
								    .mask = ~3ull,
								    .len = len });
}

static uint8_t add_walk(struct snap_memory_plan *plan, uint8_t source, uint32_t field,
			uint32_t next, uint32_t len, uint32_t most)
{
	return snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
								    .source = source,
								    .field = (uint16_t)field,
								    .next = (uint16_t)next,
								    .len = len,
								    .max = most });
}

/* What lies behind the head of an object, whose size is at `count` and is multiplied. */
static void add_body(struct snap_memory_plan *plan, uint8_t source, uint32_t head, uint32_t count,
		     uint32_t factor, uint32_t plus, uint64_t most)
{
	snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_BYTES,
							     .flags = SNAP_PLAN_RELATIVE,
							     .source = source,
							     .add = head,
							     .count = (uint16_t)count,
							     .count_width = POINTER,
							     .mul = factor,
							     .plus = plus,
							     .cap = most });
}

void snap_python_plan_text(struct snap_memory_plan *plan, const struct snap_python_layout *layout,
			   uint8_t source)
{
	add_body(plan, source, layout->string.ascii, layout->string.length, 4,
		 layout->string.compact - layout->string.ascii, SNAP_PYTHON_MOST_NAME);
}

void snap_python_plan_of_generators(const struct snap_python *python, struct snap_plan_step *step)
{
	enum { OWNED_BY_GENERATOR = 1, OWNER_311 = 69 };
	const struct snap_python_layout *layout = &python->layout;

	step->flags |= SNAP_PLAN_IF_EQUAL;
	step->if_field = (uint16_t)(layout->generator.frame +
				    (layout->frame.owner ? layout->frame.owner : OWNER_311));
	step->if_width = 1;
	step->if_mask = 0xff;
	step->if_value = OWNED_BY_GENERATOR;
}

void snap_python_plan_code(const struct snap_python *python, struct snap_memory_plan *plan,
			   uint8_t frames, uint32_t frame)
{
	const struct snap_python_layout *layout = &python->layout;
	uint8_t code, names, files, lines;

	code = snap_python_plan_read(plan, frames, frame + layout->frame.code, layout->code.size);
	/* What a coroutine awaits may be none: only of those the frame has that owner. */
	if (frame)
		snap_python_plan_of_generators(python, &plan->steps[code - 1]);
	names = snap_python_plan_read(plan, code, layout->code.name, layout->string.ascii);
	files = snap_python_plan_read(plan, code, layout->code.file, layout->string.ascii);
	snap_python_plan_text(plan, layout, names);
	snap_python_plan_text(plan, layout, files);
	if (layout->code.bytecode_copies)
		snap_python_plan_read(plan, code, layout->code.bytecode_copies,
				      POINTER * (1 + COPIED_COPIES));
	if (!python->process->options->lines)
		return;
	lines = snap_python_plan_read(plan, code, layout->code.line_table, layout->bytes_data);
	add_body(plan, lines, layout->bytes_data, layout->bytes_size, 1, 0, SNAP_PYTHON_MOST_LINES);
}

/* The lock's holder: in the runtime itself up to 3.11. */
static void plan_gil(const struct snap_python_layout *layout, struct snap_memory_plan *plan,
		     uint8_t interpreters)
{
	uint32_t end = layout->interpreter.gil_holder > layout->interpreter.gil_locked
			       ? layout->interpreter.gil_holder
			       : layout->interpreter.gil_locked;

	if (layout->interpreter.gil)
		snap_python_plan_read(plan, interpreters, layout->interpreter.gil, end + POINTER);
}

/* The last step is for the current thread alone, by the number that Python knows it by. */
static void pick_thread(const struct snap_python *python, struct snap_memory_plan *plan)
{
	const struct snap_python_layout *layout = &python->layout;
	struct snap_plan_step *step = &plan->steps[plan->step_count - 1];

	if (!python->process->is_of_thread)
		return;
	step->flags |= SNAP_PLAN_IF_THREAD;
	step->if_width = POINTER;
	step->if_field = (uint16_t)(layout->thread.native_id ? layout->thread.native_id
							     : layout->thread.thread_id);
}

/* Frames of all threads, or of the current one; the number of their table. */
static uint8_t plan_frames(const struct snap_python *python, struct snap_memory_plan *plan,
			   uint8_t threads)
{
	const struct snap_python_layout *layout = &python->layout;
	uint8_t loops;

	if (layout->thread.loop) {
		loops = add_walk(plan, threads, layout->thread.loop, layout->loop.previous,
				 layout->loop.size, SNAP_PYTHON_PLANNED_FRAMES);
		pick_thread(python, plan);
		if (!layout->thread.frame)
			return add_walk(plan, loops, layout->loop.frame, layout->frame.previous,
					layout->frame.size, SNAP_PYTHON_PLANNED_FRAMES);
	}
	add_walk(plan, threads, layout->thread.frame, layout->frame.previous, layout->frame.size,
		 SNAP_PYTHON_PLANNED_FRAMES);
	pick_thread(python, plan);
	return (uint8_t)plan->step_count;
}

/* Coroutines, and what they await, which lies on the stack inside each of them. */
static uint8_t plan_coroutines(const struct snap_python *python, struct snap_memory_plan *plan,
			       uint8_t source, uint32_t field)
{
	const struct snap_python_layout *layout = &python->layout;
	uint8_t coroutines;

	coroutines = snap_python_plan_step(
		plan,
		(struct snap_plan_step){
			.op = SNAP_PLAN_WALK,
			.flags = SNAP_PLAN_INSIDE,
			.source = source,
			.field = (uint16_t)field,
			.mask = ~3ull,
			.next = (uint16_t)(layout->generator.frame + layout->frame_stack_pointer),
			.next_add = (int16_t)snap_python_awaited_at(python),
			.len = SNAP_PYTHON_COROUTINE,
			.max = SNAP_PYTHON_MOST_AWAITED,
		});
	snap_python_plan_code(python, plan, coroutines, layout->generator.frame);
	return coroutines;
}

static void plan_tasks(const struct snap_python *python, struct snap_memory_plan *plan,
		       uint8_t threads)
{
	const struct snap_python_layout *layout = &python->layout;
	const struct snap_python_asyncio *asyncio = &python->asyncio;
	uint8_t heads, tasks, names, sets, coroutines;

	if (!snap_memory_plan_has_room(plan, TASK_STEPS))
		return;
	heads = snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
								     .flags = SNAP_PLAN_RELATIVE,
								     .source = threads,
								     .add = asyncio->thread_tasks,
								     .len = POINTER });
	/* The list goes from node to node, which lie inside the tasks. */
	tasks = snap_python_plan_step(plan,
				      (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
							       .source = heads,
							       .next = (uint16_t)asyncio->node,
							       .add = -(int64_t)asyncio->node,
							       .len = asyncio->size,
							       .max = MOST_TASKS });
	names = snap_python_plan_read(plan, tasks, asyncio->name, layout->string.ascii);
	snap_python_plan_text(plan, layout, names);
	sets = snap_python_plan_step(
		plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .flags = SNAP_PLAN_IF_NOT_EQUAL,
					       .source = tasks,
					       .field = (uint16_t)asyncio->awaited_by,
					       .len = SNAP_PYTHON_RECORD / 2,
					       .if_field = (uint16_t)asyncio->awaited_by_is_set,
					       .if_width = 1,
					       .if_mask = 0xff });
	snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_ARRAY,
							     .source = sets,
							     .field = (uint16_t)layout->set_table,
							     .count = (uint16_t)layout->set_mask,
							     .count_width = POINTER,
							     .plus = 1,
							     .len = 2 * POINTER,
							     .max = MOST_AWAITERS });
	coroutines = plan_coroutines(python, plan, tasks, asyncio->coroutine);
	/* Through objects that represent a coroutine, twice: for an asynchronous generator. */
	coroutines = plan_coroutines(python, plan, coroutines, layout->object_size);
	plan_coroutines(python, plan, coroutines, layout->object_size);
}

/* The task that the current thread runs: its frames are the thread's. */
static void plan_running_task(const struct snap_python *python, struct snap_memory_plan *plan,
			      uint8_t threads)
{
	const struct snap_python_layout *layout = &python->layout;
	const struct snap_python_asyncio *asyncio = &python->asyncio;
	uint8_t running, task, names;

	/* Else a thread does not say. */
	if (python->registry.is_used || !snap_memory_plan_has_room(plan, RUNNING_STEPS))
		return;
	running = snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
								       .flags = SNAP_PLAN_RELATIVE,
								       .source = threads,
								       .add = asyncio->running_task,
								       .len = POINTER });
	pick_thread(python, plan);
	task = snap_python_plan_read(plan, running, 0, asyncio->size);
	names = snap_python_plan_read(plan, task, asyncio->name, layout->string.ascii);
	snap_python_plan_text(plan, layout, names);
	snap_python_plan_read(plan, task, asyncio->coroutine, SNAP_PYTHON_COROUTINE);
}

bool snap_python_plan(const struct snap_python *python, struct snap_memory_plan *plan)
{
	const struct snap_python_layout *layout = &python->layout;
	uint8_t runtime, interpreters, threads, frames;

	if (!snap_memory_plan_has_room(plan, STEPS))
		return false;
	runtime =
		snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
								     .source = SNAP_PLAN_LITERAL,
								     .address = python->runtime,
								     .len = layout->runtime.size });
	interpreters =
		add_walk(plan, runtime, layout->runtime.interpreters, layout->interpreter.next,
			 layout->interpreter.size, SNAP_PYTHON_MOST_INTERPRETERS);
	if (!python->process->is_of_thread)
		plan_gil(layout, plan, interpreters);
	threads = add_walk(plan, interpreters, layout->interpreter.threads, layout->thread.next,
			   layout->thread.size, SNAP_PYTHON_MOST_THREADS);
	frames = plan_frames(python, plan, threads);
	snap_python_plan_code(python, plan, frames, 0);
	if (python->has_asyncio && python->process->is_of_thread)
		plan_running_task(python, plan, threads);
	else if (python->has_asyncio && python->registry.is_used)
		snap_python_plan_registry(python, plan, interpreters);
	else if (python->has_asyncio)
		plan_tasks(python, plan, threads);
	snap_python_plan_locks(python, plan);
	return true;
}

void snap_python_plan_refusal(const struct snap_python *python, struct snap_memory_plan *plan)
{
	if (snap_memory_plan_has_room(plan, 1))
		snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
								     .source = SNAP_PLAN_LITERAL,
								     .address = python->runtime,
								     .len = DESCRIPTION });
}
