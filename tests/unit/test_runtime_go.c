/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of functions of Go programs: one that is made by hand; that of the go command, which is
 * a Go program; and the same with bytes changed at random. Live programs are compared with what
 * they say of themselves in tests/e2e/test_runtime_go.py.
 */
#include "analyze/runtime/go/code.h"
#include "analyze/unwind/go.h"
#include "model/memory_image.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "skip.h"

/* ---- where an image goes on ---- */

static void test_next_bytes_of_an_image(void **unused)
{
	static const uint8_t bytes[64];
	struct snap_memory_piece pieces[] = { { 100, 8, bytes },
					      { 108, 8, bytes },
					      { 200, 16, bytes } };
	struct snap_memory_image image = { .pieces = pieces, .piece_count = 3 };
	uint64_t start, size;

	(void)unused;
	assert_true(snap_memory_image_next(&image, 0, &start, &size));
	assert_int_equal(start, 100);
	assert_int_equal(size, 16); /* two pieces that touch */
	assert_true(snap_memory_image_next(&image, 104, &start, &size));
	assert_int_equal(start, 104);
	assert_int_equal(size, 12);
	assert_true(snap_memory_image_next(&image, 116, &start, &size));
	assert_int_equal(start, 200);
	assert_int_equal(size, 16);
	assert_true(snap_memory_image_next(&image, 215, &start, &size));
	assert_int_equal(size, 1);
	assert_false(snap_memory_image_next(&image, 216, &start, &size));
	assert_false(snap_memory_image_next(&image, UINT64_MAX, &start, &size));
}

/* ---- a table made by hand ---- */

enum {
	NAMES = SNAP_GO_HEADER_BYTES,
	UNITS = NAMES + 64,
	FILES = UNITS + 16,
	VALUES = FILES + 32,
	FUNCTIONS = VALUES + 64,
	INDEX = 3 * 8,
	RECORD = 44 + 4 * 7, /* three pcdata, four funcdata */
	TABLE = FUNCTIONS + INDEX + 2 * RECORD,
	/* of what lies in the parts */
	NAME_MAIN = 1,
	NAME_INLINED = 11,
	NAME_OTHER = 24,
	FILE_A = 0,
	FILE_B = 5,
	SIZES = 1,
	LINES = 10,
	FILES_OF = 20,
	INLINED = 30,
};

struct bed {
	uint8_t bytes[TABLE];
	uint8_t trees[32];
	struct snap_go_table table;
};

static void put(uint8_t *bytes, uint64_t number, size_t width)
{
	memcpy(bytes, &number, width);
}

/* main.main is [0, 64), inlines main.inner in [16, 32); main.other is [64, 96). */
static void make_record(uint8_t *at, uint32_t entry, uint32_t name, uint8_t kind, uint8_t flags)
{
	put(at, entry, 4);
	put(at + 4, name, 4);
	put(at + 16, SIZES, 4);
	put(at + 20, FILES_OF, 4);
	put(at + 24, LINES, 4);
	put(at + 28, 3, 4);
	at[40] = kind;
	at[41] = flags;
	at[43] = 4;
	put(at + 44 + 4 * 2, entry == 0 ? INLINED : 0, 4);
	put(at + 44 + 4 * 6, entry == 0 ? 0 : UINT32_MAX, 4);
}

