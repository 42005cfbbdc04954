/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public API's trace: see stacksnap.h. Roles may still write: each event is copied, then checked. */
#include "api/api.h"
#include "base/clock.h"
#include "base/shared_memory.h"
#include "model/snapshot.h"

#include <string.h>
#include <sys/mman.h>

#define TEXT_OF(name, text) text,
static const char *const texts[] = { SNAP_TRACE_KINDS(TEXT_OF) };

API struct stacksnap_error *stacksnap_options_set_trace(struct stacksnap_options *options,
							const pid_t *tids, size_t count)
{
	struct snap_region region;

	if (count > SNAP_TRACE_TIDS)
		return snap_error_format(SNAP_ERROR_INVALID, "a trace can be of %d threads at most",
					 SNAP_TRACE_TIDS);
	SNAP_TRY(snap_shared_scratch_create(sizeof(struct snap_trace), &region));
	if (options->values.trace)
		munmap(options->values.trace, sizeof(struct snap_trace));
	options->values.trace = (void *)region.next;
	options->values.trace->begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	if (count)
		memcpy(options->values.trace->tids, tids, count * sizeof(*tids));
	return NULL;
}

API int stacksnap_options_next_trace(const struct stacksnap_options *options,
				     unsigned long long *cursor, pid_t *tid_ret, unsigned *kind_ret,
				     char *text, size_t size)
{
	const struct snap_trace *trace = options->values.trace;
	uint64_t next = trace ? __atomic_load_n(&trace->next, __ATOMIC_ACQUIRE) : 0;
	struct snap_trace_event event;
	char details[96] = "";

	if (next > SNAP_TRACE_EVENTS && *cursor < next - SNAP_TRACE_EVENTS)
		*cursor = next - SNAP_TRACE_EVENTS;
	do {
		if (*cursor >= next)
			return false;
		memcpy(&event, &trace->events[(*cursor)++ % SNAP_TRACE_EVENTS], sizeof(event));
		/* The compiler might read it again where that is cheaper. */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	} while (event.number != *cursor || event.kind >= SNAP_TRACE_KIND_COUNT ||
		 (event.kind >= SNAP_TRACE_TASK && event.numbers[2] >= SNAP_UNWIND_COUNT));
	if (event.kind == SNAP_TRACE_TASK)
		snprintf(details, sizeof(details),
			 event.numbers[0] > UINT32_MAX ? " 0x%llx: %llu frames: %s"
						       : " %llu: %llu frames: %s",
			 event.numbers[0], event.numbers[1], snap_unwind_word(event.numbers[2]));
	else if (event.kind >= SNAP_TRACE_UNWOUND && event.kind <= SNAP_TRACE_REPORT)
		snprintf(details, sizeof(details), ": %llu frames, the last one at 0x%llx: %s",
			 event.numbers[0], event.numbers[1], snap_unwind_word(event.numbers[2]));
	else if (event.numbers[1])
		snprintf(details, sizeof(details), ": %llu of %llu bytes, from 0x%llx on",
			 event.numbers[0], event.numbers[2], event.numbers[1]);
	*tid_ret = event.tid;
	*kind_ret = 2 * event.kind +
		    (event.kind > SNAP_TRACE_UNWOUND ||
		     (event.kind >= SNAP_TRACE_TASK && !snap_unwind_is_whole(event.numbers[2])));
	snprintf(text, size, "%9.3f ms  %s%s",
		 1e-6 * ((double)event.time_ns - (double)trace->begin_ns), texts[event.kind],
		 details);
	return true;
}
