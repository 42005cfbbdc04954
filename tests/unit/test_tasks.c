/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks and managed frames, from what a runtime says to the report. The runtime is made up; the
 * threads have stacks of frame pointers in code that only a perf map names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"
#include "analyze/filter.h"
#include "analyze/runtime/memory.h"
#include "api/options.h"
#include "base/buffer.h"
#include "golden.h"
#include "schema.h"
#include "store/json/read.h"
#include "store/snapshot/file.h"

#include <sys/mman.h>
#include <sys/user.h>

#define fine(call)                                                \
	do {                                                      \
		struct stacksnap_error *_err = (call);            \
		if (_err)                                         \
			fail_msg("%s", snap_error_message(_err)); \
	} while (0)

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
	struct user_regs_struct registers[MAX_THREADS];
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

static struct stacksnap_error *find_file(void *context _unused_,
					 const struct snap_file_request *request, int *fd_ret)
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

static struct stacksnap_error *read_runtime(const struct snap_runtime_process *process,
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

static void bed_init(struct bed *bed)
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

static void bed_deinit(struct bed *bed)
{
	snap_options_deinit(&bed->options);
	snap_arena_deinit(&bed->arena);
}

/* Where the frame of that number lies in the stack of a thread. */
static uint64_t in_frame(size_t thread, unsigned frame)
{
	return STACK + 0x1000 * thread + frame * FRAME + 0x10;
}

/* A thread that stands in the functions, innermost first, up to FUNCTIONS. */
static size_t add_thread(struct bed *bed, pid_t tid, const unsigned *stack)
{
	size_t number = bed->process.thread_count++;
	struct user_regs_struct *registers = &bed->registers[number];
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

static struct snap_runtime_stack stack_of(struct bed *bed, const char *names)
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
static void set_labels(struct bed *bed, struct snap_runtime_task *task, const char *labels)
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

static struct snap_runtime_task *add_task(struct bed *bed, const char *id, const char *labels,
					  const char *names)
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
static void make_server(struct bed *bed)
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

static struct snap_snapshot *analyze(struct bed *bed)
{
	const struct snap_file_finder finder = { .find = find_file };
	struct snap_snapshot *snapshot = NULL;

	fine(snap_analyze_with(&bed->capture, &bed->options, &finder, runtimes, &snapshot));
	return snapshot;
}

static struct snap_snapshot *read_back(const char *json)
{
	_cleanup_fd_ int fd = memfd_create("document", MFD_CLOEXEC);
	struct snap_snapshot *snapshot = NULL;

	assert_int_equal(write(fd, json, strlen(json)), (ssize_t)strlen(json));
	lseek(fd, 0, SEEK_SET);
	fine(snap_snapshot_read_json(fd, &snapshot));
	return snapshot;
}

static char *text_of(const struct snap_snapshot *snapshot)
{
	const struct snap_options options = { .utf8 = true };

	return golden_render(snap_render_text, snapshot, &options, NULL);
}

static char *json_of(const struct snap_snapshot *snapshot)
{
	const struct snap_options options = { 0 };

	return golden_render(snap_render_json, snapshot, &options, NULL);
}

/* It is the same when it has been through a file, and between processes. */
static void check_ways(const struct snap_snapshot *snapshot)
{
	size_t size = snap_snapshot_size(snapshot);
	_cleanup_free_ uint8_t *bytes = malloc(size);
	_cleanup_free_ char *json = json_of(snapshot), *text = text_of(snapshot), *other = NULL,
			    *third = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *read = read_back(json);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *handed = NULL;

	other = text_of(read);
	assert_string_equal(text, other);
	fine(snap_snapshot_write(snapshot, bytes));
	fine(snap_snapshot_read(bytes, size, &handed));
	third = json_of(handed);
	assert_string_equal(json, third);
}

/* The ids in the tree, with their depths: "web(r1(c1)r2)". */
static char *tree_of(const struct snap_snapshot *snapshot)
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

static void set_option(struct bed *bed, const char *name, const char *value)
{
	fine(snap_options_set(&bed->options, name, value));
}

/* ---- the tree ---- */

static void test_server(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *text = NULL, *json = NULL;

	bed_init(&bed);
	make_server(&bed);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	text = text_of(snapshot);
	json = json_of(snapshot);
	golden_check("tasks-analyzed.txt", text);
	golden_check("tasks-analyzed.json", json);
	schema_check("stacksnap-snapshot.schema.json", json);
	assert_tree(snapshot, "web:1(r1:2(c1:1) r2:1) gone:0(orphan:1) -:2");
	assert_int_equal(snapshot->task_count, 8);
	assert_int_equal(snapshot->thread_count, 1);
	assert_int_equal(snapshot->processes[0]->thread_count, 3);
	assert_int_equal(snapshot->processes[0]->task_count, 8);
	assert_int_equal(snapshot->processes[0]->runtimes[0].tasks, 9);
	assert_int_equal(snapshot->processes[0]->runtimes[0].shown, 8);
	assert_int_equal(snapshot->processes[0]->runtimes[0].idle_threads, 1);
	bed_deinit(&bed);
}

static void test_labels_of_stacks(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *flat = NULL;
	const struct snap_logical *r1;
	const struct snap_stack *stack;

	bed_init(&bed);
	make_server(&bed);
	snapshot = analyze(&bed);
	r1 = &snapshot->processes[0]->logical[1];
	assert_string_equal(r1->id, "r1");
	assert_string_equal(r1->name, "GET:/");
	assert_string_equal(r1->parent, "web");
	assert_int_equal(r1->type, SNAP_LOGICAL_REQUEST);
	assert_int_equal(r1->label_count, 1);
	assert_int_equal(r1->stack_count, 1);
	stack = &r1->stacks[0];
	assert_string_equal(snap_stack_label(stack, "k"), "v");
	assert_string_equal(snap_stack_label(stack, "wait"), "chan receive");
	assert_null(snap_stack_label(stack, "empty"));
	assert_null(snap_stack_label(stack, "label.pid"));
	assert_int_equal(stack->label_count, 3);
	/* All of them, as the program wrote them. */
	assert_int_equal(stack->tasks[1].label_count, 6);
	assert_string_equal(stack->tasks[1].labels[0].key, "empty");
	assert_string_equal(stack->tasks[1].labels[0].value, "");
	set_option(&bed, "flat", NULL);
	flat = analyze(&bed);
	check_ways(flat);
	assert_tree(flat, "web:1 r1:2 c1:1 r2:1 gone:0 orphan:1 -:2");
	assert_string_equal(
		snap_stack_label(&flat->processes[0]->logical[1].stacks[0], "label.ppid") ?: "",
		"");
	assert_string_equal(snap_stack_label(&flat->processes[0]->logical[1].stacks[0], "ppid"),
			    "web");
	bed_deinit(&bed);
}

/* A key that is one of ours keeps it, where ours stand. */
static void test_clashing_keys(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	const struct snap_stack *stack;
	_cleanup_free_ char *json = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	add_task(&bed, "1", "state=mine label.state=other wait=w tid=7 empty= x=y", PARKED);
	set_option(&bed, "task-tree", "none");
	snapshot = analyze(&bed);
	check_ways(snapshot);
	stack = snapshot->processes[0]->stacks;
	stack += !stack->runtime;
	assert_string_equal(snap_stack_label(stack, "state"), "waiting");
	assert_string_equal(snap_stack_label(stack, "label.state"), "mine");
	assert_string_equal(snap_stack_label(stack, "label.label.state"), "other");
	assert_string_equal(snap_stack_label(stack, "label.wait"), "w");
	assert_string_equal(snap_stack_label(stack, "label.tid"), "7");
	assert_string_equal(snap_stack_label(stack, "empty"), "");
	json = json_of(snapshot);
	schema_check("stacksnap-snapshot.schema.json", json);
	bed_deinit(&bed);
}

static void test_no_tree(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *none = NULL, *other = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, "task-tree", "none");
	none = analyze(&bed);
	assert_int_equal(none->processes[0]->logical_count, 0);
	assert_int_equal(none->task_count, 8);
	check_ways(none);
	set_option(&bed, "task-tree", "k");
	other = analyze(&bed);
	assert_tree(other, "v:4 -:4");
	set_option(&bed, "task-tree", "auto");
	assert_non_null(bed.options.task_tree[SNAP_TREE_TYPE]);
	bed_deinit(&bed);
}

static void test_circles(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	add_task(&bed, "1", "pid=a ppid=c", PARKED);
	add_task(&bed, "2", "pid=b ppid=a", PARKED);
	add_task(&bed, "3", "pid=c ppid=b", PARKED);
	add_task(&bed, "4", "pid=self ppid=self", PARKED);
	add_task(&bed, "5", "pid=below ppid=c", PARKED);
	/* Its first task has no parent, so it has none. */
	add_task(&bed, "6", "pid=two ppid=", PARKED);
	add_task(&bed, "7", "pid=two ppid=a", PARKED);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_tree(snapshot, "two:2 c:1(a:1(b:1) below:1) self:1");
	assert_null(snapshot->processes[0]->logical[1].parent);
	bed_deinit(&bed);
}

/* A chain of sixty thousand would be nested as deep by a program that likes to. */
static void test_deep(void **state _unused_)
{
	enum { MANY = 60 };
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_runtime_task *tasks = calloc(4 * MANY, sizeof(*tasks));

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, MAIN);
	for (int i = 0; i < MANY; i++)
		add_task(&bed, snap_arena_printf(&bed.arena, "%d", i),
			 snap_arena_printf(&bed.arena, "pid=%d ppid=%d", i, i + 1), PARKED);
	for (int i = 0; i < 4 * MANY; i++) {
		tasks[i] = bed.tasks[0];
		tasks[i].label_count = 0;
		tasks[i].id = snap_arena_printf(&bed.arena, "%d", i);
		set_labels(&bed, &tasks[i],
			   snap_arena_printf(&bed.arena, "pid=%d ppid=%d", i, i + 1));
	}
	bed.result.tasks = tasks;
	bed.result.task_count = 4 * MANY;
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->processes[0]->logical_count, 4 * MANY + 1);
	assert_int_equal(snapshot->processes[0]->logical[4 * MANY].depth, 100);
	free(tasks);
	bed_deinit(&bed);
}

