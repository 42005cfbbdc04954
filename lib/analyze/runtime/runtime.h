/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runtimes: the stacks and tasks that a managed language keeps in its own memory (goroutines,
 * Python and PHP functions), and the monitors that its threads wait for (Java), read from outside.
 *
 * Each runtime has two functions. `probe` examines a process that still runs: does it have this
 * runtime, and which memory will `read` need? It answers with a plan. `read` gets that memory, as
 * it was in the stop, and makes frames and tasks of it. It does not know the plan: memory that is
 * not there is missing, and data that does not validate is not shown. So captures, core files and
 * recorded images use it alike. Every byte is hostile: lengths have limits, loops have bounds, and
 * nothing recurses on data. Both functions know ELF files and memory, and nothing of ptrace, groups
 * or formats.
 */
#pragma once

#include "analyze/elf/module.h"
#include "model/memory_plan.h"
#include "model/options.h"
#include "model/snapshot.h"

/* Memory of one process: as it is (probe), or as it was in the stop (read). */
struct snap_runtime_memory {
	/* All `size` bytes at `address`, or false: then `out` is undefined. */
	bool (*read)(void *context, uint64_t address, void *out, size_t size);
	/*
	 * Of sparse memory (an image): where the first bytes lie that are there, at `address` or
	 * behind it, and how many without a gap; false: there are none. NULL: a process itself,
	 * where whatever is mapped can be read.
	 */
	bool (*next)(void *context, uint64_t address, uint64_t *start_ret, uint64_t *size_ret);
	void *context;
};

/* The current process, and where its results go. */
struct snap_runtime_process {
	const struct snap_process *process; /* its mappings; `read`: its threads, too */
	struct snap_module_set *set;        /* for snap_module_open() */
	struct snap_modules *modules;
	const struct snap_runtime_memory *memory;
	const struct snap_options *options; /* cancel, enough, raw_names, lines, inlines */
	struct snap_interner *strings;      /* texts of the result, in its arena */
	struct snap_arena *arena;           /* all else of the result */
	/*
	 * probe: the plan is for single threads, executed with each sample of one: what that thread
	 * itself runs, and nothing of tasks that wait. read: the memory is what such a plan took,
	 * with the one thread that the process has here; `tasks` has the one that it runs, if there
	 * is any.
	 */
	bool is_of_thread;
	/*
	 * probe: takes what the runtime calls a thread, by the number that the process itself sees;
	 * NULL: no names are wanted.
	 */
	void (*take_name)(void *context, uint32_t tid, const char *name);
	void *take_context;
	/*
	 * probe: has memory kept as it is now, among the pieces of the process: what is too much to
	 * be copied in a stop, or cannot be found in one. NULL: nothing is.
	 */
	void (*keep_memory)(void *context, uint64_t address, uint64_t size);
	int64_t names_until_ns; /* CLOCK_MONOTONIC: then no more is looked for by name; 0: no end */
	/* What was found in the files of the process before; NULL: nothing is kept. */
	struct snap_runtime_symbols *symbols;
};

/*
 * Symbols of a process's files that were asked for, because the next reading asks for them again.
 */
struct snap_runtime_symbols {
	struct snap_runtime_found *found;
	size_t count, capacity;
};

void snap_runtime_symbols_deinit(struct snap_runtime_symbols *symbols);

/*
 * A managed frame. One object for each distinct place: equal frames are one pointer, so that ten
 * thousand tasks in one place cost one frame, and stacks can be compared by their pointers.
 */
struct snap_runtime_frame {
	uint64_t pc;   /* of machine code (Go), as the runtime unwinds it; 0: none (Python, PHP) */
	bool is_exact; /* pc is not a return address */
	/* the innermost inlined one first; texts interned; `language` set */
	struct snap_entry *entries;
	size_t entry_count; /* at least 1 */
};

struct snap_runtime_stack {
	const struct snap_runtime_frame **frames; /* innermost first */
	size_t count;
	enum snap_unwind_end end;
	const char *reason; /* static text; NULL when complete */
};

/*
 * A piece of a thread's managed stack, from frames[first] on, that one native frame runs: the
 * interpreter's loop. Which one: that of which the stack memory holds `anchor` (native frame i,
 * where sp of i <= anchor < sp of i + 1); 0: the next one, from the innermost on, whose function's
 * name begins with the thread's `loop_function`.
 */
struct snap_runtime_run {
	size_t first, count;
	uint64_t anchor;
};

