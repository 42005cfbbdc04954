/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot from its JSON: see read.h. Entries become frames again: those inlined at one address
 * and the function they were inlined into; equal frames of a process become one. The tree is
 * walked without recursion, as the document decides how deep it is.
 */
#include "store/json/read.h"

#include "model/recording.h"
#include "store/json/pick.h"

#include <limits.h>
#include <string.h>

/* The frames of a process, each once. */
struct frame_set {
	struct snap_frame **frames;
	size_t count, capacity;
	struct snap_hash_table table;
};

struct reader {
	struct snap_json_pick pick;
	struct snap_snapshot *snapshot;
	struct frame_set set;
	struct snap_entry *entries; /* of the frame that is being read */
	size_t entry_capacity;
	size_t thread_count; /* of all processes so far, shown or not */
};

static void reader_deinit(struct reader *reader)
{
	snap_json_pick_deinit(&reader->pick);
	free(reader->set.frames);
	snap_hash_table_deinit(&reader->set.table);
	free(reader->entries);
	snap_snapshot_destroy(reader->snapshot);
}

/* ---- frames ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	/* Texts are interned: their addresses tell them apart. */
	return snap_hash_add(hash, (uintptr_t)text);
}

static uint64_t frame_hash(const struct snap_frame *frame)
{
	uint64_t hash = snap_hash_add(frame->address, frame->offset);

	hash = hash_text(hash_text(hash, frame->module), frame->build_id);
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		hash = hash_text(hash_text(hash, entry->function), entry->file);
		hash = snap_hash_add(hash, (uint64_t)entry->line << 32 | entry->column);
	}
	return hash;
}

static bool same_entry(const struct snap_entry *a, const struct snap_entry *b)
{
	return a->function == b->function && a->symbol == b->symbol && a->file == b->file &&
	       a->line == b->line && a->column == b->column && a->inlined == b->inlined &&
	       a->system == b->system && a->kernel == b->kernel;
}

static bool same_frame(const struct snap_frame *a, const struct snap_frame *b)
{
	if (a->address != b->address || a->offset != b->offset || a->module != b->module ||
	    a->build_id != b->build_id || a->has_offset != b->has_offset || a->trust != b->trust ||
	    a->entry_count != b->entry_count)
		return false;
	for (size_t i = 0; i < a->entry_count; i++)
		if (!same_entry(&a->entries[i], &b->entries[i]))
			return false;
	return true;
}

/* The one frame that is equal to this, whose entries are copied if it is new. NULL: no memory. */
static const struct snap_frame *keep_frame(struct reader *reader, const struct snap_frame *frame)
{
	struct snap_arena *arena = &reader->snapshot->arena;
	struct frame_set *set = &reader->set;
	uint64_t hash = frame_hash(frame);
	struct snap_probe probe = snap_hash_table_probe(&set->table, hash);
	struct snap_frame *kept;

	while (snap_probe_next(&probe))
		if (same_frame(set->frames[probe.number], frame))
			return set->frames[probe.number];
	kept = snap_arena_memdup(arena, frame, sizeof(*frame));
	if (!kept || !snap_reserve_array(set->frames, set->capacity, set->count + 1))
		return NULL;
	kept->entries = snap_arena_memdup(arena, frame->entries,
					  frame->entry_count * sizeof(*frame->entries));
	if (!kept->entries || !snap_hash_table_add(&set->table, hash, set->count))
		return NULL;
	set->frames[set->count++] = kept;
	return kept;
}

/* ---- entries ---- */

/* A stack's entries while they become frames. */
struct frame_list {
	const struct snap_frame **frames;
	size_t count;
	struct snap_frame frame; /* the one under way; its entries are the reader's */
	size_t gap_after;        /* index of an entry, SIZE_MAX: no gap */
	size_t gap_frame;
};

static struct snap_entry pick_entry(struct snap_json_pick *pick, const struct snap_json *object)
{
	return (struct snap_entry){
		.function = snap_json_pick_text(pick, object, "function", SNAP_MAX_NAME),
		.symbol = snap_json_pick_text(pick, object, "symbol", SNAP_MAX_NAME),
		.file = snap_json_pick_text(pick, object, "file", SNAP_MAX_NAME),
		.line = (uint32_t)snap_json_pick_number(pick, object, "line", 0, UINT32_MAX, 0),
		.column = (uint32_t)snap_json_pick_number(pick, object, "column", 0, UINT32_MAX, 0),
		.inlined = snap_json_pick_flag(pick, object, "inlined"),
		.system = snap_json_pick_flag(pick, object, "system"),
		.kernel = snap_json_pick_flag(pick, object, "kernel"),
	};
}

