/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Core: what an ELF core file (core(5), elf(5)) says of the process that it was made of, as a
 * capture; and where in the file its memory lies.
 *
 * A core is one more way to a capture: registers, signal, names and mappings come from its notes
 * and program headers (parse.c), stacks and what explains them from its memory (fill.c). The first
 * part is for a sandbox, as every byte may be forged; the second one reads at
 * places that the first one names, and believes nothing of what they hold. Knows no symbols, no
 * functions, and no file but this one.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"
#include "model/options.h"
#include "stop/tracer.h"

#include <sys/uio.h>

/* A range of memory and its bytes in the file; those behind file_size are not there. */
struct snap_core_segment {
	uint64_t address, size; /* not 0, does not wrap */
	uint64_t offset;
	uint64_t file_size; /* at most `size`; of a file that was cut, what there should be */
};

/* Of a core; a thread takes 2 KiB in all processes that read it together. */
enum { SNAP_CORE_MOST_THREADS = 1 << 17 };

struct snap_core {
	struct snap_capture *capture; /* one process, without stacks */
	/* Sorted, without overlaps; in the capture's arena. */
	struct snap_core_segment *segments;
	size_t segment_count;
	bool truncated;   /* the file ends before what its headers promise */
	bool threads_cut; /* there are more than SNAP_CORE_MOST_THREADS */
};

/* All zero before. */
void snap_core_deinit(struct snap_core *core);

/* Whether these first bytes of a file may be those of a core: those of ELF are. */
bool snap_core_is_core(const void *bytes, size_t size);

/*
 * Reads headers and notes of a file that can be read at any place. What is not there is left out.
 * FORMAT: it is not a core, or one without threads, or of a processor or word size that is not
 * known. To be released by snap_core_deinit() in any case.
 */
struct stacksnap_error *snap_core_parse(int fd, struct snap_core *ret) _must_check_;

/* ---- the memory of the process ---- */

/* Borrowed from the core, and the file: a descriptor that stays the caller's. */
struct snap_core_memory {
	int fd;
	const struct snap_core_segment *segments;
	size_t segment_count;
};

struct snap_core_memory snap_core_memory_of(const struct snap_core *core, int fd);
/*
 * Fits struct snap_plan_source and struct snap_space_reader, with a struct snap_core_memory: up to
 * the first byte that is not in the file.
 */
size_t snap_core_memory_read(void *memory, uint8_t *bytes, const struct iovec *ranges,
			     size_t count);
/* The same of one range. */
size_t snap_core_memory_bytes(const struct snap_core_memory *memory, uint64_t address, void *bytes,
			      size_t size);

/* The program lies there, whatever its path was; a file that is not it is not believed. */
struct stacksnap_error *snap_core_set_program(struct snap_core *core,
					      const char *path) _must_check_;

/*
 * Copies stacks, heads of modules, memory of runtimes (by `hook`, NULL: none) and what explains
 * waits into the capture. What cannot be read is missing, and said. NO_MEMORY, OS, CANCELLED.
 */
struct stacksnap_error *snap_core_fill(const struct snap_core *core,
				       struct snap_core_memory *memory,
				       const struct snap_options *options,
				       const struct snap_stop_hook *hook) _must_check_;
