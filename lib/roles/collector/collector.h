/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Collector: the role that touches targets. It takes a capture, or reads one from a file, and hands
 * its bytes over. It stays, so that its workers can open files, until it is dismissed.
 *
 * A read of a target's memory or file system that never ends blocks no other role. The collector
 * runs no ELF or DWARF code (except for --engine=ptrace, which needs the sandbox to be off). Knows
 * nothing of stacks and names.
 */
#pragma once

#include "model/capture.h"
#include "model/options.h"
#include "roles/broker.h"

struct snap_collector;

/* How a collector gets its capture. */
struct snap_collector_start {
	/* Runs in the collector, with its own copy of the options; errors come back unchanged. */
	struct stacksnap_error *(*make)(void *context, const struct snap_options *options,
					struct snap_capture **ret);
	void *context;
	int input;           /* a descriptor that `make` reads; -1: none */
	int64_t deadline_ns; /* CLOCK_MONOTONIC, of the whole run; 0: none */
};

/*
 * Makes the collector, which begins at once. The options and `start` need not outlive this call in
 * the collector; this process checks the options' cancel flag until the capture is there. OS,
 * NO_MEMORY.
 */
struct stacksnap_error *snap_collector_start(const struct snap_options *options,
					     const struct snap_collector_start *start,
					     struct snap_collector **ret) _must_check_;
/*
 * Waits for its capture, once. The errors are make's; CANCELLED by the options' flag; TIMEOUT when
 * the deadline passed; CRASHED when the collector died; OS with EINTR when there is no cancel flag
 * and a signal was handled.
 */
struct stacksnap_error *snap_collector_await(struct snap_collector *collector) _must_check_;
/* The capture is no longer wanted: the collector begins to end, and the caller goes on. */
void snap_collector_dismiss(struct snap_collector *collector);
void snap_collector_destroy(struct snap_collector *collector);

SNAP_POINTER_GUARD(struct snap_collector, snap_collector_destroy);

/* The capture's two memfds for snap_capture_take_over(); they stay the collector's. */
int snap_collector_bytes(const struct snap_collector *collector);
int snap_collector_shared(const struct snap_collector *collector);
/* When the time of the whole run is over: CLOCK_MONOTONIC; 0: never. */
int64_t snap_collector_deadline_ns(const struct snap_collector *collector);

/* Bytes of managed runtimes' memory in it. */
uint64_t snap_collector_memory_bytes(const struct snap_collector *collector);

/* Writes it to `fd` as a file that is complete in itself, see snap_files_embed(). */
struct stacksnap_error *snap_collector_save(struct snap_collector *collector,
					    const struct snap_options *options,
					    int fd) _must_check_;

/* How many openers were lost: a file was not opened in time, or an opener died over it. */
unsigned snap_collector_lost_openers(const struct snap_collector *collector);

/*
 * The broker of its files under these options, which must outlive it, for one piece of work at a
 * time; with debuginfod this process downloads. A file that is not opened within two seconds, or
 * until the deadline, is not found.
 */
struct snap_broker snap_collector_broker(struct snap_collector *collector,
					 const struct snap_options *options, int64_t deadline_ns);
