/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Discover: who is in the tree.
 *
 * Turns the target options into the capture's list of processes: identity held by a pidfd and the
 * start time, descendants by ppid, read again until the tree stands still, labels of the process
 * (user, cgroup, exe, arguments, ancestors). Stops nobody and knows nothing of threads' stacks.
 */
#ifndef SNAP_DISCOVER_DISCOVER_H
#define SNAP_DISCOVER_DISCOVER_H

#include "base/error.h"
#include "base/shared_memory.h"
#include "base/workers.h"
#include "model/capture.h"
#include "model/options.h"

/*
 * Who asks processes what they can make sleep: with workers (base/workers.h), which must have been
 * made before the memory of a long-lived caller grows. For one thread at a time.
 */
struct snap_asker;

enum {
	SNAP_ASKER_ROOM = 192 << 20, /* bytes of address space; pages come when they are touched */
};

/* `flags`: enum snap_workers_flags. */
struct stacksnap_error *snap_asker_new(unsigned flags, struct snap_asker **ret) _must_check_;
/*
 * What it asks with, for somebody with other questions when no process is looked for any more. It
 * stays the asker's, and goes with it.
 */
struct snap_asker_loan {
	struct snap_workers *pool;
	int root_fd;             /* of procfs; workers have it, too */
	struct snap_region room; /* zeroed, seen by workers */
};
/* False: it has been lent, or there is too little to lend, so make your own. */
bool snap_asker_lend(struct snap_asker *asker, struct snap_asker_loan *ret);
/* From now on who sleeps over a question has so much, in percent, of the time there was at first. */
void snap_asker_set_patience(struct snap_asker *asker, uint32_t percent);
/* Waits up to 100 ms for workers that do not end. NULL is allowed. */
void snap_asker_destroy(struct snap_asker *asker);

/*
 * Fills capture->host, capture->processes (without maps and threads) and capture->live. A target
 * that does not exist stays as a process with trouble no_such_process; one that may not be traced
 * keeps what can be read; one that does not respond has the trouble not_responding. Who asks stays
 * with the capture, for snap_discover_again(). `percent`, 1 to 20: of options->timeout_ns (0: there
 * is no hurry), for asking the processes that were found, and again for reading them; finding them
 * may take three times as long. Who was found by then and not read has the trouble out_of_time; how
 * many were not even looked at, a warning tells. Errors: NOT_FOUND when --name, --unit … match
 * nothing, CANCELLED, NO_MEMORY, OS.
 */
struct stacksnap_error *snap_discover(const struct snap_options *options, unsigned percent,
				      struct snap_capture *capture) _must_check_;

/* What somebody who looks again and again knows already; see snap_discover_with(). */
struct snap_discover_known {
	/*
	 * The process if it is known, else NULL: then its labels and descriptors are not read, its
	 * fields are those of the one that is known (strings borrowed), and it is a root of its own
	 * if its parent has gone. NULL: the first look.
	 */
	const struct snap_process *(*find)(void *context, pid_t pid, uint64_t start_ticks);
	void *context;
	long descriptors; /* how many may be opened for capture->live */
	unsigned percent; /* as in snap_discover(); 0: there is no hurry */
	/*
	 * Without `percent`: for asking new processes, and for reading what they are, each. Who is
	 * found when it is over has the trouble out_of_time, to be read with snap_discover_one().
	 */
	int64_t facts_ns;
	struct snap_asker *asker; /* NULL: one is made for the call */
};

/*
 * snap_discover() with another share of descriptors. Not the first look: pids among the targets
 * are not looked for, as who has them by now is somebody else; who is known counts as matched; that
 * nothing is found is no error.
 */
struct stacksnap_error *snap_discover_with(const struct snap_options *options,
					   const struct snap_discover_known *known,
					   struct snap_capture *capture) _must_check_;

/*
 * Reads again the labels and descriptors of one process, which has another program by now, the
 * one that it names: it becomes the only one of `capture`, `vanished` if it has gone, with the trouble not_responding if
 * it does not respond. `descriptors`: how many may be opened. `asker`: NULL: one is made.
 */
struct stacksnap_error *snap_discover_one(const struct snap_options *options,
					  const struct snap_process *process, long descriptors,
					  struct snap_asker *asker,
					  struct snap_capture *capture) _must_check_;

/*
 * The directory of a process, O_PATH, the caller's to close, for those whose live.proc_fd is -1:
 * discovery takes three quarters of what RLIMIT_NOFILE allows at most, and raising that limit is
 * the program's matter. A negative errno; ESRCH if the process has gone, also if another one has
 * its pid by now. The process can make the caller wait.
 */
int snap_discover_open(const struct snap_process *process);

/*
 * Why a process may not be traced, as a sentence with its remedy ("cannot trace 4711: Operation not
 * permitted (kernel.yama.ptrace_scope is 1; run as root or …)"), in the capture's arena, and the
 * trouble it amounts to. os_errno: what PTRACE_SEIZE or procfs said. `asker`: who asks what the
 * process can make sleep; NULL: the caller, who may be made to wait.
 */
void snap_discover_explain(struct snap_capture *capture, struct snap_process *process,
			   struct snap_asker *asker, int os_errno);

/*
 * Children that the processes of the capture have by now and the capture does not list; appended,
 * with their live descriptors. Called after the SEIZE, before the pause. True if there were some:
 * then capture->processes and capture->live may have moved. Reads only what is new: one listing of
 * the pids where nothing has changed.
 */
struct stacksnap_error *snap_discover_again(const struct snap_options *options,
					    struct snap_capture *capture,
					    bool *grown_ret) _must_check_;

/*
 * Which of `count` processes of the capture (by index) run another program by now than that whose
 * labels were read, or are about to. Who does not answer in time does not, as far as is known.
 */
void snap_discover_execs(struct snap_capture *capture, const size_t *processes, size_t count,
			 bool *others_ret);

/* Ends what discovery keeps with a capture to look again, which is done. */
void snap_discover_end(struct snap_capture *capture);

#endif
