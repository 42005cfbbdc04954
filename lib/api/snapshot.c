/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public API's snapshots: see stacksnap.h.
 *
 * A snapshot is the inner one with a little beside it that programs want and renderers have no use
 * for: what it amounts to, and which processes are worth a word. Knows nothing of exit statuses.
 */
#include "api/api.h"
#include "base/buffer.h"
#include "base/clock.h"

#include "pipeline.h"
#include "render/render.h"

#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* A process worth a word: see stacksnap_snapshot_trouble(). */
struct trouble {
	const char *code, *message;
	pid_t pid;
};

struct stacksnap_snapshot {
	struct snap_snapshot *inner;
	bool list; /* of stacksnap_list(): there are no stacks */
	enum stacksnap_outcome outcome;
	const char **warnings; /* escaped, inner->warning_count of them; in the inner's arena */
	struct trouble *troubles;
	size_t trouble_count, trouble_capacity;
	const struct snap_node **nodes; /* all, in the order of the report */
	size_t node_count, node_capacity;
	struct snap_collector
		*collector; /* dismissed: it ends while the snapshot is used; or NULL */
};

API void stacksnap_snapshot_destroy(struct stacksnap_snapshot *snapshot)
{
	if (!snapshot)
		return;
	snap_collector_destroy(snapshot->collector);
	snap_snapshot_destroy(snapshot->inner);
	free(snapshot->troubles);
	free(snapshot->nodes);
	free(snapshot);
}

const struct snap_snapshot *snap_api_snapshot(const struct stacksnap_snapshot *snapshot)
{
	return snapshot->inner;
}

static void destroy_snapshot(struct stacksnap_snapshot **snapshot)
{
	stacksnap_snapshot_destroy(*snapshot);
}

static struct stacksnap_error *note_trouble(struct stacksnap_snapshot *snapshot,
					    const struct snap_options *options,
					    const struct snap_node *node)
{
	struct snap_arena *arena = &snapshot->inner->arena;
	const char *message = node->trouble_message;
	struct trouble trouble = { .code = snap_trouble_word(node->trouble), .pid = node->pid };

	if (!message)
		message = snap_arena_printf(arena, "process %d: %s", (int)node->pid, trouble.code);
	trouble.message = message ? snap_api_escaped(arena, message, options) : NULL;
	return snap_no_memory_unless(trouble.message &&
				     snap_append(snapshot->troubles, snapshot->trouble_count,
						 snapshot->trouble_capacity, trouble));
}

/* How the stacks of a process ended. */
static void trace_node(const struct snap_options *options, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	while (options->trace && (stack = snap_node_next_stack(node, &cursor))) {
		size_t count = stack->frame_count;
		uint64_t last = count ? stack->frames[count - 1]->address : 0;
		const uint64_t numbers[] = { count, last, stack->unwind };
		/* A report that is too large leaves fewer than -n would, and none where -n was given. */
		bool by_option = options->frames_given || count >= options->max_frames;
		enum snap_trace_kind kind = !stack->gap_count ? SNAP_TRACE_UNWOUND
					    : by_option       ? SNAP_TRACE_GAP
							      : SNAP_TRACE_REPORT;

		for (size_t i = 0; i < stack->thread_count; i++)
			snap_trace(options->trace, stack->threads[i].tid, kind, numbers);
		for (size_t i = 0; i < stack->task_count; i++)
			snap_trace_task(options->trace, node->pid, stack->tasks[i].id, count,
					stack->unwind);
		if (stack->task_count && stack->gap_count)
			snap_trace(options->trace, -node->pid, kind, numbers);
	}
}

struct walk {
	const struct snap_node *node;
	size_t next; /* child */
};

/* What a walk over all processes finds out. */
struct survey {
	size_t shown, hidden; /* processes with their stacks; those that have an error instead */
};

static struct stacksnap_error *visit(struct stacksnap_snapshot *snapshot,
				     const struct snap_options *options, bool list,
				     const struct snap_node *node, struct survey *survey)
{
	bool shown = node->trouble == SNAP_TROUBLE_NONE && node->type != SNAP_TYPE_DEAD;
	bool silent = node->trouble == SNAP_TROUBLE_NOT_RESPONDING;

	if (!snap_append(snapshot->nodes, snapshot->node_count, snapshot->node_capacity, node))
		return snap_error_no_memory();
	trace_node(options, node);
	if (list) /* a process that may not be traced is listed all the same */
		shown = node->trouble != SNAP_TROUBLE_NO_SUCH_PROCESS && !silent;
	/* Of one that does not respond a list has all but its arguments. */
	survey->shown += shown || (list && silent);
	survey->hidden += !shown;
	if ((!list || !shown) && snap_trouble_applies(snap_troubles[node->trouble].warning,
						      snap_options_has_pid(options, node->pid)))
		return note_trouble(snapshot, options, node);
	return NULL;
}

