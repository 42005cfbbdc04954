/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Chrome trace events: what the parts of the document share. chrome.c has names and slices,
 * counters.c what is counted, waits.c what threads wait for. Knows nothing of other formats.
 */
#pragma once

#include "base/error.h"
#include "render/json/writer.h"
#include "render/view/profile.h"
#include "render/view/spans.h"
#include "render/wait/marks.h"

struct snap_chrome {
	const struct snap_recording *recording;
	const struct snap_options *options;
	struct snap_json_writer *json;
	struct snap_profile profile;
	struct snap_timeline timeline;
	struct snap_wait_marks marks;
};

/*
 * Times and lengths are whole microseconds, because readers add them up in floating point, where
 * slices with fractions would no longer end where their parents do.
 */
static inline int64_t snap_chrome_us(int64_t ns)
{
	return ns / 1000;
}

/* Begins an event of this kind, which the caller ends. tid 0: it belongs to the process. */
static inline void snap_chrome_begin(struct snap_chrome *chrome, const char *kind, pid_t pid,
				     pid_t tid)
{
	snap_json_line(chrome->json);
	snap_json_begin(chrome->json, NULL, '{');
	snap_json_clean(chrome->json, "ph", kind);
	snap_json_number(chrome->json, "pid", pid);
	snap_json_number(chrome->json, "tid", tid ? tid : pid);
}

/*
 * An event whenever the states of a process's threads changed; `tracks` are its threads.
 * NO_MEMORY.
 */
struct stacksnap_error *snap_chrome_put_states(struct snap_chrome *chrome, size_t process,
					       const struct snap_track *tracks,
					       size_t count) _must_check_;
/* An instant whenever the thread waits for something else, or the holder changes. NO_MEMORY. */
struct stacksnap_error *snap_chrome_put_waits(struct snap_chrome *chrome,
					      const struct snap_track *track) _must_check_;
/* As a counter of the first process. */
void snap_chrome_put_stops(struct snap_chrome *chrome);
