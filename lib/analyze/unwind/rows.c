/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rows of a file: libdw's CFI functions, called once for an address; see rows.h. The number of rows
 * that are kept is limited: a hostile stack can name as many addresses as it has words.
 */
#include "analyze/unwind/rows.h"

#include "analyze/unwind/cfi_check.h"
#include "analyze/unwind/expression.h"
#include "analyze/unwind/go.h"
#include "base/buffer.h"
#include "base/table.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <string.h>

enum {
	MAX_ROWS = 1 << 20,
	MAX_WIDE = 1 << 14, /* about a kilobyte each */
	MAX_OPS = 4096,     /* operations of a wide row */
	ENTRY_BYTES = 64,   /* of the first function of a program, where no symbol tells */
};

enum rule_kind { RULE_SAME, RULE_UNDEFINED, RULE_EXPRESSION };

struct rule {
	enum rule_kind kind;
	struct snap_expression expression;
};

struct snap_wide_row {
	struct snap_wide_row *next;
	const struct snap_arch_ops *arch;
	bool is_signal;
	struct snap_expression cfa;
	struct rule registers[SNAP_MAX_DWARF_REGISTERS];
	struct snap_operation ops[]; /* what the expressions above point to */
};

/* What libdw says of a frame, before it is put into either form. */
struct frame_rules {
	bool is_signal;
	const Dwarf_Op *cfa;
	size_t cfa_count;
	struct {
		enum rule_kind kind;
		const Dwarf_Op *ops;
		size_t count;
		Dwarf_Op memory[3]; /* where libdw puts the operations of simple rules */
	} registers[SNAP_MAX_DWARF_REGISTERS];
};

struct known_row {
	uint64_t vaddr;
	struct snap_row row;
};

struct snap_rows {
	struct snap_module_set *set;
	struct snap_module_file *file;
	struct snap_image *image; /* of the file */
	struct snap_image *debug; /* a separate debug file, ours; NULL: none */
	const struct snap_arch_ops *arch;
	Dwarf_CFI *eh_frame, *debug_frame;
	Dwarf *dwarf; /* for debug_frame */
	bool debug_frame_tried, go_tried;
	struct snap_go_code go; /* of no functions: there is none */
	struct snap_cfi_programs eh_programs, debug_programs;
	struct snap_functions *functions; /* NULL: not asked for yet, or no memory */
	struct known_row *known;
	size_t count, capacity;
	struct snap_hash_table table; /* of known */
	struct snap_wide_row *wide;   /* all of them */
	size_t wide_count;
};

struct stacksnap_error *snap_rows_create(struct snap_module_set *set, struct snap_module_file *file,
					 const struct snap_arch_ops *arch, struct snap_rows **ret)
{
	struct snap_rows *rows = calloc(1, sizeof(*rows));

	SNAP_TRY(snap_no_memory_unless(rows));
	rows->set = set;
	rows->file = file;
	rows->image = file->image;
	rows->arch = arch;
	snap_frame_header_hide(rows->image);
	rows->eh_programs = (struct snap_cfi_programs){ .image = rows->image, .is_eh_frame = true };
	if (snap_image_machine(rows->image) == arch->machine &&
	    snap_cfi_is_bounded(rows->image, ".eh_frame")) {
		/* libelf keeps what is wrong to itself, but this it leaves in errno. */
		errno = 0;
		if (snap_image_elf(rows->image)) {
			rows->eh_frame = dwarf_getcfi_elf(snap_image_elf(rows->image));
		} else if (errno == ENOMEM) {
			free(rows);
			return snap_error_no_memory();
		}
	}
	*ret = rows;
	return NULL;
}

void snap_rows_destroy(struct snap_rows *rows)
{
	if (!rows)
		return;
	while (rows->wide) {
		struct snap_wide_row *next = rows->wide->next;

		free(rows->wide);
		rows->wide = next;
	}
	dwarf_cfi_end(rows->eh_frame);
	if (rows->dwarf)
		dwarf_end(rows->dwarf);
	snap_image_close(rows->debug);
	snap_functions_destroy(rows->functions);
	snap_hash_table_deinit(&rows->table);
	free(rows->known);
	free(rows);
}

/* The file with .debug_frame: the file itself, or its debug file; NULL: neither has one. */
static struct snap_image *image_with_debug_frame(struct snap_rows *rows)
{
	uint64_t address;

