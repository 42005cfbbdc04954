/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a capture has of memory, taken from a core: the heads of modules, stacks from below the
 * stack pointer up to the end of their mapping, what their runtimes keep, what explains waits. In
 * the same amounts, and by the same rules, as from a stopped process; but no process waits here.
 * Reads numbers of the capture and bytes at places, and follows none of the bytes but by a plan.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "core/core.h"
#include "model/arch/registers.h"
#include "model/wait/call.h"
#include "proc/address_space.h"
#include "stop/plan/candidate.h"
#include "stop/plan/of_thread.h"
#include "stop/signal_stack.h"
#include "stop/wait_bytes.h"

#include <string.h>
#include <sys/mman.h>

enum {
	BUFFER = 1 << 16,
	CRASHED_STACK = 16 << 20, /* stack bytes of the thread that got the signal: see most_of() */
	USUAL_STACK = 1 << 20,
	SIGNAL_FRAME_BYTES = 4 << 20, /* that are searched for signal frames, of all stacks */
	WORD_BYTES = 1 << 16,         /* of all threads together … */
	WORD_BYTES_A_THREAD = 656,    /* … and as much for each */
	MOST_FUTEXES = 128,           /* in one call (futex_waitv(2)) */
	MOST_ARRAY = MOST_FUTEXES * 24,
};

/* For the memory of runtimes: no process is stopped for it. */
static const int64_t PLAN_NS = 2000000000;

struct filling {
	const struct snap_core *core;
	struct snap_core_memory *memory;
	const struct snap_options *options;
	struct snap_capture *capture;
	struct snap_process *process;
	struct snap_shared_memory *shared;
	uint8_t *buffer; /* BUFFER bytes */
};

static struct snap_known_registers registers_of(const struct filling *filling,
						const struct snap_thread *thread)
{
	struct snap_known_registers known = { .sp = 0 };

	snap_registers_of(filling->process->arch, thread, &known);
	return known;
}

/* ---- heads of modules ---- */

/* Where nothing in memory says which files they are, they are believed by their names. */
static void warn_of_heads(const struct filling *filling)
{
	const struct snap_process *process = filling->process;
	bool has_file = false, has_head = false;

	for (size_t i = 0; i < process->map_count && !has_file; i++)
		has_file = process->maps[i].inode && process->maps[i].execute;
	for (size_t i = 0; i < process->piece_count && !has_head; i++) {
		const struct snap_map *map = snap_process_map(process, process->pieces[i].address);

		has_head = map && map->inode;
	}
	if (has_file && !has_head)
		snap_capture_warn(filling->capture, "core_unidentified", process->pid, 0,
				  "the core has no first pages of the files that were mapped: they "
				  "are looked for by their names alone (see coredump_filter in "
				  "core(5))");
}

static void fill_pieces(struct filling *filling)
{
	struct snap_process *process = filling->process;
	struct snap_space space = { .maps = process->maps,
				    .map_count = process->map_count,
				    .room = SNAP_SPACE_BYTES };
	const struct snap_space_reader reader = {
		.records = &filling->shared->records,
		.buffer = (char *)filling->buffer,
		.buffer_size = BUFFER,
		.read = snap_core_memory_read,
		.context = filling->memory,
	};

	snap_space_read_pieces(&reader, &space);
	process->pieces = space.pieces;
	process->piece_count = space.piece_count;
	warn_of_heads(filling);
}

/* ---- stacks ---- */

struct need {
	uint64_t address, size; /* size 0: there is no such mapping */
};

static struct need find_core_stack(const struct filling *filling, uint64_t sp,
				   uint64_t thread_pointer)
{
	const struct snap_process *process = filling->process;
	const struct snap_map *map = snap_maps_stack(process->maps, process->map_count, sp);
	uint64_t start;

	if (!map)
		return (struct need){ 0 };
	start = sp < map->start + SNAP_STACK_MARGIN ? map->start : sp - SNAP_STACK_MARGIN;
	start &= ~15ull;
	return (struct need){ start, snap_process_stack_end(process, map, thread_pointer) - start };
}

static struct need need_of(const struct filling *filling, const struct snap_thread *thread)
{
	struct snap_known_registers known = registers_of(filling, thread);

	return find_core_stack(filling, known.sp, known.thread_pointer);
}

