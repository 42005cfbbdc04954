/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public API over the pipeline: see stacksnap.h.
 *
 * Errors, options and captures are the inner ones under their public names; a snapshot has a little
 * beside it that a program wants to print and the renderers have no use for. Knows nothing of
 * terminals, files or exit statuses.
 */
#include "stacksnap.h"

#include "base/escape.h"
#include "capture/capture_file.h"
#include "options.h"
#include "pipeline.h"
#include "render/render.h"

#include <assert.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#define API __attribute__((visibility("default")))

static_assert((int)STACKSNAP_ERROR_OTHER == (int)SNAP_ERROR_OTHER, "error codes are the same");
static_assert((int)STACKSNAP_ERROR_TIMEOUT == (int)SNAP_ERROR_TIMEOUT, "error codes are the same");

struct stacksnap_options {
	struct snap_options values;
};

/* A process worth a word: see stacksnap_snapshot_trouble(). */
struct trouble {
	const char *code, *message;
	pid_t pid;
};

struct stacksnap_snapshot {
	struct snap_snapshot *inner;
	enum stacksnap_outcome outcome;
	const char **warnings; /* escaped, inner->warning_count of them; in the inner's arena */
	struct trouble *troubles;
	size_t trouble_count, trouble_capacity;
};

API const char *stacksnap_version(void)
{
	return SNAP_VERSION;
}

/* ---- errors: struct stacksnap_error is struct snap_error ---- */

static struct stacksnap_error *public_error(struct snap_error *error)
{
	return (struct stacksnap_error *)error;
}

static const struct snap_error *inner_error(const struct stacksnap_error *error)
{
	return (const struct snap_error *)error;
}

API enum stacksnap_error_code stacksnap_error_code(const struct stacksnap_error *error)
{
	return (enum stacksnap_error_code)snap_error_code(inner_error(error));
}

API const char *stacksnap_error_word(const struct stacksnap_error *error)
{
	switch (snap_error_code(inner_error(error))) {
	case SNAP_ERROR_NO_MEMORY:
		return "no_memory";
	case SNAP_ERROR_NOT_FOUND:
		return "not_found";
	case SNAP_ERROR_CANCELLED:
		return "cancelled";
	case SNAP_ERROR_INVALID:
		return "invalid";
	case SNAP_ERROR_FORMAT:
		return "format";
	case SNAP_ERROR_PERMISSION:
		return "permission_denied";
	case SNAP_ERROR_TIMEOUT:
		return "timeout";
	case SNAP_ERROR_OS:
	case SNAP_ERROR_OTHER:
		return "internal";
	}
	return "internal";
}

API int stacksnap_error_errno(const struct stacksnap_error *error)
{
	return snap_error_errno(inner_error(error));
}

API const char *stacksnap_error_message(const struct stacksnap_error *error)
{
	return snap_error_message(inner_error(error));
}

API void stacksnap_error_destroy(struct stacksnap_error *error)
{
	snap_error_destroy((struct snap_error *)error);
}

/* ---- options ---- */

API struct stacksnap_error *stacksnap_options_create(struct stacksnap_options **ret)
{
	struct stacksnap_options *options = calloc(1, sizeof(*options));

	if (!options)
		return public_error(snap_error_no_memory());
	snap_options_init(&options->values);
	*ret = options;
	return NULL;
}

API void stacksnap_options_destroy(struct stacksnap_options *options)
{
	if (!options)
		return;
	snap_options_deinit(&options->values);
	free(options);
}

API struct stacksnap_error *stacksnap_options_set(struct stacksnap_options *options,
						  const char *name, const char *value)
{
	return public_error(snap_options_set(&options->values, name, value));
}

API void stacksnap_options_set_cancel(struct stacksnap_options *options, const volatile int *flag)
{
	options->values.cancel = flag;
}

API unsigned stacksnap_options_timeout_ms(const struct stacksnap_options *options)
{
	return (unsigned)(options->values.timeout_ns / 1000000);
}

