/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of live_reader share: a process read without the tracing child and the roles, as
 * plainly as can be. Not for hostile processes.
 */
#ifndef TESTS_RUNTIME_LIVE_H
#define TESTS_RUNTIME_LIVE_H

#include "analyze/runtime/runtime.h"
#include "base/shared_memory.h"
#include "model/memory_image.h"

struct live {
	struct snap_arena arena; /* all that is below */
	struct snap_process process;
	int maps_fd, files_fd; /* "maps", and the directory "map_files" */
	int root_fd;
	bool is_stopped;
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
/* For struct snap_file_finder; context: struct live. */
struct stacksnap_error *live_find(void *context, const struct snap_file_request *request,
				  int *fd_ret);

/* What a plan has copied. */
struct live_image {
	struct snap_memory_image image;
	int64_t taken_ns;
	uint64_t most_records; /* of all steps; 0: as many as it takes */
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
	int64_t scout_ns, stop_ns, read_ns;
};

/* One JSON document and a newline. */
void live_print(FILE *file, const struct live *live, const struct live_report *report);

#endif