static struct snap_frame pick_location(struct snap_json_pick *pick, const struct snap_json *object)
{
	struct snap_frame frame = {
		.module = snap_json_pick_text(pick, object, "module", SNAP_MAX_NAME),
		.build_id = snap_json_pick_of(pick, object, "build_id", "0123456789abcdef", 512),
	};

	frame.has_offset = snap_json_pick_hex(pick, object, "offset", &frame.offset);
	if (!snap_json_pick_hex(pick, object, "address", &frame.address) &&
	    !snap_json_pick_flag(pick, object, "kernel"))
		snap_json_pick_refuse(pick, "address", "a string such as 0x1234");
	if (snap_json_pick_has(object, "trust"))
		frame.trust = snap_json_pick_word(pick, object, "trust", snap_trust_word,
						  SNAP_TRUST_COUNT);
	return frame;
}

static bool same_location(const struct snap_frame *a, const struct snap_frame *b)
{
	return a->address == b->address && a->module == b->module && a->offset == b->offset &&
	       a->trust == b->trust;
}

static bool end_frame(struct reader *reader, struct frame_list *list)
{
	if (list->frame.entry_count == 0)
		return true;
	list->frame.entries = reader->entries;
	list->frames[list->count] = keep_frame(reader, &list->frame);
	list->frame.entry_count = 0;
	return list->frames[list->count++] != NULL;
}

static bool add_entry(struct reader *reader, struct frame_list *list,
		      const struct snap_json *object)
{
	struct snap_entry entry = pick_entry(&reader->pick, object);
	struct snap_frame location = pick_location(&reader->pick, object);

	if (!same_location(&list->frame, &location) && !end_frame(reader, list))
		return false;
	if (list->frame.entry_count == 0)
		list->frame = location;
	if (!snap_reserve_array(reader->entries, reader->entry_capacity,
				list->frame.entry_count + 1))
		return false;
	reader->entries[list->frame.entry_count++] = entry;
	return entry.inlined || end_frame(reader, list);
}

static void read_entries(struct reader *reader, const struct snap_json *object,
			 struct snap_stack *stack, struct frame_list *list)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list entries = snap_json_pick_list(pick, object, "entries");
	const struct snap_json *entry;

	list->frames = snap_json_pick_memory(pick, entries.count + 1, sizeof(*list->frames));
	while ((entry = snap_json_list_object(&entries))) {
		if (!add_entry(reader, list, entry))
			snap_json_pick_no_memory(pick);
		if (entries.next - 1 == list->gap_after)
			list->gap_frame = list->count - (list->frame.entry_count == 0);
	}
	if (!snap_json_pick_failed(pick) && !end_frame(reader, list))
		snap_json_pick_no_memory(pick);
	stack->frames = list->frames;
	stack->frame_count = list->count;
}

static void read_frames(struct reader *reader, const struct snap_json *object,
			struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	const struct snap_json *gap = snap_json_pick_object(pick, object, "gap");
	struct frame_list list = { .gap_after = SIZE_MAX, .gap_frame = SIZE_MAX };

	if (gap) {
		list.gap_after = (size_t)snap_json_pick_required(pick, gap, "after", 0, INT32_MAX);
		stack->gap_count =
			(uint64_t)snap_json_pick_required(pick, gap, "count", 1, INT64_MAX);
	}
	read_entries(reader, object, stack, &list);
	if (gap && list.gap_frame >= stack->frame_count)
		snap_json_pick_refuse(pick, "after", "the index of an entry");
	else if (gap)
		stack->gap_frame = list.gap_frame;
}

/* ---- stacks ---- */

static const char *thread_type_word(unsigned kernel)
{
	return kernel ? "kernel" : "user";
}

static enum snap_state pick_state(struct snap_json_pick *pick, const struct snap_json *object)
{
	return snap_json_pick_word(pick, object, "state", snap_state_word, SNAP_STATE_COUNT);
}