/* ---- filters, groups ---- */

/* Filtered while it is made, or later: the same. */
static char *filtered(struct bed *bed)
{
	struct snap_options kept = bed->options, plain;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = analyze(bed), *back;
	_cleanup_free_ char *json = NULL, *late = NULL;
	char *text = text_of(snapshot);

	check_ways(snapshot);
	snap_options_init(&plain);
	plain.perf_map = SNAP_PERF_MAP_ALWAYS;
	plain.all_threads = kept.all_threads;
	bed->options = plain;
	snap_snapshot_destroy(snapshot);
	snapshot = analyze(bed);
	json = json_of(snapshot);
	back = read_back(json);
	fine(snap_filter_snapshot(back, &kept));
	late = text_of(back);
	assert_string_equal(text, late);
	snap_options_deinit(&plain);
	bed->options = kept;
	return text;
}

static void check_filter(const char *name, const char *value, const char *tree, size_t tasks,
			 size_t threads)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, name, value);
	snapshot = analyze(&bed);
	assert_tree(snapshot, tree);
	assert_int_equal(snapshot->task_count, tasks);
	assert_int_equal(snapshot->thread_count, threads);
	free(filtered(&bed));
	bed_deinit(&bed);
}

static void test_filters(void **state _unused_)
{
	check_filter("state", "running", "web:1(r2:1)", 1, 0);
	check_filter("state", "waiting,runnable", "web:1(r1:2(c1:1)) gone:0(orphan:1) -:2", 7, 0);
	check_filter("state", "sleeping", "", 0, 1);
	check_filter("match", "main.serve", "web:1", 1, 0);
	check_filter("match", "c_work", "", 0, 1);
	check_filter("no-idle", NULL, "web:1(r2:1)", 1, 1);
	check_filter("no-system", NULL, "r1:2(c1:1) r2:1 gone:0(orphan:1)", 5, 1);
}

