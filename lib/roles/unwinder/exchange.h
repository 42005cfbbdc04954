/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Exchange: the memory that a remote unwinder shares with its parser, at the same address in both:
 * one call, one answer. Only this folder includes it; the client does so by internal.h.
 *
 * The client writes while the parser waits. The parser's writes are as hostile as its input, and it
 * may write to all of this at any time. So the client reads each value of the second part once, and
 * checks it. It never reads the first part, which holds the call.
 */
#pragma once

#include "analyze/unwind/unwind.h"

#include <stdatomic.h>

enum {
	SNAP_EXCHANGE_LEFT =
		256, /* processes that a call says were left; more: all are forgotten */
	SNAP_EXCHANGE_REASON = 128, /* bytes of a reason, with its end */
	/*
	 * How long each side polls before it sleeps. The other side often works for microseconds
	 * only, and waking a thread on an idle processor takes longer than that.
	 */
	SNAP_EXCHANGE_AWAKE_NS = 20000,
	SNAP_EXCHANGE_PIECES = 1 << 20,  /* of the memory of a runtime … */
	SNAP_EXCHANGE_MEMORY = 64 << 20, /* … and its bytes */
	/* In one answer: new managed frames, their functions and texts; labels. */
	SNAP_EXCHANGE_FRAMES = 1 << 13,
	SNAP_EXCHANGE_ENTRIES = 1 << 14,
	SNAP_EXCHANGE_MOST_ENTRIES = 64, /* of a frame */
	SNAP_EXCHANGE_TEXT = 16 << 20,
	SNAP_EXCHANGE_LABELS = 64,
	SNAP_EXCHANGE_LANGUAGES = 3,
	/* Of a process that was stopped as a whole: threads … */
	SNAP_EXCHANGE_THREADS = 1 << 12,
	/* … and in the answer tasks, their stacks, the frames of all stacks, and labels. */
	SNAP_EXCHANGE_TASKS = 1 << 16,
	SNAP_EXCHANGE_STACKS = 1 << 16,
	SNAP_EXCHANGE_STACK_FRAMES = 1 << 20,
	SNAP_EXCHANGE_TASK_LABELS = 1 << 18,
};

/* Languages by their numbers. */
extern const char *const snap_exchange_languages[SNAP_EXCHANGE_LANGUAGES];

/*
 * A managed frame in place of a pc. Numbers count the frames that answers have brought for a
 * process, since it was entered or since an answer that forgets all.
 */
struct snap_exchange_managed {
	uint32_t at, number;
};

/* A new managed frame; its entries follow those of the frame before it. */
struct snap_exchange_frame {
	uint64_t address;
	uint32_t entry_count;
};

/* The places of its texts, + 1; 0: none. */
struct snap_exchange_entry {
	uint32_t function, symbol, file, line, column;
	uint8_t inlined, system, language;
};

struct snap_exchange_label {
	uint32_t key, value;
};

/* A stack of tasks; its frames, by their numbers, follow those of the stack before it. */
struct snap_exchange_stack {
	uint32_t frame_count;
	uint32_t end;    /* enum snap_unwind_end */
	uint32_t reason; /* a text */
	uint32_t gap_after;
	uint64_t gap_count;
};

/* A task; its labels follow those of the task before it. */
struct snap_exchange_task {
	uint32_t id, name, runtime, parent, wait; /* texts */
	uint32_t creator, creator_file, creator_line;
	uint32_t stack; /* its number + 1; 0: the thread that runs the task shows it */
	uint32_t label_count;
	uint8_t state; /* enum snap_task_state */
	uint8_t labels_cut;
};

/* The places of the parts of both sides that have no fixed place. */
struct snap_exchange_room {
	struct snap_memory_piece *pieces;
	uint8_t *memory;
	struct snap_exchange_managed *managed; /* as many as pcs */
	struct snap_exchange_frame *frames;
	struct snap_exchange_entry *entries;
	char *text;
	struct snap_thread *threads;
	uint8_t (*registers)[SNAP_MAX_REGISTERS]; /* one each */
	struct snap_exchange_task *tasks;
	struct snap_exchange_stack *stacks;
	uint32_t *stack_frames;
	struct snap_exchange_label *task_labels;
};

struct snap_exchange_answer {
	uint64_t count; /* of the pcs */
	uint64_t end_pc, missing, gap_after, gap_count;
	uint32_t end; /* enum snap_unwind_end */
	uint8_t needs_register, stale_mappings;
	uint8_t shows_all; /* see struct snap_log_stack */
	uint8_t forgets;   /* the parser has forgotten all earlier frames of this process */
	uint32_t managed_count, frame_count, entry_count, text_size, label_count;
	struct snap_exchange_label labels[SNAP_EXCHANGE_LABELS];
	char reason[SNAP_EXCHANGE_REASON]; /* "": none */
	/* If the call asks for tasks. */
	uint32_t task_count, stack_count, stack_frame_count, task_label_count;
	uint8_t has_tasks; /* a runtime of tasks is in the process */
	uint8_t cut;       /* some tasks are missing */
};

struct snap_exchange {
	/* Written by the client. */
	struct snap_pc *pcs; /* where they go, behind the header */
	uint64_t most_pcs;
	struct snap_exchange_room room;
	_Atomic uint32_t calls; /* a futex: the number of calls so far */
	uint32_t number;        /* of the process */
	bool enters;            /* its description is on the channel */
	bool resets;            /* forget all processes that were entered before */
	uint32_t left_count;
	uint32_t left[SNAP_EXCHANGE_LEFT];
	bool wants_tasks;      /* the call asks for the tasks of the process, not for a thread */
	uint32_t thread_count; /* of such a call, in the room */
	struct snap_thread thread; /* only its bytes are here */
	struct snap_memory_image memory;
	uint8_t registers[SNAP_MAX_REGISTERS];
	/* Written by the parser. */
	_Atomic uint32_t events __attribute__((aligned(64))); /* a futex: counts news */
	_Atomic uint32_t done;                                /* the number of answered calls */
	_Atomic uint32_t asked;      /* the number of requests for files, on the channel */
	_Atomic uint32_t has_left;   /* the parser ends, as it had nothing to do for long */
	_Atomic uint64_t left_bytes; /* kept of processes that were left */
	uint64_t file_id;            /* snap_broker_file_id() of what is read */
	struct snap_exchange_answer answer;
};

static inline void snap_exchange_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Runs a parser that unwinds: `context` is the birth below. */
struct snap_exchange_birth {
	struct snap_exchange *exchange;
	const struct snap_options *options;
};
void snap_exchange_serve(void *context, int channel);
