/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The copy check: see copy_check.h. The capture grows while it is read, and its processes may move.
 * Everything opened for them points to them, so it is then given up.
 */
#include "roles/unwinder/copy_check.h"

#include "base/clock.h"
#include "roles/file_opener/file_opener.h"
#include "roles/unwinder/unwinder.h"

struct snap_copy_check {
	const struct snap_options *options;
	/* for the capture as it is now */
	const struct snap_process *processes;
	size_t process_count;
	struct snap_file_opener *opener;
	struct snap_remote_unwinder *unwinder;
	/* the current process, and the mappings with which it was sent */
	const struct snap_process *entered;
	const struct snap_map *maps;
	int64_t waited_ns; /* for the parser */
};

/* Parts of the time of the whole run, without an answer that is on its way. */
enum { MOST_PART = 4, MOST_PART_OF_ONE = 16 };

struct stacksnap_error *snap_copy_check_create(const struct snap_options *options,
					       struct snap_copy_check **ret)
{
	_cleanup_(snap_copy_check_destroyp) struct snap_copy_check *check =
		calloc(1, sizeof(*check));
	struct snap_broker broker;

	if (!check)
		return snap_error_no_memory();
	check->options = options;
	SNAP_TRY(snap_file_opener_create(NULL, &check->opener));
	snap_file_opener_set_options(check->opener, options, 0);
	broker = snap_file_opener_broker(check->opener);
	SNAP_TRY(snap_remote_unwinder_create(options, &broker, &check->unwinder));
	snap_remote_unwinder_hurry(check->unwinder, options->timeout_ns / MOST_PART_OF_ONE);
	*ret = snap_take_ptr(check);
	return NULL;
}

void snap_copy_check_destroy(struct snap_copy_check *check)
{
	if (!check)
		return;
	snap_remote_unwinder_destroy(check->unwinder);
	snap_file_opener_destroy(check->opener);
	free(check);
}

static void begin_judging(struct snap_copy_check *check, const struct snap_capture *capture)
{
	snap_remote_unwinder_reset(check->unwinder);
	check->entered = NULL;
	snap_file_opener_set_capture(check->opener, capture);
	check->processes = capture->processes;
	check->process_count = capture->process_count;
}

/* Makes it the current process, as it is now. */
static void enter_process(struct snap_copy_check *check, size_t index,
			  const struct snap_process *process)
{
	snap_remote_unwinder_leave(check->unwinder, (uint32_t)index);
	check->entered = process;
	check->maps = process->maps;
}

bool snap_copy_check_suffices(void *context, const struct snap_capture *capture, size_t index,
			      const struct snap_thread *copy)
{
	struct snap_copy_check *check = context;
	const struct snap_process *process = &capture->processes[index];
	struct stacksnap_error *err;
	struct snap_pcs pcs;
	int64_t begin_ns;

	if (check->processes != capture->processes ||
	    check->process_count != capture->process_count)
		begin_judging(check, capture);
	if (check->entered != process || check->maps != process->maps)
		enter_process(check, index, process);
	/*
	 * A stop takes microseconds, which is better than to wait for a parser that is always slow.
	 */
	if (check->waited_ns > check->options->timeout_ns / MOST_PART)
		return false;
	begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	err = snap_remote_unwind(check->unwinder, (uint32_t)index, process, copy, &pcs);
	check->waited_ns += snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
	if (snap_error_ignore(err))
		return false;
	if (pcs.needs_register || pcs.is_lost)
		return false;
	/* Unwinding left the copy: it went into a stack that a signal handler interrupted. */
	return pcs.end != SNAP_UNWIND_UNREADABLE || copy->stack_unreadable || copy->stack2_size;
}
