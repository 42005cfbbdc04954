/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Code that its compiler has registered with GDB's JIT interface (LLVM, LuaJIT, CPython): a list of
 * ELF files in the memory of the process ("JIT Compilation Interface" of gdb's manual). The list is
 * read while the process runs, so it may change meanwhile. Knows nothing of what is in the files:
 * analyze/elf/made.c has that.
 */
#include "analyze/elf/image.h"
#include "analyze/runtime/memory.h"
#include "analyze/runtime/symbol.h"
#include "base/text.h"

#include <string.h>

enum {
	VERSION = 1,
	MOST_ENTRIES = 4096, /* of a process, so that a ring of them ends */
	/* struct jit_descriptor, struct jit_code_entry */
	DESCRIPTOR_FIRST = 16,
	DESCRIPTOR = 24,
	ENTRY_NEXT = 0,
	ENTRY_ADDRESS = 16,
	ENTRY_SIZE = 24,
	ENTRY = 32,
};

static const char symbol[] = "__jit_debug_descriptor";

/* Of the libraries of the system, which are many, those alone that have a compiler. */
static bool may_compile(const struct snap_module *module)
{
	static const char *const names[] = { "LLVM", "jit", "julia", "mono", "python" };
	const char *path = module->path, *name = snap_base_name(path);

	if (!strstr(path, ".so") ||
	    !(snap_begins_with(path, "/usr/lib") || snap_begins_with(path, "/lib")))
		return true;
	return snap_any(SNAP_ARRAY_SIZE(names), i, strstr(name, names[i]));
}

/* Whether the strings of a symbol table have the name: a hundred times as fast as the symbols. */
static bool has_name(struct snap_image *image, bool dynamic)
{
	struct snap_bytes symbols, strings;

	return snap_image_symbols(image, dynamic, &symbols, &strings) &&
	       memmem(strings.data, strings.size, symbol, sizeof(symbol));
}

static uint64_t find_descriptor(const struct snap_runtime_process *process,
				struct snap_module *module)
{
	if (module->kind != SNAP_MODULE_FILE || !snap_runtime_has_code(module) ||
	    !may_compile(module) || !snap_module_open(process->set, module) ||
	    !(has_name(module->file->image, true) || has_name(module->file->image, false)))
		return 0;
	return snap_runtime_symbol(process, module, symbol);
}

static void list_images(const struct snap_runtime_process *process, uint64_t descriptor,
			unsigned *left)
{
	uint8_t bytes[ENTRY];
	uint64_t at;

	if (!snap_runtime_read(process, descriptor, bytes, DESCRIPTOR) ||
	    snap_runtime_field(bytes, 0, 4) != VERSION)
		return;
	for (at = snap_runtime_field(bytes, DESCRIPTOR_FIRST, 8); at && *left;
	     at = snap_runtime_field(bytes, ENTRY_NEXT, 8), --*left) {
		if (!snap_runtime_read(process, at, bytes, ENTRY))
			return;
		process->keep_memory(process->take_context,
				     snap_runtime_field(bytes, ENTRY_ADDRESS, 8),
				     snap_runtime_field(bytes, ENTRY_SIZE, 8));
	}
}

/* What it finds is in no plan: the images are read at once, and not in the stop. */
static struct stacksnap_error *probe_jit(const struct snap_runtime_process *process,
					 struct snap_memory_plan *plan _unused_,
					 bool *found_ret _unused_)
{
	unsigned left = MOST_ENTRIES;
	size_t count;
	struct snap_module *list = snap_modules_list(process->modules, &count);

	for (size_t i = 0; process->keep_memory && i < count && left; i++) {
		uint64_t descriptor = find_descriptor(process, &list[i]);

		if (descriptor)
			list_images(process, descriptor, &left);
	}
	return NULL;
}

static struct stacksnap_error *read_jit(const struct snap_runtime_process *process _unused_,
					struct snap_runtime_result **ret)
{
	*ret = NULL;
	return NULL;
}

const struct snap_runtime snap_runtime_jit = {
	.name = "jit",
	.kind = SNAP_RUNTIME_JIT,
	.probe = probe_jit,
	.read = read_jit,
};
