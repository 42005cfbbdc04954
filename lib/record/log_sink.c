/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sampler tells becomes a log: see log_sink.h. */
#include "record/log_sink.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "model/arch/registers.h"
#include "record/descriptors.h"

#include <string.h>

enum { WALK_NS = 20000000 }; /* how often processes are asked whose turn it is */

void snap_log_sink_init(struct snap_log_sink *sink, const struct snap_options *options,
			struct snap_log *log, struct snap_remote_unwinder *unwinder)
{
	*sink = (struct snap_log_sink){ .options = options, .log = log, .unwinder = unwinder };
	snap_plans_init(&sink->plans, options, log, unwinder);
	sink->looks =
		(struct snap_task_looks){ .options = options, .log = log, .unwinder = unwinder };
	snap_owner_watch_init(&sink->holders, log);
	snap_socket_queries_init(&sink->sockets, log);
	snap_peer_queries_init(&sink->ends, log);
}

void snap_log_sink_deinit(struct snap_log_sink *sink)
{
	while (sink->processes) {
		struct snap_log_sink_process *next = sink->processes->next;

		free(sink->processes->planned.plan);
		free(sink->processes->planned.task_plan);
		snap_task_list_deinit(&sink->processes->tasks);
		free(sink->processes);
		sink->processes = next;
	}
	snap_plans_deinit(&sink->plans);
	snap_owner_watch_deinit(&sink->holders);
	snap_socket_queries_deinit(&sink->sockets);
	snap_peer_queries_deinit(&sink->ends);
	snap_error_destroy(sink->failure);
	free(sink->threads);
}

void snap_log_sink_renumber(struct snap_log_sink *sink)
{
	const struct snap_log *log = sink->log;

	snap_plans_pause(&sink->plans);
	for (struct snap_log_sink_process *p = sink->processes; p; p = p->next) {
		p->number = snap_log_moved_process(log, p->number);
		if (p->space != UINT32_MAX)
			p->space = snap_log_moved_space(log, p->space);
		p->planned.space = p->space;
		snap_tasks_renumber(log, &p->tasks);
	}
	for (size_t i = 0; i < sink->thread_count; i++) {
		struct snap_log_sink_thread *thread = &sink->threads[i];

		if (thread->live)
			thread->number = snap_log_moved_thread(log, thread->number);
	}
	snap_owner_watch_renumber(&sink->holders);
	snap_peer_queries_renumber(&sink->ends);
	snap_remote_unwinder_reset(sink->unwinder);
}

/* ---- processes ---- */

static void warn_of(struct snap_log_sink *sink, struct snap_log_sink_process *entry,
		    const struct snap_process *facts)
{
	const struct snap_trouble_row *row = &snap_troubles[facts->trouble];

	if (entry->warned || sink->warnings == SNAP_LOG_SINK_WARNINGS ||
	    !snap_trouble_applies(row->recording_warning, facts->is_target))
		return;
	entry->warned = true;
	sink->warnings++;
	snap_capture_warn(sink->log->capture, row->word, facts->pid, 0, "%s",
			  facts->trouble_message ? facts->trouble_message : row->word);
}

/* There are too many: the process is in the log, but its threads are not sampled. */
static struct stacksnap_error *go_without_space(struct snap_log_sink *sink,
						struct snap_log_sink_process *entry,
						struct stacksnap_error *why)
{
	if (!sink->reported_of_spaces)
		snap_capture_warn(sink->log->capture, "too_many_processes", 0, 0,
				  "%s: later processes have no samples", snap_error_message(why));
	sink->reported_of_spaces = true;
	snap_error_destroy(why);
	if (entry->space != UINT32_MAX)
		snap_remote_unwinder_leave(sink->unwinder, entry->space);
	entry->space = UINT32_MAX;
	return NULL;
}

/* There is no room for what is new of it, but why samples are missing is said all the same, once. */
static void tell_trouble(struct snap_log_sink *sink, struct snap_log_sink_process *entry,
			 const struct snap_process *facts)
{
	struct snap_process *space = &sink->log->capture->processes[entry->space];

	if (facts->trouble == SNAP_TROUBLE_NONE || space->trouble != SNAP_TROUBLE_NONE)
		return;
	warn_of(sink, entry, facts);
	snap_process_set_trouble(sink->log->capture, space, facts->trouble, "%s",
				 facts->trouble_message ? facts->trouble_message
							: snap_trouble_word(facts->trouble));
}