/* All processes in the order of the report; a loop, as the depth is the target's to choose. */
static struct stacksnap_error *survey_tree(struct stacksnap_snapshot *snapshot,
					   const struct snap_options *options, bool list,
					   struct survey *survey)
{
	_cleanup_free_ struct walk *path = NULL;
	size_t capacity = 0, depth = 0;

	for (size_t i = 0; i < snapshot->inner->root_count; i++) {
		const struct snap_node *enter = snapshot->inner->processes[i];

		while (enter || depth > 0) {
			if (enter) {
				SNAP_TRY(visit(snapshot, options, list, enter, survey));
				if (!snap_append(path, depth, capacity,
						 (struct walk){ .node = enter }))
					return snap_error_no_memory();
			}
			struct walk *top = &path[depth - 1];

			enter = NULL;
			if (top->next < top->node->child_count)
				enter = top->node->children[top->next++];
			else
				depth--;
		}
	}
	return NULL;
}

/*
 * A deadlock is one whatever else is missing, and symbols that are missing hide none. A lock whose owner has
 * ended is held for ever, too.
 */
static enum stacksnap_outcome search_status(const struct snap_snapshot *snapshot)
{
	bool is_possible = false;

	for (size_t i = 0; i < snapshot->waits.deadlock_count; i++) {
		if (snap_deadlock_is_real(&snapshot->waits.deadlocks[i]))
			return STACKSNAP_OUTCOME_PARTIAL;
		is_possible |= !snapshot->waits.deadlocks[i].timed;
	}
	for (size_t i = 0; i < snapshot->waits.blocker_count; i++) {
		if (snapshot->waits.blockers[i].certain)
			return STACKSNAP_OUTCOME_PARTIAL;
		is_possible |= snapshot->waits.blockers[i].lack != SNAP_OWNER_KNOWN;
	}
	return is_possible || snapshot->waits.lacks || snapshot->missing.threads ||
			       snapshot->missing.processes
		       ? STACKSNAP_OUTCOME_UNKNOWN
		       : STACKSNAP_OUTCOME_WHOLE;
}

static enum stacksnap_outcome set_snapshot_status(const struct snap_snapshot *snapshot,
						  const struct snap_options *options, bool list,
						  const struct survey *survey)
{
	if (survey->shown == 0 && survey->hidden > 0)
		return STACKSNAP_OUTCOME_NOTHING;
	if (list)
		return survey->hidden ? STACKSNAP_OUTCOME_PARTIAL : STACKSNAP_OUTCOME_WHOLE;
	if (options->deadlocks_only)
		return search_status(snapshot);
	return snap_is_missing(&snapshot->missing) ? STACKSNAP_OUTCOME_PARTIAL
						   : STACKSNAP_OUTCOME_WHOLE;
}

/* Takes over `inner`, also when it fails. */
static struct stacksnap_error *wrap_snapshot(struct snap_snapshot *inner,
					     const struct snap_options *options, bool list,
					     struct stacksnap_snapshot **ret)
{
	_cleanup_(destroy_snapshot) struct stacksnap_snapshot *snapshot =
		calloc(1, sizeof(*snapshot));
	struct survey survey = { 0 };

	if (!snapshot) {
		snap_snapshot_destroy(inner);
		return snap_error_no_memory();
	}
	snapshot->inner = inner;
	snapshot->list = list;
	snapshot->warnings =
		snap_api_messages(&inner->arena, inner->warnings, inner->warning_count, options);
	SNAP_TRY(snap_no_memory_unless(snapshot->warnings));
	SNAP_TRY(survey_tree(snapshot, options, list, &survey));
	snapshot->outcome = set_snapshot_status(inner, options, list, &survey);
	*ret = snap_take_ptr(snapshot);
	return NULL;
}

API struct stacksnap_error *stacksnap_capture_analyze(struct stacksnap_capture *capture,
						      const struct stacksnap_options *options,
						      struct stacksnap_snapshot **ret)
{
	struct snap_snapshot *inner = NULL;

