/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * x86-64 on Linux: the layout of NT_PRSTATUS and of a signal frame, the registers that rows follow,
 * the form of a call, the names of system calls. Numbers of registers are those of DWARF in the
 * psABI. Knows nothing of how a row is found.
 */
#include "analyze/unwind/arch.h"

#include "base/bytes.h"

#include <string.h>

enum {
	RBX = 3,
	RBP = 6,
	RSP = 7,
	R12 = 12,
	R13 = 13,
	R14 = 14,
	R15 = 15,
	RIP = 16,
	REGISTERS = 17,
	STUB_BYTES = 7,
	LONGEST = 15,     /* of an instruction */
	EARLY_BYTES = 13, /* a frame that is set up before it is there wherever calls are made */
	MOST_FRAME = 1 << 24, /* of one function */
};

/* Words of struct user_regs_struct (sys/user.h) by DWARF number. */
static const uint8_t user_regs_word[REGISTERS] = { 10, 12, 11, 5, 13, 14, 4, 19, 9,
						   8,  7,  6,  3, 2,  1,  0, 16 };
enum { USER_REGS_WORDS = 27 };

static bool x86_registers(const void *raw, size_t size, uint64_t *dwarf_ret, uint64_t *pc_ret)
{
	if (size != USER_REGS_WORDS * sizeof(uint64_t))
		return false;
	for (size_t i = 0; i < REGISTERS; i++)
		dwarf_ret[i] =
			snap_u64_at((const uint8_t *)raw + user_regs_word[i] * sizeof(uint64_t));
	*pc_ret = dwarf_ret[RIP];
	return true;
}

/*
 * Whether `size` bytes are CALL of a register or memory operand: FF /2, ModRM, SIB, displacement.
 */
static bool is_indirect_call(const uint8_t *code, size_t size)
{
	unsigned mode = code[1] >> 6, rm = code[1] & 7;
	size_t length = 2;

	if (code[0] != 0xff || (code[1] & 0x38) != 0x10)
		return false;
	if (mode != 3 && rm == 4) {
		if (size < 3)
			return false;
		length++;
		rm = mode == 0 ? code[2] & 7 : 0;
	}
	if (mode == 1)
		length++;
	if (mode == 2 || (mode == 0 && rm == 5))
		length += 4;
	return length == size;
}

/* CALL rel32, and CALL of a register or memory operand of every length that the encoding allows. */
static struct snap_call x86_call_before(const uint8_t *end, uint64_t address)
{
	struct snap_call call = { .is_direct = end[-5] == 0xe8 };
	int32_t distance;

	memcpy(&distance, end - sizeof(distance), sizeof(distance));
	call.target = address + (uint64_t)(int64_t)distance;
	for (size_t length = 2; length <= SNAP_CALL_BYTES; length++)
		call.is_indirect |= is_indirect_call(end - length, length);
	return call;
}

/* ---- frames ---- */

/* How far the stack pointer is below the return address, as far as instructions were followed. */
struct depth {
	int64_t now, most;
	bool is_known, is_prologue; /* the latter: all was a part of the frame that is made */
};

/* push %rbp; mov %rsp,%rbp, in both encodings; at `at`. */
static bool sets_frame_pointer_at(const uint8_t *code, size_t size, size_t at)
{
	static const uint8_t moves[][4] = { { 0x55, 0x48, 0x89, 0xe5 },
					    { 0x55, 0x48, 0x8b, 0xec } };

	return size - at >= sizeof(moves[0]) &&
	       (memcmp(code + at, moves[0], sizeof(moves[0])) == 0 ||
		memcmp(code + at, moves[1], sizeof(moves[1])) == 0);
}

