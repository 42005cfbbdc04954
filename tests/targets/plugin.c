/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library that plug.c loads. */
__attribute__((visibility("default"))) void plug_enter(void (*function)(void));

static volatile int sink;

__attribute__((noinline)) static void plug_inner(void (*function)(void))
{
	function();
	sink++;
}

void plug_enter(void (*function)(void))
{
	plug_inner(function);
	sink++;
}