/* Mappings that were known before are wrong by now: its stacks count as one. */
static struct stacksnap_error *go_without_maps(struct snap_log_sink *sink,
					       struct snap_log_sink_process *entry,
					       const struct snap_process *facts)
{
	sink->log->cuts |= SNAP_LOG_CUT_MAPS;
	if (entry->space != UINT32_MAX) {
		if (!entry->unmapped)
			snap_remote_unwinder_leave(sink->unwinder, entry->space);
		tell_trouble(sink, entry, facts);
	}
	entry->unmapped = true;
	return NULL;
}

/* Tells the log the facts; the unwinder of a space that changed is made anew. */
static struct stacksnap_error *map_process(struct snap_log_sink *sink,
					   struct snap_log_sink_process *entry,
					   const struct snap_sampled_process *process)
{
	struct snap_process facts = *process->facts;
	struct stacksnap_error *err;
	uint32_t space;

	facts.net_namespace = entry->sockets.network;
	warn_of(sink, entry, &facts);
	if (!snap_log_has_room_for_maps(sink->log, entry->number))
		return go_without_maps(sink, entry, &facts);
	err = snap_log_map_process(sink->log, entry->number, &facts,
				   snap_descriptors_to_keep(sink->log, &facts, process->live),
				   &space);
	if (err && snap_error_code(err) == SNAP_ERROR_OTHER)
		return go_without_space(sink, entry, err);
	if (err)
		return err;
	/* Its mappings are other ones, or it is another space. */
	if (entry->space != UINT32_MAX)
		snap_remote_unwinder_leave(sink->unwinder, entry->space);
	entry->space = space;
	return NULL;
}

static struct snap_log_sink_process *add_log_process(struct snap_log_sink *sink)
{
	struct snap_log_sink_process *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->number = entry->space = UINT32_MAX;
	entry->next = sink->processes;
	if (entry->next)
		entry->next->previous = entry;
	sink->processes = entry;
	return entry;
}

static void remove_process(struct snap_log_sink *sink, struct snap_log_sink_process *entry)
{
	if (entry->next)
		entry->next->previous = entry->previous;
	if (entry->previous)
		entry->previous->next = entry->next;
	else
		sink->processes = entry->next;
	snap_plans_ended(&sink->plans, &entry->planned);
	snap_owner_watch_forget(&sink->holders, &entry->held);
	snap_task_list_deinit(&entry->tasks);
	free(entry);
}

/* It was recorded until now, or there was no room for it from the beginning. */
static void go_without_process(struct snap_log_sink *sink, struct snap_log_sink_process *entry,
			       bool exec)
{
	sink->log->cuts |= SNAP_LOG_CUT_PROCESSES;
	if (exec && entry->number != UINT32_MAX)
		snap_log_end_process(sink->log, entry->number);
	if (entry->space != UINT32_MAX)
		snap_remote_unwinder_leave(sink->unwinder, entry->space);
	entry->number = entry->space = UINT32_MAX;
}

/* It is another program, or what it has mapped is known anew. */
static struct stacksnap_error *plan_process(struct snap_log_sink *sink,
					    struct snap_log_sink_process *entry,
					    struct snap_sampled_process *process, bool exec)
{
	const struct snap_log_sink_process *parent = process->parent ? process->parent->user : NULL;

	return snap_plans_mapped(&sink->plans, &entry->planned, process,
				 entry->unmapped ? UINT32_MAX : entry->space,
				 parent ? &parent->planned : NULL, exec);
}

