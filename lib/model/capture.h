/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Capture: the data that was read from the target, as plain bytes, before any analysis.
 *
 * A self-contained value: everything lives in the capture's own arena (stack bytes may lie in a
 * shared mapping that the capture also owns) and dies in snap_capture_destroy(). It can be written
 * to a file and read back (store/capture/file.h). It deliberately knows nothing of ELF, DWARF,
 * functions or groups. All strings are raw bytes of the target, NUL-terminated, capped in length,
 * not escaped: code that prints them escapes them. A NULL string means unknown.
 *
 * What must hold: processes are in the order in which they were found, a parent before its
 * children; maps are sorted by address and do not overlap; threads are sorted by tid.
 */
#pragma once

#include "base/arena.h"
#include "model/memory_image.h"
#include "model/trouble.h"
#include "model/wait/facts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SNAP_MAX_COMM = 64,         /* comm is 15 bytes, kernel workers up to 63 (proc(5)) */
	SNAP_MAX_THREAD_NAME = 128, /* a runtime may have a longer one than comm */
	SNAP_MAX_PATH = 4096,       /* a path in maps */
	SNAP_MAX_ARGS = 1 << 16,    /* bytes of a command line */
	SNAP_MAX_MAPS = 1 << 18,    /* mappings of a process; the kernel's default limit is 65530 */
	SNAP_MAX_THREADS = 1 << 20, /* threads of a snapshot */
	SNAP_MAX_TASKS = 1 << 20,   /* of the runtimes in them */
	SNAP_MAX_PROCESSES = 1 << 16,
	SNAP_MAX_TEXT = 1 << 16, /* any other text: a control group, a message */
	SNAP_MAX_ANCESTORS = 1 << 12,
	SNAP_MAX_GROUPS = 32,     /* supplementary groups of a process */
	SNAP_MAX_REGISTERS = 512, /* bytes: see model/arch/registers.h */
	/* Of a frame that no longer fitted on its stack, with what guards the stack. */
	SNAP_OVERFLOW_BYTES = 1 << 20,
	SNAP_STACK_MARGIN = 128, /* bytes copied below sp: the red zone of the x86-64 ABI */
};

enum snap_arch {
	SNAP_ARCH_UNKNOWN,
	SNAP_ARCH_X86_64,
	SNAP_ARCH_AARCH64,
};

/*
 * A device number that no file has: only the path says which file is mapped. The inode is then a
 * number of our own, which distinguishes the files of a process.
 */
#define SNAP_NO_DEVICE UINT32_MAX

/* A mapping: a line of /proc/PID/maps (proc(5)). */
struct snap_map {
	uint64_t start, end; /* [start, end) */
	uint64_t offset;     /* in the file, bytes */
	uint64_t inode;      /* 0: not a file */
	uint32_t dev_major, dev_minor;
	bool read, write, execute, shared;
	bool deleted;     /* the kernel said " (deleted)"; it is cut from the path */
	bool is_callers;  /* the path is what --exe names; in no file */
	const char *path; /* as the kernel wrote it (newline stays \012), "[vdso]" …; NULL: none */
};

/* Bytes of the target's memory beside the stacks: the vDSO, the first page of each module. */
struct snap_piece {
	uint64_t address;
	const uint8_t *data;
	size_t size;
};

/* The kind of a file that analysis asks for, or of an embedded copy. */
enum snap_file_kind {
	SNAP_FILE_MODULE,     /* the file mapped at map index `map` */
	SNAP_FILE_DEBUG,      /* a separate debug file for `build_id` */
	SNAP_FILE_DEBUG_LINK, /* a file called `name` (.gnu_debuglink) near the module */
	SNAP_FILE_ALT,        /* a dwz alt file, by `build_id`, its base name in `name` */
	SNAP_FILE_DWO,        /* split DWARF: base name in `name` */
	SNAP_FILE_PERF_MAP,   /* perf-NSPID.map of the process */
};

