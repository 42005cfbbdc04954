/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions without call frame information whose callers are known: what is found, how it is said
 * to be found, and which words of a stack deceive nobody.
 */
#include "unwind_bed.h"

#include "analyze/unwind/internal.h"
#include "skip.h"

enum { MOST_WORDS = 8, MOST_FRAMES = 4 };

/* A word of the stack: the address of a symbol. */
struct word {
	size_t at;
	const char *symbol;
};

/* Added to the number of a word: it is in the link register instead, where there is one. */
enum { KEPT = 1 << 16 };

struct row {
	const char *what, *pc;
	uint64_t fp; /* word of the stack that the frame pointer points to, plus 1; else as it is */
	struct word words[MOST_WORDS];
	const char *callers[MOST_FRAMES];
	enum snap_trust trust; /* of the first caller */
	enum snap_unwind_end end;
};

/* The frame pointer while it belongs to a frame further out, whose caller is `outermost`. */
enum { OUTER = 41 };

#define OUTER_FRAME                   \
	{                             \
		OUTER, "in_outermost" \
	}

static const struct row rows[] = {
	{ "a leaf with a frame, below decoys",
	  "in_leaf",
	  OUTER,
	  { { 0, "after_with_fp" },
	    { 1, "in_leaf" },
	    { 2, "after_stub" },
	    { KEPT + 5, "after_leaf" },
	    { 7, "in_outermost" },
	    OUTER_FRAME },
	  { "after_leaf", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "who has called somebody, below decoys",
	  "in_second",
	  OUTER,
	  { { 0, "after_with_fp" },
	    { KEPT + 1, "in_second" },
	    { 2, "after_stub" },
	    { 5, "after_second" },
	    { 7, "in_outermost" },
	    OUTER_FRAME },
	  { "after_second", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "a register of no meaning",
	  "in_leaf",
	  0x5555,
	  { { KEPT + 5, "after_leaf" }, { 7, "in_outermost" } },
	  { "after_leaf", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "before its first instruction",
	  "leaf",
	  OUTER,
	  { { KEPT + 0, "after_leaf" }, { 1 + CALL_PUSHES, "in_outermost" }, OUTER_FRAME },
	  { "after_leaf", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "called by a register",
	  "in_leaf",
	  OUTER,
	  { { KEPT + 5, "after_indirect" }, { 7, "in_outermost" }, OUTER_FRAME },
	  { "after_indirect", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "called by memory",
	  "in_leaf",
	  OUTER,
	  { { KEPT + 5, "after_memory" }, { 7, "in_outermost" }, OUTER_FRAME },
	  { "after_memory", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "a frame pointer",
	  "in_with_fp",
	  5,
	  { { 1, "after_indirect" }, { 5, "after_with_fp" }, { 7, "in_outermost" } },
	  { "after_with_fp", "in_outermost" },
	  SNAP_TRUST_FRAME_POINTER,
	  SNAP_UNWIND_GUESSED },
	{ "a frame pointer behind a landing pad",
	  "in_with_pad",
	  5,
	  { { 1, "after_indirect" }, { 5, "after_with_pad" }, { 7, "in_outermost" } },
	  { "after_with_pad", "in_outermost" },
	  SNAP_TRUST_FRAME_POINTER,
	  SNAP_UNWIND_GUESSED },
	{ "a frame pointer that nobody believes",
	  "in_with_fp",
	  0x5555,
	  { { 5, "after_with_fp" }, { 7, "in_outermost" } },
	  { "after_with_fp", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "a frame pointer that is not set up yet",
	  "with_fp",
	  OUTER,
	  { { KEPT + 0, "after_with_fp" }, { 1 + CALL_PUSHES, "in_outermost" }, OUTER_FRAME },
	  { "after_with_fp", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "between saving the frame pointer and setting it",
	  "pushed_fp",
	  OUTER,
	  { { 1, "after_with_fp" }, { 3, "in_outermost" }, OUTER_FRAME },
	  { "after_with_fp", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "at the return",
	  "at_return",
	  OUTER,
	  { { KEPT + 0, "after_with_fp" }, { 1 + CALL_PUSHES, "in_outermost" }, OUTER_FRAME },
	  { "after_with_fp", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "a frame pointer set up behind the first instructions",
	  "in_late",
	  5,
	  { { 1, "after_with_fp" }, { 5, "after_late" }, { 7, "in_outermost" } },
	  { "after_late", "in_outermost" },
	  SNAP_TRUST_FRAME_POINTER,
	  SNAP_UNWIND_GUESSED },
	{ "the same of a caller, as a call of this function is nearer",
	  "in_late",
	  5,
	  { { 1, "after_late" },
	    { 3, "in_outermost" },
	    { 5, "after_with_fp" },
	    { 7, "in_outermost" } },
	  { "after_late", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "what jumped there was called",
	  "in_late",
	  5,
	  { { 5, "after_with_fp" }, { 7, "in_outermost" } },
	  { "after_with_fp", "in_outermost" },
	  SNAP_TRUST_FRAME_POINTER,
	  SNAP_UNWIND_GUESSED },
	{ "the frame pointer is saved and nothing more",
	  "in_push_only",
	  OUTER,
	  { { 1, "after_push_only" }, { 3, "in_outermost" }, OUTER_FRAME },
	  { "after_push_only", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "it is no frame pointer though it is sp",
	  "in_saves_many",
	  1,
	  { { 1, "in_leaf" }, { 3, "after_saves_many" }, { 5, "in_outermost" } },
	  { "after_saves_many", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "two of them",
	  "in_leaf",
	  OUTER,
	  { { KEPT + 5, "in_second" },
	    { 11, "after_second" },
	    { 13, "in_outermost" },
	    OUTER_FRAME },
	  { "in_second", "after_second", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "a label without type and size",
	  "in_label_function",
	  OUTER,
	  { { 0, "after_leaf" }, { 1, "after_label" }, { 3, "in_outermost" }, OUTER_FRAME },
	  { "after_label", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "decoys alone",
	  "in_leaf",
	  OUTER,
	  { { 0, "after_with_fp" }, { 1, "in_leaf" }, { 2, "after_stub" }, OUTER_FRAME },
	  { NULL },
	  SNAP_TRUST_CFI,
	  SNAP_UNWIND_NO_CFI },
	{ "the first function of the program",
	  "in_entry_point",
	  OUTER,
	  { { 1, "after_indirect" }, OUTER_FRAME },
	  { NULL },
	  SNAP_TRUST_CFI,
	  SNAP_UNWIND_NO_CFI },
};

/* Code that one processor has alone. */
static const struct row x86_64_row = {
	"a frame pointer as Go sets it up",
	"in_go",
	5,
	{ { 1, "after_indirect" }, { 5, "after_go" }, { 7, "in_outermost" } },
	{ "after_go", "in_outermost" },
	SNAP_TRUST_FRAME_POINTER,
	SNAP_UNWIND_GUESSED
};

static const struct row aarch64_row = {
	"a frame pointer that leads to the low end of the frame",
	"in_low",
	1,
	{ { 1, "after_low" }, { 5, "after_indirect" }, { 7, "in_outermost" } },
	{ "after_low", "in_outermost" },
	SNAP_TRUST_FRAME_POINTER,
	SNAP_UNWIND_GUESSED
};

/* The same file without its table of symbols. */
static const struct row stripped_rows[] = {
	{ "the call must be of what lies behind the function before",
	  "in_leaf",
	  OUTER,
	  { { 0, "after_second" },
	    { 1, "after_stub" },
	    { KEPT + 5, "after_leaf" },
	    { 7, "in_outermost" },
	    OUTER_FRAME },
	  { "after_leaf", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "the same of who has called somebody",
	  "in_second",
	  OUTER,
	  { { 0, "after_leaf" },
	    { KEPT + 1, "in_second" },
	    { 2, "after_stub" },
	    { 5, "after_second" },
	    { 7, "in_outermost" },
	    OUTER_FRAME },
	  { "after_second", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "a call tells where the function begins",
	  "in_with_fp",
	  5,
	  { { 1, "after_indirect" }, { 5, "after_with_fp" }, { 7, "in_outermost" } },
	  { "after_with_fp", "in_outermost" },
	  SNAP_TRUST_FRAME_POINTER,
	  SNAP_UNWIND_GUESSED },
	{ "nobody tells where the function begins",
	  "in_with_fp",
	  5,
	  { { 1, "after_leaf" }, { 5, "after_indirect" }, { 7, "in_outermost" } },
	  { "after_indirect", "in_outermost" },
	  SNAP_TRUST_SCAN,
	  SNAP_UNWIND_SCANNED },
	{ "the first function of the program",
	  "in_entry_point",
	  OUTER,
	  { { 1, "after_indirect" }, OUTER_FRAME },
	  { NULL },
	  SNAP_TRUST_CFI,
	  SNAP_UNWIND_NO_CFI },
};

static void put_stack(struct bed *bed, const struct row *row)
{
	begins_in(bed, symbol(bed, row->pc));
	bed->registers[FP_WORD] = row->fp < STACK_WORDS ? stack_at + 8 * (row->fp - 1) : row->fp;
	for (size_t i = 0; i < MOST_WORDS && row->words[i].symbol; i++) {
		uint64_t address = symbol(bed, row->words[i].symbol);

		if (row->words[i].at >= KEPT)
			put_return(bed, row->words[i].at - KEPT, address);
		else
			bed->stack[row->words[i].at] = address;
	}
}

static void check_row(const struct row *row)
{
	struct bed bed;
	size_t count = 1;

	bed_open(&bed);
	put_stack(&bed, row);
	unwind(&bed);
	print_message("# %s\n", row->what);
	assert_int_equal(snap_pc_address(bed.pcs.pcs[0]), symbol(&bed, row->pc));
	assert_int_equal(snap_pc_trust(bed.pcs.pcs[0]), SNAP_TRUST_CFI);
	for (; count <= MOST_FRAMES && row->callers[count - 1]; count++) {
		assert_true(bed.pcs.count > count);
		assert_int_equal(snap_pc_address(bed.pcs.pcs[count]),
				 symbol(&bed, row->callers[count - 1]));
	}
	assert_int_equal(bed.pcs.count, count);
	if (count > 1) {
		assert_int_equal(snap_pc_trust(bed.pcs.pcs[1]), row->trust);
		/* Its own caller is found by call frame information again. */
		assert_int_equal(snap_pc_trust(bed.pcs.pcs[count - 1]), SNAP_TRUST_CFI);
	}
	assert_int_equal(bed.pcs.end, row->end);
	if (snap_unwind_is_whole(row->end))
		assert_null(bed.pcs.reason);
	else
		assert_string_equal(bed.pcs.reason, "no unwind information");
	bed_close(&bed);
}

static void test_known_callers(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
	check_row(SNAP_OWN_ARCH == SNAP_ARCH_X86_64 ? &x86_64_row : &aarch64_row);
}

static void test_known_callers_without_symbols(void **unused)
{
	(void)unused;
	assert_int_equal(setenv("UNWIND_MAPPED", getenv("UNWIND_STRIPPED"), 1), 0);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(stripped_rows); i++)
		check_row(&stripped_rows[i]);
	assert_int_equal(unsetenv("UNWIND_MAPPED"), 0);
}

/* What a function pushed first is the caller's again. */
static void test_pushed_registers(void **unused)
{
	struct bed bed;

	(void)unused;
	if (SNAP_OWN_ARCH != SNAP_ARCH_X86_64)
		skip_because("arch: written for x86-64");
	bed_open(&bed);
	begins_in(&bed, symbol(&bed, "in_saves_many"));
	bed.stack[0] = 13;
	bed.stack[1] = 12;
	bed.stack[2] = 3;
	bed.stack[3] = symbol(&bed, "after_saves_many");
	bed.stack[5] = symbol(&bed, "in_outermost");
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 3);
	assert_int_equal(bed.unwinder->state.registers[SAVED], 3);
	assert_int_equal(bed.unwinder->state.registers[ALSO_SAVED], 12);
	assert_int_equal(bed.unwinder->state.registers[13], 13);
	/* Only the first push was made. */
	begins_in(&bed, symbol(&bed, "saves_many") + 1);
	bed.stack[0] = 33;
	bed.stack[1] = symbol(&bed, "after_saves_many");
	bed.stack[3] = symbol(&bed, "in_outermost");
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 3);
	assert_int_equal(bed.unwinder->state.registers[SAVED], 33);
	bed_close(&bed);
}

/* What lies below the return address, and the frame pointer still leads there, is the caller's. */
static void test_late_frame_pointer(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, symbol(&bed, "in_late"));
	bed.registers[FP_WORD] = stack_at + 16;
	bed.stack[2] = 0x6060;
	bed.stack[3] = symbol(&bed, "after_late");
	bed.stack[5] = symbol(&bed, "in_outermost");
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 3);
	assert_int_equal(bed.unwinder->state.registers[FP], 0x6060);
	bed_close(&bed);
}

/*
 * A record at the low end of a frame does not tell where that ends. Where the code that wrote it is
 * not seen the caller's own record does: its CFI says how far above its stack pointer that lies.
 */
static void test_record_of_caller(void **unused)
{
	struct bed bed;

	(void)unused;
	if (SNAP_OWN_ARCH != SNAP_ARCH_AARCH64)
		skip_because("arch: written for aarch64");
	bed_open(&bed);
	begins_in(&bed, symbol(&bed, "in_late_low"));
	bed.registers[FP_WORD] = stack_at;
	bed.stack[0] = stack_at + 8 * 8; /* its frame has 6 words, the record lies 2 above */
	bed.stack[1] = symbol(&bed, "after_late_low");
	bed.stack[5] = symbol(&bed, "after_indirect");
	bed.stack[8] = 0x6060;
	bed.stack[9] = symbol(&bed, "after_indirect");
	bed.stack[13] = symbol(&bed, "in_outermost"); /* the caller's frame has 6 as well */
	unwind(&bed);
	CHECK_PCS(&bed, symbol(&bed, "in_late_low"), symbol(&bed, "after_late_low"),
		  symbol(&bed, "after_indirect"), symbol(&bed, "in_outermost"));
	assert_int_equal(bed.unwinder->state.registers[FP], 0x6060);
	bed_close(&bed);
}

static void test_scan_is_bounded(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, symbol(&bed, "in_second"));
	bed.stack[127] = symbol(&bed, "after_second");
	bed.stack[129] = symbol(&bed, "in_outermost");
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 3);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_SCANNED);
	bed.stack[127] = 0;
	bed.stack[128] = symbol(&bed, "after_second");
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 1);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	/* What was not copied is not looked for. */
	bed.thread.stack_size = 8 * 100;
	unwind(&bed);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	bed.thread.stack_limited = true;
	unwind(&bed);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_LIMIT);
	bed_close(&bed);
}

/* Scanned for, and then there is no more: the reason why it ends early wins. */
static void test_early_end_wins(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, symbol(&bed, "in_second"));
	bed.stack[5] = symbol(&bed, "after_second");
	bed.stack[7] = 0x1234567;
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 2);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	assert_string_equal(bed.pcs.reason, "what was guessed leads to no code");
	/* CFI alone confirms no frame. */
	bed.stack[7] = symbol(&bed, "after_leaf");
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 3);
	assert_int_equal(snap_pc_trust(bed.pcs.pcs[2]), SNAP_TRUST_UNCONFIRMED);
	/* One that was scanned for is told also where it is left out. */
	for (size_t i = 7; i < 7 + 2 * 20; i += 2)
		bed.stack[i] = symbol(&bed, "after_leaf");
	bed.stack[7 + 2 * 20] = symbol(&bed, "in_outermost");
	bed.options.max_frames = 2;
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 2);
	assert_true(bed.pcs.gap_count > 10);
	assert_int_equal(snap_pc_trust(bed.pcs.pcs[1]), SNAP_TRUST_CFI);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_SCANNED);
	bed_close(&bed);
}

/* Code in no file is believed to have a frame pointer; else a caller in a file can be found. */
static void test_code_in_no_file(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, jit_at + 100);
	bed.registers[FP_WORD] = stack_at + 16;
	bed.stack[0] = symbol(&bed, "after_indirect");
	bed.stack[3] = symbol(&bed, "after_memory");
	bed.stack[5] = symbol(&bed, "in_outermost");
	unwind(&bed);
	CHECK_PCS(&bed, jit_at + 100, symbol(&bed, "after_memory"), symbol(&bed, "in_outermost"));
	assert_int_equal(snap_pc_trust(bed.pcs.pcs[1]), SNAP_TRUST_FRAME_POINTER);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_GUESSED);
	bed.registers[FP_WORD] = 77;
	bed.stack[0] = jit_at + 64;
	unwind(&bed);
	CHECK_PCS(&bed, jit_at + 100, symbol(&bed, "after_memory"), symbol(&bed, "in_outermost"));
	assert_int_equal(snap_pc_trust(bed.pcs.pcs[1]), SNAP_TRUST_SCAN);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_SCANNED);
	bed_close(&bed);
}