static struct stacksnap_error *on_log_program(void *context, struct snap_sampled_process *process,
					      bool exec)
{
	struct snap_log_sink *sink = context;
	struct snap_log_sink_process *entry = process->user;
	const struct snap_log_sink_process *parent = process->parent ? process->parent->user : NULL;
	const struct snap_process *facts = process->facts;
	uint32_t before = exec && entry ? entry->number : UINT32_MAX;
	struct stacksnap_error *err = NULL;

	if (!entry) {
		process->user = entry = add_log_process(sink);
		SNAP_TRY(snap_no_memory_unless(entry));
	}
	entry->held = (struct snap_owner_source){ .process = process };
	entry->sockets = (struct snap_socket_owner){ 0 };
	SNAP_TRY(snap_tasks_end(sink->log, &entry->tasks));
	if (!snap_log_has_room_for_process(sink->log)) {
		go_without_process(sink, entry, exec);
		return plan_process(sink, entry, process, exec);
	}
	err = snap_log_add_process(sink->log, facts->pid, facts->start_ticks,
				   parent ? parent->number : UINT32_MAX, before, facts->is_target,
				   &entry->number);
	if (err) {
		process->user = NULL;
		remove_process(sink, entry);
		return err;
	}
	if (entry->space != UINT32_MAX)
		snap_remote_unwinder_leave(sink->unwinder, entry->space);
	entry->space = UINT32_MAX;
	entry->unmapped = false;
	return map_process(sink, entry, process) ?: plan_process(sink, entry, process, exec);
}

static struct stacksnap_error *on_log_mapped(void *context, struct snap_sampled_process *process)
{
	struct snap_log_sink *sink = context;
	struct snap_log_sink_process *entry = process->user;
	const struct snap_process *space;

	if (!entry || entry->space == UINT32_MAX)
		return NULL;
	if (entry->unmapped)
		return go_without_maps(sink, entry, process->facts);
	space = &sink->log->capture->processes[entry->space];
	if (space->trouble == process->facts->trouble && snap_space_knows(space, process->facts))
		return NULL;
	return map_process(sink, entry, process) ?: plan_process(sink, entry, process, false);
}

static void on_log_ended(void *context, struct snap_sampled_process *process)
{
	struct snap_log_sink *sink = context;
	struct snap_log_sink_process *entry = process->user;

	if (!entry)
		return;
	process->user = NULL;
	/* An error is kept and reported by the next call that returns one. */
	if (!sink->failure)
		sink->failure = snap_tasks_end(sink->log, &entry->tasks);
	if (entry->number != UINT32_MAX)
		snap_log_end_process(sink->log, entry->number);
	if (entry->space != UINT32_MAX) {
		snap_remote_unwinder_leave(sink->unwinder, entry->space);
		snap_descriptors_close_ended(sink->log, entry->space);
	}
	remove_process(sink, entry);
}

/* ---- threads ---- */

/* *ret UINT32_MAX: there is no room for it. */
static struct stacksnap_error *add_log_thread(struct snap_log_sink *sink,
					      const struct snap_log_sink_process *process,
					      const struct snap_sampled_thread *thread,
					      uint32_t *ret)
{
	*ret = UINT32_MAX;
	if (process->number == UINT32_MAX)
		return NULL;
	if (!snap_log_has_room_for_thread(sink->log, process->number)) {
		sink->log->cuts |= SNAP_LOG_CUT_THREADS;
		return NULL;
	}
	return snap_log_add_thread(sink->log, process->number, thread->tid, thread->ns_tid,
				   thread->name, thread->kernel, ret);
}

static struct stacksnap_error *on_log_born(void *context, struct snap_sampled_thread *thread)
{
	struct snap_log_sink *sink = context;
	const struct snap_log_sink_process *process = thread->process->user;
	uint32_t index = sink->first_free;
	struct snap_log_sink_thread *entry;
	struct stacksnap_error *err;

	if (index) {
		index--;
		sink->first_free = sink->threads[index].next_free;
	} else {
		SNAP_TRY(snap_no_memory_unless(snap_reserve_array(
			sink->threads, sink->thread_capacity, sink->thread_count + 1)));
		index = (uint32_t)sink->thread_count++;
	}
	entry = &sink->threads[index];
	*entry = (struct snap_log_sink_thread){ .state = SNAP_STATE_UNKNOWN };
	thread->user = index;
	err = add_log_thread(sink, process, thread, &entry->number);
	if (entry->number == UINT32_MAX)
		snap_trace(sink->options->trace, thread->tid, SNAP_TRACE_RECORDED, NULL);
	if (err)
		return err;
	entry->live = true;
	sink->states[entry->state]++;
	sink->born++;
	return NULL;
}

static struct stacksnap_error *on_log_renamed(void *context, struct snap_sampled_thread *thread)
{
	struct snap_log_sink *sink = context;
	uint32_t number = sink->threads[thread->user].number;
	const struct snap_log_sink_process *process = thread->process->user;

