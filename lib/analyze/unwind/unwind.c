/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwind: threads one after the other over their copied stacks; see unwind.h. This file has the
 * cache of rows by pc and the hot path, which suffices for 99 % of frames; step.c has the rest.
 */
#include "analyze/unwind/internal.h"
#include "base/buffer.h"
#include "model/arch/registers.h"

#include <string.h>

enum {
	FIRST_CACHE = 1 << 10,
	KEPT_CACHE = 1 << 13, /* the largest that is cleared and used again */
	MAX_CACHE = 1 << 20,  /* entries of 32 bytes; then it starts anew */
	SPARE_FRAMES = 64,    /* beyond one a word of stack: frames below signals, the innermost */
};

/* Called by the set for what compute_cached_row() left with its files. */
static void destroy_rows(void *unwind)
{
	snap_rows_destroy(unwind);
}

struct stacksnap_error *snap_unwinder_create(struct snap_module_set *set,
					     const struct snap_options *options,
					     struct snap_unwinder **ret)
{
	struct snap_unwinder *unwinder = calloc(1, sizeof(*unwinder));

	SNAP_TRY(snap_no_memory_unless(unwinder));
	unwinder->set = set;
	snap_module_set_own_unwind(set, destroy_rows);
	unwinder->options = options;
	unwinder->state.read = snap_unwinder_read;
	unwinder->state.context = unwinder;
	unwinder->cache_size = FIRST_CACHE;
	unwinder->cache = calloc(FIRST_CACHE, sizeof(*unwinder->cache));
	unwinder->own_libunwind = snap_libunwind_create();
	if (!unwinder->cache) {
		snap_unwinder_destroy(unwinder);
		return snap_error_no_memory();
	}
	*ret = unwinder;
	return NULL;
}

void snap_unwinder_destroy(struct snap_unwinder *unwinder)
{
	if (!unwinder)
		return;
	snap_libunwind_destroy(unwinder->own_libunwind);
	free(unwinder->cache);
	free(unwinder->sink.pcs);
	free(unwinder->sps);
	free(unwinder);
}

/* One process with many addresses must not make the cache of the next five hundred large. */
static void clear_cache(struct snap_unwinder *unwinder)
{
	struct snap_cached_row *small = NULL;

	if (unwinder->cache_size > KEPT_CACHE)
		small = calloc(FIRST_CACHE, sizeof(*small));
	if (small) {
		free(unwinder->cache);
		unwinder->cache = small;
		unwinder->cache_size = FIRST_CACHE;
		unwinder->cache_used = 0;
		return;
	}
	memset(unwinder->cache, 0, unwinder->cache_size * sizeof(*unwinder->cache));
	unwinder->cache_used = 0;
}

/*
 * The bits that addresses of the process have. Where return addresses are signed, the code is in
 * bits that no address has: from the top of the address space up to bit 54 (NT_ARM_PAC_MASK says
 * which, of a stopped thread). The stack lies at the top, and what lies above all mappings is no
 * code, so these tell as much, of threads that were never stopped and of recordings, too; and a
 * stop costs no call more.
 */
static uint64_t address_mask(const struct snap_arch_ops *arch, const struct snap_process *process)
{
	uint64_t all = arch ? (1ull << arch->address_bits) - 1 : 0, last;

	if (!arch || !arch->signs_addresses)
		return UINT64_MAX;
	if (!process->map_count || process->maps_cut)
		return all;
	last = (process->maps[process->map_count - 1].end - 1) & all;
	return last ? UINT64_MAX >> __builtin_clzll(last) : all;
}

struct stacksnap_error *snap_unwinder_enter(struct snap_unwinder *unwinder,
					    const struct snap_process *process,
					    struct snap_modules *modules)
{
	unwinder->process = process;
	unwinder->modules = modules;
	unwinder->arch = snap_arch_ops(process->arch);
	unwinder->libunwind = process->arch == SNAP_OWN_ARCH ? unwinder->own_libunwind : NULL;
	unwinder->address_mask = address_mask(unwinder->arch, process);
	clear_cache(unwinder);
	if (unwinder->libunwind)
		snap_libunwind_enter(unwinder->libunwind, modules, unwinder->set);
	return NULL;
}