static struct snap_member pick_thread(struct snap_json_pick *pick, const struct snap_json *object)
{
	struct snap_member thread = {
		.tid = (pid_t)snap_json_pick_required(pick, object, "tid", 1, INT_MAX),
		.ns_tid = (pid_t)snap_json_pick_number(pick, object, "ns_tid", 1, INT_MAX, 0),
		.name = snap_json_pick_text(pick, object, "name", SNAP_MAX_NAME),
		.state = pick_state(pick, object),
		.kernel = snap_json_pick_word(pick, object, "type", thread_type_word, 2),
		.syscall = snap_json_pick_text(pick, object, "syscall", SNAP_MAX_NAME),
		.wchan = snap_json_pick_text(pick, object, "wchan", SNAP_MAX_NAME),
		.cpu = (int)snap_json_pick_number(pick, object, "cpu", 0, INT_MAX, -1),
	};

	if (snap_json_pick_has(object, "taken"))
		thread.taken = snap_json_pick_word(pick, object, "taken", snap_taken_word,
						   SNAP_TAKEN_COUNT);
	return thread;
}

static int by_tid(const void *left, const void *right)
{
	const struct snap_member *a = left, *b = right;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static void read_threads(struct reader *reader, const struct snap_json *object,
			 struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list threads = snap_json_pick_list(pick, object, "threads");
	const struct snap_json *thread;

	reader->thread_count += threads.count;
	if (threads.count == 0 || threads.count != stack->count ||
	    reader->thread_count > SNAP_MAX_THREADS)
		snap_json_pick_refuse(pick, "threads", "an array of as many threads as its count");
	if (snap_json_pick_failed(pick))
		return;
	stack->threads = snap_json_pick_memory(pick, threads.count, sizeof(*stack->threads));
	while ((thread = snap_json_list_object(&threads)))
		stack->threads[stack->thread_count++] = pick_thread(pick, thread);
	if (stack->thread_count)
		qsort(stack->threads, stack->thread_count, sizeof(*stack->threads), by_tid);
}

/* The labels that there are, each held to what may be its value, in the order of our own. */
static void read_labels(struct snap_json_pick *pick, const struct snap_json *object,
			struct snap_stack *stack)
{
	static const char *const keys[] = { "state", "thread_name", "syscall",
					    "wchan", "cpu",         "type" };
	const struct snap_json *labels = snap_json_pick_object(pick, object, "labels");

	if (!labels)
		return;
	stack->labels = snap_json_pick_memory(pick, SNAP_ARRAY_SIZE(keys), sizeof(*stack->labels));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(keys) && !snap_json_pick_failed(pick); i++) {
		const char *key = keys[i], *value;

		if (!snap_json_pick_has(labels, key))
			continue;
		if (strcmp(key, "state") == 0)
			value = snap_state_word(pick_state(pick, labels));
		else if (strcmp(key, "type") == 0)
			value = thread_type_word(
				snap_json_pick_word(pick, labels, key, thread_type_word, 2));
		else if (strcmp(key, "cpu") == 0)
			value = snap_json_pick_of(pick, labels, key, "0123456789", 10);
		else
			value = snap_json_pick_text(pick, labels, key, SNAP_MAX_NAME);
		if (value)
			stack->labels[stack->label_count++] = (struct snap_label){ key, value };
	}
}

static void read_stack(struct reader *reader, const struct snap_json *object,
		       struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	const char *id = snap_json_pick_of(pick, object, "id", "0123456789abcdef", 16);

	if (!id || strlen(id) != 16)
		snap_json_pick_refuse(pick, "id", "a string of 16 hexadecimal digits");
	else
		memcpy(stack->id, id, sizeof(stack->id));
	stack->count = (size_t)snap_json_pick_required(pick, object, "count", 1, SNAP_MAX_THREADS);
	stack->description = snap_json_pick_text(pick, object, "description", SNAP_MAX_NAME);
	if (!stack->description)
		stack->description = "(unknown)";
	read_labels(pick, object, stack);
	stack->unwind =
		snap_json_pick_word(pick, object, "unwind", snap_unwind_word, SNAP_UNWIND_COUNT);
	stack->unwind_detail = snap_json_pick_text(pick, object, "unwind_detail", SNAP_MAX_ARGS);
	read_threads(reader, object, stack);
	read_frames(reader, object, stack);
}