	if (snap_image_machine(rows->image) != rows->arch->machine)
		return NULL;
	if (snap_image_section_address(rows->image, ".debug_frame", &address))
		return rows->image;
	rows->debug = snap_module_file_debug(rows->set, rows->file);
	if (rows->debug && snap_image_machine(rows->debug) == rows->arch->machine &&
	    snap_image_section_address(rows->debug, ".debug_frame", &address))
		return rows->debug;
	return NULL;
}

/*
 * Opening a Dwarf inflates every debug section of the file, so it is done only where .eh_frame had
 * no answer and there is a .debug_frame.
 */
static Dwarf_CFI *debug_frame(struct snap_rows *rows)
{
	struct snap_image *image;

	if (rows->debug_frame_tried)
		return rows->debug_frame;
	rows->debug_frame_tried = true;
	image = image_with_debug_frame(rows);
	rows->debug_programs.image = image;
	if (image && snap_image_inflated(image) != UINT64_MAX &&
	    snap_cfi_is_bounded(image, ".debug_frame") && snap_image_elf(image))
		rows->dwarf = dwarf_begin_elf(snap_image_elf(image), DWARF_C_READ, NULL);
	if (rows->dwarf)
		rows->debug_frame = dwarf_getcfi(rows->dwarf);
	return rows->debug_frame;
}

static bool read_rule(Dwarf_Frame *frame, struct frame_rules *rules, unsigned number)
{
	Dwarf_Op *memory = rules->registers[number].memory, *ops;
	size_t count;

	if (dwarf_frame_register(frame, (int)number, memory, &ops, &count) < 0)
		return false;
	rules->registers[number].kind = count > 0       ? RULE_EXPRESSION
					: ops == memory ? RULE_UNDEFINED
							: RULE_SAME;
	rules->registers[number].ops = ops;
	rules->registers[number].count = count;
	return true;
}

/* CFA + 8 * n, the form of nearly all rules: n, if it fits. */
static bool is_cfa_slot(const struct frame_rules *rules, unsigned number, int8_t *ret)
{
	const Dwarf_Op *ops = rules->registers[number].ops;
	size_t count = rules->registers[number].count;
	int64_t offset = 0;

	if (rules->registers[number].kind != RULE_EXPRESSION || count > 2 ||
	    ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (count == 2) {
		if (ops[1].atom != DW_OP_plus_uconst)
			return false;
		offset = (int64_t)ops[1].number;
	}
	if (offset % 8 != 0 || offset < 8 * INT8_MIN || offset > 8 * INT8_MAX)
		return false;
	*ret = (int8_t)(offset / 8);
	return true;
}

static bool set_cfa(struct snap_row *row, const struct frame_rules *rules)
{
	const Dwarf_Op *op = rules->cfa;
	int64_t offset;
	uint64_t number;

	if (rules->cfa_count != 1)
		return false;
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		number = op->atom - DW_OP_breg0;
		offset = (int64_t)op->number;
	} else if (op->atom == DW_OP_bregx) {
		number = op->number;
		offset = (int64_t)op->number2;
	} else {
		return false;
	}
	if (number >= SNAP_MAX_DWARF_REGISTERS || offset < INT32_MIN || offset > INT32_MAX)
		return false;
	row->cfa_register = (uint8_t)number;
	row->cfa_offset = (int32_t)offset;
	return true;
}

/* sp's rule is "the CFA" in all simple rows: libdw says so by a value or leaves it the same. */
static bool sp_is_cfa(const struct frame_rules *rules, unsigned sp)
{
	const Dwarf_Op *ops = rules->registers[sp].ops;

	if (rules->registers[sp].kind != RULE_EXPRESSION)
		return true;
	return rules->registers[sp].count == 2 && ops[0].atom == DW_OP_call_frame_cfa &&
	       ops[1].atom == DW_OP_stack_value;
}

static void widen_range(struct snap_row *row, int8_t at)
{
	if (at < row->low)
		row->low = at;
	if (at > row->high)
		row->high = at;
}

/* The simple form of a row; false: it has none. */
static bool simplify_row(const struct snap_arch_ops *arch, const struct frame_rules *rules,
			 struct snap_row *ret)
{
	struct snap_row row = { .kind = SNAP_ROW_SIMPLE };

	if (rules->is_signal || !set_cfa(&row, rules) || !sp_is_cfa(rules, arch->sp) ||
	    !is_cfa_slot(rules, arch->ra, &row.at[0]))
		return false;
	row.low = row.high = row.at[0];
	for (unsigned i = 0; i < arch->saved_count; i++) {
		if (rules->registers[arch->saved[i]].kind != RULE_EXPRESSION)
			continue;
		if (!is_cfa_slot(rules, arch->saved[i], &row.at[1 + i]))
			return false;
		row.saved |= (uint16_t)(1u << i);
		widen_range(&row, row.at[1 + i]);
	}
	*ret = row;
	return true;
}

