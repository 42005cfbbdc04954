/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sampler: looks at all threads of a tree, tick after tick, and disturbs them as little as it can.
 *
 * A thread that did not run since the last tick costs one pread of its schedstat, and the sink does
 * not hear of it. A blocked thread that ran is copied while it stays blocked; only one that is
 * running, or whose copy does not suffice, is stopped, alone, for microseconds (stop/single.h). New
 * threads, children and execs are noticed; a process is identified by pid and start time. The sink,
 * which unwinds the copies, tells what they are worth. Knows nothing of stacks, names or the time
 * between ticks.
 *
 * A process stands still for no longer than the share that the options name (max_stopped): beyond
 * it samples are left out. Where the kernel does not count the runs of threads, nothing tells that
 * one stood still while it was copied: a blocked thread is stopped once, and again when it has used
 * processor time, or after seconds.
 *
 * With --no-stop there is one tick only, which looks again at what was new or running; it is not
 * subject to that share.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"

struct snap_sampled_process {
	const struct snap_process *facts; /* with mappings, pieces, trouble; without threads */
	struct snap_live
		*live; /* open until `ended`; a sink that keeps them longer puts -1 there */
	int tasks_fd;  /* its directory of threads, borrowed; -1: not open */
	uint64_t net_namespace; /* inode, as of its mappings; 0: unknown */
	/* What it looks as if it had; bits of enum snap_runtime_kind, of the options' alone. */
	unsigned runtimes;
	/*
	 * Set by the sink in program and mapped or between two ticks, and the sink's: what is
	 * copied with each thread (its `memory`), a plan for single threads; NULL: nothing. Another
	 * one lies somewhere else: then all threads are shown again.
	 */
	const struct snap_memory_plan *plan;
	/* In the processes of snap_sampler_capture(); SIZE_MAX: it was found later. */
	size_t index;
	struct snap_sampled_process *parent; /* NULL: a root; also once the parent has ended */
	void *user;                          /* the sink's */
};

struct snap_sampled_thread {
	pid_t tid, ns_tid;
	const char *name;
	bool kernel; /* a kernel-made worker */
	struct snap_sampled_process *process;
	int64_t stopped_ns; /* for how long it was stopped for this copy */
	/*
	 * Memory that explains the wait of a copy, in no order; NULL: none. Valid during the call.
	 */
	const struct snap_memory_image *words;
	/*
	 * What the descriptors of its call lead to, by number, with links, kinds and inodes alone;
	 * in recordings that explain waits. Valid during the call.
	 */
	const struct snap_descriptor *descriptors;
	size_t descriptor_count;
	/*
	 * CLOCK_MONOTONIC of the last tick that found that it had run since the one before; of its
	 * first one, as long as it has not. And the processor time it has used, as far as known.
	 */
	int64_t ran_ns;
	uint64_t run_ns;
	uint64_t runs; /* how often it had been given a processor, at the last look; 0 unknown */
	char state;    /* letter, when it was last read; see struct snap_thread */
	bool left_out; /* of a copy that is NOT_STOPPED: its process would have been stopped for too long */
	bool spared;   /* of a copy that is NOT_STOPPED: a stop would harm it */
	bool untried;  /* of a copy that is NOT_STOPPED: the time of the only tick was over */
	uint32_t user; /* the sink's */
};

/* What the sink says of a copy. */
enum snap_verdict {
	SNAP_VERDICT_TAKEN,           /* it will do */
	SNAP_VERDICT_NEEDS_REGISTERS, /* of a partial one: stop the thread and copy it again */
	SNAP_VERDICT_STALE_MAPPINGS,  /* code outside of all mappings: read them, show it again */
};

/*
 * Functions that a tick calls, in this order: a process before its threads and children, its end
 * after that of its threads; children may outlive it. Threads die before their process becomes
 * another program. An error ends the tick, which returns it.
 */