/* Those of the module at an address, which lies at *vaddr_ret in its file; NULL: there are none. */
static struct snap_rows *open_rows(struct snap_unwinder *unwinder, uint64_t lookup,
				   uint64_t *vaddr_ret)
{
	struct snap_module *module = snap_modules_find(unwinder->modules, lookup);
	struct snap_rows *rows;

	if (!module || !snap_module_open(unwinder->set, module))
		return NULL;
	*vaddr_ret = lookup - module->bias;
	if (!module->file->unwind) {
		struct stacksnap_error *err =
			snap_rows_create(unwinder->set, module->file, unwinder->arch, &rows);

		if (err) {
			unwinder->sink.no_memory |= snap_error_code(err) == SNAP_ERROR_NO_MEMORY;
			snap_error_destroy(err);
			return NULL;
		}
		module->file->unwind = rows;
	}
	return module->file->unwind;
}

static struct snap_row compute_cached_row(struct snap_unwinder *unwinder, uint64_t lookup)
{
	struct snap_row none = { .kind = SNAP_ROW_NONE };
	uint64_t vaddr;
	struct snap_rows *rows = open_rows(unwinder, lookup, &vaddr);

	return rows ? snap_rows_find(rows, vaddr) : none;
}

struct snap_row snap_unwinder_code(struct snap_unwinder *unwinder, uint64_t lookup)
{
	struct snap_row none = { .kind = SNAP_ROW_NONE };
	uint64_t vaddr;
	struct snap_rows *rows = open_rows(unwinder, lookup, &vaddr);

	return rows ? snap_rows_code(rows, vaddr) : none;
}

static inline size_t slot_of(uint64_t lookup, size_t size)
{
	return (lookup * 0x9e3779b97f4a7c15ull >> 32) & (size - 1);
}

static struct snap_cached_row *find_cached(struct snap_cached_row *cache, size_t size,
					   uint64_t lookup)
{
	size_t k = slot_of(lookup, size);

	while (cache[k].lookup && cache[k].lookup != lookup)
		k = (k + 1) & (size - 1);
	return &cache[k];
}

/* Without memory, or when too much was remembered, the cache starts anew: it is only a cache. */
static void grow_cache(struct snap_unwinder *unwinder)
{
	size_t size = unwinder->cache_size * 2;
	struct snap_cached_row *cache = size <= MAX_CACHE ? calloc(size, sizeof(*cache)) : NULL;

	if (!cache) {
		memset(unwinder->cache, 0, unwinder->cache_size * sizeof(*cache));
		unwinder->cache_used = 0;
		return;
	}
	for (size_t i = 0; i < unwinder->cache_size; i++)
		if (unwinder->cache[i].lookup)
			*find_cached(cache, size, unwinder->cache[i].lookup) = unwinder->cache[i];
	free(unwinder->cache);
	unwinder->cache = cache;
	unwinder->cache_size = size;
}

const struct snap_row *snap_unwinder_row(struct snap_unwinder *unwinder, uint64_t lookup)
{
	static const struct snap_row wild = { .kind = SNAP_ROW_WILD };
	struct snap_cached_row *cached;

	if (lookup == 0)
		return &wild;
	if (unwinder->cache_used * 2 >= unwinder->cache_size)
		grow_cache(unwinder);
	cached = find_cached(unwinder->cache, unwinder->cache_size, lookup);
	if (!cached->lookup) {
		cached->row = compute_cached_row(unwinder, lookup);
		if (cached->row.kind == SNAP_ROW_WIDE && snap_unwinder_leaves_signal(unwinder))
			cached->row.kind = SNAP_ROW_RETURN;
		if (cached->row.kind == SNAP_ROW_NONE &&
		    cached->row.code.switches == SNAP_ROW_SWITCHES_NOTHING)
			cached->row.kind = snap_unwinder_classify(unwinder, lookup);
		cached->lookup = lookup;
		unwinder->cache_used++;
	}
	return &cached->row;
}

/*
 * The hot path: a cached simple row whose words all lie in the copied stack. False: this frame is
 * not of this kind, and nothing was changed.
 */
