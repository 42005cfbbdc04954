/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * aarch64 on Linux: the layout of registers and of a signal frame, the registers that rows follow,
 * instructions, the names of system calls. Numbers of registers are those of DWARF in the ABI
 * (AADWARF64), instructions those of the Arm ARM (DDI 0487, C4 and C6). Knows nothing of how a row
 * is found.
 *
 * A return address may be signed (FEAT_PAuth): paciasp, or pacibsp, puts a code into the bits above
 * the address before the function saves it. CFI says so (DW_CFA_AARCH64_negate_ra_state), a frame
 * record does not. But no address has these bits, so they are always removed.
 */
#include "analyze/unwind/arch.h"

#include "model/arch/registers.h"

#include <string.h>

enum {
	X19 = 19,
	FP = 29,
	LR = 30,
	SP = 31,
	REGISTERS = 32,
	PC = 32,
	INSTRUCTION = 4,
	PROLOGUE_BYTES = 32,
	STUB_BYTES = 20,
};

static bool aarch64_registers(const void *raw, size_t size, uint64_t *dwarf_ret, uint64_t *pc_ret)
{
	struct snap_known_registers known;

	if (!snap_registers_read(SNAP_ARCH_AARCH64, raw, size, 0, &known))
		return false;
	/* x0 to x30 and sp lie in the order of their numbers (struct user_pt_regs). */
	memcpy(dwarf_ret, raw, REGISTERS * sizeof(*dwarf_ret));
	*pc_ret = known.pc;
	return true;
}

/* ---- instructions ---- */

static uint32_t instruction_at(const uint8_t *code, size_t at)
{
	return (uint32_t)code[at] | (uint32_t)code[at + 1] << 8 | (uint32_t)code[at + 2] << 16 |
	       (uint32_t)code[at + 3] << 24;
}

/* Bits `low` and up of an instruction, `count` of them, as a signed number. */
static int64_t signed_field(uint32_t instruction, unsigned low, unsigned count)
{
	return (int64_t)((uint64_t)instruction << (64 - low - count)) >> (64 - count);
}

/* BL, and BLR in all forms that authenticate the address. */
static struct snap_call aarch64_call_before(const uint8_t *end, uint64_t address)
{
	uint32_t instruction = instruction_at(end - INSTRUCTION, 0);
	struct snap_call call = {
		.is_direct = (instruction & 0xfc000000) == 0x94000000,
		.is_indirect = (instruction & 0xfffffc1f) == 0xd63f0000 ||
			       (instruction & 0xfefff800) == 0xd63f0800,
	};

	call.target =
		address - INSTRUCTION + (uint64_t)(signed_field(instruction, 0, 26) * INSTRUCTION);
	return call;
}

/* RET of any register, RETAA, RETAB. */
static bool is_aarch64_return(const uint8_t *code)
{
	uint32_t instruction = instruction_at(code, 0);

	return (instruction & 0xfffffc1f) == 0xd65f0000 || instruction == 0xd65f0bff ||
	       instruction == 0xd65f0fff;
}

/* BTI with any operand, PACIASP, PACIBSP and NOP: what may come first in a function or a stub. */
static bool is_landing_pad(uint32_t instruction)
{
	return (instruction & 0xffffff3f) == 0xd503241f || instruction == 0xd503233f ||
	       instruction == 0xd503237f || instruction == 0xd503201f;
}

/* [bti c]; adrp x16, page; ldr x17, [x16, offset]; add x16, x16, offset; br x17, or braa x17, x16 */
static bool is_aarch64_jump_stub(const uint8_t *code)
{
	size_t at = is_landing_pad(instruction_at(code, 0)) ? INSTRUCTION : 0;

	return (instruction_at(code, at) & 0x9f00001f) == 0x90000010 &&
	       (instruction_at(code, at + INSTRUCTION) & 0xffc003ff) == 0xf9400211;
}

/* The one that begins at `begin`; so far it may have run. */
static enum snap_stub stub_from(const uint8_t *code, size_t size, size_t begin, size_t at)
{
	enum { MOST = 7 * INSTRUCTION /* with all that a stub may have besides */ };
	size_t next = begin, pushed = SIZE_MAX;

