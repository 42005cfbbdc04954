/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What changed between two documents that need not be ours, which stand behind each other with a
 * NUL between: whatever they say, a difference is printed, and the same two are no difference.
 */
#include "diff/diff.h"
#include "fuzz.h"
#include "render/diff/diff.h"
#include "store/json/read.h"

#include <string.h>

static struct snap_snapshot *read_document(const uint8_t *data, size_t size)
{
	struct snap_snapshot *snapshot = NULL;
	_cleanup_fd_ int fd = fuzz_file(data, size);

	return snap_error_ignore(snap_snapshot_read_json(fd, &snapshot)) ? NULL : snapshot;
}

static struct fuzz_output print(const struct snap_diff *diff, const struct snap_options *options,
				bool json)
{
	struct fuzz_output output = { 0 };
	FILE *out = open_memstream(&output.bytes, &output.size);

	if (!out)
		return output;
	fuzz_no_error(json ? snap_render_diff_json(diff, options, out)
			   : snap_render_diff_text(diff, options, out));
	fclose(out);
	return output;
}

static void check_diff(const struct snap_snapshot *before, const struct snap_snapshot *after,
		       bool is_same)
{
	const struct snap_diff_look looks[] = { { .snapshot = before }, { .snapshot = after } };
	_cleanup_(snap_diff_destroyp) struct snap_diff *diff = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_(fuzz_output_deinit) struct fuzz_output text = { 0 }, json = { 0 };

	snap_options_init(&options);
	options.utf8 = true;
	fuzz_no_error(snap_diff_make(&looks[0], &looks[1], &diff));
	if (!diff)
		return;
	fuzz_check(!is_same || !snap_diff_differs(diff), "a document does not differ from itself");
	text = print(diff, &options, false);
	fuzz_check_text(&text);
	json = print(diff, &options, true);
	fuzz_check_json(&json, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *middle = memchr(data, '\0', size);
	size_t first = middle ? (size_t)(middle - data) : size;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *before = read_document(data, first);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *after =
		middle ? read_document(middle + 1, size - first - 1) : NULL;

	if (before)
		check_diff(before, before, true);
	if (before && after) {
		check_diff(before, after, false);
		check_diff(after, before, false);
		fuzz_no_error(snap_diff_mark_stuck(before, after));
	}
	return 0;
}
