/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes recordings: remembers how far each array has been written, and appends the rest. Texts and
 * pieces of memory are written once. See file.h, and internal.h for the format.
 */
#include "store/recording/internal.h"

#include <endian.h>
#include <string.h>

void snap_log_writer_destroy(struct snap_log_writer *writer)
{
	if (!writer)
		return;
	free(writer->texts.bytes);
	free(writer->body.bytes);
	free(writer->out.bytes);
	free(writer->table.slots);
	free(writer->known);
	free(writer->process_states);
	free(writer->thread_names);
	free(writer->space_versions);
	free(writer->space_numbers);
	snap_arena_deinit(&writer->arena);
	free(writer);
}

/* ---- texts ---- */

/* The number of a text in the file, which gets it if it is new; without memory the body fails. */
uint32_t snap_log_text_number(struct snap_log_writer *writer, const void *bytes, size_t length)
{
	uint32_t hash = (uint32_t)(snap_hash(bytes, length, 0) >> 16);
	struct snap_log_table *table = &writer->table;
	struct snap_log_text text = { NULL, length };

	if (!snap_log_table_reserve(table, writer->known_count) ||
	    !snap_grow_array(writer->known, writer->known_capacity, writer->known_count)) {
		writer->body.failed = true;
		return 0;
	}
	for (size_t k = hash & (table->slot_count - 1); table->slots[k].number;
	     k = (k + 1) & (table->slot_count - 1)) {
		const struct snap_log_text *known = &writer->known[table->slots[k].number - 1];

		if (table->slots[k].hash == hash && known->length == length &&
		    memcmp(known->bytes, bytes, length) == 0)
			return table->slots[k].number;
	}
	text.bytes = snap_arena_strndup(&writer->arena, bytes, length);
	if (!text.bytes) {
		writer->body.failed = true;
		return 0;
	}
	snap_log_table_add(table, hash, (uint32_t)writer->known_count);
	writer->known[writer->known_count++] = text;
	writer->new_texts++;
	snap_log_put(&writer->texts, length);
	snap_log_put_bytes(&writer->texts, text.bytes, length + 1);
	return (uint32_t)writer->known_count;
}

void snap_log_put_text(struct snap_log_writer *writer, const char *text, size_t most)
{
	snap_log_put(&writer->body,
		     text ? snap_log_text_number(writer, text, strnlen(text, most)) : 0);
}

/* ---- chunks ---- */

static struct snap_error *write_out(struct snap_log_writer *writer, const void *bytes, size_t size)
{
	int os_errno = snap_write_all(writer->fd, bytes, size);

	if (!os_errno)
		return NULL;
	writer->broken = true;
	return snap_error_os(os_errno, "cannot write the recording");
}

/* Texts and body, as one chunk in one write. */
static struct snap_error *write_chunk(struct snap_log_writer *writer, uint32_t type)
{
	struct snap_log_buffer *out = &writer->out;
	struct snap_log_chunk chunk;

	out->size = 0;
	snap_log_put_bytes(out, NULL, sizeof(chunk));
	snap_log_put(out, writer->new_texts);
	snap_log_put_bytes(out, writer->texts.bytes, writer->texts.size);
	snap_log_put_bytes(out, writer->body.bytes, writer->body.size);
	if (out->failed || writer->texts.failed || writer->body.failed) {
		/* What is said to be written was not. */
		writer->broken = true;
		return snap_error_no_memory();
	}
	chunk = snap_log_chunk_make(type, writer->sequence, out->bytes + sizeof(chunk),
				    out->size - sizeof(chunk));
	memcpy(out->bytes, &chunk, sizeof(chunk));
	writer->sequence++;
	writer->new_texts = 0;
	writer->texts.size = 0;
	writer->body.size = 0;
	return write_out(writer, out->bytes, out->size);
}

static void put_statistics(struct snap_log_writer *writer, const struct snap_recording_stats *stats)
{
	uint64_t bits[2];

	memcpy(&bits[0], &stats->hz_asked, sizeof(bits[0]));
	memcpy(&bits[1], &stats->hz_reached, sizeof(bits[1]));
	snap_log_put(&writer->body, bits[0]);
	snap_log_put(&writer->body, bits[1]);
	snap_log_put(&writer->body, stats->ticks);
	snap_log_put(&writer->body, stats->ticks_missed);
	snap_log_put_signed(&writer->body, stats->duration_ns);
	snap_log_put_signed(&writer->body, stats->stopped_ns);
	snap_log_put(&writer->body, stats->threads);
	snap_log_put(&writer->body, stats->thread_samples);
	snap_log_put(&writer->body, stats->stacks);
	snap_log_put(&writer->body, stats->kept);
	snap_log_put(&writer->body, stats->unstopped);
	snap_log_put(&writer->body, stats->alone);
}

