/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of the sampler share. No other file includes this, but for tests.
 *
 * A *member* is a process of the tree, a *watched* thread one of its threads. What is asked of
 * every thread in every tick lies apart from the rest, in *spots*, side by side.
 */
#ifndef SNAP_SAMPLE_INTERNAL_H
#define SNAP_SAMPLE_INTERNAL_H

#include "discover/discover.h"
#include "proc/address_space.h"
#include "sample/copy_blocked.h"
#include "sample/sampler.h"
#include "stop/single.h"

#include <time.h>

enum {
	SNAP_SPOT_TEXT = 50,
	SNAP_NS_PER_MS = 1000000,
};

struct snap_member {
	struct snap_sampled_process shown;
	struct snap_process facts; /* texts in `arena`, mappings and pieces in `space` */
	struct snap_live live;
	struct snap_arena arena, space;
	unsigned refusals;             /* of a tracer, one after the other */
	char *trouble_text;            /* the message of its trouble, or a former one */
	struct snap_watched **threads; /* sorted by tid */
	size_t thread_count, thread_capacity;
	size_t listed; /* how many the kernel counted at the last listing */
	int tasks_fd, mem_fd;
	bool announced; /* the sink knows it */
	bool sampled;   /* its threads are: it may be read, there is a program in it */
	bool list_due;  /* its threads have changed */
	bool thinned;   /* some of `threads` have gone */
	bool borrowed;  /* made by vfork(): still runs in its parent's memory */
	bool lost;      /* its memory: it is another program now, or has ended */
	bool gone;
	uint64_t checked;      /* tick of the last look for an exec */
	int64_t list_after_ns; /* not listed before, lest all the time is spent on it */
	int64_t map_after_ns, renew_after_ns;
	int64_t trace_after_ns; /* somebody else traces it: not stopped before */
};

/* A thread as it is met in every tick: one cache line. */
struct snap_spot {
	struct snap_watched *thread;
	int guard_fd;              /* kept open; -1: there are not enough descriptors */
	uint8_t size;              /* of the text; 0: unknown */
	bool settled;              /* was blocked at its last look, and its copy is good */
	char text[SNAP_SPOT_TEXT]; /* of the guard's file, at the last look */
};

struct snap_watched {
	struct snap_sampled_thread shown;
	struct snap_member *member;
	char name[SNAP_MAX_COMM];
	size_t spot;
	int syscall_fd, stat_fd; /* -1: not open, or not kept */
	uint32_t flags;          /* PF_* */
	int cpu;
	char state; /* at the last look */
	bool gone;
	uint64_t run_ns; /* at the last look */
	/*
	 * Where it was blocked when it was last shown: hashes of what is known of the registers,
	 * and of the stack's bytes. What has been shown of that place is still right.
	 */
	uint64_t place, bytes;
	bool stops; /* of that place a partial copy does not suffice */
	bool again; /* to be shown again, as its mappings were too new to be read again */
	/* The mapping where its stack was; 0: unknown. */
	uint64_t stack_start, stack_end;
	int64_t born_ns, rename_after_ns, seldom_after_ns;
	int64_t read_ns;                /* stat was read: name, state, processor */
	unsigned late;                  /* how often it did not stop in time, one after the other */
	int64_t shun_until_ns, shun_ns; /* not tried again before */
};

/* Threads to be stopped. */
struct snap_picked {
	struct snap_watched *thread;
	bool blocked;     /* its place and bytes are known */
	uint64_t address; /* of these bytes */
	size_t size;
};

struct snap_sampler {
	const struct snap_options *options;
	const struct snap_sampler_sink *sink;
	struct snap_capture *capture; /* of the first look */
	struct snap_procfs procfs;
	enum snap_peek_guard guard;
	struct snap_single *single; /* made when it is first needed */
	struct snap_member **members;
	size_t member_count, member_capacity;
	struct snap_spot *spots;
	size_t spot_count, spot_capacity;
	struct snap_watched **moved; /* of this tick */
	size_t moved_count, moved_capacity;
	struct snap_watched **dead;
	size_t dead_count, dead_capacity;
	struct snap_pick picks[SNAP_SINGLE_MOST];
	struct snap_picked picked[SNAP_SINGLE_MOST];
	size_t pick_count;
	pid_t *tids; /* a listing */
	size_t tid_capacity;
	uint8_t *stack; /* a copy, options->max_stack */
	size_t stack_size;
	long descriptors; /* that may still be opened for threads and members */
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
	int64_t troubled_ns;                        /* members without threads were looked at */
	struct snap_sampler_tick tick;
};

static inline int64_t snap_sampler_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* When something that took from `begin` until now may be done again, to take 1/`share` of time. */
static inline int64_t snap_sampler_after(int64_t begin_ns, int64_t least_ns, int64_t share)
{
	int64_t now = snap_sampler_now();
	int64_t cost = (now - begin_ns) * share;

	return now + (cost > least_ns ? cost : least_ns);
}

