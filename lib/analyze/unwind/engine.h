/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The two engines of libunwind, without its types.
 *
 * engine_libunwind.c works on the copy: it steps from registers through memory that a callback
 * reads, where rows do not suffice, and for all frames with --engine=libunwind. engine_ptrace.c
 * works on a stopped thread: it is the reference, for tests, and capture calls it through its stop
 * hook (--engine=ptrace). unwind.c, step.c and pipeline.c decide which engine is used. Neither
 * knows names of functions.
 */
#pragma once

#include "analyze/elf/module.h"
#include "analyze/unwind/rows.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct snap_libunwind;

/* NULL without memory. For processes of the processor that this was built for, alone. */
struct snap_libunwind *snap_libunwind_create(void);
void snap_libunwind_destroy(struct snap_libunwind *engine);
/* Another process: what was remembered of addresses is dropped. */
void snap_libunwind_enter(struct snap_libunwind *engine, struct snap_modules *modules,
			  struct snap_module_set *set);
/*
 * Begins at a frame: state->registers by DWARF number, its read callback gives the memory. `state`
 * must stay until the last step; it is only read. `pc` is where it stands.
 */
bool snap_libunwind_begin(struct snap_libunwind *engine, const struct snap_frame_state *state,
			  uint64_t pc);

enum snap_libunwind_result {
	SNAP_LIBUNWIND_CALLER,     /* stands at the caller now */
	SNAP_LIBUNWIND_LAST,       /* there is none: the outermost frame */
	SNAP_LIBUNWIND_NO_CFI,     /* no unwind information */
	SNAP_LIBUNWIND_UNREADABLE, /* memory was missing */
	SNAP_LIBUNWIND_FAILED,
};

/* To the caller; *signal_ret: it was interrupted, not called. */
enum snap_libunwind_result snap_libunwind_step(struct snap_libunwind *engine, bool *signal_ret);
/* pc and sp of the frame at which it stands. */
void snap_libunwind_position(struct snap_libunwind *engine, uint64_t *pc_ret, uint64_t *sp_ret);
/* All registers there; what libunwind does not know keeps its value. */
void snap_libunwind_registers(struct snap_libunwind *engine, const struct snap_arch_ops *arch,
			      uint64_t *registers);
/* Whether the file's search table has an entry for an address. */
bool snap_libunwind_covers(struct snap_libunwind *engine, const struct snap_frame_state *state,
			   uint64_t address);

struct snap_ptrace_engine;
/* NULL without memory. */
struct snap_ptrace_engine *snap_ptrace_engine_create(void);
void snap_ptrace_engine_destroy(struct snap_ptrace_engine *engine);
SNAP_POINTER_GUARD(struct snap_ptrace_engine, snap_ptrace_engine_destroy);
/*
 * The pcs of a thread stopped by the calling process, innermost first; their number. Each is the
 * bits of a struct snap_pc: it says whether it is a return address.
 */
size_t snap_ptrace_engine_unwind(void *engine, pid_t tid, uint64_t *pcs, size_t max);
