/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of the Firefox Profiler's format share.
 *
 *     meta, counters, the order of things              firefox.c
 *     tables that all threads share                    tables.c
 *     these as structs of arrays                       shared.c
 *     threads and their samples                        thread.c
 *     their markers                                    marker.c
 *
 * Processed profile, preprocessedProfileVersion 66: readers upgrade it. Nothing here is seen
 * outside these files.
 */
#ifndef SNAP_RENDER_FIREFOX_INTERNAL_H
#define SNAP_RENDER_FIREFOX_INTERNAL_H

#include "render/json/writer.h"
#include "render/view/pool.h"
#include "render/view/profile.h"

/* In the order of meta.categories. */
enum snap_firefox_category {
	SNAP_FIREFOX_OTHER,
	SNAP_FIREFOX_IDLE,
	SNAP_FIREFOX_USER,
	SNAP_FIREFOX_SYSTEM,
	SNAP_FIREFOX_KERNEL,
	SNAP_FIREFOX_JIT,
	SNAP_FIREFOX_DISK,
};

enum { SNAP_FIREFOX_NONE = UINT32_MAX };

/* Rows are compared as bytes: they have no holes. */
struct snap_firefox_func {
	uint32_t name, lib, source; /* lib, source: SNAP_FIREFOX_NONE */
};

struct snap_firefox_frame {
	uint32_t func, lib, line, column; /* 0: unknown */
	int64_t address;                  /* -1: none */
	uint32_t depth, category;
};

struct snap_firefox_stack {
	uint32_t prefix, frame; /* prefix SNAP_FIREFOX_NONE: a root */
};

struct snap_firefox_tables {
	struct snap_profile *profile;
	struct snap_pool strings; /* stringArray */
	struct snap_pool libs;    /* path, NUL, build id; resourceTable has the same rows */
	struct snap_pool sources; /* file names, as numbers of strings */
	struct snap_pool funcs, frames, stacks;
	uint32_t *rows; /* of stacks, plus 1; for each stack of the recording and way to stand */
};

/* NO_MEMORY; released by snap_firefox_tables_deinit() in any case. */
struct snap_error *snap_firefox_tables_init(struct snap_firefox_tables *tables,
					    struct snap_profile *profile) _must_check_;
void snap_firefox_tables_deinit(struct snap_firefox_tables *tables);

/*
 * The row of a stack in the stack table, made when it is first asked for. The category of its leaf
 * is that of a thread in this state: readers take a sample's category from there. SIZE_MAX without
 * memory.
 */
size_t snap_firefox_stack(struct snap_firefox_tables *tables, size_t stack, enum snap_state state);
enum snap_firefox_category snap_firefox_category_of(enum snap_state state);

/* `"libs": […]` and `"shared": {…}`: when nothing more is to be added. */
void snap_firefox_put_libs(struct snap_json_out *json, const struct snap_firefox_tables *tables);
void snap_firefox_put_shared(struct snap_json_out *json, const struct snap_firefox_tables *tables);

/* ---- threads ---- */

struct snap_firefox_sample {
	uint32_t stack; /* row plus 1; 0: the thread was not seen from here on */
	uint32_t weight;
	int64_t time_us;
	int64_t cpu_us; /* that it ran since the sample before */
};

struct snap_firefox_threads {
	const struct snap_recording *recording;
	struct snap_firefox_tables *tables;
	bool all;                             /* a sample for each tick, else two a run */
	size_t state_names[SNAP_STATE_COUNT]; /* in strings */
	size_t stop_name;
	struct snap_firefox_sample *samples; /* of the thread at hand */
	size_t sample_count, sample_capacity;
	struct snap_run *spans; /* runs of one state, for markers */
	size_t span_count, span_capacity;
};

/* All that the threads need of the tables is put there. NO_MEMORY. */
struct snap_error *snap_firefox_threads_init(struct snap_firefox_threads *threads,
					     const struct snap_recording *recording,
					     struct snap_firefox_tables *tables) _must_check_;
void snap_firefox_threads_deinit(struct snap_firefox_threads *threads);
/* The thread's object. False without memory. */
bool snap_firefox_put_thread(struct snap_firefox_threads *threads, struct snap_json_out *json,
			     size_t track);
/* "1234", or "1234.2" for the second program of the process, with quotes. */
void snap_firefox_put_id(struct snap_json_out *json, const struct snap_recording *recording,
			 size_t process, pid_t id);

/* Fills threads->spans. False without memory. */
bool snap_firefox_collect_spans(struct snap_firefox_threads *threads,
				const struct snap_track *track);
/* `"markers": {…}`, with the recording's stops if they are to be marked here. */
void snap_firefox_put_markers(const struct snap_firefox_threads *threads,
			      struct snap_json_out *json, bool stops);

static inline int64_t snap_firefox_us(int64_t ns)
{
	return ns / 1000;
}

static inline int64_t snap_firefox_time_us(const struct snap_recording *recording, size_t tick)
{
	return snap_firefox_us(recording->ticks[tick].time_ns);
}

/* Ticks were missed after this one: nobody knows how things stood then. */
static inline bool snap_firefox_gap_after(const struct snap_recording *recording, size_t tick)
{
	return tick + 1 < recording->tick_count &&
	       snap_recording_tick_end(recording, tick) != recording->ticks[tick + 1].time_ns;
}

static inline void snap_firefox_begin_column(struct snap_json_out *json, const char *key)
{
	snap_json_out_raw(json, ",\"");
	snap_json_out_raw(json, key);
	snap_json_out_raw(json, "\":[");
}

#endif
