/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Several tests in one program, as each program links the whole library. The compiler includes this file before each
 * test of such a program (-include): its main() becomes a static function, which programs.c finds by the name of
 * the source.
 */
#pragma once

struct test_program {
	const char *source; /* its path */
	int (*run)(void);
	struct test_program *next;
};

void add_test_program(struct test_program *program);

#ifndef SNAP_TESTS_LIST_OF_PROGRAMS
static int run_test_program(void);

__attribute__((constructor)) static void add_this_test_program(void)
{
	static struct test_program program = { .source = __BASE_FILE__, .run = run_test_program };

	add_test_program(&program);
}

#define main run_test_program
#endif
