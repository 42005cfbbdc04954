/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Head, tree of processes and warnings of a JSON document: see read.h. The tree is walked
 * without recursion: its depth is the document's.
 */
#include "store/json/read.h"

#include <limits.h>
#include <string.h>

unsigned snap_json_read_word(struct snap_json_reader *reader, const struct snap_json *object,
			     const char *key, const char *(*word_of)(unsigned), unsigned count)
{
	const char *word = snap_json_pick_text(&reader->pick, object, key, 64);

	for (unsigned i = 0; word && i < count; i++)
		if (strcmp(word_of(i), word) == 0)
			return i;
	snap_json_pick_refuse(&reader->pick, key, "a word listed in stacksnap-json(5)");
	return 0;
}

const char *snap_json_state_word(unsigned state)
{
	return snap_state_word(state);
}

static const char *type_word(unsigned type)
{
	return snap_process_type_word(type);
}

static const char *trouble_word(unsigned trouble)
{
	return snap_trouble_word(trouble);
}

static void read_host(struct snap_json_reader *reader, const struct snap_json *root)
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

static void read_head(struct snap_json_reader *reader, const struct snap_json *root)
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

/* ---- processes ---- */

static void read_args(struct snap_json_reader *reader, const struct snap_json *object,
		      struct snap_node *node)
{
	size_t count;
	const struct snap_json *array = snap_json_pick_array(&reader->pick, object, "args", &count);

	if (count == 0)
		return;
	node->args = snap_arena_new_array(&reader->snapshot->arena, count, const char *);
	if (!node->args)
		snap_json_pick_no_memory(&reader->pick);
	for (size_t i = 0; i < count && !snap_json_pick_failed(&reader->pick); i++)
		node->args[node->arg_count++] =
			snap_json_pick_item_text(&reader->pick, array, "args", i, SNAP_MAX_ARGS);
}

static void read_ancestors(struct snap_json_reader *reader, const struct snap_json *object,
			   struct snap_node *node)
{
	struct snap_json_pick *pick = &reader->pick;
	size_t count;
	const struct snap_json *array = snap_json_pick_array(pick, object, "ancestors", &count);

	if (count == 0)
		return;
	node->ancestors =
		snap_arena_new_array(&reader->snapshot->arena, count, struct snap_ancestor);
	if (!node->ancestors)
		snap_json_pick_no_memory(pick);
	for (size_t i = 0; i < count && !snap_json_pick_failed(pick); i++) {
		const struct snap_json *from = snap_json_pick_item(pick, array, "ancestors", i);

		if (from)
			node->ancestors[node->ancestor_count++] = (struct snap_ancestor){
				(pid_t)snap_json_pick_required(pick, from, "pid", 1, INT_MAX),
				snap_json_pick_text(pick, from, "name", SNAP_MAX_NAME),
				(uint64_t)snap_json_pick_number(pick, from, "start_ticks", 0,
								INT64_MAX, 0),
			};
	}
}

static void read_labels(struct snap_json_reader *reader, const struct snap_json *object,
			struct snap_node *node)
{
	const struct snap_json *labels = snap_json_pick_object(&reader->pick, object, "labels");
	const char *deleted =
		labels ? snap_json_pick_text(&reader->pick, labels, "exe_deleted", 8) : NULL;

	if (!deleted)
		return;
	node->labels = snap_arena_new(&reader->snapshot->arena, struct snap_label);
	if (node->labels)
		node->labels[node->label_count++] = (struct snap_label){ "exe_deleted", "true" };
	else
		snap_json_pick_no_memory(&reader->pick);
}

static void read_error(struct snap_json_reader *reader, const struct snap_json *object,
		       struct snap_node *node)
{
	const struct snap_json *error = snap_json_pick_object(&reader->pick, object, "error");

	if (!error)
		return;
	node->trouble =
		snap_json_read_word(reader, error, "code", trouble_word, SNAP_TROUBLE_COUNT);
	node->trouble_message = snap_json_pick_text(&reader->pick, error, "message", SNAP_MAX_ARGS);
	if (node->trouble == SNAP_TROUBLE_NONE)
		snap_json_pick_refuse(&reader->pick, "code", "a word listed in stacksnap-json(5)");
}

static int64_t uid_of(struct snap_json_reader *reader, const struct snap_json *object)
{
	return snap_json_pick_number(&reader->pick, object, "uid", 0, UINT32_MAX, (uid_t)-1);
}

/* All of a process but its children. */
static void read_node(struct snap_json_reader *reader, const struct snap_json *object,
		      struct snap_node *node)
{
	struct snap_json_pick *pick = &reader->pick;

