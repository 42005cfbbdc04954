/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a stop of a tree and a single stop return where the kernel refuses them something, or the
 * tracing child does not do what it is to do: the error says so, and no thread is left stopped. Each
 * case runs in a process of its own, in which the call is refused.
 */
#include "skip.h"
#include "stop/child/internal.h"
#include "stop/single.h"
#include "stop/tracer.h"

#include "api/options.h"
#include "victims.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { DONE = 100, NO_FILTER, NO_ERROR, WRONG_RESULT, LARGE = 32 << 20 };

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000U
#endif

static const struct snap_options usual = { .max_stack = 1 << 20, .force_stop = true };

static void install(const struct sock_filter *code, size_t count)
{
	const struct sock_fprog program = { .len = (unsigned short)count,
					    .filter = (struct sock_filter *)(uintptr_t)code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		_exit(NO_FILTER);
}

/* From now on, in this process and those that it makes. */
static void refuse(long number, uint32_t action)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install(code, SNAP_ARRAY_SIZE(code));
}

static void refuse_processes(void)
{
	refuse(SYS_clone3, SECCOMP_RET_ERRNO | EAGAIN);
	refuse(SYS_clone, SECCOMP_RET_ERRNO | EAGAIN);
}

static void refuse_polls(void)
{
#ifdef SYS_poll
	refuse(SYS_poll, SECCOMP_RET_ERRNO | ENOMEM);
#endif
	refuse(SYS_ppoll, SECCOMP_RET_ERRNO | ENOMEM);
}

static void refuse_events(void)
{
	refuse(SYS_eventfd2, SECCOMP_RET_ERRNO | EMFILE);
}

/* What an allocator asks for is less. */
static void refuse_large_memory(void)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LARGE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install(code, SNAP_ARRAY_SIZE(code));
}

/* Only of shared memory, whose flag is the lowest bit. */
static void refuse_large_shared_memory(void)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LARGE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install(code, SNAP_ARRAY_SIZE(code));
}

static void refuse_nothing(void)
{
}

/* ---- victims ---- */

static void blocked(int commands, int answers)
{
	answer(answers, 1);
	while (command(commands))
		;
}

static pid_t victim_pid;

/* `body` in a process of its own, which is told the pid of a process that sleeps; what it returns. */
static int in_a_process(int (*body)(void (*refuse_it)(void)), void (*refuse_it)(void))
{
	struct victim victim;
	int status;
	pid_t pid;

	victim_start(&victim, blocked);
	wait_answer(&victim);
	victim_pid = victim.pid;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body(refuse_it));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* It runs: it hears that it is to end. */
	victim_end(&victim);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_FILTER)
		skip_because("kernel: no filter of system calls");
	return WEXITSTATUS(status);
}

/* The errno of an error, which is a number below those of the enum. */
static int errno_of(const struct stacksnap_error *err)
{
	if (!err)
		return NO_ERROR;
	return snap_error_code(err) == SNAP_ERROR_NO_MEMORY ? ENOMEM : snap_error_errno(err);
}

/* ---- a whole tree ---- */

static void (*refuse_when_asked)(void);

static struct stacksnap_error *look(void *context _unused_, struct snap_stop *stop _unused_,
				    bool *grown_ret)
{
	*grown_ret = false;
	if (refuse_when_asked)
		refuse_when_asked();
	return NULL;
}

static struct stacksnap_error *look_in_vain(void *context _unused_, struct snap_stop *stop _unused_,
					    bool *grown_ret _unused_)
{
	return snap_error_os(EXDEV, "no look");
}

static int stop_with(const struct snap_stop_again *again, void (*refuse_it)(void))
{
	struct snap_traced traced = { .pid = victim_pid, .proc_fd = -1 };
	struct snap_shared_memory *memory;
	struct snap_options options;
	struct snap_stop *stop;
	int tracer_fd = -1;

	snap_options_init(&options);
	if (snap_shared_memory_create(8 << 20, &memory))
		return WRONG_RESULT;
	stop = snap_stop_new(memory, 1);
	if (!stop || !snap_stop_add(stop, &traced) || snap_stop_add(stop, &traced))
		return WRONG_RESULT; /* there was room for one */
	refuse_it();
	return errno_of(snap_tracer_run(&options, NULL, again, memory, stop, &tracer_fd));
}

static int stop_tree(void (*refuse_it)(void))
{
	const struct snap_stop_again again = { .look = look };

	return stop_with(&again, refuse_it);
}

/* When the child exists already: it does what it is told. */
static int stop_tree_late(void (*refuse_it)(void))
{
	const struct snap_stop_again again = { .look = look };

	refuse_when_asked = refuse_it;
	return stop_with(&again, refuse_nothing);
}

static int stop_tree_in_vain(void (*refuse_it)(void))
{
	const struct snap_stop_again again = { .look = look_in_vain };

	return stop_with(&again, refuse_it);
}

static void refuse_writes(void)
{
	refuse(SYS_write, SECCOMP_RET_ERRNO | EIO);
}

static void test_what_a_stop_was_refused(void **state _unused_)
{
	assert_int_equal(in_a_process(stop_tree, refuse_nothing), NO_ERROR);
	assert_int_equal(in_a_process(stop_tree, refuse_large_memory), ENOMEM);
	assert_int_equal(in_a_process(stop_tree, refuse_large_shared_memory), ENOMEM);
	assert_int_equal(in_a_process(stop_tree, refuse_events), EMFILE);
	assert_int_equal(in_a_process(stop_tree, refuse_polls), ENOMEM);
	assert_int_equal(in_a_process(stop_tree_late, refuse_writes), EIO);
	assert_int_equal(in_a_process(stop_tree_in_vain, refuse_nothing), EXDEV);
}

