/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process whose runtime is made up, and the reports that are made of what it says. Its threads
 * have stacks of frame pointers in code that only a perf map names. One bed at a time.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"
#include "analyze/filter.h"
#include "analyze/runtime/runtime.h"
#include "api/options.h"
#include "base/buffer.h"
#include "fine.h"
#include "golden.h"
#include "model/arch/registers.h"
#include "store/json/read.h"
#include "store/snapshot/file.h"

#include <sys/mman.h>

enum {
	CODE = 0x10000, /* a function each 0x100 bytes */
	STACK = 0x700000,
	FRAME = 0x40, /* bytes of a frame */
	DEEP = 12,
	MAX_THREADS = 8,
	MAX_TASKS = 64,
	MAX_FRAMES = 40,
};

static const char *const functions[] = {
	"time_sleep",
	"_PyEval_EvalFrameDefault",
	"cfunction_vectorcall",
	"PyRun_Main",
	"main",
	"asmcgocall",
	"c_work",
	"futex_wait",
};
enum { SLEEP, LOOP, GLUE, RUN_MAIN, MAIN, CGO, C_WORK, FUTEX, FUNCTIONS };

/* ---- a process ---- */

struct bed {
	struct snap_options options;
	struct snap_arena arena;
	struct snap_capture capture;
	struct snap_process process;
	struct snap_map maps[2];
	struct snap_memory_image image;
	struct snap_memory_piece piece;
	struct snap_thread threads[MAX_THREADS];
	struct snap_x86_64_registers registers[MAX_THREADS];
	uint64_t stacks[MAX_THREADS][DEEP * FRAME / 8];
	/* what the runtime says */
	struct snap_runtime_result result;
	struct snap_runtime_thread managed[MAX_THREADS];
	struct snap_runtime_task tasks[MAX_TASKS];
	struct snap_runtime_frame *frames[MAX_FRAMES];
	size_t frame_count;
};

/* The runtime has no context of its own. */
static struct bed *bed_at_hand;
static bool (*look_at_memory)(const struct snap_runtime_process *process);

static inline struct stacksnap_error *
find_file(void *context _unused_, const struct snap_file_request *request, int *fd_ret)
{
	FILE *map;

	if (request->kind != SNAP_FILE_PERF_MAP)
		return snap_error_not_found();
	*fd_ret = memfd_create("perf-1.map", MFD_CLOEXEC);
	map = fdopen(dup(*fd_ret), "w");
	for (unsigned i = 0; i < FUNCTIONS; i++)
		fprintf(map, "%x 100 %s\n", CODE + 0x100 * i, functions[i]);
	fclose(map);
	lseek(*fd_ret, 0, SEEK_SET);
	return NULL;
}

static inline struct stacksnap_error *read_runtime(const struct snap_runtime_process *process,
						   struct snap_runtime_result **ret)
{
	if (look_at_memory)
		assert_true(look_at_memory(process));
	*ret = &bed_at_hand->result;
	return NULL;
}

static const struct snap_runtime runtime = { .name = "go",
					     .kind = SNAP_RUNTIME_GO,
					     .read = read_runtime };
static const struct snap_runtime *const runtimes[] = { &runtime, NULL };

static inline void bed_init(struct bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	snap_options_init(&bed->options);
	bed->options.perf_map = SNAP_PERF_MAP_ALWAYS;
	snap_arena_init(&bed->arena);
	bed->maps[0] = (struct snap_map){
		.start = CODE, .end = CODE + 0x1000, .read = true, .execute = true
	};
	bed->maps[1] = (struct snap_map){
		.start = STACK, .end = STACK + 0x100000, .read = true, .write = true
	};
	bed->process = (struct snap_process){ .pid = 100,
					      .name = "prog",
					      .args = "prog",
					      .args_size = 5,
					      .uid = 1001,
					      .state = 'S',
					      .parent = SIZE_MAX,
					      .arch = SNAP_ARCH_X86_64,
					      .maps = bed->maps,
					      .map_count = 2,
					      .memory = &bed->image,
					      .threads = bed->threads };
	bed->capture = (struct snap_capture){ .processes = &bed->process,
					      .process_count = 1,
					      .time_ns = 1795420338106000000 };
	bed->image.bytes = 4096;
	bed->image.taken_ns = 1500000;
	bed->result = (struct snap_runtime_result){ .name = "go",
						    .version = "1.21.13",
						    .has_tasks = true,
						    .threads = bed->managed,
						    .tasks = bed->tasks };
	bed_at_hand = bed;
	look_at_memory = NULL;
}

