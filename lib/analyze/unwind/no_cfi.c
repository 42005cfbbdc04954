/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A step from code without call frame information: by its frame pointer, if it has one, otherwise
 * by the size of its frame or by scanning the stack. All are guesses, and the pc that they find is
 * marked as one.
 *
 * The frame pointer is an ordinary register: in a function that does not set it up it belongs to
 * some frame further out, and following it would leave callers out. So it is followed only if the
 * code sets it up. Code that cannot be read (made at run time, or its file is gone) is assumed to,
 * as most of it does.
 *
 * With a link register the return address of a function that has made no call yet may still be
 * there. It is put on the stack together with the frame pointer, as a frame record at the low end
 * of the frame. The record does not contain the caller's stack pointer. The code that wrote it
 * does, or the caller's CFI, which says where in its frame the caller's own record lies (AAPCS64,
 * 6.4.6).
 *
 * Otherwise the return address is above what the code up to the pc took from the stack pointer. If
 * there is none, it is the first word of the stack that a call of this function can have pushed.
 * Old return addresses lie between the words of a frame. So the word must follow a call
 * instruction, and if that instruction names its target, it must be this function.
 */
#include "analyze/unwind/internal.h"

#include <string.h>

enum { SCAN_WORDS = 128 };

/* The function to be left, as far as it is known. */
struct callee {
	uint64_t start, lookup; /* its beginning as `how` says; an address in it */
	enum snap_start how;
	bool is_exported;
	struct snap_prologue prologue; /* what it has run of its first instructions */
};

/* A return address on the stack; false: it was not copied. */
static bool read_return(const struct snap_unwinder *unwinder, uint64_t at, uint64_t *pc_ret)
{
	if (!snap_unwinder_read_stack(unwinder, at, pc_ret))
		return false;
	*pc_ret &= unwinder->address_mask;
	return true;
}

/* ---- calls ---- */

/* The call before a return address; false: there is none. */
static bool read_call_before(struct snap_unwinder *unwinder, uint64_t return_address,
			     struct snap_call *ret)
{
	uint8_t code[SNAP_CALL_BYTES];

	if (!snap_unwinder_is_executable(unwinder, return_address - 1) ||
	    !snap_modules_read(unwinder->modules, return_address - sizeof(code), code,
			       sizeof(code)))
		return false;
	*ret = unwinder->arch->call_before(code + sizeof(code), return_address);
	/* Bytes of another instruction that look like a call lead anywhere. */
	ret->is_direct = ret->is_direct && snap_unwinder_is_executable(unwinder, ret->target);
	return ret->is_direct || ret->is_indirect;
}

/*
 * A call of another module's function, or of an exported one, may go by a stub: to where, only data
 * says that was not copied.
 */
static bool may_be_stub_of(struct snap_unwinder *unwinder, uint64_t target,
			   const struct callee *callee)
{
	uint8_t code[SNAP_STUB_BYTES];

	return (callee->is_exported ||
		snap_modules_find(unwinder->modules, target) !=
			snap_modules_find(unwinder->modules, callee->lookup)) &&
	       snap_modules_read(unwinder->modules, target, code, unwinder->arch->stub_bytes) &&
	       unwinder->arch->is_jump_stub(code);
}

static bool is_call_of(struct snap_unwinder *unwinder, const struct snap_call *call,
		       const struct callee *callee)
{
	if (!call->is_direct)
		return call->is_indirect;
	if (callee->how == SNAP_START_EXACT
		    ? call->target == callee->start
		    : call->target >= callee->start && call->target <= callee->lookup)
		return true;
	return may_be_stub_of(unwinder, call->target, callee);
}

/* ---- the function ---- */

/* By the call before a return address, if that can be one of this function. */
static bool learn_from_call(struct snap_unwinder *unwinder, struct callee *callee, uint64_t pc)
{
	struct snap_call call;

	if (!read_call_before(unwinder, pc, &call) || !call.is_direct ||
	    call.target < callee->start || call.target > callee->lookup)
		return false;
	callee->start = call.target;
	callee->how = SNAP_START_EXACT;
	return true;
}

