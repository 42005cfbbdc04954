/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tracer: copies the processes of one tree at one instant, and stops those threads for it that it must.
 *
 * A short-lived child does the work, so that its death, for any reason, lets everything run again.
 * It uses only SEIZE and INTERRUPT, and never writes to a target. Its results are in memory that it
 * shares with its parent; they are valid at any moment, complete or not. Knows threads, registers
 * and bytes; nothing of trees, labels, files or what stacks mean.
 */
#pragma once

#include "base/error.h"
#include "base/shared_memory.h"
#include "model/capture.h"
#include "model/options.h"
#include "proc/procfs.h"

/* How long to wait for a call that a process can block, if nothing was slow before. */
enum { SNAP_STOP_PATIENCE_MS = 150 };

/* Decisions of the caller; a pointer that is NULL is not called. */
struct snap_stop_hook {
	/*
	 * --engine=ptrace: called in the tracing process for each stopped thread, which it may read
	 * by ptrace. It writes at most `max` pcs, innermost first, and returns their number.
	 */
	size_t (*unwind)(void *context, pid_t tid, uint64_t *pcs, size_t max);
	/*
	 * --no-stop: whether a copy without all registers suffices, or a stop would give more.
	 * `process` is an index in capture->processes, whose mappings are known; the array may move
	 * between two calls.
	 */
	bool (*suffices)(void *context, const struct snap_capture *capture, size_t process,
			 const struct snap_thread *copy);
	/*
	 * Plans which memory of a managed runtime the stop copies. It is called for a running
	 * process that may have a runtime, and whose mappings are known. *found_ret: there is a
	 * plan.
	 */
	struct stacksnap_error *(*probe)(void *context, const struct snap_options *options,
					 struct snap_capture *capture, size_t process,
					 struct snap_memory_plan *plan, bool *found_ret);
	/*
	 * Copies memory of other stacks that the frames of a thread lie in, while it stands still, into
	 * `memory`, and has thread->memory lead there. `until_ns`: CLOCK_MONOTONIC.
	 */
	void (*follow)(void *context, const struct snap_capture *capture, size_t process,
		       struct snap_thread *thread, struct snap_shared_memory *memory,
		       int64_t until_ns);
	void *context;
};

/* A process as the tracing child sees it; the child's results are in the shared mapping. */
struct snap_traced {
	/* written by the parent, before the child reads it */
	pid_t pid;
	int proc_fd;          /* O_PATH directory of procfs, open in both; -1: look it up by pid */
	uint64_t start_ticks; /* with pid its identity; 0: any process with that pid */
	uint64_t program;     /* the one whose facts are known, as of struct snap_stat */
	uint64_t args_start;  /* its arguments are read once more, with what explains waits … */
	size_t args_size;     /* … so many bytes; 0: not */
	size_t index;         /* in capture->processes; SIZE_MAX: forked during the stop */
	bool look_only; /* list its threads, touch none: kernel threads, processes with trouble */
	bool foreign_namespace; /* its tids differ inside: read ns_tid of each thread */
	/* Set by the parent on request, in the shared mapping. NULL: none. */
	const struct snap_memory_plan *plan;
	/* written by the child */
	int error;        /* errno of SEIZE or of reading; 0: none */
	bool seized;      /* some thread is, or was, traced by us, or could be copied at rest */
	bool vanished;    /* gone before it could be stopped */
	bool has_foreign; /* a thread was seized whose tid was another process's by then */
	bool execed;      /* it runs another program now: what was read before the stop is stale */
	int64_t waited_ns; /* the time that was up before all its threads stood still; 0: it was not */
	bool stalled;      /* a read of its memory did not return */
	bool uncopied;     /* the time of the stop was up before a stack of it was read */
	bool left_out; /* there was no time for it before the stop: none of its threads is known */
	/* A call that it can block did not return, so the process was left alone. */
	enum snap_unresponsive {
		SNAP_RESPONSIVE,
		SNAP_UNRESPONSIVE_MAPS,
		SNAP_UNRESPONSIVE_SEIZE,
		SNAP_UNRESPONSIVE_OTHERS, /* it was not tried, as the SEIZE of others took too long */
	} unresponsive;
	bool unsupported;     /* registers of another architecture or word size */
	uint32_t forked_from; /* of a process with index SIZE_MAX: the process that forked it */
	enum snap_arch arch;
	struct snap_map *maps;
	size_t map_count;
	struct snap_credentials credentials; /* of the moment of the mappings */
	bool maps_cut;                       /* there were more */
	int maps_error; /* errno of the last look at them; 0: none, or it had exited */
	struct snap_piece *pieces;
	size_t piece_count;
	unsigned runtimes; /* bits of enum snap_runtime_kind that it may have, at a first look */
	struct snap_memory_image
		*memory; /* what the plan copied, for snap_plan_finish(); NULL: nothing */
	/* Memory that explains waits, as snap_process.words; NULL: none was wanted or found. */
	struct snap_memory_image *words;
	bool wait_bytes_missing;     /* some of it is missing, as a read stalled */
	bool is_filtered;            /* its first thread has a filter of seccomp(2) */
	struct snap_thread *threads; /* in no order */
	size_t thread_count, thread_capacity, threads_missed;
	size_t children_missed; /* forked while it was seized, and left out for lack of room */
	int64_t stop_begin_ns, stop_end_ns; /* CLOCK_MONOTONIC; 0: never stopped */
	int64_t alone_ns;                   /* --no-stop: the longest stop of one of its threads */
};

