/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tick pacer: see tick_pacer.h. Seconds and the rest apart, so that no product overflows in centuries. */
#include "record/tick_pacer.h"

#include "base/clock.h"

int64_t snap_tick_pacer_time(const struct snap_tick_pacer *pace, uint64_t slot)
{
	uint64_t seconds = slot / pace->hz, rest = slot % pace->hz;

	/* Rounded up, so that the moment lies in its slot. */
	return (int64_t)(seconds * SNAP_NS_PER_S +
			 (rest * SNAP_NS_PER_S + pace->hz - 1) / pace->hz);
}

uint64_t snap_tick_pacer_slot(const struct snap_tick_pacer *pace, int64_t elapsed_ns)
{
	uint64_t elapsed = elapsed_ns > 0 ? (uint64_t)elapsed_ns : 0;

	return elapsed / SNAP_NS_PER_S * pace->hz +
	       elapsed % SNAP_NS_PER_S * pace->hz / SNAP_NS_PER_S;
}

static void skip_slots(struct snap_tick_pacer *pace, uint64_t slot)
{
	uint64_t free_from = snap_tick_pacer_slot(pace, pace->done_ns) + 1;

	if (slot <= pace->next)
		return;
	if (free_from < pace->next)
		free_from = pace->next;
	if (slot > free_from)
		pace->missed.late += slot - free_from;
	pace->missed.slots += slot - pace->next;
	pace->next = slot;
}

void snap_tick_pacer_take(struct snap_tick_pacer *pace, int64_t elapsed_ns)
{
	skip_slots(pace, snap_tick_pacer_slot(pace, elapsed_ns));
	pace->next++;
	pace->taken++;
	pace->ahead = 0;
}

void snap_tick_pacer_leave_out(struct snap_tick_pacer *pace, uint64_t slots)
{
	pace->next += slots;
	pace->missed.slots += slots;
	pace->missed.left_out += slots;
	pace->ahead += slots;
}

void snap_tick_pacer_finish(struct snap_tick_pacer *pace, int64_t elapsed_ns)
{
	uint64_t slot = snap_tick_pacer_slot(pace, elapsed_ns);
	uint64_t end = snap_tick_pacer_time(pace, slot) < elapsed_ns ? slot + 1 : slot;

	while (pace->ahead && pace->next > end) {
		pace->ahead--;
		pace->next--;
		pace->missed.slots--;
		pace->missed.left_out--;
	}
	skip_slots(pace, end);
}
