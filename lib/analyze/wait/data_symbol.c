/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names the address of a lock: a variable of a file, or else the heap, the stack of a thread or a
 * place in a mapped file. The addresses of one file are looked up together, each once.
 */
#include "analyze/wait/waiter.h"
#include "base/bsearch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* An address whose variable is wanted. */
struct wanted {
	struct snap_module_file *file;
	uint64_t vaddr;
	struct snap_wait *wait;
	bool is_mutex; /* of a condition */
};

struct wanted_list {
	struct wanted *all;
	size_t count;
};

SNAP_ORDER(compare_wanted, struct wanted, a, b, snap_compare(a->file->index, b->file->index),
	   snap_compare(a->vaddr, b->vaddr));

/*
 * The module of data at an address. What is zero in the beginning (.bss) is no part of the file:
 * the kernel puts it into anonymous memory right behind the file's writable mapping.
 */
static struct snap_module *module_of_address(const struct snap_waiter *waiter, uint64_t address)
{
	const struct snap_process *process = snap_waiter_process(waiter);
	const struct snap_map *map = snap_process_map(process, address);

	if (!map || !waiter->raw->modules)
		return NULL;
	if (map->inode == 0 && map > process->maps && map[-1].end == map->start && map[-1].inode &&
	    map[-1].write && !map[-1].shared)
		map--;
	return map->inode && !map->shared ? snap_modules_find(waiter->raw->modules, map->start)
					  : NULL;
}

/* Stack pointers of a process's threads, sorted. */
struct stack {
	uint64_t sp;
	pid_t tid;
};

struct stacks {
	size_t process; /* SIZE_MAX: of none yet */
	struct stack *list;
	size_t count;
};

SNAP_ORDER(compare_stacks, struct stack, a, b, snap_compare(a->sp, b->sp),
	   snap_compare(a->tid, b->tid));

static void list_stacks(struct snap_wait_analysis *waits, size_t process, struct stacks *stacks)
{
	stacks->process = process;
	stacks->count = 0;
	for (size_t i = waits->first[process]; i < waits->first[process + 1]; i++) {
		const struct snap_waiter *one = &waits->waiters[i];

		if (one->call.known && one->call.sp)
			stacks->list[stacks->count++] =
				(struct stack){ one->call.sp, one->thread->thread->tid };
	}
	qsort(stacks->list, stacks->count, sizeof(*stacks->list), compare_stacks);
}

/* The thread whose stack has an address: the closest stack pointer below it. 0: none. */
static pid_t stack_of_address(const struct stacks *stacks, const struct snap_map *map,
			      uint64_t address)
{
	size_t behind = snap_first_not(stacks->count, i, stacks->list[i].sp <= address);

	return behind && stacks->list[behind - 1].sp >= map->start ? stacks->list[behind - 1].tid
								   : 0;
}

static bool is_anonymous(const struct snap_map *map)
{
	return map->inode == 0 && (!map->path || map->path[0] == '[');
}

/*
 * Of objects that are no word for futex(2), as std::barrier and an atomic of 8 bytes, libstdc++
 * lets threads sleep at a word of a table of sixteen: of the program's in versions 11 to 14
 * (bits/atomic_wait.h), of its own in 16 (src/c++20/atomic.cc). Objects share these by their
 * addresses, so the word says nothing of which one it is.
 */
static bool is_shared_word(const char *symbol)
{
	return (strstr(symbol, "__waiter_pool_base") && strstr(symbol, "_S_for")) ||
	       (strstr(symbol, "__waitable_state") && strstr(symbol, "_S_state_for"));
}

/* Where it has no symbols: the table is all that threads sleep at in what lies behind its data. */
static bool is_behind_libstdcxx(const struct snap_process *process, const struct snap_map *map)
{
	const struct snap_map *before = map > process->maps ? map - 1 : NULL;

	return before && before->end == map->start && before->path &&
	       strstr(before->path, "/libstdc++.so.6");
}

static void forget_object(struct snap_wait *wait)
{
	wait->address = 0;
	wait->symbol = wait->module = NULL;
	wait->offset = 0;
}

/* Where there is no variable; what cannot be found stays unknown. */
static bool find_data_place(struct snap_wait_analysis *waits, struct snap_waiter *waiter,
			    struct stacks *stacks)
{
	struct snap_wait *wait = waiter->wait;
	const struct snap_map *map = snap_process_map(snap_waiter_process(waiter), wait->address);
	pid_t tid;

	if (!map || wait->module)
		return true;
	if (!is_anonymous(map)) {
		wait->module = snap_analysis_text(waits->analysis, map->path);
		wait->offset = wait->address - map->start + map->offset;
		return true;
	}
	if (is_behind_libstdcxx(snap_waiter_process(waiter), map)) {
		forget_object(wait);
		return true;
	}
	if (stacks->process != waiter->process)
		list_stacks(waits, waiter->process, stacks);
	tid = map->path && strcmp(map->path, "[heap]") == 0
		      ? 0
		      : stack_of_address(stacks, map, wait->address);
	wait->place = tid ? snap_arena_printf(snap_wait_arena(waits), "stack of %d", tid) : "heap";
	return wait->place != NULL;
}

