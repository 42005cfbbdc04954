/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The unwinder on stacks made of words: every kind of row, every way in which a stack can end. */
#include "unwind_bed.h"

#include "analyze/unwind/internal.h"
#include "skip.h"

static void test_simple_rows(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, symbol(&bed, "simple"));
	bed.stack[0] = 12;
	bed.stack[1] = 3;
	bed.stack[2] = inside(&bed, "by_fp") | SIGNATURE; /* CFA = stack + 24 */
	bed.registers[FP_WORD] = stack_at + 40;
	bed.stack[5] = 0; /* the caller's */
	bed.stack[6] = inside(&bed, "outermost");
	unwind(&bed);
	CHECK_PCS(&bed, symbol(&bed, "simple"), inside(&bed, "by_fp"), inside(&bed, "outermost"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	assert_null(bed.pcs.reason);
	assert_int_equal(bed.pcs.gap_count, 0);
	assert_int_equal(snap_pc_lookup(bed.pcs.pcs[0]), symbol(&bed, "simple"));
	assert_int_equal(snap_pc_lookup(bed.pcs.pcs[1]), inside(&bed, "by_fp") - 1);
	assert_int_equal(bed.unwinder->state.registers[SAVED], 3);
	assert_int_equal(bed.unwinder->state.registers[ALSO_SAVED], 12);
	bed_close(&bed);
}

static void test_expressions(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, inside(&bed, "by_expression"));
	bed.stack[1] = stack_at + 80; /* the CFA */
	bed.stack[9] = inside(&bed, "by_branch");
	/* CFA = sp + 8 + 16 */
	bed.stack[12] = inside(&bed, "by_location");
	/* the return address at sp, CFA = sp + 16, the saved register = sp + 1 */
	bed.stack[13] = inside(&bed, "in_register");
	bed.registers[HOLDER_WORD] = inside(&bed, "far_away");
	bed.stack[16] = 77;                              /* saved at sp */
	bed.stack[16 + 256] = inside(&bed, "outermost"); /* sp + 2056 - 8 */
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "by_expression"), inside(&bed, "by_branch"),
		  inside(&bed, "by_location"), inside(&bed, "in_register"),
		  inside(&bed, "far_away"), inside(&bed, "outermost"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	assert_int_equal(bed.unwinder->state.registers[SAVED], 77);
	bed_close(&bed);
}

static void test_rows_that_libunwind_knows(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, inside(&bed, "by_address"));
	bed.registers[FP_WORD] = stack_at;
	bed.stack[2] = inside(&bed, "by_address") | SIGNATURE;
	bed.stack[5] = inside(&bed, "outermost") | SIGNATURE;
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "by_address"), inside(&bed, "by_address"),
		  inside(&bed, "outermost"));
	assert_int_equal(snap_pc_trust(bed.pcs.pcs[2]), SNAP_TRUST_CFI);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	assert_int_equal(snap_unwinder_row(bed.unwinder, inside(&bed, "by_address"))->kind,
			 SNAP_ROW_WIDE);
	bed_close(&bed);
}

static void check_end_with(const char *function, const char *link, enum snap_unwind_end end)
{
	struct bed bed;

	bed_open(&bed);
	begins_in(&bed, inside(&bed, function));
	put_return(&bed, 0, link ? inside(&bed, link) : 0);
	bed.stack[0] = bed.stack[1] = bed.stack[2] = inside(&bed, function);
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, function));
	assert_int_equal(bed.pcs.end, end);
	assert_non_null(bed.pcs.reason);
	assert_int_equal(bed.pcs.end_pc, inside(&bed, function));
	bed_close(&bed);
}

/* Whatever is in the link register, where there is one: CFI has not said that it counts. */
static void check_end(const char *function, enum snap_unwind_end end)
{
	check_end_with(function, NULL, end);
	check_end_with(function, "outermost", end);
}

static void test_hostile_rows(void **unused)
{
	(void)unused;
	check_end("stuck", SNAP_UNWIND_CYCLE);
	check_end("endless", SNAP_UNWIND_FAILED);
	/* libunwind makes 0 of it. */
	check_end("no_sense", SNAP_UNWIND_UNREADABLE);
	check_end("underflow", SNAP_UNWIND_FAILED);
}

