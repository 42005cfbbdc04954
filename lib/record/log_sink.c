/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Follow: see log_sink.h. */
#include "record/log_sink.h"
#include "base/buffer.h"

#include "analyze/unwind/arch.h"
#include "record/keep.h"

#include <string.h>

void snap_follow_init(struct snap_follow *follow, const struct snap_options *options,
		      struct snap_log *log, struct snap_spaces *spaces)
{
	*follow = (struct snap_follow){ .options = options, .log = log, .spaces = spaces };
}

void snap_follow_deinit(struct snap_follow *follow)
{
	while (follow->processes) {
		struct snap_followed_process *next = follow->processes->next;

		free(follow->processes);
		follow->processes = next;
	}
	free(follow->threads);
}

void snap_follow_renumber(struct snap_follow *follow)
{
	const struct snap_log *log = follow->log;

	for (struct snap_followed_process *p = follow->processes; p; p = p->next) {
		p->number = snap_log_moved_process(log, p->number);
		if (p->space != UINT32_MAX)
			p->space = snap_log_moved_space(log, p->space);
	}
	for (size_t i = 0; i < follow->thread_count; i++) {
		struct snap_followed_thread *thread = &follow->threads[i];

		if (thread->live)
			thread->number = snap_log_moved_thread(log, thread->number);
	}
	snap_spaces_reset(follow->spaces);
}

/* ---- processes ---- */

static void warn_of(struct snap_follow *follow, struct snap_followed_process *followed,
		    const struct snap_process *facts)
{
	const struct snap_trouble_row *row = &snap_troubles[facts->trouble];

	if (followed->warned || follow->warnings == SNAP_FOLLOW_WARNINGS ||
	    !snap_trouble_applies(row->recording_warning, facts->is_target))
		return;
	followed->warned = true;
	follow->warnings++;
	snap_capture_warn(follow->log->capture, row->word, facts->pid, 0, "%s",
			  facts->trouble_message ? facts->trouble_message : row->word);
}

/* There are too many: the process is in the log, but its threads are not sampled. */
static struct snap_error *go_without_space(struct snap_follow *follow,
					   struct snap_followed_process *followed,
					   struct snap_error *why)
{
	if (!follow->told_of_spaces)
		snap_capture_warn(follow->log->capture, "too_many_processes", 0, 0,
				  "%s: later processes have no samples", snap_error_message(why));
	follow->told_of_spaces = true;
	snap_error_destroy(why);
	if (followed->space != UINT32_MAX)
		snap_spaces_leave(follow->spaces, followed->space);
	followed->space = UINT32_MAX;
	return NULL;
}

/* Tells the log the facts; the unwinder of a space that changed is made anew. */
static struct snap_error *map_process(struct snap_follow *follow,
				      struct snap_followed_process *followed,
				      const struct snap_sampled_process *process)
{
	struct snap_error *err;
	uint32_t space;

	warn_of(follow, followed, process->facts);
	err = snap_log_map_process(follow->log, followed->number, process->facts,
				   snap_keep_choose(follow->log, process->facts, process->live),
				   &space);
	if (err && snap_error_code(err) == SNAP_ERROR_OTHER)
		return go_without_space(follow, followed, err);
	if (err)
		return err;
	/* Its mappings are other ones, or it is another space. */
	if (followed->space != UINT32_MAX)
		snap_spaces_leave(follow->spaces, followed->space);
	followed->space = space;
	return NULL;
}

static struct snap_followed_process *add_process(struct snap_follow *follow)
{
	struct snap_followed_process *followed = calloc(1, sizeof(*followed));

	if (!followed)
		return NULL;
	followed->space = UINT32_MAX;
	followed->next = follow->processes;
	if (followed->next)
		followed->next->previous = followed;
	follow->processes = followed;
	return followed;
}

static void remove_process(struct snap_follow *follow, struct snap_followed_process *followed)
{
	if (followed->next)
		followed->next->previous = followed->previous;
	if (followed->previous)
		followed->previous->next = followed->next;
	else
		follow->processes = followed->next;
	free(followed);
}

