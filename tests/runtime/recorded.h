/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recorded images: a process with a managed runtime as a capture file, compressed: the memory that
 * its plan took, and of the files behind it the pages that somebody looked at. Made by live_reader
 * --save; read without that runtime, on any machine.
 */
#ifndef TESTS_RUNTIME_RECORDED_H
#define TESTS_RUNTIME_RECORDED_H

#include "analyze/runtime/runtime.h"
#include "base/buffer.h"

/* Everything that a reader is given. */
struct recorded {
	struct snap_capture *capture;
	struct snap_process *process;
	struct snap_options options;
	struct snap_runtime_memory memory;
	int *files; /* copies of its embedded files, in the same order; -1: none yet */
	/* Of one reading: recorded_forget() before the next one. */
	struct snap_arena arena;
	struct snap_interner strings;
	struct snap_module_set *set;
	struct snap_runtime_process given;
};

/* Compresses the capture into a file; false: errno. */
bool recorded_write(const struct snap_capture *capture, const char *path) _must_check_;
/* The bytes of such a file as a capture; NULL: it is none. */
struct snap_capture *recorded_unpack(const void *bytes, size_t size);
struct snap_capture *recorded_open(const char *path);

/* Takes the capture over. */
void recorded_init(struct recorded *recorded, struct snap_capture *capture);
void recorded_deinit(struct recorded *recorded);
void recorded_forget(struct recorded *recorded);
struct stacksnap_error *recorded_read(struct recorded *recorded, const struct snap_runtime *runtime,
				      struct snap_runtime_result **ret) _must_check_;

/* The copy of an embedded file; -1: no memory. It stays ours. */
int recorded_file(struct recorded *recorded, size_t index);
/* Finds those, and no others: nothing of this machine. */
struct snap_file_finder recorded_finder(struct recorded *recorded);

/* "go", "cpython", "php"; NULL: there is none of this name. */
const struct snap_runtime *recorded_runtime(const char *name);

/*
 * All of a result, as lines: what a reader must make of an image, byte for byte. malloc'ed. A NULL
 * result is a text, too.
 */
char *recorded_text(const struct snap_runtime_result *result);

#endif
