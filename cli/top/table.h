/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Table: the rows that `stacksnap top` shows of the last seconds, groups of threads or functions,
 * in the order and with the filter that were chosen.
 *
 * Knows nothing of screens. Texts are those of the library, escaped; they live as long as the
 * table.
 */
#pragma once

#include "stacksnap.h"

#include <stdbool.h>

/* What people are shown first: the order of a snapshot's text. */
enum snap_top_rank {
	SNAP_TOP_RUNNING,
	SNAP_TOP_DISK,
	SNAP_TOP_HOLDER, /* others wait for a lock that one of its threads has there */
	SNAP_TOP_LOCK,   /* it waits for such a lock */
	SNAP_TOP_SELDOM, /* one of these, but hardly ever seen */
	SNAP_TOP_REST,
};

enum snap_top_rows {
	SNAP_TOP_GROUPS,    /* threads of one process with the same stack and state */
	SNAP_TOP_FUNCTIONS, /* the same function and state, whatever its stacks and processes */
	SNAP_TOP_ROWS_COUNT,
};

enum snap_top_sort {
	SNAP_TOP_BY_URGENCY, /* as a snapshot: what runs first, then locks and their holders */
	SNAP_TOP_BY_SHARE,
	SNAP_TOP_BY_FUNCTION,
	SNAP_TOP_BY_WAIT,
	SNAP_TOP_SORT_COUNT,
};

enum { SNAP_TOP_KEY_SIZE = 64 };

struct snap_top_row {
	const char *function;
	/* NULL: not the same for all */
	const char *leaf, *wait, *holder, *threads, *process, *state;
	pid_t pid; /* 0 likewise */
	enum snap_top_rank rank;
	unsigned long long samples;
	size_t groups; /* how many are in the row: those that read alike, or of its function */
	size_t group;  /* the index of the one with the most samples, whose stack is shown */
};

/* What holds a table's texts. */
struct snap_top_table {
	struct stacksnap_recording *recording;
	struct stacksnap_groups *groups;
	struct snap_top_row *rows;
	size_t count;
	size_t ticks;
	unsigned long long samples; /* of all groups, whatever the filter */
	size_t process_count;       /* that have rows, whatever the filter */
};

/* What is chosen to be seen. */
struct snap_top_choice {
	enum snap_top_rows rows;
	enum snap_top_sort sort;
	char filter[128]; /* an extended regular expression on any text of a row; "": none */
};

/*
 * Takes over the recording, also when it fails. The options are those that group. Released by
 * snap_top_table_deinit() in any case.
 */
struct stacksnap_error *snap_top_table_init(struct snap_top_table *table,
					    struct stacksnap_recording *recording,
					    const struct stacksnap_options *options);
void snap_top_table_deinit(struct snap_top_table *table);

/* Makes the rows. False without memory; there are no rows then. */
bool snap_top_table_choose(struct snap_top_table *table, const struct snap_top_choice *choice);

/* Whether a filter is a regular expression; if not, `why` says what is wrong with it. */
bool snap_top_filter_is_valid(const char *filter, char *why, size_t size);

/* What tells a row from the others, also of a later table. */
void snap_top_row_key(const struct snap_top_table *table, const struct snap_top_row *row,
		      enum snap_top_rows rows, char out[SNAP_TOP_KEY_SIZE]);

const char *snap_top_rows_word(enum snap_top_rows rows);
const char *snap_top_sort_word(enum snap_top_sort sort);

/* How many threads stood in it at once, on average; its share of all in percent. */
double snap_top_row_threads(const struct snap_top_table *table, const struct snap_top_row *row);
double snap_top_row_share(const struct snap_top_table *table, const struct snap_top_row *row);
