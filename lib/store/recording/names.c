/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of a log, and the meaning of its waits, as bytes: see names.h.
 *
 *	MAGIC, number of frames, names and explained pairs in the log before
 *	number of names; of each the number of its frame, and the frame as it is named
 *	warnings
 *	number of pairs; of each its stack and object, and the wait
 *
 * The bytes are first decoded into memory of their own; the log changes when all of them are right.
 */
#include "store/recording/names.h"

#include "base/buffer.h"
#include "store/log/log.h"
#include "store/pointers.h"
#include "store/snapshot/waits.h"

#include <string.h>

enum {
	MOST_WARNINGS = 1 << 20,
	LEAST_WARNING = 16,
	LEAST_NAME = 41 + 23, /* with an entry */
	LEAST_PAIR = 4 + 4 + 1,
};

static const uint64_t MAGIC = 0x656d616e70616e73; /* "snapname" */

struct name {
	uint32_t frame;
	struct snap_frame named;
};

struct pair {
	uint32_t stack, object;
	bool is_known;
	struct snap_wait wait; /* all zero if it is not known */
};

struct names {
	uint64_t frame_count, from, explained_from; /* of the log */
	uint64_t stack_count, object_count;
	struct name *names;
	size_t count;
	struct pair *pairs;
	size_t pair_count;
	struct snap_warning *warnings;
	size_t warning_count;
};

static void code_numbered_name(struct snap_pointer_codec *to, const struct names *names,
			       size_t index)
{
	struct name *name = &names->names[index];
	const struct name *before = index ? name - 1 : NULL;

	snap_code_u32(&to->codec, &name->frame);
	snap_code_frame(to, &name->named);
	snap_codec_check(&to->codec, name->frame < names->frame_count, "invalid frame reference");
	snap_codec_check(&to->codec, !before || before->frame < name->frame, "frames not sorted");
}

static void code_name_pair(struct snap_pointer_codec *to, const struct names *names,
			   struct pair *pair)
{
	struct snap_codec *codec = &to->codec;

	snap_code_u32(codec, &pair->stack);
	snap_code_u32(codec, &pair->object);
	snap_code_bool(codec, &pair->is_known);
	snap_codec_check(codec,
			 pair->stack < names->stack_count && pair->object < names->object_count,
			 "invalid reference of a pair");
	if (!pair->is_known || codec->problem)
		return;
	snap_code_wait(to, &pair->wait);
	/* What is in a log points to no other wait. */
	snap_codec_check(codec, to->waits.count == 0, "invalid reference to a wait");
	snap_code_u64(codec, &pair->wait.owner_word.address);
	snap_code_enumerator(codec, &pair->wait.owner_word.form, SNAP_OWNER_FORMS);
}

static void code_names(struct snap_pointer_codec *to, struct names *names)
{
	struct snap_codec *codec = &to->codec;
	uint64_t magic = MAGIC, frame_count = names->frame_count, from = names->from;
	uint64_t explained_from = names->explained_from;

	snap_code_u64(codec, &magic);
	snap_code_u64(codec, &frame_count);
	snap_code_u64(codec, &from);
	snap_code_u64(codec, &explained_from);
	snap_codec_check(codec, magic == MAGIC, "bad magic number");
	snap_codec_check(codec,
			 frame_count == names->frame_count && from == names->from &&
				 explained_from == names->explained_from,
			 "they belong to another log");
	snap_code_list(codec, names->names, names->count, SNAP_LOG_MAX_FRAMES, LEAST_NAME, i,
		       code_numbered_name(to, names, i));
	snap_code_list(codec, names->warnings, names->warning_count, MOST_WARNINGS, LEAST_WARNING,
		       i, snap_code_warning(to, &names->warnings[i]));
	snap_code_list(codec, names->pairs, names->pair_count, SNAP_LOG_MAX_EXPLAINED, LEAST_PAIR,
		       i, code_name_pair(to, names, &names->pairs[i]));
	snap_codec_check(codec, codec->position == codec->size, "trailing data");
}

/* ---- writing ---- */

SNAP_FREES(names_deinit, struct names, names, pairs);

/* The new names, gathered; for names_deinit(). False without memory. */
static bool gather_names(const struct snap_log *log, const struct snap_log_named *before,
			 struct names *names)
{
	for (size_t i = 0; i < log->frame_count; i++)
		names->count += log->frames[i].name > before->names;
	names->names = malloc((names->count + 1) * sizeof(*names->names));
	if (!names->names)
		return false;
	names->count = 0;
	for (size_t i = 0; i < log->frame_count; i++) {
		uint32_t name = log->frames[i].name;

		if (name > before->names)
			names->names[names->count++] =
				(struct name){ (uint32_t)i, log->names[name - 1] };
	}
	names->warnings = log->capture->warnings + before->warnings;
	names->warning_count = log->capture->warning_count - before->warnings;
	return true;
}

static struct pair pair_of(const struct snap_log_explained *from)
{
	struct pair pair = { from->stack, from->object, from->wait != NULL, { .kind = 0 } };

	if (from->wait)
		pair.wait = *from->wait;
	return pair;
}

static bool gather_pairs(const struct snap_log *log, const struct snap_log_named *before,
			 struct names *names)
{
	size_t count = log->explained_count - before->explained;

	names->pairs = calloc(count + 1, sizeof(*names->pairs));
	if (!names->pairs)
		return false;
	for (size_t i = 0; i < count; i++)
		names->pairs[i] = pair_of(&log->explained[before->explained + i]);
	names->pair_count = count;
	return true;
}

