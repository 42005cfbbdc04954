/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long to wait for an opener: see patience.h. */
#include "roles/file_opener/patience.h"

/*
 * The most that counts between two looks: if the waiting process gets no processor, a program that
 * serves files gets none either.
 */
static const int64_t MOST_LOOK_NS = 40000000;
/*
 * How long an opener may sleep without having run: at first, and at least. A program on this host
 * answers within that time.
 */
static const int64_t STILL_NS = 300000000, LEAST_STILL_NS = 60000000;
/* Asleep in all, for any reason, once openers were lost. */
static const int64_t ASLEEP_NS = 300000000;

void snap_patience_begin(struct snap_patience_wait *wait, int64_t now_ns, int64_t whole_ns)
{
	*wait = (struct snap_patience_wait){ .begin_ns = now_ns,
					     .last_ns = now_ns,
					     .whole_ns = whole_ns };
}

static int64_t still_of(const struct snap_patience *patience)
{
	int64_t halvings = patience->losses + patience->slow_ns / STILL_NS, still_ns = STILL_NS;

	for (; halvings > 0 && still_ns > LEAST_STILL_NS; halvings--)
		still_ns /= 2;
	return still_ns > LEAST_STILL_NS ? still_ns : LEAST_STILL_NS;
}

bool snap_patience_is_over(const struct snap_patience *patience, struct snap_patience_wait *wait,
			   const struct snap_patience_look *look)
{
	int64_t passed_ns = look->now_ns - wait->last_ns;
	bool by_program = look->state == 'S' || (look->state == 'D' && look->is_served);
	bool has_run = look->runs != wait->runs;

	if (passed_ns > MOST_LOOK_NS)
		passed_ns = MOST_LOOK_NS;
	wait->last_ns = look->now_ns;
	wait->runs = look->runs;
	if (has_run || !by_program)
		wait->still_ns = 0;
	else
		wait->still_ns += passed_ns;
	if (by_program)
		wait->served_ns += passed_ns;
	if (look->state == 'S' || look->state == 'D')
		wait->asleep_ns += passed_ns;
	return look->now_ns - wait->begin_ns >= wait->whole_ns ||
	       wait->still_ns >= still_of(patience) ||
	       (patience->losses > 0 && wait->asleep_ns >= ASLEEP_NS);
}

void snap_patience_end(struct snap_patience *patience, const struct snap_patience_wait *wait)
{
	patience->slow_ns += wait->served_ns;
}