static inline void bed_deinit(struct bed *bed)
{
	snap_options_deinit(&bed->options);
	snap_arena_deinit(&bed->arena);
}

/* Where the frame of that number lies in the stack of a thread. */
static inline uint64_t in_frame(size_t thread, unsigned frame)
{
	return STACK + 0x1000 * thread + frame * FRAME + 0x10;
}

/* A thread that stands in the functions, innermost first, up to FUNCTIONS. */
static inline size_t add_thread(struct bed *bed, pid_t tid, const unsigned *stack)
{
	size_t number = bed->process.thread_count++;
	struct snap_x86_64_registers *registers = &bed->registers[number];
	uint64_t base = STACK + 0x1000 * number, *words = bed->stacks[number];

	registers->rip = CODE + 0x100 * stack[0] + 0x10;
	registers->rsp = base;
	registers->rbp = base + FRAME - 0x10;
	registers->orig_rax = UINT64_MAX;
	for (unsigned i = 0; stack[i] != FUNCTIONS; i++) {
		uint64_t *saved = &words[(i * FRAME + FRAME - 0x10) / 8];
		bool last = stack[i + 1] == FUNCTIONS;

		saved[0] = last ? 0 : base + (i + 1) * FRAME + FRAME - 0x10;
		saved[1] = last ? 0 : CODE + 0x100 * stack[i + 1] + 0x20;
	}
	bed->threads[number] = (struct snap_thread){ .tid = tid,
						     .name = "prog",
						     .state = 'S',
						     .cpu = -1,
						     .result = SNAP_THREAD_COPIED,
						     .registers = registers,
						     .registers_size = sizeof(*registers),
						     .stack_address = base,
						     .stack = (const uint8_t *)words,
						     .stack_size = sizeof(bed->stacks[0]) };
	return number;
}
#define ADD_THREAD(bed, tid, ...) add_thread(bed, tid, (const unsigned[]){ __VA_ARGS__, FUNCTIONS })

/* ---- what the runtime says ---- */

static const struct snap_runtime_frame *frame_called(struct bed *bed, const char *name)
{
	struct snap_runtime_frame *frame;

	for (size_t i = 0; i < bed->frame_count; i++)
		if (strcmp(bed->frames[i]->entries[0].function, name) == 0)
			return bed->frames[i];
	frame = snap_arena_new(&bed->arena, struct snap_runtime_frame);
	frame->entries = snap_arena_new(&bed->arena, struct snap_entry);
	frame->entry_count = 1;
	frame->entries[0] = (struct snap_entry){ .function = name,
						 .file = "/srv/prog.x",
						 .line = 10 + (uint32_t)bed->frame_count,
						 .language = "go" };
	return bed->frames[bed->frame_count++] = frame;
}

static inline struct snap_runtime_stack stack_of(struct bed *bed, const char *names)
{
	struct snap_runtime_stack stack = { 0 };
	char *copy = snap_arena_strdup(&bed->arena, names), *rest = copy, *name;

	stack.frames =
		snap_arena_new_array(&bed->arena, MAX_FRAMES, const struct snap_runtime_frame *);
	while ((name = strsep(&rest, " ")))
		if (*name)
			stack.frames[stack.count++] = frame_called(bed, name);
	return stack;
}

/* "pid=1 ppid=": labels in any order. */
static inline void set_labels(struct bed *bed, struct snap_runtime_task *task, const char *labels)
{
	char *copy = snap_arena_strdup(&bed->arena, labels), *rest = copy, *part;

	task->labels = snap_arena_new_array(&bed->arena, 32, struct snap_label);
	while ((part = strsep(&rest, " "))) {
		char *value = strchr(part, '=');

		if (!value)
			continue;
		*value++ = '\0';
		task->labels[task->label_count++] = (struct snap_label){ part, value };
	}
}

static inline struct snap_runtime_task *add_task(struct bed *bed, const char *id,
						 const char *labels, const char *names)
{
	struct snap_runtime_task *task = &bed->tasks[bed->result.task_count++];

	*task = (struct snap_runtime_task){ .id = id,
					    .state = SNAP_TASK_WAITING,
					    .wait = "chan receive",
					    .stack = stack_of(bed, names) };
	set_labels(bed, task, labels);
	return task;
}

#define PARKED "runtime.gopark runtime.chanrecv main.worker runtime.goexit"