/* The longest stack with which all fit: the inner frames of each are worth more than one whole. */
static uint64_t longest_stack(const struct filling *filling)
{
	const struct snap_process *process = filling->process;
	uint64_t most = filling->options->max_stack & ~15ull, total;
	uint64_t room = filling->options->max_snapshot / 16 * 15;

	for (;; most = (most / 2) & ~15ull) {
		total = 0;
		for (size_t i = 0; i < process->thread_count && total <= room; i++) {
			uint64_t size = need_of(filling, &process->threads[i]).size;

			total += size < most ? size : most;
		}
		if (total <= room)
			return most;
	}
}

/* What is read takes room, and what is not there takes none. */
static const uint8_t *copy_core_range(const struct filling *filling, uint64_t address,
				      uint64_t size, size_t *got_ret)
{
	struct snap_region *stacks = &filling->shared->stacks;
	uint8_t *bytes;

	*got_ret = 0;
	if (size == 0 || size > snap_region_room(stacks))
		return NULL;
	bytes = stacks->next;
	*got_ret = snap_core_memory_bytes(filling->memory, address, bytes, (size_t)size);
	return *got_ret ? snap_region_alloc(stacks, *got_ret) : NULL;
}

/*
 * The outermost frames of an endless recursion show its origin. No process is stopped for a core,
 * so the crashed thread gets more room than others, unless the caller asks for less than the
 * default.
 */
static uint64_t most_of(const struct filling *filling, const struct snap_thread *thread,
			uint64_t most)
{
	if (thread->tid != filling->process->signal.tid || most < USUAL_STACK)
		return most;
	return most > CRASHED_STACK ? most : CRASHED_STACK;
}

static void fill_core_stack(const struct filling *filling, struct snap_thread *thread,
			    uint64_t most)
{
	struct need need = need_of(filling, thread);
	uint64_t size;

	most = most_of(filling, thread, most);
	size = need.size < most ? need.size : most;

	thread->stack_unreadable = true;
	if (!need.size)
		return;
	thread->stack_address = need.address;
	thread->stack = copy_core_range(filling, need.address, size, &thread->stack_size);
	thread->stack_limited = thread->stack_size == size && size < need.size;
	thread->stack_unreadable = thread->stack_size < size;
}

/* ---- stacks that were interrupted ---- */

struct interrupted {
	const struct filling *filling;
	const struct snap_map *own;
	uint64_t thread_pointer;
	struct need need;
};

static bool is_elsewhere(void *context, uint64_t sp)
{
	struct interrupted *interrupted = context;
	const struct snap_process *process = interrupted->filling->process;
	const struct snap_map *map = snap_maps_stack(process->maps, process->map_count, sp);

	if (!map || map == interrupted->own || !map->write)
		return false;
	interrupted->need = find_core_stack(interrupted->filling, sp, interrupted->thread_pointer);
	return interrupted->need.size > 0;
}

static void fill_interrupted(const struct filling *filling, struct snap_thread *thread,
			     uint64_t most, size_t *budget)
{
	struct interrupted interrupted = {
		.filling = filling,
		.own = snap_process_map(filling->process, thread->stack_address),
		.thread_pointer = registers_of(filling, thread).thread_pointer,
	};
	uint64_t size;

	if (!thread->stack_size || !interrupted.own ||
	    snap_is_usual_stack(interrupted.own, interrupted.thread_pointer,
				thread->tid == filling->process->pid) ||
	    !snap_tracer_interrupted_sp(thread, budget, is_elsewhere, &interrupted))
		return;
	most = most_of(filling, thread, most);
	most = SNAP_MIN(most, snap_region_room(&filling->shared->stacks) & ~(size_t)15);
	size = interrupted.need.size < most ? interrupted.need.size : most;
	thread->stack2_address = interrupted.need.address;
	thread->stack2 =
		copy_core_range(filling, interrupted.need.address, size, &thread->stack2_size);
}

static struct stacksnap_error *fill_stacks(const struct filling *filling,
					   const struct snap_stop_hook *hook)
{
	struct snap_process *process = filling->process;
	uint64_t most = longest_stack(filling);
	size_t budget = SIGNAL_FRAME_BYTES;
	int64_t until_ns = snap_clock_ns(CLOCK_MONOTONIC) + PLAN_NS;

	for (size_t i = 0; i < process->thread_count; i++) {
		SNAP_TRY(snap_options_check(filling->options));
		fill_core_stack(filling, &process->threads[i], most);
	}
	for (size_t i = 0; i < process->thread_count; i++)
		fill_interrupted(filling, &process->threads[i], most, &budget);
	for (size_t i = 0; hook && hook->follow && i < process->thread_count; i++)
		hook->follow(hook->context, filling->capture, 0, &process->threads[i],
			     filling->shared, until_ns);
	if (most < (filling->options->max_stack & ~15ull))
		snap_capture_warn(filling->capture, "stacks_limited", 0, 0,
				  "stacks were cut to keep the snapshot within %llu MiB",
				  (unsigned long long)filling->options->max_snapshot >> 20);
	return NULL;
}

