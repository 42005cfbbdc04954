/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Built with -fsplit-stack: each call of descend() goes on in another stack. */
#include "victim.h"

enum { DEPTH = 5, ROOM = 16384 };

static volatile int sink;

NOINLINE static void rest(int n)
{
	sink = n;
	victim_ready("%d", n);
	victim_hold();
	sink++;
}

NOINLINE static void descend(int n)
{
	char room[ROOM];

	memset(room, n, sizeof(room));
	if (n)
		descend(n - 1);
	else
		rest(room[1]);
	sink += room[n];
}

static void *thread_main(void *data)
{
	descend(DEPTH);
	return data;
}

int main(void)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, (size_t)2 * ROOM);
	pthread_create(&thread, &small, thread_main, NULL);
	pthread_join(thread, NULL);
	return 0;
}
