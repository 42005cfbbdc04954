/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The system calls of the sandbox: what is refused, each in a way that would have succeeded, or
 * failed otherwise, without it; and that reading goes on.
 */
#include "roles/role.h"
#include "sandboxed.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

enum {
	READABLE = 50, /* a file that the child has open: this program */
	WRITABLE = 51, /* a file that it could write to, and a channel of somebody else */
	OTHER_CHANNEL = 52,
	SELF = -4711,       /* stands for its pid */
	CHANNEL = -4712,    /* and for its channel */
	PAGE = 65536,       /* as large as any page is */
	X32 = 0x40000000,   /* asm/unistd.h: by the other table of numbers */
	USER_MODE_ONLY = 1, /* UFFD_USER_MODE_ONLY: what needs no privilege */
};

static char page[PAGE] __attribute__((aligned(65536)));
static char byte[8] = "x";
static struct iovec one = { byte, 1 };
static struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1 };
static siginfo_t queued = { .si_code = SI_QUEUE };
static const struct rlimit NO_LIMIT;

#define POINTER(pointer) ((long)(pointer))

struct attempt {
	const char *name;
	long call;
	long arguments[6];
};

static const struct attempt REFUSED[] = {
	/* Names of files. */
	{ "open", SYS_openat, { AT_FDCWD, POINTER("/"), O_RDONLY } },
	{ "open a path", SYS_openat, { AT_FDCWD, POINTER("/"), O_PATH } },
	{ "open beside a file", SYS_openat, { READABLE, POINTER("."), O_RDONLY } },
	{ "create a file", SYS_openat, { AT_FDCWD, POINTER("/tmp"), O_TMPFILE | O_RDWR, 0600 } },
	{ "make a folder", SYS_mkdirat, { AT_FDCWD, POINTER("/tmp"), 0700 } },
	{ "unlink", SYS_unlinkat, { AT_FDCWD, POINTER("/no such file") } },
	{ "stat", SYS_newfstatat, { AT_FDCWD, POINTER("/"), POINTER(page) } },
	{ "stat by the flag of fstat",
	  SYS_newfstatat,
	  { AT_FDCWD, POINTER("/"), POINTER(page), AT_EMPTY_PATH } },
	{ "statx", SYS_statx, { AT_FDCWD, POINTER("/"), 0, 0, POINTER(page) } },
	{ "readlink", SYS_readlinkat, { AT_FDCWD, POINTER("/"), POINTER(page), PAGE } },
	{ "access", SYS_faccessat, { AT_FDCWD, POINTER("/") } },
	{ "chdir", SYS_fchdir, { READABLE } },
	{ "getdents", SYS_getdents64, { READABLE, POINTER(page), PAGE } },
	/* New descriptors. */
	{ "socket", SYS_socket, { AF_UNIX, SOCK_STREAM } },
	{ "socketpair", SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, POINTER(byte) } },
	{ "connect", SYS_connect, { CHANNEL, POINTER(page), 2 } },
	{ "pipe", SYS_pipe2, { POINTER(byte) } },
	{ "memfd_create", SYS_memfd_create, { POINTER("x") } },
	{ "pidfd_open", SYS_pidfd_open, { SELF } },
	{ "io_uring_setup", SYS_io_uring_setup, { 1 } },
	{ "bpf", SYS_bpf, { -1 } },
	{ "userfaultfd", SYS_userfaultfd, { USER_MODE_ONLY } },
	{ "perf_event_open", SYS_perf_event_open, { 0, 0, -1, -1 } },
	{ "inotify_init", SYS_inotify_init1, { 0 } },
	/* Other processes, and itself as one. */
	{ "ptrace", SYS_ptrace, { PTRACE_TRACEME } },
	{ "process_vm_readv", SYS_process_vm_readv, { SELF, POINTER(&one), 1, POINTER(&one), 1 } },
	{ "process_vm_writev",
	  SYS_process_vm_writev,
	  { SELF, POINTER(&one), 1, POINTER(&one), 1 } },
	{ "execve", SYS_execve, { POINTER("/no such file") } },
	{ "execveat", SYS_execveat, { READABLE, POINTER(""), 0, 0, AT_EMPTY_PATH } },
	{ "clone", SYS_clone, { SIGCHLD } },
	{ "clone3", SYS_clone3, { 0 } },
	{ "unshare", SYS_unshare, { CLONE_FILES } },
	{ "setns", SYS_setns, { READABLE } },
	{ "kill", SYS_kill, { SELF } },
	{ "kill all", SYS_kill, { -1 } },
	{ "tgkill of another", SYS_tgkill, { 1 << 22, 1 << 22 } },
	{ "tkill", SYS_tkill, { SELF } },
	{ "rt_sigqueueinfo", SYS_rt_sigqueueinfo, { SELF, 0, POINTER(&queued) } },
	{ "prlimit", SYS_prlimit64, { 0, RLIMIT_CORE, POINTER(&NO_LIMIT) } },
	{ "setuid", SYS_setuid, { 65534 } },
	{ "setresuid", SYS_setresuid, { -1, -1, -1 } },
	{ "capset", SYS_capset, { 0 } },
	{ "PR_SET_DUMPABLE", SYS_prctl, { PR_SET_DUMPABLE, 1 } },
	{ "PR_SET_PDEATHSIG", SYS_prctl, { PR_SET_PDEATHSIG } },
	{ "personality", SYS_personality, { 0 } },
	{ "keyctl", SYS_keyctl, { -1 } },
	{ "seccomp", SYS_seccomp, { -1 } },
	/* Memory that runs, and memory that others see. */
	{ "executable memory",
	  SYS_mmap,
	  { 0, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ "executable file", SYS_mmap, { 0, PAGE, PROT_EXEC, MAP_PRIVATE, READABLE } },
	{ "mprotect to executable", SYS_mprotect, { POINTER(page), PAGE, PROT_READ | PROT_EXEC } },
	{ "pkey_mprotect", SYS_pkey_mprotect, { POINTER(page), PAGE, PROT_READ, -1 } },
	{ "shared file", SYS_mmap, { 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, WRITABLE } },
	{ "validated shared file",
	  SYS_mmap,
	  { 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, WRITABLE } },
	{ "shmget", SYS_shmget, { IPC_PRIVATE, PAGE, 0600 } },
	/* What is open, but not the channel. */
	{ "write", SYS_write, { WRITABLE, POINTER(byte), 1 } },
	{ "writev", SYS_writev, { WRITABLE, POINTER(&one), 1 } },
	{ "writev to the channel", SYS_writev, { CHANNEL, POINTER(&one), 1 } },
	{ "pwrite", SYS_pwrite64, { WRITABLE, POINTER(byte), 1 } },
	{ "send", SYS_sendto, { OTHER_CHANNEL, POINTER(byte), 1 } },
	{ "sendmsg", SYS_sendmsg, { OTHER_CHANNEL, POINTER(&message) } },
	{ "recvmsg", SYS_recvmsg, { OTHER_CHANNEL, POINTER(&message), MSG_DONTWAIT } },
	{ "ftruncate", SYS_ftruncate, { WRITABLE } },
	{ "fallocate", SYS_fallocate, { WRITABLE, 0, 0, 1 } },
	{ "fchmod", SYS_fchmod, { WRITABLE, 0600 } },
	{ "ioctl", SYS_ioctl, { WRITABLE, FIOCLEX } },
	{ "F_SETFL", SYS_fcntl, { WRITABLE, F_SETFL } },
	{ "F_SETOWN", SYS_fcntl, { OTHER_CHANNEL, F_SETOWN, SELF } },
	{ "F_SETLEASE", SYS_fcntl, { READABLE, F_SETLEASE, F_UNLCK } },
	/* Odd ways in. */
	{ "FUTEX_UNLOCK_PI", SYS_futex, { POINTER(page), FUTEX_UNLOCK_PI_PRIVATE } },
	{ "no such call", 100000, { 0 } },
	{ "x32 number", X32 | SYS_getpid, { 0 } },
};

