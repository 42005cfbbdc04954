/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes one system call or allocation of the tool fail, and lists those that it makes.
 *
 * Linked with the tool's objects into build/tests/faults/stacksnap, where the linker sends each call of a wrapped
 * function here (ld's --wrap). A call's site is a hash of the return addresses that lead to it, so
 * an allocator behind many callers is many sites. STACKSNAP_FAULT names a file that all processes
 * of a run share, as they inherit its mapping: run.py writes there which site is to fail, at which
 * of its calls, how often and with which errno; or it asks for the list of all sites.
 *
 * Knows nothing of what the calls are good for. Everything here may run in a child that shares
 * nothing with its parent but memory, so no lock and no allocator is used.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pwd.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 20, SLOTS = 1 << 14, NAME = 24 };

/* The file, as run.py knows it too. */
struct slot {
	uint64_t site; /* 0: free */
	uint32_t count, depth;
	int64_t detail; /* number of the system call, request or command */
	char name[NAME];
	uint64_t frames[FRAMES]; /* offsets in the program, innermost first */
};

struct page {
	uint64_t wanted; /* the site that fails; 0: list all */
	uint32_t first;  /* from this call on, counted from 1 */
	uint32_t times;  /* so many */
	int32_t error;
	uint32_t seen, hits, lost;
	uint64_t reserved[3];
	struct slot slots[SLOTS];
};

static struct page *page;

/* Of the linker and of the loader. */
extern const char __ehdr_start[], etext[];
extern void *__libc_stack_end;

/* Before any constructor of the tool's own, and its first call. */
__attribute__((constructor(101))) static void map_page(void)
{
	const char *path = getenv("STACKSNAP_FAULT");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	void *at = MAP_FAILED;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (at != MAP_FAILED)
		page = at;
}

/*
 * Return addresses in the program, each once: a recursion is one site. Frames of other objects keep
 * no chain; what their register holds is followed only upwards on the stack.
 */
__attribute__((no_sanitize("address"))) static uint32_t walk(const uintptr_t *frame,
							     uint64_t *frames)
{
	uint32_t depth = 0;

	while (depth < FRAMES && (const void *)(frame + 2) <= __libc_stack_end) {
		uintptr_t base = (uintptr_t)__ehdr_start, next = frame[0], address = frame[1];
		bool known = address < base || address >= (uintptr_t)etext;

		for (uint32_t i = 0; i < depth && !known; i++)
			known = frames[i] == address - base;
		if (!known)
			frames[depth++] = address - base;
		if (next <= (uintptr_t)frame || next % sizeof(next))
			break;
		frame = (const uintptr_t *)next;
	}
	return depth;
}

static uint64_t hash_of(const char *name, int64_t detail, const uint64_t *frames, uint32_t depth)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3;
	hash = (hash ^ (uint64_t)detail) * 0x100000001b3;
	for (uint32_t i = 0; i < depth; i++)
		hash = (hash ^ frames[i]) * 0x100000001b3;
	/* JSON and Python's struct take it as it is. */
	return hash ? hash : 1;
}

static void list(uint64_t site, uint32_t count, const char *name, int64_t detail,
		 const uint64_t *frames, uint32_t depth)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &page->slots[(site + i) % SLOTS];
		uint64_t before = 0;

		if (__atomic_compare_exchange_n(&slot->site, &before, site, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE)) {
			slot->depth = depth;
			slot->detail = detail;
			for (size_t k = 0; name[k] && k < NAME - 1; k++)
				slot->name[k] = name[k];
			memcpy(slot->frames, frames, depth * sizeof(*frames));
			before = site;
		}
		if (before != site)
			continue;
		__atomic_add_fetch(&slot->count, count, __ATOMIC_RELAXED);
		return;
	}
	__atomic_add_fetch(&page->lost, 1, __ATOMIC_RELAXED);
}

/* Whether this call is to fail; then errno is set. */
static bool fails(const char *name, int64_t detail, const void *frame)
{
	uint64_t frames[FRAMES], site;
	uint32_t depth, nth;

	if (!page)
		return false;
	depth = walk(frame, frames);
	site = hash_of(name, detail, frames, depth);
	if (!page->wanted) {
		list(site, 1, name, detail, frames, depth);
		return false;
	}
	if (site != page->wanted)
		return false;
	nth = __atomic_add_fetch(&page->seen, 1, __ATOMIC_RELAXED);
	if (nth < page->first || nth - page->first >= page->times)
		return false;
	__atomic_add_fetch(&page->hits, 1, __ATOMIC_RELAXED);
	errno = page->error;
	return true;
}

#define HERE __builtin_frame_address(0)

