/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of options: it agrees with the library, with the manual pages and with itself.
 */
#include "../../cli/options.h"
#include "base/cleanup.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct snap_cli_option *find(const char *name, size_t length)
{
	const struct snap_cli_option *option = snap_cli_options;

	while (option->name &&
	       (strlen(option->name) != length || memcmp(option->name, name, length) != 0))
		option++;
	return option->name ? option : NULL;
}

static void test_rows_make_sense(void **state _unused_)
{
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++) {
		assert_ptr_equal(find(option->name, strlen(option->name)), option);
		for (const struct snap_cli_option *other = snap_cli_options; other < option;
		     other++)
			assert_true(!option->letter || option->letter != other->letter);
		assert_true(option->commands != 0);
		assert_int_equal(option->argument != NULL, option->value != SNAP_CLI_VALUE_NONE);
		assert_int_equal(snap_cli_option_word(option, 0) != NULL,
				 option->value == SNAP_CLI_VALUE_WORD ||
					 option->value == SNAP_CLI_VALUE_WORDS ||
					 option->value == SNAP_CLI_VALUE_FORMAT);
		if (option->help)
			assert_in_range(strlen(option->help), 5, 54);
		assert_true(option->group < SNAP_CLI_GROUP_COUNT);
		assert_true(*snap_cli_group_title(option->group));
	}
}

/* Every option that is not the tool's own is the library's, and both agree on the argument. */
static void test_library_knows_them(void **state _unused_)
{
	struct stacksnap_options *options = NULL;
	struct stacksnap_error *err;

	assert_null(stacksnap_options_create(&options));
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++) {
		if (option->local)
			continue;
		err = stacksnap_options_set(options, option->name, option->argument ? NULL : "x");
		assert_non_null(err);
		assert_int_equal(stacksnap_error_code(err), STACKSNAP_ERROR_INVALID);
		assert_non_null(strstr(stacksnap_error_message(err),
				       option->argument ? "needs a value" : "takes no value"));
		stacksnap_error_destroy(err);
	}
	stacksnap_options_destroy(options);
}

/* The words that completions offer are words that the library takes. */
static void test_words_are_taken(void **state _unused_)
{
	struct stacksnap_options *options = NULL;

	assert_null(stacksnap_options_create(&options));
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++) {
		const char *word;

		for (size_t i = 0; !option->local && (word = snap_cli_option_word(option, i)); i++)
			assert_null(stacksnap_options_set(options, option->name, word));
	}
	assert_null(stacksnap_options_value("no such option", 0));
	assert_null(stacksnap_options_value("group-by", 10));
	assert_string_equal(stacksnap_options_value("group-by", 8), "wait");
	stacksnap_options_destroy(options);
}

/* The manual pages of the commands: each option has its paragraph in one of them. */
static const char *const pages[] = { "stacksnap.1",      "stacksnap-record.1", "stacksnap-watch.1",
				     "stacksnap-diff.1", "stacksnap-serve.1",  "stacksnap-top.1" };

enum { PAGES = sizeof(pages) / sizeof(pages[0]) };

static char *read_page(const char *name)
{
	const char *source = getenv("STACKSNAP_SOURCE");
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	char *text = NULL;
	size_t size = 0;

	assert_non_null(source);
	assert_true(asprintf(&path, "%s/man/%s.scd", source, name) > 0);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(getdelim(&text, &size, '\0', file) > 0);
	return text;
}

/* "*-p*, *--pid* _PID_", as a paragraph's title is. */
static void format_title(const struct snap_cli_option *option, char *line, size_t size)
{
	int n = 0;

	if (option->letter)
		n = snprintf(line, size, "\n*-%c*, *--%s*", option->letter, option->name);
	else
		n = snprintf(line, size, "\n*--%s*", option->name);
	if (option->value == SNAP_CLI_VALUE_OPTIONAL)
		snprintf(line + n, size - (size_t)n, "[=_%s_]\n", option->argument);
	else if (option->argument)
		snprintf(line + n, size - (size_t)n, " _%s_\n", option->argument);
	else
		snprintf(line + n, size - (size_t)n, "\n");
}

static size_t count_in(const char *text, const char *line)
{
	size_t found = 0;

	while ((text = strstr(text, line))) {
		found++;
		text += strlen(line) - 1;
	}
	return found;
}

static void test_each_option_has_one_paragraph(void **state _unused_)
{
	for (const struct snap_cli_option *option = snap_cli_options; option->name; option++) {
		char line[128];
		size_t found = 0;

		format_title(option, line, sizeof(line));
		for (size_t i = 0; i < PAGES; i++) {
			_cleanup_free_ char *page = read_page(pages[i]);

			found += count_in(page, line);
		}
		if (found != 1)
			fail_msg("%zu paragraphs in the manual for %s", found, line);
	}
}

/* In bold, or in the line of a command of ours; the sample's services have options too. */
static bool is_ours(const char *page, const char *dashes)
{
	const char *line = dashes, *command;

	if (dashes > page && dashes[-1] == '*')
		return true;
	while (line > page && line[-1] != '\n')
		line--;
	command = strstr(line, "stacksnap ");
	return command && command < dashes && dashes[-1] == ' ';
}

static size_t check_options_of(const char *page)
{
	size_t found = 0;

	for (const char *c = page; (c = strstr(c, "--")); c++) {
		size_t length = 0;

		if (!is_ours(page, c) || !islower(c[2]))
			continue;
		while (islower(c[2 + length]) || c[2 + length] == '-')
			length++;
		if (!find(c + 2, length))
			fail_msg("not an option: --%.*s", (int)length, c + 2);
		found++;
	}
	return found;
}

static void test_manual_has_no_others(void **state _unused_)
{
	size_t found = 0;

	for (size_t i = 0; i < PAGES; i++) {
		_cleanup_free_ char *page = read_page(pages[i]);

		found += check_options_of(page);
	}
	assert_in_range(found, 100, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_make_sense),
		cmocka_unit_test(test_library_knows_them),
		cmocka_unit_test(test_words_are_taken),
		cmocka_unit_test(test_each_option_has_one_paragraph),
		cmocka_unit_test(test_manual_has_no_others),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
