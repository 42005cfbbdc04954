/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Function: whether the function at an address has a name that begins so, by the symbol tables of
 * its file alone. For who asks that of a few addresses and needs no names.
 */
#ifndef SNAP_ANALYZE_SYMBOL_FUNCTION_H
#define SNAP_ANALYZE_SYMBOL_FUNCTION_H

#include "analyze/elf/module.h"

/* `address` as it is looked up: before the end of a call. Opens the module. */
bool snap_function_begins(struct snap_module_set *set, struct snap_modules *modules,
			  uint64_t address, const char *prefix);

#endif
