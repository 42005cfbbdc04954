/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot as bytes: see file.h.
 *
 *	MAGIC, head, warnings
 *	number of processes, of roots
 *	each process, parents before their children, siblings in their order: its facts, its
 *	stacks, the number of its children
 *	deadlocks and the like, and all waits, in the order in which they were first pointed to
 *
 * So each process has one position in the tree for any bytes, and neither writing nor reading needs
 * recursion. Fields that only recordings have are left out.
 */
#include "store/snapshot/file.h"

#include "base/buffer.h"
#include "store/capture/model.h"
#include "store/snapshot/tasks.h"
#include "store/snapshot/waits.h"

#include <string.h>

enum {
	MOST_WARNINGS = 1 << 20,
	MOST_ARGS = 1 << 16,
	MOST_LABELS = 16,
	MOST_FRAMES = 1 << 24, /* of a stack */
	/* the least that an element takes, in bytes */
	LEAST_WARNING = 16,
	LEAST_NODE = 144,
	LEAST_ANCESTOR = 16,
	LEAST_LABEL = 8,
	LEAST_STACK = 88,
	LEAST_THREAD = 47,
	/* the enums count from 0 to their last name */
	TYPES = SNAP_TYPE_NONE + 1,
	ID_DIGITS = 16,
};

static const uint64_t MAGIC = 0x70616e7370616e73; /* "snapsnap" */

/* ---- head, warnings ---- */

static void code_host(struct snap_pointer_codec *to, struct snap_host *host)
{
	int64_t ticks = host->ticks_per_second;

	snap_code_text_pointer(to, &host->name, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &host->kernel, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &host->arch, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &host->boot_id, SNAP_MAX_NAME);
	snap_code_u32(&to->codec, &host->cpus);
	snap_code_moment(to, &host->boot_time_ns);
	snap_code_i64(&to->codec, &ticks);
	if (snap_codec_reads(&to->codec))
		host->ticks_per_second = (long)ticks;
}

static void code_head(struct snap_pointer_codec *to, struct snap_snapshot *snapshot)
{
	struct snap_missing *missing = &snapshot->missing;
	struct snap_idle *idle = &snapshot->idle;

	code_host(to, &snapshot->host);
	snap_code_moment(to, &snapshot->time_ns);
	snap_code_length(to, &snapshot->monotonic_ns);
	snap_code_length(to, &snapshot->duration_ns);
	snap_code_length(to, &snapshot->stop_duration_ns);
	snap_code_length(to, &snapshot->stop_skew_ns);
	snap_code_at_most(to, &snapshot->threads_stopped, INT64_MAX);
	snap_code_at_most(to, &snapshot->threads_late, INT64_MAX);
	snap_code_u32(&to->codec, &snapshot->stop_rounds);
	snap_code_length(to, &snapshot->again_ns);
	snap_code_at_most(to, &snapshot->stuck, INT64_MAX);
	snap_code_at_most(to, &snapshot->stuck_idle, INT64_MAX);
	snap_code_at_most(to, &snapshot->stopped, INT64_MAX);
	snap_code_text_pointer(to, &snapshot->tool_version, SNAP_MAX_NAME);
	snap_code_bool(&to->codec, &snapshot->many_instants);
	snap_code_bool(&to->codec, &snapshot->flat);
	snap_code_at_most(to, &missing->threads, INT64_MAX);
	snap_code_at_most(to, &missing->processes, INT64_MAX);
	snap_code_at_most(to, &missing->modules, INT64_MAX);
	snap_code_at_most(to, &missing->shown, INT64_MAX);
	snap_code_at_most(to, &idle->threads, INT64_MAX);
	snap_code_at_most(to, &idle->stacks, INT64_MAX);
	snap_code_at_most(to, &idle->tasks, INT64_MAX);
	snap_code_text_pointer(to, &idle->runtime, SNAP_MAX_NAME);
	snap_code_at_most(to, &idle->most, INT64_MAX);
	snap_code_text_pointer(to, &idle->name, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &idle->function, SNAP_MAX_NAME);
}

static void code_warnings(struct snap_pointer_codec *to, struct snap_snapshot *snapshot)
{
	struct snap_codec *codec = &to->codec;

	snap_code_array(codec, &snapshot->warnings, &snapshot->warning_count, MOST_WARNINGS,
			sizeof(*snapshot->warnings), LEAST_WARNING);
	if (snap_codec_reads(codec))
		snapshot->warning_capacity = snapshot->warning_count;
	for (size_t i = 0; i < snapshot->warning_count; i++)
		snap_code_warning(to, &snapshot->warnings[i]);
}

