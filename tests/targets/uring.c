/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An io_uring with a polling thread, which the kernel makes inside this process. */
#include "victim.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>

int main(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 1 };

	if (syscall(SYS_io_uring_setup, 4, &params) < 0)
		victim_cannot("io_uring_setup");
	victim_ready("uring");
	victim_hold();
}
