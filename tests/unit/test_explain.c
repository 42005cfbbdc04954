/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* explain: which rule is named, for situations that few machines have all of. */
#include "discover/explain.h"

#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define GET_RIGHT "run as root or with the capability CAP_SYS_PTRACE"

static const uint64_t ptrace_right = (uint64_t)1 << CAP_SYS_PTRACE;

static struct snap_status status_of(unsigned id)
{
	return (struct snap_status){
		.uid = id, .euid = id, .suid = id, .gid = id, .egid = id, .sgid = id
	};
}

/* Two processes of one user, and nothing that forbids anything. */
static struct snap_refusal refusal_of(unsigned own, unsigned target)
{
	return (struct snap_refusal){
		.own = status_of(own), .target = status_of(target), .file_owner = target, .yama = -1
	};
}

static void check(const struct snap_refusal *refusal, const char *expected)
{
	char words[512];

	snap_refusal_words(refusal, words, sizeof(words));
	assert_string_equal(words, expected);
}

static void test_users(void **state _unused_)
{
	struct snap_refusal refusal = refusal_of(1000, 1001);

	check(&refusal, "it belongs to user 1001, stacksnap runs as user 1000; " GET_RIGHT);
	refusal.target_user = "orders";
	refusal.own_user = "oncall";
	check(&refusal, "it belongs to user orders, stacksnap runs as user oncall; " GET_RIGHT);
	refusal = refusal_of(0, 1001);
	check(&refusal, "it belongs to user 1001, stacksnap runs as user 0; root lacks the "
			"capability CAP_SYS_PTRACE here; in a container add SYS_PTRACE");
	refusal = refusal_of(1000, 1000);
	refusal.target.euid = 0;
	check(&refusal, "it has changed its user ids (set-user-ID); " GET_RIGHT);
	refusal = refusal_of(1000, 1000);
	refusal.target.sgid = 42;
	check(&refusal, "its group ids differ from those of stacksnap; " GET_RIGHT);
}

static void test_rights(void **state _unused_)
{
	struct snap_refusal refusal = refusal_of(1000, 1000);

	refusal.file_owner = 0;
	check(&refusal,
	      "it is not dumpable, as programs with secrets or extra rights are; " GET_RIGHT);
	refusal = refusal_of(1000, 1000);
	refusal.target.permitted = 1 << CAP_NET_RAW;
	check(&refusal, "it has capabilities that stacksnap lacks; " GET_RIGHT);
	refusal.own.permitted = 1 << CAP_NET_RAW | 1 << CAP_NET_ADMIN;
	refusal.yama = 0;
	check(&refusal,
	      "a security module forbids it, as the kernel log may say, or another tracer "
	      "held it for a moment");
	refusal.own.seccomp = 2;
	check(&refusal, "the seccomp filter under which stacksnap runs, or a security module, "
			"forbids it; in a container add SYS_PTRACE");
}

static void test_yama(void **state _unused_)
{
	struct snap_refusal refusal = refusal_of(1000, 1000);

	refusal.yama = 1;
	check(&refusal, "kernel.yama.ptrace_scope is 1; " GET_RIGHT ", or set it to 0");
	refusal.yama = 2;
	check(&refusal, "kernel.yama.ptrace_scope is 2; " GET_RIGHT);
	refusal.yama = 3;
	check(&refusal, "kernel.yama.ptrace_scope is 3: tracing is disabled until a reboot "
			"with another setting");
	refusal.own.effective = ptrace_right;
	check(&refusal, "kernel.yama.ptrace_scope is 3: tracing is disabled until a reboot "
			"with another setting");
	/* With the right, the other settings forbid nothing: it must be something else. */
	refusal.yama = 2;
	check(&refusal,
	      "a security module forbids it, as the kernel log may say, or another tracer "
	      "held it for a moment");
	/* Another user's process would be refused without yama too. */
	refusal = refusal_of(1000, 1001);
	refusal.yama = 1;
	check(&refusal, "it belongs to user 1001, stacksnap runs as user 1000; " GET_RIGHT);
}

static void test_user_namespaces(void **state _unused_)
{
	struct snap_refusal refusal = refusal_of(1000, 1000);

	refusal.other_user_ns = true;
	check(&refusal, "it is in another user namespace; " GET_RIGHT);
	refusal.own.effective = ptrace_right;
	check(&refusal, "it is in a user namespace that is not a descendant of stacksnap's; run "
			"stacksnap in that namespace or in an ancestor of it");
}

static void test_words_are_cut(void **state _unused_)
{
	struct snap_refusal refusal = refusal_of(1000, 1001);
	char words[20], long_name[500];

	memset(long_name, 'u', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	refusal.target_user = long_name;
	snap_refusal_words(&refusal, words, sizeof(words));
	assert_string_equal(words, "it belongs to user ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_users),         cmocka_unit_test(test_rights),
		cmocka_unit_test(test_yama),          cmocka_unit_test(test_user_namespaces),
		cmocka_unit_test(test_words_are_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