/* ---- labels ---- */

enum label_key { KEY_STATE, KEY_NAME, KEY_SYSCALL, KEY_WCHAN, KEY_CPU, KEY_TYPE };

static const char *const label_keys[] = {
	[KEY_STATE] = "state", [KEY_NAME] = "thread_name", [KEY_SYSCALL] = "syscall",
	[KEY_WCHAN] = "wchan", [KEY_CPU] = "cpu",          [KEY_TYPE] = "type",
};

enum { KEYS = SNAP_ARRAY_SIZE(label_keys) };

static uint32_t key_of_label(const char *key)
{
	uint32_t number = 0;

	while (number < KEYS && strcmp(label_keys[number], key) != 0)
		number++;
	return number;
}

/* Renderers print our own words without escaping them. */
static bool is_value(uint32_t key, const char *value)
{
	size_t length = value ? strlen(value) : 0;

	if (length == 0)
		return false;
	switch ((enum label_key)key) {
	case KEY_STATE:
		return snap_state_of_word(value) < SNAP_STATE_COUNT;
	case KEY_CPU:
		return length <= 10 && strspn(value, "0123456789") == length;
	case KEY_TYPE:
		return strcmp(value, "user") == 0 || strcmp(value, "kernel") == 0;
	case KEY_NAME:
	case KEY_SYSCALL:
	case KEY_WCHAN:
		return true;
	}
	return false;
}

/* The number of its key. */
static uint32_t code_label(struct snap_pointer_codec *to, struct snap_label *label)
{
	bool reads = snap_codec_reads(&to->codec);
	uint32_t key = reads ? 0 : key_of_label(label->key);

	snap_code_enum(&to->codec, &key, KEYS);
	snap_code_text_pointer(to, &label->value, SNAP_MAX_NAME);
	if (!reads)
		return key;
	label->key = label_keys[key];
	snap_codec_check(&to->codec, is_value(key, label->value), "label without a value");
	return key;
}

static void code_snapshot_labels(struct snap_pointer_codec *to, struct snap_label **labels,
				 size_t *count)
{
	uint32_t next = 0;

	snap_code_array(&to->codec, labels, count, MOST_LABELS, sizeof(**labels), LEAST_LABEL);
	for (size_t i = 0; i < *count; i++) {
		uint32_t key = code_label(to, &(*labels)[i]);

		snap_codec_check(&to->codec, key >= next, "labels not sorted");
		next = key + 1;
	}
}

/* ---- threads ---- */

static void code_snapshot_thread(struct snap_pointer_codec *to, struct snap_member *thread,
				 const struct snap_member *before)
{
	struct snap_codec *codec = &to->codec;
	int32_t cpu = thread->cpu;

	snap_code_i32(codec, &thread->tid);
	snap_code_least(codec, &thread->ns_tid, 0);
	snap_code_text_pointer(to, &thread->name, SNAP_MAX_NAME);
	snap_code_enumerator(codec, &thread->state, SNAP_STATE_COUNT);
	snap_code_bool(codec, &thread->kernel);
	snap_code_text_pointer(to, &thread->syscall, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &thread->wchan, SNAP_MAX_NAME);
	snap_code_least(codec, &cpu, -1);
	snap_code_enumerator(codec, &thread->taken, SNAP_TAKEN_COUNT);
	snap_code_wait_pointer(to, &thread->wait);
	snap_code_most(codec, &thread->runs, INT64_MAX);
	snap_code_bool(codec, &thread->stuck);
	snap_code_bool(codec, &thread->idle);
	if (snap_codec_reads(codec))
		thread->cpu = cpu;
	snap_codec_check(codec, thread->tid > 0, "invalid tid");
	snap_codec_check(codec, !before || before->tid <= thread->tid, "threads not sorted");
}

static void code_threads(struct snap_pointer_codec *to, struct snap_stack *stack)
{
	snap_code_list(
		&to->codec, stack->threads, stack->thread_count, SNAP_MAX_THREADS, LEAST_THREAD, i,
		code_snapshot_thread(to, &stack->threads[i], i ? &stack->threads[i - 1] : NULL));
	if (snap_codec_reads(&to->codec))
		stack->count = stack->thread_count;
	snap_codec_check(&to->codec, stack->thread_count, "stack without threads");
}

/* ---- stacks ---- */

