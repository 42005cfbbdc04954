/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Function: whether the name of the function at an address begins with a prefix, and which function
 * a call leads to. Both use the symbol tables of one file alone. For callers that ask about a few
 * addresses and need no other names.
 */
#pragma once

#include "analyze/elf/module.h"

/* `address` as it is looked up: before the end of a call. Opens the module. */
bool snap_function_begins(struct snap_module_set *set, struct snap_modules *modules,
			  uint64_t address, const char *prefix);

/*
 * The name of the function that the call before a return address leads to, if it goes through a
 * slot of the caller's file, directly or by a stub of its PLT: by the slot's relocation
 * (x86-64). It lies in the file's image, not terminated. `looked_at`: the relocations that were
 * looked at are added. NULL: there is no such call, or the slot has no name.
 */
const char *snap_function_called(struct snap_module_set *set, struct snap_modules *modules,
				 uint64_t return_address, size_t *length_ret, uint64_t *looked_at);