API void stacksnap_options_set_progress(struct stacksnap_options *options,
					void (*progress)(void *context, const char *text),
					void *context)
{
	options->values.progress = progress;
	options->values.progress_context = context;
}

static struct snap_error *check_targets(const struct snap_options *options)
{
	if (options->target_count)
		return NULL;
	return snap_error_format(SNAP_ERROR_INVALID,
				 "no target: name a process by its pid, or see --name, --unit, "
				 "--cgroup, --container and --all");
}

/* ---- captures: struct stacksnap_capture is struct snap_capture ---- */

API struct stacksnap_error *stacksnap_capture_take(const struct stacksnap_options *options,
						   struct stacksnap_capture **ret)
{
	struct snap_error *err = check_targets(&options->values);

	if (err)
		return public_error(err);
	return public_error(snap_pipeline_capture(&options->values, (struct snap_capture **)ret));
}

API struct stacksnap_error *stacksnap_capture_save(struct stacksnap_capture *capture,
						   const struct stacksnap_options *options, int fd)
{
	return public_error(
		snap_pipeline_save((struct snap_capture *)capture, &options->values, fd));
}

API struct stacksnap_error *stacksnap_capture_load(int fd, struct stacksnap_capture **ret)
{
	return public_error(snap_capture_read(fd, (struct snap_capture **)ret));
}

API void stacksnap_capture_destroy(struct stacksnap_capture *capture)
{
	snap_capture_destroy((struct snap_capture *)capture);
}

/* ---- snapshots ---- */

API void stacksnap_snapshot_destroy(struct stacksnap_snapshot *snapshot)
{
	if (!snapshot)
		return;
	snap_snapshot_destroy(snapshot->inner);
	free(snapshot->troubles);
	free(snapshot);
}

static void destroyp(struct stacksnap_snapshot **snapshot)
{
	stacksnap_snapshot_destroy(*snapshot);
}

/* Escaped in the snapshot's arena; NULL without memory. */
static const char *escaped(struct snap_arena *arena, const char *text,
			   const struct snap_options *options)
{
	size_t length = strlen(text);
	char *out = snap_arena_alloc(arena, 4 * length + 1);

	if (out)
		snap_escape(text, length, options->utf8 ? 0 : SNAP_ESCAPE_ASCII, out,
			    4 * length + 1);
	return out;
}

static bool is_named(const struct snap_options *options, pid_t pid)
{
	for (size_t i = 0; i < options->target_count; i++)
		if (options->targets[i].kind == SNAP_TARGET_PID && options->targets[i].pid == pid)
			return true;
	return false;
}

/* Zombies, kernel threads and what exited meanwhile are no loss, unless they were asked for. */
static bool is_notable(const struct snap_options *options, const struct snap_node *node)
{
	switch (node->trouble) {
	case SNAP_TROUBLE_NONE:
		return false;
	case SNAP_TROUBLE_EXITED:
	case SNAP_TROUBLE_ZOMBIE:
	case SNAP_TROUBLE_KERNEL_THREAD:
		return is_named(options, node->pid);
	case SNAP_TROUBLE_NO_SUCH_PROCESS:
	case SNAP_TROUBLE_PERMISSION_DENIED:
	case SNAP_TROUBLE_ALREADY_TRACED:
	case SNAP_TROUBLE_STOP_TIMEOUT:
	case SNAP_TROUBLE_UNSUPPORTED_ARCH:
	case SNAP_TROUBLE_INTERNAL:
		return true;
	}
	return true;
}

static struct snap_error *note_trouble(struct stacksnap_snapshot *snapshot,
				       const struct snap_options *options,
				       const struct snap_node *node)
{
	struct snap_arena *arena = &snapshot->inner->arena;
	const char *message = node->trouble_message;
	struct trouble trouble = { .code = snap_trouble_word(node->trouble), .pid = node->pid };

	if (!message)
		message = snap_arena_printf(arena, "process %d: %s", (int)node->pid, trouble.code);
	trouble.message = message ? escaped(arena, message, options) : NULL;
	if (!trouble.message || !snap_grow_array(snapshot->troubles, snapshot->trouble_capacity,
						 snapshot->trouble_count))
		return snap_error_no_memory();
	snapshot->troubles[snapshot->trouble_count++] = trouble;
	return NULL;
}

