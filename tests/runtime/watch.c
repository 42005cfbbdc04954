/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pages that somebody looks at: see watch.h. */
#include "watch.h"

#include "live.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MOST_WATCHED = 4096 };

static struct watched list[MOST_WATCHED];
static size_t count;
static bool is_on;

void *__real_mmap(void *address, size_t size, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t size, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t size, int rights, int flags, int fd, off_t offset);

static size_t pages_of(size_t size)
{
	return (size + WATCH_PAGE - 1) / WATCH_PAGE;
}

static struct watched *find(const uint8_t *address)
{
	/* What was unmapped may have been mapped again. */
	for (size_t i = count; i-- > 0;)
		if (address >= list[i].bytes &&
		    address < list[i].bytes + pages_of(list[i].size) * WATCH_PAGE)
			return &list[i];
	return NULL;
}

static void show_page(int number, siginfo_t *info, void *context)
{
	uint8_t *page = (uint8_t *)((uintptr_t)info->si_addr & ~(uintptr_t)(WATCH_PAGE - 1));
	struct watched *watched = find(page);

	(void)context;
	if (!watched || mprotect(page, WATCH_PAGE, PROT_READ) != 0)
		signal(number, SIG_DFL);
	else
		watched->seen[(size_t)(page - watched->bytes) / WATCH_PAGE] = 1;
}

static struct watched *add(uint8_t *bytes, size_t size)
{
	struct watched *watched = &list[count];

	if (count == MOST_WATCHED)
		fail("too much to watch");
	*watched = (struct watched){ .bytes = bytes, .size = size };
	watched->seen = calloc(pages_of(size) + 1, 1);
	if (!watched->seen)
		fail("out of memory");
	count++;
	return watched;
}

void *__wrap_mmap(void *address, size_t size, int rights, int flags, int fd, off_t offset)
{
	uint8_t *bytes = __real_mmap(address, size, rights, flags, fd, offset);
	struct watched *watched;
	struct stat status;

	if (!is_on || bytes == MAP_FAILED || fd < 0 || rights != PROT_READ ||
	    !(flags & MAP_PRIVATE) || fstat(fd, &status) != 0)
		return bytes;
	watched = add(bytes, size);
	watched->is_file = true;
	watched->dev = status.st_dev;
	watched->inode = status.st_ino;
	watch_hide(bytes);
	return bytes;
}

/* Of who is compiled with 64-bit offsets. */
void *__wrap_mmap64(void *address, size_t size, int rights, int flags, int fd, off_t offset)
{
	return __wrap_mmap(address, size, rights, flags, fd, offset);
}

void watch_begin(void)
{
	struct sigaction action = { .sa_sigaction = show_page, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	is_on = true;
}

uint8_t *watch_new(size_t size)
{
	uint8_t *bytes =
		__real_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		fail("out of memory");
	return add(bytes, size)->bytes;
}

void watch_hide(const uint8_t *bytes)
{
	struct watched *watched = watch_memory(bytes);

	if (mprotect(watched->bytes, pages_of(watched->size) * WATCH_PAGE, PROT_NONE) != 0)
		fail("cannot hide memory");
}

struct watched *watch_file(dev_t dev, ino_t inode)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].is_file && list[i].dev == dev && list[i].inode == inode)
			return &list[i];
	return NULL;
}

struct watched *watch_memory(const uint8_t *bytes)
{
	return bytes ? find(bytes) : NULL;
}

void watch_look(struct watched *watched, uint64_t offset, uint64_t size)
{
	for (uint64_t at = offset & ~(uint64_t)(WATCH_PAGE - 1);
	     at < offset + size && at < watched->size; at += WATCH_PAGE)
		(void)((const volatile uint8_t *)watched->bytes)[at];
}

size_t watch_end(const struct watched *watched)
{
	size_t pages = pages_of(watched->size);

	while (pages > 0 && !watched->seen[pages - 1])
		pages--;
	return pages * WATCH_PAGE < watched->size ? pages * WATCH_PAGE : watched->size;
}
