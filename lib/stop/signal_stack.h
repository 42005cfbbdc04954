/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Handlers on an alternate signal stack (sigaltstack(2)): the frames that such a handler has
 * interrupted lie in another mapping. The signal frame in the copied stack says where. Works on
 * bytes alone.
 */
#ifndef SNAP_STOP_SIGNAL_STACK_H
#define SNAP_STOP_SIGNAL_STACK_H

#include "model/capture.h"

/*
 * The stack pointer that a signal handler interrupted: that of the first signal frame in
 * thread->stack which `accepts`. Looks at *budget bytes at most, and takes off what it has looked
 * at. 0: there is none, or the layout of such frames is not known for this architecture.
 */
uint64_t snap_tracer_interrupted_sp(const struct snap_thread *thread, size_t *budget,
				    bool (*accepts)(void *context, uint64_t sp), void *context);

#endif
