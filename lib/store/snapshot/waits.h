/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits of a snapshot as bytes, inside: one wait is wait.c, deadlocks, blockers and contended objects
 * are waits.c.
 *
 * Threads point to waits, and waits to those of others, in circles if there is a deadlock. So each
 * pointer to a wait is a number, and all waits follow after the last pointer, one after the other,
 * without recursion. No other file includes it.
 */
#pragma once

#include "store/pointers.h"

/* A wait, or NULL. When read it is all zero until snap_code_waits(). */
void snap_code_wait_pointer(struct snap_pointer_codec *to, const struct snap_wait **wait);
/* Deadlocks and the like, then all waits that were pointed to: no pointer may come later. */
void snap_code_waits(struct snap_pointer_codec *to, struct snap_waits *waits);

/* A wait itself. */
void snap_code_wait(struct snap_pointer_codec *to, struct snap_wait *wait);
