/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bounded evaluation of DWARF expressions: see expression.h. */
#include "analyze/unwind/expression.h"

#include <dwarf.h>

enum {
	MAX_DEPTH = 64,
	MAX_STEPS = 1024,
};

struct machine {
	struct snap_expression expression;
	const struct snap_frame_state *state;
	uint64_t cfa;
	uint64_t stack[MAX_DEPTH];
	size_t depth;
	uint64_t missing; /* the address that could not be read */
};

enum outcome { NEXT, JUMPED, UNREADABLE, REFUSED, UNKNOWN };

static enum outcome push_value(struct machine *machine, uint64_t value)
{
	if (machine->depth == MAX_DEPTH)
		return REFUSED;
	machine->stack[machine->depth++] = value;
	return NEXT;
}

static enum outcome push_register(struct machine *machine, uint64_t number, uint64_t offset)
{
	if (number >= SNAP_MAX_DWARF_REGISTERS)
		return REFUSED;
	if (!(machine->state->known >> number & 1))
		return UNKNOWN;
	return push_value(machine, machine->state->registers[number] + offset);
}

static enum outcome pick_value(struct machine *machine, uint64_t from_top)
{
	if (from_top >= machine->depth)
		return REFUSED;
	return push_value(machine, machine->stack[machine->depth - 1 - from_top]);
}

static enum outcome read_word(struct machine *machine, uint64_t size)
{
	uint64_t *top = &machine->stack[machine->depth - 1], value;

	if (size != 1 && size != 2 && size != 4 && size != 8)
		return REFUSED;
	if (!machine->state->read(machine->state->context, *top, &value)) {
		machine->missing = *top;
		return UNREADABLE;
	}
	*top = size == 8 ? value : value & ((1ull << (8 * size)) - 1);
	return NEXT;
}

/* Operations on two values, *left being the deeper one and the result. False: none of them. */
static bool apply_two(uint8_t atom, uint64_t *left, uint64_t right)
{
	int64_t a = (int64_t)*left, b = (int64_t)right;

	switch (atom) {
	case DW_OP_and:
		*left &= right;
		return true;
	case DW_OP_or:
		*left |= right;
		return true;
	case DW_OP_xor:
		*left ^= right;
		return true;
	case DW_OP_plus:
		*left += right;
		return true;
	case DW_OP_minus:
		*left -= right;
		return true;
	case DW_OP_mul:
		*left *= right;
		return true;
	case DW_OP_div:
		if (b == 0 || (a == INT64_MIN && b == -1))
			return false;
		*left = (uint64_t)(a / b);
		return true;
	case DW_OP_mod:
		if (right == 0)
			return false;
		*left %= right;
		return true;
	case DW_OP_shl:
		*left = right < 64 ? *left << right : 0;
		return true;
	case DW_OP_shr:
		*left = right < 64 ? *left >> right : 0;
		return true;
	case DW_OP_shra:
		*left = (uint64_t)(a >> (right < 64 ? right : 63));
		return true;
	case DW_OP_eq:
		*left = a == b;
		return true;
	case DW_OP_ne:
		*left = a != b;
		return true;
	case DW_OP_lt:
		*left = a < b;
		return true;
	case DW_OP_le:
		*left = a <= b;
		return true;
	case DW_OP_gt:
		*left = a > b;
		return true;
	case DW_OP_ge:
		*left = a >= b;
		return true;
	}
	return false;
}

static enum outcome step_two(struct machine *machine, uint8_t atom)
{
	if (machine->depth < 2)
		return REFUSED;
	if (!apply_two(atom, &machine->stack[machine->depth - 2],
		       machine->stack[machine->depth - 1]))
		return REFUSED;
	machine->depth--;
	return NEXT;
}

/* Moves *at to the operation that stands `distance` bytes behind the end of this one. */
static enum outcome jump_to(const struct machine *machine, size_t *at, int16_t distance)
{
	const struct snap_expression *expression = &machine->expression;
	/* A branch takes three bytes: the operation and its distance. */
	uint64_t target = expression->ops[*at].offset + 3 + (uint64_t)(int64_t)distance;

	for (size_t i = 0; i < expression->count; i++) {
		if (expression->ops[i].offset != target)
			continue;
		*at = i;
		return JUMPED;
	}
	return REFUSED;
}

static enum outcome step_one(struct machine *machine, const struct snap_operation *op)
{
	uint64_t *top = machine->depth ? &machine->stack[machine->depth - 1] : NULL, kept;

