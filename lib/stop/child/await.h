/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Await: waits for a tracee so that a signal on its way to it stays with the kernel.
 *
 * A wait that takes a stop clears the signal that the tracee has stopped at (wait_task_stopped() of
 * kernel/exit.c). If the tracer then ends before DETACH, by SIGKILL for example, the signal is lost.
 * So a stop is only looked at; the kernel delivers the signal whatever becomes of the tracer. Knows
 * nothing of phases.
 */
#pragma once

#include <sys/types.h>

/*
 * wait4(2) of one tracee with __WALL and `options`: 0 or WNOHANG. Its end is taken, its stop is left: it is
 * reported again until the tracee is released. Returns the tid, 0, or -1 with errno.
 */
pid_t snap_await_tracee(pid_t tid, int options, int *status_ret);