static void test_zero_return_address_is_outermost(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, inside(&bed, "simple"));
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "simple"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	bed_close(&bed);
}

/* A frame of the kernel at the words from `at` on: the interrupted code is in `simple`. */
static void put_signal_frame(struct bed *bed, uint64_t *words, uint64_t sp)
{
	words[SIGNAL_FP / 8] = 0x6060;
	words[SIGNAL_SP / 8] = sp;
	words[SIGNAL_PC / 8] = symbol(bed, "simple");
}

static void check_signal(const char *trampoline, uint64_t address, bool on_other_stack)
{
	struct bed bed;
	uint64_t *interrupted;

	bed_open(&bed);
	begins_in(&bed, inside(&bed, "calls"));
	bed.stack[0] = address ? bed.bias + address : symbol(&bed, trampoline);
	if (strcmp(trampoline, "described_return") == 0)
		bed.stack[0] += NOP_BYTES;
	put_signal_frame(&bed, bed.stack + 1, on_other_stack ? other_stack_at : stack_at + 800);
	interrupted = on_other_stack ? bed.other_stack : bed.stack + 100;
	interrupted[2] = inside(&bed, "outermost");
	if (on_other_stack) {
		bed.thread.stack2_address = other_stack_at;
		bed.thread.stack2 = (const uint8_t *)bed.other_stack;
		bed.thread.stack2_size = sizeof(bed.other_stack);
	}
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "calls"), bed.stack[0], symbol(&bed, "simple"),
		  inside(&bed, "outermost"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	/* Interrupted, not called: looked up where it stands. */
	assert_int_equal(snap_pc_lookup(bed.pcs.pcs[2]), symbol(&bed, "simple"));
	assert_int_equal(snap_pc_lookup(bed.pcs.pcs[3]), inside(&bed, "outermost") - 1);
	assert_int_equal(bed.unwinder->state.registers[FP], 0x6060);
	bed_close(&bed);
}

static void test_signal_frames(void **unused)
{
	(void)unused;
	check_signal("described_return", 0, false);
	check_signal("bare_return", 0, false);
	check_signal("described_return", 0, true);
	check_signal("bare_return", 0, true);
}

static void test_frame_pointers(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, jit_at + 100);
	bed.registers[FP_WORD] = stack_at + 16;
	bed.stack[2] = stack_at + 64;
	bed.stack[3] = jit_at + 200;
	bed.stack[8] = stack_at + 128;
	bed.stack[9] = symbol(&bed, "in_framed");
	bed.stack[16] = 0;
	bed.stack[17] = jit_at + 300;
	unwind(&bed);
	CHECK_PCS(&bed, jit_at + 100, jit_at + 200, symbol(&bed, "in_framed"), jit_at + 300);
	assert_int_equal(snap_pc_trust(bed.pcs.pcs[0]), SNAP_TRUST_CFI);
	for (size_t i = 1; i < 4; i++)
		assert_int_equal(snap_pc_trust(bed.pcs.pcs[i]), SNAP_TRUST_FRAME_POINTER);
	/* Of code in no file a zero there says nothing. */
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	bed.stack[17] = symbol(&bed, "in_framed");
	unwind(&bed);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_GUESSED);
	bed_close(&bed);
}

static void check_frame_pointer(uint64_t fp, uint64_t caller, uint64_t return_address)
{
	struct bed bed;

	bed_open(&bed);
	begins_in(&bed, jit_at + 100);
	bed.registers[SP_WORD] = stack_at + 32;
	bed.registers[FP_WORD] = fp;
	if (fp >= stack_at && fp < stack_at + 8 * 64 && fp % 8 == 0) {
		bed.stack[(fp - stack_at) / 8] = caller;
		bed.stack[(fp - stack_at) / 8 + 1] = return_address;
	}
	unwind(&bed);
	CHECK_PCS(&bed, jit_at + 100);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	assert_string_equal(bed.pcs.reason, "no unwind information");
	bed_close(&bed);
}

