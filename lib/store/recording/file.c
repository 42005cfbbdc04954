/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recordings on disk, chunk by chunk: see file.h, and internal.h for the format.
 *
 * A writer remembers how far each array has been written, and appends the rest. A reader takes the
 * bytes as far as they go; texts and pieces of memory stay where they are, in the bytes of the
 * file, which the log then owns.
 */
#include "base/buffer.h"
#include "base/table.h"
#include "store/contents.h"
#include "store/recording/internal.h"

#include <endian.h>
#include <math.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 16, MOST_WARNINGS = 1 << 16 };

static const uint64_t LARGEST_FILE = 1ull << 36;
static const uint8_t MAGIC[8] = { 0x89, 's', 'n', 'a', 'p', 'r', 'e', 'c' };

bool snap_log_is_recording(const void *bytes, size_t size)
{
	return size >= sizeof(MAGIC) && memcmp(bytes, MAGIC, sizeof(MAGIC)) == 0;
}

/* The hash of a head's first four fields, as they stand in the file. */
static uint64_t hash_chunk_head(const struct snap_log_chunk *chunk)
{
	return htole64(snap_hash_bytes(chunk, offsetof(struct snap_log_chunk, check), 1));
}

struct snap_log_chunk snap_log_chunk_make(uint32_t type, uint32_t sequence, const void *payload,
					  uint64_t length)
{
	struct snap_log_chunk chunk = {
		.type = htole32(type),
		.sequence = htole32(sequence),
		.length = htole64(length),
		.hash = htole64(snap_hash_bytes(payload, length, 0)),
	};

	chunk.check = hash_chunk_head(&chunk);
	return chunk;
}

/* ---- payloads ---- */

static void code_rate(struct snap_log_file *file, double *rate)
{
	uint64_t bits;

	memcpy(&bits, rate, sizeof(bits));
	snap_log_code_any(file, bits);
	memcpy(rate, &bits, sizeof(bits));
	snap_log_check(file, isfinite(*rate) && *rate >= 0, "invalid rate");
}

static void code_statistics(struct snap_log_file *file, struct snap_recording_stats *stats)
{
	code_rate(file, &stats->hz_asked);
	code_rate(file, &stats->hz_reached);
	snap_log_code_any(file, stats->ticks);
	snap_log_code_any(file, stats->ticks_missed);
	snap_log_code_duration(file, &stats->duration_ns);
	snap_log_code_duration(file, &stats->stopped_ns);
	snap_log_code_any(file, stats->threads);
	snap_log_code_any(file, stats->thread_samples);
	snap_log_code_any(file, stats->stacks);
	snap_log_code_any(file, stats->kept);
	snap_log_code_any(file, stats->unstopped);
	snap_log_code_any(file, stats->alone);
	snap_log_code_any(file, stats->left_out);
	snap_log_code_duration(file, &stats->elapsed_ns);
	snap_log_code_any(file, stats->task_looks);
	snap_log_code_any(file, stats->task_looks_left_out);
	snap_log_code_any(file, stats->ticks_late);
	snap_log_code_any(file, stats->ticks_left_out);
}

static void code_head(struct snap_log_file *file)
{
	struct snap_log *log = file->log;
	struct snap_host *host = &log->capture->host;

	snap_log_code_text(file, &host->name, SNAP_MAX_NAME);
	snap_log_code_text(file, &host->kernel, SNAP_MAX_NAME);
	snap_log_code_text(file, &host->arch, SNAP_MAX_NAME);
	snap_log_code_text(file, &host->boot_id, SNAP_MAX_NAME);
	snap_log_code(file, host->cpus, UINT32_MAX, "invalid number of processors");
	host->boot_time_ns = snap_log_code_step(file, host->boot_time_ns, 0, NULL);
	host->ticks_per_second = snap_log_code_step(file, host->ticks_per_second, 0, NULL);
	snap_log_code_duration(file, &log->time_ns);
	snap_log_code_duration(file, &log->period_ns);
	snap_log_code_flag(file, &log->cpu_only);
	snap_log_code_flag(file, &log->explains);
	if (file->reads)
		log->capture->time_ns = log->time_ns;
}

static void code_data(struct snap_log_file *file)
{
	snap_log_code_processes(file);
	snap_log_code_threads(file);
	snap_log_code_stacks(file);
	snap_log_code_tasks(file);
	snap_log_code_waits(file);
	snap_log_code_ticks(file);
	snap_log_code_any(file, file->log->wakes_end);
	code_statistics(file, &file->log->stats);
}

