/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * host LIBRARY: prints "ready PID", loads the library at the first line of its input, and prints
 * "loaded" when its goroutines wait. Another thread has called Go then, and waits there.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *call(void *function)
{
	((void (*)(void))function)();
	return NULL;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (found)
		return found;
	printf("cannot %s\n", dlerror());
	exit(1);
}

int main(int argc, char **argv)
{
	char line[16];
	void *library;
	pthread_t thread;

	printf("ready %d\n", getpid());
	fflush(stdout);
	if (argc != 2 || !fgets(line, sizeof(line), stdin))
		return 1;
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		printf("cannot %s\n", dlerror());
		return 1;
	}
	((void (*)(int))symbol(library, "startGo"))(5);
	pthread_create(&thread, NULL, call, symbol(library, "sitInGo"));
	printf("loaded\n");
	fflush(stdout);
	for (;;)
		pause();
}
