/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public API over the pipeline: see stacksnap.h.
 *
 * Errors, options and captures are the inner ones under their public names. Snapshots are in
 * snapshot.c. Knows nothing of terminals, files or exit statuses.
 */
#include "api/api.h"

#include "api/options.h"
#include "base/clock.h"
#include "base/escape.h"
#include "pipeline.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

static_assert((int)STACKSNAP_ERROR_OTHER == (int)SNAP_ERROR_OTHER, "error codes are the same");
static_assert((int)STACKSNAP_ERROR_CRASHED == (int)SNAP_ERROR_CRASHED, "error codes are the same");

API const char *stacksnap_version(void)
{
	return SNAP_VERSION;
}

/* ---- errors ---- */

API enum stacksnap_error_code stacksnap_error_code(const struct stacksnap_error *error)
{
	return (enum stacksnap_error_code)snap_error_code(error);
}

API const char *stacksnap_error_word(const struct stacksnap_error *error)
{
	static const char *const words[] = {
		[SNAP_ERROR_NO_MEMORY] = "no_memory", [SNAP_ERROR_NOT_FOUND] = "not_found",
		[SNAP_ERROR_CANCELLED] = "cancelled", [SNAP_ERROR_INVALID] = "invalid",
		[SNAP_ERROR_FORMAT] = "format",       [SNAP_ERROR_PERMISSION] = "permission_denied",
		[SNAP_ERROR_TIMEOUT] = "timeout",     [SNAP_ERROR_CRASHED] = "crashed",
	};

	return words[snap_error_code(error)] ?: "internal";
}

API int stacksnap_error_errno(const struct stacksnap_error *error)
{
	return snap_error_errno(error);
}

API const char *stacksnap_error_message(const struct stacksnap_error *error)
{
	return snap_error_message(error);
}

API void stacksnap_error_destroy(struct stacksnap_error *error)
{
	snap_error_destroy(error);
}

/* ---- options ---- */

API struct stacksnap_error *stacksnap_options_create(struct stacksnap_options **ret)
{
	struct stacksnap_options *options = calloc(1, sizeof(*options));

	SNAP_TRY(snap_no_memory_unless(options));
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
	return snap_options_set(&options->values, name, value);
}

API const char *stacksnap_options_value(const char *name, size_t index)
{
	return snap_options_value(name, index);
}

API void stacksnap_options_set_cancel(struct stacksnap_options *options, const volatile int *flag)
{
	options->values.cancel = flag;
}

API unsigned stacksnap_options_timeout_ms(const struct stacksnap_options *options)
{
	const struct snap_options *values = &options->values;
	int64_t all_ns =
		values->again_ns ? 2 * values->timeout_ns + values->again_ns : values->timeout_ns;

	return all_ns / SNAP_NS_PER_MS < UINT_MAX ? (unsigned)(all_ns / SNAP_NS_PER_MS) : UINT_MAX;
}

API void stacksnap_options_set_progress(struct stacksnap_options *options,
					void (*progress)(void *context, const char *text),
					void *context)
{
	options->values.progress = progress;
	options->values.progress_context = context;
}

API void stacksnap_options_set_symbol_packages(struct stacksnap_options *options,
					       const char *(*find)(void *context,
								   const char *build_id),
					       void *context)
{
	options->values.symbol_package = find;
	options->values.symbol_package_context = context;
}

struct stacksnap_error *snap_api_check_targets(const struct snap_options *options)
{
	if (options->target_count)
		return NULL;
	return snap_error_format(SNAP_ERROR_INVALID, "no target: give a process id, or see --name, "
						     "--unit, --cgroup, --container and --all");
}

const char **snap_api_messages(struct snap_arena *arena, const struct snap_warning *warnings,
			       size_t count, const struct snap_options *options)
{
	const char **messages = snap_arena_new_array(arena, count + 1, const char *);

	for (size_t i = 0; messages && i < count; i++) {
		messages[i] = snap_api_escaped(arena, warnings[i].message, options);
		if (!messages[i])
			return NULL;
	}
	return messages;
}

const char *snap_api_lack(unsigned lacks, size_t index)
{
	for (unsigned bit = 0; lacks >> bit; bit++)
		if ((lacks >> bit & 1) && index-- == 0)
			return snap_wait_lack_text(bit);
	return NULL;
}

int snap_api_tell(const struct snap_warning *warning, const char **code_ret, pid_t *pid_ret,
		  pid_t *tid_ret)
{
	if (code_ret)
		*code_ret = warning->code;
	if (pid_ret)
		*pid_ret = warning->pid;
	if (tid_ret)
		*tid_ret = warning->tid;
	return true;
}

/* ---- captures ---- */

/* Takes over the collector. */
static struct stacksnap_error *wrap_capture(struct snap_collector *collector,
					    struct stacksnap_capture **ret)
{
	struct stacksnap_capture *capture = calloc(1, sizeof(*capture));

	if (!capture) {
		snap_collector_destroy(collector);
		return snap_error_no_memory();
	}
	capture->collector = collector;
	*ret = capture;
	return NULL;
}

API struct stacksnap_error *stacksnap_capture_take(const struct stacksnap_options *options,
						   struct stacksnap_capture **ret)
{
	struct snap_collector *collector = NULL;

	SNAP_TRY(snap_api_check_targets(&options->values));
	SNAP_TRY(snap_pipeline_capture(&options->values, &collector));
	return wrap_capture(collector, ret);
}

API struct stacksnap_error *stacksnap_capture_save(struct stacksnap_capture *capture,
						   const struct stacksnap_options *options, int fd)
{
	return snap_collector_save(capture->collector, &options->values, fd);
}

API unsigned long long stacksnap_capture_memory_bytes(const struct stacksnap_capture *capture)
{
	return snap_collector_memory_bytes(capture->collector);
}

API struct stacksnap_error *stacksnap_capture_load(int fd, struct stacksnap_capture **ret)
{
	struct snap_collector *collector = NULL;

	SNAP_TRY(snap_pipeline_load_capture(fd, &collector));
	return wrap_capture(collector, ret);
}

API struct stacksnap_error *stacksnap_core_load(int fd, const struct stacksnap_options *options,
						struct stacksnap_capture **ret)
{
	struct snap_collector *collector = NULL;

	SNAP_TRY(snap_pipeline_load_core(fd, &options->values, &collector));
	return wrap_capture(collector, ret);
}

API void stacksnap_capture_destroy(struct stacksnap_capture *capture)
{
	if (!capture)
		return;
	snap_collector_destroy(capture->collector);
	free(capture);
}

/* ---- text ---- */

const char *snap_api_escaped(struct snap_arena *arena, const char *text,
			     const struct snap_options *options)
{
	size_t length = strlen(text), size = 4 * length + 1;
	char *out = snap_arena_alloc(arena, size);

	if (out)
		snap_escape(text, length, options->utf8 ? 0 : SNAP_ESCAPE_ASCII, out, size);
	return out;
}

API size_t stacksnap_escape(const char *text, size_t length, int ascii, char *out, size_t size)
{
	return snap_escape(text, length, ascii ? SNAP_ESCAPE_ASCII : 0, out, size);
}
