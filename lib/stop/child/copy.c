/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the pause is for: registers, then stacks from just below the stack pointer to the end of
 * the mapping. process_vm_readv in batches of many threads: one call a thread would make the whole
 * pause a tenth longer.
 */
#include "base/clock.h"
#include "stop/child/internal.h"
#include "stop/signal_stack.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

enum {
	VECTORS = 1024,        /* UIO_MAXIOV */
	BATCH_BYTES = 4 << 20, /* what one call copies between two looks at the clock */
	MOST_REFERENCE_PCS = 1 << 16,
	SAMPLES = 32, /* stacks that are measured before the stop */
	SAMPLE_TEXT = 256,
	USUAL_STACK = 8192,
	LARGE_STACK = 1 << 16, /* the most that is made ready for each */
	SPARE_BYTES = 1 << 16,
	SIGNAL_FRAME_BYTES = 4 << 20, /* that are searched for signal frames, of all stacks */
};

struct snap_batch {
	struct iovec remote[VECTORS];
	uint32_t tracees[VECTORS];
	size_t count, bytes;
};

/* The stack pointer of a thread that waits in the kernel, 0: it runs, or it cannot be read. */
static uint64_t sample_stack_pointer(struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	char *text = tracer->buffer;
	ssize_t length = snap_procfs_task_read(tracer->task_fds[tracee->process], tracee->tid,
					       "syscall", text, SAMPLE_TEXT);
	/* "NUMBER 0xARGUMENT … 0xSP 0xPC", "-1 0xSP 0xPC", "running" */
	const char *pc = length > 0 ? memrchr(text, ' ', (size_t)length) : NULL;
	const char *sp = pc ? memrchr(text, ' ', (size_t)(pc - text)) : NULL;
	uint64_t value = 0;

	if (!sp || sp[1] != '0' || sp[2] != 'x')
		return 0;
	for (const char *at = sp + 3; at < pc; at++)
		value = value << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return value;
}

/*
 * Memory that is ready and not needed is memory all the same, and what is not ready is put there
 * in the pause, page by page: so a few stacks are measured beforehand.
 */
uint64_t snap_tracer_expect(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack, sum = 0, expected;
	uint32_t step = tracer->count / SAMPLES + 1, samples = 0;

	for (uint32_t i = step / 2; step > 1 && i < tracer->count; i += step) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		uint64_t sp = sample_stack_pointer(tracer, tracee);
		const struct snap_map *map =
			sp ? snap_tracer_find_map(tracer, tracee->process, sp) : NULL;

		if (!map)
			continue;
		samples++;
		sum += map->end - sp < most ? map->end - sp : most;
	}
	expected = samples ? sum / samples + SNAP_STACK_MARGIN : USUAL_STACK;
	expected = expected < LARGE_STACK ? expected : LARGE_STACK;
	return expected * tracer->count + SPARE_BYTES;
}

void snap_tracer_reserve_copies(struct snap_tracer *tracer, uint64_t stack_bytes)
{
	snap_region_prefault(&tracer->memory->records,
			     tracer->count * (size_t)(sizeof(struct user_regs_struct) + 16));
	snap_region_prefault(&tracer->memory->stacks, stack_bytes);
	memset(tracer->batch, 0, sizeof(*tracer->batch));
	memset(tracer->wants, 0, tracer->count * sizeof(*tracer->wants));
}

/* Beside the usual stack of a thread; 0: not known. */
static uint64_t thread_pointer(const struct user_regs_struct *registers)
{
#if defined(__x86_64__)
	return registers->fs_base;
#else
	(void)registers;
	return 0;
#endif
}

static uint64_t stack_pointer(const struct user_regs_struct *registers)
{
#if defined(__x86_64__)
	return registers->rsp;
#elif defined(__aarch64__)
	return registers->sp;
#else
#error "say where the stack pointer is, and add the architecture to enum snap_arch"
#endif
}

static enum snap_arch own_arch(void)
{
#if defined(__x86_64__)
	return SNAP_ARCH_X86_64;
#else
	return SNAP_ARCH_AARCH64;
#endif
}

/* A 32-bit thread has a shorter set: that is how it is known (68 bytes on i386). */
int snap_tracer_registers(pid_t tid, void *ret, size_t *size_ret, uint64_t *sp_ret,
			  enum snap_arch *arch_ret)
{
	struct iovec vector = { ret, sizeof(struct user_regs_struct) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector))
		return errno;
	if (vector.iov_len != sizeof(struct user_regs_struct))
		return ENOEXEC;
	*size_ret = vector.iov_len;
	*sp_ret = stack_pointer(ret);
	*arch_ret = own_arch();
	return 0;
}

