/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Code whose unwinding is hard by intent. fp_outer, fp_middle: frame pointers and no CFI at all.
 * no_fp: neither. leaf_outer, leaf_inner, leaf: the innermost has neither, rbp is that of the
 * outermost, and on its stack lie addresses that look as if they were to be returned to. fp_cycle: a frame whose caller is itself. creep: a CFA that never grows.
 * endless: a CFA expression that loops for ever.
 */
	.text

	.globl fp_outer
	.type fp_outer, @function
fp_outer:
	pushq %rbp
	movq %rsp, %rbp
	subq $48, %rsp
	call fp_middle
	leave
	ret
	.size fp_outer, .-fp_outer

	.globl fp_middle
	.type fp_middle, @function
fp_middle:
	pushq %rbp
	movq %rsp, %rbp
	subq $80, %rsp
	call *%rdi
	leave
	ret
	.size fp_middle, .-fp_middle

	.globl no_fp
	.type no_fp, @function
no_fp:
	subq $24, %rsp
	movq $0x10, %rbp
1:	jmp 1b
	.size no_fp, .-no_fp

	.globl leaf_outer
	.type leaf_outer, @function
leaf_outer:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register rbp
	call leaf_inner
after_leaf_inner:
	leave
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size leaf_outer, .-leaf_outer

	.globl leaf_inner
	.type leaf_inner, @function
leaf_inner:
	.cfi_startproc
	subq $24, %rsp
	.cfi_def_cfa_offset 32
	call leaf
	addq $24, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size leaf_inner, .-leaf_inner

	.globl leaf
	.type leaf, @function
leaf:
	subq $40, %rsp
	/* behind a call of another function; of this one, but behind no call; no code */
	leaq after_leaf_inner(%rip), %rax
	movq %rax, (%rsp)
	leaq 1f(%rip), %rax
	movq %rax, 8(%rsp)
	movq %rsp, 16(%rsp)
1:	jmp 1b
	.size leaf, .-leaf

	.globl fp_cycle
	.type fp_cycle, @function
fp_cycle:
	pushq %rbp
	movq %rsp, %rbp
	movq %rbp, (%rbp)
	leaq 1f(%rip), %rax
	movq %rax, 8(%rbp)
1:	jmp 1b
	.size fp_cycle, .-fp_cycle

	.globl creep
	.type creep, @function
creep:
	.cfi_startproc
	/* CFA = rsp + 8, and the return address is this very function's, so rsp grows by 8 */
	leaq 2f(%rip), %rax
	movl $4096, %ecx
1:	pushq %rax
	decl %ecx
	jnz 1b
2:	jmp 2b
	nop
	.cfi_endproc
	.size creep, .-creep

	.globl endless
	.type endless, @function
endless:
	.cfi_startproc
	/* DW_CFA_def_cfa_expression, 3 bytes: DW_OP_skip -3 */
	.cfi_escape 0x0f, 0x03, 0x2f, 0xfd, 0xff
1:	jmp 1b
	nop
	.cfi_endproc
	.size endless, .-endless

	.globl bad_stack
	.type bad_stack, @function
bad_stack:
	movq $0x1230, %rsp
	movq $0x4560, %rbp
1:	jmp 1b
	.size bad_stack, .-bad_stack

	.section .note.GNU-stack,"",@progbits
