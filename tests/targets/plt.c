/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread that stays inside a PLT stub: plt stub | zero.
 *
 * stub: the GOT slot of a function is made to point to the function's own stub, whose first
 * instruction jumps there. zero: the resolver's slot is made to point to the jump in PLT0 that
 * reads it, so that two words lie on the stack. Linked lazily and without RELRO.
 */
#include "instructions.h"
#include "victim.h"

#include <elf.h>
#include <link.h>

static atomic_int in_position;
static bool zero;

NOINLINE static void calls_the_stub(void)
{
	while (in_position < 1)
		;
	in_position = 2;
	srandom(5);
	in_position = 3;
}

static void *stub_main(void *unused)
{
	prctl(PR_SET_NAME, "in-plt", 0, 0, 0);
	calls_the_stub();
	return unused;
}

#ifdef __x86_64__
enum { PLT0_SIZE = 16, STUB_SIZE = 16, PLT0_JUMP = 6 /* its second instruction */ };

/* An unresolved slot points behind the first, six bytes long, instruction of its stub. */
static uint64_t plt0_of(uint64_t unresolved, size_t stub)
{
	return unresolved - 6 - STUB_SIZE * stub - PLT0_SIZE;
}
#else
enum { PLT0_SIZE = 32, STUB_SIZE = 16, PLT0_JUMP = 16 /* its fifth instruction */ };

static uint64_t plt0_of(uint64_t unresolved, size_t stub)
{
	(void)stub;
	return unresolved;
}
#endif

static void patch(void)
{
	const ElfW(Rela) *relocation = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	uint64_t *got = NULL, plt0;
	size_t size = 0;

	for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_JMPREL)
			relocation = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTRELSZ)
			size = d->d_un.d_val / sizeof(ElfW(Rela));
		else if (d->d_tag == DT_SYMTAB)
			symbols = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			strings = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTGOT)
			got = (uint64_t *)d->d_un.d_ptr;
	}
	for (size_t i = 0; i < size; i++) {
		const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(relocation[i].r_info)];
		uint64_t *slot = (uint64_t *)relocation[i].r_offset;

		if (strcmp(strings + symbol->st_name, "srandom"))
			continue;
		plt0 = plt0_of(*slot, i);
		if (!zero)
			*slot = plt0 + PLT0_SIZE + STUB_SIZE * i;
		else
			got[2] = plt0 + PLT0_JUMP;
		return;
	}
	errno = ENOENT;
	victim_cannot("find the slot");
}

int main(int argc, char **argv)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "ready %d plt\n", getpid());

	zero = argc > 1 && !strcmp(argv[1], "zero");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	victim_thread(stub_main, NULL, 0);
	patch();
	in_position = 1;
	while (in_position < 2)
		;
	/* No function of the C library from here on: its stub might be caught as well. */
	raw_call(SYS_write, 1, line, length);
	while (raw_call(SYS_read, 0, line, 1) > 0)
		;
	raw_call(SYS_exit_group, 0, NULL, 0);
	return 0;
}