static void make_table(struct bed *bed)
{
	static const uint8_t header[] = { 0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8 };
	/* Changes are zigzag: 2 is one up, 1 one down. */
	static const uint8_t sizes[] = { 2, 4, 32, 88, 15, 4, 0 };    /* 0 [0,4), 16 [4,92), 8 */
	static const uint8_t lines[] = { 22, 16, 14, 16, 13, 64, 0 }; /* 10, 17, 10 */
	static const uint8_t files[] = { 2, 16, 2, 16, 1, 64, 0 };    /* 0, 1, 0 */
	static const uint8_t inlined[] = { 0, 16, 2, 16, 1, 32, 0 };  /* none, 0, none */
	uint8_t *bytes = bed->bytes, *index = bytes + FUNCTIONS;
	static const uint32_t parts[] = { NAMES, UNITS, FILES, VALUES, FUNCTIONS };

	memset(bed, 0, sizeof(*bed));
	memcpy(bytes, header, sizeof(header));
	put(bytes + 8, 2, 8);
	for (size_t i = 0; i < 5; i++)
		put(bytes + 32 + 8 * i, parts[i], 8);
	strcpy((char *)bytes + NAMES + NAME_MAIN, "main.main");
	strcpy((char *)bytes + NAMES + NAME_INLINED, "main.inner[x]");
	strcpy((char *)bytes + NAMES + NAME_OTHER + 1, "main.other");
	put(bytes + UNITS, FILE_A, 4);
	put(bytes + UNITS + 4, FILE_B, 4);
	strcpy((char *)bytes + FILES + FILE_A, "a.go");
	strcpy((char *)bytes + FILES + FILE_B, "b.go");
	memcpy(bytes + VALUES + SIZES, sizes, sizeof(sizes));
	memcpy(bytes + VALUES + LINES, lines, sizeof(lines));
	memcpy(bytes + VALUES + FILES_OF, files, sizeof(files));
	memcpy(bytes + VALUES + INLINED, inlined, sizeof(inlined));
	put(index, 0, 4);
	put(index + 4, INDEX, 4);
	put(index + 8, 64, 4);
	put(index + 12, INDEX + RECORD, 4);
	put(index + 16, 96, 4);
	make_record(index + INDEX, 0, NAME_MAIN, 0, SNAP_GO_TOP_FRAME);
	make_record(index + INDEX + RECORD, 64, NAME_OTHER + 1, 7, 0);
	put(bed->trees + 4, NAME_INLINED, 4);
	put(bed->trees + 8, 8, 4); /* called at offset 8 */
}

static struct snap_bytes all_of(const struct bed *bed)
{
	return (struct snap_bytes){ bed->bytes, sizeof(bed->bytes) };
}

static void bed_open(struct bed *bed)
{
	make_table(bed);
	assert_true(snap_go_table_parse(all_of(bed), &bed->table));
	bed->table.trees = (struct snap_bytes){ bed->trees, sizeof(bed->trees) };
	bed->table.node_bytes = 16;
}

static void test_functions(void **unused)
{
	struct snap_go_function function;
	uint32_t first, end, size;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	assert_true(snap_go_table_bounds(&bed.table, &first, &end));
	assert_int_equal(first, 0);
	assert_int_equal(end, 96);
	assert_true(snap_go_function_find(&bed.table, 63, &function));
	assert_string_equal(snap_go_function_name(&bed.table, &function), "main.main");
	assert_int_equal(function.flags, SNAP_GO_TOP_FRAME);
	assert_true(snap_go_frame_size(&bed.table, &function, 3, &size));
	assert_int_equal(size, 0);
	assert_true(snap_go_frame_size(&bed.table, &function, 4, &size));
	assert_int_equal(size, 16);
	assert_true(snap_go_function_find(&bed.table, 64, &function));
	assert_string_equal(snap_go_function_name(&bed.table, &function), "main.other");
	assert_int_equal(function.kind, 7);
	assert_false(snap_go_function_find(&bed.table, 96, &function));
	assert_false(snap_go_function_by_number(&bed.table, 2, &function));
	assert_int_equal(snap_go_wrapper_kind(&bed.table), 7);
}

static void check_place(const struct snap_go_place *place, const char *name, const char *file,
			uint32_t line, bool inlined)
{
	assert_string_equal(place->name, name);
	assert_string_equal(place->file, file);
	assert_int_equal(place->line, line);
	assert_int_equal(place->inlined, inlined);
}

static void test_inlined_functions(void **unused)
{
	struct snap_go_place places[4];
	struct snap_go_function function;
	unsigned seen;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	assert_true(snap_go_function_find(&bed.table, 0, &function));
	assert_int_equal(snap_go_places(&bed.table, &function, 15, places, 4), 1);
	check_place(&places[0], "main.main", "a.go", 10, false);
	assert_int_equal(snap_go_places(&bed.table, &function, 16, places, 4), 2);
	check_place(&places[0], "main.inner[x]", "b.go", 17, true);
	check_place(&places[1], "main.main", "a.go", 10, false);
	/* Room for one: then the function itself. */
	assert_int_equal(snap_go_places(&bed.table, &function, 16, places, 1), 1);
	check_place(&places[0], "main.main", "b.go", 17, false);
	assert_true(snap_go_trees_fit(&bed.table, bed.table.trees, 16, &seen));
	assert_int_equal(seen, 1);
	/* A name that does not begin there; a call that lies outside. */
	put(bed.trees + 4, NAME_INLINED + 1, 4);
	assert_false(snap_go_trees_fit(&bed.table, bed.table.trees, 16, &seen));
	put(bed.trees + 4, NAME_INLINED, 4);
	put(bed.trees + 8, 64, 4);
	assert_false(snap_go_trees_fit(&bed.table, bed.table.trees, 16, &seen));
	assert_int_equal(snap_go_places(&bed.table, &function, 16, places, 4), 1);
}