static void read_stacks(struct reader *reader, const struct snap_json *process,
			struct snap_node *node)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list stacks = snap_json_pick_list(pick, process, "stacks");
	const struct snap_json *stack;

	if (stacks.count == 0)
		return;
	node->stacks = snap_json_pick_memory(pick, stacks.count, sizeof(*node->stacks));
	while ((stack = snap_json_list_object(&stacks)))
		read_stack(reader, stack, &node->stacks[node->stack_count++]);
	if (node->stack_count)
		qsort(node->stacks, node->stack_count, sizeof(*node->stacks), snap_stack_compare);
	/* Clearing the table of a large process for each small one would take too long. */
	snap_hash_table_deinit(&reader->set.table);
	reader->set.count = 0;
}

/* ---- processes ---- */

static void read_args(struct snap_json_pick *pick, const struct snap_json *object,
		      struct snap_node *node)
{
	struct snap_json_list args = snap_json_pick_list(pick, object, "args");
	const char *text;

	if (args.count == 0)
		return;
	node->args = snap_json_pick_memory(pick, args.count, sizeof(*node->args));
	while ((text = snap_json_list_text(&args, SNAP_MAX_ARGS)))
		node->args[node->arg_count++] = text;
}

static void read_ancestors(struct snap_json_pick *pick, const struct snap_json *object,
			   struct snap_node *node)
{
	struct snap_json_list ancestors = snap_json_pick_list(pick, object, "ancestors");
	const struct snap_json *from;

	if (ancestors.count == 0)
		return;
	node->ancestors = snap_json_pick_memory(pick, ancestors.count, sizeof(*node->ancestors));
	while ((from = snap_json_list_object(&ancestors)))
		node->ancestors[node->ancestor_count++] = (struct snap_ancestor){
			(pid_t)snap_json_pick_required(pick, from, "pid", 1, INT_MAX),
			snap_json_pick_text(pick, from, "name", SNAP_MAX_NAME),
			(uint64_t)snap_json_pick_number(pick, from, "start_ticks", 0, INT64_MAX, 0),
		};
}

static void read_node_labels(struct snap_json_pick *pick, const struct snap_json *object,
			     struct snap_node *node)
{
	const struct snap_json *labels = snap_json_pick_object(pick, object, "labels");

	if (!labels || !snap_json_pick_text(pick, labels, "exe_deleted", 8))
		return;
	node->labels = snap_json_pick_memory(pick, 1, sizeof(*node->labels));
	if (node->labels)
		node->labels[node->label_count++] = (struct snap_label){ "exe_deleted", "true" };
}

static void read_error(struct snap_json_pick *pick, const struct snap_json *object,
		       struct snap_node *node)
{
	const struct snap_json *error = snap_json_pick_object(pick, object, "error");

	if (!error)
		return;
	node->trouble =
		snap_json_pick_word(pick, error, "code", snap_trouble_word, SNAP_TROUBLE_COUNT);
	node->trouble_message = snap_json_pick_text(pick, error, "message", SNAP_MAX_ARGS);
	if (node->trouble == SNAP_TROUBLE_NONE)
		snap_json_pick_refuse(pick, "code", "a word listed in stacksnap-json(5)");
}

