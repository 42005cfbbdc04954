/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program without a C library, whose _start has no unwind information, as in some small ones. */
#include <sys/prctl.h>
#include <sys/syscall.h>

void bare_main(void);

__asm__(".text\n.globl _start\n.type _start,@function\n"
	"_start:\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall bare_main\n\thlt\n"
	".size _start, . - _start\n");

static long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static void print_ready(void)
{
	char line[] = "ready           \n";
	long pid = call(SYS_getpid, 0, 0, 0);

	for (int i = (int)sizeof(line) - 3; pid > 0; pid /= 10)
		line[i--] = (char)('0' + pid % 10);
	call(SYS_write, 1, (long)line, sizeof(line) - 1);
}

__attribute__((noinline)) static void bare_hold(void)
{
	char byte;

	while (call(SYS_read, 0, (long)&byte, 1) > 0)
		;
}

void bare_main(void)
{
	call(SYS_prctl, PR_SET_PTRACER, -1, 0);
	print_ready();
	bare_hold();
	call(SYS_exit_group, 0, 0, 0);
}
