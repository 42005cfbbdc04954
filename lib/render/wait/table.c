/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See table.h. A line has its figures on the left, and what was waited for, which may be long, on
 * the right; the line below names the holder.
 */
#include "render/wait/table.h"

#include "base/text.h"
#include "render/text/top.h"
#include "render/view/elide.h"
#include "render/view/when.h"
#include "render/wait/circles.h"
#include "render/wait/waited.h"

#include <string.h>

enum {
	FIGURES = 38, /* columns of the figures of a row */
	LENGTH = 9,   /* columns of a time */
};

static const struct snap_waited_most usual = { .owed = 12, .idle = 5, .holders = 4 },
				     many = { .owed = 200, .idle = 50, .holders = 20 };

struct table {
	struct snap_sheet *lines;
	const struct snap_recording *recording;
	struct snap_waited waited;
	bool tells_process;
};

static void table_deinit(struct table *table)
{
	snap_waited_deinit(&table->waited);
}

static const char *length_text(int64_t ns, char out[SNAP_WHEN_SIZE])
{
	snap_when_length(ns, out);
	return out;
}

/* The end of a line: `text`, malloc'ed, raw, cut to the width; NULL without memory. */
static void end_line(struct snap_sheet *lines, enum snap_style style, char *text)
{
	char *escaped = snap_sheet_escape(lines, text ? text : "");
	size_t room = lines->width > lines->columns ? lines->width - lines->columns : lines->width;

	lines->failed = lines->failed || !text;
	if (lines->width)
		snap_elide_end(escaped, room, lines->signs->dots);
	snap_line_add(lines, style, escaped);
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
	free(text);
}

/* malloc'ed; NULL without memory. */
static char *table_row_text(const struct table *table, const struct snap_waited_row *row)
{
	const struct snap_node *node = table->recording->processes[row->process].node;
	char *text;

	if (!table->tells_process)
		return strdup(row->text);
	return asprintf(&text, "%s  in %s[%d]", row->text, node->name ? node->name : "?",
			node->pid) < 0
		       ? NULL
		       : text;
}

static void put_waited_figures(struct snap_sheet *lines, const char *share,
			       const struct snap_waited_row *row)
{
	char all[SNAP_WHEN_SIZE], longest[SNAP_WHEN_SIZE];

	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "%7s %*s %*s %8zu  ", share, LENGTH,
			 length_text(row->ns, all), LENGTH, length_text(row->longest_ns, longest),
			 row->threads);
}

/* Its time stands below that of its row. */
static void begin_holder(struct snap_sheet *lines, int64_t ns)
{
	char length[SNAP_WHEN_SIZE];

	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "%7s %*s", "", LENGTH, length_text(ns, length));
	snap_line_pad(lines, FIGURES + 3);
}

static const char *why_lost(enum snap_owner_lack lack)
{
	switch (lack) {
	case SNAP_OWNER_EXITED:
		return ", which has exited: no thread can release it";
	case SNAP_OWNER_AT_FORK:
		return " of the parent when this process was forked: no thread can release it";
	case SNAP_OWNER_DIED:
		return ", which died";
	default:
		return "";
	}
}

static const char *word_before_holder(enum snap_wait_kind kind)
{
	if (kind == SNAP_WAIT_THREAD)
		return "for the end of";
	return kind == SNAP_WAIT_ONCE ? "run by" : "held by";
}

char *snap_waited_holder_text(const struct snap_waited_row *row,
			      const struct snap_waited_holder *holder)
{
	char threads[64] = "", *text;

	if (holder->threads > 1)
		snprintf(threads, sizeof(threads), "%zu threads, most of it ", holder->threads);
	if (asprintf(&text, "%s %s%d%s%s%s%s%s%s", word_before_holder(row->wait->kind), threads,
		     holder->tid, holder->name ? " " : "", holder->name ? holder->name : "",
		     holder->function ? " (in " : "", holder->function ? holder->function : "",
		     holder->function ? ")" : "", why_lost(holder->lack)) < 0)
		return NULL;
	return text;
}

