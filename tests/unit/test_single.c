/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Single stops on processes that the test forks itself: what is copied is what a stop of the whole
 * process sees, every thread runs on afterwards, no signal is lost, and the tracing child may die
 * at any time.
 */
#include "capture/capture.h"
#include "patience.h"
#include "proc/procfs.h"
#include "skip.h"
#include "stop/single.h"

#include "victims.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <ucontext.h>

static const int64_t PATIENCE = 5000000000, READ_NS = 50000000;
static const struct snap_options usual = { .max_stack = 1 << 20, .force_stop = true };

static struct snap_single *create(void)
{
	struct snap_single *single;

	assert_null(snap_single_create(&usual, &single));
	snap_single_set_patience(single, with_patience(READ_NS));
	return single;
}

static void take(struct snap_single *single, struct snap_pick *picks, size_t count)
{
	int64_t stopped_ns;

	assert_null(snap_single_take(single, picks, count, PATIENCE, &stopped_ns));
	if (picks[0].error == EPERM) {
		skip_because(NO_TRACING);
	}
}

static struct snap_status status_of(pid_t pid)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_fd_ int process = -1;
	struct snap_status status = { 0 };

	assert_null(snap_procfs_open(NULL, &procfs));
	process = snap_procfs_open_process(&procfs, pid);
	assert_int_equal(snap_procfs_status(process, &status), 0);
	return status;
}

static char state_of(pid_t pid)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_fd_ int process = -1;
	struct snap_stat stat = { 0 };

	assert_null(snap_procfs_open(NULL, &procfs));
	process = snap_procfs_open_process(&procfs, pid);
	assert_int_equal(snap_procfs_stat(process, &stat), 0);
	return stat.state;
}

static void wait_for_state(pid_t pid, char wanted)
{
	while (state_of(pid) != wanted)
		sched_yield();
}

/* Victims. */

static void blocked(int commands, int answers)
{
	answer(answers, 1);
	/* A wait that goes on after a stop with the same registers, as poll() would not. */
	while (command(commands))
		;
}

static _Noreturn void *spin(void *argument)
{
	volatile long *count = argument;

	for (;;)
		++*count;
}

static void spinning(int commands, int answers)
{
	static volatile long count;
	pthread_t thread;

	pthread_create(&thread, NULL, spin, (void *)&count);
	while (!count)
		sched_yield();
	answer(answers, 1);
	/* One that spins, for the test to pick: this one. */
	for (struct pollfd end = { .fd = commands }; poll(&end, 1, 0) == 0;)
		;
}

/* Threads that begin and end all the time; each tells its number first. */
static void *tell_and_end(void *argument)
{
	const int *answers = argument;
	int tid = (int)syscall(SYS_gettid);

	answer(*answers, tid);
	/* Some end before they are stopped, some after, some meanwhile. */
	for (volatile int i = 0; i < tid % 16 * 20000; i++)
		;
	return NULL;
}

static void ending(int commands, int answers)
{
	while (command(commands)) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, tell_and_end, &answers) == 0)
			pthread_join(thread, NULL);
	}
}

enum { SIGNALS = 10000 };

static volatile sig_atomic_t counted, disorder;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_value.sival_int != counted)
		disorder++;
	counted++;
}

/* A child queues signals; how many came, and how many in the wrong order, is the answer. */
static void signalled(int commands, int answers)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	pid_t self = getpid(), sender;

	sigaction(SIGRTMIN + 1, &action, NULL);
	answer(answers, 1);
	command(commands);
	sender = fork();
	for (int i = 0; sender == 0 && i < SIGNALS;) {
		if (sigqueue(self, SIGRTMIN + 1, (union sigval){ .sival_int = i }) == 0)
			i++;
		else
			sched_yield();
	}
	if (sender == 0)
		_exit(0);
	while (waitpid(sender, NULL, 0) < 0 && errno == EINTR)
		;
	answer(answers, counted);
	answer(answers, disorder);
	wait_for_end(commands);
}

/* Stands in a handler on an alternate stack. */
static int handler_commands, handler_answers;

static void on_alternate(int number)
{
	(void)number;
	answer(handler_answers, 1);
	wait_for_end(handler_commands);
	_exit(0);
}