/* What SUB, ADD or LEA takes from the stack pointer, of an instruction without its REX.W. */
static int64_t taken_room(const uint8_t *code, size_t length)
{
	int64_t sign = code[1] == 0xec ? 1 : -1;

	if ((code[1] == 0xec || code[1] == 0xc4) && code[0] == 0x83 && length == 3)
		return sign * (int8_t)code[2];
	if ((code[1] == 0xec || code[1] == 0xc4) && code[0] == 0x81 && length == 6)
		return sign * (int32_t)snap_u32_at(code + 2);
	if (code[0] == 0x8d && code[1] == 0x64 && length == 4 && code[2] == 0x24)
		return -(int8_t)code[3];
	if (code[0] == 0x8d && code[1] == 0xa4 && length == 7 && code[2] == 0x24)
		return -(int64_t)(int32_t)snap_u32_at(code + 3);
	return 0;
}

static void follow_push(struct depth *depth, unsigned number, struct snap_prologue *ret)
{
	/* DWARF numbers of the registers as instructions number them. */
	static const uint8_t numbers[] = { 0, 2, 1, 3, 7, 6, 4, 5 };

	depth->now += 8;
	if (depth->is_prologue && ret->pushed_count < SNAP_MAX_PUSHED)
		ret->pushed[ret->pushed_count++] = (uint8_t)(number < 8 ? numbers[number] : number);
}

/* What an instruction makes of the stack pointer. */
static void follow_x86_instruction(struct depth *depth, const uint8_t *code, size_t length,
				   struct snap_prologue *ret)
{
	bool has_rex = (code[0] & 0xf0) == 0x40;
	const uint8_t *bare = code + has_rex;
	unsigned high = has_rex && code[0] & 1 ? 8 : 0;
	int64_t room = has_rex && code[0] == 0x48 ? taken_room(bare, length - 1) : 0;

	if ((*bare & 0xf8) == 0x50) {
		follow_push(depth, high | (*bare & 7), ret);
	} else if ((*bare & 0xf8) == 0x58) {
		depth->now -= 8;
	} else if (*bare == 0x68 || *bare == 0x6a || *bare == 0x9c ||
		   (*bare == 0xff && (bare[1] & 0x38) == 0x30)) {
		depth->now += 8;
	} else if (room) {
		depth->now += room;
		depth->is_prologue = false;
	} else if (*bare == 0xc3 || *bare == 0xc2 || *bare == 0xe9 || *bare == 0xeb) {
		/* What follows is reached from elsewhere, and has the frame. */
		depth->now = depth->most;
		depth->is_known = true;
	} else if (*bare == 0xe8 || *bare == 0xff) {
		depth->is_prologue = false;
	} else if (*bare == 0xc9 || (has_rex && *bare == 0x83 && bare[1] == 0xe4)) {
		depth->is_known = false; /* leave; and $imm,%rsp */
	}
	if (depth->now > depth->most)
		depth->most = depth->now;
}

/* Go looks whether its stack suffices before it sets its frame up. */
static void read_x86_prologue(const uint8_t *code, size_t size, struct snap_prologue *ret)
{
	struct depth depth = { .is_known = true, .is_prologue = true };
	size_t length;

	for (size_t at = 0; at < size; at += length) {
		if (sets_frame_pointer_at(code, size, at)) {
			ret->sets_frame_pointer |= at < EARLY_BYTES;
			ret->sets_frame_pointer_later |= at >= EARLY_BYTES;
		}
		length = snap_x86_length(code + at, size - at);
		if (length == 0 && size - at < LONGEST)
			break; /* of a longer function */
		if (length == 0)
			return;
		follow_x86_instruction(&depth, code + at, length, ret);
	}
	ret->has_depth = depth.is_known && depth.now >= 0 && depth.now <= MOST_FRAME;
	if (ret->has_depth)
		ret->sp_depth = (uint32_t)depth.now;
}

/* ---- stubs and returns ---- */

static size_t skip_endbr64(const uint8_t *code, size_t size)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	return size >= sizeof(endbr64) && memcmp(code, endbr64, sizeof(endbr64)) == 0
		       ? sizeof(endbr64)
		       : 0;
}

/* ret, ret imm16, and either with a prefix. */
static bool is_x86_return(const uint8_t *code)
{
	uint8_t opcode = code[0] == 0xf3 || code[0] == 0xf2 ? code[1] : code[0];

	return opcode == 0xc3 || opcode == 0xc2;
}

