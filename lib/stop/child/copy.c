/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The copies, which are the purpose of the pause: registers, then stacks from just below the stack
 * pointer to the end of the mapping. The stacks are listed here and copied by a worker, all with
 * one hand-over: one call a thread would make the whole pause a tenth longer. Stacks on pages of
 * files come last, as a program may have to serve them.
 */
#include "base/clock.h"
#include "model/arch/registers.h"
#include "stop/child/internal.h"
#include "stop/describe.h"
#include "stop/own_stack.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum {
	MOST_REFERENCE_PCS = 1 << 16,
	USUAL_STACK = 8192,
	LARGE_STACK = 1 << 16, /* the most that is made present for each */
	SPARE_BYTES = 1 << 16,
	READY_NS = 500000000,     /* for a worker to have its memory ready */
	MAPS_NS = 50000000,       /* for maps that are read inside the pause */
	BATCH_NS = 100000000,     /* for some megabytes of stacks */
	CAREFUL_NS = 50000000,    /* for one stack, after another one could not be read */
	LIST_BYTES_A_THREAD = 64, /* what a stack takes in a list */
	DEATH_NS = 20000000,      /* for killed workers to end */
	DEATH_LOOKS = 40,
};

/*
 * Memory that is made present but not needed still counts, and missing memory is added in the
 * pause, page by page. So a few stacks are measured beforehand.
 */
uint64_t snap_tracer_expect(const struct snap_tracer *tracer)
{
	uint64_t expected = USUAL_STACK;

	if (tracer->sample_count)
		expected = tracer->sample_bytes / tracer->sample_count + SNAP_STACK_MARGIN;
	expected = expected < LARGE_STACK ? expected : LARGE_STACK;
	return expected * tracer->count + SPARE_BYTES + tracer->plan_bytes +
	       snap_tracer_expect_wait_bytes(tracer).bytes;
}

/* The beginning of the unused part of a region. */
static struct snap_region first_bytes(const struct snap_region *region, uint64_t size)
{
	uint64_t room = snap_region_room(region);

	return (struct snap_region){ region->next, region->next + (size < room ? size : room) };
}

void snap_tracer_reserve_copies(struct snap_tracer *tracer, uint64_t stack_bytes)
{
	uint64_t plan_bytes = tracer->plan_bytes ? sizeof(struct snap_plan_thread) : 0;
	struct snap_expected_wait_bytes words = snap_tracer_expect_wait_bytes(tracer);
	uint64_t list_bytes =
		tracer->count * (LIST_BYTES_A_THREAD + plan_bytes) + SPARE_BYTES + words.list_bytes;
	struct snap_ready_list *list = snap_region_alloc(&tracer->lists, sizeof(*list));
	struct snap_work work = {
		.run = snap_stop_reader_get_ready,
		.context = list,
		.count = 1,
		.marks = snap_region_alloc(&tracer->lists, 1),
		.patience_ns = READY_NS,
	};

	snap_region_prefault(&tracer->memory->records,
			     tracer->count * (size_t)(SNAP_OWN_REGISTERS + 16) +
				     words.record_bytes);
	snap_region_prefault(&tracer->lists, list_bytes);
	memset(tracer->needs, 0, tracer->count * sizeof(*tracer->needs));
	if (!list || !work.marks)
		return;
	*list = (struct snap_ready_list){
		.reader = tracer->reader,
		.stacks = first_bytes(&tracer->memory->stacks, stack_bytes),
		.lists = first_bytes(&tracer->lists, list_bytes),
		.plan_bytes = tracer->plan_bytes,
	};
	snap_workers_run(&tracer->pool, &work);
}

/*
 * Reads what is kept of a thread's registers besides NT_PRSTATUS; see model/arch/registers.h.
 * Vector registers, kilobytes with SVE and SME, are a set of their own and are never read.
 */
static int read_thread_pointer(pid_t tid _unused_, void *registers _unused_)
{
#if defined(__aarch64__)
	struct snap_aarch64_registers *of = registers;
	/* The kernel may have a second word, of SME, which is left out. */
	struct iovec vector = { &of->thread_pointer, sizeof(of->thread_pointer) };

	return ptrace(PTRACE_GETREGSET, tid, NT_ARM_TLS, &vector) ? errno : 0;
#else
	return 0;
#endif
}

