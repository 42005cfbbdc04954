/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Log: the data of a recording as plain numbers, before anything has a name. A recording is made from
 * a log as a snapshot is made from a capture.
 *
 * Flat arrays that grow as time goes by: processes, their address spaces, threads, distinct frames
 * and stacks, and at each tick only what changed. A thread is in the state of its last change until the
 * next one. It can be written to a file as it grows and read back (store/recording/file.h). Knows
 * nothing of functions or files; store/log/log.h fills it.
 *
 * Numbers of things are indices into the arrays. Only snap_log_forget() (store/log/log.h) changes
 * them, so they stay the same between two calls of it. Ticks are numbered from the beginning of the run;
 * those before first_tick were forgotten.
 */
#pragma once

#include "model/pc.h"
#include "model/recording.h"
#include "model/wait/facts.h"

enum {
	SNAP_LOG_MAX_SPACES = 1 << 16,
	SNAP_LOG_MAX_STACKS = 1 << 26,
	SNAP_LOG_MAX_FRAMES = 1 << 26,
	SNAP_LOG_MAX_LABEL_SETS = 1 << 22,
	SNAP_LOG_MAX_LABELS = 64,  /* of a stack, or a task */
	SNAP_LOG_MAX_WAITS = 1024, /* reasons of runtimes for waits that are distinguished */
	SNAP_LOG_MAX_OBJECTS = 1 << 22,
	SNAP_LOG_MAX_WORDS = 1 << 22,
	SNAP_LOG_MAX_EXPLAINED = 1 << 22,
	SNAP_LOG_MAX_SOCKETS = SNAP_MAX_SOCKETS,
	SNAP_LOG_MAX_OBJECT_DESCRIPTORS = SNAP_MAX_POLLED,
	SNAP_LOG_MAX_OBJECT_WORDS = 1 << 14, /* bytes */
	SNAP_LOG_HOLD_BYTES = 32,
	SNAP_LOG_MAX_HOLDERS = 8, /* processes of one owner change */
	/* a change's syscall from here on is an index in calls */
	SNAP_LOG_FIRST_CALL = 1 << 14,
};

/* What is missing because of max_bytes; bits. */
enum snap_log_cut {
	SNAP_LOG_CUT_STACKS = 1 << 0,    /* stacks have their inner frames only */
	SNAP_LOG_CUT_ALL = 1 << 1,       /* stacks count as one that has no frames */
	SNAP_LOG_CUT_THREADS = 1 << 2,   /* are not there, though they count in the statistics */
	SNAP_LOG_CUT_PROCESSES = 1 << 3, /* likewise, with their threads */
	SNAP_LOG_CUT_MAPS = 1 << 4,      /* stacks of processes that mapped files again and again */
	SNAP_LOG_CUT_TICKS = 1 << 5,     /* were left out */
	SNAP_LOG_CUT_RING = 1 << 6,      /* it holds less time than it should */
	SNAP_LOG_CUT_END = 1 << 7,       /* it ended early */
	SNAP_LOG_CUT_LABELS = 1 << 8,    /* stacks have no labels */
	SNAP_LOG_CUT_TASKS = 1 << 9,     /* tasks that wait are not there */
	SNAP_LOG_CUT_OBJECTS = 1 << 10,  /* what threads wait for, or its owner, is not there */
	SNAP_LOG_CUT_WAKES = 1 << 11,    /* when threads ran between two ticks is not there */
};

/* In place of a stack: the thread has ended, or is not sampled from here on (--mode cpu). */
static const uint32_t SNAP_LOG_GONE = UINT32_MAX;

/*
 * Facts about a process of a recording that is written out again, which cannot be derived.
 */
struct snap_log_reported {
	bool known;
	enum snap_process_type type;
	const char *description;
	size_t thread_count;
};

/* The call in which a thread waits, where the name is known and the number is not. */
struct snap_log_call {
	const char *syscall, *wchan; /* NULL: none, or unknown */
};

/* A program that a process ran. */
struct snap_log_process {
	pid_t pid;
	uint64_t start_ticks;
	uint32_t parent;                /* UINT32_MAX: a root */
	uint32_t space;                 /* its latest */
	uint64_t first_tick, last_tick; /* last_tick UINT64_MAX: it is there yet */
	bool execed;                    /* ended by going on as another program */
	bool is_target;
	struct snap_log_reported reported;
};

/*
 * An address space: facts and mappings are capture->processes[index], which has no threads. Most
 * processes have one; another is begun when code is mapped where other code was.
 */
struct snap_log_space {
	struct snap_arena arena; /* of its strings, mappings and pieces */
	uint32_t process;
};

