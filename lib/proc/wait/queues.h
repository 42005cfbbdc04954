/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines of the tables of System V message queues and semaphore sets (sysvipc(7)).
 *
 * Pure functions, as those of proc/parse.h. Knows nothing of the waiting threads.
 */
#pragma once

#include "model/wait/facts.h"

/* Both: one line without its newline. False: the head of the table, or not the kernel's. */
bool snap_parse_message_queue(const char *line, size_t length, struct snap_ipc_queue *ret);
bool snap_parse_semaphore_set(const char *line, size_t length, struct snap_ipc_queue *ret);
