/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the supervisor's and the collector's side of a collector share. Nobody else includes it. */
#ifndef SNAP_ROLES_COLLECTOR_INTERNAL_H
#define SNAP_ROLES_COLLECTOR_INTERNAL_H

#include "roles/collector/collector.h"
#include "roles/role.h"

#include <stddef.h>

/* What the supervisor asks the worker for. Each but RULES and DIRECTORY has an answer. */
enum snap_collector_kind {
	SNAP_COLLECTOR_RULES,     /* perf_map; forgets the directories */
	SNAP_COLLECTOR_DIRECTORY, /* path: one of --debug-dir */
	SNAP_COLLECTOR_FILE,      /* request; answer: snap_wire_error, a descriptor */
	SNAP_COLLECTOR_SAVE,      /* a descriptor to write to; answer: snap_wire_error */
};

struct snap_collector_message {
	uint32_t kind;
	uint32_t perf_map; /* enum snap_perf_map */
	struct snap_broker_request request;
	char path[4096];
};

/* How much of a message is sent. */
enum {
	SNAP_COLLECTOR_RULES_SIZE = offsetof(struct snap_collector_message, request),
	SNAP_COLLECTOR_SAVE_SIZE = SNAP_COLLECTOR_RULES_SIZE,
	SNAP_COLLECTOR_FILE_SIZE = offsetof(struct snap_collector_message, path),
};

_Static_assert(sizeof(struct snap_collector_message) <= SNAP_WIRE_BYTES,
	       "a message is one message");

/*
 * The collector's first words, with the channel to its worker, and its answer to the wish for
 * another worker, which is any message.
 */
struct snap_collector_taken {
	struct snap_wire_error error;
	uid_t parser_uid;
	uint32_t shared_follows; /* a message of 4 bytes with the descriptor of capture->shared */
};

struct snap_collector_birth {
	const struct snap_options *options; /* NULL: a capture is read */
	const struct snap_collector_start *start;
	int bytes;            /* the memfd for the capture */
	volatile int *cancel; /* shared: not 0 when nobody wants it any more */
};

/* The collector, from its beginning to its end. */
void snap_collector_main(void *birth, int channel);

#endif
