/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fallback: runs work in a parser, and tries again with less if the parser dies or is late.
 *
 * Hostile files spoil the result only step by step. The next parser does without the file that the
 * last one was reading, or without the runtimes of the process whose memory it was reading, a few
 * times. Then it does without symbols, and at last without any byte that a target made. Knows
 * nothing of what the work is.
 */
#pragma once

#include "roles/parser.h"

/* How much is read. Each step reads less of what the targets made than the one before. */
enum snap_effort {
	SNAP_EFFORT_ALL,
	SNAP_EFFORT_NO_SYMBOLS,
	SNAP_EFFORT_NO_FILES,
	SNAP_EFFORT_COUNT,
};

enum { SNAP_MOST_REFUSED = 32 };

/* A broker in front of another one, which refuses files that have ended a parser. */
struct snap_refusals {
	struct snap_broker broker; /* the other one */
	const struct stacksnap_error
		*reason;                   /* why a module is refused; NULL: it is just not found */
	uint64_t files[SNAP_MOST_REFUSED]; /* snap_broker_file_id() */
	size_t count;
	uint64_t runtimes[SNAP_MOST_REFUSED]; /* numbers of processes, plus 1; for the work */
	size_t runtime_count;
};

struct snap_broker snap_refusing_broker(struct snap_refusals *refusals);

/* Refuses this file from now on. False: 0, refused already, or as many as `most` (up to 32). */
bool snap_refuse_file(struct snap_refusals *refusals, uint64_t file_id, size_t most);

struct snap_fallback {
	/* Runs in the parser, on a copy of `context`; job->refusals says what to leave out. */
	struct stacksnap_error *(*work)(void *context, enum snap_effort effort,
					struct snap_parser_job *job);
	/* In this process: reads the result, and takes over the mapping unless it fails. */
	struct stacksnap_error *(*take)(void *context, const uint8_t *bytes, uint64_t size);
	void *context;
	const struct snap_options *options; /* cancel; no_sandbox */
	struct snap_broker broker;
	int inputs[SNAP_PARSER_INPUTS];
	/*
	 * CLOCK_MONOTONIC; 0: none. All tries end some time before it. If it has passed already,
	 * only the last try is made, for 100 ms.
	 */
	int64_t deadline_ns;
	uint64_t capacity; /* see struct snap_parser_start */
	enum snap_effort first;
	/*
	 * As in struct snap_parser_call, for all tries but the last. Once that time is over, only
	 * the last effort is tried, or with `no_less` nothing at all.
	 */
	_Atomic int64_t *asked_ns;
	bool no_less;
	int64_t idle_ns; /* as in struct snap_parser_call, for all tries but the last, which adds a part */
	/*
	 * Set by the run: the last effort, and the first error (NULL: none), which the caller
	 * destroys.
	 */
	enum snap_effort effort;
	struct stacksnap_error *reason;
};

/*
 * Makes the parser of the first try beforehand: everything but broker, inputs and deadline must be
 * set. OS.
 */
struct stacksnap_error *snap_fallback_prepare(const struct snap_fallback *fallback,
					      struct snap_parser **ret) _must_check_;

/*
 * Runs it; `prepared` is a parser of snap_fallback_prepare(), which is used up, or NULL. The errors
 * are those of the last try; CANCELLED, and what the work finds wrong with its options or its
 * target, are not tried again.
 */
struct stacksnap_error *snap_fallback_run(struct snap_fallback *fallback,
					  struct snap_parser *prepared) _must_check_;
