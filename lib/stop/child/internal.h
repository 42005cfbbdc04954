/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside the tracing child of a stop: what its files share.
 *
 *	child.c    its life: signals, memory, the order of what follows
 *	seize.c    threads, listed and seized while all run
 *	pause.c    from the first INTERRUPT to the last DETACH
 *	birth.c    threads and processes that are born meanwhile
 *	settle.c   are the threads that are known all that there are?
 *	copy.c     registers and stacks; interrupted.c: those below signal handlers
 *	words.c    memory that explains waits
 *	maps.c     the address spaces
 *	plan.c     the memory of managed runtimes: which, and its copy
 *	reader.h   what workers read for us, who touch no memory of a target
 *	phases.h   the phases that a thread goes through
 *
 * From the first SEIZE on nothing is done that a target can make sleep without end.
 *
 * The child of a threaded program may find any lock held for ever, malloc's too. So nothing here
 * allocates, locks or prints: memory comes from the shared mapping and from the scratch region,
 * both laid out by the parent.
 */
#ifndef SNAP_STOP_CHILD_INTERNAL_H
#define SNAP_STOP_CHILD_INTERNAL_H

#include "base/workers.h"
#include "proc/procfs.h"
#include "stop/child/child.h"
#include "stop/child/phases.h"
#include "stop/child/reader.h"

#include <setjmp.h>
#include <signal.h>
#include <time.h>

/* A thread under trace. The list is in the order of the INTERRUPTs. */
struct snap_tracee {
	pid_t tid;
	uint32_t process; /* in stop->processes */
	uint32_t thread;  /* in its threads */
	uint8_t phase;    /* enum snap_tracee_phase; changed by snap_tracer_note() alone */
	int8_t signal;    /* to be handed on at DETACH */
	uint16_t look;    /* the last listing of its process that had it */
};

/* Memory that explains waits, for the next list of stacks; its wants lie process by process. */
struct snap_words {
	struct snap_want *wants;
	uint32_t want_count, item_count; /* items: a process each, at most */
};

struct snap_tracer {
	const struct snap_options *options;
	const struct snap_stop_hook *hook;
	struct snap_shared_memory *memory;
	struct snap_stop *stop;
	const struct snap_procfs *procfs;
	struct snap_workers pool;
	struct snap_reader *reader;
	struct snap_region scratch, lists; /* our own; shared with workers */
	struct snap_tracee *tracees;
	uint32_t count, capacity;
	uint32_t *by_tid; /* index in tracees + 1, 0: not listed */
	int *task_fds;    /* by process; negative errno: not open */
	/*
	 * By process: tracees that the kernel counts as its threads, and those of them that can
	 * vanish unseen (snap_tracee_is_counted(), snap_tracee_is_unwatched()).
	 */
	uint32_t *counted, *unwatched;
	int ask_fd;             /* eventfd to the parent */
	int answer_fd;          /* and from it */
	bool may_scout;         /* the parent can be asked for plans */
	uint64_t plan_bytes;    /* expected of those that there are; 0: there are none */
	uint32_t *planned;      /* the processes that there are plans for, in the order of these */
	uint32_t planned_count; /* how many these are */
	int loadavg_fd;         /* tells the pid that was given out last */
	pid_t first_pid;        /* that pid, before the tree was last looked at; 0: not known */
	uint32_t prepared;      /* processes whose threads are listed */
	uint32_t waited;        /* tracees before this one need no first wait */
	uint16_t look;          /* how often some process was listed again */
	bool stopping;          /* the first INTERRUPT was sent */
	bool first;             /* we, and our worker, come before ordinary processes */
	bool time_is_up;        /* nobody is waited for any more */
	bool hurries;           /* the run has less time left than a stop may take */
	void *ticks_place;      /* SNAP_TICKS_PLACE bytes */
	/* The tid in SEIZE just now, 0: none; and what it was at the last tick. */
	volatile pid_t seizing, seizing_at_tick;
	int64_t seizing_since_ns, first_seize_ns;
	unsigned seizes_given_up;
	sigjmp_buf seize_given_up;
	volatile bool any_told;
	uint32_t *told; /* by tid: the status of a stop that a tick has taken from wait(2) */
	int64_t wait_until_ns, slow_until_ns, copy_until_ns;
	/* scratch */
	pid_t *tids;             /* a listing */
	char *buffer;            /* texts, SNAP_DESCRIBE_BYTES */
	bool *maps_wanted;       /* by process: they are to be read */
	bool *maps_read_again;   /* by process: done, inside the pause */
	struct snap_need *needs; /* by tracee: where its stack is */
	uint32_t *places;        /* by process: in a list of stacks; those of files behind them */
	struct snap_words words;
	bool words_lead_on; /* to more words, by arrays that some of them are */
	size_t last_map;    /* where the last stack was found */
	uint64_t *reference_pcs;
	/* Stacks that were measured before the stop. */
	uint64_t sample_bytes;
	uint32_t sample_count;
};

