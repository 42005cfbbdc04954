/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of troubles: see trouble.h. */
#include "model/trouble.h"

#include <string.h>

/*
 * Zombies, kernel threads and what has exited have no stack that could be missing, so they matter
 * only to a user who asked for them. That a process exits during a recording is what the recording
 * shows, and needs no warning.
 */
const struct snap_trouble_row snap_troubles[] = {
	[SNAP_TROUBLE_NONE] = { .word = "" },
	[SNAP_TROUBLE_NO_SUCH_PROCESS] = { .word = "no_such_process",
					   .loss = SNAP_FOR_ALL,
					   .warning = SNAP_FOR_ALL,
					   .recording_warning = SNAP_FOR_ALL,
					   .error = SNAP_ERROR_NOT_FOUND,
					   .ended = true },
	[SNAP_TROUBLE_PERMISSION_DENIED] = { .word = "permission_denied",
					     .loss = SNAP_FOR_ALL,
					     .warning = SNAP_FOR_ALL,
					     .recording_warning = SNAP_FOR_ALL,
					     .error = SNAP_ERROR_PERMISSION },
	[SNAP_TROUBLE_ALREADY_TRACED] = { .word = "already_traced",
					  .loss = SNAP_FOR_ALL,
					  .warning = SNAP_FOR_ALL,
					  .recording_warning = SNAP_FOR_ALL,
					  .error = SNAP_ERROR_PERMISSION },
	[SNAP_TROUBLE_EXITED] = { .word = "exited",
				  .warning = SNAP_FOR_TARGETS,
				  .error = SNAP_ERROR_NOT_FOUND,
				  .ended = true },
	[SNAP_TROUBLE_STOP_TIMEOUT] = { .word = "stop_timeout",
					.loss = SNAP_FOR_ALL,
					.warning = SNAP_FOR_ALL,
					.recording_warning = SNAP_FOR_ALL },
	[SNAP_TROUBLE_ZOMBIE] = { .word = "zombie",
				  .warning = SNAP_FOR_TARGETS,
				  .recording_warning = SNAP_FOR_TARGETS,
				  .error = SNAP_ERROR_NOT_FOUND,
				  .ended = true },
	[SNAP_TROUBLE_KERNEL_THREAD] = { .word = "kernel_thread",
					 .loss = SNAP_FOR_TARGETS,
					 .warning = SNAP_FOR_TARGETS,
					 .recording_warning = SNAP_FOR_TARGETS },
	[SNAP_TROUBLE_UNSUPPORTED_ARCH] = { .word = "unsupported_arch",
					    .loss = SNAP_FOR_ALL,
					    .warning = SNAP_FOR_ALL,
					    .recording_warning = SNAP_FOR_ALL },
	[SNAP_TROUBLE_INTERNAL] = { .word = "internal",
				    .loss = SNAP_FOR_ALL,
				    .warning = SNAP_FOR_ALL,
				    .recording_warning = SNAP_FOR_ALL },
	[SNAP_TROUBLE_NOT_RESPONDING] = { .word = "not_responding",
					  .loss = SNAP_FOR_ALL,
					  .warning = SNAP_FOR_ALL,
					  .recording_warning = SNAP_FOR_ALL },
	[SNAP_TROUBLE_OUT_OF_TIME] = { .word = "out_of_time",
				       .loss = SNAP_FOR_ALL,
				       .warning = SNAP_FOR_ALL,
				       .recording_warning = SNAP_FOR_ALL },
};

bool snap_warning_costs_names(const char *code)
{
	static const char *const codes[] = {
		"core_truncated", /* a core ends before what its headers promise */
		"files_held",     /* files were not opened in time */
		"maps_cut",       /* not all mappings of a process are kept */
		"memory_limit",   /* a recording left out stacks, threads or ticks */
		"memory_stalled", /* reading a page of a process did not end */
		"module_symbols", /* the symbols of a module could not be read */
		"names_late",     /* a recording was asked to end before all were found */
		"parser_failed",  /* the process that reads files ended early */
		"parser_lost",    /* the process that unwinds a recording ended early */
		"processes_late", /* there was no time for some processes or threads */
		"runtime_lost",   /* a parser ended early over the memory of a process */
		"stacks_late",    /* there was no time in a stop to copy all stacks */
		"thread_refused", /* some threads of a process cannot be traced */
	};

	return snap_any(SNAP_ARRAY_SIZE(codes), i, strcmp(code, codes[i]) == 0);
}
