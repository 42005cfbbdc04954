/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The system calls of the sandbox, as a table, and the filter made of it.
 *
 * No call takes a path, makes a descriptor other than a copy, or has an effect outside the process
 * except on its channel. To add one: a row, a reason, a line in the unit test.
 */
#include "roles/sandbox/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static const uint32_t OWN_ARCH = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
static const uint32_t OWN_ARCH = AUDIT_ARCH_AARCH64;
#else
#error "the sandbox needs to know the system calls of this architecture"
#endif

enum { MAX_INSTRUCTIONS = 400, INSTRUCTIONS_OF_A_ROW = 9 };

/* A condition for the low half of an argument: the kernel takes no more of an int. */
struct condition {
	enum { IS, HAS_NONE_OF, IS_CHANNEL, IS_SELF, IS_FUTEX_CALL, IS_PRIVATE_DATA } what;
	unsigned index;
	uint32_t value;
};

struct row {
	int call;
	struct condition condition;
};

/* Permitted with any arguments: they reach open descriptors, memory, and the process itself. */
static const int FREE_CALLS[] = {
	/* For files from the broker, and the capture. */
	SYS_read,
	SYS_pread64,
	SYS_lseek,
	SYS_fstat,
	SYS_close,
	/* Memory; mremap() cannot change the rights of a mapping. */
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_brk,
	/* The channel; the second one resumes a call that a stop has interrupted. */
	SYS_ppoll,
	SYS_restart_syscall,
#ifdef SYS_poll
	SYS_poll,
#endif
	/* Time, chance, and what the C library does on its own: abort(), qsort(). */
	SYS_clock_gettime,
	SYS_gettimeofday,
#ifdef SYS_time
	SYS_time,
#endif
	SYS_getrandom,
	SYS_sched_yield,
	SYS_sysinfo,
	SYS_getpid,
	SYS_gettid,
	SYS_rt_sigreturn,
	SYS_sigaltstack,
	SYS_exit,
	SYS_exit_group,
};

/* Tried in this order; a call that fits none is refused. */
static const struct row ROWS[] = {
	{ SYS_fcntl, { IS, 1, F_GETFD } },
	{ SYS_fcntl, { IS, 1, F_GETFL } },
	{ SYS_fcntl, { IS, 1, F_DUPFD_CLOEXEC } },
	/* Memory must never be executable; and a shared mapping could change a file. */
	{ SYS_mmap, { IS_PRIVATE_DATA, 0, 0 } },
	{ SYS_mprotect, { HAS_NONE_OF, 2, PROT_EXEC } },
	{ SYS_write, { IS_CHANNEL, 0, 0 } },
	{ SYS_sendmsg, { IS_CHANNEL, 0, 0 } },
	{ SYS_recvmsg, { IS_CHANNEL, 0, 0 } },
	{ SYS_sendto, { IS_CHANNEL, 0, 0 } },
	{ SYS_recvfrom, { IS_CHANNEL, 0, 0 } },
	/* Locks of libraries, and pthread_once(). */
	{ SYS_futex, { IS_FUTEX_CALL, 1, FUTEX_WAIT } },
	{ SYS_futex, { IS_FUTEX_CALL, 1, FUTEX_WAKE } },
	{ SYS_futex, { IS_FUTEX_CALL, 1, FUTEX_WAIT_BITSET } },
	{ SYS_tgkill, { IS_SELF, 0, 0 } },
#if SNAP_SANDBOX_REPORTS
	{ SYS_write, { IS, 0, STDERR_FILENO } },
#endif
};

struct program {
	struct sock_filter code[MAX_INSTRUCTIONS];
	unsigned short count;
};

static void emit(struct program *program, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
	assert(program->count < MAX_INSTRUCTIONS);
	program->code[program->count++] = (struct sock_filter){ code, yes, no, k };
}