static void test_frame_pointers_that_nobody_believes(void **unused)
{
	(void)unused;
	check_frame_pointer(0, 0, 0);
	check_frame_pointer(stack_at + 16, stack_at + 256, jit_at + 8); /* below sp */
	check_frame_pointer(stack_at + 65, 0, 0);                       /* at no word */
	check_frame_pointer(0x7777000, 0, 0);                           /* not in the stack */
	check_frame_pointer(stack_at + sizeof(((struct bed *)0)->stack) - 8, 0, 0);
	check_frame_pointer(stack_at + 64, stack_at + 128, stack_at + 8); /* not executable */
}

static void test_wild_call(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, 0);
	put_return(&bed, 0, symbol(&bed, "after_call"));
	bed.stack[CALL_PUSHES] = inside(&bed, "outermost");
	unwind(&bed);
	CHECK_PCS(&bed, (uint64_t)0, symbol(&bed, "after_call"), inside(&bed, "outermost"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	/* No call stands before this one. */
	put_return(&bed, 0, symbol(&bed, "bare") + 8);
	unwind(&bed);
	CHECK_PCS(&bed, (uint64_t)0);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	/* A return address that leads nowhere is shown, and that is all. */
	begins_in(&bed, inside(&bed, "calls"));
	bed.stack[0] = 0x1234567;
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "calls"), (uint64_t)0x1234567);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NO_CFI);
	bed_close(&bed);
}

static void test_limit_and_unreadable(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, inside(&bed, "simple"));
	for (size_t i = 2; i < STACK_WORDS; i += 3)
		bed.stack[i] = inside(&bed, "simple");
	bed.thread.stack_size = 10 * 24;
	bed.thread.stack_limited = true;
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 11);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_LIMIT);
	bed.thread.stack_limited = false;
	bed.thread.stack_unreadable = true;
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 11);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_UNREADABLE);
	bed.thread.stack_size = 0;
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "simple"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_UNREADABLE);
	bed_close(&bed);
}

static void test_threads_without_a_stack(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, inside(&bed, "simple"));
	bed.thread.registers_size = 68; /* the set of i386, which is no set here */
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 0);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_FAILED);
	bed.thread.result = SNAP_THREAD_NOT_STOPPED;
	unwind(&bed);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_NOT_STOPPED);
	bed.thread.result = SNAP_THREAD_COPIED;
	bed.process.arch = SNAP_ARCH_UNKNOWN;
	assert_null(snap_unwinder_enter(bed.unwinder, &bed.process, bed.modules));
	unwind(&bed);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_FAILED);
	bed_close(&bed);
}

static void test_engines_agree(void **unused)
{
	static const enum snap_engine engines[] = { SNAP_ENGINE_AUTO, SNAP_ENGINE_LIBUNWIND };
	struct bed bed;

	(void)unused;
	for (size_t i = 0; i < 2; i++) {
		bed_open(&bed);
		bed.options.engine = engines[i];
		begins_in(&bed, inside(&bed, "simple"));
		/* Some versions of libunwind take zero for the end of the stack. */
		bed.registers[FP_WORD] = stack_at;
		for (size_t k = 2; k < 299; k += 3)
			bed.stack[k] = inside(&bed, "simple");
		bed.stack[299] = inside(&bed, "by_location");
		bed.stack[300] = inside(&bed, "outermost");
		unwind(&bed);
		assert_int_equal(bed.pcs.count, 102);
		for (size_t k = 0; k < 100; k++)
			assert_int_equal(snap_pc_address(bed.pcs.pcs[k]), inside(&bed, "simple"));
		assert_int_equal(snap_pc_address(bed.pcs.pcs[100]), inside(&bed, "by_location"));
		assert_int_equal(snap_pc_address(bed.pcs.pcs[101]), inside(&bed, "outermost"));
		assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
		bed_close(&bed);
	}
}

