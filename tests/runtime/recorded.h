/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recorded images: a process with a managed runtime as a capture file, compressed: the memory that
 * its plan took, and of the files behind it the pages that somebody looked at. Made by live_reader
 * --save; read without that runtime, on any machine.
 */
#pragma once

#include "analyze/runtime/runtime.h"
#include "base/buffer.h"
#include "stop/plan/execute.h"

#include <string.h>

/* Whether two mappings are of one file. */
static inline bool recorded_same_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->path && b->path && strcmp(a->path, b->path) == 0;
}

struct recorded_file {
	int fd;
	uint8_t *bytes; /* as they are in it */
};

/* Everything that a reader is given. */
struct recorded {
	struct snap_capture *capture;
	struct snap_process *process;
	struct snap_options options;
	struct snap_runtime_memory memory;
	struct recorded_file *files; /* copies of the embedded files, in the same order */
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

/* Takes the capture over; without memory it ends the process. */
void recorded_init(struct recorded *recorded, struct snap_capture *capture);
void recorded_deinit(struct recorded *recorded);
void recorded_forget(struct recorded *recorded);
/* Makes `given` ready for a reader, or a probe. */
struct stacksnap_error *recorded_begin(struct recorded *recorded) _must_check_;
struct stacksnap_error *recorded_read(struct recorded *recorded, const struct snap_runtime *runtime,
				      struct snap_runtime_result **ret) _must_check_;

/* Finds the embedded files, and no others: nothing of this machine. */
struct snap_file_finder recorded_finder(struct recorded *recorded);

/*
 * The process itself, as far as it was recorded: what was copied of it, its files, and zeros where
 * anything else is mapped. For probes.
 */
struct snap_runtime_memory recorded_process(struct recorded *recorded);
/* Where an image goes, and what its making takes. */
struct recorded_room {
	struct snap_plan_budget budget; /* until_ns: so long */
	struct snap_region room, work;
};
void recorded_room_init(struct recorded_room *room);
void recorded_room_deinit(struct recorded_room *room);
/* Executes a plan on that process; the image is in the room until it is used again. */
void recorded_execute(struct recorded *recorded, const struct snap_memory_plan *plan,
		      const struct recorded_room *room, struct snap_memory_image *ret);

/* "go", "cpython", "php"; NULL: there is none of this name. */
const struct snap_runtime *recorded_runtime(const char *name);

/*
 * All of a result, as lines: what a reader must make of an image, byte for byte. malloc'ed. A NULL
 * result is a text, too.
 */
char *recorded_text(const struct snap_runtime_result *result);