static struct snap_known_registers known_registers(const void *registers)
{
	struct snap_known_registers known = { .sp = 0 };

	snap_registers_read(SNAP_OWN_ARCH, registers, SNAP_OWN_REGISTERS, 0, &known);
	return known;
}

static uint64_t stack_pointer(const void *registers)
{
	return known_registers(registers).sp;
}

/* A 32-bit thread has a shorter set, which identifies it (68 bytes on i386, 72 on arm). */
int snap_tracer_registers(pid_t tid, void *ret, size_t *size_ret, uint64_t *sp_ret,
			  enum snap_arch *arch_ret)
{
	struct iovec vector = { ret, SNAP_OWN_PRSTATUS };
	int error;

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector))
		return errno;
	if (vector.iov_len != SNAP_OWN_PRSTATUS)
		return ENOEXEC;
	error = read_thread_pointer(tid, ret);
	if (error)
		return error;
	*size_ret = SNAP_OWN_REGISTERS;
	*sp_ret = stack_pointer(ret);
	*arch_ret = SNAP_OWN_ARCH;
	return 0;
}

static void read_registers(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	uint8_t *registers = snap_region_alloc(&tracer->memory->records, SNAP_OWN_REGISTERS);
	uint64_t sp;
	int error;

	if (!registers)
		return;
	error = snap_tracer_registers(tracee->tid, registers, &thread->registers_size, &sp,
				      &process->arch);
	/* SIGKILL ends even a stopped thread. */
	if (error == ESRCH)
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
	if (error == ENOEXEC) {
		process->unsupported = true;
		thread->result = SNAP_THREAD_UNTRACED;
	}
	if (error)
		return;
	thread->registers = registers;
	thread->stack_unreadable = true; /* until its bytes are there */
	thread->result = SNAP_THREAD_COPIED;
}

/* Size 0: there is no such mapping, so the maps are stale. */
struct snap_need snap_tracer_find_stack(struct snap_tracer *tracer, uint32_t process, uint64_t sp,
					uint64_t thread_pointer)
{
	const struct snap_map *map = snap_tracer_find_map(tracer, process, sp);
	const struct snap_traced *traced = &tracer->stop->processes[process];
	uint64_t start;

	if (!map || !map->read)
		return (struct snap_need){ 0 };
	start = sp - map->start < SNAP_STACK_MARGIN ? map->start : sp - SNAP_STACK_MARGIN;
	start &= ~15ull;
	return (struct snap_need){
		.address = start,
		.size = snap_maps_stack_end(map, traced->map_count - (size_t)(map - traced->maps),
					    thread_pointer) -
			start,
		.has_file = map->inode != 0,
	};
}

static struct snap_need find_own_stack(struct snap_tracer *tracer, uint32_t process,
				       const struct snap_thread *thread)
{
	struct snap_known_registers known = known_registers(thread->registers);
	struct snap_need need =
		snap_tracer_find_stack(tracer, process, known.sp, known.thread_pointer);

	if (need.size)
		need.size = snap_own_stack_end(known.sp, need.address + need.size,
					       known.thread_pointer) -
			    need.address;
	return need;
}

static const struct snap_thread *copied_thread(const struct snap_tracer *tracer, uint32_t index)
{
	const struct snap_thread *thread = snap_tracer_thread(tracer, &tracer->tracees[index]);

	return thread->registers_size ? thread : NULL;
}

static void forget_space(struct snap_traced *traced)
{
	traced->maps = NULL;
	traced->pieces = NULL;
	traced->map_count = traced->piece_count = 0;
	traced->maps_cut = false;
	traced->credentials = (struct snap_credentials){ .known = false };
}

/*
 * After a stack grew, or with a new thread or program, the maps are read again, once a process.
 * This is rare, and nothing else says where the stack ends.
 */
