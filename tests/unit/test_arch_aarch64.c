/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is special to aarch64, on any machine: instructions as an assembler writes them, registers,
 * system calls, and steps through a stack made by hand whose return addresses are signed.
 */
#include "analyze/symbol/machine.h"
#include "analyze/unwind/arch.h"
#include "analyze/unwind/internal.h"
#include "model/arch/registers.h"
#include "model/wait/call.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 512 };

static const uint64_t code_at = 0xaaaaaaaa0000, stack_at = 0xffffe4ed0000;
/* What paciasp makes of an address with 48 bits: bits 48 to 54. */
static const uint64_t signature = 0x0055000000000000;

static const struct snap_arch_ops *ops(void)
{
	return snap_arch_ops(SNAP_ARCH_AARCH64);
}

/* ---- instructions ---- */

static void test_calls(void **state _unused_)
{
	static const struct {
		uint32_t instruction;
		bool is_direct, is_indirect;
		uint64_t target;
	} calls[] = {
		{ 0x97fffff4, true, false, 0x10000 - 4 - 48 },  /* bl -48 */
		{ 0x94000082, true, false, 0x10000 - 4 + 520 }, /* bl +520 */
		{ 0xd63f0000, false, true, 0 },                 /* blr x0 */
		{ 0xd63f03c0, false, true, 0 },                 /* blr x30 */
		{ 0xd63f081f, false, true, 0 },                 /* blraaz x0 */
		{ 0xd63f0c7f, false, true, 0 },                 /* blrabz x3 */
		{ 0xd73f0a30, false, true, 0 },                 /* blraa x17, x16 */
		{ 0xd73f0c01, false, true, 0 },                 /* blrab x0, x1 */
		{ 0x14000000, false, false, 0 },                /* b */
		{ 0xd61f0220, false, false, 0 },                /* br x17 */
		{ 0xd65f03c0, false, false, 0 },                /* ret */
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(calls); i++) {
		uint8_t code[SNAP_CALL_BYTES] = { 0 };
		struct snap_call call;

		memcpy(code + sizeof(code) - 4, &calls[i].instruction, 4);
		call = ops()->call_before(code + sizeof(code), 0x10000);
		assert_int_equal(call.is_direct, calls[i].is_direct);
		assert_int_equal(call.is_indirect, calls[i].is_indirect);
		if (call.is_direct)
			assert_int_equal(call.target, calls[i].target);
	}
}

static bool is_return(uint32_t instruction)
{
	uint8_t code[SNAP_RETURN_BYTES];

	memcpy(code, &instruction, sizeof(instruction));
	return ops()->is_return(code);
}

static void test_returns(void **state _unused_)
{
	assert_true(is_return(0xd65f03c0));  /* ret */
	assert_true(is_return(0xd65f0220));  /* ret x17 */
	assert_true(is_return(0xd65f0bff));  /* retaa */
	assert_true(is_return(0xd65f0fff));  /* retab */
	assert_false(is_return(0xd61f03c0)); /* br x30 */
	assert_false(is_return(0xd63f0000)); /* blr x0 */
}

