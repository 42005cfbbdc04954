/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logs of threads that wait, made by hand: stacks whose frames have names, objects with their words,
 * and who has them from tick to tick.
 */
#pragma once

#include "analyze/log/log.h"
#include "api/options.h"
#include "base/buffer.h"
#include "fine.h"
#include "store/log/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum {
	PERIOD = 10,
	APP_CODE = 0x400000,
	APP_DATA = 0x600000,
	HEAP = 0x800000,
	LIBC_CODE = 0x10000000,
	ANONYMOUS = 0x20000000,
	SHARED = 0x30000000,
	MAIN_STACK = 0x40000000,
	MAP_SIZE = 0x100000,
	MOST_NAMED = 256,
	CALL_READ = 0,
	CALL_POLL = 7,
	CALL_FSYNC = 74,
	CALL_FUTEX = 202,
	FUTEX_WAIT_PRIVATE = 0x80,
	FUTEX_BITSET_PRIVATE = 0x89,
	FUTEX_LOCK_PI_PRIVATE = 0x86,
	MUTEX_PI_KIND = 0x20,
};

struct bed {
	struct snap_options options;
	struct snap_log *log;
	const char *named[MOST_NAMED]; /* functions, by what their address has beside its base */
	size_t named_count;
};

static inline void bed_init(struct bed *bed)
{
	struct snap_host host = { .name = "host", .arch = "x86_64" };

	memset(bed, 0, sizeof(*bed));
	snap_options_init(&bed->options);
	fine(snap_log_create(&host, 1000000, PERIOD, false, &bed->log));
}

static inline void bed_deinit(struct bed *bed)
{
	snap_log_destroy(bed->log);
	snap_options_deinit(&bed->options);
}

static inline void bed_begin(struct bed *bed)
{
	const struct snap_log *log = bed->log;
	int64_t last = log->tick_count ? log->ticks[log->tick_count - 1].time_ns : -PERIOD;

	fine(snap_log_begin_tick(bed->log, last + PERIOD));
}

static inline void bed_end(struct bed *bed)
{
	snap_log_end_tick(bed->log, 1);
}

static inline void bed_pass(struct bed *bed, int ticks)
{
	while (ticks-- > 0) {
		bed_begin(bed);
		bed_end(bed);
	}
}

/* Maps what there is in each: a program, its C library, heap, shared memory, stack. */
static inline void bed_map(struct bed *bed, uint32_t process, pid_t pid)
{
	struct snap_map maps[] = {
		{ .start = APP_CODE, .inode = 7, .execute = true, .path = "/bin/app" },
		{ .start = APP_DATA, .inode = 7, .write = true, .path = "/bin/app" },
		{ .start = HEAP, .write = true, .path = "[heap]" },
		{ .start = LIBC_CODE, .inode = 8, .execute = true, .path = "/lib/libc.so.6" },
		{ .start = ANONYMOUS, .write = true },
		{ .start = SHARED,
		  .inode = 9,
		  .write = true,
		  .shared = true,
		  .path = "/dev/shm/x" },
		{ .start = MAIN_STACK, .write = true, .path = "[stack]" },
	};
	struct snap_process facts = { .pid = pid,
				      .ppid = 1,
				      .ns_pid = pid,
				      .name = "app",
				      .exe = "/bin/app",
				      .state = 'S',
				      .in_host_namespace = true,
				      .parent = SIZE_MAX,
				      .arch = SNAP_ARCH_X86_64,
				      .maps = maps,
				      .map_count = SNAP_ARRAY_SIZE(maps) };
	uint32_t space;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(maps); i++) {
		maps[i].end = maps[i].start + MAP_SIZE;
		maps[i].read = true;
	}
	fine(snap_log_map_process(bed->log, process, &facts, NULL, &space));
}

/* `before` UINT32_MAX: it is no program that another one went on as. */
static inline uint32_t bed_process(struct bed *bed, pid_t pid, uint32_t parent, uint32_t before)
{
	uint32_t process;

	fine(snap_log_add_process(bed->log, pid, 5, parent, before, true, &process));
	bed_map(bed, process, pid);
	return process;
}

static inline uint32_t bed_space(const struct bed *bed, uint32_t process)
{
	return bed->log->processes[process].space;
}

static inline uint32_t bed_thread(struct bed *bed, uint32_t process, pid_t tid)
{
	uint32_t thread;

	fine(snap_log_add_thread(bed->log, process, tid, tid, "thread", false, &thread));
	return thread;
}

/* Functions "libc:name" or "app:name", innermost first; "libc:" has no name. NULL ends them. */
static inline uint32_t bed_stack(struct bed *bed, uint32_t process, const char *const *functions)
{
	uint64_t bits[8];
	struct snap_log_pcs pcs = { .bits = bits };
	uint32_t stack;

	for (; functions[pcs.count]; pcs.count++) {
		const char *function = functions[pcs.count];
		size_t at = 0;

		while (at < bed->named_count && strcmp(bed->named[at], function) != 0)
			at++;
		assert_true(at < MOST_NAMED && pcs.count < 8);
		bed->named[at] = function;
		if (at == bed->named_count)
			bed->named_count++;
		bits[pcs.count] = snap_pc_return((function[0] == 'l' ? LIBC_CODE : APP_CODE) +
						 0x100 + 0x10 * at)
					  .bits;
	}
	fine(snap_log_stack(bed->log, bed_space(bed, process), &pcs, &stack));
	return stack;
}
#define BED_STACK(bed, process, ...) \
	bed_stack(bed, process, (const char *const[]){ __VA_ARGS__, NULL })

