/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocked in a callback out of a library given by path: plug LIBRARY. */
#include "victim.h"

#include <dlfcn.h>

NOINLINE static void plug_callback(void)
{
	victim_ready("plug");
	victim_hold();
}

int main(int argc, char **argv)
{
	void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
	void (*enter)(void (*)(void));

	if (!library) {
		printf("cannot %s\n", dlerror());
		return 77;
	}
	*(void **)&enter = dlsym(library, "plug_enter");
	enter(plug_callback);
	return 0;
}
