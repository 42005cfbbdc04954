/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots in JSON, which need not be ours: what is taken as one is rendered, and what was
 * rendered is read back as the same.
 */
#include "fuzz.h"
#include "store/json/read.h"

#include <string.h>

static struct snap_snapshot *read_back(const char *bytes, size_t size)
{
	struct snap_snapshot *snapshot = NULL;
	int fd = fuzz_file(bytes, size);

	fuzz_no_error(snap_snapshot_read_json(fd, &snapshot));
	close(fd);
	return snapshot;
}

/* The trees of its stacks, in both directions, of each process and of all together. */
static void print_calls(const struct snap_snapshot *snapshot, struct snap_options *options)
{
	options->call_tree = true;
	for (unsigned i = 0; i < 4; i++) {
		struct fuzz_output text, json;

		options->reverse = i & 1;
		options->together = i & 2;
		text = fuzz_render("text", snapshot, options);
		fuzz_check_text(&text);
		fuzz_output_deinit(&text);
		json = fuzz_render("json", snapshot, options);
		fuzz_check_json(&json, false);
		fuzz_output_deinit(&json);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL, *back = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_(fuzz_output_deinit) struct fuzz_output first = { 0 }, second = { 0 },
							 text = { 0 }, list = { 0 },
							 together = { 0 };
	_cleanup_fd_ int fd = fuzz_file(data, size);

	snap_options_init(&options);
	options.utf8 = true;
	options.explain = SNAP_EXPLAIN_ALL;
	if (snap_error_ignore(snap_snapshot_read_json(fd, &snapshot)))
		return 0;
	text = fuzz_render("text", snapshot, &options);
	fuzz_check_text(&text);
	first = fuzz_render("json", snapshot, &options);
	fuzz_check_json(&first, false);
	back = read_back(first.bytes, first.size);
	if (!back)
		return 0;
	second = fuzz_render("json", back, &options);
	options.together = true;
	list = fuzz_render("text", back, &options);
	fuzz_check_text(&list);
	together = fuzz_render("json", back, &options);
	fuzz_check_json(&together, false);
	fuzz_check(first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0,
		   "what was read back is rendered as the same");
	print_calls(back, &options);
	return 0;
}
