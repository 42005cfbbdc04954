/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes whose threads stand in calls that wait, made by hand: maps, words of memory, stacks
 * with frames that have names, registers. What is found out of them is the code under test.
 */
#pragma once

#include "analyze/wait/waiter.h"
#include "api/options.h"
#include "model/arch/registers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum {
	BED_PROCESSES = 3,
	BED_THREADS = 12, /* of a process */
	BED_FRAMES = 8,
	BED_MAPS = 32,
	BED_PIECES = 32,
	BED_STACK = 4096,
	BED_PIECE = 256,
	CALL_FUTEX = 202,
};

/* Where things lie, in each process. */
enum {
	APP_CODE = 0x400000,
	APP_DATA = 0x600000,
	HEAP = 0x800000,
	LIBC_CODE = 0x10000000,
	SHARED = 0x20000000,
	STACKS = 0x40000000, /* one each 0x10000 bytes */
	STACK_SIZE = 0x10000,
	STACK_TOP_USED = 0x8000, /* sp, seen from the beginning of the mapping */
	THREAD_POINTER = 0xf000,
};

struct bed_process {
	struct snap_map maps[BED_MAPS];
	struct snap_thread threads[BED_THREADS];
	struct snap_x86_64_registers registers[BED_THREADS];
	uint8_t stacks[BED_THREADS][BED_STACK];
	struct snap_frame_record records[BED_THREADS][BED_FRAMES];
	struct snap_entry entries[BED_THREADS][BED_FRAMES];
	const struct snap_frame *frames[BED_THREADS][BED_FRAMES];
	struct snap_raw_stack raw_stacks[BED_THREADS];
	struct snap_raw_thread raw_threads[BED_THREADS];
	struct snap_memory_image words;
	struct snap_memory_piece pieces[BED_PIECES];
	uint8_t bytes[BED_PIECES][BED_PIECE];
};

struct wait_bed {
	struct snap_options options;
	struct snap_file_finder finder;
	struct snap_capture capture;
	struct snap_wait_facts facts;
	struct snap_analysis analysis;
	struct snap_process processes[BED_PROCESSES];
	struct snap_raw_process raw[BED_PROCESSES];
	struct bed_process of[BED_PROCESSES];
};

static inline struct stacksnap_error *bed_no_file(void *context _unused_,
						  const struct snap_file_request *request _unused_,
						  int *fd_ret _unused_)
{
	return snap_error_not_found();
}

static inline void bed_init(struct wait_bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	snap_options_init(&bed->options);
	bed->options.explain = SNAP_EXPLAIN_ALL;
	bed->finder.find = bed_no_file;
	bed->facts.monotonic_ns = 1000000000000;
	bed->facts.realtime_ns = 1795420338106000000;
	bed->capture.processes = bed->processes;
	bed->capture.waits = &bed->facts;
	bed->analysis.capture = &bed->capture;
	bed->analysis.options = &bed->options;
	bed->analysis.processes = bed->raw;
	bed->analysis.snapshot = snap_snapshot_new();
	assert_non_null(bed->analysis.snapshot);
	snap_interner_init(&bed->analysis.strings, &bed->analysis.snapshot->arena);
	assert_null(snap_symbolizer_create(&bed->finder, &bed->options,
					   &bed->analysis.snapshot->arena,
					   &bed->analysis.symbolizer));
}

static inline void bed_deinit(struct wait_bed *bed)
{
	snap_symbolizer_destroy(bed->analysis.symbolizer);
	snap_interner_deinit(&bed->analysis.strings);
	snap_snapshot_destroy(bed->analysis.snapshot);
	snap_arena_deinit(&bed->analysis.scratch);
	snap_options_deinit(&bed->options);
}

static inline void bed_map(struct wait_bed *bed, size_t p, struct snap_map map)
{
	struct snap_process *process = &bed->processes[p];
	size_t at = process->map_count++;

	assert_true(at < BED_MAPS);
	for (; at && process->maps[at - 1].start > map.start; at--)
		process->maps[at] = process->maps[at - 1];
	process->maps[at] = map;
}

static inline size_t bed_process(struct wait_bed *bed, pid_t pid, size_t parent)
{
	size_t p = bed->capture.process_count++;
	struct bed_process *of = &bed->of[p];

	of->words = (struct snap_memory_image){ .pieces = of->pieces };
	bed->processes[p] = (struct snap_process){ .pid = pid,
						   .name = "app",
						   .exe = "/bin/app",
						   .parent = parent,
						   .arch = SNAP_ARCH_X86_64,
						   .maps = of->maps,
						   .threads = of->threads,
						   .words = &of->words };
	bed->raw[p] = (struct snap_raw_process){ .process = &bed->processes[p],
						 .has_libc = true,
						 .stacks = of->raw_stacks,
						 .threads = of->raw_threads };
	bed_map(bed, p,
		(struct snap_map){ .start = APP_CODE,
				   .end = APP_CODE + 0x1000,
				   .inode = 7,
				   .read = true,
				   .execute = true,
				   .path = "/bin/app" });
	bed_map(bed, p,
		(struct snap_map){ .start = LIBC_CODE,
				   .end = LIBC_CODE + 0x1000,
				   .inode = 8,
				   .read = true,
				   .execute = true,
				   .path = "/lib/libc.so.6" });
	bed_map(bed, p,
		(struct snap_map){ .start = HEAP,
				   .end = HEAP + 0x10000,
				   .read = true,
				   .write = true,
				   .path = "[heap]" });
	bed_map(bed, p,
		(struct snap_map){ .start = SHARED + 0x1000 * p,
				   .end = SHARED + 0x1000 * p + 0x1000,
				   .inode = 9,
				   .offset = 0x3000,
				   .dev_minor = 5,
				   .read = true,
				   .write = true,
				   .shared = true,
				   .path = "/dev/shm/x" });
	return p;
}

