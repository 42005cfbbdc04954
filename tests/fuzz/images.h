/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recorded images (tests/runtime/recorded), of which an input of a fuzzer changes something: its
 * first byte says which image, the second is the target's own, then come changes of
 * FUZZ_CHANGE_SIZE bytes each: of memory, files, registers and stacks.
 */
#pragma once

#include "../runtime/recorded.h"
#include "fuzz.h"

enum {
	FUZZ_MOST_CHANGES = 64,
	FUZZ_CHANGE_SIZE = 18,
	FUZZ_WORD = 8,
};

struct fuzz_image {
	struct recorded recorded;
	const struct snap_runtime *runtime;
};

/* What is put back afterwards, in the opposite order. */
struct fuzz_change {
	uint8_t *at; /* NULL: nothing was changed */
	uint8_t before[FUZZ_WORD];
	size_t size;
};

struct fuzz_changed {
	struct fuzz_image *image;
	uint8_t how; /* the second byte of the input */
	struct fuzz_change changes[FUZZ_MOST_CHANGES];
	size_t count;
	struct snap_memory_image whole;
};

/* Until fuzz_change_back() the image is as the input says. */
void fuzz_change(struct fuzz_bytes *bytes, struct fuzz_changed *ret);
void fuzz_change_back(struct fuzz_changed *changed);

/* Ends the process unless all holds that analysis relies on. */
void fuzz_check_result(const struct snap_process *process,
		       const struct snap_runtime_result *result);
