/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Plans for single threads: see of_thread.h. */
#include "stop/plan/of_thread.h"

#include "base/clock.h"
#include "model/arch/registers.h"

#include <string.h>

static const struct snap_plan_budget BUDGET = {
	.records = SNAP_THREAD_PLAN_RECORDS,
	.bytes = SNAP_THREAD_PLAN_BYTES,
};

struct snap_plan_thread snap_thread_plan_of(pid_t tid, pid_t ns_tid, const void *registers,
					    size_t size)
{
	struct snap_plan_thread thread = { .tid = (uint64_t)tid, .ns_tid = (uint64_t)ns_tid };
	struct snap_known_registers known;
	struct snap_x86_64_registers x86_64;

	if (!registers || !snap_registers_read(SNAP_OWN_ARCH, registers, size, 0, &known))
		return thread;
	thread.rip = known.pc;
	thread.rsp = known.sp;
	thread.rbp = known.fp;
	thread.fs_base = known.thread_pointer;
	if (SNAP_OWN_ARCH != SNAP_ARCH_X86_64)
		return thread;
	memcpy(&x86_64, registers, sizeof(x86_64));
	thread.rbx = x86_64.rbx;
	thread.r12 = x86_64.r12;
	thread.r13 = x86_64.r13;
	thread.r14 = x86_64.r14;
	thread.r15 = x86_64.r15;
	thread.rdi = x86_64.rdi;
	return thread;
}

size_t snap_thread_plan_work(void)
{
	return snap_plan_work_bytes(&BUDGET);
}

static size_t read_thread_memory(void *context, uint8_t *bytes, const struct iovec *ranges,
				 size_t count)
{
	const pid_t *tid = context;
	struct iovec local = { bytes, 0 };
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		local.iov_len += ranges[i].iov_len;
	got = process_vm_readv(*tid, &local, 1, ranges, count, 0);
	return got < 0 ? 0 : (size_t)got;
}

/*
 * Without mappings: reading some bytes of files costs less than passing on their mappings. The plan
 * was checked when it came, and is checked again.
 */
void snap_thread_plan_execute(struct snap_thread_plan *plan, struct snap_region work,
			      int64_t most_ns, struct snap_region *room)
{
	pid_t tid = (pid_t)plan->thread.tid;
	struct snap_plan_task task = {
		.plan = &plan->plan,
		.threads = &plan->thread,
		.thread_count = 1,
		.source = { .read = read_thread_memory, .context = &tid },
		.budget = BUDGET,
		.work = work,
	};

	plan->image = (struct snap_memory_image){ .step_count = 0 };
	if (!snap_memory_plan_check(&plan->plan))
		return;
	task.budget.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + most_ns;
	snap_plan_execute(&task, room, &plan->image);
}

void snap_thread_plan_keep(const struct snap_memory_image *image, void *room,
			   struct snap_memory_image *ret)
{
	struct snap_memory_piece *pieces = room;
	uint8_t *bytes = (uint8_t *)(pieces + image->piece_count);
	size_t left = SNAP_THREAD_PLAN_ROOM;

	*ret = *image;
	ret->pieces = pieces;
	ret->piece_count = 0;
	ret->bytes = 0;
	if (image->piece_count > left / sizeof(*pieces))
		return;
	left -= image->piece_count * sizeof(*pieces);
	for (size_t i = 0; i < image->piece_count && image->pieces[i].size <= left; i++) {
		const struct snap_memory_piece *from = &image->pieces[i];

		pieces[ret->piece_count++] =
			(struct snap_memory_piece){ from->address, from->size, bytes };
		memcpy(bytes, from->bytes, from->size);
		ret->bytes += from->size;
		bytes += from->size;
		left -= from->size;
	}
}
