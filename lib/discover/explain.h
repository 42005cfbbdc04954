/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Explain: the rules by which the kernel refuses to let one process trace another, as a pure
 * function.
 *
 * Its input are facts of both sides, its result is the text for the rule that fits.
 * snap_discover_explain() collects the facts; tests try combinations that this machine does not
 * have. Knows no process.
 */
#pragma once

#include "proc/parse.h"

struct snap_refusal {
	struct snap_status own, target;
	const char *own_user, *target_user; /* NULL: no name, the number is used */
	uid_t file_owner;                   /* of the target's files in procfs; (uid_t)-1 unknown */
	int yama;                           /* kernel.yama.ptrace_scope; -1: none */
	bool other_user_ns;                 /* the target is in another user namespace */
};

/* "kernel.yama.ptrace_scope is 1; run as root …": the rule, and the remedy; cut at `size`. */
void snap_refusal_words(const struct snap_refusal *refusal, char *out, size_t size);
