/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The fields of a capture in the order of the file: see model.h. A field that is added here
 * after a release needs a new version in file.c.
 */
#include "store/capture/model.h"

#include "base/table.h"
#include "base/text.h"
#include "store/capture/waits.h"

#include <string.h>

enum {
	MOST_WARNINGS = 1 << 20,
	MOST_EMBEDDED = 1 << 16,
	MOST_PCS = 1 << 24,
	MOST_IMAGE_PIECES = 1 << 24,
	/* the least that an element takes in the file */
	LEAST_ANCESTOR = 16,
	LEAST_MAP = 49, /* with the path of one before */
	LEAST_PIECE = 16,
	LEAST_THREAD = 122,
	LEAST_WARNING = 16,
	LEAST_IMAGE_PIECE = 16,
};

static const uint64_t MOST_BYTES = 1ull << 40;

/* The enums count from 0 to their last name. */
enum {
	ARCHES = SNAP_ARCH_AARCH64 + 1,
	TROUBLES = SNAP_TROUBLE_COUNT,
	RESULTS = SNAP_THREAD_UNTRACED + 1,
	FILE_KINDS = SNAP_FILE_PERF_MAP + 1,
};

static bool wraps(uint64_t address, uint64_t size)
{
	return address + size < address;
}

static void code_host(struct snap_codec *codec, struct snap_host *host)
{
	int64_t ticks = host->ticks_per_second;

	snap_code_text(codec, &host->name, SNAP_MAX_TEXT);
	snap_code_text(codec, &host->kernel, SNAP_MAX_TEXT);
	snap_code_text(codec, &host->arch, SNAP_MAX_TEXT);
	snap_code_text(codec, &host->boot_id, SNAP_MAX_TEXT);
	snap_code_u32(codec, &host->cpus);
	snap_code_i64(codec, &host->boot_time_ns);
	snap_code_i64(codec, &ticks);
	host->ticks_per_second = (long)ticks;
}

static void code_warning(struct snap_codec *codec, struct snap_warning *warning)
{
	snap_code_text(codec, &warning->code, SNAP_MAX_TEXT);
	snap_code_text(codec, &warning->message, SNAP_MAX_TEXT);
	snap_code_i32(codec, &warning->pid);
	snap_code_i32(codec, &warning->tid);
	snap_codec_check(codec, warning->code && warning->message, "empty warning");
}

void snap_code_capture(struct snap_codec *codec, struct snap_capture *capture)
{
	code_host(codec, &capture->host);
	snap_code_i64(codec, &capture->time_ns);
	snap_code_i64(codec, &capture->duration_ns);
	snap_code_i64(codec, &capture->stop_duration_ns);
	snap_code_i64(codec, &capture->stop_skew_ns);
	snap_code_u32(codec, &capture->stop_rounds);
	snap_code_list(codec, capture->warnings, capture->warning_count, MOST_WARNINGS,
		       LEAST_WARNING, i, code_warning(codec, &capture->warnings[i]));
	if (snap_codec_reads(codec))
		capture->warning_capacity = capture->warning_count;
	snap_code_wait_facts(codec, capture);
}

static void code_ancestor(struct snap_codec *codec, struct snap_ancestor *ancestor)
{
	snap_code_i32(codec, &ancestor->pid);
	snap_code_text(codec, &ancestor->name, SNAP_MAX_COMM);
	snap_code_u64(codec, &ancestor->start_ticks);
}

/* The mappings of a process, up to the current one. */
struct maps {
	struct snap_map *maps;
	size_t index;
	size_t places[SNAP_RECENT_PLACES]; /* the last mapping with a path there, from 1 on */
};

/* How many mappings before this one is one with the same path; 0: none is found. */
static uint32_t find_same_path(struct maps *at)
{
	const char *path = at->maps[at->index].path;
	size_t *place, last;

	if (!path)
		return 0;
	if (at->index && at->maps[at->index - 1].path == path)
		return 1;
	place = &at->places[snap_recent_place(path, strlen(path))];
	last = *place;
	*place = at->index + 1;
	if (last && snap_same_text(at->maps[last - 1].path, path))
		return (uint32_t)(at->index - (last - 1));
	return 0;
}

/* A repeated path is a number: the paths of a hostile process would take gigabytes. */
static void code_path(struct snap_codec *codec, struct maps *at)
{
	uint32_t back = snap_codec_reads(codec) ? 0 : find_same_path(at);

	snap_code_u32(codec, &back);
	snap_codec_check(codec, back <= at->index, "mapping with the path of none");
	if (back == 0)
		snap_code_text(codec, &at->maps[at->index].path, SNAP_MAX_PATH);
	else if (snap_codec_reads(codec) && !codec->problem)
		at->maps[at->index].path = at->maps[at->index - back].path;
}