static void code_all_names(struct snap_log_file *file)
{
	snap_log_code_names(file);
	snap_log_code_explained(file);
}

static void code_warning(struct snap_log_file *file, struct snap_warning *warning)
{
	int64_t pid, tid;

	snap_log_code_text(file, &warning->code, SNAP_MAX_NAME);
	snap_log_code_text(file, &warning->message, SNAP_LOG_LONGEST_TEXT);
	pid = snap_log_code_step(file, warning->pid, 0, NULL);
	tid = snap_log_code_step(file, warning->tid, 0, NULL);
	warning->pid = (pid_t)pid;
	warning->tid = (pid_t)tid;
	snap_log_check(file,
		       warning->code && warning->message && pid == warning->pid &&
			       tid == warning->tid,
		       "empty warning");
}

static void code_end(struct snap_log_file *file)
{
	struct snap_capture *capture = file->log->capture;
	enum snap_recording_end end = file->log->end;
	size_t count = capture->warning_count;

	snap_log_code(file, end, SNAP_END_COUNT - 1, "invalid end of the recording");
	code_statistics(file, &file->log->stats);
	count = snap_log_code_count(file, count < MOST_WARNINGS ? count : MOST_WARNINGS, 1);
	snap_log_check(file, count <= MOST_WARNINGS, "too many warnings");
	for (size_t i = 0; i < count && snap_log_fine(file); i++) {
		struct snap_warning warning = { .code = NULL };

		if (!file->reads)
			warning = capture->warnings[i];
		code_warning(file, &warning);
		if (file->reads && snap_log_fine(file))
			snap_capture_warn(capture, warning.code, warning.pid, warning.tid, "%s",
					  warning.message);
	}
	file->log->end = end;
}

/* The texts stand before it. */
static void code_payload(struct snap_log_file *file, uint32_t type)
{
	if (type == SNAP_LOG_CHUNK_HEAD)
		code_head(file);
	else if (type == SNAP_LOG_CHUNK_DATA)
		code_data(file);
	else if (type == SNAP_LOG_CHUNK_NAMES)
		code_all_names(file);
	else
		code_end(file);
}

/* ---- writing ---- */

struct snap_log_writer {
	struct snap_log_file file;
	int fd;
	uint32_t sequence;
	bool broken; /* a chunk may be there in part: nothing may follow */
	struct snap_buffer out;
};

void snap_log_writer_destroy(struct snap_log_writer *writer)
{
	if (!writer)
		return;
	snap_log_file_deinit(&writer->file);
	snap_buffer_deinit(&writer->out);
	free(writer);
}

static struct stacksnap_error *write_recording_bytes(struct snap_log_writer *writer,
						     const void *bytes, size_t size)
{
	int os_errno = snap_write_all(writer->fd, bytes, size);

	if (!os_errno)
		return NULL;
	writer->broken = true;
	return snap_error_os(os_errno, "cannot write the recording");
}

/* In one write: all earlier chunks stay whole, whatever happens. */
static struct stacksnap_error *write_chunk(struct snap_log_writer *writer, uint32_t type)
{
	struct snap_log_file *file = &writer->file;
	struct snap_buffer *out = &writer->out;
	struct snap_log_chunk chunk = { 0 };

	code_payload(file, type);
	snap_buffer_clear(out);
	snap_buffer_add(out, &chunk, sizeof(chunk));
	snap_buffer_add_varint(out, file->new_text_count);
	snap_buffer_add(out, file->new_texts.data, file->new_texts.size);
	snap_buffer_add(out, file->body.data, file->body.size);
	if (out->failed || file->new_texts.failed || file->body.failed) {
		/* The counts of `file` include elements that were not written. */
		writer->broken = true;
		return snap_error_no_memory();
	}
	chunk = snap_log_chunk_make(type, writer->sequence++, out->data + sizeof(chunk),
				    out->size - sizeof(chunk));
	memcpy(out->data, &chunk, sizeof(chunk));
	file->new_text_count = 0;
	snap_buffer_clear(&file->new_texts);
	snap_buffer_clear(&file->body);
	return write_recording_bytes(writer, out->data, out->size);
}

/* The descriptions also read; when they write, they change nothing. */
static void look_at_log(struct snap_log_writer *writer, const struct snap_log *log)
{
	writer->file.log = (struct snap_log *)(uintptr_t)log;
}