struct snap_log_thread {
	uint32_t process;
	pid_t tid, ns_tid; /* 0: a task */
	const char *name;  /* the last one; in the log's arena */
	bool kernel;
	uint32_t task; /* index + 1 in tasks; 0: a thread */
};

/*
 * A task of a runtime. Its element of `threads` says how it waits, and changes only where that does.
 * While a thread runs the task, the task has no samples: those of the thread are its own. Texts are in
 * the log's arena. A task whose name, labels or parent change goes on as another task.
 */
struct snap_log_task {
	const char *id, *name, *runtime, *parent; /* as in struct snap_task; runtime not NULL */
	const struct snap_entry *created_by;      /* function, file, line; NULL: unknown */
	uint32_t labels; /* index + 1 in label_sets, whose keys are the program's own; 0: none */
	bool labels_cut;
};

/*
 * A distinct program counter of a space: bits of struct snap_pc. Or a managed frame, which its name
 * identifies: it is named from the beginning, and the bits are a hash of the name.
 */
struct snap_log_frame {
	uint64_t bits;
	uint32_t space;
	uint32_t name; /* index + 1 in names; 0: not named */
	bool is_managed;
};

/* Labels of the work of a thread in a stack: a request, a task. Distinct in a space. */
struct snap_log_labels {
	struct snap_label *labels; /* keys as they are shown, sorted, each once; in the arena */
	uint32_t count, space;
};

struct snap_log_stack {
	uint32_t space, frame_count;
	uint64_t frame_start; /* in frame_ids, innermost first */
	uint64_t end_pc;      /* where it ended early; 0: nowhere */
	uint64_t gap_count;
	uint32_t gap_after;
	uint32_t reason; /* index + 1 in reasons; 0: none */
	uint32_t labels; /* index + 1 in label_sets; 0: none */
	enum snap_unwind_end end;
	/*
	 * No native frame is known to run the managed frames before it, so none is left out when the
	 * stack is shown. The two do not fit together, or the native frames are not there.
	 */
	bool shows_all;
};

/* Memory that explains a wait (stop/wait_bytes.h): distinct in a space, in the log's arena. */
struct snap_log_wait_bytes {
	struct snap_memory_piece *pieces; /* sorted, not touching each other */
	uint32_t piece_count, space;
	uint64_t hash;
};

/* The same as an image, which points to them; an image by itself is large. */
static inline struct snap_memory_image snap_log_wait_image(const struct snap_log_wait_bytes *words)
{
	struct snap_memory_image image = { .pieces = words->pieces,
					   .piece_count = words->piece_count };

	for (uint32_t i = 0; i < words->piece_count; i++)
		image.bytes += words->pieces[i].size;
	return image;
}

/*
 * The object of a wait: a call, with only those of its arguments that identify what is waited for, and
 * what its descriptors lead to. Distinct in a space. The meaning is found at the end
 * (snap_log_explained).
 */
struct snap_log_object {
	uint32_t space;
	/*
	 * Other arguments are 0, as are pc and thread_pointer. `sp` of a futex whose word lies on the
	 * stack of the waiting thread is the address of this word; else 0.
	 */
	struct snap_thread_call call;
	/*
	 * The call is futex(2) or a kind of it: its wait bytes change with the owner of the object,
	 * and are those of its first owner change. False: its wait bytes identify the object.
	 */
	bool is_futex;
	uint32_t words; /* index + 1 in words; 0: none are known */
	/* By number, link and kind and inode alone; in the log's arena. */
	struct snap_descriptor *descriptors;
	uint32_t descriptor_count;
};

/*
 * From its tick on an object has these wait bytes. After its first owner change they are only the
 * bytes that may identify the owner (SNAP_LOG_HOLD_BYTES from the futex word on): the memory around
 * them belongs to other data, and changes independently.
 *
 * For an object that is no futex the bytes are numbers, uint32_t from address 0 on: pids of the
 * processes of the recording that have the other end of its pipe or socket, or a lock of its file.
 */
struct snap_log_owner_change {
	uint32_t object;
	uint32_t words; /* index + 1 in words; 0: they could not be read, or there are none */
};

/* The meaning of a wait: what threads in a stack with an object wait for, without its owner. */
struct snap_log_explained {
	uint32_t stack, object;       /* object: index, not + 1 */
	const struct snap_wait *wait; /* in the log's arena; NULL: nothing that is known */
};

/*
 * From this tick on the thread is in this state. 20 bytes. Of a task: `state` is an enum
 * snap_task_state, and `syscall` is its wait, as the `wchan` of a call.
 */