static inline bool step_fast(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	const struct snap_thread *thread = unwinder->thread;
	const struct snap_arch_ops *arch = unwinder->arch;
	uint64_t *registers = unwinder->state.registers;
	uint64_t cfa, low, pc;
	const uint8_t *at;

	if (row->kind != SNAP_ROW_SIMPLE)
		return false;
	cfa = registers[row->cfa_register] + (uint64_t)(int64_t)row->cfa_offset;
	low = cfa + (uint64_t)(8 * (int64_t)row->low) - thread->stack_address;
	if (cfa <= registers[arch->sp] || low > thread->stack_size ||
	    thread->stack_size - low < 8 * (size_t)(row->high - row->low + 1))
		return false;
	at = thread->stack + (cfa - thread->stack_address);
	memcpy(&pc, at + 8 * row->at[0], sizeof(pc));
	pc &= unwinder->address_mask;
	if (pc == 0)
		return false;
	for (unsigned saved = row->saved; saved; saved &= saved - 1) {
		int i = __builtin_ctz(saved);

		memcpy(&registers[arch->saved[i]], at + 8 * row->at[1 + i], sizeof(uint64_t));
	}
	registers[arch->sp] = cfa;
	registers[arch->ra] = pc;
	unwinder->pc = snap_pc_return(pc);
	return true;
}

/* The same for a partial thread; the row's register is known. */
static inline bool step_known(struct snap_unwinder *unwinder, const struct snap_row *row)
{
	if (row->kind == SNAP_ROW_SIMPLE && !snap_unwinder_knows(unwinder, row->cfa_register))
		return false;
	if (!step_fast(unwinder, row))
		return false;
	for (unsigned saved = row->saved; saved; saved &= saved - 1)
		snap_unwinder_set_known(unwinder, unwinder->arch->saved[__builtin_ctz(saved)],
					true);
	return true;
}

/* Of the frame that was added last. */
static void note_sp(struct snap_unwinder *unwinder, uint64_t sp)
{
	if (snap_reserve_array(unwinder->sps, unwinder->sp_capacity, unwinder->sp_count + 1))
		unwinder->sps[unwinder->sp_count++] = sp;
	else
		unwinder->sink.no_memory = true;
}

/* Compiled thrice, so that whole threads, which is what most are, pay nothing for others. */
static inline __attribute__((always_inline)) void walk_frames(struct snap_unwinder *unwinder,
							      bool is_partial, bool wants_sps)
{
	while (snap_sink_add(&unwinder->sink, unwinder->pc)) {
		uint64_t lookup = snap_pc_lookup(unwinder->pc);
		const struct snap_cached_row *cached =
			&unwinder->cache[slot_of(lookup, unwinder->cache_size)];
		const struct snap_row *row = &cached->row;

		if (wants_sps)
			note_sp(unwinder, unwinder->state.registers[unwinder->arch->sp]);
		if (cached->lookup != lookup || lookup == 0)
			row = snap_unwinder_row(unwinder, lookup);
		/* Beyond a guess each step is checked. */
		if (!unwinder->guessed &&
		    (is_partial ? step_known(unwinder, row) : step_fast(unwinder, row)))
			continue;
		if (!snap_unwinder_step(unwinder, row))
			return;
	}
	snap_unwinder_end(unwinder, SNAP_UNWIND_LIMIT, "the frame limit was reached");
}

static void unwind_by_rows(struct snap_unwinder *unwinder)
{
	if (unwinder->wants_sps)
		walk_frames(unwinder, unwinder->thread->partial, true);
	else if (unwinder->thread->partial)
		walk_frames(unwinder, true, false);
	else
		walk_frames(unwinder, false, false);
}

/* A frame that libunwind found: it does not say where it had to follow the frame pointer. */
static struct snap_pc found_by_libunwind(struct snap_unwinder *unwinder, struct snap_pc left,
					 struct snap_pc pc)
{
	if (snap_unwinder_row(unwinder, snap_pc_lookup(left))->kind == SNAP_ROW_NONE)
		pc = snap_pc_found_by(pc, SNAP_TRUST_FRAME_POINTER);
	return snap_unwinder_doubt(unwinder, pc);
}

