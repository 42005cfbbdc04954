/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The inside of a recorder, shared by recorder.c and run.c. Nobody else includes it. */
#ifndef SNAP_RECORD_INTERNAL_H
#define SNAP_RECORD_INTERNAL_H

#include "base/clock.h"
#include "record/log_sink.h"
#include "record/pace.h"
#include "record/priority.h"
#include "record/recorder.h"
#include "record/until.h"
#include "store/recording/file.h"

#include <stdatomic.h>

enum { SNAP_SECOND = 1000000000 };

struct snap_recorder {
	const struct snap_options *options;
	struct snap_sampler_sink sink;
	struct snap_sampler *sampler;
	struct snap_log *log;
	struct snap_spaces *spaces;
	struct snap_follow follow;
	struct snap_until_watch watch;
	struct snap_log_writer *writer;
	int fd;
	atomic_bool stop;
	bool begun;       /* a run has begun: the log's time counts */
	int64_t start_ns; /* CLOCK_MONOTONIC of the log's time 0 */
	/* of the run at hand */
	struct snap_priority priority; /* of the caller's thread, when it is not raised */
	struct snap_pace pace;
	int64_t run_ns;        /* since start_ns: when it began */
	int64_t before_ns;     /* how long those before it took */
	uint64_t missed;       /* ticks of those before it */
	int64_t next_flush_ns; /* since start_ns */
	bool condition;        /* was met at the last tick */
	bool is_running;
	unsigned told_losses; /* of parsers, that the log tells */
};

/* Lets go of what is older than the ring is long. */
struct snap_error *snap_recorder_forget(struct snap_recorder *recorder) _must_check_;
/* One warning about all parsers that were lost. */
void snap_recorder_tell_losses(struct snap_recorder *recorder);
/* What is new goes to the file, if there is one. */
struct snap_error *snap_recorder_flush(struct snap_recorder *recorder) _must_check_;

#endif
