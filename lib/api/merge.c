/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public API's merger: see stacksnap.h. */
#include "api/api.h"

#include "merge/input.h"
#include "pipeline.h"

#include <string.h>

struct stacksnap_merger {
	struct snap_merge_input input;
};

API struct stacksnap_error *stacksnap_merger_create(const struct stacksnap_options *options,
						    struct stacksnap_merger **ret)
{
	_cleanup_free_ struct stacksnap_merger *merger = calloc(1, sizeof(*merger));

	if (merger)
		merger->input.merger = snap_merger_create();
	SNAP_TRY(snap_no_memory_unless(merger && merger->input.merger));
	merger->input.options = &options->values;
	*ret = snap_take_ptr(merger);
	return NULL;
}

API void stacksnap_merger_destroy(struct stacksnap_merger *merger)
{
	if (!merger)
		return;
	snap_merger_destroy(merger->input.merger);
	free(merger);
}

API struct stacksnap_error *stacksnap_merger_add(struct stacksnap_merger *merger, int fd,
						 const char *name,
						 void (*tell)(void *context, const char *line),
						 void *context)
{
	merger->input.tell = tell;
	merger->input.context = context;
	return snap_pipeline_merge(&merger->input, fd, name);
}

API enum stacksnap_outcome stacksnap_merger_outcome(const struct stacksnap_merger *merger)
{
	if (merger->input.taken == 0)
		return STACKSNAP_OUTCOME_NOTHING;
	return merger->input.skipped ? STACKSNAP_OUTCOME_PARTIAL : STACKSNAP_OUTCOME_WHOLE;
}

API struct stacksnap_error *stacksnap_merger_render(const struct stacksnap_merger *merger,
						    const char *format, FILE *out)
{
	return snap_pipeline_render_merged(merger->input.merger, merger->input.options, format,
					   out);
}

/* A text at `at`, and blanks before it; NULL: another one is there. */
static const char *pass(const char *at, const char *end, const char *text)
{
	size_t length = strlen(text);

	while (at && at < end && memchr(" \t\r\n", *at, 4))
		at++;
	return at && (size_t)(end - at) >= length && memcmp(at, text, length) == 0 ? at + length
										   : NULL;
}

API int stacksnap_file_is_merged(const void *bytes, size_t size)
{
	const char *end = (const char *)bytes + size, *at = pass(bytes, end, "{");

	at = pass(pass(at, end, "\"schema\""), end, ":");
	return pass(at, end, "\"stacksnap.merged\"") != NULL;
}
