/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One step from a frame to its caller, for all that the hot path leaves: rows at the edge of the
 * copy, wide rows, code without CFI, and the end of a stack. See internal.h.
 */
#include "analyze/unwind/internal.h"

#include <string.h>

static const char no_memory_there[] = "stack memory could not be read";
static const char copy_ends[] = "the copy of the stack ends";

/* Of one thread; more than it has stacks are a circle. */
enum { MOST_DESCENTS = 256 };

static const uint64_t LEAST_ADDRESS = 65536; /* vm.mmap_min_addr */

bool snap_unwinder_end(struct snap_unwinder *unwinder, enum snap_unwind_end end, const char *reason)
{
	/* By frame pointers alone the end of a stack is not known. */
	if (end == SNAP_UNWIND_COMPLETE && unwinder->options->no_files) {
		end = SNAP_UNWIND_NO_CFI;
		reason = "no unwind information";
	}
	if (end == SNAP_UNWIND_COMPLETE)
		end = snap_unwind_whole_by(unwinder->guessed);
	if (end != SNAP_UNWIND_UNREADABLE && reason != copy_ends)
		unwinder->missing = 0;
	unwinder->end = end;
	unwinder->reason = snap_unwind_is_whole(end) ? NULL : reason;
	unwinder->end_pc = snap_unwind_is_whole(end) ? 0 : snap_pc_address(unwinder->pc);
	return false;
}

bool snap_unwinder_end_at_start(struct snap_unwinder *unwinder)
{
	unwinder->is_confirmed = true;
	return snap_unwinder_end(unwinder, SNAP_UNWIND_COMPLETE, NULL);
}

/* A word inside a copied range; false: not wholly inside. */
static bool read_stack_range(uint64_t start, const uint8_t *bytes, size_t size, uint64_t address,
			     uint64_t *ret)
{
	if (size < sizeof(*ret) || address < start || address - start > size - sizeof(*ret))
		return false;
	memcpy(ret, bytes + (address - start), sizeof(*ret));
	return true;
}

bool snap_unwinder_read_stack(const struct snap_unwinder *unwinder, uint64_t address, uint64_t *ret)
{
	const struct snap_thread *thread = unwinder->thread;

	return read_stack_range(thread->stack_address, thread->stack, thread->stack_size, address,
				ret) ||
	       read_stack_range(thread->stack2_address, thread->stack2, thread->stack2_size,
				address, ret) ||
	       (thread->memory &&
		snap_memory_image_read(thread->memory, address, ret, sizeof(*ret)));
}

bool snap_unwinder_read(void *context, uint64_t address, uint64_t *ret)
{
	struct snap_unwinder *unwinder = context;

	if (snap_unwinder_read_stack(unwinder, address, ret) ||
	    snap_modules_read(unwinder->modules, address, ret, sizeof(*ret)))
		return true;
	unwinder->missing = address;
	return false;
}

/* Whether an address lies behind a copied range, in the same mapping. */
static bool is_behind(const struct snap_unwinder *unwinder, uint64_t start, size_t size,
		      uint64_t address)
{
	const struct snap_map *map;

	if (start == 0 || address < start || address - start + sizeof(uint64_t) <= size)
		return false;
	/* The copy begins below sp, which may be in the page before the mapping. */
	map = snap_process_map(unwinder->process, start + SNAP_STACK_MARGIN + 16);
	return map && address < snap_process_stack_end(unwinder->process, map, 0);
}

/* The stack ends because memory at `address` is not there. */
bool snap_unwinder_end_missing(struct snap_unwinder *unwinder, uint64_t address)
{
	const struct snap_thread *thread = unwinder->thread;

	unwinder->missing = address;
	if (thread->stack_limited &&
	    (thread->memory ||
	     is_behind(unwinder, thread->stack_address, thread->stack_size, address) ||
	     is_behind(unwinder, thread->stack2_address, thread->stack2_size, address)))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_LIMIT, copy_ends);
	return snap_unwinder_end(unwinder, SNAP_UNWIND_UNREADABLE, no_memory_there);
}

