/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The BPF program seen from its caller: see threads.h. */
#include "bpf/threads.h"

#include "base/cleanup.h"
#include "bpf/record.h"
#include "model/arch/registers.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#ifdef SNAP_WITH_BPF

#include <linux/bpf.h>
#include <sys/syscall.h>

/* As bpftool writes it; what is not called in it would allocate. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpointer-arith"
#pragma GCC diagnostic ignored "-Wshadow"
#include "bpf/threads.lskel.h"
#pragma GCC diagnostic pop

enum { WALK_RECORDS = 96 /* about what the kernel hands out at once */ };

static int call_bpf(enum bpf_cmd command, union bpf_attr *attr)
{
	long result = syscall(SYS_bpf, command, attr, sizeof(*attr));

	return result < 0 ? -errno : (int)result;
}

/* A descriptor that reads what the program writes of one thread, or of all of a process; a negative errno. */
static int open_walk(const struct snap_bpf *bpf, union bpf_iter_link_info which)
{
	union bpf_attr attr = { 0 };
	_cleanup_fd_ int link_fd = -1;

	attr.link_create.prog_fd = (uint32_t)bpf->program_fd;
	attr.link_create.attach_type = BPF_TRACE_ITER;
	attr.link_create.iter_info = (uintptr_t)&which;
	attr.link_create.iter_info_len = sizeof(which);
	link_fd = call_bpf(BPF_LINK_CREATE, &attr);
	if (link_fd < 0)
		return link_fd;
	memset(&attr, 0, sizeof(attr));
	attr.iter_create.link_fd = (uint32_t)link_fd;
	return call_bpf(BPF_ITER_CREATE, &attr);
}

/* How many there were; or a negative errno. */
static int read_records(const struct snap_bpf *bpf, pid_t tid, struct snap_bpf_record *records,
			size_t most)
{
	_cleanup_fd_ int fd =
		open_walk(bpf, (union bpf_iter_link_info){ .task.tid = (uint32_t)tid });
	ssize_t got;

	if (fd < 0)
		return fd;
	got = read(fd, records, most * sizeof(*records));
	return got < 0 ? -errno : (int)((size_t)got / sizeof(*records));
}

/*
 * Before Linux 6.1 the number of a thread is not looked at, and all are walked; without CONFIG_SMP
 * there is no `on_cpu`, and the program is not loaded. We are one thread, and on a processor.
 */
static int try_own_task(const struct snap_bpf *bpf)
{
	struct snap_bpf_record records[2];
	int count = read_records(bpf, gettid(), records, 2);

	if (count < 0)
		return count;
	return count == 1 && records[0].on_cpu && records[0].on_cpu_again ? 0 : -ENOTSUP;
}

int snap_bpf_open(struct snap_bpf *ret)
{
	struct snap_bpf_program skeleton = { .ctx.sz = offsetof(struct snap_bpf_program, links) };
	struct snap_bpf bpf;
	int error = snap_bpf_program__load(&skeleton);

	if (error)
		return error;
	bpf.program_fd = skeleton.progs.read_task.prog_fd;
	error = try_own_task(&bpf);
	if (error)
		snap_bpf_close(&bpf);
	else
		*ret = bpf;
	return error;
}

void snap_bpf_close(struct snap_bpf *bpf)
{
	snap_close(&bpf->program_fd);
}

static void take_x86_64(const struct snap_bpf_record *record, struct snap_bpf_thread *ret)
{
	struct snap_x86_64_registers registers = { .fs_base = record->thread_pointer };

	memcpy(&registers, record->words, offsetof(struct snap_x86_64_registers, fs_base));
	ret->call = (int64_t)registers.orig_rax >= 0 && registers.orig_rax <= SNAP_MOST_CALL
			    ? (int64_t)registers.orig_rax
			    : -1;
	ret->registers_size = sizeof(registers);
	memcpy(ret->registers, &registers, sizeof(registers));
}

/* A stop takes a thread out of its call: it stands at the instruction, with all arguments. */
static void take_aarch64(const struct snap_bpf_record *record, struct snap_bpf_thread *ret)
{
	struct snap_aarch64_registers registers = { .thread_pointer = record->thread_pointer };
	const uint64_t instruction = 4;

	memcpy(&registers, record->words, offsetof(struct snap_aarch64_registers, thread_pointer));
	ret->call = record->call <= SNAP_MOST_CALL ? (int64_t)record->call : -1;
	if (ret->call >= 0) {
		registers.pc -= instruction;
		registers.x[0] = record->first_argument;
	}
	ret->registers_size = sizeof(registers);
	memcpy(ret->registers, &registers, sizeof(registers));
}

static int take_record(const struct snap_bpf_record *record, struct snap_bpf_thread *ret)
{
	if (record->on_cpu || record->on_cpu_again || record->switches != record->switches_again)
		return -EAGAIN;
	/* Since Linux 6.12 a thread may stay in the queue in its sleep (sched_delayed). */
	if (record->queued && record->state)
		return -EAGAIN;
	ret->switches = record->switches;
	ret->queued = record->queued;
	if (SNAP_OWN_ARCH == SNAP_ARCH_AARCH64)
		take_aarch64(record, ret);
	else
		take_x86_64(record, ret);
	return 0;
}

int snap_bpf_read(const struct snap_bpf *bpf, pid_t tid, struct snap_bpf_thread *ret)
{
	struct snap_bpf_record record;
	int count = read_records(bpf, tid, &record, 1);

	if (count < 0)
		return count;
	return count ? take_record(&record, ret) : -ESRCH;
}

int snap_bpf_walk(const struct snap_bpf *bpf, pid_t pid, snap_bpf_take *take, void *context)
{
	_cleanup_fd_ int fd =
		open_walk(bpf, (union bpf_iter_link_info){ .task.pid = (uint32_t)pid });
	struct snap_bpf_record records[WALK_RECORDS];
	struct snap_bpf_thread thread;
	size_t have = 0;
	ssize_t got;

	if (fd < 0)
		return fd;
	/* The kernel has a buffer of its own, so a read may end inside of a record. */
	while ((got = read(fd, (char *)records + have, sizeof(records) - have)) > 0) {
		size_t count = (have += (size_t)got) / sizeof(*records);

		for (size_t i = 0; i < count; i++)
			take(context, (pid_t)records[i].tid, take_record(&records[i], &thread),
			     &thread);
		have -= count * sizeof(*records);
		memmove(records, records + count, have);
	}
	return got < 0 ? -errno : 0;
}

#else

int snap_bpf_open(struct snap_bpf *ret _unused_)
{
	return -ENOSYS;
}

void snap_bpf_close(struct snap_bpf *bpf)
{
	snap_close(&bpf->program_fd);
}

int snap_bpf_read(const struct snap_bpf *bpf _unused_, pid_t tid _unused_,
		  struct snap_bpf_thread *ret _unused_)
{
	return -ENOSYS;
}

int snap_bpf_walk(const struct snap_bpf *bpf _unused_, pid_t pid _unused_,
		  snap_bpf_take *take _unused_, void *context _unused_)
{
	return -ENOSYS;
}

#endif
