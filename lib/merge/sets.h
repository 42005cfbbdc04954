/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sets of hosts: ranges of their numbers. Most groups are on all hosts or on one, which is one
 * range, however many hosts there are. Knows nothing of a host but its number.
 */
#pragma once

#include "model/merged/merged.h"

/* False without memory; one that is in it already changes nothing. */
bool snap_host_set_add(struct snap_host_set *set, uint32_t host) _must_check_;
size_t snap_host_set_size(const struct snap_host_set *set);
/*
 * The set with other numbers, sorted anew, in an arena: `numbers` has that of each host. `scratch`
 * has room for as many as there are. False without memory.
 */
bool snap_host_set_renumber(const struct snap_host_set *set, const uint32_t *numbers,
			    uint32_t *scratch, struct snap_arena *arena,
			    struct snap_host_set *ret) _must_check_;
