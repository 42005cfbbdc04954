/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logical processes that look alike are shown as one: siblings without children whose name, type,
 * labels and stacks are the same, as requests that wait for the same thing. Knows nothing of lines.
 */
#pragma once

#include "model/options.h"
#include "model/snapshot.h"

/* One, or several that look alike. */
struct snap_alike {
	struct snap_logical logical; /* of the first one, but for counts and tasks */
	const char **ids;
	size_t id_count;
};

struct snap_alikes {
	struct snap_alike *items;
	size_t count;
	/* what the items point into */
	struct snap_stack *stacks;
	struct snap_task *tasks;
	const char **ids;
};

/* Those of a process, in their order; with -v and --no-fold each by itself. False without memory. */
bool snap_alikes_init(struct snap_alikes *alikes, const struct snap_node *node,
		      const struct snap_options *options) _must_check_;
void snap_alikes_deinit(struct snap_alikes *alikes);
