/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "analyze/unwind/engine.h"

#include "base/cleanup.h"

struct snap_ptrace_engine {
	int unused;
};

struct snap_ptrace_engine *snap_ptrace_engine_create(void)
{
	return calloc(1, sizeof(struct snap_ptrace_engine));
}

void snap_ptrace_engine_destroy(struct snap_ptrace_engine *engine)
{
	free(engine);
}

size_t snap_ptrace_engine_unwind(void *engine _unused_, pid_t tid _unused_, uint64_t *pcs _unused_,
				 size_t max _unused_)
{
	return 0;
}