enum {
	SNAP_TICKS_PLACE = 1 << 16,
	SNAP_TRACER_TICK_US = 2000,
	SNAP_HURRY_NS =
		200000000, /* that threads are ours before a late SEIZE is given up at once */
	SNAP_TRACER_TIDS = 1 << 22, /* PID_MAX_LIMIT of the kernel: no tid is above it */
};

static inline struct snap_traced *snap_tracer_process(const struct snap_tracer *tracer,
						      const struct snap_tracee *tracee)
{
	return &tracer->stop->processes[tracee->process];
}

static inline struct snap_thread *snap_tracer_thread(const struct snap_tracer *tracer,
						     const struct snap_tracee *tracee)
{
	return &snap_tracer_process(tracer, tracee)->threads[tracee->thread];
}

/* What is left of a time that something may take which a target can make slow. */
static inline int64_t snap_tracer_patience(const struct snap_tracer *tracer, int64_t whole_ns)
{
	return whole_ns * tracer->stop->patience / 100;
}

/*
 * For how long somebody may be ours. A thread that makes another one stands still from then on, also
 * before the stop; so where an exec makes SEIZE wait, that counts as time of the stop.
 */
static inline int64_t snap_tracer_held_ns(const struct snap_tracer *tracer, int64_t now)
{
	return tracer->first_seize_ns ? now - tracer->first_seize_ns : 0;
}

/* child.c */
/* A signal each interval ends calls that wait; 0: none any more. */
void snap_tracer_set_ticks(long interval_us);

/* ticks.c */
/*
 * Makes a signal end calls that wait. Its handler finds `context` by snap_ticks_context(), which
 * nobody who may send signals can forge; `place` is SNAP_TICKS_PLACE bytes for that.
 */
void snap_ticks_set_up(void (*handler)(int, siginfo_t *, void *), void *place, void *context);
void *snap_ticks_context(const void *frame);
/* For who has left the handler by a jump. */
void snap_ticks_allow(void);

/* seize.c */
/* Reads and seizes the processes that were added since the last call. */
void snap_tracer_prepare(struct snap_tracer *tracer);
/* Fills in what procfs says of a thread; false when it has gone. */
bool snap_tracer_describe(struct snap_tracer *tracer, const struct snap_tracee *tracee);
/* Adds a thread to a process; NULL when it is known already or there is no room. */
struct snap_tracee *snap_tracer_add(struct snap_tracer *tracer, uint32_t process, pid_t tid);
/* Opens the directory of threads of a process, by number if need be. */
void snap_tracer_open_tasks(struct snap_tracer *tracer, uint32_t process);
/* What those threads do in the kernel that did not stop, as far as it is asked for. */
void snap_tracer_read_slow(struct snap_tracer *tracer);
/* One SEIZE, and what it means for the phase. */
void snap_tracer_seize(struct snap_tracer *tracer, struct snap_tracee *tracee);
/* Every change of a tracee's phase, with what follows for the counts and the thread's result. */
void snap_tracer_note(struct snap_tracer *tracer, struct snap_tracee *tracee,
		      enum snap_tracee_event event);
/* The first thread of a process, NULL: it was never listed. */
struct snap_tracee *snap_tracer_leader(const struct snap_tracer *tracer, uint32_t process);

/* maps.c */
/*
 * Has the maps read of all processes that are marked in maps_wanted, and the first pages of their
 * modules; where that fails those of before stay. `until_ns`: for all of them.
 */
void snap_tracer_read_maps(struct snap_tracer *tracer, int64_t patience_ns, int64_t until_ns);
/* The mapping that holds an address, NULL: none. */
const struct snap_map *snap_tracer_find_map(struct snap_tracer *tracer, uint32_t process,
					    uint64_t address);