/* The return address is in the link register still, and there is no frame. */
static void test_no_frame(void **unused)
{
	static const enum snap_engine engines[] = { SNAP_ENGINE_AUTO, SNAP_ENGINE_LIBUNWIND };
	struct bed bed;

	(void)unused;
	if (CALL_PUSHES)
		skip_because("arch: a call pushes its return address");
	for (size_t i = 0; i < 2; i++) {
		bed_open(&bed);
		bed.options.engine = engines[i];
		begins_in(&bed, inside(&bed, "frameless"));
		put_return(&bed, 0, inside(&bed, "simple"));
		bed.registers[FP_WORD] = stack_at;
		bed.stack[2] = inside(&bed, "outermost");
		unwind(&bed);
		CHECK_PCS(&bed, inside(&bed, "frameless"), inside(&bed, "simple"),
			  inside(&bed, "outermost"));
		assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
		/* Who has called somebody has one. */
		bed.stack[2] = inside(&bed, "frameless");
		unwind(&bed);
		CHECK_PCS(&bed, inside(&bed, "frameless"), inside(&bed, "simple"),
			  inside(&bed, "frameless"));
		assert_int_equal(bed.pcs.end, SNAP_UNWIND_CYCLE);
		bed_close(&bed);
	}
}

/* Data is not copied. Who catches an exception stands there; where a stack goes on never does. */
static void test_uncopied_data(void **unused)
{
	static const enum snap_engine engines[] = { SNAP_ENGINE_AUTO, SNAP_ENGINE_LIBUNWIND };
	struct bed bed;

	(void)unused;
	for (size_t i = 0; i < 2; i++) {
		bed_open(&bed);
		bed.options.engine = engines[i];
		/* below the data, for stacks grow */
		bed.thread.stack_address = bed.registers[SP_WORD] = code_at / 2;
		begins_in(&bed, inside(&bed, "catches_in_register"));
		bed.registers[HOLDER_WORD] = inside(&bed, "catches");
		bed.registers[FP_WORD] = symbol(&bed, "pointer_in_data");
		bed.stack[2] = inside(&bed, "by_fp");
		unwind(&bed);
		CHECK_PCS(&bed, inside(&bed, "catches_in_register"), inside(&bed, "catches"),
			  inside(&bed, "by_fp"));
		assert_int_equal(bed.pcs.end, SNAP_UNWIND_UNREADABLE);
		bed_close(&bed);
	}
}

static void test_reference_pcs(void **unused)
{
	struct bed bed;
	uint64_t pcs[2];

	(void)unused;
	bed_open(&bed);
	bed.options.engine = SNAP_ENGINE_PTRACE;
	pcs[0] = snap_pc_exact(inside(&bed, "simple")).bits;
	pcs[1] = snap_pc_return(inside(&bed, "outermost")).bits;
	bed.thread.reference_pcs = pcs;
	bed.thread.reference_pc_count = 2;
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "simple"), inside(&bed, "outermost"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	bed_close(&bed);
}

/* What max_frames leaves of the pcs 1 … total, against a plain computation. */
static void check_sink(size_t total, size_t max, bool is_whole)
{
	struct snap_sink sink = { 0 };
	struct snap_pcs got;
	size_t tail = is_whole && max > 1 ? max / 2 : 0, taken = 0;

	snap_sink_begin(&sink, max, is_whole, UINT64_MAX);
	while (taken < total && snap_sink_add(&sink, snap_pc_return(taken + 1)))
		taken++;
	snap_sink_end(&sink, &got);
	if (max == 0 || total <= max) {
		assert_int_equal(taken, total);
		assert_int_equal(got.count, total);
		assert_int_equal(got.gap_count, 0);
	} else {
		assert_int_equal(got.count, max);
		assert_int_equal(got.gap_count, tail ? total - max : 0);
		assert_int_equal(got.gap_after, tail ? max - tail - 1 : 0);
		assert_int_equal(sink.is_cut, tail == 0);
	}
	for (size_t i = 0; i < got.count; i++) {
		bool is_tail = got.gap_count > 0 && i > got.gap_after;

		assert_int_equal(snap_pc_address(got.pcs[i]),
				 is_tail ? i + 1 + total - max : i + 1);
	}
	free(sink.pcs);
}

static void test_head_and_tail(void **unused)
{
	(void)unused;
	for (size_t total = 0; total < 60; total++)
		for (size_t max = 0; max < 20; max++) {
			check_sink(total, max, true);
			check_sink(total, max, false);
		}
}

