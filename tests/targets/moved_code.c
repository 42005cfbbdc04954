/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Moves its own code to memory at the same addresses, as programs do that want huge pages for it. */
#include "victim.h"

#include <sys/mman.h>

static volatile int sink;

NOINLINE static void works(int n)
{
	char room[200];

	memset(room, n, sizeof(room));
	sink += room[n];
	victim_ready("");
	victim_hold();
	sink++;
}

NOINLINE static void plans(int n)
{
	char room[64];

	memset(room, n, sizeof(room));
	works(n + room[0]);
	sink++;
}

/* The mapping of the code that calls this. */
static void find_code(char **start_ret, size_t *size_ret)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512], kinds[8];
	unsigned long start, end;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx %7s", &start, &end, kinds) == 3 && kinds[2] == 'x' &&
		    start <= (unsigned long)find_code && (unsigned long)find_code < end) {
			*start_ret = (char *)start;
			*size_ret = end - start;
		}
	if (file)
		fclose(file);
}

/* The kernel replaces the mapping in one step, and what returns from the call finds the same bytes. */
int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "anonymous";
	size_t size = 0, page = (size_t)sysconf(_SC_PAGESIZE);
	char *code = NULL, *copy;
	int fd = -1;

	find_code(&code, &size);
	if (strcmp(how, "part") == 0 && size > page)
		size -= page;
	if (strcmp(how, "memfd") == 0) {
		fd = memfd_create("text", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)size))
			victim_cannot("memfd_create");
	}
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	if (!code || copy == MAP_FAILED)
		victim_cannot("mmap");
	memcpy(copy, code, size);
	if (mprotect(copy, size, PROT_READ | PROT_EXEC) ||
	    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, code) == MAP_FAILED)
		victim_cannot("mremap");
	plans(7);
	return 0;
}