static void read_stale_maps(struct snap_tracer *tracer)
{
	int64_t now;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_thread *thread = copied_thread(tracer, i);
		uint32_t process = tracer->tracees[i].process;

		if (!thread || tracer->maps_read_again[process])
			continue;
		/* If not all mappings are kept, the next read would not find it either. */
		if (!tracer->stop->processes[process].execed &&
		    (tracer->stop->processes[process].maps_cut ||
		     snap_tracer_find_map(tracer, process, stack_pointer(thread->registers))))
			continue;
		tracer->maps_read_again[process] = tracer->maps_wanted[process] = true;
		/* The maps of another program would be worse than none. */
		if (tracer->stop->processes[process].execed)
			forget_space(&tracer->stop->processes[process]);
	}
	now = snap_clock_ns(CLOCK_MONOTONIC);
	snap_tracer_read_maps(tracer, MAPS_NS, now + (tracer->copy_until_ns - now) / 2);
}

static uint64_t total_of(const struct snap_tracer *tracer, uint64_t most)
{
	return snap_sum(tracer->count, i,
			tracer->needs[i].size < most ? tracer->needs[i].size : most);
}

/*
 * The longest size with which all stacks fit: the inner frames of each are worth more than one
 * whole stack.
 */
static uint64_t plan(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack & ~15ull;
	uint64_t room = snap_region_room(&tracer->memory->stacks),
		 extra = snap_stop_extra_bytes(tracer->options);

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_thread *thread = copied_thread(tracer, i);

		tracer->needs[i] = (struct snap_need){ 0 };
		if (thread && !thread->stack_size)
			tracer->needs[i] =
				find_own_stack(tracer, tracer->tracees[i].process, thread);
	}
	room = room > extra ? room - extra : 0;
	room -= snap_tracer_wait_room(tracer, room);
	while (total_of(tracer, most) > room) {
		most = (most / 2) & ~15ull;
		tracer->stop->limited = true;
	}
	return most;
}

/* ---- a list of stacks ---- */

/* Whether a thread's stack is still to be copied; `careful`: only those of stalled processes. */
static bool is_needed(const struct snap_tracer *tracer, uint32_t index, bool careful)
{
	return tracer->needs[index].size &&
	       snap_tracer_process(tracer, &tracer->tracees[index])->stalled == careful;
}

/* The place of a process: first stacks without a file behind them, then those with one. */
static uint32_t *place_of_item(const struct snap_tracer *tracer, uint32_t index)
{
	uint32_t process = tracer->tracees[index].process;

	return &tracer->places[tracer->needs[index].has_file ? tracer->stop->process_count + process
							     : process];
}

/* Makes the items, without their wants; returns their number. */
static uint32_t list_copy_items(struct snap_tracer *tracer, struct snap_copy_item *items)
{
	uint32_t processes = tracer->stop->process_count, count = 0, first = 0;

	for (uint32_t i = 0; i < 2 * processes; i++) {
		uint32_t wants = tracer->places[i];

		if (!wants)
			continue;
		items[count] = (struct snap_copy_item){
			.process = i % processes,
			.first = first,
			.count = wants,
			.before = UINT32_MAX,
		};
		for (uint32_t k = 0; i >= processes && k < count; k++)
			if (items[k].process == items[count].process)
				items[count].before = k;
		tracer->places[i] = first;
		first += wants;
		count++;
	}
	return count;
}

/* Fills in the wants, and the thread of each item; false: memory is used up. */
static bool list_wants(struct snap_tracer *tracer, const struct snap_copy_list *list,
		       uint32_t count, uint64_t most, bool careful)
{
	uint64_t total = 0;
	uint8_t *bytes;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_need *need = &tracer->needs[i];

		if (!is_needed(tracer, i, careful))
			continue;
		list->wants[(*place_of_item(tracer, i))++] = (struct snap_want){
			.address = need->address,
			.size = need->size < most ? need->size : most,
			.tracee = i,
			.is_file = need->has_file,
		};
		total += need->size < most ? need->size : most;
	}
	bytes = snap_region_alloc(&tracer->memory->stacks, total);
	for (uint32_t i = 0; bytes && i < count; i++) {
		struct snap_copy_item *item = &list->items[i];

		item->tid = tracer->tracees[list->wants[item->first].tracee].tid;
		for (uint32_t k = item->first; k < item->first + item->count; k++) {
			list->wants[k].bytes = bytes;
			bytes += list->wants[k].size;
		}
	}
	return bytes;
}

