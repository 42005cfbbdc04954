/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of the sampler share. No other file includes this, but for tests.
 *
 * What every tick asks of every thread lies apart from the rest, side by side: the guards, whose
 * counters say whether a thread has run.
 */
#pragma once

#include "base/clock.h"
#include "discover/discover.h"
#include "proc/address_space.h"
#include "sample/budget.h"
#include "sample/copy_blocked.h"
#include "sample/reader.h"
#include "sample/sampler.h"
#include "stop/single.h"

enum {
	SNAP_GUARD_TEXT = 50,
	SNAP_SAMPLER_BELIEVED = 3, /* refusals of a process, one after the other */
	SNAP_SAMPLER_SPACE_LISTS = 1 << 12,
};

/* Mappings, of all processes that have the same. */
struct snap_sampler_space {
	struct snap_sampler_space *next; /* of those with the same hash, about */
	uint64_t hash;
	size_t users;
	struct snap_arena arena;
	struct snap_map *maps;
	size_t map_count, piece_count; /* pieces that were read with them, and are the sink's */
	bool cut, is_32_bit;
};

/*
 * exec.c: what was spent on processes that are other programs is paid for by the time until then.
 */
struct snap_renewal {
	int64_t paid_ns;
};

/*
 * A process of the tree:
 *
 *	found -> NEW -- its memory is open -------> SAMPLED <--- runs another program ---+
 *	          |                                  |    |                              |
 *	          | may not be read,                 |    +- its memory has gone, or --> LOST
 *	          | or has no program                |       no thread of it is left     | |
 *	          +-----------> UNREADABLE <-refused-+                                   | |
 *	                            |   ^------------------------------- refused --------+ |
 *	                            | it has ended                           it ended      |
 *	                            +-----> GONE <-----------------------------------------+
 *
 * From each of these but GONE it is UNRESPONSIVE when something that was asked of it did not return in
 * time: nothing is asked of it for a while, longer each time; then it is as one that was NEW.
 */
enum snap_sampler_process_state {
	SNAP_SAMPLER_PROCESS_NEW,        /* the sink does not know it */
	SNAP_SAMPLER_PROCESS_SAMPLED,    /* its threads are looked at */
	SNAP_SAMPLER_PROCESS_UNREADABLE, /* `facts.trouble` says why; only asked if it has ended */
	SNAP_SAMPLER_PROCESS_LOST,       /* is another program now, or has ended */
	SNAP_SAMPLER_PROCESS_UNRESPONSIVE, /* does not respond: let be for some time */
	SNAP_SAMPLER_PROCESS_GONE,         /* will be removed at the end of the tick */
};

struct snap_sampler_process {
	struct snap_sampled_process shown; /* the first, so that its pointer is also this one's */
	struct snap_process facts;         /* texts in `arena`, mappings in `space` */
	struct snap_live live;
	const struct snap_memory_plan *plan; /* `shown` had this one at the last tick */
	int64_t plan_ns; /* that it took in the tick `plan_tick`, without a stop */
	uint64_t plan_tick;
	int64_t context_reads; /* that explained waits, in the tick `context_tick` */
	uint64_t context_tick;
	struct snap_arena arena;
	struct snap_sampler_space *space; /* NULL: its mappings are not known */
	struct snap_arena pieces;         /* of facts, until the sink has got them */
	enum snap_sampler_process_state state;
	unsigned rank, children; /* see tree.c: the order when there are too many */
	bool announced;          /* the sink knows it, and the program that it is */
	bool was_announced;      /* the sink knows it */
	bool list_due;           /* its threads have changed */
	uint64_t program;        /* see struct snap_stat */
	unsigned refusals;       /* of a tracer, one after the other */
	unsigned stalls;         /* reading a stack took too long, one after the other */
	char *trouble_text;      /* the message of its trouble, or a former one */
	struct snap_sampler_thread **threads; /* sorted by tid */
	size_t thread_count, thread_capacity;
	size_t ended_threads; /* of `threads`: they are GONE */
	size_t listed;        /* how many the kernel counted at the last listing */
	uint32_t turns;       /* of its new threads in the look `turn_look` */
	uint64_t turn_look;
	uint64_t checked; /* the last look for an exec */
	int64_t unresponsive_until_ns,
		unresponsive_ns; /* not asked before; and for how long it was let be */
	/* The same for its state alone, which a tick asks often; and whether it is to be UNRESPONSIVE. */
	int64_t silent_until_ns, silent_ns;
	bool hold_due;
	/* Not before, lest all the time is spent on it. */
	int64_t list_after_ns, map_after_ns;
	struct snap_renewal renewal;
	uint64_t shown_tick;    /* the last one in which a copy of it was shown */
	unsigned seemed_ended;  /* how often, one after the other */
	uint32_t ticks_in_exec; /* that were not reported: it may have ended */
	int64_t trace_after_ns; /* another process traces it: not stopped before */
	bool wait_bytes_stalled; /* memory that explains a wait did not come: it is not asked for again */
	struct snap_budget budget; /* of the time for which it is stopped */
	/* Of the tracer's current call, and of the tick `stood_tick`. */
	unsigned call_stops;
	int64_t call_most_ns; /* no thread of it can have been stopped for longer */
	int64_t tick_ns;
	uint64_t stood_tick;
};