/* A function whose failure is a value and errno. */
#define WRAP(type, name, parameters, arguments, failure)                                  \
	type __real_##name parameters;                                                    \
	type __wrap_##name parameters;                                                    \
	type __wrap_##name parameters                                                     \
	{                                                                                 \
		return fails(#name, 0, HERE) ? (type)(failure) : __real_##name arguments; \
	}

/* One that returns an errno. */
#define WRAP_CODE(name, parameters, arguments, failure)                             \
	int __real_##name parameters;                                               \
	int __wrap_##name parameters;                                               \
	int __wrap_##name parameters                                                \
	{                                                                           \
		return fails(#name, 0, HERE) ? (failure) : __real_##name arguments; \
	}

/* ---- memory ---- */

WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), NULL)
WRAP(void *, reallocarray, (void *old, size_t count, size_t size), (old, count, size), NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(char *, strndup, (const char *text, size_t size), (text, size), NULL)
WRAP(int, vasprintf, (char **ret, const char *format, va_list list_), (ret, format, list_), -1)
WRAP(FILE *, open_memstream, (char **bytes, size_t *size), (bytes, size), NULL)
WRAP(FILE *, fopencookie, (void *cookie, const char *mode, cookie_io_functions_t functions),
     (cookie, mode, functions), NULL)

/*
 * A parser leaves all memory that it shares, this page as well. It has another one then, at the end
 * of the memory for its result, which is far larger than any result: the last such memory that was
 * mapped when it was made is its own. Its maker, who unmaps that later, adds up what is there.
 */
enum { REGIONS = 8, LEAST_REGION = 64 << 20 };

static const uint64_t OWN_PAGE = 0x6567617020666f20;

struct region {
	uint8_t *at;
	size_t size; /* 0: free */
};

static struct region regions[REGIONS];
static unsigned newest;

static struct page *page_of(const struct region *region)
{
	return (struct page *)(region->at + region->size - sizeof(struct page));
}

static void note_region(void *at, size_t size, int flags)
{
	const int wanted = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;

	if (at == MAP_FAILED || (flags & wanted) != wanted || size < LEAST_REGION || size % 4096)
		return;
	newest = (newest + 1) % REGIONS;
	regions[newest] = (struct region){ at, size };
}

static void leave_page(const void *at, size_t size)
{
	static struct page own;
	uintptr_t start = (uintptr_t)at, here = (uintptr_t)page;
	struct page *next = &own;

	if (!page || here < start || here - start >= size)
		return;
	if (regions[newest].size && page_of(&regions[newest]) != page)
		next = page_of(&regions[newest]);
	/* No list and no hits yet. */
	next->wanted = page->wanted;
	next->first = page->first;
	next->times = page->times;
	next->error = page->error;
	next->seen = page->seen;
	next->reserved[0] = OWN_PAGE;
	page = next;
}

static void add_page(const struct page *other)
{
	__atomic_add_fetch(&page->hits, other->hits, __ATOMIC_RELAXED);
	__atomic_add_fetch(&page->lost, other->lost, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < SLOTS && !page->wanted; i++) {
		const struct slot *slot = &other->slots[i];

		if (slot->site)
			list(slot->site, slot->count, slot->name, slot->detail, slot->frames,
			     slot->depth < FRAMES ? slot->depth : FRAMES);
	}
}

/* Its end goes together with its page. */
static void leave_region(const uint8_t *at, size_t size)
{
	for (unsigned i = 0; i < REGIONS; i++) {
		struct region *region = &regions[i];
		struct page *other;

		if (!region->size || at + size < region->at + region->size ||
		    at >= region->at + region->size)
			continue;
		other = page_of(region);
		if (page && other != page && at <= (const uint8_t *)other &&
		    other->reserved[0] == OWN_PAGE)
			add_page(other);
		region->size = 0;
	}
}

void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
	void *got;

	if (fails("mmap64", 0, HERE))
		return MAP_FAILED;
	got = __real_mmap64(at, size, protection, flags, fd, offset);
	note_region(got, size, flags);
	return got;
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
	if (fails("munmap", 0, HERE))
		return -1;
	leave_page(at, size);
	leave_region(at, size);
	return __real_munmap(at, size);
}
WRAP(int, madvise, (void *at, size_t size, int advice), (at, size, advice), -1)
WRAP(int, mprotect, (void *at, size_t size, int protection), (at, size, protection), -1)
WRAP(char *, realpath, (const char *path, char *resolved), (path, resolved), NULL)
WRAP_CODE(regcomp, (regex_t * regex, const char *pattern, int flags), (regex, pattern, flags),
	  REG_ESPACE)
WRAP_CODE(getpwuid_r,
	  (uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **ret),
	  (uid, entry, buffer, size, ret), (*ret = NULL, errno))

int __wrap_asprintf(char **ret, const char *format, ...);
int __wrap_asprintf(char **ret, const char *format, ...)
{
	va_list arguments;
	int length;

	if (fails("asprintf", 0, HERE))
		return -1;
	va_start(arguments, format);
	length = __real_vasprintf(ret, format, arguments);
	va_end(arguments);
	return length;
}

void *__real_mremap(void *old, size_t old_size, size_t size, int flags, ...);
void *__wrap_mremap(void *old, size_t old_size, size_t size, int flags, ...);
void *__wrap_mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
	return fails("mremap", 0, HERE) ? MAP_FAILED : __real_mremap(old, old_size, size, flags);
}

/* ---- files ---- */

