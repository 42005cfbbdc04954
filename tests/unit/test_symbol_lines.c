/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions, lines and inline chains of a real program, address by address: against addr2line of
 * binutils for one form of debug information, and all other forms against that one. The programs
 * are built from symbol_inlines.cc: the same code, whatever the form.
 */
#include "skip.h"
#include "symbol_file.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_QUERIES = 4000 };

/* The path of a program, by its name in the environment; NULL: it could not be built here. */
static const char *program(const char *name)
{
	const char *path = getenv(name);

	return path && *path && access(path, R_OK) == 0 ? path : NULL;
}

static int compare_queries(const void *a, const void *b)
{
	const struct snap_query *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Every third byte of every function that the program defines. */
static size_t collect(struct snap_image *image, struct snap_query *queries)
{
	struct snap_bytes symbols, strings;
	size_t count = 0, distinct = 0;

	assert_true(snap_image_symbols(image, false, &symbols, &strings));
	for (size_t i = 0; i < symbols.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;

		memcpy(&symbol, symbols.data + i * sizeof(symbol), sizeof(symbol));
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF)
			continue;
		for (uint64_t at = 0; at < symbol.st_size && count < MAX_QUERIES; at += 3)
			queries[count++].vaddr = symbol.st_value + at;
	}
	qsort(queries, count, sizeof(*queries), compare_queries);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || queries[i].vaddr != queries[i - 1].vaddr)
			queries[distinct++] = queries[i];
	return distinct;
}

struct answers {
	struct symbol_file file;
	struct snap_query queries[MAX_QUERIES];
	size_t count;
};

static void ask_all(struct answers *answers, int64_t most_ns, bool is_late)
{
	bool was_late;

	assert_null(snap_symbolize(answers->file.symbolizer, &answers->file.module,
				   answers->queries, answers->count, most_ns, &was_late));
	assert_int_equal(was_late, is_late);
}

static struct answers *ask(const char *path)
{
	struct answers *answers = calloc(1, sizeof(*answers));

	assert_true(symbol_file_open(&answers->file, path));
	answers->count = collect(answers->file.module.image, answers->queries);
	assert_true(answers->count > 500);
	ask_all(answers, INT64_MAX, false);
	assert_null(snap_symbolizer_trouble(answers->file.symbolizer, &answers->file.module));
	return answers;
}

static void forget(struct answers *answers)
{
	symbol_file_close(&answers->file);
	free(answers);
}

static size_t count_inlined(const struct answers *answers)
{
	size_t count = 0;

	for (size_t i = 0; i < answers->count; i++)
		count += answers->queries[i].entry_count > 1;
	return count;
}

/* One line of addr2line without its newline; false at the end. */
static bool read_line(FILE *pipe, char *line, size_t size)
{
	if (!fgets(line, (int)size, pipe))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return true;
}

/* "path:line (discriminator 3)"; an unknown line is "?" or 0. */
static unsigned long parse_place(char *line)
{
	char *colon = strrchr(line, ':');

	assert_non_null(colon);
	*colon = '\0';
	return strtoul(colon + 1, NULL, 10);
}

static bool is_alias(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return (*a == '1' || *a == '2') && (*b == '1' || *b == '2') && strcmp(a + 1, b + 1) == 0;
}

/*
 * addr2line takes the name of the innermost function from the symbol table when DWARF gives it no
 * linkage name, and the name of the outermost one without ".cold" and the like from DWARF.
 */
static void check_name(const struct snap_query *query, size_t index, const char *name)
{
	const struct snap_entry *entry = &query->entries[index];
	const struct snap_entry *last = &query->entries[query->entry_count - 1];
	const char *tail;

	assert_non_null(entry->symbol);
	if (strcmp(entry->symbol, name) == 0)
		return;
	if (index == 0 && (strcmp(last->symbol, name) == 0 || is_alias(last->symbol, name)))
		return;
	if (entry == last && strncmp(entry->symbol, name, strlen(name)) == 0 &&
	    entry->symbol[strlen(name)] == '.')
		return;
	/* We say where a name without linkage name belongs. */
	tail = strlen(entry->symbol) > strlen(name)
		       ? entry->symbol + strlen(entry->symbol) - strlen(name)
		       : "";
	if (strcmp(tail, name) == 0)
		return;
	/* Aliases: a constructor or destructor of a whole object and of a base class. */
	if (entry == last && is_alias(entry->symbol, name))
		return;
	fail_msg("0x%llx: %s, not %s", (unsigned long long)query->vaddr, entry->symbol, name);
}

static void check_entry(const struct snap_query *query, size_t index, const char *name, char *place)
{
	const struct snap_entry *entry;
	unsigned long line = parse_place(place);

	if (query->entry_count == 0) {
		assert_string_equal(place, "??");
		return;
	}
	if (index >= query->entry_count)
		fail_msg("0x%llx: only %zu functions, not also %s",
			 (unsigned long long)query->vaddr, query->entry_count, name);
	entry = &query->entries[index];
	if (strcmp(name, "??") != 0)
		check_name(query, index, name);
	if (entry->line != line)
		fail_msg("0x%llx, %s: line %u, not %lu", (unsigned long long)query->vaddr, name,
			 entry->line, line);
	if (line && strcmp(entry->file, place) != 0)
		fail_msg("0x%llx, %s: %s, not %s", (unsigned long long)query->vaddr, name,
			 entry->file, place);
}

