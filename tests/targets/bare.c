/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program without a C library, whose _start has no unwind information, as in some small ones. */
#include "instructions.h"

#include <sys/prctl.h>

void bare_main(void);

__asm__(".text\n.globl _start\n.type _start,%function\n"
#ifdef __x86_64__
	"_start:\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall bare_main\n\thlt\n"
#else
	"_start:\n\tmov x29, #0\n\tmov x30, #0\n\tbl bare_main\n\tbrk #0\n"
#endif
	".size _start, . - _start\n");

static void print_ready(void)
{
	char line[] = "ready           \n";
	long pid = raw_call(SYS_getpid, 0, NULL, 0);

	for (int i = (int)sizeof(line) - 3; pid > 0; pid /= 10)
		line[i--] = (char)('0' + pid % 10);
	raw_call(SYS_write, 1, line, sizeof(line) - 1);
}

__attribute__((noinline)) static void bare_hold(void)
{
	char byte;

	while (raw_call(SYS_read, 0, &byte, 1) > 0)
		;
}

void bare_main(void)
{
	raw_call(SYS_prctl, PR_SET_PTRACER, (void *)-1, 0);
	print_ready();
	bare_hold();
	raw_call(SYS_exit_group, 0, NULL, 0);
}