/* A server: a service with two requests, one of which has a child. */
static inline void make_server(struct bed *bed)
{
	ADD_THREAD(bed, 100, FUTEX, MAIN);
	ADD_THREAD(bed, 101, FUTEX, MAIN);
	ADD_THREAD(bed, 102, C_WORK, MAIN);
	bed->result.idle_threads = snap_arena_new_array(&bed->arena, 1, pid_t);
	bed->result.idle_threads[bed->result.idle_thread_count++] = 101;
	add_task(bed, "1", "", PARKED);
	add_task(bed, "2", "", "runtime.gopark runtime.bgsweep runtime.goexit")->is_system = true;
	add_task(bed, "7", "pid=web ppid= process-type=system process-description=Service:web k=v",
		 "net.accept main.serve runtime.goexit");
	add_task(bed, "9", "pid=r1 ppid=web process-type=request process-description=GET:/ k=v",
		 PARKED);
	add_task(bed, "10", "pid=r1 ppid=web process-type=request empty= k=v state=x", PARKED);
	add_task(bed, "11", "pid=r2 ppid=web process-type=odd k=v", PARKED)->tid = 100;
	bed->tasks[5].state = SNAP_TASK_RUNNING;
	bed->tasks[5].wait = NULL;
	add_task(bed, "12", "pid=c1 ppid=r1 process-description=git", PARKED);
	add_task(bed, "20", "pid=orphan ppid=gone", PARKED);
	add_task(bed, "100", "pid= ppid=r1", PARKED);
}

/* ---- reports ---- */

static inline struct snap_snapshot *analyze(struct bed *bed)
{
	const struct snap_file_finder finder = { .find = find_file };
	struct snap_snapshot *snapshot = NULL;

	fine(snap_analyze_with(&bed->capture, &bed->options, &finder, runtimes, &snapshot));
	return snapshot;
}

static inline struct snap_snapshot *read_back(const char *json)
{
	_cleanup_fd_ int fd = memfd_create("document", MFD_CLOEXEC);
	struct snap_snapshot *snapshot = NULL;

	assert_int_equal(write(fd, json, strlen(json)), (ssize_t)strlen(json));
	lseek(fd, 0, SEEK_SET);
	fine(snap_snapshot_read_json(fd, &snapshot));
	return snapshot;
}

static inline char *text_of(const struct snap_snapshot *snapshot)
{
	const struct snap_options options = { .utf8 = true };

	return golden_render(snap_render_text, snapshot, &options, NULL);
}

static inline char *json_of(const struct snap_snapshot *snapshot)
{
	const struct snap_options options = { 0 };

	return golden_render(snap_render_json, snapshot, &options, NULL);
}

/* It is the same when it has been through a file, and between processes. */
static inline void check_ways(const struct snap_snapshot *snapshot)
{
	const struct snap_filter_needed none = { .count = 0 };
	size_t size = snap_snapshot_size(snapshot);
	_cleanup_free_ uint8_t *bytes = malloc(size);
	_cleanup_free_ char *json = json_of(snapshot), *text = text_of(snapshot), *other = NULL,
			    *third = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *read = read_back(json);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *handed = NULL;

	/* As each document is read. */
	for (size_t i = 0; i < read->root_count; i++)
		snap_filter_rank(&none, read->processes[i]);
	/* What filters have hidden before is in no document. */
	read->idle = snapshot->idle;
	other = text_of(read);
	assert_string_equal(text, other);
	fine(snap_snapshot_write(snapshot, bytes, size, &size));
	fine(snap_snapshot_read(bytes, size, &handed));
	third = json_of(handed);
	assert_string_equal(json, third);
}

/* The ids in the tree, with their depths: "web(r1(c1)r2)". */
static inline char *tree_of(const struct snap_snapshot *snapshot)
{
	const struct snap_node *node = snapshot->processes[0];
	struct snap_buffer text = { 0 };
	uint32_t depth = 0;

	for (size_t i = 0; i < node->logical_count; i++) {
		const struct snap_logical *logical = &node->logical[i];

		for (; depth < logical->depth; depth++)
			snap_buffer_add_byte(&text, '(');
		for (; depth > logical->depth; depth--)
			snap_buffer_add_byte(&text, ')');
		if (i && snap_buffer_text(&text)[text.size - 1] != '(')
			snap_buffer_add_byte(&text, ' ');
		snap_buffer_printf(&text, "%s:%zu", logical->id ? logical->id : "-",
				   logical->task_count);
	}
	for (; depth; depth--)
		snap_buffer_add_byte(&text, ')');
	return snap_buffer_take(&text, NULL);
}

#define assert_tree(snapshot, expected)                              \
	do {                                                         \
		_cleanup_free_ char *_tree = tree_of(snapshot);      \
		assert_string_equal(_tree ? _tree : "", (expected)); \
	} while (0)

static inline void set_option(struct bed *bed, const char *name, const char *value)
{
	fine(snap_options_set(&bed->options, name, value));
}
