/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of the reader of Go share: a Go program in a process, found without symbols.
 *
 *	code.c        what a file alone tells of its Go code
 *	find.c        where things are: its text, its table of functions, its list of goroutines
 *	scan.c        looking for something in its memory
 *	layout.c      at which offsets fields lie; whether that fits all goroutines
 *	described.c   the same by the program's debug information
 *	derive.c      the same without a table, for versions to come
 *	current.c     the goroutines that threads run
 *	threads.c     threads of the process by the numbers that Go knows them by
 *	sites.c       a pc, looked up once: function, size of its frame, the frame to show
 *	unwind.c      stacks
 *	labels.c      labels, once each
 *	goroutines.c  all goroutines
 *	plan.c        which memory that takes
 *	go.c          probe, read
 */
#pragma once

#include "analyze/runtime/go/code.h"
#include "analyze/runtime/memory.h"
#include "analyze/runtime/runtime.h"
#include "base/table.h"

enum {
	SNAP_GO_MOST_TEXTS = 32,           /* the program, plugins */
	SNAP_GO_MOST_GOROUTINES = 1000000, /* that are listed */
	/*
	 * Bytes of a goroutine's stack that are looked at: those that read inotify have 64 KiB on
	 * it.
	 */
	SNAP_GO_MOST_STACK = 128 << 10,
	SNAP_GO_MOST_FRAMES = 512,
	SNAP_GO_MOST_LABELS = 256, /* of a goroutine */
	SNAP_GO_MOST_REASONS = 64, /* to wait */
	/*
	 * In all of a process. Stacks and labels of goroutines may lie in the same memory, so what
	 * was copied is no bound of what they come to.
	 */
	SNAP_GO_MOST_SITES = 1 << 18,
	SNAP_GO_MOST_ENTRIES = 1 << 20,
	SNAP_GO_MOST_STACK_FRAMES = 1 << 23,
	SNAP_GO_FEW_FRAMES = 16, /* of each stack beyond that */
	SNAP_GO_MOST_LABELS_IN_ALL = 1 << 22,
	/* Oldest and newest version whose layouts are known, as 1.N. */
	SNAP_GO_FIRST = 18,
	SNAP_GO_LAST = 27,
	/* Bytes that are read of what the runtime keeps of itself, a goroutine and a thread. */
	SNAP_GO_MODULE_BYTES = SNAP_GO_MODULE_WORDS * 8,
	SNAP_GO_GOROUTINE_BYTES = 408,
	SNAP_GO_OLD_GOROUTINE_BYTES = 376, /* up to 1.23 */
	SNAP_GO_THREAD_BYTES = 1408,
};

/* A file with Go code and its table; where the program has one, mostly the only one. */
struct snap_go_text {
	struct snap_module *module;
	const char *version; /* as below; plugins may have none */
	unsigned minor;
	struct snap_go_table table;
	uint64_t table_at;   /* address of the table of functions */
	uint64_t header_at;  /* address of the runtime's description of this text (moduledata) */
	uint64_t start, end; /* of the code */
	uint64_t data[4][2]; /* noptrdata, data, bss, noptrbss: [start, end) */
};

/* Offsets of fields in the runtime's own structures: g, m. 0: there is no such field. */
struct snap_go_layout {
	uint8_t first, last; /* versions 1.N */
	uint16_t status, id, wait_since, wait_reason, locked_thread;
	uint16_t parent, creator, start, labels, bubble;
	uint16_t call_sp; /* syscallsp; syscallpc lies behind it */
	uint16_t thread_tid, thread_signal_stack;
	bool labels_are_slices;
};

/* In all versions. */
enum {
	SNAP_GO_STACK_LOW = 0,
	SNAP_GO_STACK_HIGH = 8,
	SNAP_GO_THREAD = 48,
	SNAP_GO_SAVED_SP = 56,
	SNAP_GO_SAVED_PC = 64,
	SNAP_GO_SAVED_SELF = 72,
};

/* atomicstatus, without the bit that says that a scan is on. */
enum snap_go_status {
	SNAP_GO_IDLE = 0,
	SNAP_GO_RUNNABLE = 1,
	SNAP_GO_RUNNING = 2,
	SNAP_GO_SYSCALL = 3,
	SNAP_GO_WAITING = 4,
	SNAP_GO_DEAD = 6,
	SNAP_GO_COPYING = 8,
	SNAP_GO_PREEMPTED = 9,
	SNAP_GO_LEAKED = 10,
	SNAP_GO_DEAD_EXTRA = 11,
	SNAP_GO_SCANNED = 0x1000,
};

