/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Keeper: the role that touches targets. It takes a capture, or reads one from a file, hands its
 * bytes over, and stays to open files for it until it is let go.
 *
 * A read of a target's memory or file system that never ends holds the keeper and nobody else.
 * It has no ELF or DWARF code to run (but for --engine=ptrace, which the sandbox must be off for).
 */
#ifndef SNAP_ROLES_KEEPER_H
#define SNAP_ROLES_KEEPER_H

#include "model/capture.h"
#include "model/options.h"
#include "roles/broker.h"

struct snap_keeper;

/*
 * Takes a capture as snap_capture_take() does, whose errors these are; TIMEOUT when the options'
 * timeout was over first, CRASHED when it died.
 */
struct snap_error *snap_keeper_take(const struct snap_options *options,
				    struct snap_keeper **ret) _must_check_;
/* The tree alone, as snap_capture_list(). */
struct snap_error *snap_keeper_list(const struct snap_options *options,
				    struct snap_keeper **ret) _must_check_;
/* Reads a capture from a file, as snap_capture_read(). */
struct snap_error *snap_keeper_read(int fd, struct snap_keeper **ret) _must_check_;
void snap_keeper_destroy(struct snap_keeper *keeper);

static inline void snap_keeper_destroyp(struct snap_keeper **keeper)
{
	snap_keeper_destroy(*keeper);
}

/* The capture as the bytes of a file, to be read from its beginning; stays the keeper's. */
int snap_keeper_bytes(const struct snap_keeper *keeper);
/* When the time of the whole run is over: CLOCK_MONOTONIC. */
int64_t snap_keeper_deadline_ns(const struct snap_keeper *keeper);
/* What snap_sandbox_pick_uid() says for its processes. */
uid_t snap_keeper_parser_uid(const struct snap_keeper *keeper);

/* Writes it as a file that is complete in itself, see snap_files_embed(). */
struct snap_error *snap_keeper_save(struct snap_keeper *keeper, const struct snap_options *options,
				    int fd) _must_check_;

/*
 * The broker of its files under these options; with debuginfod the supervisor downloads. A keeper
 * that does not answer within two seconds finds nothing more.
 */
struct snap_error *snap_keeper_broker(struct snap_keeper *keeper,
				      const struct snap_options *options,
				      struct snap_broker *ret) _must_check_;

#endif