struct snap_pc snap_unwinder_doubt(struct snap_unwinder *unwinder, struct snap_pc pc)
{
	enum snap_trust trust = snap_pc_trust(pc);

	if (trust > unwinder->guessed)
		unwinder->guessed = trust;
	return trust || !unwinder->guessed ? pc : snap_pc_found_by(pc, SNAP_TRUST_UNCONFIRMED);
}

static void set_place(struct snap_unwinder *unwinder, struct snap_pc pc, uint64_t sp)
{
	unwinder->state.registers[unwinder->arch->sp] = sp;
	unwinder->state.registers[unwinder->arch->ra] = snap_pc_address(pc);
	unwinder->pc = pc;
}

bool snap_unwinder_move(struct snap_unwinder *unwinder, struct snap_pc pc, uint64_t sp)
{
	if (snap_pc_address(pc) == 0)
		return snap_unwinder_end(unwinder, SNAP_UNWIND_COMPLETE, NULL);
	pc = snap_unwinder_doubt(unwinder, pc);
	if (unwinder->guessed && !snap_unwinder_is_executable(unwinder, snap_pc_lookup(pc))) {
		snap_unwinder_note_stale(unwinder, snap_pc_lookup(pc));
		return snap_unwinder_end(unwinder, SNAP_UNWIND_NO_CFI,
					 "what was guessed leads to no code");
	}
	set_place(unwinder, pc, sp);
	return true;
}

/* Ends a stack whose next frame needs a register that was not copied: a stop can tell more. */
bool snap_unwinder_end_unknown(struct snap_unwinder *unwinder)
{
	unwinder->needs_register = true;
	return snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED, SNAP_NEEDS_REGISTER);
}

bool snap_unwinder_end_unusable(struct snap_unwinder *unwinder)
{
	return snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED, "unwind information is unusable");
}

static bool knows_all_saved(const struct snap_unwinder *unwinder)
{
	const struct snap_arch_ops *arch = unwinder->arch;

	return snap_all(arch->saved_count, i, snap_unwinder_knows(unwinder, arch->saved[i])) &&
	       (!arch->has_link_register || snap_unwinder_knows(unwinder, arch->ra));
}

/* Where the copied bytes begin that an address lies in; 0: in none. */
static uint64_t start_of_copy(const struct snap_thread *thread, uint64_t address)
{
	const struct snap_memory_image *image = thread->memory;

	if (address - thread->stack_address <= thread->stack_size)
		return thread->stack_address;
	if (address - thread->stack2_address <= thread->stack2_size)
		return thread->stack2_address;
	for (size_t i = 0; image && i < image->piece_count; i++)
		if (address - image->pieces[i].address <= image->pieces[i].size)
			return image->pieces[i].address;
	return 0;
}

bool snap_unwinder_may_go_on(struct snap_unwinder *unwinder, uint64_t sp, uint64_t cfa,
			     bool computed)
{
	const struct snap_map *map;

	if (cfa > sp)
		return true;
	map = snap_process_map(unwinder->process, cfa - 1);
	if (!map || !map->write || cfa == sp ||
	    (!computed && cfa > start_of_copy(unwinder->thread, sp)))
		return false;
	return unwinder->descents++ < MOST_DESCENTS;
}

/* A simple row that touches memory at the edge of the copy or in another range. */
static bool step_simple(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	uint64_t *registers = unwinder->state.registers;
	uint64_t cfa, pc;

	if (!snap_unwinder_knows(unwinder, row->cfa_register) &&
	    !snap_unwinder_find_frame_pointer(unwinder, row))
		return snap_unwinder_end_unknown(unwinder);
	cfa = registers[row->cfa_register] + (uint64_t)(int64_t)row->cfa_offset;
	if (!snap_unwinder_may_go_on(unwinder, registers[arch->sp], cfa, false))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_CYCLE, "the stack does not grow");
	if (!snap_unwinder_read(unwinder, cfa + 8 * (int64_t)row->at[0], &pc))
		return snap_unwinder_end_missing(unwinder, cfa + 8 * (int64_t)row->at[0]);
	for (unsigned i = 0; i < arch->saved_count; i++)
		if (row->saved & 1u << i)
			snap_unwinder_set_known(
				unwinder, arch->saved[i],
				snap_unwinder_read(unwinder, cfa + 8 * (int64_t)row->at[1 + i],
						   &registers[arch->saved[i]]));
	pc &= unwinder->address_mask;
	return snap_unwinder_move(
		unwinder, row->kind == SNAP_ROW_PUT_IN ? snap_pc_exact(pc) : snap_pc_return(pc),
		cfa);
}

