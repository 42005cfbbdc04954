/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads of the Firefox Profiler's format: their samples, and markers for as long as they stayed
 * in a state. Knows nothing of what is in the tables.
 */
#pragma once

#include "render/firefox/tables.h"
#include "render/wait/marks.h"

struct snap_firefox_sample {
	uint32_t stack; /* row plus 1; 0: the thread was not seen from here on */
	uint32_t weight;
	int64_t time_us;
	int64_t cpu_us; /* that it ran since the sample before */
};

/* As long as a thread had a label. */
struct snap_firefox_label {
	const struct snap_label *label;
	struct snap_run run; /* from first to last */
	size_t name;         /* in strings */
};

struct snap_firefox_threads {
	const struct snap_recording *recording;
	struct snap_firefox_tables *tables;
	bool all;                             /* a sample for each tick, else two a run */
	size_t state_names[SNAP_STATE_COUNT]; /* in strings */
	size_t stop_name;
	struct snap_firefox_sample *samples; /* of the current thread */
	size_t sample_count, sample_capacity;
	struct snap_run *spans; /* runs of one state, for markers */
	size_t span_count, span_capacity;
	struct snap_firefox_label *labels;
	size_t label_count, label_capacity;
	struct snap_wait_marks waits;
	size_t wait_name;
	size_t *open; /* of them, those of the stretch before, in the order of its labels */
	size_t open_count, open_capacity;
	size_t *still; /* the same of the current stretch */
	size_t still_count, still_capacity;
};

/* All that the threads need of the tables is put there. NO_MEMORY. */
struct stacksnap_error *snap_firefox_threads_init(struct snap_firefox_threads *threads,
						  const struct snap_recording *recording,
						  const struct snap_options *options,
						  struct snap_firefox_tables *tables) _must_check_;
void snap_firefox_threads_deinit(struct snap_firefox_threads *threads);
/* The thread's object. False without memory. */
bool snap_firefox_put_thread(struct snap_firefox_threads *threads, struct snap_json_writer *json,
			     size_t track);
/* "1234", or "1234.2" for the second program of the process, with quotes. */
void snap_firefox_put_id(struct snap_json_writer *json, const char *key,
			 const struct snap_recording *recording, size_t process, pid_t id);

static inline int64_t snap_firefox_us(int64_t ns)
{
	return ns / 1000;
}

static inline int64_t snap_firefox_time_us(const struct snap_recording *recording, size_t tick)
{
	return snap_firefox_us(recording->ticks[tick].time_ns);
}
