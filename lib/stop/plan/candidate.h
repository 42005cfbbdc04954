/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Candidate: finds processes that may have a managed runtime, by the names of mapped files, by two
 * marks of Go's linker, and by executable memory of no file. A parser is asked about these
 * processes alone, so a wrong yes costs time, and a process without a runtime costs microseconds.
 * Knows nothing else of runtimes.
 */
#pragma once

#include "proc/address_space.h"

struct snap_runtime_candidate {
	const struct snap_space *space; /* with its pieces */
	unsigned wanted;                /* bits of enum snap_runtime_kind */
	uint8_t *buffer;
	size_t buffer_size; /* of the buffer, at least a page */
	/* As in struct snap_space_reader. */
	size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count);
	void *context;
};

/* Bits of enum snap_runtime_kind. */
unsigned snap_plan_candidates(const struct snap_runtime_candidate *candidate);