/* A copy of a file inside a capture file, for a reader on another machine. */
struct snap_embedded {
	enum snap_file_kind kind; /* MODULE or PERF_MAP */
	size_t map;               /* MODULE: index of the first mapping of the file */
	const uint8_t *data;
	size_t size;
};

enum snap_thread_result {
	SNAP_THREAD_COPIED,      /* registers are there; see stack_size for the stack */
	SNAP_THREAD_NOT_STOPPED, /* in D, in vfork, or the time was up: no registers */
	SNAP_THREAD_VANISHED,    /* exited before it could be stopped: not shown */
	SNAP_THREAD_UNTRACED,    /* never tried: kernel thread, or the process has trouble */
};

/* How a thread was read. */
enum snap_taken {
	SNAP_TAKEN_TOGETHER,  /* stopped, at one instant with all threads of its tree */
	SNAP_TAKEN_ALONE,     /* in a stop of its own, microseconds long */
	SNAP_TAKEN_UNSTOPPED, /* while it was blocked; it did not run until the copy was made */
	SNAP_TAKEN_CONFIRMED, /* of the same instant as TOGETHER: on no processor from before until after it */
	SNAP_TAKEN_COUNT,
};

/* Whether frames of a thread may lie in other stacks than those that are copied. */
enum snap_lead { SNAP_LEAD_UNKNOWN, SNAP_LEAD_NONE, SNAP_LEAD_ON };

/* Whether it is of the one instant of its tree. */
static inline bool snap_taken_at_once(enum snap_taken taken)
{
	return taken == SNAP_TAKEN_TOGETHER || taken == SNAP_TAKEN_CONFIRMED;
}

/* Whether it ran because of the look. */
static inline bool snap_taken_stops(enum snap_taken taken)
{
	return taken == SNAP_TAKEN_TOGETHER || taken == SNAP_TAKEN_ALONE;
}

struct snap_thread {
	pid_t tid;
	pid_t ns_tid; /* in its innermost pid namespace; 0: unknown. Equal to tid mostly */
	/* comm, or what its runtime calls it */
	const char *name;
	char state;     /* letter of stat (R S D T t Z X I P), just before the stop; 0 unknown */
	int cpu;        /* last processor; -1 unknown */
	uint32_t flags; /* PF_* of stat field 9, linux/sched.h */
	uint64_t start_ticks;     /* of the thread: stat field 22, as of the process; 0 unknown */
	const char *wchan;        /* NULL: not read or not waiting */
	const char *kernel_stack; /* text of /proc/…/stack, --kernel only */
	enum snap_thread_result result;
	bool untried;       /* NOT_STOPPED: there was no time for it */
	bool spared;        /* NOT_STOPPED: a stop would have harmed it */
	bool late;          /* born during the stop */
	bool group_stopped; /* was in a group-stop (SIGSTOP) when it was stopped */
	pid_t tracer; /* of state t: the process that has stopped it; 0 unknown, or not seen */
	enum snap_taken taken;
	bool partial;           /* of the registers pc, sp and the system call alone are known */
	uint8_t lead;           /* enum snap_lead; in no file */
	const void *registers;  /* of its processor: see model/arch/registers.h */
	size_t registers_size;  /* bytes; 0: none */
	uint64_t stack_address; /* of stack[0]: sp - SNAP_STACK_MARGIN, rounded down to 16 */
	const uint8_t *stack;
	size_t stack_size;     /* bytes really copied, 0: none */
	bool stack_limited;    /* the mapping goes on: --max-stack or the snapshot's limit cut it */
	bool stack_unreadable; /* the copy ended early: memory that cannot be read */
	/*
	 * The interrupted stack of a thread that runs on another one (sigaltstack): bytes from
	 * below the stack pointer that a signal frame in `stack` saved, up to the end of its
	 * mapping, within --max-stack. Capture looks for it only where sp lies neither in "[stack]"
	 * nor in the mapping of the thread pointer: an rt_sigframe shows itself by its ucontext at
	 * an address A in the copy: uc_flags (A) < 256, uc_link (A+8) is 0, ss_sp (A+16) is not 0
	 * and ss_sp <= A < ss_sp + ss_size (A+32), ss_flags (A+24, 32 bits) & 0x7fffffff < 4, the
	 * fpstate pointer (A+224, x86-64 alone) lies behind A in the copy, and the saved stack pointer
	 * (A+160, on aarch64 A+432) lies in another readable mapping. 0: there is none.
	 */
	uint64_t stack2_address;
	const uint8_t *stack2;
	size_t stack2_size;
	/*
	 * Memory of its process that was copied while the thread stood still: by the plan for single
	 * threads, or of other stacks that its frames lie in. NULL: none. Only this memory says what
	 * the thread ran, as memory is used again between the copies of two threads.
	 */
	const struct snap_memory_image *memory;
	/*
	 * For waits. The call as procfs reported it, where registers are missing; and how long the
	 * thread had not run before the stop, at least: ns, -1 unknown.
	 */
	struct snap_thread_call call;
	int64_t blocked_ns;
	/* How often it had been given a processor, before the stop; 0 unknown, or not asked for. */
	uint64_t runs;
	bool call_confirmed; /* it was still in the same call when its descriptors were looked at */
	/*
	 * Of a thread that was not taken together with others: it was in its call at one moment with
	 * all others that have this flag, and its wait bytes are of this moment.
	 */
	bool confirmed;
	const uint64_t *reference_pcs; /* --engine=ptrace: unwound while stopped, innermost first */
	size_t reference_pc_count;
};

