/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program of aarch64 alone, without a C library, that stands in all the places that are special to
 * unwinding there; each is a child of its own. Built with -mbranch-protection=standard, so every
 * return address on its stacks is signed where the processor can (FEAT_PAuth).
 *
 * Its capture is recorded (record.sh) and rendered by the tests on whatever machine they run.
 */
#include <stddef.h>
#include <stdint.h>

#define NOINLINE __attribute__((noinline, noclone))
/* So that a call stays a call, with a frame of who makes it. */
#define STAYS_A_CALL __asm__ volatile("")

enum {
	SYS_ppoll = 73,
	SYS_exit = 93,
	SYS_kill = 129,
	SYS_sigaltstack = 132,
	SYS_rt_sigaction = 134,
	SYS_getpid = 172,
	SYS_clone = 220,
	SYS_prctl = 167,
	SYS_write = 64,
	PR_SET_PDEATHSIG = 1,
	PR_SET_NAME = 15,
	SIGKILL = 9,
	SIGUSR1 = 10,
	SIGSEGV = 11,
	SIGCHLD = 17,
	SA_ONSTACK = 0x08000000,
	STACK_BYTES = 32768,
};

struct action {
	void (*handler)(int);
	uint64_t flags, restorer, mask;
};

struct stack {
	void *sp;
	int flags;
	uint64_t size;
};

static uint8_t other_stack[STACK_BYTES] __attribute__((aligned(16)));

static inline long call(long number, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
}

/* ---- a chain ---- */

NOINLINE void wait_for_ever(void)
{
	for (;;)
		call(SYS_ppoll, 0, 0, 0, 0, 0);
}

/* Its frame has more than a kilobyte: the record lies far below the caller's stack pointer. */
NOINLINE void large_frame(void)
{
	volatile uint8_t bytes[5000];

	bytes[0] = bytes[4999] = 1;
	wait_for_ever();
	STAYS_A_CALL;
}

NOINLINE void in_a_chain(void)
{
	large_frame();
	STAYS_A_CALL;
}

/* ---- a leaf: its return address is in x30, signed or not, and there is no frame ---- */

NOINLINE void leaf_spins(void)
{
	for (;;)
		__asm__ volatile("");
}

NOINLINE void calls_leaf(void)
{
	leaf_spins();
	STAYS_A_CALL;
}

/* ---- signals ---- */

NOINLINE void handler(int signal)
{
	(void)signal;
	wait_for_ever();
	STAYS_A_CALL;
}

/* Interrupted in a leaf: the next frame is in the x30 that was saved. */
NOINLINE void leaf_faults(void)
{
	__asm__ volatile("str xzr, [%0]" : : "r"(8l));
	STAYS_A_CALL;
}

NOINLINE void is_interrupted(void)
{
	leaf_faults();
	STAYS_A_CALL;
}

static void handle(int signal, uint64_t flags)
{
	struct action action = { .handler = handler, .flags = flags };

	call(SYS_rt_sigaction, signal, (long)&action, 0, 8, 0);
}

NOINLINE void in_handler(void)
{
	handle(SIGSEGV, 0);
	is_interrupted();
	STAYS_A_CALL;
}

NOINLINE void on_other_stack(void)
{
	struct stack stack = { .sp = other_stack, .size = sizeof(other_stack) };

	call(SYS_sigaltstack, (long)&stack, 0, 0, 0, 0);
	handle(SIGSEGV, SA_ONSTACK);
	is_interrupted();
	STAYS_A_CALL;
}

/* ---- a call of nothing ---- */

NOINLINE void calls_nothing(void (*function)(void))
{
	handle(SIGSEGV, 0);
	function();
	STAYS_A_CALL;
}

/* ---- without CFI ---- */

void no_cfi_record(void (*function)(void));
void no_cfi_leaf(void);

/* A frame of 64 bytes: the record at its low end, as compilers put it. */
__asm__(".pushsection .text\n"
	".type no_cfi_record, %function\n"
	".global no_cfi_record\n"
	"no_cfi_record:\n"
	"	paciasp\n"
	"	stp x29, x30, [sp, -64]!\n"
	"	mov x29, sp\n"
	"	blr x0\n"
	"	ldp x29, x30, [sp], 64\n"
	"	autiasp\n"
	"	ret\n"
	".size no_cfi_record, . - no_cfi_record\n"
	".type no_cfi_leaf, %function\n"
	".global no_cfi_leaf\n"
	"no_cfi_leaf:\n"
	"	bti c\n"
	"1:	b 1b\n"
	".size no_cfi_leaf, . - no_cfi_leaf\n"
	".popsection\n");

NOINLINE void without_cfi(void)
{
	no_cfi_record(wait_for_ever);
	STAYS_A_CALL;
}

NOINLINE void leaf_without_cfi(void)
{
	no_cfi_leaf();
	STAYS_A_CALL;
}

/* ---- */

static void with_nothing(void)
{
	calls_nothing(NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} places[] = {
	{ "chain", in_a_chain },
	{ "leaf", calls_leaf },
	{ "handler", in_handler },
	{ "other-stack", on_other_stack },
	{ "call-of-null", with_nothing },
	{ "no-cfi", without_cfi },
	{ "no-cfi-leaf", leaf_without_cfi },
};

NOINLINE void begin(void)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (call(SYS_clone, SIGCHLD, 0, 0, 0, 0))
			continue;
		call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		call(SYS_prctl, PR_SET_NAME, (long)places[i].name, 0, 0, 0);
		places[i].run();
	}
	call(SYS_write, 1, (long)"ready\n", 6, 0, 0);
	wait_for_ever();
}

__asm__(".pushsection .text\n"
	".type _start, %function\n"
	".global _start\n"
	"_start:\n"
	"	.cfi_startproc\n"
	"	.cfi_undefined x30\n"
	"	mov x29, 0\n"
	"	mov x30, 0\n"
	"	bl begin\n"
	"	.cfi_endproc\n"
	".size _start, . - _start\n"
	".popsection\n");
