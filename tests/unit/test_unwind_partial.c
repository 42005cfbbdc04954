/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads of which only pc and sp are known: what needs no more is unwound whole, what needs more
 * says so and guesses nothing. And unwinders that share a set of modules.
 */
#include "unwind_bed.h"

#include "analyze/unwind/internal.h"

/* Registers that are not known have a value that would lead somewhere. */
static void bed_open_partial(struct bed *bed, const char *function)
{
	bed_open(bed);
	bed->thread.partial = true;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bed->registers); i++)
		if (i != SP_WORD)
			bed->registers[i] = stack_at + 800;
	bed->stack[101] = inside(bed, "outermost");
	begins_in(bed, inside(bed, function));
}

static void check_needs(const struct bed *bed, size_t count)
{
	assert_int_equal(bed->pcs.count, count);
	assert_int_equal(bed->pcs.end, SNAP_UNWIND_FAILED);
	assert_true(bed->pcs.needs_register);
	assert_string_equal(bed->pcs.reason,
			    "it needs a register that is readable only in a stopped thread");
	assert_int_equal(bed->pcs.end_pc, snap_pc_address(bed->pcs.pcs[count - 1]));
}

static void test_stack_pointer_suffices(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open_partial(&bed, "simple");
	bed.stack[2] = inside(&bed, "by_expression");
	bed.stack[4] = stack_at + 48; /* its CFA */
	bed.stack[5] = inside(&bed, "outermost");
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "simple"), inside(&bed, "by_expression"),
		  inside(&bed, "outermost"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	assert_false(bed.pcs.needs_register);
	assert_false(bed.pcs.stale_mappings);
	bed_close(&bed);
}

static void test_frame_pointer_is_needed(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open_partial(&bed, "by_fp");
	unwind(&bed);
	check_needs(&bed, 1);
	/* Nobody restored it on the way. */
	begins_in(&bed, inside(&bed, "simple"));
	bed.stack[2] = inside(&bed, "by_fp");
	unwind(&bed);
	check_needs(&bed, 2);
	/* The same thread whole: it is there, and the flag is not left over. */
	bed.thread.partial = false;
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "simple"), inside(&bed, "by_fp"), inside(&bed, "outermost"));
	assert_false(bed.pcs.needs_register);
	bed_close(&bed);
}

static void test_restored_frame_pointer_is_known(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open_partial(&bed, "saves_fp");
	bed.stack[0] = stack_at + 40; /* the frame pointer */
	bed.stack[1] = inside(&bed, "by_fp");
	bed.stack[5] = stack_at + 80; /* of its caller */
	bed.stack[6] = inside(&bed, "by_fp");
	bed.stack[10] = 0;
	bed.stack[11] = jit_at + 64; /* no CFI: by a frame pointer that is zero, and no more */
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "saves_fp"), inside(&bed, "by_fp"), inside(&bed, "by_fp"),
		  jit_at + 64);
	assert_false(bed.pcs.needs_register);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	bed_close(&bed);
}

/* At the edge of the copy the slow path does the same; what it cannot read is not known. */
static void test_edge_of_the_copy(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open_partial(&bed, "saves_fp");
	bed.stack[0] = stack_at + 40;
	bed.stack[1] = inside(&bed, "by_fp");
	bed.stack[5] = 0;
	bed.stack[6] = inside(&bed, "outermost");
	bed.thread.stack_address += 8; /* the saved frame pointer is not in the copy */
	bed.thread.stack += 8;
	bed.thread.stack_size -= 8;
	unwind(&bed);
	check_needs(&bed, 2);
	bed.thread.stack2_address = stack_at; /* but in another range */
	bed.thread.stack2 = (const uint8_t *)bed.stack;
	bed.thread.stack2_size = 8;
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "saves_fp"), inside(&bed, "by_fp"), inside(&bed, "outermost"));
	assert_false(bed.pcs.needs_register);
	bed_close(&bed);
}

static void test_code_without_information(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open_partial(&bed, "simple");
	bed.stack[2] = jit_at + 64;
	unwind(&bed);
	check_needs(&bed, 2);
	bed_close(&bed);
}

