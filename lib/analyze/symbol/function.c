/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The function at an address: see function.h. */
#include "analyze/symbol/function.h"

#include "analyze/symbol/symbolizer.h"

#include <string.h>

bool snap_function_begins(struct snap_module_set *set, struct snap_modules *modules,
			  uint64_t address, const char *prefix)
{
	struct snap_module *module = snap_modules_find(modules, address);
	size_t length = strlen(prefix);
	struct snap_hit hit;

	if (!module || !snap_module_open(set, module))
		return false;
	hit = (struct snap_hit){ .vaddr = address - module->bias };
	snap_symtab_scan(NULL, module->file->image, true, &hit, 1);
	snap_symtab_scan(NULL, module->file->image, false, &hit, 1);
	return hit.symbol && hit.symbol_length >= length && memcmp(hit.symbol, prefix, length) == 0;
}