/* Only what is executed just now can have its return address in a register. */
static bool step_kept(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	const uint64_t *registers = unwinder->state.registers;

	if (!snap_pc_is_exact(unwinder->pc))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_NO_CFI, "no unwind information");
	if (!snap_unwinder_knows(unwinder, row->cfa_register))
		return snap_unwinder_end_unknown(unwinder);
	return snap_unwinder_move(unwinder,
				  snap_unwinder_return_to(unwinder, registers[row->cfa_register]),
				  registers[unwinder->arch->sp]);
}

/*
 * Out of a signal frame. The handler was never called: its return address is the first instruction
 * of the code that returns from it, not one behind a call. So that one is exact as well.
 *
 * Elsewhere the link register is as good as the pc: a function has just returned to it. What was
 * interrupted has its own there, `link`.
 */
static bool move_to_interrupted(struct snap_unwinder *unwinder, uint64_t pc, uint64_t sp,
				uint64_t link)
{
	snap_sink_mark_exact(&unwinder->sink);
	/* It may have called a null or wild pointer. */
	if (!snap_unwinder_is_executable(unwinder, pc))
		set_place(unwinder, snap_unwinder_doubt(unwinder, snap_pc_exact(pc)), sp);
	else if (!snap_unwinder_move(unwinder, snap_pc_exact(pc), sp))
		return false;
	unwinder->state.registers[unwinder->arch->ra] = link;
	return true;
}

/*
 * What rows refuse goes through libunwind, one frame at a time. Where it cannot use what it found
 * it follows the frame pointer, and does not say so. With a link register it takes what is in that
 * for the return address, and leaves the stack pointer as it is; a zero there is the end to it.
 */
static bool step_libunwind(struct snap_unwinder *unwinder)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	struct snap_libunwind *engine = unwinder->libunwind;
	uint64_t *registers = unwinder->state.registers, pc, sp;
	enum snap_trust trust = SNAP_TRUST_CFI;
	bool is_signal = false;

	if (!knows_all_saved(unwinder))
		return snap_unwinder_end_unknown(unwinder);
	if (!engine ||
	    !snap_libunwind_begin(engine, &unwinder->state, snap_pc_address(unwinder->pc)))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED,
					 "unwind information in an unknown format");
	switch (snap_libunwind_step(engine, &is_signal)) {
	case SNAP_LIBUNWIND_CALLER:
		break;
	case SNAP_LIBUNWIND_LAST:
		if (arch->has_link_register && registers[arch->ra] == 0)
			return snap_unwinder_end_unusable(unwinder);
		return snap_unwinder_end_at_start(unwinder);
	case SNAP_LIBUNWIND_UNREADABLE:
		return snap_unwinder_end(unwinder, SNAP_UNWIND_UNREADABLE, no_memory_there);
	case SNAP_LIBUNWIND_NO_CFI:
	case SNAP_LIBUNWIND_FAILED:
		return snap_unwinder_end_unusable(unwinder);
	}
	snap_libunwind_position(engine, &pc, &sp);
	if (!is_signal && arch->has_link_register && sp == registers[arch->sp])
		return snap_unwinder_end_unusable(unwinder);
	if (!is_signal && !snap_unwinder_may_go_on(unwinder, registers[arch->sp], sp, false) &&
	    !(sp == registers[arch->sp] && snap_pc_is_exact(unwinder->pc)))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_CYCLE, "the stack does not grow");
	if (sp == registers[arch->fp] + 2 * sizeof(sp))
		trust = SNAP_TRUST_FRAME_POINTER;
	snap_libunwind_registers(engine, arch, registers);
	/* It leaves signatures in place. */
	pc &= unwinder->address_mask;
	return is_signal ? move_to_interrupted(unwinder, pc, sp, registers[arch->ra])
			 : snap_unwinder_move(unwinder, snap_pc_found_by(snap_pc_return(pc), trust),
					      sp);
}

