/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory that a test makes up, and a plan that is executed on it. */
#pragma once

#include "base/clock.h"
#include "stop/plan/execute.h"

#include <string.h>
#include <sys/mman.h>

enum {
	BED_PAGE = 4096,
	BED_PAGES = 4096,    /* from BED_BASE on */
	BED_ROOM = 80 << 20, /* for an image */
	BED_BUDGET = 64 << 20,
};

#define BED_BASE 0x7f0000000000ull

struct bed {
	uint8_t *bytes;         /* BED_PAGES pages */
	bool absent[BED_PAGES]; /* cannot be read */
	unsigned calls, faults;
	uint64_t copied;
	struct snap_region room, work;
	struct snap_region left; /* of the room, after execution */
	struct snap_memory_plan plan;
	struct snap_memory_image image;
	struct snap_plan_task task;
};

static size_t bed_read(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	struct bed *bed = context;
	size_t done = 0, asked = 0;

	bed->calls++;
	assert_true(count <= SNAP_PLAN_CALL_PIECES);
	for (size_t i = 0; i < count; i++)
		asked += ranges[i].iov_len;
	assert_true(asked <= SNAP_PLAN_CALL_BYTES);
	for (size_t i = 0; i < count; i++) {
		uint64_t at = (uintptr_t)ranges[i].iov_base, end = at + ranges[i].iov_len;

		while (at < end) {
			uint64_t page = (at - BED_BASE) / BED_PAGE, part = BED_PAGE - at % BED_PAGE;

			if (at < BED_BASE || page >= BED_PAGES || bed->absent[page]) {
				bed->faults++;
				bed->copied += done;
				return done;
			}
			part = part < end - at ? part : end - at;
			memcpy(bytes + done, bed->bytes + (at - BED_BASE), part);
			done += part;
			at += part;
		}
	}
	bed->copied += done;
	return done;
}

static void *bed_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void bed_init(struct bed *bed)
{
	size_t work;

	memset(bed, 0, sizeof(*bed));
	bed->bytes = bed_map((size_t)BED_PAGES * BED_PAGE);
	bed->room.next = bed_map(BED_ROOM);
	bed->room.end = bed->room.next + BED_ROOM;
	bed->task = (struct snap_plan_task){
		.plan = &bed->plan,
		.source = { .read = bed_read, .context = bed },
		.budget = { .records = SNAP_PLAN_RECORDS, .bytes = BED_BUDGET },
	};
	work = snap_plan_work_bytes(&bed->task.budget);
	bed->work.next = bed_map(work);
	bed->work.end = bed->work.next + work;
	bed->task.work = bed->work;
}

static void bed_deinit(struct bed *bed)
{
	munmap(bed->bytes, (size_t)BED_PAGES * BED_PAGE);
	munmap(bed->room.next, BED_ROOM);
	munmap(bed->work.next, (size_t)(bed->work.end - bed->work.next));
}

static void bed_execute_for(struct bed *bed, int64_t ns)
{
	bed->left = bed->room;
	bed->calls = bed->faults = 0;
	bed->copied = 0;
	bed->task.budget.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + ns;
	snap_plan_execute(&bed->task, &bed->left, &bed->image);
	assert_true(bed->left.next <= bed->left.end);
	assert_true((size_t)(bed->left.next - bed->room.next) <= bed->task.budget.bytes);
	snap_plan_finish(&bed->image, bed->room.next, bed->left.next);
}

/* The plan is checked first, as it is by everybody. */
static inline void bed_execute(struct bed *bed)
{
	assert_true(snap_memory_plan_check(&bed->plan));
	bed_execute_for(bed, 60000000000);
}

static inline struct snap_plan_step *bed_add(struct bed *bed, struct snap_plan_step step)
{
	bed->plan.steps[bed->plan.step_count] = step;
	return &bed->plan.steps[bed->plan.step_count++];
}

static inline void bed_put(struct bed *bed, uint64_t offset, uint64_t value)
{
	memcpy(bed->bytes + offset, &value, sizeof(value));
}

/* Pieces are sorted, do not overlap, and hold what the memory holds. */
static inline void bed_check_image(const struct bed *bed)
{
	uint64_t before = 0, bytes = 0;

	for (size_t i = 0; i < bed->image.piece_count; i++) {
		const struct snap_memory_piece *piece = &bed->image.pieces[i];

		assert_true(piece->size > 0 && piece->address >= before);
		before = piece->address + piece->size;
		assert_true(before <= BED_BASE + (uint64_t)BED_PAGES * BED_PAGE);
		assert_memory_equal(piece->bytes, bed->bytes + (piece->address - BED_BASE),
				    piece->size);
		bytes += piece->size;
	}
	assert_int_equal(bytes, bed->image.bytes);
}

/* Whether the image has all these bytes. */
static inline bool bed_has(const struct bed *bed, uint64_t offset, size_t size)
{
	uint8_t bytes[1 << 16];

	assert_true(size <= sizeof(bytes));
	return snap_memory_image_read(&bed->image, BED_BASE + offset, bytes, size);
}
