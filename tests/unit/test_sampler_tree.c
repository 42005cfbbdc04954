/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sampler on trees of live victims: programs, children, pids and permissions that change. */
#include "sampler_bed.h"
#include "skip.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void wait_for_command_then_exec(int commands, int answers)
{
	start_thread(wait_in_epoll, NULL);
	while (in_position < 1)
		sched_yield();
	answer(answers, getpid());
	command(commands);
	execl("/bin/sleep", "sleep", "1000", (char *)NULL);
}

static void test_exec_is_another_program(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct bed_process *process;

	victim_start(&victim, wait_for_command_then_exec);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	assert_int_equal(bed_living(bed), 2);
	tell(&victim);
	bed_until(bed, bed_process(bed, victim.pid)->execs == 1 && bed_living(bed) == 1);
	process = bed_process(bed, victim.pid);
	assert_string_equal(process->name, "sleep");
	assert_true(process->maps > 5);
	assert_true(process->pieces > 1);
	assert_true(process->alive);
	assert_int_equal(bed->process_count, 1);
	/* The leader's number lives on, as another thread. */
	assert_int_equal(bed->thread_count, 3);
	assert_int_equal(bed_thread(bed, victim.pid)->pid, victim.pid);
	bed_until(bed, bed_thread(bed, victim.pid)->copies > 0);
	settle(bed);
	victim_end(&victim);
	bed_end(bed);
}

static bool sleeps_as(pid_t pid, const char *name)
{
	struct snap_procfs procfs;
	struct snap_stat stat = { .state = 0 };

	assert_null(snap_procfs_open(NULL, &procfs));
	assert_int_equal(snap_procfs_task_stat(procfs.root_fd, pid, &stat), 0);
	snap_procfs_close(&procfs);
	return stat.state == 'S' && !strcmp(stat.name, name);
}

/* The tick that finds out has a copy of it already. */
static void test_exec_is_followed_in_its_tick(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct bed_process *process;

	victim_start(&victim, wait_for_command_then_exec);
	wait_answer(&victim);
	bed_options(bed, victim.pid);
	/* What is new has half a period: on a busy machine 5 ms are none. */
	bed->options.hz = 1;
	bed_open(bed);
	settle(bed);
	tell(&victim);
	while (!sleeps_as(victim.pid, "sleep"))
		sched_yield();
	bed_tick(bed);
	process = bed_process(bed, victim.pid);
	assert_int_equal(process->execs, 1);
	assert_string_equal(process->name, "sleep");
	assert_int_equal(bed_living(bed), 1);
	assert_int_equal(bed_thread(bed, victim.pid)->copies, 1);
	assert_int_equal(bed->tick.in_exec, 0);
	victim_end(&victim);
	bed_end(bed);
}

static void execs_again_and_again(int commands, int answers)
{
	answer(answers, getpid());
	command(commands);
	execl("/bin/sh", "sh", "-c", "exec sh -c \"$0\" \"$0\"", "exec sh -c \"$0\" \"$0\"",
	      (char *)NULL);
}

static unsigned count_samples(const struct bed *bed)
{
	unsigned count = 0;

	for (size_t i = 0; i < bed->thread_count; i++)
		count += bed->threads[i].samples;
	return count;
}

/* It has a copy in a tick, or it is told that it has none; and it is always there. */
static void test_who_execs_all_the_time_is_told(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	unsigned ticks = 0, had = 0, told = 0;

	victim_start(&victim, execs_again_and_again);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	tell(&victim);
	bed_until(bed, bed_process(bed, victim.pid)->execs > 0);
	/*
	 * How many are told is a matter of who is quicker: on a machine at rest the second look of
	 * a tick nearly always has it, and a sampler with sanitizers comes in the next exec each time.
	 */
	for (; ticks < 2000 && (bed_process(bed, victim.pid)->execs < 20 || !told); ticks++) {
		unsigned before = count_samples(bed);

		bed_tick(bed);
		had += count_samples(bed) > before;
		told += bed->tick.in_exec;
		assert_true(bed_process(bed, victim.pid)->alive);
		usleep(1000);
	}
	/* What is known of the first ticks and of the last ones is told in others. */
	told += snap_sampler_process_find(bed->sampler, victim.pid,
					  bed_process(bed, victim.pid)->start_ticks)
			->ticks_in_exec;
	assert_in_range(had + told, ticks - 1, ticks + 1);
	bed_end(bed);
	victim_end(&victim);
}