/*
 * What the sampler knows of a thread. From each state it is GONE when it has exited, or when its
 * process executes another program.
 *
 *	born -> NEW --- blocked, and shown ----------------> SETTLED: kept while its counters
 *	         | |                                          ^    |   do not move
 *	         | +--- stopped, or not to be had ---+        |    |
 *	         |                                   v        |    | they have moved
 *	         | runs, in an only tick           MOVING <---|----+
 *	         v                                  ^  |      |
 *	       RETRY --- stopped -------------------+  +------+
 *	         |                                     blocked |
 *	         +--- blocked, and shown ----------------------+
 */
enum snap_sampler_thread_state {
	SNAP_SAMPLER_THREAD_NEW,     /* not looked at */
	SNAP_SAMPLER_THREAD_RETRY,   /* not had as it was blocked: tried once more in this tick */
	SNAP_SAMPLER_THREAD_MOVING,  /* looked at in each tick, whatever its counters say */
	SNAP_SAMPLER_THREAD_SETTLED, /* looked at when its counters have moved */
	SNAP_SAMPLER_THREAD_GONE,    /* will be removed */
};

/* A thread as it is met in every tick: one cache line. */
struct snap_sampler_guard {
	struct snap_sampler_thread *thread;
	int guard_fd;               /* kept open; -1: there are not enough descriptors */
	uint8_t size;               /* of the text; 0: unknown */
	uint8_t state;              /* enum snap_sampler_thread_state */
	char text[SNAP_GUARD_TEXT]; /* of the guard's file, at the last look */
};

struct snap_sampler_thread {
	struct snap_sampled_thread shown;
	struct snap_sampler_process *process;
	char name[SNAP_MAX_COMM];
	unsigned listed; /* + 1, in sampler->questions; 0: it is not there */
	uint32_t turn;   /* of its process's new ones in this look; 0: it is not new */
	size_t guard;    /* in sampler->guards */
	uint32_t flags;  /* PF_* */
	int cpu;
	char letter;          /* of its state, at the last look */
	char reported_letter; /* the state that the sink has without a copy; 0: it has a copy, or none */
	uint64_t run_ns;      /* at the last look */
	/*
	 * Where it was blocked when it was last shown: hashes of the known registers and of the
	 * stack's bytes, with those that a plan copied. A thread that is found with both again is
	 * not shown again.
	 */
	uint64_t registers_hash, stack_hash;
	uint64_t context_hash; /* the same of what explained its wait; 0: that was not read */
	bool needs_stop;       /* with these registers a partial copy does not suffice */
	bool lacks_plan;       /* there was no time for its process's plan */
	uint64_t fs_base;      /* as it was at its last stop; 0: unknown */
	/* The mapping where its stack was; 0: unknown. */
	uint64_t stack_start, stack_end;
	bool stack_is_file; /* it is one of a file, whose pages a FUSE server may fill */
	int64_t born_ns, rename_after_ns, seldom_after_ns;
	/* Without counters, of one that was stopped as it was blocked: not before, if it has moved;
	 * and again then, if not. */
	int64_t moved_after_ns, still_after_ns;
	int64_t read_ns;                /* stat was read: name, letter, processor */
	unsigned late;                  /* how often it did not stop in time, one after the other */
	int64_t skip_until_ns, skip_ns; /* not tried again before */
};

