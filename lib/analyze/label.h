/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Labels of a thread of a capture: facts about it other than its stack. The labels of groups of
 * threads are in model/group_label.h. Knows one thread at a time, and nothing of how stacks are
 * compared.
 */
#pragma once

#include "base/arena.h"
#include "model/group_label.h"

struct snap_raw_process;
struct snap_raw_stack;

/* Names of the capture are copied through the interner. False without memory. */
bool snap_label_member(struct snap_interner *strings, const struct snap_raw_process *raw,
		       const struct snap_thread *thread, const struct snap_raw_stack *stack,
		       struct snap_member *ret);

/*
 * The name of a system call, or its number in decimal; of a restarted one, by the stack, the name
 * of the one that was interrupted. NULL without memory.
 */
const char *snap_label_syscall(struct snap_interner *strings, enum snap_arch of, int number,
			       const struct snap_raw_stack *stack);