struct snap_ancestor {
	pid_t pid;
	const char *name;
	uint64_t start_ticks;
};

/* The user and the group that the kernel shows where there is none: no file is for them. */
enum { SNAP_OVERFLOW_ID = 65534 };

/*
 * The credentials with which a process reads files, of the moment of its mappings. Of a saved file:
 * those of its owner, for all that it names.
 */
struct snap_credentials {
	bool known;
	uint64_t program; /* that it ran then: see struct snap_stat; 0: none, or unknown */
	/* It has no rights over files of others: not root's, or root without CAP_DAC_*. */
	bool is_confined;
	uid_t uid;
	gid_t gid;
	gid_t groups[SNAP_MAX_GROUPS]; /* the first ones */
	size_t group_count;
};

/* The signal that ended a process, as its core has it. */
struct snap_signal {
	int number; /* signal(7), of its processor; 0: there is none */
	int code;   /* si_code (sigaction(2)) */
	pid_t tid;  /* of the thread that got it; 0 unknown */
	bool has_address;
	uint64_t address; /* si_addr: what could not be read, written or executed */
};

/* What a live process uses, as its stat had it when it was found. */
struct snap_usage {
	int64_t rss_bytes; /* of memory; 0: neither is known */
	int64_t cpu_ns;    /* processor time since its start */
};

