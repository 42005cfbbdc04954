/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Documents to be merged. What the reader of tokens takes as JSON the tree reader takes, too, and
 * the other way round; what was merged is merged again to the same bytes.
 */
#include "fuzz.h"
#include "merge/input.h"
#include "render/merged/merged.h"

#include <jansson.h>
#include <string.h>

static bool scans(const char *text, size_t size)
{
	struct snap_json_scan *scan = calloc(1, sizeof(*scan));
	enum snap_json_token token;
	bool whole;

	if (!scan)
		abort();
	snap_json_scan_begin(scan, text);
	do
		token = snap_json_scan_next(scan);
	while (token != SNAP_JSON_DONE && token != SNAP_JSON_BROKEN);
	whole = token == SNAP_JSON_DONE && scan->at + strspn(scan->at, " \t\r\n") == text + size;
	snap_json_scan_deinit(scan);
	free(scan);
	return whole;
}

static void check_same_verdict(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	fuzz_check(scans(text, size) == (root != NULL), "both readers take the same");
	json_decref(root);
	free(text);
}

static char *render(const struct snap_merger *merger, const struct snap_options *options,
		    const char *format, size_t *size_ret)
{
	_cleanup_(snap_merged_destroyp) struct snap_merged *merged = NULL;
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, size_ret);

	fuzz_no_error(snap_merger_finish(merger, &merged));
	fuzz_no_error(snap_render_merged(merged, options, format, out));
	fclose(out);
	return bytes;
}

/* What comes of the bytes, malloc'ed. */
static char *merge(const void *data, size_t size, const struct snap_options *options,
		   size_t *size_ret, char **text_ret)
{
	struct snap_merge_input input = { .merger = snap_merger_create(), .options = options };
	_cleanup_fd_ int fd = fuzz_file(data, size);
	size_t text_size;
	char *bytes;

	fuzz_no_error(snap_merge_input(&input, fd, "input"));
	bytes = render(input.merger, options, "json", size_ret);
	*text_ret = render(input.merger, options, "text", &text_size);
	snap_merger_destroy(input.merger);
	return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_free_ char *first = NULL, *second = NULL, *text = NULL, *again = NULL;
	size_t first_size = 0, second_size = 0;

	check_same_verdict(data, size);
	snap_options_init(&options);
	options.utf8 = true;
	first = merge(data, size, &options, &first_size, &text);
	second = merge(first, first_size, &options, &second_size, &again);
	if (strstr(first, "\"document_count\": 0"))
		return 0;
	fuzz_check(first_size == second_size && memcmp(first, second, first_size) == 0,
		   "what was merged is merged as the same");
	return 0;
}
