/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording on disk while it is written or read: see file.h. For the files of this folder, and
 * for tests that make files by hand.
 *
 *	file     magic (8), version (u32), zero (u32); chunks
 *	chunk    type (u32), sequence (u32), length (u64), hash of the payload (u64),
 *	         hash of these four (u64); payload
 *	order    HEAD, then any number of DATA and NAMES, then END, where the recording has ended
 *
 * Fixed numbers are little endian; in a payload all numbers are varints (seven bits a byte, the
 * lowest first), signed ones zigzag. A text is a number: in the table of texts that the payloads
 * begin with and that goes on from chunk to chunk; 0 is none.
 *
 *	HEAD     texts; host; time, period, flags
 *	DATA     texts; new processes; spaces that changed; processes that changed; new threads;
 *	         threads with a new name; reasons, calls, frames (managed ones with their names),
 *	         sets of labels, stacks; tasks, one for each new thread whose tid is 0; wait
 *	         bytes, objects, sockets that are new or have changed; number of the first tick, the
 *	         state of threads, the bytes of futexes and the wakes before it (in the first chunk
 *	         alone); ticks with their changes, each with its object, their owner changes and
 *	         wakes; the tick from which on wakes are not known; statistics
 *	NAMES    texts; other frames with their names; the meaning of pairs of stack and object
 *	END      texts; why it ended; statistics; warnings
 *
 * Each part is described once, by functions that write or read: a number that is written stays as
 * it is, a number that is read replaces the old value. Rules between numbers are checked when they
 * are read; the first problem stays, and then all numbers are 0.
 */
#pragma once

#include "base/buffer.h"
#include "base/table.h"
#include "store/codec.h"
#include "store/log/index.h"
#include "store/recording/file.h"

enum {
	SNAP_LOG_VERSION = 1,
	SNAP_LOG_CHUNK_HEAD = 1,
	SNAP_LOG_CHUNK_DATA,
	SNAP_LOG_CHUNK_NAMES,
	SNAP_LOG_CHUNK_END,
	/* the longest text, which may be a piece of memory */
	SNAP_LOG_LONGEST_TEXT = 1 << 22,
};

struct snap_log_chunk {
	uint32_t type, sequence;
	uint64_t length, hash, check;
};

_Static_assert(sizeof(struct snap_log_chunk) == 32, "a chunk's head has no holes");

/* Little endian, both hashes filled in. */
struct snap_log_chunk snap_log_chunk_make(uint32_t type, uint32_t sequence, const void *payload,
					  uint64_t length);

/* Bytes of the file, or a copy of them, with a NUL behind them. */
struct snap_log_text {
	const char *bytes;
	size_t length;
};

/* The changeable facts of a process as the file has them. */
struct snap_log_written {
	uint32_t space;
	uint64_t last_tick;
	bool execed;
	bool known; /* it says something */
};

struct snap_log_file {
	bool reads;
	struct snap_log *log; /* is not changed when it is written */
	struct snap_log_text *texts;
	size_t text_count, text_capacity;
	/* how many of each the file has */
	size_t processes, threads, tasks, reasons, calls, frames, label_sets, stacks;
	size_t task_threads; /* of the threads: those that are tasks */
	size_t words, objects, explained;
	uint64_t ticks, changes, owners, wakes;
	uint64_t socket_stamp; /* of their changes: those up to this one */
	bool has_ticks;        /* it says where its ticks begin */
	/* values from which the distance of the next number is stored */
	struct {
		int64_t time, step;
		uint64_t address;
		int64_t space, tid, thread, object, stack, woken;
		size_t named;
	} last;
	/* reading: the rest of the current chunk, and its problem (static text) */
	const uint8_t *at, *end;
	const char *problem;
	bool no_memory;
	uint64_t *changed; /* of each thread, the tick of its last change, + 1 */
	size_t changed_capacity;
	/* writing: the current chunk */
	struct snap_buffer new_texts, body;
	size_t new_text_count;
	struct snap_arena arena; /* of texts, which the table finds */
	struct snap_hash_table table;
	/* writing: what the file says of processes, threads and slots of spaces */
	struct snap_log_written *process_states;
	const char **thread_names;
	size_t process_capacity, thread_capacity;
	uint64_t *space_versions; /* 0: not written */
	uint32_t *space_numbers;  /* in the file, where they have no holes */
	uint32_t space_count;
};

void snap_log_file_deinit(struct snap_log_file *file);

/* ---- primitives.c ---- */

static inline bool snap_log_fine(const struct snap_log_file *file)
{
	return !file->problem;
}