static void test_expressions_with_registers(void **unused)
{
	struct bed bed;

	(void)unused;
	/* The return address is in one. */
	bed_open_partial(&bed, "in_register");
	unwind(&bed);
	check_needs(&bed, 1);
	/* What rows refuse libunwind would take with registers that are not there. */
	begins_in(&bed, inside(&bed, "endless"));
	unwind(&bed);
	check_needs(&bed, 1);
	bed_close(&bed);
}

static void test_signal_frame_tells_all(void **unused)
{
	static const char *const returns[] = { "described_return", "bare_return" };
	struct bed bed;

	(void)unused;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(returns); i++) {
		bed_open_partial(&bed, "calls");
		bed.stack[0] = i == 0 ? inside(&bed, returns[i]) : symbol(&bed, returns[i]);
		bed.stack[1 + SIGNAL_FP / 8] = stack_at + 640;
		bed.stack[1 + SIGNAL_SP / 8] = stack_at + 400;
		bed.stack[1 + SIGNAL_PC / 8] = symbol(&bed, "by_fp");
		bed.stack[81] = inside(&bed, "outermost");
		unwind(&bed);
		CHECK_PCS(&bed, inside(&bed, "calls"), bed.stack[0], symbol(&bed, "by_fp"),
			  inside(&bed, "outermost"));
		assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
		assert_false(bed.pcs.needs_register);
		bed_close(&bed);
	}
}

static void test_engine_that_wants_all(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open_partial(&bed, "simple");
	bed.options.engine = SNAP_ENGINE_LIBUNWIND;
	unwind(&bed);
	check_needs(&bed, 1);
	bed_close(&bed);
}

static bool is_stale(struct bed *bed, uint64_t return_address)
{
	begins_in(bed, inside(bed, "simple"));
	bed->stack[2] = return_address;
	unwind(bed);
	return bed->pcs.stale_mappings;
}

static void test_stale_mappings(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	assert_true(is_stale(&bed, 0x7f0000001000));
	/*
	 * What can be no code (an address that is signed, where there are such), what is code, what is
	 * memory of another kind, and what is none.
	 */
	assert_false(is_stale(&bed, 0));
	assert_false(is_stale(&bed, 5));
	assert_false(is_stale(&bed, inside(&bed, "outermost") | 0x7fff000000000000));
	assert_false(is_stale(&bed, jit_at + 64));
	assert_false(is_stale(&bed, inside(&bed, "outermost")));
	assert_false(is_stale(&bed, stack_at + 64));
	/* Reserved for code that comes later. */
	bed.maps[bed.process.map_count - 1].read = bed.maps[bed.process.map_count - 1].write =
		false;
	assert_true(is_stale(&bed, other_stack_at + 64));
	bed_close(&bed);
}

static void test_unwinders_share_a_set(void **unused)
{
	struct snap_unwinder *first, *second;
	struct bed bed;
	void *rows;

	(void)unused;
	bed_open(&bed);
	first = bed.unwinder;
	assert_null(snap_unwinder_create(bed.set, &bed.options, &second));
	assert_null(snap_unwinder_enter(second, &bed.process, bed.modules));
	begins_in(&bed, inside(&bed, "by_expression"));
	bed.stack[1] = stack_at + 80;
	bed.stack[9] = inside(&bed, "outermost");
	unwind(&bed);
	rows = snap_module_set_file(bed.set, 0)->unwind;
	assert_non_null(rows);
	snap_unwinder_destroy(first);
	bed.unwinder = second;
	for (int i = 0; i < 2; i++) {
		unwind(&bed);
		CHECK_PCS(&bed, inside(&bed, "by_expression"), inside(&bed, "outermost"));
	}
	assert_ptr_equal(snap_module_set_file(bed.set, 0)->unwind, rows);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stack_pointer_suffices),
		cmocka_unit_test(test_frame_pointer_is_needed),
		cmocka_unit_test(test_restored_frame_pointer_is_known),
		cmocka_unit_test(test_edge_of_the_copy),
		cmocka_unit_test(test_code_without_information),
		cmocka_unit_test(test_expressions_with_registers),
		cmocka_unit_test(test_signal_frame_tells_all),
		cmocka_unit_test(test_engine_that_wants_all),
		cmocka_unit_test(test_stale_mappings),
		cmocka_unit_test(test_unwinders_share_a_set),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