static struct snap_error *on_program(void *context, struct snap_sampled_process *process, bool exec)
{
	struct snap_follow *follow = context;
	struct snap_followed_process *followed = process->user;
	const struct snap_followed_process *parent = process->parent ? process->parent->user : NULL;
	const struct snap_process *facts = process->facts;
	uint32_t before = exec && followed ? followed->number : UINT32_MAX;
	struct snap_error *err;

	if (!followed) {
		process->user = followed = add_process(follow);
		if (!followed)
			return snap_error_no_memory();
	}
	err = snap_log_add_process(follow->log, facts->pid, facts->start_ticks,
				   parent ? parent->number : UINT32_MAX, before, facts->is_target,
				   &followed->number);
	if (err) {
		process->user = NULL;
		remove_process(follow, followed);
		return err;
	}
	if (followed->space != UINT32_MAX)
		snap_spaces_leave(follow->spaces, followed->space);
	followed->space = UINT32_MAX;
	return map_process(follow, followed, process);
}

static struct snap_error *on_mapped(void *context, struct snap_sampled_process *process)
{
	struct snap_follow *follow = context;
	struct snap_followed_process *followed = process->user;
	const struct snap_process *space;

	if (!followed || followed->space == UINT32_MAX)
		return NULL;
	space = &follow->log->capture->processes[followed->space];
	if (space->trouble == process->facts->trouble && snap_space_knows(space, process->facts))
		return NULL;
	return map_process(follow, followed, process);
}

static void on_ended(void *context, struct snap_sampled_process *process)
{
	struct snap_follow *follow = context;
	struct snap_followed_process *followed = process->user;

	if (!followed)
		return;
	process->user = NULL;
	snap_log_end_process(follow->log, followed->number);
	if (followed->space != UINT32_MAX) {
		snap_spaces_leave(follow->spaces, followed->space);
		snap_keep_ended(follow->log, followed->space);
	}
	remove_process(follow, followed);
}

/* ---- threads ---- */

static struct snap_error *on_born(void *context, struct snap_sampled_thread *thread)
{
	struct snap_follow *follow = context;
	const struct snap_followed_process *process = thread->process->user;
	uint32_t index = follow->first_free;
	struct snap_followed_thread *followed;
	struct snap_error *err;

	if (index) {
		index--;
		follow->first_free = follow->threads[index].next_free;
	} else {
		if (!snap_reserve_array(follow->threads, follow->thread_capacity,
					follow->thread_count + 1))
			return snap_error_no_memory();
		index = (uint32_t)follow->thread_count++;
	}
	followed = &follow->threads[index];
	*followed = (struct snap_followed_thread){ .state = SNAP_STATE_UNKNOWN };
	thread->user = index;
	err = snap_log_add_thread(follow->log, process->number, thread->tid, thread->ns_tid,
				  thread->name, thread->kernel, &followed->number);
	if (err)
		return err;
	followed->live = true;
	follow->states[followed->state]++;
	follow->born++;
	return NULL;
}

static struct snap_error *on_renamed(void *context, struct snap_sampled_thread *thread)
{
	struct snap_follow *follow = context;

	return snap_log_rename_thread(follow->log, follow->threads[thread->user].number,
				      thread->name);
}

/* It stands otherwise from this tick on. */
static struct snap_error *stand(struct snap_follow *follow, struct snap_followed_thread *followed,
				const struct snap_log_change *change)
{
	bool sampled = change->stack != SNAP_LOG_GONE;

	follow->sampled += sampled;
	follow->sampled -= followed->sampled;
	followed->sampled = sampled;
	follow->states[followed->state]--;
	followed->state = (enum snap_state)change->state;
	follow->states[followed->state]++;
	return snap_log_change(follow->log, change);
}

static struct snap_error *on_died(void *context, struct snap_sampled_thread *thread)
{
	struct snap_follow *follow = context;
	struct snap_followed_thread *followed = &follow->threads[thread->user];
	struct snap_error *err = snap_log_end_thread(follow->log, followed->number);

	follow->sampled -= followed->sampled;
	follow->states[followed->state]--;
	*followed = (struct snap_followed_thread){ .next_free = follow->first_free };
	follow->first_free = thread->user + 1;
	return err;
}

