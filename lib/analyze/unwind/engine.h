/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reference engine: libunwind-ptrace on a thread that stands still. A test aid, entered by
 * capture through its stop hook (--engine=ptrace). Knows nothing of copies.
 */
#ifndef SNAP_ANALYZE_ENGINE_H
#define SNAP_ANALYZE_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct snap_ptrace_engine;
/* NULL without memory. */
struct snap_ptrace_engine *snap_ptrace_engine_create(void);
void snap_ptrace_engine_destroy(struct snap_ptrace_engine *engine);
static inline void snap_ptrace_engine_destroyp(struct snap_ptrace_engine **engine)
{
	snap_ptrace_engine_destroy(*engine);
}
/* The pcs of a thread stopped by the calling process, innermost first; their number. */
size_t snap_ptrace_engine_unwind(void *engine, pid_t tid, uint64_t *pcs, size_t max);

#endif
