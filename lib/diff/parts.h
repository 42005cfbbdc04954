/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of a diff, see diff.h; for the files of this folder only. Each compares one subject,
 * and knows nothing of the others; diff.c has their order. They return false if memory is short.
 */
#pragma once

#include "diff/diff.h"

/* The processes of a snapshot, a parent before its children; malloc'ed. */
struct snap_diff_nodes {
	const struct snap_node **nodes;
	size_t count, capacity;
};

/* Both looks, and what is made of them. */
struct snap_differ {
	struct snap_diff *diff;
	struct snap_diff_look before, after;
	struct snap_diff_nodes old_nodes, new_nodes;
};

/* Whether a recording is among the two: then small numbers are noise. */
static inline bool snap_differ_is_noisy(const struct snap_differ *differ)
{
	return differ->before.recording || differ->after.recording;
}

bool snap_diff_groups(struct snap_differ *differ) _must_check_;
bool snap_diff_processes(struct snap_differ *differ) _must_check_;
bool snap_diff_functions(struct snap_differ *differ) _must_check_;

/*
 * The threads that are stuck, malloc'ed. *blind_ret: how many are blocked in the same stack, but
 * nothing tells whether they ran.
 */
bool snap_diff_find_stuck(const struct snap_diff_nodes *before, const struct snap_diff_nodes *after,
			  struct snap_diff_stuck **ret, size_t *count_ret,
			  size_t *blind_ret) _must_check_;
