/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of Chrome trace events among each other: who appears in a trace, slices, counters.
 * Included by render/chrome*.c only.
 */
#ifndef SNAP_RENDER_CHROME_INTERNAL_H
#define SNAP_RENDER_CHROME_INTERNAL_H

#include "model/options.h"
#include "render/json/writer.h"
#include "render/view/profile.h"
#include "render/view/spans.h"

struct snap_chrome {
	const struct snap_recording *recording;
	const struct snap_options *options;
	struct snap_json_out *json;
	struct snap_profile profile;
	struct snap_timeline timeline;
	bool begun; /* an event was written: the next one needs a comma */
};

/*
 * Begins an event of that kind: `{"ph":"X","pid":1,"tid":2`; the caller writes the rest and its
 * closing brace. tid 0: the event belongs to the process.
 */
void snap_chrome_event(struct snap_chrome *chrome, char kind, pid_t pid, pid_t tid);
/*
 * `,"NAME":N`, a time or a length in microseconds. They are whole, because readers add them up in
 * floating point, where slices with fractions would no longer end where their parents do.
 */
void snap_chrome_time(struct snap_chrome *chrome, const char *name, int64_t ns);
static inline int64_t snap_chrome_microseconds(int64_t ns)
{
	return ns / 1000;
}

/* Slices of a thread, parents before their children, in order of time. NO_MEMORY. */
struct snap_error *snap_chrome_slices(struct snap_chrome *chrome,
				      const struct snap_track *track) _must_check_;

/*
 * How many threads of a process were in which state: an event whenever it changed. `tracks` are
 * those of the process. NO_MEMORY.
 */
struct snap_error *snap_chrome_states(struct snap_chrome *chrome, size_t process,
				      const struct snap_track *tracks, size_t count) _must_check_;
/* For how long something stood still at each tick, as a counter of the first process. */
void snap_chrome_stops(struct snap_chrome *chrome);

#endif
