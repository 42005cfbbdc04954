/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The functions of asm_x86_64.S, which says what is hard about each, for aarch64. Where that one has
 * the return address on the stack, these have saved it there and have something else in x30.
 */
	.text

	.globl fp_outer
	.type fp_outer, @function
fp_outer:
	stp x29, x30, [sp, #-48]!
	mov x29, sp
	bl fp_middle
	ldp x29, x30, [sp], #48
	ret
	.size fp_outer, .-fp_outer

	.globl fp_middle
	.type fp_middle, @function
fp_middle:
	stp x29, x30, [sp, #-96]!
	mov x29, sp
	blr x0
	ldp x29, x30, [sp], #96
	ret
	.size fp_middle, .-fp_middle

	.globl no_fp
	.type no_fp, @function
no_fp:
	sub sp, sp, #32
	str x30, [sp, #24]
	mov x29, #0x10
	mov x30, #0
1:	b 1b
	.size no_fp, .-no_fp

	.globl leaf_outer
	.type leaf_outer, @function
leaf_outer:
	.cfi_startproc
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov x29, sp
	.cfi_def_cfa 29, 16
	bl leaf_inner
after_leaf_inner:
	ldp x29, x30, [sp], #16
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa 31, 0
	ret
	.cfi_endproc
	.size leaf_outer, .-leaf_outer

	.globl leaf_inner
	.type leaf_inner, @function
leaf_inner:
	.cfi_startproc
	sub sp, sp, #32
	.cfi_def_cfa_offset 32
	str x30, [sp, #24]
	.cfi_offset 30, -8
	bl leaf
	ldr x30, [sp, #24]
	.cfi_restore 30
	add sp, sp, #32
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size leaf_inner, .-leaf_inner

	.globl leaf
	.type leaf, @function
leaf:
	sub sp, sp, #48
	str x30, [sp, #40]
	mov x30, #0
	/* behind a call of another function; of this one, but behind no call; no code */
	adr x0, after_leaf_inner
	str x0, [sp]
	adr x0, 1f
	str x0, [sp, #8]
	mov x0, sp
	str x0, [sp, #16]
1:	b 1b
	.size leaf, .-leaf

	.globl fp_cycle
	.type fp_cycle, @function
fp_cycle:
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	str x29, [x29]
	adr x30, 1f
	str x30, [x29, #8]
1:	b 1b
	.size fp_cycle, .-fp_cycle

	.globl creep
	.type creep, @function
creep:
	.cfi_startproc
	/* CFA = sp + 16, and the return address is this very function's, so sp grows by 16 */
	.cfi_def_cfa_offset 16
	.cfi_offset 30, -8
	adr x0, 2f
	mov w1, #4096
1:	stp x0, x0, [sp, #-16]!
	subs w1, w1, #1
	b.ne 1b
2:	b 2b
	nop
	.cfi_endproc
	.size creep, .-creep

	.globl endless
	.type endless, @function
endless:
	.cfi_startproc
	/* DW_CFA_def_cfa_expression, 3 bytes: DW_OP_skip -3 */
	.cfi_escape 0x0f, 0x03, 0x2f, 0xfd, 0xff
1:	b 1b
	nop
	.cfi_endproc
	.size endless, .-endless

	.globl bad_stack
	.type bad_stack, @function
bad_stack:
	mov x0, #0x1230
	mov sp, x0
	mov x29, #0x4560
	mov x30, #0x7890
1:	b 1b
	.size bad_stack, .-bad_stack

	.section .note.GNU-stack,"",%progbits