static void on_alternate_stack(int commands, int answers)
{
	static uint8_t stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_alternate, .sa_flags = SA_ONSTACK };

	handler_commands = commands;
	handler_answers = answers;
	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

/* Stands on a stack whose outer pages nobody serves. */
enum { STACK_PAGES = 16, PAGE = 4096 };

static ucontext_t on_unserved;
static int unserved_commands, unserved_answers;

static void stand_on_unserved(void)
{
	answer(unserved_answers, 1);
	wait_for_end(unserved_commands);
	_exit(0);
}

static uint8_t *map_unserved(void)
{
	uint8_t *memory = mmap(NULL, 2 * STACK_PAGES * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	memset(memory, 1, STACK_PAGES * PAGE);
	range.range.start = (uintptr_t)memory;
	range.range.len = 2 * STACK_PAGES * PAGE;
	return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
			       ioctl(fd, UFFDIO_REGISTER, &range) == 0
		       ? memory
		       : NULL;
}

static void unserved(int commands, int answers)
{
	uint8_t *memory = map_unserved();

	unserved_commands = commands;
	unserved_answers = answers;
	answer(answers, memory ? (int)((uintptr_t)memory >> 12 & 0x7fffffff) : 0);
	answer(answers, (int)((uintptr_t)memory >> 43));
	if (!memory)
		return;
	getcontext(&on_unserved);
	on_unserved.uc_stack.ss_sp = memory;
	on_unserved.uc_stack.ss_size = STACK_PAGES * PAGE;
	makecontext(&on_unserved, stand_on_unserved, 0);
	setcontext(&on_unserved);
}

/* Tests. */

static void test_sees_what_a_snapshot_sees(void **state _unused_)
{
	struct snap_single *single = create();
	struct snap_capture *capture;
	struct snap_target target = { .kind = SNAP_TARGET_PID };
	struct snap_options options = { .stop_all = true,
					.max_stack = 1 << 20,
					.max_snapshot = 1 << 24,
					.stop_timeout_ns = PATIENCE,
					.timeout_ns = 2 * PATIENCE,
					.targets = &target,
					.target_count = 1 };
	const struct snap_thread *thread;
	const struct snap_map *map;
	struct victim victim;
	struct snap_pick pick = { 0 };

	victim_start(&victim, blocked);
	wait_answer(&victim);
	target.pid = victim.pid;
	/* On its way into its wait, or back, it has other registers. */
	wait_for_state(victim.pid, 'S');
	assert_null(snap_capture_take(&options, NULL, &capture));
	thread = &capture->processes[0].threads[0];
	if (capture->processes[0].trouble)
		skip_because(NO_TRACING);
	map = snap_process_map(&capture->processes[0], thread->stack_address);
	assert_non_null(map);
	pick = (struct snap_pick){ .tid = victim.pid,
				   .stack_start = map->start,
				   .stack_end = map->end };
	wait_for_state(victim.pid, 'S');
	take(single, &pick, 1);
	assert_int_equal(pick.error, 0);
	assert_int_equal(pick.copy.result, SNAP_THREAD_COPIED);
	assert_int_equal(pick.copy.taken, SNAP_TAKEN_ALONE);
	assert_false(pick.past_end);
	assert_int_equal(pick.arch, capture->processes[0].arch);
	assert_int_equal(pick.copy.registers_size, thread->registers_size);
	assert_memory_equal(pick.copy.registers, thread->registers, thread->registers_size);
	assert_int_equal(pick.copy.stack_address, thread->stack_address);
	assert_int_equal(pick.copy.stack_size, thread->stack_size);
	assert_memory_equal(pick.copy.stack, thread->stack, thread->stack_size);
	/* Nobody knows where the stack ends: up to its end all the same. */
	pick = (struct snap_pick){ .tid = victim.pid };
	wait_for_state(victim.pid, 'S');
	take(single, &pick, 1);
	assert_true(pick.past_end);
	assert_int_equal(pick.copy.stack_address, thread->stack_address);
	assert_int_equal(pick.copy.stack_size, thread->stack_size);
	assert_int_equal(status_of(victim.pid).tracer_pid, 0);
	snap_capture_destroy(capture);
	snap_single_destroy(single);
	victim_end(&victim);
}

static void test_spinning_thread(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim;

	victim_start(&victim, spinning);
	wait_answer(&victim);
	for (int i = 0; i < 1000; i++) {
		struct snap_pick pick = { .tid = victim.pid };

		take(single, &pick, 1);
		assert_int_equal(pick.copy.result, SNAP_THREAD_COPIED);
		assert_true(pick.copy.stack_size > 0);
		assert_true(pick.stopped_ns > 0);
	}
	assert_int_equal(status_of(victim.pid).tracer_pid, 0);
	snap_close(&victim.commands);
	assert_int_equal(waitpid(victim.pid, NULL, 0), victim.pid);
	victim.pid = 0;
	victim_end(&victim);
	snap_single_destroy(single);
}

/* Several together; one number is nobody's. */
static void test_many_at_once(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victims[3];
	struct snap_pick picks[4] = { 0 };
	struct snap_pick many[SNAP_SINGLE_MOST + 1] = { 0 };
	struct stacksnap_error *err;
	int64_t stopped_ns;

	for (int i = 0; i < 3; i++) {
		victim_start(&victims[i], i ? blocked : spinning);
		wait_answer(&victims[i]);
		picks[i] = (struct snap_pick){ .tid = victims[i].pid };
	}
	picks[3] = (struct snap_pick){ .tid = 0x3ffffff };
	take(single, picks, 4);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(picks[i].copy.result, SNAP_THREAD_COPIED);
		for (int k = 0; k < i; k++)
			assert_true(picks[i].copy.stack >=
					    picks[k].copy.stack + picks[k].copy.stack_size ||
				    picks[k].copy.stack >=
					    picks[i].copy.stack + picks[i].copy.stack_size);
	}
	assert_int_equal(picks[3].copy.result, SNAP_THREAD_VANISHED);
	assert_int_equal(picks[3].error, ESRCH);
	err = snap_single_take(single, many, SNAP_SINGLE_MOST + 1, PATIENCE, &stopped_ns);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_INVALID);
	snap_error_destroy(err);
	assert_null(snap_single_take(single, many, 0, PATIENCE, &stopped_ns));
	for (int i = 0; i < 3; i++)
		victim_end(&victims[i]);
	snap_single_destroy(single);
}

