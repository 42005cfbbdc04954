/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sampler on the threads of live victims: who is kept, who is stopped, who comes and goes. */
#include "reading.h"
#include "sampler_bed.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

enum { SLEEPERS = 4, CROWD = 100 };

static volatile bool spinning = true;

static void *spin(void *unused)
{
	prctl(PR_SET_NAME, "spinner");
	__atomic_add_fetch(&in_position, 1, __ATOMIC_SEQ_CST);
	while (spinning)
		;
	return unused;
}

/* Blocks for as long as the pipe is quiet; each byte makes it run once. */
static void *wait_in_pipe(void *argument)
{
	const int *fds = argument;
	char byte;

	prctl(PR_SET_NAME, "reader");
	while (read(fds[0], &byte, 1) == 1)
		;
	return NULL;
}

static bool is_in(pid_t tid, char letter)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_stat stat;

	assert_null(snap_procfs_open(NULL, &procfs));
	assert_int_equal(snap_procfs_task_stat(procfs.root_fd, tid, &stat), 0);
	return stat.state == letter;
}

/* Answers how often a call was interrupted. */
static void sleepers(int commands, int answers)
{
	for (int i = 0; i < SLEEPERS; i++)
		start_thread(wait_in_epoll, NULL);
	while (in_position < SLEEPERS)
		sched_yield();
	answer(answers, getpid());
	while (command(commands))
		answer(answers, interrupted);
}

static void test_sleepers_are_kept(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	unsigned calls;

	victim_start(&victim, sleepers);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	bed_start(bed, victim.pid);
	settle(bed);
	assert_int_equal(bed->tick.threads, SLEEPERS + 1);
	assert_int_equal(bed_living(bed), SLEEPERS + 1);
	assert_true(bed_process(bed, victim.pid)->maps > 5);
	assert_true(bed_process(bed, victim.pid)->pieces > 1);
	calls = bed->sample_calls;
	for (unsigned i = 0; i < 200; i++) {
		bed_tick(bed);
		assert_int_equal(bed->tick.kept, SLEEPERS + 1);
		assert_int_equal(bed->tick.stopped_ns, 0);
	}
	assert_int_equal(bed->sample_calls, calls);
	for (size_t i = 0; i < bed->thread_count; i++) {
		assert_int_equal(bed->threads[i].alone, 0);
		assert_true(bed->threads[i].unstopped > 0);
		assert_true(bed->threads[i].stack_bytes > SNAP_STACK_MARGIN);
		assert_int_equal(bed->threads[i].state, 'S');
	}
	tell(&victim);
	assert_int_equal(wait_answer(&victim), 0);
	victim_end(&victim);
	bed_end(bed);
}

/* Stopped once; then it waits where it waited, and is not stopped again. */
static void test_registers_are_asked_for_once(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	unsigned alone = 0;

	victim_start(&victim, sleepers);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	bed_options(bed, victim.pid);
	bed->of_partial = SNAP_VERDICT_NEEDS_REGISTERS;
	bed_open(bed);
	settle(bed);
	for (size_t i = 0; i < bed->thread_count; i++) {
		assert_true(bed->threads[i].alone > 0);
		alone += bed->threads[i].alone;
	}
	for (unsigned i = 0; i < 50; i++)
		bed_tick(bed);
	for (size_t i = 0; i < bed->thread_count; i++)
		alone -= bed->threads[i].alone;
	assert_int_equal(alone, 0);
	tell(&victim);
	/* The stop shows in the calls: so the count of the test before means something. */
	assert_true(wait_answer(&victim) >= SLEEPERS);
	victim_end(&victim);
	bed_end(bed);
}

static void spinner_and_sleeper(int commands, int answers)
{
	start_thread(spin, NULL);
	start_thread(wait_in_epoll, NULL);
	while (in_position < 2)
		sched_yield();
	answer(answers, getpid());
	while (command(commands))
		;
}