/* Of a thread that is not ours, or has gone, there are none, and nothing is written. */
static void test_registers_of_nobody(void **state _unused_)
{
	uint8_t registers[SNAP_MAX_REGISTERS];
	enum snap_arch arch = SNAP_ARCH_AARCH64;
	size_t size = 7;
	uint64_t sp = 7;

	assert_int_equal(snap_tracer_registers(getppid(), &registers, &size, &sp, &arch), ESRCH);
	assert_int_equal(size, 7);
	assert_int_equal(sp, 7);
	assert_int_equal(arch, SNAP_ARCH_AARCH64);
}

/* ---- one thread ---- */

static int create_single(void (*refuse_it)(void))
{
	struct snap_single *single = NULL;
	struct stacksnap_error *err;

	refuse_it();
	err = snap_single_create(&usual, &single);
	if (err && single)
		return WRONG_RESULT;
	return errno_of(err);
}

static void test_what_single_stops_were_refused(void **state _unused_)
{
	assert_int_equal(in_a_process(create_single, refuse_nothing), NO_ERROR);
	assert_int_equal(in_a_process(create_single, refuse_large_memory), ENOMEM);
	assert_int_equal(in_a_process(create_single, refuse_processes), EAGAIN);
}

/* Its tracing child has been killed, and what is refused another one needs. */
static int take_without_child(void (*refuse_it)(void))
{
	struct snap_pick pick = { .tid = victim_pid };
	struct snap_single *single;
	int64_t stopped_ns;

	if (snap_single_create(&usual, &single))
		return WRONG_RESULT;
	kill(snap_single_pid(single), SIGKILL);
	refuse_it();
	return errno_of(snap_single_take(single, &pick, 1, 5000000000, &stopped_ns));
}

static void test_no_other_child_can_be_made(void **state _unused_)
{
	assert_int_equal(in_a_process(take_without_child, refuse_nothing), NO_ERROR);
	assert_int_equal(in_a_process(take_without_child, refuse_processes), EAGAIN);
}

static void kill_tracers(void)
{
	refuse(SYS_ptrace, SECCOMP_RET_KILL_PROCESS);
}

/* Each that is made dies at its first call of ptrace. */
static int take_with_dying_children(void (*refuse_it)(void))
{
	struct snap_pick pick = { .tid = victim_pid };
	struct snap_single *single;
	struct stacksnap_error *err;
	int64_t stopped_ns;

	refuse_it();
	if (snap_single_create(&usual, &single))
		return WRONG_RESULT;
	err = snap_single_take(single, &pick, 1, 5000000000, &stopped_ns);
	if (!err || snap_error_code(err) != SNAP_ERROR_OS || snap_single_pid(single))
		return WRONG_RESULT;
	return DONE;
}

static void test_every_child_dies(void **state _unused_)
{
	assert_int_equal(in_a_process(take_with_dying_children, kill_tracers), DONE);
}

/* A child that stands still serves nobody: the call ends all the same, and so does the child. */
static int take_from_stopped_child(void (*refuse_it)(void))
{
	struct snap_pick pick = { .tid = victim_pid };
	struct snap_single *single;
	int64_t stopped_ns;

	refuse_it();
	if (snap_single_create(&usual, &single))
		return WRONG_RESULT;
	kill(snap_single_pid(single), SIGSTOP);
	if (snap_single_take(single, &pick, 1, 1000000, &stopped_ns))
		return WRONG_RESULT;
	if (pick.copy.result != SNAP_THREAD_NOT_STOPPED || pick.error != ETIMEDOUT ||
	    snap_single_pid(single))
		return WRONG_RESULT;
	/* The next call has another one. */
	if (snap_single_take(single, &pick, 1, 5000000000, &stopped_ns))
		return WRONG_RESULT;
	return snap_single_pid(single) ? DONE : WRONG_RESULT;
}

static volatile int cancelled;

static void cancel(int signal _unused_)
{
	cancelled = 1;
}

/* The same, until somebody has had enough of it. */
static int cancel_stopped_child(void (*refuse_it)(void))
{
	const struct snap_options options = { .max_stack = 1 << 20,
					      .force_stop = true,
					      .cancel = &cancelled };
	const struct itimerval soon = { .it_value = { .tv_usec = 50000 } };
	struct snap_pick pick = { .tid = victim_pid };
	struct snap_single *single;
	struct stacksnap_error *err;
	int64_t stopped_ns;

	refuse_it();
	if (snap_single_create(&options, &single))
		return WRONG_RESULT;
	kill(snap_single_pid(single), SIGSTOP);
	signal(SIGALRM, cancel);
	setitimer(ITIMER_REAL, &soon, NULL);
	err = snap_single_take(single, &pick, 1, 600000000000, &stopped_ns);
	return err && snap_error_code(err) == SNAP_ERROR_CANCELLED ? DONE : WRONG_RESULT;
}

static void test_child_that_does_nothing(void **state _unused_)
{
	assert_int_equal(in_a_process(take_from_stopped_child, refuse_nothing), DONE);
	assert_int_equal(in_a_process(cancel_stopped_child, refuse_nothing), DONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_stop_was_refused),
		cmocka_unit_test(test_registers_of_nobody),
		cmocka_unit_test(test_what_single_stops_were_refused),
		cmocka_unit_test(test_no_other_child_can_be_made),
		cmocka_unit_test(test_every_child_dies),
		cmocka_unit_test(test_child_that_does_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
