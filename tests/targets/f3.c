/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A link of the known chain: see chain.c. */
#include "chain.h"

int f3(int value)
{
	volatile char pad[136];
	int got;

	pad[0] = (char)value;
	got = chain_hold(value + 1);
	return got + pad[0];
}