static void test_running_threads_are_stopped_alone(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct bed_thread *spinner, *poller;

	victim_start(&victim, spinner_and_sleeper);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 1);
	bed_start(bed, victim.pid);
	bed_until(bed, bed_named(bed, "spinner") && bed_named(bed, "spinner")->alone >= 20);
	spinner = bed_named(bed, "spinner");
	poller = bed_named(bed, "poller");
	assert_int_equal(spinner->state, 'R');
	assert_int_equal(spinner->unstopped, 0);
	assert_true(spinner->stack_bytes > 0);
	assert_non_null(poller);
	assert_int_equal(poller->alone, 0);
	assert_int_equal(poller->unstopped, 1);
	assert_true(bed->tick.running >= 1);
	assert_true(bed->tick.run_ns > 0);
	victim_end(&victim);
	bed_end(bed);
}

static void test_cpu_mode_leaves_the_blocked_alone(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct bed_thread *poller;

	victim_start(&victim, spinner_and_sleeper);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 1);
	bed_options(bed, victim.pid);
	bed->options.cpu_only = true;
	bed_open(bed);
	bed_until(bed, bed_named(bed, "spinner") && bed_named(bed, "spinner")->alone >= 20);
	poller = bed_named(bed, "poller");
	assert_non_null(poller);
	assert_int_equal(poller->copies, 0);
	assert_int_equal(poller->samples, 1);
	assert_int_equal(poller->missed, 1);
	assert_int_equal(poller->state, 'S');
	victim_end(&victim);
	bed_end(bed);
}

/* A thread more with each command, named after its birth; at the next it leaves. */
static void come_and_go(int commands, int answers)
{
	int fds[2];

	if (pipe(fds))
		_exit(4);
	answer(answers, getpid());
	while (command(commands)) {
		pthread_t thread = start_thread(wait_in_pipe, fds);

		answer(answers, 1);
		if (!command(commands))
			break;
		close(fds[1]);
		pthread_join(thread, NULL);
		if (pipe(fds))
			_exit(4);
		answer(answers, 2);
	}
}

static void test_threads_come_and_go(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	victim_start(&victim, come_and_go);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	assert_int_equal(bed_living(bed), 1);
	for (unsigned i = 0; i < 3; i++) {
		tell(&victim);
		wait_answer(&victim);
		bed_until(bed, bed_living(bed) == 2 && bed_named(bed, "reader") &&
				       bed_named(bed, "reader")->alive);
		bed_until(bed, bed_named(bed, "reader")->copies > 0);
		tell(&victim);
		wait_answer(&victim);
		bed_until(bed, bed_living(bed) == 1);
	}
	assert_int_equal(bed->thread_count, 4);
	victim_end(&victim);
	bed_until(bed, bed->tick.no_targets);
	assert_false(bed->processes[0].alive);
	assert_int_equal(bed_living(bed), 0);
	bed_end(bed);
}

/* What happens between the two looks at the counters is up to the test. */
struct between {
	struct victim *victim;
	uint64_t end;
};

static uint64_t let_it_run(void *context, uint64_t sp)
{
	struct between *between = context;

	(void)sp;
	if (between->victim) {
		tell(between->victim);
		wait_answer(between->victim);
		while (!is_in(between->victim->pid, 'S'))
			sched_yield();
	}
	return between->end;
}

static void test_copy_of_a_thread_that_ran_is_not_believed(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct snap_sampler_thread *thread;
	struct between between = { 0 };
	struct reading reading = { .start = 0 };
	struct snap_thread copy = { 0 };
	struct snap_blocked_copy blocked = { .stack_end = let_it_run, .context = &between };
	enum snap_arch arch;

	victim_start(&victim, answers_commands);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	thread = bed->sampler->guards[0].thread;
	blocked.guard = bed->sampler->guard_kind;
	blocked.guard_fd = bed->sampler->guards[0].guard_fd;
	reading.reader = bed->sampler->reader;
	reading.target = snap_sampler_reader_target(bed->sampler, thread->process, thread);
	reading.most = bed->options.max_stack;
	blocked.source = reading_source(&reading);
	blocked.bytes = bed->sampler->stack;
	blocked.size = bed->options.max_stack;
	between.end = thread->stack_end;
	assert_int_equal(snap_guard_read(blocked.guard, blocked.guard_fd, &blocked.counters), 0);
	assert_int_equal(snap_copy_blocked(&blocked, &copy, &arch), SNAP_COPY_DONE);
	between.victim = &victim;
	assert_int_equal(snap_copy_blocked(&blocked, &copy, &arch), SNAP_COPY_MOVED);
	victim_end(&victim);
	bed_end(bed);
}

