/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The judge: see judge.h. The capture grows while it is read and its processes may move; what was
 * opened for the ones before is then given up, as it points to them.
 */
#include "judge.h"

#include "analyze/unwind/unwind.h"
#include "files/files.h"

struct snap_judge {
	const struct snap_options *options;
	/* for the capture as it stands */
	const struct snap_process *processes;
	size_t process_count;
	struct snap_files *files;
	struct snap_arena arena;
	struct snap_module_set *set;
	struct snap_unwinder *unwinder;
	/* the process at hand, and the mappings for which it was entered */
	const struct snap_process *entered;
	const struct snap_map *maps;
};

struct snap_error *snap_judge_create(const struct snap_options *options, struct snap_judge **ret)
{
	struct snap_judge *judge = calloc(1, sizeof(*judge));

	if (!judge)
		return snap_error_no_memory();
	judge->options = options;
	snap_arena_init(&judge->arena);
	*ret = judge;
	return NULL;
}

static void forget(struct snap_judge *judge)
{
	snap_unwinder_destroy(judge->unwinder);
	snap_module_set_destroy(judge->set);
	snap_files_destroy(judge->files);
	snap_arena_deinit(&judge->arena);
	snap_arena_init(&judge->arena);
	judge->unwinder = NULL;
	judge->set = NULL;
	judge->files = NULL;
	judge->processes = NULL;
	judge->entered = NULL;
}

void snap_judge_destroy(struct snap_judge *judge)
{
	if (!judge)
		return;
	forget(judge);
	snap_arena_deinit(&judge->arena);
	free(judge);
}

static struct snap_error *begin(struct snap_judge *judge, const struct snap_capture *capture)
{
	struct snap_file_finder finder;
	struct snap_error *err;

	forget(judge);
	err = snap_files_create(judge->options, capture, &judge->files);
	if (err)
		return err;
	finder = snap_files_finder(judge->files);
	err = snap_module_set_create(&finder, &judge->arena, &judge->set);
	if (err)
		return err;
	err = snap_unwinder_create(judge->set, judge->options, &judge->unwinder);
	if (err)
		return err;
	judge->processes = capture->processes;
	judge->process_count = capture->process_count;
	return NULL;
}

static struct snap_error *enter(struct snap_judge *judge, const struct snap_process *process)
{
	struct snap_modules *modules;
	struct snap_error *err;

	judge->entered = NULL;
	err = snap_modules_create(judge->set, process, &modules);
	if (!err)
		err = snap_unwinder_enter(judge->unwinder, process, modules);
	if (err)
		return err;
	judge->entered = process;
	judge->maps = process->maps;
	return NULL;
}

bool snap_judge_suffices(void *context, const struct snap_capture *capture, size_t index,
			 const struct snap_thread *copy)
{
	struct snap_judge *judge = context;
	const struct snap_process *process = &capture->processes[index];
	struct snap_pcs pcs;

	if ((judge->processes != capture->processes ||
	     judge->process_count != capture->process_count) &&
	    snap_error_ignore(begin(judge, capture)))
		return false;
	if ((judge->entered != process || judge->maps != process->maps) &&
	    snap_error_ignore(enter(judge, process)))
		return false;
	snap_unwind(judge->unwinder, copy, &pcs);
	if (pcs.needs_register || pcs.no_memory)
		return false;
	/* Out of the copy: into a stack that a signal handler interrupted. */
	return pcs.end != SNAP_UNWIND_UNREADABLE || copy->stack_unreadable || copy->stack2_size;
}
