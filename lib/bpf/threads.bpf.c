/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A BPF program that the kernel runs for a task that it is asked for: writes what threads.c makes a
 * struct snap_bpf_thread of. See threads.h.
 */
#include "bpf/record.h"

#include <bpf/bpf_helpers.h>

/* For bpf_task_pt_regs(); the GPL is among what the LGPL permits (section 3). */
const char program_license[] SEC("license") = "GPL";

#define READ(member) (*(volatile typeof(member) *)&(member))

#ifdef __TARGET_ARCH_arm64
enum { WORDS = 34 };
#define THREAD_POINTER(task) READ((task)->thread.uw.tp_value)
#else
enum { WORDS = 21 };
#define THREAD_POINTER(task) READ((task)->thread.fsbase)
#endif

/*
 * `on_cpu` is set before a task runs, and cleared after it has left, when its switch has been counted
 * and its registers are saved (kernel/sched/core.c, prepare_task() and finish_task()). So what is
 * read between two readings of both, that are equal and 0, is what it left with. An atomic operation
 * is a barrier on all processors if its result is used (BPF_FETCH; on aarch64 it is none else).
 */
static __always_inline void order_reads(void)
{
	uint64_t any = 0;

	__asm__ volatile("" ::"r"(__sync_fetch_and_add(&any, 1)));
}

/* Its number in the pid namespace of the process that reads; 0: it has none there, or has ended. */
static __always_inline uint64_t number_for_reader(struct task_struct *task)
{
	struct task_struct *reader = bpf_get_current_task_btf();
	struct pid *own = reader->thread_pid, *pid = task->thread_pid;
	/* struct upid has a pointer behind its number. */
	const unsigned long each = 2 * sizeof(void *);
	unsigned int level;
	int number = 0;

	if (!own || !pid)
		return 0;
	level = own->level;
	if (level > pid->level || bpf_probe_read_kernel(&number, sizeof(number),
							(char *)&pid->numbers[0].nr + level * each))
		return 0;
	return number;
}

SEC("iter/task")
int read_task(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct snap_bpf_record record = {};
	struct pt_regs *registers;

	if (!task)
		return 0;
	record.tid = number_for_reader(task);
	record.on_cpu = READ(task->on_cpu);
	order_reads();
	record.switches = READ(task->nvcsw) + READ(task->nivcsw);
	order_reads();
	record.queued = READ(task->on_rq);
	record.state = READ(task->__state);
	record.thread_pointer = THREAD_POINTER(task);
	registers = (struct pt_regs *)bpf_task_pt_regs(task);
	if (!registers || bpf_probe_read_kernel(record.words, WORDS * sizeof(uint64_t), registers))
		return 0;
#ifdef __TARGET_ARCH_arm64
	record.call = (uint64_t)(__s64)READ(registers->syscallno);
	record.first_argument = READ(registers->orig_x0);
#endif
	order_reads();
	record.switches_again = READ(task->nvcsw) + READ(task->nivcsw);
	order_reads();
	record.on_cpu_again = READ(task->on_cpu);
	bpf_seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}