/* ---- words that explain waits ---- */

struct words {
	const struct filling *filling;
	struct snap_memory_piece *pieces;
	size_t count, capacity;
	uint64_t left; /* bytes that they may still take */
};

SNAP_FREES(words_deinit, struct words, pieces);

static bool is_in_core_stack(const struct snap_thread *thread, const struct snap_wait_range *range)
{
	uint64_t at = range->address - thread->stack_address;

	return range->address >= thread->stack_address && at <= thread->stack_size &&
	       range->size <= thread->stack_size - at;
}

/* What the same lock has asked for just now is not asked for again. */
static bool is_last(const struct words *words, const struct snap_wait_range *range)
{
	const struct snap_memory_piece *last =
		words->count ? &words->pieces[words->count - 1] : NULL;

	return last && last->address == range->address && last->size == range->size;
}

/* False without memory. */
static bool add_core_words(struct words *words, const struct snap_wait_range *range)
{
	struct snap_memory_piece piece = { .address = range->address };
	size_t got;

	if (range->size > words->left || is_last(words, range))
		return true;
	piece.bytes = copy_core_range(words->filling, range->address, range->size, &got);
	piece.size = got;
	if (!piece.bytes)
		return true;
	if (!snap_append(words->pieces, words->count, words->capacity, piece))
		return false;
	words->left -= got;
	return true;
}

/* The futexes of a call that waits for several. */
static bool add_core_array(struct words *words, const struct snap_wait_range *range)
{
	uint8_t array[MOST_ARRAY];
	uint64_t futexes[MOST_FUTEXES];
	size_t size = range->size < sizeof(array) ? range->size : sizeof(array), count;
	bool fine = true;

	size = snap_core_memory_bytes(words->filling->memory, range->address, array, size);
	count = snap_futexes_of_array(array, size, futexes, MOST_FUTEXES);
	for (size_t i = 0; i < count && fine; i++) {
		struct snap_wait_range word = snap_wait_range_of_futex(futexes[i]);

		fine = add_core_words(words, &word);
	}
	return fine;
}

static bool add_core_thread(struct words *words, const struct snap_thread *thread)
{
	enum snap_arch arch = words->filling->process->arch;
	struct snap_wait_range ranges[SNAP_MOST_WAIT_RANGES];
	struct snap_thread_call call = snap_wait_call_of(arch, thread);
	size_t count = snap_wait_ranges(arch, &call, ranges, SNAP_MOST_WAIT_RANGES);
	bool fine = true;

	for (size_t i = 0; i < count && fine; i++)
		fine = is_in_core_stack(thread, &ranges[i]) || add_core_words(words, &ranges[i]);
	if (fine && count && snap_wait_ranges_lead_on(arch, &call))
		fine = add_core_array(words, &ranges[0]);
	return fine;
}

/* What descriptors lead to, and which moment it was, no core tells. */
static struct stacksnap_error *fill_words(const struct filling *filling)
{
	_cleanup_(words_deinit) struct words words = { .filling = filling };
	struct snap_process *process = filling->process;
	struct snap_arena *arena = &filling->capture->arena;
	const uint8_t *begin = (const uint8_t *)filling->shared;
	struct snap_memory_image *image;

	if (filling->options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	filling->capture->waits = snap_arena_new(arena, struct snap_wait_facts);
	image = snap_arena_new(arena, struct snap_memory_image);
	SNAP_TRY(snap_no_memory_unless(filling->capture->waits && image));
	filling->capture->waits->lacks = SNAP_LACK_CORE;
	words.left = WORD_BYTES + process->thread_count * (uint64_t)WORD_BYTES_A_THREAD;
	for (size_t i = 0; i < process->thread_count; i++)
		SNAP_TRY(snap_no_memory_unless(add_core_thread(&words, &process->threads[i])));
	image->pieces = snap_arena_memdup(arena, words.pieces, words.count * sizeof(*words.pieces));
	if (!words.count)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(image->pieces));
	image->piece_count = words.count;
	snap_plan_finish(image, begin, begin + filling->shared->size);
	process->words = image->piece_count ? image : NULL;
	return NULL;
}

/* ---- memory of runtimes ---- */