/* What the link register holds before the first call; false: it is not known. */
static bool read_link_register(const struct snap_unwinder *unwinder, uint64_t *pc_ret)
{
	const struct snap_arch_ops *arch = unwinder->arch;

	*pc_ret = unwinder->state.registers[arch->ra] & unwinder->address_mask;
	return arch->has_link_register && snap_pc_is_exact(unwinder->pc) &&
	       snap_unwinder_knows(unwinder, arch->ra);
}

/*
 * Without symbols a call tells where the function begins: the one before the return address that
 * the frame pointer leads to, or else before that in the link register.
 */
static void learn_start(struct snap_unwinder *unwinder, struct callee *callee)
{
	uint64_t fp = unwinder->state.registers[unwinder->arch->fp], pc;

	if (snap_unwinder_knows(unwinder, unwinder->arch->fp) &&
	    read_return(unwinder, fp + sizeof(fp), &pc) && learn_from_call(unwinder, callee, pc))
		return;
	if (read_link_register(unwinder, &pc))
		learn_from_call(unwinder, callee, pc);
}

/* Only what was executed counts. */
static void read_callee_prologue(struct snap_unwinder *unwinder, struct callee *callee)
{
	uint64_t size = snap_pc_address(unwinder->pc) - callee->start;
	uint8_t code[SNAP_PROLOGUE_BYTES];

	if (size > sizeof(code))
		size = sizeof(code);
	if (size == 0 || snap_modules_read(unwinder->modules, callee->start, code, size))
		unwinder->arch->read_prologue(code, size, &callee->prologue);
}

static struct callee find_callee(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	struct callee callee = { .lookup = snap_pc_lookup(unwinder->pc) };

	if (!row->code.is_readable) {
		const struct snap_map *map = snap_process_map(unwinder->process, callee.lookup);

		callee.start = map ? map->start : callee.lookup;
		return callee;
	}
	callee.start = callee.lookup - row->code.into;
	callee.how = (enum snap_start)row->code.start;
	callee.is_exported = row->code.is_exported;
	if (callee.how == SNAP_START_EARLIEST)
		learn_start(unwinder, &callee);
	if (callee.how != SNAP_START_EARLIEST)
		read_callee_prologue(unwinder, &callee);
	return callee;
}

/* Whether a return address between two places is behind a direct call of the function. */
static bool is_called_between(struct snap_unwinder *unwinder, const struct callee *callee,
			      uint64_t at, uint64_t end)
{
	struct snap_call call;
	uint64_t pc;

	for (int i = 0; i < SCAN_WORDS && at < end; i++, at += sizeof(at))
		if (read_return(unwinder, at, &pc) && read_call_before(unwinder, pc, &call) &&
		    call.is_direct && call.target == callee->start)
			return true;
	return false;
}

/*
 * A frame that is set up behind the first instructions may have been left before, or a branch led
 * around its frame, and then the frame pointer is a caller's. It is believed if it leads behind a
 * call, unless a call of this function is nearer. The call need not name it: others may have jumped
 * here.
 */
static bool sets_frame_up_later(struct snap_unwinder *unwinder, const struct callee *callee)
{
	const uint64_t *registers = unwinder->state.registers;
	uint64_t fp = registers[unwinder->arch->fp], sp = registers[unwinder->arch->sp], pc;
	struct snap_call call;
	uint8_t code;

	if (!callee->prologue.sets_frame_pointer_later)
		return false;
	/* The step asks for it. */
	if (!snap_unwinder_knows(unwinder, unwinder->arch->fp))
		return true;
	if (fp < sp || !read_return(unwinder, fp + sizeof(fp), &pc))
		return false;
	/* Code that was made at run time cannot be looked at. */
	if (!snap_modules_read(unwinder->modules, pc - 1, &code, sizeof(code)))
		return true;
	return read_call_before(unwinder, pc, &call) &&
	       (is_call_of(unwinder, &call, callee) ||
		!is_called_between(unwinder, callee, sp, fp));
}