static void code_map(struct snap_codec *codec, struct maps *at)
{
	struct snap_map *map = &at->maps[at->index];
	const struct snap_map *before = at->index ? map - 1 : NULL;

	snap_code_u64(codec, &map->start);
	snap_code_u64(codec, &map->end);
	snap_code_u64(codec, &map->offset);
	snap_code_u64(codec, &map->inode);
	snap_code_u32(codec, &map->dev_major);
	snap_code_u32(codec, &map->dev_minor);
	snap_code_bool(codec, &map->read);
	snap_code_bool(codec, &map->write);
	snap_code_bool(codec, &map->execute);
	snap_code_bool(codec, &map->shared);
	snap_code_bool(codec, &map->deleted);
	code_path(codec, at);
	snap_codec_check(codec, map->start < map->end, "empty mapping");
	snap_codec_check(codec, !before || before->end <= map->start, "mappings not sorted");
}

static void code_capture_piece(struct snap_codec *codec, struct snap_piece *piece,
			       const struct snap_piece *before)
{
	snap_code_u64(codec, &piece->address);
	snap_code_bytes(codec, &piece->data, &piece->size, MOST_BYTES);
	snap_codec_check(codec, !wraps(piece->address, piece->size), "memory range too long");
	snap_codec_check(codec, !before || before->address + before->size <= piece->address,
			 "memory ranges not sorted");
}

static void code_capture_stack(struct snap_codec *codec, uint64_t *address, const uint8_t **stack,
			       size_t *size)
{
	snap_code_u64(codec, address);
	snap_code_bytes(codec, stack, size, MOST_BYTES);
	snap_codec_check(codec, !wraps(*address, *size), "stack range too long");
}

/* Bytes that another image has as well; false: it has not. */
static bool code_shared_bytes(struct snap_codec *codec, struct snap_memory_piece *piece,
			      const struct snap_memory_image *others)
{
	const uint8_t *bytes = NULL;
	bool is_shared;

	if (!snap_codec_reads(codec))
		bytes = snap_memory_image_bytes(others, piece->address, piece->size);
	is_shared = bytes && memcmp(bytes, piece->bytes, piece->size) == 0;
	snap_code_bool(codec, &is_shared);
	if (!is_shared)
		return false;
	snap_code_u64(codec, &piece->size);
	if (snap_codec_reads(codec)) {
		piece->bytes = snap_memory_image_bytes(others, piece->address, piece->size);
		snap_codec_check(codec, piece->bytes, "range of an image that is nowhere");
	}
	return true;
}

static void code_image_piece(struct snap_codec *codec, struct snap_memory_piece *piece,
			     const struct snap_memory_piece *before,
			     const struct snap_memory_image *others)
{
	size_t size = piece->size;

	snap_code_u64(codec, &piece->address);
	if (others && code_shared_bytes(codec, piece, others)) {
		size = piece->size;
	} else {
		snap_code_packed_bytes(codec, &piece->bytes, &size, MOST_BYTES);
		piece->size = size;
	}
	snap_codec_check(codec, size && !wraps(piece->address, size), "invalid range of an image");
	snap_codec_check(codec, !before || before->address + before->size <= piece->address,
			 "ranges of an image not sorted");
}

/* `others`: an image that has some of its bytes; NULL: none. */
static void code_image(struct snap_codec *codec, struct snap_memory_image *image,
		       const struct snap_memory_image *others)
{
	snap_code_i64(codec, &image->taken_ns);
	snap_code_u32(codec, &image->step_count);
	snap_codec_check(codec, image->step_count <= SNAP_PLAN_MOST_STEPS, "too many steps");
	for (uint32_t i = 0; i < image->step_count && !codec->problem; i++) {
		struct snap_plan_result *step = &image->steps[i];

		snap_code_u64(codec, &step->records);
		snap_code_u64(codec, &step->bytes);
		snap_code_u32(codec, &step->cut);
		snap_codec_check(codec, step->cut <= SNAP_PLAN_CUT_RECORDS, "unknown cut");
	}
	snap_code_array(codec, &image->pieces, &image->piece_count, MOST_IMAGE_PIECES,
			sizeof(*image->pieces), LEAST_IMAGE_PIECE);
	if (snap_codec_reads(codec))
		image->bytes = 0;
	for (size_t i = 0; i < image->piece_count; i++) {
		code_image_piece(codec, &image->pieces[i], i ? &image->pieces[i - 1] : NULL,
				 others);
		if (snap_codec_reads(codec))
			image->bytes += image->pieces[i].size;
	}
}

