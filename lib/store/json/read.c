/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot from its JSON: see read.h. Its head, its processes and their tree, which is walked
 * without recursion, as the document decides how deep it is.
 */
#include "store/json/read.h"

#include "model/recording.h"
#include "store/json/reader.h"

#include <limits.h>
#include <string.h>

static void reader_deinit(struct snap_json_reader *reader)
{
	snap_json_pick_deinit(&reader->pick);
	free(reader->set.frames);
	snap_hash_table_deinit(&reader->set.table);
	free(reader->entries);
	snap_snapshot_destroy(reader->snapshot);
}

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

static void read_signal(struct snap_json_reader *reader, const struct snap_json *object,
			struct snap_node *node)
{
	struct snap_json_pick *pick = &reader->pick;
	const struct snap_json *signal = snap_json_pick_object(pick, object, "signal");

	reader->crashed_tid = 0;
	if (!signal)
		return;
	node->signal = (struct snap_signal){
		.number = (int)snap_json_pick_required(pick, signal, "number", 1, INT_MAX),
		.code = (int)snap_json_pick_number(pick, signal, "code", INT_MIN, INT_MAX, 0),
		.tid = (pid_t)snap_json_pick_number(pick, signal, "tid", 1, INT_MAX, 0),
	};
	node->signal.has_address =
		snap_json_pick_hex(pick, signal, "address", &node->signal.address);
	reader->crashed_tid = node->signal.tid;
}

static struct snap_usage read_usage(struct snap_json_pick *pick, const struct snap_json *object,
				    const char *rss, const char *cpu)
{
	return (struct snap_usage){ snap_json_pick_number(pick, object, rss, 0, INT64_MAX, 0),
				    snap_json_pick_number(pick, object, cpu, 0, INT64_MAX, 0) };
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
		.type = snap_json_pick_word(pick, object, "type", snap_process_type_word,
					    SNAP_TYPE_NONE + 1),
		.state = snap_json_pick_state(pick, object),
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
	node->usage = read_usage(pick, object, "rss_bytes", "cpu_ns");
	node->usage_before = read_usage(pick, object, "rss_bytes_before", "cpu_ns_before");
	read_args(pick, object, node);
	read_ancestors(pick, object, node);
	node->labels =
		snap_json_pick_labels(pick, object, "labels", SNAP_MAX_NAME, &node->label_count);
	snap_json_read_runtimes(reader, object, node);
	read_signal(reader, object, node);
	snap_json_read_stacks(reader, object, &node->stacks, &node->stack_count);
	snap_json_read_logical(reader, object, node);
	snap_json_forget_frames(reader);
	read_error(pick, object, node);
}

static void count_stack(struct snap_snapshot *snapshot, const struct snap_node *node,
			const struct snap_stack *stack)
{
	snapshot->stack_count++;
	snapshot->thread_count += stack->thread_count;
	snapshot->task_count += stack->task_count;
	for (size_t k = 0; k < stack->thread_count; k++)
		snapshot->missing.threads +=
			node->trouble == SNAP_TROUBLE_NONE &&
			snap_thread_is_missing(stack->unwind, stack->threads[k].state,
					       stack->threads[k].kernel);
}

static void count_json_node(struct snap_snapshot *snapshot, const struct snap_node *node)
{
	struct snap_missing *missing = &snapshot->missing;
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	while ((stack = snap_node_next_stack(node, &cursor)))
		count_stack(snapshot, node, stack);
	/* A document does not say which processes were targets. */
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
static struct snap_node **enter_json_level(struct snap_json_reader *reader, struct levels *levels,
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
static void read_json_next(struct snap_json_reader *reader, struct levels *levels,
			   struct level *level)
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
	if (++snapshot->process_count == 1)
		snapshot->flat = !snap_json_pick_has(object, "children");
	node->children = enter_json_level(reader, levels, object, "children", &node->child_count);
}

static void read_tree(struct snap_json_reader *reader, const struct snap_json *root)
{
	_cleanup_(levels_deinit) struct levels levels = { 0 };
	struct snap_snapshot *snapshot = reader->snapshot;

	snapshot->processes =
		enter_json_level(reader, &levels, root, "processes", &snapshot->root_count);
	while (levels.depth && !snap_json_pick_failed(&reader->pick)) {
		struct level *level = &levels.levels[levels.depth - 1];

		if (level->list.next == level->list.count)
			levels.depth--;
		else
			read_json_next(reader, &levels, level);
	}
}

static void count_tree(struct snap_json_reader *reader)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	const struct snap_node **nodes =
		snap_json_pick_memory(&reader->pick, snapshot->process_count + 1, sizeof(*nodes));
	size_t count = 0;

	if (snap_json_pick_failed(&reader->pick))
		return;
	for (size_t i = 0; i < snapshot->root_count; i++)
		nodes[count++] = snapshot->processes[i];
	for (size_t i = 0; i < count; i++) {
		count_json_node(snapshot, nodes[i]);
		for (size_t k = 0; k < nodes[i]->child_count; k++)
			nodes[count++] = nodes[i]->children[k];
	}
}

