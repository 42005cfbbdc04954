/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures: read, analyzed without any file but those inside, and rendered. Checksums are made
 * right first, else nothing behind them would ever be reached; the first byte of the input says
 * how much of that is done, and which of the options are on.
 *
 * What a lock is, is known by names in the C library. So one bit gives that of this process to
 * whatever has its name: seeds that were taken on this machine fit it.
 */
#include "analyze/analyze.h"
#include "base/table.h"
#include "fuzz.h"
#include "model/snapshot.h"
#include "roles/broker.h"
#include "store/capture/file.h"
#include "store/codec.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
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

static struct stacksnap_error *find_libc(void *context, const struct snap_file_request *request,
					 int *fd_ret)
{
	static const char name[] = "/libc.so.6";
	const char *path = request->process->maps[request->map].path;
	size_t length = path ? strlen(path) : 0;
	Dl_info own;

	(void)context;
	if (request->kind != SNAP_FILE_MODULE || request->attempt > 0 ||
	    length < sizeof(name) - 1 || strcmp(path + length - (sizeof(name) - 1), name) != 0 ||
	    !dladdr((void *)gnu_get_libc_version, &own))
		return snap_error_not_found();
	*fd_ret = open(own.dli_fname, O_RDONLY | O_CLOEXEC);
	fuzz_check(*fd_ret >= 0, "the C library has a file");
	return NULL;
}

static void analyze(const struct snap_capture *capture, const struct snap_options *options,
		    const struct snap_file_finder *finder)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct fuzz_output text, json;

	/* Nothing but a lack of memory is a reason for none. */
	fuzz_no_error(snap_analyze(capture, options, finder, &snapshot));
	if (!snapshot)
		return;
	text = fuzz_render("text", snapshot, options);
	fuzz_check_text(&text);
	fuzz_output_deinit(&text);
	json = fuzz_render("json", snapshot, options);
	fuzz_check_json(&json, false);
	fuzz_output_deinit(&json);
}

static void set_options(uint8_t bits, struct snap_options *options)
{
	if (bits & 2)
		options->flat = options->utf8 = options->show_module = options->show_build_id =
			true;
	if (bits & 4)
		options->group_by |= SNAP_GROUP_TID | SNAP_GROUP_WCHAN;
	if (bits & 8)
		options->verbose = 3;
	if (bits & 16)
		options->engine = SNAP_ENGINE_LIBUNWIND;
	if (bits & 32)
		options->no_system = options->no_idle = true;
	if (bits & 64) {
		options->explain = SNAP_EXPLAIN_ALL;
		options->group_by |= SNAP_GROUP_WAIT;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	struct snap_file_finder finder = snap_no_files();
	_cleanup_fd_ int fd = -1;
	uint8_t *copy;

	snap_options_init(&options);
	if (size < 1 || !(copy = malloc(size)))
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (!(data[0] & 1))
		repair(copy, size - 1);
	set_options(data[0], &options);
	if (data[0] & 128)
		finder.find = find_libc;
	fd = fuzz_file(copy, size - 1);
	free(copy);
	if (!snap_error_ignore(snap_capture_read(fd, &capture)))
		analyze(capture, &options, &finder);
	return 0;
}