	if (!top)
		return REFUSED;
	switch (op->atom) {
	case DW_OP_deref:
		return read_word(machine, 8);
	case DW_OP_deref_size:
		return read_word(machine, op->number);
	case DW_OP_dup:
		return pick_value(machine, 0);
	case DW_OP_over:
		return pick_value(machine, 1);
	case DW_OP_pick:
		return pick_value(machine, op->number);
	case DW_OP_drop:
		machine->depth--;
		return NEXT;
	case DW_OP_swap:
		if (machine->depth < 2)
			return REFUSED;
		kept = top[0];
		top[0] = top[-1];
		top[-1] = kept;
		return NEXT;
	case DW_OP_rot:
		if (machine->depth < 3)
			return REFUSED;
		kept = top[0];
		top[0] = top[-1];
		top[-1] = top[-2];
		top[-2] = kept;
		return NEXT;
	case DW_OP_abs:
		if ((int64_t)*top < 0)
			*top = -*top;
		return NEXT;
	case DW_OP_neg:
		*top = -*top;
		return NEXT;
	case DW_OP_not:
		*top = ~*top;
		return NEXT;
	case DW_OP_plus_uconst:
		*top += op->number;
		return NEXT;
	default:
		return step_two(machine, op->atom);
	}
}

static enum outcome run_operation(struct machine *machine, size_t *at)
{
	const struct snap_operation *op = &machine->expression.ops[*at];

	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push_value(machine, op->atom - DW_OP_lit0);
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return push_register(machine, op->atom - DW_OP_breg0, op->number);
	switch (op->atom) {
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		return push_value(machine, op->number);
	case DW_OP_bregx:
		return push_register(machine, op->number, op->number2);
	case DW_OP_call_frame_cfa:
		return push_value(machine, machine->cfa);
	case DW_OP_nop:
		return NEXT;
	case DW_OP_skip:
		return jump_to(machine, at, (int16_t)op->number);
	case DW_OP_bra:
		if (machine->depth == 0)
			return REFUSED;
		return machine->stack[--machine->depth] ? jump_to(machine, at, (int16_t)op->number)
							: NEXT;
	default:
		return step_one(machine, op);
	}
}

/* DW_OP_regN alone: *ret is its number; false: this is another kind of description. */
static bool names_register(struct snap_expression expression, uint64_t *ret)
{
	const struct snap_operation *op = expression.ops;

	if (expression.count != 1)
		return false;
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		*ret = op->atom - DW_OP_reg0;
	else if (op->atom == DW_OP_regx)
		*ret = op->number;
	else
		return false;
	return *ret < SNAP_MAX_DWARF_REGISTERS;
}

enum snap_wide_result snap_expression_evaluate(struct snap_expression expression, bool is_value,
					       uint64_t cfa, const struct snap_frame_state *state,
					       uint64_t *ret, uint64_t *missing_ret)
{
	struct machine machine = { .expression = expression, .state = state, .cfa = cfa };
	enum outcome outcome = NEXT;
	uint64_t number;
	size_t at = 0;

	if (!is_value && names_register(expression, &number)) {
		if (!(state->known >> number & 1))
			return SNAP_WIDE_UNKNOWN;
		*ret = state->registers[number];
		return SNAP_WIDE_DONE;
	}
	for (size_t steps = 0; at < expression.count; steps++) {
		if (steps == MAX_STEPS)
			return SNAP_WIDE_REFUSED;
		if (expression.ops[at].atom == DW_OP_stack_value) {
			is_value = true;
			break;
		}
		outcome = run_operation(&machine, &at);
		if (outcome == NEXT)
			at++;
		else if (outcome != JUMPED)
			break;
	}
	if (outcome == UNKNOWN)
		return SNAP_WIDE_UNKNOWN;
	if (outcome != REFUSED && machine.depth == 0)
		return SNAP_WIDE_REFUSED;
	if (outcome != REFUSED && outcome != UNREADABLE && !is_value)
		outcome = read_word(&machine, 8);
	if (outcome == UNREADABLE) {
		*missing_ret = machine.missing;
		return SNAP_WIDE_UNREADABLE;
	}
	if (outcome == REFUSED)
		return SNAP_WIDE_REFUSED;
	*ret = machine.stack[machine.depth - 1];
	return SNAP_WIDE_DONE;
}
