/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two functions of which a linker may make one: store_the_order(int) comes first, ship(int) is called. */
#include <cstdio>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) int rests(int n)
{
	char byte;

	printf("ready %d\n", getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return n + sink;
}

__attribute__((noinline)) int store_the_order(int n)
{
	return rests(n + 1) + 2;
}

__attribute__((noinline)) int ship(int n)
{
	return rests(n + 1) + 2;
}

int main(int argc, char **)
{
	return argc > 5 ? store_the_order(argc) : ship(argc);
}