static int16_t syscall_of(const struct snap_process *process, const struct snap_thread *copy)
{
	const struct snap_arch_ops *arch = snap_arch_ops(process->arch);
	int number = -1;

	if (arch && copy->registers_size)
		number = arch->syscall_number(copy->registers, copy->registers_size);
	return number >= 0 && number <= INT16_MAX ? (int16_t)number : -1;
}

/* Asks for a better copy, once in a tick for each reason: then what there is will have to do. */
static bool may_ask(struct snap_follow *follow, struct snap_followed_thread *followed,
		    enum snap_verdict verdict)
{
	if (followed->asked_tick != follow->tick)
		followed->asked = 0;
	followed->asked_tick = follow->tick;
	if (followed->asked & 1u << verdict)
		return false;
	followed->asked |= 1u << verdict;
	return true;
}

static enum snap_verdict judge(struct snap_follow *follow, struct snap_followed_thread *followed,
			       const struct snap_thread *copy, const struct snap_pcs *pcs)
{
	if (pcs->stale_mappings && may_ask(follow, followed, SNAP_VERDICT_STALE_MAPPINGS))
		return SNAP_VERDICT_STALE_MAPPINGS;
	if (copy->partial && copy->result == SNAP_THREAD_COPIED && pcs->needs_register &&
	    may_ask(follow, followed, SNAP_VERDICT_NEEDS_REGISTERS))
		return SNAP_VERDICT_NEEDS_REGISTERS;
	return SNAP_VERDICT_TAKEN;
}

/* The number of the copy's stack, unless the verdict is that it will not do. */
static struct snap_error *stack_of(struct snap_follow *follow, struct snap_followed_thread *thread,
				   uint32_t space, const struct snap_thread *copy,
				   enum snap_verdict *verdict_ret, uint32_t *ret)
{
	struct snap_thread known = *copy;
	struct snap_log_pcs stack;
	struct snap_pcs pcs = { 0 };
	struct snap_error *err;

	/* What could not be stopped (a wait for a disk) may yet show some frames. */
	if (known.result == SNAP_THREAD_NOT_STOPPED && known.registers_size)
		known.result = SNAP_THREAD_COPIED;
	err = snap_spaces_unwind(follow->spaces, space, &known, &pcs);
	if (err)
		return err;
	*verdict_ret = judge(follow, thread, copy, &pcs);
	if (*verdict_ret != SNAP_VERDICT_TAKEN)
		return NULL;
	stack = (struct snap_log_pcs){
		.bits = pcs.count ? &pcs.pcs->bits : NULL,
		.count = pcs.count,
		.end = pcs.end,
		.end_pc = pcs.end_pc,
		.reason = pcs.reason,
		.gap_after = pcs.gap_after,
		.gap_count = pcs.gap_count,
	};
	return snap_log_stack(follow->log, space, &stack, ret);
}

static struct snap_error *on_sample(void *context, struct snap_sampled_thread *thread,
				    const struct snap_thread *copy, enum snap_verdict *verdict_ret)
{
	struct snap_follow *follow = context;
	const struct snap_followed_process *process = thread->process->user;
	struct snap_followed_thread *followed = &follow->threads[thread->user];
	struct snap_log_change change = { .stack = SNAP_LOG_GONE, .syscall = -1 };
	enum snap_state state = snap_state_of_letter(copy->state);
	enum snap_verdict verdict = SNAP_VERDICT_TAKEN;
	struct snap_error *err = NULL;

	if (process->space != UINT32_MAX &&
	    (!follow->options->cpu_only || state == SNAP_STATE_RUNNING)) {
		err = stack_of(follow, followed, process->space, copy, &verdict, &change.stack);
		change.syscall = syscall_of(thread->process->facts, copy);
	}
	if (err)
		return err;
	*verdict_ret = verdict;
	if (verdict != SNAP_VERDICT_TAKEN)
		return NULL;
	change.thread = followed->number;
	change.state = (uint8_t)state;
	change.taken = (uint8_t)copy->taken;
	return stand(follow, followed, &change);
}

struct snap_sampler_sink snap_follow_sink(struct snap_follow *follow)
{
	return (struct snap_sampler_sink){
		.context = follow,
		.program = on_program,
		.mapped = on_mapped,
		.ended = on_ended,
		.born = on_born,
		.renamed = on_renamed,
		.died = on_died,
		.sample = on_sample,
	};
}
