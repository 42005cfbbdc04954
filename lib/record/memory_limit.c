/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory limit: see memory_limit.h. */
#include "record/memory_limit.h"

#include "base/buffer.h"
#include "store/log/log.h"

#include <inttypes.h>
#include <string.h>

static const char CODE[] = "memory_limit";

/* The sentence; NULL without memory. In the capture's arena. */
static const char *describe_cuts(const struct snap_log *log)
{
	static const struct {
		unsigned bits;
		const char *text;
	} rows[] = {
		{ SNAP_LOG_CUT_STACKS, "new stacks have their innermost frames only" },
		{ SNAP_LOG_CUT_LABELS, "new stacks have no labels" },
		{ SNAP_LOG_CUT_ALL, "new stacks of a process count as one without frames" },
		{ SNAP_LOG_CUT_MAPS,
		  "stacks of a process that mapped file after file are missing" },
		{ SNAP_LOG_CUT_THREADS, "new threads are counted, but not shown" },
		{ SNAP_LOG_CUT_TASKS, "new tasks that wait are not shown" },
		{ SNAP_LOG_CUT_OBJECTS,
		  "what some threads wait for, or what holds it, is not known" },
		{ SNAP_LOG_CUT_WAKES, "some waits that followed each other count as one" },
		{ SNAP_LOG_CUT_PROCESSES, "new processes are counted, but not shown" },
		{ SNAP_LOG_CUT_TICKS, "ticks were left out" },
		{ SNAP_LOG_CUT_RING, "the ring holds less time" },
		{ SNAP_LOG_CUT_END, "it ended early" },
	};
	_cleanup_(snap_buffer_deinit) struct snap_buffer text = { 0 };
	const char *between = ": ";

	/* Mostly it is the part of one process, or of stacks, that is used up: there is memory left. */
	snap_buffer_printf(&text, "the recording reached its memory limit of %" PRIu64 " MiB%s",
			   log->max_bytes >> 20, snap_log_is_full(log) ? "" : ", or a part of it");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		if (!(log->cuts & rows[i].bits))
			continue;
		snap_buffer_printf(&text, "%s%s", between, rows[i].text);
		between = "; ";
	}
	snap_buffer_add_text(&text, " (--max-memory sets it)");
	return text.failed ? NULL
			   : snap_arena_strdup(&log->capture->arena, snap_buffer_text(&text));
}

void snap_memory_limit_warn(struct snap_log *log)
{
	struct snap_capture *capture = log->capture;
	struct snap_warning *warning = NULL;
	const char *text;

	if (!log->cuts)
		return;
	for (size_t i = 0; i < capture->warning_count; i++)
		if (strcmp(capture->warnings[i].code, CODE) == 0)
			warning = &capture->warnings[i];
	text = describe_cuts(log);
	if (!text || (warning && strcmp(warning->message, text) == 0))
		return;
	if (warning)
		warning->message = text;
	else
		snap_capture_warn(capture, CODE, 0, 0, "%s", text);
}

bool snap_memory_limit_ends(struct snap_log *log)
{
	if (!snap_log_is_full(log))
		return false;
	log->cuts |= SNAP_LOG_CUT_END;
	return true;
}