struct snap_log_change {
	uint32_t thread;
	uint32_t stack;  /* SNAP_LOG_GONE */
	int16_t syscall; /* its number; -1: none, or unknown */
	uint8_t state;   /* enum snap_state */
	uint8_t taken;   /* enum snap_taken */
	uint32_t object; /* index + 1 in objects; 0: none, or not known */
};

/* How a waiting thread has run between two ticks, though it may be in the same stack as before. */
enum snap_log_ran {
	SNAP_LOG_RAN_NOT,  /* it has not, up to its next wake */
	SNAP_LOG_RAN_ONCE, /* between the tick before and this one, and not up to its next wake */
	SNAP_LOG_RAN_EACH, /* from then on before each tick, up to its next wake */
	SNAP_LOG_RAN_COUNT,
};

/* Numbers of threads that a wake has room for; there are at most 2^28 threads. */
enum { SNAP_LOG_WAKE_THREADS = (1 << 30) - 1 };

/* What the counters of a thread said at a tick, if that is new. */
struct snap_log_wake {
	uint32_t thread : 30;
	uint32_t ran : 2; /* enum snap_log_ran */
};

struct snap_log_tick {
	int64_t time_ns; /* CLOCK_MONOTONIC, since the log's start */
	int64_t stopped_ns;
	/* changes before this one (in the whole run) are of this tick or older */
	uint64_t change_end;
	uint64_t owner_end, wake_end; /* the same for owner changes, for wakes */
};

struct snap_log {
	struct snap_arena arena; /* thread names, reasons, named frames */
	struct snap_interner strings;
	/* host; processes are the spaces (SNAP_LOG_MAX_SPACES have room: they never move); live */
	struct snap_capture *capture;
	struct snap_log_space *spaces; /* capture->process_count of them */
	int64_t time_ns;               /* CLOCK_REALTIME at start */
	int64_t period_ns;
	bool cpu_only;
	bool explains;      /* what threads wait for was looked for */
	uint64_t max_bytes; /* the limit of its memory, see store/log/log.h; 0: none */
	unsigned cuts;      /* bits of enum snap_log_cut */
	enum snap_recording_end end;
	struct snap_recording_stats stats; /* kept up to date by the recorder */
	struct snap_log_process *processes;
	size_t process_count, process_capacity;
	struct snap_log_thread *threads;
	size_t thread_count, thread_capacity;
	struct snap_log_task *tasks; /* in the order of those of threads that are tasks */
	size_t task_count, task_capacity;
	struct snap_log_frame *frames;
	size_t frame_count, frame_capacity;
	uint32_t *frame_ids;
	size_t frame_id_count, frame_id_capacity;
	struct snap_log_stack *stacks;
	size_t stack_count, stack_capacity;
	struct snap_log_labels *label_sets;
	size_t label_set_count, label_set_capacity;
	struct snap_log_call *calls;
	size_t call_count, call_capacity;
	const char **reasons;
	size_t reason_count, reason_capacity;
	/* Objects of waits, their owners, and when; all empty with --no-explain. */
	struct snap_log_wait_bytes *words;
	size_t words_count, words_capacity;
	struct snap_log_object *objects;
	size_t object_count, object_capacity;
	struct snap_log_owner_change *owners; /* from first_owner on, in the order of their ticks */
	size_t owner_count, owner_capacity;
	uint32_t *owners_before; /* of each object: its bytes before first_tick, index + 1 */
	size_t owners_before_count;
	struct snap_log_wake *wakes; /* from first_wake on, in the order of their ticks */
	size_t wake_count, wake_capacity;
	uint8_t *ran_before; /* of each thread: its last wake before first_tick */
	size_t ran_before_count;
	uint64_t wakes_end; /* the tick from which on wakes are not known; 0: they are not */
	struct snap_socket *sockets; /* distinct by namespace and inode; as last seen */
	size_t socket_count, socket_capacity;
	struct snap_log_explained *explained; /* no pair twice */
	size_t explained_count, explained_capacity;
	struct snap_frame *names; /* of frames, with their entries, where they are known */
	size_t name_count, name_capacity;
	/* the ticks first_tick … first_tick + tick_count - 1, changes from first_change on */
	struct snap_log_tick *ticks;
	size_t tick_count, tick_capacity;
	struct snap_log_change *changes;
	size_t change_count, change_capacity;
	uint64_t first_tick, first_change, first_owner, first_wake;
	/* the state of each thread before first_tick; stack SNAP_LOG_GONE: it was not there */
	struct snap_log_change *before;
	size_t before_count;
	struct snap_log_index *index; /* store/log/index.h: finds elements that are there already */
};