struct stacksnap_error *snap_log_writer_create(const struct snap_log *log, int fd,
					       struct snap_log_writer **ret)
{
	_cleanup_(snap_log_writer_destroyp) struct snap_log_writer *writer =
		calloc(1, sizeof(*writer));
	uint32_t version[2] = { htole32(SNAP_LOG_VERSION), 0 };
	size_t spaces = log->index->space_capacity;

	SNAP_TRY(snap_no_memory_unless(writer));
	writer->fd = fd;
	writer->file.space_versions = calloc(spaces, sizeof(*writer->file.space_versions));
	writer->file.space_numbers = calloc(spaces, sizeof(*writer->file.space_numbers));
	SNAP_TRY(snap_no_memory_unless(writer->file.space_versions && writer->file.space_numbers));
	SNAP_TRY(write_recording_bytes(writer, MAGIC, sizeof(MAGIC)));
	SNAP_TRY(write_recording_bytes(writer, version, sizeof(version)));
	look_at_log(writer, log);
	SNAP_TRY(write_chunk(writer, SNAP_LOG_CHUNK_HEAD));
	*ret = snap_take_ptr(writer);
	return NULL;
}

struct stacksnap_error *snap_log_writer_flush(struct snap_log_writer *writer,
					      const struct snap_log *log)
{
	struct snap_log_file *file = &writer->file;

	if (writer->broken)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "an earlier write of the recording failed");
	if (!file->has_ticks) {
		file->ticks = log->first_tick;
		file->changes = log->first_change;
		file->owners = log->first_owner;
		file->wakes = log->first_wake;
	}
	if (file->ticks < log->first_tick || file->threads > log->thread_count ||
	    file->stacks > log->stack_count || file->processes > log->process_count ||
	    file->objects > log->object_count || file->words > log->words_count)
		return snap_error_format(SNAP_ERROR_OTHER, "unwritten samples have been dropped");
	if (!snap_reserve_array_zeroed(file->process_states, file->process_capacity,
				       log->process_count) ||
	    !snap_reserve_array_zeroed(file->thread_names, file->thread_capacity,
				       log->thread_count))
		return snap_error_no_memory();
	look_at_log(writer, log);
	return write_chunk(writer, SNAP_LOG_CHUNK_DATA);
}

struct stacksnap_error *snap_log_writer_finish(struct snap_log_writer *writer,
					       const struct snap_log *log)
{
	struct stacksnap_error *err;

	SNAP_TRY(snap_log_writer_flush(writer, log));
	SNAP_TRY(write_chunk(writer, SNAP_LOG_CHUNK_NAMES));
	err = write_chunk(writer, SNAP_LOG_CHUNK_END);
	/* Nothing follows the end. */
	writer->broken = true;
	return err;
}

struct stacksnap_error *snap_log_write(const struct snap_log *log, int fd)
{
	_cleanup_(snap_log_writer_destroyp) struct snap_log_writer *writer = NULL;

	return snap_log_writer_create(log, fd, &writer) ?: snap_log_writer_finish(writer, log);
}

/* ---- reading ---- */

struct reader {
	struct snap_contents contents;
	size_t at; /* chunks before this byte are read */
	uint32_t sequence;
	struct snap_log_file file;
};

static void reader_deinit(struct reader *reader)
{
	snap_log_file_deinit(&reader->file);
	snap_log_destroy(reader->file.log);
	snap_contents_deinit(&reader->contents);
}

static struct stacksnap_error *damaged_recording(const char *how)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "the recording is damaged: %s", how);
}

/* A foreign file is not read to its end, which it may not have. */
static struct stacksnap_error *read_magic(struct reader *reader)
{
	uint32_t version[2];

	SNAP_TRY(snap_contents_load(&reader->contents, SNAP_LOG_MAGIC_SIZE));
	if (!snap_log_is_recording(reader->contents.bytes, reader->contents.size))
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "this is not a recording (see stacksnap record)");
	if (reader->contents.size < SNAP_LOG_MAGIC_SIZE)
		return snap_error_format(SNAP_ERROR_FORMAT, "the recording is truncated");
	memcpy(version, reader->contents.bytes + sizeof(MAGIC), sizeof(version));
	if (le32toh(version[0]) != SNAP_LOG_VERSION)
		return snap_error_format(
			SNAP_ERROR_FORMAT,
			"the recording has format %u; this stacksnap reads format %u",
			le32toh(version[0]), SNAP_LOG_VERSION);
	if (version[1])
		return damaged_recording("invalid header");
	reader->at = SNAP_LOG_MAGIC_SIZE;
	return NULL;
}