static void code_list(struct snap_pointer_codec *to, struct snap_stack *stack)
{
	bool reads = snap_codec_reads(&to->codec);
	uint64_t count = stack->frame_count, before = to->shown;
	const void *pointer = stack->frames;

	if (!snap_pointer_begin(to, &to->lists, &pointer, &count)) {
		if (!reads)
			return;
		stack->frames = (const struct snap_frame **)(uintptr_t)pointer;
		stack->frame_count = (size_t)count;
		return;
	}
	snap_code_list(&to->codec, stack->frames, stack->frame_count, MOST_FRAMES, sizeof(uint32_t),
		       i, snap_code_frame_pointer(to, &stack->frames[i]));
	if (reads)
		snap_pointer_end(to, &to->lists,
				 (struct snap_pointee){ stack->frames, stack->frame_count,
							to->shown - before });
}

static uint64_t number_of_id(const char *id)
{
	uint64_t number = 0;

	for (size_t i = 0; i < ID_DIGITS && id[i]; i++)
		number = number << 4 | (uint64_t)(id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
	return number;
}

static void id_of_number(uint64_t number, char *id)
{
	for (size_t i = ID_DIGITS; i-- > 0; number >>= 4)
		id[i] = "0123456789abcdef"[number & 15];
	id[ID_DIGITS] = '\0';
}

static void code_id(struct snap_pointer_codec *to, struct snap_stack *stack)
{
	uint64_t number = snap_codec_reads(&to->codec) ? 0 : number_of_id(stack->id);

	snap_code_u64(&to->codec, &number);
	if (snap_codec_reads(&to->codec))
		id_of_number(number, stack->id);
}

static bool are_in_order(const struct snap_stack *a, const struct snap_stack *b)
{
	if (a->crashed != b->crashed)
		return a->crashed;
	return a->count > b->count || (a->count == b->count && strcmp(a->id, b->id) <= 0);
}

static void code_snapshot_stack(struct snap_pointer_codec *to, struct snap_stack *stack,
				const struct snap_stack *before)
{
	struct snap_codec *codec = &to->codec;

	code_id(to, stack);
	snap_code_text_pointer(to, &stack->description, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &stack->runtime, SNAP_LONGEST_RUNTIME);
	if (stack->runtime)
		snap_code_task_labels(to, &stack->labels, &stack->label_count);
	else
		code_snapshot_labels(to, &stack->labels, &stack->label_count);
	snap_code_enumerator(codec, &stack->unwind, SNAP_UNWIND_COUNT);
	snap_code_text_pointer(to, &stack->unwind_detail, SNAP_LONGEST_MESSAGE);
	snap_code_at_most(to, &stack->gap_frame, MOST_FRAMES);
	snap_code_most(codec, &stack->gap_count, INT64_MAX);
	snap_code_bool(codec, &stack->crashed);
	snap_code_enumerator(codec, &stack->urgency, SNAP_URGENCIES);
	snap_code_wait_pointer(to, &stack->wait);
	if (stack->runtime)
		snap_code_tasks(to, stack);
	else
		code_threads(to, stack);
	code_list(to, stack);
	snap_codec_check(codec, stack->description, "stack without a description");
	snap_codec_check(codec,
			 stack->gap_count ? stack->gap_frame < stack->frame_count
					  : stack->gap_frame == 0,
			 "invalid gap");
	snap_codec_check(codec, !before || are_in_order(before, stack), "stacks not sorted");
}

void snap_code_stacks(struct snap_pointer_codec *to, struct snap_stack **stacks, size_t *count)
{
	snap_code_list(&to->codec, *stacks, *count, SNAP_MAX_THREADS, LEAST_STACK, i,
		       code_snapshot_stack(to, &(*stacks)[i], i ? &(*stacks)[i - 1] : NULL));
}

/* ---- processes ---- */

static void code_args(struct snap_pointer_codec *to, struct snap_node *node)
{
	snap_code_array(&to->codec, &node->args, &node->arg_count, MOST_ARGS, sizeof(*node->args),
			sizeof(uint32_t));
	for (size_t i = 0; i < node->arg_count; i++) {
		snap_code_text_pointer(to, &node->args[i], SNAP_MAX_ARGS);
		snap_codec_check(&to->codec, node->args[i], "missing argument");
	}
}

static void code_ancestors(struct snap_pointer_codec *to, struct snap_node *node)
{
	snap_code_array(&to->codec, &node->ancestors, &node->ancestor_count, SNAP_MAX_ANCESTORS,
			sizeof(*node->ancestors), LEAST_ANCESTOR);
	for (size_t i = 0; i < node->ancestor_count; i++) {
		struct snap_ancestor *ancestor = &node->ancestors[i];

		snap_code_i32(&to->codec, &ancestor->pid);
		snap_code_text_pointer(to, &ancestor->name, SNAP_MAX_NAME);
		snap_code_most(&to->codec, &ancestor->start_ticks, INT64_MAX);
		snap_codec_check(&to->codec, ancestor->pid > 0, "invalid pid of an ancestor");
	}
}

static void code_identity(struct snap_pointer_codec *to, struct snap_node *node)
{
	struct snap_codec *codec = &to->codec;

	snap_code_i32(codec, &node->pid);
	snap_code_least(codec, &node->ppid, 0);
	snap_code_least(codec, &node->ns_pid, 0);
	snap_code_text_pointer(to, &node->name, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &node->description, SNAP_MAX_NAME);
	snap_code_enumerator(codec, &node->type, TYPES);
	snap_code_enumerator(codec, &node->state, SNAP_STATE_COUNT);
	snap_code_text_pointer(to, &node->exe, SNAP_MAX_NAME);
	snap_code_u32(codec, &node->uid);
	snap_code_text_pointer(to, &node->user, SNAP_MAX_NAME);
	snap_code_moment(to, &node->start_time_ns);
	snap_code_most(codec, &node->start_ticks, INT64_MAX);
	snap_code_text_pointer(to, &node->cgroup, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &node->unit, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &node->container, SNAP_MAX_NAME);
	snap_codec_check(codec, node->pid > 0, "invalid pid");
}

static void code_node(struct snap_pointer_codec *to, struct snap_node *node)
{
	struct snap_codec *codec = &to->codec;

	code_identity(to, node);
	code_args(to, node);
	code_ancestors(to, node);
	snap_code_at_most(to, &node->thread_count, INT32_MAX);
	snap_code_at_most(to, &node->threads_missed, INT32_MAX);
	snap_code_length(to, &node->stop_duration_ns);
	snap_code_usage(codec, &node->usage);
	snap_code_usage(codec, &node->usage_before);
	snap_code_signal(codec, &node->signal);
	snap_code_task_labels(to, &node->labels, &node->label_count);
	snap_code_enumerator(codec, &node->trouble, SNAP_TROUBLE_COUNT);
	snap_code_text_pointer(to, &node->trouble_message, SNAP_LONGEST_MESSAGE);
	snap_code_stacks(to, &node->stacks, &node->stack_count);
	snap_code_runtimes(to, node);
	snap_code_logical(to, node);
}

/* ---- the tree ---- */

/* Siblings that are being described. */
struct level {
	struct snap_node **nodes;
	size_t count, next;
};

struct tree {
	struct snap_pointer_codec *to;
	struct level *levels;
	size_t depth, capacity;
	/* READ: all processes, and the pointers to them, of which so many are used */
	struct snap_node *nodes;
	struct snap_node **links;
	size_t count, node_count, link_count;
};

SNAP_FREES(snapshot_tree_deinit, struct tree, levels);

/* Room for all processes, of which each then has one position. */
static void begin_tree(struct tree *tree, size_t process_count)
{
	struct snap_codec *codec = &tree->to->codec;

	tree->count = process_count;
	snap_code_array(codec, &tree->nodes, &tree->count, SNAP_MAX_PROCESSES, sizeof(*tree->nodes),
			LEAST_NODE);
	if (!snap_codec_reads(codec))
		return;
	tree->links = snap_arena_new_array(codec->arena, tree->count + 1, struct snap_node *);
	if (!tree->links)
		snap_codec_refuse_memory(codec);
}

static void enter_snapshot_level(struct tree *tree, struct snap_node ***nodes, size_t *count)
{
	struct snap_pointer_codec *to = tree->to;
	size_t left = tree->count - tree->link_count;

	snap_code_at_most(to, count, SNAP_MAX_PROCESSES);
	if (snap_codec_reads(&to->codec)) {
		snap_codec_check(&to->codec, *count <= left, "too many processes");
		*count = to->codec.problem ? 0 : *count;
		*nodes = *count ? &tree->links[tree->link_count] : NULL;
		tree->link_count += *count;
		for (size_t i = 0; i < *count; i++)
			(*nodes)[i] = &tree->nodes[tree->node_count++];
	}
	if (*count == 0)
		return;
	if (!snap_reserve_array(tree->levels, tree->capacity, tree->depth + 1)) {
		to->no_memory = true;
		snap_codec_refuse_memory(&to->codec);
		return;
	}
	tree->levels[tree->depth++] = (struct level){ *nodes, *count, 0 };
}

static void code_next_node(struct tree *tree, struct level *level, bool flat)
{
	struct snap_codec *codec = &tree->to->codec;
	struct snap_node *node = level->nodes[level->next];

	level->next++;
	code_node(tree->to, node);
	enter_snapshot_level(tree, &node->children, &node->child_count);
	snap_codec_check(codec, !flat || node->child_count == 0, "nested process in a flat tree");
}

static void count_snapshot_node(struct snap_snapshot *snapshot, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	while ((stack = snap_node_next_stack(node, &cursor))) {
		snapshot->stack_count++;
		snapshot->thread_count += stack->thread_count;
		snapshot->task_count += stack->task_count;
	}
}

static void code_tree(struct snap_pointer_codec *to, struct snap_snapshot *snapshot)
{
	_cleanup_(snapshot_tree_deinit) struct tree tree = { .to = to };

	begin_tree(&tree, snapshot->process_count);
	enter_snapshot_level(&tree, &snapshot->processes, &snapshot->root_count);
	while (tree.depth && !to->codec.problem) {
		struct level *level = &tree.levels[tree.depth - 1];

		if (level->next == level->count)
			tree.depth--;
		else
			code_next_node(&tree, level, snapshot->flat);
	}
	if (!snap_codec_reads(&to->codec))
		return;
	snap_codec_check(&to->codec, tree.node_count == tree.count, "process outside of the tree");
	snapshot->process_count = tree.count;
	for (size_t i = 0; i < tree.node_count; i++)
		count_snapshot_node(snapshot, &tree.nodes[i]);
	snap_codec_check(&to->codec,
			 snapshot->thread_count <= SNAP_MAX_THREADS &&
				 snapshot->task_count <= SNAP_MAX_TASKS,
			 "too many threads");
}

static void code_snapshot(struct snap_pointer_codec *to, struct snap_snapshot *snapshot)
{
	uint64_t magic = MAGIC;

	snap_code_u64(&to->codec, &magic);
	snap_codec_check(&to->codec, magic == MAGIC, "bad magic number");
	code_head(to, snapshot);
	code_warnings(to, snapshot);
	code_tree(to, snapshot);
	snap_code_waits(to, &snapshot->waits);
	snap_codec_check(&to->codec, to->codec.position == to->codec.size, "trailing data");
}

/* ---- all of it ---- */

uint64_t snap_snapshot_size(const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec.mode = SNAP_CODEC_COUNT
	};

	/* The descriptions also read; when they count or write, they change nothing. */
	code_snapshot(&to, (struct snap_snapshot *)(uintptr_t)snapshot);
	return to.no_memory ? UINT64_MAX : to.codec.position;
}

