/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Process message: sends a process to a parser that stays. It has what addresses need (mappings,
 * pieces of memory, names of files), and nothing else of the process. It is one message, with a
 * file in memory.
 */
#pragma once

#include "model/capture.h"

/* OS: also EPIPE when the receiver has gone. */
struct stacksnap_error *snap_process_send(int channel,
					  const struct snap_process *process) _must_check_;

/* What came; the process points into it. munmap'ed by its owner. */
struct snap_process_bytes {
	void *bytes;
	size_t size;
};

/*
 * Receives the next process; its arrays are in the arena. False: the sender has gone, memory is
 * used up, or the message is invalid; then nothing is kept.
 */
bool snap_process_receive(int channel, struct snap_arena *arena, struct snap_process *ret,
			  struct snap_process_bytes *bytes_ret) _must_check_;