struct snap_process {
	pid_t pid, ppid;
	pid_t pgrp;      /* its process group, the pid of the process that made it; 0 unknown */
	uint64_t caught; /* signals below 32 that have a handler, bit 0 is number 1 */
	pid_t ns_pid;    /* its own, in its innermost pid namespace; 0: unknown */
	uint64_t start_ticks; /* stat field 22, clock ticks after boot: with pid the identity */
	uint64_t program; /* of a live process, before the rest was read: see struct snap_stat */
	int64_t start_time_ns; /* since the epoch; 0 unknown */
	const char *name;      /* comm */
	char state;            /* letter of stat: of the leader, or of a thread that outlived it */
	uint32_t flags;        /* PF_* of the leader */
	const char *exe;       /* readlink of exe, without " (deleted)" */
	bool exe_deleted;
	const char *args; /* the command line's bytes: arguments end in NUL */
	size_t args_size;
	uint64_t args_start, args_end;       /* where it had them first; 0: unknown; in no file */
	uid_t uid;                           /* real uid of the process; (uid_t)-1 unknown */
	struct snap_credentials credentials; /* in no file */
	const char *user;                    /* name of uid on this host; NULL unknown */
	const char *cgroup;                  /* path in the unified hierarchy, or of name=systemd */
	const char *unit, *container;        /* from the cgroup path */
	struct snap_ancestor *ancestors;     /* upwards inside the same cgroup, nearest first */
	size_t ancestor_count;
	bool is_namespace_init; /* ns_pid is 1 */
	bool in_host_namespace; /* in the same pid namespace as pid 1 of what we see */
	bool is_target;         /* what a target option matched, not merely a descendant */
	size_t parent;          /* index of its parent in processes, SIZE_MAX: a root */
	enum snap_arch arch;
	enum snap_trouble trouble;
	const char *trouble_message; /* lower case, with the remedy; NULL with TROUBLE_NONE */
	bool vanished;               /* listed, then gone before its stop: type dead */
	int64_t stop_duration_ns;    /* first INTERRUPT to last DETACH of this process */
	struct snap_map *maps;
	size_t map_count;
	bool maps_cut; /* there were more, which took too much memory; in no file: a warning says so */
	struct snap_piece *pieces; /* sorted by address */
	size_t piece_count;
	/* Of managed runtimes; NULL: none was asked for. Of threads: what their images share. */
	struct snap_memory_image *memory;
	/* For waits: bytes around futexes, and arrays that calls name; NULL: none. */
	struct snap_memory_image *words;
	struct snap_descriptor *descriptors; /* by number */
	size_t descriptor_count;
	uint64_t net_namespace; /* inode; 0 unknown */
	uint64_t ipc_namespace; /* the same, of those with threads in calls of System V */
	bool frozen;            /* its control group is (cgroup.events) */
	bool has_other_clocks; /* it is in another time namespace: its monotonic clock is not the host's */
	struct snap_usage usage;
	struct snap_signal signal;
	struct snap_thread *threads;
	size_t thread_count;
	size_t threads_missed; /* known to have run, not in `threads` */
	struct snap_embedded *embedded;
	size_t embedded_count;
};

struct snap_warning {
	const char *code;    /* machine word: "thread_not_stopped", "perf_map_refused" … */
	const char *message; /* for people; names of the target in it are raw bytes */
	pid_t pid, tid;      /* 0: none */
};

/*
 * Descriptors that belong to a process within one run, opened before the stop, so that its files can
 * be found after it has gone. -1: not open. Absent (capture.live is NULL) after reading a file.
 */
struct snap_live {
	int pidfd;
	int proc_fd; /* O_PATH directory: the process's own directory of procfs */
	int root_fd; /* O_PATH directory: its root, as it sees it */
	int exe_fd;  /* O_PATH: its program */
	/*
	 * O_PATH directory of a thread that lives on after the leader has exited, -1 for all
	 * others. Where it is open, files (map_files) are found in it: proc_fd leads to none any
	 * more.
	 */
	int files_fd;
};

void snap_live_close(struct snap_live *live);
/* How many of them are open. */
long snap_live_count(const struct snap_live *live);

struct snap_host {
	const char *name, *kernel, *arch, *boot_id;
	unsigned cpus;
	int64_t boot_time_ns; /* epoch time at which tick 0 was */
	long ticks_per_second;
};

