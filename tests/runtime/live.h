/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of live_reader share: a process read without the tracing child and the roles, as
 * plainly as can be. Not for hostile processes.
 */
#pragma once

#include "analyze/runtime/runtime.h"
#include "base/shared_memory.h"
#include "model/memory_image.h"

#include <sys/types.h>

/* A file that a reader asked for. */
struct live_file {
	struct snap_map map; /* where it was mapped then */
	dev_t dev;
	ino_t inode;
};

struct live_range {
	uint64_t address, size;
};

struct live {
	struct snap_arena arena; /* all that is below, but for the arrays */
	struct snap_process process;
	int maps_fd, files_fd; /* "maps", and the directory "map_files" */
	int root_fd;
	bool is_stopped;
	/* To be saved: what is looked at is noted (watch.h). */
	bool is_watched;
	struct live_file *files;
	size_t file_count, file_capacity;
	struct live_range *ranges; /* of its memory or its image that were read */
	size_t range_count, range_capacity;
};

/* Ends the program with status 1. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

void live_open(struct live *live, pid_t pid);
void live_close(struct live *live);
/* Maps and first pages of modules, as they are now. */
void live_look(struct live *live);
/* Seizes and interrupts all threads; then registers and stacks are in process.threads. */
void live_stop(struct live *live);
void live_go_on(struct live *live);
/* snap_runtime_memory.read, on the process itself; context: struct live. */
bool live_read(void *context, uint64_t address, void *out, size_t size);
/* That these bytes were read: for live_save(). */
void live_note(struct live *live, uint64_t address, uint64_t size);
/* For struct snap_file_finder; context: struct live. */
struct stacksnap_error *live_find(void *context, const struct snap_file_request *request,
				  int *fd_ret);

/* What a plan has copied. */
struct live_image {
	struct snap_memory_image image;
	int64_t taken_ns;
	uint64_t most_records; /* of all steps; 0: as many as it takes */
	struct live *reader;   /* who is told what is read of it; NULL: nobody */
	struct snap_region room, left;
};

/*
 * What happens with bytes of an image changed: `read` is called `rounds` times, each time with some
 * others, and is not to crash. The bytes are then as they were.
 */
void live_mutate(struct live_image *image, unsigned rounds, void (*read)(void *context),
		 void *context);

/* While the process is stopped. */
void live_execute(struct live *live, const struct snap_memory_plan *plan, struct live_image *ret);
/* When it runs again. */
void live_finish(struct live_image *image);
struct snap_runtime_memory live_memory(struct live_image *image);

/* What was found, and how long it took. */
struct live_report {
	const char *runtime;
	bool found;
	const struct snap_memory_plan *plan;
	const struct live_image *image; /* NULL: the memory itself was read */
	const struct snap_runtime_result *result;
	int64_t probe_ns, stop_ns, read_ns;
};

/*
 * The image, and of threads and files what was looked at, as a recorded image, NAME.image.xz
 * (recorded.h), and what was found as NAME.truth. Ends the program unless the same is found in what
 * was written.
 */
void live_save(const char *name, struct live *live, const struct snap_runtime *runtime,
	       const struct live_report *report);

/* One JSON document and a newline. */
void live_print(FILE *file, const struct live *live, const struct live_report *report);