static void test_more_is_shown(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, "threads", NULL);
	set_option(&bed, "system-tasks", NULL);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->thread_count, 3);
	assert_int_equal(snapshot->task_count, 9);
	assert_int_equal(snapshot->processes[0]->runtimes[0].idle_threads, 0);
	assert_tree(snapshot, "web:1(r1:2(c1:1) r2:1) gone:0(orphan:1) -:3");
	bed_deinit(&bed);
}

static void test_groups(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *by_label = NULL,
							       *each = NULL, *any = NULL;

	bed_init(&bed);
	make_server(&bed);
	set_option(&bed, "task-tree", "none");
	snapshot = analyze(&bed);
	/* Waiting, running, the one that serves; and a thread. */
	assert_int_equal(snapshot->stack_count, 4);
	assert_int_equal(snapshot->processes[0]->stacks[0].task_count, 6);
	set_option(&bed, "group-by", "stack,label:ppid");
	by_label = analyze(&bed);
	/* None, "" and the four that there are: web, r1 twice, gone. */
	assert_int_equal(by_label->stack_count, 6);
	set_option(&bed, "per-thread", NULL);
	each = analyze(&bed);
	assert_int_equal(each->stack_count, 9);
	bed.options.group_by = 0;
	set_option(&bed, "group-by", "label:k");
	any = analyze(&bed);
	/* Of those with the label two stand elsewhere: what they have in common is the end. */
	assert_int_equal(any->stack_count, 3);
	assert_int_equal(any->processes[0]->stacks[0].task_count, 4);
	assert_int_equal(any->processes[0]->stacks[0].frame_count +
				 any->processes[0]->stacks[1].frame_count,
			 4 + 1);
	bed_deinit(&bed);
}

