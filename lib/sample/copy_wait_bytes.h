/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that explains the wait of a thread that is not stopped (stop/wait_bytes.h), read beside its
 * stack, and as true as that is. What cannot be read is absent. Neither allocates nor locks.
 */
#pragma once

#include "model/capture.h"
#include "stop/wait_bytes.h"

#include <sys/types.h>

enum {
	SNAP_WAIT_BYTES_MOST = 1 << 14, /* of one thread */
	SNAP_WAIT_BYTES_PIECES = 64,
};

struct snap_copied_wait_bytes {
	struct snap_memory_image image; /* its pieces are in no order, and may overlap */
	struct snap_memory_piece pieces[SNAP_WAIT_BYTES_PIECES];
	uint8_t bytes[SNAP_WAIT_BYTES_MOST];
	bool stalled; /* a page did not come in time: no more is to be asked of this process */
};

/* Up to the first byte that cannot be read; a negative errno. */
typedef ssize_t snap_wait_bytes_reader(void *context, uint64_t address, uint8_t *bytes,
				       size_t size);

/*
 * Reads what the call of a copy names, but for what lies in its stack. 0 or -ESTALE: it is another
 * program.
 */
int snap_copy_wait_bytes(enum snap_arch arch, const struct snap_thread *copy,
			 snap_wait_bytes_reader *read, void *context,
			 struct snap_copied_wait_bytes *ret);

/*
 * The thread pointer of a copy whose registers do not tell it, by the copied stack: glibc puts
 * struct pthread at the upper end of a stack that it has made, where the first word and the third
 * are its own address (nptl/descr.h, tcbhead_t of tls.h). 0: not found, as with the first thread.
 */
uint64_t snap_find_thread_pointer(const struct snap_thread *copy);
