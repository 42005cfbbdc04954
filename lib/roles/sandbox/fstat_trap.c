/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fstat() in the sandbox: see internal.h. The handler runs where the call was made, in the sandbox,
 * with no more rights than that; only this file knows the registers of system calls.
 */
#include "roles/sandbox/internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* The register with a call's result, and that of its argument `index`. */
static long long *result_register(ucontext_t *context)
{
#if defined(__x86_64__)
	return &context->uc_mcontext.gregs[REG_RAX];
#elif defined(__aarch64__)
	return (long long *)&context->uc_mcontext.regs[0];
#else
#error "the sandbox needs to know the registers of this architecture"
#endif
}

static uintptr_t argument(const ucontext_t *context, unsigned index)
{
#if defined(__x86_64__)
	static const int registers[] = { REG_RDI, REG_RSI, REG_RDX };

	return (uintptr_t)context->uc_mcontext.gregs[registers[index]];
#elif defined(__aarch64__)
	return (uintptr_t)context->uc_mcontext.regs[index];
#endif
}

/* newfstatat(fd, "", status, AT_EMPTY_PATH): the filter has seen the flag, but not the path. */
static void answer_stat(int signal _unused_, siginfo_t *info _unused_, void *data)
{
	ucontext_t *context = data;
	const char *path = (const char *)argument(context, 1);
	int before = errno;
	long result = -1;

	errno = EPERM;
	if (path && *path == '\0')
		result = syscall(SYS_fstat, (int)argument(context, 0), argument(context, 2));
	if (result < 0)
		result = -errno;
	*result_register(context) = result;
	errno = before;
}

struct stacksnap_error *snap_sandbox_answer_stat(void)
{
	struct sigaction action = { .sa_sigaction = answer_stat, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGSYS, &action, NULL) < 0)
		return snap_error_os(errno, "cannot handle SIGSYS");
	return NULL;
}
