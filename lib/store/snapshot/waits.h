/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits of a snapshot as bytes, inside: one wait is wait.c, what follows from them waits.c.
 *
 * Threads point to waits, and waits to those of others, in circles where there is a deadlock. So a
 * wait is a number wherever it is pointed to, and all of them follow behind the last of these, one
 * after the other, without recursion. Nobody else includes it.
 */
#ifndef SNAP_STORE_SNAPSHOT_WAITS_H
#define SNAP_STORE_SNAPSHOT_WAITS_H

#include "store/pointers.h"

/* A wait, or NULL. When read it is all zero until snap_code_waits(). */
void snap_code_wait_pointer(struct snap_pointer_codec *to, const struct snap_wait **wait);
/* What follows from waits, then all that were pointed to: nothing may point to one behind it. */
void snap_code_waits(struct snap_pointer_codec *to, struct snap_waits *waits);

/* A wait itself. */
void snap_code_wait(struct snap_pointer_codec *to, struct snap_wait *wait);

#endif
