/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Time by wait, with sums that were made by hand: see waited_recording.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden.h"
#include "render/summary.h"
#include "render/view/recorded/instants.h"
#include "render/wait/circles.h"
#include "render/wait/holders.h"
#include "render/wait/waited.h"
#include "schema.h"
#include "waited_recording.h"

#include <jansson.h>

enum { MS = 1000000 };

static const struct snap_waited_most all = { .owed = 100, .idle = 100, .holders = 10 };

static struct snap_waited waited_of(const struct waited_bed *bed, struct snap_waited_most most)
{
	struct snap_options options = { .utf8 = true };
	struct snap_waited waited;

	assert_null(snap_waited_init(&waited, &bed->recording, &options, most));
	return waited;
}

static void check_row(const struct snap_waited_row *row, const char *text, int64_t ms,
		      int64_t longest_ms, size_t threads)
{
	assert_string_equal(row->text, text);
	assert_int_equal(row->ns, ms * MS);
	assert_int_equal(row->longest_ns, longest_ms * MS);
	assert_int_equal(row->threads, threads);
}

static void test_rows(void **state _unused_)
{
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	waited = waited_of(&bed, all);
	assert_int_equal(waited.owed.row_count, 5);
	assert_int_equal(waited.owed.row_total, 5);
	assert_int_equal(waited.owed.ns, 4200 * (int64_t)MS);
	check_row(&waited.owed.rows[0], "mutex ledger_lock", 2000, 1000, 3);
	check_row(&waited.owed.rows[1], "tcp -> 10.0.0.9:5432 (3 connections)", 1200, 1000, 2);
	check_row(&waited.owed.rows[2], "mutex cache_lock", 500, 300, 1);
	check_row(&waited.owed.rows[3], "mutex log_lock", 400, 400, 1);
	check_row(&waited.owed.rows[4], "mutex helper_lock", 100, 100, 1);
	assert_int_equal(waited.owed.rows[4].process, 1);
	assert_int_equal(waited.idle.row_count, 3);
	assert_int_equal(waited.idle.ns, 2700 * (int64_t)MS);
	check_row(&waited.idle.rows[0], "epoll: 1 eventfd", 1000, 1000, 1);
	check_row(&waited.idle.rows[1], "sleep", 900, 900, 1);
	check_row(&waited.idle.rows[2], "sleep", 800, 800, 1);
	snap_waited_deinit(&waited);
}

static void check_holder(const struct snap_waited_row *row, size_t number, const char *function,
			 pid_t tid, const char *name, int64_t ms)
{
	const struct snap_waited_holder *holder = &row->holders[number];

	if (function)
		assert_string_equal(holder->function, function);
	else
		assert_null(holder->function);
	assert_int_equal(holder->tid, tid);
	if (name)
		assert_string_equal(holder->name, name);
	else
		assert_null(holder->name);
	assert_int_equal(holder->ns, ms * MS);
	assert_int_equal(holder->threads, 1);
}

/* Two wait at each tick: the one for 40 ticks, the other for 50, no known holder for ten. */
static void test_holders(void **state _unused_)
{
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	waited = waited_of(&bed, all);
	assert_true(waited.owed.rows[0].keeps_owner);
	assert_int_equal(waited.owed.rows[0].holder_count, 2);
	check_holder(&waited.owed.rows[0], 0, "audit", 102, "worker-2", 1000);
	check_holder(&waited.owed.rows[0], 1, "charge_order", 101, "worker-1", 800);
	assert_int_equal(waited.owed.rows[0].unknown_ns, 200 * MS);
	/* Of a thread that is not in the recording its number is all. */
	assert_int_equal(waited.owed.rows[2].holder_count, 1);
	check_holder(&waited.owed.rows[2], 0, NULL, 999, NULL, 500);
	assert_int_equal(waited.owed.rows[2].unknown_ns, 0);
	/* One that has exited has it for ever. */
	assert_int_equal(waited.owed.rows[3].holder_count, 1);
	check_holder(&waited.owed.rows[3], 0, NULL, 77, NULL, 400);
	assert_int_equal(waited.owed.rows[3].holders[0].lack, SNAP_OWNER_EXITED);
	assert_false(waited.owed.rows[1].keeps_owner);
	assert_false(waited.owed.rows[4].keeps_owner);
	snap_waited_deinit(&waited);
}

/* What is not listed is counted. */
static void test_few_holders(void **state _unused_)
{
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	waited = waited_of(&bed, (struct snap_waited_most){ .owed = 1, .idle = 0, .holders = 1 });
	assert_int_equal(waited.owed.row_count, 1);
	assert_int_equal(waited.owed.row_total, 5);
	assert_int_equal(waited.owed.other_ns, 2200 * (int64_t)MS);
	assert_int_equal(waited.owed.rows[0].holder_count, 1);
	assert_int_equal(waited.owed.rows[0].holder_total, 2);
	assert_int_equal(waited.owed.rows[0].other_ns, 800 * MS);
	assert_int_equal(waited.idle.row_count, 0);
	assert_int_equal(waited.idle.row_total, 3);
	assert_int_equal(waited.idle.other_ns, 2700 * (int64_t)MS);
	snap_waited_deinit(&waited);
}

