/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes and their address spaces in a recording on disk: see internal.h. Facts are described as
 * in capture files. Of the mappings only those are stored in which analysis looks up addresses.
 */
#include "store/capture/model.h"
#include "store/recording/internal.h"

enum {
	LEAST_MAP = 8, /* bytes */
	LEAST_PIECE = 2,
};

static const char NO_PROCESS[] = "invalid process reference";
static const char NO_SPACE[] = "invalid address space reference";

/* ---- processes ---- */

static void code_process(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_process *process = element;
	unsigned flags = process->is_target | process->reported.known << 1;
	uint32_t parent = process->parent + 1; /* 0: none */

	snap_log_code(file, process->pid, INT32_MAX, "invalid pid");
	snap_log_code_any(file, process->start_ticks);
	snap_log_code(file, parent, index, "process before its parent");
	snap_log_code(file, process->first_tick, INT64_MAX, "process starts too late");
	snap_log_code(file, flags, 3, "unknown flags of a process");
	process->parent = parent - 1;
	process->is_target = flags & 1;
	process->reported.known = flags & 2;
	if (process->reported.known) {
		snap_log_code(file, process->reported.type, SNAP_TYPE_NONE,
			      "unknown type of a process");
		snap_log_code_text(file, &process->reported.description, SNAP_MAX_NAME);
		snap_log_code(file, process->reported.thread_count, SNAP_MAX_THREADS,
			      "too many threads in a process");
	}
	snap_log_check(file, process->pid, "invalid pid");
	if (file->reads) {
		process->space = UINT32_MAX;
		process->last_tick = UINT64_MAX;
	}
}

static bool is_process_changed(const struct snap_log_file *file, size_t index)
{
	const struct snap_log_process *process = &file->log->processes[index];
	const struct snap_log_written *written = &file->process_states[index];

	return !written->known || process->space != written->space ||
	       process->last_tick != written->last_tick || process->execed != written->execed;
}

static void code_process_state(struct snap_log_file *file, size_t index)
{
	struct snap_log *log = file->log;
	struct snap_log_process *process;
	uint64_t space = 0; /* + 1; 0: none */
	uint64_t last;      /* + 1; 0: it is there yet */

	snap_log_code_index(file, index, log->process_count, NO_PROCESS);
	if (!snap_log_fine(file))
		return;
	process = &log->processes[index];
	last = process->last_tick + 1;
	if (!file->reads && process->space != UINT32_MAX)
		space = file->space_numbers[process->space] + 1ull;
	snap_log_code(file, space, log->capture->process_count, NO_SPACE);
	snap_log_code_any(file, last);
	snap_log_code_flag(file, &process->execed);
	if (!file->reads) {
		file->process_states[index] =
			(struct snap_log_written){ process->space, process->last_tick,
						   process->execed, true };
		return;
	}
	process->space = (uint32_t)space - 1;
	process->last_tick = last - 1;
	snap_log_check(file, process->last_tick >= process->first_tick,
		       "process ends before it starts");
	snap_log_check(file, space == 0 || log->spaces[space - 1].process == index,
		       "address space of two processes");
}

/* ---- address spaces ---- */

static void code_recorded_facts(struct snap_log_file *file, struct snap_process *facts,
				struct snap_arena *arena)
{
	struct snap_codec codec = { .mode = SNAP_CODEC_COUNT };
	uint8_t *payload;

	if (!file->reads) {
		snap_code_process_facts(&codec, facts);
		snap_code_files_user(&codec, facts);
	}
	codec.size = snap_log_code_count(file, codec.position, 1);
	payload = snap_log_code_payload(file, codec.size);
	if (!payload)
		return;
	codec.mode = file->reads ? SNAP_CODEC_READ : SNAP_CODEC_WRITE;
	codec.position = 0;
	codec.bytes = codec.memory = payload;
	codec.arena = arena;
	snap_code_process_facts(&codec, facts);
	snap_code_files_user(&codec, facts);
	snap_codec_check(&codec, codec.position == codec.size, "process record too long");
	if (snap_codec_lacks_memory(&codec))
		snap_log_fail_memory(file);
	else if (codec.problem)
		snap_log_refuse(file, codec.problem);
}

/* Stored as the distance from an address before it. */
static void code_recorded_address(struct snap_log_file *file, uint64_t *address, uint64_t from,
				  const char *problem)
{
	uint64_t distance = *address - from;

	*address = from + snap_log_code(file, distance, UINT64_MAX - from, problem);
}

static void code_map(struct snap_log_file *file, struct snap_map *map, uint64_t *at)
{
	unsigned flags = map->read | map->write << 1 | map->execute << 2 | map->shared << 3 |
			 map->deleted << 4;

	code_recorded_address(file, &map->start, *at, "mappings not sorted");
	code_recorded_address(file, &map->end, map->start, "mapping too long");
	snap_log_code_any(file, map->offset);
	snap_log_code_any(file, map->inode);
	snap_log_code(file, map->dev_major, UINT32_MAX, "invalid device number");
	snap_log_code(file, map->dev_minor, UINT32_MAX, "invalid device number");
	snap_log_code(file, flags, 31, "unknown flags of a mapping");
	map->read = flags & 1;
	map->write = flags & 2;
	map->execute = flags & 4;
	map->shared = flags & 8;
	map->deleted = flags & 16;
	snap_log_code_text(file, &map->path, SNAP_MAX_PATH);
	snap_log_check(file, map->start != map->end, "empty mapping");
	*at = map->end;
}