static void read_registers(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct user_regs_struct *registers =
		snap_region_alloc(&tracer->memory->records, sizeof(*registers));
	uint64_t sp;
	int error;

	if (!registers)
		return;
	error = snap_tracer_registers(tracee->tid, registers, &thread->registers_size, &sp,
				      &process->arch);
	/* SIGKILL ends even a stopped thread. */
	if (error == ESRCH)
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
	if (error == ENOEXEC) {
		process->unsupported = true;
		thread->result = SNAP_THREAD_UNTRACED;
	}
	if (error)
		return;
	thread->registers = registers;
	thread->stack_unreadable = true; /* until its bytes are there */
	thread->result = SNAP_THREAD_COPIED;
}

/*
 * A stack that grew, a thread or a program that is new: then the maps are read again, once a
 * process. It is rare, and nothing else says where the stack ends.
 */
static const struct snap_map *find_stack(struct snap_tracer *tracer,
					 const struct snap_tracee *tracee, uint64_t sp)
{
	uint32_t process = tracee->process;
	const struct snap_map *map = snap_tracer_find_map(tracer, process, sp);
	bool stale = !map || tracer->stop->processes[process].execed;

	if (!stale || tracer->maps_read_again[process])
		return map;
	tracer->maps_read_again[process] = true;
	if (tracer->task_fds[process] >= 0)
		snap_tracer_read_maps(tracer, process, tracee->tid);
	return snap_tracer_find_map(tracer, process, sp);
}

static struct snap_want find_wanted_bytes(struct snap_tracer *tracer,
					  const struct snap_tracee *tracee, uint64_t sp)
{
	const struct snap_map *map = find_stack(tracer, tracee, sp);
	uint64_t start;

	if (!map || !map->read)
		return (struct snap_want){ 0 };
	start = sp - map->start < SNAP_STACK_MARGIN ? map->start : sp - SNAP_STACK_MARGIN;
	start &= ~15ull;
	return (struct snap_want){ .address = start, .size = map->end - start };
}

static uint64_t total_of(const struct snap_tracer *tracer, uint64_t most)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < tracer->count; i++)
		total += tracer->wants[i].size < most ? tracer->wants[i].size : most;
	return total;
}

/* The longest stack with which all fit: the inner frames of each are worth more than one whole. */
static uint64_t plan(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack & ~15ull;
	size_t room = snap_region_room(&tracer->memory->stacks);

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);

		tracer->wants[i] = (struct snap_want){ 0 };
		if (thread->registers_size)
			tracer->wants[i] =
				find_wanted_bytes(tracer, tracee, stack_pointer(thread->registers));
	}
	while (total_of(tracer, most) > room) {
		most = (most / 2) & ~15ull;
		tracer->stop->limited = true;
	}
	return most;
}

static void got(struct snap_tracer *tracer, uint32_t index, const uint8_t *bytes, size_t size,
		size_t asked)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, &tracer->tracees[index]);

	thread->stack_address = tracer->wants[index].address;
	thread->stack = bytes;
	thread->stack_size = size;
	thread->stack_limited = size == asked && asked < tracer->wants[index].size;
	thread->stack_unreadable = size < asked;
}

/* A batch ends at its first fault: what lies behind it is read one by one. */
static void flush(struct snap_tracer *tracer, struct snap_batch *batch)
{
	uint8_t *bytes = snap_region_alloc(&tracer->memory->stacks, batch->bytes);
	const struct snap_tracee *first = &tracer->tracees[batch->tracees[0]];
	size_t at = 0, copied;

	if (!batch->count || !bytes)
		return;
	copied = snap_tracer_read(tracer, first->process, first->tid, bytes, batch->remote,
				  batch->count);
	for (size_t i = 0; i < batch->count; at += batch->remote[i++].iov_len) {
		const struct iovec *range = &batch->remote[i];
		size_t size = range->iov_len;

		if (copied < at + range->iov_len)
			size = snap_tracer_read(tracer, first->process, first->tid, bytes + at,
						range, 1);
		got(tracer, batch->tracees[i], bytes + at, size, range->iov_len);
	}
	batch->count = batch->bytes = 0;
}

static bool has_time(const struct snap_tracer *tracer)
{
	return snap_clock_ns(CLOCK_MONOTONIC) < tracer->copy_until_ns;
}

