/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The judge: see judge.h. The capture grows while it is read, and its processes may move.
 * Everything opened for them points to them, so it is then given up.
 */
#include "roles/unwinder/judge.h"

#include "base/clock.h"
#include "roles/opener/opener.h"
#include "roles/unwinder/unwinder.h"

struct snap_judge {
	const struct snap_options *options;
	/* for the capture as it is now */
	const struct snap_process *processes;
	size_t process_count;
	struct snap_opener *opener;
	struct snap_remote_unwinder *unwinder;
	/* the current process, and the mappings with which it was sent */
	const struct snap_process *entered;
	const struct snap_map *maps;
	int64_t waited_ns; /* for the parser */
};

/* Parts of the time of the whole run, without an answer that is on its way. */
enum { MOST_PART = 4, MOST_PART_OF_ONE = 16 };

struct stacksnap_error *snap_judge_create(const struct snap_options *options,
					  struct snap_judge **ret)
{
	_cleanup_(snap_judge_destroyp) struct snap_judge *judge = calloc(1, sizeof(*judge));
	struct snap_broker broker;
	struct stacksnap_error *err;

	if (!judge)
		return snap_error_no_memory();
	judge->options = options;
	err = snap_opener_create(NULL, &judge->opener);
	if (err)
		return err;
	snap_opener_set_options(judge->opener, options, 0);
	broker = snap_opener_broker(judge->opener);
	err = snap_remote_unwinder_create(options, &broker, &judge->unwinder);
	if (err)
		return err;
	snap_remote_unwinder_hurry(judge->unwinder, options->timeout_ns / MOST_PART_OF_ONE);
	*ret = snap_take_ptr(judge);
	return NULL;
}

void snap_judge_destroy(struct snap_judge *judge)
{
	if (!judge)
		return;
	snap_remote_unwinder_destroy(judge->unwinder);
	snap_opener_destroy(judge->opener);
	free(judge);
}

static void begin(struct snap_judge *judge, const struct snap_capture *capture)
{
	snap_remote_unwinder_reset(judge->unwinder);
	judge->entered = NULL;
	snap_opener_set_capture(judge->opener, capture);
	judge->processes = capture->processes;
	judge->process_count = capture->process_count;
}

/* Makes it the current process, as it is now. */
static void enter(struct snap_judge *judge, size_t index, const struct snap_process *process)
{
	snap_remote_unwinder_leave(judge->unwinder, (uint32_t)index);
	judge->entered = process;
	judge->maps = process->maps;
}

bool snap_judge_suffices(void *context, const struct snap_capture *capture, size_t index,
			 const struct snap_thread *copy)
{
	struct snap_judge *judge = context;
	const struct snap_process *process = &capture->processes[index];
	struct stacksnap_error *err;
	struct snap_pcs pcs;
	int64_t begin_ns;

	if (judge->processes != capture->processes ||
	    judge->process_count != capture->process_count)
		begin(judge, capture);
	if (judge->entered != process || judge->maps != process->maps)
		enter(judge, index, process);
	/*
	 * A stop takes microseconds, which is better than to wait for a parser that is always slow.
	 */
	if (judge->waited_ns > judge->options->timeout_ns / MOST_PART)
		return false;
	begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	err = snap_remote_unwind(judge->unwinder, (uint32_t)index, process, copy, &pcs);
	judge->waited_ns += snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
	if (snap_error_ignore(err))
		return false;
	if (pcs.needs_register)
		return false;
	/* Unwinding left the copy: it went into a stack that a signal handler interrupted. */
	return pcs.end != SNAP_UNWIND_UNREADABLE || copy->stack_unreadable || copy->stack2_size;
}
