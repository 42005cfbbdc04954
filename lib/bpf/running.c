/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples of what runs: see running.h. */
#include "bpf/running.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/arch/registers.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	USUAL_STACK = 16384,
	DEEP_STACK = 60 * 1024,     /* a record has at most 64 KiB */
	RING_BYTES = 1 << 20,       /* 150 ms of 99 Hz, if all stacks are deep … */
	LEAST_RING_BYTES = 1 << 17, /* … and of many processors: 80 ms of usual ones */
	ALL_RINGS_BYTES = 1 << 25,  /* the kernel does not swap them out */
	MOST_PROCESSORS = 4096,     /* CONFIG_NR_CPUS of distributions is 8,192 at most */
	SAMPLES_A_PROCESSOR = 4,    /* that are kept, of different threads */
	LEAST_SAMPLES = 64,
};

/* The registers that a sample has, by their numbers in asm/perf_regs.h, and where they go. */
#if defined(__x86_64__)
#define AT(name) (offsetof(struct snap_x86_64_registers, name) / sizeof(uint64_t))
static const uint8_t places[] = { AT(rax), AT(rbx), AT(rcx),    AT(rdx), AT(rsi), AT(rdi), AT(rbp),
				  AT(rsp), AT(rip), AT(eflags), AT(cs),  AT(ss),  AT(r8),  AT(r9),
				  AT(r10), AT(r11), AT(r12),    AT(r13), AT(r14), AT(r15) };
static const uint64_t wanted_registers =
	0xff0fff; /* without ds, es, fs, gs: REG_NOSUPPORT of the kernel */
static const size_t sp_place = AT(rsp);
#else
#define AT(name) (offsetof(struct snap_aarch64_registers, name) / sizeof(uint64_t))
static const uint8_t places[] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,         9,      10,
				  11, 12, 13, 14, 15, 16, 17, 18, 19,        20,     21,
				  22, 23, 24, 25, 26, 27, 28, 29, AT(x[30]), AT(sp), AT(pc) };
static const uint64_t wanted_registers = (1ull << 33) - 1;
static const size_t sp_place = AT(sp);
#endif

struct ring {
	int fd;
	struct perf_event_mmap_page *head; /* and the data behind it */
};

struct slot {
	struct snap_running_sample sample;
	uint8_t *bytes; /* DEEP_STACK */
	bool is_taken;
};

struct snap_running {
	unsigned hz;
	uint32_t stack_bytes;
	size_t ring_bytes; /* a power of two of pages */
	struct ring *rings;
	size_t ring_count;
	struct slot *slots;
	size_t slot_count;
	uint8_t *bytes; /* of all slots: address space, of which unused parts take no memory */
	uint8_t record[1 << 16];
};