/* Behind the end of its frame the frame pointer is the caller's again. */
static bool stands_at_return(struct snap_unwinder *unwinder)
{
	uint8_t code[SNAP_RETURN_BYTES];

	return snap_pc_is_exact(unwinder->pc) &&
	       snap_modules_read(unwinder->modules, snap_pc_address(unwinder->pc), code,
				 unwinder->arch->return_bytes) &&
	       unwinder->arch->is_return(code);
}

/* ---- steps ---- */

/*
 * A zero that other frame pointers led to is how the outermost frame is marked (psABI, initial
 * process stack). Code made at run time may use the register for anything.
 */
static bool is_outermost(struct snap_unwinder *unwinder)
{
	return unwinder->state.registers[unwinder->arch->fp] == 0 &&
	       snap_pc_trust(unwinder->pc) == SNAP_TRUST_FRAME_POINTER &&
	       snap_unwinder_row(unwinder, snap_pc_lookup(unwinder->pc))->code.is_readable;
}

static bool end_without_cfi(struct snap_unwinder *unwinder)
{
	if (is_outermost(unwinder))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_COMPLETE, NULL);
	return snap_unwinder_end(unwinder, SNAP_UNWIND_NO_CFI, "no unwind information");
}

enum step { STEP_MADE, STEP_ENDED, STEP_NOT_BELIEVED };

/*
 * The caller's stack pointer, whose frame pointer is in place: right above the record where a call
 * pushes its return address, elsewhere at least that.
 */
static uint64_t sp_above_record(struct snap_unwinder *unwinder, const struct callee *callee,
				uint64_t record, uint64_t pc)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	uint64_t least = record + 2 * sizeof(record), sp;
	struct snap_pc here = unwinder->pc;
	int64_t depth;
	bool has_record;

	if (!arch->has_link_register || pc == 0)
		return least;
	if (callee->prologue.record_depth)
		return record + callee->prologue.record_depth;
	unwinder->pc = snap_pc_return(pc);
	has_record = snap_row_record_depth(snap_unwinder_row(unwinder, pc - 1), arch, &depth);
	unwinder->pc = here;
	if (!has_record)
		return least;
	/* From the caller's own record to its stack pointer. */
	sp = unwinder->state.registers[arch->fp] - (uint64_t)depth;
	return sp >= least ? sp : least;
}

/*
 * By the frame pointer, if it is believable: it grows, lies in the copied stack, and what it leads
 * to can be executed.
 */
static enum step follow_frame_pointer(struct snap_unwinder *unwinder, const struct callee *callee)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	uint64_t *registers = unwinder->state.registers;
	uint64_t fp = registers[arch->fp], caller, pc;

	if (is_outermost(unwinder)) {
		snap_unwinder_end(unwinder, SNAP_UNWIND_COMPLETE, NULL);
		return STEP_ENDED;
	}
	if (fp < registers[arch->sp] || fp % sizeof(fp) != 0)
		return STEP_NOT_BELIEVED;
	if (!snap_unwinder_read_stack(unwinder, fp, &caller) ||
	    !read_return(unwinder, fp + sizeof(fp), &pc)) {
		snap_unwinder_end_missing(unwinder, fp + sizeof(fp));
		return unwinder->end == SNAP_UNWIND_LIMIT ? STEP_ENDED : STEP_NOT_BELIEVED;
	}
	if (caller == fp) {
		snap_unwinder_end(unwinder, SNAP_UNWIND_CYCLE,
				  "a frame pointer that points to itself");
		return STEP_ENDED;
	}
	if (pc != 0 && !snap_unwinder_is_executable(unwinder, pc - 1)) {
		snap_unwinder_note_stale(unwinder, pc - 1);
		return STEP_NOT_BELIEVED;
	}
	registers[arch->fp] = caller;
	return snap_unwinder_move(unwinder,
				  snap_pc_found_by(snap_pc_return(pc), SNAP_TRUST_FRAME_POINTER),
				  sp_above_record(unwinder, callee, fp, pc))
		       ? STEP_MADE
		       : STEP_ENDED;
}

/* With a link register: the frame pointer, which lies below the return address at `at`. */
static void restore_record(struct snap_unwinder *unwinder, uint64_t at)
{
	unsigned fp = unwinder->arch->fp;
	uint64_t value;
	bool is_there = snap_unwinder_read_stack(unwinder, at - sizeof(at), &value);

	if (is_there)
		unwinder->state.registers[fp] = value;
	snap_unwinder_set_known(unwinder, fp, is_there);
}

