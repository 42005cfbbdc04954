/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What all formats of profiles say in the same way: names of functions, processes, threads and
 * states, and a stack as a list from the root to the leaf.
 *
 * Names are made once a frame and are escaped (base/escape.h). Knows nothing of any format.
 */
#pragma once

#include "base/arena.h"
#include "base/table.h"
#include "model/options.h"
#include "model/recording.h"

/* One function of a stack. */
struct snap_line {
	const struct snap_frame *frame; /* NULL: in place of frames that were left out */
	const struct snap_entry *entry; /* NULL likewise */
	const char *name;               /* escaped, never empty; equal names, equal pointers */
};

struct snap_lines_of {
	const struct snap_line *lines; /* root first */
	size_t count;
};

struct snap_profile {
	const struct snap_recording *recording;
	const struct snap_options *options; /* whose labels are lines, see below; NULL: none are */
	const char *dots;                   /* in names that are shortened; NULL: none is */
	struct snap_arena arena;
	struct snap_interner interner;   /* of names of functions */
	struct snap_pointer_table names; /* struct snap_frame -> its names, one an entry */
	struct snap_lines_of *stacks; /* one a stack of the recording; lines NULL: not made yet */
};

/* NO_MEMORY. Released by snap_profile_deinit() in any case. */
struct stacksnap_error *snap_profile_init(struct snap_profile *profile,
					  const struct snap_recording *recording) _must_check_;
void snap_profile_deinit(struct snap_profile *profile);
/*
 * Before the first stack: "KEY=VALUE" is the first line of stacks that have the label, for each
 * `--group-by label:KEY`. The options must outlive the profile.
 */
void snap_profile_show_labels(struct snap_profile *profile, const struct snap_options *options);

/* Before the first name: it is for people, as in text. Programs get whole names. */
void snap_profile_shorten_names(struct snap_profile *profile, const struct snap_options *options);

/*
 * The stack, root first, without a state; a gap is a line of its own ("… 12 frames left out …").
 * A stack without frames has one line, which says why ("(not stopped)"). NULL without memory.
 */
const struct snap_lines_of *snap_profile_stack(struct snap_profile *profile, size_t stack);

/*
 * The name of an entry: function, else symbol, else "module+0xoffset", else "0xaddress". NULL
 * without memory.
 */
const char *snap_profile_name(struct snap_profile *profile, const struct snap_frame *frame,
			      size_t entry);

/*
 * The same, but what has no name is its module's all together, "[libfoo.so]", or "[anon]": a hundred
 * addresses say nothing.
 */
const char *snap_profile_brief_name(struct snap_profile *profile, const struct snap_frame *frame,
				    size_t entry);

/* What is shown for a stack without frames: "(not stopped)"; static. */
const char *snap_profile_why_empty(enum snap_unwind_end end);

/* A text of the target, escaped: itself if it is clean, else in the profile's arena. */
const char *snap_profile_escaped(struct snap_profile *profile, const char *text);

/* "orderd[1234]", "worker-3/1240", "go/412" of a task; escaped, in the profile's arena. NULL: no memory. */
const char *snap_profile_process(struct snap_profile *profile, size_t process);
const char *snap_profile_thread(struct snap_profile *profile, const struct snap_track *track);

/*
 * The frame that shows what a thread waits for, with `--group-by wait`: "wait=mutex ledger_lock",
 * escaped; `object`: raw. NULL without memory.
 */
const char *snap_profile_wait(struct snap_profile *profile, const char *object);

/* What a program says of what a thread did in a run: of a request, of a task. */
struct snap_labels_of {
	const struct snap_label *labels;
	size_t count;
};

struct snap_labels_of snap_profile_labels(const struct snap_recording *recording,
					  const struct snap_track *track,
					  const struct snap_run *run);

/* The frame that shows a state: "[running]", "[sleeping]"; static. */
const char *snap_profile_state(enum snap_state state);