static void emit_load(struct program *program, size_t offset)
{
	emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

/* Both architectures are little-endian: the low half of an argument comes first. */
static void emit_load_argument(struct program *program, unsigned index)
{
	emit_load(program, offsetof(struct seccomp_data, args) + index * sizeof(uint64_t));
}

static void emit_none_of(struct program *program, unsigned index, uint32_t bits)
{
	emit_load_argument(program, index);
	emit(program, BPF_JMP | BPF_JSET | BPF_K, UINT8_MAX, 0, bits);
}

/* Continues if the condition holds, else jumps to the end of the row, see end_row(). */
static void emit_condition(struct program *program, const struct condition *condition, int channel)
{
	uint32_t value = condition->value;

	switch (condition->what) {
	case IS_PRIVATE_DATA: /* of mmap() */
		emit_none_of(program, 2, PROT_EXEC);
		emit_none_of(program, 3, MAP_SHARED);
		return;
	case HAS_NONE_OF:
		emit_none_of(program, condition->index, value);
		return;
	case IS_FUTEX_CALL:
		emit_load_argument(program, condition->index);
		emit(program, BPF_ALU | BPF_AND | BPF_K, 0, 0, (uint32_t)FUTEX_CMD_MASK);
		emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, UINT8_MAX, value);
		return;
	case IS_CHANNEL:
		value = (uint32_t)channel;
		break;
	case IS_SELF:
		value = (uint32_t)getpid();
		break;
	case IS:
		break;
	}
	emit_load_argument(program, condition->index);
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, UINT8_MAX, value);
}

/* Sets the jumps of the row, now that its end is known. */
static void end_row(struct program *program, unsigned start)
{
	for (unsigned i = start; i < program->count; i++) {
		struct sock_filter *step = &program->code[i];

		if (step->jt == UINT8_MAX)
			step->jt = (uint8_t)(program->count - i - 1);
		if (step->jf == UINT8_MAX)
			step->jf = (uint8_t)(program->count - i - 1);
	}
}

static void emit_row(struct program *program, const struct row *row, int channel, uint32_t action)
{
	unsigned start = program->count;

	emit_load(program, offsetof(struct seccomp_data, nr));
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, UINT8_MAX, (uint32_t)row->call);
	emit_condition(program, &row->condition, channel);
	emit(program, BPF_RET | BPF_K, 0, 0, action);
	end_row(program, start);
}

/* The number of the call is loaded already. */
static void emit_free_call(struct program *program, int call)
{
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)call);
	emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

static_assert(SNAP_ARRAY_SIZE(FREE_CALLS) * 2 + SNAP_ARRAY_SIZE(ROWS) * INSTRUCTIONS_OF_A_ROW +
			      15 <=
		      MAX_INSTRUCTIONS,
	      "the filter has room for all rows");

struct stacksnap_error *snap_sandbox_limit_calls(int channel)
{
	static const struct row STAT = { SYS_newfstatat, { IS, 3, AT_EMPTY_PATH } };
	static const struct row MASK = { SYS_rt_sigprocmask, { HAS_NONE_OF, 0, 0 } };
	struct program program = { .count = 0 };
	struct sock_fprog filter = { .filter = program.code };

	emit_load(&program, offsetof(struct seccomp_data, arch));
	emit(&program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, OWN_ARCH);
	emit(&program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
	emit_load(&program, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(FREE_CALLS); i++)
		emit_free_call(&program, FREE_CALLS[i]);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(ROWS); i++)
		emit_row(&program, &ROWS[i], channel, SECCOMP_RET_ALLOW);
	emit_row(&program, &STAT, channel, SECCOMP_RET_TRAP);
	/*
	 * The call reports success and does nothing: with SIGSYS blocked, fstat() could not be
	 * answered.
	 */
	emit_row(&program, &MASK, channel, SECCOMP_RET_ERRNO);
	emit(&program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM);
	filter.len = program.count;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0)
		return snap_error_os(errno, "cannot limit system calls");
	return NULL;
}
