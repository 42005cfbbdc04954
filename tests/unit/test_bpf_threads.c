/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registers by BPF against the truth: what ptrace says of the same thread, and what the threads that
 * spin have in their registers.
 */
#include "bpf/threads.h"
#include "model/arch/registers.h"
#include "skip.h"
#include "victims.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { MARK = 0x5a5a0000, MOST_SPINNERS = 16 };

static struct snap_bpf open_or_skip(void)
{
	struct snap_bpf bpf = { -1 };
	int error = snap_bpf_open(&bpf);

	if (error == -ENOSYS)
		skip_because("build: it is without BPF");
	if (error == -EPERM || error == -EACCES)
		skip_because("kernel: BPF is not permitted here");
	if (error)
		skip_because("kernel: it has no walk of one thread");
	assert_true(fcntl(bpf.program_fd, F_GETFD) & FD_CLOEXEC);
	return bpf;
}

/* Loops or sleeps with marks in registers that calls save; `descriptor`: to be read, -1: loops. */
static void stand_with_marks(uint64_t mark, int descriptor)
{
	char byte;

#if defined(__x86_64__)
	register long call __asm__("rax") = SYS_read;
	register long first __asm__("rdi") = descriptor;
	register char *second __asm__("rsi") = &byte;
	register long third __asm__("rdx") = 1;

	if (descriptor < 0)
		__asm__ volatile("mov %0, %%rbx\n lea 1(%0), %%r12\n lea 2(%0), %%r15\n"
				 "1: jmp 1b\n" ::"r"(mark)
				 : "rbx", "r12", "r15");
	__asm__ volatile("mov %4, %%rbx\n lea 1(%4), %%r12\n lea 2(%4), %%r15\n syscall\n"
			 : "+r"(call)
			 : "r"(first), "r"(second), "r"(third), "r"(mark)
			 : "rbx", "r12", "r15", "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long call __asm__("x8") = SYS_read;
	register long first __asm__("x0") = descriptor;
	register char *second __asm__("x1") = &byte;
	register long third __asm__("x2") = 1;

	if (descriptor < 0)
		__asm__ volatile(
			"mov x19, %0\n add x20, %0, 1\n add x28, %0, 2\n1: b 1b\n" ::"r"(mark)
			: "x19", "x20", "x28");
	__asm__ volatile("mov x19, %4\n add x20, %4, 1\n add x28, %4, 2\n svc 0\n"
			 : "+r"(first)
			 : "r"(call), "r"(second), "r"(third), "r"(mark)
			 : "x19", "x20", "x28", "memory");
#endif
}

static bool has_marks(const struct snap_bpf_thread *thread, uint64_t mark)
{
#if defined(__x86_64__)
	const struct snap_x86_64_registers *of = (const void *)thread->registers;
	const uint64_t saved[] = { of->rbx, of->r12, of->r15 };
#elif defined(__aarch64__)
	const struct snap_aarch64_registers *of = (const void *)thread->registers;
	const uint64_t saved[] = { of->x[19], of->x[20], of->x[28] };
#endif

	assert_int_equal(thread->registers_size, SNAP_OWN_REGISTERS);
	return snap_all(SNAP_ARRAY_SIZE(saved), i, saved[i] == mark + i);
}

static void asleep(int commands, int answers)
{
	answer(answers, 1);
	stand_with_marks(MARK, commands);
	answer(answers, 2);
	stand_with_marks(MARK + 0x100, commands);
}

/* Until it sleeps in the call that it is to be in. */
static struct snap_bpf_thread read_asleep(const struct snap_bpf *bpf, pid_t tid)
{
	struct snap_bpf_thread thread;

	while (snap_bpf_read(bpf, tid, &thread) || thread.queued || thread.call != SYS_read)
		sched_yield();
	return thread;
}

/* The same by a stop, as a capture keeps it. */
static size_t read_stopped(pid_t tid, uint8_t *registers)
{
	struct iovec all = { registers, SNAP_OWN_PRSTATUS };
	struct iovec pointer = { registers + SNAP_OWN_PRSTATUS,
				 SNAP_OWN_REGISTERS - SNAP_OWN_PRSTATUS };
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return 0;
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	assert_int_equal(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all), 0);
	if (pointer.iov_len)
		assert_int_equal(ptrace(PTRACE_GETREGSET, tid, NT_ARM_TLS, &pointer), 0);
	assert_int_equal(ptrace(PTRACE_DETACH, tid, NULL, NULL), 0);
	return SNAP_OWN_REGISTERS;
}

