/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads recordings: the bytes as far as they go, chunk by chunk, each with its checksum. What is
 * read stays where it is: texts and pieces of memory point into the bytes of the file, which the
 * log owns. See file.h; the columns are in take.c and time.c.
 */
#include "store/contents.h"
#include "store/recording/internal.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <string.h>

enum { FIRST_ROOM = 1 << 16 };

static const uint64_t LARGEST_FILE = 1ull << 36;

/* A file on its way into a log. */
struct source {
	struct snap_contents contents;
	size_t at; /* chunks before this byte are read */
	uint32_t sequence;
};

static void source_deinit(struct source *source)
{
	snap_contents_deinit(&source->contents);
}

static void reader_deinit(struct snap_log_reader *reader)
{
	free(reader->texts);
	free(reader->changed);
	snap_log_destroy(reader->log);
}

static struct snap_error *damaged(const char *how)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "the recording is damaged: %s", how);
}

/* A file that is none of ours is not read to its end, which it may not have. */
static struct snap_error *read_magic(struct source *source, int fd)
{
	struct snap_error *err = snap_contents_load(&source->contents, fd, SNAP_LOG_MAGIC_SIZE);
	uint32_t version[2];

	if (err)
		return err;
	if (!snap_log_is_recording(source->contents.bytes, source->contents.size))
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "this is not a recording (see stacksnap record)");
	if (source->contents.size < SNAP_LOG_MAGIC_SIZE)
		return snap_error_format(SNAP_ERROR_FORMAT, "the recording is truncated");
	memcpy(version, source->contents.bytes + sizeof(snap_log_magic), sizeof(version));
	if (le32toh(version[0]) > SNAP_LOG_VERSION)
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "the recording was written by a newer stacksnap (format "
					 "%u, this one reads up to %u)",
					 le32toh(version[0]), SNAP_LOG_VERSION);
	if (le32toh(version[0]) == 0 || version[1])
		return damaged("invalid header");
	source->at = SNAP_LOG_MAGIC_SIZE;
	return snap_contents_load(&source->contents, fd, SIZE_MAX);
}

/* ---- payloads ---- */

static void read_texts(struct snap_log_reader *reader)
{
	struct snap_log_cursor *cursor = &reader->cursor;
	size_t count = snap_log_get_count(cursor, 1);

	while (count-- && !cursor->problem) {
		struct snap_log_text text;
		uint64_t length =
			snap_log_get_most(cursor, SNAP_LOG_LONGEST_TEXT, "string too long");

		if (length >= (uint64_t)(cursor->end - cursor->at) || cursor->at[length]) {
			snap_log_refuse(cursor, "unterminated string");
			return;
		}
		if (!snap_grow_array(reader->texts, reader->text_capacity, reader->text_count)) {
			reader->no_memory = true;
			snap_log_refuse(cursor, "out of memory");
			return;
		}
		text.bytes = (const char *)cursor->at;
		text.length = (size_t)length;
		reader->texts[reader->text_count++] = text;
		cursor->at += length + 1;
	}
}

static double get_rate(struct snap_log_cursor *cursor)
{
	uint64_t bits = snap_log_get(cursor);
	double rate;

	memcpy(&rate, &bits, sizeof(rate));
	if (!isfinite(rate) || rate < 0)
		snap_log_refuse(cursor, "invalid rate");
	return cursor->problem ? 0 : rate;
}

static int64_t get_duration(struct snap_log_cursor *cursor)
{
	int64_t duration = snap_log_get_signed(cursor);

	if (duration < 0 || duration > INT64_MAX / 4)
		snap_log_refuse(cursor, "invalid duration");
	return cursor->problem ? 0 : duration;
}

static void read_statistics(struct snap_log_cursor *cursor, struct snap_recording_stats *stats)
{
	stats->hz_asked = get_rate(cursor);
	stats->hz_reached = get_rate(cursor);
	stats->ticks = snap_log_get(cursor);
	stats->ticks_missed = snap_log_get(cursor);
	stats->duration_ns = get_duration(cursor);
	stats->stopped_ns = get_duration(cursor);
	stats->threads = snap_log_get(cursor);
	stats->thread_samples = snap_log_get(cursor);
	stats->stacks = snap_log_get(cursor);
	stats->kept = snap_log_get(cursor);
	stats->unstopped = snap_log_get(cursor);
	stats->alone = snap_log_get(cursor);
}

static void read_head(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	struct snap_host *host = &log->capture->host;
	struct snap_log_cursor *cursor = &reader->cursor;

	host->name = snap_log_get_text(reader, SNAP_MAX_NAME);
	host->kernel = snap_log_get_text(reader, SNAP_MAX_NAME);
	host->arch = snap_log_get_text(reader, SNAP_MAX_NAME);
	host->boot_id = snap_log_get_text(reader, SNAP_MAX_NAME);
	host->cpus = (unsigned)snap_log_get_most(cursor, UINT32_MAX, "number too large");
	host->boot_time_ns = snap_log_get_signed(cursor);
	host->ticks_per_second = snap_log_get_signed(cursor);
	log->time_ns = log->capture->time_ns = get_duration(cursor);
	log->period_ns = get_duration(cursor);
	log->cpu_only = snap_log_get_most(cursor, 1, "invalid boolean");
}

