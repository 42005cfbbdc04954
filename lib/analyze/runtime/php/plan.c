/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of PHP that is copied during the stop: the frames of its one thread, their functions
 * with their names, the frames of generators that delegate, and the request.
 */
#include "analyze/runtime/php/php.h"

enum { STEPS = 30, POINTER = 8 };

/* Adds a step; the number of its table. There is room: see snap_php_plan(). */
static uint8_t add_php_step(struct snap_memory_plan *plan, struct snap_plan_step step)
{
	plan->steps[plan->step_count++] = step;
	return (uint8_t)plan->step_count;
}

static uint8_t add_php_read(struct snap_memory_plan *plan, uint8_t source, uint32_t field,
			    uint32_t len)
{
	return add_php_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
							   .source = source,
							   .field = (uint16_t)field,
							   .len = len });
}

static uint8_t add_php_literal(struct snap_memory_plan *plan, uint64_t address, uint32_t len)
{
	return add_php_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
							   .source = SNAP_PLAN_LITERAL,
							   .address = address,
							   .len = len });
}

/* The text of the zend_strings in a table. */
static void add_php_text(struct snap_memory_plan *plan, uint8_t strings)
{
	add_php_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_BYTES,
						    .flags = SNAP_PLAN_RELATIVE,
						    .source = strings,
						    .add = SNAP_PHP_STRING,
						    .count = SNAP_PHP_STRING_LENGTH,
						    .count_width = POINTER,
						    .cap = SNAP_PHP_MOST_NAME });
}

/* What the frames of a table run: 10 steps. */
static void plan_functions(const struct snap_php *php, struct snap_memory_plan *plan,
			   uint8_t frames)
{
	uint8_t functions, classes;
	struct snap_plan_step files, begins;

	functions = add_php_read(plan, frames, SNAP_PHP_FRAME_FUNCTION, php->file_name + POINTER);
	add_php_read(plan, frames, SNAP_PHP_FRAME_OPLINE, SNAP_PHP_OPLINE);
	add_php_text(plan, add_php_read(plan, functions, SNAP_PHP_FUNCTION_NAME, SNAP_PHP_STRING));
	classes = add_php_read(plan, functions, SNAP_PHP_FUNCTION_CLASS,
			       SNAP_PHP_CLASS_NAME + POINTER);
	add_php_text(plan, add_php_read(plan, classes, SNAP_PHP_CLASS_NAME, SNAP_PHP_STRING));
	files = (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					 .flags = SNAP_PLAN_IF_NOT_EQUAL,
					 .source = functions,
					 .field = (uint16_t)php->file_name,
					 .len = SNAP_PHP_STRING,
					 .if_width = 1,
					 .if_mask = 0xff,
					 .if_value = SNAP_PHP_INTERNAL };
	begins = files;
	begins.field = (uint16_t)php->opcodes;
	begins.len = SNAP_PHP_OPLINE;
	add_php_step(plan, begins);
	add_php_text(plan, add_php_step(plan, files));
}

/* Generators behind frames without a function, which represent those that delegate. */
static uint8_t plan_generators(const struct snap_php *php, struct snap_memory_plan *plan,
			       uint8_t frames)
{
	uint8_t generators = add_php_step(
		plan, (struct snap_plan_step){
			      .op = SNAP_PLAN_WALK,
			      .flags = SNAP_PLAN_IF_EQUAL,
			      .source = frames,
			      .field = SNAP_PHP_FRAME_THIS,
			      .next = (uint16_t)(SNAP_PHP_GENERATOR_PARENT + php->generator),
			      .len = SNAP_PHP_GENERATOR,
			      .max = SNAP_PHP_MOST_GENERATORS,
			      .if_field = SNAP_PHP_FRAME_FUNCTION,
			      .if_width = POINTER,
			      .if_mask = ~0ull });

	return add_php_read(plan, generators, SNAP_PHP_GENERATOR_FRAME + php->generator,
			    SNAP_PHP_FRAME);
}

bool snap_php_plan(const struct snap_php *php, struct snap_memory_plan *plan)
{
	uint8_t globals, frames, request;

	if (!snap_memory_plan_has_room(plan, STEPS))
		return false;
	globals = add_php_literal(plan, php->executor + php->current, POINTER);
	frames = add_php_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
							     .source = globals,
							     .next = SNAP_PHP_FRAME_PREVIOUS,
							     .len = SNAP_PHP_FRAME,
							     .max = SNAP_PHP_PLANNED_FRAMES });
	/* Where the innermost frame is, if its own word is stale: see function.c. */
	add_php_read(plan, 0, offsetof(struct snap_plan_thread, r15), SNAP_PHP_OPLINE);
	plan_functions(php, plan, frames);
	plan_functions(php, plan, plan_generators(php, plan, frames));
	if (!php->request)
		return true;
	request = add_php_literal(plan, php->request, SNAP_PHP_REQUEST);
	add_php_read(plan, request, SNAP_PHP_REQUEST_METHOD, SNAP_PHP_MOST_TEXT);
	add_php_read(plan, request, SNAP_PHP_REQUEST_URI, SNAP_PHP_MOST_TEXT);
	add_php_read(plan, request, SNAP_PHP_REQUEST_QUERY, SNAP_PHP_MOST_TEXT);
	return true;
}

void snap_php_plan_refusal(const struct snap_php *php, struct snap_memory_plan *plan)
{
	if (snap_memory_plan_has_room(plan, 1))
		add_php_literal(plan, php->mark, POINTER);
}
