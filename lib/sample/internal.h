/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of the sampler share. No other file includes this, but for tests.
 *
 * What every tick asks of every thread lies apart from the rest, side by side: the guards, whose
 * counters say whether a thread has run.
 */
#ifndef SNAP_SAMPLE_INTERNAL_H
#define SNAP_SAMPLE_INTERNAL_H

#include "base/clock.h"
#include "discover/discover.h"
#include "proc/address_space.h"
#include "sample/copy_blocked.h"
#include "sample/sampler.h"
#include "stop/single.h"

enum {
	SNAP_GUARD_TEXT = 50,
	SNAP_NS_PER_MS = 1000000,
};

struct snap_sampler_process {
	struct snap_sampled_process shown;
	struct snap_process facts; /* texts in `arena`, mappings and pieces in `space` */
	struct snap_live live;
	struct snap_arena arena, space;
	unsigned refusals;                    /* of a tracer, one after the other */
	char *trouble_text;                   /* the message of its trouble, or a former one */
	struct snap_sampler_thread **threads; /* sorted by tid */
	size_t thread_count, thread_capacity;
	size_t listed; /* how many the kernel counted at the last listing */
	int tasks_fd, mem_fd;
	bool announced;         /* the sink knows it */
	bool sampled;           /* its threads are: it may be read, there is a program in it */
	bool list_due;          /* its threads have changed */
	bool has_ended_threads; /* some of `threads` have gone */
	bool in_parents_memory; /* made by vfork(): still runs in its parent's memory */
	bool lost;              /* its memory: it is another program now, or has ended */
	bool gone;
	uint64_t checked;      /* tick of the last look for an exec */
	int64_t list_after_ns; /* not listed before, lest all the time is spent on it */
	int64_t map_after_ns, renew_after_ns;
	int64_t trace_after_ns; /* somebody else traces it: not stopped before */
};

/* A thread as it is met in every tick: one cache line. */
struct snap_sampler_guard {
	struct snap_sampler_thread *thread;
	int guard_fd;               /* kept open; -1: there are not enough descriptors */
	uint8_t size;               /* of the text; 0: unknown */
	bool settled;               /* was blocked at its last look, and its copy is good */
	char text[SNAP_GUARD_TEXT]; /* of the guard's file, at the last look */
};

struct snap_sampler_thread {
	struct snap_sampled_thread shown;
	struct snap_sampler_process *process;
	char name[SNAP_MAX_COMM];
	size_t guard;
	int syscall_fd, stat_fd; /* -1: not open, or not kept */
	uint32_t flags;          /* PF_* */
	int cpu;
	char state; /* at the last look */
	bool gone;
	uint64_t run_ns; /* at the last look */
	/*
	 * Where it was blocked when it was last shown: hashes of the known registers and of the
	 * stack's bytes. A thread that is found with both again is not shown again.
	 */
	uint64_t registers_hash, stack_hash;
	bool stops; /* with these registers a partial copy does not suffice */
	bool again; /* to be shown again, as its mappings were too new to be read again */
	/* The mapping where its stack was; 0: unknown. */
	uint64_t stack_start, stack_end;
	int64_t born_ns, rename_after_ns, seldom_after_ns;
	int64_t read_ns;                /* stat was read: name, state, processor */
	unsigned late;                  /* how often it did not stop in time, one after the other */
	int64_t skip_until_ns, skip_ns; /* not tried again before */
};

/* Threads to be stopped. */
struct snap_picked {
	struct snap_sampler_thread *thread;
	bool blocked;     /* its hashes are known */
	uint64_t address; /* of these bytes */
	size_t size;
};

struct snap_sampler {
	const struct snap_options *options;
	const struct snap_sampler_sink *sink;
	struct snap_capture *capture; /* of the first look */
	struct snap_procfs procfs;
	enum snap_guard_kind guard_kind;
	struct snap_single *single; /* made when it is first needed */
	struct snap_sampler_process **processes;
	size_t process_count, process_capacity;
	struct snap_sampler_guard *guards;
	size_t guard_count, guard_capacity;
	struct snap_sampler_thread **moved; /* of this tick */
	size_t moved_count, moved_capacity;
	struct snap_sampler_thread **dead;
	size_t dead_count, dead_capacity;
	struct snap_pick picks[SNAP_SINGLE_MOST];
	struct snap_picked picked[SNAP_SINGLE_MOST];
	size_t pick_count;
	pid_t *tids; /* a listing */
	size_t tid_capacity;
	uint8_t *stack; /* a copy, options->max_stack */
	size_t stack_size;
	long descriptors; /* that may still be opened for threads and processes */
	uint64_t ticks;
	int64_t now_ns; /* when this tick began */
	size_t disk;    /* threads in D */
	uint64_t run_ns;
	/* new processes */
	int loadavg_fd;
	pid_t last_pid;
	bool refresh_due;
	bool warned;                                /* that threads cannot be stopped */
	int64_t refresh_after_ns, refresh_again_ns; /* not before; once more at, 0: no */
	int64_t troubled_ns;                        /* processes without threads were looked at */
	struct snap_sampler_tick tick;
};