/* ---- the document ---- */

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

/* The version that wrote it: another version may have named and grouped differently. */
static void read_tool(struct snap_json_reader *reader, const struct snap_json *root)
{
	const struct snap_json *tool = snap_json_pick_object(&reader->pick, root, "tool");
	const char *version =
		tool ? snap_json_pick_text(&reader->pick, tool, "version", SNAP_MAX_NAME) : NULL;

	if (version && strcmp(version, SNAP_VERSION) != 0)
		reader->snapshot->tool_version = version;
}

static void read_stop(struct snap_json_reader *reader, const struct snap_json *stop)
{
	struct snap_snapshot *snapshot = reader->snapshot;
	struct snap_json_pick *pick = &reader->pick;

	snapshot->threads_stopped =
		(size_t)snap_json_pick_number(pick, stop, "threads_stopped", 0, INT64_MAX, 0);
	snapshot->threads_late =
		(size_t)snap_json_pick_number(pick, stop, "threads_late", 0, INT64_MAX, 0);
	snapshot->stop_rounds =
		(uint32_t)snap_json_pick_number(pick, stop, "rounds", 0, UINT32_MAX, 0);
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
	read_tool(reader, root);
	read_host(reader, root);
	snapshot->time_ns = snap_json_pick_time(pick, root, "time");
	snapshot->monotonic_ns = snap_json_pick_number(pick, root, "monotonic_ns", 0, INT64_MAX, 0);
	snapshot->duration_ns = snap_json_pick_number(pick, root, "duration_ns", 0, INT64_MAX, 0);
	snapshot->stop_duration_ns =
		snap_json_pick_number(pick, root, "stop_duration_ns", 0, INT64_MAX, 0);
	snapshot->many_instants = snap_json_pick_has(root, "consistent") &&
				  !snap_json_pick_flag(pick, root, "consistent");
	snapshot->again_ns = snap_json_pick_number(pick, root, "again_ns", 0, INT64_MAX, 0);
	snapshot->stuck = (size_t)snap_json_pick_number(pick, root, "stuck_count", 0, INT64_MAX, 0);
	snapshot->stuck_idle =
		(size_t)snap_json_pick_number(pick, root, "stuck_idle_count", 0, INT64_MAX, 0);
	snapshot->stopped =
		(size_t)snap_json_pick_number(pick, root, "stopped_count", 0, INT64_MAX, 0);
	snapshot->stop_skew_ns = snap_json_pick_number(pick, root, "stop_skew_ns", 0, INT64_MAX, 0);
	read_stop(reader, snap_json_pick_object(pick, root, "stop"));
}

static void read_warnings(struct snap_json_reader *reader, const struct snap_json *root)
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
	_cleanup_(reader_deinit) struct snap_json_reader reader = { .snapshot =
									    snap_snapshot_new() };
	_cleanup_(snap_json_pick_closep) struct snap_json *root = NULL;

	SNAP_TRY(snap_no_memory_unless(reader.snapshot));
	snap_json_pick_init(&reader.pick, &reader.snapshot->arena);
	SNAP_TRY(snap_json_pick_open(fd, SNAP_JSON_MAX_BYTES, &root));
	read_head(&reader, root);
	read_tree(&reader, root);
	snap_json_read_together(&reader, root);
	count_tree(&reader);
	snap_json_read_waits(&reader, root);
	read_warnings(&reader, root);
	if (snap_json_pick_failed(&reader.pick))
		return snap_take_ptr(reader.pick.error);
	*ret = snap_take_ptr(reader.snapshot);
	return NULL;
}