/* A circle of functions that were inlined into one another. */
static void test_inlining_ends(void **unused)
{
	struct snap_go_place places[SNAP_GO_MOST_INLINED];
	struct snap_go_function function;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	put(bed.trees + 8, 20, 4);
	assert_true(snap_go_function_find(&bed.table, 0, &function));
	assert_int_equal(snap_go_places(&bed.table, &function, 16, places, SNAP_GO_MOST_INLINED),
			 SNAP_GO_MOST_INLINED);
}

static void test_headers(void **unused)
{
	struct snap_go_table table;
	struct bed bed;

	(void)unused;
	make_table(&bed);
	bed.bytes[0] = 0xfa; /* Go 1.16 */
	assert_false(snap_go_table_parse(all_of(&bed), &table));
	make_table(&bed);
	bed.bytes[7] = 4; /* 32 bits */
	assert_false(snap_go_table_parse(all_of(&bed), &table));
	make_table(&bed);
	put(bed.bytes + 40, NAMES - 1, 8); /* parts in another order */
	assert_false(snap_go_table_parse(all_of(&bed), &table));
	make_table(&bed);
	put(bed.bytes + 8, 1000, 8); /* more functions than there is room for */
	assert_false(snap_go_table_parse(all_of(&bed), &table));
	make_table(&bed);
	put(bed.bytes + 64, TABLE + 1, 8);
	assert_false(snap_go_table_parse(all_of(&bed), &table));
	assert_false(snap_go_table_parse((struct snap_bytes){ bed.bytes, 71 }, &table));
}

/* ---- rows for unwinding ---- */

enum { CODE = 0x1000, SP = 7 };

static struct snap_row row_at(struct bed *bed, uint64_t vaddr)
{
	const struct snap_go_code code = { bed->table, CODE, CODE + 96 };
	struct snap_row row = { .kind = SNAP_ROW_WILD };

	assert_true(snap_go_row(&code, snap_arch_ops(SNAP_ARCH_X86_64), vaddr, &row));
	return row;
}

static void set_function(struct bed *bed, unsigned number, const char *name, uint8_t flags)
{
	/* Names have room for 39 letters there. */
	strcpy((char *)bed->bytes + NAMES + NAME_OTHER + 1, name);
	bed->bytes[FUNCTIONS + INDEX + number * RECORD + 41] = flags;
}

static void test_rows(void **unused)
{
	struct snap_row row;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	assert_int_equal(row_at(&bed, CODE).kind, SNAP_ROW_END);
	row = row_at(&bed, CODE + 64);
	assert_int_equal(row.kind, SNAP_ROW_SIMPLE);
	assert_int_equal(row.cfa_register, SP);
	assert_int_equal(row.cfa_offset, 8);
	assert_int_equal(row.at[0], -1);
	assert_int_equal(row.saved, 0);
	assert_int_equal(row_at(&bed, CODE + 70).cfa_offset, 24);
	/* Its caller was interrupted. */
	set_function(&bed, 1, "runtime.sigpanic", 0);
	row = row_at(&bed, CODE + 70);
	assert_int_equal(row.kind, SNAP_ROW_PUT_IN);
	assert_int_equal(row.cfa_offset, 24);
	/* What it says of a handler's end is not believed: the interrupted code is further out. */
	set_function(&bed, 1, "runtime.sigtramp", SNAP_GO_TOP_FRAME);
	assert_int_equal(row_at(&bed, CODE + 70).kind, SNAP_ROW_SIMPLE);
}

