/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The identity of the process in the sandbox: a uid of its own, no groups, no capabilities.
 *
 * A process with the same uid could signal it. So each takes a number by time and pid, of the 2^31 that
 * no system gives to users, services or containers. A user namespace that maps fewer has those that
 * systemd gives to short-lived services (UIDS-GIDS.md): chance has 4,336 of them.
 *
 * Raw calls only: glibc's functions change every thread of the process, and a copy made without
 * fork() has no table of threads. If the kernel permits no change (a user namespace that maps less,
 * root without CAP_SETUID), the process keeps its uid, but has no capabilities.
 */
#include "roles/sandbox/internal.h"

#include "base/clock.h"
#include "base/table.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { LOW_UID = 61184, LOW_UIDS = 65520 - LOW_UID };

/* Whether a change of identity failed, and not because this process may not change. */
static bool is_refused(long result)
{
	return result < 0 && errno != EPERM && errno != EINVAL;
}

static struct stacksnap_error *take_identity(void)
{
	uint64_t chance =
		snap_hash_add((uint64_t)snap_clock_ns(CLOCK_MONOTONIC), (uint64_t)getpid());
	uid_t uid = (1u << 31) + (uid_t)(chance % INT32_MAX);
	int parent_signal = 0;
	pid_t parent = getppid();

	prctl(PR_GET_PDEATHSIG, &parent_signal, 0, 0, 0);
	if (syscall(SYS_setresgid, uid, uid, uid) < 0 && errno == EINVAL)
		uid = LOW_UID + (uid_t)(chance % LOW_UIDS);
	if (is_refused(syscall(SYS_setgroups, 0, NULL)) ||
	    is_refused(syscall(SYS_setresgid, uid, uid, uid)) ||
	    is_refused(syscall(SYS_setresuid, uid, uid, uid)))
		return snap_error_os(errno, "cannot become uid %u", uid);
	/* A change of uid clears the signal (prctl(2)); the parent may have gone meanwhile. */
	if (parent_signal && prctl(PR_SET_PDEATHSIG, parent_signal, 0, 0, 0) < 0)
		return snap_error_os(errno, "cannot end with the parent process");
	if (getppid() != parent)
		return snap_error_os(ESRCH, "cannot end with the parent process");
	return NULL;
}

/*
 * Empties the sets by which capabilities could come back. Older kernels lack some; no_new_privs
 * covers them.
 */
static void empty_lasting_sets(void)
{
	for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static struct stacksnap_error *drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (syscall(SYS_capset, &header, none) < 0)
		return snap_error_os(errno, "cannot drop capabilities");
	return NULL;
}

/* A run under setarch(8) may inherit READ_IMPLIES_EXEC: then readable memory is executable. */
static void make_readable_memory_plain(void)
{
	int now = personality(0xffffffff);

	if (now >= 0 && now & READ_IMPLIES_EXEC)
		personality((unsigned long)now & ~(unsigned long)READ_IMPLIES_EXEC);
}

struct stacksnap_error *snap_sandbox_drop_rights(void)
{
	struct stacksnap_error *err = NULL;

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return snap_error_os(errno, "cannot make the process non-dumpable");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return snap_error_os(errno, "cannot set no_new_privs");
	make_readable_memory_plain();
	empty_lasting_sets();
	if (geteuid() == 0)
		err = take_identity();
	err = err ?: drop_capabilities();
	/* Again: a change of uid has set it to the value of fs.suid_dumpable. */
	if (!err && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		err = snap_error_os(errno, "cannot make the process non-dumpable");
	return err;
}
