/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures: read, analyzed without any file but those inside, and rendered. Checksums are made
 * right first, else nothing behind them would ever be reached; the first byte of the input says
 * how much of that is done, and which of the options are on.
 */
#include "analyze/analyze.h"
#include "base/table.h"
#include "fuzz.h"
#include "model/snapshot.h"
#include "roles/broker.h"
#include "store/capture/file.h"
#include "store/codec.h"

#include <string.h>

enum { HEADER = 32, SECTION_HEADER = 16, SECTION_END = 16 };

/* See the head of store/capture/file.c. */
static void repair(uint8_t *bytes, size_t size)
{
	uint64_t hash, length;

	if (size < HEADER)
		return;
	hash = snap_hash_bytes(bytes, 24, 0);
	memcpy(bytes + 24, &hash, sizeof(hash));
	for (size_t at = HEADER; at < size && size - at >= SECTION_HEADER + SECTION_END;) {
		uint8_t *payload = bytes + at + SECTION_HEADER;
		size_t left = size - at - SECTION_HEADER - SECTION_END, whole;

		memcpy(&length, bytes + at + 8, sizeof(length));
		if (length > left)
			return;
		whole = (size_t)(length + 15) & ~(size_t)15;
		if (whole > left)
			return;
		memset(payload + length, 0, whole - length);
		hash = snap_hash_bytes(bytes + at, SECTION_HEADER,
				       snap_codec_hash(payload, length));
		memcpy(payload + whole, &hash, sizeof(hash));
		memset(payload + whole + 8, 0, 8);
		at += SECTION_HEADER + whole + SECTION_END;
	}
}

static void analyze(const struct snap_capture *capture, struct snap_options *options)
{
	struct snap_file_finder finder = snap_no_files();
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct fuzz_output text, json;

	/* Nothing but a lack of memory is a reason for none. */
	fuzz_no_error(snap_analyze(capture, options, &finder, &snapshot));
	if (!snapshot)
		return;
	text = fuzz_render("text", snapshot, options);
	fuzz_check_text(&text);
	fuzz_output_deinit(&text);
	json = fuzz_render("json", snapshot, options);
	fuzz_check_json(&json, false);
	fuzz_output_deinit(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_fd_ int fd = -1;
	uint8_t *copy;

	snap_options_init(&options);
	if (size < 1 || !(copy = malloc(size)))
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (!(data[0] & 1))
		repair(copy, size - 1);
	if (data[0] & 2)
		options.flat = options.utf8 = options.show_module = options.show_build_id = true;
	if (data[0] & 4)
		options.group_by |= SNAP_GROUP_TID | SNAP_GROUP_WCHAN;
	if (data[0] & 8)
		options.verbose = 3;
	if (data[0] & 16)
		options.engine = SNAP_ENGINE_LIBUNWIND;
	if (data[0] & 32)
		options.no_system = options.no_idle = true;
	fd = fuzz_file(copy, size - 1);
	free(copy);
	if (!snap_error_ignore(snap_capture_read(fd, &capture)))
		analyze(capture, &options);
	return 0;
}
