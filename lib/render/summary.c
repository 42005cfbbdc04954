/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a recording amounts to: see summary.h.
 *
 * Functions are ranked by where threads stood, state by state. A function of the C library or of an
 * interpreter says little alone, so the program's own that it works for stands in front.
 */
#include "render/summary.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "render/view/elide.h"
#include "render/view/figures.h"
#include "render/view/own.h"
#include "render/view/profile.h"
#include "render/wait/table.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_ROWS = 10, LEFT_COLUMNS = 20, NARROWEST_NAME = 20 };

/* Samples of one function in one state: "loop", "loop (in epoll_wait)". */
struct row {
	const char *name; /* interned */
	const char *leaf; /* the same; NULL: the function is the innermost one */
	enum snap_state state;
	uint64_t samples;
};

struct summary {
	const struct snap_options *options;
	struct snap_profile profile;
	struct snap_interner names; /* in the profile's arena */
	struct row *rows;
	size_t row_count;
	uint64_t samples; /* of this slice */
	uint64_t states[SNAP_STATE_COUNT];
};

static void summary_deinit(struct summary *summary)
{
	snap_interner_deinit(&summary->names);
	snap_profile_deinit(&summary->profile);
	free(summary->rows);
}

static const char *intern_name(struct summary *summary, const char *text)
{
	return text ? snap_intern(&summary->names, text, strlen(text)) : NULL;
}

/* The line for frames that were left out has no entry. */
static const char *leaf_name(struct summary *summary, const struct snap_line *line)
{
	if (!line->entry)
		return line->name;
	return snap_profile_brief_name(&summary->profile, line->frame,
				       (size_t)(line->entry - line->frame->entries));
}

/*
 * The line of the function that the others inside of it work for; 0: there is none, or frames were
 * left out before it. Lines are counted from 1.
 */
static size_t own_line(const struct snap_recorded_stack *stack, const struct snap_lines_of *lines)
{
	size_t entry, at = lines->count;
	const struct snap_frame *own = snap_own_frame(stack->frames, stack->frame_count, &entry);

	while (own && at > 0 && lines->lines[at - 1].entry) {
		if (lines->lines[at - 1].entry == &own->entries[entry])
			return at;
		at--;
	}
	return 0;
}

/* False without memory. */
static bool find_summary_function(struct summary *summary, size_t number, struct row *row)
{
	const struct snap_lines_of *lines = snap_profile_stack(&summary->profile, number);
	size_t at;

	if (!lines)
		return false;
	row->name = intern_name(summary, leaf_name(summary, &lines->lines[lines->count - 1]));
	row->leaf = NULL;
	at = own_line(&summary->profile.recording->stacks[number], lines);
	if (at == lines->count || at == 0)
		return row->name;
	row->leaf = row->name;
	row->name = intern_name(summary, lines->lines[at - 1].name);
	return row->leaf && row->name;
}

SNAP_ORDER(by_name, struct row, a, b, snap_compare(a->state, b->state),
	   snap_compare(a->name, b->name), snap_compare(a->leaf, b->leaf));

/* What a reader asks about first: running threads, threads in disk wait, sleeping threads. */
static int state_rank(enum snap_state state)
{
	switch (state) {
	case SNAP_STATE_RUNNING:
		return 0;
	case SNAP_STATE_DISK:
		return 1;
	case SNAP_STATE_SLEEPING:
		return 2;
	default:
		return 3 + (int)state;
	}
}

SNAP_ORDER(by_samples, struct row, a, b, state_rank(a->state) - state_rank(b->state),
	   snap_compare(b->samples, a->samples), strcmp(a->name, b->name),
	   strcmp(a->leaf ? a->leaf : "", b->leaf ? b->leaf : ""));

/* Rows of the same name and state become one. */
static void merge_rows(struct summary *summary)
{
	size_t count = 0;

	qsort(summary->rows, summary->row_count, sizeof(*summary->rows), by_name);
	for (size_t i = 0; i < summary->row_count; i++) {
		if (count && by_name(&summary->rows[count - 1], &summary->rows[i]) == 0)
			summary->rows[count - 1].samples += summary->rows[i].samples;
		else
			summary->rows[count++] = summary->rows[i];
	}
	summary->row_count = count;
	qsort(summary->rows, count, sizeof(*summary->rows), by_samples);
}