static struct snap_operation *put_ops(struct snap_operation *to, const Dwarf_Op *from, size_t count,
				      struct snap_expression *ret)
{
	for (size_t i = 0; i < count; i++)
		to[i] = (struct snap_operation){ .atom = from[i].atom,
						 .number = from[i].number,
						 .number2 = from[i].number2,
						 .offset = from[i].offset };
	*ret = (struct snap_expression){ to, count };
	return to + count;
}

/* The wide form, which lives as long as `rows`; NULL: too many operations, or no memory. */
static const struct snap_wide_row *keep_wide(struct snap_rows *rows,
					     const struct frame_rules *rules)
{
	size_t registers = rows->arch->dwarf_registers, count = rules->cfa_count;
	struct snap_operation *ops;
	struct snap_wide_row *kept;

	for (size_t i = 0; i < registers && count <= MAX_OPS; i++)
		count += rules->registers[i].count;
	if (count > MAX_OPS || rows->wide_count == MAX_WIDE)
		return NULL;
	kept = calloc(1, sizeof(*kept) + count * sizeof(*kept->ops));
	if (!kept)
		return NULL;
	kept->arch = rows->arch;
	kept->is_signal = rules->is_signal;
	ops = put_ops(kept->ops, rules->cfa, rules->cfa_count, &kept->cfa);
	for (size_t i = 0; i < registers; i++) {
		kept->registers[i].kind = rules->registers[i].kind;
		ops = put_ops(ops, rules->registers[i].ops, rules->registers[i].count,
			      &kept->registers[i].expression);
	}
	kept->next = rows->wide;
	rows->wide = kept;
	rows->wide_count++;
	return kept;
}

static struct snap_row row_of_frame(struct snap_rows *rows, Dwarf_Frame *frame)
{
	const struct snap_arch_ops *arch = rows->arch;
	const struct snap_row refused = { .kind = SNAP_ROW_REFUSED };
	struct frame_rules rules;
	struct snap_row row;
	Dwarf_Addr start, end;
	Dwarf_Op *cfa;

	if (dwarf_frame_info(frame, &start, &end, &rules.is_signal) != (int)arch->ra ||
	    dwarf_frame_cfa(frame, &cfa, &rules.cfa_count) < 0)
		return refused;
	rules.cfa = cfa;
	for (unsigned i = 0; i < arch->dwarf_registers; i++)
		if (!read_rule(frame, &rules, i))
			return refused;
	if (rules.registers[arch->ra].kind == RULE_UNDEFINED)
		return (struct snap_row){ .kind = SNAP_ROW_END };
	if (rules.cfa_count == 0)
		return refused;
	if (simplify_row(arch, &rules, &row))
		return row;
	row = (struct snap_row){ .kind = SNAP_ROW_WIDE, .wide = keep_wide(rows, &rules) };
	return row.wide ? row : refused;
}

/* SNAP_ROW_SIMPLE: the frame is there. */
static enum snap_row_kind find_dwarf_frame(Dwarf_CFI *cfi, struct snap_cfi_programs *programs,
					   uint64_t vaddr, Dwarf_Frame **ret)
{
	if (!cfi)
		return SNAP_ROW_NONE;
	/* libunwind would find it by the search table, and by nothing else. */
	if (!snap_cfi_program_is_bounded(programs, vaddr))
		return programs->header.table.size ? SNAP_ROW_UNUSABLE : SNAP_ROW_REFUSED;
	return dwarf_cfi_addrframe(cfi, vaddr, ret) == 0 ? SNAP_ROW_SIMPLE : SNAP_ROW_NONE;
}

/*
 * Where the function begins that has no CFI: by symbols, those of the debug file if that was opened
 * for its CFI; else behind the entry of another function in the search table.
 */
static struct snap_function find_cfi_function(struct snap_rows *rows, uint64_t vaddr)
{
	uint64_t entry = snap_image_entry(rows->image), before;
	struct snap_function function = { 0 };

