/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Own: the function of a program that a stack stands in, which is what its reader wrote.
 *
 * Where an interpreter runs the program, that is a function of the language: what the interpreter,
 * its extensions and the machine's libraries do in C on its behalf says nothing of the program.
 * Knows names of modules and nothing of a whole report.
 */
#pragma once

#include "model/snapshot.h"

/*
 * The innermost function that is no system code, with a name if one is near; NULL: there is none.
 * *entry_ret is its number in the frame, 0 with NULL.
 */
const struct snap_frame *snap_own_frame(const struct snap_frame *const *frames, size_t count,
					size_t *entry_ret);