/* ---- merged stacks ---- */

static struct snap_runtime_thread *add_managed(struct bed *bed, pid_t tid, const char *names)
{
	struct snap_runtime_thread *thread = &bed->managed[bed->result.thread_count++];

	bed->result.name = "cpython";
	*thread = (struct snap_runtime_thread){ .tid = tid,
						.stack = stack_of(bed, names),
						.loop_function = "_PyEval_EvalFrameDefault",
						.interpreter = -1 };
	thread->runs = snap_arena_new_array(&bed->arena, 4, struct snap_runtime_run);
	return thread;
}

static void add_run(struct snap_runtime_thread *thread, size_t count, uint64_t anchor)
{
	size_t first = 0;

	for (size_t i = 0; i < thread->run_count; i++)
		first += thread->runs[i].count;
	thread->runs[thread->run_count++] = (struct snap_runtime_run){ first, count, anchor };
}

/* The functions of the first stack, innermost first. */
static char *functions_of(const struct snap_snapshot *snapshot)
{
	const struct snap_stack *stack = &snapshot->processes[0]->stacks[0];
	struct snap_buffer text = { 0 };

	for (size_t i = 0; i < stack->frame_count; i++) {
		if (stack->gap_count && i == stack->gap_frame + 1)
			snap_buffer_add_text(&text, " ...");
		snap_buffer_printf(&text, "%s%s", i ? " " : "",
				   stack->frames[i]->entries[0].function);
	}
	return snap_buffer_take(&text, NULL);
}

#define assert_functions(bed, expected)                                                       \
	do {                                                                                  \
		_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *_shot = analyze(bed); \
		_cleanup_free_ char *_names = functions_of(_shot);                            \
		check_ways(_shot);                                                            \
		assert_string_equal(_names, (expected));                                      \
	} while (0)

