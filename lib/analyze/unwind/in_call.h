/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Whether a thread is in the system call that its registers speak of. On aarch64 they keep the number
 * of a call that has ended, too; what they do not say the code does, in which the thread stands at
 * the instruction that makes the call. Does not know which call it is, nor what that waits for.
 */
#ifndef SNAP_ANALYZE_UNWIND_IN_CALL_H
#define SNAP_ANALYZE_UNWIND_IN_CALL_H

#include "analyze/elf/module.h"
#include "model/capture.h"

/* True where it is not known better. `modules`: of its process; NULL: none of its threads was copied. */
bool snap_is_in_call(const struct snap_process *process, struct snap_modules *modules,
		     const struct snap_thread *thread);

#endif