#define PROLOGUE(...)                                    \
	read_prologue((const uint32_t[]){ __VA_ARGS__ }, \
		      sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static struct snap_prologue read_prologue(const uint32_t *instructions, size_t count)
{
	struct snap_prologue ret = { 0 };

	ops()->read_prologue((const uint8_t *)instructions, count * sizeof(*instructions), &ret);
	return ret;
}

static void test_prologues(void **state _unused_)
{
	struct snap_prologue prologue;

	/* paciasp; stp x29, x30, [sp, -64]!; mov x29, sp */
	prologue = PROLOGUE(0xd503233f, 0xa9bc7bfd, 0x910003fd);
	assert_true(prologue.sets_frame_pointer);
	assert_int_equal(prologue.record_depth, 64);
	assert_int_equal(prologue.sp_depth, 64);
	/* The record is there, the frame pointer is not yet. */
	prologue = PROLOGUE(0xd503233f, 0xa9bc7bfd);
	assert_false(prologue.sets_frame_pointer);
	assert_int_equal(prologue.record_depth, 64);
	assert_int_equal(prologue.sp_depth, 64);
	prologue = PROLOGUE(0xd503245f, 0xd503233f);
	assert_int_equal(prologue.record_depth, 0);
	/* sub sp, sp, 4096; sub sp, sp, 928; stp x29, x30, [sp, 16]; add x29, sp, 16 */
	prologue = PROLOGUE(0xd14007ff, 0xd10e83ff, 0xa9017bfd, 0x910043fd);
	assert_true(prologue.sets_frame_pointer);
	assert_int_equal(prologue.record_depth, 4096 + 928 - 16);
	assert_int_equal(prologue.sp_depth, 4096 + 928);
	/* stp d8, d9, [sp, -96]!; stp x28, x27, [sp, 16]; stp x29, x30, [sp, 80]; add x29, sp, 80 */
	prologue = PROLOGUE(0x6dba27e8, 0xa9016ffc, 0xa9057bfd, 0x910143fd);
	assert_true(prologue.sets_frame_pointer);
	assert_int_equal(prologue.record_depth, 16);
	assert_int_equal(prologue.sp_depth, 96);
	/* add x29, sp, 16 that leads elsewhere than to the record */
	prologue = PROLOGUE(0xa9bc7bfd, 0x910043fd);
	assert_false(prologue.sets_frame_pointer);
	/* Behind a call nothing is a prologue. */
	prologue = PROLOGUE(0x94000001, 0xa9bc7bfd, 0x910003fd);
	assert_int_equal(prologue.record_depth, 0);
	assert_false(prologue.sets_frame_pointer);
	/* str x30, [sp, -16]! has no frame pointer beside it. */
	prologue = PROLOGUE(0xf81f0ffe, 0x910003fd);
	assert_int_equal(prologue.record_depth, 0);
	assert_int_equal(prologue.sp_depth, 16);
	assert_int_equal(prologue.link_depth, 16);
	assert_false(prologue.sets_frame_pointer);
	/* stp x19, x30, [sp, -32]!; sub sp, sp, 48; then sub sp, sp, 48; str x30, [sp, 40] */
	assert_int_equal(PROLOGUE(0xa9be7bf3, 0xd100c3ff).link_depth, 24);
	assert_int_equal(PROLOGUE(0xd100c3ff, 0xf90017fe).link_depth, 8);
	/* Where the frame pointer was written, too, it is in the record, or who knows where. */
	assert_int_equal(PROLOGUE(0xa9bc7bfd).link_depth, 0);
	assert_int_equal(PROLOGUE(0xf81f0ffe, 0xf81f0ffd).link_depth, 0);
}

/* adrp x16, 0x11000; ldr x17, [x16, 24]; add x16, x16, 24; br x17 */
static const uint32_t stub[] = { 0xb0000010, 0xf9400e11, 0x91006210, 0xd61f0220, 0xd503201f };

static void test_stubs(void **state _unused_)
{
	const struct snap_machine *machine = snap_machine_find(EM_AARCH64);
	uint8_t code[SNAP_STUB_BYTES];
	uint32_t pad = 0xd503245f;
	uint64_t slot = 0, target, none;

	memcpy(code, stub, sizeof(code));
	assert_true(ops()->is_jump_stub(code));
	assert_true(machine->stub_slot(code, sizeof(code), 0x10630, &slot));
	assert_int_equal(slot, 0x11018);
	assert_false(machine->stub_slot(code, 7, 0x10630, &slot));
	assert_false(machine->stub_slot(code + 4, sizeof(code) - 4, 0x10634, &slot));
	memcpy(code, &pad, sizeof(pad));
	memcpy(code + 4, stub, sizeof(code) - 4);
	assert_true(ops()->is_jump_stub(code));
	assert_true(machine->stub_slot(code, sizeof(code), 0x1062c, &slot));
	assert_int_equal(slot, 0x11018);
	memcpy(code, &(uint32_t){ 0x94000082 }, 4);
	assert_false(ops()->is_jump_stub(code));
	machine->read_call(code, 0x10000, &target, &none);
	assert_int_equal(target, 0x10000 - 4 + 520);
	assert_int_equal(none, 0);
}

static enum snap_stub stub_of(const uint32_t *code, size_t count, size_t at)
{
	return ops()->stub_at((const uint8_t *)code, count * sizeof(*code), at * sizeof(*code));
}

/* Each place in the two kinds, and around them. */
static void test_places_in_stubs(void **state _unused_)
{
	static const uint32_t nothing = 0xaa0003e0; /* mov x0, x0 */
	const uint32_t plt[] = {
		nothing, 0xa9bf7bf0, stub[0], stub[1],    stub[2], stub[3], nothing,
		stub[0], stub[1],    stub[2], 0xd503219f, stub[3], nothing, nothing,
		nothing, nothing,    nothing, nothing,    nothing, nothing,
	};
	static const enum snap_stub expected[] = {
		SNAP_STUB_NONE,   SNAP_STUB_BARE,   SNAP_STUB_PUSHED, SNAP_STUB_PUSHED,
		SNAP_STUB_PUSHED, SNAP_STUB_PUSHED, SNAP_STUB_NONE,   SNAP_STUB_BARE,
		SNAP_STUB_BARE,   SNAP_STUB_BARE,   SNAP_STUB_BARE,   SNAP_STUB_BARE,
		SNAP_STUB_NONE,
	};
	uint32_t changed[SNAP_ARRAY_SIZE(plt)];

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(expected); i++)
		assert_int_equal(stub_of(plt, SNAP_ARRAY_SIZE(plt), i), expected[i]);
	/* One that does not jump is none. */
	memcpy(changed, plt, sizeof(plt));
	changed[11] = nothing;
	assert_int_equal(stub_of(changed, SNAP_ARRAY_SIZE(plt), 8), SNAP_STUB_NONE);
	for (size_t count = 0; count < 7; count++)
		assert_int_equal(stub_of(plt + 7, count, 0), SNAP_STUB_NONE);
}

