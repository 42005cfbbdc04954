/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "stacksnap.h"

int main(void)
{
	puts(stacksnap_version());
	return 0;
}