/* --engine=libunwind: it alone, with the same rules for what is believed. */
static void unwind_by_libunwind(struct snap_unwinder *unwinder)
{
	struct snap_libunwind *engine = unwinder->libunwind;
	uint64_t sp, caller_sp, address;
	bool is_signal, may_have_no_frame;

	if (unwinder->thread->partial) {
		snap_sink_add(&unwinder->sink, unwinder->pc);
		unwinder->needs_register = true;
		snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED, SNAP_NEEDS_REGISTER);
		return;
	}
	if (!engine ||
	    !snap_libunwind_begin(engine, &unwinder->state, snap_pc_address(unwinder->pc))) {
		snap_sink_add(&unwinder->sink, unwinder->pc);
		snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED, "libunwind cannot be used");
		return;
	}
	snap_libunwind_position(engine, &address, &sp);
	while (snap_sink_add(&unwinder->sink, unwinder->pc)) {
		if (unwinder->wants_sps)
			note_sp(unwinder, sp);
		if (snap_unwinder_row(unwinder, snap_pc_lookup(unwinder->pc))->kind ==
		    SNAP_ROW_UNUSABLE) {
			snap_unwinder_end_unusable(unwinder);
			return;
		}
		switch (snap_libunwind_step(engine, &is_signal)) {
		case SNAP_LIBUNWIND_CALLER:
			break;
		case SNAP_LIBUNWIND_LAST:
			snap_unwinder_end_at_start(unwinder);
			return;
		case SNAP_LIBUNWIND_NO_CFI:
			snap_unwinder_end(unwinder, SNAP_UNWIND_NO_CFI, "no unwind information");
			return;
		case SNAP_LIBUNWIND_UNREADABLE:
			snap_unwinder_end(unwinder,
					  unwinder->thread->stack_limited ? SNAP_UNWIND_LIMIT
									  : SNAP_UNWIND_UNREADABLE,
					  "stack memory could not be read");
			return;
		case SNAP_LIBUNWIND_FAILED:
			snap_unwinder_end_unusable(unwinder);
			return;
		}
		snap_libunwind_position(engine, &address, &caller_sp);
		/*
		 * A function that has made no call yet may have no frame, as its return address is
		 * in a register.
		 */
		may_have_no_frame = snap_pc_is_exact(unwinder->pc);
		if (!is_signal && !(caller_sp == sp && may_have_no_frame) &&
		    !snap_unwinder_may_go_on(unwinder, sp, caller_sp, false)) {
			snap_unwinder_end(unwinder, SNAP_UNWIND_CYCLE, "the stack does not grow");
			return;
		}
		sp = caller_sp;
		if (is_signal)
			snap_sink_mark_exact(&unwinder->sink);
		unwinder->pc = is_signal ? snap_unwinder_doubt(unwinder, snap_pc_exact(address))
					 : found_by_libunwind(unwinder, unwinder->pc,
							      snap_pc_return(address));
	}
	snap_unwinder_end(unwinder, SNAP_UNWIND_LIMIT, "the frame limit was reached");
}

/* --engine=ptrace: the pcs are there already; the last one's row says how the stack ended. */
static void take_reference(struct snap_unwinder *unwinder)
{
	const struct snap_thread *thread = unwinder->thread;
	const struct snap_row *row;

	for (size_t i = 0; i < thread->reference_pc_count; i++) {
		struct snap_pc pc = { thread->reference_pcs[i] };

		unwinder->pc = i ? found_by_libunwind(unwinder, unwinder->pc, pc) : pc;
		if (!snap_sink_add(&unwinder->sink, unwinder->pc)) {
			snap_unwinder_end(unwinder, SNAP_UNWIND_LIMIT,
					  "the frame limit was reached");
			return;
		}
	}
	row = snap_unwinder_row(unwinder, snap_pc_lookup(unwinder->pc));
	if (row->kind == SNAP_ROW_END)
		snap_unwinder_end_at_start(unwinder);
	else
		snap_unwinder_end(unwinder, SNAP_UNWIND_NO_CFI, "the reference engine ended here");
}

/* Where no role is left that may look at more. */
static void take_pc(struct snap_unwinder *unwinder)
{
	snap_sink_add(&unwinder->sink, unwinder->pc);
	snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED, "the stack was not read");
}

/* In a link register there is a return address, but no stop, no register. */
static uint64_t known_without_stop(const struct snap_arch_ops *arch)
{
	return 1ull << arch->sp | (arch->has_link_register ? 0 : 1ull << arch->ra);
}