struct snap_sampler_sink {
	void *context;
	/* A process joins the tree; `exec`: it was known, and is another program now. */
	struct stacksnap_error *(*program)(void *context, struct snap_sampled_process *process,
					   bool exec);
	/* facts have changed: mappings, pieces, or trouble; what they were is gone on return. */
	struct stacksnap_error *(*mapped)(void *context, struct snap_sampled_process *process);
	void (*ended)(void *context, struct snap_sampled_process *process);
	struct stacksnap_error *(*born)(void *context, struct snap_sampled_thread *thread);
	struct stacksnap_error *(*renamed)(void *context, struct snap_sampled_thread *thread);
	struct stacksnap_error *(*died)(void *context, struct snap_sampled_thread *thread);
	/*
	 * A thread that ran since the last tick and is elsewhere now, or is new: state, system call
	 * (in its registers), and a copy, valid during the call. COPIED and partial: it may be
	 * asked for registers; else that verdict is not heard. NOT_STOPPED: there is no copy (it
	 * would not stop, or --mode cpu has no use for it), but where registers_size is not 0 the
	 * partial one that did not suffice, for want of a better one. UNTRACED: a kernel-made
	 * worker, its state. After STALE_MAPPINGS the thread comes once more at once, whether or
	 * not there were new mappings, and STALE_MAPPINGS is not heard again; after NEEDS_REGISTERS
	 * it comes once more within the same tick.
	 */
	struct stacksnap_error *(*sample)(void *context, struct snap_sampled_thread *thread,
					  const struct snap_thread *copy,
					  enum snap_verdict *verdict_ret);
	/*
	 * A thread that ran since the last tick, and stands as it was shown, or may not be looked
	 * at now. NULL: that is of no interest.
	 */
	void (*stayed)(void *context, struct snap_sampled_thread *thread);
};

struct snap_sampler_tick {
	int64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	/* How long a process stood still in it, and all in all: that which stood the longest. */
	int64_t stopped_ns, stood_ns;
	uint32_t threads;                        /* that were there */
	uint32_t kept, unstopped, alone, missed; /* how they were taken; missed: not at all */
	uint32_t left_out;                       /* missed, or not whole, to keep to max_stopped */
	/*
	 * Of processes that ran other programs than was known: how often one was not looked at in a
	 * tick, in those before this one.
	 */
	uint32_t in_exec;
	/* Processes that were found, and threads that are new, for which there was no time yet. */
	uint32_t waiting;
	uint32_t running, disk; /* of the threads, by state */
	uint64_t run_ns;        /* processor time that all threads have used, ever; 0 unknown */
	bool no_targets;        /* none is left */
	bool refused;           /* of those that are left none may be read any more */
};

struct snap_sampler;

/*
 * Discovers the targets of the options; no process is stopped, and the sink gets nothing yet.
 * Errors as of snap_discover(). The sink must outlive the sampler.
 */
struct stacksnap_error *snap_sampler_create(const struct snap_options *options,
					    const struct snap_sampler_sink *sink,
					    struct snap_sampler **ret) _must_check_;
void snap_sampler_destroy(struct snap_sampler *sampler);

SNAP_POINTER_GUARD(struct snap_sampler, snap_sampler_destroy);

/*
 * What the first discovery has found: host, warnings, and processes, whose descriptors the sampler
 * has. Borrowed; later warnings come there, too.
 */
struct snap_capture *snap_sampler_capture(const struct snap_sampler *sampler);
/* The same, the caller's from now on; no tick may follow. */
struct snap_capture *snap_sampler_take_capture(struct snap_sampler *sampler);

/* Whether the kernel counts the runs of threads, so that one that did not run is known. */
bool snap_sampler_counts_runs(const struct snap_sampler *sampler);

/* Whether a process of the capture may be read: 0, or a negative errno; ETIMEDOUT: no answer. */
int snap_sampler_try(struct snap_sampler *sampler, const struct snap_process *process);