	SNAP_TRY(snap_pipeline_analyze(capture->collector, &options->values, &inner));
	return wrap_snapshot(inner, &options->values, false, ret);
}

/* `before`: threads that are stuck since then are marked; NULL: not asked for. */
static struct stacksnap_error *take_one(const struct snap_options *options,
					const struct snap_snapshot *before,
					struct stacksnap_snapshot **ret)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *inner = NULL;
	struct stacksnap_error *err = snap_pipeline_take(options, &inner, &collector);

	if (!err && before)
		err = snap_pipeline_mark_stuck(before, options, inner);
	SNAP_TRY(err ?: wrap_snapshot(snap_take_ptr(inner), options, false, ret));
	(*ret)->collector = snap_take_ptr(collector);
	return NULL;
}

API struct stacksnap_error *stacksnap_options_pin(struct stacksnap_options *options,
						  const struct stacksnap_snapshot *seen)
{
	struct snap_process *list = calloc(seen->node_count + 1, sizeof(*list));

	SNAP_TRY(snap_no_memory_unless(list));
	for (size_t i = 0; i < seen->node_count; i++) {
		list[i].pid = seen->nodes[i]->pid;
		list[i].start_ticks = seen->nodes[i]->start_ticks;
		list[i].trouble = seen->nodes[i]->trouble;
	}
	free((void *)(uintptr_t)options->values.seen);
	options->values.seen = list;
	options->values.seen_count = seen->node_count;
	return NULL;
}

/* Until a moment (CLOCK_MONOTONIC); the flag is looked at again and again. */
static struct stacksnap_error *wait_until(const struct snap_options *options, int64_t until_ns)
{
	enum { TURN_NS = 20000000 };

	for (;;) {
		int64_t left_ns = until_ns - snap_clock_ns(CLOCK_MONOTONIC);

		SNAP_TRY(snap_options_check(options));
		if (left_ns <= 0)
			return NULL;
		nanosleep(&(struct timespec){ .tv_nsec = left_ns < TURN_NS ? left_ns : TURN_NS },
			  NULL);
	}
}

/* The second of two, with what is stuck since the first. */
static struct stacksnap_error *take_again(const struct snap_options *options,
					  struct stacksnap_snapshot **ret)
{
	_cleanup_(destroy_snapshot) struct stacksnap_snapshot *first = NULL;
	int64_t until_ns = snap_clock_ns(CLOCK_MONOTONIC) + options->again_ns;
	struct stacksnap_options same = { .values = *options };
	struct stacksnap_error *err = take_one(options, NULL, &first);

	err = err ?: wait_until(options, until_ns);
	same.values.seen = NULL;
	err = err ?: stacksnap_options_pin(&same, first);
	err = err ?: take_one(&same.values, first->inner, ret);
	free((void *)(uintptr_t)same.values.seen);
	return err;
}

API struct stacksnap_error *stacksnap_take(const struct stacksnap_options *options,
					   struct stacksnap_snapshot **ret)
{
	SNAP_TRY(snap_api_check_targets(&options->values));
	return options->values.again_ns ? take_again(&options->values, ret)
					: take_one(&options->values, NULL, ret);
}

API struct stacksnap_error *stacksnap_list(const struct stacksnap_options *options,
					   struct stacksnap_snapshot **ret)
{
	struct snap_snapshot *inner = NULL;

	SNAP_TRY(snap_api_check_targets(&options->values));
	SNAP_TRY(snap_pipeline_list(&options->values, &inner));
	return wrap_snapshot(inner, &options->values, true, ret);
}

API struct stacksnap_error *stacksnap_snapshot_load(int fd, const struct stacksnap_options *options,
						    struct stacksnap_snapshot **ret)
{
	struct snap_snapshot *inner = NULL;

	SNAP_TRY(snap_pipeline_load_snapshot(fd, &options->values, &inner));
	return wrap_snapshot(inner, &options->values, false, ret);
}

/* What uname(2) and the clock say: the host of a snapshot that no capture came to. */
static void describe_host(struct snap_snapshot *inner)
{
	struct utsname names;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (uname(&names) == 0) {
		inner->host.name = snap_arena_strdup(&inner->arena, names.nodename);
		inner->host.kernel = snap_arena_strdup(&inner->arena, names.release);
		inner->host.arch = snap_arena_strdup(&inner->arena, names.machine);
	}
	inner->host.cpus = cpus > 0 ? (unsigned)cpus : 0;
	inner->time_ns = snap_clock_ns(CLOCK_REALTIME);
}