static FILE *start_addr2line(const struct answers *answers, const char *path, char *questions)
{
	char command[8192];
	FILE *file = fdopen(mkstemp(questions), "w");

	assert_non_null(file);
	for (size_t i = 0; i < answers->count; i++)
		fprintf(file, "0x%llx\n", (unsigned long long)answers->queries[i].vaddr);
	fclose(file);
	snprintf(command, sizeof(command), "LC_ALL=C addr2line -a -i -f -e '%s' <%s", path,
		 questions);
	return popen(command, "r");
}

/* addr2line -a: the address on a line, then two lines a function, the innermost first. */
static void compare_with_addr2line(const struct answers *answers, const char *path)
{
	char questions[] = "/tmp/stacksnap-test-XXXXXX", name[8192], place[8192];
	FILE *pipe = start_addr2line(answers, path, questions);
	const struct snap_query *query = NULL;
	size_t index = 0, addresses = 0;

	assert_non_null(pipe);
	while (read_line(pipe, name, sizeof(name))) {
		if (strncmp(name, "0x", 2) == 0) {
			if (query)
				assert_true(index >= query->entry_count);
			query = &answers->queries[addresses++];
			assert_int_equal(strtoull(name, NULL, 16), query->vaddr);
			index = 0;
			continue;
		}
		assert_non_null(query);
		assert_true(read_line(pipe, place, sizeof(place)));
		check_entry(query, index++, name, place);
	}
	assert_int_equal(pclose(pipe), 0);
	assert_int_equal(addresses, answers->count);
	unlink(questions);
}

static void test_against_addr2line(void **state)
{
	const char *path = program("SYMBOL_DWARF4");
	struct answers *answers;

	(void)state;
	if (!path || system("addr2line --version >/dev/null 2>&1") != 0)
		skip_because("missing: the program, or addr2line (package binutils)");
	answers = ask(path);
	assert_true(count_inlined(answers) > 300);
	compare_with_addr2line(answers, path);
	forget(answers);
}

static const char *text(const char *string)
{
	return string ? string : "";
}

static void compare_answers(const struct answers *a, const struct answers *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct snap_query *x = &a->queries[i], *y = &b->queries[i];

		assert_int_equal(x->vaddr, y->vaddr);
		assert_int_equal(x->entry_count, y->entry_count);
		for (size_t k = 0; k < x->entry_count; k++) {
			const struct snap_entry *p = &x->entries[k], *q = &y->entries[k];

			assert_string_equal(text(p->symbol), text(q->symbol));
			assert_string_equal(text(p->function), text(q->function));
			assert_string_equal(text(p->file), text(q->file));
			assert_int_equal(p->line, q->line);
			assert_int_equal(p->column, q->column);
			assert_int_equal(p->inlined, q->inlined);
		}
	}
}

static void test_all_forms_agree(void **state)
{
	static const char *const forms[] = { "SYMBOL_DWARF5", "SYMBOL_COMPRESSED", "SYMBOL_DWARF64",
					     "SYMBOL_DWZ", "SYMBOL_SPLIT" };
	const char *path = program("SYMBOL_DWARF4");
	struct answers *reference;

	(void)state;
	if (!path)
		skip_because("missing: the program of this form");
	reference = ask(path);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(forms); i++) {
		struct answers *answers;

		path = program(forms[i]);
		if (!path)
			continue;
		print_message("# %s\n", forms[i]);
		answers = ask(path);
		compare_answers(reference, answers);
		forget(answers);
	}
	forget(reference);
}

/* Another compiler: no .debug_aranges, no DW_AT_sibling, other code. */
static void test_clang(void **state)
{
	const char *path = program("SYMBOL_CLANG");
	struct answers *answers;

	(void)state;
	if (!path || system("addr2line --version >/dev/null 2>&1") != 0)
		skip_because("missing: the program, or addr2line (package binutils)");
	answers = ask(path);
	assert_true(count_inlined(answers) > 300);
	compare_with_addr2line(answers, path);
	forget(answers);
}

static void test_names_only(void **state)
{
	const char *path = program("SYMBOL_DWARF5");
	struct answers *answers = calloc(1, sizeof(*answers));

	(void)state;
	if (!path)
		skip_because("missing: the program of this form");
	assert_true(symbol_file_open(&answers->file, path));
	answers->file.options.lines = answers->file.options.inlines = false;
	answers->count = collect(answers->file.module.image, answers->queries);
	ask_all(answers, INT64_MAX, false);
	for (size_t i = 0; i < answers->count; i++) {
		assert_int_equal(answers->queries[i].entry_count, 1);
		assert_non_null(answers->queries[i].entries[0].symbol);
		assert_null(answers->queries[i].entries[0].file);
	}
	forget(answers);
}

static size_t count_lines(const struct answers *answers)
{
	size_t lines = 0;

	for (size_t i = 0; i < answers->count; i++)
		lines +=
			answers->queries[i].entry_count && answers->queries[i].entries[0].line != 0;
	return lines;
}

/* A file that takes too long is asked again when others have had their turn. */
static void test_late_file(void **state _unused_)
{
	const char *path = program("SYMBOL_DWARF5");
	struct answers *answers = calloc(1, sizeof(*answers));

	if (!path)
		skip_because("missing: the program of this form");
	assert_true(symbol_file_open(&answers->file, path));
	answers->count = collect(answers->file.module.image, answers->queries);
	ask_all(answers, -1, true);
	assert_int_equal(count_lines(answers), 0);
	assert_null(snap_symbolizer_trouble(answers->file.symbolizer, &answers->file.module));
	ask_all(answers, INT64_MAX, false);
	assert_true(count_lines(answers) > answers->count / 2);
	forget(answers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_addr2line),
		cmocka_unit_test(test_all_forms_agree),
		cmocka_unit_test(test_clang),
		cmocka_unit_test(test_names_only),
		cmocka_unit_test(test_late_file),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
