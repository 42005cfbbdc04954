/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CPython's data, for the files of this folder: where things lie in the memory of a version
 * (layout.c), where the interpreter is (find.c), and functions that read with both.
 */
#pragma once

#include "analyze/runtime/runtime.h"

enum {
	SNAP_PYTHON_MOST_INTERPRETERS = 1024,
	SNAP_PYTHON_MOST_THREADS = 1 << 16, /* of all interpreters */
	SNAP_PYTHON_MOST_FRAMES = 1 << 16,  /* of a thread */
	SNAP_PYTHON_ALL_FRAMES = 1 << 21,   /* of a process */
	SNAP_PYTHON_MOST_CHAINS = 64,       /* interpreters that one thread is in */
	SNAP_PYTHON_PLANNED_FRAMES = 20000, /* of a thread, copied */
	SNAP_PYTHON_MOST_NAME = 4096,       /* bytes of a string as it lies in memory */
	SNAP_PYTHON_MOST_LINES = 1 << 16,   /* bytes of a line table */
	SNAP_PYTHON_RECORD = 512,           /* bytes of the largest structure that is read whole */
};

/* How a frame says where it is. */
enum snap_python_place {
	SNAP_PYTHON_PLACE_BYTES,   /* up to 3.9: index into the bytecode */
	SNAP_PYTHON_PLACE_UNITS,   /* 3.10: the same in units of two bytes */
	SNAP_PYTHON_PLACE_POINTER, /* from 3.11 on: address of an instruction */
};

enum snap_python_lines {
	SNAP_PYTHON_LINES_LNOTAB,    /* up to 3.9 */
	SNAP_PYTHON_LINES_LINETABLE, /* 3.10 */
	SNAP_PYTHON_LINES_LOCATIONS, /* from 3.11 on */
};

/*
 * Offsets in bytes, of one version. `size`: bytes that hold all fields wanted. What a version does
 * not have is 0.
 */
struct snap_python_layout {
	unsigned minor;
	bool is_free_threaded;
	enum snap_python_place place;
	enum snap_python_lines lines;
	struct {
		uint32_t size, interpreters, gil_holder, gil_locked; /* up to 3.11 */
	} runtime;
	struct {
		uint32_t size, next, threads, number, modules;
		uint32_t gil;                    /* from 3.12 on: pointer to … */
		uint32_t gil_holder, gil_locked; /* … what has these; */
		uint32_t gil_enabled; /* free-threaded alone: 0 there if there is no GIL */
	} interpreter;
	struct {
		uint32_t size, next, interpreter, thread_id, native_id, frame;
		uint32_t loop;       /* 3.10 to 3.12: innermost loop of the interpreter */
		uint32_t base_frame; /* 3.15: pointer to the last of all shims */
	} thread;
	struct {
		uint32_t size, frame, previous;
	} loop; /* _PyCFrame, on the machine's stack */
	struct {
		uint32_t size, previous, code, place;
		uint32_t owner; /* 3.12 on; */
		uint32_t
			first_shim; /* owners from here on are shims: of a loop of the interpreter */
		uint32_t is_entry;  /* 3.11: the outermost of a loop */
		uint32_t bytecode_copy; /* free-threaded, 3.14 on: which copy of the bytecode */
	} frame;
	struct {
		uint32_t size, name, file, first_line, line_table;
		uint32_t bytecode;        /* where it begins in the object itself; 3.11 on */
		uint32_t bytecode_copies; /* free-threaded, 3.14 on */
	} code;
	struct {
		uint32_t state, length, ascii, compact, kind_shift;
	} string;
	uint32_t bytes_size, bytes_data, object_type;
	uint32_t object_size; /* of its head: what an object represents is the first field */
	uint32_t var_size;    /* ob_size */
	/* asyncio and generators, 3.14 on */
	struct {
		uint32_t size, name, frame, state;
	} generator;
	uint32_t frame_stack_pointer, set_table, set_mask, int_tag, int_digits;
};

/* Of asyncio, as it describes itself; see asyncio.c. */
struct snap_python_asyncio {
	uint32_t size, name, awaited_by, is_task, awaited_by_is_set, coroutine, node; /* a task */
	uint32_t running_task, thread_tasks; /* a thread's state */
};

/* Where asyncio registers tasks in 3.11 to 3.13; see registry.c. */
struct snap_python_registry {
	bool is_used;    /* false: tasks are in lists */
	bool is_wanted;  /* before the stop: there may be tasks; where, if `tasks` is not 0: */
	uint64_t module; /* the module's entry, from the beginning of the keys of sys.modules on */
	/* entries of the keys of the module's dict: the sets, the class in Python; 0: none */
	uint32_t first, tasks, eager, python_task;
	uint32_t module_words, words;                      /* of an entry of each dict */
	uint64_t function_type, method_type, builtin_type; /* of what futures call when done */
	uint64_t set_type, none;                           /* address of None */
	bool is_in_python;                                 /* tasks are objects of … */
	uint64_t python_type;                              /* … this class in Python */
	size_t steps;                                      /* that were taken to find awaiters */
};

/* Places of the code that was seen; see code.c. */
struct snap_python_places;
struct snap_python_chain;

