/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Readers of managed runtimes, on recorded images that the input changes (images.h). What is made
 * of them must hold together, as analysis relies on that; by the second byte of the input, who
 * reads the same twice must make the same of it, and analysis and formats must cope with it.
 */
#include "analyze/analyze.h"
#include "images.h"

#include <string.h>

static char *read_image(struct fuzz_image *image)
{
	struct snap_runtime_result *result = NULL;

	fuzz_no_error(recorded_read(&image->recorded, image->runtime, &result));
	if (result)
		fuzz_check_result(image->recorded.process, result);
	return recorded_text(result);
}

static void read_again(struct fuzz_image *image, const char *text)
{
	char *again = read_image(image);

	fuzz_check(strcmp(text, again) == 0, "the same bytes, the same text");
	free(again);
}

/* As threads and tasks among others. */
static void analyze(struct recorded *recorded)
{
	struct snap_file_finder finder = recorded_finder(recorded);
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	struct fuzz_output output;

	snap_options_init(&options);
	fuzz_no_error(snap_analyze(recorded->capture, &options, &finder, &snapshot));
	if (!snapshot)
		return;
	output = fuzz_render("text", snapshot, &options);
	fuzz_check_text(&output);
	fuzz_output_deinit(&output);
	output = fuzz_render("json", snapshot, &options);
	fuzz_check_json(&output, false);
	fuzz_output_deinit(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = { data, data + size };
	struct fuzz_changed changed;
	char *text;

	fuzz_change(&bytes, &changed);
	text = read_image(changed.image);
	if (changed.how % 8 == 1)
		read_again(changed.image, text);
	else if (changed.how % 8 == 2)
		analyze(&changed.image->recorded);
	free(text);
	recorded_forget(&changed.image->recorded);
	fuzz_change_back(&changed);
	return 0;
}