static void many_sleepers(int commands, int answers)
{
	for (int i = 0; i < 100; i++)
		start_thread(wait_in_epoll, NULL);
	while (in_position < 100)
		sched_yield();
	answer(answers, getpid());
	while (command(commands))
		answer(answers, interrupted);
}

static void test_few_descriptors_suffice(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct rlimit before, few;
	size_t without = open_descriptors();

	victim_start(&victim, many_sleepers);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = without + 80;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	bed_start(bed, victim.pid);
	settle(bed);
	assert_int_equal(bed->tick.threads, 101);
	assert_true(open_descriptors() < few.rlim_cur);
	for (unsigned i = 0; i < 5; i++) {
		bed_tick(bed);
		assert_int_equal(bed->tick.kept, 101);
	}
	tell(&victim);
	assert_int_equal(wait_answer(&victim), 0);
	bed_end(bed);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	victim_end(&victim);
	assert_int_equal(open_descriptors(), without);
}

static void maps_more(int commands, int answers)
{
	answer(answers, getpid());
	while (command(commands)) {
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		answer(answers, 1);
	}
}

static void test_old_mappings_are_read_again(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct bed_process *process;
	unsigned copies, mapped;

	victim_start(&victim, maps_more);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	process = bed_process(bed, victim.pid);
	copies = bed_thread(bed, victim.pid)->copies;
	mapped = process->mapped;
	tell(&victim);
	wait_answer(&victim);
	bed->stale = true;
	bed->sampler->guards[0].thread->stack_hash = 0;
	bed->sampler->processes[0]->map_after_ns = 0;
	bed_until(bed, process->mapped == mapped + 1);
	/* Shown again at once, and taken. */
	assert_false(bed->stale);
	assert_int_equal(bed_thread(bed, victim.pid)->copies, copies + 1);
	victim_end(&victim);
	bed_end(bed);
}

static bool were_stopped(const struct bed *bed, unsigned times)
{
	for (size_t i = 0; i < bed->thread_count; i++)
		if (bed->threads[i].alive && bed->threads[i].alone < times)
			return false;
	return bed->tick.threads > 0;
}

static void test_other_guards_hold_too(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	victim_start(&victim, sleepers);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	bed_options(bed, victim.pid);
	bed_open(bed);
	bed->sampler->guard_kind = SNAP_GUARD_SWITCHES;
	settle(bed);
	for (unsigned i = 0; i < 20; i++)
		bed_tick(bed);
	assert_int_equal(bed->tick.kept, SLEEPERS + 1);
	tell(&victim);
	assert_int_equal(wait_answer(&victim), 0);
	bed_end(bed);
	/* Without any counters all must be stopped, and again some seconds later. */
	bed_options(bed, victim.pid);
	bed_open(bed);
	bed->sampler->guard_kind = SNAP_GUARD_NONE;
	bed_until(bed, were_stopped(bed, 1));
	for (size_t i = 0; i < bed->thread_count; i++)
		assert_true(!bed->threads[i].alive || !bed->threads[i].unstopped);
	bed_until(bed, were_stopped(bed, 2));
	victim_end(&victim);
	bed_end(bed);
}

/* Somebody else's tracer; it ends when its pipe is closed. */
static void trace_spinner(int commands, int answers)
{
	pid_t tid = 0;

	if (read(commands, &tid, sizeof(tid)) != (ssize_t)sizeof(tid))
		_exit(4);
	answer(answers, ptrace(PTRACE_SEIZE, tid, 0, 0) ? -errno : 0);
	wait_for_end(commands);
}