	if (!rows->functions)
		rows->functions = snap_functions_create(rows->image, rows->debug);
	if (rows->functions)
		function = snap_functions_find(rows->functions, vaddr);
	if (function.how != SNAP_START_EARLIEST)
		return function;
	before = snap_cfi_function_before(&rows->eh_programs, vaddr);
	if (before > function.start)
		function.start = before;
	if (entry >= function.start && entry <= vaddr && vaddr - entry < ENTRY_BYTES)
		function = (struct snap_function){ .start = entry, .how = SNAP_START_EXACT };
	return function;
}

struct snap_row snap_rows_code(struct snap_rows *rows, uint64_t vaddr)
{
	struct snap_function function = find_cfi_function(rows, vaddr);
	struct snap_row row = { .kind = SNAP_ROW_NONE };
	uint64_t segment;

	if (!snap_image_code_segment(rows->image, vaddr, &segment))
		return row;
	if (function.start < segment)
		function.start = segment;
	row.code = (struct snap_row_code){
		.into = vaddr - function.start < UINT32_MAX ? (uint32_t)(vaddr - function.start)
							    : UINT32_MAX,
		.start = (uint8_t)function.how,
		.is_readable = true,
		.is_exported = function.is_exported,
		.is_entry = function.how != SNAP_START_EARLIEST &&
			    function.start == snap_image_entry(rows->image),
	};
	return row;
}

/* In a stub of a PLT for which the linker has written no CFI; false: it is none. */
static bool find_stub_row(struct snap_rows *rows, uint64_t vaddr, struct snap_row *ret)
{
	const struct snap_arch_ops *arch = rows->arch;
	struct snap_bytes code;
	uint64_t start;

	if (!arch->stub_at || !snap_image_code_segment(rows->image, vaddr, &start))
		return false;
	if (vaddr - start > SNAP_STUB_AROUND)
		start = vaddr - SNAP_STUB_AROUND;
	code = snap_image_at(rows->image, start);
	if (code.size > 2 * SNAP_STUB_AROUND)
		code.size = 2 * SNAP_STUB_AROUND;
	if (code.size <= vaddr - start)
		return false;
	switch (arch->stub_at(code.data, code.size, vaddr - start)) {
	case SNAP_STUB_NONE:
		return false;
	case SNAP_STUB_BARE:
		*ret = (struct snap_row){ .kind = SNAP_ROW_KEPT,
					  .cfa_register = (uint8_t)arch->ra };
		return true;
	case SNAP_STUB_PUSHED:
		*ret = (struct snap_row){ .kind = SNAP_ROW_SIMPLE,
					  .cfa_register = (uint8_t)arch->sp,
					  .cfa_offset = 2 * sizeof(uint64_t),
					  .at = { -1 },
					  .low = -1,
					  .high = -1 };
		return true;
	}
	return false;
}

/* By the table of a Go program; false: the code is none of Go's. */
static bool find_go_row(struct snap_rows *rows, uint64_t vaddr, struct snap_row *ret)
{
	if (!rows->go_tried) {
		rows->go_tried = true;
		if (rows->image && !snap_go_code_find(rows->image, false, &rows->go))
			rows->go = (struct snap_go_code){ .start = 0 };
	}
	return rows->go.end != 0 && snap_go_row(&rows->go, rows->arch, vaddr, ret);
}

static struct snap_row compute_cfi_row(struct snap_rows *rows, uint64_t vaddr)
{
	Dwarf_Frame *frame = NULL;
	enum snap_row_kind kind;
	struct snap_row row;

	snap_module_set_note(rows->set, rows->file);
	kind = find_dwarf_frame(rows->eh_frame, &rows->eh_programs, vaddr, &frame);
	if (kind == SNAP_ROW_NONE && find_go_row(rows, vaddr, &row))
		return row;
	if (kind == SNAP_ROW_NONE)
		kind = find_dwarf_frame(debug_frame(rows), &rows->debug_programs, vaddr, &frame);
	if (kind == SNAP_ROW_NONE && find_stub_row(rows, vaddr, &row))
		return row;
	if (kind == SNAP_ROW_NONE)
		return snap_rows_code(rows, vaddr);
	if (kind != SNAP_ROW_SIMPLE)
		return (struct snap_row){ .kind = kind };
	row = row_of_frame(rows, frame);
	free(frame);
	return row;
}

struct snap_row snap_rows_find(struct snap_rows *rows, uint64_t vaddr)
{
	uint64_t hash = snap_hash_mix(vaddr);
	struct snap_probe probe = snap_hash_table_probe(&rows->table, hash);
	struct known_row *added;

