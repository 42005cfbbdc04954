/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names: demangled for people, hostile ones bounded; perf maps, honest and otherwise. */
#include "analyze/symbol/symbolizer.h"
#include "symbol_file.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static int setup(void **state)
{
	struct symbol_file *file = calloc(1, sizeof(*file));

	symbol_file_open(file, "/dev/null");
	*state = file;
	return 0;
}

static int teardown(void **state)
{
	symbol_file_close(*state);
	free(*state);
	return 0;
}

static const char *shown(void **state, const char *symbol)
{
	struct symbol_file *file = *state;

	return snap_symbolizer_demangle(file->symbolizer, symbol);
}

static void test_languages(void **state)
{
	static const char *const names[][2] = {
		{ "main", "main" },
		{ "_ZN4shop4Cart5totalEv", "shop::Cart::total()" },
		{ "_ZNSt6vectorIiSaIiEED4Ev", "std::vector<int, std::allocator<int> >::~vector()" },
		{ "_Z3fooi.constprop.0", "foo(int) [clone .constprop.0]" },
		{ "_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work()" },
		{ "_ZN3foo3bar17h05af221e174051e9E", "foo::bar" },
		{ "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.123456",
		  "core::fmt::Write::write_fmt" },
		{ "_RNvNtCs70dfecee1d3fc581_7mycrate3foo3bar", "mycrate::foo::bar" },
		{ "_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeNtNtCslNYArtu3iFV_5alloc6string6"
		  "StringECs4X4t9plMPHF_9addr2line",
		  "core::ptr::drop_in_place::<alloc::string::String>" },
		{ "_D3std5stdio7writelnFAyaZv", "std.stdio.writeln(immutable(char)[])" },
		{ "_D1t__T1STiZQf__T1fTlZQfMFNaNbNiNflZi", "t.S!(int).S.f!(long).f(long)" },
		{ "_Z", "_Z" },
		{ "_R", "_R" },
		{ "_D", "_D" },
		{ "", "" },
		{ "_ZN9not_whole", "_ZN9not_whole" },
		{ "foo.cold", "foo.cold" },
		{ "puts@plt", "puts@plt" },
		{ "_ZN4shop4Cart5totalEv@plt", "shop::Cart::total()@plt" },
		{ "_ZN3foo3bar17h05af221e174051e9E@plt", "foo::bar@plt" },
		{ "_Z1fv@plt@plt", "_Z1fv@plt@plt" },
		{ "@plt", "@plt" },
		{ "__journeys_MOD_rest", "journeys::rest" },
		{ "__MOD_rest", "__MOD_rest" },
		{ "__journeys_MOD_", "__journeys_MOD_" },
		{ "_ada_travel", "travel" },
		{ "system__tasking__stages__task_wrapper", "system.tasking.stages.task_wrapper" },
		{ "ada__text_io__put_line__2", "ada.text_io.put_line" },
		{ "system__Nothing", "system__Nothing" },
		{ "not_ada__rest", "not_ada__rest" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++)
		assert_string_equal(shown(state, names[i][0]), names[i][1]);
	/* Equal text, equal pointer. */
	assert_ptr_equal(shown(state, "_Z3foov"), shown(state, "_Z3foov"));
}

/* The demangler of Rust passes on an empty piece as NULL, which memcpy() may not be given. */
static void test_empty_pieces(void **state)
{
	static const char name[] = "_RINvNtC0std1emm8aliggn_oftNNtC3std3Die2m1msciminantE";

	assert_non_null(shown(state, name));
}

/* Each template argument is a pair of the one before: 2^18 times the first in the end. */
static void test_expansion_is_cut(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[1024] = "_Z1fISt4pairIiiE";
	const char *result;

	for (int i = 0; i < 17; i++) {
		char part[32];

		snprintf(part, sizeof(part), "St4pairIS%c_S%c_E", digits[2 * i + 1],
			 digits[2 * i + 1]);
		strcat(name, part);
	}
	strcat(name, "Evv");
	result = shown(state, name);
	assert_true(strlen(result) < SNAP_MAX_NAME);
	assert_string_equal(result + strlen(result) - 3, "...");
}

static void test_long_names(void **state)
{
	char name[16384] = "_Z1fI";
	const char *result;

	for (int i = 0; i < 40; i++)
		strcat(name, "50aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeX");
	strcat(name, "Evv");
	assert_true(strlen(name) > 2000);
	assert_int_equal(strncmp(shown(state, name), "void f<", 7), 0);
	/* Of a longer one the beginning and the end, where the function is. */
	strcpy(name, "_ZN5outerI");
	while (strlen(name) < 9000)
		strcat(name, "50aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeX");
	strcat(name, "E5visitEv");
	result = shown(state, name);
	assert_in_range(strlen(result), 4000, SNAP_MAX_NAME - 1);
	assert_int_equal(strncmp(result, "outer<aaaa", 10), 0);
	assert_string_equal(result + strlen(result) - 14, "eeeX>::visit()");
	assert_non_null(strstr(result, "..."));
	strcat(name, "@plt");
	result = shown(state, name);
	assert_string_equal(result + strlen(result) - 11, "visit()@plt");
	/* Beyond 10 KiB a name is shown as it is, cut. */
	strcpy(name, "_Z1fI");
	while (strlen(name) < 11000)
		strcat(name, "50aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeX");
	result = shown(state, name);
	assert_int_equal(strlen(result), SNAP_MAX_NAME - 1);
	assert_int_equal(strncmp(result, name, strlen(result)), 0);
	/* Deep ones need no deep stack. */
	strcpy(name, "_Z1f");
	while (strlen(name) < 4000)
		strcat(name, "P");
	strcat(name, "i");
	assert_non_null(shown(state, name));
}

static char name_is_lost[] = "a name is lost";

static void *show_nested_names(void *state)
{
	static const char *const nests[] = { "_Z1fP",    "_Z1fF",    "_ZZ",
					     "_Z1fDpT_", "_Z1fIXng", "_Z1fM" };
	char name[SNAP_MAX_MANGLED + 1];

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(nests); i++) {
		size_t length = strlen(nests[i]), repeated = nests[i][2] == 'Z' ? 1 : length - 4;

		memcpy(name, nests[i], length);
		while (length < SNAP_MAX_MANGLED) {
			name[length] = name[length - repeated];
			length++;
		}
		name[length] = '\0';
		if (!shown(state, name))
			return name_is_lost;
	}
	return NULL;
}

