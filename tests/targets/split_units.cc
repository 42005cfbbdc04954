// SPDX-License-Identifier: LGPL-2.1-or-later
// Two units, by -DOUTER: main, deliver, (inlined) carry, (inlined) lift | unload, (inlined) sit, pause. With
// -fdebug-types-section each has a type unit of its own.
#include <unistd.h>
#include <cstdio>

struct Load {
	int weight, height;
};
int unload(Load load);
extern volatile int weighed;

#ifdef OUTER
static inline __attribute__((always_inline)) void lift(int weight)
{
	unload(Load{ weight + 1, weight });
	weighed = weighed + 1;
}

static inline __attribute__((always_inline)) void carry(int weight)
{
	lift(weight * 2);
	weighed = weighed + 1;
}

__attribute__((noinline)) void deliver(int weight)
{
	carry(weight - 1);
	weighed = weighed + 1;
}

int main()
{
	std::printf("ready %d\n", getpid());
	std::fflush(stdout);
	deliver(9);
}
#else
volatile int weighed;

static inline __attribute__((always_inline)) void sit()
{
	for (;;)
		pause();
}

__attribute__((noinline)) int unload(Load load)
{
	weighed = load.weight + load.height;
	sit();
	return weighed;
}
#endif
