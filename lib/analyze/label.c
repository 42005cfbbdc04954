/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Labels of threads: see label.h. Knows how the facts about one thread become words; nothing of how
 * stacks are compared.
 */
#include "analyze/label.h"

#include "analyze/analysis.h"
#include "analyze/classify.h"
#include "analyze/unwind/arch.h"
#include "analyze/unwind/in_call.h"
#include "analyze/wait/wait.h"
#include "base/escape.h"
#include "model/arch/registers.h"

#include <string.h>

/*
 * A wait that a stop or a signal interrupted goes on as restart_syscall, which says nothing: the
 * function of the C library on top knows which wait it was (restart_syscall(2)).
 */
static const char *restarted_call(const struct snap_raw_stack *stack)
{
	static const struct {
		const char *part, *call;
	} calls[] = {
		{ "futex", "futex" },         { "clock_nanosleep", "clock_nanosleep" },
		{ "nanosleep", "nanosleep" }, { "ppoll", "ppoll" },
		{ "poll", "poll" },
	};
	const char *top = NULL;

	for (size_t i = 0; i < stack->frame_count && !top; i++)
		if (!stack->frames[i]->entries[0].kernel)
			top = stack->frames[i]->entries[0].symbol;
	for (size_t i = 0; top && i < SNAP_ARRAY_SIZE(calls); i++)
		if (strstr(top, calls[i].part))
			return calls[i].call;
	return "restart_syscall";
}

const char *snap_label_syscall(struct snap_interner *strings, enum snap_arch of, int number,
			       const struct snap_raw_stack *stack)
{
	const struct snap_arch_ops *arch = snap_arch_ops(of);
	const char *name = arch ? snap_arch_syscall_name(arch, number) : NULL;
	char decimal[16];

	if (!name) {
		snprintf(decimal, sizeof(decimal), "%d", number);
		name = decimal;
	} else if (strcmp(name, "restart_syscall") == 0) {
		name = restarted_call(stack);
	}
	return snap_intern(strings, name, strlen(name));
}

static bool fill_syscall(struct snap_interner *strings, const struct snap_raw_process *raw,
			 const struct snap_thread *thread, const struct snap_raw_stack *stack,
			 struct snap_member *member)
{
	struct snap_known_registers known = { .call = -1 };

	/* Of a thread that was not copied, procfs may have said it. */
	if (!snap_registers_of(raw->process->arch, thread, &known) && thread->call.known)
		known.call = (int)thread->call.number;
	if (known.call < 0 || !snap_is_in_call(raw->process, raw->modules, thread))
		return true;
	member->syscall = snap_label_syscall(strings, raw->process->arch, known.call, stack);
	return member->syscall != NULL;
}

/* NULL for NULL and ""; *ok becomes false without memory. */
static const char *intern_fact(struct snap_interner *strings, const char *text, size_t max,
			       bool *ok)
{
	const char *kept;

	if (!text || !*text)
		return NULL;
	kept = snap_intern(strings, text, snap_text_cut(text, strnlen(text, max + 4), max));
	if (!kept)
		*ok = false;
	return kept;
}

bool snap_label_member(struct snap_interner *strings, const struct snap_raw_process *raw,
		       const struct snap_thread *thread, const struct snap_raw_stack *stack,
		       struct snap_member *ret)
{
	bool ok = true;

	*ret = (struct snap_member){
		.tid = thread->tid,
		.ns_tid = thread->ns_tid,
		.name = intern_fact(strings, thread->name, SNAP_MAX_THREAD_NAME - 1, &ok),
		.state = snap_wait_is_frozen(raw->process, thread)
				 ? SNAP_STATE_FROZEN
				 : snap_state_of_letter(thread->state),
		.kernel = snap_classify_kernel_thread(thread),
		.wchan = intern_fact(strings, thread->wchan, SNAP_MAX_NAME, &ok),
		.cpu = thread->cpu,
		.taken = thread->taken,
		.runs = thread->runs,
	};
	return ok && fill_syscall(strings, raw, thread, stack, ret);
}
