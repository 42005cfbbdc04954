/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parser: a piece of work on hostile bytes, done in a sandboxed process, with an end in sight.
 *
 * The work is a function that runs in a copy of this process after snap_sandbox_enter(), asks for
 * files through a broker, and leaves its result as bytes in memory that both see. The result is
 * read when the process has gone, so it cannot change while it is looked at; it is as hostile as
 * what it was made from. Knows nothing of what the work is.
 */
#ifndef SNAP_ROLES_PARSER_H
#define SNAP_ROLES_PARSER_H

#include "roles/broker.h"
#include "roles/role.h"

struct snap_parser_setting {
	const struct snap_options *options; /* cancel; no_sandbox */
	struct snap_broker broker;
	uid_t uid;           /* for the sandbox */
	int64_t deadline_ns; /* CLOCK_MONOTONIC, when it is killed; 0: never */
	uint64_t room;       /* bytes of a result, at most; 0: 256 MiB */
	int input, input2;   /* descriptors that the work reads; -1: none */
	/* After a failure: what the parser had last noted in its job's `place`. NULL: not asked */
	uint64_t *place_ret;
};

/* What the work sees, in the sandbox. */
struct snap_parser_job {
	int channel, input, input2;
	uint64_t *place; /* for struct snap_remote_finder */
	uint8_t *out;    /* zeroed memory, shared */
	uint64_t room;   /* bytes of it */
	uint64_t size;   /* the work sets how many there are */
};

/*
 * Runs the work and hands over its bytes: a mapping that the caller munmaps; *size_ret of it. The
 * work's own error is returned as it was. Else: CANCELLED; TIMEOUT ("... took longer than ..."),
 * CRASHED ("... ended by signal 6"): then another kind of work may still succeed.
 */
struct snap_error *
snap_parser_run(const struct snap_parser_setting *setting,
		struct snap_error *(*work)(void *context, struct snap_parser_job *job),
		void *context, const uint8_t **bytes_ret, uint64_t *size_ret) _must_check_;

/*
 * Makes a parser that stays (see roles/unwinder/unwinder.h): a role that is in the sandbox, without limit on its
 * processor time, before `run` is called; `run` is not called when the sandbox refused.
 */
struct snap_error *snap_parser_spawn(const struct snap_options *options, uid_t uid,
				     void (*run)(void *context, int channel), void *context,
				     struct snap_role *ret) _must_check_;

#endif
