/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Everything that analysis asks of one file, at addresses all over its code. */
#pragma once

#include "fuzz.h"

/*
 * The file as a process maps it at code_at: its names, lines and inlined functions. The finder
 * answers with `companion` whatever separate file is asked for; -1: there is none. The descriptors
 * stay the caller's.
 */
void fuzz_lookup_names(int fd, int companion);

/*
 * Threads that stand all over its code, with stacks that lead everywhere, unwound by rows and by
 * libunwind.
 */
void fuzz_lookup_frames(int fd);
