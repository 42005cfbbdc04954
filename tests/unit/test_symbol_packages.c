/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which package of apt's lists has the debug symbols of a build id. */
#include "../../cli/symbol_packages.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ID_A "00112233445566778899aabbccddeeff00112233"
#define ID_B "ff112233445566778899aabbccddeeff00112233"
#define ID_C "cc112233445566778899aabbccddeeff00112233"

static char folder[] = "/tmp/stacksnap-lists-XXXXXX";

static void write_list(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void remove_list(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(unlink(path), 0);
}

static void expect(const char *id, const char *package)
{
	struct snap_cli_symbol_packages packages = { .folder = folder };
	const char *found = snap_cli_find_symbol_package(&packages, id);

	if (package) {
		assert_non_null(found);
		assert_string_equal(found, package);
	} else {
		assert_null(found);
	}
}

static void test_lists(void **state _unused_)
{
	write_list("a_Packages", "Package: one\nVersion: 1\nDescription: " ID_C "\n\n");
	write_list("b_debug_Packages", "Package: one-dbgsym\nVersion: 1\nBuild-Ids: " ID_A "\n\n"
				       "Package: two-dbgsym\nAuto-Built-Package: debug-symbols\n"
				       "Build-Ids: 1234 " ID_B "\nPriority: optional\n");
	write_list("c_Packages.lz4", "Package: packed\nBuild-Ids: " ID_C "\n");
	expect(ID_A, "one-dbgsym");
	expect(ID_B, "two-dbgsym");
	expect(ID_C, NULL);
	expect("1234", NULL); /* too short to be told from other words */
	expect("", NULL);
	remove_list("a_Packages");
	remove_list("b_debug_Packages");
	remove_list("c_Packages.lz4");
}

/* What is no list of apt is passed over. */
static void test_odd_lists(void **state _unused_)
{
	static const char *const texts[] = {
		"",
		"\n",
		"Build-Ids: " ID_A "\n",
		"\nBuild-Ids: " ID_A "\n",
		"Package: \nBuild-Ids: " ID_A "\n",
		"Package: cut\nBuild-Ids: " ID_A,
		ID_A,
		"Packag",
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(texts); i++) {
		write_list("a_Packages", texts[i]);
		expect(ID_A, i == 5 ? "cut" : NULL);
	}
	remove_list("a_Packages");
}

static void test_no_lists(void **state _unused_)
{
	struct snap_cli_symbol_packages packages = { .folder = "/nonexistent" };

	assert_null(snap_cli_find_symbol_package(&packages, ID_A));
}

static int make_folder(void **state _unused_)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state _unused_)
{
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_odd_lists),
		cmocka_unit_test(test_no_lists),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