static bool step_wide(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	uint64_t *registers = unwinder->state.registers;
	uint64_t sp = registers[arch->sp], cfa, missing;
	/*
	 * A function that has made no call yet may have its return address in a register, and no
	 * frame: on x86-64, vfork(2).
	 */
	bool may_have_no_frame = snap_pc_is_exact(unwinder->pc);
	bool is_signal;

	switch (snap_wide_row_apply(row->wide, &unwinder->state, &cfa, &is_signal, &missing)) {
	case SNAP_WIDE_DONE:
		break;
	case SNAP_WIDE_UNREADABLE:
		return snap_unwinder_end_missing(unwinder, missing);
	case SNAP_WIDE_REFUSED:
		return step_libunwind(unwinder);
	case SNAP_WIDE_UNKNOWN:
		return snap_unwinder_end_unknown(unwinder);
	}
	if (!is_signal && !(registers[arch->sp] == sp && may_have_no_frame) &&
	    !snap_unwinder_may_go_on(unwinder, sp, registers[arch->sp],
				     snap_wide_row_computes(row->wide)))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_CYCLE, "the stack does not grow");
	return is_signal
		       ? move_to_interrupted(unwinder, registers[arch->ra] & unwinder->address_mask,
					     registers[arch->sp], registers[arch->ra])
		       : snap_unwinder_move(unwinder,
					    snap_unwinder_return_to(unwinder, registers[arch->ra]),
					    registers[arch->sp]);
}

bool snap_unwinder_is_executable(const struct snap_unwinder *unwinder, uint64_t address)
{
	const struct snap_map *map = snap_process_map(unwinder->process, address);

	return map && map->execute;
}

/* Not memory as far as is known, though it could be: reserved or mapped since. */
void snap_unwinder_note_stale(struct snap_unwinder *unwinder, uint64_t address)
{
	const struct snap_map *map = snap_process_map(unwinder->process, address);

	if (address >= LEAST_ADDRESS && address >> unwinder->arch->address_bits == 0 &&
	    (!map || (!map->read && !map->write && !map->execute)))
		unwinder->stale_mappings = true;
}

/* A call through a null or wild pointer: the return address is what the call just pushed. */
static bool follows_call(struct snap_unwinder *unwinder, uint64_t pc)
{
	uint8_t code[SNAP_CALL_BYTES];
	struct snap_call call;

	if (!snap_unwinder_is_executable(unwinder, pc - 1))
		return false;
	/* Code that cannot be read may hold a call. */
	if (!snap_modules_read(unwinder->modules, pc - sizeof(code), code, sizeof(code)))
		return true;
	call = unwinder->arch->call_before(code + sizeof(code), pc);
	return call.is_direct || call.is_indirect;
}

/* Where the call has put its return address: the link register, or the word at sp. */
static bool read_called_from(const struct snap_unwinder *unwinder, uint64_t *pc_ret)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	const uint64_t *registers = unwinder->state.registers;

	if (!arch->has_link_register)
		return snap_unwinder_read_stack(unwinder, registers[arch->sp], pc_ret);
	*pc_ret = registers[arch->ra] & unwinder->address_mask;
	return snap_unwinder_knows(unwinder, arch->ra);
}

static bool step_wild_call(struct snap_unwinder *unwinder)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	uint64_t sp = unwinder->state.registers[arch->sp], pc;

	snap_unwinder_note_stale(unwinder, snap_pc_lookup(unwinder->pc));
	if (!snap_pc_is_exact(unwinder->pc) || !read_called_from(unwinder, &pc) || pc == 0 ||
	    !follows_call(unwinder, pc))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_NO_CFI,
					 "no executable memory at this address");
	return snap_unwinder_move(unwinder, snap_pc_return(pc),
				  arch->has_link_register ? sp : sp + sizeof(pc));
}