	if (size - begin < MOST)
		return SNAP_STUB_NONE;
	if (is_landing_pad(instruction_at(code, next)))
		next += INSTRUCTION;
	/* stp x16, x30, [sp, -16]!, of the first one alone, which calls the dynamic linker */
	if (instruction_at(code, next) == 0xa9bf7bf0) {
		pushed = next;
		next += INSTRUCTION;
	}
	if (!is_aarch64_jump_stub(code + next))
		return SNAP_STUB_NONE;
	next += 2 * INSTRUCTION;
	if ((instruction_at(code, next) & 0xff8003ff) != 0x91000210)
		return SNAP_STUB_NONE;
	next += INSTRUCTION;
	/* autia1716 */
	if (instruction_at(code, next) == 0xd503219f)
		next += INSTRUCTION;
	if ((instruction_at(code, next) != 0xd61f0220 &&
	     instruction_at(code, next) != 0xd71f0a30) ||
	    at > next)
		return SNAP_STUB_NONE;
	return pushed < at ? SNAP_STUB_PUSHED : SNAP_STUB_BARE;
}

static enum snap_stub stub_at(const uint8_t *code, size_t size, size_t at)
{
	/* The earliest beginning, as what it pushes may stand before what a stub begins with. */
	for (size_t begin = at % INSTRUCTION; begin <= at; begin += INSTRUCTION) {
		enum snap_stub found = stub_from(code, size, begin, at);

		if (found != SNAP_STUB_NONE)
			return found;
	}
	return SNAP_STUB_NONE;
}

/* svc 0 */
static bool is_system_call(const uint8_t *code)
{
	return instruction_at(code, 0) == 0xd4000001;
}

/* mov x8, 139 (rt_sigreturn); svc 0: of the vDSO, and of libraries that have their own. */
static bool is_aarch64_context_start(const uint8_t code[SNAP_SIGNAL_RETURN_BYTES])
{
	/* mov x0, x19; cbnz x0, … */
	return instruction_at(code, 0) == 0xaa1303e0 &&
	       (instruction_at(code, INSTRUCTION) & 0xff00001f) == 0xb5000000;
}

static bool is_aarch64_signal_return(const uint8_t code[SNAP_SIGNAL_RETURN_BYTES])
{
	return instruction_at(code, 0) == 0xd2801168 && is_system_call(code + INSTRUCTION);
}

/* ---- the first instructions of a function ---- */

/* How far below the caller's stack pointer things are, as far as the instructions were run. */
struct prologue {
	uint64_t sp, record, link;
	bool has_record, has_link, has_frame_pointer; /* written */
};

enum { MOST_FRAME = 1 << 24 /* of one function */ };

/* Branches and whatever else may go elsewhere: what follows is no prologue. */
static bool may_leave(uint32_t instruction)
{
	return (instruction & 0x1c000000) == 0x14000000;
}

/* Writes a register, at `below` bytes below the caller's stack pointer. */
static void note_written(struct prologue *prologue, unsigned number, uint64_t below)
{
	if (number == LR && below && below <= MOST_FRAME) {
		prologue->link = below;
		prologue->has_link = true;
	}
	prologue->has_frame_pointer = prologue->has_frame_pointer || number == FP;
}

/* Two of them. */
static void note_pair(struct prologue *prologue, uint32_t instruction, uint64_t below)
{
	unsigned first = instruction & 31, second = instruction >> 10 & 31;

	note_written(prologue, first, below);
	note_written(prologue, second, below - 8);
	if (first != FP || second != LR || below > MOST_FRAME)
		return;
	prologue->record = below;
	prologue->has_record = true;
}

static void follow_instruction(struct prologue *prologue, uint32_t instruction,
			       struct snap_prologue *ret)
{
	uint64_t immediate = instruction >> 10 & 0xfff;

	/* sub sp, sp, immediate, which may be shifted by 12 */
	if ((instruction & 0xff8003ff) == 0xd10003ff)
		prologue->sp += instruction & 1 << 22 ? immediate << 12 : immediate;
	/* stp of two registers [sp, -offset]!; those of floating point have bit 26 */
	if ((instruction & 0xffc003e0) == 0xa98003e0 || (instruction & 0xffc003e0) == 0x6d8003e0) {
		prologue->sp -= (uint64_t)(signed_field(instruction, 15, 7) * 8);
		if (!(instruction & 1 << 26))
			note_pair(prologue, instruction, prologue->sp);
	}
	/* str of one register [sp, -offset]! */
	if ((instruction & 0xffe00fe0) == 0xf8000fe0) {
		prologue->sp -= (uint64_t)signed_field(instruction, 12, 9);
		note_written(prologue, instruction & 31, prologue->sp);
	}
	/* str of one [sp, offset] */
	if ((instruction & 0xffc003e0) == 0xf90003e0)
		note_written(prologue, instruction & 31, prologue->sp - immediate * 8);
	/* stp of two [sp, offset] */
	if ((instruction & 0xffc003e0) == 0xa90003e0)
		note_pair(prologue, instruction,
			  prologue->sp - (uint64_t)(signed_field(instruction, 15, 7) * 8));
	/* add x29, sp, immediate, which is mov x29, sp without one */
	if ((instruction & 0xffc003ff) == 0x910003fd && prologue->has_record &&
	    prologue->sp - immediate == prologue->record)
		ret->sets_frame_pointer = true;
}

