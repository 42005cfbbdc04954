/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recordings: read, named and explained without any file, sliced, and rendered in the format that the first byte
 * says. Checksums are made right first, as in fuzz_capture.c.
 */
#include "analyze/log/log.h"
#include "fuzz.h"
#include "roles/broker.h"
#include "store/log/log.h"
#include "store/recording/file.h"
#include "store/recording/internal.h"

#include <string.h>

static void repair(uint8_t *bytes, size_t size)
{
	struct snap_log_chunk chunk;

	for (size_t at = SNAP_LOG_MAGIC_SIZE; at < size && size - at >= sizeof(chunk);) {
		memcpy(&chunk, bytes + at, sizeof(chunk));
		if (chunk.length > size - at - sizeof(chunk))
			return;
		chunk = snap_log_chunk_make(chunk.type, chunk.sequence, bytes + at + sizeof(chunk),
					    chunk.length);
		memcpy(bytes + at, &chunk, sizeof(chunk));
		at += sizeof(chunk) + chunk.length;
	}
}

static struct stacksnap_error *keep_wait(void *context, uint32_t stack, uint32_t object,
					 const struct snap_wait *wait)
{
	return snap_log_explain(context, stack, object, wait);
}

static struct stacksnap_error *explain(struct snap_log *log, const struct snap_options *options,
				       const struct snap_file_finder *finder)
{
	_cleanup_free_ struct snap_log_explained *pairs = NULL;
	size_t count = 0;
	struct stacksnap_error *err = snap_log_waits_left(log, &pairs, &count);

	return err ? err
		   : snap_analyze_log_waits(log, options, finder, pairs, count, keep_wait, log);
}

static void render(const struct snap_recording *recording, unsigned which,
		   const struct snap_options *options)
{
	const struct snap_format *format = snap_formats;
	struct fuzz_output output;

	for (unsigned i = 0; i < which % 10 && format[1].name; i++)
		format++;
	output = fuzz_render_recording(format->name, recording, options);
	fuzz_check_format(format, &output);
	fuzz_output_deinit(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	_cleanup_(snap_log_destroyp) struct snap_log *log = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	struct snap_file_finder finder = snap_no_files();
	_cleanup_fd_ int fd = -1;
	uint8_t *copy;

	snap_options_init(&options);
	if (size < 2 || !(copy = malloc(size)))
		return 0;
	memcpy(copy, data + 2, size - 2);
	if (!(data[1] & 1))
		repair(copy, size - 2);
	fd = fuzz_file(copy, size - 2);
	free(copy);
	if (data[1] & 2)
		options.from = (struct snap_moment){ SNAP_MOMENT_BEFORE_END, 100000000 };
	if (data[1] & 4)
		options.group_by |= SNAP_GROUP_TID;
	if (snap_error_ignore(snap_log_read(fd, &log)) ||
	    snap_error_ignore(snap_analyze_log_names(log, &options, &finder)) ||
	    snap_error_ignore(explain(log, &options, &finder)) ||
	    snap_error_ignore(snap_analyze_log(log, &options, &recording)))
		return 0;
	render(recording, data[0], &options);
	return 0;
}