/* When reading: marks the bytes as wrong. */
void snap_log_refuse(struct snap_log_file *file, const char *problem);
/* The same where `holds` is false. */
void snap_log_check(struct snap_log_file *file, bool holds, const char *problem);
void snap_log_fail_memory(struct snap_log_file *file);

/* Signed numbers as unsigned ones: 0, -1, 1, -2 … become 0, 1, 2, 3 … */
static inline uint64_t snap_log_zigzag(int64_t number)
{
	return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

static inline int64_t snap_log_unzigzag(uint64_t zigzag)
{
	return (int64_t)(zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0));
}

/* A number of at most `most`. */
uint64_t snap_log_code_number(struct snap_log_file *file, uint64_t number, uint64_t most,
			      const char *problem);
/* A variable of any integer type, whose values are not negative. */
#define snap_log_code(file, value, most, problem)                                             \
	((value) = (__typeof__(value))snap_log_code_number((file), (uint64_t)(value), (most), \
							   (problem)))
/* Any number. */
#define snap_log_code_any(file, value) snap_log_code(file, value, UINT64_MAX, NULL)
/* An index of an array of `count` elements. */
#define snap_log_code_index(file, value, count, problem)         \
	do {                                                     \
		snap_log_check((file), (count) != 0, (problem)); \
		snap_log_code(file, value, (count)-1, problem);  \
	} while (0)
void snap_log_code_flag(struct snap_log_file *file, bool *flag);
/* A signed number, stored as the distance from another one. */
int64_t snap_log_code_step(struct snap_log_file *file, int64_t number, int64_t from,
			   const char *problem);
/* How many elements follow, each of which takes `least` bytes or more. */
size_t snap_log_code_count(struct snap_log_file *file, size_t count, size_t least);
/* A length of time, or a moment after 1970. */
void snap_log_code_duration(struct snap_log_file *file, int64_t *duration);
/* A text of at most `most` bytes, without NUL; NULL stays. When read, lies in the file's bytes. */
void snap_log_code_text(struct snap_log_file *file, const char **text, size_t most);
/* Any bytes, at most SNAP_LOG_LONGEST_TEXT of them; not NULL. */
void snap_log_code_bytes(struct snap_log_file *file, const void **bytes, size_t *size);
/* So many bytes of the payload, which the caller writes or reads; NULL: they are not there. */
uint8_t *snap_log_code_payload(struct snap_log_file *file, size_t size);

/*
 * The elements of an array of the log that the file does not have: how many, then each. When
 * reading they are appended to the array, zeroed first, each when it is right.
 */
typedef void snap_log_code_element(struct snap_log_file *file, void *element, size_t index);
void snap_log_code_array(struct snap_log_file *file, void *pointer_to_array, size_t *count,
			 size_t *capacity, size_t *done, size_t element_size,
			 snap_log_code_element *code);
#define snap_log_code_new(file, elements, element, code)                                   \
	snap_log_code_array((file), &(file)->log->elements, &(file)->log->element##_count, \
			    &(file)->log->element##_capacity, &(file)->elements,           \
			    sizeof(*(file)->log->elements), (code))
/*
 * Those of `total` elements of which the file does not know all: how many, then each by `code`,
 * which also codes its index; when reading it gets 0.
 */
void snap_log_code_changed(struct snap_log_file *file, size_t total,
			   bool (*is_changed)(const struct snap_log_file *file, size_t index),
			   void (*code)(struct snap_log_file *file, size_t index));

/* ---- parts of payloads ---- */

void snap_log_code_processes(struct snap_log_file *file);
/* The address space of a stack. */
void snap_log_code_space(struct snap_log_file *file, uint32_t *space);
void snap_log_code_stacks(struct snap_log_file *file);
void snap_log_code_names(struct snap_log_file *file);
void snap_log_code_threads(struct snap_log_file *file);
void snap_log_code_tasks(struct snap_log_file *file);
void snap_log_code_ticks(struct snap_log_file *file);
/* Wait bytes, objects, sockets. */
void snap_log_code_waits(struct snap_log_file *file);
/* That of a change, whose thread is known. */
void snap_log_code_object_of(struct snap_log_file *file, struct snap_log_change *change);
void snap_log_code_owners_before(struct snap_log_file *file);
/* Those of a tick: all since the last one. */
void snap_log_code_owner_changes(struct snap_log_file *file, struct snap_log_tick *tick);
void snap_log_code_explained(struct snap_log_file *file);
void snap_log_code_ran_before(struct snap_log_file *file);
/* Those of a tick: all since the last one. */
void snap_log_code_wakes(struct snap_log_file *file, struct snap_log_tick *tick);