static long resolve(const struct sandboxed *child, long argument)
{
	if (argument == SELF)
		return getpid();
	return argument == CHANNEL ? child->setting.channel : argument;
}

static void attempt_all(struct sandboxed *child)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(REFUSED); i++) {
		const long *arguments = REFUSED[i].arguments;
		long result;

		errno = 0;
		result = syscall(REFUSED[i].call, resolve(child, arguments[0]), arguments[1],
				 resolve(child, arguments[2]), arguments[3], arguments[4],
				 arguments[5]);
		child->found[i] = result == -1 ? errno : -1;
	}
}

static void test_refuses(void **state)
{
	struct sandboxed *child = *state;

	assert_true(SNAP_ARRAY_SIZE(REFUSED) <= FOUND_MAX);
	assert_int_equal(sandboxed_run(child, attempt_all), 0);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(REFUSED); i++)
		if (child->found[i] != EPERM)
			fail_msg("%s: %ld", REFUSED[i].name, child->found[i]);
}

/* The number of a descriptor is its low half: no second name for another one. */
static void write_by_halves(struct sandboxed *child)
{
	long high = 1l << 32;

	child->found[0] = syscall(SYS_write, high | WRITABLE, byte, 1);
	child->found[1] = syscall(SYS_write, high | child->setting.channel, byte, 1);
}