/* Ticks of which so many are missed before tick `at`; the run is as long as they are. */
static void miss_ticks(struct waited_bed *bed, size_t at, int missed)
{
	for (size_t i = at; i < WAITED_TICKS; i++)
		bed->ticks[i].time_ns += missed * (int64_t)WAITED_PERIOD;
	bed->recording.stats.duration_ns += missed * (int64_t)WAITED_PERIOD;
}

/* Ten ticks are missed before tick 20: whose counters stood still waited on, and for whom it did. */
static void test_missed_ticks(void **state _unused_)
{
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	bed.recording.wakes_end = WAITED_TICKS;
	miss_ticks(&bed, 20, 10);
	waited = waited_of(&bed, all);
	/* Of 102 and 103. */
	check_row(&waited.owed.rows[0], "mutex ledger_lock", 2200, 1100, 3);
	assert_int_equal(waited.owed.rows[0].samples, 200);
	/* Before and behind the gap it was had by one thread, which went on in another place. */
	assert_int_equal(waited.owed.rows[0].holder_count, 2);
	check_holder(&waited.owed.rows[0], 0, "audit", 102, "worker-2", 1000);
	check_holder(&waited.owed.rows[0], 1, "charge_order", 101, "worker-1", 1000);
	assert_int_equal(waited.owed.rows[0].unknown_ns, 200 * MS);
	check_row(&waited.owed.rows[1], "tcp -> 10.0.0.9:5432 (3 connections)", 1300, 1100, 2);
	/* 106 waited for something else behind it. */
	assert_int_equal(waited.missed_ns, 100 * MS);
	snap_waited_deinit(&waited);
}

/* Who ran meanwhile may have done anything; and nobody knows that of who may have. */
static void test_missed_ticks_of_who_ran(void **state _unused_)
{
	static const struct snap_wake wakes[] = { { 20, 20 } };
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	bed.recording.wakes_end = WAITED_TICKS;
	miss_ticks(&bed, 20, 10);
	bed.tracks[2].wakes = wakes;
	bed.tracks[2].wake_count = 1;
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[0], "mutex ledger_lock", 2100, 1100, 3);
	assert_int_equal(waited.missed_ns, 200 * MS);
	snap_waited_deinit(&waited);

	/* In all rows, and of one that waited on the one side alone, before. */
	bed.recording.wakes_end = 20;
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[0], "mutex ledger_lock", 2000, 1000, 3);
	assert_int_equal(waited.owed.ns + waited.idle.ns, 6900 * (int64_t)MS);
	assert_int_equal(waited.missed_ns, 700 * MS);
	snap_waited_deinit(&waited);

	/* At the end nobody knows what followed. */
	waited_set_up(&bed);
	bed.recording.wakes_end = WAITED_TICKS;
	bed.recording.stats.duration_ns += 10 * (int64_t)WAITED_PERIOD;
	waited = waited_of(&bed, all);
	assert_int_equal(waited.owed.ns + waited.idle.ns, 6900 * (int64_t)MS);
	assert_int_equal(waited.missed_ns, 700 * MS);
	snap_waited_deinit(&waited);
	bed.recording.is_slice = true;
	waited = waited_of(&bed, all);
	assert_int_equal(waited.missed_ns, 0);
	snap_waited_deinit(&waited);
}

/* It could not be had, with no tick missed: what it did is as unknown. */
static void test_missed_samples(void **state _unused_)
{
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	bed.recording.wakes_end = WAITED_TICKS;
	/* 104 waits for one lock before it, and for the same behind. */
	bed.runs[9].state = SNAP_STATE_SLEEPING;
	bed.runs[9].stack = IDLES;
	bed.stacks[IDLES].unwind = SNAP_UNWIND_NOT_STOPPED;
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[2], "mutex cache_lock", 500, 300, 1);
	assert_int_equal(waited.missed_ns, 100 * MS);
	snap_waited_deinit(&waited);
}

