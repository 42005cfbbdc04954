/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * embeds linked|later LIBRARY: a program that has Python in it, from its start or by dlopen(3).
 * It says `ready PID` before there is an interpreter (later: a library), then from a Python
 * function inside() that is called by outer(), then when the interpreter has ended; a byte on its
 * input brings it on each time.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char code[] = "import os\n"
			   "def inside():\n"
			   "    os.write(1, b'ready %d\\n' % os.getpid())\n"
			   "    os.read(0, 1)\n"
			   "def outer():\n"
			   "    inside()\n"
			   "outer()\n";

static void *library;

static void wait_here(void)
{
	char byte;

	dprintf(1, "ready %d\n", getpid());
	if (read(0, &byte, 1) != 1)
		exit(0);
}

/* A function of the library; to be called as if it took a text. */
static int call(const char *name, const char *text)
{
	int (*function)(const char *);

	*(void **)&function = dlsym(library, name);
	if (!function) {
		printf("cannot find %s\n", name);
		exit(1);
	}
	return function(text);
}

int run_python(void)
{
	return call("PyRun_SimpleString", code);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 1;
	if (strcmp(argv[1], "linked") == 0 && !getenv("LD_PRELOAD")) {
		setenv("LD_PRELOAD", argv[2], 1);
		execv("/proc/self/exe", argv);
	}
	wait_here();
	library = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		printf("cannot open %s\n", argv[2]);
		return 1;
	}
	call("Py_Initialize", "");
	run_python();
	call("Py_FinalizeEx", "");
	wait_here();
	return 0;
}