/* Without registers: the stack can be scanned, a frame pointer cannot be followed. */
static void test_partial_threads(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	bed.thread.partial = true;
	bed.stack[5] = symbol(&bed, "after_push_only");
	bed.stack[7] = symbol(&bed, "in_outermost");
	begins_in(&bed, symbol(&bed, "in_push_only"));
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 3);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_SCANNED);
	assert_false(bed.pcs.needs_register);
	/* Its return address may be in the link register, and what lies on the stack old. */
	if (!CALL_PUSHES) {
		bed.stack[5] = symbol(&bed, "after_leaf");
		begins_in(&bed, symbol(&bed, "in_leaf"));
		unwind(&bed);
		assert_int_equal(bed.pcs.count, 1);
		assert_true(bed.pcs.needs_register);
	}
	begins_in(&bed, symbol(&bed, "in_with_fp"));
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 1);
	assert_true(bed.pcs.needs_register);
	bed_close(&bed);
}

/* Stacks full of what looks like return addresses: an end, and no more frames than words. */
static void test_hostile_stacks(void **unused)
{
	static const char *const symbols[] = { "in_leaf",      "after_leaf",    "after_indirect",
					       "after_stub",   "in_second",     "in_with_fp",
					       "in_late",      "in_saves_many", "after_memory",
					       "in_outermost", "in_entry_point" };
	uint64_t state = 11;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	bed.stack[0] = 0;
	for (int round = 0; round < 300; round++) {
		for (size_t i = 0; i < STACK_WORDS / 8; i++) {
			state = state * 6364136223846793005ull + 1442695040888963407ull;
			bed.stack[i] =
				state >> 40 & 1
					? symbol(&bed,
						 symbols[(state >> 33) % SNAP_ARRAY_SIZE(symbols)])
					: stack_at + (state >> 33) % (8 * STACK_WORDS);
		}
		begins_in(&bed, symbol(&bed, symbols[round % SNAP_ARRAY_SIZE(symbols)]));
		bed.registers[FP_WORD] = stack_at + 8 * (state >> 33 & 63);
		put_return(&bed, 0, bed.stack[state >> 39 & 63]);
		unwind(&bed);
		assert_true(bed.pcs.count > 0 && bed.pcs.count <= STACK_WORDS + 64);
	}
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_callers),
		cmocka_unit_test(test_known_callers_without_symbols),
		cmocka_unit_test(test_pushed_registers),
		cmocka_unit_test(test_late_frame_pointer),
		cmocka_unit_test(test_record_of_caller),
		cmocka_unit_test(test_scan_is_bounded),
		cmocka_unit_test(test_early_end_wins),
		cmocka_unit_test(test_code_in_no_file),
		cmocka_unit_test(test_partial_threads),
		cmocka_unit_test(test_hostile_stacks),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