/* The registers that the function saved below its return address, which lies at `at`. */
static void restore_registers(struct snap_unwinder *unwinder, const struct callee *callee,
			      uint64_t at)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	const struct snap_prologue *prologue = &callee->prologue;
	uint64_t *registers = unwinder->state.registers, sp = registers[arch->sp], value;

	/* A frame pointer that was set up behind the first instructions still points there. */
	if (snap_unwinder_knows(unwinder, arch->fp) && registers[arch->fp] == at - sizeof(at) &&
	    snap_unwinder_read_stack(unwinder, at - sizeof(at), &value))
		registers[arch->fp] = value;
	for (unsigned i = 0; i < prologue->pushed_count; i++) {
		uint64_t slot = at - (i + 1) * sizeof(at);

		/* What lies below sp was popped again. */
		if (slot < sp || slot > at || !snap_unwinder_read_stack(unwinder, slot, &value))
			break;
		registers[prologue->pushed[i]] = value;
		snap_unwinder_set_known(unwinder, prologue->pushed[i], true);
	}
}

/*
 * Restores what the function saved beside its return address, at `at`; the caller's stack pointer.
 */
static uint64_t leave_frame(struct snap_unwinder *unwinder, const struct callee *callee,
			    uint64_t at, uint64_t pc)
{
	if (callee->prologue.link_depth)
		return at + callee->prologue.link_depth;
	if (unwinder->arch->has_link_register)
		restore_record(unwinder, at);
	else
		restore_registers(unwinder, callee, at);
	return sp_above_record(unwinder, callee, at - sizeof(at), pc);
}

/*
 * Without a link register: where the return address is by what the function has taken from the
 * stack pointer, unless a call of this function is nearer. What called it need not name it: others
 * may have jumped here. 0: none is there.
 */
static uint64_t find_above_frame(struct snap_unwinder *unwinder, const struct callee *callee)
{
	uint64_t sp = unwinder->state.registers[unwinder->arch->sp], pc;
	uint64_t at = sp + callee->prologue.sp_depth;
	struct snap_call call;
	uint8_t code;

	if (!callee->prologue.has_depth || callee->how != SNAP_START_EXACT ||
	    at % sizeof(at) != 0 || !read_return(unwinder, at, &pc) ||
	    !snap_unwinder_is_executable(unwinder, pc - 1))
		return 0;
	/* Code that was made at run time cannot be looked at. */
	if (!snap_modules_read(unwinder->modules, pc - 1, &code, sizeof(code)))
		return at;
	return read_call_before(unwinder, pc, &call) &&
			       (is_call_of(unwinder, &call, callee) ||
				!is_called_between(unwinder, callee, sp, at))
		       ? at
		       : 0;
}

/*
 * The return address lies where what the function has taken from the stack pointer leads to, if it is
 * behind a call of the function: CFI says only how far from the frame pointer.
 */
bool snap_unwinder_find_frame_pointer(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	struct snap_row code = snap_unwinder_code(unwinder, snap_pc_lookup(unwinder->pc));
	struct callee callee;
	struct snap_call call;
	uint64_t at, pc;

	if (row->kind != SNAP_ROW_SIMPLE || row->cfa_register != arch->fp ||
	    arch->has_link_register || !code.code.is_readable)
		return false;
	callee = find_callee(unwinder, &code);
	at = find_above_frame(unwinder, &callee);
	if (!at || !read_return(unwinder, at, &pc) || !read_call_before(unwinder, pc, &call) ||
	    !is_call_of(unwinder, &call, &callee))
		return false;
	unwinder->state.registers[arch->fp] =
		at - (uint64_t)(8 * (int64_t)row->at[0]) - (uint64_t)(int64_t)row->cfa_offset;
	snap_unwinder_set_known(unwinder, arch->fp, true);
	return true;
}