struct walk {
	const struct snap_node *node;
	size_t next; /* child */
};

/* What a walk over all processes finds out. */
struct survey {
	size_t shown, hidden; /* processes with their stacks; those that have an error instead */
};

static struct snap_error *visit(struct stacksnap_snapshot *snapshot,
				const struct snap_options *options, bool list,
				const struct snap_node *node, struct survey *survey)
{
	bool shown = node->trouble == SNAP_TROUBLE_NONE && node->type != SNAP_TYPE_DEAD;

	if (list) /* a process that may not be traced is listed all the same */
		shown = node->trouble != SNAP_TROUBLE_NO_SUCH_PROCESS;
	if (shown)
		survey->shown++;
	else
		survey->hidden++;
	if ((!list || !shown) && is_notable(options, node))
		return note_trouble(snapshot, options, node);
	return NULL;
}

/* All processes in the order of the report; a loop, as the depth is the target's to choose. */
static struct snap_error *survey_tree(struct stacksnap_snapshot *snapshot,
				      const struct snap_options *options, bool list,
				      struct survey *survey)
{
	_cleanup_free_ struct walk *path = NULL;
	size_t capacity = 0, depth = 0;
	struct snap_error *err;

	for (size_t i = 0; i < snapshot->inner->root_count; i++) {
		const struct snap_node *enter = snapshot->inner->processes[i];

		while (enter || depth > 0) {
			if (enter) {
				err = visit(snapshot, options, list, enter, survey);
				if (err)
					return err;
				if (!snap_grow_array(path, capacity, depth))
					return snap_error_no_memory();
				path[depth++] = (struct walk){ .node = enter };
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

static enum stacksnap_outcome judge(const struct snap_snapshot *snapshot, bool list,
				    const struct survey *survey)
{
	const struct snap_missing *missing = &snapshot->missing;

	if (survey->shown == 0 && survey->hidden > 0)
		return STACKSNAP_OUTCOME_NOTHING;
	if (list)
		return survey->hidden ? STACKSNAP_OUTCOME_PARTIAL : STACKSNAP_OUTCOME_WHOLE;
	if (missing->threads || missing->processes || missing->modules)
		return STACKSNAP_OUTCOME_PARTIAL;
	return STACKSNAP_OUTCOME_WHOLE;
}

/* Takes over `inner`, also when it fails. */
static struct snap_error *wrap(struct snap_snapshot *inner, const struct snap_options *options,
			       bool list, struct stacksnap_snapshot **ret)
{
	_cleanup_(destroyp) struct stacksnap_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct survey survey = { 0 };
	struct snap_error *err;

	if (!snapshot) {
		snap_snapshot_destroy(inner);
		return snap_error_no_memory();
	}
	snapshot->inner = inner;
	snapshot->warnings =
		snap_arena_new_array(&inner->arena, inner->warning_count + 1, const char *);
	if (!snapshot->warnings)
		return snap_error_no_memory();
	for (size_t i = 0; i < inner->warning_count; i++) {
		snapshot->warnings[i] = escaped(&inner->arena, inner->warnings[i].message, options);
		if (!snapshot->warnings[i])
			return snap_error_no_memory();
	}
	err = survey_tree(snapshot, options, list, &survey);
	if (err)
		return err;
	snapshot->outcome = judge(inner, list, &survey);
	*ret = snap_take_ptr(snapshot);
	return NULL;
}

API struct stacksnap_error *stacksnap_capture_analyze(const struct stacksnap_capture *capture,
						      const struct stacksnap_options *options,
						      struct stacksnap_snapshot **ret)
{
	struct snap_snapshot *inner = NULL;
	struct snap_error *err;

	err = snap_pipeline_analyze((const struct snap_capture *)capture, &options->values, &inner);
	if (err)
		return public_error(err);
	return public_error(wrap(inner, &options->values, false, ret));
}

API struct stacksnap_error *stacksnap_take(const struct stacksnap_options *options,
					   struct stacksnap_snapshot **ret)
{
	struct stacksnap_capture *capture = NULL;
	struct stacksnap_error *err;

	err = stacksnap_capture_take(options, &capture);
	if (err)
		return err;
	err = stacksnap_capture_analyze(capture, options, ret);
	stacksnap_capture_destroy(capture);
	return err;
}

API struct stacksnap_error *stacksnap_list(const struct stacksnap_options *options,
					   struct stacksnap_snapshot **ret)
{
	struct snap_snapshot *inner = NULL;
	struct snap_error *err;

	err = check_targets(&options->values);
	if (!err)
		err = snap_pipeline_list(&options->values, &inner);
	if (err)
		return public_error(err);
	return public_error(wrap(inner, &options->values, true, ret));
}

/* What uname(2) and the clock say: the host of a snapshot that no capture came to. */
static void describe_host(struct snap_snapshot *inner)
{
	struct utsname names;
	struct timespec now;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (uname(&names) == 0) {
		inner->host.name = snap_arena_strdup(&inner->arena, names.nodename);
		inner->host.kernel = snap_arena_strdup(&inner->arena, names.release);
		inner->host.arch = snap_arena_strdup(&inner->arena, names.machine);
	}
	inner->host.cpus = cpus > 0 ? (unsigned)cpus : 0;
	if (clock_gettime(CLOCK_REALTIME, &now) == 0)
		inner->time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

API struct stacksnap_error *stacksnap_snapshot_create_empty(const struct stacksnap_options *options,
							    const char *warning_code,
							    const char *warning_message,
							    struct stacksnap_snapshot **ret)
{
	struct snap_snapshot *inner = snap_snapshot_new();
	struct snap_error *err;
	const char *code;

	if (!inner)
		return public_error(snap_error_no_memory());
	describe_host(inner);
	inner->flat = options->values.flat;
	code = snap_arena_strdup(&inner->arena, warning_code);
	if (code)
		snap_snapshot_warn(inner, code, 0, 0, "%s", warning_message);
	err = wrap(inner, &options->values, false, ret);
	if (!err)
		(*ret)->outcome = STACKSNAP_OUTCOME_NOTHING;
	return public_error(err);
}

/* ---- what a snapshot says ---- */

API struct stacksnap_error *stacksnap_snapshot_render(const struct stacksnap_snapshot *snapshot,
						      const struct stacksnap_options *options,
						      const char *format, FILE *out)
{
	const struct snap_format *found = snap_format_by_name(format);

	if (!found)
		return public_error(
			snap_error_format(SNAP_ERROR_INVALID, "unknown format '%s'", format));
	return public_error(found->render(snapshot->inner, &options->values, out));
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

API enum stacksnap_outcome stacksnap_snapshot_outcome(const struct stacksnap_snapshot *snapshot)
{
	return snapshot->outcome;
}

API int stacksnap_snapshot_warning(const struct stacksnap_snapshot *snapshot, size_t index,
				   const char **code_ret, const char **message_ret, pid_t *pid_ret,
				   pid_t *tid_ret)
{
	const struct snap_warning *warning;

	if (index >= snapshot->inner->warning_count)
		return false;
	warning = &snapshot->inner->warnings[index];
	if (code_ret)
		*code_ret = warning->code;
	if (message_ret)
		*message_ret = snapshot->warnings[index];
	if (pid_ret)
		*pid_ret = warning->pid;
	if (tid_ret)
		*tid_ret = warning->tid;
	return true;
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

API size_t stacksnap_escape(const char *text, size_t length, int ascii, char *out, size_t size)
{
	return snap_escape(text, length, ascii ? SNAP_ESCAPE_ASCII : 0, out, size);
}