static void put_holders(struct snap_sheet *lines, const struct snap_waited_row *row)
{
	char *text = NULL;

	for (size_t i = 0; i < row->holder_count; i++) {
		begin_holder(lines, row->holders[i].ns);
		end_line(lines, SNAP_STYLE_PLAIN, snap_waited_holder_text(row, &row->holders[i]));
	}
	if (row->holder_total > row->holder_count) {
		begin_holder(lines, row->other_ns);
		if (asprintf(&text, "held in %zu other function%s",
			     row->holder_total - row->holder_count,
			     snap_plural(row->holder_total - row->holder_count)) < 0)
			text = NULL;
		end_line(lines, SNAP_STYLE_DIM, text);
	}
	if (row->keeps_owner && row->unknown_ns) {
		begin_holder(lines, row->unknown_ns);
		end_line(lines, SNAP_STYLE_DIM, strdup("the holder is not known"));
	}
}

static void put_others(struct snap_sheet *lines, const struct snap_waited_part *part)
{
	char length[SNAP_WHEN_SIZE];

	if (part->row_total == part->row_count)
		return;
	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "%7s %*s", "", LENGTH,
			 length_text(part->other_ns, length));
	snap_line_pad(lines, FIGURES + 1);
	snap_line_printf(lines, SNAP_STYLE_DIM, "%zu other%s (-v)",
			 part->row_total - part->row_count,
			 snap_plural(part->row_total - part->row_count));
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

static void put_waited_rows(struct table *table, const struct snap_waited_part *part)
{
	for (size_t i = 0; i < part->row_count && !table->lines->failed; i++) {
		const struct snap_waited_row *row = &part->rows[i];
		bool frozen = row->wait->kind == SNAP_WAIT_FROZEN;
		char share[16];

		snprintf(share, sizeof(share), "%s", frozen ? "frozen" : "idle");
		if (!frozen && row->owed && part->ns)
			snprintf(share, sizeof(share), "%.1f %%",
				 100.0 * (double)row->ns / (double)part->ns);
		put_waited_figures(table->lines, share, row);
		end_line(table->lines, SNAP_STYLE_CYAN, table_row_text(table, row));
		put_holders(table->lines, row);
	}
	put_others(table->lines, part);
}

/* Whether rows are of several processes. */
static bool has_processes(const struct snap_waited *waited)
{
	const struct snap_waited_row *first =
		waited->owed.row_count ? waited->owed.rows : waited->idle.rows;

	return snap_any(waited->owed.row_count, i,
			waited->owed.rows[i].process != first->process) ||
	       snap_any(waited->idle.row_count, i, waited->idle.rows[i].process != first->process);
}

/* Below the times of all rows. */
static void put_missed(struct snap_sheet *lines, int64_t ns)
{
	char length[SNAP_WHEN_SIZE];

	if (!ns)
		return;
	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "%7s %*s", "missed", LENGTH,
			 length_text(ns, length));
	snap_line_pad(lines, FIGURES + 1);
	end_line(lines, SNAP_STYLE_DIM,
		 strdup("of threads that waited before or after: in no row, ticks were missed"));
}

/* In the words of a snapshot. */
static struct stacksnap_error *put_circles(struct snap_sheet *lines,
					   const struct snap_options *options,
					   const struct snap_recording *recording)
{
	_cleanup_(snap_circles_deinit) struct snap_circles circles;

	SNAP_TRY(snap_circles_init(&circles, recording, options));
	snap_text_deadlocks(lines, options, recording, &circles.waits);
	return NULL;
}

struct stacksnap_error *snap_waited_put_table(struct snap_sheet *lines,
					      const struct snap_options *options,
					      const struct snap_recording *recording)
{
	_cleanup_(table_deinit) struct table table = { .lines = lines, .recording = recording };
	struct stacksnap_error *err;

	SNAP_TRY(put_circles(lines, options, recording));
	err = snap_waited_init(&table.waited, recording, options, options->verbose ? many : usual);
	if (err || !snap_waited_has_rows(&table.waited))
		return err;
	table.tells_process = has_processes(&table.waited);
	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "%7s %*s %*s %8s  ", "share", LENGTH, "time",
			 LENGTH, "longest", "threads");
	snap_line_add(lines, SNAP_STYLE_PLAIN, "time by wait");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
	put_waited_rows(&table, &table.waited.owed);
	put_waited_rows(&table, &table.waited.idle);
	put_missed(lines, table.waited.missed_ns);
	return snap_no_memory_unless(!lines->failed);
}