/* A signal handler's return without CFI: the kernel's frame lies at sp. */
static bool is_at_signal_return(struct snap_unwinder *unwinder)
{
	uint8_t code[SNAP_SIGNAL_RETURN_BYTES];

	return snap_modules_read(unwinder->modules, snap_pc_address(unwinder->pc), code,
				 sizeof(code)) &&
	       unwinder->arch->is_signal_return(code);
}

/* Where a function of makecontext(3) returns to, which was never called: nothing is further out. */
static bool is_at_context_start(struct snap_unwinder *unwinder)
{
	uint8_t code[SNAP_SIGNAL_RETURN_BYTES];

	return !snap_pc_is_exact(unwinder->pc) &&
	       snap_modules_read(unwinder->modules, snap_pc_address(unwinder->pc), code,
				 sizeof(code)) &&
	       unwinder->arch->is_context_start(code);
}

static bool end_at_context(struct snap_unwinder *unwinder)
{
	snap_sink_mark_exact(&unwinder->sink);
	return snap_unwinder_end_at_start(unwinder);
}

static bool step_signal(struct snap_unwinder *unwinder)
{
	const struct snap_arch_ops *arch = unwinder->arch;
	uint64_t *registers = unwinder->state.registers;
	uint64_t context = registers[arch->sp], caller[SNAP_MAX_DWARF_REGISTERS], pc;

	for (unsigned i = 0; i < arch->dwarf_registers; i++)
		if (!snap_unwinder_read_stack(unwinder, context + arch->signal_context[i],
					      &caller[i]))
			return snap_unwinder_end_missing(unwinder,
							 context + arch->signal_context[i]);
	if (!snap_unwinder_read_stack(unwinder, context + arch->signal_pc, &pc))
		return snap_unwinder_end_missing(unwinder, context + arch->signal_pc);
	memcpy(registers, caller, arch->dwarf_registers * sizeof(*caller));
	unwinder->state.known = SNAP_ALL_KNOWN;
	return move_to_interrupted(unwinder, pc, caller[arch->sp], caller[arch->ra]);
}

/*
 * The vDSO of aarch64 had CFI for it until Linux 5.8, which leads by the frame record that the
 * kernel writes beside the registers, past the function that was interrupted.
 */
bool snap_unwinder_leaves_signal(struct snap_unwinder *unwinder)
{
	return unwinder->arch->has_link_register && is_at_signal_return(unwinder);
}

enum snap_row_kind snap_unwinder_classify(struct snap_unwinder *unwinder, uint64_t lookup)
{
	if (!snap_unwinder_is_executable(unwinder, lookup))
		return SNAP_ROW_WILD;
	if (is_at_signal_return(unwinder))
		return SNAP_ROW_RETURN;
	if (is_at_context_start(unwinder))
		return SNAP_ROW_CONTEXT;
	if (unwinder->libunwind &&
	    snap_libunwind_covers(unwinder->libunwind, &unwinder->state, lookup))
		return SNAP_ROW_REFUSED;
	return SNAP_ROW_NONE;
}

bool snap_unwinder_step(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	switch ((enum snap_row_kind)row->kind) {
	case SNAP_ROW_NONE:
		return snap_unwinder_step_without_cfi(unwinder, row);
	case SNAP_ROW_SIMPLE:
	case SNAP_ROW_PUT_IN:
		return step_simple(unwinder, row);
	case SNAP_ROW_KEPT:
		return step_kept(unwinder, row);
	case SNAP_ROW_END:
		return snap_unwinder_end_at_start(unwinder);
	case SNAP_ROW_WIDE:
		return step_wide(unwinder, row);
	case SNAP_ROW_REFUSED:
		return step_libunwind(unwinder);
	case SNAP_ROW_UNUSABLE:
		return snap_unwinder_end_unusable(unwinder);
	case SNAP_ROW_RETURN:
		return step_signal(unwinder);
	case SNAP_ROW_WILD:
		return step_wild_call(unwinder);
	case SNAP_ROW_CONTEXT:
		return end_at_context(unwinder);
	}
	return snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED, "internal error");
}