static void read_end(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	struct snap_log_cursor *cursor = &reader->cursor;
	uint64_t end =
		snap_log_get_most(cursor, SNAP_END_COUNT - 1, "invalid end of the recording");
	size_t count;

	read_statistics(cursor, &log->stats);
	count = snap_log_get_count(cursor, 1);
	if (count > SNAP_LOG_MOST_WARNINGS)
		snap_log_refuse(cursor, "too many warnings");
	while (count-- && !cursor->problem) {
		const char *code = snap_log_get_text(reader, SNAP_MAX_NAME);
		const char *message = snap_log_get_text(reader, SNAP_LOG_LONGEST_TEXT);
		int64_t pid = snap_log_get_signed(cursor), tid = snap_log_get_signed(cursor);

		if (!code || !message || pid != (pid_t)pid || tid != (pid_t)tid)
			snap_log_refuse(cursor, "empty warning");
		else
			snap_capture_warn(log->capture, code, (pid_t)pid, (pid_t)tid, "%s",
					  message);
	}
	log->end = (enum snap_recording_end)end;
}

static void read_data(struct snap_log_reader *reader)
{
	snap_log_read_processes(reader);
	snap_log_read_threads(reader);
	snap_log_read_stacks(reader);
	snap_log_read_ticks(reader);
	read_statistics(&reader->cursor, &reader->log->stats);
}

static struct snap_error *read_payload(struct snap_log_reader *reader, uint32_t type,
				       const uint8_t *payload, size_t length)
{
	reader->cursor = (struct snap_log_cursor){ payload, payload + length, NULL };
	read_texts(reader);
	if (type == SNAP_LOG_CHUNK_HEAD)
		read_head(reader);
	else if (type == SNAP_LOG_CHUNK_DATA)
		read_data(reader);
	else if (type == SNAP_LOG_CHUNK_NAMES)
		snap_log_read_names(reader);
	else
		read_end(reader);
	if (reader->no_memory)
		return snap_error_no_memory();
	if (!reader->cursor.problem && reader->cursor.at != reader->cursor.end)
		snap_log_refuse(&reader->cursor, "chunk too long");
	return reader->cursor.problem ? damaged(reader->cursor.problem) : NULL;
}

/* ---- chunks ---- */

/* The next chunk, if it is whole: *whole_ret. */
static struct snap_error *read_chunk(struct source *source, struct snap_log_reader *reader,
				     uint32_t *type_ret, bool *whole_ret)
{
	size_t left = source->contents.size - source->at;
	const uint8_t *at = source->contents.bytes + source->at, *payload;
	struct snap_log_chunk chunk;
	uint64_t length;
	uint32_t type;

	*whole_ret = false;
	if (left < sizeof(chunk))
		return NULL;
	memcpy(&chunk, at, sizeof(chunk));
	payload = at + sizeof(chunk);
	left -= sizeof(chunk);
	if (chunk.check != snap_log_chunk_check(&chunk))
		return damaged("invalid chunk header");
	type = le32toh(chunk.type);
	length = le64toh(chunk.length);
	if (type < SNAP_LOG_CHUNK_HEAD || type > SNAP_LOG_CHUNK_END ||
	    le32toh(chunk.sequence) != source->sequence ||
	    (type == SNAP_LOG_CHUNK_HEAD) != (source->sequence == 0))
		return damaged("misplaced chunk");
	/* It is being written, or was when its writer was killed. */
	if (length > left)
		return NULL;
	if (le64toh(chunk.hash) != snap_hash(payload, length, 0))
		return damaged("checksum mismatch");
	*whole_ret = true;
	*type_ret = type;
	source->at += sizeof(chunk) + length;
	source->sequence++;
	return read_payload(reader, type, payload, (size_t)length);
}

static struct snap_error *read_chunks(struct source *source, struct snap_log_reader *reader)
{
	uint32_t type = 0;
	bool whole = true;

	while (whole && type != SNAP_LOG_CHUNK_END) {
		struct snap_error *err = read_chunk(source, reader, &type, &whole);

		if (err)
			return err;
	}
	if (source->sequence == 0)
		return snap_error_format(SNAP_ERROR_FORMAT, "the recording is truncated");
	if (type == SNAP_LOG_CHUNK_END && source->at != source->contents.size)
		return damaged("trailing data");
	return NULL;
}

struct snap_error *snap_log_read(int fd, struct snap_log **ret)
{
	_cleanup_(reader_deinit) struct snap_log_reader reader = { 0 };
	_cleanup_(source_deinit) struct source source = { .at = 0 };
	struct snap_capture *capture;
	struct snap_error *err;

	err = snap_contents_init(&source.contents, fd, "recording", FIRST_ROOM, LARGEST_FILE);
	if (!err)
		err = read_magic(&source, fd);
	if (!err)
		err = snap_log_new(1, &reader.log);
	if (err)
		return err;
	err = read_chunks(&source, &reader);
	/* The log points into them. */
	capture = reader.log->capture;
	capture->shared = snap_contents_take(&source.contents, &capture->shared_size);
	if (err)
		return err;
	*ret = snap_take_ptr(reader.log);
	return NULL;
}