/* Who has run between two samples waits anew, even if for the same, in the same place. */
static void test_longest(void **state _unused_)
{
	static const struct snap_wake of_102[] = { { 10, 10 }, { 40, 40 } };
	static const struct snap_wake of_103[] = { { 5, 58 }, { 60, 99 } };
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	bed.recording.wakes_end = WAITED_TICKS;
	bed.tracks[2].wakes = of_102;
	bed.tracks[2].wake_count = 2;
	bed.tracks[3].wakes = of_103;
	bed.tracks[3].wake_count = 2;
	/* 101 waits from tick 50 on. */
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[0], "mutex ledger_lock", 2000, 500, 3);
	snap_waited_deinit(&waited);
	bed.runs[3].wait = NO_WAIT;
	/* 102 from tick 10 to tick 39. */
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[0], "mutex ledger_lock", 1500, 300, 2);
	snap_waited_deinit(&waited);
	/* 103 from the first tick on, and then of each tick alone; its last wake may last. */
	bed.runs[4].wait = NO_WAIT;
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[0], "tcp -> 10.0.0.9:5432 (3 connections)", 1200, 1000, 2);
	check_row(&waited.owed.rows[1], "mutex ledger_lock", 1000, 50, 1);
	snap_waited_deinit(&waited);
	/* What is not known is joined, as far as it goes: 103 from tick 60 on. */
	bed.recording.wakes_end = 60;
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[1], "mutex ledger_lock", 1000, 420, 1);
	snap_waited_deinit(&waited);
}

/* Two threads in one function: that which had it longer is named. */
static void test_holders_of_one_function(void **state _unused_)
{
	struct snap_owner_span holds[] = {
		{ .first = 0, .last = 9, .track = 1, .tid = 101 },
		{ .first = 10, .last = 39, .track = 2, .tid = 102 },
	};
	struct waited_bed bed;
	struct snap_waited waited;
	const struct snap_waited_holder *holder;

	waited_set_up(&bed);
	bed.runs[4].stack = CHARGES;
	bed.runs[4].wait = NO_WAIT;
	bed.waits[LEDGER - 1].owners = holds;
	bed.waits[LEDGER - 1].owner_count = 2;
	waited = waited_of(&bed, all);
	holder = &waited.owed.rows[0].holders[0];
	assert_int_equal(waited.owed.rows[0].holder_count, 1);
	assert_string_equal(holder->function, "charge_order");
	assert_int_equal(holder->threads, 2);
	assert_string_equal(holder->name, "worker-2");
	assert_int_equal(holder->ns, 400 * MS);
	snap_waited_deinit(&waited);
}

/* Many processes: each has a row before one has three. */
static void test_no_process_is_starved(void **state _unused_)
{
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	waited = waited_of(&bed, (struct snap_waited_most){ .owed = 4, .idle = 9, .holders = 1 });
	assert_int_equal(waited.owed.row_count, 4);
	check_row(&waited.owed.rows[2], "mutex cache_lock", 500, 300, 1);
	check_row(&waited.owed.rows[3], "mutex helper_lock", 100, 100, 1);
	assert_int_equal(waited.owed.other_ns, 400 * MS);
	snap_waited_deinit(&waited);
}

/* Connections of a server are those of its own end. */
static void test_clients_are_one_row(void **state _unused_)
{
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	for (int i = DATABASE_1; i <= DATABASE_3; i++)
		bed.kinds[i - 1].local = "10.0.0.4:80";
	bed.kinds[DATABASE_2 - 1].remote = "10.0.0.7:40001";
	waited = waited_of(&bed, all);
	check_row(&waited.owed.rows[1], "tcp at 10.0.0.4:80 (3 connections)", 1200, 1000, 2);
	/* New ones are owed by nobody, and one alone is called as elsewhere. */
	for (int i = DATABASE_1; i <= DATABASE_3; i++)
		bed.kinds[i - 1].remote = NULL;
	bed.kinds[DATABASE_1 - 1].variant = "accept";
	bed.kinds[EVENTS - 1].kinds_watched[SNAP_DESCRIPTOR_EVENTFD] = 0;
	snap_waited_deinit(&waited);
	waited = waited_of(&bed, all);
	check_row(&waited.idle.rows[0], "epoll", 1000, 1000, 1);
	check_row(&waited.idle.rows[3], "accept on tcp 10.0.0.4:80", 500, 500, 1);
	snap_waited_deinit(&waited);
}

/* Figures of a file that nobody wrote: the row is there, the rest is not believed. */
static void test_holds_that_lie(void **state _unused_)
{
	struct snap_owner_span holds[] = {
		{ .first = 10, .last = 5, .track = 1 },
		{ .first = 20, .last = 29, .track = 1000000, .tid = 5 },
		{ .first = 0, .last = 99, .track = 2, .tid = 102 },
		{ .first = 30, .last = 4000000000, .track = SIZE_MAX, .tid = 6 },
		{ .first = 31, .last = UINT32_MAX, .track = 1, .tid = 7 },
	};
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	bed.waits[LEDGER - 1].owners = holds;
	bed.waits[LEDGER - 1].owner_count = SNAP_ARRAY_SIZE(holds);
	bed.runs[0].wait = 4000000000;
	waited = waited_of(&bed, all);
	assert_int_equal(waited.owed.rows[0].holder_count, 1);
	assert_int_equal(waited.owed.rows[0].holders[0].threads, 2);
	assert_int_equal(waited.owed.rows[0].holders[0].ns, 1600 * MS);
	assert_int_equal(waited.owed.rows[0].unknown_ns, 400 * MS);
	snap_waited_deinit(&waited);
}