static void code_recorded_piece(struct snap_log_file *file, struct snap_piece *piece, uint64_t *at)
{
	const void *data = piece->data;
	size_t size = piece->size;

	size = SNAP_MIN(size, SNAP_LOG_LONGEST_TEXT);
	code_recorded_address(file, &piece->address, *at, "memory ranges not sorted");
	snap_log_code_bytes(file, &data, &size);
	snap_log_check(file, data && size <= UINT64_MAX - piece->address, "invalid memory range");
	*at = piece->address + size;
	if (file->reads)
		*piece = (struct snap_piece){ piece->address, data, size };
}

/* An array in place of an old one; without memory, or with too many elements, it has none. */
static void *replace_array(struct snap_log_file *file, void *old, size_t *count, size_t size)
{
	void *array;

	free(old);
	if (*count > SNAP_MAX_MAPS) {
		snap_log_refuse(file, "too many mappings in a process");
		*count = 0;
	}
	array = calloc(*count + 1, size);
	if (!array) {
		snap_log_fail_memory(file);
		*count = 0;
	}
	return array;
}

static void code_memory(struct snap_log_file *file, struct snap_log_space_index *owned,
			struct snap_process *process)
{
	size_t map_count = 0, piece_count;
	uint64_t at = 0;

	for (size_t i = 0; i < process->map_count; i++)
		map_count += snap_log_tells(&process->maps[i]);
	map_count = snap_log_code_count(file, map_count, LEAST_MAP);
	if (file->reads) {
		owned->maps = process->maps =
			replace_array(file, owned->maps, &map_count, sizeof(*process->maps));
		process->map_count = map_count;
	}
	for (size_t i = 0; i < process->map_count && snap_log_fine(file); i++)
		if (file->reads || snap_log_tells(&process->maps[i]))
			code_map(file, &process->maps[i], &at);
	piece_count = snap_log_code_count(file, process->piece_count, LEAST_PIECE);
	if (file->reads) {
		owned->pieces = process->pieces =
			replace_array(file, owned->pieces, &piece_count, sizeof(*process->pieces));
		process->piece_count = piece_count;
	}
	at = 0;
	for (size_t i = 0; i < piece_count && snap_log_fine(file); i++)
		code_recorded_piece(file, &process->pieces[i], &at);
}

/* The slot of a space that is read, which is its number in the file, too. */
static void add_space(struct snap_log_file *file, uint32_t number, uint32_t process)
{
	_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL;
	struct snap_log *log = file->log;

	if (number == log->index->space_capacity)
		err = snap_log_grow_spaces(log);
	err = err ?: snap_log_space_add(log, process, &number);
	if (err && snap_error_code(err) == SNAP_ERROR_NO_MEMORY)
		snap_log_fail_memory(file);
	else if (err)
		snap_log_refuse(file, "too many address spaces");
}

static bool is_space_changed(const struct snap_log_file *file, size_t slot)
{
	return file->log->index->spaces[slot].version > file->space_versions[slot];
}

static void code_space_content(struct snap_log_file *file, size_t slot)
{
	struct snap_log *log = file->log;
	struct snap_process facts = { 0 };
	uint32_t number = 0, process = 0;

	if (!file->reads) {
		if (file->space_versions[slot] == 0)
			file->space_numbers[slot] = file->space_count++;
		file->space_versions[slot] = log->index->spaces[slot].version;
		number = file->space_numbers[slot];
		process = log->spaces[slot].process;
		facts = log->capture->processes[slot];
	}
	snap_log_code(file, number, log->capture->process_count, NO_SPACE);
	snap_log_code_index(file, process, log->process_count, NO_PROCESS);
	if (file->reads && snap_log_fine(file) && number == log->capture->process_count)
		add_space(file, number, process);
	if (!snap_log_fine(file))
		return;
	if (file->reads)
		slot = number;
	snap_log_check(file, log->spaces[slot].process == process,
		       "address space of two processes");
	code_recorded_facts(file, &facts, &log->spaces[slot].arena);
	if (!file->reads) {
		code_memory(file, NULL, &log->capture->processes[slot]);
		return;
	}
	code_memory(file, &log->index->spaces[slot], &facts);
	facts.parent = SIZE_MAX;
	log->capture->processes[slot] = facts;
}

void snap_log_code_space(struct snap_log_file *file, uint32_t *space)
{
	uint32_t number = file->reads ? 0 : file->space_numbers[*space];

	snap_log_code_index(file, number, file->log->capture->process_count, NO_SPACE);
	if (file->reads)
		*space = number;
}

void snap_log_code_processes(struct snap_log_file *file)
{
	struct snap_log *log = file->log;

	snap_log_code_new(file, processes, process, code_process);
	snap_log_code_changed(file, log->capture->process_count, is_space_changed,
			      code_space_content);
	snap_log_code_changed(file, log->process_count, is_process_changed, code_process_state);
}
