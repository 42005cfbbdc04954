/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * All goroutines: their identity, what they wait for, and where their stacks begin. That is where
 * the scheduler left them, or in a thread's registers. Knows neither the table nor how stacks
 * continue.
 */
#include "analyze/runtime/go/internal.h"

#include "base/bsearch.h"
#include "base/text.h"

#include <string.h>

enum {
	POLL = 1024, /* goroutines between two looks at the wish to stop */
	/* What the kernel saves of registers below a signal handler: struct ucontext. */
	CONTEXT_RIP = 168,
	CONTEXT_RSP = 160,
	FIRST_VDSO_FIELD = 512, /* of a thread, where the address of a call to the vDSO may be */
	MOST_SIGNAL_STACK = 64 << 10,
};

/* The current goroutine. */
struct goroutine {
	uint8_t bytes[SNAP_GO_GOROUTINE_BYTES];
	uint32_t status;
	uint64_t thread_at;               /* of its m; 0: none */
	const struct snap_thread *thread; /* NULL: none, or unknown */
};

static uint64_t word_of_goroutine(const struct goroutine *goroutine, unsigned offset)
{
	return snap_runtime_field(goroutine->bytes, offset, 8);
}

static bool is_in_goroutine_stack(const struct goroutine *goroutine, uint64_t sp)
{
	return sp >= word_of_goroutine(goroutine, SNAP_GO_STACK_LOW) &&
	       sp < word_of_goroutine(goroutine, SNAP_GO_STACK_HIGH);
}

/* The kernel's thread behind an m. */
static const struct snap_thread *thread_of(const struct snap_go *go, uint64_t thread_at)
{
	uint64_t number;

	if (thread_at == 0 ||
	    !snap_runtime_word(go->process, thread_at + go->layout->thread_tid, &number))
		return NULL;
	return snap_go_thread(go, number);
}

/* ---- where a stack begins ---- */

static void begin_saved(struct snap_go_start *start, uint64_t pc, uint64_t sp)
{
	start->pc = pc;
	start->sp = sp;
	start->is_exact = false;
}

/*
 * A thread on its signal stack: the kernel has put the address of the function that returns from
 * the handler there, and behind it the registers of what was interrupted.
 */
static bool begin_below_signal(struct snap_go *go, const struct goroutine *goroutine, uint64_t sp,
			       struct snap_go_start *start)
{
	const struct snap_thread *thread = goroutine->thread;
	uint64_t signals, bounds[2], at = (sp + 7) & ~7ull;

	if (!snap_runtime_word(go->process, goroutine->thread_at + go->layout->thread_signal_stack,
			       &signals) ||
	    !snap_runtime_read(go->process, signals, bounds, sizeof(bounds)) || sp < bounds[0] ||
	    sp >= bounds[1])
		return false;
	for (unsigned i = 0; i < MOST_SIGNAL_STACK / 8 && at < bounds[1]; i++, at += 8) {
		const struct snap_go_site *site;
		uint64_t word, registers[2];

		if (!snap_go_read_stack(go, thread, at, &word, sizeof(word)))
			return false;
		if (!snap_go_is_entry(go, word))
			continue;
		site = snap_go_site(go, word, true);
		if (!site || !snap_begins_with(snap_go_site_name(site), "runtime.sigreturn"))
			continue;
		if (!snap_go_read_stack(go, thread, at + 8 + CONTEXT_RSP, registers,
					sizeof(registers)) ||
		    !is_in_goroutine_stack(goroutine, registers[0]))
			return false;
		start->sp = registers[0];
		start->pc = registers[1];
		start->is_exact = true;
		return true;
	}
	return false;
}

/*
 * A thread in the vDSO is on a stack of its own; where it left the goroutine's, its m tells: a
 * stack pointer, and the address that is below it.
 */
static bool begin_before_vdso(const struct snap_go *go, const struct goroutine *goroutine,
			      struct snap_go_start *start)
{
	uint64_t words[SNAP_GO_THREAD_BYTES / 8];