WRAP(ssize_t, read, (int fd, void *bytes, size_t size), (fd, bytes, size), -1)
WRAP(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size), -1)
WRAP(ssize_t, pread64, (int fd, void *bytes, size_t size, off64_t at), (fd, bytes, size, at), -1)
WRAP(ssize_t, pwrite64, (int fd, const void *bytes, size_t size, off64_t at), (fd, bytes, size, at),
     -1)
WRAP(off64_t, lseek64, (int fd, off64_t offset, int whence), (fd, offset, whence), -1)
WRAP(int, ftruncate64, (int fd, off64_t size), (fd, size), -1)
WRAP(ssize_t, getdents64, (int fd, void *bytes, size_t size), (fd, bytes, size), -1)
WRAP(ssize_t, readlink, (const char *path, char *bytes, size_t size), (path, bytes, size), -1)
WRAP(ssize_t, readlinkat, (int folder, const char *path, char *bytes, size_t size),
     (folder, path, bytes, size), -1)
WRAP(int, fstat64, (int fd, struct stat64 *ret), (fd, ret), -1)
WRAP(int, stat64, (const char *path, struct stat64 *ret), (path, ret), -1)
WRAP(int, fstatat64, (int folder, const char *path, struct stat64 *ret, int flags),
     (folder, path, ret, flags), -1)
WRAP(int, fstatfs64, (int fd, struct statfs64 *ret), (fd, ret), -1)
WRAP(int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *ret),
     (folder, path, flags, mask, ret), -1)
WRAP(int, dup, (int fd), (fd), -1)
WRAP(int, mkostemp64, (char *path, int flags), (path, flags), -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(int, fchown, (int fd, uid_t uid, gid_t gid), (fd, uid, gid), -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1)
WRAP(int, unlink, (const char *path), (path), -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP(int, eventfd, (unsigned value, int flags), (value, flags), -1)

/* It frees the descriptor whatever it says (close(2)). */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	int result = __real_close(fd);

	return fails("close", 0, HERE) ? -1 : result;
}

static mode_t mode_behind(int flags, va_list arguments)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_behind(flags, arguments);
	va_end(arguments);
	return fails("open64", 0, HERE) ? -1 : __real_open64(path, flags, mode);
}

int __real_openat64(int folder, const char *path, int flags, ...);
int __wrap_openat64(int folder, const char *path, int flags, ...);
int __wrap_openat64(int folder, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_behind(flags, arguments);
	va_end(arguments);
	return fails("openat64", 0, HERE) ? -1 : __real_openat64(folder, path, flags, mode);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
	va_list arguments;
	long argument;

	va_start(arguments, command);
	argument = va_arg(arguments, long);
	va_end(arguments);
	return fails("fcntl64", command, HERE) ? -1 : __real_fcntl64(fd, command, argument);
}

/* ---- processes ---- */

WRAP(pid_t, fork, (void), (), -1)
WRAP(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options), -1)
WRAP(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options), (type, id, info, options),
     -1)
WRAP(int, kill, (pid_t pid, int signal), (pid, signal), -1)
WRAP(int, pidfd_open, (pid_t pid, unsigned flags), (pid, flags), -1)
WRAP(ssize_t, process_vm_readv,
     (pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
      unsigned long from_count, unsigned long flags),
     (pid, to, to_count, from, from_count, flags), -1)
WRAP(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout), -1)
WRAP(int, ppoll,
     (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
     (fds, count, timeout, mask), -1)
WRAP(int, nanosleep, (const struct timespec *time, struct timespec *rest), (time, rest), -1)
WRAP_CODE(clock_nanosleep,
	  (clockid_t clock, int flags, const struct timespec *time, struct timespec *rest),
	  (clock, flags, time, rest), errno)
WRAP(int, sched_setscheduler, (pid_t pid, int policy, const struct sched_param *parameter),
     (pid, policy, parameter), -1)
WRAP(int, sched_getscheduler, (pid_t pid), (pid), -1)
WRAP(int, getrlimit64, (int resource, struct rlimit64 *ret), (resource, ret), -1)
WRAP(int, setrlimit64, (int resource, const struct rlimit64 *limit), (resource, limit), -1)
WRAP(int, socketpair, (int domain, int type, int protocol, int *ends),
     (domain, type, protocol, ends), -1)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(int, setgroups, (size_t count, const gid_t *groups), (count, groups), -1)
WRAP(int, setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved), -1)
WRAP(int, setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved), -1)

long __real_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data);
long __wrap_ptrace(int request, pid_t pid, void *address, void *data)
{
	return fails("ptrace", request, HERE) ? -1 : __real_ptrace(request, pid, address, data);
}

int __real_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	return fails("prctl", option, HERE) ? -1 : __real_prctl(option, a, b, c, d);
}

/* exit_group has no failure, and its caller would call it for ever; nor has waking somebody. */
static bool may_fail(long number, long operation)
{
	if (number == SYS_futex)
		return (operation & FUTEX_CMD_MASK) != FUTEX_WAKE;
	return number != SYS_exit_group && number != SYS_getpid;
}

/* The kernel's number and six words, as glibc passes them whatever came. */
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (may_fail(number, b) && fails("syscall", number, HERE))
		return -1;
	return __real_syscall(number, a, b, c, d, e, f);
}