static void copy_stacks(struct snap_tracer *tracer)
{
	struct snap_batch *batch = tracer->batch;
	uint64_t most = plan(tracer);
	uint32_t process = UINT32_MAX;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_want *want = &tracer->wants[i];
		uint64_t size = want->size < most ? want->size : most;

		if (!size)
			continue;
		if (tracer->tracees[i].process != process || batch->count == VECTORS ||
		    batch->bytes + size > BATCH_BYTES) {
			flush(tracer, batch);
			if (!has_time(tracer))
				return;
		}
		process = tracer->tracees[i].process;
		batch->remote[batch->count] =
			(struct iovec){ (void *)(uintptr_t)want->address, size };
		batch->tracees[batch->count++] = i;
		batch->bytes += size;
	}
	flush(tracer, batch);
}

/* ---- handlers on a signal stack (stop/signal_stack.h) ---- */

static bool is_usual_stack(const struct snap_map *map, uint64_t pointer)
{
	return (pointer >= map->start && pointer < map->end) ||
	       (map->path && strcmp(map->path, "[stack]") == 0);
}

/* A thread of a stop, while its signal frame is looked for. */
struct interrupted_thread {
	struct snap_tracer *tracer;
	const struct snap_tracee *tracee;
	const struct snap_map *own;
	struct snap_want want;
};

static bool is_elsewhere(void *context, uint64_t saved)
{
	struct interrupted_thread *interrupted = context;
	uint32_t process = interrupted->tracee->process;
	const struct snap_map *map;

	if (saved >= interrupted->own->start && saved < interrupted->own->end)
		return false;
	map = snap_tracer_find_map(interrupted->tracer, process, saved);
	if (!map || !map->write)
		return false;
	interrupted->want = find_wanted_bytes(interrupted->tracer, interrupted->tracee, saved);
	return interrupted->want.size > 0;
}

/* The stack that was interrupted; size 0: none. */
static struct snap_want find_interrupted_stack(struct snap_tracer *tracer,
					       const struct snap_tracee *tracee, size_t *budget)
{
	const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct interrupted_thread interrupted = {
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

/* The stacks that threads on a signal stack were interrupted on. */
static void copy_interrupted_stacks(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack & ~15ull;
	size_t budget = SIGNAL_FRAME_BYTES;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
		struct snap_want want;
		struct iovec range;
		uint8_t *bytes;
		size_t size;

		if (thread->result != SNAP_THREAD_COPIED || !thread->stack_size)
			continue;
		want = find_interrupted_stack(tracer, tracee, &budget);
		want.size = want.size < most ? want.size : most;
		if (want.size > snap_region_room(&tracer->memory->stacks))
			want.size = snap_region_room(&tracer->memory->stacks);
		if (!want.size)
			continue;
		bytes = snap_region_alloc(&tracer->memory->stacks, want.size);
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

/* --engine=ptrace: another unwinder works on the thread itself, as slowly as it likes. */
static void call_hook(struct snap_tracer *tracer)
{
	uint64_t *pcs = tracer->reference_pcs;

	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_thread *thread = snap_tracer_thread(tracer, &tracer->tracees[i]);
		uint64_t *kept;
		size_t count;

		if (thread->result != SNAP_THREAD_COPIED || !has_time(tracer))
			continue;
		count = tracer->hook->unwind(tracer->hook->context, tracer->tracees[i].tid, pcs,
					     MOST_REFERENCE_PCS);
		kept = snap_region_new_array(&tracer->memory->records, count, uint64_t);
		if (!kept)
			continue;
		memcpy(kept, pcs, count * sizeof(*pcs));
		thread->reference_pcs = kept;
		thread->reference_pc_count = count;
	}
}

bool snap_tracer_lay_out_copies(struct snap_tracer *tracer)
{
	struct snap_region *scratch = &tracer->scratch;

	tracer->maps = snap_region_new_array(scratch, SNAP_MAX_MAPS, struct snap_map);
	tracer->wants = snap_region_new_array(scratch, SNAP_MAX_THREADS, struct snap_want);
	tracer->batch = snap_region_alloc(scratch, sizeof(*tracer->batch));
	tracer->maps_read_again = snap_region_alloc(scratch, SNAP_MAX_PROCESSES);
	tracer->reference_pcs = snap_region_new_array(scratch, MOST_REFERENCE_PCS, uint64_t);
	return tracer->maps && tracer->wants && tracer->batch && tracer->maps_read_again &&
	       tracer->reference_pcs;
}

void snap_tracer_copy(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		if (tracer->tracees[i].phase == SNAP_TRACEE_STOPPED)
			read_registers(tracer, &tracer->tracees[i]);
	}
	copy_stacks(tracer);
	copy_interrupted_stacks(tracer);
	if (tracer->hook && tracer->hook->unwind)
		call_hook(tracer);
}
