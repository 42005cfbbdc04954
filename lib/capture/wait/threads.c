/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that are asked for their call: those that were not copied, and those whose descriptors
 * were looked at, as the answer is worth something only where they still wait. The name of the
 * kernel's function where a thread sleeps (wchan) tells more where there is no call, or where a
 * file system may not answer.
 */
#include "base/clock.h"
#include "capture/wait/resolver.h"
#include "model/arch/registers.h"

#include <stdio.h>
#include <string.h>

enum {
	CALL_TEXT = 256,
	WCHAN_TEXT = 64,
	GUARD_TEXT = 96,
	/*
	 * A thread that has just been let go is on its way back into its wait, and asked meanwhile
	 * it runs. That takes it microseconds, once it has a processor, for which it may have to
	 * wait: on a busy machine far longer. So the shorter time is counted from when it got one,
	 * and all that is asked again is asked within the longer one.
	 */
	PATIENCE_NS = 10000000,
	MOST_PATIENCE_NS = 100000000,
	AGAIN_NS = 200000,
};

struct question {
	pid_t pid, tid;
	bool call, wchan; /* what is asked */
	int32_t ended;    /* the call that the stop has ended, -1: none */
	bool known, running;
	struct snap_syscall_line place;
	char function[WCHAN_TEXT];
};

struct questions {
	const struct snap_wait_memory *memory;
	int64_t begin_ns;
	struct question *list;
};

/* ---- in a worker ---- */

/* False: the thread runs. */
static bool ask_call(const struct questions *questions, struct question *question)
{
	char name[SNAP_WAIT_NAME], text[CALL_TEXT];
	ssize_t length;

	snprintf(name, sizeof(name), "%d/task/%d/syscall", (int)question->pid, (int)question->tid);
	length = snap_procfs_read(questions->memory->root_fd, name, text, sizeof(text));
	question->known = length > 0 && snap_parse_syscall(text, (size_t)length, &question->place);
	return !question->known || !question->place.running;
}

/* False: the thread runs, or the kernel does not tell ("0"). */
static bool ask_function(const struct questions *questions, struct question *question)
{
	char name[SNAP_WAIT_NAME];
	ssize_t length;

	snprintf(name, sizeof(name), "%d/task/%d/wchan", (int)question->pid, (int)question->tid);
	length = snap_procfs_read(questions->memory->root_fd, name, question->function,
				  sizeof(question->function));
	if (length <= 0)
		question->function[0] = '\0';
	return strcmp(question->function, "0") != 0;
}

/*
 * What the kernel counts of its runs: as long as it is the same, the thread has not had a
 * processor. Empty: that is not known.
 */
static void read_runs(const struct questions *questions, const struct question *question,
		      char *text, size_t size)
{
	char name[SNAP_WAIT_NAME];
	ssize_t length;

	snprintf(name, sizeof(name), "%d/task/%d/schedstat", (int)question->pid,
		 (int)question->tid);
	length = snap_procfs_read(questions->memory->root_fd, name, text, size);
	/* A kernel that does not count. */
	if (length <= 0 || strcmp(text, "0 0 0") == 0)
		text[0] = '\0';
}

static void ask_thread(void *context, uint32_t item)
{
	static const struct timespec again = { .tv_nsec = AGAIN_NS };
	const struct questions *questions = context;
	struct question *question = &questions->list[item];
	int64_t until = questions->begin_ns + PATIENCE_NS;
	char before[GUARD_TEXT] = "", now[GUARD_TEXT];

	while ((question->call && !ask_call(questions, question)) ||
	       (question->wchan && !ask_function(questions, question))) {
		int64_t now_ns = snap_clock_ns(CLOCK_MONOTONIC);

		if (!before[0])
			read_runs(questions, question, before, sizeof(before));
		read_runs(questions, question, now, sizeof(now));
		if (now[0] && strcmp(before, now) == 0)
			until = now_ns + PATIENCE_NS;
		if (now_ns >= until || now_ns >= questions->begin_ns + MOST_PATIENCE_NS)
			return;
		nanosleep(&again, NULL);
	}
}

/* ---- the asking side ---- */

/* What is not done is as if it had not been asked. NULL: there is no memory, or no time. */
static struct questions *make_questions(struct snap_wait_resolver *resolver, size_t count)
{
	struct questions *questions =
		snap_wait_asker_new_array(resolver->asker, 1, struct questions);

	if (!questions)
		return NULL;
	questions->memory = resolver->asker->memory;
	questions->begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	questions->list = snap_wait_asker_new_array(resolver->asker, count, struct question);
	return questions->list ? questions : NULL;
}

static bool has_no_call(const struct snap_process *process, const struct snap_thread *thread)
{
	return snap_wait_is_alive(process, thread) && process->arch != SNAP_ARCH_UNKNOWN &&
	       !snap_wait_call_of(process->arch, thread).known;
}

/* Asleep without a call: in a page fault, most likely. And in D every thread is asked. */
static bool wants_wchan(const struct snap_process *process, const struct snap_thread *thread)
{
	const struct snap_wait_call_row *row;
	struct snap_thread_call call;

	if (thread->wchan || !snap_wait_is_alive(process, thread))
		return false;
	if (thread->state == 'D')
		return true;
	call = snap_wait_call_of(process->arch, thread);
	if (thread->state != 'S' || !call.known)
		return false;
	if (call.number < 0)
		return true;
	row = snap_wait_call_row(process->arch, call.number);
	/* On aarch64 the call may have ended long ago: see analyze/unwind/in_call.h. */
	if (row->call == SNAP_CALL_OTHER)
		return process->arch == SNAP_ARCH_AARCH64 && !thread->partial;
	return row->facts & SNAP_CALL_IN_FILES;
}

