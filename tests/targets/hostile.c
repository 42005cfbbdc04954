/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads where nobody wants to find them: hostile MODE ...
 *
 * code FILE THREADS: in code of FILE, which lies at 0x1000 of it. creep FILE BYTES: the same, on a
 * stack so large that holds nothing but that code's address. deep THREADS DEPTH: each on a stack of
 * its own shape. hoard THREADS: each with more than 1 MiB of stack, all in one mapping. maps COUNT:
 * among so many mappings, some of which come and go. wild: with a stack pointer that points nowhere,
 * and with a program counter that did.
 */
#include "instructions.h"
#include "victim.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { CODE = 0x1000, LENGTH = 0x2000 };

static atomic_int in_position;
static volatile int sink;

typedef void code_function(void);

static code_function *map_code(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *at = mmap(NULL, LENGTH, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (fd < 0 || at == MAP_FAILED)
		victim_cannot(path);
	close(fd);
	return (code_function *)(void *)(at + CODE);
}

static void *code_main(void *code)
{
	prctl(PR_SET_NAME, "in-code", 0, 0, 0);
	in_position++;
	((code_function *)code)();
	return NULL;
}

struct creep {
	code_function *code;
	uint64_t *stack;
	size_t words;
};

static void *creep_main(void *argument)
{
	struct creep *creep = argument;

	prctl(PR_SET_NAME, "creeping", 0, 0, 0);
	/* The system call is next. */
	for (size_t i = 0; i < creep->words; i++)
		creep->stack[i] = (uint64_t)creep->code + WAITING_CALL;
	in_position++;
	jump_with_stack(creep->stack, (void *)creep->code);
}

NOINLINE static void bottom(void)
{
	in_position++;
	for (;;)
		pause();
}

NOINLINE static void left(unsigned shape, int depth);

NOINLINE static void right(unsigned shape, int depth)
{
	if (depth == 0)
		bottom();
	else if (shape >> (depth % 16) & 1)
		left(shape, depth - 1);
	else
		right(shape, depth - 1);
	sink++;
}

NOINLINE static void left(unsigned shape, int depth)
{
	if (depth == 0)
		bottom();
	else if (shape >> (depth % 16) & 1)
		left(shape, depth - 1);
	else
		right(shape, depth - 1);
	sink--;
}

static int depth;

static void *shape_main(void *shape)
{
	left((unsigned)(uintptr_t)shape, depth);
	return NULL;
}

static void *maps_main(void *unused)
{
	for (;;) {
		void *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		munmap(page, 8192);
		in_position = 1;
	}
	return unused;
}

static void *no_stack_main(void *unused)
{
	prctl(PR_SET_NAME, "no-stack", 0, 0, 0);
	in_position++;
	(void)unused;
	stand_on_nothing();
}

static void on_fault(int number)
{
	sink = number;
	bottom();
}

/* A handler on another stack, called from an address where nothing is. */
static void *no_code_main(void *unused)
{
	stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };

	prctl(PR_SET_NAME, "no-code", 0, 0, 0);
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	(void)unused;
	jump_with_stack((void *)0x10, (void *)0x7ffffffff000);
}

static void hold_for_ever(void)
{
	for (;;)
		pause();
}

static void *hoard_main(void *stack)
{
	prctl(PR_SET_NAME, "hoarder", 0, 0, 0);
	in_position++;
	jump_with_stack(stack, (void *)hold_for_ever);
}

static int start_hoard(int count)
{
	enum { APART = 4096, ABOVE = 2 << 20 };
	size_t size = (size_t)count * APART + ABOVE;
	char *stacks = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stacks == MAP_FAILED)
		victim_cannot("mmap");
	memset(stacks, 1, size);
	for (int i = 1; i <= count; i++)
		victim_thread(hoard_main, stacks + (size_t)i * APART - 8, 64 << 10);
	return count;
}

static int start(char **argv, int argc)
{
	const char *mode = argv[1];
	static struct creep creep;
	int count = argc > 3 ? atoi(argv[3]) : 1;

	if (!strcmp(mode, "code")) {
		code_function *code = map_code(argv[2]);

		for (int i = 0; i < count; i++)
			victim_thread(code_main, (void *)code, 64 << 10);
		return count;
	}
	if (!strcmp(mode, "creep")) {
		creep.words = strtoul(argv[3], NULL, 0) / sizeof(uint64_t);
		creep.code = map_code(argv[2]);
		creep.stack = mmap(NULL, creep.words * sizeof(uint64_t), PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		victim_thread(creep_main, &creep, 0);
		return 1;
	}
	if (!strcmp(mode, "deep")) {
		depth = atoi(argv[3]);
		for (int i = 0; i < atoi(argv[2]); i++)
			victim_thread(shape_main, (void *)(uintptr_t)i, 64 << 10);
		return atoi(argv[2]);
	}
	if (!strcmp(mode, "hoard"))
		return start_hoard(atoi(argv[2]));
	if (!strcmp(mode, "maps")) {
		for (int i = 0; i < atoi(argv[2]); i++)
			if (mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
				victim_cannot("mmap");
		victim_thread(maps_main, NULL, 0);
		return 1;
	}
	victim_thread(no_stack_main, NULL, 0);
	victim_thread(no_code_main, NULL, 0);
	return 2;
}

int main(int argc, char **argv)
{
	int wanted;

	if (argc < 2)
		return 64;
	wanted = start(argv, argc);
	while (in_position < wanted)
		sched_yield();
	victim_ready("threads=%d", (int)(wanted + 1));
	victim_hold();
}