/* The interpreter of one process. */
struct snap_python {
	const struct snap_runtime_process *process;
	struct snap_module *module; /* that has it */
	uint64_t runtime;           /* address of _PyRuntime */
	uint64_t code_type;         /* address of PyCode_Type; 0: unknown */
	uint64_t string_type;       /* PyUnicode_Type */
	uint32_t version;           /* as PY_VERSION_HEX; only major and minor may be known */
	bool has_micro;
	struct snap_python_layout layout;
	bool has_asyncio; /* in the process, and understood */
	struct snap_python_registry registry;
	struct snap_python_asyncio asyncio;
	uint64_t asyncio_types[3]; /* addresses of the types of coroutines and generators */
	uint64_t int_type;         /* PyLong_Type */
	struct snap_python_places *places;
	/* of all threads that Python knows; malloc'ed */
	struct snap_python_chain *chains;
	size_t chain_count, chain_capacity;
	size_t frames_left; /* frames that may still be read, of all threads and tasks together */
};

/* ---- find.c ---- */

/* Finds _PyRuntime and the version in the process's files. False: no CPython. */
bool snap_python_find(const struct snap_runtime_process *process, struct snap_python *ret);
/* "3.11.2", "3.10"; NULL without memory. */
const char *snap_python_version(const struct snap_python *python);

/* ---- layout.c ---- */

/*
 * Fills python->layout, by a table or as the runtime describes itself, in `memory`. NULL: fine;
 * else why this version is not understood, static.
 */
const char *snap_python_layout_load(struct snap_python *python);

/* ---- plan.c ---- */

/* Adds what is to be copied; false: the plan has no room. */
bool snap_python_plan(const struct snap_python *python, struct snap_memory_plan *plan);
/*
 * The same of one that is not understood: the memory that shows it, as a reader needs some memory.
 */
void snap_python_plan_refusal(const struct snap_python *python, struct snap_memory_plan *plan);

/* ---- lines.c: pure functions ---- */

/*
 * The line at an offset into the bytecode, by a code object's table; 0: none. A negative offset is
 * a frame that has not begun: the first line.
 */
uint32_t snap_python_line(enum snap_python_lines kind, const uint8_t *table, size_t size,
			  uint32_t first_line, int64_t offset);

/* ---- strings.c ---- */

/*
 * `count` characters of `width` bytes (1: Latin-1, 2, 4) as UTF-8, cut to whole characters; bytes
 * of `out` that were used. Bytes that Python could not decode (U+DC80 to U+DCFF) become what they
 * were; what is no character becomes U+FFFD.
 */
size_t snap_python_utf8(const void *characters, size_t count, unsigned width, char *out,
			size_t room);
/* A str object, interned; NULL in *ret: it makes no sense, or is not there. False: no memory. */
bool snap_python_string(const struct snap_python *python, uint64_t address,
			const char **ret) _must_check_;

/* ---- code.c ---- */

bool snap_python_places_create(struct snap_python *python) _must_check_;
void snap_python_places_destroy(struct snap_python *python);

/*
 * What a frame of the interpreter says: its code object's address, tag removed, and where it is.
 * NULL in *ret: it makes no sense, or is not there. False: no memory.
 */
bool snap_python_frame(struct snap_python *python, const uint8_t *frame,
		       const struct snap_runtime_frame **ret) _must_check_;

/* ---- frames.c ---- */

/* The Python frames of one thread in one interpreter. */
struct snap_python_chain {
	uint64_t address;   /* of its PyThreadState */
	uint64_t innermost; /* address of its innermost frame; 0: none */
	pid_t tid;          /* 0: no thread that is there */
	bool holds_gil;
	int64_t interpreter; /* its number; -1: unknown */
	size_t order;        /* in which it was found */
	struct snap_runtime_stack stack;
	struct snap_runtime_run *runs;
	size_t run_count;
};

/* Follows the frames of a PyThreadState, of which `state` holds layout.thread.size bytes. */
struct stacksnap_error *snap_python_chain_read(struct snap_python *python, const uint8_t *state,
					       struct snap_python_chain *chain) _must_check_;

/* ---- greenlets.c ---- */

/* Has kept, of a process that runs, what describes its greenlets. */
void snap_python_keep_greenlets(const struct snap_python *python);
/* Adds them to the tasks of the result. False: no memory. */
bool snap_python_greenlets(struct snap_python *python,
			   struct snap_runtime_result *result) _must_check_;

/* ---- locks.c ---- */

/* Adds the objects of RLock that threads wait for; the last steps, as they are of the least use. */
void snap_python_plan_locks(const struct snap_python *python, struct snap_memory_plan *plan);
/* Fills locks of the result. False: no memory. */
bool snap_python_locks(const struct snap_python *python,
		       struct snap_runtime_result *result) _must_check_;

/* ---- names.c ---- */

/* Gives process->take_name what `threading` calls the threads of a process that runs. */
void snap_python_name_threads(const struct snap_python *python);

/* ---- threads.c ---- */

/* Fills threads of the result, or `refused`; and python->chains. */
struct stacksnap_error *snap_python_threads(struct snap_python *python,
					    struct snap_runtime_result *result) _must_check_;