struct snap_capture {
	struct snap_arena arena; /* owns all that is below, but for the shared mapping */
	void *shared; /* the tracer's arena: registers and stacks; munmap'ed at the end */
	size_t shared_size;
	int shared_fd; /* the memfd behind it, -1: none */
	int tracer_fd; /* pidfd of a tracing child that is done and may still be ending; -1: none */
	/* Of a capture that was taken over: the other process's shared mapping, to be read only. */
	void *outside;
	size_t outside_size;
	struct snap_host host;
	int64_t time_ns;          /* CLOCK_REALTIME when the first stop began */
	int64_t duration_ns;      /* of the whole capture */
	int64_t stop_duration_ns; /* the longest of the trees' stops */
	int64_t stop_skew_ns;     /* from the first INTERRUPT until the last thread stood still */
	uint32_t stop_rounds;     /* the most instants that a tree needed; 0: --no-stop, a core */
	struct snap_process *processes;
	size_t process_count, process_capacity; /* capacity: of snap_capture_append() */
	struct snap_live *live; /* process_count of them, in the same order; malloc'ed; or NULL */
	/* For discovery alone, in no file: all pids there were, and the asker about new ones. */
	const pid_t *seen;
	size_t seen_count;
	struct snap_asker *asker;
	void (*end_asker)(struct snap_asker *asker);
	struct snap_wait_facts *waits; /* NULL: not asked for */
	struct snap_warning *warnings;
	size_t warning_count, warning_capacity; /* the array is in the arena */
};

struct snap_capture *snap_capture_new(void);
void snap_capture_destroy(struct snap_capture *capture);

SNAP_POINTER_GUARD(struct snap_capture, snap_capture_destroy);

/* Adds a warning; without memory it is lost. pid and tid: 0 for none. */
void snap_capture_warn(struct snap_capture *capture, const char *code, pid_t pid, pid_t tid,
		       const char *format, ...) _printf_(5, 6);

/*
 * What is known of a process, by itself: texts (cut to their caps), arguments and ancestors are
 * copied to the interner and its arena. Maps, pieces, threads and embedded files are left out, and
 * it has no parent. False without memory.
 */
bool snap_process_copy(struct snap_interner *strings, const struct snap_process *from,
		       struct snap_process *ret) _must_check_;

/*
 * Appends a process, all zero, and its descriptors, all -1; the arrays of the capture may move.
 * NULL without memory.
 */
struct snap_process *snap_capture_append(struct snap_capture *capture);

/* Sets the trouble of a process; without memory its word is the message. */
void snap_process_set_trouble(struct snap_capture *capture, struct snap_process *process,
			      enum snap_trouble trouble, const char *format, ...) _printf_(4, 5);

/* Bytes of managed runtimes' memory of all processes. */
uint64_t snap_capture_memory_bytes(const struct snap_capture *capture);

/* The mapping that holds an address, NULL if none. */
const struct snap_map *snap_process_map(const struct snap_process *process, uint64_t address);
/* The first page of the file at map index `map` as it lies in memory, NULL if not captured. */
const struct snap_piece *snap_process_head(const struct snap_process *process, size_t map);
/* Bytes of the pieces; false: not all of them were captured. */
bool snap_process_read(const struct snap_process *process, uint64_t address, void *out,
		       size_t size);
/*
 * The mapping of the stack that sp is of, NULL if none. The sp of an overflowed stack lies below it,
 * in the guard pages or in no mapping: the stack is the next mapping then.
 */
const struct snap_map *snap_maps_stack(const struct snap_map *maps, size_t count, uint64_t sp);
/*
 * Where a stack ends whose stack pointer is in the first of `count` mappings. mlock(2) and
 * madvise(2) of a part of it make that part a mapping of its own. The last one, right behind the
 * others, has the thread pointer (0: unknown) or is called "[stack]"; others are not the stack's.
 */
uint64_t snap_maps_stack_end(const struct snap_map *maps, size_t count, uint64_t thread_pointer);
/* The same of a mapping of the process. */
static inline uint64_t snap_process_stack_end(const struct snap_process *process,
					      const struct snap_map *map, uint64_t thread_pointer)
{
	return snap_maps_stack_end(map, process->map_count - (size_t)(map - process->maps),
				   thread_pointer);
}
