/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parts of a plan, for plan.c and registry_plan.c. */
#pragma once

#include "analyze/runtime/python/asyncio.h"

enum {
	SNAP_PYTHON_CODE_STEPS = 8,      /* at most, of snap_python_plan_code() */
	SNAP_PYTHON_COROUTINE = 768,     /* bytes of one: with its variables and its stack */
	SNAP_PYTHON_MOST_AWAITED = 1000, /* coroutines in a chain */
};

/* Adds a step; the number of its table. There is room: the caller has seen to it. */
uint8_t snap_python_plan_step(struct snap_memory_plan *plan, struct snap_plan_step step);
/* `len` bytes at the pointer in a field; tags of references do not count. */
uint8_t snap_python_plan_read(struct snap_memory_plan *plan, uint8_t source, uint32_t field,
			      uint32_t len);
/*
 * The text of str objects: whatever the width of its letters. Behind the short head of ASCII lies
 * the text; of others the rest of the long head comes before it. One step.
 */
void snap_python_plan_text(struct snap_memory_plan *plan, const struct snap_python_layout *layout,
			   uint8_t source);
/* Limits a step to records whose frame is that of a coroutine: what is awaited may be anything. */
void snap_python_plan_of_generators(const struct snap_python *python, struct snap_plan_step *step);
/* The code of frames that lie so far behind the beginning of a record. */
void snap_python_plan_code(const struct snap_python *python, struct snap_memory_plan *plan,
			   uint8_t frames, uint32_t frame);

/* ---- registry_plan.c ---- */

/* The registered tasks of 3.11 to 3.13, and all that they need. */
void snap_python_plan_registry(const struct snap_python *python, struct snap_memory_plan *plan,
			       uint8_t interpreters);
