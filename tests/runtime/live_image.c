/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A plan, executed on a stopped process, and what it has copied, as memory for a reader. */
#include "live.h"

#include "base/clock.h"
#include "model/arch/registers.h"
#include "stop/plan/execute.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

/* So much that no ordinary process is cut. */
static const uint64_t most_bytes = 1ull << 30;
static const uint64_t most_records = 16000000;
static const int64_t most_ns = 20000000000;

static size_t read_ranges(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	const struct live *live = context;
	struct iovec to = { bytes, 0 };
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		to.iov_len += ranges[i].iov_len;
	got = process_vm_readv(live->process.pid, &to, 1, ranges, count, 0);
	return got < 0 ? 0 : (size_t)got;
}

static struct snap_region map_region(size_t size)
{
	uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		fail("out of memory");
	return (struct snap_region){ memory, memory + size };
}

static struct snap_plan_thread *list_threads(struct live *live)
{
	const struct snap_process *process = &live->process;
	struct snap_plan_thread *list =
		snap_arena_new_array(&live->arena, process->thread_count, struct snap_plan_thread);

	for (size_t i = 0; list && i < process->thread_count; i++) {
		const struct snap_x86_64_registers *registers = process->threads[i].registers;

		if (!registers)
			continue;
		list[i] = (struct snap_plan_thread){ .tid = (uint64_t)process->threads[i].tid,
						     .rip = registers->rip,
						     .rsp = registers->rsp,
						     .rbp = registers->rbp,
						     .fs_base = registers->fs_base,
						     .rbx = registers->rbx,
						     .r12 = registers->r12,
						     .r13 = registers->r13,
						     .r14 = registers->r14,
						     .r15 = registers->r15 };
	}
	return list;
}

void live_execute(struct live *live, const struct snap_memory_plan *plan, struct live_image *ret)
{
	struct snap_plan_task task = {
		.plan = plan,
		.threads = list_threads(live),
		.thread_count = live->process.thread_count,
		.maps = live->process.maps,
		.map_count = live->process.map_count,
		.source = { .read = read_ranges, .context = live },
		.budget = { .records = ret->most_records ? ret->most_records : most_records,
			    .bytes = most_bytes,
			    .until_ns = snap_clock_ns(CLOCK_MONOTONIC) + most_ns },
	};
	int64_t begin;

	ret->room = map_region(most_bytes + most_bytes / 4);
	ret->left = ret->room;
	task.work = map_region(snap_plan_work_bytes(&task.budget));
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	snap_plan_execute(&task, &ret->left, &ret->image);
	ret->taken_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	munmap(task.work.next, (size_t)(task.work.end - task.work.next));
}

void live_finish(struct live_image *image)
{
	snap_plan_finish(&image->image, image->room.next, image->left.next);
}

static bool read_image(void *context, uint64_t address, void *out, size_t size)
{
	struct live_image *image = context;

	if (image->reader)
		live_note(image->reader, address, size);
	return snap_memory_image_read(&image->image, address, out, size);
}

static bool next_in_image(void *context, uint64_t address, uint64_t *start_ret, uint64_t *size_ret)
{
	struct live_image *image = context;

	return snap_memory_image_next(&image->image, address, start_ret, size_ret);
}

struct snap_runtime_memory live_memory(struct live_image *image)
{
	return (struct snap_runtime_memory){ .read = read_image,
					     .next = next_in_image,
					     .context = image };
}