	while (snap_probe_next(&probe))
		if (rows->known[probe.number].vaddr == vaddr)
			return rows->known[probe.number].row;
	if (!snap_reserve_array_most(rows->known, rows->capacity, rows->count + 1, MAX_ROWS) ||
	    !snap_hash_table_add(&rows->table, hash, rows->count))
		return compute_cfi_row(rows, vaddr);
	added = &rows->known[rows->count++];
	*added = (struct known_row){ vaddr, compute_cfi_row(rows, vaddr) };
	return added->row;
}

bool snap_wide_row_computes(const struct snap_wide_row *wide)
{
	return wide->cfa.count > 1;
}

enum snap_wide_result snap_wide_row_apply(const struct snap_wide_row *wide,
					  struct snap_frame_state *state, uint64_t *cfa_ret,
					  bool *signal_ret, uint64_t *missing_ret)
{
	const struct snap_arch_ops *arch = wide->arch;
	uint64_t caller[SNAP_MAX_DWARF_REGISTERS], cfa, known = state->known | 1ull << arch->sp;
	enum snap_wide_result result;

	result = snap_expression_evaluate(wide->cfa, true, 0, state, &cfa, missing_ret);
	if (result != SNAP_WIDE_DONE)
		return result;
	memcpy(caller, state->registers, sizeof(caller));
	caller[arch->sp] = cfa;
	for (unsigned i = 0; i < arch->dwarf_registers; i++) {
		const struct rule *rule = &wide->registers[i];

		if (rule->kind != RULE_EXPRESSION) {
			if (i == arch->ra && !(known >> i & arch->has_link_register))
				return arch->has_link_register ? SNAP_WIDE_UNKNOWN
							       : SNAP_WIDE_REFUSED;
			continue;
		}
		result = snap_expression_evaluate(rule->expression, false, cfa, state, &caller[i],
						  missing_ret);
		/* Only what leads to the caller must be there: a lost rbx is lost, no more. */
		if (result != SNAP_WIDE_DONE && (i == arch->ra || i == arch->sp))
			return result;
		/* Where all are known, one that is lost keeps its value, as it always did. */
		if (known != SNAP_ALL_KNOWN)
			known = (known & ~(1ull << i)) | (uint64_t)(result == SNAP_WIDE_DONE) << i;
	}
	state->known = known;
	memcpy(state->registers, caller, sizeof(caller));
	*cfa_ret = cfa;
	*signal_ret = wide->is_signal;
	return SNAP_WIDE_DONE;
}

/* The offset of a rule "at CFA + offset"; false: it is another one. */
static bool is_at_cfa(const struct rule *rule, int64_t *ret)
{
	const struct snap_operation *ops = rule->expression.ops;

	*ret = 0;
	if (rule->kind != RULE_EXPRESSION || ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (rule->expression.count == 1)
		return true;
	*ret = (int64_t)ops[1].number;
	return rule->expression.count == 2 && ops[1].atom == DW_OP_plus_uconst;
}

static bool is_above_sp(const struct snap_wide_row *wide, int64_t *ret)
{
	const struct snap_operation *op = wide->cfa.ops;

	if (wide->cfa.count != 1 || wide->is_signal)
		return false;
	*ret = (int64_t)(op->atom == DW_OP_bregx ? op->number2 : op->number);
	return op->atom == DW_OP_bregx ? op->number == wide->arch->sp
				       : op->atom == DW_OP_breg0 + wide->arch->sp;
}

bool snap_row_record_depth(const struct snap_row *row, const struct snap_arch_ops *arch,
			   int64_t *ret)
{
	int64_t fp = 0, ra = 0, cfa = 0;
	unsigned i = 0;

	while (i < arch->saved_count && arch->saved[i] != arch->fp)
		i++;
	if (i == arch->saved_count)
		return false;
	if (row->kind == SNAP_ROW_WIDE) {
		const struct snap_wide_row *wide = row->wide;

		if (!is_above_sp(wide, &cfa) || !is_at_cfa(&wide->registers[arch->fp], &fp) ||
		    !is_at_cfa(&wide->registers[arch->ra], &ra))
			return false;
	} else if (row->kind == SNAP_ROW_SIMPLE && row->cfa_register == arch->sp &&
		   row->saved & 1u << i) {
		cfa = row->cfa_offset, fp = 8 * (int64_t)row->at[1 + i],
		ra = 8 * (int64_t)row->at[0];
	} else {
		return false;
	}
	*ret = (int64_t)((uint64_t)cfa + (uint64_t)fp);
	return ra == (int64_t)((uint64_t)fp + 8) && *ret >= 0;
}
