/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The client of a remote unwinder: see unwinder.h. This file knows which processes the parser has,
 * and decides which process to blame for a lost parser. call.c makes the calls, answer.c checks the
 * answers.
 */
#include "base/buffer.h"
#include "roles/process_message.h"
#include "roles/unwinder/internal.h"

#include "analyze/unwind/arch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	MAX_LEFT = 32 << 20,    /* bytes that a parser may keep of processes that were left */
	LEAST_SENT = 8 << 10,   /* bytes of a process, its mappings and pieces not counted */
	MAX_ENTERED = 48 << 20, /* of what a parser was sent of the processes that it has */
	/* A process, and a user, whose stacks cost so many parsers have none from then on. */
	LOSSES_OF_PROCESS = 4,
	LOSSES_OF_USER = 8,
	LATE = 2,            /* the weight of a late parser, in parsers that ended quickly */
	MOST_LOSSES = 64,    /* then no parser is made any more */
	SLOW_NS = 100000000, /* processor time: usually a stack takes microseconds */
	FORGIVEN = 10,
};

/* The slow stacks of a process may take so long, as all others wait meanwhile. */
static const int64_t MOST_SLOW_NS = 3000000000;

static const char LOST[] = "the unwinding process was lost";

struct stacksnap_error *snap_remote_unwinder_create(const struct snap_options *options,
						    const struct snap_broker *broker,
						    struct snap_remote_unwinder **ret)
{
	struct snap_remote_unwinder *unwinder = calloc(1, sizeof(*unwinder));

	SNAP_TRY(snap_no_memory_unless(unwinder));
	unwinder->options = options;
	unwinder->refusals.broker = *broker;
	unwinder->role = SNAP_ROLE_NONE;
	snap_arena_init(&unwinder->arena);
	snap_interner_init(&unwinder->reasons, &unwinder->arena);
	*ret = unwinder;
	return NULL;
}

void snap_remote_unwinder_destroy(struct snap_remote_unwinder *unwinder)
{
	if (!unwinder)
		return;
	snap_remote_end_parser(unwinder);
	snap_remote_unmap_exchange(unwinder);
	for (size_t i = 0; i < unwinder->process_count; i++)
		snap_remote_forget_frames(&unwinder->processes[i]);
	snap_remote_drop_tasks(unwinder);
	free(unwinder->placed);
	free(unwinder->text);
	snap_interner_deinit(&unwinder->reasons);
	snap_arena_deinit(&unwinder->arena);
	free(unwinder->processes);
	free(unwinder->users);
	free(unwinder->pcs);
	free(unwinder);
}

void snap_remote_unwinder_heed(struct snap_remote_unwinder *unwinder, _Atomic int64_t *asked_ns)
{
	unwinder->asked_ns = asked_ns;
}

const struct snap_remote_managed *
snap_remote_unwinder_managed(const struct snap_remote_unwinder *unwinder)
{
	return &unwinder->managed;
}

void snap_remote_unwinder_hurry(struct snap_remote_unwinder *unwinder, int64_t most_wait_ns)
{
	unwinder->most_wait_ns = most_wait_ns;
}

unsigned snap_remote_unwinder_losses(const struct snap_remote_unwinder *unwinder,
				     const char **why_ret)
{
	if (why_ret)
		*why_ret = unwinder->losses ? unwinder->why : NULL;
	return unwinder->losses;
}

/* ---- processes come and go ---- */

void snap_remote_unwinder_leave(struct snap_remote_unwinder *unwinder, uint32_t number)
{
	if (number >= unwinder->process_count)
		return;
	unwinder->processes[number].losses = 0;
	if (!unwinder->processes[number].is_entered)
		return;
	unwinder->processes[number].is_entered = false;
	snap_remote_forget_frames(&unwinder->processes[number]);
	unwinder->has_left_any = true;
	if (unwinder->left_count == SNAP_EXCHANGE_LEFT)
		snap_remote_unwinder_reset(unwinder);
	else
		unwinder->left[unwinder->left_count++] = number;
}

void snap_remote_unwinder_reset(struct snap_remote_unwinder *unwinder)
{
	for (size_t i = 0; i < unwinder->process_count; i++) {
		snap_remote_forget_frames(&unwinder->processes[i]);
		unwinder->processes[i] = (struct snap_remote_process){ 0 };
	}
	/* Numbers may mean other processes from here on. */
	unwinder->refusals.count = 0;
	unwinder->left_count = 0;
	unwinder->has_left_any = false;
	unwinder->entered_bytes = 0;
	unwinder->resets = true;
}

