/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What victims need that C cannot say, in the instructions of each processor: to stand on a stack of
 * their choice, and not to touch it; code that waits, to be written into a file; system calls
 * without a C library.
 */
#pragma once

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#if defined(__x86_64__)

/* again: mov $SYS_pause, %eax; syscall; jmp again */
static const uint8_t waiting_code[]
	__attribute__((unused)) = { 0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7 };
enum { WAITING_CALL = 5 /* where in that code the system call is */ };

__attribute__((unused)) static _Noreturn void stand_spinning(void *stack)
{
	__asm__ volatile("movq %0, %%rsp\n1:\tpause\n\tjmp 1b" ::"r"(stack));
	__builtin_unreachable();
}

__attribute__((unused)) static _Noreturn void stand_waiting(void *stack)
{
	__asm__ volatile("movq %0, %%rsp\n1:\tmovl %1, %%eax\n\tsyscall\n\tjmp 1b" ::"r"(stack),
			 "i"(SYS_pause));
	__builtin_unreachable();
}

/* In naps of that time. */
__attribute__((unused)) static _Noreturn void stand_napping(void *stack, const struct timespec *nap)
{
	__asm__ volatile("movq %0, %%rsp\n"
			 "1:\tmovl %2, %%eax\n"
			 "\tmovq %1, %%rdi\n"
			 "\txorl %%esi, %%esi\n"
			 "\tsyscall\n"
			 "\tjmp 1b" ::"r"(stack),
			 "b"(nap), "i"(SYS_nanosleep));
	__builtin_unreachable();
}

__attribute__((unused)) static _Noreturn void jump_with_stack(void *stack, void *code)
{
	__asm__ volatile("movq %0, %%rsp\n\tjmp *%1" ::"r"(stack), "r"(code));
	__builtin_unreachable();
}

__attribute__((unused)) static _Noreturn void stand_on_nothing(void)
{
	__asm__ volatile("movq $-8, %rsp\n\tmovq $-16, %rbp\n1:\tpause\n\tjmp 1b");
	__builtin_unreachable();
}

__attribute__((unused)) static long raw_call(long number, long a, const void *b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

#elif defined(__aarch64__)

/* again: mov x0 to x3, 0; mov x8, SYS_ppoll; svc 0; b again. It has no call pause. */
static const uint8_t waiting_code[] __attribute__((unused)) = {
	0x00, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x80, 0xd2, 0x02, 0x00, 0x80, 0xd2, 0x03, 0x00,
	0x80, 0xd2, 0x28, 0x09, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0xfa, 0xff, 0xff, 0x17,
};
enum { WAITING_CALL = 20 };

__attribute__((unused)) static _Noreturn void stand_spinning(void *stack)
{
	__asm__ volatile("mov sp, %0\n1:\tyield\n\tb 1b" ::"r"(stack));
	__builtin_unreachable();
}

__attribute__((unused)) static _Noreturn void stand_waiting(void *stack)
{
	__asm__ volatile("mov sp, %0\n"
			 "1:\tmov x0, #0\n"
			 "\tmov x1, #0\n"
			 "\tmov x2, #0\n"
			 "\tmov x3, #0\n"
			 "\tmov x8, %1\n"
			 "\tsvc #0\n"
			 "\tb 1b" ::"r"(stack),
			 "i"(SYS_ppoll));
	__builtin_unreachable();
}

__attribute__((unused)) static _Noreturn void stand_napping(void *stack, const struct timespec *nap)
{
	__asm__ volatile("mov sp, %0\n"
			 "\tmov x19, %1\n"
			 "1:\tmov x0, x19\n"
			 "\tmov x1, #0\n"
			 "\tmov x8, %2\n"
			 "\tsvc #0\n"
			 "\tb 1b" ::"r"(stack),
			 "r"(nap), "i"(SYS_nanosleep));
	__builtin_unreachable();
}

__attribute__((unused)) static _Noreturn void jump_with_stack(void *stack, void *code)
{
	__asm__ volatile("mov sp, %0\n\tbr %1" ::"r"(stack), "r"(code));
	__builtin_unreachable();
}

__attribute__((unused)) static _Noreturn void stand_on_nothing(void)
{
	__asm__ volatile("mov x9, #-8\n"
			 "\tmov sp, x9\n"
			 "\tmov x29, #-16\n"
			 "\tmov x30, #-16\n"
			 "1:\tyield\n"
			 "\tb 1b");
	__builtin_unreachable();
}

__attribute__((unused)) static long raw_call(long number, long a, const void *b, long c)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register const void *x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}

#endif