static int open_event(unsigned hz, uint32_t stack_bytes, int processor)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = SNAP_NS_PER_S / hz,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER |
			       PERF_SAMPLE_STACK_USER,
		.sample_regs_user = wanted_registers,
		.sample_stack_user = stack_bytes,
		/* Without the kernel a tick that meets it is dropped: all those of threads in calls. */
		.exclude_kernel = 0,
		.exclude_hv = 1,
		.exclude_idle = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	long fd = syscall(SYS_perf_event_open, &attr, -1, processor, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static void close_rings(struct snap_running *running)
{
	for (size_t i = 0; i < running->ring_count; i++) {
		munmap(running->rings[i].head, running->ring_bytes + (size_t)getpagesize());
		snap_close(&running->rings[i].fd);
	}
	running->ring_count = 0;
}

/* 0 or a negative errno; a processor that is off has no event. */
static int open_rings(struct snap_running *running, size_t processors)
{
	for (size_t i = 0; i < processors; i++) {
		struct ring *ring = &running->rings[running->ring_count];

		ring->fd = open_event(running->hz, running->stack_bytes, (int)i);
		if (ring->fd == -ENODEV)
			continue;
		if (ring->fd < 0)
			return ring->fd;
		ring->head = mmap(NULL, running->ring_bytes + (size_t)getpagesize(),
				  PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
		if (ring->head == MAP_FAILED) {
			int error = -errno;

			snap_close(&ring->fd);
			return error;
		}
		running->ring_count++;
	}
	return running->ring_count ? 0 : -ENODEV;
}

static size_t count_processors(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	return count < 1 ? 1 : count > MOST_PROCESSORS ? MOST_PROCESSORS : (size_t)count;
}

int snap_running_open(unsigned hz, struct snap_running **ret)
{
	size_t processors = count_processors();
	struct snap_running *running = calloc(1, sizeof(*running));
	int error = -ENOMEM;

	if (!running)
		return error;
	running->hz = hz;
	running->stack_bytes = USUAL_STACK;
	running->ring_bytes = RING_BYTES;
	while (running->ring_bytes > LEAST_RING_BYTES &&
	       running->ring_bytes * processors > ALL_RINGS_BYTES)
		running->ring_bytes /= 2;
	running->slot_count = SNAP_MAX(processors * SAMPLES_A_PROCESSOR, (size_t)LEAST_SAMPLES);
	running->rings = calloc(processors, sizeof(*running->rings));
	running->slots = calloc(running->slot_count, sizeof(*running->slots));
	running->bytes = mmap(NULL, running->slot_count * DEEP_STACK, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (running->bytes == MAP_FAILED)
		running->bytes = NULL;
	if (running->rings && running->slots && running->bytes)
		error = open_rings(running, processors);
	if (error) {
		snap_running_close(running);
		return error;
	}
	for (size_t i = 0; i < running->slot_count; i++)
		running->slots[i].bytes = running->bytes + i * DEEP_STACK;
	*ret = running;
	return 0;
}

void snap_running_close(struct snap_running *running)
{
	if (!running)
		return;
	close_rings(running);
	if (running->bytes)
		munmap(running->bytes, running->slot_count * DEEP_STACK);
	free(running->rings);
	free(running->slots);
	free(running);
}

void snap_running_deepen(struct snap_running *running)
{
	if (running->stack_bytes == DEEP_STACK)
		return;
	close_rings(running);
	running->stack_bytes = DEEP_STACK;
	/* Without events no samples come, and the caller does what it does then. */
	if (open_rings(running, count_processors()))
		close_rings(running);
}

/* ---- records ---- */

/* What is left of a record. */
struct rest {
	const uint8_t *at;
	size_t size;
};

static bool take_bytes(struct rest *rest, void *to, size_t size)
{
	if (rest->size < size)
		return false;
	memcpy(to, rest->at, size);
	rest->at += size;
	rest->size -= size;
	return true;
}

/* That of the thread, else the oldest one. */
static struct slot *slot_for(struct snap_running *running, pid_t tid)
{
	struct slot *oldest = &running->slots[0];

	for (size_t i = 0; i < running->slot_count; i++) {
		struct slot *slot = &running->slots[i];

		if (slot->sample.tid == tid)
			return slot;
		if (slot->sample.time_ns < oldest->sample.time_ns)
			oldest = slot;
	}
	return oldest;
}

static bool take_registers(struct rest *rest, struct snap_running_sample *sample)
{
	uint64_t abi, words[SNAP_MAX_REGISTERS / sizeof(uint64_t)] = { 0 };

	/* Of kernel threads, and of programs of 32 bits, none. */
	if (!take_bytes(rest, &abi, sizeof(abi)) || abi != PERF_SAMPLE_REGS_ABI_64)
		return false;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(places); i++)
		if (!take_bytes(rest, &words[places[i]], sizeof(words[0])))
			return false;
#if defined(__x86_64__)
	words[AT(orig_rax)] = UINT64_MAX;
#endif
	memcpy(sample->registers, words, SNAP_OWN_REGISTERS);
	sample->sp = words[sp_place];
	return true;
}

/* perf_event_open(2): tid, time, registers, stack, in this order, as the event asks for them. */
static void take_sample(struct snap_running *running, struct rest rest)
{
	struct snap_running_sample sample = { .tid = 0 };
	uint32_t pid_and_tid[2];
	uint64_t size, kept = 0;
	struct rest stack;
	struct slot *slot;

	if (!take_bytes(&rest, pid_and_tid, sizeof(pid_and_tid)) ||
	    !take_bytes(&rest, &sample.time_ns, sizeof(sample.time_ns)) ||
	    !take_registers(&rest, &sample) || !take_bytes(&rest, &size, sizeof(size)) ||
	    size > rest.size || size > DEEP_STACK || (pid_t)pid_and_tid[1] <= 0)
		return;
	stack = (struct rest){ rest.at, size };
	rest = (struct rest){ rest.at + size, rest.size - size };
	if (size && (!take_bytes(&rest, &kept, sizeof(kept)) || kept > size))
		return;
	sample.tid = (pid_t)pid_and_tid[1];
	slot = slot_for(running, sample.tid);
	sample.stack = slot->bytes;
	sample.stack_size = (uint32_t)kept;
	sample.stack_is_cut = kept == size;
	(void)take_bytes(&stack, slot->bytes, kept);
	slot->sample = sample;
	slot->is_taken = false;
}

static void copy_from_ring(const struct snap_running *running, const struct ring *ring, uint64_t at,
			   void *to, size_t size)
{
	const uint8_t *data = (const uint8_t *)ring->head + getpagesize();
	size_t offset = (size_t)(at % running->ring_bytes),
	       first = SNAP_MIN(size, running->ring_bytes - offset);

	memcpy(to, data + offset, first);
	memcpy((uint8_t *)to + first, data, size - first);
}

static void drain_ring(struct snap_running *running, const struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->head->data_tail;
	struct perf_event_header header;

	while (head - tail >= sizeof(header) && head - tail <= running->ring_bytes) {
		copy_from_ring(running, ring, tail, &header, sizeof(header));
		if (header.size < sizeof(header) || header.size > head - tail)
			break;
		copy_from_ring(running, ring, tail, running->record, header.size);
		tail += header.size;
		if (header.type == PERF_RECORD_SAMPLE)
			take_sample(running, (struct rest){ running->record + sizeof(header),
							    header.size - sizeof(header) });
	}
	__atomic_store_n(&ring->head->data_tail, head, __ATOMIC_RELEASE);
}

void snap_running_drain(struct snap_running *running)
{
	for (size_t i = 0; i < running->ring_count; i++)
		drain_ring(running, &running->rings[i]);
}

const struct snap_running_sample *snap_running_take(struct snap_running *running, pid_t tid,
						    int64_t after_ns)
{
	for (size_t i = 0; i < running->slot_count; i++) {
		struct slot *slot = &running->slots[i];

		if (slot->sample.tid != tid || slot->is_taken || slot->sample.time_ns <= after_ns)
			continue;
		slot->is_taken = true;
		return &slot->sample;
	}
	return NULL;
}