/* Whether there is something to unwind; else how the stack ends is written down. */
static bool begin_thread(struct snap_unwinder *unwinder)
{
	const struct snap_thread *thread = unwinder->thread;
	uint64_t pc;

	unwinder->pc = snap_pc_exact(0);
	unwinder->guessed = SNAP_TRUST_CFI;
	unwinder->is_confirmed = false;
	unwinder->needs_register = unwinder->stale_mappings = false;
	unwinder->missing = unwinder->descents = 0;
	if (thread->result != SNAP_THREAD_COPIED || thread->registers_size == 0)
		return snap_unwinder_end(unwinder, SNAP_UNWIND_NOT_STOPPED,
					 "the thread was not stopped");
	if (!unwinder->arch)
		return snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED, "unsupported architecture");
	if (!unwinder->arch->registers(thread->registers, thread->registers_size,
				       unwinder->state.registers, &pc))
		return snap_unwinder_end(unwinder, SNAP_UNWIND_FAILED,
					 "unknown size of the registers");
	unwinder->pc = snap_pc_exact(pc);
	unwinder->state.known = SNAP_ALL_KNOWN;
	if (thread->partial)
		unwinder->state.known = known_without_stop(unwinder->arch);
	return true;
}

/* The frames behind the last guess; where some are left out, it may have been among these. */
static void confirm_last(struct snap_unwinder *unwinder, const struct snap_pcs *pcs)
{
	size_t first = pcs->gap_count ? pcs->gap_after + 1 : 0;

	for (size_t i = pcs->count;
	     i-- > first && snap_pc_trust(pcs->pcs[i]) == SNAP_TRUST_UNCONFIRMED;)
		unwinder->sink.pcs[i] = snap_pc_found_by(pcs->pcs[i], SNAP_TRUST_CFI);
}

static void unwind_thread(struct snap_unwinder *unwinder, const struct snap_thread *thread,
			  size_t max_frames, bool wants_outer, struct snap_pcs *ret)
{
	const struct snap_options *options = unwinder->options;
	bool is_whole = wants_outer && !thread->stack_limited && !thread->stack_unreadable;

	unwinder->thread = thread;
	/* The CFA grows by a word a frame at least, so a stack has no more frames than words. */
	snap_sink_begin(&unwinder->sink, max_frames, is_whole,
			(thread->stack_size + thread->stack2_size +
			 (thread->memory ? thread->memory->bytes : 0)) /
					sizeof(uint64_t) +
				thread->reference_pc_count + SPARE_FRAMES);
	if (begin_thread(unwinder)) {
		if (options->pcs_only)
			take_pc(unwinder);
		else if (options->engine == SNAP_ENGINE_PTRACE && thread->reference_pc_count > 0)
			take_reference(unwinder);
		else if (options->engine == SNAP_ENGINE_LIBUNWIND)
			unwind_by_libunwind(unwinder);
		else
			unwind_by_rows(unwinder);
	}
	snap_sink_end(&unwinder->sink, ret);
	if (unwinder->is_confirmed)
		confirm_last(unwinder, ret);
	ret->end = unwinder->end;
	ret->end_pc = unwinder->end_pc;
	ret->reason = unwinder->reason;
	ret->missing = unwinder->missing;
	ret->needs_register = unwinder->needs_register;
	ret->stale_mappings = unwinder->stale_mappings;
	ret->no_memory = unwinder->sink.no_memory;
	ret->sps = NULL;
}

void snap_unwind(struct snap_unwinder *unwinder, const struct snap_thread *thread,
		 struct snap_pcs *ret)
{
	unwind_thread(unwinder, thread, unwinder->options->max_frames, true, ret);
}

void snap_unwind_for_filters(struct snap_unwinder *unwinder, const struct snap_thread *thread,
			     struct snap_pcs *ret)
{
	size_t most = unwinder->options->max_frames;

	unwind_thread(unwinder, thread, most ? SNAP_MAX(most, SNAP_USUAL_FRAMES) : 0, true, ret);
}

void snap_unwind_inner(struct snap_unwinder *unwinder, const struct snap_thread *thread,
		       size_t most, struct snap_pcs *ret)
{
	unwind_thread(unwinder, thread, most, false, ret);
}

void snap_unwind_whole(struct snap_unwinder *unwinder, const struct snap_thread *thread,
		       struct snap_pcs *ret)
{
	unwinder->wants_sps = true;
	unwinder->sp_count = 0;
	unwind_thread(unwinder, thread, 0, true, ret);
	unwinder->wants_sps = false;
	if (unwinder->sp_count == ret->count)
		ret->sps = unwinder->sps;
}
