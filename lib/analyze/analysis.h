/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of one analysis, and its steps:
 *
 *     collect (threads -> distinct stacks of shared frames)   stacks.c
 *             (a runtime's memory -> managed frames, tasks)   runtime/runtimes.c, task/collect.c
 *     name    (distinct addresses -> functions, once a file)  frames.c
 *     explain (calls, futexes, facts -> waits)                wait/
 *     tails   (calls that led elsewhere -> tail-called ones)  tails.c
 *     merge   (managed frames into the stacks of threads)     task/merge.c
 *     group   (same key -> one stack of the snapshot)         label.c, group.c, task/
 *     limit   (no more than a reader can use)                 report_limit.c, short_text.c
 *     view    (filters, types, tree)                          filter.c, node.c, tree.c
 *
 * analyze.c has their order; log/ does some of them for a log. Several steps ask what a name means:
 * classify.c, function_name.c. Images, units, unwinders and readers of runtimes know nothing of an
 * analysis, and do not include this header. Results live in the snapshot's arena. Everything else
 * lives in `scratch`, which is freed with the analysis.
 */
#pragma once

#include "analyze/elf/module.h"
#include "analyze/runtime/runtime.h"
#include "analyze/symbol/symbolize.h"
#include "analyze/unwind/unwind.h"
#include "model/options.h"
#include "model/snapshot.h"

enum { SNAP_NO_INDEX = -1 };

/* A frame and what is known of it before it is named; the frame is what the snapshot keeps. */
struct snap_frame_record {
	struct snap_frame frame;
	uint64_t bits;                    /* struct snap_pc; 0: a kernel frame */
	uint64_t lookup;                  /* the address to look up */
	uint64_t vaddr;                   /* the same in the file's own addresses, if `file` */
	uint64_t start;                   /* of its function, in the file; 0: unknown */
	uint64_t key;                     /* hash for grouping, 0 until group.c asks for it */
	uint64_t report_bytes;            /* of the report, 0 until report_limit.c asks */
	const struct snap_module *module; /* NULL: none */
	struct snap_module_file *file;    /* with an open image; NULL: none */
	bool is_managed;                  /* its entries are the runtime's, not ours to name */
};

/* The frames of a snapshot or recording that is being made come from records only. */
static inline struct snap_frame_record *snap_frame_record_of(const struct snap_frame *frame)
{
	return (struct snap_frame_record *)frame;
}

static inline void snap_frame_record_set_pc(struct snap_frame_record *record, struct snap_pc pc)
{
	record->bits = pc.bits;
	record->lookup = snap_pc_lookup(pc);
	record->frame.address = snap_pc_address(pc);
	record->frame.trust = snap_pc_trust(pc);
}

/* Threads of a process with the same program counters, grouped before anything has a name. */
struct snap_raw_stack {
	uint64_t hash;
	const struct snap_frame **frames; /* kernel frames, then user frames; in the snapshot */
	size_t frame_count, kernel_count;
	enum snap_unwind_end end;
	uint64_t end_pc;
	const char *reason;
	const char *detail; /* where and why it ended early; NULL: complete, or not stopped */
	size_t gap_frame;
	uint64_t gap_count;
	unsigned doubt; /* snap_frames_doubt() */
};

/* What one thread brings along in place of its process: that of a log, at another moment. */
struct snap_raw_own {
	struct snap_memory_image words;
	const struct snap_descriptor *descriptors; /* by number */
	size_t descriptor_count;
};

/* A thread that is to be shown, and its stack. */
struct snap_raw_thread {
	const struct snap_thread *thread;
	size_t stack; /* index in the process's raw stacks */
	/* of a thread that runs managed code: its frames there, and where each native one lies */
	const struct snap_runtime_thread *managed;
	const char *runtime; /* its name */
	const struct snap_frame **managed_frames;
	const uint64_t *sps;            /* NULL: unknown */
	const struct snap_wait *wait;   /* what it waits for; NULL: nothing that is known */
	const struct snap_raw_own *own; /* of waits; NULL: what its process has */
	bool is_hidden;                 /* it carries a task, or is an idle one of a runtime */
};

/* A task that may be shown. */
struct snap_raw_task {
	const struct snap_runtime_task *task;
	const struct snap_runtime_result *runtime;
	size_t stack;              /* index in the process's raw stacks */
	struct snap_label *labels; /* the task's, sorted by key, each key once */
	size_t label_count;
};

/* What is known of a process while the snapshot is made. */
struct snap_raw_process {
	const struct snap_process *process;
	struct snap_modules *modules;       /* NULL: no thread was copied */
	bool has_libc;                      /* maps a C library: not a static program */
	struct snap_frame_record **records; /* distinct, in the order of first sight */
	size_t record_count, record_capacity;
	struct snap_raw_stack *stacks;
	size_t stack_count, stack_capacity;
	struct snap_raw_thread *threads;
	size_t thread_count;
	size_t not_stopped; /* threads that lived but could not be stopped */
	struct snap_runtime_result **runtimes;
	size_t runtime_count;
	size_t *idle_threads;        /* of each of them: how many are hidden */
	struct snap_raw_task *tasks; /* by runtime, then by id */
	size_t task_count;
};

struct snap_analysis {
	const struct snap_capture *capture;
	const struct snap_options *options;
	const struct snap_file_finder *finder;
	struct snap_snapshot *snapshot;
	struct snap_arena scratch;
	struct snap_interner strings; /* in the snapshot's arena */
	struct snap_module_set *set;
	struct snap_unwinder *unwinder;
	struct snap_symbolizer *symbolizer;
	const struct snap_runtime *const *runtimes; /* NULL behind the last one */
	struct snap_raw_process *processes;         /* as many as the capture has, in its order */
};

static inline struct snap_arena *snap_analysis_arena(struct snap_analysis *analysis)
{
	return &analysis->snapshot->arena;
}

/* What all analyses begin and end with; there is no unwinder yet. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_analysis_init(struct snap_analysis *analysis,
					   const struct snap_capture *capture,
					   const struct snap_options *options,
					   const struct snap_file_finder *finder) _must_check_;
void snap_analysis_deinit(struct snap_analysis *analysis);

/* The capture's host, with texts of the analysis; false if some are missing. */
bool snap_analysis_host(struct snap_analysis *analysis, struct snap_host *ret);

/*
 * A text of the capture as the snapshot keeps it: interned, cut at SNAP_MAX_NAME; NULL for NULL and
 * for "". Without memory it is NULL too: the text is then unknown.
 */
const char *snap_analysis_text(struct snap_analysis *analysis, const char *text);

/* Finds the modules of a process, and whether it has a C library. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_raw_process_map(struct snap_analysis *analysis,
					     struct snap_raw_process *raw) _must_check_;
/*
 * Unwinds all threads of a process into its raw stacks, those of its runtimes wholly. NO_MEMORY,
 * CANCELLED.
 */
struct stacksnap_error *snap_stacks_collect(struct snap_analysis *analysis,
					    struct snap_raw_process *raw) _must_check_;

/* Leaves as many frames as -n says, `keep` among them, once filters have looked at all of them. */
void snap_raw_stack_limit(const struct snap_options *options, struct snap_raw_stack *stack,
			  size_t keep);
/* Adds a stack to the raw stacks, whose index is the result; its frames stay. False: no memory. */
bool snap_raw_stack_add(struct snap_raw_process *raw, const struct snap_raw_stack *stack,
			size_t *ret) _must_check_;
/* The same for a record that is not among the process's yet. */
bool snap_frame_record_add(struct snap_raw_process *raw,
			   struct snap_frame_record *record) _must_check_;

/*
 * Small C libraries write the first function of a program or thread by hand and give it no unwind
 * information. Its name then says that the stack ends where it should.
 */
void snap_stack_classify_end(struct snap_raw_stack *stack);

/*
 * "libfoo.so+0x12a0: no unwind information": where and why a stack ended early. `path`: of the
 * module there, whose addresses in its file are `bias` lower; NULL unknown. The stack has a reason.
 */
const char *snap_stack_end_detail(struct snap_analysis *analysis,
				  const struct snap_raw_stack *stack, const char *path,
				  uint64_t bias);

/* Gives every record of every process its module, offset and entries. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_frames_name(struct snap_analysis *analysis) _must_check_;

/* Says of each entry whether it is system code. `path`: of their file, NULL without one. */
void snap_frames_flag_system(struct snap_query *query, const char *path, bool static_program);

/* Puts tail-called functions into the stacks, between the frames. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_tails_find(struct snap_analysis *analysis) _must_check_;

/* The node of a process, without stacks and children. */
struct stacksnap_error *snap_node_create(struct snap_analysis *analysis,
					 const struct snap_raw_process *raw,
					 struct snap_node **ret) _must_check_;
/*
 * Keeps the report within what its reader can use, unless the options ask for so much: names and
 * stacks of the nodes are cut, and a warning says so. NO_MEMORY.
 */
struct stacksnap_error *snap_report_limit(struct snap_analysis *analysis,
					  struct snap_node *const *nodes) _must_check_;
/* Puts the nodes (one a process, in the capture's order, NULL: hidden) into a tree, and counts. */
struct stacksnap_error *snap_node_tree(struct snap_analysis *analysis,
				       struct snap_node **nodes) _must_check_;