/* decide.c: what a tick does with a thread. */

/* What was seen of it. */
enum snap_sight {
	SNAP_SIGHT_STILL,   /* its counters have not moved since the last look */
	SNAP_SIGHT_MOVED,   /* they have, or are not known */
	SNAP_SIGHT_SAME,    /* blocked where it was when it was shown, with the same stack */
	SNAP_SIGHT_BLOCKED, /* blocked somewhere else, and copied */
	SNAP_SIGHT_QUEUED,  /* waits for a processor, and copied with all registers */
	SNAP_SIGHT_NEEDS_REGISTERS, /* blocked, copied, and the copy does not suffice */
	SNAP_SIGHT_RUNNING,         /* runs, or ran while it was copied */
	SNAP_SIGHT_UNREADABLE,      /* where its stack is, is not known, or it cannot be read */
	SNAP_SIGHT_GONE,
};

struct snap_observation {
	enum snap_sight sight;
	char letter;        /* of its state; 0: not known yet */
	bool is_worker;     /* made by the kernel: there is no stack of a program */
	bool is_spared;     /* a stop would harm it */
	bool does_not_stop; /* so, or it did not stop the last times, or another process traces it */
	bool seen_lately;   /* UNREADABLE: stopped for this reason a short time ago */
	bool too_soon;      /* without counters: stopped as it was blocked, a short time ago */
	bool is_due;        /* without counters: that was long ago */
	bool over_budget;   /* its process has been stopped for too long */
	bool time_is_up;
};

struct snap_tick_rules {
	bool cpu_only;   /* --mode cpu: copies of running threads alone are wanted */
	bool no_guard;   /* no counters tell that a thread stood still */
	bool only_tick;  /* --no-stop: what is not had in this tick is not had at all */
	bool may_retry;  /* there is another look in this tick */
	bool never_stop; /* --watch: what a stop alone could tell is not wanted */
};

enum snap_tick_action {
	SNAP_TICK_KEEP,       /* what the sink has is right */
	SNAP_TICK_TELL,       /* the sink gets its state alone */
	SNAP_TICK_COPY,       /* try to copy it as it is on no processor */
	SNAP_TICK_SHOW,       /* the copy is shown */
	SNAP_TICK_SHOW_AS_IS, /* the copy does not suffice, but there will be no better one */
	SNAP_TICK_STOP,       /* stopped alone and copied */
	SNAP_TICK_RETRY,      /* looked at once more in this tick */
	SNAP_TICK_MISS,       /* the sink gets the miss */
	SNAP_TICK_SKIP,       /* the sink gets nothing, though what it has may be wrong */
	SNAP_TICK_LEAVE_OUT,  /* missed, as its process has been stopped for too long already */
	SNAP_TICK_END,        /* the sink gets its end */
};

enum snap_tick_action snap_tick_decide(enum snap_sampler_thread_state state,
				       const struct snap_observation *seen,
				       const struct snap_tick_rules *rules);

/* What lies beside the current copy. */
struct snap_kept_context {
	struct snap_wait_context context;
	struct snap_memory_image image; /* its memory, for the sink */
	_Alignas(16) uint8_t room[SNAP_WAIT_CONTEXT_ROOM];
};

/* A thread to be stopped. */
struct snap_stop_request {
	struct snap_sampler_thread *thread;
	bool blocked;     /* its hashes are known */
	uint64_t address; /* of the bytes that were hashed */
	size_t size;
};

