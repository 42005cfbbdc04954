/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Decides whether a thread is in the system call that its registers name. On aarch64 the registers
 * keep the number of a call that has ended, too. There the code decides: the thread is in the call
 * if its pc is at the instruction that makes the call. Does not know which call it is, nor what the
 * call waits for.
 */
#pragma once

#include "analyze/elf/module.h"
#include "model/capture.h"

/* True where it is not known better. `modules`: of its process; NULL: none of its threads was copied. */
bool snap_is_in_call(const struct snap_process *process, struct snap_modules *modules,
		     const struct snap_thread *thread);