static inline uint64_t bed_sp(size_t t)
{
	return STACKS + (uint64_t)t * STACK_SIZE + STACK_TOP_USED;
}

static inline uint64_t bed_thread_pointer(size_t t)
{
	return STACKS + (uint64_t)t * STACK_SIZE + THREAD_POINTER;
}

/*
 * Frames innermost first: "libc.so.6:pthread_mutex_lock", "app:work", a module alone where there is
 * no name; with '!' in front what a signal interrupted. Modules lie in /lib but for the program.
 */
static inline size_t bed_thread(struct wait_bed *bed, size_t p, pid_t tid,
				const char *const *frames)
{
	struct snap_process *process = &bed->processes[p];
	struct bed_process *of = &bed->of[p];
	size_t t = process->thread_count++, count = 0;
	uint64_t base = STACKS + (uint64_t)t * STACK_SIZE;

	assert_true(t < BED_THREADS);
	bed->raw[p].thread_count = bed->raw[p].stack_count = process->thread_count;
	of->registers[t] = (struct snap_x86_64_registers){ .orig_rax = UINT64_MAX,
							   .rsp = bed_sp(t),
							   .fs_base = bed_thread_pointer(t) };
	of->threads[t] = (struct snap_thread){ .tid = tid,
					       .ns_tid = tid,
					       .name = "thread",
					       .state = 'S',
					       .cpu = -1,
					       .blocked_ns = -1,
					       .result = SNAP_THREAD_COPIED,
					       .registers = &of->registers[t],
					       .registers_size = sizeof(of->registers[t]),
					       .stack_address = bed_sp(t) - SNAP_STACK_MARGIN,
					       .stack = of->stacks[t],
					       .stack_size = BED_STACK };
	/* A guard page apart, as glibc's stacks are. */
	bed_map(bed, p,
		(struct snap_map){ .start = base + 0x1000,
				   .end = base + STACK_SIZE,
				   .read = true,
				   .write = true });
	for (; frames[count]; count++) {
		const char *text = frames[count], *colon;
		struct snap_frame_record *record = &of->records[t][count];
		struct snap_entry *entry = &of->entries[t][count];
		char *module;

		assert_true(count < BED_FRAMES);
		record->bits = 0x1000 + count;
		if (*text == '!') {
			record->bits |= SNAP_PC_EXACT;
			text++;
		}
		colon = strchrnul(text, ':');
		module = snap_arena_printf(&bed->analysis.scratch, "%s%.*s",
					   strncmp(text, "app", 3) == 0 ? "/bin/" : "/lib/",
					   (int)(colon - text), text);
		if (*colon)
			entry->symbol = entry->function = colon + 1;
		record->frame = (struct snap_frame){ .address = 0x1000 + count,
						     .module = module,
						     .entries = entry,
						     .entry_count = 1 };
		of->frames[t][count] = &record->frame;
	}
	of->raw_stacks[t] =
		(struct snap_raw_stack){ .frames = of->frames[t], .frame_count = count };
	of->raw_threads[t] = (struct snap_raw_thread){ .thread = &of->threads[t], .stack = t };
	return t;
}
#define BED_THREAD(bed, p, tid, ...) \
	bed_thread(bed, p, tid, (const char *const[]){ __VA_ARGS__, NULL })

static inline void bed_futex(struct wait_bed *bed, size_t p, size_t t, uint64_t address,
			     unsigned op, uint32_t value)
{
	struct snap_x86_64_registers *registers = &bed->of[p].registers[t];

	registers->orig_rax = CALL_FUTEX;
	registers->rdi = address;
	registers->rsi = op;
	registers->rdx = value;
}

/* Words of the process's memory, as they were copied. */
static inline void bed_words(struct wait_bed *bed, size_t p, uint64_t address, const void *words,
			     size_t size)
{
	struct snap_memory_image *image = &bed->of[p].words;
	size_t at = image->piece_count++;

	assert_true(at < BED_PIECES && size <= BED_PIECE);
	memcpy(bed->of[p].bytes[at], words, size);
	/* Sorted; the bytes stay where they are. */
	for (; at && image->pieces[at - 1].address > address; at--)
		image->pieces[at] = image->pieces[at - 1];
	image->pieces[at] = (struct snap_memory_piece){ address, size,
							bed->of[p].bytes[image->piece_count - 1] };
}
#define BED_WORDS(bed, p, address, ...)                               \
	bed_words(bed, p, address, (const uint32_t[]){ __VA_ARGS__ }, \
		  sizeof((const uint32_t[]){ __VA_ARGS__ }))

/* A word of a thread's stack, seen from sp. */
static inline void bed_stack(struct wait_bed *bed, size_t p, size_t t, size_t offset, uint64_t word)
{
	assert_true(SNAP_STACK_MARGIN + offset + 8 <= BED_STACK);
	memcpy(bed->of[p].stacks[t] + SNAP_STACK_MARGIN + offset, &word, sizeof(word));
}

static inline void bed_find(struct wait_bed *bed)
{
	struct stacksnap_error *err = snap_waits_find(&bed->analysis);

	if (err)
		fail_msg("%s", snap_error_message(err));
}

static inline const struct snap_wait *bed_wait(const struct wait_bed *bed, size_t p, size_t t)
{
	return bed->of[p].raw_threads[t].wait;
}