/* As sure as elsewhere; and not at all where nobody asked, or nothing was looked at. */
static void test_what_is_told(void **state _unused_)
{
	struct snap_options no = { .explain = SNAP_EXPLAIN_NO },
			    guesses = { .explain = SNAP_EXPLAIN_ALL };
	struct waited_bed bed;
	struct snap_waited waited;

	waited_set_up(&bed);
	bed.kinds[LEDGER - 1].confidence = SNAP_WAIT_IS_GUESS;
	waited = waited_of(&bed, all);
	assert_int_equal(waited.owed.row_total, 4);
	snap_waited_deinit(&waited);
	assert_null(snap_waited_init(&waited, &bed.recording, &guesses, all));
	assert_int_equal(waited.owed.row_total, 5);
	snap_waited_deinit(&waited);
	assert_null(snap_waited_init(&waited, &bed.recording, &no, all));
	assert_false(snap_waited_has_rows(&waited));
	snap_waited_deinit(&waited);
	bed.recording.explains = false;
	waited = waited_of(&bed, all);
	assert_false(snap_waited_has_rows(&waited));
	snap_waited_deinit(&waited);
	bed.recording.explains = true;
	bed.recording.period_ns = 0;
	waited = waited_of(&bed, all);
	assert_false(snap_waited_has_rows(&waited));
	snap_waited_deinit(&waited);
}

/* Not inlined: gcc 12 takes the text of a memory stream for the pointer that it was stored by. */
static __attribute__((noinline)) char *
text_of(struct stacksnap_error *(*renderer)(const struct snap_recording *,
					    const struct snap_options *, FILE *),
	const struct snap_recording *recording, const struct snap_options *options)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_null(renderer(recording, options, out));
	fclose(out);
	return text;
}

static void test_text(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE,
					.utf8 = true };
	struct waited_bed bed;
	_cleanup_free_ char *report = NULL, *summary = NULL, *without = NULL;

	waited_set_up(&bed);
	report = text_of(snap_render_text_recording, &bed.recording, &options);
	golden_check("waited.txt", report);
	summary = text_of(snap_render_summary, &bed.recording, &options);
	assert_non_null(strstr(summary, "\n\n  share      time   longest  threads  time by wait\n"
					" 47.6 %    2.00 s    1.00 s        3  mutex ledger_lock"));
	/* The table is at the end of both, once. */
	assert_string_equal(strstr(summary, "time by wait"), strstr(report, "time by wait"));
	bed.recording.wait_count = 0;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bed.runs); i++)
		bed.runs[i].wait = 0;
	without = text_of(snap_render_summary, &bed.recording, &options);
	assert_null(strstr(without, "by wait"));
}

/* Texts of the target are escaped, and lines are as wide as the terminal. */
static void test_hostile_text(void **state _unused_)
{
	struct snap_options options = { .width = 80 };
	struct waited_bed bed;
	_cleanup_free_ char *text = NULL;

	waited_set_up(&bed);
	bed.kinds[LEDGER - 1].symbol = "evil\033[2J\nlock\xc3\xa9";
	bed.tracks[2].name = "worker\033[1m";
	bed.nodes[0].name = "ba\nnk";
	text = text_of(snap_render_summary, &bed.recording, &options);
	assert_non_null(strstr(text, "  mutex evil\\x1b[2J\\x0alock\\xc3\\xa9  in b...\n"));
	assert_non_null(strstr(text, "  held by 102 worker\\x1b[1m (in audit)\n"));
	for (const char *p = text; *p; p++)
		assert_true(*p == '\n' || (*p >= ' ' && *p <= '~'));
	for (const char *line = strstr(text, "time by wait\n"); line; line = strchr(line + 1, '\n'))
		assert_true(strcspn(line + 1, "\n") <= 80);
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static json_t *json_of(const struct snap_recording *recording, const struct snap_options *options)
{
	_cleanup_free_ char *text = text_of(snap_render_json_recording, recording, options);
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(root);
	return root;
}

static void test_json(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE },
			    no = { .explain = SNAP_EXPLAIN_NO };
	struct waited_bed bed;
	_cleanup_free_ char *text = NULL, *without = NULL;
	json_t *root, *rows, *holders, *waits, *wait;
	json_int_t samples = 0;
	size_t i;

	waited_set_up(&bed);
	text = text_of(snap_render_json_recording, &bed.recording, &options);
	golden_check("waited.recording", text);
	schema_check("stacksnap-recording.schema.json", text);
	root = json_of(&bed.recording, &options);
	assert_int_equal(number_of(root, "waited_ns"), 4200 * (int64_t)MS);
	assert_int_equal(number_of(root, "idle_ns"), 2700 * (int64_t)MS);
	rows = json_object_get(root, "time_by_wait");
	assert_int_equal(json_array_size(rows), 8);
	holders = json_object_get(json_array_get(rows, 0), "holders");
	assert_int_equal(number_of(json_array_get(holders, 1), "ns"), 800 * MS);
	assert_int_equal(number_of(json_array_get(rows, 0), "unknown_ns"), 200 * MS);
	/* What was waited for, with the samples of the threads. */
	waits = json_object_get(root, "waits");
	assert_int_equal(json_array_size(waits), WAITED_WAITS - 1);
	json_array_foreach(waits, i, wait)
	{
		assert_int_equal(number_of(wait, "number"), i + 1);
		samples += number_of(wait, "samples");
	}
	assert_int_equal(samples, 690);
	json_decref(root);
	without = text_of(snap_render_json_recording, &bed.recording, &no);
	assert_null(strstr(without, "wait_number"));
	assert_null(strstr(without, "ledger_lock"));
}

