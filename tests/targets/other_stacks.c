/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Frames on several stacks of one thread. "record COUNT", "pointer COUNT": each of so many stacks calls
 * the next one, by code whose CFI computes where the caller's is, as that of OCaml 5 does, or has it in the
 * frame pointer. Every second stack lies higher than the one before. "context": a stack of makecontext(3).
 */
#include "victim.h"

#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 8192 };

static uint8_t *stacks;
static int count, depth;
static bool by_record;
static volatile int sink;
static ucontext_t outside, inside;

#ifdef __x86_64__
/* Calls a function on a stack from its end down. */
void on_stack_by_record(uint8_t *end, void (*function)(void));
void on_stack_by_pointer(uint8_t *end, void (*function)(void));
__asm__(".text\n"
	".type on_stack_by_record, @function\n"
	"on_stack_by_record:\n"
	".cfi_startproc\n"
	"mov %rsp, -16(%rdi)\n"
	"lea -16(%rdi), %rsp\n"
	".cfi_escape 0x0f, 5, 0x77, 0, 0x06, 0x23, 8\n" /* CFA: *(rsp) + 8 */
	"call *%rsi\n"
	"mov (%rsp), %rsp\n"
	".cfi_def_cfa rsp, 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size on_stack_by_record, . - on_stack_by_record\n"
	".type on_stack_by_pointer, @function\n"
	"on_stack_by_pointer:\n"
	".cfi_startproc\n"
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset rbp, -16\n"
	"mov %rsp, %rbp\n"
	".cfi_def_cfa_register rbp\n"
	"mov %rdi, %rsp\n"
	"call *%rsi\n"
	"mov %rbp, %rsp\n"
	"pop %rbp\n"
	".cfi_def_cfa rsp, 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size on_stack_by_pointer, . - on_stack_by_pointer\n");
#else
static void on_stack_by_record(uint8_t *end, void (*function)(void))
{
	(void)end;
	(void)function;
	victim_cannot("its instructions are those of x86-64");
}
#define on_stack_by_pointer on_stack_by_record
#endif

NOINLINE static void innermost(void)
{
	victim_ready("%d", depth);
	victim_hold();
	sink++;
}

/* 0, last, 1, last - 1, … */
static uint8_t *end_of_stack(int number)
{
	int place = number % 2 ? count - 1 - number / 2 : number / 2;

	return stacks + (size_t)(2 * place + 1) * STACK;
}

NOINLINE static void dive(void)
{
	if (depth == count)
		innermost();
	else if (by_record)
		on_stack_by_record(end_of_stack(depth++), dive);
	else
		on_stack_by_pointer(end_of_stack(depth++), dive);
	sink++;
}

NOINLINE static void coroutine(void)
{
	innermost();
	sink++;
}

int main(int argc, char **argv)
{
	count = argc > 2 ? atoi(argv[2]) : 1;
	by_record = argc > 1 && strcmp(argv[1], "record") == 0;
	stacks = mmap(NULL, (size_t)count * 2 * STACK, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks == MAP_FAILED)
		victim_cannot("mmap");
	if (argc > 1 && strcmp(argv[1], "context") == 0) {
		getcontext(&inside);
		inside.uc_stack.ss_sp = stacks;
		inside.uc_stack.ss_size = STACK;
		inside.uc_link = &outside;
		makecontext(&inside, coroutine, 0);
		swapcontext(&outside, &inside);
	}
	dive();
	return sink;
}