	/* Each name that it ever had takes room. */
	if (number == UINT32_MAX || process->number == UINT32_MAX ||
	    !snap_log_has_room_for_thread(sink->log, process->number))
		return NULL;
	return snap_log_rename_thread(sink->log, number, thread->name);
}

/* ---- samples ---- */

/*
 * Within a tick, when it stands as it does: whether it ran since the one before. A stop of ours
 * makes it run, too: what it did besides between that and this tick is not known, and taken for
 * nothing.
 */
static void tell_run(struct snap_log_sink *sink, const struct snap_log_sink_process *process,
		     struct snap_log_sink_thread *entry, const struct snap_sampled_thread *thread)
{
	bool ran = entry->ran_ns != thread->ran_ns;

	entry->ran_ns = thread->ran_ns;
	if (ran && entry->number != UINT32_MAX && entry->stopped_tick + 1 != sink->tick &&
	    process->stood_tick + 1 != sink->tick)
		snap_log_ran(sink->log, entry->number);
}

static void on_stayed(void *context, struct snap_sampled_thread *thread)
{
	struct snap_log_sink *sink = context;

	tell_run(sink, thread->process->user, &sink->threads[thread->user], thread);
}

/* What it waited with until now, as the log numbers it + 1; 0: nothing. */
static uint32_t object_before(const struct snap_log_sink *sink,
			      const struct snap_log_sink_thread *entry)
{
	return sink->options->explain == SNAP_EXPLAIN_NO || entry->number == UINT32_MAX
		       ? 0
		       : snap_log_standing(sink->log, entry->number)->object;
}

/* It stood with `before`, and does so with `after` now (numbers + 1; 0: none). */
static struct stacksnap_error *stand_with(struct snap_log_sink *sink,
					  struct snap_log_sink_process *process, uint32_t before,
					  uint32_t after, const struct snap_memory_image *words)
{
	SNAP_TRY(snap_owner_watch_stand(&sink->holders, &process->held, before, after, words));
	return snap_peer_queries_stand(&sink->ends, before, after);
}

/* It stands otherwise from this tick on. `words` are those of its object; NULL: none are there. */
static struct stacksnap_error *keep_last_sample(struct snap_log_sink *sink,
						struct snap_log_sink_process *process,
						struct snap_log_sink_thread *entry,
						const struct snap_log_change *change,
						const struct snap_memory_image *words)
{
	bool sampled = change->stack != SNAP_LOG_GONE;
	uint32_t before = object_before(sink, entry);
	struct stacksnap_error *err = NULL;

	sink->sampled += sampled;
	sink->sampled -= entry->sampled;
	entry->sampled = sampled;
	sink->states[entry->state]--;
	entry->state = (enum snap_state)change->state;
	sink->states[entry->state]++;
	if (entry->number == UINT32_MAX)
		return NULL;
	if (before || change->object)
		err = stand_with(sink, process, before, change->object, words);
	return err ? err : snap_log_change(sink->log, change);
}

static struct stacksnap_error *on_log_died(void *context, struct snap_sampled_thread *thread)
{
	struct snap_log_sink *sink = context;
	struct snap_log_sink_process *process = thread->process->user;
	struct snap_log_sink_thread *entry = &sink->threads[thread->user];
	uint32_t before = object_before(sink, entry);
	struct stacksnap_error *err = NULL;

	if (before && process)
		err = stand_with(sink, process, before, 0, NULL);
	if (!err && entry->number != UINT32_MAX)
		err = snap_log_end_thread(sink->log, entry->number);
	sink->sampled -= entry->sampled;
	sink->states[entry->state]--;
	*entry = (struct snap_log_sink_thread){ .next_free = sink->first_free };
	sink->first_free = thread->user + 1;
	return err;
}

static int16_t syscall_of(const struct snap_process *process, const struct snap_thread *copy)
{
	struct snap_known_registers known;

	if (!snap_registers_of(process->arch, copy, &known) || known.call > INT16_MAX)
		return -1;
	return (int16_t)known.call;
}

/* Asks for a better copy, once in a tick for each reason: then what there is will have to do. */
static bool may_ask(struct snap_log_sink *sink, struct snap_log_sink_thread *entry,
		    enum snap_verdict verdict)
{
	if (entry->asked_tick != sink->tick)
		entry->asked = 0;
	entry->asked_tick = sink->tick;
	if (entry->asked & 1u << verdict)
		return false;
	entry->asked |= 1u << verdict;
	return true;
}

