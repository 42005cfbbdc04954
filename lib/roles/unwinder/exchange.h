/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory that a remote unwinder shares with its parser, at the same address in both: one call,
 * one answer. Included by unwinder*.c alone.
 *
 * The client writes while the parser waits. What the parser writes is as hostile as what it reads,
 * and it may write to all of this at any time: the client takes each value of the second part
 * once, and checks it; of the first part, which tells the parser what to do, it reads nothing.
 */
#ifndef SNAP_ROLES_UNWINDER_EXCHANGE_H
#define SNAP_ROLES_UNWINDER_EXCHANGE_H

#include "analyze/unwind/unwind.h"

#include <stdatomic.h>

enum {
	SNAP_EXCHANGE_LEFT = 256,   /* numbers that a call says were left; more: all is forgotten */
	SNAP_EXCHANGE_REASON = 128, /* bytes of a reason, with its end */
	/*
	 * How long both sides look for the other one before they sleep: who sleeps while the other
	 * works for microseconds is woken later than that, on a processor that has gone to rest.
	 */
	SNAP_EXCHANGE_AWAKE_NS = 20000,
	SNAP_EXCHANGE_PIECES = 1 << 15,  /* of the memory of an interpreter … */
	SNAP_EXCHANGE_MEMORY = 16 << 20, /* … and its bytes */
	/* In one answer: managed frames that are new, their functions and texts; labels. */
	SNAP_EXCHANGE_FRAMES = 1 << 13,
	SNAP_EXCHANGE_ENTRIES = 1 << 14,
	SNAP_EXCHANGE_MOST_ENTRIES = 64, /* of a frame */
	SNAP_EXCHANGE_TEXT = 4 << 20,
	SNAP_EXCHANGE_LABELS = 64,
	SNAP_EXCHANGE_LANGUAGES = 3,
};

/* Languages by their numbers. */
extern const char *const snap_exchange_languages[SNAP_EXCHANGE_LANGUAGES];

/*
 * A managed frame in place of a pc. Numbers count the frames of a process that came with its
 * answers, since it was entered or the last one said that it forgets all.
 */
struct snap_exchange_managed {
	uint32_t at, number;
};

/* A new one; its entries follow those of the one before it. */
struct snap_exchange_frame {
	uint64_t address;
	uint32_t entry_count;
};

/* Texts: where they begin, + 1; 0: none. */
struct snap_exchange_entry {
	uint32_t function, symbol, file;
	uint32_t line, column;
	uint8_t inlined, system, language;
};

struct snap_exchange_label {
	uint32_t key, value;
};

/* Where the parts of both sides lie that have no fixed place. */
struct snap_exchange_room {
	struct snap_memory_piece *pieces;
	uint8_t *memory;
	struct snap_exchange_managed *managed; /* as many as pcs */
	struct snap_exchange_frame *frames;
	struct snap_exchange_entry *entries;
	char *text;
};

struct snap_exchange_answer {
	uint64_t count; /* of the pcs */
	uint64_t end_pc;
	uint64_t gap_after, gap_count;
	uint32_t end; /* enum snap_unwind_end */
	uint8_t needs_register, stale_mappings;
	uint8_t shows_all; /* see struct snap_log_stack */
	uint8_t forgets;   /* the frames of this process that came before */
	uint32_t managed_count, frame_count, entry_count, text_size, label_count;
	struct snap_exchange_label labels[SNAP_EXCHANGE_LABELS];
	char reason[SNAP_EXCHANGE_REASON]; /* "": none */
};

struct snap_exchange {
	/* Written by the client. */
	struct snap_pc *pcs; /* where they go, behind the header */
	uint64_t most_pcs;
	struct snap_exchange_room room;
	_Atomic uint32_t calls; /* a futex: how many there were */
	uint32_t number;        /* of the process */
	bool enters;            /* its description is on the channel */
	bool resets;            /* all that was entered before is forgotten */
	uint32_t left_count;
	uint32_t left[SNAP_EXCHANGE_LEFT];
	struct snap_thread thread; /* its bytes are here, and nothing else of it */
	struct snap_memory_image memory;
	uint8_t registers[SNAP_MAX_REGISTERS];
	/* Written by the parser. */
	_Atomic uint32_t events __attribute__((aligned(64))); /* a futex: there is something new */
	_Atomic uint32_t done;                                /* so many calls were answered */
	_Atomic uint32_t asked;      /* so many files were asked for, on the channel */
	_Atomic uint32_t has_left;   /* it had nothing to do for long */
	_Atomic uint64_t left_bytes; /* kept of processes that were left */
	uint64_t file_id;            /* snap_broker_file_id() of what is read */
	struct snap_exchange_answer answer;
};

static inline void snap_exchange_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* The life of a parser that unwinds: `context` is the birth below. */
struct snap_exchange_birth {
	struct snap_exchange *exchange;
	const struct snap_options *options;
};
void snap_exchange_serve(void *context, int channel);

#endif
