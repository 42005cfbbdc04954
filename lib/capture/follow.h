/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Other stacks that frames lie in: has them copied of the threads of a stop. Knows no CFI. */
#pragma once

#include "stop/tracer.h"

/*
 * Copies other stacks of those threads of the stop that go on in one, by the hook's `follow`, as long as they
 * stand still; see struct snap_stop_again.
 */
void snap_follow_stopped(const struct snap_stop_hook *hook, struct snap_capture *capture,
			 struct snap_shared_memory *memory, struct snap_stop *stop);
