/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages: those between a probe and its parser, besides processes (roles/process_message.h) and
 * requests for files (roles/broker.h). The size of a message tells its kind.
 */
#pragma once

#include "analyze/runtime/runtime.h"
#include "roles/broker.h"
#include "roles/role.h"

#include <sys/uio.h>

enum {
	SNAP_PEEK_MOST = 1 << 20,   /* bytes of one request for memory */
	SNAP_PEEK_TOTAL = 64 << 20, /* of all requests for one process */
};

/* To the parser: which process comes next; its description is the next message. */
struct snap_runtime_probe_question {
	uint32_t process;      /* its index in the capture */
	uint32_t is_of_thread; /* the plan is for single threads */
	uint32_t wants_names;
};

/* From the parser: a request for memory of the current process. */
struct snap_peek_request {
	uint64_t address;
	uint32_t size;
	uint32_t sequence; /* 0: there is no answer, the memory is kept for the capture */
};

/* To the parser; the message carries a file in memory with the bytes, if there are any. */
struct snap_peek_answer {
	uint32_t sequence;
	uint32_t size; /* read from `address` on, perhaps fewer than asked */
};

/* From the parser: what the runtime of the current process calls a thread. */
struct snap_runtime_probe_name {
	uint32_t tid; /* that the process itself sees */
	char name[SNAP_MAX_THREAD_NAME];
};

/* From the parser: the end of its work on a process. */
struct snap_runtime_probe_answer {
	uint32_t process, found;
	struct snap_memory_plan plan;
};

_Static_assert(sizeof(struct snap_runtime_probe_answer) <= SNAP_WIRE_BYTES, "one message");
_Static_assert(sizeof(struct snap_runtime_probe_answer) != sizeof(struct snap_broker_request) &&
		       sizeof(struct snap_peek_request) != sizeof(struct snap_broker_request) &&
		       sizeof(struct snap_runtime_probe_name) !=
			       sizeof(struct snap_broker_request) &&
		       sizeof(struct snap_runtime_probe_name) !=
			       sizeof(struct snap_runtime_probe_answer) &&
		       sizeof(struct snap_peek_answer) != sizeof(struct snap_broker_answer),
	       "messages are distinguished by their sizes");

/* What the parser is made with. */
struct snap_runtime_probe_birth {
	const struct snap_options *options;
	const struct snap_runtime *const *runtimes; /* ended by NULL */
};

/* Runs the parser: `context` is the birth. */
void snap_runtime_probe_serve(void *context, int channel);

/* ---- memory of a process that runs, read by a worker ---- */

struct snap_peeker;

/* NULL without memory. */
struct snap_peeker *snap_peeker_create(void);
void snap_peeker_destroy(struct snap_peeker *peeker);

/*
 * Reads the readable bytes from `address` on, at most `size` (up to SNAP_PEEK_MOST), into a file in
 * memory, the caller's; -1: none, or it took too long (*late_ret).
 */
int snap_peek(struct snap_peeker *peeker, pid_t pid, uint64_t address, uint32_t size,
	      uint32_t *size_ret, bool *late_ret);

/* The same for memory that never blocks. */
int snap_peek_with(size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges,
				  size_t count),
		   void *context, uint64_t address, uint32_t size, uint32_t *size_ret);

/* ---- memory that is kept (an image of it), which outlives the question ---- */

/* All zero: none. */
struct snap_probe_images {
	struct snap_probe_image *list;
	size_t count, capacity;
	uint64_t bytes;
};

/* Then there are none. */
void snap_probe_images_deinit(struct snap_probe_images *images);
/* The next ones are of another process, or of the same one anew. */
void snap_probe_images_begin(struct snap_probe_images *images, const struct snap_process *process);
/*
 * Makes room for an image, to be filled by the caller; NULL: it is there, it is beyond a limit, or
 * there is no memory.
 */
uint8_t *snap_probe_images_add(struct snap_probe_images *images, const struct snap_process *process,
			       uint64_t address, uint32_t size);
/* Removes the last one. */
void snap_probe_images_drop(struct snap_probe_images *images);
/* Puts those of a process among its pieces, in the arena. */
bool snap_probe_images_apply(const struct snap_probe_images *images, struct snap_arena *arena,
			     struct snap_process *process) _must_check_;

/* ---- names of threads, which outlive the question ---- */

/* All zero: none. */
struct snap_thread_names {
	struct snap_thread_name *list;
	size_t count, capacity;
	size_t left; /* that the current process may still have */
};

void snap_thread_names_deinit(struct snap_thread_names *names);
/* The next names are of another process, or of the same one anew. */
void snap_thread_names_begin(struct snap_thread_names *names);
/* Without memory, or beyond a limit, it is lost. */
void snap_thread_names_add(struct snap_thread_names *names, const struct snap_process *process,
			   const struct snap_runtime_probe_name *said);
/* See snap_runtime_probe_complete(). */
bool snap_thread_names_apply(struct snap_thread_names *names,
			     struct snap_capture *capture) _must_check_;
