/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Touch: brings pages of a process's memory in, in a way that SIGKILL ends.
 *
 * If a file system in user space is to fill a page and does not answer, a read of /proc/PID/mem sleeps
 * where no signal ends it (mm/memory.c, __access_remote_vm(): its faults are not killable). SIGKILL ends
 * process_vm_readv(2), except in the one call that sends the request, once for each page. So a worker
 * that touches pages first ends when it is killed. process_vm_readv(2) has two disadvantages. It waits
 * without an end for the lock of the mappings, so pagemap, which does not, is read before it. And a page
 * of userfaultfd blocks it, but no read of mem, so only pages of files are touched. Knows nothing of the
 * read that follows.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * How many bytes from `address` on may be read, at most `size`; 0 also where there is no such
 * thread, or it may not be read. Without that system call in the kernel all may. `pagemap_fd` is
 * /proc/PID/pagemap, or negative where that cannot be opened.
 */
size_t snap_memory_touch(int pagemap_fd, pid_t tid, uint64_t address, size_t size);