static void test_children_are_followed(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	pid_t first, second;

	victim_start(&victim, family);
	first = wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	assert_int_equal(bed->process_count, 2);
	assert_int_equal(bed_process(bed, first)->parent, victim.pid);
	tell(&victim);
	second = wait_answer(&victim);
	bed_until(bed, bed_process(bed, second));
	assert_int_equal(bed_process(bed, second)->parent, victim.pid);
	kill(second, SIGKILL);
	bed_until(bed, !bed_process(bed, second)->alive);
	assert_true(bed_process(bed, first)->alive);
	assert_true(bed_process(bed, victim.pid)->alive);
	victim_end(&victim);
	bed_until(bed, bed->tick.no_targets);
	bed_end(bed);
}

/* A process of ours that is nobody's child there: the kernel has given away a pid. */
static void use_up_a_pid(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A watch asks nobody for children while nobody of the tree has run, whoever else is born. */
static void test_who_rests_has_no_children(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	int64_t refreshed_ns, until_ns;
	pid_t second;

	victim_start(&victim, family);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	bed_options(bed, victim.pid);
	bed->options.never_stop = true;
	bed_open(bed);
	settle(bed);
	/* What ran before the first tick may have had a child: there is one more look. */
	for (unsigned i = 0; bed->sampler->refreshed_ns <= bed->sampler->ran_ns; i++) {
		assert_true(i < 20000);
		use_up_a_pid();
		bed_tick(bed);
	}
	refreshed_ns = bed->sampler->refreshed_ns;
	until_ns = snap_clock_ns(CLOCK_MONOTONIC) + 300000000;
	while (snap_clock_ns(CLOCK_MONOTONIC) < until_ns) {
		use_up_a_pid();
		bed_tick(bed);
		assert_true(bed->sampler->refreshed_ns == refreshed_ns);
	}
	tell(&victim);
	second = wait_answer(&victim);
	bed_until(bed, bed_process(bed, second));
	assert_true(bed->sampler->refreshed_ns > refreshed_ns);
	victim_end(&victim);
	bed_until(bed, bed->tick.no_targets);
	bed_end(bed);
}

static pid_t fork_as(pid_t wanted)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
			set_tid, set_tid_size;
	} arguments = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&wanted, .set_tid_size = 1 };

	return (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
}

/* A child; with a command it is replaced by another one of the same pid. */
static void replaces_child(int commands, int answers)
{
	pid_t pid = child_that_waits(commands), again;

	answer(answers, pid);
	command(commands);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	again = fork_as(pid);
	if (again == 0) {
		wait_for_end(commands);
		_exit(0);
	}
	answer(answers, again);
	wait_for_end(commands);
	if (again > 0)
		kill(again, SIGKILL);
}

static uint64_t start_ticks_of(pid_t pid)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_stat stat;

	assert_null(snap_procfs_open(NULL, &procfs));
	return snap_procfs_task_stat(procfs.root_fd, pid, &stat) == 0 ? stat.start_ticks : 0;
}

static void test_reused_pid_is_another_process(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	pid_t child;
	uint64_t first, second;
	int again;

	victim_start(&victim, replaces_child);
	child = wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	first = start_ticks_of(child);
	/* Start times are told in ticks. */
	usleep(30000);
	tell(&victim);
	again = wait_answer(&victim);
	second = start_ticks_of(child);
	if (again == child) {
		assert_int_not_equal(first, second);
		bed_until(bed, bed->process_count == 3 && bed_living(bed) == 2);
		assert_int_equal(bed->processes[1].start_ticks, first);
		assert_false(bed->processes[1].alive);
		assert_int_equal(bed->processes[2].pid, child);
		assert_int_equal(bed->processes[2].start_ticks, second);
		assert_true(bed->processes[2].alive);
	}
	victim_end(&victim);
	bed_end(bed);
	if (again != child)
		skip_because("root: only root chooses pids");
}

static struct stacksnap_error *count_sample(void *context,
					    struct snap_sampled_thread *thread _unused_,
					    const struct snap_thread *copy _unused_,
					    enum snap_verdict *verdict_ret _unused_)
{
	++*(int *)context;
	return NULL;
}

