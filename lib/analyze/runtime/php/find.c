/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where PHP is in a process: the mapped file that exports executor_globals, its version, and what
 * depends on that. Names of files choose which of them are opened.
 */
#include "analyze/runtime/php/php.h"
#include "analyze/runtime/symbol.h"
#include "base/text.h"

#include <string.h>

static const char announcement[] = "X-Powered-By: PHP/";

struct layout_row {
	unsigned major, minor;
	uint32_t current, file_name, opcodes, last;
};

static const struct layout_row rows[] = {
	{ 7, 3, 488, 128, 64, 60 },  { 7, 4, 488, 136, 64, 60 },  { 8, 0, 488, 144, 72, 68 },
	{ 8, 1, 488, 144, 72, 68 },  { 8, 2, 488, 152, 88, 80 },  { 8, 3, 488, 144, 80, 76 },
	{ 8, 4, 488, 168, 104, 96 }, { 8, 5, 512, 168, 104, 96 },
};

/* "php8.2", "php-fpm", "libphp8.2.so", or the program itself, which may be called anything. */
static bool may_have_php(const struct snap_runtime_process *process,
			 const struct snap_module *module)
{
	const char *name = snap_base_name(module->path), *exe = process->process->exe;

	return snap_begins_with(name, "php") || snap_begins_with(name, "libphp") ||
	       strstr(name, "frankenphp") || (exe && strcmp(exe, module->path) == 0);
}

/* A number of a version at *at, which moves behind it and one dot. */
static unsigned read_number(const char **at)
{
	unsigned number = 0;

	for (; **at >= '0' && **at <= '9' && number < 1000; ++*at)
		number = number * 10 + (unsigned)(**at - '0');
	if (**at == '.')
		++*at;
	return number;
}

/* PHP names its version in a header of answers, a constant. */
static void find_version(struct snap_php *php)
{
	struct snap_bytes constants = snap_image_section(php->module->file->image, ".rodata");
	const char *found, *at, *end;

	if (!constants.data)
		return;
	found = memmem(constants.data, constants.size, announcement, sizeof(announcement) - 1);
	if (!found)
		return;
	found += sizeof(announcement) - 1;
	end = memchr(found, 0, constants.size - (size_t)(found - (const char *)constants.data));
	if (!end || end - found > 64)
		return;
	at = found;
	php->major = read_number(&at);
	php->minor = read_number(&at);
	php->version = snap_arena_strndup(php->process->arena, found, (size_t)(end - found));
}

bool snap_php_find(const struct snap_runtime_process *process, struct snap_php *ret)
{
	size_t count;
	struct snap_module *list = snap_modules_list(process->modules, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t executor, mark;

		if (list[i].kind != SNAP_MODULE_FILE || !may_have_php(process, &list[i]) ||
		    !snap_runtime_has_code(&list[i]))
			continue;
		executor = snap_runtime_exported(process, &list[i], "executor_globals");
		mark = executor ? executor
				: snap_runtime_exported(process, &list[i],
							"executor_globals_offset");
		if (!mark)
			continue;
		*ret = (struct snap_php){
			.process = process, .module = &list[i], .executor = executor, .mark = mark
		};
		ret->request = snap_runtime_exported(process, &list[i], "sapi_globals");
		find_version(ret);
		return true;
	}
	return false;
}

const char *snap_php_layout(struct snap_php *php)
{
	if (!php->executor)
		return "builds with threads are not understood";
	if (!php->version)
		return "its version is unknown";
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		if (rows[i].major != php->major || rows[i].minor != php->minor)
			continue;
		php->current = rows[i].current;
		php->file_name = rows[i].file_name;
		php->opcodes = rows[i].opcodes;
		php->last = rows[i].last;
		php->generator = php->major < 8 ? 8 : 0;
		return NULL;
	}
	return php->major > 8 || (php->major == 8 && php->minor > 5) ? "it is newer than 8.5"
								     : "it is older than 7.3";
}