/* tree.c: who belongs to it. */
/* Processes as discovery has them, in its order, become members; live descriptors are taken over.
 */
struct snap_error *snap_sampler_join(struct snap_sampler *sampler,
				     struct snap_capture *capture) _must_check_;
/* Looks for new processes where there may be some; the sink is told of all that it does not know.
 */
struct snap_error *snap_sampler_follow(struct snap_sampler *sampler) _must_check_;
/* All threads of a member are taken away. */
void snap_sampler_clear(struct snap_sampler *sampler, struct snap_member *member);
/* Members that are gone are taken away, after their threads. */
void snap_sampler_part(struct snap_sampler *sampler);
void snap_member_destroy(struct snap_sampler *sampler, struct snap_member *member);

/* renew.c: what lost its memory. */
/* Its directory of procfs, the caller's to close; a negative errno, ESRCH: it has gone. */
int snap_member_directory(const struct snap_sampler *sampler, const struct snap_member *member);
/* Closes, or takes over, descriptors that ride beside a member; they are counted. */
void snap_member_drop_live(struct snap_sampler *sampler, struct snap_live *live);
void snap_member_take_live(struct snap_sampler *sampler, struct snap_live *from,
			   struct snap_live *ret);
/* Members that have lost their memory have ended, or are other programs now. */
struct snap_error *snap_sampler_renew(struct snap_sampler *sampler) _must_check_;

/* facts.c: what a member is and has mapped. */
/* A process by itself: all that it points to is copied to the arena. */
struct snap_error *snap_facts_copy(struct snap_arena *arena, const struct snap_process *from,
				   struct snap_process *ret) _must_check_;
/* Opens what is needed to read its memory; trouble is the member's. */
struct snap_error *snap_member_open(struct snap_sampler *sampler,
				    struct snap_member *member) _must_check_;
/* Why it cannot be traced becomes its trouble, of which the sink is told; 0: it can again. */
struct snap_error *snap_member_explain(struct snap_sampler *sampler, struct snap_member *member,
				       int os_errno) _must_check_;
/* The same where nothing of it can be read any more: its threads are left alone. */
struct snap_error *snap_member_refused(struct snap_sampler *sampler, struct snap_member *member,
				       int os_errno) _must_check_;
/*
 * Reads the mappings again, at a bounded rate; the sink is told if they have changed, and so is the
 * caller.
 */
struct snap_error *snap_member_map(struct snap_sampler *sampler, struct snap_member *member,
				   bool *changed_ret) _must_check_;
/* Has it become another program, or ended? Asked once a tick; then its threads are gone. */
void snap_member_check(struct snap_sampler *sampler, struct snap_member *member);

/* threads.c: threads come, go and are renamed. */
/* Lists the threads of a member again if their number has changed. */
struct snap_error *snap_sampler_list(struct snap_sampler *sampler,
				     struct snap_member *member) _must_check_;
/* A thread will be taken away by snap_sampler_bury(). */
void snap_watched_end(struct snap_sampler *sampler, struct snap_watched *thread);
struct snap_error *snap_sampler_bury(struct snap_sampler *sampler) _must_check_;
/* Reads name, state and processor; GONE threads are marked. */
struct snap_error *snap_watched_read(struct snap_sampler *sampler,
				     struct snap_watched *thread) _must_check_;
/* What is in D is counted as it comes and goes. */
void snap_watched_state(struct snap_sampler *sampler, struct snap_watched *thread, char state);
/* Opens a file of a thread, to be kept if descriptors allow; a negative errno. */
int snap_watched_open(struct snap_sampler *sampler, const struct snap_watched *thread,
		      const char *name, int *kept);
void snap_watched_destroy(struct snap_sampler *sampler, struct snap_watched *thread);

/* look.c: a thread that has moved. */
struct snap_error *snap_sampler_look(struct snap_sampler *sampler,
				     struct snap_watched *thread) _must_check_;
/* A copy as the sink gets it: who it is of, and its state. */
void snap_watched_describe(const struct snap_watched *thread, struct snap_thread *copy);
/* Tells the sink that there is no copy. */
struct snap_error *snap_sampler_miss(struct snap_sampler *sampler, struct snap_watched *thread,
				     enum snap_thread_result result) _must_check_;
/* Shows a copy; old mappings are read again then, and it is shown once more. */
struct snap_error *snap_sampler_show(struct snap_sampler *sampler, struct snap_watched *thread,
				     const struct snap_thread *copy,
				     enum snap_verdict *verdict_ret) _must_check_;

/* stop.c: threads that must be stopped. */
struct snap_error *snap_sampler_pick(struct snap_sampler *sampler,
				     const struct snap_picked *picked) _must_check_;
struct snap_error *snap_sampler_stop(struct snap_sampler *sampler) _must_check_;

#endif