/* Of a thread in a group is told what it waited for at all of its samples there. */
static void test_groups(void **state _unused_)
{
	struct snap_options by_stack = { .group_by = SNAP_GROUP_STACK },
			    by_wait = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_WAIT };
	struct waited_bed bed;
	_cleanup_free_ char *together = NULL, *apart = NULL;

	waited_set_up(&bed);
	together = text_of(snap_render_text_recording, &bed.recording, &by_stack);
	/* worker-4 has waited for two locks there. */
	assert_non_null(strstr(together, "240 samples x worker-*"));
	assert_non_null(strstr(together, "waits for mutex ledger_lock  tids 101, 102, 103\n"));
	assert_null(strstr(together, "waits for mutex cache_lock"));
	apart = text_of(snap_render_text_recording, &bed.recording, &by_wait);
	assert_non_null(strstr(apart, "150 samples x worker-*"));
	assert_non_null(strstr(apart, "waits for mutex ledger_lock\n"));
	assert_non_null(strstr(apart, "waits for mutex cache_lock\n"));
	assert_non_null(strstr(apart, "waits for mutex log_lock\n"));
}

/* A document of a tick is that of a snapshot. */
static void test_ticks(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	struct waited_bed bed;
	_cleanup_free_ char *text = NULL;

	waited_set_up(&bed);
	bed.recording.tick_count = 1;
	text = text_of(snap_render_jsonl_recording, &bed.recording, &options);
	schema_check("stacksnap-snapshot.schema.json", text);
	assert_non_null(strstr(text, "\"symbol\": \"ledger_lock\""));
	assert_non_null(strstr(text, "\"symbol\": \"cache_lock\""));
	assert_null(strstr(text, "\"symbol\": \"log_lock\""));
	/* With who had it then. */
	assert_non_null(strstr(text, "\"owner\": {\"pid\": 100, \"tid\": 101, \"name\": "
				     "\"worker-1\", \"function\": \"charge_order\"}"));
	assert_non_null(strstr(text, "\"owner\": {\"tid\": 999}"));
}

/* How many threads of a tick have a wait. */
static size_t count_waits(const struct snap_snapshot *snapshot)
{
	size_t count = 0;

	for (size_t i = 0; i < snapshot->root_count; i++)
		for (size_t k = 0; k < snapshot->processes[i]->stack_count; k++) {
			const struct snap_stack *stack = &snapshot->processes[i]->stacks[k];

			for (size_t n = 0; n < stack->thread_count; n++)
				count += stack->threads[n].wait != NULL;
		}
	return count;
}

/* Texts of a target do not fill a disk: waits are left out of ticks, and that is said once. */
static void test_limit_of_ticks(void **state _unused_)
{
	enum { LONG = 1 << 20 };
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	_cleanup_free_ char *name = malloc(LONG + 1);
	struct waited_bed bed;
	struct snap_instants instants;
	const struct snap_snapshot *snapshot;

	assert_non_null(name);
	memset(name, 'x', LONG);
	name[LONG] = '\0';
	waited_set_up(&bed);
	assert_null(snap_instants_init(&instants, &bed.recording, &options));
	snapshot = snap_instants_at(&instants, 0);
	assert_int_equal(count_waits(snapshot), 7);
	assert_int_equal(snapshot->warning_count, 0);
	bed.kinds[LEDGER - 1].symbol = name;
	instants.wait_bytes = 0;
	snapshot = snap_instants_at(&instants, 1);
	assert_int_equal(count_waits(snapshot), 5);
	assert_int_equal(snapshot->warning_count, 1);
	assert_non_null(strstr(snapshot->warnings[0].message, "waits are left out"));
	snapshot = snap_instants_at(&instants, 2);
	assert_int_equal(count_waits(snapshot), 5);
	assert_int_equal(snapshot->warning_count, 0);
	snap_instants_deinit(&instants);
}

