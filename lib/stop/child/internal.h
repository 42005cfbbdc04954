/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Internal: what the files of the tracing child of a stop share.
 *
 *	child.c    its life: signals, memory, the order of what follows
 *	seize.c    threads, listed and seized while all run
 *	pause.c    from the first INTERRUPT to the last DETACH
 *	await.h    a wait for a tracee that leaves signals with the kernel
 *	birth.c    threads and processes that are born meanwhile
 *	settle.c   whether the known threads are all threads
 *	rest.c     threads that are on no processor, and are not stopped
 *	copy.c     registers and stacks; interrupted.c: those below signal handlers
 *	follow.c   other stacks that frames lie in
 *	wait_bytes.c    memory that explains waits
 *	maps.c     the address spaces
 *	plan.c     the memory of managed runtimes: which, and its copy
 *	reader.h   what workers read for us, as we touch no memory of a target
 *	phases.h   the phases that a thread goes through
 *
 * From the first SEIZE on this process makes no call that a target can block without end.
 *
 * In the child of a threaded program any lock may be locked for ever, also that of malloc. So
 * nothing here allocates, locks or prints: memory comes from the shared mapping and from the
 * scratch region, both laid out by the parent.
 */
#pragma once

#include "base/workers.h"
#include "bpf/threads.h"
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
	uint32_t process;  /* in stop->processes */
	uint32_t thread;   /* in its threads */
	uint8_t phase;     /* enum snap_tracee_phase; changed by snap_tracer_note() alone */
	int8_t signal;     /* to be delivered at DETACH */
	uint16_t look;     /* the number of the last listing that had it */
	uint16_t pass;     /* the number of the last pass of rest.c that had it */
	uint64_t switches; /* RESTING: see struct snap_bpf_thread */
	bool was_spared;   /* when it rested last, a stop would have harmed it */
	bool late;         /* it has run too often for the instant of the others, see rest.c */
};

/* Memory that explains waits, for the next list of stacks; its wants are sorted by process. */
struct snap_wait_spans {
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
	struct snap_stop_reader *reader;
	struct snap_region scratch, lists; /* our own; shared with workers */
	struct snap_tracee *tracees;
	uint32_t count, capacity;
	uint32_t *by_tid; /* index in tracees + 1, 0: not listed */
	int *task_fds;    /* by process; negative errno: not open */
	/*
	 * By process: tracees that the kernel counts as its threads, and the counted ones that can
	 * vanish unnoticed (snap_tracee_is_counted(), snap_tracee_is_unwatched()).
	 */
	uint32_t *counted, *unwatched;
	int ask_fd;             /* eventfd to the parent */
	int answer_fd;          /* eventfd from the parent */
	struct snap_bpf bpf;    /* none: all threads are stopped */
	uint16_t pass;          /* the number of passes over threads at rest */
	bool may_probe;         /* the parent can be asked for plans … */
	bool may_follow;        /* … and to copy other stacks */
	uint64_t plan_bytes;    /* expected of all plans; 0: there are none */
	uint32_t *planned;      /* the processes with plans, in the order of their execution */
	uint32_t planned_count; /* the number of these processes */
	int loadavg_fd;         /* gives the pid that was assigned last */
	pid_t first_pid;        /* that pid, before the last look at the tree; 0: unknown */
	uint32_t prepared;      /* processes whose threads are listed */
	uint32_t waited;        /* tracees before this one need no first wait */
	uint16_t look;          /* the number of listings after the first ones */
	bool stopping;          /* the first INTERRUPT was sent */
	bool first;             /* we and our worker have priority over ordinary processes */
	bool time_is_up;        /* no thread is waited for any more */
	bool hurries;           /* the run has less time left than a stop may take */
	void *ticks_place;      /* SNAP_TICKS_PLACE bytes */
	/* The tid of the current SEIZE, 0: none; and that at the last tick. */
	volatile pid_t seizing, seizing_at_tick;
	int64_t seizing_since_ns, first_seize_ns;
	unsigned seizes_given_up;
	sigjmp_buf seize_given_up;
	int64_t wait_until_ns, slow_until_ns, copy_until_ns;
	/* scratch */
	pid_t *tids;             /* a listing */
	char *buffer;            /* texts, SNAP_DESCRIBE_BYTES */
	bool *maps_wanted;       /* by process: its maps are to be read */
	bool *maps_read_again;   /* by process: done, inside the pause */
	struct snap_need *needs; /* by tracee: where its stack is */
	uint32_t
		*places; /* by process: its place in a list of stacks; those on files come second */
	struct snap_wait_spans words;
	unsigned round;          /* of the instant */
	unsigned naps;           /* to meet one that runs asleep */
	bool takes_running;      /* what runs is not waited for any more, to be blocked */
	bool any_rest;           /* some thread rests, or has rested */
	bool wait_spans_lead_on; /* some words are arrays of addresses of further words */
	size_t last_map;         /* where the last stack was found */
	uint64_t *reference_pcs;
	/* Of the stacks that were measured before the stop. */
	uint64_t sample_bytes;
	uint32_t sample_count;
};

