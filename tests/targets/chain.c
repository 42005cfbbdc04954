/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* main -> f0 -> f1 -> f2 -> f3 -> chain_hold, each in a file of its own; blocked in read(). */
#include "chain.h"

#include "victim.h"

int chain_hold(int value)
{
	victim_ready("hold");
	victim_hold();
	return value;
}

int main(int argc, char **argv)
{
	(void)argv;
	return f0(argc) == 12345;
}