/* What is left out of the list has no number. */
static void test_limit_of_list(void **state _unused_)
{
	enum { LONG = 5 << 20 };
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	_cleanup_free_ char *name = malloc(LONG + 1);
	struct waited_bed bed;
	json_t *root, *rows;

	assert_non_null(name);
	memset(name, 'x', LONG);
	name[LONG] = '\0';
	waited_set_up(&bed);
	bed.kinds[CACHE - 1].symbol = name;
	root = json_of(&bed.recording, &options);
	assert_int_equal(json_array_size(json_object_get(root, "waits")), 9);
	assert_int_equal(number_of(root, "wait_count"), 10);
	rows = json_object_get(root, "time_by_wait");
	assert_int_equal(number_of(json_array_get(rows, 0), "wait_number"), 1);
	assert_null(json_object_get(json_array_get(rows, 2), "wait_number"));
	json_decref(root);
}

/* With --group-by wait what is waited for is a frame. */
static void test_folded(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK },
			    by_wait = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_WAIT };
	struct waited_bed bed;
	_cleanup_free_ char *plain = NULL, *text = NULL;

	waited_set_up(&bed);
	bed.kinds[CACHE - 1].symbol = "a;b\n";
	plain = text_of(snap_render_folded, &bed.recording, &options);
	assert_null(strstr(plain, "wait="));
	assert_non_null(strstr(plain, "bank[100];worker-4;lock_ledger;__lll_lock_wait 90\n"));
	text = text_of(snap_render_folded, &bed.recording, &by_wait);
	assert_non_null(strstr(text, "bank[100];worker-4;wait=mutex a\\x3bb\\x0a;"
				     "lock_ledger;__lll_lock_wait 50\n"));
	assert_non_null(strstr(text, "bank[100];worker-4;wait=mutex log_lock;"
				     "lock_ledger;__lll_lock_wait 40\n"));
	assert_non_null(strstr(text, "bank[100];worker-2;audit 50\n"));
	/* What has no name has no frame. */
	assert_non_null(strstr(text, "bank[100];query-2;__lll_lock_wait 80\n"));
}

static size_t frame_named(const json_t *root, const char *name)
{
	json_t *frame;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(root, "shared"), "frames"), i, frame)
	{
		if (strcmp(json_string_value(json_object_get(frame, "name")), name) == 0)
			return i;
	}
	return SIZE_MAX;
}

/* The sum of the weights of samples of a profile in which a frame is at a depth. */
static json_int_t weight_of(const json_t *profile, size_t frame, size_t depth)
{
	json_int_t sum = 0;
	json_t *sample;
	size_t i;

	json_array_foreach(json_object_get(profile, "samples"), i, sample)
	{
		const json_t *weights = json_object_get(profile, "weights");

		if (json_array_size(sample) > depth &&
		    (size_t)json_integer_value(json_array_get(sample, depth)) == frame)
			sum += json_integer_value(json_array_get(weights, i));
	}
	return sum;
}

static void test_speedscope(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK | SNAP_GROUP_WAIT,
					.state_frames = SNAP_STATE_FRAMES_NO };
	struct waited_bed bed;
	_cleanup_free_ char *text = NULL;
	json_t *root, *profiles, *profile;
	size_t ledger, log, i;
	json_int_t in_threads = 0;

	waited_set_up(&bed);
	text = text_of(snap_render_speedscope, &bed.recording, &options);
	root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	ledger = frame_named(root, "wait=mutex ledger_lock");
	log = frame_named(root, "wait=mutex log_lock");
	profiles = json_object_get(root, "profiles");
	/* Of all threads behind the process, of the process and of its threads in front. */
	assert_int_equal(weight_of(json_array_get(profiles, 0), ledger, 1), 2000 * (int64_t)MS);
	assert_int_equal(weight_of(json_array_get(profiles, 1), ledger, 0), 2000 * (int64_t)MS);
	assert_int_equal(weight_of(json_array_get(profiles, 0), log, 1), 400 * MS);
	for (i = 3; i < json_array_size(profiles); i++)
		in_threads += weight_of(json_array_get(profiles, i), ledger, 0);
	assert_int_equal(in_threads, 2000 * (int64_t)MS);
	profile = json_array_get(profiles, 0);
	assert_int_equal(number_of(profile, "endValue"), 8000 * (int64_t)MS);
	json_decref(root);
	free(text);
	options.group_by = SNAP_GROUP_STACK;
	text = text_of(snap_render_speedscope, &bed.recording, &options);
	assert_null(strstr(text, "wait="));
}