/* Samples by stack and state. */
static uint64_t *count_summary_samples(struct summary *summary,
				       const struct snap_recording *recording)
{
	uint64_t *counts = calloc(recording->stack_count + 1, SNAP_STATE_COUNT * sizeof(*counts));

	for (size_t i = 0; counts && i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_run *run = &track->runs[k];
			uint64_t samples = snap_run_samples(run);

			counts[run->stack * (size_t)SNAP_STATE_COUNT + run->state] += samples;
			summary->states[run->state] += samples;
			summary->samples += samples;
		}
	}
	return counts;
}

static struct stacksnap_error *rank_functions(struct summary *summary,
					      const struct snap_recording *recording)
{
	_cleanup_free_ uint64_t *counts = count_summary_samples(summary, recording);
	size_t capacity = 0;

	SNAP_TRY(snap_no_memory_unless(counts));
	for (size_t i = 0; i < recording->stack_count; i++) {
		const uint64_t *of = &counts[i * SNAP_STATE_COUNT];
		struct row row = { .name = NULL };

		for (int state = 0; state < SNAP_STATE_COUNT; state++) {
			if (!of[state])
				continue;
			if ((!row.name && !find_summary_function(summary, i, &row)) ||
			    !snap_reserve_array(summary->rows, capacity, summary->row_count + 1))
				return snap_error_no_memory();
			row.state = (enum snap_state)state;
			row.samples = of[state];
			summary->rows[summary->row_count++] = row;
		}
	}
	if (summary->row_count)
		merge_rows(summary);
	return NULL;
}

static double percent_of(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/*
 * "loop (in epoll_wait)", malloc'ed. Bytes that a terminal without UTF-8 cannot show stand as \xNN;
 * the rest is escaped already.
 */
static char *text_of(const struct summary *summary, const struct row *row)
{
	_cleanup_free_ char *text = NULL;
	char *ascii, *out;

	if (asprintf(&text, "%s%s%s%s", row->name, row->leaf ? " (in " : "",
		     row->leaf ? row->leaf : "", row->leaf ? ")" : "") < 0)
		return NULL;
	if (summary->options->utf8)
		return snap_take_ptr(text);
	out = ascii = malloc(4 * strlen(text) + 1);
	if (!ascii)
		return NULL;
	for (const unsigned char *in = (const unsigned char *)text; *in; in++)
		out += sprintf(out, *in > 0x7e ? "\\x%02x" : "%c", *in);
	*out = '\0';
	return ascii;
}

static struct stacksnap_error *print_rows(struct summary *summary, FILE *out)
{
	const char *dots = summary->options->utf8 ? "\u2026" : "...";
	unsigned width = summary->options->full_names ? 0 : summary->options->width, in_state = 0;

	if (summary->row_count)
		fprintf(out, "\n  share  state     function\n");
	for (size_t i = 0; i < summary->row_count; i++) {
		const struct row *row = &summary->rows[i];
		_cleanup_free_ char *name = NULL;

		in_state = i && row->state == row[-1].state ? in_state + 1 : 0;
		if (in_state >= MOST_ROWS)
			continue;
		name = text_of(summary, row);
		SNAP_TRY(snap_no_memory_unless(name));
		if (width)
			snap_elide_name(name,
					width > LEFT_COLUMNS + NARROWEST_NAME ? width - LEFT_COLUMNS
									      : NARROWEST_NAME,
					dots);
		fprintf(out, "%5.1f %%  %-9s %s\n", percent_of(row->samples, summary->samples),
			snap_state_word(row->state), name);
	}
	return NULL;
}

static const char *why_it_ended(enum snap_recording_end end)
{
	switch (end) {
	case SNAP_END_TIME:
	case SNAP_END_ASKED:
	case SNAP_END_COUNT:
		break;
	case SNAP_END_CONDITION:
		return "the condition was met";
	case SNAP_END_TARGETS:
		return "all targets have exited";
	case SNAP_END_PERMISSION:
		return "reading the targets is no longer permitted";
	case SNAP_END_UNFINISHED:
		return "the recording is unfinished: stacksnap is still writing it or was killed";
	case SNAP_END_FAILED:
		return "the recording failed";
	}
	return NULL;
}

static void print_count(uint64_t count, const char *noun, const char *end, FILE *out)
{
	fprintf(out, "%" PRIu64 " %s%s%s", count, noun, count == 1 ? "" : "s", end);
}

/* "10 missed", and why: "(7 as no processor was free, 3 as a look took too long)". */
static void print_missed(const struct snap_recording_stats *stats, FILE *out)
{
	uint64_t reported = stats->ticks_late + stats->ticks_left_out;
	const struct {
		uint64_t ticks;
		const char *why;
	} reasons[] = {
		{ stats->ticks_late, "as no processor was free" },
		{ stats->ticks_missed > reported ? stats->ticks_missed - reported : 0,
		  "as the look before took too long" },
		{ stats->ticks_left_out, "to keep within the memory" },
	};
	const char *before = " (";

	fprintf(out, "%" PRIu64 " missed", stats->ticks_missed);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].ticks == 0)
			continue;
		fprintf(out, "%s%" PRIu64 " %s", before, reasons[i].ticks, reasons[i].why);
		before = ", ";
	}
	fprintf(out, "%s\n", stats->ticks_missed ? ")" : "");
}

