/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the two sides of the reader share: questions and answers, in a worker's memory, and what a
 * worker is asked to do. No other file includes this.
 */
#pragma once

#include "base/priority.h"
#include "sample/reader.h"

#include "stop/plan/of_thread.h"

enum {
	SNAP_READING_KEPT = 64,              /* processes whose memory a worker keeps open */
	SNAP_READING_SPACE_BYTES = 96 << 20, /* address space for a list of mappings */
	SNAP_READING_LIST_STACK =
		64 << 10, /* bytes of a stack that are read with a list; most are smaller */
};

struct snap_reading_kept {
	pid_t pid;
	uint64_t program;
	int fd; /* + 1; 0: none */
};

/* Where a thread is, and what was read of its stack. */
struct snap_reading_location {
	struct snap_reader_question question;
	size_t most;
	int status;
	struct snap_syscall_line line;
	struct snap_bpf_thread registers; /* registers_size is 0: only `line` is known */
	uint64_t address;
	size_t asked, got; /* bytes from there on */
	struct snap_wait_context context;
};

/* A piece of memory that is asked for; its bytes follow those of the one before. */
struct snap_reading_piece {
	uint64_t address;
	uint32_t size, got;
};

/* What a worker shares with the caller. */
struct snap_reading_area {
	/* the question */
	int root_fd;
	struct snap_priority_level level; /* the caller's */
	struct snap_reader_target target;
	/* the answer */
	int status;
	struct snap_reading_location location; /* of one thread; or bytes of memory alone */
	struct snap_stat stat;
	struct snap_reader_space about;
	uint64_t taken;  /* by spaces that were read before, and by this one */
	unsigned wanted; /* bits of enum snap_runtime_kind */
	bool wants_bpf;
	/* a list of threads, with its own bytes, which stay as they are until the next list */
	uint32_t list_count, list_at;
	struct snap_reading_location list[SNAP_READER_MOST];
	uint8_t *list_bytes;
	int64_t list_sign_ns; /* when the current one was begun */
	/* what lies beside stacks: where it goes, and whether it is being read */
	struct snap_region context_room;
	uint32_t at_context;
	int64_t context_left; /* reads */
	/* the same of threads whose calls are known */
	uint32_t caller_count;
	struct snap_reader_caller callers[SNAP_READER_MOST];
	struct snap_wait_context called[SNAP_READER_MOST];
	struct snap_reading_piece pieces[SNAP_SAMPLED_WORDS_MOST];
	uint32_t piece_count;
	/* a plan for single threads, with memory for notes, and for its image */
	struct snap_thread_plan plan;
	struct snap_region plan_work, plan_room;
	/* the worker's; the program is loaded when it is first needed */
	struct snap_bpf bpf;
	bool bpf_tried;
	int bpf_status;    /* see snap_bpf_open() */
	uint64_t switches; /* of a question */
	struct snap_priority_level own_level;
	struct snap_reading_kept kept[SNAP_READING_KEPT];
	struct snap_region records;
	_Alignas(64) uint8_t bytes[];
};

/*
 * What a worker does with an area; `item` is not looked at. The status is in the area.
 */
void snap_reading_stat(void *area, uint32_t item);
void snap_reading_try(void *area, uint32_t item);
void snap_reading_bytes(void *area, uint32_t item);
void snap_reading_location(void *area, uint32_t item);
void snap_reading_open_bpf(void *area, uint32_t item);
void snap_reading_switches(void *area, uint32_t item);
void snap_reading_list(void *area, uint32_t item);
void snap_reading_callers(void *area, uint32_t item);
void snap_reading_pieces(void *area, uint32_t item);
void snap_reading_plan(void *area, uint32_t item);
void snap_reading_space(void *area, uint32_t item);
