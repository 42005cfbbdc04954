/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks that lie in several mappings: of the first thread, and of threads as they are called. */
#include "victim.h"

#include <sys/mman.h>

enum { DEPTH = 20, PAGE = 4096 };

static volatile int sink;
static atomic_int waiting;

NOINLINE static void rests(bool is_first)
{
	atomic_fetch_add(&waiting, 1);
	while (is_first && atomic_load(&waiting) < 3)
		usleep(1000);
	if (is_first)
		victim_ready("");
	victim_hold();
}

NOINLINE static void descends(int n, const char *how, bool is_first)
{
	char room[PAGE];
	char *page = (char *)(((uintptr_t)room + PAGE - 1) & ~(uintptr_t)(PAGE - 1));

	memset(room, n, sizeof(room));
	if (n == DEPTH / 2 && strcmp(how, "dontfork") == 0 && madvise(page, PAGE, MADV_DONTFORK))
		victim_cannot("madvise");
	if (n == DEPTH / 2 && strcmp(how, "locked") == 0 && mlock(page, PAGE))
		victim_cannot("mlock");
	if (n > 1)
		descends(n - 1, how, is_first);
	else
		rests(is_first);
	sink += room[n];
}

static void *thread_main(void *how)
{
	pthread_setname_np(pthread_self(), how);
	descends(DEPTH, how, false);
	return NULL;
}

int main(void)
{
	victim_thread(thread_main, "locked", 0);
	victim_thread(thread_main, "dontfork", 0);
	descends(DEPTH, "dontfork", true);
	return 0;
}