static void print_figures(const struct summary *summary, const struct snap_recording *recording,
			  FILE *out)
{
	const struct snap_recording_stats *stats = &recording->stats;
	const char *why = why_it_ended(recording->end);
	char first[SNAP_WHEN_SIZE], second[SNAP_WHEN_SIZE], third[SNAP_WHEN_SIZE];

	if (recording->period_ns == 0) {
		fprintf(out, "a snapshot: ");
		print_count(stats->threads, "thread", ", ", out);
		print_count(stats->stacks, "stack", "; ", out);
		fprintf(out, "stopped for %s\n",
			snap_figure_text(stats, SNAP_FIGURE_STOPPED, first));
		return;
	}
	fprintf(out, "%s at %s (%s asked): ", snap_figure_text(stats, SNAP_FIGURE_DURATION, first),
		snap_figure_text(stats, SNAP_FIGURE_HZ_REACHED, second),
		snap_figure_text(stats, SNAP_FIGURE_HZ_ASKED, third));
	print_count(stats->ticks, "tick", ", ", out);
	print_missed(stats, out);
	fprintf(out, "stopped %s of the time (%s)",
		snap_figure_text(stats, SNAP_FIGURE_STOPPED_PERCENT, first),
		snap_figure_text(stats, SNAP_FIGURE_STOPPED, second));
	if (stats->left_out && summary->options->verbose)
		fprintf(out, ", %" PRIu64 " sample%s left out to keep within --max-stopped",
			stats->left_out, stats->left_out == 1 ? "" : "s");
	fputc('\n', out);
	print_count(stats->threads, "thread", ", ", out);
	print_count(stats->thread_samples, "sample", ", ", out);
	/* A stack that was seen in two states is two below. */
	print_count(stats->stacks, "distinct stack", "\n", out);
	if (summary->options->verbose)
		fprintf(out,
			"of the samples %.1f %% are of threads that had not run, "
			"%.1f %% were read without a stop, %.1f %% were stopped for it\n",
			percent_of(stats->kept, stats->thread_samples),
			percent_of(stats->unstopped, stats->thread_samples),
			percent_of(stats->alone, stats->thread_samples));
	if (recording->is_slice) {
		snap_when_length(recording->duration_ns, first);
		fprintf(out, "shown: %s, ", first);
		print_count(summary->samples, "sample", "\n", out);
	}
	if (why)
		fprintf(out, "%s\n", why);
}

struct stacksnap_error *snap_render_figures(const struct snap_recording *recording,
					    const struct snap_options *options, FILE *out)
{
	_cleanup_(summary_deinit) struct summary summary = { .options = options };

	SNAP_TRY(snap_profile_init(&summary.profile, recording));
	snap_profile_shorten_names(&summary.profile, options);
	snap_interner_init(&summary.names, &summary.profile.arena);
	SNAP_TRY(rank_functions(&summary, recording));
	print_figures(&summary, recording, out);
	return print_rows(&summary, out);
}

struct stacksnap_error *snap_render_summary(const struct snap_recording *recording,
					    const struct snap_options *options, FILE *out)
{
	_cleanup_(snap_sheet_deinit) struct snap_sheet lines;
	struct stacksnap_error *err = snap_render_figures(recording, options, out);

	snap_sheet_init(&lines, options, out);
	/* Whatever the report that stands elsewhere has. */
	lines.color = false;
	return err ? err : snap_waited_put_table(&lines, options, recording);
}

struct stacksnap_error *snap_render_stats(const struct snap_recording *recording, FILE *out)
{
	_cleanup_(snap_json_writer_destroyp) struct snap_json_writer *json =
		snap_json_writer_create(out, SNAP_JSON_COMPACT);

	SNAP_TRY(snap_no_memory_unless(json));
	snap_json_begin(json, NULL, '{');
	snap_figures_put(json, recording);
	snap_json_end(json, '}');
	snap_json_end_document(json);
	snap_json_flush(json);
	return NULL;
}
