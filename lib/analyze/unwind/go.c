/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rows of Go code: see go.h. The rules are those of Go's own traceback (src/runtime/traceback.go).
 */
#include "analyze/unwind/go.h"

#include "base/text.h"

#include <string.h>

/*
 * The code that returns from a signal handler was never called, so an address in it may be given as
 * the one before.
 */
static bool returns_from_signal(const struct snap_go_code *code, uint64_t vaddr)
{
	struct snap_go_function function;
	uint32_t offset;

	return snap_go_code_function(code, vaddr, &function, &offset) &&
	       snap_begins_with(snap_go_function_name(&code->table, &function),
				"runtime.sigreturn");
}

/* These are not called by what they return to, but put there while it was interrupted. */
static bool is_put_in(const char *name)
{
	static const char *const names[] = { "runtime.sigpanic", "runtime.asyncPreempt",
					     "runtime.debugCallV2" };

	return snap_any(SNAP_ARRAY_SIZE(names), i, strcmp(name, names[i]) == 0);
}

/* It has no caller. Below a handler of signals lies what was interrupted. */
static bool ends_stack(const struct snap_go_function *function, const char *name)
{
	return (function->flags & SNAP_GO_TOP_FRAME) &&
	       !snap_begins_with(name, "runtime.sigtramp") &&
	       !snap_begins_with(name, "runtime.cgoSigtramp");
}

static enum snap_row_switch switch_of(const struct snap_go_function *function, const char *name)
{
	/* It does so, but may be unwound through wherever it stands. */
	if (!(function->flags & SNAP_GO_WRITES_STACK_POINTER) ||
	    strcmp(name, "runtime.cgocallback") == 0)
		return SNAP_ROW_SWITCHES_NOTHING;
	/* The goroutine that called it waits from now on: none of it is on this thread. */
	return strcmp(name, "runtime.mcall") == 0 ? SNAP_ROW_LEAVES_STACK : SNAP_ROW_SWITCHES_STACK;
}

enum { R12 = 12 }; /* of x86-64, which alone has code of Go that is read; by DWARF */

bool snap_go_row(const struct snap_go_code *code, const struct snap_arch_ops *arch, uint64_t vaddr,
		 struct snap_row *ret)
{
	struct snap_go_function function;
	uint32_t offset, size;
	enum snap_row_switch switches;
	const char *name;

	if (!snap_go_code_function(code, vaddr, &function, &offset))
		return false;
	*ret = (struct snap_row){ .kind = SNAP_ROW_NONE };
	ret->code = (struct snap_row_code){ .into = offset - function.entry,
					    .start = SNAP_START_EXACT,
					    .is_readable = true };
	if (returns_from_signal(code, vaddr) || returns_from_signal(code, vaddr + 1))
		return true;
	name = snap_go_function_name(&code->table, &function);
	switches = switch_of(&function, name);
	ret->code.switches = (uint8_t)switches;
	if (ends_stack(&function, name))
		*ret = (struct snap_row){ .kind = SNAP_ROW_END };
	else if (switches == SNAP_ROW_SWITCHES_NOTHING &&
		 snap_go_frame_size(&code->table, &function, offset, &size) && size < INT32_MAX - 8)
		*ret = (struct snap_row){ .kind = is_put_in(name) ? SNAP_ROW_PUT_IN
								  : SNAP_ROW_SIMPLE,
					  .cfa_register = (uint8_t)arch->sp,
					  .cfa_offset = (int32_t)size + 8,
					  .at = { -1 },
					  .low = -1,
					  .high = -1 };
	else if (snap_go_keeps_return(&code->table, &function, offset))
		*ret = (struct snap_row){ .kind = SNAP_ROW_KEPT, .cfa_register = R12 };
	return true;
}
