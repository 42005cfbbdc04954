/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The order of the sandbox's parts, and its limits: see sandbox.h. */
#include "roles/sandbox/internal.h"

#include "proc/procfs.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

static const uint64_t DATA_BYTES = 1ull << 30;

enum {
	/* A file is mapped and closed before the next one is requested: only a few are open. */
	DESCRIPTORS = 64,
	STACK_BYTES = 16 << 20,
};

/*
 * What counts for RLIMIT_DATA already: a program that uses the library may have gigabytes, and the
 * shadow of a sanitizer is terabytes of address space. 0 if procfs does not say.
 */
static uint64_t data_at_hand(void)
{
	unsigned long long pages = 0;
	struct snap_procfs procfs;
	char text[256];
	int directory;

	if (snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return 0;
	directory = snap_procfs_open_process(&procfs, snap_procfs_self(&procfs));
	snap_procfs_close(&procfs);
	if (directory < 0)
		return 0;
	if (snap_procfs_read(directory, "statm", text, sizeof(text)) <= 0 ||
	    sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
		pages = 0;
	close(directory);
	return pages * (unsigned long long)sysconf(_SC_PAGESIZE);
}

/* Sets both limits, and never raises one. */
static int lower(__rlimit_resource_t resource, rlim_t soft, rlim_t hard)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return -1;
	limit.rlim_max = SNAP_MIN(limit.rlim_max, hard);
	limit.rlim_cur = SNAP_MIN(limit.rlim_cur, soft);
	limit.rlim_cur = SNAP_MIN(limit.rlim_cur, limit.rlim_max);
	return setrlimit(resource, &limit);
}

static struct stacksnap_error *limit_resources(const struct snap_sandbox *sandbox, uint64_t data)
{
	rlim_t largest_file = SNAP_SANDBOX_REPORTS ? RLIM_INFINITY : 0;
	const struct {
		__rlimit_resource_t resource;
		rlim_t soft, hard;
	} limits[] = {
		{ RLIMIT_DATA, data, data },
		{ RLIMIT_STACK, STACK_BYTES, STACK_BYTES },
		{ RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS },
		{ RLIMIT_FSIZE, largest_file, largest_file },
		{ RLIMIT_CORE, 0, 0 },
		{ RLIMIT_NPROC, 0, 0 },
		{ RLIMIT_MEMLOCK, 0, 0 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(limits); i++)
		if (lower(limits[i].resource, limits[i].soft, limits[i].hard) < 0)
			return snap_error_os(errno, "cannot limit resource %d",
					     (int)limits[i].resource);
	if (sandbox->cpu_s && lower(RLIMIT_CPU, sandbox->cpu_s, sandbox->cpu_s + 1) < 0)
		return snap_error_os(errno, "cannot limit the processor time");
	return NULL;
}

/*
 * Unblocks the signals that the process sends itself: that of abort(), that of the soft limit of
 * its time, which says why it ended (the hard limit kills), and that of answer_stat(). A role
 * blocks all signals. The mask cannot change afterwards, see seccomp.c.
 */
static struct stacksnap_error *hear_own_signals(void)
{
	sigset_t own;

	sigemptyset(&own);
	sigaddset(&own, SIGABRT);
	sigaddset(&own, SIGXCPU);
	sigaddset(&own, SIGSYS);
	if (signal(SIGABRT, SIG_DFL) == SIG_ERR || signal(SIGXCPU, SIG_DFL) == SIG_ERR ||
	    sigprocmask(SIG_UNBLOCK, &own, NULL) < 0)
		return snap_error_os(errno, "cannot unblock signals");
	return NULL;
}

struct stacksnap_error *snap_sandbox_enter(const struct snap_sandbox *sandbox)
{
	uint64_t data = sandbox->data_bytes ? sandbox->data_bytes : DATA_BYTES;

	data += data_at_hand();
	SNAP_TRY(snap_sandbox_drop_rights());
	SNAP_TRY(limit_resources(sandbox, data));
	SNAP_TRY(snap_sandbox_close_files());
	SNAP_TRY(snap_sandbox_answer_stat());
	SNAP_TRY(hear_own_signals());
	return snap_sandbox_limit_calls(sandbox->channel);
}