static struct names names_of(const struct snap_log *log, const struct snap_log_named *before)
{
	return (struct names){ .frame_count = log->frame_count,
			       .from = before->names,
			       .explained_from = before->explained,
			       .stack_count = log->stack_count,
			       .object_count = log->object_count };
}

/* ---- reading ---- */

/* All texts and entries are the log's then. */
static struct stacksnap_error *add_names(struct snap_log *log, struct names *names)
{
	if (!snap_reserve_array(log->names, log->name_capacity, log->name_count + names->count))
		return snap_error_no_memory();
	for (size_t i = 0; i < names->count; i++)
		SNAP_TRY(snap_no_memory_unless(snap_frame_copy(
			&log->strings, &names->names[i].named, &log->names[log->name_count + i])));
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
	for (size_t i = 0; i < names->pair_count; i++) {
		const struct pair *pair = &names->pairs[i];
		SNAP_TRY(snap_log_explain(log, pair->stack, pair->object,
					  pair->is_known ? &pair->wait : NULL));
	}
	return NULL;
}

static struct stacksnap_error *damaged_names(const char *how)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "the names are damaged: %s", how);
}

static bool is_of_one_process(const struct snap_log *log, const struct pair *pair)
{
	return log->spaces[log->stacks[pair->stack].space].process ==
	       log->spaces[log->objects[pair->object].space].process;
}

static struct stacksnap_error *decode_names(const struct snap_log *log,
					    const struct snap_log_named *before,
					    struct snap_pointer_codec *to, struct names *names)
{
	*names = names_of(log, before);
	code_names(to, names);
	SNAP_TRY(snap_no_memory_unless(!to->no_memory));
	if (to->codec.problem)
		return damaged_names(to->codec.problem);
	if (before->names + names->count > SNAP_LOG_MAX_FRAMES)
		return damaged_names("too many names");
	for (size_t i = 0; i < names->count; i++) {
		uint32_t name = log->frames[names->names[i].frame].name;

		if (name && name <= before->names)
			return damaged_names("frame named twice");
	}
	for (size_t i = 0; i < names->pair_count; i++)
		if (!is_of_one_process(log, &names->pairs[i]))
			return damaged_names("object of another process");
	return NULL;
}

/* NULL: they are added to nothing. */
static struct stacksnap_error *read_names(const struct snap_log *log,
					  const struct snap_log_named *before, const uint8_t *bytes,
					  uint64_t size, struct snap_log *add_to)
{
	_cleanup_(snap_arena_deinit) struct snap_arena arena;
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec = { .mode = SNAP_CODEC_READ, .bytes = bytes, .size = size, .arena = &arena },
	};
	struct stacksnap_error *err;
	struct names names;

	snap_arena_init(&arena);
	err = decode_names(log, before, &to, &names);
	return err || !add_to ? err : add_names(add_to, &names);
}

struct stacksnap_error *snap_log_names_read(struct snap_log *log, const uint8_t *bytes,
					    uint64_t size)
{
	const struct snap_log_named before = snap_log_named(log);

	return read_names(log, &before, bytes, size, log);
}

/* ---- both ---- */

static struct stacksnap_error *write_and_read(const struct snap_log *log,
					      const struct snap_log_named *before,
					      struct names *names, uint8_t *bytes, uint64_t room,
					      uint64_t *size_ret)
{
	_cleanup_(snap_pointer_codec_deinit) struct snap_pointer_codec to = {
		.codec = { .mode = SNAP_CODEC_WRITE, .memory = bytes, .memory_size = room },
	};

	code_names(&to, names);
	SNAP_TRY(snap_no_memory_unless(!to.no_memory));
	if (to.codec.position > room)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "the names do not fit into their memory");
	*size_ret = to.codec.position;
	return read_names(log, before, bytes, *size_ret, NULL);
}

struct stacksnap_error *snap_log_names_write(const struct snap_log *log,
					     const struct snap_log_named *before, uint8_t *bytes,
					     uint64_t room, uint64_t *size_ret)
{
	_cleanup_(names_deinit) struct names names = names_of(log, before);

	if (!gather_names(log, before, &names) || !gather_pairs(log, before, &names))
		return snap_error_no_memory();
	return write_and_read(log, before, &names, bytes, room, size_ret);
}

/* Of a name or a pair alone. */
static void add_size(const struct snap_log *log, const struct snap_log_named *before,
		     struct names *one, uint8_t *bytes, uint64_t room, uint64_t *sum)
{
	uint64_t size;

	if (snap_error_ignore(write_and_read(log, before, one, bytes, room, &size)) ||
	    __builtin_add_overflow(*sum, size, sum))
		*sum = UINT64_MAX;
}

uint64_t snap_log_names_measure(const struct snap_log *log, const struct snap_log_named *before,
				uint8_t *bytes, uint64_t room, uint64_t *sizes)
{
	uint64_t most = 0;

	memset(sizes, 0, log->capture->process_count * sizeof(*sizes));
	for (size_t i = 0; i < log->frame_count; i++) {
		struct names one = names_of(log, before);
		struct name name = { .frame = (uint32_t)i };

		if (log->frames[i].name <= before->names)
			continue;
		name.named = log->names[log->frames[i].name - 1];
		one.names = &name;
		one.count = 1;
		add_size(log, before, &one, bytes, room, &sizes[log->frames[i].space]);
	}
	for (size_t i = before->explained; i < log->explained_count; i++) {
		struct names one = names_of(log, before);
		struct pair pair = pair_of(&log->explained[i]);

		one.pairs = &pair;
		one.pair_count = 1;
		add_size(log, before, &one, bytes, room, &sizes[log->stacks[pair.stack].space]);
	}
	for (size_t i = 0; i < log->capture->process_count; i++)
		most = SNAP_MAX(most, sizes[i]);
	return most;
}