struct snap_sampler {
	const struct snap_options *options;
	const struct snap_sampler_sink *sink;
	struct snap_capture *capture; /* of the first look */
	struct snap_procfs procfs;
	/* What a process can make sleep is asked by these alone. */
	struct snap_asker *asker;
	struct snap_reader *reader;
	enum snap_guard_kind guard_kind;
	struct snap_budget_rules budget;
	int64_t stood_ns; /* of the process that stood the longest */
	uint64_t ticks;
	bool left_out;              /* in the last look: others come first in the next one */
	struct snap_single *single; /* made when it is first needed */
	int tracer_fd;              /* of a look at a whole process, which is over; -1: none */
	int bpf_fd;                 /* for these looks, -1: there is none */
	bool bpf_tried;
	struct snap_running *running; /* samples of what runs; NULL: not permitted, or not wanted */
	struct snap_sampler_process **processes;
	size_t process_count, process_capacity;
	struct snap_renewal renewal;
	struct snap_sampler_process **fresh; /* NEW, by rank; those before fresh_at no more */
	size_t fresh_at, fresh_count, fresh_capacity;
	unsigned roots;
	struct snap_sampler_space *spaces[SNAP_SAMPLER_SPACE_LISTS];
	size_t space_bytes;
	struct snap_sampler_guard *guards;
	size_t guard_count, guard_capacity;
	struct snap_sampler_thread **moved; /* of this tick */
	size_t moved_count, moved_capacity;
	struct snap_sampler_thread **dead;
	size_t dead_count, dead_capacity;
	/* Of `moved`: those that were located together, with their counters before that. */
	struct snap_reader_question questions[SNAP_READER_MOST];
	struct snap_run_counters counters[SNAP_READER_MOST];
	struct snap_pick picks[SNAP_SINGLE_MOST];
	struct snap_stop_request requests[SNAP_SINGLE_MOST];
	size_t request_count;
	int64_t read_ns; /* for how long those of a call may stand while they are read */
	pid_t *tids;     /* a listing */
	size_t tid_capacity;
	uint8_t *stack; /* a copy, options->max_stack */
	size_t stack_size;
	long descriptors; /* that may still be opened for threads and processes */
	uint8_t *stack2;  /* made when it is first needed: the stack that a signal interrupted */
	/* What a plan copied with a blocked thread; the room is made when it is first needed. */
	struct snap_memory_image image;
	void *image_room;
	struct snap_copied_wait_bytes *words; /* of the current copy; NULL: not asked for */
	struct snap_kept_context *context;    /* the same in recordings */
	uint64_t context_hash;                /* of the current copy; 0: it was not read */
	int64_t plan_ns;                      /* that plans took in this tick, without a stop */
	uint64_t looks;
	int64_t now_ns;   /* when this look began */
	int64_t until_ns; /* --no-stop: nothing is begun any more */
	size_t disk;      /* threads in D */
	uint64_t run_ns;
	/* new processes */
	int loadavg_fd;
	pid_t last_pid;
	bool refresh_due;
	bool warned;                                /* that threads cannot be stopped */
	int64_t refresh_after_ns, refresh_again_ns; /* not before; once more at, 0: no */
	int64_t retry_after_ns; /* a process that did not respond is not asked before */
	int64_t refreshed_ns,
		ran_ns;      /* the last one; the last tick that saw a thread that had run */
	int64_t troubled_ns; /* processes without threads were looked at */
	struct snap_sampler_tick tick;
	bool may_retry;         /* see struct snap_tick_rules */
	int64_t fresh_until_ns; /* later nothing new is begun in this look */
};

/*
 * What is new, processes and the first stacks of their threads, may be more than there is time for:
 * in each look it has a share, so that known threads go on to be sampled.
 */
static inline bool snap_sampler_has_time(const struct snap_sampler *sampler)
{
	return snap_clock_ns(CLOCK_MONOTONIC) < sampler->fresh_until_ns;
}

static inline enum snap_sampler_thread_state
snap_sampler_thread_state(const struct snap_sampler *sampler,
			  const struct snap_sampler_thread *thread)
{
	return (enum snap_sampler_thread_state)sampler->guards[thread->guard].state;
}

/* The mapping that its stack was found in. */
static inline void snap_sampler_thread_take_stack(struct snap_sampler_thread *thread,
						  const struct snap_map *map, uint64_t fs_base)
{
	thread->stack_start = map->start;
	thread->stack_end = snap_process_stack_end(&thread->process->facts, map, fs_base);
	thread->stack_is_file = map->inode != 0;
}

static inline bool snap_sampler_thread_gone(const struct snap_sampler *sampler,
					    const struct snap_sampler_thread *thread)
{
	return snap_sampler_thread_state(sampler, thread) == SNAP_SAMPLER_THREAD_GONE;
}