static void test_signal_return(void **state _unused_)
{
	uint8_t code[SNAP_SIGNAL_RETURN_BYTES] = { 0x68, 0x11, 0x80, 0xd2, 1, 0, 0, 0xd4 };

	assert_true(ops()->is_signal_return(code));
	code[0] = 0x88; /* another number */
	assert_false(ops()->is_signal_return(code));
	assert_int_equal(ops()->signal_context[0], 312);
	assert_int_equal(ops()->signal_context[31], 560);
	assert_int_equal(ops()->signal_pc, 568);
}

/* ---- registers and calls ---- */

static void test_registers(void **state _unused_)
{
	struct snap_aarch64_registers raw = { .sp = 131, .pc = 132, .thread_pointer = 7 };
	uint64_t dwarf[SNAP_MAX_DWARF_REGISTERS], pc;
	uint8_t written[SNAP_MAX_REGISTERS];
	struct snap_known_registers known;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(raw.x); i++)
		raw.x[i] = 100 + i;
	assert_true(ops()->registers(&raw, sizeof(raw), dwarf, &pc));
	assert_int_equal(dwarf[0], 100);
	assert_int_equal(dwarf[30], 130);
	assert_int_equal(dwarf[31], 131);
	assert_int_equal(pc, 132);
	assert_true(ops()->registers(&raw, 34 * 8, dwarf, &pc)); /* of a core file */
	assert_false(ops()->registers(&raw, 33 * 8, dwarf, &pc));
	assert_true(snap_registers_read(SNAP_ARCH_AARCH64, &raw, sizeof(raw), 'S', &known));
	assert_int_equal(known.call, 108);
	assert_int_equal(known.call_pc, 136);
	assert_int_equal(known.fp, 129);
	assert_int_equal(known.thread_pointer, 7);
	assert_int_equal(known.arguments[5], 105);
	/* Who runs is in no call, whatever x8 is. */
	assert_true(snap_registers_read(SNAP_ARCH_AARCH64, &raw, sizeof(raw), 'R', &known));
	assert_int_equal(known.call, -1);
	raw.x[8] = 0xffffe4ed30f0;
	assert_true(snap_registers_read(SNAP_ARCH_AARCH64, &raw, sizeof(raw), 'S', &known));
	assert_int_equal(known.call, -1);
	known.call = 98;
	assert_int_equal(snap_registers_write(SNAP_ARCH_AARCH64, &known, written), sizeof(raw));
	assert_true(snap_registers_read(SNAP_ARCH_AARCH64, written, sizeof(raw), 'S', &known));
	assert_int_equal(known.call, 98);
	assert_int_equal(known.sp, 131);
	assert_int_equal(known.arguments[5], 105);
}