/* The current parser begins anew; the costs of its processes stay known. */
static void forget_entered(struct snap_remote_unwinder *unwinder)
{
	for (size_t i = 0; i < unwinder->process_count; i++)
		unwinder->processes[i].is_entered = false;
	unwinder->left_count = 0;
	unwinder->has_left_any = false;
	unwinder->entered_bytes = 0;
	unwinder->resets = true;
}

void snap_remote_unwinder_tidy(struct snap_remote_unwinder *unwinder)
{
	if (!unwinder->exchange)
		return;
	snap_remote_trim_exchange(unwinder);
	snap_remote_check_parser(unwinder);
	/* If no process was left, the value is false: all would be sent again at every tick. */
	if (unwinder->has_left_any && atomic_load(&unwinder->exchange->left_bytes) > MAX_LEFT)
		snap_remote_unwinder_reset(unwinder);
}

static struct stacksnap_error *reserve_spaces(struct snap_remote_unwinder *unwinder, size_t count)
{
	size_t capacity = unwinder->process_count ? unwinder->process_count : 16;
	struct snap_remote_process *grown;

	if (count <= unwinder->process_count)
		return NULL;
	while (capacity < count)
		capacity *= 2;
	grown = realloc(unwinder->processes, capacity * sizeof(*grown));
	SNAP_TRY(snap_no_memory_unless(grown));
	memset(grown + unwinder->process_count, 0,
	       (capacity - unwinder->process_count) * sizeof(*grown));
	unwinder->processes = grown;
	unwinder->process_count = capacity;
	return NULL;
}

/* ---- users ---- */

static struct stacksnap_error *find_user(struct snap_remote_unwinder *unwinder, uid_t uid,
					 struct snap_remote_user **ret)
{
	for (size_t i = 0; i < unwinder->user_count; i++) {
		*ret = &unwinder->users[i];
		if (unwinder->users[i].uid == uid)
			return NULL;
	}
	if (!snap_reserve_array(unwinder->users, unwinder->user_capacity, unwinder->user_count + 1))
		return snap_error_no_memory();
	*ret = &unwinder->users[unwinder->user_count++];
	**ret = (struct snap_remote_user){ .uid = uid };
	return NULL;
}

/* ---- the end of a parser ---- */

static void tell_end(struct snap_remote_unwinder *unwinder, int status)
{
	char *why = unwinder->why;
	size_t capacity = sizeof(unwinder->why);

	if (status != -1 && WIFSIGNALED(status))
		snprintf(why, capacity, "the parser was killed by signal %d", WTERMSIG(status));
	else if (status != -1 && WEXITSTATUS(status))
		snprintf(why, capacity, "the parser exited with status %d", WEXITSTATUS(status));
	else
		snprintf(why, capacity, "the parser exited early");
}

static void count_loss(struct snap_remote_unwinder *unwinder, uint32_t number,
		       struct snap_remote_user *user, unsigned weight)
{
	if (unwinder->processes[number].losses < LOSSES_OF_PROCESS)
		unwinder->processes[number].losses += weight;
	user->losses += weight;
	unwinder->losses++;
}

/*
 * Each stack of a process may take a little less than the limit; then all of them together take the
 * time of all other processes. `before_ns`: processor time of the parser before the call; -1:
 * unknown, as the parser was new.
 */
static void count_time(struct snap_remote_unwinder *unwinder, uint32_t number,
		       struct snap_remote_user *user, int64_t before_ns)
{
	struct snap_remote_process *process = &unwinder->processes[number];
	int64_t spent = unwinder->used_ns - before_ns;

	if (before_ns < 0 || spent < SLOW_NS)
		return;
	process->slow_ns -= (unwinder->answered_ns - process->slow_at) / FORGIVEN;
	process->slow_ns = (process->slow_ns > 0 ? process->slow_ns : 0) + spent;
	process->slow_at = unwinder->answered_ns;
	if (process->slow_ns < MOST_SLOW_NS)
		return;
	process->slow_ns = 0;
	count_loss(unwinder, number, user, LATE);
	process->losses = LOSSES_OF_PROCESS;
	snprintf(unwinder->why, sizeof(unwinder->why),
		 "the parser took too long over the stacks of a process");
}