/* By the first word of the stack that can be the return address. */
static bool scan_stack(struct snap_unwinder *unwinder, const struct callee *callee)
{
	uint64_t sp = unwinder->state.registers[unwinder->arch->sp];
	uint64_t at = (sp + sizeof(sp) - 1) & ~(uint64_t)(sizeof(sp) - 1), pc;
	uint64_t above = find_above_frame(unwinder, callee);
	struct snap_call call;

	if (above && read_return(unwinder, above, &pc))
		return snap_unwinder_move(unwinder,
					  snap_pc_found_by(snap_pc_return(pc), SNAP_TRUST_SCAN),
					  leave_frame(unwinder, callee, above, pc));
	for (int i = 0; i < SCAN_WORDS; i++, at += sizeof(at)) {
		if (!read_return(unwinder, at, &pc)) {
			snap_unwinder_end_missing(unwinder, at);
			return unwinder->end == SNAP_UNWIND_LIMIT ? false
								  : end_without_cfi(unwinder);
		}
		if (!read_call_before(unwinder, pc, &call) || !is_call_of(unwinder, &call, callee))
			continue;
		return snap_unwinder_move(unwinder,
					  snap_pc_found_by(snap_pc_return(pc), SNAP_TRUST_SCAN),
					  leave_frame(unwinder, callee, at, pc));
	}
	return end_without_cfi(unwinder);
}

/* A running function that has not written it may have its return address in the link register. */
static bool may_use_link(struct snap_unwinder *unwinder, const struct callee *callee)
{
	bool has_written = callee->prologue.record_depth || callee->prologue.link_depth;

	return unwinder->arch->has_link_register && snap_pc_is_exact(unwinder->pc) &&
	       (!has_written || stands_at_return(unwinder));
}

/* It has, if the call before that is one of this function. False: it has not. */
static bool follow_link(struct snap_unwinder *unwinder, const struct callee *callee)
{
	uint64_t sp = unwinder->state.registers[unwinder->arch->sp], pc;
	struct snap_call call;

	if (!may_use_link(unwinder, callee) || !read_link_register(unwinder, &pc) ||
	    !read_call_before(unwinder, pc, &call) || !is_call_of(unwinder, &call, callee))
		return false;
	/* It may have a frame all the same, until it returns. */
	if (!stands_at_return(unwinder))
		sp += callee->prologue.sp_depth;
	return snap_unwinder_move(unwinder, snap_pc_found_by(snap_pc_return(pc), SNAP_TRUST_SCAN),
				  sp);
}

/* The stack that its caller is on was not copied, or is another thread's by now. */
static bool end_at_switch(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	if (row->code.switches == SNAP_ROW_LEAVES_STACK)
		return snap_unwinder_end(unwinder, SNAP_UNWIND_COMPLETE, NULL);
	return snap_unwinder_end(unwinder, SNAP_UNWIND_NO_CFI, "its caller is on another stack");
}

bool snap_unwinder_step_without_cfi(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	bool has_frame_pointer = !row->code.is_readable;
	struct callee callee;

	/* Before it has switched, a guess may still find its caller. */
	if (row->code.switches != SNAP_ROW_SWITCHES_NOTHING && !snap_pc_is_exact(unwinder->pc))
		return end_at_switch(unwinder, row);
	/* The first function of a program has no caller. */
	if (row->code.is_entry)
		return end_without_cfi(unwinder);
	callee = find_callee(unwinder, row);
	if (callee.prologue.sets_frame_pointer || sets_frame_up_later(unwinder, &callee))
		has_frame_pointer = !stands_at_return(unwinder);
	/* A stop would tell more. */
	if (!snap_unwinder_knows(unwinder, unwinder->arch->fp) &&
	    (has_frame_pointer || callee.how == SNAP_START_EARLIEST))
		return snap_unwinder_end_unknown(unwinder);
	if (!snap_unwinder_knows(unwinder, unwinder->arch->ra) && may_use_link(unwinder, &callee))
		return snap_unwinder_end_unknown(unwinder);
	if (has_frame_pointer) {
		enum step step = follow_frame_pointer(unwinder, &callee);

		if (step != STEP_NOT_BELIEVED)
			return step == STEP_MADE;
	}
	return follow_link(unwinder, &callee) || scan_stack(unwinder, &callee);
}
