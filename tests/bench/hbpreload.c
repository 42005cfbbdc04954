/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Preloaded into a real program, adds one heartbeat thread to it. HB_FILE names the shared file,
 * HB_COMM, if set, the only comm it starts in.
 */
#include "hb.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
__attribute__((constructor)) static void hb_ctor(void)
{
	const char *path = getenv("HB_FILE"), *comm = getenv("HB_COMM");
	if (!path || (comm && strcmp(comm, program_invocation_short_name)))
		return;
	struct hb_file *hb = hb_map(path, 1);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	hb_start(hb, 0, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	hb->pid = getpid();
	hb->ready = 1;
}
