/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The code that registers.c loads: without frame pointers, and with no relocations of code. */
typedef int callback(void);

__attribute__((noinline)) static int registered_inner(callback *call)
{
	volatile char room[200];

	room[3] = 1;
	return call() + room[3]; /* inner */
}

int registered_outer(callback *call)
{
	volatile char room[72];

	room[1] = 1;
	return registered_inner(call) + room[1]; /* outer */
}
