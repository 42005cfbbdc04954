/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads of the kernel, as Go sees them: by the number in their own namespace; their registers and
 * stacks; and which of them wait for work, by the function that they are in. Knows no goroutine.
 */
#include "analyze/runtime/go/internal.h"

#include <string.h>

enum { WORD_R12 = 3, WORD_RIP = 16, WORD_RSP = 19, MOST_OUTER = 64 };

static const void *key_of_goroutine(uint64_t number)
{
	return (const void *)(uintptr_t)number;
}

void snap_go_list_threads(struct snap_go *go)
{
	const struct snap_process *process = go->process->process;

	for (size_t i = 0; i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];
		struct snap_pointer_entry *entry = snap_pointer_table_get(
			&go->threads,
			key_of_goroutine(thread->ns_tid ? thread->ns_tid : thread->tid));

		if (entry)
			entry->pointer = (void *)thread;
		go->no_memory |= !entry;
	}
}

const struct snap_thread *snap_go_thread(const struct snap_go *go, uint64_t number)
{
	const struct snap_pointer_entry *entry =
		snap_pointer_table_find(&go->threads, key_of_goroutine(number));

	return entry && number ? entry->pointer : NULL;
}

void snap_go_note_busy(struct snap_go *go, const struct snap_thread *thread)
{
	go->no_memory |=
		!snap_pointer_table_get(&go->busy, key_of_goroutine((uint64_t)thread->tid));
}

bool snap_go_registers(const struct snap_thread *thread, uint64_t *pc_ret, uint64_t *sp_ret)
{
	if (!thread || thread->result != SNAP_THREAD_COPIED ||
	    thread->registers_size < (WORD_RSP + 1) * 8)
		return false;
	*pc_ret = snap_runtime_field(thread->registers, WORD_RIP * 8, 8);
	*sp_ret = snap_runtime_field(thread->registers, WORD_RSP * 8, 8);
	return true;
}

bool snap_go_kept_return(const struct snap_thread *thread, uint64_t *ret)
{
	uint64_t pc, sp;

	if (!snap_go_registers(thread, &pc, &sp) || thread->partial)
		return false;
	*ret = snap_runtime_field(thread->registers, WORD_R12 * 8, 8);
	return true;
}

static bool read_copy(uint64_t start, const uint8_t *copy, size_t copied, uint64_t address,
		      void *out, size_t size)
{
	if (address < start || address - start > copied || copied - (address - start) < size)
		return false;
	memcpy(out, copy + (address - start), size);
	return true;
}

bool snap_go_read_stack(const struct snap_go *go, const struct snap_thread *thread,
			uint64_t address, void *out, size_t size)
{
	return (thread && (read_copy(thread->stack_address, thread->stack, thread->stack_size,
				     address, out, size) ||
			   read_copy(thread->stack2_address, thread->stack2, thread->stack2_size,
				     address, out, size))) ||
	       snap_runtime_read(go->process, address, out, size);
}

/* ---- threads that wait for work ---- */

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	return snap_any(count, i, strcmp(name, names[i]) == 0);
}

/* Whether a thread stands in the scheduler, asleep: by its own stack, that of g0. */
static bool is_go_thread_idle(struct snap_go *go, const struct snap_thread *thread)
{
	static const char *const waits[] = {
		"runtime.stopm",          "runtime.stoplockedm",         "runtime.mPark",
		"runtime.findrunnable",   "runtime.findRunnable",        "runtime.sysmon",
		"runtime.templateThread", "runtime.notetsleep_internal", "runtime.notesleep",
		"runtime.gcstopm"
	};
	static const char *const calls[] = { "runtime.futex",
					     "runtime.usleep",
					     "runtime.epollwait",
					     "runtime.pselect6",
					     "runtime/internal/syscall.Syscall6",
					     "internal/runtime/syscall.Syscall6",
					     "internal/runtime/syscall/linux.Syscall6" };
	bool waits_there = false;
	uint64_t pc, sp;

	if (!snap_go_registers(thread, &pc, &sp))
		return false;
	for (unsigned i = 0; i < MOST_OUTER; i++) {
		const struct snap_go_site *site = snap_go_site(go, pc, i == 0);
		const char *name;

		if (!site || !site->text || !site->has_size)
			break;
		name = snap_go_site_name(site);
		/* Each runtime has one thread there. */
		if (site->text != go->runtime && strcmp(name, "runtime.sysmon") == 0)
			go->other = site->text;
		if (i == 0 && !is_one_of(name, calls, SNAP_ARRAY_SIZE(calls)))
			break;
		waits_there |= i > 0 && is_one_of(name, waits, SNAP_ARRAY_SIZE(waits));
		sp += site->size;
		if ((site->function.flags & SNAP_GO_TOP_FRAME) ||
		    !snap_go_read_stack(go, thread, sp, &pc, sizeof(pc)))
			break;
		sp += sizeof(pc);
	}
	return waits_there;
}

void snap_go_find_idle_threads(struct snap_go *go, struct snap_runtime_result *result)
{
	const struct snap_process *process = go->process->process;
	pid_t *list = snap_arena_new_array(
		go->process->arena, process->thread_count ? process->thread_count : 1, pid_t);
	size_t count = 0;

	if (!list) {
		go->no_memory = true;
		return;
	}
	for (size_t i = 0; i < process->thread_count; i++)
		if (!snap_pointer_table_find(&go->busy,
					     key_of_goroutine((uint64_t)process->threads[i].tid)) &&
		    is_go_thread_idle(go, &process->threads[i]))
			list[count++] = process->threads[i].tid;
	result->idle_threads = list;
	result->idle_thread_count = count;
}
