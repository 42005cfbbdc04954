/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbols of the interpreter of a runtime, by name. Does not know what they mean.
 */
#pragma once

#include "analyze/runtime/runtime.h"

/* The address of a symbol that a module exports (.dynsym); 0: none. Opens the module. */
uint64_t snap_runtime_exported(const struct snap_runtime_process *process,
			       struct snap_module *module, const char *name);
/* The same, and of one that is in .symtab alone, which is large; or of a section, ".name". */
uint64_t snap_runtime_symbol(const struct snap_runtime_process *process, struct snap_module *module,
			     const char *name);

/*
 * Whether some of a file is mapped to be run. Files of data are not opened on the mere chance that
 * they were programs: that they are none would be a warning.
 */
bool snap_runtime_has_code(const struct snap_module *module);