static void test_max_frames(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, inside(&bed, "simple"));
	for (size_t i = 2; i < 2 + 3 * 100; i += 3)
		bed.stack[i] = inside(&bed, i == 2 + 3 * 99 ? "outermost" : "simple");
	bed.options.max_frames = 4;
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "simple"), inside(&bed, "simple"), inside(&bed, "simple"),
		  inside(&bed, "outermost"));
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_COMPLETE);
	assert_int_equal(bed.pcs.gap_after, 1);
	assert_int_equal(bed.pcs.gap_count, 97);
	bed.options.max_frames = 1;
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 1);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_LIMIT);
	bed.options.max_frames = 4;
	bed.thread.stack_limited = true;
	unwind(&bed);
	assert_int_equal(bed.pcs.count, 4);
	assert_int_equal(bed.pcs.gap_count, 0);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_LIMIT);
	bed_close(&bed);
}

/* Signal frames may go down the stack again: then only the ceiling ends a circle of them. */
static void test_circle_of_signals(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	begins_in(&bed, symbol(&bed, "bare_return"));
	bed.registers[SP_WORD] = stack_at + 64;
	put_signal_frame(&bed, bed.stack + 8, stack_at + 64);
	bed.stack[8 + SIGNAL_PC / 8] = symbol(&bed, "bare_return");
	unwind(&bed);
	assert_int_equal(bed.pcs.end, SNAP_UNWIND_LIMIT);
	assert_true(bed.pcs.count <= sizeof(bed.stack) / 8 + 64);
	bed_close(&bed);
}

/* A pc is one number: the address, whether it is exact, and how it was found. */
static void test_pcs(void **unused)
{
	static const uint64_t addresses[] = { 0, 1, 0x401000, 0x7fffffffffff, 1ull << 51 };
	static const uint64_t wild[] = { 0x4141414141414141, 0x7fff888000000000, 1ull << 52 };

	(void)unused;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(addresses); i++)
		for (unsigned trust = 0; trust < SNAP_TRUST_COUNT; trust++)
			for (int exact = 0; exact < 2; exact++) {
				struct snap_pc pc = exact ? snap_pc_exact(addresses[i])
							  : snap_pc_return(addresses[i]);

				pc = snap_pc_found_by(pc, (enum snap_trust)trust);
				assert_int_equal(snap_pc_address(pc), addresses[i]);
				assert_int_equal(snap_pc_is_exact(pc), exact);
				assert_int_equal(snap_pc_trust(pc), trust);
				assert_int_equal(snap_pc_lookup(pc),
						 addresses[i] - (!exact && addresses[i]));
			}
	/* What lies where no user code can be keeps all of its bits. */
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(wild); i++) {
		struct snap_pc pc = snap_pc_found_by(snap_pc_return(wild[i]), SNAP_TRUST_SCAN);

		assert_int_equal(snap_pc_address(pc), wild[i]);
		assert_int_equal(snap_pc_trust(pc), SNAP_TRUST_CFI);
		assert_int_equal(snap_pc_lookup(pc), wild[i] - 1);
	}
}

static void test_calls(void **unused)
{
	static const struct {
		uint8_t code[SNAP_CALL_BYTES]; /* its last bytes are the call */
		bool is_direct, is_indirect;
	} calls[] = {
		{ { 0, 0, 0xe8, 0x10, 0, 0, 0 }, true, false },
		{ { 0, 0, 0, 0, 0, 0xff, 0xd0 }, false, true },    /* *%rax */
		{ { 0, 0, 0, 0, 0x41, 0xff, 0xd4 }, false, true }, /* *%r12 */
		{ { 0, 0, 0, 0, 0, 0xff, 0x10 }, false, true },    /* *(%rax) */
		{ { 0, 0, 0, 0, 0xff, 0x50, 8 }, false, true },    /* *8(%rax) */
		{ { 0, 0, 0, 0xff, 0x54, 0x24, 8 }, false, true }, /* *8(%rsp) */
		{ { 0, 0, 0, 0, 0xff, 0x14, 0xc8 }, false, true }, /* *(%rax,%rcx,8) */
		{ { 0, 0xff, 0x15, 1, 2, 3, 4 }, false, true },    /* *x(%rip) */
		{ { 0, 0xff, 0x90, 1, 2, 3, 4 }, false, true },    /* *x(%rax) */
		{ { 0xff, 0x14, 0xc5, 1, 2, 3, 4 }, false, true }, /* *x(,%rax,8) */
		{ { 0xff, 0x94, 0xc8, 1, 2, 3, 4 }, false, true }, /* *x(%rax,%rcx,8) */
		{ { 0, 0, 0xe9, 0x10, 0, 0, 0 }, false, false },   /* jmp */
		{ { 0, 0, 0, 0, 0, 0xff, 0xe0 }, false, false },   /* jmp *%rax */
		{ { 0xe9, 0xe0, 0xff, 0xff, 0xff, 0xff, 0x90 }, false, false }, /* cut short */
		{ { 0, 0, 0, 0, 0, 0xff, 0x14 }, false, false },
		{ { 0, 0, 0, 0, 0xff, 0xd0, 0x90 }, false, false }, /* not the last one */
	};
	const struct snap_arch_ops *arch = snap_arch_ops(SNAP_ARCH_X86_64);

	(void)unused;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(calls); i++) {
		struct snap_call call =
			arch->call_before(calls[i].code + sizeof(calls[i].code), 0x1000);

		assert_int_equal(call.is_direct, calls[i].is_direct);
		assert_int_equal(call.is_indirect, calls[i].is_indirect);
		if (call.is_direct)
			assert_int_equal(call.target, 0x1010);
	}
}

