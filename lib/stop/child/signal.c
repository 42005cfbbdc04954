/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Handlers on an alternate stack: the frames that they interrupted lie in another mapping, which
 * nobody can read after the release. A signal frame in the copy says where. Looks only at threads
 * that run on neither of the usual stacks, and at a bounded number of bytes.
 */
#include "stop/child/copy.h"

#include <string.h>
#include <sys/user.h>

enum {
	MARGIN = SNAP_STACK_MARGIN,
	LARGEST_SIGNAL_STACK = 64 << 20,
	SCAN_BYTES = 1 << 16, /* of a stack */
	SCAN_TOTAL = 4 << 20, /* of all */
};

#if defined(__x86_64__)

/* The kernel's struct ucontext as it lies on the stack (asm/ucontext.h, asm/sigcontext.h). */
enum { UC_LINK = 8, SS_SP = 16, SS_FLAGS = 24, SS_SIZE = 32, SAVED_SP = 160, UC_END = 168 };

static const uint32_t SS_AUTODISARM_BIT = 1u << 31; /* linux/signal.h */

static uint64_t thread_pointer(const struct user_regs_struct *registers)
{
	return registers->fs_base;
}

/*
 * The saved stack pointer, if a signal frame's ucontext is at `offset` of the copy; else 0. The
 * alternate stack that it names must be the one that the thread is on.
 */
static uint64_t saved_stack_pointer(const struct snap_thread *thread, size_t offset)
{
	const uint8_t *at = thread->stack + offset;
	uint64_t address = thread->stack_address + offset, link, sp, size, saved, uc_flags;
	uint32_t ss_flags;

	memcpy(&link, at + UC_LINK, sizeof(link));
	memcpy(&sp, at + SS_SP, sizeof(sp));
	memcpy(&size, at + SS_SIZE, sizeof(size));
	memcpy(&saved, at + SAVED_SP, sizeof(saved));
	memcpy(&uc_flags, at, sizeof(uc_flags));
	memcpy(&ss_flags, at + SS_FLAGS, sizeof(ss_flags));
	if (link != 0 || uc_flags >= 256 || sp == 0 || (ss_flags & ~SS_AUTODISARM_BIT) >= 4 ||
	    size > LARGEST_SIGNAL_STACK || sp > thread->stack_address + MARGIN ||
	    address - sp >= size)
		return 0;
	return saved;
}

#else

enum { UC_END = 1 };

static uint64_t thread_pointer(const struct user_regs_struct *registers)
{
	(void)registers;
	return 0;
}

/* The layout is not known: such stacks end at the signal frame. */
static uint64_t saved_stack_pointer(const struct snap_thread *thread, size_t offset)
{
	(void)thread;
	(void)offset;
	return 0;
}

#endif

static bool is_usual_stack(const struct snap_map *map, uint64_t pointer)
{
	return (pointer >= map->start && pointer < map->end) ||
	       (map->path && strcmp(map->path, "[stack]") == 0);
}

uint64_t snap_tracer_interrupted_sp(const struct snap_thread *thread, size_t *budget,
				    bool (*accepts)(void *context, uint64_t sp), void *context)
{
	size_t end = thread->stack_size < SCAN_BYTES ? thread->stack_size : SCAN_BYTES;

	for (size_t at = 0; at + UC_END <= end && *budget; at += sizeof(uint64_t)) {
		uint64_t saved = saved_stack_pointer(thread, at);

		*budget -= sizeof(uint64_t);
		if (saved && accepts(context, saved))
			return saved;
	}
	return 0;
}

/* A thread of a stop, while its signal frame is looked for. */
struct interrupted {
	struct snap_tracer *tracer;
	const struct snap_tracee *tracee;
	const struct snap_map *own;
	struct snap_want want;
};

static bool is_elsewhere(void *context, uint64_t saved)
{
	struct interrupted *interrupted = context;
	uint32_t process = interrupted->tracee->process;
	const struct snap_map *map;

	if (saved >= interrupted->own->start && saved < interrupted->own->end)
		return false;
	map = snap_tracer_find_map(interrupted->tracer, process, saved);
	if (!map || !map->write)
		return false;
	interrupted->want = snap_tracer_want(interrupted->tracer, interrupted->tracee, saved);
	return interrupted->want.size > 0;
}

/* The stack that was interrupted; size 0: none. */
static struct snap_want find_interrupted(struct snap_tracer *tracer,
					 const struct snap_tracee *tracee, size_t *budget)
{
	const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct interrupted interrupted = {
		.tracer = tracer,
		.tracee = tracee,
		.own = snap_tracer_find_map(tracer, tracee->process, thread->stack_address),
	};

	if (!interrupted.own || is_usual_stack(interrupted.own, thread_pointer(thread->registers)))
		return (struct snap_want){ 0 };
	if (!snap_tracer_interrupted_sp(thread, budget, is_elsewhere, &interrupted))
		return (struct snap_want){ 0 };
	return interrupted.want;
}

void snap_tracer_copy_interrupted(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack & ~15ull;
	size_t budget = SCAN_TOTAL;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
		struct snap_want want;
		struct iovec range;
		uint8_t *bytes;
		size_t size;

		if (thread->result != SNAP_THREAD_COPIED || !thread->stack_size)
			continue;
		want = find_interrupted(tracer, tracee, &budget);
		want.size = want.size < most ? want.size : most;
		if (want.size > snap_region_room(&tracer->shared->stacks))
			want.size = snap_region_room(&tracer->shared->stacks);
		if (!want.size)
			continue;
		bytes = snap_region_alloc(&tracer->shared->stacks, want.size);
		range = (struct iovec){ (void *)(uintptr_t)want.address, want.size };
		size = bytes ? snap_tracer_read(tracer, tracee->process, tracee->tid, bytes, &range,
						1)
			     : 0;
		if (!size)
			continue;
		thread->stack2_address = want.address;
		thread->stack2 = bytes;
		thread->stack2_size = size;
	}
}
