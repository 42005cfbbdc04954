/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How much longer than usual a unit test is to wait for what only fails to come when something is
 * broken: STACKSNAP_PATIENCE, as in tests/e2e/harness.py. An emulated machine is ten times slower.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static inline int64_t with_patience(int64_t ns)
{
	const char *text = getenv("STACKSNAP_PATIENCE");
	long factor = text ? strtol(text, NULL, 10) : 1;

	return factor > 1 && factor <= 1000 ? ns * factor : ns;
}
