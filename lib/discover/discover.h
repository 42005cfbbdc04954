/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Discover: finds the processes of the tree.
 *
 * Turns the target options into the capture's list of processes: identity by a pidfd and the start
 * time, descendants by ppid, read again until the tree does not change, labels of the process
 * (user, cgroup, exe, arguments, ancestors). Stops no process, and knows nothing of the stacks of
 * threads.
 */
#pragma once

#include "base/error.h"
#include "base/shared_memory.h"
#include "base/workers.h"
#include "model/capture.h"
#include "model/options.h"

/*
 * Asker: makes the reads that a process can block, with workers (base/workers.h). A long-lived
 * caller makes it before its memory grows. For one thread at a time.
 */
struct snap_asker;

enum {
	SNAP_ASKER_ROOM = 192 << 20, /* bytes of address space; pages come when they are touched */
};

/* `flags`: enum snap_workers_flags. */
struct stacksnap_error *snap_asker_new(unsigned flags, struct snap_asker **ret) _must_check_;
/*
 * The workers of an asker, lent for other questions once discovery is done. They stay the asker's,
 * and end with it.
 */
struct snap_asker_loan {
	struct snap_workers *pool;
	int root_fd;             /* of procfs; workers have it, too */
	struct snap_region room; /* zeroed, seen by workers */
};
/* False: they are lent already, or too few are left; then make your own. */
bool snap_asker_lend(struct snap_asker *asker, struct snap_asker_loan *ret);
/* From now on a worker that sleeps over a question has so much of the usual time, in percent. */
void snap_asker_set_patience(struct snap_asker *asker, uint32_t percent);
/* Waits up to 100 ms for workers that do not end. NULL is allowed. */
void snap_asker_destroy(struct snap_asker *asker);

/*
 * Fills capture->host, capture->processes (without maps and threads) and capture->live. A target
 * that does not exist stays as a process with the trouble no_such_process; one that may not be
 * traced keeps what can be read; one that does not respond has the trouble not_responding. The
 * asker stays with the capture, for snap_discover_again(). `percent`, 1 to 20: the part of
 * options->timeout_ns (0: no limit) for asking the processes that were found, and again for reading
 * them; finding them may take three times as long. A process that was found and not read by then
 * has the trouble out_of_time; a warning says how many were not even checked. Errors: NOT_FOUND
 * when --name, --unit … match nothing, CANCELLED, NO_MEMORY, OS.
 */
struct stacksnap_error *snap_discover(const struct snap_options *options, unsigned percent,
				      struct snap_capture *capture) _must_check_;

/* What a caller knows already from earlier looks; see snap_discover_with(). */
struct snap_discover_known {
	/*
	 * Returns the process if it is known, else NULL. The labels and descriptors of a known
	 * process are not read, its fields are copied (strings borrowed), and it is a root of its
	 * own if its parent has gone. `find` NULL: the first look.
	 */
	const struct snap_process *(*find)(void *context, pid_t pid, uint64_t start_ticks);
	void *context;
	long descriptors; /* how many may be opened for capture->live */
	unsigned percent; /* as in snap_discover(); 0: no limit */
	/*
	 * Without `percent`: the time for asking new processes, and again for reading them. A
	 * process that is found later has the trouble out_of_time, and is to be read with
	 * snap_discover_one().
	 */
	int64_t facts_ns;
	struct snap_asker *asker; /* NULL: one is made for the call */
};

/*
 * snap_discover() with another share of descriptors. After the first look, target pids are not
 * searched again, as another process may have them by now. Known processes count as matched.
 * Finding nothing is no error.
 */
struct stacksnap_error *snap_discover_with(const struct snap_options *options,
					   const struct snap_discover_known *known,
					   struct snap_capture *capture) _must_check_;

/*
 * Reads again the labels and descriptors of one process that runs another program by now,
 * `process->program`. It becomes the only process of `capture`, `vanished` if it has gone, with the
 * trouble not_responding if it does not respond. `descriptors`: how many may be opened. `asker`:
 * NULL: one is made.
 */
struct stacksnap_error *snap_discover_one(const struct snap_options *options,
					  const struct snap_process *process, long descriptors,
					  struct snap_asker *asker,
					  struct snap_capture *capture) _must_check_;

/*
 * The directory of a process, O_PATH, the caller's to close, for processes whose live.proc_fd is
 * -1: discovery takes three quarters of RLIMIT_NOFILE at most, and only the program may raise that
 * limit. A negative errno; ESRCH if the process has gone, also if another one has its pid by now.
 * The process can block the caller.
 */
int snap_discover_open(const struct snap_process *process);

/*
 * Explains why a process may not be traced, as a sentence with its remedy ("cannot trace 4711:
 * Operation not permitted (kernel.yama.ptrace_scope is 1; run as root or …)"), in the capture's
 * arena, and sets its trouble. os_errno: that of PTRACE_SEIZE or procfs. `asker`: for the reads
 * that the process can block; NULL: the caller makes them, and may be blocked.
 */
void snap_discover_explain(struct snap_capture *capture, struct snap_process *process,
			   struct snap_asker *asker, int os_errno);

/*
 * Appends children of the capture's processes that the capture does not list yet, with their live
 * descriptors. Called after the SEIZE, before the pause. *grown_ret: there were some; then
 * capture->processes and capture->live may have moved. It reads only what is new: one listing of
 * the pids if nothing has changed.
 */
struct stacksnap_error *snap_discover_again(const struct snap_options *options,
					    struct snap_capture *capture,
					    bool *grown_ret) _must_check_;

/*
 * Finds out which of `count` processes of the capture (by index) run, or are about to run, another
 * program than that whose labels were read. False for a process that does not answer in time.
 */
void snap_discover_execs(struct snap_capture *capture, const size_t *processes, size_t count,
			 bool *others_ret);

/* Ends what discovery keeps with a capture for snap_discover_again(). */
void snap_discover_end(struct snap_capture *capture);