static void test_stopped_process_stays_stopped(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim;
	int status;

	victim_start(&victim, blocked);
	wait_answer(&victim);
	kill(victim.pid, SIGSTOP);
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED), victim.pid);
	assert_true(WIFSTOPPED(status));
	for (int i = 0; i < 100; i++) {
		struct snap_pick pick = { .tid = victim.pid };

		take(single, &pick, 1);
		assert_int_equal(pick.copy.result, SNAP_THREAD_COPIED);
		assert_true(pick.copy.group_stopped);
		wait_for_state(victim.pid, 'T');
	}
	/* Nobody was told of anything, and it goes on when it is told to. */
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED | WCONTINUED | WNOHANG), 0);
	kill(victim.pid, SIGCONT);
	wait_for_state(victim.pid, 'S');
	victim_end(&victim);
	snap_single_destroy(single);
}

static void test_no_signal_is_lost(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim;
	struct pollfd done;

	victim_start(&victim, signalled);
	wait_answer(&victim);
	done = (struct pollfd){ .fd = victim.answers, .events = POLLIN };
	tell(&victim);
	do {
		struct snap_pick pick = { .tid = victim.pid };

		take(single, &pick, 1);
		assert_int_equal(pick.copy.result, SNAP_THREAD_COPIED);
	} while (poll(&done, 1, 0) == 0);
	assert_int_equal(wait_answer(&victim), SIGNALS);
	assert_int_equal(wait_answer(&victim), 0);
	victim_end(&victim);
	snap_single_destroy(single);
}