/*
 * One look at all threads. What goes wrong with one of them does not end it. CANCELLED, NO_MEMORY,
 * and the sink's errors.
 */
struct stacksnap_error *snap_sampler_tick(struct snap_sampler *sampler,
					  struct snap_sampler_tick *ret) _must_check_;

/* Bytes of a process's memory. */
struct snap_sampled_bytes {
	uint64_t address;
	uint32_t size;
	uint32_t got; /* set: how many could be read, from the first on */
	uint8_t *bytes;
};

enum { SNAP_SAMPLED_WORDS_MOST = 64, SNAP_SAMPLED_WORDS_BYTES = 1 << 14 };

/* The memory of a process, while its threads are confirmed. */
struct snap_confirm_memory {
	ssize_t (*read)(void *context, uint64_t address, uint8_t *bytes, size_t size);
	/* As snap_sampler_read_bytes(): as much as that takes, with one hand-over. */
	int (*read_all)(void *context, struct snap_sampled_bytes *words, size_t count);
	void *context; /* of both; `read` is as in copy_wait_bytes.h */
};

/*
 * After an only tick: which threads still are in the call in which they were copied, all at one
 * instant, though no thread is stopped. The memory of each process with such threads is read again
 * at this instant.
 */
struct snap_confirm {
	void *context;
	/* The call that a thread was copied in; false: in none. */
	bool (*in_call)(void *context, const struct snap_sampled_thread *thread,
			struct snap_thread_call *ret);
	/* False: what its threads wait for could not be read. */
	bool (*read_words)(void *context, const struct snap_sampled_process *process,
			   const struct snap_confirm_memory *memory);
	/* It was in its call from before anything was read until all had been. */
	void (*confirmed)(void *context, const struct snap_sampled_thread *thread);
};

/* No tick may follow, but it may be asked again: of another moment. NO_MEMORY. */
struct stacksnap_error *snap_sampler_confirm(struct snap_sampler *sampler,
					     const struct snap_confirm *confirm) _must_check_;

/* A process as it was at one instant. */
struct snap_whole {
	bool is_taken;               /* `process` is there */
	bool is_left_out;            /* it would have been stopped for too long, see max_stopped */
	struct snap_process process; /* facts, borrowed; threads without stacks, and memory */
	int64_t stopped_ns;          /* first INTERRUPT to last DETACH, taken or not */
	struct snap_shared_memory *memory;
};

/*
 * Between two ticks: stops a process as a whole, copies what the plan says, lets it run. Nothing is
 * done if it would be stopped for too long: `expected_ns` is how long it may take. What goes wrong
 * with the process is no error. To be released by snap_whole_release(), whatever is returned.
 * CANCELLED, NO_MEMORY.
 */
struct stacksnap_error *snap_sampler_take_whole(struct snap_sampler *sampler,
						struct snap_sampled_process *process,
						const struct snap_memory_plan *plan,
						int64_t expected_ns,
						struct snap_whole *ret) _must_check_;
void snap_whole_release(struct snap_whole *whole);
/* How long the process that stood the longest did so, all in all. */
int64_t snap_sampler_stood_ns(const struct snap_sampler *sampler);

/*
 * Between two ticks: reads memory of a process that runs on, all with one hand-over, at most
 * SNAP_SAMPLED_WORDS_MOST pieces of SNAP_SAMPLED_WORDS_BYTES together. 0, or a negative errno:
 * nothing was read (ESTALE: it is another program; ETIMEDOUT: it did not come in time).
 */
int snap_sampler_read_bytes(struct snap_sampler *sampler, struct snap_sampled_process *process,
			    struct snap_sampled_bytes *words, size_t count);

/* A process by itself: all that it points to is copied to the arena. */
struct stacksnap_error *snap_facts_copy(struct snap_arena *arena, const struct snap_process *from,
					struct snap_process *ret) _must_check_;
