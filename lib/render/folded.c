/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Folded stacks: "process;thread;outermost;…;innermost COUNT", one line a stack, for flamegraph.pl,
 * inferno, grep and awk.
 *
 * The count is of samples in a recording, of threads in a snapshot. The last space of a line parts
 * it; names keep their spaces, and ';' and what no line may hold is escaped. Suffixes as
 * flamegraph.pl colours them: _[k] kernel, _[i] inlined, _[j] without a file. States have no place
 * in the format: the virtual frames of other formats would cut each function in pieces for readers
 * that add up by name.
 */
#include "render/render.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "render/view/pool.h"
#include "render/view/profile.h"
#include "render/view/tally.h"

#include <inttypes.h>
#include <string.h>

/* One line: numbers of texts, whose ranks are their order. */
struct folded_line {
	size_t owner, stack;
	uint64_t count;
};

struct folded {
	const struct snap_recording *recording;
	unsigned group_by;
	struct snap_profile profile;
	struct snap_tally tally;
	/* "process;thread;", with --group-by wait what it waits for, and "outermost;…;innermost" */
	struct snap_pool owners, stacks;
	size_t *stack_texts;     /* of each stack of the recording; SIZE_MAX: not made */
	struct snap_buffer text; /* being made */
};

static void folded_deinit(struct folded *folded)
{
	snap_profile_deinit(&folded->profile);
	snap_tally_deinit(&folded->tally);
	snap_pool_deinit(&folded->owners);
	snap_pool_deinit(&folded->stacks);
	free(folded->stack_texts);
	snap_buffer_deinit(&folded->text);
}

/*
 * A name that is escaped already but for the separator, which gets what snap_escape() would have
 * given it.
 */
static void add_name(struct snap_buffer *text, const char *name)
{
	const char *separator;

	while ((separator = strchr(name, ';'))) {
		snap_buffer_add(text, name, (size_t)(separator - name));
		snap_buffer_add_text(text, "\\x3b");
		name = separator + 1;
	}
	snap_buffer_add_text(text, name);
}

static const char *suffix(const struct snap_line *line)
{
	if (!line->entry)
		return "";
	if (line->entry->kernel)
		return "_[k]";
	if (line->entry->inlined)
		return "_[i]";
	return line->frame->module || line->entry->language ? "" : "_[j]";
}

/* The number of the text that was made, SIZE_MAX without memory. */
static size_t pool_text(struct folded *folded, struct snap_pool *pool)
{
	size_t number = SIZE_MAX;

	if (!folded->text.failed)
		number = snap_pool_add(pool, folded->text.data, folded->text.size);
	snap_buffer_clear(&folded->text);
	return number;
}

/* The number of a stack's text, SIZE_MAX without memory. */
static size_t make_stack_text(struct folded *folded, size_t stack)
{
	size_t *number = &folded->stack_texts[stack];
	const struct snap_lines_of *lines;

	if (*number != SIZE_MAX)
		return *number;
	lines = snap_profile_stack(&folded->profile, stack);
	if (!lines)
		return SIZE_MAX;
	for (size_t i = 0; i < lines->count; i++) {
		if (i)
			snap_buffer_add_byte(&folded->text, ';');
		add_name(&folded->text, lines->lines[i].name);
		snap_buffer_add_text(&folded->text, suffix(&lines->lines[i]));
	}
	*number = pool_text(folded, &folded->stacks);
	return *number;
}

static size_t make_owner_text(struct folded *folded, const struct snap_tally_row *row)
{
	struct snap_track track = { .process = row->process,
				    .tid = row->tid,
				    .name = row->name,
				    .task = row->task ? row->task->task : NULL };
	const char *process = snap_profile_process(&folded->profile, row->process), *thread;

	if (folded->group_by & SNAP_GROUP_TID)
		thread = snap_profile_thread(&folded->profile, &track);
	else
		thread = snap_profile_escaped(&folded->profile, row->name ? row->name : "?");
	if (!process || !thread)
		return SIZE_MAX;
	add_name(&folded->text, process);
	snap_buffer_add_byte(&folded->text, ';');
	/* An empty name would make an element that readers drop. */
	add_name(&folded->text, *thread ? thread : "?");
	snap_buffer_add_byte(&folded->text, ';');
	if (row->object) {
		const char *wait = snap_profile_wait(&folded->profile, row->object);

		if (!wait)
			return SIZE_MAX;
		add_name(&folded->text, wait);
		snap_buffer_add_byte(&folded->text, ';');
	}
	return pool_text(folded, &folded->owners);
}