/* The parser may have ended with the thread that made it: no process is to blame. */
static bool ended_with_maker(const struct snap_remote_unwinder *unwinder, int status)
{
	return unwinder->maker != gettid() && status != -1 && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGKILL;
}

/*
 * The next parser does without the file that the lost one was reading. The lost parser named that
 * file itself, so a file of another user's process is not refused on its word.
 */
static void refuse_file(struct snap_remote_unwinder *unwinder, const struct snap_remote_user *user)
{
	uint64_t file_id = *(volatile uint64_t *)&unwinder->exchange->file_id;
	uint64_t process = (file_id - 1) >> 32;

	if (file_id && process < unwinder->process_count &&
	    unwinder->processes[process].uid == user->uid)
		snap_refuse_file(&unwinder->refusals, file_id,
				 SNAP_ARRAY_SIZE(unwinder->refusals.files));
}

/* LEFT: the call may be made again. */
static enum snap_call_result lose(struct snap_remote_unwinder *unwinder, uint32_t number,
				  struct snap_remote_user *user, enum snap_call_result result)
{
	int status = snap_remote_end_parser(unwinder);

	switch (result) {
	case SNAP_CALL_NONSENSE:
		snprintf(unwinder->why, sizeof(unwinder->why), "the parser gave an invalid answer");
		break;
	case SNAP_CALL_LATE:
		snprintf(unwinder->why, sizeof(unwinder->why),
			 "the parser took too long over a stack");
		unwinder->late++;
		break;
	case SNAP_CALL_DIED:
		if (ended_with_maker(unwinder, status))
			return SNAP_CALL_LEFT;
		tell_end(unwinder, status);
		break;
	case SNAP_CALL_ANSWERED:
	case SNAP_CALL_LEFT:
	case SNAP_CALL_CANCELLED:
		return result;
	}
	/* SIGKILL comes from another process, or from us. */
	if (result == SNAP_CALL_LATE || (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL))
		refuse_file(unwinder, user);
	count_loss(unwinder, number, user, result == SNAP_CALL_LATE ? LATE : 1);
	return result;
}

/* Returns the pc from the registers: that needs no files. */
static void give_pc(struct snap_remote_unwinder *unwinder, const struct snap_process *process,
		    const struct snap_thread *thread, struct snap_pcs *ret)
{
	const struct snap_arch_ops *arch = snap_arch_ops(process->arch);
	uint64_t registers[SNAP_MAX_DWARF_REGISTERS], pc;

	*ret = (struct snap_pcs){ .end = SNAP_UNWIND_FAILED, .reason = LOST, .is_lost = true };
	if (thread->result != SNAP_THREAD_COPIED || !thread->registers_size) {
		ret->end = SNAP_UNWIND_NOT_STOPPED;
		ret->reason = "the thread was not stopped";
		return;
	}
	if (!arch || !arch->registers(thread->registers, thread->registers_size, registers, &pc))
		return;
	if (!unwinder->pc_capacity && !snap_reserve_array(unwinder->pcs, unwinder->pc_capacity, 1))
		return;
	unwinder->pcs[0] = snap_pc_exact(pc);
	ret->pcs = unwinder->pcs;
	ret->count = 1;
}

/* ---- all together ---- */

static bool is_hopeless(const struct snap_remote_unwinder *unwinder, uint32_t number,
			const struct snap_remote_user *user)
{
	return unwinder->losses >= MOST_LOSSES || user->losses >= LOSSES_OF_USER ||
	       unwinder->processes[number].losses >= LOSSES_OF_PROCESS;
}

/* A call of this process failed: as bad as a loss, but with an errno to report. */
static enum snap_call_result fail_stack(struct snap_remote_unwinder *unwinder, uint32_t number,
					struct snap_remote_user *user, struct stacksnap_error *err)
{
	bool has_died = snap_error_errno(err) == EPIPE;

	snprintf(unwinder->why, sizeof(unwinder->why), "%s", snap_error_message(err));
	snap_error_destroy(err);
	if (has_died)
		return lose(unwinder, number, user, SNAP_CALL_DIED);
	snap_remote_end_parser(unwinder);
	count_loss(unwinder, number, user, 1);
	return SNAP_CALL_LATE;
}

/* About what a parser keeps of a process. */
static uint64_t sent_bytes(const struct snap_process *process)
{
	uint64_t bytes = LEAST_SENT + 2 * process->map_count * sizeof(*process->maps);

	for (size_t i = 0; i < process->piece_count; i++)
		bytes += process->pieces[i].size;
	return bytes;
}