enum {
	SNAP_TICKS_PLACE = 1 << 16,
	SNAP_TRACER_TICK_US = 2000,
	SNAP_HURRY_NS =
		200000000, /* from the first SEIZE on, before a late SEIZE is given up at once */
	SNAP_TRACER_TIDS = 1 << 22, /* PID_MAX_LIMIT of the kernel: no tid is above it */
};

/* A thread of the kernel, or of io_uring: it runs no code of its process. */
static inline bool snap_thread_is_worker(const struct snap_thread *thread)
{
	return thread->flags & (SNAP_PF_KTHREAD | SNAP_PF_IO_WORKER | SNAP_PF_USER_WORKER);
}

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

/* The remaining patience for a call that a target can block. */
static inline int64_t snap_tracer_patience(const struct snap_tracer *tracer, int64_t whole_ns)
{
	return whole_ns * tracer->stop->patience / 100;
}

/*
 * The time since the first SEIZE. A seized thread that makes another one is stopped from then on,
 * also before the pause; so the time of a SEIZE that an exec blocks counts as time of the stop.
 */
static inline int64_t snap_tracer_seized_ns(const struct snap_tracer *tracer, int64_t now)
{
	return tracer->first_seize_ns ? now - tracer->first_seize_ns : 0;
}

/* child.c */
/* Sends a signal at each interval, which ends blocking calls; 0: no more signals. */
void snap_tracer_set_ticks(long interval_us);

/* ticks.c */
/*
 * Makes a signal end blocking calls. Its handler finds `context` by snap_ticks_context(), which no
 * sender of signals can forge; `place` is SNAP_TICKS_PLACE bytes for that.
 */
void snap_ticks_set_up(void (*handler)(int, siginfo_t *, void *), void *place, void *context);
void *snap_ticks_context(const void *frame);
/* For code that has left the handler by a jump. */
void snap_ticks_allow(void);

/* rest.c */
static inline bool snap_tracer_may_rest(const struct snap_tracer *tracer)
{
	return tracer->bpf.program_fd >= 0;
}
/* Whether threads are stopped where that ends their calls early, too. */
static inline bool snap_tracer_stops_all(const struct snap_tracer *tracer)
{
	return tracer->options->stop_all || (tracer->hook && tracer->hook->unwind);
}
/* Has all threads rest that are on no processor; how many did not rest before, and how many run. */
struct snap_rest_count {
	uint32_t fresh, running;
} snap_tracer_rest(struct snap_tracer *tracer);
/* The same for one that was found late; whether it rests. After some rounds none does. */
bool snap_tracer_rest_late(struct snap_tracer *tracer, struct snap_tracee *tracee);
/*
 * Whether a stop would harm it (see snap_stop_is_harmful()). It rests then, or, where what is known does
 * not suffice for that, has no stack.
 */
