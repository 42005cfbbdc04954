/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A core's headers and notes, read by a parser: see core.h. The parser leaves a capture without
 * stacks and a list of segments; one description serves both sides.
 */
#include "roles/core/core.h"

#include "roles/parser.h"
#include "store/capture/model.h"

#include <sys/mman.h>

enum { LEAST_SEGMENT = 32 };

static void code_segment(struct snap_codec *codec, struct snap_core_segment *segment,
			 const struct snap_core_segment *before)
{
	uint64_t end;

	snap_code_u64(codec, &segment->address);
	snap_code_u64(codec, &segment->size);
	snap_code_u64(codec, &segment->offset);
	snap_code_u64(codec, &segment->file_size);
	snap_codec_check(codec, segment->size && segment->file_size <= segment->size,
			 "invalid segment");
	snap_codec_check(codec,
			 !__builtin_add_overflow(segment->address, segment->size, &end) &&
				 !__builtin_add_overflow(segment->offset, segment->file_size, &end),
			 "segment too long");
	snap_codec_check(codec, !before || before->address + before->size <= segment->address,
			 "segments not sorted");
}

static void code_core(struct snap_codec *codec, struct snap_core *core)
{
	snap_code_bool(codec, &core->truncated);
	snap_code_bool(codec, &core->threads_cut);
	snap_code_array(codec, &core->segments, &core->segment_count, SNAP_MAX_MAPS,
			sizeof(*core->segments), LEAST_SEGMENT);
	for (size_t i = 0; i < core->segment_count && !codec->problem; i++)
		code_segment(codec, &core->segments[i], i ? &core->segments[i - 1] : NULL);
	snap_code_capture(codec, core->capture);
	snap_code_process(codec, core->capture, 0);
}

/* ---- in the parser ---- */

static struct stacksnap_error *parse_core_headers(void *context _unused_,
						  struct snap_parser_job *job)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	struct snap_codec codec = { .mode = SNAP_CODEC_WRITE,
				    .memory = job->out,
				    .memory_size = job->capacity };

	SNAP_TRY(snap_core_parse(job->inputs[0], &core));
	code_core(&codec, &core);
	if (codec.position > job->capacity)
		return snap_error_format(SNAP_ERROR_OTHER, "the core has too many threads");
	job->size = codec.position;
	return NULL;
}

/* ---- in its maker ---- */

/* The mapping becomes the capture's. */
static struct stacksnap_error *take_core_answer(const uint8_t *bytes, uint64_t size,
						struct snap_core *ret)
{
	struct snap_codec codec = { .mode = SNAP_CODEC_READ, .bytes = bytes, .size = size };

	ret->capture = snap_capture_new();
	if (!ret->capture) {
		munmap((void *)(uintptr_t)bytes, size);
		return snap_error_no_memory();
	}
	ret->capture->outside = (void *)(uintptr_t)bytes;
	ret->capture->outside_size = size;
	codec.arena = &ret->capture->arena;
	ret->capture->processes = snap_arena_new(codec.arena, struct snap_process);
	SNAP_TRY(snap_no_memory_unless(ret->capture->processes));
	ret->capture->process_count = 1;
	code_core(&codec, ret);
	snap_codec_check(&codec, codec.position == size, "trailing data");
	SNAP_TRY(snap_no_memory_unless(!snap_codec_lacks_memory(&codec)));
	return codec.problem ? snap_error_format(SNAP_ERROR_CRASHED,
						 "the process that reads the core left an invalid "
						 "result")
			     : NULL;
}

struct stacksnap_error *snap_core_read_in_sandbox(int fd, const struct snap_options *options,
						  int64_t deadline_ns, struct snap_core *ret)
{
	const struct snap_parser_start start = {
		.options = options,
		.work = parse_core_headers,
		.deadline_ns = deadline_ns,
	};
	const uint8_t *bytes;
	uint64_t size;

	return snap_parser_run_once(&start, fd, &bytes, &size)
		       ?: take_core_answer(bytes, size, ret);
}
