/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The goroutines that threads run, found from the threads: each thread has its goroutine in its
 * thread-local memory. If a program is linked so that this word lies elsewhere, nothing is found.
 */
#include "analyze/runtime/go/internal.h"

#include "model/arch/registers.h"

enum {
	RUNS_AFTER_SIGNALS = 112, /* in m: from the goroutine for signals to the one that it runs */
};

uint64_t snap_go_runs_at(const struct snap_go_layout *layout)
{
	return (uint64_t)layout->thread_signal_stack + RUNS_AFTER_SIGNALS;
}

/* 0: its thread-local memory is not known, or it has no goroutine. */
static uint64_t goroutine_of(const struct snap_go *go, const struct snap_thread *thread)
{
	const struct snap_go_layout *layout = go->layout;
	uint64_t base, own, machine, number, runs, back;
	struct snap_known_registers known;

	if (!snap_registers_of(go->process->process->arch, thread, &known))
		return 0;
	base = known.thread_pointer;
	if (!base ||
	    !snap_runtime_word(go->process, base + (uint64_t)(int64_t)SNAP_GO_LOCAL, &own) ||
	    !snap_runtime_word(go->process, own + SNAP_GO_THREAD, &machine) ||
	    !snap_runtime_word(go->process, machine + layout->thread_tid, &number) ||
	    snap_go_thread(go, number) != thread ||
	    !snap_runtime_word(go->process, machine + snap_go_runs_at(layout), &runs) ||
	    !snap_runtime_word(go->process, runs + SNAP_GO_THREAD, &back) || back != machine)
		return 0;
	return runs;
}

size_t snap_go_current(const struct snap_go *go, uint64_t *goroutines, size_t most)
{
	const struct snap_process *process = go->process->process;
	size_t count = 0;

	for (size_t i = 0; i < process->thread_count && count < most; i++) {
		goroutines[count] = goroutine_of(go, &process->threads[i]);
		count += goroutines[count] != 0;
	}
	return count;
}
