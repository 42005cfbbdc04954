/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A function made at run time in anonymous (jit anon) or memfd (jit memfd) memory, or in a file that
 * is no ELF file (jit PATH), that calls back into C and keeps a frame pointer. Prints where it lies;
 * its perf map is the test's business.
 */
#include "victim.h"

#include <fcntl.h>
#include <sys/mman.h>

static const uint8_t code[] = {
#ifdef __x86_64__
	0x55,                   /* push %rbp */
	0x48, 0x89, 0xe5,       /* mov %rsp, %rbp */
	0x48, 0x83, 0xec, 0x20, /* sub $32, %rsp */
	0xff, 0xd7,             /* call *%rdi */
	0xc9,                   /* leave */
	0xc3,                   /* ret */
#else
	0xfd, 0x7b, 0xbd, 0xa9, /* stp x29, x30, [sp, -48]! */
	0xfd, 0x03, 0x00, 0x91, /* mov x29, sp */
	0x00, 0x00, 0x3f, 0xd6, /* blr x0 */
	0xfd, 0x7b, 0xc3, 0xa8, /* ldp x29, x30, [sp], 48 */
	0xc0, 0x03, 0x5f, 0xd6, /* ret */
#endif
};

static void *page;

NOINLINE static void from_jit(void)
{
	victim_ready("start=0x%lx size=0x%zx", (unsigned long)page, sizeof(code));
	victim_hold();
}

int main(int argc, char **argv)
{
	bool memfd = argc > 1 && !strcmp(argv[1], "memfd"), path = argc > 1 && argv[1][0] == '/';
	int fd = memfd  ? memfd_create("jit-code", MFD_CLOEXEC)
		 : path ? open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0755)
			: -1;
	void (*made)(void (*)(void));

	if ((memfd || path) && ftruncate(fd, 4096))
		victim_cannot("a file");
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    memfd || path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (page == MAP_FAILED)
		victim_cannot("mmap");
	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache((char *)page, (char *)page + sizeof(code));
	memcpy(&made, &page, sizeof(made));
	made(from_jit);
	return 0;
}
