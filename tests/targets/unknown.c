/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What an interpreter shows of itself that nobody understands: PHP with threads (-DWITH_PHP), else
 * Python 3.16. It is copied to the name of one, and has nothing else of it.
 */
#include "victim.h"

#define SHOWN __attribute__((visibility("default")))

#ifdef WITH_PHP
SHOWN unsigned long executor_globals_offset = 16;
const char announcement[] = "X-Powered-By: PHP/8.4.1";
#else
SHOWN unsigned char _PyRuntime[4096] = { 1 };
SHOWN const unsigned Py_Version = 0x03100000;
const char announcement[] = "none";
#endif

int main(void)
{
	victim_ready("size=%zu", sizeof(announcement));
	victim_hold();
}