static void test_looks_at_what_the_kernel_looks_at(void **state)
{
	struct sandboxed *child = *state;

	assert_int_equal(sandboxed_run(child, write_by_halves), 0);
	assert_int_equal(child->found[0], -1);
	assert_int_equal(child->found[1], 1);
}

#ifdef __x86_64__
static void call_by_another_abi(struct sandboxed *child)
{
	long result = 20; /* getpid there */

	__asm__ volatile("int $0x80" : "+a"(result) : : "memory");
	child->found[0] = result;
}

static void test_other_abi_kills(void **state)
{
	struct sandboxed *child = *state;
	int status = sandboxed_run(child, call_by_another_abi);

	/* SIGSEGV where the kernel does not know that ABI at all. */
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
	assert_int_equal(child->found[0], 0);
}
#endif

/* ---- what goes on ---- */

/* The number of what failed stays in found[0]. */
static void must(struct sandboxed *child, bool holds)
{
	child->found[0]++;
	if (!holds)
		_exit(1);
}

static void check_worked(struct sandboxed *child, void (*probe)(struct sandboxed *child), int steps)
{
	int status = sandboxed_run(child, probe);

	if (status != 0)
		fail_msg("status %#x at step %ld", status, child->found[0]);
	assert_int_equal(child->found[0], steps);
}

static void use_memory(struct sandboxed *child)
{
	char *bytes = malloc(100 << 20), *more;

	must(child, bytes != NULL);
	memset(bytes, 1, 100 << 20);
	more = realloc(bytes, 150 << 20);
	must(child, more && more[(100 << 20) - 1] == 1);
	free(more);
	bytes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(child, bytes != MAP_FAILED);
	must(child, mprotect(bytes, PAGE, PROT_READ) == 0);
	must(child, madvise(bytes, PAGE, MADV_DONTNEED) == 0);
	bytes = mremap(bytes, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	must(child, bytes != MAP_FAILED && munmap(bytes, 4 * PAGE) == 0);
}

static void test_memory_works(void **state)
{
	check_worked(*state, use_memory, 6);
}

static void use_file(struct sandboxed *child)
{
	struct stat status;
	unsigned char head[4];
	void *map;
	int copy;

	must(child, pread(READABLE, head, 4, 0) == 4 && memcmp(head, "\177ELF", 4) == 0);
	must(child, lseek(READABLE, 1, SEEK_SET) == 1 && read(READABLE, head, 3) == 3 &&
			    memcmp(head, "ELF", 3) == 0);
	must(child, fstat(READABLE, &status) == 0 && S_ISREG(status.st_mode));
	must(child, status.st_size == child->found[1] && (long)status.st_ino == child->found[2]);
	must(child, fstat(49, &status) == -1 && errno == EBADF);
	must(child, syscall(SYS_newfstatat, READABLE, NULL, &status, AT_EMPTY_PATH) == -1);
	map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, READABLE, 0);
	must(child, map != MAP_FAILED && memcmp(map, "\177ELF", 4) == 0);
	copy = fcntl(READABLE, F_DUPFD_CLOEXEC, 0);
	must(child, copy >= 0 && fcntl(copy, F_GETFD) == FD_CLOEXEC && close(copy) == 0);
}

static void test_files_work(void **state)
{
	struct sandboxed *child = *state;
	struct stat status;

	assert_int_equal(fstat(READABLE, &status), 0);
	child->found[1] = status.st_size;
	child->found[2] = (long)status.st_ino;
	check_worked(child, use_file, 8);
}

static void use_channel(struct sandboxed *child)
{
	struct pollfd wait = { .fd = child->setting.channel, .events = POLLIN };
	char text[16];
	size_t size;
	int fd;

	must(child, !snap_wire_send(child->setting.channel, "file?", 5, -1));
	must(child, poll(&wait, 1, 10000) == 1 && wait.revents == POLLIN);
	must(child, !snap_wire_receive(child->setting.channel, text, sizeof(text), &size, &fd));
	must(child, size == 4 && fd >= 0 && pread(fd, text, 4, 0) == 4);
	must(child, memcmp(text, "\177ELF", 4) == 0);
	must(child, send(child->setting.channel, text, 4, MSG_NOSIGNAL) == 4);
	must(child, recv(child->setting.channel, text, sizeof(text), 0) == 0);
}