/* As a parser would have. */
static inline void bed_name_all(struct bed *bed)
{
	struct snap_log *log = bed->log;

	for (size_t i = 0; i < log->frame_count; i++) {
		uint64_t address = snap_pc_address((struct snap_pc){ log->frames[i].bits });
		bool is_libc = address >= LIBC_CODE;
		const char *function =
			strchr(bed->named[(address % MAP_SIZE - 0x100) / 0x10], ':') + 1;
		struct snap_entry *entry = snap_arena_new(&log->arena, struct snap_entry);
		struct snap_frame frame = { .address = address,
					    .module = is_libc ? "/lib/libc.so.6" : "/bin/app",
					    .offset = address % MAP_SIZE,
					    .has_offset = true,
					    .entries = entry,
					    .entry_count = 1 };

		if (log->frames[i].name)
			continue;
		assert_non_null(entry);
		if (*function)
			entry->symbol = entry->function = function;
		assert_true(
			snap_reserve_array(log->names, log->name_capacity, log->name_count + 1));
		log->names[log->name_count++] = frame;
		log->frames[i].name = (uint32_t)log->name_count;
	}
}

/* ---- objects ---- */

struct bed_words {
	struct snap_memory_piece piece;
	struct snap_memory_image image;
	uint32_t words[16];
};

static inline const struct snap_memory_image *bed_words(struct bed_words *to, uint64_t address,
							const uint32_t *words, size_t size)
{
	assert_true(size <= sizeof(to->words));
	memcpy(to->words, words, size);
	to->piece = (struct snap_memory_piece){ address, size, (const uint8_t *)to->words };
	to->image =
		(struct snap_memory_image){ .pieces = &to->piece, .piece_count = 1, .bytes = size };
	return &to->image;
}

/* A mutex of glibc; owner 0: nobody has it. */
static inline const struct snap_memory_image *
bed_mutex_words(struct bed_words *to, uint64_t address, uint32_t owner, uint32_t kind)
{
	const uint32_t words[] = { kind & MUTEX_PI_KIND ? 0x80000000 | owner
				   : owner              ? 2
							: 0,
				   1, owner, 1, kind };

	return bed_words(to, address, words, sizeof(words));
}

static inline uint32_t bed_object(struct bed *bed, const struct snap_log_object *object,
				  const struct snap_memory_image *words)
{
	uint32_t number = 0;

	fine(snap_log_find_object(bed->log, object, words, &number));
	assert_int_not_equal(number, 0);
	return number - 1;
}

static inline uint32_t bed_futex(struct bed *bed, uint32_t process, uint64_t address, uint64_t op,
				 uint32_t value, const struct snap_memory_image *words)
{
	const struct snap_log_object object = {
		.space = bed_space(bed, process),
		.call = { .known = true,
			  .number = CALL_FUTEX,
			  .arguments = { address, op, value } },
		.is_futex = true,
	};

	return bed_object(bed, &object, words);
}

/* A mutex, which `owner` has at first; within a tick. */
static inline uint32_t bed_mutex(struct bed *bed, uint32_t process, uint64_t address,
				 uint32_t owner)
{
	struct bed_words words;

	return bed_futex(bed, process, address, FUTEX_WAIT_PRIVATE, 2,
			 bed_mutex_words(&words, address, owner, 0));
}

/* From this tick on another one has it. */
static inline void bed_hold(struct bed *bed, uint32_t object, uint32_t owner)
{
	struct bed_words words;

	fine(snap_log_set_owner(
		bed->log, object,
		bed_mutex_words(&words, bed->log->objects[object].call.arguments[0], owner, 0)));
}

/* `object` UINT32_MAX: it waits for nothing. */
static inline void bed_stand(struct bed *bed, uint32_t thread, uint32_t stack,
			     enum snap_state state, uint32_t object)
{
	struct snap_log_change change = { .thread = thread,
					  .stack = stack,
					  .syscall = -1,
					  .state = (uint8_t)state,
					  .taken = SNAP_TAKEN_UNSTOPPED,
					  .object = object + 1 };

	fine(snap_log_change(bed->log, &change));
}

static inline void bed_run(struct bed *bed, uint32_t thread, uint32_t stack)
{
	bed_stand(bed, thread, stack, SNAP_STATE_RUNNING, UINT32_MAX);
}

/* ---- the code under test ---- */

static inline struct stacksnap_error *bed_no_file(void *context _unused_,
						  const struct snap_file_request *request _unused_,
						  int *fd_ret _unused_)
{
	return snap_error_not_found();
}

static inline struct stacksnap_error *bed_tell(void *context, uint32_t stack, uint32_t object,
					       const struct snap_wait *wait)
{
	return snap_log_explain(context, stack, object, wait);
}

/* Names all frames, and explains all pairs. */
static inline void bed_explain(struct bed *bed)
{
	const struct snap_file_finder finder = { .find = bed_no_file };
	_cleanup_free_ struct snap_log_explained *pairs = NULL;
	size_t count = 0;

	bed_name_all(bed);
	fine(snap_log_waits_left(bed->log, &pairs, &count));
	fine(snap_analyze_log_waits(bed->log, &bed->options, &finder, pairs, count, bed_tell,
				    bed->log));
}
