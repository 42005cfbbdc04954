/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See recorded_waits.h. Both lists are bounded, whatever a file holds. */
#include "render/json/recorded_waits.h"

#include "base/bsearch.h"
#include "render/json/waits.h"
#include "render/wait/circles.h"
#include "render/wait/object.h"
#include "render/wait/waited.h"

#include <stdlib.h>

enum { MOST_BYTES = 16 << 20 }; /* of waits, as they are at the most */

static const struct snap_waited_most most = { .owed = 200, .idle = 100, .holders = 20 };

/* ---- time by wait ---- */

static void put_holder(struct snap_json_writer *json, const struct snap_waited_holder *holder)
{
	snap_json_begin_line(json, NULL, '{');
	snap_json_text_if(json, "function", holder->function);
	snap_json_number_if(json, "pid", holder->pid);
	snap_json_number_if(json, "tid", holder->tid);
	snap_json_text_if(json, "name", holder->name);
	if (holder->lack != SNAP_OWNER_KNOWN)
		snap_json_text(json, "owner_unknown", snap_owner_lack_word(holder->lack));
	snap_json_number(json, "threads", (int64_t)holder->threads);
	snap_json_number(json, "ns", holder->ns);
	snap_json_end(json, '}');
}

static void put_holders(struct snap_json_writer *json, const struct snap_waited_row *row)
{
	if (!row->keeps_owner)
		return;
	if (row->holder_count) {
		snap_json_list(json, "holders", row->holder_count, i,
			       put_holder(json, &row->holders[i]));
	}
	snap_json_number_if(json, "other_ns", row->other_ns);
	snap_json_number_if(json, "unknown_ns", row->unknown_ns);
}

static void put_row(struct snap_json_writer *json, const struct snap_recording *recording,
		    const struct snap_waited_row *row, const struct snap_pointer_table *numbers)
{
	const struct snap_pointer_entry *found = snap_pointer_table_find(numbers, row->wait);

	snap_json_begin_line(json, NULL, '{');
	snap_json_text(json, "object", row->text);
	snap_json_text(json, "kind", snap_wait_kind_word(row->wait->kind));
	snap_json_number(json, "pid", recording->processes[row->process].node->pid);
	if (found)
		snap_json_number(json, "wait_number", (int64_t)found->number);
	if (row->objects > 1)
		snap_json_number(json, "objects", (int64_t)row->objects);
	snap_json_true_if(json, "idle", !row->owed);
	snap_json_number(json, "total_ns", row->ns);
	snap_json_number(json, "longest_ns", row->longest_ns);
	snap_json_number(json, "samples", (int64_t)row->samples);
	snap_json_number(json, "threads", (int64_t)row->threads);
	put_holders(json, row);
	snap_json_end(json, '}');
}

static void put_recorded_rows(struct snap_json_writer *json, const struct snap_recording *recording,
			      const struct snap_waited *waited,
			      const struct snap_pointer_table *numbers)
{
	size_t listed = waited->owed.row_count + waited->idle.row_count,
	       total = waited->owed.row_total + waited->idle.row_total;

	if (!listed)
		return;
	snap_json_number(json, "waited_ns", waited->owed.ns);
	snap_json_number(json, "idle_ns", waited->idle.ns);
	snap_json_begin_line(json, "time_by_wait", '[');
	for (size_t i = 0; i < waited->owed.row_count; i++)
		put_row(json, recording, &waited->owed.rows[i], numbers);
	for (size_t i = 0; i < waited->idle.row_count; i++)
		put_row(json, recording, &waited->idle.rows[i], numbers);
	snap_json_end(json, ']');
	if (total > listed)
		snap_json_number(json, "time_by_wait_count", (int64_t)total);
	snap_json_number_if(json, "missed_ns", waited->missed_ns);
}

/* ---- what was waited for ---- */

struct ranked {
	uint64_t samples;
	size_t wait;
};

SNAP_ORDER(by_samples, struct ranked, a, b, snap_compare(b->samples, a->samples),
	   snap_compare(a->wait, b->wait));

SNAP_ORDER(by_wait, struct ranked, a, b, snap_compare(a->wait, b->wait));

/* Those that some thread waited for, in the recording's order; malloc'ed, NULL without memory. */
static struct ranked *choose_waits(const struct snap_recording *recording, size_t *count_ret)
{
	struct ranked *ranked = calloc(recording->wait_count + 1, sizeof(*ranked));
	size_t count = 0, bytes = 0;

	if (!ranked)
		return NULL;
	for (size_t i = 0; i < recording->wait_count; i++)
		ranked[i].wait = i;
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			const struct snap_run *run = &recording->tracks[i].runs[k];

			if (run->wait && run->wait <= recording->wait_count)
				ranked[run->wait - 1].samples += snap_run_samples(run);
		}
	qsort(ranked, recording->wait_count, sizeof(*ranked), by_samples);
	/* One that is too large makes no other one go. */
	for (size_t i = 0; i < recording->wait_count && ranked[i].samples; i++) {
		size_t more = snap_waited_bytes(recording->waits[ranked[i].wait].wait);

		if (more > MOST_BYTES - bytes)
			continue;
		bytes += more;
		ranked[count++] = ranked[i];
	}
	qsort(ranked, count, sizeof(*ranked), by_wait);
	*count_ret = count;
	return ranked;
}

static bool number_waits(const struct snap_recording *recording, const struct ranked *waits,
			 size_t count, struct snap_pointer_table *numbers)
{
	for (size_t i = 0; i < count; i++) {
		struct snap_pointer_entry *entry =
			snap_pointer_table_get(numbers, recording->waits[waits[i].wait].wait);

		if (!entry)
			return false;
		entry->number = i + 1;
	}
	return true;
}

static void put_waits(struct snap_json_writer *json, const struct snap_recording *recording,
		      const struct ranked *waits, size_t count)
{
	if (!count)
		return;
	snap_json_begin_line(json, "waits", '[');
	for (size_t i = 0; i < count; i++) {
		const struct snap_recorded_wait *wait = &recording->waits[waits[i].wait];

		snap_json_begin_line(json, NULL, '{');
		snap_json_number(json, "number", (int64_t)i + 1);
		snap_json_number(json, "pid", recording->processes[wait->process].node->pid);
		snap_json_number(json, "samples", (int64_t)waits[i].samples);
		snap_json_wait_put(json, wait->wait);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
	if (recording->wait_count > count)
		snap_json_number(json, "wait_count", (int64_t)recording->wait_count);
}

struct stacksnap_error *snap_json_recorded_waits_put(struct snap_json_writer *json,
						     const struct snap_recording *recording,
						     const struct snap_options *options,
						     struct snap_pointer_table *numbers)
{
	_cleanup_(snap_waited_deinit) struct snap_waited waited = { .missed_ns = 0 };
	_cleanup_(snap_circles_deinit) struct snap_circles circles;
	_cleanup_free_ struct ranked *waits = NULL;
	struct stacksnap_error *err = snap_circles_init(&circles, recording, options);
	size_t count = 0;

	err = err ?: snap_waited_init(&waited, recording, options, most);
	if (err || !recording->explains || options->explain == SNAP_EXPLAIN_NO)
		return err;
	waits = choose_waits(recording, &count);
	SNAP_TRY(snap_no_memory_unless(waits && number_waits(recording, waits, count, numbers)));
	snap_json_waits_put(json, &circles.waits);
	put_recorded_rows(json, recording, &waited, numbers);
	put_waits(json, recording, waits, count);
	return NULL;
}