bool snap_tracer_spare(struct snap_tracer *tracer, struct snap_tracee *tracee);
/* Before the stop: as many as possible rest, and are copied. */
void snap_tracer_rest_and_copy(struct snap_tracer *tracer);
/* The same without BPF: those that are blocked are seized, or rest where a stop would harm them. */
void snap_tracer_seize_blocked(struct snap_tracer *tracer);
/*
 * When all others stand still and everything is read: whether one at rest has run. It is traced then, or
 * rests again, and what was read of memory is forgotten; in the last of some rounds all are traced that
 * a stop does not harm, and those are late that run again.
 */
bool snap_tracer_has_woken(struct snap_tracer *tracer);
/* When nothing else is to be read: copies those that are late. */
void snap_tracer_take_late(struct snap_tracer *tracer);

/* seize.c */
/* Reads the processes that were added since the last call; their threads rest, or are seized. */
void snap_tracer_prepare(struct snap_tracer *tracer);
/* Describes a thread from procfs; false when it has gone. */
bool snap_tracer_describe(struct snap_tracer *tracer, const struct snap_tracee *tracee);
/* Adds a thread to a process; NULL when it is known already or there is no room. */
struct snap_tracee *snap_tracer_add(struct snap_tracer *tracer, uint32_t process, pid_t tid);
/* Opens the directory of threads of a process, by number if need be. */
void snap_tracer_open_tasks(struct snap_tracer *tracer, uint32_t process);
/* Reads what threads that did not stop do in the kernel, as far as options ask for it. */
void snap_tracer_read_slow(struct snap_tracer *tracer);
/* Seizes all threads that are listed, and neither rest nor are seized. */
void snap_tracer_seize_listed(struct snap_tracer *tracer);
/* Makes one SEIZE, and notes the phase that follows. */
void snap_tracer_seize(struct snap_tracer *tracer, struct snap_tracee *tracee);
/* Makes every change of a tracee's phase, and updates the counts and the thread's result. */
void snap_tracer_note(struct snap_tracer *tracer, struct snap_tracee *tracee,
		      enum snap_tracee_event event);
/* The first thread of a process, NULL: it was never listed. */
struct snap_tracee *snap_tracer_leader(const struct snap_tracer *tracer, uint32_t process);

/* maps.c */
/*
 * Has the maps of all processes in maps_wanted read, and the first pages of their modules; if that
 * fails, the old ones stay. `until_ns`: for all of them.
 */
void snap_tracer_read_maps(struct snap_tracer *tracer, int64_t patience_ns, int64_t until_ns);
/* The mapping of an address, NULL: none. */
const struct snap_map *snap_tracer_find_map(struct snap_tracer *tracer, uint32_t process,
					    uint64_t address);

/* copy.c */
/* The place and size of a stack; size 0: unknown, or it is copied by now. */
struct snap_need {
	uint64_t address, size;
	bool has_file; /* pages of a file, which a program may have to serve */
};
/*
 * Reads a stopped thread's NT_PRSTATUS into SNAP_MAX_REGISTERS bytes. 0 or an errno; ENOEXEC: it is
 * of another architecture or word size.
 */
int snap_tracer_registers(pid_t tid, void *ret, size_t *size_ret, uint64_t *sp_ret,
			  enum snap_arch *arch_ret);
/* The expected bytes of stacks, estimated from some of the threads listed by now. */
uint64_t snap_tracer_expect(const struct snap_tracer *tracer);
/*
 * Makes memory present for the copies of all threads that are listed by now, here and in a worker.
 */
void snap_tracer_reserve_copies(struct snap_tracer *tracer, uint64_t stack_bytes);
bool snap_tracer_lay_out_copies(struct snap_tracer *tracer);
/* The bytes of a stack, by its pointer. */
struct snap_need snap_tracer_find_stack(struct snap_tracer *tracer, uint32_t process, uint64_t sp,
					uint64_t thread_pointer);