/*
 * Child and parent share the reading of many threads: the parent, which would only wait, takes
 * threads of one process in turns with the child, and makes the memory for stacks present.
 */
struct snap_help {
	uint32_t state;       /* enum snap_help_state; a futex */
	uint32_t process;     /* the process whose threads are shared */
	uint32_t next;        /* the first thread that is not taken yet */
	uint64_t stack_bytes; /* expected */
};

/* One stop of one tree. */
struct snap_stop {
	struct snap_traced *processes; /* in the shared mapping */
	uint32_t process_count, process_capacity;
	/* CLOCK_MONOTONIC: first INTERRUPT, all stand still, last DETACH; 0: not reached */
	int64_t begin_ns, still_ns, end_ns;
	struct snap_help help;
	const struct snap_run_clocks *clocks; /* by the child, for --explain; NULL: none */
	int bpf_fd;                           /* from the caller, see snap_tracer_open_bpf() */
	/*
	 * From the caller: the percentage of the usual time to wait for processes that block calls
	 * …
	 */
	uint32_t patience;
	int64_t until_ns; /* … and the end of the stop, CLOCK_MONOTONIC; 0: by timeout_ns */
	/* By the child: the end of the time in which other stacks are copied, and what came of it. */
	int64_t follow_until_ns;
	uint32_t followed; /* enum snap_followed */
	uint32_t rounds;  /* by the child: instants that it tried until threads at rest stayed so */
	bool out_of_time; /* until_ns came before the stop was over, or had its usual time */
	/* CLOCK_MONOTONIC: the end of all reading before the stop; 0: no limit. */
	int64_t prepare_until_ns;
	bool limited; /* the snapshot's limit cut stacks */
	bool stalled; /* the child was ended because a target blocked it */
	bool killed;  /* the child did not end by itself: its results may be incomplete */
	bool settled; /* it is known that threads at rest have not run until all was read */
	bool overdue; /* its time was up, so it was ended */
};

/*
 * Called in the parent once all listed threads are seized: appends children of the processes that
 * are not in the stop yet by snap_stop_add(), and says whether there were some.
 */
struct snap_stop_again {
	struct stacksnap_error *(*look)(void *context, struct snap_stop *stop, bool *grown_ret);
	/*
	 * Before the first SEIZE, if there are processes with `runtimes`: sets their plans. NULL:
	 * no plans are made.
	 */
	struct stacksnap_error *(*probe)(void *context, struct snap_stop *stop);
	/*
	 * While those threads stand still whose `lead` is ON: has stacks copied that they go on in, and
	 * ends that by snap_stop_end_follow(). NULL: that is not done.
	 */
	void (*follow)(void *context, struct snap_stop *stop);
	void *context;
};

/* What is copied of other stacks is used by both sides, or by none. */
enum snap_followed { SNAP_FOLLOW_ASKED, SNAP_FOLLOW_TAKEN, SNAP_FOLLOW_GIVEN_UP };

/* The first one of both sides that ends it has its way; whether that is the caller. */
static inline bool snap_stop_end_follow(struct snap_stop *stop, enum snap_followed how)
{
	uint32_t asked = SNAP_FOLLOW_ASKED;

	return __atomic_compare_exchange_n(&stop->followed, &asked, how, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* Memory of runtimes beyond the usual amount does not count as memory for stacks. */
static inline uint64_t snap_stop_extra_bytes(const struct snap_options *options)
{
	const uint64_t usual = 64 << 20;

	return options->runtime_memory > usual ? options->runtime_memory - usual : 0;
}

/*
 * What threads at rest are read by (bpf/threads.h), for all stops of a capture. The descriptor is the
 * caller's; -1: it is not permitted, or not wanted (--stop-all), and all threads are stopped.
 */
int snap_tracer_open_bpf(const struct snap_options *options, const struct snap_stop_hook *hook);

/* A stop without processes, with room for so many, and full patience. NULL: memory is used up. */
struct snap_stop *snap_stop_new(struct snap_shared_memory *memory, uint32_t capacity);
/* Adds a process; false when there is no room. */
bool snap_stop_add(struct snap_stop *stop, const struct snap_traced *process);

/*
 * Stops, copies and releases. *tracer_fd (-1: none) becomes the pidfd of the tracing child, for
 * snap_tracer_end(): the child has released the targets and the stop, but may not have ended yet. A
 * child that *tracer_fd already has is ended first. The stop has the trouble of processes and
 * threads, and is valid even after an error. CANCELLED, OS (no tracing process can be made),
 * TIMEOUT.
 */
struct stacksnap_error *snap_tracer_run(const struct snap_options *options,
					const struct snap_stop_hook *hook,
					const struct snap_stop_again *again,
					struct snap_shared_memory *memory, struct snap_stop *stop,
					int *tracer_fd) _must_check_;

/* Waits for the end of a tracing child, at most a second, and reaps it. -1: there is none. */
void snap_tracer_end(int *tracer_fd);
