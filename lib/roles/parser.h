/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parser: a sandboxed process that does one piece of work on hostile bytes, within a limited time.
 *
 * The work is a function that runs in a copy of this process after snap_sandbox_enter(), asks for
 * files through a broker, and leaves its result as bytes in memory that both share. The result is
 * read when the process has ended, so it cannot change while it is read. It is as hostile as the
 * bytes it was made from. Knows nothing of what the work is.
 *
 * A parser is a copy of its maker. It keeps nothing that its maker shares with other processes: no
 * descriptors, no shared memory, no priority. So it can change only its own memory and the result.
 *
 * Making a parser takes milliseconds, most of them for the sandbox. So it can be made before its
 * input exists: it waits in the sandbox until snap_parser_run() sends the input.
 */
#pragma once

#include "roles/broker.h"
#include "roles/role.h"

enum { SNAP_PARSER_INPUTS = 2, SNAP_PARSER_HURRY_NS = 650000000 };

struct snap_refusals;

/* What the work sees, in the sandbox. */
struct snap_parser_job {
	int channel;
	int inputs[SNAP_PARSER_INPUTS];       /* descriptors to read; -1: none */
	uint64_t *file_id;                    /* for struct snap_remote_finder */
	uint64_t *runtimes_of;                /* the same */
	const struct snap_refusals *refusals; /* see roles/fallback.h; NULL: nothing is refused */
	const volatile int *enough;           /* not 0: finish with what is known by now */
	uint8_t *out;                         /* zeroed memory, shared */
	uint64_t capacity;                    /* bytes of it */
	uint64_t size;                        /* the work sets how many there are */
};

/* What is decided when a parser is made. */
struct snap_parser_start {
	const struct snap_options *options; /* cancel; no_sandbox; they outlive the parser */
	struct stacksnap_error *(*work)(void *context, struct snap_parser_job *job);
	void *context;       /* the work sees it as it is when the parser is made */
	int64_t deadline_ns; /* of all its work, CLOCK_MONOTONIC, for its processor time; 0: none */
	uint64_t capacity;   /* bytes of a result, at most; 0: 256 MiB */
};

struct snap_parser;

/*
 * Whether a caller has waited for SNAP_PARSER_HURRY_NS; `asked_ns` as in struct snap_parser_call.
 */
bool snap_parser_has_enough(_Atomic int64_t *asked_ns);

/* OS; whatever fails in the new process is an error of snap_parser_run(). */
struct stacksnap_error *snap_parser_create(const struct snap_parser_start *start,
					   struct snap_parser **ret) _must_check_;
void snap_parser_destroy(struct snap_parser *parser);

SNAP_POINTER_GUARD(struct snap_parser, snap_parser_destroy);

/* What is known when the work can begin. */
struct snap_parser_call {
	struct snap_broker broker;
	int inputs[SNAP_PARSER_INPUTS]; /* copies are sent; -1: none */
	int64_t deadline_ns;            /* CLOCK_MONOTONIC, when it is killed; 0: never */
	int64_t enough_ns;              /* CLOCK_MONOTONIC, when `enough` is set; 0: never */
	/*
	 * CLOCK_MONOTONIC: since when a caller waits for the end; 0: none does; NULL: none will.
	 * From then on the work has SNAP_PARSER_HURRY_NS until `enough` is set, and half as much
	 * again until it is killed.
	 */
	_Atomic int64_t *asked_ns;
	/*
	 * How long it may get no processor, or stand still: its time, without that of its files and ten
	 * times its processor time. 0: until the deadline.
	 */
	int64_t idle_ns;
	/* set by the run: what the parser noted last in its job */
	uint64_t file_id, runtimes_of;
};

/*
 * Has the work done, once, and returns its bytes: a mapping of *size_ret bytes that the caller
 * munmaps. The parser has ended afterwards. An error of the work itself is returned unchanged.
 * Other errors: CANCELLED; TIMEOUT ("... took too long"), CRASHED ("... was killed by signal 6"),
 * FORMAT (its request made no sense): then other work may still succeed. OS.
 */
struct stacksnap_error *snap_parser_run(struct snap_parser *parser, struct snap_parser_call *call,
					const uint8_t **bytes_ret, uint64_t *size_ret) _must_check_;

/* A parser for one piece of work on one file and nothing else: both of the above. */
struct stacksnap_error *snap_parser_run_once(const struct snap_parser_start *start, int fd,
					     const uint8_t **bytes_ret,
					     uint64_t *size_ret) _must_check_;

/* What is decided when a parser that stays is made. */
struct snap_parser_stay {
	const struct snap_options *options; /* no_sandbox */
	void (*run)(void *context, int channel);
	void *context;
	void *memory; /* the only memory that it shares with its maker */
	uint64_t memory_size;
};

/*
 * Makes a parser that stays (see roles/unwinder/unwinder.h). It enters the sandbox, without a limit
 * on its processor time, before it calls `run`; without a sandbox `run` is not called. Its maker
 * bounds its time.
 */
struct stacksnap_error *snap_parser_spawn(const struct snap_parser_stay *stay,
					  struct snap_role *ret) _must_check_;