/* What was copied by a number while its process ended is of the process that has the number then. */
static void test_copy_of_an_ended_process_is_not_shown(void **state _unused_)
{
	int shown = 0, status;
	const struct snap_sampler_sink sink = { .context = &shown, .sample = count_sample };
	const struct snap_options options = { .max_stack = 1 << 20 };
	static struct snap_sampler sampler;
	pid_t child = fork();
	struct snap_sampler_process process = { .live = { .pidfd = -1 } };
	struct snap_sampler_thread thread = { .process = &process };
	struct snap_thread copy = { .tid = child };
	enum snap_verdict verdict;
	bool stale;

	if (child == 0) {
		pause();
		_exit(0);
	}
	process.live.pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	assert_true(process.live.pidfd >= 0);
	sampler.sink = &sink;
	sampler.options = &options;
	assert_null(snap_sampler_show(&sampler, &thread, &copy, &verdict, &stale));
	assert_int_equal(shown, 1);
	assert_false(process.list_due);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_null(snap_sampler_show(&sampler, &thread, &copy, &verdict, &stale));
	assert_int_equal(shown, 1);
	assert_true(process.list_due);
	close(process.live.pidfd);
}

static void *outlive(void *unused)
{
	prctl(PR_SET_NAME, "heir");
	__atomic_add_fetch(&in_position, 1, __ATOMIC_SEQ_CST);
	pause();
	return unused;
}

static void leader_leaves(int commands, int answers)
{
	start_thread(outlive, NULL);
	while (in_position < 1)
		sched_yield();
	answer(answers, getpid());
	command(commands);
	syscall(SYS_exit, 0);
}

static void test_threads_outlive_their_leader(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	victim_start(&victim, leader_leaves);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	assert_int_equal(bed_living(bed), 2);
	tell(&victim);
	bed_until(bed, bed_living(bed) == 1);
	settle(bed);
	assert_true(bed_process(bed, victim.pid)->alive);
	assert_true(bed_named(bed, "heir")->alive);
	/* The leader's number stays, as that of a zombie: nobody is born of it. */
	for (unsigned i = 0; i < 20; i++)
		bed_tick(bed);
	assert_int_equal(bed->thread_count, 2);
	assert_false(bed->tick.no_targets);
	assert_true(bed->sampler->processes[0]->live.files_fd >= 0);
	bed_end(bed);
	/* And met like that from the start. */
	bed_start(bed, victim.pid);
	settle(bed);
	assert_int_equal(bed->thread_count, 1);
	assert_true(bed_named(bed, "heir")->copies > 0);
	victim_end(&victim);
	bed_end(bed);
}

/* Its parent is in D until the child has another program. */
static void holds_in_vfork(int commands, int answers)
{
	answer(answers, getpid());
	command(commands);
	if (vfork() == 0) {
		answer(answers, getpid());
		command(commands);
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		_exit(5);
	}
	answer(answers, 1);
	command(commands);
}

static void test_vfork_then_exec(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct bed_process *child;
	pid_t pid;

	victim_start(&victim, holds_in_vfork);
	wait_answer(&victim);
	bed_options(bed, victim.pid);
	bed->of_partial = SNAP_VERDICT_NEEDS_REGISTERS;
	bed_open(bed);
	tell(&victim);
	pid = wait_answer(&victim);
	bed_until(bed, bed_process(bed, pid) && bed->tick.disk == 1);
	bed_until(bed, bed_thread(bed, victim.pid)->state == 'D');
	/* In D nobody is stopped, and nobody is waited for. */
	assert_true(bed_thread(bed, victim.pid)->missed > 0);
	child = bed_process(bed, pid);
	assert_int_equal(child->execs, 0);
	tell(&victim);
	wait_answer(&victim);
	bed_until(bed, child->execs == 1);
	assert_string_equal(child->name, "sleep");
	assert_true(child->maps > 5);
	assert_true(child->pieces > 1);
	bed_until(bed, bed_thread(bed, pid) && bed_thread(bed, pid)->alive &&
			       bed_thread(bed, pid)->copies > 0);
	assert_int_equal(bed->tick.disk, 0);
	kill(pid, SIGKILL);
	victim_end(&victim);
	bed_until(bed, bed->tick.no_targets);
	bed_end(bed);
}

static void has_a_name(int commands, int answers)
{
	prctl(PR_SET_NAME, "snap-by-name");
	answer(answers, getpid());
	wait_for_end(commands);
}

