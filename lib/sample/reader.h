/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reader: reads what a process can make sleep: where its threads are, its memory, its mappings.
 *
 * A page that a silent server is to fill, or a lock that the process keeps, blocks the reader,
 * perhaps where no signal ends it. So a worker reads (base/workers.h), which is left behind if it
 * takes too long. Mostly one call does for a thread: where it is comes with the bytes of the stack
 * that it was on the last time. Knows nothing of what is read, nor which thread is read again when.
 *
 * All functions return -ETIMEDOUT where a call did not return in time: the process had better be
 * let be. For one thread at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "bpf/threads.h"
#include "model/memory_image.h"
#include "proc/address_space.h"
#include "proc/credentials.h"
#include "proc/procfs.h"
#include "sample/reader/wait_context.h"
#include "sample/sampler.h"

enum {
	SNAP_READER_STACK_MS = 100, /* patience for a stack, and for what the kernel tells */
	SNAP_READER_SPACE_MS = 400, /* for the mappings, of which there may be many */
};

struct snap_reader;

/*
 * From now on all registers of threads that are on no processor are read by BPF, if that is
 * possible: 0, or why it is not, as of snap_bpf_open().
 */
int snap_reader_open_bpf(struct snap_reader *reader);

/* The target: a thread that lives, and what identifies its program (struct snap_stat). */
struct snap_reader_target {
	pid_t pid, tid;
	uint64_t program; /* 0: whatever it is */
	bool is_file;     /* its stack lies in a file, whose pages a FUSE server may fill */
};

/* To be made early: its workers have the memory that the caller has now. */
struct stacksnap_error *snap_reader_new(const struct snap_procfs *procfs, size_t most,
					struct snap_reader **ret) _must_check_;
/* Waits up to 100 ms for workers that do not end. NULL is allowed. */
void snap_reader_destroy(struct snap_reader *reader);

/*
 * What stat tells of a thread; of a process if `tid` is 0. Since Linux 6.18 it waits for an exec,
 * which may wait for a file's server. 0 or a negative errno.
 */
int snap_reader_stat(struct snap_reader *reader, pid_t pid, pid_t tid, struct snap_stat *ret);

/* Whether its memory may be read: 0 or a negative errno. */
int snap_reader_try(struct snap_reader *reader, const struct snap_reader_target *target);

/* Where a thread is, and what is to be read with that. */
struct snap_reader_question {
	struct snap_reader_target target;
	/* If it is on this stack, bytes of it from below sp on. */
	uint64_t start, end;
	bool context; /* what explains its wait (sample/reader/wait_context.h) … */
	bool always;  /* … however much was read for others */
};

/*
 * Answers, with up to `most` bytes of the stack: snap_reader_read() has them then. ESTALE: it is
 * another program.
 */
int snap_reader_locate(struct snap_reader *reader, const struct snap_reader_question *question,
		       size_t most, struct snap_syscall_line *ret);
/*
 * The same for many at once, which costs one hand-over: snap_reader_located() has what became of
 * each, until the next list or until a call was late. ETIMEDOUT: then *late_ret is the one being
 * read, SIZE_MAX: none, and nothing is known of any.
 */
enum { SNAP_READER_MOST = 64 }; /* of one list */

int snap_reader_locate_all(struct snap_reader *reader, const struct snap_reader_question *questions,
			   size_t count, size_t *late_ret);
/* Of number `index` of the list; ENODATA: nothing is known. */
int snap_reader_located(const struct snap_reader *reader, size_t index,
			struct snap_syscall_line *ret);
/*
 * All registers of number `index`, or of what snap_reader_locate() has just located; NULL: only what
 * procfs tells is known. With them sp and pc are known of a thread that waits for a processor, too,
 * which is `running`.
 */
const struct snap_bpf_thread *snap_reader_registers_of(const struct snap_reader *reader,
						       size_t index);
const struct snap_bpf_thread *snap_reader_registers(const struct snap_reader *reader);
/* Whether such a thread has not run since: 0, EAGAIN: it has; or another negative errno. */
int snap_reader_check_switches(struct snap_reader *reader, const struct snap_reader_target *target,
			       uint64_t switches);
/* Whether these bytes were read with that. */
bool snap_reader_has_read(const struct snap_reader *reader, size_t index, uint64_t address,
			  uint8_t *bytes, size_t size, size_t *got_ret);

/* Bytes from an address on, up to the first that cannot be read: how many. */
ssize_t snap_reader_read(struct snap_reader *reader, const struct snap_reader_target *target,
			 uint64_t address, uint8_t *bytes, size_t size);

/*
 * How many reads beside stacks there may be until this is called again, pieces of memory and links:
 * reads beyond them are left out.
 */
void snap_reader_set_context_most(struct snap_reader *reader, int64_t most);
/* What was read beside the stack of number `index`, or with snap_reader_locate(); NULL: nothing. */
const struct snap_wait_context *snap_reader_context_of(const struct snap_reader *reader,
						       size_t index);
const struct snap_wait_context *snap_reader_context(const struct snap_reader *reader);
/*
 * The same of threads whose calls are known, which are not located: one hand-over. What was located
 * before stays. ETIMEDOUT: as of a list.
 */
struct snap_reader_caller {
	struct snap_reader_target target;
	struct snap_thread_call call;
};

int snap_reader_read_context(struct snap_reader *reader, const struct snap_reader_caller *callers,
			     size_t count, size_t *late_ret);
/* Of number `index` of them, until the next such call; NULL: nothing. */
const struct snap_wait_context *snap_reader_context_called(const struct snap_reader *reader,
							   size_t index);

/* Whether the last call was late over that. */
bool snap_reader_context_was_late(const struct snap_reader *reader);

/* Pieces of memory, each up to the first byte that cannot be read: in one hand-over. */
int snap_reader_read_bytes(struct snap_reader *reader, const struct snap_reader_target *target,
			   struct snap_sampled_bytes *words, size_t count);

/*
 * What a plan for single threads names of the memory of one, `thread`. Of a finished image, which
 * is there until the next call of any function.
 */
int snap_reader_execute(struct snap_reader *reader, const struct snap_reader_target *target,
			const struct snap_plan_thread *thread, const struct snap_memory_plan *plan,
			const struct snap_memory_image **ret);

/* Which runtimes a space is looked at for, bits of enum snap_runtime_kind; none before. */
void snap_reader_set_runtimes(struct snap_reader *reader, unsigned wanted);

/* What was read of a process, with its mappings. */
struct snap_reader_space {
	struct snap_space space; /* with pieces */
	unsigned runtimes;       /* that it looks as if it had (stop/plan/candidate.h) */
	struct snap_credentials credentials;
	uint64_t net_namespace; /* inode; 0: unknown */
};

/*
 * Reads it and calls `use` with it; it is gone when `use` returns. `taken`: bytes that the mappings
 * of others take, see proc/address_space.h. In *error_ret 0 or a negative errno: then there is
 * no space.
 */
struct stacksnap_error *
snap_reader_space(struct snap_reader *reader, const struct snap_reader_target *target,
		  uint64_t taken,
		  struct stacksnap_error *(*use)(void *context, const struct snap_reader_space *),
		  void *context, int *error_ret) _must_check_;
