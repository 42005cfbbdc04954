/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See trace.h. */
#include "trace.h"

#include "message.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_TIDS = 64,
	TEXT = 200,
	/* Where not all is asked for: threads that are shown, and the last events of each. */
	MOST_SHOWN = 24,
	MOST_EVENTS = 16,
};

struct event {
	pid_t tid;     /* negative: tasks of this process */
	unsigned kind; /* odd: worth a look */
	size_t number;
	char text[TEXT];
};

/* A thread, or several whose events are of the same kinds. */
struct history {
	const struct event *events; /* of the first of them */
	size_t event_count, threads;
	uint64_t kinds; /* bits */
	bool is_fine;   /* no event is worth a look */
};

static const char *what_is_asked(void)
{
	const char *text = getenv("STACKSNAP_TRACE");

	return text && *text ? text : NULL;
}

static bool read_tids(const char *text, pid_t *tids, size_t *count_ret)
{
	*count_ret = 0;
	if (!text || strcmp(text, "all") == 0)
		return true;
	for (const char *at = text; at; *count_ret += 1) {
		char *end;
		long tid = strtol(at, &end, 10);

		if (end == at || *at < '0' || *at > '9' || tid < 1 || tid > INT_MAX ||
		    (*end && *end != ',') || *count_ret == MOST_TIDS)
			return snap_cli_message("STACKSNAP_TRACE: '%s' is neither 'all' nor a "
						"list of up to %d thread ids",
						text, MOST_TIDS);
		tids[*count_ret] = (pid_t)tid;
		at = *end ? end + 1 : NULL;
	}
	return true;
}

bool snap_cli_trace_begin(const struct snap_cli_request *request)
{
	const unsigned traced =
		SNAP_CLI_SNAPSHOT | SNAP_CLI_RECORD | SNAP_CLI_RENDER | SNAP_CLI_CORE;
	const char *asked = what_is_asked();
	pid_t tids[MOST_TIDS];
	struct stacksnap_error *err;
	size_t count;

	if (!(request->command & traced) || snap_cli_request_has(request, "watch") ||
	    (!asked && snap_cli_request_has(request, "verbose") < 2))
		return true;
	if (!read_tids(asked, tids, &count))
		return false;
	err = stacksnap_options_set_trace(request->options, tids, count);
	if (!err)
		return true;
	snap_cli_message("%s", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	return false;
}

static int compare_events(const void *left, const void *right)
{
	const struct event *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

/* All events, by thread; NULL without memory. *lost_ret: how many older ones there were. */
static struct event *read_events(const struct stacksnap_options *options, size_t *count_ret,
				 unsigned long long *lost_ret)
{
	struct event *events = NULL, *grown, next = { 0 };
	unsigned long long cursor = 0;
	size_t count = 0;

	while (stacksnap_options_next_trace(options, &cursor, &next.tid, &next.kind, next.text,
					    sizeof(next.text))) {
		if ((count & (count - 1)) == 0) {
			grown = realloc(events, (count ? 2 * count : 1) * sizeof(*events));
			if (!grown) {
				free(events);
				return NULL;
			}
			events = grown;
		}
		next.number = count;
		events[count++] = next;
	}
	if (count)
		qsort(events, count, sizeof(*events), compare_events);
	*count_ret = count;
	*lost_ret = cursor - count;
	return events;
}

static struct history take_history(const struct event *events, size_t count)
{
	struct history history = { .events = events, .threads = 1, .is_fine = true };

	while (history.event_count < count && events[history.event_count].tid == events->tid) {
		unsigned kind = events[history.event_count++].kind;

		history.kinds |= 1ull << kind % 64;
		history.is_fine &= kind % 2 == 0;
	}
	return history;
}

static bool is_event_shown(const struct event *event, bool all)
{
	return all || event->tid > 0 || event->kind % 2;
}

static void print_history(const struct history *history, bool all)
{
	pid_t tid = history->events->tid;
	size_t first = history->event_count, shown = 0;
	char more[96] = "";

	/* Of tasks that are not all asked for, those that are worth a look. */
	while (first && (all || shown < MOST_EVENTS))
		shown += is_event_shown(&history->events[--first], all);
	if (history->threads > 1)
		snprintf(more, sizeof(more), ", and of %zu more with events of the same kinds",
			 history->threads - 1);
	snap_cli_message("trace of %s %d%s:", tid < 0 ? "the tasks of process" : "thread",
			 tid < 0 ? (int)-(unsigned)tid : (int)tid, more);
	if (history->event_count > shown)
		snap_cli_message("  %zu %s events are not shown", history->event_count - shown,
				 tid < 0 ? "other" : "earlier");
	for (size_t i = first; i < history->event_count; i++)
		if (is_event_shown(&history->events[i], all))
			snap_cli_message("%s", history->events[i].text);
}

/* The one of these that has the same kinds, of threads or of tasks; NULL: none. */
static struct history *find_alike(struct history *histories, size_t count,
				  const struct history *history)
{
	for (size_t i = 0; i < count; i++)
		if (histories[i].kinds == history->kinds &&
		    (histories[i].events->tid < 0) == (history->events->tid < 0))
			return &histories[i];
	return NULL;
}

static void print_some(const struct event *events, size_t count)
{
	struct history shown[MOST_SHOWN];
	size_t shown_count = 0, fine = 0, others = 0;

	for (size_t i = 0; i < count;) {
		struct history history = take_history(events + i, count - i);
		struct history *alike = find_alike(shown, shown_count, &history);

		i += history.event_count;
		if (history.is_fine)
			fine += history.events->tid > 0;
		else if (alike)
			alike->threads++;
		else if (shown_count < MOST_SHOWN)
			shown[shown_count++] = history;
		else
			others++;
	}
	for (size_t i = 0; i < shown_count; i++)
		print_history(&shown[i], false);
	if (fine)
		snap_cli_message("trace: nothing is wrong with %zu %s, whose events "
				 "STACKSNAP_TRACE=all shows",
				 fine, fine == 1 ? "thread" : "threads");
	if (others)
		snap_cli_message(
			"trace: %zu more threads are not shown (STACKSNAP_TRACE=all shows them)",
			others);
}

void snap_cli_trace_print(const struct snap_cli_request *request)
{
	unsigned long long lost = 0;
	struct event *events;
	size_t count = 0;

	events = read_events(request->options, &count, &lost);
	if (lost)
		snap_cli_message("trace: %llu older events were replaced by newer ones", lost);
	for (size_t i = 0; what_is_asked() && i < count;) {
		struct history history = take_history(events + i, count - i);

		print_history(&history, true);
		i += history.event_count;
	}
	if (!what_is_asked() && count)
		print_some(events, count);
	free(events);
}