/* A thread of the kernel that has managed frames; tasks that a thread runs are in the tasks. */
struct snap_runtime_thread {
	pid_t tid; /* as in struct snap_thread */
	struct snap_runtime_stack stack;
	struct snap_runtime_run *runs; /* from the innermost on, together all frames */
	size_t run_count;
	const char *loop_function; /* "_PyEval_EvalFrameDefault"; static */
	bool holds_gil;
	int64_t interpreter; /* of which it holds the GIL: its number; -1 unknown */
};

/* A thread of the runtime that the kernel does not know: a goroutine, a task of asyncio. */
struct snap_runtime_task {
	const char *id; /* decimal, or an address in hexadecimal */
	const char *name;
	enum snap_task_state state;
	const char *wait;   /* the runtime's own reason; NULL: none */
	int64_t since_ns;   /* CLOCK_MONOTONIC of the target's host; 0: unknown */
	pid_t tid;          /* runs on, or is locked to it; 0: neither */
	bool locked;        /* to a thread */
	const char *parent; /* id of the task that made it (Go), or awaits it (asyncio); NULL */
	const struct snap_entry *created_by; /* function, file, line; NULL: unknown */
	const struct snap_entry *start;      /* its first function; NULL: unknown */
	struct snap_label *labels;           /* values may be "" */
	size_t label_count;
	bool labels_cut; /* some could not be read */
	bool is_system;  /* the runtime's own */
	struct snap_runtime_stack stack;
	/*
	 * It stands in C: the frames of its thread down to this function (exclusive) come before
	 * its own; NULL: it does not.
	 */
	const char *native_until;
	/*
	 * Where the code of this function lies: [first, behind the last), with or without symbols
	 */
	uint64_t native_code[2];
};

/* A thread that waits for a monitor; numbers of threads are those that the process itself sees. */
struct snap_runtime_monitor {
	uint32_t tid;
	uint64_t address; /* of the monitor, which is not the object that it belongs to */
	uint32_t owner;   /* 0: none, or not known */
	bool is_free;     /* owner 0: no thread has it just now */
};

/* A thread that waits for a lock of the runtime's own that has an owner. */
struct snap_runtime_lock {
	pid_t tid;        /* as in struct snap_thread */
	uint64_t address; /* of the object */
	uint64_t owner;   /* pthread_self(); 0: none */
};

/* What is known of one runtime in one process. */
struct snap_runtime_result {
	const char *name;    /* "go", "cpython", "php", "java": static */
	const char *version; /* "1.21.13"; NULL unknown */
	/* Why there are no frames and tasks, or not all: "Go 1.29: goroutines not understood" */
	const char *refused;
	enum snap_plan_cut cut; /* of what was copied; `torn`: it was changing */
	bool torn;
	struct snap_runtime_thread *threads; /* sorted by tid */
	size_t thread_count;
	struct snap_runtime_task *tasks; /* live ones, sorted by id as a number */
	size_t task_count;
	bool has_tasks;     /* it is a runtime of tasks, though there may be none */
	bool parents_await; /* the parent of a task waits for its end */
	/* Threads of the kernel that are the runtime's own and idle now. */
	pid_t *idle_threads;
	size_t idle_thread_count;
	struct snap_label *labels; /* of the process: request_method … */
	size_t label_count;
	struct snap_runtime_monitor *monitors; /* sorted by tid, one a thread */
	size_t monitor_count;
	struct snap_runtime_lock *locks; /* sorted by tid, one a thread; maybe not all */
	size_t lock_count;
	bool has_only_monitors; /* never frames or tasks: a report does not list it */
	unsigned lacks;         /* as of struct snap_runtime */
};

struct snap_runtime {
	const char *name;
	enum snap_runtime_kind kind;
	unsigned lacks; /* locks that it has and whose owners are not looked for: snap_wait_lack */
	/*
	 * Is it there, by the names and ELF files of its mappings? What `read` needs is added to
	 * the plan; *found_ret stays false if it is not. Finding it too new, or broken, is no
	 * error: the plan is then left as it is. NO_MEMORY, CANCELLED.
	 */
	struct stacksnap_error *(*probe)(const struct snap_runtime_process *process,
					 struct snap_memory_plan *plan,
					 bool *found_ret)_must_check_;
	/*
	 * Makes frames and tasks. NULL in *ret: this runtime is not in the process. NO_MEMORY,
	 * CANCELLED.
	 */
	struct stacksnap_error *(*read)(const struct snap_runtime_process *process,
					struct snap_runtime_result **ret)_must_check_;
};

extern const struct snap_runtime snap_runtime_go, snap_runtime_cpython, snap_runtime_php,
	snap_runtime_java, snap_runtime_jit;
