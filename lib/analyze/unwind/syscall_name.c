/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of system calls by number: see arch.h. Those since Linux 5.1 have the same number on x86-64
 * and on all that use asm-generic/unistd.h; the older ones are in each processor's table.
 */
#include "analyze/unwind/arch.h"

enum { FIRST_COMMON = 424 };

// clang-format off
static const char *const common[] = {
	"pidfd_send_signal", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_open",
	"clone3", "close_range", "openat2", "pidfd_getfd", "faccessat2", "process_madvise",
	"epoll_pwait2", "mount_setattr", "quotactl_fd", "landlock_create_ruleset",
	"landlock_add_rule", "landlock_restrict_self", "memfd_secret", "process_mrelease",
	"futex_waitv", "set_mempolicy_home_node", "cachestat", "fchmodat2", "map_shadow_stack",
	"futex_wake", "futex_wait", "futex_requeue", "statmount", "listmount",
	"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal", "setxattrat",
	"getxattrat", "listxattrat", "removexattrat", "open_tree_attr", "file_getattr",
	"file_setattr",
};
// clang-format on

static const char *name_in(const char *const *names, size_t count, int number)
{
	return number >= 0 && (size_t)number < count ? names[number] : NULL;
}

const char *snap_arch_syscall_name(const struct snap_arch_ops *arch, int number)
{
	return number >= FIRST_COMMON
		       ? name_in(common, SNAP_ARRAY_SIZE(common), number - FIRST_COMMON)
		       : name_in(arch->syscall_names, arch->syscall_name_count, number);
}