/* A stop ends some calls: what they were called with is not in the registers. */
static void test_interrupted_call(void **state _unused_)
{
	struct snap_aarch64_registers raw = { .pc = 132, .x = { [0] = -EINTR, [8] = 22 } };
	struct snap_thread thread = { .state = 'S',
				      .registers = &raw,
				      .registers_size = sizeof(raw) };
	struct snap_known_registers known;

	assert_true(snap_registers_of(SNAP_ARCH_AARCH64, &thread, &known));
	assert_true(known.interrupted);
	assert_int_equal(known.call, 22);
	assert_int_equal(known.call_pc, 132);
	assert_false(snap_wait_call_of(SNAP_ARCH_AARCH64, &thread).known);
	thread.call = (struct snap_thread_call){ .known = true, .number = 22, .arguments = { 5 } };
	assert_int_equal(snap_wait_call_of(SNAP_ARCH_AARCH64, &thread).arguments[0], 5);
	raw.x[0] = 7;
	assert_int_equal(snap_wait_call_of(SNAP_ARCH_AARCH64, &thread).arguments[0], 7);
}

static void test_calls_by_number(void **state _unused_)
{
	static const struct {
		int number;
		const char *name;
		enum snap_wait_call call;
	} calls[] = {
		{ 63, "read", SNAP_CALL_READ },
		{ 64, "write", SNAP_CALL_WRITE },
		{ 22, "epoll_pwait", SNAP_CALL_EPOLL },
		{ 56, "openat", SNAP_CALL_OPEN },
		{ 72, "pselect6", SNAP_CALL_SELECT },
		{ 73, "ppoll", SNAP_CALL_POLL },
		{ 79, "newfstatat", SNAP_CALL_STAT },
		{ 80, "fstat", SNAP_CALL_FSTAT },
		{ 98, "futex", SNAP_CALL_FUTEX },
		{ 115, "clock_nanosleep", SNAP_CALL_CLOCK_NANOSLEEP },
		{ 128, "restart_syscall", SNAP_CALL_RESTART },
		{ 139, "rt_sigreturn", SNAP_CALL_OTHER },
		{ 202, "accept", SNAP_CALL_ACCEPT },
		{ 260, "wait4", SNAP_CALL_WAIT4 },
		{ 291, "statx", SNAP_CALL_STAT },
		{ 293, "rseq", SNAP_CALL_OTHER },
		{ 437, "openat2", SNAP_CALL_OPEN },
		{ 449, "futex_waitv", SNAP_CALL_FUTEX_WAITV },
		{ 0, "io_setup", SNAP_CALL_OTHER },
		{ 232, "mincore", SNAP_CALL_OTHER },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(calls); i++) {
		int number = calls[i].number;
		int64_t common = snap_wait_call_common(SNAP_ARCH_AARCH64, number);

		assert_string_equal(snap_arch_syscall_name(ops(), number), calls[i].name);
		assert_int_equal(snap_wait_call_row(SNAP_ARCH_AARCH64, number)->call,
				 calls[i].call);
		/* Both processors call it the same. */
		if (common >= 0) {
			assert_string_equal(snap_arch_syscall_name(snap_arch_ops(SNAP_ARCH_X86_64),
								   (int)common),
					    calls[i].name);
			assert_int_equal(snap_wait_call_own(SNAP_ARCH_AARCH64, common), number);
		}
	}
	for (int number = 0; number < 424; number++) {
		int64_t common = snap_wait_call_common(SNAP_ARCH_AARCH64, number);

		if (common >= 0)
			assert_string_equal(snap_arch_syscall_name(ops(), number),
					    snap_arch_syscall_name(snap_arch_ops(SNAP_ARCH_X86_64),
								   (int)common));
	}
	assert_null(snap_arch_syscall_name(ops(), 244));
	assert_null(snap_arch_syscall_name(ops(), -1));
	assert_null(snap_arch_syscall_name(ops(), 100000));
	assert_int_equal(snap_wait_call_own(SNAP_ARCH_AARCH64, 7 /* poll */), -1);
}