/* The deepest nest of the longest name: 2.2 MiB of stack, where a program has 8. */
static void test_stack_of_nested_names(void **state)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *lost;

	assert_int_equal(pthread_attr_init(&attributes), 0);
	assert_int_equal(pthread_attr_setstacksize(&attributes, 3 << 20), 0);
	assert_int_equal(pthread_create(&thread, &attributes, show_nested_names, state), 0);
	assert_int_equal(pthread_join(thread, &lost), 0);
	assert_null(lost);
	pthread_attr_destroy(&attributes);
}

/* D names that refer back and forth would make its demangler allocate without end. */
static void test_d_references_are_bounded(void **state)
{
	char name[1100] = "_D1a";

	while (strlen(name) < 1000)
		strcat(name, "Qb");
	assert_string_equal(shown(state, name), name);
}

static int map_fd;

static struct stacksnap_error *find_map(void *context, const struct snap_file_request *request,
					int *fd_ret)
{
	(void)context;
	assert_int_equal(request->kind, SNAP_FILE_PERF_MAP);
	*fd_ret = dup(map_fd);
	lseek(*fd_ret, 0, SEEK_SET);
	return NULL;
}

static void ask_map(void **state, const char *text, size_t size, struct snap_query *queries,
		    size_t count)
{
	struct symbol_file *file = *state;
	const char *trouble;

	map_fd = memfd_create("map", MFD_CLOEXEC);
	assert_int_equal(write(map_fd, text, size), size);
	file->finder = (struct snap_file_finder){ .find = find_map };
	assert_null(snap_symbolize_perf_map(file->symbolizer, &file->process, queries, count,
					    &trouble));
	assert_null(trouble);
	close(map_fd);
}

static const char *name_of(const struct snap_query *query)
{
	return query->entry_count ? query->entries[0].function : NULL;
}

static void test_perf_map(void **state)
{
	static const char map[] = "1000 100 first\n"
				  "0x2000 0x80 Lcom/example/Name; with spaces\n"
				  "3000 10 old\n"
				  "nonsense\n"
				  "4000 0 empty\n"
				  "0 ffffffffffffffff everything\n"
				  "5000 ffffffffffffffff too large\n"
				  "fffffffffffffff0 100 wraps\n"
				  "3000 10 new\r\n"
				  "6000 10\n"
				  "zz00 10 bad\n"
				  "7000 10 unfinished";
	struct snap_query queries[] = {
		{ .vaddr = 0xfff },  { .vaddr = 0x1000 }, { .vaddr = 0x10ff }, { .vaddr = 0x1100 },
		{ .vaddr = 0x207f }, { .vaddr = 0x3008 }, { .vaddr = 0x4000 }, { .vaddr = 0x5000 },
		{ .vaddr = 0x6000 }, { .vaddr = 0x7000 },
	};

	ask_map(state, map, sizeof(map) - 1, queries, SNAP_ARRAY_SIZE(queries));
	assert_null(name_of(&queries[0]));
	assert_string_equal(name_of(&queries[1]), "first");
	assert_string_equal(name_of(&queries[2]), "first");
	assert_null(name_of(&queries[3]));
	assert_string_equal(name_of(&queries[4]), "Lcom/example/Name; with spaces");
	assert_string_equal(name_of(&queries[5]), "new");
	for (size_t i = 6; i < SNAP_ARRAY_SIZE(queries); i++)
		assert_null(name_of(&queries[i]));
}

/* Lines longer than any buffer, and bytes of any kind. */
static void test_perf_map_of_long_lines(void **state)
{
	struct snap_query queries[] = { { .vaddr = 0x1000 }, { .vaddr = 0x2000 } };
	size_t size = 300000;
	char *map = malloc(size);

	memset(map, 'x', size);
	memcpy(map, "1000 10 ", 8);
	map[200000] = '\n';
	memcpy(map + 200001, "2000 10 a\0b\n", 12);
	ask_map(state, map, size, queries, 2);
	assert_null(name_of(&queries[0]));
	assert_non_null(name_of(&queries[1]));
	free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_languages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_expansion_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stack_of_nested_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_d_references_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_perf_map, setup, teardown),
		cmocka_unit_test_setup_teardown(test_perf_map_of_long_lines, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