API struct stacksnap_error *stacksnap_snapshot_create_empty(const struct stacksnap_options *options,
							    const char *warning_code,
							    const char *warning_message,
							    struct stacksnap_snapshot **ret)
{
	struct snap_snapshot *inner = snap_snapshot_new();
	const char *code;

	SNAP_TRY(snap_no_memory_unless(inner));
	describe_host(inner);
	inner->flat = options->values.flat;
	code = snap_arena_strdup(&inner->arena, warning_code);
	if (code)
		snap_snapshot_warn(inner, code, 0, 0, "%s", warning_message);
	SNAP_TRY(wrap_snapshot(inner, &options->values, false, ret));
	(*ret)->outcome = STACKSNAP_OUTCOME_NOTHING;
	return NULL;
}

/* ---- what a snapshot says ---- */

API const char *stacksnap_snapshot_lack(const struct stacksnap_snapshot *snapshot, size_t index)
{
	return snap_api_lack(snapshot->inner->waits.lacks, index);
}

API struct stacksnap_error *stacksnap_snapshot_render(const struct stacksnap_snapshot *snapshot,
						      const struct stacksnap_options *options,
						      const char *format, FILE *out)
{
	return snap_pipeline_render_snapshot(snapshot->inner, snapshot->list, &options->values,
					     format, out);
}

API const char *stacksnap_format_name(size_t index, const char **suffix_ret, const char **help_ret)
{
	const struct snap_format *format = snap_formats;

	while (format->name && index-- > 0)
		format++;
	if (!format->name)
		return NULL;
	if (suffix_ret)
		*suffix_ret = format->suffix;
	if (help_ret)
		*help_ret = format->help;
	return format->name;
}

API const char *stacksnap_format_of_path(const char *path)
{
	const struct snap_format *format = snap_format_by_path(path);

	return format ? format->name : NULL;
}

API int stacksnap_format_is_binary(const char *name)
{
	const struct snap_format *format = snap_format_by_name(name);

	return format && format->bytes != SNAP_TEXT;
}

API enum stacksnap_outcome stacksnap_snapshot_outcome(const struct stacksnap_snapshot *snapshot)
{
	return snapshot->outcome;
}

API int stacksnap_snapshot_warning(const struct stacksnap_snapshot *snapshot, size_t index,
				   const char **code_ret, const char **message_ret, pid_t *pid_ret,
				   pid_t *tid_ret)
{
	if (index >= snapshot->inner->warning_count)
		return false;
	if (message_ret)
		*message_ret = snapshot->warnings[index];
	return snap_api_tell(&snapshot->inner->warnings[index], code_ret, pid_ret, tid_ret);
}

API int stacksnap_snapshot_trouble(const struct stacksnap_snapshot *snapshot, size_t index,
				   const char **code_ret, const char **message_ret, pid_t *pid_ret)
{
	const struct trouble *trouble;

	if (index >= snapshot->trouble_count)
		return false;
	trouble = &snapshot->troubles[index];
	if (code_ret)
		*code_ret = trouble->code;
	if (message_ret)
		*message_ret = trouble->message;
	if (pid_ret)
		*pid_ret = trouble->pid;
	return true;
}

API int stacksnap_snapshot_process(const struct stacksnap_snapshot *snapshot, size_t index,
				   pid_t *pid_ret, const char **name_ret,
				   const char **description_ret)
{
	const struct snap_node *node;

	if (index >= snapshot->node_count)
		return false;
	node = snapshot->nodes[index];
	if (pid_ret)
		*pid_ret = node->pid;
	if (name_ret)
		*name_ret = node->name;
	if (description_ret)
		*description_ret = node->description;
	return true;
}

API long long stacksnap_snapshot_stop_duration_ns(const struct stacksnap_snapshot *snapshot)
{
	return snapshot->inner->stop_duration_ns;
}

API size_t stacksnap_snapshot_process_count(const struct stacksnap_snapshot *snapshot)
{
	return snapshot->inner->process_count;
}

API size_t stacksnap_snapshot_thread_count(const struct stacksnap_snapshot *snapshot)
{
	return snapshot->inner->thread_count;
}

API size_t stacksnap_snapshot_stack_count(const struct stacksnap_snapshot *snapshot)
{
	return snapshot->inner->stack_count;
}