	if (!snap_runtime_read(go->process, goroutine->thread_at, words, sizeof(words)))
		return false;
	for (size_t i = FIRST_VDSO_FIELD / 8; i + 1 < SNAP_ARRAY_SIZE(words); i++) {
		uint64_t below;

		if (words[i] % 8 != 0 || !is_in_goroutine_stack(goroutine, words[i]) ||
		    !snap_go_text_of(go, words[i + 1]) ||
		    !snap_go_read_stack(go, goroutine->thread, words[i] - 8, &below, 8) ||
		    below != words[i + 1])
			continue;
		begin_saved(start, words[i + 1], words[i]);
		return true;
	}
	return false;
}

/* Of one that runs, or is in a system call. */
static void begin_on_thread(struct snap_go *go, const struct goroutine *goroutine,
			    struct snap_go_start *start)
{
	const bool runs = goroutine->status == SNAP_GO_RUNNING;
	uint64_t pc, sp, saved = word_of_goroutine(goroutine, SNAP_GO_SAVED_SP);
	const bool is_known = snap_go_registers(goroutine->thread, &pc, &sp);

	start->is_unknown = runs && !is_known;
	if (is_known) {
		if (is_in_goroutine_stack(goroutine, sp) && (runs || snap_go_text_of(go, pc))) {
			start->pc = pc;
			start->sp = sp;
			start->is_exact = true;
			return;
		}
		if (runs && (begin_below_signal(go, goroutine, sp, start) ||
			     begin_before_vdso(go, goroutine, start)))
			return;
	}
	/* What one that runs has saved is old, unless its thread is seen to be on another stack. */
	if (!runs)
		begin_saved(start, word_of_goroutine(goroutine, go->layout->call_sp + 8),
			    word_of_goroutine(goroutine, go->layout->call_sp));
	else if (is_known && is_in_goroutine_stack(goroutine, saved))
		begin_saved(start, word_of_goroutine(goroutine, SNAP_GO_SAVED_PC), saved);
}

static void find_goroutine_start(struct snap_go *go, const struct goroutine *goroutine,
				 struct snap_go_start *ret)
{
	*ret = (struct snap_go_start){ .thread = goroutine->thread,
				       .low = word_of_goroutine(goroutine, SNAP_GO_STACK_LOW),
				       .high = word_of_goroutine(goroutine, SNAP_GO_STACK_HIGH),
				       .entered = word_of_goroutine(goroutine, go->layout->start) };
	if (goroutine->status == SNAP_GO_RUNNING || goroutine->status == SNAP_GO_SYSCALL)
		begin_on_thread(go, goroutine, ret);
	else
		begin_saved(ret, word_of_goroutine(goroutine, SNAP_GO_SAVED_PC),
			    word_of_goroutine(goroutine, SNAP_GO_SAVED_SP));
}

/* ---- what it is ---- */

static enum snap_task_state state_of(uint32_t status)
{
	switch (status) {
	case SNAP_GO_RUNNABLE:
	case SNAP_GO_PREEMPTED:
		return SNAP_TASK_RUNNABLE;
	case SNAP_GO_RUNNING:
	case SNAP_GO_COPYING:
		return SNAP_TASK_RUNNING;
	case SNAP_GO_SYSCALL:
		return SNAP_TASK_SYSCALL;
	case SNAP_GO_WAITING:
	case SNAP_GO_LEAKED:
		return SNAP_TASK_WAITING;
	}
	return SNAP_TASK_UNKNOWN;
}

/* Reasons to which Go adds that time in a bubble of testing/synctest goes on meanwhile. */
static bool is_durable(const char *reason)
{
	static const char *const reasons[] = { "chan receive (nil chan)",
					       "chan send (nil chan)",
					       "select (no cases)",
					       "sleep",
					       "sync.Cond.Wait",
					       "coroutine",
					       "synctest.Run",
					       "synctest.Wait" };

	return snap_any(SNAP_ARRAY_SIZE(reasons), i, strcmp(reason, reasons[i]) == 0);
}