/* An element of an array whose members are so; NULL: there is none. */
static json_t *event_of(const json_t *events, json_int_t tid, json_int_t ts)
{
	json_t *event;
	size_t i;

	json_array_foreach(events, i, event)
	{
		const char *name = json_string_value(json_object_get(event, "name"));

		if (strcmp(name, "wait") == 0 && number_of(event, "tid") == tid &&
		    number_of(event, "ts") == ts)
			return json_object_get(event, "args");
	}
	return NULL;
}

static void check_text(const json_t *object, const char *key, const char *wanted)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (wanted) {
		assert_non_null(text);
		assert_string_equal(text, wanted);
	} else {
		assert_null(text);
	}
}

/* An instant for each change of the object or of who has it, and for none else. */
static void test_chrome(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK },
			    no = { .explain = SNAP_EXPLAIN_NO };
	struct waited_bed bed;
	_cleanup_free_ char *text = NULL, *without = NULL;
	json_t *root, *events, *event;
	size_t i, count = 0;

	waited_set_up(&bed);
	text = text_of(snap_render_chrome, &bed.recording, &options);
	root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	events = json_object_get(root, "traceEvents");
	json_array_foreach(events, i, event) count +=
		strcmp(json_string_value(json_object_get(event, "name")), "wait") == 0;
	/* 101: 1, 102: 2, 103: 3 though it is in another stack, 104: 3, queries: 3, helper: 1. */
	assert_int_equal(count, 13);
	check_text(event_of(events, 103, 0), "object", "mutex ledger_lock");
	check_text(event_of(events, 103, 0), "holder", "charge_order");
	check_text(event_of(events, 103, 0), "name", "worker-1");
	check_text(event_of(events, 103, 400000), "holder", NULL);
	check_text(event_of(events, 103, 500000), "holder", "audit");
	assert_int_equal(number_of(event_of(events, 103, 500000), "held_by"), 102);
	check_text(event_of(events, 105, 500000), "object", "tcp 10.0.0.4:51235 -> 10.0.0.9:5432");
	json_decref(root);
	without = text_of(snap_render_chrome, &bed.recording, &no);
	assert_null(strstr(without, "\"wait\""));
}

/* A marker from when to when it waited for what another thread had in one function. */
static void test_firefox(void **state _unused_)
{
	struct snap_options options = { .group_by = SNAP_GROUP_STACK };
	struct waited_bed bed;
	_cleanup_free_ char *text = NULL;
	json_t *root, *markers, *data, *mark;
	size_t i, count = 0;

	waited_set_up(&bed);
	/* Ticks were missed while it waited. */
	for (i = 20; i < WAITED_TICKS; i++)
		bed.ticks[i].time_ns += 10 * (int64_t)WAITED_PERIOD;
	text = text_of(snap_render_firefox, &bed.recording, &options);
	root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	/* The fourth thread. */
	markers = json_object_get(json_array_get(json_object_get(root, "threads"), 3), "markers");
	data = json_object_get(markers, "data");
	assert_int_equal(json_array_size(data), number_of(markers, "length"));
	json_array_foreach(data, i, mark)
	{
		const json_t *begins = json_object_get(markers, "startTime"),
			     *ends = json_object_get(markers, "endTime");
		static const double times[][2] = {
			{ 0, 200 }, { 300, 500 }, { 500, 600 }, { 600, 1100 }
		};

		if (strcmp(json_string_value(json_object_get(mark, "type")), "Wait") != 0)
			continue;
		assert_true(count < 4);
		assert_float_equal(json_number_value(json_array_get(begins, i)), times[count][0],
				   0.01);
		assert_float_equal(json_number_value(json_array_get(ends, i)), times[count][1],
				   0.01);
		check_text(mark, "object", "mutex ledger_lock");
		check_text(mark, "holder",
			   count < 2    ? "charge_order"
			   : count == 2 ? NULL
					: "audit");
		check_text(mark, "by",
			   count < 2    ? "101 worker-1"
			   : count == 2 ? NULL
					: "102 worker-2");
		count++;
	}
	assert_int_equal(count, 4);
	json_decref(root);
}

/* ---- deadlocks ---- */

/*
 * From tick 60 on 102 waits for a lock of 101, which waits for one of 102 from tick 50 on; 103 waits behind
 * them.
 */
struct circle_bed {
	struct waited_bed bed;
	struct snap_owner_span span;
};

static void circle_set_up(struct circle_bed *circle)
{
	struct waited_bed *bed = &circle->bed;
	struct snap_run *last;

	waited_set_up(bed);
	last = &bed->tracks[2].runs[1];
	bed->recording.wakes_end = WAITED_TICKS;
	last->first = 60;
	last->stack = LOCKS;
	last->state = SNAP_STATE_SLEEPING;
	last->wait = CACHE;
	circle->span = (struct snap_owner_span){ .first = 40, .last = 99, .track = 1, .tid = 101 };
	bed->waits[CACHE - 1].owners = &circle->span;
}

