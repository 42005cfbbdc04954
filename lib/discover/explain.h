/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The rules by which the kernel refuses to let one process trace another, as a pure function.
 *
 * What is known of both sides goes in, the words for the rule that fits come out. The collecting
 * is done in snap_discover_explain(); tests ask about combinations that this machine does not have.
 */
#ifndef SNAP_DISCOVER_EXPLAIN_H
#define SNAP_DISCOVER_EXPLAIN_H

#include "proc/parse.h"

struct snap_refusal {
	struct snap_status own, target;
	const char *own_user, *target_user; /* NULL: no name, the number is used */
	uid_t file_owner;                   /* of the target's files in procfs; (uid_t)-1 unknown */
	int yama;                           /* kernel.yama.ptrace_scope; -1: not there */
	bool other_user_ns; /* the target lives in a user namespace that is not ours */
};

/* "kernel.yama.ptrace_scope is 1; run as root …": which rule, and what helps; capped at `size`. */
void snap_refusal_words(const struct snap_refusal *refusal, char *out, size_t size);

#endif