static const char *wait_of(struct snap_go *go, const struct goroutine *goroutine)
{
	const struct snap_go_layout *layout = go->layout;
	uint8_t number = goroutine->bytes[layout->wait_reason];
	const char *reason, *end = NULL;
	char text[256];

	if ((goroutine->status != SNAP_GO_WAITING && goroutine->status != SNAP_GO_LEAKED) ||
	    number >= go->reason_count || !go->reasons[number])
		return NULL;
	reason = go->reasons[number];
	if (goroutine->status == SNAP_GO_LEAKED)
		end = " (leaked)";
	else if (layout->bubble && word_of_goroutine(goroutine, layout->bubble) &&
		 is_durable(reason))
		end = " (durable)";
	if (!end)
		return reason;
	snprintf(text, sizeof(text), "%s%s", reason, end);
	reason = snap_intern(go->process->strings, text, strlen(text));
	go->no_memory |= !reason;
	return reason;
}

static const char *number_text(struct snap_go *go, uint64_t number)
{
	char text[24];
	const char *made;
	int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)number);

	made = snap_intern(go->process->strings, text, (size_t)length);
	go->no_memory |= !made;
	return made;
}

/* Whether some function of the stack is none of the runtime's. */
static bool shows_program(const struct snap_runtime_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++)
		for (size_t k = 0; k < stack->frames[i]->entry_count; k++)
			if (!stack->frames[i]->entries[k].system)
				return true;
	return false;
}

/* As Go itself has it (isSystemGoroutine). */
static bool is_system_goroutine(const struct snap_runtime_task *task)
{
	static const char *const calling_back[] = { "runtime.runfinq", "runtime.runFinalizers",
						    "runtime.runCleanups" };
	static const char *const users[] = { "runtime.main", "runtime.corostart",
					     "runtime.handleAsyncEvent" };
	const char *name = task->start ? task->start->symbol : NULL;

	if (!snap_begins_with(name, "runtime."))
		return false;
	if (snap_any(SNAP_ARRAY_SIZE(users), i, strcmp(name, users[i]) == 0))
		return false;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(calling_back); i++)
		if (strcmp(name, calling_back[i]) == 0)
			return !shows_program(&task->stack);
	return true;
}

/*
 * In C: the goroutine waits for the end of a call, and the thread is on another stack. Go code there
 * is a handler of a signal that came in C.
 */
static bool is_in_c(const struct goroutine *goroutine, const struct snap_runtime_stack *stack)
{
	uint64_t pc, sp;

	if (goroutine->status != SNAP_GO_SYSCALL && goroutine->status != SNAP_GO_RUNNING)
		return false;
	return stack->count > 0 && snap_go_registers(goroutine->thread, &pc, &sp) &&
	       !is_in_goroutine_stack(goroutine, sp) &&
	       snap_begins_with(stack->frames[0]->entries[0].symbol, "runtime.cgocall");
}

/*
 * A thread of C that has called Go keeps its goroutine for the next call from Go 1.21 on, which is
 * in a system call meanwhile, until 1.25 (dropm and cgoBindM in runtime/proc.go): it has no
 * function, and what the thread does is not its matter.
 */
static bool is_kept_for_c(const struct snap_go *go, const struct goroutine *goroutine,
			  const struct snap_runtime_stack *stack)
{
	uint64_t pc, sp;

	return goroutine->status == SNAP_GO_SYSCALL && stack->count <= 1 &&
	       !word_of_goroutine(goroutine, go->layout->start) &&
	       snap_go_registers(goroutine->thread, &pc, &sp) &&
	       !is_in_goroutine_stack(goroutine, sp) && !snap_go_text_of(go, pc);
}

static void find_goroutine_thread(struct snap_go *go, struct goroutine *goroutine,
				  struct snap_runtime_task *task)
{
	uint64_t locked = word_of_goroutine(goroutine, go->layout->locked_thread);
	const struct snap_thread *thread;

	goroutine->thread_at = word_of_goroutine(goroutine, SNAP_GO_THREAD);
	if (task->state == SNAP_TASK_RUNNING || task->state == SNAP_TASK_SYSCALL)
		goroutine->thread = thread_of(go, goroutine->thread_at);
	task->locked = locked != 0;
	thread = goroutine->thread ? goroutine->thread : thread_of(go, locked);
	task->tid = thread ? thread->tid : 0;
	if (goroutine->thread)
		snap_go_note_busy(go, goroutine->thread);
}

static void find_labels(struct snap_go *go, const struct goroutine *goroutine,
			struct snap_runtime_task *task)
{
	const struct snap_go_labels *labels =
		snap_go_labels(go, word_of_goroutine(goroutine, go->layout->labels));