/* All of a process but its children. */
static void read_node(struct reader *reader, const struct snap_json *object, struct snap_node *node)
{
	struct snap_json_pick *pick = &reader->pick;

	*node = (struct snap_node){
		.pid = (pid_t)snap_json_pick_required(pick, object, "pid", 1, INT_MAX),
		.ppid = (pid_t)snap_json_pick_number(pick, object, "ppid", 0, INT_MAX, 0),
		.ns_pid = (pid_t)snap_json_pick_number(pick, object, "ns_pid", 0, INT_MAX, 0),
		.name = snap_json_pick_text(pick, object, "name", SNAP_MAX_NAME),
		.description = snap_json_pick_text(pick, object, "description", SNAP_MAX_NAME),
		.type = snap_json_pick_word(pick, object, "type", snap_process_type_word,
					    SNAP_TYPE_NONE + 1),
		.state = pick_state(pick, object),
		.exe = snap_json_pick_text(pick, object, "exe", SNAP_MAX_NAME),
		.uid = (uid_t)snap_json_pick_number(pick, object, "uid", 0, UINT32_MAX, (uid_t)-1),
		.user = snap_json_pick_text(pick, object, "user", SNAP_MAX_NAME),
		.start_time_ns = snap_json_pick_time(pick, object, "start_time"),
		.start_ticks = (uint64_t)snap_json_pick_number(pick, object, "start_ticks", 0,
							       INT64_MAX, 0),
		.cgroup = snap_json_pick_text(pick, object, "cgroup", SNAP_MAX_NAME),
		.unit = snap_json_pick_text(pick, object, "unit", SNAP_MAX_NAME),
		.container = snap_json_pick_text(pick, object, "container", SNAP_MAX_NAME),
		.thread_count =
			(size_t)snap_json_pick_required(pick, object, "thread_count", 0, INT32_MAX),
		.threads_missed = (size_t)snap_json_pick_number(pick, object, "threads_missed", 0,
								INT32_MAX, 0),
		.stop_duration_ns =
			snap_json_pick_number(pick, object, "stop_duration_ns", 0, INT64_MAX, 0),
	};
	read_args(pick, object, node);
	read_ancestors(pick, object, node);
	read_node_labels(pick, object, node);
	read_stacks(reader, object, node);
	read_error(pick, object, node);
}

static void count_node(struct snap_snapshot *snapshot, const struct snap_node *node)
{
	struct snap_missing *missing = &snapshot->missing;

	snapshot->process_count++;
	snapshot->stack_count += node->stack_count;
	for (size_t i = 0; i < node->stack_count; i++) {
		const struct snap_stack *stack = &node->stacks[i];

		snapshot->thread_count += stack->count;
		for (size_t k = 0; k < stack->thread_count; k++)
			missing->threads +=
				node->trouble == SNAP_TROUBLE_NONE &&
				snap_thread_is_missing(stack->unwind, stack->threads[k].state,
						       stack->threads[k].kernel);
	}
	/* A document does not say who was a target. */
	missing->processes += snap_trouble_applies(snap_troubles[node->trouble].loss, false);
	if (node->trouble == SNAP_TROUBLE_NONE) {
		missing->threads += node->threads_missed;
		missing->shown++;
	}
}

/* ---- the tree ---- */

/* Siblings that are being read. */
struct level {
	struct snap_json_list list;
	struct snap_node **nodes;
};

struct levels {
	struct level *levels;
	size_t depth, capacity;
};

static void levels_deinit(struct levels *levels)
{
	free(levels->levels);
}

/* Memory for the nodes of the array under a key; a level, if there are any. */
static struct snap_node **enter_level(struct reader *reader, struct levels *levels,
				      const struct snap_json *object, const char *key,
				      size_t *count_ret)
{
	struct snap_json_pick *pick = &reader->pick;
	struct level level = { .list = snap_json_pick_list(pick, object, key) };

	*count_ret = level.list.count;
	if (level.list.count == 0)
		return NULL;
	level.nodes = snap_json_pick_memory(pick, level.list.count, sizeof(*level.nodes));
	if (!snap_reserve_array(levels->levels, levels->capacity, levels->depth + 1))
		snap_json_pick_no_memory(pick);
	else
		levels->levels[levels->depth++] = level;
	return level.nodes;
}

/* The next process of the level, and its children as a level of their own. */
static void read_next(struct reader *reader, struct levels *levels, struct level *level)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	struct snap_json_pick *pick = &reader->pick;
	size_t number = level->list.next;
	const struct snap_json *object = snap_json_list_object(&level->list);
	struct snap_node *node = snap_json_pick_memory(pick, 1, sizeof(*node));

	if (snapshot->process_count >= SNAP_MAX_PROCESSES)
		snap_json_pick_refuse(pick, level->list.key, "a smaller array");
	if (snap_json_pick_failed(pick))
		return;
	level->nodes[number] = node;
	read_node(reader, object, node);
	count_node(snapshot, node);
	if (snapshot->process_count == 1)
		snapshot->flat = !snap_json_pick_has(object, "children");
	node->children = enter_level(reader, levels, object, "children", &node->child_count);
}

static void read_tree(struct reader *reader, const struct snap_json *root)
{
	_cleanup_(levels_deinit) struct levels levels = { 0 };
	struct snap_snapshot *snapshot = reader->snapshot;

	snapshot->processes =
		enter_level(reader, &levels, root, "processes", &snapshot->root_count);
	while (levels.depth && !snap_json_pick_failed(&reader->pick)) {
		struct level *level = &levels.levels[levels.depth - 1];

		if (level->list.next == level->list.count)
			levels.depth--;
		else
			read_next(reader, &levels, level);
	}
}