/* stp x29, x30, [sp, …] in either form, and behind it add x29, sp, immediate */
static bool sets_frame_pointer_among(const uint8_t *code, size_t size)
{
	bool has_record = false;

	for (size_t at = 0; at + INSTRUCTION <= size; at += INSTRUCTION) {
		uint32_t instruction = instruction_at(code, at);

		has_record |= (instruction & 0xfe407fff) == 0xa8007bfd;
		if (has_record && (instruction & 0xffc003ff) == 0x910003fd)
			return true;
	}
	return false;
}

static void read_aarch64_prologue(const uint8_t *code, size_t size, struct snap_prologue *ret)
{
	struct prologue prologue = { .sp = 0 };

	for (size_t at = 0; at + INSTRUCTION <= size && at < PROLOGUE_BYTES; at += INSTRUCTION) {
		uint32_t instruction = instruction_at(code, at);

		if (may_leave(instruction) && !is_landing_pad(instruction))
			break;
		follow_instruction(&prologue, instruction, ret);
		if (prologue.sp > MOST_FRAME)
			break;
	}
	ret->sets_frame_pointer_later =
		!ret->sets_frame_pointer && sets_frame_pointer_among(code, size);
	if (prologue.has_record)
		ret->record_depth = (uint32_t)prologue.record;
	if (prologue.has_link && !prologue.has_frame_pointer)
		ret->link_depth = (uint32_t)prologue.link;
	if (prologue.sp <= MOST_FRAME)
		ret->sp_depth = (uint32_t)prologue.sp;
}

/* ---- tables ---- */

static const uint8_t saved[] = { X19, 20, 21, 22, 23, 24, 25, 26, 27, 28, FP };

/*
 * Offsets from sp, where struct rt_sigframe lies by then: siginfo_t has 128 bytes; in struct
 * ucontext struct sigcontext begins at 176, its regs at 8 (asm/ucontext.h, asm/sigcontext.h).
 * Records of floating point, SVE and SME lie behind and are of no use here.
 */
enum { SAVED_X0 = 128 + 176 + 8 };
#define AT(n) (SAVED_X0 + 8 * (n))
static const uint16_t signal_context[REGISTERS] = {
	AT(0),  AT(1),  AT(2),  AT(3),  AT(4),  AT(5),  AT(6),  AT(7),  AT(8),  AT(9),  AT(10),
	AT(11), AT(12), AT(13), AT(14), AT(15), AT(16), AT(17), AT(18), AT(19), AT(20), AT(21),
	AT(22), AT(23), AT(24), AT(25), AT(26), AT(27), AT(28), AT(29), AT(30), AT(31),
};

