/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the threads of a stack wait for, as text. Knows neither frames nor the tree. */
#pragma once

#include "model/snapshot.h"
#include "render/text/line.h"

/*
 * A line where all threads of the stack wait for the same thing, else one for each thing, with the
 * tids; `indent` columns behind the rails.
 */
void snap_text_waits(struct snap_sheet *lines, const struct snap_options *options,
		     const struct snap_stack *stack, size_t indent);