/* When something that took from `begin` until now may be done again, to take 1/`share` of time. */
static inline int64_t snap_sampler_after(int64_t begin_ns, int64_t least_ns, int64_t share)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);
	int64_t cost = (now - begin_ns) * share;

	return now + (cost > least_ns ? cost : least_ns);
}

/* tree.c: who belongs to it. */
/* Takes over processes that discovery has found, with their live descriptors, in its order.
 */
struct snap_error *snap_sampler_add_processes(struct snap_sampler *sampler,
					      struct snap_capture *capture) _must_check_;
/* Looks for new processes where there may be some; the sink is told of all that it does not know.
 */
struct snap_error *snap_sampler_find_processes(struct snap_sampler *sampler) _must_check_;
/* All threads of a process are taken away. */
void snap_sampler_end_threads(struct snap_sampler *sampler, struct snap_sampler_process *process);
/* Processes that are gone are taken away, after their threads. */
void snap_sampler_remove_processes(struct snap_sampler *sampler);
void snap_sampler_process_destroy(struct snap_sampler *sampler,
				  struct snap_sampler_process *process);

/* renew.c: what lost its memory. */
/* Its directory of procfs, the caller's to close; a negative errno, ESRCH: it has gone. */
int snap_sampler_process_directory(const struct snap_sampler *sampler,
				   const struct snap_sampler_process *process);
/* Closes, or takes over, descriptors that ride beside a process; they are counted. */
void snap_sampler_process_drop_live(struct snap_sampler *sampler, struct snap_live *live);
void snap_sampler_process_take_live(struct snap_sampler *sampler, struct snap_live *from,
				    struct snap_live *ret);
/* Processes that have lost their memory have ended, or are other programs now. */
struct snap_error *snap_sampler_renew(struct snap_sampler *sampler) _must_check_;

/* facts.c: what a process is and has mapped. */
/* A process by itself: all that it points to is copied to the arena. */
struct snap_error *snap_facts_copy(struct snap_arena *arena, const struct snap_process *from,
				   struct snap_process *ret) _must_check_;
/* Opens what is needed to read its memory; trouble is the process's. */
struct snap_error *snap_sampler_process_open(struct snap_sampler *sampler,
					     struct snap_sampler_process *process) _must_check_;
/* Why it cannot be traced becomes its trouble, of which the sink is told; 0: it can again. */
struct snap_error *snap_sampler_process_explain(struct snap_sampler *sampler,
						struct snap_sampler_process *process,
						int os_errno) _must_check_;
/* The same where nothing of it can be read any more: its threads are left alone. */
struct snap_error *snap_sampler_process_refused(struct snap_sampler *sampler,
						struct snap_sampler_process *process,
						int os_errno) _must_check_;
/*
 * Reads the mappings again, at a bounded rate; the sink is told if they have changed, and so is the
 * caller.
 */
struct snap_error *snap_sampler_process_map(struct snap_sampler *sampler,
					    struct snap_sampler_process *process,
					    bool *changed_ret) _must_check_;
/* Has it become another program, or ended? Asked once a tick; then its threads are gone. */
void snap_sampler_process_check(struct snap_sampler *sampler, struct snap_sampler_process *process);

/* threads.c: threads come, go and are renamed. */
/* Lists the threads of a process again if their number has changed. */
struct snap_error *snap_sampler_list(struct snap_sampler *sampler,
				     struct snap_sampler_process *process) _must_check_;
/* A thread will be taken away by snap_sampler_remove_threads(). */
void snap_sampler_thread_end(struct snap_sampler *sampler, struct snap_sampler_thread *thread);
struct snap_error *snap_sampler_remove_threads(struct snap_sampler *sampler) _must_check_;
/* Reads name, state and processor; GONE threads are marked. */
struct snap_error *snap_sampler_thread_read(struct snap_sampler *sampler,
					    struct snap_sampler_thread *thread) _must_check_;
/* What is in D is counted as it comes and goes. */
void snap_sampler_thread_state(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
			       char state);
/* Opens a file of a thread, to be kept if descriptors allow; a negative errno. */
int snap_sampler_thread_open(struct snap_sampler *sampler, const struct snap_sampler_thread *thread,
			     const char *name, int *kept);
void snap_sampler_thread_destroy(struct snap_sampler *sampler, struct snap_sampler_thread *thread);

/* look.c: a thread that has moved. */
struct snap_error *snap_sampler_look(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread) _must_check_;
/* A copy as the sink gets it: who it is of, and its state. */
void snap_sampler_thread_describe(const struct snap_sampler_thread *thread,
				  struct snap_thread *copy);
/* Tells the sink that there is no copy. */
struct snap_error *snap_sampler_miss(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread,
				     enum snap_thread_result result) _must_check_;
/* Shows a copy; old mappings are read again then, and it is shown once more. */
struct snap_error *snap_sampler_show(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread,
				     const struct snap_thread *copy,
				     enum snap_verdict *verdict_ret) _must_check_;

/* stop.c: threads that must be stopped. */
struct snap_error *snap_sampler_pick(struct snap_sampler *sampler,
				     const struct snap_picked *picked) _must_check_;
struct snap_error *snap_sampler_stop(struct snap_sampler *sampler) _must_check_;

#endif