/* What makes a process that shares the stack has popped its return address, in one place. */
static void test_a_row_of_a_kept_return_address(void **unused)
{
	/* 0 [64,68), -8 [68,70), 0 */
	static const uint8_t sizes[] = { 2, 4, 15, 2, 16, 26, 0 };
	struct snap_row row;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	memcpy(bed.bytes + VALUES + SIZES, sizes, sizeof(sizes));
	set_function(&bed, 1, "syscall.rawVforkSyscall", 0);
	assert_int_equal(row_at(&bed, CODE + 67).kind, SNAP_ROW_SIMPLE);
	row = row_at(&bed, CODE + 69);
	assert_int_equal(row.kind, SNAP_ROW_KEPT);
	assert_int_equal(row.cfa_register, 12);
	assert_int_equal(row_at(&bed, CODE + 70).kind, SNAP_ROW_SIMPLE);
	/* Nobody knows where another function keeps it. */
	set_function(&bed, 1, "main.other", 0);
	assert_int_equal(row_at(&bed, CODE + 69).kind, SNAP_ROW_NONE);
}

static void test_rows_of_switches(void **unused)
{
	const struct snap_go_code none = { .start = 0 };
	struct snap_row row;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	set_function(&bed, 1, "runtime.systemstack", SNAP_GO_WRITES_STACK_POINTER);
	row = row_at(&bed, CODE + 70);
	assert_int_equal(row.kind, SNAP_ROW_NONE);
	assert_int_equal(row.code.switches, SNAP_ROW_SWITCHES_STACK);
	assert_int_equal(row.code.start, SNAP_START_EXACT);
	assert_int_equal(row.code.into, 6);
	set_function(&bed, 1, "runtime.mcall", SNAP_GO_WRITES_STACK_POINTER);
	assert_int_equal(row_at(&bed, CODE + 70).code.switches, SNAP_ROW_LEAVES_STACK);
	set_function(&bed, 1, "runtime.cgocallback", SNAP_GO_WRITES_STACK_POINTER);
	assert_int_equal(row_at(&bed, CODE + 70).kind, SNAP_ROW_SIMPLE);
	/* Left to who knows what the kernel leaves there; it may be asked for by the byte before. */
	set_function(&bed, 1, "runtime.sigreturn__sigaction", 0);
	assert_int_equal(row_at(&bed, CODE + 63).kind, SNAP_ROW_NONE);
	assert_int_equal(row_at(&bed, CODE + 64).kind, SNAP_ROW_NONE);
	assert_int_equal(row_at(&bed, CODE + 64).code.switches, SNAP_ROW_SWITCHES_NOTHING);
	assert_false(snap_go_row(&none, snap_arch_ops(SNAP_ARCH_X86_64), CODE, &row));
}

/* ---- the table of a program ---- */

struct program {
	struct snap_image *image;
	struct snap_bytes bytes; /* from the table's beginning on */
	struct snap_go_table table;
};

