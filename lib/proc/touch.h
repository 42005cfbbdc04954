/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Touch: have pages of a process's memory brought in, in a way that SIGKILL ends.
 *
 * Where a page is to be filled by a file system in user space that does not answer, a read of
 * /proc/PID/mem sleeps where no signal ends it (mm/memory.c, __access_remote_vm(): its faults are
 * not killable), process_vm_readv(2) where SIGKILL does, but for the one call that sends the request,
 * once for each page. So who touches first is not left behind when he is given up. There are two
 * things that process_vm_readv(2) does worse: it waits without an end for the lock of the mappings,
 * so pagemap, which does not, is read before it; and a page of userfaultfd holds it, and no read of
 * mem, so only pages of files are touched. Knows nothing of what is read then.
 */
#ifndef SNAP_PROC_TOUCH_H
#define SNAP_PROC_TOUCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * How many bytes from `address` on may be read, at most `size`; 0 also where there is no such
 * thread, or it may not be read. Without that system call in the kernel all may. `pagemap_fd` is
 * /proc/PID/pagemap, or negative where that cannot be opened.
 */
size_t snap_memory_touch(int pagemap_fd, pid_t tid, uint64_t address, size_t size);

#endif
