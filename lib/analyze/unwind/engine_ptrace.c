/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reference: libunwind-ptrace's own accessors on a stopped thread. See engine.h. It is slow,
 * and runs in the tracing process while the target is stopped. It knows nothing of copies or rows,
 * so tests can compare the fast engine with it.
 */
#include "analyze/unwind/engine.h"

#include "model/arch/registers.h"
#include "model/pc.h"

#include <libunwind-ptrace.h>

enum { TELLS_BEFORE = SNAP_OWN_ARCH == SNAP_ARCH_AARCH64 };

struct snap_ptrace_engine {
	unw_addr_space_t space;
};

struct snap_ptrace_engine *snap_ptrace_engine_create(void)
{
	struct snap_ptrace_engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return NULL;
	engine->space = unw_create_addr_space(&_UPT_accessors, 0);
	if (!engine->space) {
		free(engine);
		return NULL;
	}
	unw_set_caching_policy(engine->space, UNW_CACHE_NONE);
	return engine;
}

void snap_ptrace_engine_destroy(struct snap_ptrace_engine *engine)
{
	if (!engine)
		return;
	unw_destroy_addr_space(engine->space);
	free(engine);
}

static size_t walk_frames(unw_cursor_t *cursor, uint64_t *pcs, size_t max)
{
	uint64_t mark = SNAP_PC_EXACT;
	bool is_signal = false;
	size_t count = 0;

	while (count < max) {
		unw_word_t pc;

		if (unw_get_reg(cursor, UNW_REG_IP, &pc) < 0 || (pc == 0 && count > 0))
			break;
		pcs[count++] = pc | mark;
		if (TELLS_BEFORE)
			is_signal = unw_is_signal_frame(cursor) > 0;
		if (unw_step(cursor) <= 0)
			break;
		/* As in engine_libunwind.c. */
		if (!TELLS_BEFORE)
			is_signal = unw_is_signal_frame(cursor) > 0;
		mark = is_signal ? SNAP_PC_EXACT : 0;
		/* The code that returns from the handler has no caller, either. */
		pcs[count - 1] |= mark;
	}
	return count;
}

size_t snap_ptrace_engine_unwind(void *context, pid_t tid, uint64_t *pcs, size_t max)
{
	struct snap_ptrace_engine *engine = context;
	unw_cursor_t cursor;
	size_t count = 0;
	void *thread;

	thread = _UPT_create(tid);
	if (!thread)
		return 0;
	if (unw_init_remote(&cursor, engine->space, thread) == 0)
		count = walk_frames(&cursor, pcs, max);
	_UPT_destroy(thread);
	return count;
}