static enum snap_verdict judge_sample(struct snap_log_sink *sink,
				      struct snap_log_sink_thread *entry,
				      const struct snap_thread *copy, const struct snap_pcs *pcs)
{
	if (pcs->stale_mappings && may_ask(sink, entry, SNAP_VERDICT_STALE_MAPPINGS))
		return SNAP_VERDICT_STALE_MAPPINGS;
	if (copy->partial && copy->result == SNAP_THREAD_COPIED && pcs->needs_register &&
	    may_ask(sink, entry, SNAP_VERDICT_NEEDS_REGISTERS))
		return SNAP_VERDICT_NEEDS_REGISTERS;
	return SNAP_VERDICT_TAKEN;
}

/* The number of the copy's stack, unless the verdict is that it will not do. */
static struct stacksnap_error *stack_of_thread(struct snap_log_sink *sink,
					       struct snap_log_sink_thread *thread,
					       const struct snap_sampled_thread *seen,
					       uint32_t space, const struct snap_thread *copy,
					       enum snap_verdict *verdict_ret, uint32_t *ret)
{
	struct snap_thread known = *copy;
	const struct snap_remote_managed *managed;
	struct snap_log_pcs stack;
	struct snap_pcs pcs = { 0 };
	struct stacksnap_error *err = NULL;

	/* What could not be stopped (a wait for a disk) may yet show some frames. */
	if (known.result == SNAP_THREAD_NOT_STOPPED && known.registers_size)
		known.result = SNAP_THREAD_COPIED;
	SNAP_TRY(snap_remote_unwind(sink->unwinder, space, &sink->log->capture->processes[space],
				    &known, &pcs));
	managed = snap_remote_unwinder_managed(sink->unwinder);
	*verdict_ret = judge_sample(sink, thread, copy, &pcs);
	if (*verdict_ret != SNAP_VERDICT_TAKEN)
		return NULL;
	stack = (struct snap_log_pcs){
		.bits = pcs.count ? &pcs.pcs->bits : NULL,
		.count = pcs.count,
		.end = pcs.end,
		.end_pc = pcs.end_pc,
		.reason = seen->left_out && pcs.end == SNAP_UNWIND_NOT_STOPPED
				  ? "to keep within --max-stopped"
				  : pcs.reason,
		.gap_after = pcs.gap_after,
		.gap_count = pcs.gap_count,
		.managed = managed->frames,
		.managed_count = managed->frame_count,
		.shows_all = managed->shows_all,
		.labels = managed->labels,
		.label_count = managed->label_count,
	};
	err = snap_log_stack(sink->log, space, &stack, ret);
	if (!err && sink->log->stacks[*ret].frame_count < stack.count)
		snap_trace(sink->options->trace, copy->tid, SNAP_TRACE_RECORDED, NULL);
	return err;
}

/* What it waits with, in `change`; its futex bytes. */
static struct stacksnap_error *find_log_object(struct snap_log_sink *sink,
					       const struct snap_sampled_thread *thread,
					       const struct snap_thread *copy,
					       struct snap_log_change *change,
					       const struct snap_memory_image **words_ret)
{
	struct snap_log_sink_process *process = thread->process->user;
	struct snap_taken_object *taken = &sink->taken;
	struct stacksnap_error *err;

	*words_ret = NULL;
	if (sink->options->explain == SNAP_EXPLAIN_NO || change->stack == SNAP_LOG_GONE ||
	    change->thread == UINT32_MAX || process->space == UINT32_MAX || process->unmapped ||
	    !snap_object_take(thread, copy, process->space, taken))
		return NULL;
	if (taken->words.piece_count)
		*words_ret = &taken->words;
	err = snap_socket_queries_note(&sink->sockets, &process->sockets, thread->process,
				       process->space, taken->descriptors,
				       taken->object.descriptor_count);
	return err ? err
		   : snap_log_find_object(sink->log, &taken->object, *words_ret, &change->object);
}