static enum snap_call_result ask_unwinder(struct snap_remote_unwinder *unwinder, uint32_t number,
					  const struct snap_process *process,
					  const struct snap_remote_question *question,
					  struct snap_remote_user *user, struct snap_pcs *ret)
{
	struct snap_remote_process *known = &unwinder->processes[number];
	bool enters;
	enum snap_call_result result;
	struct stacksnap_error *err;
	int64_t before_ns;

	snap_remote_check_parser(unwinder);
	known->uid = user->uid;
	enters = !known->is_entered;
	if (enters && unwinder->entered_bytes > MAX_ENTERED)
		forget_entered(unwinder);
	if (enters) {
		unwinder->entered_bytes += sent_bytes(process);
		snap_remote_forget_frames(known);
	}
	err = snap_remote_make_parser(unwinder);
	if (!err && enters)
		err = snap_process_send(unwinder->role.channel, process);
	if (err)
		return fail_stack(unwinder, number, user, err);
	before_ns = unwinder->used_ns;
	result = snap_remote_call(unwinder, number, enters, question);
	known->is_entered = true;
	if (result == SNAP_CALL_ANSWERED &&
	    !(question->whole ? snap_remote_take_task_answer(unwinder, number)
			      : snap_remote_take_answer(unwinder, number, ret)))
		result = SNAP_CALL_NONSENSE;
	if (result != SNAP_CALL_ANSWERED)
		return lose(unwinder, number, user, result);
	count_time(unwinder, number, user, before_ns);
	return result;
}

/* *answered_ret: the answer has come, and makes sense. */
static struct stacksnap_error *answer_question(struct snap_remote_unwinder *unwinder,
					       uint32_t number, const struct snap_process *process,
					       const struct snap_remote_question *question,
					       struct snap_pcs *ret, bool *answered_ret)
{
	enum snap_call_result result = SNAP_CALL_DIED;
	struct snap_remote_user *user = NULL;

	if (number >= SNAP_MAX_PROCESSES)
		return snap_error_format(SNAP_ERROR_INVALID, "too many processes");
	SNAP_TRY(reserve_spaces(unwinder, (size_t)number + 1));
	SNAP_TRY(find_user(unwinder, process->uid, &user));
	if (snap_remote_is_cancelled(unwinder))
		return snap_error_cancelled();
	unwinder->managed = (struct snap_remote_managed){ 0 };
	if (!is_hopeless(unwinder, number, user))
		result = ask_unwinder(unwinder, number, process, question, user, ret);
	/* The parser had ended for lack of calls: another one is made, once. */
	if (result == SNAP_CALL_LEFT)
		result = ask_unwinder(unwinder, number, process, question, user, ret);
	if (result == SNAP_CALL_CANCELLED)
		return snap_error_cancelled();
	*answered_ret = result == SNAP_CALL_ANSWERED;
	return NULL;
}

struct stacksnap_error *snap_remote_unwind(struct snap_remote_unwinder *unwinder, uint32_t number,
					   const struct snap_process *process,
					   const struct snap_thread *thread, struct snap_pcs *ret)
{
	const struct snap_remote_question question = { .thread = thread };
	bool answered = false;

	SNAP_TRY(answer_question(unwinder, number, process, &question, ret, &answered));
	if (!answered) {
		unwinder->managed = (struct snap_remote_managed){ 0 };
		give_pc(unwinder, process, thread, ret);
	}
	snap_trace(unwinder->options->trace, thread->tid,
		   !answered             ? SNAP_TRACE_LOST
		   : ret->needs_register ? SNAP_TRACE_REGISTER
					 : SNAP_TRACE_UNWOUND,
		   (const uint64_t[]){ ret->count,
				       ret->count ? snap_pc_address(ret->pcs[ret->count - 1]) : 0,
				       ret->end });
	return NULL;
}

struct stacksnap_error *snap_remote_list_tasks(struct snap_remote_unwinder *unwinder,
					       uint32_t number, const struct snap_process *process,
					       const struct snap_process *whole,
					       const struct snap_remote_tasks **ret)
{
	const struct snap_remote_question question = { .whole = whole };
	bool answered = false;

	SNAP_TRY(answer_question(unwinder, number, process, &question, NULL, &answered));
	*ret = answered ? snap_remote_unwinder_task_answer(unwinder) : NULL;
	return NULL;
}
