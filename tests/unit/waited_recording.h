/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording made by hand of threads that wait, for the tests of the renderers: 100 ticks of 10 ms,
 * three locks of a bank, connections to its database, and time that nobody owes. Who waited when is
 * written in one table, and so is who had what.
 */
#pragma once

#include "model/recording.h"

#include <string.h>

enum { WAITED_TICKS = 100, WAITED_PERIOD = 10000000 };

#define WAITED_FRAME(variable, name, ...)                                         \
	static struct snap_entry variable##_entry = { .function = name,           \
						      .symbol = name,             \
						      __VA_ARGS__ };              \
	static const struct snap_frame variable = { .address = 0x1000,            \
						    .module = "/srv/bank",        \
						    .entries = &variable##_entry, \
						    .entry_count = 1 }

WAITED_FRAME(charge_waited, "charge_order", .file = "src/charge.c", .line = 20);
WAITED_FRAME(audit_waited, "audit", .file = "src/audit.c", .line = 30);
WAITED_FRAME(lock_waited, "lock_ledger", .file = "src/ledger.c", .line = 40);
WAITED_FRAME(query_waited, "query", .file = "src/query.c", .line = 50);
WAITED_FRAME(copy_waited, "memcpy", .system = true);
WAITED_FRAME(futex_waited, "__lll_lock_wait", .system = true);
WAITED_FRAME(kernel_waited, "do_page_fault", .kernel = true);

enum waited_stack { CHARGES, COPIES, AUDITS, LOCKS, LOCKS_AGAIN, QUERIES, IDLES, WAITED_STACKS };

static const struct snap_frame *waited_frames[WAITED_STACKS][3] = {
	[CHARGES] = { &charge_waited },
	[COPIES] = { &kernel_waited, &copy_waited, &charge_waited },
	[AUDITS] = { &audit_waited },
	[LOCKS] = { &futex_waited, &lock_waited },
	[LOCKS_AGAIN] = { &futex_waited, &lock_waited, &audit_waited },
	[QUERIES] = { &query_waited },
	[IDLES] = { &futex_waited },
};

enum waited_wait {
	NO_WAIT,
	LEDGER,
	CACHE,
	LOG,
	DATABASE_1,
	DATABASE_2,
	DATABASE_3,
	EVENTS,
	SLEEP,
	HELPER_LOCK,
	HELPER_SLEEP,
	WAITED_WAITS,
};

static const struct {
	pid_t tid;
	uint32_t first, last;
	enum waited_stack stack;
	enum waited_wait wait;
} waited_runs[] = {
	{ 100, 0, 99, IDLES, EVENTS },       { 101, 0, 19, CHARGES, NO_WAIT },
	{ 101, 20, 49, COPIES, NO_WAIT },    { 101, 50, 99, LOCKS, LEDGER },
	{ 102, 0, 49, LOCKS, LEDGER },       { 102, 50, 99, AUDITS, NO_WAIT },
	{ 103, 0, 49, LOCKS, LEDGER },       { 103, 50, 99, LOCKS_AGAIN, LEDGER },
	{ 104, 0, 29, LOCKS, CACHE },        { 104, 30, 39, AUDITS, NO_WAIT },
	{ 104, 40, 59, LOCKS, CACHE },       { 104, 60, 99, LOCKS, LOG },
	{ 105, 0, 49, QUERIES, DATABASE_1 }, { 105, 50, 99, QUERIES, DATABASE_2 },
	{ 106, 0, 19, QUERIES, DATABASE_3 }, { 106, 20, 99, IDLES, SLEEP },
	{ 200, 0, 9, LOCKS, HELPER_LOCK },   { 200, 10, 99, IDLES, HELPER_SLEEP },
};

/* By numbers of tracks, which are those of the tids above, in order. */
static struct snap_owner_span ledger_holds[] = {
	{ .first = 0, .last = 39, .track = 1, .tid = 101 },
	{ .first = 40, .last = 49, .track = SIZE_MAX, .lack = SNAP_OWNER_CHANGING },
	{ .first = 50, .last = 99, .track = 2, .tid = 102 },
};
static struct snap_owner_span cache_holds[] = {
	{ .first = 0, .last = 59, .track = SIZE_MAX, .tid = 999 },
};
static struct snap_owner_span log_holds[] = {
	{ .first = 0, .last = 99, .track = SIZE_MAX, .tid = 77, .lack = SNAP_OWNER_EXITED },
};

struct waited_bed {
	struct snap_recording recording;
	struct snap_tick ticks[WAITED_TICKS];
	struct snap_node nodes[2];
	struct snap_recorded_process processes[2];
	struct snap_track tracks[8];
	struct snap_run runs[SNAP_ARRAY_SIZE(waited_runs)];
	struct snap_recorded_stack stacks[WAITED_STACKS];
	struct snap_wait kinds[WAITED_WAITS - 1];
	struct snap_recorded_wait waits[WAITED_WAITS - 1];
};

static inline void waited_wait(struct waited_bed *bed, enum waited_wait number, size_t process,
			       enum snap_wait_kind kind)
{
	bed->kinds[number - 1] = snap_wait_init(kind, SNAP_WAIT_IS_CERTAIN);
	bed->waits[number - 1] =
		(struct snap_recorded_wait){ .process = process, .wait = &bed->kinds[number - 1] };
}