/* copy.c */
/* Where a stack is, and how much of it there is; size 0: nowhere, or it is copied by now. */
struct snap_need {
	uint64_t address;
	uint64_t size;
	bool has_file; /* pages of a file, which somebody may have to serve */
};
/*
 * A stopped thread's NT_PRSTATUS into SNAP_MAX_REGISTERS bytes. 0 or an errno; ENOEXEC: it is of
 * another architecture or word size.
 */
int snap_tracer_registers(pid_t tid, void *ret, size_t *size_ret, uint64_t *sp_ret,
			  enum snap_arch *arch_ret);
/* How many bytes of stacks to expect, judged by some of the threads listed by now. */
uint64_t snap_tracer_expect(const struct snap_tracer *tracer);
/* Has memory ready for the copies of all threads that are listed by now, with a worker as well. */
void snap_tracer_reserve_copies(struct snap_tracer *tracer, uint64_t stack_bytes);
bool snap_tracer_lay_out_copies(struct snap_tracer *tracer);
/* The bytes of a stack, by its pointer. */
struct snap_need snap_tracer_find_stack(struct snap_tracer *tracer, uint32_t process, uint64_t sp);
/* Copies what is in needs, at most `most` bytes of each. */
void snap_tracer_copy_needs(struct snap_tracer *tracer, uint64_t most);
/* Registers of all stopped threads, then their stacks. */
void snap_tracer_copy(struct snap_tracer *tracer);

/* words.c */
/* The memory that words will take, where each thread waits for another futex. */
struct snap_expected_words {
	uint64_t bytes, list_bytes, record_bytes;
};
struct snap_expected_words snap_tracer_expected_words(const struct snap_tracer *tracer);
/* How much of the room for stacks is kept for words. */
uint64_t snap_tracer_words_room(const struct snap_tracer *tracer, uint64_t room);
/* Puts into tracer->words what is wanted beside the stacks in needs, `most` bytes of each. */
void snap_tracer_find_words(struct snap_tracer *tracer, uint64_t most);
/* The same for what the words that are there lead to; whether there is more, and no stack. */
bool snap_tracer_find_more_words(struct snap_tracer *tracer);
/* The first `done` wants of an item of words become the process's image. */
void snap_tracer_take_words(struct snap_tracer *tracer, const struct snap_copy_list *list,
			    const struct snap_copy_item *item, uint32_t done);

/* plan.c */
/* Asks the parent for plans, if some process looks as if it had a managed runtime. */
void snap_tracer_scout(struct snap_tracer *tracer);
/* Copies what the plans name, within what is left of the time for that. */
void snap_tracer_execute_plans(struct snap_tracer *tracer);

/* interrupted.c */
/* Needs for the stacks that threads on a signal stack were interrupted on; whether there are. */
bool snap_tracer_find_interrupted(struct snap_tracer *tracer);

/* birth.c */
/*
 * A fork that was under way when its thread was seized makes a child that is not traced, perhaps
 * after the tree was looked at. Adds the processes of such children, whose threads are then to be
 * settled; whether there were any. What there is no room for is counted in `children_missed`.
 */
bool snap_tracer_add_unseen_children(struct snap_tracer *tracer);
/* `creator` stands at CLONE, FORK or VFORK; adds the child, which stops as well. */
void snap_tracer_catch_child(struct snap_tracer *tracer, uint32_t creator, int event);

/* settle.c */
/*
 * Whether the threads that are known are all that a process has. Equal numbers do not
 * prove it: one that is not traced may have vanished, and another one have been born.
 */
bool snap_tracer_is_settled(const struct snap_tracer *tracer, uint32_t process);
/* Lists the threads of a process again, seizes the unknown ones; how many there were. */
uint32_t snap_tracer_settle(struct snap_tracer *tracer, uint32_t process);
/* Reaps the threads of a process if they were killed as they stood. */
void snap_tracer_reap_killed(struct snap_tracer *tracer, uint32_t process);
/* Sets `threads_missed` of the processes that are not settled. */
void snap_tracer_note_missed(struct snap_tracer *tracer);

/* pause.c */
enum snap_wait_result { SNAP_WAITED_STOPPED, SNAP_WAITED_GONE, SNAP_WAITED_NOT_YET };
/* Waits for one tracee, with `options` of wait4(2), and notes what has become of it. */
enum snap_wait_result snap_tracer_wait(struct snap_tracer *tracer, uint32_t index, int options);
void snap_tracer_pause(struct snap_tracer *tracer);

#endif