static void want_data_symbol(struct snap_wait_analysis *waits, struct snap_waiter *waiter,
			     uint64_t address, bool is_mutex, struct wanted_list *wanted)
{
	struct snap_module *module = address ? module_of_address(waiter, address) : NULL;

	if (!module || !snap_module_open(waits->analysis->set, module))
		return;
	wanted->all[wanted->count++] =
		(struct wanted){ module->file, address - module->bias, waiter->wait, is_mutex };
}

/*
 * What lies in a function, or in several files, has a number behind its name, by which gcc tells
 * them apart ("service.0"): no part of what its author called it. NULL without memory.
 */
static const char *shown_name(struct snap_wait_analysis *waits, const char *symbol)
{
	size_t length = strlen(symbol), digits = 0;

	while (digits < length && isdigit((unsigned char)symbol[length - digits - 1]))
		digits++;
	if (digits == 0 || length < digits + 2 || symbol[length - digits - 1] != '.')
		return symbol;
	return snap_arena_printf(snap_wait_arena(waits), "%.*s", (int)(length - digits - 1),
				 symbol);
}

static bool set_mutex(struct snap_wait_analysis *waits, struct snap_wait *wait,
		      const struct snap_data_query *found)
{
	wait->mutex_symbol = found->symbol;
	if (found->offset)
		wait->mutex_symbol =
			snap_arena_printf(snap_wait_arena(waits), "%s+0x%llx", found->symbol,
					  (unsigned long long)found->offset);
	return wait->mutex_symbol != NULL;
}

static struct stacksnap_error *name_file(struct snap_wait_analysis *waits, struct wanted *wanted,
					 size_t count)
{
	_cleanup_free_ struct snap_data_query *queries = calloc(count, sizeof(*queries));
	struct stacksnap_error *err;
	size_t distinct = 0, q = 0;

	SNAP_TRY(snap_no_memory_unless(queries));
	for (size_t i = 0; i < count; i++)
		if (i == 0 || wanted[i].vaddr != wanted[i - 1].vaddr)
			queries[distinct++].vaddr = wanted[i].vaddr;
	err = snap_symbolize_data(waits->analysis->symbolizer, wanted->file, queries, distinct);
	for (size_t i = 0; i < count && !err; i++) {
		q += i && wanted[i].vaddr != wanted[i - 1].vaddr;
		if (!queries[q].symbol)
			continue;
		queries[q].symbol = shown_name(waits, queries[q].symbol);
		SNAP_TRY(snap_no_memory_unless(queries[q].symbol));
		if (wanted[i].is_mutex) {
			if (!set_mutex(waits, wanted[i].wait, &queries[q]))
				return snap_error_no_memory();
			continue;
		}
		if (is_shared_word(queries[q].symbol)) {
			forget_object(wanted[i].wait);
			continue;
		}
		wanted[i].wait->symbol = queries[q].symbol;
		wanted[i].wait->offset = queries[q].offset;
		wanted[i].wait->module = snap_analysis_text(waits->analysis, wanted[i].file->path);
	}
	return err;
}

static struct stacksnap_error *find_places(struct snap_wait_analysis *waits)
{
	_cleanup_free_ struct stack *list = malloc((waits->waiter_count + 1) * sizeof(*list));
	struct stacks stacks = { SIZE_MAX, list, 0 };

	SNAP_TRY(snap_no_memory_unless(list));
	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_waiter *waiter = &waits->waiters[i];

		if (waiter->wait && waiter->wait->address &&
		    !find_data_place(waits, waiter, &stacks))
			return snap_error_no_memory();
	}
	return NULL;
}

struct stacksnap_error *snap_wait_name_data(struct snap_wait_analysis *waits)
{
	_cleanup_free_ struct wanted *all = malloc((2 * waits->waiter_count + 1) * sizeof(*all));
	struct wanted_list wanted = { all, 0 };
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_no_memory_unless(all));
	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_waiter *waiter = &waits->waiters[i];

		if (!waiter->wait || !waiter->wait->address)
			continue;
		want_data_symbol(waits, waiter, waiter->wait->address, false, &wanted);
		want_data_symbol(waits, waiter, waiter->wait->mutex, true, &wanted);
	}
	qsort(all, wanted.count, sizeof(*all), compare_wanted);
	for (size_t i = 0, end; i < wanted.count && !err; i = end) {
		for (end = i; end < wanted.count && all[end].file == all[i].file;)
			end++;
		SNAP_TRY(snap_options_check(waits->analysis->options));
		err = name_file(waits, all + i, end - i);
	}
	return err ? err : find_places(waits);
}