/* ---- steps ---- */

/* Code without a file, as a compiler makes it at run time: by frame records alone. */
struct stack {
	struct snap_options options;
	struct snap_map maps[2];
	struct snap_process process;
	struct snap_aarch64_registers registers;
	uint64_t words[WORDS];
	struct snap_thread thread;
	struct snap_arena arena;
	struct snap_module_set *set;
	struct snap_modules *modules;
	struct snap_unwinder *unwinder;
	struct snap_pcs pcs;
};

static void stack_open(struct stack *stack)
{
	*stack = (struct stack){
		.maps = { { .start = code_at,
			    .end = code_at + 65536,
			    .read = true,
			    .execute = true },
			  { .start = stack_at,
			    .end = stack_at + sizeof(stack->words),
			    .read = true,
			    .write = true,
			    .path = "[stack]" } },
		.process = { .pid = 1, .arch = SNAP_ARCH_AARCH64, .map_count = 2 },
		.thread = { .tid = 1,
			    .result = SNAP_THREAD_COPIED,
			    .state = 'R',
			    .registers_size = sizeof(stack->registers),
			    .stack_address = stack_at,
			    .stack_size = sizeof(stack->words) },
	};
	snap_arena_init(&stack->arena);
	stack->process.maps = stack->maps;
	stack->process.threads = &stack->thread;
	stack->process.thread_count = 1;
	stack->thread.registers = &stack->registers;
	stack->thread.stack = (const uint8_t *)stack->words;
	stack->registers.sp = stack_at;
	stack->registers.pc = code_at + 0x100;
}

static struct stacksnap_error *find_nothing(void *context _unused_,
					    const struct snap_file_request *request _unused_,
					    int *fd_ret _unused_)
{
	return snap_error_not_found();
}

static void stack_unwind(struct stack *stack)
{
	const struct snap_file_finder finder = { .find = find_nothing };

	assert_null(snap_module_set_create(&finder, &stack->arena, &stack->set));
	assert_null(snap_modules_create(stack->set, &stack->process, &stack->modules));
	assert_null(snap_unwinder_create(stack->set, &stack->options, &stack->unwinder));
	assert_null(snap_unwinder_enter(stack->unwinder, &stack->process, stack->modules));
	snap_unwind(stack->unwinder, &stack->thread, &stack->pcs);
}

static void stack_close(struct stack *stack)
{
	snap_unwinder_destroy(stack->unwinder);
	snap_module_set_destroy(stack->set);
	snap_arena_deinit(&stack->arena);
}