static void take_want(struct snap_tracer *tracer, const struct snap_want *want)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, &tracer->tracees[want->tracee]);
	struct snap_need *need = &tracer->needs[want->tracee];

	if (thread->stack) {
		thread->stack2_address = want->address;
		thread->stack2 = want->got ? want->bytes : NULL;
		thread->stack2_size = want->got;
	} else {
		thread->stack_address = want->address;
		thread->stack = want->bytes;
		thread->stack_size = want->got;
		thread->stack_limited = want->got == want->size && want->size < need->size;
		thread->stack_unreadable =
			want->got < want->size &&
			!snap_own_stack_copied(want->address, want->got,
					       known_registers(thread->registers).thread_pointer);
		snap_trace_copy(tracer->options->trace, thread, need->address + need->size,
				tracer->options->max_stack);
	}
	need->size = 0;
}

/* Whether an item has words: an item has only one kind of wants. */
static bool has_words(const struct snap_copy_list *list, const struct snap_copy_item *item)
{
	return list->wants[item->first].is_words;
}

/*
 * Notes an item that is not done: no worker has begun it before the time was up, or it blocked its
 * worker.
 */
static void note_undone(struct snap_tracer *tracer, const struct snap_copy_item *item)
{
	struct snap_traced *traced = &tracer->stop->processes[item->process];

	if (!__atomic_load_n(&item->begun, __ATOMIC_ACQUIRE) &&
	    snap_clock_ns(CLOCK_MONOTONIC) >= tracer->copy_until_ns)
		traced->uncopied = true;
	else
		traced->stalled = true;
}

/*
 * Wants words again that a worker has skipped, because another worker was still reading stacks of
 * the same process, and was merely slow.
 */
static bool want_words_again(struct snap_tracer *tracer, const struct snap_copy_list *list,
			     const struct snap_copy_item *item)
{
	struct snap_wait_spans *words = &tracer->words;

	if (tracer->stop->processes[item->process].stalled || item->before == UINT32_MAX ||
	    __atomic_load_n(&item->begun, __ATOMIC_ACQUIRE))
		return false;
	for (uint32_t i = item->first; i < item->first + item->count; i++)
		words->wants[words->want_count++] = list->wants[i];
	words->item_count++;
	return true;
}

static void take_items(struct snap_tracer *tracer, const struct snap_copy_list *list,
		       uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct snap_copy_item *item = &list->items[i];
		uint32_t done = __atomic_load_n(&item->done, __ATOMIC_ACQUIRE);

		if (has_words(list, item)) {
			if (want_words_again(tracer, list, item))
				continue;
			snap_tracer_take_wait_bytes(tracer, list, item, done);
		}
		for (uint32_t k = item->first; k < item->first + done && !has_words(list, item);
		     k++)
			take_want(tracer, &list->wants[k]);
		if (done < item->count)
			note_undone(tracer, item);
	}
}

/*
 * Finds the last item of stacks of a process, UINT32_MAX: there is none. Items are in the order of
 * processes, twice: without files behind them, and with. Ask in that order as well.
 */
struct stack_items {
	const struct snap_copy_item *items;
	uint32_t at[2], end[2];
};

static struct stack_items stack_items_of(const struct snap_copy_list *list, uint32_t count)
{
	uint32_t middle = 1;

	while (middle < count && list->items[middle].process > list->items[middle - 1].process)
		middle++;
	middle = middle < count ? middle : count;
	return (struct stack_items){ list->items, { 0, middle }, { middle, count } };
}

static uint32_t find_stacks(struct stack_items *stacks, uint32_t process)
{
	uint32_t found = UINT32_MAX;

	for (unsigned i = 0; i < 2; i++) {
		while (stacks->at[i] < stacks->end[i] &&
		       stacks->items[stacks->at[i]].process < process)
			stacks->at[i]++;
		if (stacks->at[i] < stacks->end[i] &&
		    stacks->items[stacks->at[i]].process == process)
			found = stacks->at[i];
	}
	return found;
}

/*
 * Appends the words, process by process, behind all stacks, and returns the number of items.
 * Without room they are left out.
 */
