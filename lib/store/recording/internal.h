/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the writer and the reader of recordings on disk share: see file.h. Nobody else includes
 * it.
 *
 *	file     magic (8), version (u32), zero (u32); chunks
 *	chunk    type (u32), sequence (u32), length (u64), hash of the payload (u64),
 *	         hash of these three (u64); payload
 *	order    HEAD, then any number of DATA and NAMES, then END, where the recording has ended
 *
 * Fixed numbers are little endian; in a payload all numbers are varints (seven bits a byte, the
 * lowest first), signed ones zigzag. A text is a number: in the table of texts that the payloads
 * begin with and that goes on from chunk to chunk; 0 is none.
 *
 *	HEAD     texts; host; time, period, flags
 *	DATA     texts; new processes; spaces that changed; what changed of processes; new threads;
 *	         new names of threads; reasons, calls, frames, stacks; the first tick, and how
 *threads stood before it (at first); ticks with their changes; statistics NAMES    texts; frames
 *with their entries END      texts; why it ended; statistics; warnings
 */
#ifndef SNAP_STORE_RECORDING_INTERNAL_H
#define SNAP_STORE_RECORDING_INTERNAL_H

#include "store/codec.h"
#include "store/log/internal.h"
#include "store/recording/file.h"

enum {
	SNAP_LOG_VERSION = 1,
	SNAP_LOG_FACTS_VERSION = 2, /* of a process's description: that of capture files */
	SNAP_LOG_CHUNK_HEAD = 1,
	SNAP_LOG_CHUNK_DATA,
	SNAP_LOG_CHUNK_NAMES,
	SNAP_LOG_CHUNK_END,
	/* the longest text, which may be a piece of memory */
	SNAP_LOG_LONGEST_TEXT = 1 << 22,
	/* frames that a stack may have from the one before it: what bytes can become is bounded */
	SNAP_LOG_MOST_SHARED = 512,
	SNAP_LOG_MOST_WARNINGS = 1 << 16,
};

/* A stack's way to end, and whether more is told of it. */
enum { SNAP_LOG_END_BITS = 7, SNAP_LOG_MORE_BIT = 8 };

struct snap_log_chunk {
	uint32_t type, sequence;
	uint64_t length, hash, check;
};

_Static_assert(sizeof(struct snap_log_chunk) == 32, "a chunk's head has no holes");

extern const uint8_t snap_log_magic[8];

/* Little endian, both hashes filled in. */
struct snap_log_chunk snap_log_chunk_make(uint32_t type, uint32_t sequence, const uint8_t *payload,
					  uint64_t length);
/* The hash of a head's first three fields, as they stand in the file. */
uint64_t snap_log_chunk_check(const struct snap_log_chunk *chunk);

/* What is written, in memory; `failed`: there was none. */
struct snap_log_buffer {
	uint8_t *bytes;
	size_t size, capacity;
	bool failed;
};

void snap_log_put_bytes(struct snap_log_buffer *buffer, const void *bytes, size_t size);
void snap_log_put(struct snap_log_buffer *buffer, uint64_t number);
void snap_log_put_signed(struct snap_log_buffer *buffer, int64_t number);

/* What is read; the first problem stays, and then all numbers are 0. */
struct snap_log_cursor {
	const uint8_t *at, *end;
	const char *problem;
};

void snap_log_refuse(struct snap_log_cursor *cursor, const char *problem);
uint64_t snap_log_get(struct snap_log_cursor *cursor);
int64_t snap_log_get_signed(struct snap_log_cursor *cursor);
/* At most `most`; else it is refused with the text. */
uint64_t snap_log_get_most(struct snap_log_cursor *cursor, uint64_t most, const char *problem);
/* How many elements follow, each of which takes `least` bytes or more. */
size_t snap_log_get_count(struct snap_log_cursor *cursor, size_t least);

/* The texts of a file while it is read: they lie in its bytes, each with a NUL behind it. */
struct snap_log_text {
	const char *bytes;
	size_t length;
};

/* What is known of a process or thread in the file. */
struct snap_log_written {
	uint32_t space;
	uint64_t last_tick;
	bool execed;
};

struct snap_log_writer {
	int fd;
	uint32_t sequence;
	bool broken; /* a chunk may be there in part: nothing may follow */
	struct snap_log_buffer texts, body, out;
	size_t new_texts;
	/* all texts so far, to be found again */
	struct snap_arena arena;
	struct snap_log_table table;
	struct snap_log_text *known;
	size_t known_count, known_capacity;
	/* how far each array was written */
	size_t processes, threads, reasons, calls, frames, stacks, spaces;
	uint64_t ticks, changes;
	struct snap_log_written *process_states;
	const char **thread_names;
	size_t process_capacity, thread_capacity;
	uint64_t *space_versions; /* of each slot; 0: not written */
	uint32_t *space_numbers;  /* in the file */
	int64_t last_time, last_step;
};

/* The number of a text in the file, which gets it if it is new; without memory the body fails. */
uint32_t snap_log_text_number(struct snap_log_writer *writer, const void *bytes, size_t length);
/* The same of at most `most` bytes; 0 for NULL. */
void snap_log_put_text(struct snap_log_writer *writer, const char *text, size_t most);

/* What a log has of these beyond what was written, into the body. */
void snap_log_put_processes(struct snap_log_writer *writer, const struct snap_log *log);
void snap_log_put_threads(struct snap_log_writer *writer, const struct snap_log *log);
void snap_log_put_stacks(struct snap_log_writer *writer, const struct snap_log *log);
void snap_log_put_ticks(struct snap_log_writer *writer, const struct snap_log *log);
/* All names. */
void snap_log_put_names(struct snap_log_writer *writer, const struct snap_log *log);

struct snap_log_reader {
	struct snap_log *log;
	struct snap_log_cursor cursor; /* of the chunk at hand */
	struct snap_log_text *texts;
	size_t text_count, text_capacity;
	uint64_t *changed; /* of each thread, the tick of its last change, + 1 */
	size_t changed_capacity;
	int64_t last_time, last_step;
	bool has_first_tick;
	bool no_memory;
};

/* A text without NUL of at most `most` bytes, NULL for none. */
const char *snap_log_get_text(struct snap_log_reader *reader, size_t most);
/* Any bytes. */
struct snap_log_text snap_log_get_bytes(struct snap_log_reader *reader);

/* Parts of a payload. */
void snap_log_read_processes(struct snap_log_reader *reader);
void snap_log_read_threads(struct snap_log_reader *reader);
void snap_log_read_stacks(struct snap_log_reader *reader);
void snap_log_read_ticks(struct snap_log_reader *reader);
void snap_log_read_names(struct snap_log_reader *reader);

#endif
