/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Collector: the role that touches targets. It takes a capture, or reads one from a file, hands its
 * bytes over, and stays to open files for it until it is let go.
 *
 * A read of a target's memory or file system that never ends holds the collector and nobody else.
 * It has no ELF or DWARF code to run (but for --engine=ptrace, which the sandbox must be off for).
 */
#ifndef SNAP_ROLES_COLLECTOR_COLLECTOR_H
#define SNAP_ROLES_COLLECTOR_COLLECTOR_H

#include "model/capture.h"
#include "model/options.h"
#include "roles/broker.h"

struct snap_collector;

/* How a collector comes to its capture. */
struct snap_collector_start {
	/* Runs in the collector, with options of its own; errors come back as they are. */
	struct stacksnap_error *(*make)(void *context, const struct snap_options *options,
					struct snap_capture **ret);
	void *context;
	int input;           /* a descriptor that `make` reads; -1: none */
	int64_t deadline_ns; /* CLOCK_MONOTONIC, of the whole run; 0: none */
};

/*
 * Makes the collector, which begins at once. The options and `start` need not outlive this call in
 * the collector; the options' cancel flag is looked at by this process until the capture is there.
 * OS, NO_MEMORY.
 */
struct stacksnap_error *snap_collector_start(const struct snap_options *options,
					     const struct snap_collector_start *start,
					     struct snap_collector **ret) _must_check_;
/*
 * Waits for its capture, once. The errors are make's; CANCELLED by the options' flag; TIMEOUT when
 * the deadline was first; CRASHED when it died; OS with EINTR when there is no cancel flag and a
 * signal was handled.
 */
struct stacksnap_error *snap_collector_await(struct snap_collector *collector) _must_check_;
/* Nobody wants it any more: it begins to end, while the caller does something else. */
void snap_collector_dismiss(struct snap_collector *collector);
void snap_collector_destroy(struct snap_collector *collector);

static inline void snap_collector_destroyp(struct snap_collector **collector)
{
	snap_collector_destroy(*collector);
}

/* The capture's two memfds for snap_capture_take_over(); they stay the collector's. */
int snap_collector_bytes(const struct snap_collector *collector);
int snap_collector_shared(const struct snap_collector *collector);
/* When the time of the whole run is over: CLOCK_MONOTONIC; 0: never. */
int64_t snap_collector_deadline_ns(const struct snap_collector *collector);
/* What snap_sandbox_pick_uid() says for its processes. */
uid_t snap_collector_parser_uid(const struct snap_collector *collector);

/* Bytes of managed runtimes' memory in it. */
uint64_t snap_collector_memory_bytes(const struct snap_collector *collector);

/* Writes it to `fd` as a file that is complete in itself, see snap_files_embed(). */
struct stacksnap_error *snap_collector_save(struct snap_collector *collector,
					    const struct snap_options *options,
					    int fd) _must_check_;

/* How many processes have files that were not opened in time, or ended who opened them. */
unsigned snap_collector_held(const struct snap_collector *collector);

/*
 * The broker of its files under these options, which must outlive it, for one piece of work at a
 * time; with debuginfod this process downloads. A collector that does not answer within two
 * seconds, or until the deadline, finds nothing more.
 */
struct snap_broker snap_collector_broker(struct snap_collector *collector,
					 const struct snap_options *options, int64_t deadline_ns);

#endif