/* Copies the stacks in needs, at most `most` bytes of each. */
void snap_tracer_copy_needs(struct snap_tracer *tracer, uint64_t most);
/* The stacks of threads at rest, before the stop. */
void snap_tracer_copy_rest(struct snap_tracer *tracer);
/* Registers of all stopped threads, then the stacks that are not copied yet, and memory beside them. */
void snap_tracer_copy(struct snap_tracer *tracer);

/* wait_bytes.c */
/* The memory that words will take if each thread waits for another futex. */
struct snap_expected_wait_bytes {
	uint64_t bytes, list_bytes, record_bytes;
};
struct snap_expected_wait_bytes snap_tracer_expect_wait_bytes(const struct snap_tracer *tracer);
/* The part of the room for stacks that is kept for words. */
uint64_t snap_tracer_wait_room(const struct snap_tracer *tracer, uint64_t room);
/*
 * Puts the words that are not in the copied stacks into tracer->words; `most`: bytes of each stack.
 */
void snap_tracer_find_wait_bytes(struct snap_tracer *tracer, uint64_t most);
/*
 * The same for further words that the copied words point to; whether there are some. No stack is
 * needed then.
 */
bool snap_tracer_find_more_wait_bytes(struct snap_tracer *tracer);
/* The first `done` wants of an item of words become the process's image. */
void snap_tracer_take_wait_bytes(struct snap_tracer *tracer, const struct snap_copy_list *list,
				 const struct snap_copy_item *item, uint32_t done);

/* plan.c */
/* Asks the parent for plans, if some process looks as if it had a managed runtime. */
void snap_tracer_probe(struct snap_tracer *tracer);
/* Executes the plans, within the time left for them. */
void snap_tracer_execute_plans(struct snap_tracer *tracer);

/* follow.c */
/* Copies the stacks that threads, of which everything else is copied, go on in. */
void snap_tracer_follow(struct snap_tracer *tracer);

/* interrupted.c */
/*
 * Sets needs for the stacks that threads on a signal stack have interrupted; whether there are
 * some.
 */
bool snap_tracer_find_interrupted(struct snap_tracer *tracer);

/* birth.c */
/*
 * A fork that was under way when its thread was seized makes a child that is not traced, perhaps
 * after the tree was looked at. Adds the processes of such children, whose threads are then to be
 * settled; whether there were any. Those without room are counted in `children_missed`.
 */
bool snap_tracer_add_unseen_children(struct snap_tracer *tracer);
/* `creator` has stopped at CLONE, FORK or VFORK; adds the child, which stops as well. */
void snap_tracer_catch_child(struct snap_tracer *tracer, uint32_t creator, int event);

/* settle.c */
/*
 * Whether the known threads are all threads of a process. Equal counts do not prove it: an untraced
 * thread may have vanished, and another one have been born.
 */
bool snap_tracer_is_settled(const struct snap_tracer *tracer, uint32_t process);
/* Lists the threads of a process again, and seizes the unknown ones; returns their number. */
uint32_t snap_tracer_settle(struct snap_tracer *tracer, uint32_t process);
/* Reaps threads of a process that were killed while stopped. */
void snap_tracer_reap_killed(struct snap_tracer *tracer, uint32_t process);
/* Sets `threads_missed` of the processes that are not settled. */
void snap_tracer_note_missed(struct snap_tracer *tracer);

/* pause.c */
enum snap_wait_result { SNAP_WAITED_STOPPED, SNAP_WAITED_GONE, SNAP_WAITED_NOT_YET };
/* Waits for one tracee, with `options` of wait4(2), and notes the result. */
enum snap_wait_result snap_tracer_wait(struct snap_tracer *tracer, uint32_t index, int options);
void snap_tracer_pause(struct snap_tracer *tracer);