static void code_memory_of_thread(struct snap_codec *codec, const struct snap_process *process,
				  struct snap_thread *thread)
{
	struct snap_memory_image *image = (struct snap_memory_image *)(uintptr_t)thread->memory;
	bool is_there = image != NULL;

	snap_code_bool(codec, &is_there);
	if (!is_there)
		return;
	if (snap_codec_reads(codec))
		thread->memory = image = snap_arena_new(codec->arena, struct snap_memory_image);
	if (image)
		code_image(codec, image, process->memory);
	else
		snap_codec_refuse_memory(codec);
}

static void code_capture_thread(struct snap_codec *codec, const struct snap_process *process,
				struct snap_thread *thread, const struct snap_thread *before)
{
	int32_t cpu = thread->cpu;

	snap_code_i32(codec, &thread->tid);
	snap_code_i32(codec, &thread->ns_tid);
	snap_code_text(codec, &thread->name, SNAP_MAX_THREAD_NAME);
	snap_code_letter(codec, &thread->state);
	snap_code_i32(codec, &cpu);
	snap_code_u32(codec, &thread->flags);
	snap_code_text(codec, &thread->wchan, SNAP_MAX_TEXT);
	snap_code_text(codec, &thread->kernel_stack, SNAP_MAX_TEXT);
	snap_code_enumerator(codec, &thread->result, RESULTS);
	snap_code_bool(codec, &thread->late);
	snap_code_bool(codec, &thread->group_stopped);
	snap_code_bytes(codec, &thread->registers, &thread->registers_size, SNAP_MAX_REGISTERS);
	code_capture_stack(codec, &thread->stack_address, &thread->stack, &thread->stack_size);
	snap_code_bool(codec, &thread->stack_limited);
	snap_code_bool(codec, &thread->stack_unreadable);
	code_capture_stack(codec, &thread->stack2_address, &thread->stack2, &thread->stack2_size);
	snap_code_numbers(codec, &thread->reference_pcs, &thread->reference_pc_count, MOST_PCS);
	snap_code_enumerator(codec, &thread->taken, SNAP_TAKEN_COUNT);
	snap_code_bool(codec, &thread->partial);
	code_memory_of_thread(codec, process, thread);
	snap_code_thread_waits(codec, thread);
	thread->cpu = cpu;
	snap_codec_check(codec, thread->tid > 0, "invalid tid");
	snap_codec_check(codec, !before || before->tid < thread->tid, "threads not sorted");
	snap_codec_check(codec, thread->result != SNAP_THREAD_COPIED || thread->registers_size != 0,
			 "thread without registers");
}

static void code_capture_labels(struct snap_codec *codec, struct snap_process *process)
{
	snap_code_i32(codec, &process->pid);
	snap_code_i32(codec, &process->ppid);
	snap_code_i32(codec, &process->ns_pid);
	snap_code_u64(codec, &process->start_ticks);
	snap_code_i64(codec, &process->start_time_ns);
	snap_code_text(codec, &process->name, SNAP_MAX_COMM);
	snap_code_letter(codec, &process->state);
	snap_code_u32(codec, &process->flags);
	snap_code_text(codec, &process->exe, SNAP_MAX_PATH);
	snap_code_bool(codec, &process->exe_deleted);
	snap_code_bytes(codec, &process->args, &process->args_size, SNAP_MAX_ARGS);
	snap_code_u32(codec, &process->uid);
	snap_code_text(codec, &process->user, SNAP_MAX_TEXT);
	snap_code_text(codec, &process->cgroup, SNAP_MAX_TEXT);
	snap_code_text(codec, &process->unit, SNAP_MAX_TEXT);
	snap_code_text(codec, &process->container, SNAP_MAX_TEXT);
	snap_code_list(codec, process->ancestors, process->ancestor_count, SNAP_MAX_ANCESTORS,
		       LEAST_ANCESTOR, i, code_ancestor(codec, &process->ancestors[i]));
	snap_code_bool(codec, &process->is_namespace_init);
	snap_code_bool(codec, &process->in_host_namespace);
	snap_code_bool(codec, &process->is_target);
}

static void code_memory(struct snap_codec *codec, struct snap_process *process)
{
	struct maps at = { .index = 0 };

	snap_code_array(codec, &process->maps, &process->map_count, SNAP_MAX_MAPS,
			sizeof(*process->maps), LEAST_MAP);
	at.maps = process->maps;
	for (; at.index < process->map_count; at.index++)
		code_map(codec, &at);
	snap_code_list(
		codec, process->pieces, process->piece_count, SNAP_MAX_MAPS, LEAST_PIECE, i,
		code_capture_piece(codec, &process->pieces[i], i ? &process->pieces[i - 1] : NULL));
}