static void test_registers_and_syscalls(void **unused)
{
	const struct snap_arch_ops *arch = snap_arch_ops(SNAP_ARCH_X86_64);
	uint64_t raw[27], dwarf[SNAP_MAX_DWARF_REGISTERS], pc;
	struct snap_known_registers known;

	(void)unused;
	for (size_t i = 0; i < 27; i++)
		raw[i] = 100 + i;
	assert_true(arch->registers(raw, sizeof(raw), dwarf, &pc));
	assert_int_equal(dwarf[0], 110);
	assert_int_equal(dwarf[6], 104);
	assert_int_equal(dwarf[7], 119);
	assert_int_equal(dwarf[15], 100);
	assert_int_equal(pc, 116);
	assert_false(arch->registers(raw, 68, dwarf, &pc));
	assert_true(snap_registers_read(SNAP_ARCH_X86_64, raw, sizeof(raw), 'S', &known));
	assert_int_equal(known.call, 115);
	raw[15] = UINT64_MAX;
	assert_true(snap_registers_read(SNAP_ARCH_X86_64, raw, sizeof(raw), 'S', &known));
	assert_int_equal(known.call, -1);
	assert_string_equal(snap_arch_syscall_name(arch, 0), "read");
	assert_string_equal(snap_arch_syscall_name(arch, 219), "restart_syscall");
	assert_string_equal(snap_arch_syscall_name(arch, 232), "epoll_wait");
	assert_string_equal(snap_arch_syscall_name(arch, 334), "rseq");
	assert_string_equal(snap_arch_syscall_name(arch, 449), "futex_waitv");
	assert_string_equal(snap_arch_syscall_name(arch, 462), "mseal");
	assert_null(snap_arch_syscall_name(arch, 400));
	assert_null(snap_arch_syscall_name(arch, 100000));
	assert_null(snap_arch_syscall_name(arch, -1));
	assert_null(snap_arch_ops(SNAP_ARCH_UNKNOWN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_simple_rows),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_rows_that_libunwind_knows),
		cmocka_unit_test(test_hostile_rows),
		cmocka_unit_test(test_zero_return_address_is_outermost),
		cmocka_unit_test(test_signal_frames),
		cmocka_unit_test(test_frame_pointers),
		cmocka_unit_test(test_frame_pointers_that_nobody_believes),
		cmocka_unit_test(test_wild_call),
		cmocka_unit_test(test_limit_and_unreadable),
		cmocka_unit_test(test_threads_without_a_stack),
		cmocka_unit_test(test_engines_agree),
		cmocka_unit_test(test_no_frame),
		cmocka_unit_test(test_uncopied_data),
		cmocka_unit_test(test_reference_pcs),
		cmocka_unit_test(test_head_and_tail),
		cmocka_unit_test(test_max_frames),
		cmocka_unit_test(test_circle_of_signals),
		cmocka_unit_test(test_pcs),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_registers_and_syscalls),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