static void test_merged_by_place(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_thread *thread;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, GLUE, LOOP, GLUE, LOOP, RUN_MAIN, MAIN);
	thread = add_managed(&bed, 100, "inner middle outer");
	add_run(thread, 1, in_frame(0, 2));
	add_run(thread, 2, in_frame(0, 4));
	assert_functions(&bed, "time_sleep inner middle outer main");
	set_option(&bed, "native", NULL);
	assert_functions(&bed, "time_sleep cfunction_vectorcall inner _PyEval_EvalFrameDefault "
			       "cfunction_vectorcall middle outer _PyEval_EvalFrameDefault "
			       "PyRun_Main main");
	bed_deinit(&bed);
}

static void test_merged_by_name(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_thread *thread;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, LOOP, C_WORK, LOOP, RUN_MAIN, MAIN);
	thread = add_managed(&bed, 100, "inner outer");
	add_run(thread, 1, 0);
	add_run(thread, 1, 0);
	thread->holds_gil = true;
	thread->interpreter = 0;
	assert_functions(&bed, "time_sleep inner c_work outer main");
	set_option(&bed, "max-frames", "3");
	assert_functions(&bed, "time_sleep inner ... main");
	set_option(&bed, "max-frames", "1");
	assert_functions(&bed, "time_sleep");
	bed_deinit(&bed);
}

static void check_does_not_fit(const uint64_t anchors[2], const char *loop)
{
	struct bed bed;
	struct snap_runtime_thread *thread;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_free_ char *names = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, LOOP, RUN_MAIN, MAIN);
	thread = add_managed(&bed, 100, "inner outer");
	thread->loop_function = loop;
	add_run(thread, 1, anchors[0]);
	add_run(thread, 1, anchors[1]);
	snapshot = analyze(&bed);
	check_ways(snapshot);
	names = functions_of(snapshot);
	assert_string_equal(names,
			    "inner outer time_sleep _PyEval_EvalFrameDefault PyRun_Main main");
	assert_non_null(strstr(snapshot->processes[0]->stacks[0].unwind_detail, "do not fit"));
	bed_deinit(&bed);
}

static void test_does_not_fit(void **state _unused_)
{
	/* One loop for two runs, in the wrong order, elsewhere, and without a name for it. */
	check_does_not_fit((uint64_t[]){ 0, 0 }, "_PyEval");
	check_does_not_fit((uint64_t[]){ in_frame(0, 2), in_frame(0, 1) }, "_PyEval");
	check_does_not_fit((uint64_t[]){ 16, in_frame(0, 1) }, "_PyEval");
	check_does_not_fit((uint64_t[]){ in_frame(0, 1), 0 }, NULL);
}

/* Frames that say where the managed part ended early. */
static void test_cut_managed_part(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_thread *thread;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, LOOP, MAIN);
	thread = add_managed(&bed, 100, "inner");
	thread->stack.end = SNAP_UNWIND_UNREADABLE;
	thread->stack.reason = "a frame was not copied";
	add_run(thread, 1, 0);
	snapshot = analyze(&bed);
	assert_int_equal(snapshot->processes[0]->stacks[0].unwind, SNAP_UNWIND_UNREADABLE);
	assert_string_equal(snapshot->processes[0]->stacks[0].unwind_detail,
			    "a frame was not copied");
	assert_string_equal(snapshot->processes[0]->runtimes[0].name, "cpython");
	bed_deinit(&bed);
}

static void test_task_in_c(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_task *task;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, FUTEX, C_WORK, CGO, MAIN);
	task = add_task(&bed, "5", "", "main.call runtime.goexit");
	task->tid = 100;
	task->native_until = "asmcgocall";
	assert_functions(&bed, "futex_wait c_work main.call runtime.goexit");
	task->native_until = "elsewhere";
	assert_functions(&bed, "main.call runtime.goexit");
	bed_deinit(&bed);
}

/* ---- what else is said ---- */

