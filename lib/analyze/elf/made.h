/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Made code: code that no file holds, and ELF images in the memory of the process that describe it.
 *
 * Compilers register such images with gdb. Here they are pieces of the process, at addresses where no
 * file begins. They are object files mostly: the addresses of their sections are set, and nothing
 * else. Each is made a module when an address of its code is asked for, as if it were a file that
 * was loaded there. Every byte is hostile. Knows nothing of compilers, nor how images are found.
 */
#pragma once

#include "analyze/elf/module.h"

struct snap_made_code;

/* That of a process, in the set's arena; NULL in *ret: there is none. NO_MEMORY. */
struct stacksnap_error *snap_made_code_find(struct snap_module_set *set,
					    const struct snap_process *process,
					    struct snap_made_code **ret) _must_check_;

/* The module of the code at an address, opened; NULL: there is none that can be used. */
struct snap_module *snap_made_code_module(const struct snap_made_code *code, uint64_t address);