static uint32_t append_words(struct snap_tracer *tracer, const struct snap_copy_list *list,
			     uint32_t items, uint32_t wants)
{
	const struct snap_wait_spans *words = &tracer->words;
	struct stack_items of_stacks = stack_items_of(list, items);
	uint32_t stacks = items;
	uint64_t total = 0;
	uint8_t *bytes;

	for (uint32_t i = 0; i < words->want_count; i++)
		total += words->wants[i].size;
	bytes = total ? snap_region_alloc(&tracer->memory->stacks, total) : NULL;
	for (uint32_t i = 0; bytes && i < words->want_count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[words->wants[i].tracee];
		struct snap_copy_item *item = items > stacks ? &list->items[items - 1] : NULL;

		if (!item || item->process != tracee->process) {
			item = &list->items[items++];
			*item = (struct snap_copy_item){ .process = tracee->process,
							 .tid = tracee->tid,
							 .first = wants + i,
							 .before = find_stacks(&of_stacks,
									       tracee->process) };
		}
		list->wants[wants + i] = words->wants[i];
		list->wants[wants + i].bytes = bytes;
		bytes += words->wants[i].size;
		item->count++;
	}
	return items;
}

/* Has one list copied; stacks that are not copied stay needed. */
static void copy_list(struct snap_tracer *tracer, uint64_t most, bool careful)
{
	uint32_t processes = tracer->stop->process_count, wants = 0, most_items, items;
	struct snap_wait_spans words =
		careful ? (struct snap_wait_spans){ .want_count = 0 } : tracer->words;
	struct snap_copy_list *list = snap_region_alloc(&tracer->lists, sizeof(*list));
	struct snap_work work = { .run = snap_stop_reader_copy,
				  .context = list,
				  .here = tracer->first };

	memset(tracer->places, 0, 2 * (size_t)processes * sizeof(*tracer->places));
	for (uint32_t i = 0; i < tracer->count; i++) {
		if (!is_needed(tracer, i, careful))
			continue;
		++*place_of_item(tracer, i);
		wants++;
	}
	if (!(wants + words.want_count) || !list)
		return;
	most_items = (wants < 2 * processes ? wants : 2 * processes) + words.item_count;
	*list = (struct snap_copy_list){
		.reader = tracer->reader,
		.items = snap_region_new_array(&tracer->lists, most_items, struct snap_copy_item),
		.wants = snap_region_new_array(&tracer->lists, wants + words.want_count,
					       struct snap_want),
		.signs = snap_region_new_array(&tracer->lists, most_items, int64_t),
		.careful = careful,
	};
	work.marks = snap_region_alloc(&tracer->lists, most_items);
	if (!list->items || !list->wants || !list->signs || !work.marks)
		return;
	items = list_copy_items(tracer, list->items);
	if (!list_wants(tracer, list, items, most, careful))
		return;
	if (!careful)
		items = append_words(tracer, list, items, wants);
	work.count = items;
	work.signs = list->signs;
	work.patience_ns = careful ? CAREFUL_NS : BATCH_NS;
	work.asleep_ns = snap_tracer_patience(tracer, work.patience_ns);
	work.until_ns = tracer->copy_until_ns;
	snap_workers_run(&tracer->pool, &work);
	tracer->words.want_count = tracer->words.item_count = 0;
	take_items(tracer, list, items);
}

static bool has_stalled(const struct snap_tracer *tracer)
{
	return snap_any(tracer->stop->process_count, i, tracer->stop->processes[i].stalled);
}

