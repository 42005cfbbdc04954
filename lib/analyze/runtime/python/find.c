/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds CPython in a process: the mapped file that defines _PyRuntime, and its version.
 *
 * The program's own file proves nothing: it may be the loader, or any program that has Python built
 * in. The names of the mapped files decide which of them are opened. Knows nothing of the memory at
 * _PyRuntime.
 */
#include "analyze/runtime/python/python.h"
#include "analyze/runtime/symbol.h"

#include "analyze/elf/image.h"
#include "base/text.h"

#include <string.h>

enum {
	MOST_LOOKED_AT = 64, /* files without "python" in their names, of a process that has some */
	VERSION_MAJOR = 3,
};

/* "3.N" at the text; the minor version, 0: it is not one. */
static uint32_t minor_at(const char *text)
{
	uint32_t minor = 0;

	if (text[0] != '3' || text[1] != '.')
		return 0;
	for (text += 2; *text >= '0' && *text <= '9' && minor < 100; text++)
		minor = minor * 10 + (uint32_t)(*text - '0');
	return minor;
}

/* The minor version in a path that names python3.N somewhere; 0: none. */
static uint32_t minor_of_path(const char *path)
{
	const char *at = path;
	uint32_t minor = 0;

	while (minor == 0 && (at = strstr(at, "python"))) {
		at += strlen("python");
		minor = minor_at(at);
	}
	return minor;
}

/* Up to 3.10 nothing but names tells the version: of the file, else of modules beside it. */
static uint32_t minor_by_names(const struct snap_runtime_process *process,
			       const struct snap_module *module)
{
	const struct snap_process *target = process->process;
	uint32_t minor = minor_of_path(snap_base_name(module->path));

	for (size_t i = 0; i < target->map_count && minor == 0; i++)
		if (target->maps[i].path)
			minor = minor_of_path(target->maps[i].path);
	return minor;
}

/* Py_Version, a constant (3.11 on), stands in the file. */
static bool version_of_file(struct snap_python *python)
{
	uint64_t address = snap_runtime_symbol(python->process, python->module, "Py_Version");
	struct snap_bytes bytes;
	uint32_t version;

	if (!address)
		return false;
	bytes = snap_image_at(python->module->file->image, address - python->module->bias);
	if (bytes.size < sizeof(version))
		return false;
	memcpy(&version, bytes.data, sizeof(version));
	if (version >> 24 != VERSION_MAJOR)
		return false;
	python->version = version;
	python->has_micro = true;
	return true;
}

/*
 * A program with Python built in exports it, for modules in C: so .symtab, which is large, is read
 * only of files that have Python's name.
 */
static uint64_t runtime_in(const struct snap_runtime_process *process, struct snap_module *module,
			   bool is_called_so)
{
	uint64_t address = snap_runtime_exported(process, module, "_PyRuntime");

	if (!address)
		address = snap_runtime_symbol(process, module, ".PyRuntime");
	if (!address && is_called_so)
		address = snap_runtime_symbol(process, module, "_PyRuntime");
	return address;
}

static bool has_runtime(const struct snap_runtime_process *process, struct snap_module *module,
			bool is_called_so, struct snap_python *ret)
{
	uint64_t address = runtime_in(process, module, is_called_so);

	if (!address)
		return false;
	*ret = (struct snap_python){ .process = process, .module = module, .runtime = address };
	ret->code_type = snap_runtime_symbol(process, module, "PyCode_Type");
	ret->string_type = snap_runtime_symbol(process, module, "PyUnicode_Type");
	ret->int_type = snap_runtime_symbol(process, module, "PyLong_Type");
	if (!version_of_file(ret))
		ret->version = VERSION_MAJOR << 24 | minor_by_names(process, module) << 16;
	return true;
}

/* How likely a file has the interpreter: 0 first; 3: only if some other file speaks of Python. */
static unsigned rank_of(const struct snap_runtime_process *process,
			const struct snap_module *module)
{
	const char *name = snap_base_name(module->path), *exe = process->process->exe;

	if (snap_begins_with(name, "libpython"))
		return 0;
	if (snap_begins_with(name, "python"))
		return 1;
	return exe && strcmp(exe, module->path) == 0 ? 2 : 3;
}

static bool speaks_of_python(const struct snap_process *process)
{
	return snap_any(process->map_count, i,
			process->maps[i].path && strstr(process->maps[i].path, "python"));
}

bool snap_python_find(const struct snap_runtime_process *process, struct snap_python *ret)
{
	size_t count, looked_at = 0;
	struct snap_module *list = snap_modules_list(process->modules, &count);
	bool speaks = speaks_of_python(process->process);

	for (unsigned rank = 0; rank < 4; rank++) {
		for (size_t i = 0; i < count; i++) {
			if (list[i].kind != SNAP_MODULE_FILE ||
			    rank_of(process, &list[i]) != rank || !snap_runtime_has_code(&list[i]))
				continue;
			if (rank == 3 && (!speaks || strstr(list[i].path, "python") ||
					  looked_at++ >= MOST_LOOKED_AT))
				continue;
			if (has_runtime(process, &list[i], rank < 2, ret))
				return true;
		}
	}
	return false;
}

const char *snap_python_version(const struct snap_python *python)
{
	static const char *const levels[16] = { [0xa] = "a", [0xb] = "b", [0xc] = "rc" };
	uint32_t version = python->version;
	const char *level = levels[version >> 4 & 15];

	if (!python->has_micro)
		return snap_arena_printf(python->process->arena, "%u.%u", version >> 24,
					 version >> 16 & 255);
	if (level)
		return snap_arena_printf(python->process->arena, "%u.%u.%u%s%u", version >> 24,
					 version >> 16 & 255, version >> 8 & 255, level,
					 version & 15);
	return snap_arena_printf(python->process->arena, "%u.%u.%u", version >> 24,
				 version >> 16 & 255, version >> 8 & 255);
}