/* ---- the document ---- */

static void read_host(struct reader *reader, const struct snap_json *root)
{
	struct snap_json_pick *pick = &reader->pick;
	const struct snap_json *host = snap_json_pick_object(pick, root, "host");

	if (!host)
		return;
	reader->snapshot->host = (struct snap_host){
		.name = snap_json_pick_text(pick, host, "name", SNAP_MAX_NAME),
		.kernel = snap_json_pick_text(pick, host, "kernel", SNAP_MAX_NAME),
		.arch = snap_json_pick_text(pick, host, "arch", SNAP_MAX_NAME),
		.boot_id = snap_json_pick_text(pick, host, "boot_id", SNAP_MAX_NAME),
		.cpus = (unsigned)snap_json_pick_number(pick, host, "cpus", 0, INT_MAX, 0),
	};
}

static void read_head(struct reader *reader, const struct snap_json *root)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	struct snap_json_pick *pick = &reader->pick;
	const char *schema = snap_json_pick_text(pick, root, "schema", 64);
	int64_t version;

	if (!snap_json_pick_failed(pick) && (!schema || strcmp(schema, "stacksnap.snapshot") != 0))
		pick->error = snap_error_format(SNAP_ERROR_FORMAT,
						"a JSON document, but not a stacksnap snapshot");
	version = snap_json_pick_required(pick, root, "schema_version", 1, INT_MAX);
	if (version > 1 && !snap_json_pick_failed(pick))
		pick->error = snap_error_format(
			SNAP_ERROR_FORMAT,
			"schema version %d is too new: this program reads version 1", (int)version);
	read_host(reader, root);
	snapshot->time_ns = snap_json_pick_time(pick, root, "time");
	snapshot->duration_ns = snap_json_pick_number(pick, root, "duration_ns", 0, INT64_MAX, 0);
	snapshot->stop_duration_ns =
		snap_json_pick_number(pick, root, "stop_duration_ns", 0, INT64_MAX, 0);
	snapshot->many_instants = snap_json_pick_has(root, "consistent") &&
				  !snap_json_pick_flag(pick, root, "consistent");
	snapshot->stop_skew_ns = snap_json_pick_number(pick, root, "stop_skew_ns", 0, INT64_MAX, 0);
}

static void read_warnings(struct reader *reader, const struct snap_json *root)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list warnings = snap_json_pick_list(pick, root, "warnings");
	const struct snap_json *from;

	while ((from = snap_json_list_object(&warnings))) {
		const char *code = snap_json_pick_of(pick, from, "code",
						     "abcdefghijklmnopqrstuvwxyz0123456789_", 64);
		const char *message = snap_json_pick_text(pick, from, "message", SNAP_MAX_ARGS);

		if (!code || !message) {
			snap_json_pick_refuse(pick, "warnings", "an array of codes with messages");
			return;
		}
		snapshot->missing.modules += snap_warning_costs_names(code);
		snap_snapshot_warn(snapshot, code,
				   (pid_t)snap_json_pick_number(pick, from, "pid", 0, INT_MAX, 0),
				   (pid_t)snap_json_pick_number(pick, from, "tid", 0, INT_MAX, 0),
				   "%s", message);
	}
}

struct stacksnap_error *snap_snapshot_read_json(int fd, struct snap_snapshot **ret)
{
	_cleanup_(reader_deinit) struct reader reader = { .snapshot = snap_snapshot_new() };
	_cleanup_(snap_json_pick_closep) struct snap_json *root = NULL;
	struct stacksnap_error *err;

	if (!reader.snapshot)
		return snap_error_no_memory();
	snap_json_pick_init(&reader.pick, &reader.snapshot->arena);
	err = snap_json_pick_open(fd, SNAP_JSON_MAX_BYTES, &root);
	if (err)
		return err;
	read_head(&reader, root);
	read_tree(&reader, root);
	read_warnings(&reader, root);
	if (snap_json_pick_failed(&reader.pick))
		return snap_take_ptr(reader.pick.error);
	*ret = snap_take_ptr(reader.snapshot);
	return NULL;
}