static inline void snap_sampler_thread_set(struct snap_sampler *sampler,
					   const struct snap_sampler_thread *thread,
					   enum snap_sampler_thread_state state)
{
	sampler->guards[thread->guard].state = (uint8_t)state;
}

/* Made by the kernel: there is no stack of a program. */
static inline bool snap_sampler_thread_is_worker(const struct snap_sampler_thread *thread)
{
	return thread->flags & (SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER | SNAP_PF_KTHREAD);
}

static inline struct snap_tick_rules snap_sampler_rules(const struct snap_sampler *sampler)
{
	return (struct snap_tick_rules){
		.cpu_only = sampler->options->cpu_only,
		.no_guard = sampler->guard_kind == SNAP_GUARD_NONE,
		.only_tick = sampler->options->no_stop,
		.may_retry = sampler->may_retry,
		.never_stop = sampler->options->never_stop,
	};
}

/*
 * When something that took from `begin` until now may be done again, to take 1/`share` of the time;
 * in an only tick at once, as there is little that can be repeated.
 */
static inline int64_t snap_sampler_after(const struct snap_sampler *sampler, int64_t begin_ns,
					 int64_t least_ns, int64_t share)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);
	int64_t cost = (now - begin_ns) * share;

	return sampler->options->no_stop ? now : now + (cost > least_ns ? cost : least_ns);
}

/* running.c: threads that run. */
void snap_sampler_open_running(struct snap_sampler *sampler);
/* Shows one by its sample; *shown_ret: false where there is none that suffices. */
struct stacksnap_error *snap_sampler_show_running(struct snap_sampler *sampler,
						  struct snap_sampler_thread *thread,
						  bool *shown_ret) _must_check_;

/* tree.c: the processes of the tree. */
/* Takes over processes that discovery has found, with their live descriptors, in its order. */
struct stacksnap_error *snap_sampler_add_processes(struct snap_sampler *sampler,
						   struct snap_capture *capture) _must_check_;
/* Looks for new processes where there may be some; the sink gets all that it does not know.
 */
struct stacksnap_error *snap_sampler_find_processes(struct snap_sampler *sampler) _must_check_;
/* All threads of a process are taken away. */
void snap_sampler_end_threads(struct snap_sampler *sampler, struct snap_sampler_process *process);
/* Processes that are gone are taken away, after their threads. */
void snap_sampler_remove_processes(struct snap_sampler *sampler);
void snap_sampler_process_destroy(struct snap_sampler *sampler,
				  struct snap_sampler_process *process);

/* NULL: it is not in the tree. */
struct snap_sampler_process *snap_sampler_process_find(const struct snap_sampler *sampler,
						       pid_t pid, uint64_t start_ticks);
/* Its directory of procfs, the caller's to close; a negative errno, ESRCH: it has gone. */
int snap_sampler_process_directory(const struct snap_sampler *sampler,
				   struct snap_sampler_process *process);
/* By its pidfd; false without one. */
bool snap_sampler_process_has_ended(const struct snap_sampler_process *process);
/* Closes, or takes over, descriptors that ride beside a process; they are counted. */
void snap_sampler_process_drop_live(struct snap_sampler *sampler, struct snap_live *live);
void snap_sampler_process_take_live(struct snap_sampler *sampler, struct snap_live *from,
				    struct snap_live *ret);

/* exec.c: other programs in known processes. */
/* Those that are LOST have ended, or are other programs now; as far as there is time for them. */
struct stacksnap_error *snap_sampler_renew(struct snap_sampler *sampler) _must_check_;
/* The same of one that is LOST. */
struct stacksnap_error *snap_sampler_renew_one(struct snap_sampler *sampler,
					       struct snap_sampler_process *process) _must_check_;
/* Whether it is LOST, and there is time for it. */
bool snap_sampler_may_renew(const struct snap_sampler *sampler,
			    const struct snap_sampler_process *process);
/*
 * Whether it seems to have executed another program before it was looked at in this tick: it is
 * LOST, or all of its threads have gone, as where one of them executes it that was not the first.
 */
bool snap_sampler_is_in_exec(const struct snap_sampler *sampler,
			     const struct snap_sampler_process *process);
/* At the end of a tick: these are counted. The sink gets the rest once they live on. */
void snap_sampler_count_in_exec(struct snap_sampler *sampler);