static void test_already_traced(void **state)
{
	struct victim victim, tracer;
	struct bed *bed = *state;
	struct bed_thread *spinner;
	unsigned alone;
	pid_t tid;

	victim_start(&victim, spinner_and_sleeper);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 1);
	bed_start(bed, victim.pid);
	bed_until(bed, bed_named(bed, "spinner") && bed_named(bed, "spinner")->alone > 2);
	spinner = bed_named(bed, "spinner");
	victim_start(&tracer, trace_spinner);
	tid = spinner->tid;
	assert_int_equal(write(tracer.commands, &tid, sizeof(tid)), sizeof(tid));
	assert_int_equal(wait_answer(&tracer), 0);
	bed_until(bed, bed_process(bed, victim.pid)->trouble == SNAP_TROUBLE_ALREADY_TRACED);
	assert_true(spinner->missed > 0);
	assert_false(bed->tick.refused);
	assert_true(bed_named(bed, "poller")->alive);
	victim_end(&tracer);
	alone = spinner->alone;
	bed_until(bed, spinner->alone > alone);
	assert_int_equal(bed_process(bed, victim.pid)->trouble, SNAP_TROUBLE_NONE);
	victim_end(&victim);
	bed_end(bed);
}

static void test_stopped_processes_stay_stopped(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	int status;

	victim_start(&victim, sleepers);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	assert_int_equal(kill(victim.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED), victim.pid);
	assert_true(WIFSTOPPED(status));
	bed_options(bed, victim.pid);
	bed->of_partial = SNAP_VERDICT_NEEDS_REGISTERS;
	bed_open(bed);
	settle(bed);
	for (size_t i = 0; i < bed->thread_count; i++)
		assert_int_equal(bed->threads[i].state, 'T');
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED | WCONTINUED | WNOHANG), 0);
	for (size_t i = 0; i < bed->thread_count; i++)
		assert_true(is_in(bed->threads[i].tid, 'T'));
	kill(victim.pid, SIGCONT);
	bed_until(bed, bed_thread(bed, victim.pid)->state == 'S');
	victim_end(&victim);
	bed_end(bed);
}

static void *rename_itself(void *argument)
{
	const int *fds = argument;
	char byte;

	prctl(PR_SET_NAME, "before");
	while (read(fds[0], &byte, 1) == 1)
		prctl(PR_SET_NAME, "after");
	return NULL;
}

static void has_a_thread_that_is_renamed(int commands, int answers)
{
	int fds[2];

	if (pipe(fds))
		_exit(4);
	start_thread(rename_itself, fds);
	answer(answers, getpid());
	while (command(commands))
		if (write(fds[1], "x", 1) != 1)
			_exit(4);
}

static void test_names_of_threads_change(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	victim_start(&victim, has_a_thread_that_is_renamed);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	bed_until(bed, bed_named(bed, "before"));
	tell(&victim);
	bed_until(bed, bed_named(bed, "after"));
	assert_int_equal(bed_living(bed), 2);
	victim_end(&victim);
	bed_end(bed);
}

/* A process of many threads, and its child, whose pid it answers. */
static void crowd_with_child(int commands, int answers)
{
	pid_t child = child_that_waits(commands);

	for (int i = 0; i < CROWD; i++)
		start_thread(wait_in_epoll, NULL);
	while (in_position < CROWD)
		sched_yield();
	answer(answers, child);
	wait_for_end(commands);
}

/* Nobody waits for all threads of another process: there may be no time for those. */
static void test_new_threads_take_turns(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct bed_thread *only;
	pid_t child;

	victim_start(&victim, crowd_with_child);
	child = wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	wait_until_asleep(child, 0);
	bed_start(bed, victim.pid);
	bed_tick(bed);
	only = bed_thread(bed, child);
	assert_non_null(only);
	assert_in_range(only->first, 1, 2);
	settle(bed);
	assert_int_equal(bed->tick.threads, CROWD + 2);
	bed_end(bed);
	victim_end(&victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bed_test(test_sleepers_are_kept),
		bed_test(test_registers_are_asked_for_once),
		bed_test(test_running_threads_are_stopped_alone),
		bed_test(test_cpu_mode_leaves_the_blocked_alone),
		bed_test(test_threads_come_and_go),
		bed_test(test_copy_of_a_thread_that_ran_is_not_believed),
		bed_test(test_few_descriptors_suffice),
		bed_test(test_old_mappings_are_read_again),
		bed_test(test_other_guards_hold_too),
		bed_test(test_already_traced),
		bed_test(test_stopped_processes_stay_stopped),
		bed_test(test_names_of_threads_change),
		bed_test(test_new_threads_take_turns),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