static void test_names_are_looked_for_later(void **state)
{
	struct victim first, second;
	struct bed *bed = *state;
	regex_t regex;
	pid_t pid;

	victim_start(&first, has_a_name);
	wait_answer(&first);
	bed_options(bed, 0);
	assert_int_equal(regcomp(&regex, "^snap-by-name$", REG_EXTENDED | REG_NOSUB), 0);
	bed->target = (struct snap_target){ .kind = SNAP_TARGET_NAME, .regex = &regex };
	bed->target.text = "^snap-by-name$";
	bed_open(bed);
	settle(bed);
	assert_int_equal(bed->process_count, 1);
	victim_start(&second, has_a_name);
	wait_answer(&second);
	bed_until(bed, bed_process(bed, second.pid));
	assert_int_equal(bed_process(bed, second.pid)->parent, 0);
	pid = first.pid;
	victim_end(&first);
	bed_until(bed, !bed_process(bed, pid)->alive);
	assert_false(bed->tick.no_targets);
	victim_end(&second);
	bed_until(bed, bed->tick.no_targets);
	bed_end(bed);
	regfree(&regex);
}

static void hides(int commands, int answers)
{
	answer(answers, getpid());
	command(commands);
	prctl(PR_SET_DUMPABLE, 0);
	answer(answers, getpid());
	while (command(commands))
		answer(answers, getpid());
}

/* By somebody who is not root; the victim is its child. */
static void watch_who_hides(struct bed *bed)
{
	struct victim victim;

	victim_start(&victim, hides);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	assert_false(bed->tick.refused);
	tell(&victim);
	wait_answer(&victim);
	bed_until(bed, bed->tick.refused);
	assert_false(bed->tick.no_targets);
	assert_int_equal(bed_process(bed, victim.pid)->trouble, SNAP_TROUBLE_PERMISSION_DENIED);
	assert_int_equal(bed_living(bed), 0);
	bed_end(bed);
	victim_end(&victim);
}

static void test_permission_can_be_lost(void **state)
{
	struct bed *bed = *state;
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (geteuid() == 0 &&
		    (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
			_exit(4);
		/* A change of user takes this from a process. */
		prctl(PR_SET_DUMPABLE, 1);
		watch_who_hides(bed);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void forks_and_forgets(int commands, int answers)
{
	answer(answers, getpid());
	while (command(commands)) {
		for (int i = 0; i < 20; i++) {
			pid_t pid = fork();

			if (pid == 0)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
		answer(answers, 1);
	}
}

/* Whoever went by leaves nothing behind. */
static void test_churn_leaves_nothing(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	size_t before;
	long budget;

	victim_start(&victim, forks_and_forgets);
	wait_answer(&victim);
	before = open_descriptors();
	bed_start(bed, victim.pid);
	settle(bed);
	budget = bed->sampler->descriptors;
	for (unsigned i = 0; i < 20; i++) {
		tell(&victim);
		wait_answer(&victim);
		bed->sampler->refresh_after_ns = 0;
		bed_tick(bed);
	}
	bed_until(bed, bed->sampler->process_count == 1 && bed->sampler->guard_count == 1);
	assert_int_equal(bed->sampler->descriptors, budget);
	bed_end(bed);
	assert_int_equal(open_descriptors(), before);
	victim_end(&victim);
}

static void many_children(int commands, int answers)
{
	for (int i = 0; i < 20; i++)
		child_that_waits(commands);
	answer(answers, getpid());
	wait_for_end(commands);
}

/* Where there are too few, some of the processes are without samples, and say so. */
static void test_descriptors_run_out(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	struct rlimit before, few;
	size_t refused = 0;

	victim_start(&victim, many_children);
	wait_answer(&victim);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = open_descriptors() + 24;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	bed_start(bed, victim.pid);
	for (unsigned i = 0; i < 10; i++)
		bed_tick(bed);
	assert_int_equal(bed->process_count, 21);
	assert_false(bed->tick.refused);
	for (size_t i = 0; i < bed->process_count; i++)
		refused += bed->processes[i].trouble == SNAP_TROUBLE_INTERNAL;
	assert_true(refused > 0);
	bed_end(bed);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	victim_end(&victim);
}

/* Discovery had no time for them: each is read before it is sampled, in its turn. */
static void test_who_is_late_is_read_later(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	victim_start(&victim, many_children);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	assert_int_equal(bed->sampler->process_count, 21);
	for (size_t i = 0; i < 21; i++) {
		struct snap_sampler_process *process = bed->sampler->processes[i];

		if (process->facts.pid == victim.pid)
			continue;
		snap_sampler_process_drop_live(bed->sampler, &process->live);
		process->facts.trouble = SNAP_TROUBLE_OUT_OF_TIME;
		process->facts.trouble_message = "late";
		process->facts.exe = process->facts.user = NULL;
	}
	settle(bed);
	bed_until(bed, bed->process_count == 21 && bed_living(bed) == 21);
	for (size_t i = 0; i < bed->process_count; i++) {
		const struct snap_process *facts = &bed->sampler->processes[i]->facts;

		assert_int_equal(bed->processes[i].trouble, SNAP_TROUBLE_NONE);
		assert_true(bed->processes[i].maps > 0);
		assert_non_null(facts->exe);
		assert_int_equal(facts->is_target, facts->pid == victim.pid);
		assert_int_equal(bed_process(bed, facts->pid)->parent,
				 facts->is_target ? 0 : victim.pid);
	}
	victim_end(&victim);
	bed_until(bed, bed->tick.no_targets);
	bed_end(bed);
}

/* At first it may be the machine that is slow; somebody who does it again costs less and less. */
static void test_who_does_not_respond_is_let_be_for_longer_each_time(void **state)
{
	static const int64_t expected_ms[] = { 250, 1000, 4000, 16000, 60000, 60000 };
	struct snap_sampler_process *process;
	struct victim victim;
	struct bed *bed = *state;
	unsigned mapped;

	victim_start(&victim, has_a_name);
	wait_answer(&victim);
	bed_start(bed, victim.pid);
	settle(bed);
	process = bed->sampler->processes[0];
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(expected_ms); i++) {
		assert_null(snap_sampler_process_stalled(bed->sampler, process, "a test"));
		assert_int_equal(process->unresponsive_ns, expected_ms[i] * SNAP_NS_PER_MS);
	}
	bed_tick(bed);
	assert_int_equal(bed_living(bed), 0);
	assert_int_equal(bed->processes[0].trouble, SNAP_TROUBLE_NOT_RESPONDING);
	/*
	 * It is asked again, and that it did not respond is told to the end, also with mappings that
	 * are other ones by then.
	 */
	snap_sampler_space_put(bed->sampler, process->space);
	process->space = NULL;
	mapped = bed->processes[0].mapped;
	process->unresponsive_until_ns = 0;
	bed_until(bed, bed_living(bed) == 1);
	assert_int_equal(bed->processes[0].mapped, mapped + 1);
	assert_int_equal(bed->processes[0].trouble, SNAP_TROUBLE_NOT_RESPONDING);
	assert_int_equal(process->facts.trouble, SNAP_TROUBLE_NOT_RESPONDING);
	victim_end(&victim);
	bed_end(bed);
}

static void test_last_pid_is_found(void **state)
{
	static const struct {
		const char *text;
		pid_t pid;
	} cases[] = { { "0.20 0.18 0.12 1/80 11206\n", 11206 },
		      { "0.20 0.18 0.12 1/80 7", 7 },
		      { "0.20 0.18 0.12 1/80 \n", 0 },
		      { "nothing of that kind\n", 0 },
		      { "\n", 0 },
		      { "", 0 } };

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int fd = memfd_create("loadavg", MFD_CLOEXEC);

		assert_true(fd >= 0);
		assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)),
				 strlen(cases[i].text));
		assert_int_equal(snap_procfs_last_pid(fd), cases[i].pid);
	}
	assert_int_equal(snap_procfs_last_pid(-1), 0);
}

