/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside the reading of a core: what its files share.
 *
 *	parse.c   from the file to program headers and notes
 *	notes.c   what notes say, and the process that comes of it
 *	layout.h  where things lie in the notes of a processor
 *	maps.c    from program headers and mapped files to mappings
 *	images.c  mapped files where no note lists them
 *	args.c    the arguments as they lie in memory
 *	memory.c  the file at a place
 *
 * What comes later does without it: fill.c copies memory by core.h, unpack.c knows no cores.
 */
#pragma once

#include "core/core.h"
#include "core/layout.h"

/* A PT_LOAD header. */
struct snap_core_range {
	struct snap_core_segment segment;
	bool read, write, execute;
};

/* A line of NT_FILE. */
struct snap_core_file {
	uint64_t start, end; /* [start, end) */
	uint64_t offset;     /* in the file, bytes */
	const char *path;    /* in the capture's arena */
};

struct snap_core_thread {
	pid_t tid;
	int signal;
	uint8_t registers[SNAP_CORE_MOST_REGISTERS];
};

/* Addresses that the kernel gave the program (getauxval(3)); 0: not in the core. */
struct snap_core_aux {
	uint64_t phdr, entry, vdso, random, name;
	uint64_t page; /* the size of pages */
};

/* What was read so far; arrays are malloc'ed. */
struct snap_core_notes {
	const struct snap_core_layout *layout;
	struct snap_core_range *ranges; /* in the order of the file */
	size_t range_count, range_capacity;
	struct snap_core_thread *threads; /* the first one got the signal */
	size_t thread_count, thread_capacity;
	bool threads_cut;
	struct snap_core_file *files;
	size_t file_count, file_capacity;
	uint8_t *file_names;  /* the note that `files` point into */
	bool program_unnamed; /* the path of its files is its name, behind a slash */
	uint8_t process[SNAP_PRPSINFO_SIZE];
	bool has_process;
	struct snap_signal signal; /* number 0: none was noted */
	struct snap_core_aux aux;
	uint8_t *aux_bytes; /* the vector as it is; NULL: none */
	size_t aux_size;
};

void snap_core_notes_deinit(struct snap_core_notes *notes);

/* ---- memory.c ---- */

/* Bytes of the file at a place; how many there are, fewer at its end. */
size_t snap_core_read_at(int fd, void *bytes, size_t size, uint64_t offset);

/* ---- notes.c ---- */

/* Whether a note is of a kind, and of a size, that is looked at. */
bool snap_core_note_is_wanted(uint32_t type, uint32_t size);
/* False without memory. */
bool snap_core_note_take(struct snap_core_notes *notes, uint32_t type, const uint8_t *bytes,
			 uint32_t size);
/* Makes the capture's process of it, and the segments. */
struct stacksnap_error *snap_core_notes_settle(struct snap_core_notes *notes, int fd,
					       struct snap_core *core) _must_check_;

/* ---- maps.c ---- */

/* Sorts ranges and files, and drops those that overlap; makes segments and mappings of them. */
struct stacksnap_error *snap_core_make_maps(struct snap_core_notes *notes, int fd,
					    struct snap_core *core) _must_check_;

/* ---- images.c ---- */

/* Makes the list of files from memory; ranges are sorted, and segments kept, by then. */
struct stacksnap_error *snap_core_find_files(struct snap_core_notes *notes, int fd,
					     struct snap_core *core) _must_check_;

/* ---- args.c ---- */

/* The arguments, if memory has them; false: it has not. */
bool snap_core_find_args(const struct snap_core_notes *notes, struct snap_core_memory *memory,
			 struct snap_capture *capture);
