/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Short functions that read numbers and texts of a target's memory, for the readers of runtimes.
 * They return false for what is missing or too long. They believe nothing about its meaning.
 */
#pragma once

#include "analyze/runtime/runtime.h"
#include "base/clock.h"

#include <string.h>

static inline bool snap_runtime_read(const struct snap_runtime_process *process, uint64_t address,
				     void *out, size_t size)
{
	return process->memory->read(process->memory->context, address, out, size);
}

/* A little-endian number of 1, 2, 4 or 8 bytes. */
static inline bool snap_runtime_number(const struct snap_runtime_process *process, uint64_t address,
				       unsigned width, uint64_t *ret)
{
	uint64_t number = 0;

	if (!snap_runtime_read(process, address, &number, width))
		return false;
	*ret = number;
	return true;
}

static inline bool snap_runtime_word(const struct snap_runtime_process *process, uint64_t address,
				     uint64_t *ret)
{
	return snap_runtime_number(process, address, 8, ret);
}

/* Whether there is time to look at one more name. */
static inline bool snap_runtime_may_name(const struct snap_runtime_process *process)
{
	return !process->names_until_ns || snap_clock_ns(CLOCK_MONOTONIC) < process->names_until_ns;
}

/*
 * Why something is not to be had: that the memory was not copied whole, if so; else `otherwise`.
 * Static text.
 */
const char *snap_runtime_why(const struct snap_runtime_process *process, const char *otherwise);

/* The number of `width` bytes at an offset of bytes that were read; they reach so far. */
static inline uint64_t snap_runtime_field(const void *bytes, size_t offset, unsigned width)
{
	uint64_t number = 0;

	memcpy(&number, (const uint8_t *)bytes + offset, width);
	return number;
}
