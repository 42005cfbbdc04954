/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The callback through which analysis gets files: analysis opens nothing itself.
 *
 * The code behind it (lib/files/ in a run of the tool, a broker, a test) knows paths and permissions.
 * The code that calls it knows the contents that a file must have, and checks them.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"

/* The identity of a file of which there is a copy. */
struct snap_file_identity {
	bool is_copy;
	uint64_t dev, inode;
};

struct snap_file_request {
	enum snap_file_kind kind;
	const struct snap_process *process; /* in which the module is mapped */
	size_t map;                         /* index of a mapping of the module in process->maps */
	const uint8_t *build_id;            /* DEBUG, ALT; NULL otherwise */
	size_t build_id_size;
	const char *name; /* DEBUG_LINK, ALT, DWO: a file name without a slash; else NULL */
	unsigned attempt; /* 0, 1 …: the next candidate place, after the last one did not fit */
	struct snap_file_identity *identity_ret; /* is set for a copy in memory; NULL: never mind */
};

struct snap_file_finder {
	/*
	 * Opens the candidate number request->attempt: a regular file, read-only, checked before
	 * it was opened (a FIFO or device is never opened), the caller's to close. NOT_FOUND when
	 * there are no more candidates; any other error means this candidate was refused (the
	 * message says why) and the next attempt may be tried.
	 */
	struct stacksnap_error *(*find)(void *context, const struct snap_file_request *request,
					int *fd_ret);
	/*
	 * From here on bytes of this request are read. So a supervisor knows which file a parser was
	 * reading when it ended or hung. NULL: not wanted.
	 */
	void (*note)(void *context, const struct snap_file_request *request);
	/*
	 * The same for memory of a process, whose runtimes are read from here on; a NULL argument:
	 * they have been read. NULL: not wanted.
	 */
	void (*note_runtimes)(void *context, const struct snap_process *process);
	void *context;
};

static inline void snap_file_finder_note(const struct snap_file_finder *finder,
					 const struct snap_file_request *request)
{
	if (finder->note)
		finder->note(finder->context, request);
}

static inline void snap_file_finder_note_runtimes(const struct snap_file_finder *finder,
						  const struct snap_process *process)
{
	if (finder->note_runtimes)
		finder->note_runtimes(finder->context, process);
}
