/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The seam through which analysis gets files: one callback, so that analysis opens nothing itself.
 *
 * Who answers it (lib/files/ in a run of the tool, a broker, a test) knows paths and permissions;
 * who asks it knows what a file must contain, and checks that.
 */
#ifndef SNAP_MODEL_FILES_H
#define SNAP_MODEL_FILES_H

#include "base/error.h"
#include "model/capture.h"

/* Which file a copy of it is of. */
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
	 * From here on bytes are looked at that were asked for so: for whoever wants to know what
	 * ended, or holds, a parser. NULL: nobody does.
	 */
	void (*note)(void *context, const struct snap_file_request *request);
	/*
	 * The same for memory of a process, of which runtimes are read from here on; NULL: they
	 * have been. NULL: nobody wants to know.
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

#endif
