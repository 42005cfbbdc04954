/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that run, shown without a stop: the sample that the kernel took of them since the last tick
 * (bpf/running.h). Where there is none, or where it does not have the whole stack, the caller stops the
 * thread, as it does where samples are not permitted. Knows nothing of how they come.
 */
#include "bpf/running.h"
#include "base/clock.h"
#include "model/arch/registers.h"
#include "sample/internal.h"

#include <string.h>

enum { ONLY_TICK_HZ = 1000 /* where there is one tick, of some milliseconds */ };

static unsigned rate_of(const struct snap_options *options)
{
	return options->no_stop ? ONLY_TICK_HZ : options->hz;
}

/* Ticks and samples have the same rate, but other phases: between two ticks there may be none. */
static int64_t oldest_sample(const struct snap_sampler *sampler)
{
	return sampler->options->no_stop
		       ? 0
		       : sampler->now_ns - SNAP_NS_PER_S / sampler->options->hz * 3 / 2;
}

void snap_sampler_open_running(struct snap_sampler *sampler)
{
	const struct snap_options *options = sampler->options;

	if (rate_of(options) && !options->never_stop && !options->no_bpf)
		(void)snap_running_open(rate_of(options), &sampler->running);
}

/* The bytes below sp are none of it. False: there is not the whole stack. */
static bool lay_out_stack(struct snap_sampler *sampler, const struct snap_sampler_thread *thread,
			  const struct snap_running_sample *sample, struct snap_thread *copy)
{
	uint64_t start = (sample->sp - SNAP_STACK_MARGIN) & ~15ull;
	size_t below = (size_t)(sample->sp - start), size = sample->stack_size;
	const struct snap_process *facts = &thread->process->facts;
	const struct snap_map *map = snap_process_map(facts, sample->sp);
	uint64_t end = map ? snap_process_stack_end(facts, map, thread->fs_base) : 0;

	if (!map || end <= sample->sp || below + size > sampler->stack_size)
		return false;
	if (size < end - sample->sp && sample->stack_is_cut) {
		snap_running_deepen(sampler->running);
		return false;
	}
	copy->stack_unreadable = size < end - sample->sp;
	size = SNAP_MIN(size, (size_t)(end - sample->sp));
	memset(sampler->stack, 0, below);
	memcpy(sampler->stack + below, sample->stack, size);
	copy->stack = sampler->stack;
	copy->stack_address = start;
	copy->stack_size = below + size;
	return size > 0;
}

static void set_thread_pointer(const struct snap_sampler_thread *thread, uint8_t *registers)
{
	size_t at = SNAP_OWN_ARCH == SNAP_ARCH_X86_64
			    ? offsetof(struct snap_x86_64_registers, fs_base)
			    : offsetof(struct snap_aarch64_registers, thread_pointer);

	memcpy(registers + at, &thread->fs_base, sizeof(thread->fs_base));
}

struct stacksnap_error *snap_sampler_show_running(struct snap_sampler *sampler,
						  struct snap_sampler_thread *thread,
						  bool *shown_ret)
{
	const struct snap_running_sample *sample = NULL;
	struct snap_thread copy = { .result = SNAP_THREAD_COPIED, .taken = SNAP_TAKEN_UNSTOPPED };
	uint8_t registers[SNAP_MAX_REGISTERS];
	enum snap_verdict verdict;
	struct stacksnap_error *err;
	bool stale;
	uint64_t sp;

	*shown_ret = false;
	/* Memory of a runtime is of the moment of its stack, or of none. */
	if (sampler->running && !thread->process->shown.plan)
		sample = snap_running_take(sampler->running, thread->shown.tid,
					   oldest_sample(sampler));
	if (!sample || !lay_out_stack(sampler, thread, sample, &copy))
		return NULL;
	memcpy(registers, sample->registers, SNAP_OWN_REGISTERS);
	set_thread_pointer(thread, registers);
	copy.registers = registers;
	copy.registers_size = SNAP_OWN_REGISTERS;
	if (snap_sampler_interrupted_stack(&thread->process->facts, &copy, &sp) ||
	    !snap_sampler_copy_is_of_program(sampler, thread))
		return NULL;
	thread->process->facts.arch = SNAP_OWN_ARCH;
	snap_sampler_thread_describe(thread, &copy);
	thread->registers_hash = thread->stack_hash = 0;
	thread->reported_letter = 0;
	snap_sampler_thread_set(sampler, thread, SNAP_SAMPLER_THREAD_MOVING);
	err = snap_sampler_show(sampler, thread, &copy, &verdict, &stale);
	sampler->tick.unstopped++;
	*shown_ret = true;
	return err;
}
