/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `unit_ROOM NAME` runs the main() of test_NAME.c; without a name it prints those that it has. See programs.h. */
#define SNAP_TESTS_LIST_OF_PROGRAMS
#include "programs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct test_program *programs;

void add_test_program(struct test_program *program)
{
	program->next = programs;
	programs = program;
}

/* Of .../test_NAME.c. */
static bool has_name(const struct test_program *program, const char *name)
{
	const char *slash = strrchr(program->source, '/');
	const char *file = slash ? slash + 1 : program->source;
	size_t length = strlen(name);

	return !strncmp(file, "test_", 5) && !strncmp(file + 5, name, length) &&
	       !strcmp(file + 5 + length, ".c");
}

int main(int argc, char **argv)
{
	for (const struct test_program *program = programs; program; program = program->next) {
		if (argc < 2)
			puts(program->source);
		else if (has_name(program, argv[1]))
			return program->run();
	}
	if (argc > 1)
		fprintf(stderr, "%s has no test %s\n", argv[0], argv[1]);
	return argc > 1 ? 64 : 0;
}
