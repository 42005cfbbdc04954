/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parts of the lines of waits, for the files of this folder: names, sizes, durations, signals, and
 * threads that a wait is for. Each is added to a buffer, raw as it came from the target.
 */
#pragma once

#include "base/buffer.h"
#include "model/wait/wait.h"

/* A name or a path, cut at 64 bytes; of a path the end stays, as that tells more. */
void snap_wait_add_name(struct snap_buffer *text, const char *name);
void snap_wait_add_path(struct snap_buffer *text, const char *path);
/* "0 bytes", "128 kB", "3.8 MB". */
void snap_wait_add_size(struct snap_buffer *text, int64_t bytes);
/* "850 ms", "3.2 s", "59 min", "3h12m", "3d04h"; of two that differ "3.2 s to 59 min". */
void snap_wait_add_duration(struct snap_buffer *text, int64_t least_ns, int64_t most_ns);
/* "SIGUSR1, SIGRTMIN+3"; bit 0 is signal 1. */
void snap_wait_add_signals(struct snap_buffer *text, uint64_t signals);

/* "ledger_lock", "ledger_lock+0x10", "/dev/shm/ledger+0x40", "0x7f21c0 (heap)". */
void snap_wait_add_address(struct snap_buffer *text, const struct snap_wait *wait);
/* "mutex ledger_lock", "tcp 10.0.0.4:51234 -> 10.0.0.9:5432"; nothing where nothing is known. */
void snap_wait_add_object(struct snap_buffer *text, const struct snap_wait *wait);
/* "robust mutex": the name of a kind of object. */
void snap_wait_add_noun(struct snap_buffer *text, const struct snap_wait *wait);

/* "812 orderd"; with its own state "812 orderd (stopped by a signal)". */
void snap_wait_add_party(struct snap_buffer *text, const struct snap_wait_party *party, bool doing);
/* The state alone: " (stopped by a signal)"; nothing if it is not known. */
void snap_wait_add_doing(struct snap_buffer *text, const struct snap_wait_party *party);
/* The first ones of a list, of `total` in all: "2102 a (in pause), 2103 b and 3 more". */
void snap_wait_add_parties(struct snap_buffer *text, const struct snap_wait_party *parties,
			   size_t count, size_t total, bool doing);
/* The word between "waits" and the object; NULL: a kind whose line begins otherwise. */
const char *snap_wait_word_before(const struct snap_wait *wait);
/* The text from there to owners, without times: "mutex ledger_lock", "sleeps". */
void snap_wait_add_head(struct snap_buffer *text, const struct snap_wait *wait);
/* What a thread with this wait does: "in recv on tcp …", "waits for child 2103". */
void snap_wait_add_brief(struct snap_buffer *text, const struct snap_wait *wait);
