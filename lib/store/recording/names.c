/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of a log as bytes: see names.h.
 *
 *	MAGIC, number of frames and of names in the log before
 *	number of names; of each the number of its frame, and the frame as it is named
 *	warnings
 *
 * What is read is first decoded into memory of its own; the log changes when all of it is right.
 */
#include "store/recording/names.h"

#include "base/buffer.h"
#include "store/pointers.h"

#include <string.h>

enum {
	MOST_WARNINGS = 1 << 20,
	LEAST_WARNING = 16,
	LEAST_NAME = 41 + 23, /* with an entry */
};

static const uint64_t MAGIC = 0x656d616e70616e73; /* "snapname" */

struct name {
	uint32_t frame;
	struct snap_frame named;
};

struct names {
	uint64_t frame_count, from; /* of the log */
	struct name *names;
	size_t count;
	struct snap_warning *warnings;
	size_t warning_count;
};

static void code_name(struct snap_pointer_codec *to, const struct names *names, size_t index)
{
	struct name *name = &names->names[index];
	const struct name *before = index ? name - 1 : NULL;

	snap_code_u32(&to->codec, &name->frame);
	snap_code_frame(to, &name->named);
	snap_codec_check(&to->codec, name->frame < names->frame_count, "invalid frame reference");
	snap_codec_check(&to->codec, !before || before->frame < name->frame, "frames not sorted");
}

static void code_names(struct snap_pointer_codec *to, struct names *names)
{
	struct snap_codec *codec = &to->codec;
	uint64_t magic = MAGIC, frame_count = names->frame_count, from = names->from;

	snap_code_u64(codec, &magic);
	snap_code_u64(codec, &frame_count);
	snap_code_u64(codec, &from);
	snap_codec_check(codec, magic == MAGIC, "bad magic number");
	snap_codec_check(codec, frame_count == names->frame_count && from == names->from,
			 "they belong to another log");
	snap_code_array(codec, &names->names, &names->count, SNAP_LOG_MAX_FRAMES,
			sizeof(*names->names), LEAST_NAME);
	for (size_t i = 0; i < names->count && !codec->problem; i++)
		code_name(to, names, i);
	snap_code_array(codec, &names->warnings, &names->warning_count, MOST_WARNINGS,
			sizeof(*names->warnings), LEAST_WARNING);
	for (size_t i = 0; i < names->warning_count; i++)
		snap_code_warning(to, &names->warnings[i]);
	snap_codec_check(codec, codec->position == codec->size, "trailing data");
}

/* ---- writing ---- */

/* The new names, gathered; `names->names` is malloc'ed. False without memory. */
static bool gather_names(const struct snap_log *log, size_t from, size_t warnings_from,
			 struct names *names)
{
	*names = (struct names){ .frame_count = log->frame_count, .from = from };
	for (size_t i = 0; i < log->frame_count; i++)
		names->count += log->frames[i].name > from;
	names->names = malloc((names->count + 1) * sizeof(*names->names));
	if (!names->names)
		return false;
	names->count = 0;
	for (size_t i = 0; i < log->frame_count; i++) {
		uint32_t name = log->frames[i].name;

		if (name > from)
			names->names[names->count++] =
				(struct name){ (uint32_t)i, log->names[name - 1] };
	}
	names->warnings = log->capture->warnings + warnings_from;
	names->warning_count = log->capture->warning_count - warnings_from;
	return true;
}

uint64_t snap_log_names_size(const struct snap_log *log, size_t from, size_t warnings_from)
{
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec.mode = SNAP_CODEC_COUNT
	};
	struct names names;

	if (!gather_names(log, from, warnings_from, &names))
		return UINT64_MAX;
	code_names(&to, &names);
	free(names.names);
	return to.no_memory ? UINT64_MAX : to.codec.position;
}

struct stacksnap_error *snap_log_names_write(const struct snap_log *log, size_t from,
					     size_t warnings_from, uint8_t *bytes)
{
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec.mode = SNAP_CODEC_WRITE, .codec.memory = bytes
	};
	struct names names;

	if (!gather_names(log, from, warnings_from, &names))
		return snap_error_no_memory();
	code_names(&to, &names);
	free(names.names);
	return to.no_memory ? snap_error_no_memory() : NULL;
}

/* ---- reading ---- */

/* All texts and entries are the log's then. */
static struct stacksnap_error *add_names(struct snap_log *log, struct names *names)
{
	if (!snap_reserve_array(log->names, log->name_capacity, log->name_count + names->count))
		return snap_error_no_memory();
	for (size_t i = 0; i < names->count; i++)
		if (!snap_frame_copy(&log->strings, &names->names[i].named,
				     &log->names[log->name_count + i]))
			return snap_error_no_memory();
	for (size_t i = 0; i < names->count; i++)
		log->frames[names->names[i].frame].name = (uint32_t)++log->name_count;
	for (size_t i = 0; i < names->warning_count; i++) {
		const struct snap_warning *warning = &names->warnings[i];
		/* Warnings outlive what a ring forgets. */
		const char *code = snap_arena_strdup(&log->capture->arena, warning->code);

		if (code)
			snap_capture_warn(log->capture, code, warning->pid, warning->tid, "%s",
					  warning->message);
	}
	return NULL;
}

static struct stacksnap_error *damaged_names(const char *how)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "the names are damaged: %s", how);
}

static struct stacksnap_error *decode_names(const struct snap_log *log,
					    struct snap_pointer_codec *to, struct names *names)
{
	*names = (struct names){ .frame_count = log->frame_count, .from = log->name_count };
	code_names(to, names);
	if (to->no_memory)
		return snap_error_no_memory();
	if (to->codec.problem)
		return damaged_names(to->codec.problem);
	if (log->name_count + names->count > SNAP_LOG_MAX_FRAMES)
		return damaged_names("too many names");
	for (size_t i = 0; i < names->count; i++)
		if (log->frames[names->names[i].frame].name)
			return damaged_names("frame named twice");
	return NULL;
}

struct stacksnap_error *snap_log_names_read(struct snap_log *log, const uint8_t *bytes,
					    uint64_t size)
{
	_cleanup_(snap_arena_deinit) struct snap_arena arena;
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec = { .mode = SNAP_CODEC_READ, .bytes = bytes, .size = size, .arena = &arena },
	};
	struct names names;
	struct stacksnap_error *err;

	snap_arena_init(&arena);
	err = decode_names(log, &to, &names);
	return err ? err : add_names(log, &names);
}