static void test_ending_threads(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim;
	int seen = 0, gone = 0;
	int64_t stopped_ns;

	victim_start(&victim, ending);
	for (int i = 0; i < 300; i++) {
		struct snap_pick pick = { .tid = 0 };

		tell(&victim);
		pick.tid = wait_answer(&victim);
		assert_null(snap_single_take(single, &pick, 1, PATIENCE, &stopped_ns));
		if (pick.copy.result == SNAP_THREAD_COPIED)
			seen++;
		else if (pick.copy.result == SNAP_THREAD_VANISHED)
			gone++;
		/* One that is exiting is refused like one that is not ours to trace. */
		else
			assert_int_equal(pick.error, EPERM);
	}
	print_message("%d of 300 ending threads were caught, %d had gone\n", seen, gone);
	while (status_of(victim.pid).threads > 1)
		sched_yield(); /* the last one spins yet, or is on its way out */
	snap_close(&victim.commands);
	assert_int_equal(waitpid(victim.pid, NULL, 0), victim.pid);
	victim.pid = 0;
	victim_end(&victim);
	snap_single_destroy(single);
}

static bool counts_waiting(void)
{
	unsigned long long ran = 0, waited = 0, times = 0;
	FILE *file = fopen("/proc/self/schedstat", "r");

	if (file) {
		if (fscanf(file, "%llu %llu %llu", &ran, &waited, &times) != 3)
			times = 0;
		fclose(file);
	}
	return times > 0;
}

static void test_killed_child_is_made_anew(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim;

	victim_start(&victim, blocked);
	wait_answer(&victim);
	for (int i = 0; i < 20; i++) {
		struct snap_pick pick = { .tid = victim.pid };
		pid_t before = snap_single_pid(single);

		assert_true(before > 0);
		kill(before, SIGKILL);
		take(single, &pick, 1);
		assert_int_equal(pick.copy.result, SNAP_THREAD_COPIED);
		assert_true(snap_single_pid(single) != before);
		/* How long it waited is known of one that has just been made, too. */
		assert_true(snap_single_waited(single) >= 0 || !counts_waiting());
	}
	assert_int_equal(status_of(victim.pid).tracer_pid, 0);
	victim_end(&victim);
	snap_single_destroy(single);
}

static void *kill_children(void *argument)
{
	struct snap_single *single = argument;

	for (int i = 0; i < 50; i++) {
		struct timespec nap = { .tv_nsec = 3000000 };
		pid_t pid = snap_single_pid(single);

		nanosleep(&nap, NULL);
		if (pid > 0)
			kill(pid, SIGKILL);
	}
	return NULL;
}

/* In the middle of stops: whatever comes of a call, the victim runs. */
static void test_child_killed_at_any_time(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim;
	pthread_t killer;

	victim_start(&victim, spinning);
	wait_answer(&victim);
	assert_int_equal(pthread_create(&killer, NULL, kill_children, single), 0);
	for (int i = 0; i < 300; i++) {
		struct snap_pick pick = { .tid = victim.pid };
		int64_t stopped_ns;
		struct stacksnap_error *err =
			snap_single_take(single, &pick, 1, PATIENCE, &stopped_ns);

		/* Twice within one call is an error; the next call begins anew. */
		if (err)
			assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
		snap_error_destroy(err);
	}
	pthread_join(killer, NULL);
	assert_int_equal(status_of(victim.pid).tracer_pid, 0);
	assert_true(strchr("RS", state_of(victim.pid)));
	victim_end(&victim);
	snap_single_destroy(single);
}

