/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The inside of modules, shared by module.c (maps -> runs) and module_set.c (files, opened and
 * checked). Nobody else includes it.
 */
#ifndef SNAP_ANALYZE_ELF_MODULE_INTERNAL_H
#define SNAP_ANALYZE_ELF_MODULE_INTERNAL_H

#include "analyze/elf/module.h"

struct snap_arena *snap_module_set_arena(struct snap_module_set *set);

/* Finds the module's file among those of the set, or adds it. Fills module->file. */
struct snap_error *snap_module_set_add(struct snap_module_set *set,
				       const struct snap_process *process,
				       struct snap_module *module) _must_check_;

/* Opens and checks the file on first use; false: there is none, file->trouble says why. */
bool snap_module_file_open(struct snap_module_set *set, struct snap_module_file *file);

/* The captured piece that holds an address, NULL if none. */
const struct snap_piece *snap_process_piece(const struct snap_process *process, uint64_t address);
/* The first page of the file at map index `map` as it lies in memory, NULL if not captured. */
const struct snap_piece *snap_process_head(const struct snap_process *process, size_t map);

#endif
