/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A unit test that cannot run here, and why. tests/run.py reads the line: with CI=true only reasons
 * that begin with a word of its ALLOWED_SKIPS are let pass. Needs <cmocka.h> where it is used.
 */
#pragma once

#define skip_because(reason)                             \
	do {                                             \
		print_message("# skip: %s\n", (reason)); \
		skip();                                  \
	} while (0)

#define NOT_ROOT "root: only root can do this"
#define NO_TRACING "kernel: tracing is not permitted here"
#define NO_DEV_FULL "kernel: there is no /dev/full"