static void test_already_traced(void **state _unused_)
{
	struct snap_single *single = create(), *other = create();
	struct snap_pick pick = { .tid = 0 };
	int64_t stopped_ns;
	struct victim victim;
	pid_t tracer;
	int status, pipes[2];
	char byte = 0;

	victim_start(&victim, blocked);
	wait_answer(&victim);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	tracer = fork();
	if (tracer == 0) {
		byte = ptrace(PTRACE_SEIZE, victim.pid, NULL, NULL) == 0;
		if (write(pipes[1], &byte, 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	if (byte) {
		pick.tid = victim.pid;
		assert_null(snap_single_take(single, &pick, 1, PATIENCE, &stopped_ns));
		assert_int_equal(pick.copy.result, SNAP_THREAD_UNTRACED);
		assert_int_equal(pick.error, EPERM);
		assert_int_equal(status_of(victim.pid).tracer_pid, tracer);
	}
	kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, &status, 0), tracer);
	close(pipes[0]);
	close(pipes[1]);
	victim_end(&victim);
	snap_single_destroy(other);
	snap_single_destroy(single);
}

static void test_alternate_signal_stack(void **state _unused_)
{
	struct snap_single *single = create();
	struct snap_capture *discovered;
	struct snap_pick pick = { .tid = 0 };
	_cleanup_fd_ int maps = -1;
	char buffer[8192], *line;
	struct snap_lines lines;
	struct victim victim;
	size_t length;

	victim_start(&victim, on_alternate_stack);
	wait_answer(&victim);
	discovered = discover(victim.pid);
	maps = snap_procfs_open_file(discovered->live[0].proc_fd, "maps");
	snap_lines_init(&lines, maps, buffer, sizeof(buffer));
	while (snap_lines_next(&lines, &line, &length) > 0) {
		size_t path_length;
		struct snap_map map;
		const char *path;

		if (!snap_parse_map(line, length, &map, &path, &path_length) || !path_length ||
		    strncmp(path, "[stack]", path_length) != 0)
			continue;
		pick.stack_start = map.start;
		pick.stack_end = map.end;
	}
	assert_true(pick.stack_end > 0);
	pick.tid = victim.pid;
	take(single, &pick, 1);
	assert_int_equal(pick.copy.result, SNAP_THREAD_COPIED);
	assert_true(pick.past_end);
#if defined(__x86_64__)
	assert_true(pick.copy.stack2_size > 0);
	assert_true(pick.copy.stack2_address >= pick.stack_start);
	assert_int_equal(pick.copy.stack2_address + pick.copy.stack2_size, pick.stack_end);
#endif
	snap_capture_destroy(discovered);
	victim_end(&victim);
	snap_single_destroy(single);
}

/* Our own descriptors and children are as before. */
static void test_host_is_not_disturbed(void **state _unused_)
{
	int before = dup(STDERR_FILENO), after;
	struct snap_single *single;

	close(before);
	single = create();
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFD), 0);
	snap_single_destroy(single);
	after = dup(STDERR_FILENO);
	assert_int_equal(after, before);
	close(after);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

/* It costs its own stack; the next call has all of others, and nobody is held. */
static void test_memory_that_nobody_serves(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim, other;
	struct snap_pick picks[2] = { 0 };
	uint64_t start;

	victim_start(&victim, unserved);
	victim_start(&other, blocked);
	wait_answer(&other);
	start = (uint64_t)wait_answer(&victim) << 12;
	start |= (uint64_t)wait_answer(&victim) << 43;
	if (!start)
		skip_because("kernel: no userfaultfd for the kernel's own reads");
	wait_answer(&victim);
	for (unsigned round = 0; round < 2; round++) {
		const int64_t patience = round ? PATIENCE / 20 : with_patience(2000000);

		snap_single_set_patience(single, patience);
		picks[0] = (struct snap_pick){ .tid = victim.pid,
					       .stack_start = start,
					       .stack_end = start + 2 * STACK_PAGES * PAGE };
		picks[1] = (struct snap_pick){ .tid = other.pid };
		take(single, picks, 2);
		assert_int_equal(picks[0].error, 0);
		assert_int_equal(picks[0].copy.result, SNAP_THREAD_COPIED);
		assert_true(picks[0].stalled && picks[0].copy.stack_unreadable);
		assert_int_equal(picks[0].copy.stack_size, 0);
		assert_true(picks[0].copy.registers_size > 0);
		assert_true(picks[0].stopped_ns < PATIENCE / 5);
		/* The other one may have been read before, in the same time. */
		assert_true(!round || picks[0].stood_ns >= patience / 2);
		assert_int_equal(picks[1].copy.result, SNAP_THREAD_COPIED);
		assert_false(picks[1].stalled);
		assert_true(picks[1].stopped_ns < PATIENCE / 5);
		assert_int_equal(status_of(victim.pid).tracer_pid, 0);
		assert_int_equal(status_of(other.pid).tracer_pid, 0);
		picks[1] = (struct snap_pick){ .tid = other.pid };
		take(single, &picks[1], 1);
		assert_true(picks[1].copy.stack_size > 0);
	}
	snap_single_destroy(single);
	victim_end(&victim);
	victim_end(&other);
}