static void code_image_of_process(struct snap_codec *codec, struct snap_memory_image **image)
{
	bool is_there = *image != NULL;

	snap_code_bool(codec, &is_there);
	if (!is_there)
		return;
	if (snap_codec_reads(codec))
		*image = snap_arena_new(codec->arena, struct snap_memory_image);
	if (*image)
		code_image(codec, *image, NULL);
	else
		snap_codec_refuse_memory(codec);
}

void snap_code_signal(struct snap_codec *codec, struct snap_signal *signal)
{
	int32_t number = signal->number, code = signal->code;

	snap_code_least(codec, &number, 0);
	snap_code_i32(codec, &code);
	snap_code_least(codec, &signal->tid, 0);
	snap_code_bool(codec, &signal->has_address);
	snap_code_u64(codec, &signal->address);
	signal->number = number;
	signal->code = code;
}

void snap_code_usage(struct snap_codec *codec, struct snap_usage *usage)
{
	snap_code_range(codec, &usage->rss_bytes, 0, INT64_MAX);
	snap_code_range(codec, &usage->cpu_ns, 0, INT64_MAX);
}

void snap_code_files_user(struct snap_codec *codec, struct snap_process *process)
{
	uint32_t uid = process->credentials.known ? process->credentials.uid : (uid_t)-1;

	if (!snap_codec_reads(codec) || codec->position < codec->size)
		snap_code_u32(codec, &uid);
	if (snap_codec_reads(codec))
		process->credentials = (struct snap_credentials){ .known = uid != (uid_t)-1,
								  .is_confined = true,
								  .uid = uid,
								  .gid = SNAP_OVERFLOW_ID };
}

void snap_code_process_facts(struct snap_codec *codec, struct snap_process *process)
{
	code_capture_labels(codec, process);
	snap_code_enumerator(codec, &process->arch, ARCHES);
	snap_code_enumerator(codec, &process->trouble, TROUBLES);
	snap_code_text(codec, &process->trouble_message, SNAP_MAX_TEXT);
	snap_code_bool(codec, &process->vanished);
	snap_code_i64(codec, &process->stop_duration_ns);
	snap_code_size(codec, &process->threads_missed, SNAP_MAX_THREADS);
	snap_codec_check(codec, process->threads_missed <= SNAP_MAX_THREADS,
			 "invalid number of threads");
	snap_codec_check(codec, process->pid > 0, "invalid pid");
}

void snap_code_process(struct snap_codec *codec, struct snap_capture *capture, size_t index)
{
	struct snap_process *process = &capture->processes[index];

	snap_code_process_facts(codec, process);
	snap_code_size(codec, &process->parent, SNAP_MAX_PROCESSES);
	snap_codec_check(codec, process->parent == SIZE_MAX || process->parent < index,
			 "process before its parent");
	code_memory(codec, process);
	code_image_of_process(codec, &process->memory);
	code_image_of_process(codec, &process->words);
	snap_code_process_waits(codec, process);
	snap_code_list(codec, process->threads, process->thread_count, SNAP_MAX_THREADS,
		       LEAST_THREAD, i,
		       code_capture_thread(codec, process, &process->threads[i],
					   i ? &process->threads[i - 1] : NULL));
	/* Each of them is a section of its own: the reader of the section makes room. */
	snap_code_size(codec, &process->embedded_count, MOST_EMBEDDED);
	snap_codec_check(codec, process->embedded_count <= MOST_EMBEDDED,
			 "invalid number of files");
	snap_code_signal(codec, &process->signal);
	/* Recorded processes of tests end before it. */
	if (!snap_codec_reads(codec) || codec->position < codec->size)
		snap_code_usage(codec, &process->usage);
	snap_code_files_user(codec, process);
}

void snap_code_embedded(struct snap_codec *codec, const struct snap_process *process,
			struct snap_embedded *embedded)
{
	snap_code_enumerator(codec, &embedded->kind, FILE_KINDS);
	snap_code_size(codec, &embedded->map, SNAP_MAX_MAPS);
	snap_code_bytes(codec, &embedded->data, &embedded->size, MOST_BYTES);
	snap_codec_check(
		codec,
		embedded->kind == SNAP_FILE_PERF_MAP ||
			(embedded->kind == SNAP_FILE_MODULE && embedded->map < process->map_count),
		"file without a mapping");
}