struct stacksnap_error *snap_snapshot_write(const struct snap_snapshot *snapshot, uint8_t *bytes,
					    uint64_t room, uint64_t *size_ret)
{
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec.mode = SNAP_CODEC_WRITE, .codec.memory = bytes, .codec.memory_size = room
	};

	code_snapshot(&to, (struct snap_snapshot *)(uintptr_t)snapshot);
	SNAP_TRY(snap_no_memory_unless(!to.no_memory));
	if (to.codec.position > room)
		return snap_error_format(SNAP_ERROR_OTHER, "the report is too large");
	*size_ret = to.codec.position;
	return NULL;
}

struct stacksnap_error *snap_snapshot_read(const uint8_t *bytes, uint64_t size,
					   struct snap_snapshot **ret)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = snap_snapshot_new();
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec.mode = SNAP_CODEC_READ, .codec.bytes = bytes, .codec.size = size
	};

	SNAP_TRY(snap_no_memory_unless(snapshot));
	to.codec.arena = &snapshot->arena;
	code_snapshot(&to, snapshot);
	SNAP_TRY(snap_no_memory_unless(!to.no_memory && !snap_codec_lacks_memory(&to.codec)));
	if (to.codec.problem)
		return snap_error_format(SNAP_ERROR_FORMAT, "the snapshot is damaged: %s",
					 to.codec.problem);
	snapshot->shown = to.shown;
	*ret = snap_take_ptr(snapshot);
	return NULL;
}