/* The number of the call that the stop has ended; -1: none. */
static int32_t ended_call(const struct snap_process *process, const struct snap_thread *thread)
{
	struct snap_known_registers known;

	return !thread->partial && snap_registers_of(process->arch, thread, &known) &&
			       known.interrupted
		       ? known.call
		       : -1;
}

static size_t count_silent(const struct snap_capture *capture, size_t most)
{
	size_t count = 0;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count && count < most; k++)
			count += has_no_call(process, &process->threads[k]) ||
				 wants_wchan(process, &process->threads[k]);
	}
	return count;
}

bool snap_wait_has_silent_threads(const struct snap_capture *capture)
{
	return count_silent(capture, 1) != 0;
}

static void take_call(struct snap_thread *thread, const struct question *question)
{
	if (!question->known || question->place.running)
		return;
	/* Most programs ask again for what a stop has ended; another call is of a later moment. */
	if (question->ended >= 0 && question->place.number != question->ended)
		return;
	thread->call = (struct snap_thread_call){
		.known = true,
		.number = question->place.number < 0 ? -1 : question->place.number,
		.sp = question->place.sp,
		.pc = question->place.pc,
	};
	memcpy(thread->call.arguments, question->place.arguments, sizeof(thread->call.arguments));
}

static struct stacksnap_error *take_thread_answer(struct snap_wait_resolver *resolver,
						  struct snap_thread *thread,
						  const struct question *question)
{
	if (question->call)
		take_call(thread, question);
	/* "0": it does not sleep, or the kernel does not tell. */
	if (!question->function[0] || strcmp(question->function, "0") == 0)
		return NULL;
	thread->wchan = snap_arena_strdup(&resolver->capture->arena, question->function);
	return thread->wchan ? NULL : snap_error_no_memory();
}

/*
 * One pass lists the questions, another one takes the answers: both see the threads as they were.
 */
static struct stacksnap_error *take_answers(struct snap_wait_resolver *resolver,
					    const struct questions *questions,
					    struct snap_thread *const *threads,
					    const uint8_t *marks, size_t count)
{
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; marks && i < count && !err; i++)
		if (marks[i] == SNAP_ITEM_DONE)
			err = take_thread_answer(resolver, threads[i], &questions->list[i]);
	return err;
}

struct stacksnap_error *snap_wait_ask_threads(struct snap_wait_resolver *resolver)
{
	struct snap_capture *capture = resolver->capture;
	size_t count = count_silent(capture, SIZE_MAX), found = 0;
	struct questions *questions = count ? make_questions(resolver, count) : NULL;
	_cleanup_free_ struct snap_thread **threads =
		calloc(count + 1, sizeof(struct snap_thread *));

	if (!count)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(questions && threads));
	for (size_t i = 0; i < capture->process_count; i++) {
		struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count && found < count; k++) {
			struct snap_thread *thread = &process->threads[k];
			struct question question = { .pid = process->pid,
						     .tid = thread->tid,
						     .call = has_no_call(process, thread),
						     .ended = ended_call(process, thread),
						     .wchan = wants_wchan(process, thread) };

			question.wchan |= question.call && !thread->wchan && thread->state == 'S';
			if (!question.call && !question.wchan)
				continue;
			threads[found] = thread;
			questions->list[found++] = question;
		}
	}
	return take_answers(resolver, questions, threads,
			    snap_wait_asker_run(resolver->asker, ask_thread, questions, found,
						resolver->until_ns),
			    found);
}

/* After a stop some calls go on as restart_syscall, with their arguments. */
static bool is_same_call(const struct snap_thread_call *before, const struct question *question,
			 const struct snap_wait_call_row *row)
{
	const struct snap_syscall_line *now = &question->place;
	const int64_t restart = 219; /* on x86-64 */

	if (!question->known || now->running || now->sp != before->sp || now->pc != before->pc)
		return false;
	if (now->number != before->number &&
	    !(row->facts & SNAP_CALL_RESTARTS && now->number == restart))
		return false;
	return memcmp(now->arguments, before->arguments, sizeof(now->arguments)) == 0;
}

struct stacksnap_error *snap_wait_confirm_callers(struct snap_wait_resolver *resolver)
{
	size_t count = resolver->caller_count;
	struct questions *questions = count ? make_questions(resolver, count) : NULL;
	const uint8_t *marks;

	if (!questions) {
		resolver->facts->lacks |= count ? SNAP_LACK_CUT : 0;
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		const struct snap_wait_caller *caller = &resolver->callers[i];
		const struct snap_process *process = snap_wait_process(resolver, caller->process);

		questions->list[i] = (struct question){ .pid = process->pid,
							.tid = process->threads[caller->thread].tid,
							.call = true };
	}
	marks = snap_wait_asker_run(resolver->asker, ask_thread, questions, count,
				    resolver->until_ns);
	for (size_t i = 0; marks && i < count; i++) {
		const struct snap_wait_caller *caller = &resolver->callers[i];
		struct snap_process *process = snap_wait_process(resolver, caller->process);

		if (marks[i] == SNAP_ITEM_DONE)
			process->threads[caller->thread].call_confirmed =
				is_same_call(&caller->call, &questions->list[i], caller->row);
	}
	return NULL;
}