static struct stacksnap_error *on_log_sample(void *context, struct snap_sampled_thread *thread,
					     const struct snap_thread *copy,
					     enum snap_verdict *verdict_ret)
{
	struct snap_log_sink *sink = context;
	struct snap_log_sink_process *process = thread->process->user;
	struct snap_log_sink_thread *entry = &sink->threads[thread->user];
	const struct snap_memory_image *words;
	struct snap_log_change change = { .stack = SNAP_LOG_GONE, .syscall = -1 };
	enum snap_state state = snap_state_of_letter(copy->state);
	enum snap_verdict verdict = SNAP_VERDICT_TAKEN;
	bool wanted = !sink->options->cpu_only || state == SNAP_STATE_RUNNING;
	struct stacksnap_error *err = NULL;

	if (process->frozen && state == SNAP_STATE_SLEEPING)
		state = SNAP_STATE_FROZEN;
	if (wanted && entry->number == UINT32_MAX) {
		/* It counts, and stands nowhere. */
		change.stack = 0;
	} else if (wanted && process->space != UINT32_MAX) {
		err = process->unmapped
			      ? snap_log_other_stack(sink->log, process->space, &change.stack)
			      : stack_of_thread(sink, entry, thread, process->space, copy, &verdict,
						&change.stack);
		change.syscall = syscall_of(thread->process->facts, copy);
	}
	if (err)
		return err;
	*verdict_ret = verdict;
	if (verdict != SNAP_VERDICT_TAKEN)
		return NULL;
	change.thread = entry->number; /* not looked at where there is none */
	change.state = (uint8_t)state;
	change.taken = (uint8_t)copy->taken;
	SNAP_TRY(find_log_object(sink, thread, copy, &change, &words));
	SNAP_TRY(keep_last_sample(sink, process, entry, &change, words));
	tell_run(sink, process, entry, thread);
	if (copy->taken == SNAP_TAKEN_ALONE && copy->result == SNAP_THREAD_COPIED)
		entry->stopped_tick = sink->tick;
	return NULL;
}

struct stacksnap_error *snap_log_sink_read_owners(struct snap_log_sink *sink,
						  struct snap_sampler *sampler)
{
	if (sink->options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	return snap_owner_watch_read(&sink->holders, sampler)
		       ?: snap_peer_queries_work(&sink->ends);
}

struct stacksnap_error *snap_log_sink_look_at_sockets(struct snap_log_sink *sink, bool is_last)
{
	return snap_socket_queries_work(&sink->sockets, is_last);
}

/* ---- tasks ---- */

/* The process whose turn it is; NULL: none. */
static struct snap_log_sink_process *find_due(struct snap_log_sink *sink, int64_t now)
{
	struct snap_log_sink_process *first = NULL;

	for (struct snap_log_sink_process *p = sink->processes; p; p = p->next)
		if (p->planned.task_plan && p->planned.process && p->number != UINT32_MAX &&
		    p->space != UINT32_MAX && !p->unmapped && p->tasks.due_ns <= now &&
		    (!first || p->tasks.due_ns < first->tasks.due_ns))
			first = p;
	return first;
}

struct stacksnap_error *snap_log_sink_look_at_tasks(struct snap_log_sink *sink,
						    struct snap_sampler *sampler,
						    int64_t *stopped_ret)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_log_sink_process *due;
	struct stacksnap_error *err;

	*stopped_ret = 0;
	if (sink->failure)
		return snap_take_ptr(sink->failure);
	if (!sink->options->task_millihertz || sink->options->cpu_only || now < sink->looks.walk_ns)
		return NULL;
	due = find_due(sink, now);
	if (!due) {
		sink->looks.walk_ns = now + WALK_NS;
		return NULL;
	}
	err = snap_tasks_look(&sink->looks, sampler,
			      &(struct snap_task_owner){ .list = &due->tasks,
							 .process = due->planned.process,
							 .plan = due->planned.task_plan,
							 .number = due->number,
							 .space = due->space },
			      stopped_ret);
	if (*stopped_ret)
		due->stood_tick = sink->tick;
	return err;
}

struct snap_sampler_sink snap_log_sink_callbacks(struct snap_log_sink *sink)
{
	return (struct snap_sampler_sink){
		.context = sink,
		.program = on_log_program,
		.mapped = on_log_mapped,
		.ended = on_log_ended,
		.born = on_log_born,
		.renamed = on_log_renamed,
		.died = on_log_died,
		.sample = on_log_sample,
		.stayed = on_stayed,
	};
}