/* What a stop changes, or no entry into the kernel saves, is not compared. */
static void forget_result(uint8_t *registers)
{
#if defined(__x86_64__)
	struct snap_x86_64_registers *of = (void *)registers;

	of->rax = 0;
	of->gs_base = of->ds = of->es = of->fs = of->gs = 0;
#elif defined(__aarch64__)
	(void)registers;
#endif
}

static void test_sleeping_thread_is_as_ptrace_sees_it(void **state)
{
	struct snap_bpf bpf = open_or_skip();
	_Alignas(16) uint8_t stopped[SNAP_MAX_REGISTERS];
	struct snap_bpf_thread thread;
	struct victim victim;
	size_t size;

	(void)state;
	victim_start(&victim, asleep);
	wait_answer(&victim);
	thread = read_asleep(&bpf, victim.pid);
	assert_true(has_marks(&thread, MARK));
	size = read_stopped(victim.pid, stopped);
	if (size) {
		forget_result(stopped);
		forget_result(thread.registers);
		assert_int_equal(size, thread.registers_size);
		assert_memory_equal(stopped, thread.registers, size);
	}
	victim_end(&victim);
	snap_bpf_close(&bpf);
	if (!size)
		skip_because(NO_TRACING);
}

static void test_switches_tell_that_it_ran(void **state)
{
	struct snap_bpf bpf = open_or_skip();
	struct snap_bpf_thread before, after;
	struct victim victim;

	(void)state;
	victim_start(&victim, asleep);
	wait_answer(&victim);
	before = read_asleep(&bpf, victim.pid);
	after = read_asleep(&bpf, victim.pid);
	assert_int_equal(before.switches, after.switches);
	assert_memory_equal(before.registers, after.registers, before.registers_size);
	tell(&victim);
	assert_int_equal(wait_answer(&victim), 2);
	after = read_asleep(&bpf, victim.pid);
	assert_true(after.switches > before.switches);
	assert_true(has_marks(&after, MARK + 0x100));
	victim_end(&victim);
	snap_bpf_close(&bpf);
}

/* More of them than processors: each must be without one at times. */
static int count_spinners(void)
{
	int count = (int)sysconf(_SC_NPROCESSORS_ONLN) + 2;

	return SNAP_MIN(count, (int)MOST_SPINNERS);
}

static void spinners(int commands _unused_, int answers)
{
	for (int i = 0; i < count_spinners(); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			stand_with_marks(MARK + 0x10 * (uint64_t)i, -1);
		}
		answer(answers, pid);
	}
	wait_for_end(commands);
}

static void test_spinning_threads_are_read_while_they_wait(void **state)
{
	struct snap_bpf bpf = open_or_skip();
	struct snap_known_registers known;
	struct snap_bpf_thread thread;
	pid_t pids[MOST_SPINNERS];
	struct victim victim;
	uint64_t loop = 0;

	(void)state;
	victim_start(&victim, spinners);
	for (int i = 0; i < count_spinners(); i++)
		pids[i] = wait_answer(&victim);
	for (int i = 0; i < count_spinners(); i++) {
		/* At first it is not in its loop. */
		while (snap_bpf_read(&bpf, pids[i], &thread) ||
		       !has_marks(&thread, MARK + 0x10 * (uint64_t)i))
			sched_yield();
		assert_true(snap_registers_read(SNAP_OWN_ARCH, thread.registers,
						thread.registers_size, 'R', &known));
		assert_true(thread.queued);
		assert_int_equal(thread.call, -1);
		loop = loop ? loop : known.pc;
		assert_int_equal(known.pc, loop);
	}
	victim_end(&victim);
	snap_bpf_close(&bpf);
}

static void test_what_cannot_be_read_has_its_error(void **state)
{
	struct snap_bpf bpf = open_or_skip();
	struct snap_bpf_thread thread;
	pid_t pid = fork();
	int status;

	(void)state;
	assert_int_equal(snap_bpf_read(&bpf, gettid(), &thread), -EAGAIN);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(snap_bpf_read(&bpf, pid, &thread), -ESRCH);
	snap_bpf_close(&bpf);
	assert_true(snap_bpf_read(&bpf, gettid(), &thread) < 0);
	/* Without rights. */
	pid = fork();
	if (pid == 0)
		_exit(setresuid(65534, 65534, 65534) ? 1 : snap_bpf_open(&bpf) == -EPERM ? 0 : 2);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleeping_thread_is_as_ptrace_sees_it),
		cmocka_unit_test(test_switches_tell_that_it_ran),
		cmocka_unit_test(test_spinning_threads_are_read_while_they_wait),
		cmocka_unit_test(test_what_cannot_be_read_has_its_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
