/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process made by hand for the tests of the unwinder: the fixture's functions at an address of
 * our own, a page of code without a file, two stacks that the test fills word by word.
 */
#pragma once

#include "analyze/unwind/unwind.h"
#include "model/arch/registers.h"
#include "own_registers.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

enum {
	MAX_MAPS = 16,
	STACK_WORDS = 8192,
};

/* A stack is the last of all, as in real processes: above it there are no addresses. */
static const uint64_t code_at = 0x10000000, jit_at = 0x20000000, stack_at = 0x30000000,
		      other_stack_at = 0x7ffe40000000;

struct bed {
	struct snap_arena arena;
	struct snap_options options;
	struct snap_process process;
	struct snap_map maps[MAX_MAPS];
	struct snap_thread thread;
	uint64_t registers[SNAP_OWN_REGISTERS / sizeof(uint64_t)];
	uint64_t stack[STACK_WORDS], other_stack[64];
	struct snap_image *image; /* the fixture, for its symbols */
	struct snap_piece head;
	uint64_t bias;
	struct snap_module_set *set;
	struct snap_modules *modules;
	struct snap_unwinder *unwinder;
	struct snap_pcs pcs;
};

/* The file that is mapped: the fixture, or a copy of it without symbols. */
static const char *mapped_path(void)
{
	const char *path = getenv("UNWIND_MAPPED");

	return path ? path : getenv("UNWIND_FIXTURE");
}

static struct stacksnap_error *find_fixture(void *context, const struct snap_file_request *request,
					    int *fd_ret)
{
	(void)context;
	if (request->attempt > 0)
		return snap_error_not_found();
	*fd_ret = open(mapped_path(), O_RDONLY | O_CLOEXEC);
	assert_true(*fd_ret >= 0);
	return NULL;
}

/* The fixture's segments as a loader maps them, then code without a file, and the two stacks. */
static void bed_make_maps(struct bed *bed)
{
	const char *path = mapped_path();
	const Elf64_Ehdr *header = (const void *)snap_image_bytes(bed->image).data;
	const Elf64_Phdr *segment = (const void *)((const uint8_t *)header + header->e_phoff);
	struct snap_map *map = bed->maps;
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	for (size_t i = 0; i < header->e_phnum; i++, segment++) {
		if (segment->p_type != PT_LOAD)
			continue;
		assert_true(map < bed->maps + MAX_MAPS - 3);
		*map++ = (struct snap_map){
			.start = code_at + (segment->p_vaddr & ~4095ull),
			.end = code_at + ((segment->p_vaddr + segment->p_memsz + 4095) & ~4095ull),
			.offset = segment->p_offset & ~4095ull,
			.read = true,
			.write = segment->p_flags & PF_W,
			.execute = segment->p_flags & PF_X,
			.path = path,
			.inode = status.st_ino,
			.dev_major = major(status.st_dev),
			.dev_minor = minor(status.st_dev),
		};
	}
	*map++ = (struct snap_map){
		.start = jit_at, .end = jit_at + 4096, .read = true, .execute = true
	};
	*map++ = (struct snap_map){
		.start = stack_at, .end = stack_at + sizeof(bed->stack), .read = true, .write = true
	};
	*map++ = (struct snap_map){ .start = other_stack_at,
				    .end = other_stack_at + sizeof(bed->other_stack),
				    .read = true,
				    .write = true };
	bed->process.maps = bed->maps;
	bed->process.map_count = map - bed->maps;
	bed->process.arch = SNAP_OWN_ARCH;
	bed->bias = code_at;
}

static void bed_open(struct bed *bed)
{
	struct snap_file_finder finder = { .find = find_fixture };
	int fd = open(getenv("UNWIND_FIXTURE"), O_RDONLY | O_CLOEXEC);

	memset(bed, 0, sizeof(*bed));
	assert_true(fd >= 0);
	assert_null(snap_image_open(fd, &bed->image));
	close(fd);
	snap_arena_init(&bed->arena);
	bed_make_maps(bed);
	bed->thread = (struct snap_thread){ .result = SNAP_THREAD_COPIED,
					    .registers = bed->registers,
					    .registers_size = sizeof(bed->registers),
					    .stack_address = stack_at,
					    .stack = (const uint8_t *)bed->stack,
					    .stack_size = sizeof(bed->stack) };
	bed->registers[SP_WORD] = stack_at;
	assert_null(snap_module_set_create(&finder, &bed->arena, &bed->set));
	assert_null(snap_modules_create(bed->set, &bed->process, &bed->modules));
	assert_null(snap_unwinder_create(bed->set, &bed->options, &bed->unwinder));
	assert_null(snap_unwinder_enter(bed->unwinder, &bed->process, bed->modules));
}

/* The first page as captured: then the build id says which file is mapped. */
__attribute__((unused)) static void bed_add_head(struct bed *bed)
{
	bed->head = (struct snap_piece){ .address = code_at,
					 .data = snap_image_bytes(bed->image).data,
					 .size = 4096 };
	bed->process.pieces = &bed->head;
	bed->process.piece_count = 1;
}

static void bed_close(struct bed *bed)
{
	snap_unwinder_destroy(bed->unwinder);
	snap_module_set_destroy(bed->set);
	snap_image_close(bed->image);
	snap_arena_deinit(&bed->arena);
}

/* The address of a symbol of the fixture in the process. */
static uint64_t symbol(const struct bed *bed, const char *name)
{
	struct snap_bytes symbols, strings;

	assert_true(snap_image_symbols(bed->image, false, &symbols, &strings));
	for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size; at += sizeof(Elf64_Sym)) {
		Elf64_Sym one;

		memcpy(&one, symbols.data + at, sizeof(one));
		if (strcmp((const char *)strings.data + one.st_name, name) == 0)
			return one.st_value + bed->bias;
	}
	fail_msg("no symbol %s", name);
	return 0;
}

/* A return address inside a function: behind its first nop. */
__attribute__((unused)) static uint64_t inside(const struct bed *bed, const char *name)
{
	return symbol(bed, name) + NOP_BYTES;
}

static void unwind(struct bed *bed)
{
	snap_unwind(bed->unwinder, &bed->thread, &bed->pcs);
}

static void begins_in(struct bed *bed, uint64_t pc)
{
	bed->registers[PC_WORD] = pc;
}

/* The return address where a call puts it: in word `at` of the stack, or in the link register. */
__attribute__((unused)) static void put_return(struct bed *bed, size_t at, uint64_t pc)
{
	if (CALL_PUSHES)
		bed->stack[at] = pc;
	else
		bed->registers[LINK_WORD] = pc;
}

__attribute__((unused)) static void check_pcs(const struct bed *bed, size_t count, ...)
{
	va_list expected;

	assert_int_equal(bed->pcs.count, count);
	va_start(expected, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(snap_pc_address(bed->pcs.pcs[i]), va_arg(expected, uint64_t));
	va_end(expected);
}

#define CHECK_PCS(bed, ...) \
	check_pcs(bed, sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), __VA_ARGS__)
