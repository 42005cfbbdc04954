/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The inside of reading without a stop, shared by nostop.c (processes) and
 * nostop_threads.c (their threads). Nobody else includes it.
 */
#ifndef SNAP_CAPTURE_NOSTOP_INTERNAL_H
#define SNAP_CAPTURE_NOSTOP_INTERNAL_H

#include "capture/nostop.h"
#include "sample/copy_blocked.h"
#include "stop/single.h"

enum {
	SNAP_NOSTOP_BUFFER = 1 << 16,
};

struct snap_nostop {
	const struct snap_options *options;
	const struct snap_stop_hook *hook; /* NULL, or with `suffices` */
	enum snap_guard_kind guard;
	struct snap_single *single; /* made when the first thread has to be stopped */
	char *buffer;               /* SNAP_NOSTOP_BUFFER bytes, for texts and lines */
	struct snap_map *maps;      /* SNAP_MAX_MAPS, while they are read */
	pid_t *tids;                /* SNAP_MAX_THREADS, a listing */
	int64_t until_ns;           /* CLOCK_MONOTONIC: nothing is begun any more */
	/* the tree at hand */
	struct snap_capture *capture;
	struct snap_shared_memory *shared;
	struct snap_stop *stop;
	/* the process at hand */
	struct snap_traced *traced;
	struct snap_process *process; /* in the capture */
	int tasks_fd, mem_fd;         /* -1: not to be had */
	bool maps_read_again;
	size_t left; /* threads that are still to be taken */
	struct snap_blocked_copy peek;
};

/* Reads mappings and pieces of the process at hand, by way of one of its threads. */
int snap_nostop_read_maps(struct snap_nostop *nostop, pid_t tid);

/* Describes and copies a thread of the process at hand, or finds that it must be stopped (true). */
bool snap_nostop_copy(struct snap_nostop *nostop, struct snap_thread *thread);

/* Stops a thread alone. */
struct snap_error *snap_nostop_stop(struct snap_nostop *nostop,
				    struct snap_thread *thread) _must_check_;

#endif
