/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Places of managed frames: see place.h. */
#include "analyze/runtime/place.h"

#include <stdlib.h>

/* Without a colon: what stands before one is the place of a stack's end, in text. */
const char snap_place_none[] = "the frames of the interpreter and of the machine do not fit "
			       "together, so the machine's follow";

/* The native frame at `first` or behind it that runs a run; SIZE_MAX: there is none. */
static size_t find_loop(const struct snap_place_finder *native,
			const struct snap_runtime_thread *managed,
			const struct snap_runtime_run *run, size_t first)
{
	for (size_t i = first; i < native->count; i++) {
		if (run->anchor && native->sps) {
			if (native->sps[i] <= run->anchor &&
			    (i + 1 == native->count || run->anchor < native->sps[i + 1]))
				return i;
		} else if (managed->loop_function &&
			   native->is_function(native->context, i, managed->loop_function)) {
			return i;
		}
	}
	return SIZE_MAX;
}

size_t *snap_place_runs(const struct snap_runtime_thread *managed,
			const struct snap_place_finder *finder)
{
	size_t *loops = malloc((managed->run_count + 1) * sizeof(*loops));
	size_t next = 0, covered = 0;
	bool fits = loops && managed->run_count;

	for (size_t i = 0; i < managed->run_count && fits; i++) {
		const struct snap_runtime_run *run = &managed->runs[i];

		loops[i] = find_loop(finder, managed, run, next);
		next = loops[i] + 1;
		fits = loops[i] != SIZE_MAX && run->first == covered &&
		       run->count <= managed->stack.count - covered;
		covered += run->count;
	}
	if (fits && covered == managed->stack.count)
		return loops;
	free(loops);
	return NULL;
}