static void put_head(struct snap_log_writer *writer, const struct snap_log *log)
{
	const struct snap_host *host = &log->capture->host;

	snap_log_put_text(writer, host->name, SNAP_MAX_NAME);
	snap_log_put_text(writer, host->kernel, SNAP_MAX_NAME);
	snap_log_put_text(writer, host->arch, SNAP_MAX_NAME);
	snap_log_put_text(writer, host->boot_id, SNAP_MAX_NAME);
	snap_log_put(&writer->body, host->cpus);
	snap_log_put_signed(&writer->body, host->boot_time_ns);
	snap_log_put_signed(&writer->body, host->ticks_per_second);
	snap_log_put_signed(&writer->body, log->time_ns);
	snap_log_put_signed(&writer->body, log->period_ns);
	snap_log_put(&writer->body, log->cpu_only);
}

struct snap_error *snap_log_writer_create(const struct snap_log *log, int fd,
					  struct snap_log_writer **ret)
{
	_cleanup_(snap_log_writer_destroyp) struct snap_log_writer *writer =
		calloc(1, sizeof(*writer));
	uint32_t version[2] = { htole32(SNAP_LOG_VERSION), 0 };
	struct snap_error *err;

	if (!writer)
		return snap_error_no_memory();
	writer->fd = fd;
	snap_arena_init(&writer->arena);
	writer->space_versions =
		calloc(log->index->space_capacity, sizeof(*writer->space_versions));
	writer->space_numbers = calloc(log->index->space_capacity, sizeof(*writer->space_numbers));
	if (!writer->space_versions || !writer->space_numbers)
		return snap_error_no_memory();
	err = write_out(writer, snap_log_magic, sizeof(snap_log_magic));
	if (!err)
		err = write_out(writer, version, sizeof(version));
	if (err)
		return err;
	put_head(writer, log);
	err = write_chunk(writer, SNAP_LOG_CHUNK_HEAD);
	if (err)
		return err;
	*ret = snap_take_ptr(writer);
	return NULL;
}

/* ---- flushing ---- */

static bool make_room(struct snap_log_writer *writer, const struct snap_log *log)
{
	while (writer->process_capacity < log->process_count)
		if (!snap_grow_array(writer->process_states, writer->process_capacity,
				     writer->process_capacity))
			return false;
	while (writer->thread_capacity < log->thread_count)
		if (!snap_grow_array(writer->thread_names, writer->thread_capacity,
				     writer->thread_capacity))
			return false;
	return true;
}

struct snap_error *snap_log_writer_flush(struct snap_log_writer *writer, const struct snap_log *log)
{
	if (writer->broken)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "an earlier write of the recording failed");
	if (writer->sequence == 1) {
		writer->ticks = log->first_tick;
		writer->changes = log->first_change;
	}
	if (writer->ticks < log->first_tick || writer->threads > log->thread_count ||
	    writer->stacks > log->stack_count || writer->processes > log->process_count)
		return snap_error_format(SNAP_ERROR_OTHER, "unwritten samples have been dropped");
	if (!make_room(writer, log))
		return snap_error_no_memory();
	snap_log_put_processes(writer, log);
	snap_log_put_threads(writer, log);
	snap_log_put_stacks(writer, log);
	snap_log_put_ticks(writer, log);
	put_statistics(writer, &log->stats);
	return write_chunk(writer, SNAP_LOG_CHUNK_DATA);
}

static void put_end(struct snap_log_writer *writer, const struct snap_log *log)
{
	size_t count = log->capture->warning_count;

	if (count > SNAP_LOG_MOST_WARNINGS)
		count = SNAP_LOG_MOST_WARNINGS;
	snap_log_put(&writer->body, log->end);
	put_statistics(writer, &log->stats);
	snap_log_put(&writer->body, count);
	for (size_t i = 0; i < count; i++) {
		const struct snap_warning *warning = &log->capture->warnings[i];

		snap_log_put_text(writer, warning->code, SNAP_MAX_NAME);
		snap_log_put_text(writer, warning->message, SNAP_LOG_LONGEST_TEXT);
		snap_log_put_signed(&writer->body, warning->pid);
		snap_log_put_signed(&writer->body, warning->tid);
	}
}

struct snap_error *snap_log_writer_finish(struct snap_log_writer *writer,
					  const struct snap_log *log)
{
	struct snap_error *err = snap_log_writer_flush(writer, log);

	if (err)
		return err;
	snap_log_put_names(writer, log);
	err = write_chunk(writer, SNAP_LOG_CHUNK_NAMES);
	if (err)
		return err;
	put_end(writer, log);
	err = write_chunk(writer, SNAP_LOG_CHUNK_END);
	/* Nothing follows the end. */
	writer->broken = true;
	return err;
}

struct snap_error *snap_log_write(const struct snap_log *log, int fd)
{
	_cleanup_(snap_log_writer_destroyp) struct snap_log_writer *writer = NULL;
	struct snap_error *err = snap_log_writer_create(log, fd, &writer);

	return err ? err : snap_log_writer_finish(writer, log);
}
