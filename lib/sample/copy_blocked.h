/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies a thread that is on no processor without stopping it, and knows afterwards whether it stood
 * still.
 *
 * Where a blocked thread is, procfs tells: program counter, stack pointer, system call. The stack
 * is copied while it sleeps, and believed only if counters that every run of the thread moves have
 * not moved. The other registers stay unknown: the copy is `partial`. Where BPF is permitted it tells
 * all registers, and those of a thread that waits for a processor. Nothing here allocates, locks
 * or waits; descriptors and memory are the caller's, and so is how the thread is read, which it can
 * make sleep. The counters it cannot. Knows nothing of mappings, of which threads
 * there are, or of what is in a copy.
 */
#pragma once

#include "bpf/threads.h"
#include "model/capture.h"
#include "proc/procfs.h"
#include "sample/copy_wait_bytes.h"

/* What moves with every run of a thread. */
enum snap_guard_kind {
	SNAP_GUARD_NONE,      /* nothing does: threads must be stopped */
	SNAP_GUARD_SCHEDSTAT, /* "schedstat": time run, time waited, runs */
	SNAP_GUARD_SWITCHES,  /* "status": voluntary and other switches; sp and pc are compared, too
			      */
};

/*
 * Which guard holds here, judged by the calling thread, which has run for sure, and sleeps for up
 * to 13 ms where none seems to. A process's own schedstat may be there and stay 0: a kernel without
 * the counters.
 */
enum snap_guard_kind snap_guard_find(const struct snap_procfs *procfs);

/* The file of a thread that holds the guard's counters; NULL for NO_GUARD. */
const char *snap_guard_file(enum snap_guard_kind guard);

/* The counters at one moment. */
struct snap_run_counters {
	uint64_t run_ns; /* SCHEDSTAT: processor time; else 0 */
	uint64_t waited; /* SCHEDSTAT: time waited; SWITCHES: involuntary switches */
	uint64_t runs;   /* SCHEDSTAT: runs; SWITCHES: voluntary switches */
};

static inline bool snap_run_counters_equal(const struct snap_run_counters *a,
					   const struct snap_run_counters *b)
{
	return a->run_ns == b->run_ns && a->waited == b->waited && a->runs == b->runs;
}

/* Reads the guard's open file from its beginning; 0 or a negative errno (ESRCH: it has gone). */
int snap_guard_read(enum snap_guard_kind guard, int guard_fd, struct snap_run_counters *ret);

/* How a thread is read; they return negative errnos. ETIMEDOUT: that did not return in time. */
struct snap_blocked_source {
	int (*locate)(void *context, struct snap_syscall_line *ret);
	/* All registers of what was located last; NULL, or it returns that: they are not known. */
	const struct snap_bpf_thread *(*registers)(void *context);
	/* Whether it has not run since they were read; EAGAIN: it has. */
	int (*check)(void *context, uint64_t switches);
	/* Up to the first byte that cannot be read. */
	ssize_t (*read)(void *context, uint64_t address, uint8_t *bytes, size_t size);
	/* Memory beside the stack, into copy->memory; NULL: none. */
	int (*read_more)(void *context, const struct snap_syscall_line *line,
			 struct snap_thread *copy);
	void *context;
};

/* A thread, and where its copy goes. */
struct snap_blocked_copy {
	/* in */
	enum snap_guard_kind guard;
	int guard_fd; /* of the thread, open for reading; kept by the caller */
	struct snap_blocked_source source;
	struct snap_run_counters counters; /* read before, by the caller */
	/* The end of the stack that holds an address, of readable mappings; 0: none is known. */
	uint64_t (*stack_end)(void *context, uint64_t sp);
	void *context;
	uint8_t *bytes;   /* where the stack goes; aligned to 16 */
	size_t size;      /* room there; --max-stack */
	uint64_t fs_base; /* as it was in a stop; 0: unknown. Out: as it is, with all registers */
	struct snap_copied_wait_bytes
		*words; /* where memory that explains the wait goes; NULL: nowhere */
	/* out */
	bool queued; /* it waits for a processor, and has not run as long as `switches` stays */
	uint64_t switches;
	_Alignas(16) uint8_t registers[SNAP_MAX_REGISTERS];
};

enum snap_copy_result {
	SNAP_COPY_DONE,     /* copied, and it did not run meanwhile */
	SNAP_COPY_RUNNING,  /* it runs, or waits for a processor with unknown registers */
	SNAP_COPY_MOVED,    /* it ran while it was copied */
	SNAP_COPY_UNMAPPED, /* no mapping is known at its stack pointer: the mappings are old */
	SNAP_COPY_UNUSABLE, /* a 32-bit thread, or its stack cannot be read: only a stop helps */
	SNAP_COPY_GONE,     /* it has exited */
	SNAP_COPY_REFUSED,  /* reading is not permitted (EACCES, EPERM) */
	SNAP_COPY_STALLED,  /* reading did not return in time */
	SNAP_COPY_STALE,    /* it is another program (ESTALE) */
};

/*
 * Copies a thread. With DONE `copy` has result COPIED, taken UNSTOPPED, partial or not, the registers
 * of *arch_ret (they point into `blocked`; if partial, fs_base as it was given), its call and its
 * stack (in blocked->bytes); name, state and so on are left alone. With all others `copy` is not touched.
 */
enum snap_copy_result snap_copy_blocked(struct snap_blocked_copy *blocked, struct snap_thread *copy,
					enum snap_arch *arch_ret);