static unsigned find_core_runtimes(const struct filling *filling)
{
	const struct snap_space space = {
		.maps = filling->process->maps,
		.map_count = filling->process->map_count,
		.pieces = filling->process->pieces,
		.piece_count = filling->process->piece_count,
	};
	const struct snap_runtime_candidate candidate = {
		.space = &space,
		.wanted = filling->options->runtimes,
		.buffer = filling->buffer,
		.buffer_size = BUFFER,
		.read = snap_core_memory_read,
		.context = filling->memory,
	};

	return filling->options->runtimes_given ? filling->options->runtimes
						: snap_plan_candidates(&candidate);
}

static struct stacksnap_error *execute_core_plan(const struct filling *filling,
						 const struct snap_memory_plan *plan)
{
	struct snap_process *process = filling->process;
	struct snap_plan_task task = {
		.plan = plan,
		.maps = process->maps,
		.map_count = process->map_count,
		.source = { .read = snap_core_memory_read, .context = filling->memory },
		.budget = { .records = SNAP_PLAN_RECORDS,
			    .bytes = filling->options->runtime_memory },
	};
	struct snap_memory_image *image =
		snap_arena_new(&filling->capture->arena, struct snap_memory_image);
	struct snap_plan_thread *threads = snap_arena_new_array(
		&filling->capture->arena, process->thread_count, struct snap_plan_thread);
	const uint8_t *begin = (const uint8_t *)filling->shared;
	size_t size = snap_plan_work_bytes(&task.budget);
	void *work;

	SNAP_TRY(snap_no_memory_unless(image && threads));
	for (size_t i = 0; i < process->thread_count; i++)
		threads[i] = snap_thread_plan_of(process->threads[i].tid, 0,
						 process->threads[i].registers,
						 process->threads[i].registers_size);
	work = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	SNAP_TRY(snap_no_memory_unless(work != MAP_FAILED));
	task.threads = threads;
	task.thread_count = process->thread_count;
	task.work = (struct snap_region){ work, (uint8_t *)work + size };
	task.budget.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + PLAN_NS;
	snap_plan_execute(&task, &filling->shared->stacks, image);
	munmap(work, size);
	/* How long it took says nothing: no process was stopped. */
	image->taken_ns = 0;
	snap_plan_finish(image, begin, begin + filling->shared->size);
	process->memory = image;
	return NULL;
}

static struct stacksnap_error *fill_runtimes(const struct filling *filling,
					     const struct snap_stop_hook *hook)
{
	struct snap_memory_plan plan = { .step_count = 0 };
	struct stacksnap_error *err;
	bool found = false;

	if (!hook || !hook->probe || !filling->options->runtimes ||
	    filling->process->arch != SNAP_OWN_ARCH || !find_core_runtimes(filling))
		return NULL;
	err = hook->probe(hook->context, filling->options, filling->capture, 0, &plan, &found);
	if (err || !found || !snap_memory_plan_check(&plan))
		return err;
	return execute_core_plan(filling, &plan);
}

/* ---- the whole ---- */

static struct stacksnap_error *make_shared(struct filling *filling)
{
	struct snap_capture *capture = filling->capture;

	SNAP_TRY(snap_shared_memory_create(filling->options->max_snapshot +
						   snap_stop_extra_bytes(filling->options),
					   &filling->shared));
	capture->shared = filling->shared;
	capture->shared_size = filling->shared->size;
	capture->shared_fd = filling->shared->fd;
	return NULL;
}

struct stacksnap_error *snap_core_fill(const struct snap_core *core,
				       struct snap_core_memory *memory,
				       const struct snap_options *options,
				       const struct snap_stop_hook *hook)
{
	_cleanup_free_ uint8_t *buffer = malloc(BUFFER);
	struct filling filling = {
		.core = core,
		.memory = memory,
		.options = options,
		.capture = core->capture,
		.process = core->capture->processes,
		.buffer = buffer,
	};
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_no_memory_unless(buffer));
	SNAP_TRY(make_shared(&filling));
	fill_pieces(&filling);
	err = fill_stacks(&filling, hook);
	err = err ?: fill_runtimes(&filling, hook);
	err = err ?: fill_words(&filling);
	if (!err && core->truncated)
		snap_capture_warn(core->capture, "core_truncated", filling.process->pid, 0,
				  "the core is cut off: stacks, and what explains them, may be "
				  "missing");
	if (!err && core->threads_cut)
		snap_capture_warn(core->capture, "core_truncated", filling.process->pid, 0,
				  "the core has more than %d threads: the rest is left out",
				  SNAP_CORE_MOST_THREADS);
	return err;
}