static void test_channel_works(void **state)
{
	struct sandboxed *child = *state;
	char text[16] = "";
	size_t size;
	int status;

	sandboxed_start(child, use_channel);
	assert_null(snap_wire_receive(child->channel, text, sizeof(text), &size, NULL));
	assert_string_equal(text, "file?");
	assert_null(snap_wire_send(child->channel, "here", 4, READABLE));
	assert_null(snap_wire_receive(child->channel, text, sizeof(text), &size, NULL));
	assert_int_equal(size, 4);
	shutdown(child->channel, SHUT_WR);
	status = sandboxed_end(child);
	if (status != 0)
		fail_msg("status %#x at step %ld", status, child->found[0]);
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void use_library(struct sandboxed *child)
{
	int *numbers = malloc(1 << 20);
	struct timespec now;
	sigset_t none;

	must(child, numbers != NULL);
	for (int i = 0; i < 1 << 18; i++)
		numbers[i] = (1 << 18) - i;
	qsort(numbers, 1 << 18, sizeof(int), by_value);
	must(child, numbers[0] == 1);
	must(child, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0);
	must(child, getrandom(page, 16, 0) == 16);
	must(child, syscall(SYS_futex, page, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0);
	sigemptyset(&none);
	must(child, sigprocmask(SIG_SETMASK, &none, NULL) == 0 && raise(0) == 0);
	free(numbers);
}

static void test_library_works(void **state)
{
	check_worked(*state, use_library, 6);
}

/* ---- how it ends ---- */

/* As libunwind begins: it must not lose the answers to fstat(), nor its own end. */
static void end_by_abort_in_a_lock(struct sandboxed *child)
{
	struct stat status;
	sigset_t all;

	sigfillset(&all);
	must(child, sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	must(child, fstat(READABLE, &status) == 0);
	abort();
}

static void test_signals_stay_open(void **state)
{
	struct sandboxed *child = *state;
	int status = sandboxed_run(child, end_by_abort_in_a_lock);

	assert_int_equal(child->found[0], 2);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void end_by_abort(struct sandboxed *child _unused_)
{
	abort();
}

static void test_abort_ends(void **state)
{
	int status = sandboxed_run(*state, end_by_abort);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void end_by_fault(struct sandboxed *child)
{
	*(volatile char *)(child->found[0] + 8) = 1;
}

static void test_fault_ends(void **state)
{
	int status = sandboxed_run(*state, end_by_fault);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

#if SNAP_SANDBOX_REPORTS
static void overrun(struct sandboxed *child)
{
	char *bytes = malloc(8);

	memset(bytes, 1, (size_t)(9 + child->found[0]));
	child->found[1] = bytes[child->found[0]];
}

/* A report gets out, and the process ends by it. */
static void test_sanitizer_reports(void **state)
{
	struct sandboxed *child = *state;
	int before = dup(STDERR_FILENO), status;
	char text[4096] = "";

	dup2(WRITABLE, STDERR_FILENO);
	status = sandboxed_run(child, overrun);
	dup2(before, STDERR_FILENO);
	close(before);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
	assert_true(pread(WRITABLE, text, sizeof(text) - 1, 0) > 0);
	if (!strstr(text, "heap-buffer-overflow"))
		fail_msg("%s", text);
}
#endif

static int start(void **state)
{
	static struct sandboxed child;
	int ends[2], file = memfd_create("writable", MFD_CLOEXEC);
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (file < 0 || self < 0 || ftruncate(file, PAGE) < 0 ||
	    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	dup2(self, READABLE);
	dup2(file, WRITABLE);
	dup2(ends[0], OTHER_CHANNEL);
	close(self);
	close(file);
	close(ends[0]);
	child = sandboxed_init();
	*state = &child;
	return 0;
}

static int stop_child(void **state)
{
	struct sandboxed *child = *state;

	sandboxed_deinit(child);
	close(READABLE);
	close(WRITABLE);
	close(OTHER_CHANNEL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_refuses, start, stop_child),
		cmocka_unit_test_setup_teardown(test_looks_at_what_the_kernel_looks_at, start,
						stop_child),
#ifdef __x86_64__
		cmocka_unit_test_setup_teardown(test_other_abi_kills, start, stop_child),
#endif
		cmocka_unit_test_setup_teardown(test_memory_works, start, stop_child),
		cmocka_unit_test_setup_teardown(test_files_work, start, stop_child),
		cmocka_unit_test_setup_teardown(test_channel_works, start, stop_child),
		cmocka_unit_test_setup_teardown(test_library_works, start, stop_child),
		cmocka_unit_test_setup_teardown(test_abort_ends, start, stop_child),
		cmocka_unit_test_setup_teardown(test_signals_stay_open, start, stop_child),
		cmocka_unit_test_setup_teardown(test_fault_ends, start, stop_child),
#if SNAP_SANDBOX_REPORTS
		cmocka_unit_test_setup_teardown(test_sanitizer_reports, start, stop_child),
#endif
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