static inline void waited_lock(struct waited_bed *bed, enum waited_wait number, size_t process,
			       const char *symbol, struct snap_owner_span *holds, size_t count)
{
	waited_wait(bed, number, process, SNAP_WAIT_MUTEX);
	bed->kinds[number - 1].address = 0x4000 + number * 64;
	bed->kinds[number - 1].symbol = symbol;
	bed->waits[number - 1].owners = holds;
	bed->waits[number - 1].owner_count = count;
}

static inline void waited_connection(struct waited_bed *bed, enum waited_wait number,
				     const char *local)
{
	waited_wait(bed, number, 0, SNAP_WAIT_TCP);
	bed->kinds[number - 1].mode = SNAP_WAIT_READ;
	bed->kinds[number - 1].local = local;
	bed->kinds[number - 1].remote = "10.0.0.9:5432";
}

static inline void waited_threads(struct waited_bed *bed)
{
	static const char *const names[] = { "bank",     "worker-1", "worker-2", "worker-3",
					     "worker-4", "query-1",  "query-2",  "helper" };
	size_t count = 0;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(waited_runs); i++) {
		struct snap_track *track = &bed->tracks[count ? count - 1 : 0];

		if (!i || waited_runs[i].tid != waited_runs[i - 1].tid) {
			track = &bed->tracks[count];
			*track = (struct snap_track){ .process = waited_runs[i].tid == 200,
						      .tid = waited_runs[i].tid,
						      .ns_tid = waited_runs[i].tid,
						      .name = names[count],
						      .runs = &bed->runs[i] };
			count++;
		}
		track->run_count++;
		bed->runs[i] = (struct snap_run){
			.first = waited_runs[i].first,
			.last = waited_runs[i].last,
			.stack = waited_runs[i].stack,
			.state = waited_runs[i].wait ? SNAP_STATE_SLEEPING : SNAP_STATE_RUNNING,
			.taken = SNAP_TAKEN_UNSTOPPED,
			.syscall = waited_runs[i].wait ? "futex" : NULL,
			.wait = waited_runs[i].wait,
		};
	}
}

static inline void waited_set_up(struct waited_bed *bed)
{
	struct snap_recording *recording = &bed->recording;

	memset(bed, 0, sizeof(*bed));
	bed->nodes[0] = (struct snap_node){ .pid = 100, .name = "bank", .description = "bank" };
	bed->nodes[1] = (struct snap_node){ .pid = 200, .name = "helper", .description = "helper" };
	for (int i = 0; i < 2; i++)
		bed->processes[i] = (struct snap_recorded_process){ .node = &bed->nodes[i],
								    .parent = SIZE_MAX,
								    .last = WAITED_TICKS - 1 };
	for (int i = 0; i < WAITED_TICKS; i++)
		bed->ticks[i].time_ns = i * (int64_t)WAITED_PERIOD;
	for (int i = 0; i < WAITED_STACKS; i++) {
		struct snap_recorded_stack *stack = &bed->stacks[i];

		*stack = (struct snap_recorded_stack){ .frames = waited_frames[i],
						       .description = "worker" };
		snprintf(stack->id, sizeof(stack->id), "%016x", i + 1);
		while (stack->frame_count < 3 && stack->frames[stack->frame_count])
			stack->frame_count++;
	}
	waited_lock(bed, LEDGER, 0, "ledger_lock", ledger_holds, 3);
	waited_lock(bed, CACHE, 0, "cache_lock", cache_holds, 1);
	waited_lock(bed, LOG, 0, "log_lock", log_holds, 1);
	waited_connection(bed, DATABASE_1, "10.0.0.4:51234");
	waited_connection(bed, DATABASE_2, "10.0.0.4:51235");
	waited_connection(bed, DATABASE_3, "10.0.0.4:51236");
	waited_wait(bed, EVENTS, 0, SNAP_WAIT_EPOLL);
	bed->kinds[EVENTS - 1].kinds_watched[SNAP_DESCRIPTOR_EVENTFD] = 1;
	waited_wait(bed, SLEEP, 0, SNAP_WAIT_SLEEP);
	waited_lock(bed, HELPER_LOCK, 1, "helper_lock", NULL, 0);
	waited_wait(bed, HELPER_SLEEP, 1, SNAP_WAIT_SLEEP);
	waited_threads(bed);
	*recording = (struct snap_recording){
		.host = { .name = "db-7", .kernel = "6.1.0", .arch = "x86_64", .cpus = 2 },
		.time_ns = 1795420338106000000,
		.period_ns = WAITED_PERIOD,
		.duration_ns = WAITED_TICKS * (int64_t)WAITED_PERIOD,
		.stats = { .hz_asked = 100,
			   .hz_reached = 100,
			   .ticks = WAITED_TICKS,
			   .duration_ns = WAITED_TICKS * (int64_t)WAITED_PERIOD,
			   .threads = 8,
			   .thread_samples = 800,
			   .stacks = WAITED_STACKS,
			   .kept = 800 },
		.ticks = bed->ticks,
		.tick_count = WAITED_TICKS,
		.processes = bed->processes,
		.process_count = 2,
		.tracks = bed->tracks,
		.track_count = 8,
		.stacks = bed->stacks,
		.stack_count = WAITED_STACKS,
		.waits = bed->waits,
		.wait_count = WAITED_WAITS - 1,
		.explains = true,
	};
}