	*node = (struct snap_node){
		.pid = (pid_t)snap_json_pick_required(pick, object, "pid", 1, INT_MAX),
		.ppid = (pid_t)snap_json_pick_number(pick, object, "ppid", 0, INT_MAX, 0),
		.ns_pid = (pid_t)snap_json_pick_number(pick, object, "ns_pid", 0, INT_MAX, 0),
		.name = snap_json_pick_text(pick, object, "name", SNAP_MAX_NAME),
		.description = snap_json_pick_text(pick, object, "description", SNAP_MAX_NAME),
		.type = snap_json_read_word(reader, object, "type", type_word, SNAP_TYPE_NONE + 1),
		.state = snap_json_read_word(reader, object, "state", snap_json_state_word,
					     SNAP_STATE_COUNT),
		.exe = snap_json_pick_text(pick, object, "exe", SNAP_MAX_NAME),
		.uid = (uid_t)uid_of(reader, object),
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
	read_args(reader, object, node);
	read_ancestors(reader, object, node);
	read_labels(reader, object, node);
	snap_json_read_stacks(reader, object, node);
	read_error(reader, object, node);
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
	const struct snap_json *array;
	const char *key;
	struct snap_node **nodes;
	size_t count, next;
};

struct levels {
	struct level *levels;
	size_t depth, capacity;
};

static void levels_deinit(struct levels *levels)
{
	free(levels->levels);
}

/* The array of processes under a key, and room for their nodes; a level, if there are any. */
static struct snap_node **enter_level(struct snap_json_reader *reader, struct levels *levels,
				      const struct snap_json *object, const char *key,
				      size_t *count_ret)
{
	struct level level = { .key = key };

	level.array = snap_json_pick_array(&reader->pick, object, key, &level.count);
	*count_ret = level.count;
	if (level.count == 0)
		return NULL;
	level.nodes =
		snap_arena_new_array(&reader->snapshot->arena, level.count, struct snap_node *);
	if (!level.nodes || !snap_grow_array(levels->levels, levels->capacity, levels->depth)) {
		snap_json_pick_no_memory(&reader->pick);
		return NULL;
	}
	levels->levels[levels->depth++] = level;
	return level.nodes;
}

static void read_next(struct snap_json_reader *reader, struct levels *levels, struct level *level)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	struct snap_json_pick *pick = &reader->pick;
	const struct snap_json *object =
		snap_json_pick_item(pick, level->array, level->key, level->next);
	struct snap_node *node = snap_arena_new(&snapshot->arena, struct snap_node);

	if (!node)
		snap_json_pick_no_memory(pick);
	if (snapshot->process_count >= SNAP_MAX_PROCESSES)
		snap_json_pick_refuse(pick, level->key, "a smaller array");
	if (snap_json_pick_failed(pick))
		return;
	level->nodes[level->next++] = node;
	read_node(reader, object, node);
	count_node(snapshot, node);
	if (snapshot->process_count == 1)
		snapshot->flat = !snap_json_pick_has(object, "children");
	node->children = enter_level(reader, levels, object, "children", &node->child_count);
}

static void read_tree(struct snap_json_reader *reader, const struct snap_json *root)
{
	_cleanup_(levels_deinit) struct levels levels = { 0 };
	struct snap_snapshot *snapshot = reader->snapshot;

	snapshot->processes =
		enter_level(reader, &levels, root, "processes", &snapshot->root_count);
	while (levels.depth && !snap_json_pick_failed(&reader->pick)) {
		struct level *level = &levels.levels[levels.depth - 1];

		if (level->next == level->count)
			levels.depth--;
		else
			read_next(reader, &levels, level);
	}
}

static void read_warnings(struct snap_json_reader *reader, const struct snap_json *root)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	struct snap_json_pick *pick = &reader->pick;
	size_t count;
	const struct snap_json *array = snap_json_pick_array(pick, root, "warnings", &count);

	for (size_t i = 0; i < count && !snap_json_pick_failed(pick); i++) {
		const struct snap_json *from = snap_json_pick_item(pick, array, "warnings", i);
		const char *code, *message;

		if (!from)
			return;
		code = snap_json_pick_of(pick, from, "code",
					 "abcdefghijklmnopqrstuvwxyz0123456789_", 64);
		message = snap_json_pick_text(pick, from, "message", SNAP_MAX_ARGS);
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

static void reader_deinit(struct snap_json_reader *reader)
{
	snap_json_pick_deinit(&reader->pick);
	free(reader->frames.slots);
	snap_snapshot_destroy(reader->snapshot);
}

struct snap_error *snap_snapshot_read_json(int fd, struct snap_snapshot **ret)
{
	_cleanup_(reader_deinit) struct snap_json_reader reader = { .snapshot =
									    snap_snapshot_new() };
	_cleanup_(snap_json_pick_closep) struct snap_json *root = NULL;
	struct snap_error *err;

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