/* spaces.c: mappings, once for all processes that have them. */
/* One more process has these; NULL without memory. */
struct snap_sampler_space *snap_sampler_space_get(struct snap_sampler *sampler,
						  const struct snap_space *space);
/* One less; NULL is allowed. */
void snap_sampler_space_put(struct snap_sampler *sampler, struct snap_sampler_space *space);
/* Whether it is the same as one that is kept; NULL: no. */
bool snap_sampler_space_is(const struct snap_sampler_space *kept, const struct snap_space *space);

/* facts.c: what a process is and has mapped. */
/* The sink knows its mappings: what it copied is not needed here any more. */
void snap_sampler_process_reported(struct snap_sampler_process *process);
/* The target to read: a living thread of the process, `thread` or another one if it is NULL. */
struct snap_reader_target snap_sampler_reader_target(const struct snap_sampler *sampler,
						     const struct snap_sampler_process *process,
						     const struct snap_sampler_thread *thread);
/* Something that was asked of it (`what`) did not return: it is UNRESPONSIVE, and the sink gets it. */
struct stacksnap_error *snap_sampler_process_stalled(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     const char *what) _must_check_;
/* Looks whether it may be read, and reads its mappings; trouble is the process's. */
struct stacksnap_error *
snap_sampler_process_open(struct snap_sampler *sampler,
			  struct snap_sampler_process *process) _must_check_;
/* The same of one that was UNRESPONSIVE; that it did not respond stays its trouble, if it has no other. */
struct stacksnap_error *
snap_sampler_process_reopen(struct snap_sampler *sampler,
			    struct snap_sampler_process *process) _must_check_;
/* Why it cannot be traced becomes its trouble, which the sink gets; 0: it can again. */
struct stacksnap_error *snap_sampler_process_explain(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     int os_errno) _must_check_;
/* The same where nothing of it can be read any more: its threads are left alone. */
struct stacksnap_error *snap_sampler_process_refused(struct snap_sampler *sampler,
						     struct snap_sampler_process *process,
						     int os_errno) _must_check_;
/*
 * Reads the mappings again, at a bounded rate; the sink gets a change, and so does the caller.
 */
struct stacksnap_error *snap_sampler_process_map(struct snap_sampler *sampler,
						 struct snap_sampler_process *process,
						 bool *changed_ret) _must_check_;
/*
 * Has it become another program, as a thread shows? Asked once a tick; then its threads are gone.
 */
void snap_sampler_process_check(struct snap_sampler *sampler, struct snap_sampler_thread *thread);
/* The same of what stat tells of a thread of it, for callers that have read it anyway. */
void snap_sampler_process_compare(struct snap_sampler *sampler,
				  struct snap_sampler_process *process,
				  const struct snap_stat *stat);
/*
 * After a copy of a thread that did not have to stand still until now: whether it is known to be of
 * the program that is known. If that is another one by now, all its threads are gone.
 */
bool snap_sampler_copy_is_of_program(struct snap_sampler *sampler,
				     struct snap_sampler_thread *thread);
void snap_sampler_process_lose(struct snap_sampler *sampler, struct snap_sampler_process *process);

/* threads.c: threads come, go and are renamed. */
/* Lists the threads of a process again if their number has changed. */
struct stacksnap_error *snap_sampler_list(struct snap_sampler *sampler,
					  struct snap_sampler_process *process) _must_check_;
/* A thread will be taken away by snap_sampler_remove_threads(). */
void snap_sampler_thread_end(struct snap_sampler *sampler, struct snap_sampler_thread *thread);
struct stacksnap_error *snap_sampler_remove_threads(struct snap_sampler *sampler) _must_check_;
/* Reads name, state and processor; GONE threads are marked. */
struct stacksnap_error *snap_sampler_thread_read(struct snap_sampler *sampler,
						 struct snap_sampler_thread *thread) _must_check_;
/* Sets the letter of its state; threads in D are counted as they come and go. */
void snap_sampler_thread_set_letter(struct snap_sampler *sampler,
				    struct snap_sampler_thread *thread, char letter);
/* Its "stat", read again; 0 or a negative errno, ETIMEDOUT: the process does not respond. */
int snap_sampler_thread_stat(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
			     struct snap_stat *ret);