	if (!labels)
		return;
	task->labels = labels->list;
	task->label_count = labels->count;
	task->labels_cut = labels->cut;
}

static void read_task(struct snap_go *go, struct goroutine *goroutine,
		      struct snap_runtime_task *task)
{
	const struct snap_go_layout *layout = go->layout;
	uint64_t id = word_of_goroutine(goroutine, layout->id),
		 creator = word_of_goroutine(goroutine, layout->creator),
		 first = word_of_goroutine(goroutine, layout->start),
		 parent = layout->parent ? word_of_goroutine(goroutine, layout->parent) : 0;
	struct snap_go_start start;

	task->id = number_text(go, id);
	task->state = state_of(goroutine->status);
	task->wait = wait_of(go, goroutine);
	if (task->state == SNAP_TASK_WAITING || task->state == SNAP_TASK_SYSCALL)
		task->since_ns = (int64_t)word_of_goroutine(goroutine, layout->wait_since);
	find_goroutine_thread(go, goroutine, task);
	if (parent)
		task->parent = number_text(go, parent);
	if (creator && id != 1)
		task->created_by = snap_go_entry(go, creator, false);
	if (first)
		task->start = snap_go_entry(go, first, true);
	find_labels(go, goroutine, task);
	find_goroutine_start(go, goroutine, &start);
	snap_go_unwind(go, &start, &task->stack);
	if (is_in_c(goroutine, &task->stack)) {
		task->native_until = "runtime.asmcgocall";
		snap_go_find_code(go, task->native_until, task->native_code);
	}
	if (is_kept_for_c(go, goroutine, &task->stack))
		task->tid = 0;
	task->is_system = is_system_goroutine(task);
}

/* ---- all of them ---- */

/* A live one: tasks are sorted by their number. */
struct listed {
	uint64_t id, address;
};

SNAP_ORDER(compare_listed, struct listed, a, b, snap_compare(a->id, b->id),
	   snap_compare(a->address, b->address));

static bool read_one(const struct snap_go *go, uint64_t address, struct goroutine *ret)
{
	ret->thread = NULL;
	ret->thread_at = 0;
	if (!snap_go_read_goroutine(go, address, ret->bytes))
		return false;
	ret->status = (uint32_t)snap_runtime_field(ret->bytes, go->layout->status, 4) &
		      ~(uint32_t)SNAP_GO_SCANNED;
	return true;
}

static bool is_live(uint32_t status)
{
	return status != SNAP_GO_IDLE && status != SNAP_GO_DEAD && status != SNAP_GO_DEAD_EXTRA;
}

/* Those that are alive, by number; some that were not copied make the result torn. */
static size_t list_live(const struct snap_go *go, const uint64_t *goroutines, size_t count,
			struct listed *list, bool *torn)
{
	struct goroutine goroutine;
	size_t live = 0;

	for (size_t i = 0; i < count; i++) {
		if (!read_one(go, goroutines[i], &goroutine)) {
			*torn = true;
			continue;
		}
		if (is_live(goroutine.status))
			list[live++] =
				(struct listed){ word_of_goroutine(&goroutine, go->layout->id),
						 goroutines[i] };
	}
	qsort(list, live, sizeof(*list), compare_listed);
	return live;
}

void snap_go_read_goroutines(struct snap_go *go, const uint64_t *goroutines, size_t count,
			     struct snap_runtime_result *result)
{
	_cleanup_free_ struct listed *list = calloc(count ? count : 1, sizeof(*list));
	struct goroutine goroutine;
	size_t live;

	if (!list) {
		go->no_memory = true;
		return;
	}
	live = list_live(go, goroutines, count, list, &result->torn);
	result->tasks =
		snap_arena_new_array(go->process->arena, live ? live : 1, struct snap_runtime_task);
	go->no_memory |= !result->tasks;
	for (size_t i = 0; i < live && !go->no_memory; i++) {
		if (i % POLL == 0 && snap_options_cancelled(go->process->options))
			return;
		if (!read_one(go, list[i].address, &goroutine))
			continue;
		read_task(go, &goroutine, &result->tasks[result->task_count++]);
	}
}