/* A pc that was looked up: see sites.c. */
struct snap_go_site {
	uint64_t pc;
	bool is_exact;
	const struct snap_go_text *text; /* NULL: no Go code */
	struct snap_go_function function;
	bool has_size;
	uint32_t size;     /* of its frame there, without the return address */
	bool keeps_return; /* its return address is in a register, and it has no frame */
	bool is_panic;     /* wrappers that it was called by are shown */
	/* The code that "calls" it was interrupted: its pc is exact. */
	bool interrupts;
	/* By whether what it calls is such a function; NULL: not made yet, or nothing to show. */
	const struct snap_runtime_frame *frames[2];
	bool made[2];
	const struct snap_entry
		*entry; /* of the creator or first function of a goroutine there; NULL: not made */
};

/* The labels of some goroutines. */
struct snap_go_labels {
	struct snap_label *list;
	size_t count;
	bool cut;
};

struct snap_go {
	const struct snap_runtime_process *process;
	const char *version;                           /* "1.21.13"; NULL: unknown */
	unsigned minor;                                /* 21; 0: unknown */
	bool is_there;                                 /* some file was made by Go */
	struct snap_go_text texts[SNAP_GO_MOST_TEXTS]; /* sorted by start */
	size_t text_count;
	const struct snap_go_text *runtime; /* the one with the scheduler */
	const struct snap_go_text *other;   /* has another one, that is at work; NULL: none */
	uint64_t list_at;                   /* address of the list of all goroutines */
	uint64_t reasons_at;                /* address of the texts of reasons; 0: not found */
	const char *reasons[SNAP_GO_MOST_REASONS];
	size_t reason_count;
	const struct snap_go_layout *layout;
	struct snap_go_layout own; /* described or derived: may be the layout */
	bool code_is_known;
	uint64_t code[2]; /* of snap_go_find_code() */
	bool no_memory;   /* something could not be made */
	/* threads.c: by Go's number for them; those that a goroutine is on, by tid */
	struct snap_pointer_table threads, busy;
	/* sites.c */
	struct snap_hash_table site_table;
	struct snap_go_site **sites;
	size_t site_count, site_capacity;
	size_t entry_count; /* of all frames */
	size_t frame_count; /* of all stacks */
	/* labels.c */
	struct snap_pointer_table label_table; /* numbers in `labels` */
	struct snap_go_labels *labels;
	size_t label_count, label_capacity;
	uint64_t labels_in_all, label_bytes; /* read so far */
};

void snap_go_deinit(struct snap_go *go);

/* ---- find.c ---- */

/*
 * Finds the texts of the process; false: it has none. `most_memory`: bytes of memory that may be
 * looked through.
 */
bool snap_go_find_texts(struct snap_go *go);
/* Then the list of goroutines, and the reasons to wait; false: the list is not to be found. */
bool snap_go_find_runtime(struct snap_go *go);
/* The text that holds an address of code. */
const struct snap_go_text *snap_go_text_of(const struct snap_go *go, uint64_t pc);
/* Whether a function begins at an address. */
bool snap_go_is_entry(const struct snap_go *go, uint64_t pc);

/* Where the code of a function of the runtime lies; always the same one is asked for. */
void snap_go_find_code(struct snap_go *go, const char *name, uint64_t ret[2]);

/* Memory, or what the file has there: for texts and other bytes that are constant. */
bool snap_go_read_constant(const struct snap_go *go, uint64_t address, void *out, size_t size);

/* ---- scan.c ---- */

/*
 * Shows all memory of [start, end) that is there, piece by piece, until `visit` returns false. A
 * piece begins with `overlap` bytes of the one before it, if they touch.
 */
void snap_go_scan(const struct snap_runtime_process *process, uint64_t start, uint64_t end,
		  size_t overlap,
		  bool (*visit)(void *context, uint64_t address, const uint8_t *bytes, size_t size),
		  void *context);

/* Whether the file has a table of sections. */
bool snap_go_has_sections(const struct snap_image *image);

/* A loadable segment of a file. */
struct snap_go_segment {
	uint64_t address, file_size, memory_size; /* unbiased */
	bool write, execute;
};

/* The next one from *index on; false: there are no more. */
bool snap_go_next_segment(const struct snap_image *image, size_t *index,
			  struct snap_go_segment *ret);
/* Address (unbiased) and size of a symbol of the file; false: it has none. */
bool snap_go_symbol(struct snap_image *image, const char *name, uint64_t *ret);