/* The same of a thread by its number; of the process itself if that is 0. */
int snap_sampler_read_stat(const struct snap_sampler *sampler, struct snap_sampler_process *process,
			   pid_t tid, struct snap_stat *ret);
/* Opens a file of a thread, to be kept if descriptors allow; a negative errno. */
int snap_sampler_thread_open(struct snap_sampler *sampler, const struct snap_sampler_thread *thread,
			     const char *name, int *kept);
void snap_sampler_thread_destroy(struct snap_sampler *sampler, struct snap_sampler_thread *thread);

/* blocked.c: copies of blocked threads. */
/* Its counters; what it has run is counted as far as it is known. 0 or a negative errno. */
int snap_sampler_read_counters(struct snap_sampler *sampler, struct snap_sampler_thread *thread,
			       int fd, struct snap_run_counters *ret);
/* Tries until it stands still for as long as the copy takes, and knows where its stack ends. */
struct stacksnap_error *snap_sampler_copy_blocked(struct snap_sampler *sampler,
						  struct snap_sampler_thread *thread,
						  struct snap_blocked_copy *blocked,
						  struct snap_thread *copy,
						  enum snap_copy_result *result_ret) _must_check_;
/* Copies the stack that a signal interrupted, too; the thread must still not have run. */
bool snap_sampler_add_interrupted_stack(struct snap_sampler *sampler,
					const struct snap_sampler_thread *thread,
					const struct snap_blocked_copy *blocked,
					struct snap_thread *copy);
/* Whether what explains its wait is read. */
bool snap_sampler_wants_context(const struct snap_sampler *sampler,
				const struct snap_sampler_thread *thread);
/* A tick begins, with time for that. */
void snap_sampler_begin_context(struct snap_sampler *sampler);
/* Keeps what explains the wait of the current copy; false: there is nothing. */
bool snap_sampler_keep_context(struct snap_sampler *sampler, struct snap_sampler_process *process,
			       const struct snap_wait_context *context);
/* The sink sees it from now on, and not any more. */
void snap_sampler_show_context(const struct snap_sampler *sampler,
			       struct snap_sampler_thread *thread);
void snap_sampler_drop_context(struct snap_sampler_thread *thread);
/* Locates several of them at once; what fails is done for each by itself. */
struct stacksnap_error *snap_sampler_read_ahead(struct snap_sampler *sampler,
						struct snap_sampler_thread *const *threads,
						size_t count) _must_check_;

/* tick.c: a thread that has moved. */
struct stacksnap_error *snap_sampler_tick_thread(struct snap_sampler *sampler,
						 struct snap_sampler_thread *thread) _must_check_;
/* A copy as the sink gets it: its thread, and its state. */
void snap_sampler_thread_describe(const struct snap_sampler_thread *thread,
				  struct snap_thread *copy);
/* What a copy holds, the first `size` bytes of its stack and what its plan copied. */
uint64_t snap_sampler_hash(const struct snap_thread *copy, size_t size);
/* It could not be had in this tick: the sink learns that there is no copy. */
struct stacksnap_error *snap_sampler_miss(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread) _must_check_;
/*
 * Shows a copy; if the sink finds the mappings too old, they are read again, and it is shown once
 * more. *stale_ret: they were too new to be read again, so it is to be shown again.
 */
struct stacksnap_error *snap_sampler_show(struct snap_sampler *sampler,
					  struct snap_sampler_thread *thread,
					  const struct snap_thread *copy,
					  enum snap_verdict *verdict_ret,
					  bool *stale_ret) _must_check_;
/*
 * The mapping of the stack that a signal handler interrupted, which runs on another one as the copy
 * shows, and the stack pointer there. NULL: there is none.
 */
const struct snap_map *snap_sampler_interrupted_stack(const struct snap_process *process,
						      const struct snap_thread *copy,
						      uint64_t *sp_ret);

/* stop.c: threads that must be stopped. */
struct stacksnap_error *
snap_sampler_request_stop(struct snap_sampler *sampler,
			  const struct snap_stop_request *request) _must_check_;
struct stacksnap_error *snap_sampler_stop_requested(struct snap_sampler *sampler) _must_check_;
