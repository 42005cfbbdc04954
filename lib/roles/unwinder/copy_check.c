/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The copy check: see copy_check.h. The capture grows while it is read, and its processes may move.
 * Everything opened for them points to them, so it is then given up.
 */
#include "roles/unwinder/copy_check.h"

#include "base/clock.h"
#include "base/workers.h"
#include "roles/file_opener/file_opener.h"
#include "roles/unwinder/unwinder.h"
#include "stop/other_stacks.h"

#include <string.h>

struct snap_copy_check {
	const struct snap_options *options;
	/* for the capture as it is now */
	const struct snap_process *processes;
	size_t process_count;
	struct snap_file_opener *opener;
	struct snap_remote_unwinder *unwinder;
	/* the current process, and the mappings with which it was sent */
	const struct snap_process *entered;
	const struct snap_map *maps;
	int64_t waited_ns; /* for the parser */
	/* Memory of a process, as of snap_copy_check_set_memory(). */
	size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count);
	void *context;
	pid_t tid; /* whose memory is read, if it runs */
	struct snap_workers workers;
	bool has_workers;
	unsigned late;
	uint64_t bytes; /* of other stacks, so far */
};

/* Parts of the time of the whole run, without an answer that is on its way. */
enum { MOST_PART = 4, MOST_PART_OF_ONE = 16 };

enum {
	STACK_BYTES = 1 << 14,   /* of another stack, at a time */
	MOST_STACKS = 64,        /* such parts, of a thread … */
	MOST_PART_OF_MEMORY = 8, /* … and of all: a part of the snapshot's memory */
	MOST_RANGES = 64,
	MOST_LATE = 2,      /* reads that took too long */
	READ_NS = 20000000, /* for one of them */
};

/* In the workers' area. */
struct check_read {
	pid_t tid;
	uint32_t count;
	size_t got; /* out */
	struct iovec ranges[MOST_RANGES];
	uint8_t bytes[STACK_BYTES];
};

static void read_check_memory(void *area, uint32_t item _unused_)
{
	struct check_read *asked = area;
	struct iovec local = { asked->bytes, sizeof(asked->bytes) };
	ssize_t got = process_vm_readv(asked->tid, &local, 1, asked->ranges, asked->count, 0);

	asked->got = got < 0 ? 0 : (size_t)got;
}

/* Of a live thread, by a worker, as the server of a page may never answer; see set_memory(). */
static size_t read_running(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	struct snap_copy_check *check = context;
	struct snap_work work = { .run = read_check_memory, .patience_ns = READ_NS };
	struct check_read *asked;
	size_t size = 0;

	if (!check->has_workers) {
		if (snap_workers_init(&check->workers, sizeof(*asked), -1, SNAP_WORKERS_AWAKE))
			return 0;
		check->has_workers = true;
	}
	asked = check->late < MOST_LATE ? snap_workers_area(&check->workers) : NULL;
	if (!asked || count > MOST_RANGES)
		return 0;
	for (size_t i = 0; i < count; i++) {
		asked->ranges[i] = ranges[i];
		size += ranges[i].iov_len;
	}
	asked->tid = check->tid;
	asked->count = (uint32_t)count;
	if (size > sizeof(asked->bytes) || !snap_workers_call(&check->workers, &work)) {
		check->late++;
		return 0;
	}
	size = SNAP_MIN(asked->got, size);
	memcpy(bytes, asked->bytes, size);
	return size;
}

struct stacksnap_error *snap_copy_check_create(const struct snap_options *options,
					       struct snap_copy_check **ret)
{
	_cleanup_(snap_copy_check_destroyp) struct snap_copy_check *check =
		calloc(1, sizeof(*check));
	struct snap_broker broker;

	SNAP_TRY(snap_no_memory_unless(check));
	check->options = options;
	check->read = read_running;
	check->context = check;
	SNAP_TRY(snap_file_opener_create(NULL, &check->opener));
	snap_file_opener_set_options(check->opener, options, 0);
	broker = snap_file_opener_broker(check->opener);
	SNAP_TRY(snap_remote_unwinder_create(options, &broker, &check->unwinder));
	snap_remote_unwinder_hurry(check->unwinder, options->timeout_ns / MOST_PART_OF_ONE);
	*ret = snap_take_ptr(check);
	return NULL;
}

void snap_copy_check_destroy(struct snap_copy_check *check)
{
	if (!check)
		return;
	snap_remote_unwinder_destroy(check->unwinder);
	snap_file_opener_destroy(check->opener);
	if (check->has_workers)
		snap_workers_deinit(&check->workers);
	free(check);
}

void snap_copy_check_set_memory(struct snap_copy_check *check,
				size_t (*read)(void *context, uint8_t *bytes,
					       const struct iovec *ranges, size_t count),
				void *context)
{
	check->read = read;
	check->context = context;
}

static void begin_judging(struct snap_copy_check *check, const struct snap_capture *capture)
{
	snap_remote_unwinder_reset(check->unwinder);
	check->entered = NULL;
	snap_file_opener_set_capture(check->opener, capture);
	check->processes = capture->processes;
	check->process_count = capture->process_count;
}