// clang-format off
static const char *const syscall_names[] = {
	"io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "setxattr",
	"lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr", "listxattr",
	"llistxattr", "flistxattr", "removexattr", "lremovexattr", "fremovexattr", "getcwd",
	"lookup_dcookie", "eventfd2", "epoll_create1", "epoll_ctl", "epoll_pwait", "dup",
	"dup3", "fcntl", "inotify_init1", "inotify_add_watch", "inotify_rm_watch", "ioctl",
	"ioprio_set", "ioprio_get", "flock", "mknodat", "mkdirat", "unlinkat", "symlinkat",
	"linkat", "renameat", "umount2", "mount", "pivot_root", "nfsservctl", "statfs",
	"fstatfs", "truncate", "ftruncate", "fallocate", "faccessat", "chdir", "fchdir",
	"chroot", "fchmod", "fchmodat", "fchownat", "fchown", "openat", "close", "vhangup",
	"pipe2", "quotactl", "getdents64", "lseek", "read", "write", "readv", "writev",
	"pread64", "pwrite64", "preadv", "pwritev", "sendfile", "pselect6", "ppoll",
	"signalfd4", "vmsplice", "splice", "tee", "readlinkat", "newfstatat", "fstat", "sync",
	"fsync", "fdatasync", "sync_file_range", "timerfd_create", "timerfd_settime",
	"timerfd_gettime", "utimensat", "acct", "capget", "capset", "personality", "exit",
	"exit_group", "waitid", "set_tid_address", "unshare", "futex", "set_robust_list",
	"get_robust_list", "nanosleep", "getitimer", "setitimer", "kexec_load", "init_module",
	"delete_module", "timer_create", "timer_gettime", "timer_getoverrun", "timer_settime",
	"timer_delete", "clock_settime", "clock_gettime", "clock_getres", "clock_nanosleep",
	"syslog", "ptrace", "sched_setparam", "sched_setscheduler", "sched_getscheduler",
	"sched_getparam", "sched_setaffinity", "sched_getaffinity", "sched_yield",
	"sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval",
	"restart_syscall", "kill", "tkill", "tgkill", "sigaltstack", "rt_sigsuspend",
	"rt_sigaction", "rt_sigprocmask", "rt_sigpending", "rt_sigtimedwait",
	"rt_sigqueueinfo", "rt_sigreturn", "setpriority", "getpriority", "reboot", "setregid",
	"setgid", "setreuid", "setuid", "setresuid", "getresuid", "setresgid", "getresgid",
	"setfsuid", "setfsgid", "times", "setpgid", "getpgid", "getsid", "setsid", "getgroups",
	"setgroups", "uname", "sethostname", "setdomainname", "getrlimit", "setrlimit",
	"getrusage", "umask", "prctl", "getcpu", "gettimeofday", "settimeofday", "adjtimex",
	"getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "gettid", "sysinfo",
	"mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
	"mq_getsetattr", "msgget", "msgctl", "msgrcv", "msgsnd", "semget", "semctl",
	"semtimedop", "semop", "shmget", "shmctl", "shmat", "shmdt", "socket", "socketpair",
	"bind", "listen", "accept", "connect", "getsockname", "getpeername", "sendto",
	"recvfrom", "setsockopt", "getsockopt", "shutdown", "sendmsg", "recvmsg", "readahead",
	"brk", "munmap", "mremap", "add_key", "request_key", "keyctl", "clone", "execve",
	"mmap", "fadvise64", "swapon", "swapoff", "mprotect", "msync", "mlock", "munlock",
	"mlockall", "munlockall", "mincore", "madvise", "remap_file_pages", "mbind",
	"get_mempolicy", "set_mempolicy", "migrate_pages", "move_pages", "rt_tgsigqueueinfo",
	"perf_event_open", "accept4", "recvmmsg", [260] = "wait4", "prlimit64",
	"fanotify_init", "fanotify_mark", [266] = "clock_adjtime", "syncfs", "setns",
	"sendmmsg", "process_vm_readv", "process_vm_writev", "kcmp", "finit_module",
	"sched_setattr", "sched_getattr", "renameat2", "seccomp", "getrandom", "memfd_create",
	"bpf", "execveat", "userfaultfd", "membarrier", "mlock2", "copy_file_range", "preadv2",
	"pwritev2", "pkey_mprotect", "pkey_alloc", "pkey_free", "statx", "io_pgetevents",
	"rseq", "kexec_file_load",
};
// clang-format on

const struct snap_arch_ops snap_arch_aarch64 = {
	.dwarf_registers = REGISTERS,
	.sp = SP,
	.fp = FP,
	.ra = LR,
	.pc = PC,
	.address_bits = 52, /* FEAT_LVA; else 48, or 39 and less with a smaller table */
	.registers = aarch64_registers,
	.syscall_names = syscall_names,
	.syscall_name_count = SNAP_ARRAY_SIZE(syscall_names),
	.saved = saved,
	.saved_count = SNAP_ARRAY_SIZE(saved),
	.machine = 183, /* EM_AARCH64 */
	.has_link_register = true,
	.signs_addresses = true,
	.return_bytes = INSTRUCTION,
	.stub_bytes = STUB_BYTES,
	.call_before = aarch64_call_before,
	.read_prologue = read_aarch64_prologue,
	.is_return = is_aarch64_return,
	.is_jump_stub = is_aarch64_jump_stub,
	.stub_at = stub_at,
	.is_signal_return = is_aarch64_signal_return,
	.is_context_start = is_aarch64_context_start,
	.is_system_call = is_system_call,
	.signal_context = signal_context,
	.signal_pc = AT(32),
};
