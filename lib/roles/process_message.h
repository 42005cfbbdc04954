/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process on its way to a parser that stays: by what addresses are understood (mappings, pieces
 * of memory, names of files), and nothing else of it. One message, with a file in memory.
 */
#ifndef SNAP_ROLES_PROCESS_MESSAGE_H
#define SNAP_ROLES_PROCESS_MESSAGE_H

#include "model/capture.h"

/* OS: also EPIPE when nobody is there any more. */
struct stacksnap_error *snap_process_send(int channel,
					  const struct snap_process *process) _must_check_;

/* What came; the process points into it. munmap'ed by its owner. */
struct snap_process_bytes {
	void *bytes;
	size_t size;
};

/*
 * Receives the next one; its arrays are in the arena. False: nobody is there any more, no memory,
 * or it is none; then nothing is kept.
 */
bool snap_process_receive(int channel, struct snap_arena *arena, struct snap_process *ret,
			  struct snap_process_bytes *bytes_ret) _must_check_;

#endif
