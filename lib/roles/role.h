/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Role: a process that does one part of the work, so that its end costs only that part.
 *
 *     supervisor   the caller's process: deadlines, the broker of files, output; no ptrace
 *     collector    takes the capture and keeps its descriptors (with its short-lived tracing child)
 *     parser       reads ELF, DWARF and other bytes of targets; sandboxed
 *
 * A role is a copy of its maker that ends by _exit. It has its context, a channel (a socket of
 * messages) and what it inherited. It blocks all signals, gets SIGKILL when its maker ends, and can
 * always be killed. This file knows nothing of what roles do. SECURITY.md lists all processes.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct snap_role {
	pid_t pid;
	int pidfd;
	int channel; /* SOCK_SEQPACKET; the maker's end */
};

/* No process. */
#define SNAP_ROLE_NONE ((struct snap_role){ 0, -1, -1 })

/*
 * Makes a process that calls `run` with its end of the channel, and ends when `run` returns. `name`
 * (at most 15 bytes) is its comm. It may allocate, so in a program with several threads its end
 * sends SIGCHLD (SNAP_SPAWN_ALLOCATES). OS.
 */
struct stacksnap_error *snap_role_spawn(const char *name, void (*run)(void *context, int channel),
					void *context, struct snap_role *ret) _must_check_;

/*
 * Kills the role if it still runs, and reaps it. This waits for at most 100 ms, and for 20 ms if
 * the role sleeps uninterruptibly; then the role is left behind. Afterwards *role is
 * SNAP_ROLE_NONE. Returns the status of wait(2) if the role had ended before, else -1. Safe on
 * SNAP_ROLE_NONE.
 */
int snap_role_end(struct snap_role *role);

/* Whether it has ended by itself; waits up to `timeout_ms`. */
bool snap_role_has_ended(const struct snap_role *role, int timeout_ms);

/* In a role: the end of its maker's thread does not kill it any more. */
void snap_role_outlive_thread(void);

/*
 * In a role: gives up the priority of its maker, so that it has no more of a processor than any
 * other process; a positive nice value stays. `slice_ns`: how long it wants to run at a time, which
 * needs no right; a thread with a shorter slice runs sooner. 0: the default.
 */
void snap_role_leave_priority(uint64_t slice_ns);

/*
 * In a role that a report waits for: begins a session, and gives the role and the session that nice
 * value (-20 to 0), where this is permitted; a process with a positive nice value stays as it is.
 * Otherwise it would get no processor for seconds while hundreds of threads of a target keep waking
 * up. snap_role_put_back(), in the maker, takes the priority away again.
 */
void snap_role_come_first(int nice);
void snap_role_put_back(const struct snap_role *role);

/*
 * In a role: descriptors 0, 1 and 2 are /dev/null from here on (2 stays in a build with sanitizers,
 * which report there).
 */
void snap_role_leave_standard_descriptors(void);

/* In a role: closes all descriptors except for 0 to 2 and these, at most 8. */
void snap_role_close_all_but(const int *fds, size_t count);

enum {
	SNAP_WIRE_BYTES = 16384, /* of a message, at most */
	SNAP_WIRE_FOREVER = -1,
};

/*
 * Sends a message of 1 to SNAP_WIRE_BYTES bytes, with a copy of `fd` unless that is -1. Never
 * raises SIGPIPE. OS: EPIPE when the other end has gone.
 */
struct stacksnap_error *snap_wire_send(int channel, const void *bytes, size_t size,
				       int fd) _must_check_;

/*
 * Receives one; *size_ret 0: the other end has gone. *fd_ret is the caller's, -1 when none came;
 * `fd_ret` NULL refuses descriptors. FORMAT: longer than `room`. OS.
 */
struct stacksnap_error *snap_wire_receive(int channel, void *bytes, size_t room, size_t *size_ret,
					  int *fd_ret) _must_check_;

/*
 * Waits for one of this size, until `deadline_ns` (CLOCK_MONOTONIC; 0: never), however many come.
 * `options` NULL: nothing cancels it but a signal. CANCELLED, TIMEOUT; CRASHED: the other end has gone,
 * or the message has another size; OS.
 */
struct stacksnap_error *snap_role_receive(int channel, const struct snap_options *options,
					  int64_t deadline_ns, void *bytes, size_t size,
					  int *fd_ret) _must_check_;

/* An error as bytes, for the other end: fits in SNAP_WIRE_BYTES; the message is cut. */
struct snap_wire_error {
	uint32_t code; /* enum snap_error_code; 0: none */
	int32_t os_errno;
	char message[1024];
};

void snap_wire_pack_error(const struct stacksnap_error *error, struct snap_wire_error *ret);
/* NULL for none. An unknown code becomes SNAP_ERROR_OTHER; the message is cut at its room. */
struct stacksnap_error *snap_wire_unpack_error(const struct snap_wire_error *error) _must_check_;