static bool look(const struct snap_runtime_process *process)
{
	char bytes[4];
	uint64_t word, start, size;

	/* The image, a stack, and nothing. */
	return snap_runtime_read(process, 0x9000, bytes, 4) && memcmp(bytes, "imag", 4) == 0 &&
	       snap_runtime_word(process, STACK + FRAME - 0x10, &word) &&
	       word == STACK + 2 * FRAME - 0x10 &&
	       !snap_runtime_word(process, STACK + 0x80000, &word) &&
	       process->memory->next(process->memory->context, 0, &start, &size) &&
	       start == 0x9000 && size == 8;
}

static void test_memory(void **state _unused_)
{
	struct bed bed;
	struct snap_snapshot *snapshot;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, GLUE, MAIN);
	bed.piece = (struct snap_memory_piece){ 0x9000, 8, (const uint8_t *)"imagined" };
	bed.image.pieces = &bed.piece;
	bed.image.piece_count = 1;
	look_at_memory = look;
	snap_snapshot_destroy(analyze(&bed));
	set_option(&bed, "runtimes", "php");
	look_at_memory = NULL;
	snapshot = analyze(&bed);
	assert_int_equal(snapshot->processes[0]->runtime_count, 0);
	snap_snapshot_destroy(snapshot);
	/* Without an image nobody looks. */
	set_option(&bed, "runtimes", "auto");
	bed.process.memory = NULL;
	bed.image.piece_count = 0;
	snap_snapshot_destroy(analyze(&bed));
	bed_deinit(&bed);
}

static void test_refused(void **state _unused_)
{
	struct bed bed;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, MAIN);
	bed.result.refused = "Go 1.29: goroutines not understood";
	bed.result.version = "1.29";
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->warning_count, 1);
	assert_string_equal(snapshot->warnings[0].code, "runtime_unsupported");
	assert_int_equal(snapshot->warnings[0].pid, 100);
	assert_string_equal(snapshot->processes[0]->runtimes[0].version, "1.29");
	assert_int_equal(snapshot->thread_count, 1);
	bed_deinit(&bed);
}

/* What the runtime says is whatever the target likes. */
static void test_odd_results(void **state _unused_)
{
	struct bed bed;
	struct snap_runtime_task *task;
	struct snap_runtime_thread *thread;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;

	bed_init(&bed);
	ADD_THREAD(&bed, 100, SLEEP, LOOP, MAIN);
	add_task(&bed, "", "", PARKED);
	add_task(&bed, "9", "a=1 a=2 a=1", "");
	task = add_task(&bed, "3", "", PARKED);
	task->since_ns = INT64_MIN;
	task->tid = -5;
	task->labels[task->label_count++] = (struct snap_label){ NULL, "x" };
	task->labels[task->label_count++] = (struct snap_label){ "y", NULL };
	thread = add_managed(&bed, 100, "inner");
	add_run(thread, 7, 0);
	bed.result.torn = true;
	snapshot = analyze(&bed);
	check_ways(snapshot);
	assert_int_equal(snapshot->task_count, 2);
	assert_int_equal(snapshot->processes[0]->runtimes[0].cut, SNAP_RUNTIME_TORN);
	bed_deinit(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_server),           cmocka_unit_test(test_labels_of_stacks),
		cmocka_unit_test(test_clashing_keys),    cmocka_unit_test(test_no_tree),
		cmocka_unit_test(test_circles),          cmocka_unit_test(test_deep),
		cmocka_unit_test(test_filters),          cmocka_unit_test(test_more_is_shown),
		cmocka_unit_test(test_groups),           cmocka_unit_test(test_merged_by_place),
		cmocka_unit_test(test_merged_by_name),   cmocka_unit_test(test_does_not_fit),
		cmocka_unit_test(test_cut_managed_part), cmocka_unit_test(test_task_in_c),
		cmocka_unit_test(test_memory),           cmocka_unit_test(test_refused),
		cmocka_unit_test(test_odd_results),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
