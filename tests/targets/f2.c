/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A link of the known chain: see chain.c. */
#include "chain.h"

int f2(int value)
{
	volatile char pad[96];
	int got;

	pad[0] = (char)value;
	got = f3(value + 1);
	return got + pad[0];
}
