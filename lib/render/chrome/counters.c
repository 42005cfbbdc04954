/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counters of Chrome trace events: threads by state of each process, and for how long something
 * stood still at each tick.
 *
 * An event says what holds from its time on, so there is one only where something changed, and one
 * at the end: viewers draw a value up to the next one. Knows nothing of stacks.
 */
#include "render/chrome/chrome.h"

#include <stdlib.h>

/* What the states are counted as. */
enum { COUNT_OTHER, COUNT_RUNNING, COUNT_SLEEPING, COUNT_DISK, COUNT_KINDS };

static const unsigned char kinds[SNAP_STATE_COUNT] = {
	[SNAP_STATE_RUNNING] = COUNT_RUNNING, [SNAP_STATE_SLEEPING] = COUNT_SLEEPING,
	[SNAP_STATE_IDLE] = COUNT_SLEEPING,   [SNAP_STATE_PARKED] = COUNT_SLEEPING,
	[SNAP_STATE_DISK] = COUNT_DISK,
};

struct counts {
	int32_t of[COUNT_KINDS];
};

/* Up to the opening bracket of the values. */
static void begin_counter(struct snap_chrome *chrome, pid_t pid, const char *name, int64_t time_ns)
{
	snap_chrome_begin(chrome, "C", pid, 0);
	snap_json_clean(chrome->json, "cat", "stacksnap");
	snap_json_clean(chrome->json, "name", name);
	snap_json_number(chrome->json, "ts", snap_chrome_us(time_ns));
	snap_json_begin(chrome->json, "args", '{');
}

static void end_counter(struct snap_chrome *chrome)
{
	snap_json_end(chrome->json, '}');
	snap_json_end(chrome->json, '}');
}

static void put_counts(struct snap_chrome *chrome, pid_t pid, int64_t time_ns,
		       const struct counts *counts)
{
	begin_counter(chrome, pid, "threads", time_ns);
	snap_json_number(chrome->json, "running", counts->of[COUNT_RUNNING]);
	snap_json_number(chrome->json, "sleeping", counts->of[COUNT_SLEEPING]);
	snap_json_number(chrome->json, "disk", counts->of[COUNT_DISK]);
	snap_json_number(chrome->json, "other", counts->of[COUNT_OTHER]);
	end_counter(chrome);
}

/* What each run changes, at ticks since the process's first one. */
static void count_changes(struct counts *changes, uint32_t first, uint32_t last,
			  const struct snap_track *track)
{
	for (size_t i = 0; i < track->run_count; i++) {
		const struct snap_run *run = &track->runs[i];
		size_t kind = kinds[run->state];

		if (run->first < first || run->last > last)
			continue;
		changes[run->first - first].of[kind]++;
		changes[run->last - first + 1].of[kind]--;
	}
}

static void put_changed_counts(struct snap_chrome *chrome,
			       const struct snap_recorded_process *process,
			       const struct counts *changes, size_t count)
{
	const struct snap_recording *recording = chrome->recording;
	struct counts now = { { 0 } };

	for (size_t i = 0; i < count; i++) {
		bool changed = i == 0;

		for (size_t k = 0; k < COUNT_KINDS; k++) {
			changed = changed || changes[i].of[k];
			now.of[k] += changes[i].of[k];
		}
		if (changed)
			put_counts(chrome, process->node->pid,
				   recording->ticks[process->first + i].time_ns, &now);
	}
	/* One that went on as another program is counted further by that. */
	if (process->execed)
		return;
	if (process->last + 1 < recording->tick_count)
		now = (struct counts){ { 0 } };
	put_counts(chrome, process->node->pid,
		   snap_timeline_tick_end(&chrome->timeline, process->last), &now);
}

struct stacksnap_error *snap_chrome_put_states(struct snap_chrome *chrome, size_t process,
					       const struct snap_track *tracks, size_t count)
{
	const struct snap_recorded_process *of = &chrome->recording->processes[process];
	size_t ticks = (size_t)of->last - of->first + 1;
	_cleanup_free_ struct counts *changes = NULL;

	if (count == 0 || of->first > of->last || of->last >= chrome->recording->tick_count)
		return NULL;
	changes = calloc(ticks + 1, sizeof(*changes));
	SNAP_TRY(snap_no_memory_unless(changes));
	for (size_t i = 0; i < count; i++)
		count_changes(changes, of->first, of->last, &tracks[i]);
	put_changed_counts(chrome, of, changes, ticks);
	return NULL;
}

static void put_stop(struct snap_chrome *chrome, int64_t time_ns, int64_t stopped_ns)
{
	begin_counter(chrome, chrome->recording->processes[0].node->pid, "stop_us", time_ns);
	snap_json_decimal(chrome->json, "us", stopped_ns, 3);
	end_counter(chrome);
}

void snap_chrome_put_stops(struct snap_chrome *chrome)
{
	const struct snap_recording *recording = chrome->recording;
	int64_t last_ns = 0;
	bool any = false;

	if (recording->process_count == 0)
		return;
	for (size_t i = 0; i < recording->tick_count; i++) {
		int64_t end_ns = snap_timeline_tick_end(&chrome->timeline, i);

		if (recording->ticks[i].stopped_ns != last_ns) {
			last_ns = recording->ticks[i].stopped_ns;
			put_stop(chrome, recording->ticks[i].time_ns, last_ns);
			any = true;
		}
		/* At the end, and where ticks were missed: in those nothing was stopped. */
		if (i + 1 == recording->tick_count
			    ? any
			    : last_ns && end_ns < recording->ticks[i + 1].time_ns) {
			put_stop(chrome, end_ns, 0);
			last_ns = 0;
		}
	}
}