/* Makes it the current process, as it is now. */
static void enter_process(struct snap_copy_check *check, size_t index,
			  const struct snap_process *process)
{
	snap_remote_unwinder_leave(check->unwinder, (uint32_t)index);
	check->entered = process;
	check->maps = process->maps;
}

/* False: no answer came. */
static bool unwind_copy(struct snap_copy_check *check, const struct snap_capture *capture,
			size_t index, const struct snap_thread *copy, struct snap_pcs *ret)
{
	const struct snap_process *process = &capture->processes[index];
	struct stacksnap_error *err;
	int64_t begin_ns;

	if (check->processes != capture->processes ||
	    check->process_count != capture->process_count)
		begin_judging(check, capture);
	if (check->entered != process || check->maps != process->maps)
		enter_process(check, index, process);
	/*
	 * A stop takes microseconds, which is better than to wait for a parser that is always slow.
	 */
	if (check->waited_ns > check->options->timeout_ns / MOST_PART)
		return false;
	begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	err = snap_remote_unwind(check->unwinder, (uint32_t)index, process, copy, ret);
	check->waited_ns += snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
	return !snap_error_ignore(err) && !ret->is_lost;
}

bool snap_copy_check_suffices(void *context, const struct snap_capture *capture, size_t index,
			      const struct snap_thread *copy)
{
	struct snap_pcs pcs;

	if (!unwind_copy(context, capture, index, copy, &pcs) || pcs.needs_register)
		return false;
	/*
	 * Unwinding left the copy: it went into a stack that a signal handler interrupted. What
	 * only memory is missing for, a stop does not copy either.
	 */
	return pcs.end != SNAP_UNWIND_UNREADABLE || copy->stack_unreadable || copy->stack2_size;
}

/* ---- other stacks ---- */

/*
 * The memory that is wanted there, between what the image has: from below the address, as callers lie
 * above. Size 0: it is none of a stack.
 */
static struct iovec find_wanted(const struct snap_process *process,
				const struct snap_memory_image *image, uint64_t address)
{
	const struct snap_map *map = snap_process_map(process, address);
	uint64_t start, end, other, size;

	if (!map || !map->read || !map->write)
		return (struct iovec){ NULL, 0 };
	start = SNAP_MAX(map->start, address - SNAP_MIN(address, (uint64_t)2 * SNAP_STACK_MARGIN));
	start &= ~15ull;
	end = SNAP_MIN(start + STACK_BYTES, map->end);
	for (size_t i = 0; i < image->piece_count; i++) {
		other = image->pieces[i].address;
		size = image->pieces[i].size;
		if (other <= address && other + size > start)
			start = other + size;
		else if (other > address && other < end)
			end = other;
	}
	return (struct iovec){ (void *)(uintptr_t)start, address < end ? end - start : 0 };
}

/* Adds memory at an address to the image, which stays sorted; false: none. */
static bool add_stack(struct snap_copy_check *check, const struct snap_process *process,
		      struct snap_memory_image *image, struct snap_shared_memory *memory,
		      uint64_t address)
{
	struct iovec range = find_wanted(process, image, address);
	struct snap_memory_piece *piece = &image->pieces[image->piece_count];
	uint8_t *bytes = range.iov_len ? snap_region_alloc(&memory->stacks, STACK_BYTES) : NULL;
	uint64_t start = (uintptr_t)range.iov_base;
	size_t got = bytes ? check->read(check->context, bytes, &range, 1) : 0;

	if (address + sizeof(uint64_t) > start + got)
		return false;
	for (; piece > image->pieces && piece[-1].address > start; piece--)
		*piece = piece[-1];
	*piece = (struct snap_memory_piece){ start, got, bytes };
	image->piece_count++;
	image->bytes += got;
	return true;
}

void snap_copy_check_follow(void *context, const struct snap_capture *capture, size_t index,
			    struct snap_thread *thread, struct snap_shared_memory *memory,
			    int64_t until_ns)
{
	struct snap_copy_check *check = context;
	const struct snap_process *process = &capture->processes[index];
	struct snap_lead_search search = { .maps = process->maps,
					   .map_count = process->map_count,
					   .read = check->read,
					   .context = check->context };
	struct snap_memory_image *image = NULL;
	struct snap_pcs pcs;
	bool is_full;

	check->tid = thread->tid;
	if (thread->memory ||
	    (thread->lead != SNAP_LEAD_ON && !snap_stack_leads_on(&search, thread)))
		return;
	while (unwind_copy(check, capture, index, thread, &pcs) && pcs.missing) {
		if (!image) {
			image = snap_region_alloc(&memory->records, sizeof(*image));
			if (!image)
				return;
			image->pieces = snap_region_new_array(&memory->records, MOST_STACKS,
							      struct snap_memory_piece);
		}
		/* More is there, and is not copied. */
		is_full = image->piece_count == MOST_STACKS ||
			  snap_clock_ns(CLOCK_MONOTONIC) >= until_ns ||
			  check->bytes > check->options->max_snapshot / MOST_PART_OF_MEMORY;
		thread->stack_limited |= is_full;
		if (is_full || !image->pieces ||
		    !add_stack(check, process, image, memory, pcs.missing))
			return;
		check->bytes += STACK_BYTES;
		thread->memory = image;
	}
}
