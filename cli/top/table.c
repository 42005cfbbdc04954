/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rows from groups: see table.h. */
#include "top/table.h"

#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t count_groups(const struct stacksnap_groups *groups)
{
	size_t count = 0;

	while (stacksnap_groups_get(groups, count))
		count++;
	return count;
}

static int by_pid(const void *left, const void *right)
{
	const pid_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* False without memory. */
static bool count_processes(struct snap_top_table *table)
{
	size_t count = count_groups(table->groups);
	pid_t *pids = calloc(count + 1, sizeof(*pids));

	if (!pids)
		return false;
	for (size_t i = 0; i < count; i++)
		pids[i] = stacksnap_groups_get(table->groups, i)->pid;
	qsort(pids, count, sizeof(*pids), by_pid);
	table->process_count = 0;
	for (size_t i = 0; i < count; i++)
		table->process_count += i == 0 || pids[i] != pids[i - 1];
	free(pids);
	return true;
}

struct stacksnap_error *snap_top_table_init(struct snap_top_table *table,
					    struct stacksnap_recording *recording,
					    const struct stacksnap_options *options)
{
	struct stacksnap_error *err;

	*table = (struct snap_top_table){ .recording = recording };
	err = stacksnap_groups_create(recording, options, &table->groups);
	if (err)
		return err;
	table->samples = stacksnap_groups_samples(table->groups);
	table->ticks = stacksnap_groups_ticks(table->groups);
	/* Without memory for that the line that tells it is wrong, and nothing else. */
	(void)count_processes(table);
	return NULL;
}

void snap_top_table_deinit(struct snap_top_table *table)
{
	free(table->rows);
	stacksnap_groups_destroy(table->groups);
	stacksnap_recording_destroy(table->recording);
	*table = (struct snap_top_table){ .rows = NULL };
}

/* ---- which ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static enum snap_top_rank rank_of(const struct stacksnap_group *group)
{
	const char *state = group->state ? group->state : "";

	if (strcmp(state, "running") == 0 || strcmp(state, "runnable") == 0 ||
	    strcmp(state, "syscall") == 0)
		return SNAP_TOP_RUNNING;
	if (strcmp(state, "disk") == 0)
		return SNAP_TOP_DISK;
	return group->has_lock         ? SNAP_TOP_HOLDER
	       : group->waits_for_lock ? SNAP_TOP_LOCK
				       : SNAP_TOP_REST;
}

static struct snap_top_row row_of(const struct stacksnap_group *group, size_t index)
{
	return (struct snap_top_row){
		.function = group->function,
		.leaf = group->leaf,
		.wait = group->wait ? group->wait : group->syscall,
		.holder = group->holder,
		.rank = rank_of(group),
		.threads = group->threads,
		.process = group->process,
		.state = group->state,
		.pid = group->pid,
		.samples = group->samples,
		.groups = 1,
		.group = index,
	};
}

static bool matches(const regex_t *regex, const struct snap_top_row *row)
{
	const char *const texts[] = { row->function, row->leaf,    row->wait, row->holder,
				      row->threads,  row->process, row->state };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i] && regexec(regex, texts[i], 0, NULL, 0) == 0)
			return true;
	return false;
}

static int compile(regex_t *regex, const char *filter)
{
	return regcomp(regex, filter, REG_EXTENDED | REG_NOSUB | REG_ICASE);
}

bool snap_top_filter_is_valid(const char *filter, char *why, size_t size)
{
	regex_t regex;
	int error = compile(&regex, filter);

	if (error == 0)
		regfree(&regex);
	else
		regerror(error, &regex, why, size);
	return error == 0;
}

/* One row a group that the filter lets through. */
static void fill_rows(struct snap_top_table *table, const char *filter)
{
	const struct stacksnap_group *group;
	regex_t regex;
	bool has_regex = *filter && compile(&regex, filter) == 0;

	table->count = 0;
	for (size_t i = 0; (group = stacksnap_groups_get(table->groups, i)); i++) {
		struct snap_top_row row = row_of(group, i);

		if (!has_regex || matches(&regex, &row))
			table->rows[table->count++] = row;
	}
	if (has_regex)
		regfree(&regex);
}

/* ---- rows of several groups ---- */

/* NULL before all texts. */
static int compare_texts(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

static int compare_functions(const struct snap_top_row *a, const struct snap_top_row *b)
{
	int order = strcmp(a->function, b->function);

	return order ? order : compare_texts(a->state, b->state);
}

/* Whether groups of one function read alike, whatever else their stacks have. */
static int compare_reading(const struct snap_top_row *a, const struct snap_top_row *b)
{
	const char *const texts[][2] = { { a->leaf, b->leaf },
					 { a->wait, b->wait },
					 { a->holder, b->holder },
					 { a->threads, b->threads },
					 { a->process, b->process } };
	int order = compare_functions(a, b);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !order; i++)
		order = compare_texts(texts[i][0], texts[i][1]);
	return order ? order : (a->pid > b->pid) - (a->pid < b->pid);
}

/* Groups come with the most samples first. */
static int by_reading(const void *left, const void *right)
{
	const struct snap_top_row *a = left, *b = right;
	int order = compare_reading(a, b);

	return order ? order : (a->group > b->group) - (a->group < b->group);
}

static int by_function(const void *left, const void *right)
{
	const struct snap_top_row *a = left, *b = right;
	int order = compare_functions(a, b);

	return order ? order : (a->group > b->group) - (a->group < b->group);
}

static void keep_if_same(const char **text, const char *other)
{
	if (!same_text(*text, other))
		*text = NULL;
}

static void add_row(struct snap_top_row *to, const struct snap_top_row *row)
{
	keep_if_same(&to->leaf, row->leaf);
	keep_if_same(&to->wait, row->wait);
	keep_if_same(&to->holder, row->holder);
	to->rank = row->rank < to->rank ? row->rank : to->rank;
	keep_if_same(&to->threads, row->threads);
	if (to->pid != row->pid)
		to->pid = 0;
	keep_if_same(&to->process, row->process);
	to->samples += row->samples;
	to->groups += row->groups;
}

/* Rows that read alike become one, or those of one function. */
static void join_rows(struct snap_top_table *table, enum snap_top_rows rows)
{
	bool is_function = rows == SNAP_TOP_FUNCTIONS;
	size_t count = 0;

	qsort(table->rows, table->count, sizeof(*table->rows),
	      is_function ? by_function : by_reading);
	for (size_t i = 0; i < table->count; i++) {
		const struct snap_top_row *row = &table->rows[i];
		struct snap_top_row *last = count ? &table->rows[count - 1] : NULL;

		if (last &&
		    (is_function ? compare_functions(last, row) : compare_reading(last, row)) == 0)
			add_row(last, row);
		else
			table->rows[count++] = *row;
	}
	table->count = count;
}

/* ---- in which order ---- */

static int by_share(const struct snap_top_row *a, const struct snap_top_row *b)
{
	if (a->samples != b->samples)
		return a->samples < b->samples ? 1 : -1;
	return (a->group > b->group) - (a->group < b->group);
}

/* What has no name comes last. */
static int by_wait(const struct snap_top_row *a, const struct snap_top_row *b)
{
	if (!a->wait || !b->wait)
		return (a->wait == NULL) - (b->wait == NULL);
	return strcmp(a->wait, b->wait);
}

static int by_choice(const void *left, const void *right, void *context)
{
	const struct snap_top_row *a = left, *b = right;
	const struct snap_top_choice *choice = context;
	int order = 0;

	switch (choice->sort) {
	case SNAP_TOP_BY_URGENCY:
		order = (int)a->rank - (int)b->rank;
		break;
	case SNAP_TOP_BY_SHARE:
	case SNAP_TOP_SORT_COUNT:
		break;
	case SNAP_TOP_BY_FUNCTION:
		order = strcmp(a->function, b->function);
		break;
	case SNAP_TOP_BY_WAIT:
		order = by_wait(a, b);
		break;
	}
	return order ? order : by_share(a, b);
}

bool snap_top_table_choose(struct snap_top_table *table, const struct snap_top_choice *choice)
{
	const double fewest_threads = 0.05; /* that do not read as 0.0 */
	struct snap_top_choice by = *choice;

	if (!table->groups)
		return true;
	free(table->rows);
	table->count = 0;
	table->rows = calloc(count_groups(table->groups) + 1, sizeof(*table->rows));
	if (!table->rows)
		return false;
	fill_rows(table, choice->filter);
	join_rows(table, choice->rows);
	for (size_t i = 0; i < table->count; i++)
		if (table->rows[i].rank < SNAP_TOP_SELDOM &&
		    snap_top_row_threads(table, &table->rows[i]) < fewest_threads)
			table->rows[i].rank = SNAP_TOP_SELDOM;
	qsort_r(table->rows, table->count, sizeof(*table->rows), by_choice, &by);
	return true;
}

/* ---- what is said of a row ---- */

/* FNV-1a: keys are compared within one run alone. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	do {
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	} while (*text++);
	return hash;
}

void snap_top_row_key(const struct snap_top_table *table, const struct snap_top_row *row,
		      enum snap_top_rows rows, char out[SNAP_TOP_KEY_SIZE])
{
	uint64_t hash;

	if (rows == SNAP_TOP_GROUPS) {
		snprintf(out, SNAP_TOP_KEY_SIZE, "%d %s", row->pid,
			 stacksnap_groups_get(table->groups, row->group)->id);
		return;
	}
	hash = hash_text(0xcbf29ce484222325u, row->function);
	hash = hash_text(hash, row->state ? row->state : "");
	snprintf(out, SNAP_TOP_KEY_SIZE, "%016llx", (unsigned long long)hash);
}

const char *snap_top_rows_word(enum snap_top_rows rows)
{
	return rows == SNAP_TOP_FUNCTIONS ? "functions" : "groups";
}

const char *snap_top_sort_word(enum snap_top_sort sort)
{
	static const char *const words[] = {
		[SNAP_TOP_BY_URGENCY] = "urgency",
		[SNAP_TOP_BY_SHARE] = "share",
		[SNAP_TOP_BY_FUNCTION] = "function",
		[SNAP_TOP_BY_WAIT] = "wait",
	};

	return words[sort];
}

double snap_top_row_threads(const struct snap_top_table *table, const struct snap_top_row *row)
{
	return table->ticks ? (double)row->samples / (double)table->ticks : 0;
}

double snap_top_row_share(const struct snap_top_table *table, const struct snap_top_row *row)
{
	return table->samples ? 100.0 * (double)row->samples / (double)table->samples : 0;
}