/* [endbr64] [bnd] jmp *disp32(%rip) */
static bool is_x86_jump_stub(const uint8_t *code)
{
	size_t at = skip_endbr64(code, STUB_BYTES);

	at += code[at] == 0xf2;
	return code[at] == 0xff && code[at + 1] == 0x25;
}

/* mov $15 (rt_sigreturn) to %rax or %eax, syscall: gdb and the kernel's own check know no more. */
static bool is_x86_context_start(const uint8_t code[SNAP_SIGNAL_RETURN_BYTES])
{
	/* mov %rbx,%rsp; mov (%rsp),%rdi */
	static const uint8_t start[] = { 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24 };

	return memcmp(code + skip_endbr64(code, SNAP_SIGNAL_RETURN_BYTES), start, sizeof(start)) ==
	       0;
}

static bool is_x86_signal_return(const uint8_t code[SNAP_SIGNAL_RETURN_BYTES])
{
	static const uint8_t with_rax[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t with_eax[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };

	return memcmp(code, with_rax, sizeof(with_rax)) == 0 ||
	       memcmp(code, with_eax, sizeof(with_eax)) == 0;
}

static const uint8_t saved[] = { RBX, RBP, R12, R13, R14, R15 };

/* Offset of each register in struct ucontext (asm/sigcontext.h), which lies at sp by then. */
static const uint16_t signal_context[REGISTERS] = { 144, 136, 152, 128, 112, 104, 120, 160, 40,
						    48,  56,  64,  72,  80,  88,  96,  168 };

// clang-format off
static const char *const syscall_names[] = {
	"read", "write", "open", "close", "stat", "fstat", "lstat", "poll", "lseek", "mmap",
	"mprotect", "munmap", "brk", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "ioctl",
	"pread64", "pwrite64", "readv", "writev", "access", "pipe", "select", "sched_yield",
	"mremap", "msync", "mincore", "madvise", "shmget", "shmat", "shmctl", "dup", "dup2",
	"pause", "nanosleep", "getitimer", "alarm", "setitimer", "getpid", "sendfile", "socket",
	"connect", "accept", "sendto", "recvfrom", "sendmsg", "recvmsg", "shutdown", "bind",
	"listen", "getsockname", "getpeername", "socketpair", "setsockopt", "getsockopt", "clone",
	"fork", "vfork", "execve", "exit", "wait4", "kill", "uname", "semget", "semop", "semctl",
	"shmdt", "msgget", "msgsnd", "msgrcv", "msgctl", "fcntl", "flock", "fsync", "fdatasync",
	"truncate", "ftruncate", "getdents", "getcwd", "chdir", "fchdir", "rename", "mkdir",
	"rmdir", "creat", "link", "unlink", "symlink", "readlink", "chmod", "fchmod", "chown",
	"fchown", "lchown", "umask", "gettimeofday", "getrlimit", "getrusage", "sysinfo", "times",
	"ptrace", "getuid", "syslog", "getgid", "setuid", "setgid", "geteuid", "getegid",
	"setpgid", "getppid", "getpgrp", "setsid", "setreuid", "setregid", "getgroups",
	"setgroups", "setresuid", "getresuid", "setresgid", "getresgid", "getpgid", "setfsuid",
	"setfsgid", "getsid", "capget", "capset", "rt_sigpending", "rt_sigtimedwait",
	"rt_sigqueueinfo", "rt_sigsuspend", "sigaltstack", "utime", "mknod", "uselib",
	"personality", "ustat", "statfs", "fstatfs", "sysfs", "getpriority", "setpriority",
	"sched_setparam", "sched_getparam", "sched_setscheduler", "sched_getscheduler",
	"sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "mlock",
	"munlock", "mlockall", "munlockall", "vhangup", "modify_ldt", "pivot_root", "_sysctl",
	"prctl", "arch_prctl", "adjtimex", "setrlimit", "chroot", "sync", "acct", "settimeofday",
	"mount", "umount2", "swapon", "swapoff", "reboot", "sethostname", "setdomainname", "iopl",
	"ioperm", "create_module", "init_module", "delete_module", "get_kernel_syms",
	"query_module", "quotactl", "nfsservctl", "getpmsg", "putpmsg", "afs_syscall", "tuxcall",
	"security", "gettid", "readahead", "setxattr", "lsetxattr", "fsetxattr", "getxattr",
	"lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "removexattr",
	"lremovexattr", "fremovexattr", "tkill", "time", "futex", "sched_setaffinity",
	"sched_getaffinity", "set_thread_area", "io_setup", "io_destroy", "io_getevents",
	"io_submit", "io_cancel", "get_thread_area", "lookup_dcookie", "epoll_create",
	"epoll_ctl_old", "epoll_wait_old", "remap_file_pages", "getdents64", "set_tid_address",
	"restart_syscall", "semtimedop", "fadvise64", "timer_create", "timer_settime",
	"timer_gettime", "timer_getoverrun", "timer_delete", "clock_settime", "clock_gettime",
	"clock_getres", "clock_nanosleep", "exit_group", "epoll_wait", "epoll_ctl", "tgkill",
	"utimes", "vserver", "mbind", "set_mempolicy", "get_mempolicy", "mq_open", "mq_unlink",
	"mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr", "kexec_load", "waitid",
	"add_key", "request_key", "keyctl", "ioprio_set", "ioprio_get", "inotify_init",
	"inotify_add_watch", "inotify_rm_watch", "migrate_pages", "openat", "mkdirat", "mknodat",
	"fchownat", "futimesat", "newfstatat", "unlinkat", "renameat", "linkat", "symlinkat",
	"readlinkat", "fchmodat", "faccessat", "pselect6", "ppoll", "unshare", "set_robust_list",
	"get_robust_list", "splice", "tee", "sync_file_range", "vmsplice", "move_pages",
	"utimensat", "epoll_pwait", "signalfd", "timerfd_create", "eventfd", "fallocate",
	"timerfd_settime", "timerfd_gettime", "accept4", "signalfd4", "eventfd2", "epoll_create1",
	"dup3", "pipe2", "inotify_init1", "preadv", "pwritev", "rt_tgsigqueueinfo",
	"perf_event_open", "recvmmsg", "fanotify_init", "fanotify_mark", "prlimit64",
	"name_to_handle_at", "open_by_handle_at", "clock_adjtime", "syncfs", "sendmmsg", "setns",
	"getcpu", "process_vm_readv", "process_vm_writev", "kcmp", "finit_module", "sched_setattr",
	"sched_getattr", "renameat2", "seccomp", "getrandom", "memfd_create", "kexec_file_load",
	"bpf", "execveat", "userfaultfd", "membarrier", "mlock2", "copy_file_range", "preadv2",
	"pwritev2", "pkey_mprotect", "pkey_alloc", "pkey_free", "statx", "io_pgetevents", "rseq",
	"uretprobe", "uprobe",
};
// clang-format on

const struct snap_arch_ops snap_arch_x86_64 = {
	.dwarf_registers = REGISTERS,
	.sp = RSP,
	.fp = RBP,
	.ra = RIP,
	.pc = RIP,
	.address_bits = 47,
	.registers = x86_registers,
	.syscall_names = syscall_names,
	.syscall_name_count = SNAP_ARRAY_SIZE(syscall_names),
	.saved = saved,
	.saved_count = SNAP_ARRAY_SIZE(saved),
	.machine = 62, /* EM_X86_64 */
	.return_bytes = 2,
	.stub_bytes = STUB_BYTES,
	.call_before = x86_call_before,
	.read_prologue = read_x86_prologue,
	.is_return = is_x86_return,
	.is_jump_stub = is_x86_jump_stub,
	.is_signal_return = is_x86_signal_return,
	.is_context_start = is_x86_context_start,
	.signal_context = signal_context,
	.signal_pc = 168,
};
