/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs the reader of a runtime for threads that were copied one after the other. Memory is freed
 * and used again between two copies, so each thread is read with the memory that was copied with it
 * alone. Then the results are joined. Knows no runtime.
 */
#pragma once

#include "analyze/runtime/runtime.h"

/*
 * As the runtime's read(), of all threads of the process that have memory of their own. What is
 * said of another thread than the current one does not count. NULL in *ret: this runtime is not in
 * the process, or no thread has memory. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_runtime_read_by_thread(const struct snap_runtime *runtime,
						    const struct snap_runtime_process *of,
						    struct snap_runtime_result **ret) _must_check_;