static bool program_open(struct program *program)
{
	char path[PATH_MAX];
	uint64_t address;
	int fd = realpath("/usr/bin/go", path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return false;
	assert_null(snap_image_open(fd, &program->image));
	close(fd);
	if (!snap_image_section_address(program->image, ".gopclntab", &address)) {
		snap_image_close(program->image);
		return false;
	}
	program->bytes = snap_image_at(program->image, address);
	assert_true(snap_go_table_parse(program->bytes, &program->table));
	return true;
}

#define NO_GO "compiler: there is no go command at /usr/bin/go"

static void test_every_function_of_a_program(void **unused)
{
	static struct snap_go_place places[SNAP_GO_MOST_INLINED];
	struct program program;
	uint32_t known = 0;

	(void)unused;
	if (!program_open(&program))
		skip_because(NO_GO);
	for (uint32_t i = 0; i < program.table.function_count; i++) {
		struct snap_go_function function, found;

		assert_true(snap_go_function_by_number(&program.table, i, &function));
		assert_true(snap_go_function_find(&program.table, function.entry, &found));
		assert_int_equal(found.entry, function.entry);
		assert_true(*snap_go_function_name(&program.table, &function));
		assert_int_equal(snap_go_places(&program.table, &function, function.entry, places,
						SNAP_GO_MOST_INLINED),
				 1);
		known += places[0].file && places[0].line > 0;
	}
	assert_true(known > program.table.function_count * 9 / 10);
	snap_image_close(program.image);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static void look_around(const struct snap_go_table *table, uint64_t *state)
{
	static struct snap_go_place places[SNAP_GO_MOST_INLINED];
	uint32_t first = 0, end = 0;

	snap_go_table_bounds(table, &first, &end);
	for (unsigned i = 0; i < 200; i++) {
		uint32_t offset = first + (uint32_t)(next_random(state) % (end - first + 1)), size;
		struct snap_go_function function;

		if (!snap_go_function_find(table, offset, &function))
			continue;
		snap_go_frame_size(table, &function, offset, &size);
		snap_go_places(table, &function, offset, places, SNAP_GO_MOST_INLINED);
	}
}

/* Bytes of the header, the index, records and lists, most of them where much depends on them. */
static void test_changed_tables(void **unused)
{
	struct program program;
	struct snap_go_table table;
	uint64_t state = 20;
	size_t size, index, parsed = 0;
	uint8_t *bytes;

	(void)unused;
	if (!program_open(&program))
		skip_because(NO_GO);
	index = program.table.functions.data - program.bytes.data;
	size = program.bytes.size;
	bytes = malloc(size);
	assert_non_null(bytes);
	memcpy(bytes, program.bytes.data, size);
	for (unsigned round = 0; round < 300; round++) {
		size_t changed[64];

		for (unsigned i = 0; i < 64; i++) {
			size_t at =
				next_random(&state) % (i < round % 3 ? SNAP_GO_HEADER_BYTES : size);

			if (i % 4 == 3)
				at = index + next_random(&state) % (size - index);
			changed[i] = at;
			bytes[at] = (uint8_t)next_random(&state);
		}
		if (snap_go_table_parse((struct snap_bytes){ bytes, size }, &table)) {
			unsigned seen;

			parsed++;
			table.node_bytes = round % 2 ? 16 : 20;
			table.trees = (struct snap_bytes){ bytes, size };
			look_around(&table, &state);
			snap_go_trees_fit(&table, table.trees, table.node_bytes, &seen);
		}
		for (unsigned i = 0; i < 64; i++)
			bytes[changed[i]] = program.bytes.data[changed[i]];
	}
	assert_true(parsed > 50);
	free(bytes);
	snap_image_close(program.image);
}

static void test_code_of_a_file(void **unused)
{
	struct program program;
	struct snap_go_function function;
	struct snap_go_code code;
	uint64_t entry;
	uint32_t offset;

	(void)unused;
	if (!program_open(&program))
		skip_because(NO_GO);
	assert_true(snap_go_code_find(program.image, true, &code));
	assert_int_equal(code.table.function_count, program.table.function_count);
	assert_true(code.table.node_bytes > 0);
	entry = snap_image_entry(program.image);
	assert_true(snap_go_code_function(&code, entry, &function, &offset));
	assert_int_equal(offset, function.entry);
	assert_string_equal(snap_go_function_name(&code.table, &function), "_rt0_amd64_linux");
	assert_false(snap_go_code_function(&code, code.start - 1, &function, &offset));
	assert_false(snap_go_code_function(&code, code.end, &function, &offset));
	snap_image_close(program.image);
}

/* Headers, tables of sections and segments, the description, the table: anything may lie. */
static void test_changed_files(void **unused)
{
	struct program program;
	uint64_t state = 7;
	unsigned found = 0;
	uint8_t *bytes;
	size_t size;

	(void)unused;
	if (!program_open(&program))
		skip_because(NO_GO);
	size = snap_image_bytes(program.image).size;
	bytes = malloc(size);
	assert_non_null(bytes);
	memcpy(bytes, snap_image_bytes(program.image).data, size);
	for (unsigned round = 0; round < 200; round++) {
		struct stacksnap_error *err;
		struct snap_image *image;
		size_t at[8];

		for (unsigned i = 0; i < 8; i++) {
			at[i] = next_random(&state) % (i < 3 ? 1024 : size);
			bytes[at[i]] = (uint8_t)next_random(&state);
		}
		err = snap_image_open_memory(bytes, size, &image);
		if (!err) {
			struct snap_go_code code;

			if (snap_go_code_find(image, true, &code)) {
				found++;
				look_around(&code.table, &state);
			}
			snap_image_close(image);
		}
		snap_error_destroy(err);
		for (unsigned i = 0; i < 8; i++)
			bytes[at[i]] = snap_image_bytes(program.image).data[at[i]];
	}
	assert_true(found > 0);
	free(bytes);
	snap_image_close(program.image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next_bytes_of_an_image),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_inlined_functions),
		cmocka_unit_test(test_inlining_ends),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_a_row_of_a_kept_return_address),
		cmocka_unit_test(test_rows_of_switches),
		cmocka_unit_test(test_every_function_of_a_program),
		cmocka_unit_test(test_changed_tables),
		cmocka_unit_test(test_code_of_a_file),
		cmocka_unit_test(test_changed_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
