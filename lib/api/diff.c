/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public API's differences: see stacksnap.h. Knows nothing of exit statuses. */
#include "api/api.h"

#include "pipeline.h"

struct stacksnap_diff {
	struct snap_pipeline_diff inner;
};

API void stacksnap_diff_destroy(struct stacksnap_diff *diff)
{
	if (!diff)
		return;
	snap_pipeline_diff_deinit(&diff->inner);
	free(diff);
}

static void destroy_diff(struct stacksnap_diff **diff)
{
	stacksnap_diff_destroy(*diff);
}

static struct snap_pipeline_look inner_of(const struct stacksnap_look *look)
{
	return (struct snap_pipeline_look){
		.snapshot = look->snapshot ? snap_api_snapshot(look->snapshot) : NULL,
		.recording = look->recording ? snap_api_recording(look->recording) : NULL,
	};
}

API struct stacksnap_error *stacksnap_diff_create(const struct stacksnap_look *before,
						  const struct stacksnap_look *after,
						  const struct stacksnap_options *options,
						  struct stacksnap_diff **ret)
{
	_cleanup_(destroy_diff) struct stacksnap_diff *diff = calloc(1, sizeof(*diff));
	const struct snap_pipeline_look looks[] = { inner_of(before), inner_of(after) };

	SNAP_TRY(snap_no_memory_unless(diff));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(looks); i++)
		if (!looks[i].snapshot == !looks[i].recording)
			return snap_error_format(SNAP_ERROR_INVALID,
						 "a look is either a snapshot or a recording");
	SNAP_TRY(snap_pipeline_diff(&looks[0], &looks[1], &options->values, &diff->inner));
	*ret = snap_take_ptr(diff);
	return NULL;
}

API struct stacksnap_error *stacksnap_diff_create_empty(const char *warning_code,
							const char *warning_message,
							struct stacksnap_diff **ret)
{
	_cleanup_(destroy_diff) struct stacksnap_diff *diff = calloc(1, sizeof(*diff));
	const char *code;

	SNAP_TRY(snap_no_memory_unless(diff));
	diff->inner.diff = snap_diff_new();
	SNAP_TRY(snap_no_memory_unless(diff->inner.diff));
	code = snap_arena_strdup(&diff->inner.diff->arena, warning_code);
	if (code)
		snap_diff_warn(diff->inner.diff, code, "%s", warning_message);
	*ret = snap_take_ptr(diff);
	return NULL;
}

API int stacksnap_diff_differs(const struct stacksnap_diff *diff)
{
	return snap_diff_differs(diff->inner.diff);
}

API struct stacksnap_error *stacksnap_diff_render(const struct stacksnap_diff *diff,
						  const struct stacksnap_options *options,
						  const char *format, FILE *out)
{
	return snap_pipeline_render_diff(diff->inner.diff, &options->values, format, out);
}
