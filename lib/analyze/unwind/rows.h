/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rows: what CFI says about one address of one file, in a form that is quick to apply.
 *
 * A row is computed once for an address: by libdw from .eh_frame or .debug_frame (which may be in a
 * separate debug file), for Go code from Go's own table. It is kept with the file, for all
 * processes that map the file. Knows nothing of stacks or processes.
 */
#pragma once

#include "analyze/elf/functions.h"
#include "analyze/elf/module.h"
#include "analyze/unwind/arch.h"

enum snap_row_kind {
	SNAP_ROW_NONE,     /* no CFI covers the address: see `code` */
	SNAP_ROW_SIMPLE,   /* CFA = register + offset, all else at CFA + 8 * n */
	SNAP_ROW_END,      /* the return address is undefined: the outermost frame */
	SNAP_ROW_WIDE,     /* anything else that expressions can say: see `wide` */
	SNAP_ROW_REFUSED,  /* CFI that libdw does not understand */
	SNAP_ROW_UNUSABLE, /* CFI that is handed to no library: see cfi_check.h */
	SNAP_ROW_PUT_IN,   /* as simple; but its caller was interrupted, and has not called it */
	SNAP_ROW_KEPT, /* no frame, the return address in cfa_register: after exact addresses only */
	SNAP_ROW_RETURN,  /* set by the unwinder: no CFI, returns from a signal handler */
	SNAP_ROW_WILD,    /* set by the unwinder: no executable memory */
	SNAP_ROW_CONTEXT, /* set by the unwinder: the code that makecontext(3) returns to */
};

/* What a function does that puts its thread on another stack. */
enum snap_row_switch {
	SNAP_ROW_SWITCHES_NOTHING,
	SNAP_ROW_SWITCHES_STACK, /* what called it is on another stack */
	SNAP_ROW_LEAVES_STACK,   /* what called it goes on elsewhere: nothing is further out */
};

/* What a file tells of code without CFI; zeroed: there is no file. */
struct snap_row_code {
	uint32_t into;    /* the address lies so far behind the beginning of its function … */
	uint8_t start;    /* … as an enum snap_start has it */
	bool is_readable; /* the file has the code */
	bool is_exported; /* calls of it in its own module may go by a stub */
	bool is_entry;    /* where the file's program begins: it has no caller */
	uint8_t switches; /* as an enum snap_row_switch has it */
};

/* 24 bytes: with its address a row takes half a cache line. */
struct snap_row {
	uint8_t kind; /* enum snap_row_kind */
	uint8_t cfa_register;
	uint16_t saved; /* bit i: register arch->saved[i] is at CFA + 8 * at[1 + i] */
	int32_t cfa_offset;
	union {
		struct {
			int8_t at[1 + SNAP_MAX_SAVED]; /* at[0]: the return address */
			int8_t low, high;              /* the least and the largest of them */
		};
		const struct snap_wide_row *wide;
		struct snap_row_code code; /* of SNAP_ROW_NONE */
	};
};

struct snap_rows;

/* Rows of a file whose image is open, and stays so as long as they live. */
struct stacksnap_error *snap_rows_create(struct snap_module_set *set, struct snap_module_file *file,
					 const struct snap_arch_ops *arch,
					 struct snap_rows **ret) _must_check_;
void snap_rows_destroy(struct snap_rows *rows);

/* The row for an unbiased address. What `wide` points to lives as long as `rows`. */
struct snap_row snap_rows_find(struct snap_rows *rows, uint64_t vaddr);

/* The same without CFI: what is known of the function, also where there is a row. */
struct snap_row snap_rows_code(struct snap_rows *rows, uint64_t vaddr);

/* state->known of whole threads. */
#define SNAP_ALL_KNOWN UINT64_MAX

/* Memory and registers while a wide row is applied. */
struct snap_frame_state {
	uint64_t registers[SNAP_MAX_DWARF_REGISTERS]; /* by DWARF number; [ra] is the pc */
	uint64_t known; /* bit n: the value of register n is known; all but for partial threads */
	/* A word of the target; false: it is not to be had. */
	bool (*read)(void *context, uint64_t address, uint64_t *ret);
	void *context;
};

/*
 * Where a row has its CFA by the stack pointer, and the frame record, which is the frame pointer
 * and the return address above it, at a place of its frame: how far that lies above the stack
 * pointer, in *ret. The frame pointer of such a frame leads to its record. False: it is no such
 * row.
 */
bool snap_row_record_depth(const struct snap_row *row, const struct snap_arch_ops *arch,
			   int64_t *ret);

enum snap_wide_result {
	SNAP_WIDE_DONE,
	SNAP_WIDE_UNREADABLE, /* memory was not there */
	SNAP_WIDE_REFUSED,    /* an operation that is not evaluated here */
	SNAP_WIDE_UNKNOWN,    /* a register's value is not known */
};

/* Whether it computes the CFA by more than a register and an offset. */
bool snap_wide_row_computes(const struct snap_wide_row *wide);

/*
 * Applies a wide row: state->registers become those of the caller. *cfa_ret is the frame's CFA,
 * *signal_ret whether the caller was interrupted and not called, *missing_ret the address that
 * could not be read.
 */
enum snap_wide_result snap_wide_row_apply(const struct snap_wide_row *wide,
					  struct snap_frame_state *state, uint64_t *cfa_ret,
					  bool *signal_ret, uint64_t *missing_ret);