static bool same_owner(const struct snap_tally_row *a, const struct snap_tally_row *b)
{
	return a->process == b->process && a->tid == b->tid && a->name == b->name &&
	       a->object == b->object;
}

static int by_text(const void *left, const void *right, void *context)
{
	const struct snap_pool *pool = context;

	return strcmp(pool->entries[*(const size_t *)left].bytes,
		      pool->entries[*(const size_t *)right].bytes);
}

/* Malloc'ed: the place of each text of a pool in the order of texts. */
static size_t *ranks(struct snap_pool *pool)
{
	_cleanup_free_ size_t *order = calloc(pool->count + 1, sizeof(*order));
	size_t *rank = calloc(pool->count + 1, sizeof(*rank));

	if (!order || !rank) {
		free(rank);
		return NULL;
	}
	for (size_t i = 0; i < pool->count; i++)
		order[i] = i;
	qsort_r(order, pool->count, sizeof(*order), by_text, pool);
	for (size_t i = 0; i < pool->count; i++)
		rank[order[i]] = i;
	return rank;
}

struct line_order {
	size_t *owners, *stacks; /* ranks */
};

SNAP_FREES(line_order_deinit, struct line_order, owners, stacks);

static int by_ranks(const void *left, const void *right, void *context)
{
	const struct folded_line *a = left, *b = right;
	const struct line_order *order = context;

	return snap_compare(order->owners[a->owner], order->owners[b->owner])
		       ?: snap_compare(order->stacks[a->stack], order->stacks[b->stack]);
}

static void write_lines(const struct folded *folded, const struct folded_line *lines, size_t count,
			FILE *out)
{
	for (size_t i = 0, next; i < count; i = next) {
		uint64_t sum = lines[i].count;

		/* Stacks that differ in addresses alone are one line. */
		for (next = i + 1; next < count && lines[next].owner == lines[i].owner &&
				   lines[next].stack == lines[i].stack;
		     next++)
			sum += lines[next].count;
		fputs_unlocked(folded->owners.entries[lines[i].owner].bytes, out);
		fputs_unlocked(folded->stacks.entries[lines[i].stack].bytes, out);
		fprintf(out, " %" PRIu64 "\n", sum);
	}
}

static struct stacksnap_error *sort_and_write(struct folded *folded, FILE *out)
{
	size_t count = folded->tally.count;
	_cleanup_free_ struct folded_line *lines = calloc(count + 1, sizeof(*lines));
	_cleanup_(line_order_deinit) struct line_order order = { 0 };

	SNAP_TRY(snap_no_memory_unless(lines));
	for (size_t i = 0; i < count; i++) {
		const struct snap_tally_row *row = &folded->tally.rows[i];

		lines[i] = (struct folded_line){
			.owner = i && same_owner(row, row - 1) ? lines[i - 1].owner
							       : make_owner_text(folded, row),
			.stack = make_stack_text(folded, row->stack),
			.count = row->count,
		};
		if (lines[i].owner == SIZE_MAX || lines[i].stack == SIZE_MAX)
			return snap_error_no_memory();
	}
	order = (struct line_order){ ranks(&folded->owners), ranks(&folded->stacks) };
	SNAP_TRY(snap_no_memory_unless(order.owners && order.stacks));
	qsort_r(lines, count, sizeof(*lines), by_ranks, &order);
	write_lines(folded, lines, count, out);
	return NULL;
}

struct stacksnap_error *snap_render_folded(const struct snap_recording *recording,
					   const struct snap_options *options, FILE *out)
{
	_cleanup_(folded_deinit) struct folded folded = { .recording = recording,
							  .group_by = options->group_by };

	SNAP_TRY(snap_profile_init(&folded.profile, recording));
	snap_profile_show_labels(&folded.profile, options);
	SNAP_TRY(snap_tally_init(&folded.tally, recording, snap_tally_of_frames(options)));
	folded.stack_texts = calloc(recording->stack_count + 1, sizeof(*folded.stack_texts));
	SNAP_TRY(snap_no_memory_unless(folded.stack_texts));
	for (size_t i = 0; i < recording->stack_count; i++)
		folded.stack_texts[i] = SIZE_MAX;
	return sort_and_write(&folded, out);
}
