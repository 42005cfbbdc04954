/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The first thread has ended, the others live on: a zombie leader. */
#include "victim.h"

static pthread_t leader;

NOINLINE static void survive(void)
{
	for (;;)
		pause();
}

static void *survivor_main(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "survivor", 0, 0, 0);
	survive();
	return NULL;
}

static void *remaining_main(void *unused)
{
	(void)unused;
	pthread_join(leader, NULL);
	prctl(PR_SET_NAME, "remaining", 0, 0, 0);
	victim_ready("zombie leader");
	victim_hold();
	return NULL;
}

int main(void)
{
	leader = pthread_self();
	victim_thread(survivor_main, NULL, 0);
	victim_thread(remaining_main, NULL, 0);
	pthread_exit(NULL);
}