/* Whether killed workers have died; a FUSE server can prevent that. */
static bool have_readers_died(struct snap_tracer *tracer)
{
	const struct timespec nap = { .tv_nsec = DEATH_NS / DEATH_LOOKS };

	for (unsigned i = 0; i < DEATH_LOOKS; i++) {
		if (!snap_workers_left(&tracer->pool))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

/*
 * Behind a page that is never served (userfaultfd) the rest of the list was not read. It is tried
 * once more, in a way that such a page does not block.
 */
void snap_tracer_copy_needs(struct snap_tracer *tracer, uint64_t most)
{
	copy_list(tracer, most, false);
	if (tracer->words.want_count)
		copy_list(tracer, most, false);
	tracer->words = (struct snap_wait_spans){ .want_count = 0 };
	if (has_stalled(tracer) && have_readers_died(tracer))
		copy_list(tracer, most, true);
}

/* --engine=ptrace: another unwinder works on the thread itself, without a limit on its time. */
static void call_hook(struct snap_tracer *tracer)
{
	uint64_t *pcs = tracer->reference_pcs;

	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_thread *thread = snap_tracer_thread(tracer, &tracer->tracees[i]);
		uint64_t *kept;
		size_t count;

		if (thread->result != SNAP_THREAD_COPIED ||
		    snap_clock_ns(CLOCK_MONOTONIC) >= tracer->copy_until_ns)
			continue;
		count = tracer->hook->unwind(tracer->hook->context, tracer->tracees[i].tid, pcs,
					     MOST_REFERENCE_PCS);
		kept = snap_region_new_array(&tracer->memory->records, count, uint64_t);
		if (!kept)
			continue;
		memcpy(kept, pcs, count * sizeof(*pcs));
		thread->reference_pcs = kept;
		thread->reference_pc_count = count;
	}
}

bool snap_tracer_lay_out_copies(struct snap_tracer *tracer)
{
	struct snap_region *scratch = &tracer->scratch;
	struct snap_stop_reader *reader = snap_region_alloc(scratch, sizeof(*reader));

	tracer->reader = reader;
	tracer->needs = snap_region_new_array(scratch, SNAP_MAX_THREADS, struct snap_need);
	tracer->places = snap_region_new_array(scratch, 2 * SNAP_MAX_PROCESSES, uint32_t);
	tracer->maps_wanted = snap_region_alloc(scratch, SNAP_MAX_PROCESSES);
	tracer->maps_read_again = snap_region_alloc(scratch, SNAP_MAX_PROCESSES);
	tracer->reference_pcs = snap_region_new_array(scratch, MOST_REFERENCE_PCS, uint64_t);
	if (!reader)
		return false;
	*reader = (struct snap_stop_reader){
		.options = tracer->options,
		.procfs = tracer->procfs,
		.memory = tracer->memory,
		.stop = tracer->stop,
		.pool = snap_region_alloc(&tracer->memory->records, sizeof(*reader->pool)),
		.maps = snap_region_new_array(scratch, SNAP_MAX_MAPS, struct snap_map),
		.buffer = snap_region_alloc(scratch, SNAP_DESCRIBE_BYTES),
		.vectors = snap_region_new_array(scratch, SNAP_STOP_READER_VECTORS, struct iovec),
		.work = snap_region_alloc(scratch, sizeof(*reader->work)),
	};
	return tracer->needs && tracer->places && tracer->maps_wanted && tracer->maps_read_again &&
	       tracer->reference_pcs && reader->maps && reader->buffer && reader->vectors &&
	       reader->work;
}

void snap_tracer_copy_rest(struct snap_tracer *tracer)
{
	read_stale_maps(tracer);
	tracer->words = (struct snap_wait_spans){ .want_count = 0 };
	snap_tracer_copy_needs(tracer, plan(tracer));
	snap_tracer_follow(tracer);
}

void snap_tracer_copy(struct snap_tracer *tracer)
{
	uint64_t most;

	for (uint32_t i = 0; i < tracer->count; i++) {
		if (tracer->tracees[i].phase == SNAP_TRACEE_STOPPED && !copied_thread(tracer, i))
			read_registers(tracer, &tracer->tracees[i]);
	}
	read_stale_maps(tracer);
	most = plan(tracer);
	snap_tracer_find_wait_bytes(tracer, most);
	snap_tracer_copy_needs(tracer, most);
	if (snap_tracer_find_more_wait_bytes(tracer))
		snap_tracer_copy_needs(tracer, 0);
	if (snap_tracer_find_interrupted(tracer))
		snap_tracer_copy_needs(tracer, tracer->options->max_stack & ~15ull);
	snap_tracer_follow(tracer);
	if (tracer->plan_bytes)
		snap_tracer_execute_plans(tracer);
	if (tracer->hook && tracer->hook->unwind)
		call_hook(tracer);
}