/* Neither our output nor a mount is held by who traces, whatever becomes of it. */
static void test_child_has_no_descriptors(void **state _unused_)
{
	struct snap_single *single = create();
	struct victim victim;
	struct snap_pick pick = { 0 };
	char path[64], link[64];

	victim_start(&victim, blocked);
	wait_answer(&victim);
	pick.tid = victim.pid;
	take(single, &pick, 1);
	for (int fd = 0; fd < 256; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", snap_single_pid(single), fd);
		length = readlink(path, link, sizeof(link) - 1);
		link[length > 0 ? length : 0] = 0;
		if (length > 0)
			assert_string_equal(link, "anon_inode:[pidfd]");
	}
	snap_single_destroy(single);
	victim_end(&victim);
}

/* A thread that waits for its child in a way that nothing but its end ends. */
static void in_vfork(int commands, int answers)
{
	answer(answers, 1);
	if (vfork() == 0) {
		wait_for_end(commands);
		_exit(0);
	}
}

static _Noreturn void take_for_ever(pid_t tid)
{
	struct snap_single *single = create();

	for (;;) {
		struct snap_pick pick = { .tid = tid };
		int64_t stopped_ns;

		if (snap_error_ignore(
			    snap_single_take(single, &pick, 1, PATIENCE / 10, &stopped_ns)) ||
		    pick.error == EPERM)
			_exit(1);
	}
}

/*
 * Who asked is stopped himself just when a thread is waited for: it is let go all the same, and in
 * time. He is only now and then hit at that moment.
 */
static void test_asker_gets_no_processor(void **state _unused_)
{
	const struct timespec nap = { .tv_nsec = 200000 };
	struct victim victim;
	bool is_hit = false;
	pid_t asker;

	victim_start(&victim, in_vfork);
	wait_answer(&victim);
	asker = fork();
	if (asker == 0)
		take_for_ever(victim.pid);
	for (unsigned tries = 0; tries < 2000 && !is_hit; tries++) {
		nanosleep(&nap, NULL);
		if (!status_of(victim.pid).tracer_pid)
			continue;
		kill(asker, SIGSTOP);
		waitpid(asker, NULL, WUNTRACED);
		is_hit = status_of(victim.pid).tracer_pid != 0;
		if (!is_hit)
			kill(asker, SIGCONT);
	}
	for (unsigned i = 0; is_hit && i < 100000 && status_of(victim.pid).tracer_pid; i++)
		nanosleep(&nap, NULL);
	if (is_hit)
		assert_int_equal(status_of(victim.pid).tracer_pid, 0);
	kill(asker, SIGKILL);
	waitpid(asker, NULL, 0);
	victim_end(&victim);
	if (!is_hit)
		skip_because("kernel: the moment was never hit");
}

static void test_cancelled(void **state _unused_)
{
	volatile int cancel = 0;
	struct snap_options options = { .max_stack = 1 << 20,
					.force_stop = true,
					.cancel = &cancel };
	struct snap_pick pick = { .tid = 1 };
	struct snap_single *single;
	struct stacksnap_error *err;
	int64_t stopped_ns;

	assert_null(snap_single_create(&options, &single));
	cancel = 1;
	err = snap_single_take(single, &pick, 1, PATIENCE, &stopped_ns);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_CANCELLED);
	snap_error_destroy(err);
	snap_single_destroy(single);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_is_not_disturbed),
		cmocka_unit_test(test_sees_what_a_snapshot_sees),
		cmocka_unit_test(test_spinning_thread),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_stopped_process_stays_stopped),
		cmocka_unit_test(test_no_signal_is_lost),
		cmocka_unit_test(test_ending_threads),
		cmocka_unit_test(test_killed_child_is_made_anew),
		cmocka_unit_test(test_child_killed_at_any_time),
		cmocka_unit_test(test_already_traced),
		cmocka_unit_test(test_alternate_signal_stack),
		cmocka_unit_test(test_memory_that_nobody_serves),
		cmocka_unit_test(test_child_has_no_descriptors),
		cmocka_unit_test(test_asker_gets_no_processor),
		cmocka_unit_test(test_cancelled),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