static void read_texts(struct snap_log_file *file)
{
	size_t count = snap_log_code_count(file, 0, 1);

	while (count-- && snap_log_fine(file)) {
		size_t length = 0;

		snap_log_code(file, length, SNAP_LOG_LONGEST_TEXT, "string too long");
		if (length >= (size_t)(file->end - file->at) || file->at[length]) {
			snap_log_refuse(file, "unterminated string");
			return;
		}
		if (!snap_reserve_array(file->texts, file->text_capacity, file->text_count + 1)) {
			snap_log_fail_memory(file);
			return;
		}
		file->texts[file->text_count++] =
			(struct snap_log_text){ (const char *)file->at, length };
		file->at += length + 1;
	}
}

static struct stacksnap_error *read_payload(struct snap_log_file *file, uint32_t type,
					    const uint8_t *payload, size_t length)
{
	file->at = payload;
	file->end = payload + length;
	read_texts(file);
	code_payload(file, type);
	snap_log_check(file, file->at == file->end, "chunk too long");
	SNAP_TRY(snap_no_memory_unless(!file->no_memory));
	return file->problem ? damaged_recording(file->problem) : NULL;
}

/* The next chunk, if it is whole: *whole_ret. */
static struct stacksnap_error *read_chunk(struct reader *reader, uint32_t *type_ret,
					  bool *whole_ret)
{
	struct snap_log_chunk chunk;
	struct stacksnap_error *err =
		snap_contents_load(&reader->contents, reader->at + sizeof(chunk));
	size_t left = reader->contents.size - reader->at;
	const uint8_t *payload;
	uint64_t length;
	uint32_t type;

	*whole_ret = false;
	if (err || left < sizeof(chunk))
		return err;
	payload = reader->contents.bytes + reader->at;
	memcpy(&chunk, payload, sizeof(chunk));
	payload += sizeof(chunk);
	left = reader->contents.total - reader->at - sizeof(chunk);
	if (chunk.check != hash_chunk_head(&chunk))
		return damaged_recording("invalid chunk header");
	type = le32toh(chunk.type);
	length = le64toh(chunk.length);
	if (type < SNAP_LOG_CHUNK_HEAD || type > SNAP_LOG_CHUNK_END ||
	    le32toh(chunk.sequence) != reader->sequence ||
	    (type == SNAP_LOG_CHUNK_HEAD) != (reader->sequence == 0))
		return damaged_recording("misplaced chunk");
	/* It is being written, or was when its writer was killed. */
	if (length > left)
		return NULL;
	err = snap_contents_load(&reader->contents, reader->at + sizeof(chunk) + length);
	if (err || reader->contents.size - reader->at - sizeof(chunk) < length)
		return err;
	if (le64toh(chunk.hash) != snap_hash_bytes(payload, length, 0))
		return damaged_recording("checksum mismatch");
	*whole_ret = true;
	*type_ret = type;
	reader->at += sizeof(chunk) + length;
	reader->sequence++;
	return read_payload(&reader->file, type, payload, (size_t)length);
}

static struct stacksnap_error *read_chunks(struct reader *reader)
{
	uint32_t type = 0;
	bool whole = true;

	while (whole && type != SNAP_LOG_CHUNK_END)
		SNAP_TRY(read_chunk(reader, &type, &whole));
	if (reader->sequence == 0)
		return snap_error_format(SNAP_ERROR_FORMAT, "the recording is truncated");
	if (type == SNAP_LOG_CHUNK_END && reader->at != reader->contents.total)
		return damaged_recording("trailing data");
	return NULL;
}

struct stacksnap_error *snap_log_read(int fd, struct snap_log **ret)
{
	_cleanup_(reader_deinit) struct reader reader = { .file.reads = true };
	struct snap_capture *capture;
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_contents_init(&reader.contents, fd, "recording", FIRST_BYTES, LARGEST_FILE));
	SNAP_TRY(read_magic(&reader));
	SNAP_TRY(snap_log_new(1, &reader.file.log));
	err = read_chunks(&reader);
	/* The log points into them. */
	capture = reader.file.log->capture;
	capture->shared = snap_contents_take(&reader.contents, &capture->shared_size);
	if (err)
		return err;
	*ret = snap_take_ptr(reader.file.log);
	return NULL;
}