static struct snap_circles circles_of(const struct circle_bed *circle)
{
	struct snap_options options = { .utf8 = true };
	struct snap_circles circles;

	assert_null(snap_circles_init(&circles, &circle->bed.recording, &options));
	return circles;
}

static size_t count_circles(const struct circle_bed *circle)
{
	struct snap_circles circles = circles_of(circle);
	size_t count = circles.waits.deadlock_total;

	assert_int_equal(count, circles.waits.deadlock_count);
	snap_circles_deinit(&circles);
	return count;
}

static void test_deadlock(void **state _unused_)
{
	struct circle_bed circle;
	struct snap_circles circles;
	const struct snap_deadlock *found;
	_cleanup_free_ char *line = NULL;

	circle_set_up(&circle);
	circles = circles_of(&circle);
	assert_int_equal(circles.waits.deadlock_count, 1);
	found = circles.waits.deadlocks;
	assert_true(snap_deadlock_is_real(found));
	assert_int_equal(found->size, 2);
	assert_int_equal(found->thread_count, 2);
	assert_int_equal(found->behind, 1);
	assert_int_equal(found->threads[0].tid, 101);
	assert_string_equal(found->threads[0].function, "lock_ledger");
	assert_int_equal(found->threads[1].wait->owner.tid, 101);
	line = snap_circle_line(found);
	assert_string_equal(line, "DEADLOCK  2 threads, 1 more waits behind them: "
				  "101 worker-1 waits for mutex ledger_lock, held by 102 worker-2; "
				  "102 worker-2 waits for mutex cache_lock, held by 101 worker-1");
	snap_circles_deinit(&circles);
}

/* It stands in two looks, in which no thread of it has run, and to the end of what is known. */
static void test_what_is_no_deadlock(void **state _unused_)
{
	struct circle_bed circle;
	struct snap_wake wake = { 99, 99 };
	struct snap_circles circles;

	circle_set_up(&circle);
	circle.span.first = 98;
	assert_int_equal(count_circles(&circle), 1);
	circle.span.first = 99;
	assert_int_equal(count_circles(&circle), 0);
	circle_set_up(&circle);
	circle.bed.tracks[1].wakes = &wake;
	circle.bed.tracks[1].wake_count = 1;
	assert_int_equal(count_circles(&circle), 0);
	circle_set_up(&circle);
	circle.bed.tracks[2].runs[1].last = 97;
	assert_int_equal(count_circles(&circle), 0);
	circle_set_up(&circle);
	circle.bed.kinds[LEDGER - 1].timed = true;
	circles = circles_of(&circle);
	assert_int_equal(circles.waits.deadlock_count, 1);
	assert_true(circles.waits.deadlocks[0].timed);
	snap_circles_deinit(&circles);
	/* Whether they have run is not known. */
	circle_set_up(&circle);
	circle.bed.recording.wakes_end = 0;
	circles = circles_of(&circle);
	assert_int_equal(circles.waits.deadlock_count, 1);
	assert_false(circles.waits.deadlocks[0].certain);
	snap_circles_deinit(&circles);
}

/* In the words of a snapshot, above the times. */
static void test_deadlock_in_the_summary(void **state _unused_)
{
	struct circle_bed circle;
	struct snap_options options = { .utf8 = true };
	_cleanup_free_ char *text = NULL;
	const char *deadlock, *times;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	circle_set_up(&circle);
	assert_null(snap_render_summary(&circle.bed.recording, &options, out));
	fclose(out);
	deadlock = strstr(text, "\nDEADLOCK  2 threads, 1 more waits behind them\n"
				"  bank[100] 101 worker-1   waits for mutex ledger_lock   "
				"held by 102 worker-2   lock_ledger   ledger.c:40\n"
				"  bank[100] 102 worker-2   waits for mutex cache_lock    "
				"held by 101 worker-1   lock_ledger   ledger.c:40\n");
	times = strstr(text, "time by wait");
	assert_true(deadlock && times && deadlock < times);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_holders),
		cmocka_unit_test(test_few_holders),
		cmocka_unit_test(test_missed_ticks),
		cmocka_unit_test(test_missed_ticks_of_who_ran),
		cmocka_unit_test(test_missed_samples),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_holders_of_one_function),
		cmocka_unit_test(test_no_process_is_starved),
		cmocka_unit_test(test_clients_are_one_row),
		cmocka_unit_test(test_holds_that_lie),
		cmocka_unit_test(test_what_is_told),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_ticks),
		cmocka_unit_test(test_limit_of_ticks),
		cmocka_unit_test(test_limit_of_list),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_speedscope),
		cmocka_unit_test(test_chrome),
		cmocka_unit_test(test_firefox),
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_what_is_no_deadlock),
		cmocka_unit_test(test_deadlock_in_the_summary),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