static void assert_pcs(const struct stack *stack, const uint64_t *pcs, size_t count)
{
	assert_int_equal(stack->pcs.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(snap_pc_address(stack->pcs.pcs[i]), code_at + pcs[i]);
}

/* A frame record: the caller's, or 0, and a return address. */
static void put_record(struct stack *stack, size_t word, size_t next_word, uint64_t pc)
{
	stack->words[word] = next_word ? stack_at + 8 * next_word : 0;
	stack->words[word + 1] = pc;
}

static void test_signed_records(void **state _unused_)
{
	struct stack stack;

	stack_open(&stack);
	stack.registers.x[29] = stack_at + 16;
	put_record(&stack, 2, 8, (code_at + 0x200) | signature);
	put_record(&stack, 8, 20, code_at + 0x300); /* not all functions sign theirs */
	put_record(&stack, 20, 0, (code_at + 0x400) | 0x007f000000000000);
	stack_unwind(&stack);
	assert_pcs(&stack, (const uint64_t[]){ 0x100, 0x200, 0x300, 0x400 }, 4);
	assert_int_equal(stack.pcs.end, SNAP_UNWIND_NO_CFI);
	stack_close(&stack);
}

/* The stack lies below 2^39 where the kernel has so small a table: bit 39 is of the signature. */
static void test_few_address_bits(void **state _unused_)
{
	const uint64_t low = 0x5500000000, top = 0x7fe4ed0000;
	struct stack stack;

	stack_open(&stack);
	stack.maps[0].start = low, stack.maps[0].end = low + 65536;
	stack.maps[1].start = stack.thread.stack_address = stack.registers.sp = top;
	stack.maps[1].end = top + sizeof(stack.words);
	stack.registers.pc = low + 0x100;
	stack.registers.x[29] = top + 16;
	stack.words[2] = 0;
	stack.words[3] = (low + 0x200) | 0x0055aa8000000000;
	stack_unwind(&stack);
	assert_int_equal(stack.unwinder->address_mask, (1ull << 39) - 1);
	assert_int_equal(stack.pcs.count, 2);
	assert_int_equal(snap_pc_address(stack.pcs.pcs[1]), low + 0x200);
	stack_close(&stack);
}

/* blr of NULL: where it came from is in x30, and sp did not move. */
static void test_call_of_null(void **state _unused_)
{
	struct stack stack;

	stack_open(&stack);
	stack.registers.pc = 0;
	stack.registers.x[30] = code_at + 0x200;
	stack.registers.x[29] = stack_at + 16;
	put_record(&stack, 2, 0, (code_at + 0x300) | signature);
	stack_unwind(&stack);
	assert_int_equal(stack.pcs.count, 3);
	assert_int_equal(snap_pc_address(stack.pcs.pcs[1]), code_at + 0x200);
	assert_int_equal(snap_pc_address(stack.pcs.pcs[2]), code_at + 0x300);
	stack_close(&stack);
}

/* What a thread that was not stopped has is its sp alone. */
static void test_without_stop(void **state _unused_)
{
	struct stack stack;

	stack_open(&stack);
	stack.thread.partial = true;
	stack.registers.x[29] = stack_at + 16;
	put_record(&stack, 2, 0, (code_at + 0x200) | signature);
	stack_unwind(&stack);
	assert_int_equal(stack.pcs.count, 1);
	assert_true(stack.pcs.needs_register);
	stack_close(&stack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_returns),
		cmocka_unit_test(test_prologues),
		cmocka_unit_test(test_stubs),
		cmocka_unit_test(test_places_in_stubs),
		cmocka_unit_test(test_signal_return),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_interrupted_call),
		cmocka_unit_test(test_calls_by_number),
		cmocka_unit_test(test_signed_records),
		cmocka_unit_test(test_few_address_bits),
		cmocka_unit_test(test_call_of_null),
		cmocka_unit_test(test_without_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