/* ---- layout.c ---- */

/* That of the version, or of its neighbours, which fits all goroutines; NULL: none does. */
const struct snap_go_layout *snap_go_find_layout(struct snap_go *go, const uint64_t *goroutines,
						 size_t count);
/* The one of a version, or the nearest. */
const struct snap_go_layout *snap_go_layout_of(unsigned minor);
/* Reads a goroutine, as much of it as is there. */
bool snap_go_read_goroutine(const struct snap_go *go, uint64_t address,
			    uint8_t bytes[SNAP_GO_GOROUTINE_BYTES]);

/* ---- described.c ---- */

/*
 * By debug information; false: there is none, or it knows no such fields. To be held to them, too.
 */
bool snap_go_described_layout(const struct snap_go *go, struct snap_go_layout *ret);

/* ---- derive.c ---- */

/*
 * Derives the layout from the goroutines themselves; false: they do not tell. It is to be held to
 * all of them still.
 */
bool snap_go_derive_layout(struct snap_go *go, const uint64_t *goroutines, size_t count,
			   struct snap_go_layout *ret);

/* ---- threads.c ---- */

void snap_go_list_threads(struct snap_go *go);
/* The thread that Go knows by this number (in its own namespace); NULL: there is none. */
const struct snap_thread *snap_go_thread(const struct snap_go *go, uint64_t number);
/* rip and rsp; false: they are not known. */
bool snap_go_registers(const struct snap_thread *thread, uint64_t *pc_ret, uint64_t *sp_ret);
/* What a function that keeps its return address keeps it in; false: it is not known. */
bool snap_go_kept_return(const struct snap_thread *thread, uint64_t *ret);
/* Bytes of a stack: a thread's copy, or memory. */
bool snap_go_read_stack(const struct snap_go *go, const struct snap_thread *thread,
			uint64_t address, void *out, size_t size);
/* Says that a goroutine is on a thread. */
void snap_go_note_busy(struct snap_go *go, const struct snap_thread *thread);
/* Makes the list of threads that wait for work, and have no goroutine. */
void snap_go_find_idle_threads(struct snap_go *go, struct snap_runtime_result *result);

/* ---- current.c ---- */

enum {
	SNAP_GO_LOCAL = -8, /* where a thread keeps its goroutine, from its thread pointer on */
	SNAP_GO_FEW = 8,    /* of the list of goroutines are enough to tell the layout */
};

/* Where a thread (m) has the goroutine that it runs. */
uint64_t snap_go_runs_at(const struct snap_go_layout *layout);
/* Those that the process's threads run, as far as they are there; at most `most`. */
size_t snap_go_current(const struct snap_go *go, uint64_t *goroutines, size_t most);

/* ---- sites.c ---- */

/* NULL without memory, which go->no_memory then says, or after SNAP_GO_MOST_SITES. */
const struct snap_go_site *snap_go_site(struct snap_go *go, uint64_t pc, bool is_exact);
const char *snap_go_site_name(const struct snap_go_site *site);
/* NULL: there is nothing to show. */
const struct snap_runtime_frame *snap_go_frame(struct snap_go *go, const struct snap_go_site *site,
					       bool calls_panic);
/* The function at a return address, or that begins at an address; NULL: unknown. */
const struct snap_entry *snap_go_entry(struct snap_go *go, uint64_t pc, bool is_exact);

/* ---- unwind.c ---- */

/* Where unwinding begins. */
struct snap_go_start {
	uint64_t pc, sp;
	bool is_exact;   /* pc is that of an instruction which a thread is about to execute */
	bool is_unknown; /* it runs, on a thread whose registers are not known */
	const struct snap_thread *thread; /* whose registers they are; NULL */
	uint64_t low, high;               /* the goroutine's stack */
	uint64_t entered;                 /* address of its first function; 0: a thread made by C */
};

void snap_go_unwind(struct snap_go *go, const struct snap_go_start *start,
		    struct snap_runtime_stack *ret);

/* ---- labels.c ---- */

/* The labels at g.labels; NULL: none. */
const struct snap_go_labels *snap_go_labels(struct snap_go *go, uint64_t pointer);

/* ---- goroutines.c ---- */

void snap_go_read_goroutines(struct snap_go *go, const uint64_t *goroutines, size_t count,
			     struct snap_runtime_result *result);

/* ---- plan.c ---- */

void snap_go_make_plan_of_thread(const struct snap_go *go, struct snap_memory_plan *plan);
void snap_go_make_plan(const struct snap_go *go, struct snap_memory_plan *plan);
