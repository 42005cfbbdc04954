/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of PLT stubs: each instruction of each stub of real programs, linked in the ways that give
 * stubs of another form, against objdump of binutils.
 */
#include "skip.h"
#include "symbol_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_INSTRUCTIONS = 500, MAX_LINE = 512 };

struct stubs {
	struct snap_query queries[MAX_INSTRUCTIONS];
	char names[MAX_INSTRUCTIONS][128]; /* "": of no stub, as the code that resolves */
	size_t count;
};

/* What objdump says; its names are before their instructions: "0000000000001030 <puts@plt>:". */
static void disassemble(const char *path, struct stubs *ret)
{
	char command[4096], line[MAX_LINE], label[128] = "";
	FILE *pipe;

	*ret = (struct stubs){ 0 };
	snprintf(command, sizeof(command),
		 "LC_ALL=C objdump -d -j .plt -j .plt.sec -j .plt.got '%s' 2>/dev/null", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		size_t length;
		unsigned long at;
		char colon;

		if (sscanf(line, "%lx <%127[^>]>:", &at, label) == 2) {
			length = strlen(label);
			if (length < 4 || strcmp(label + length - 4, "@plt") != 0)
				label[0] = '\0';
			continue;
		}
		if (sscanf(line, " %lx%c", &at, &colon) != 2 || colon != ':')
			continue;
		assert_true(ret->count < MAX_INSTRUCTIONS);
		strcpy(ret->names[ret->count], label);
		ret->queries[ret->count++].vaddr = at;
	}
	pclose(pipe);
	for (size_t i = 1; i < ret->count; i++)
		assert_true(ret->queries[i].vaddr > ret->queries[i - 1].vaddr);
}

static bool has_name(const struct stubs *stubs, const char *name)
{
	for (size_t i = 0; i < stubs->count; i++)
		if (strcmp(stubs->names[i], name) == 0)
			return true;
	return false;
}

static void check(const char *path, const struct stubs *expected)
{
	struct stubs *stubs = malloc(sizeof(*stubs));
	struct symbol_file file;
	bool is_late;

	*stubs = *expected;
	assert_true(symbol_file_open(&file, path));
	assert_null(snap_symbolize(file.symbolizer, &file.module, stubs->queries, stubs->count,
				   INT64_MAX, &is_late));
	assert_false(is_late);
	assert_null(snap_symbolizer_trouble(file.symbolizer, &file.module));
	for (size_t i = 0; i < stubs->count; i++) {
		const struct snap_query *query = &stubs->queries[i];

		if (!stubs->names[i][0]) {
			assert_int_equal(query->entry_count, 0);
			continue;
		}
		assert_int_equal(query->entry_count, 1);
		assert_string_equal(query->entries[0].symbol, stubs->names[i]);
		assert_string_equal(query->entries[0].function, stubs->names[i]);
		assert_null(query->entries[0].file);
	}
	symbol_file_close(&file);
	free(stubs);
}

static bool has_tool(const char *command)
{
	return system(command) == 0;
}

static void test_against_objdump(void **state)
{
	static const char *const programs[] = { "PLT_LAZY", "PLT_NOW", "PLT_IBT", "PLT_STRIPPED" };
	static const char *const called[] = { "puts@plt", "strlen@plt", "getpid@plt" };
	struct stubs *stubs = malloc(sizeof(*stubs));

	(void)state;
	if (!has_tool("objdump --version >/dev/null 2>&1")) {
		free(stubs);
		skip_because("missing: objdump (package binutils)");
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(programs); i++) {
		const char *path = getenv(programs[i]);

		assert_non_null(path);
		disassemble(path, stubs);
		for (size_t k = 0; k < SNAP_ARRAY_SIZE(called); k++)
			assert_true(has_name(stubs, called[k]));
		check(path, stubs);
	}
	free(stubs);
}

static int make_folder(void **state)
{
	char *folder = strdup("/tmp/test-symbol-plt-XXXXXX");

	*state = folder;
	return folder && mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -r '%s'", (char *)*state);
	free(*state);
	return system(command);
}

/* Symbols in a separate file, which has no code: the stubs are those of the program. */
static void test_with_debug_file(void **state)
{
	static const char script[] = "cd '%s' && cp '%s' program && "
				     "objcopy --only-keep-debug program program.debug && "
				     "objcopy -S --add-gnu-debuglink=program.debug program";
	char command[4096], path[256], *folder = *state;
	struct stubs *stubs = malloc(sizeof(*stubs));

	if (!has_tool("objdump --version >/dev/null 2>&1") ||
	    !has_tool("objcopy --version >/dev/null 2>&1")) {
		free(stubs);
		skip_because("missing: objdump or objcopy (package binutils)");
	}
	snprintf(command, sizeof(command), script, folder, getenv("PLT_LAZY"));
	assert_int_equal(system(command), 0);
	disassemble(getenv("PLT_LAZY"), stubs);
	snprintf(path, sizeof(path), "%s/program", folder);
	check(path, stubs);
	free(stubs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_objdump),
		cmocka_unit_test_setup_teardown(test_with_debug_file, make_folder, remove_folder),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