static void test_nobody_there(void **state)
{
	struct bed *bed = *state;
	struct victim victim;
	pid_t pid;

	victim_start(&victim, answers_commands);
	pid = victim.pid;
	victim_end(&victim);
	bed_start(bed, pid);
	bed_tick(bed);
	assert_true(bed->tick.no_targets);
	assert_int_equal(bed->process_count, 1);
	assert_int_equal(bed->processes[0].trouble, SNAP_TROUBLE_NO_SUCH_PROCESS);
	bed_tick(bed);
	assert_int_equal(bed->process_count, 1);
	bed_end(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bed_test(test_exec_is_another_program),
		bed_test(test_exec_is_followed_in_its_tick),
		bed_test(test_who_execs_all_the_time_is_told),
		bed_test(test_children_are_followed),
		bed_test(test_who_rests_has_no_children),
		bed_test(test_reused_pid_is_another_process),
		cmocka_unit_test(test_copy_of_an_ended_process_is_not_shown),
		bed_test(test_threads_outlive_their_leader),
		bed_test(test_vfork_then_exec),
		bed_test(test_names_are_looked_for_later),
		bed_test(test_permission_can_be_lost),
		bed_test(test_churn_leaves_nothing),
		bed_test(test_descriptors_run_out),
		bed_test(test_who_is_late_is_read_later),
		bed_test(test_who_does_not_respond_is_let_be_for_longer_each_time),
		bed_test(test_last_pid_is_found),
		bed_test(test_nobody_there),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
