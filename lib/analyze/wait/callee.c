/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The functions that callers called, each return address once. A tail jump removes a function's
 * frame, and the function that it went to often has no name. But the call is in the caller's file,
 * and names the first function.
 */
#include "analyze/symbol/function.h"
#include "analyze/wait/futex.h"
#include "base/buffer.h"

#include <string.h>

enum {
	MOST_LOOKED_AT = 1 << 26, /* relocations; a large program has 100,000 */
	MOST_NAME = 256,
};

struct snap_wait_callee {
	size_t process;
	uint64_t return_address;
	const char *name; /* in scratch; NULL: not known */
};

void snap_wait_callees_deinit(struct snap_wait_analysis *waits)
{
	snap_hash_table_deinit(&waits->callees.table);
	free(waits->callees.list);
}

static struct stacksnap_error *look_up(struct snap_wait_analysis *waits,
				       const struct snap_waiter *waiter, uint64_t return_address,
				       const char **ret)
{
	struct snap_wait_callees *callees = &waits->callees;
	const char *name = NULL;
	size_t length = 0;

	*ret = NULL;
	if (waiter->raw->modules && callees->looked_at < MOST_LOOKED_AT)
		name = snap_function_called(waits->analysis->set, waiter->raw->modules,
					    return_address, &length, &callees->looked_at);
	if (!name)
		return NULL;
	if (length > MOST_NAME)
		length = MOST_NAME;
	*ret = snap_arena_strndup(&waits->analysis->scratch, name, length);
	return *ret ? NULL : snap_error_no_memory();
}

struct stacksnap_error *snap_wait_find_callee(struct snap_wait_analysis *waits,
					      const struct snap_waiter *waiter,
					      uint64_t return_address, const char **ret)
{
	struct snap_wait_callees *callees = &waits->callees;
	uint64_t hash = snap_hash_add(snap_hash_mix(waiter->process), return_address);
	struct snap_probe probe = snap_hash_table_probe(&callees->table, hash);

	while (snap_probe_next(&probe)) {
		const struct snap_wait_callee *known = &callees->list[probe.number];

		if (known->process == waiter->process && known->return_address == return_address) {
			*ret = known->name;
			return NULL;
		}
	}
	SNAP_TRY(look_up(waits, waiter, return_address, ret));
	if (!snap_reserve_array(callees->list, callees->capacity, callees->count + 1) ||
	    !snap_hash_table_add(&callees->table, hash, callees->count))
		return snap_error_no_memory();
	callees->list[callees->count++] =
		(struct snap_wait_callee){ waiter->process, return_address, *ret };
	return NULL;
}
